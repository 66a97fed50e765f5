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
