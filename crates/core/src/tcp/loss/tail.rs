//! Tail loss probes (RFC 8985 §7): when ACKs fail to come for two round trips, one segment asks for
//! them, long before the RTO. If the probe arrives and more is missing, its SACK starts recovery.

use wire::seq::SeqNumber;

/// PTO before a round-trip time is known (RFC 8985 §7.2), µs.
const UNKNOWN_RTT_PTO: u64 = 1_000_000;
/// A shorter PTO would cost a timer per round trip and connection on fast networks: µs.
const MIN_PTO: u64 = 4_000;
/// How long a peer may sit on the ACK of a lone segment (RFC 8985 §7.2, TLP.max_ack_delay), µs.
/// Linux waits for 40 ms and up to a tick of 10 ms more, FreeBSD and macOS for up to 100 ms; a busy
/// machine is late. Each probe that is too early costs both ends a segment.
const MAX_ACK_DELAY: u32 = 100_000;

/// The probe that has been sent and not been resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(crate) enum Probe {
    #[default]
    None,
    /// It carried new data.
    New,
    /// It repeated the last segment (TLP.is_retrans).
    Again,
}

/// What a connection remembers of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct TailProbe {
    pub probe: Probe,
    /// SND.NXT after it was sent.
    pub end: SeqNumber,
    /// A round trip was measured since the last one.
    pub measured: bool,
}

impl TailProbe {
    pub fn new(iss: SeqNumber) -> Self {
        Self {
            probe: Probe::None,
            end: iss,
            measured: false,
        }
    }
}

/// RFC 8985 §7.2: TLP_calc_PTO, before it is bounded by the RTO. All in µs.
/// RFC 8985 §7.2-2, §7.2-3.
pub(super) fn probe_timeout(srtt: Option<u32>, single: bool) -> u64 {
    let steady = |srtt| (2 * u64::from(srtt)).max(MIN_PTO);
    match srtt {
        Some(srtt) if single => steady(srtt) + u64::from(MAX_ACK_DELAY),
        Some(srtt) => steady(srtt),
        None => UNKNOWN_RTT_PTO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8985 §7.2-2, §7.2-3.
    #[test]
    fn probe_timeouts_of_rfc_8985() {
        assert_eq!(probe_timeout(None, true), 1_000_000);
        assert_eq!(probe_timeout(Some(50_000), false), 100_000);
        assert_eq!(probe_timeout(Some(50_000), true), 200_000);
        assert_eq!(probe_timeout(Some(90), false), 4_000);
    }
}
