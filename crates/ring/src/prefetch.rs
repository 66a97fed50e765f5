//! Hints to the processor to load a line early; safe to call with anything.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Asks the processor to load the first cache line of `value` for reading. Never faults, never
/// blocks.
#[inline(always)]
pub fn prefetch<T: ?Sized>(value: &T) {
    prefetch_read(std::ptr::from_ref(value).cast());
}

/// The same for all of its cache lines.
#[inline(always)]
pub fn prefetch_all<T>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    for at in (0..size_of::<T>()).step_by(LINE) {
        prefetch_read(start.wrapping_add(at));
    }
    if !size_of::<T>().is_multiple_of(LINE) {
        // Those of an array do not all begin where a line does.
        prefetch_read(start.wrapping_add(size_of::<T>().saturating_sub(1)));
    }
}

/// Asks the processor for the cache line at `place`, which is about to be read. Never faults, never
/// blocks, whatever the address.
#[inline(always)]
pub fn prefetch_read(place: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch has no architectural effect and does not fault, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.cast());
    }
    let _ = place;
}

/// Asks the processor for the cache line at `place`, which is about to be written: another
/// processor's copy of it goes meanwhile. Never faults, never blocks, whatever the address.
#[inline(always)]
pub fn prefetch_write(place: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_ET0 }>(place.cast());
    }
    let _ = place;
}
