//! Writing all of a word; safe to call with anything.

/// Writes `value` to `place` as a whole, though most of it was there already.
///
/// A compiler that knows which bits change writes only the byte that they are in, and who reads all
/// of the word next waits until that byte, and everything written before it, has left the
/// processor's store buffer.
#[inline(always)]
pub fn store<T: Copy>(place: &mut T, value: T) {
    // SAFETY: a place that can be written, exclusive by `&mut`.
    unsafe { std::ptr::write_volatile(place, value) }
}
