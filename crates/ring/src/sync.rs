//! The atomics and cells everything here is made of, so that loom can put its own in their place.

#[cfg(not(loom))]
pub(crate) use std::sync::Arc;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU32, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::Arc;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU32, Ordering, fence};

/// An `UnsafeCell` with loom's closure interface.
#[cfg(not(loom))]
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Cell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> Cell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, each: impl FnOnce(*const T) -> R) -> R {
        each(self.0.get().cast_const())
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, each: impl FnOnce(*mut T) -> R) -> R {
        each(self.0.get())
    }
}

#[cfg(loom)]
pub(crate) type Cell<T> = loom::cell::UnsafeCell<T>;

/// Two cache lines: processors fetch lines in pairs, so two of these never disturb each other.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);
