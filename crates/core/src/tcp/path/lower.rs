//! Smaller segments: what is made of ICMP errors and of time-outs.

use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::ip::LIFETIME;
use crate::tcp::flags::PathFlags;
use crate::tcp::path::actions::PathActions;
use crate::tcp::path::part::PathPart;
use crate::tcp::path::state::PathSearch;

/// After so many time-outs in a row a smaller size is tried.
const BLACK_HOLE_TIMEOUTS: u8 = 2;
/// The same if the size has got through before: then something else is likelier.
const BLACK_HOLE_TIMEOUTS_IF_PROVEN: u8 = 4;
/// MAX_PROBES of RFC 8899 §5.1.2: so many probes of the old size are lost before the connection
/// believes in a black hole.
const MAX_PROBES: u8 = 3;
/// The sizes to fall back on, bytes. RFC 8200 §5 has every link carry the first, RFC 1122 §3.3.3
/// has every host take the second. IPv6 does not go below the first.
const FALLBACKS: [u16; 2] = [1280, 576];

fn fallback(mtu: u16, is_ipv4: bool) -> Option<u16> {
    let steps = if is_ipv4 { 2 } else { 1 };
    FALLBACKS.into_iter().take(steps).find(|&step| step < mtu)
}

impl PathPart<'_> {
    /// An ICMP error says that the segment at `seq` was too big for a link of `mtu` bytes.
    pub fn on_too_big(mut self, now: Instant, mtu: u16, seq: SeqNumber) -> PathActions {
        self.search.bound_probe(seq, mtu, *self.mtu);
        if mtu >= *self.mtu {
            return PathActions::empty();
        }
        // RFC 5927 §7.2: it is news that such segments do not get through. The time-out of the
        // segment will confirm it.
        if self.is_size_proven() {
            self.search.claim(mtu, seq);
            return PathActions::empty();
        }
        self.lower(now, mtu)
    }

    /// The link carries packets of `mtu` bytes now, or packets leave by a link that does. What the
    /// path carries beyond is found out by probes.
    pub fn on_link_mtu(mut self, now: Instant, mtu: u16) -> PathActions {
        if mtu < *self.mtu {
            self.limit(mtu, now + LIFETIME);
            return PathActions::GO_BACK;
        }
        if mtu > *self.mtu {
            *self.search = PathSearch::until(mtu, now);
        }
        PathActions::empty()
    }

    /// RFC 1191 §6.3, RFC 8201 §5.2: segments are smaller from now on, and what was too big is sent
    /// again. That is no sign of congestion.
    /// RFC 1191 §3-2, §3-3, §6.3-1, §6.4-1; RFC 8201 §4-2, §4-3, §5.4-1.
    /// RFC 8201 §4-1; RFC 5927 §7.2-1.
    fn lower(&mut self, now: Instant, mtu: u16) -> PathActions {
        self.limit(mtu, now + LIFETIME);
        self.learn(now);
        PathActions::GO_BACK
    }

    /// The retransmission timer expired: is the size of the segments to blame?
    /// RFC 4821 §7.7-1.
    pub fn on_timeout(mut self, now: Instant) {
        let is_full = self.view.flight() >= u32::from(*self.mss);
        let retries_each = if self.is_size_proven() {
            BLACK_HOLE_TIMEOUTS_IF_PROVEN
        } else {
            BLACK_HOLE_TIMEOUTS
        };
        let in_a_row = self.view.retries.is_multiple_of(retries_each);
        if let Some(mtu) = self.search.confirmed_claim(self.view.snd_una) {
            self.limit(mtu, now + LIFETIME);
            self.learn(now);
        } else if is_full
            && !self.adopt(now)
            && in_a_row
            && let Some(mtu) = fallback(*self.mtu, self.view.is_ipv4())
        {
            // RFC 4821 §7.7.
            self.limit(mtu, now);
            self.search.suspect(MAX_PROBES);
        }
    }

    /// Something was acknowledged after the size was lowered because of time-outs: were smaller
    /// segments what it took? Behind a full queue it only looks like that. Probes will tell, but
    /// there are none without SACK.
    pub fn confirm(mut self, now: Instant) {
        self.search.trust();
        if !self.view.flags.contains(PathFlags::SACK) {
            self.believe_in_black_hole(now);
        }
    }

    /// Other connections learn of it, unless one of them gets larger segments through.
    pub(super) fn believe_in_black_hole(&mut self, now: Instant) {
        self.search.end_trials();
        self.counters.black_holes += 1;
        let proven = self.paths.proven(now, self.view.dst);
        if proven.is_none_or(|proven| proven <= *self.mtu) {
            self.learn(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::command::Options;
    use crate::config::Config;
    use crate::counters::Counters;
    use crate::id::PortId;
    use crate::ip::PathMtus;
    use crate::tcp::path::part::PathView;
    use crate::tcp::path::state::PathSearch;

    const DST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    /// The part of a connection with all from 1000 to 5000 in flight.
    struct Bench {
        search: PathSearch,
        mtu: u16,
        mss: u16,
        paths: PathMtus,
        counters: Counters,
    }

    impl Bench {
        fn new() -> Self {
            Self {
                search: PathSearch::new(1500),
                mtu: 1500,
                mss: 1460,
                paths: PathMtus::new(&[1; 32]),
                counters: Counters::default(),
            }
        }

        fn on_too_big(&mut self, mtu: u16, seq: u32) -> PathActions {
            let part = PathPart {
                search: &mut self.search,
                mtu: &mut self.mtu,
                mss: &mut self.mss,
                paths: &mut self.paths,
                counters: &mut self.counters,
                view: PathView {
                    flags: PathFlags::SACK,
                    config: &Config::default(),
                    options: &Options::default(),
                    port: PortId(0),
                    dst: DST,
                    snd_una: SeqNumber(1000),
                    snd_nxt: SeqNumber(5000),
                    cwnd: 10_000,
                    peer_mss: 1460,
                    retries: 0,
                },
            };
            part.on_too_big(Instant::ZERO, mtu, SeqNumber(seq))
        }
    }

    #[test]
    fn an_error_lowers_a_size_that_never_got_through() {
        let mut bench = Bench::new();
        assert_eq!(bench.on_too_big(1500, 2000), PathActions::empty());
        assert_eq!(bench.on_too_big(1400, 2000), PathActions::GO_BACK);
        assert_eq!((bench.mtu, bench.mss), (1400, 1360));
        let known = bench.paths.find(Instant::ZERO, DST);
        assert_eq!(known.map(|known| known.mtu), Some(1400));
    }

    /// RFC 5927 §7.2.
    #[test]
    fn an_error_about_a_size_that_got_through_waits_for_a_time_out() {
        let mut bench = Bench::new();
        bench.search.on_full_sent(SeqNumber(900));
        assert_eq!(bench.on_too_big(1400, 2000), PathActions::empty());
        assert_eq!((bench.mtu, bench.mss), (1500, 1460));
        assert_eq!(bench.search.confirmed_claim(SeqNumber(1000)), Some(1400));
    }

    #[test]
    fn sizes_to_fall_back_on() {
        assert_eq!(fallback(9000, true), Some(1280));
        assert_eq!(fallback(1280, true), Some(576));
        assert_eq!(fallback(576, true), None);
        assert_eq!(fallback(1500, false), Some(1280));
        assert_eq!(fallback(1280, false), None);
    }
}
