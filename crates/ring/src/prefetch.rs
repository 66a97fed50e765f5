//! Hints to the processor to load a line early; safe to call with anything.

/// Asks the processor to load the first cache line of `value` for reading. Never faults, never blocks.
#[inline(always)]
pub fn prefetch<T: ?Sized>(value: &T) {
    let pointer = std::ptr::from_ref(value).cast::<i8>();
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch has no architectural effect and does not fault, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(pointer);
    }
    let _ = pointer;
}

/// Asks the processor for the cache line at `place`, which is about to be written: another processor's copy of it goes meanwhile. Never
/// faults, never blocks, whatever the address.
#[inline(always)]
pub fn prefetch_write(place: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_ET0 }>(place.cast());
    }
    let _ = place;
}
