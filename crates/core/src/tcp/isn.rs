//! Initial sequence numbers and timestamp offsets: unpredictable from outside, increasing for one pair of endpoints.

use std::fmt;

use siphasher::sip::SipHasher13;
use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::flow::FlowKey;
use crate::secret::keyed;

/// ISN = M + F(localip, localport, remoteip, remoteport, secretkey) (RFC 6528 §3, RFC 9293 §3.4.1).
pub(crate) struct IsnGenerator {
    hasher: SipHasher13,
}

impl fmt::Debug for IsnGenerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the hasher: it holds the secret.
        f.debug_struct("IsnGenerator").finish_non_exhaustive()
    }
}

/// What a new connection starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub iss: SeqNumber,
    /// Added to the millisecond clock (RFC 7323 §5.4).
    /// RFC 7323 §7.1-1.
    pub ts_offset: u32,
}

impl IsnGenerator {
    /// Keyed by `secret`.
    /// RFC 6528 §3-3.
    pub fn new(secret: &[u8; 32]) -> Self {
        Self {
            hasher: keyed(secret, "tcp initial sequence"),
        }
    }

    /// The clock M ticks every 4 µs (RFC 9293 §3.4.1).
    /// RFC 9293 MUST-8, SHLD-1, MUST-9.
    /// RFC 6528 §3-1, §3-2.
    pub fn start(&self, now: Instant, key: &FlowKey) -> Start {
        let f = self.hasher.hash(&key.bytes());
        let m = (now.as_micros() / 4) as u32;
        Start {
            iss: SeqNumber(m.wrapping_add(f as u32)),
            ts_offset: (f >> 32) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(port: u16) -> FlowKey {
        FlowKey::new(([10, 0, 0, 1], 80).into(), ([10, 0, 0, 2], port).into())
    }

    /// RFC 9293 MUST-8.
    #[test]
    fn grows_by_one_every_4_us() {
        let isn = IsnGenerator::new(&[7; 32]);
        let first = isn.start(Instant::from_micros(1000), &key(1));
        let later = isn.start(Instant::from_micros(1040), &key(1));
        assert_eq!(later.iss - first.iss, 10);
        assert_eq!(later.ts_offset, first.ts_offset);
    }

    /// RFC 9293 SHLD-1, MUST-9.
    /// RFC 6528 §3-1, §3-2.
    #[test]
    fn depends_on_endpoints_and_secret() {
        let now = Instant::from_millis(5);
        let isn = IsnGenerator::new(&[7; 32]);
        assert_ne!(isn.start(now, &key(1)), isn.start(now, &key(2)));
        let mut secret = [7; 32];
        secret[31] = 8;
        let other = IsnGenerator::new(&secret);
        assert_ne!(isn.start(now, &key(1)).iss, other.start(now, &key(1)).iss);
        assert_ne!(
            isn.start(now, &key(1)).ts_offset,
            other.start(now, &key(1)).ts_offset
        );
    }
}
