//! Times that are kept as the low 32 bits of a millisecond count.

use wire::time::Instant;

/// The instant whose millisecond count has these low 32 bits and that is nearest to `now`.
pub(crate) fn near(now: Instant, millis: u32) -> Instant {
    let now_millis = now.as_millis();
    let distance = i64::from(millis.wrapping_sub(now_millis as u32) as i32);
    Instant::from_millis(now_millis.saturating_add_signed(distance))
}
