//! Arrays of fixed capacity in a region.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use super::Region;
use super::page::{PAGE, PagePolicy};
use super::plot::Plot;

/// Types for which all bytes zero is a value: what fresh memory holds.
///
/// # Safety
/// All bytes zero must be a valid value of the type.
pub unsafe trait Zeroable: Copy {}

macro_rules! zeroable {
    ($($type:ty)*) => {
        // SAFETY: zero is a value of every integer and floating-point type, and `false` is zero.
        $(unsafe impl Zeroable for $type {})*
    };
}
zeroable!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 bool);

// SAFETY: every element is zero, and there is no padding between elements.
unsafe impl<T: Zeroable, const N: usize> Zeroable for [T; N] {}

/// An array of up to `capacity` entries in a [`Region`]; never moves, never allocates after it was
/// made.
///
/// It costs memory only as far as it was touched. Dereferences to the slice of the entries there
/// are.
pub struct Column<T: Copy> {
    region: Region,
    len: usize,
    capacity: usize,
    entries: PhantomData<T>,
}

impl<T: Copy> Column<T> {
    /// `capacity` entries, all zero; touches none of them.
    ///
    /// # Errors
    /// As [`Region::new`].
    pub fn new(capacity: usize, policy: PagePolicy) -> io::Result<Self>
    where
        T: Zeroable,
    {
        let mut column = Self::with_capacity(capacity, policy)?;
        column.len = capacity; // fresh memory is zero, and zero is a value
        Ok(column)
    }

    /// Room for `capacity` entries, none of them there yet; grows by [`Self::push`] and
    /// [`Self::resize`].
    ///
    /// # Errors
    /// As [`Region::new`].
    pub fn with_capacity(capacity: usize, policy: PagePolicy) -> io::Result<Self> {
        Self::on(None, capacity, policy)
    }

    /// The same in `plot`, if there is one.
    ///
    /// # Errors
    /// As [`Region::on`].
    pub fn on(plot: Option<&mut Plot>, capacity: usize, policy: PagePolicy) -> io::Result<Self> {
        const { assert!(align_of::<T>() <= PAGE, "aligned to more than a page") }
        let bytes = capacity
            .checked_mul(size_of::<T>())
            .ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            region: Region::on(plot, bytes, policy)?,
            len: 0,
            capacity,
            entries: PhantomData,
        })
    }

    /// `capacity` entries, all `value`; touches all of them.
    ///
    /// # Errors
    /// As [`Region::new`].
    pub fn filled(capacity: usize, value: T, policy: PagePolicy) -> io::Result<Self> {
        let mut column = Self::with_capacity(capacity, policy)?;
        column.resize(capacity, value);
        Ok(column)
    }

    fn entry(&self, index: usize) -> *mut T {
        debug_assert!(index < self.capacity);
        self.region.as_ptr().cast::<T>().wrapping_add(index)
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// The column is full: the value comes back.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), T> {
        if self.len == self.capacity {
            return Err(value);
        }
        // SAFETY: below the capacity, so inside the region; aligned, for regions are aligned to
        // pages; exclusive by `&mut self`.
        unsafe { self.entry(self.len).write(value) };
        self.len += 1;
        Ok(())
    }

    /// Removes the last entry.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let value = self.last().copied()?;
        self.len -= 1;
        Some(value)
    }

    /// Removes the entry at `index` and puts the last one into its place. `None` when there is no
    /// such entry.
    #[inline]
    pub fn swap_remove(&mut self, index: usize) -> Option<T> {
        let removed = self.get(index).copied()?;
        let last = self.pop()?;
        if let Some(entry) = self.get_mut(index) {
            *entry = last;
        }
        Some(removed)
    }

    /// Grows to `len` entries, new ones being `value`, or shrinks to it. False, and nothing done,
    /// beyond the capacity.
    pub fn resize(&mut self, len: usize, value: T) -> bool {
        if len > self.capacity {
            return false;
        }
        self.len = self.len.min(len);
        while self.len < len && self.push(value).is_ok() {}
        true
    }

    /// Drops all entries from `len` on, and gives the memory that they were in back to the kernel.
    /// Costs a system call.
    pub fn shrink(&mut self, len: usize) {
        if len < self.len {
            let bytes = len * size_of::<T>()..self.len * size_of::<T>();
            self.len = len;
            self.region.give_back(bytes);
        }
    }

    /// Has the kernel put memory behind the first `entries` that it has or may get
    /// ([`Region::prefault`]).
    pub fn prefault(&mut self, entries: usize) {
        self.region.prefault(entries.saturating_mul(size_of::<T>()));
    }

    /// Most entries it can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// What pages it lies in.
    pub fn kind(&self) -> PagePolicy {
        self.region.kind()
    }

    /// Hints the processor to load the entry at `index` early, all of its cache lines; nothing when
    /// there is none.
    #[inline(always)]
    pub fn prefetch(&self, index: usize) {
        if let Some(entry) = self.get(index) {
            crate::prefetch::prefetch_all(entry);
        }
    }
}

// SAFETY: owns its entries as a `Vec` does.
unsafe impl<T: Copy + Send> Send for Column<T> {}
// SAFETY: as above.
unsafe impl<T: Copy + Sync> Sync for Column<T> {}

impl<T: Copy> Deref for Column<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the first `len` entries were written by `push`, or are zero and `T: Zeroable`;
        // aligned to a page.
        unsafe { std::slice::from_raw_parts(self.region.as_ptr().cast(), self.len) }
    }
}

impl<T: Copy> DerefMut for Column<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and exclusive by `&mut self`.
        unsafe { std::slice::from_raw_parts_mut(self.region.as_ptr().cast(), self.len) }
    }
}

impl<T: Copy> fmt::Debug for Column<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Column")
            .field("len", &self.len)
            .field("capacity", &self.capacity)
            .field("region", &self.region)
            .finish()
    }
}
