//! The lock of the process. One of our own making because `fork` must be able to take it and to make it anew.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

use libc::pthread_mutex_t;
use mtcp::{Errno, Result};

use crate::inside::{self, Side};

/// A value that one thread at a time uses, for short.
#[derive(Debug)]
pub(crate) struct Lock<T> {
    raw: UnsafeCell<pthread_mutex_t>,
    value: UnsafeCell<T>,
}

// SAFETY: `value` is only reached through a guard, and the mutex lets one exist.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            raw: UnsafeCell::new(libc::PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the others.
    ///
    /// # Errors
    /// `EDEADLK`: this thread has it, below a signal handler.
    pub(crate) fn lock(&self) -> Result<Guard<'_, T>> {
        // SAFETY: an initialised mutex that never moves: locks are statics.
        match unsafe { libc::pthread_mutex_lock(self.raw.get()) } {
            0 => Ok(self.guard()),
            error => Err(Errno(error)),
        }
    }

    fn guard(&self) -> Guard<'_, T> {
        Guard {
            lock: self,
            from: inside::go(Side::Library),
        }
    }

    /// The guard that was forgotten, in a thread of the program.
    ///
    /// # Safety
    /// This thread took the lock and nothing refers to the value any more.
    pub(crate) unsafe fn held(&self) -> Guard<'_, T> {
        Guard {
            lock: self,
            from: Side::Program,
        }
    }

    /// # Safety
    /// As for [`held`](Self::held).
    unsafe fn unlock(&self) {
        // SAFETY: the caller's promise.
        unsafe { libc::pthread_mutex_unlock(self.raw.get()) };
    }

    /// Makes the lock anew, in the child of a `fork` whose parent had it.
    ///
    /// # Safety
    /// No other thread is there.
    pub(crate) unsafe fn renew(&self) {
        // SAFETY: the caller's promise.
        unsafe { *self.raw.get() = libc::PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP };
    }
}

/// The value, until it is dropped. The thread is in the library meanwhile.
#[derive(Debug)]
pub(crate) struct Guard<'a, T> {
    lock: &'a Lock<T>,
    /// Where the thread was before.
    from: Side,
}

impl<T> Guard<'_, T> {
    /// Runs `sleep` without the lock. Handlers that run meanwhile are in the program.
    pub(crate) fn unlocked<R>(&mut self, sleep: impl FnOnce() -> R) -> R {
        // SAFETY: this thread has it, and `&mut self` says that nothing refers to the value.
        unsafe { self.lock.unlock() };
        inside::go(self.from);
        let result = sleep();
        inside::go(Side::Library);
        // It was ours before, so it is not a deadlock now.
        // SAFETY: as in `lock`.
        unsafe { libc::pthread_mutex_lock(self.lock.raw.get()) };
        result
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard says that this thread has the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the guard says that this thread has the lock.
        unsafe { self.lock.unlock() };
        inside::go(self.from);
    }
}
