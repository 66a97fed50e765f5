//! Initial sequence numbers and timestamp offsets: unpredictable from outside, increasing for one
//! pair of endpoints.

use wire::seq::SeqNumber;
use wire::time::Instant;

/// Tells the offset of timestamps from that of sequence numbers: any odd number would do.
pub(crate) const STAMPS: u32 = 0x9e37_79b1;

const TICKS_PER_MS: u32 = 250;

/// What a new connection starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub iss: SeqNumber,
    /// Added to the millisecond clock (RFC 7323 §5.4).
    /// RFC 7323 §7.1-1.
    pub ts_offset: u32,
}

/// ISN = M + F(localip, localport, remoteip, remoteport, secretkey) (RFC 6528 §3, RFC 9293 §3.4.1).
/// F is `origin`, the half of the keyed hash of the flow that its table does not use
/// ([`crate::flow::Digest`]). The clock M ticks every 4 µs. RFC 9293 MUST-8, SHLD-1, MUST-9.
/// RFC 6528 §3-1, §3-2, §3-3.
#[inline]
pub(crate) fn start(now: Instant, origin: u32) -> Start {
    let m = (now.as_micros() / 4) as u32;
    Start {
        iss: SeqNumber(m.wrapping_add(origin)),
        ts_offset: ts_offset(origin),
    }
}

/// Who sees one of the two numbers has seen the other.
#[inline]
pub(crate) fn ts_offset(origin: u32) -> u32 {
    origin.wrapping_mul(STAMPS)
}

/// Our timestamp, of a flow whose sequence numbers start from `origin`.
#[inline]
pub(crate) fn stamp(now: Instant, origin: u32) -> u32 {
    (now.as_millis() as u32).wrapping_add(ts_offset(origin))
}

/// By how much our timestamps can have grown since a flow with this ISS began, in ms: up to one
/// more than they have. Much, if its ISS was raised beyond the clock.
#[inline]
pub(crate) fn age(now: Instant, iss: SeqNumber, origin: u32) -> u32 {
    (start(now, origin).iss - iss) / TICKS_PER_MS + 1
}

#[cfg(test)]
mod tests {
    use ring::region::PagePolicy;

    use super::*;
    use crate::flow::{FlowKey, FlowTable};

    fn origin(secret: u8, port: u16) -> u32 {
        let mut key = [7; 32];
        key[15] = secret;
        let table = FlowTable::new(8, &key, PagePolicy::Small).unwrap();
        let flow = FlowKey::new(([10, 0, 0, 1], 80).into(), ([10, 0, 0, 2], port).into());
        table.digest(&flow).origin
    }

    /// RFC 9293 MUST-8.
    #[test]
    fn grows_by_one_every_4_us() {
        let first = start(Instant::from_micros(1000), origin(7, 1));
        let later = start(Instant::from_micros(1040), origin(7, 1));
        assert_eq!(later.iss - first.iss, 10);
        assert_eq!(later.ts_offset, first.ts_offset);
    }

    #[test]
    fn tells_how_old_it_is() {
        let at = Instant::from_micros(20_000_000_900);
        let iss = start(at, 7).iss;
        assert_eq!(age(at, iss, 7), 1);
        assert_eq!(age(Instant::from_micros(20_000_001_001), iss, 7), 1);
        assert_eq!(age(Instant::from_micros(20_061_000_900), iss, 7), 61_001);
        assert!(age(at, iss + 1, 7) > 1 << 23);
    }

    /// RFC 9293 SHLD-1, MUST-9.
    /// RFC 6528 §3-1, §3-2.
    #[test]
    fn depends_on_endpoints_and_secret() {
        let now = Instant::from_millis(5);
        let one = start(now, origin(7, 1));
        for other in [start(now, origin(7, 2)), start(now, origin(8, 1))] {
            assert_ne!(one.iss, other.iss);
            assert_ne!(one.ts_offset, other.ts_offset);
        }
    }
}
