//! TCP_DEFER_ACCEPT: applications say seconds, and a listener counts retransmissions of the
//! SYN-ACK. The numbers are Linux's.

use std::time::Duration;

/// TCP_TIMEOUT_INIT and TCP_RTO_MAX, seconds: how far the retransmissions are apart.
const FIRST_RTO: u64 = 1;
const LAST_RTO: u64 = 120;

/// After how many seconds a SYN-ACK has been sent again once, twice, ...
fn retransmission_times() -> impl Iterator<Item = u64> {
    let mut gap = FIRST_RTO;
    let mut at = 0;
    std::iter::from_fn(move || {
        at += gap;
        gap = (2 * gap).min(LAST_RTO);
        Some(at)
    })
    .take(usize::from(u8::MAX))
}

/// The retransmissions that take `time` or more.
pub fn retransmissions(time: Duration) -> u8 {
    let seconds = time.as_secs();
    let less = retransmission_times()
        .take_while(|&at| at < seconds)
        .count();
    if seconds == 0 {
        0
    } else {
        u8::try_from(less + 1).unwrap_or(u8::MAX)
    }
}

/// The time that so many retransmissions take.
pub fn time_of(retransmissions: u8) -> Duration {
    let last = usize::from(retransmissions).checked_sub(1);
    let seconds = last.and_then(|last| retransmission_times().nth(last));
    Duration::from_secs(seconds.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_retransmissions() {
        // As read back from Linux 6.18.
        for (asked, given) in [
            (0, 0),
            (1, 1),
            (2, 3),
            (5, 7),
            (100, 127),
            (255, 367),
            (256, 367),
            (40_000, 29_887),
        ] {
            let time = time_of(retransmissions(Duration::from_secs(asked)));
            assert_eq!(time.as_secs(), given, "{asked}");
        }
    }
}
