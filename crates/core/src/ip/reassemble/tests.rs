use super::*;
use crate::id::PortId;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::IpAddr;
use wire::ip::{Ecn, Protocol};

fn key(source: u8, ident: u32) -> Key {
    Key {
        src: IpAddr::from([192, 0, 2, source]),
        dst: IpAddr::from([10, 0, 0, 1]),
        ident,
        protocol: Some(Protocol::UDP),
    }
}

fn fragment(key: Key, offset: u16, data: &[u8], more: bool) -> Fragment<'_> {
    Fragment {
        key,
        port: PortId(0),
        protocol: Protocol::UDP,
        offset,
        more,
        ecn: Ecn::NotEct,
        head: b"header",
        data,
    }
}

struct Bench {
    reassembler: Reassembler,
    counters: Counters,
    now: Instant,
}

impl Bench {
    fn new(limit: usize) -> Self {
        let reassembler = Reassembler::new(limit, Duration::from_secs(15));
        Self {
            reassembler,
            counters: Counters::default(),
            now: Instant::from_millis(7),
        }
    }

    fn push(&mut self, fragment: &Fragment<'_>) -> Result<Option<Assembled>, DropReason> {
        self.reassembler
            .push(self.now, fragment, &mut self.counters)
    }

    fn dropped(&self, reason: DropReason) -> u64 {
        self.counters.dropped(reason)
    }
}

const BYTES: [u8; 32] = *b"0123456789abcdefghijklmnopqrstuv";

#[test]
fn pieces_in_any_order_make_the_datagram() {
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let mut bench = Bench::new(1 << 20);
        let ranges = [0..8, 8..24, 24..29];
        for (n, &i) in order.iter().enumerate() {
            let range = ranges[i].clone();
            let piece = Fragment {
                head: if i == 0 { b"first" } else { b"later" },
                ..fragment(key(1, 5), range.start as u16, &BYTES[range], i < 2)
            };
            let whole = bench.push(&piece).unwrap();
            assert_eq!(whole.is_some(), n == 2, "{order:?}");
            if let Some(whole) = whole {
                assert_eq!(
                    (whole.data.as_slice(), whole.head.as_slice()),
                    (&BYTES[..29], b"first".as_slice())
                );
            }
        }
        assert_eq!(
            (
                bench.reassembler.used(),
                bench.reassembler.len(),
                bench.counters.reassembled
            ),
            (0, 0, 1)
        );
    }
}

#[test]
fn sources_destinations_idents_and_protocols_are_kept_apart() {
    let mut bench = Bench::new(1 << 20);
    let base = key(1, 5);
    let others = [
        key(2, 5),
        key(1, 6),
        Key {
            protocol: Some(Protocol::TCP),
            ..base
        },
        Key {
            dst: IpAddr::from([10, 0, 0, 2]),
            ..base
        },
    ];
    bench.push(&fragment(base, 0, &BYTES[..8], true)).unwrap();
    for other in others {
        assert_eq!(
            bench.push(&fragment(other, 8, &BYTES[..8], false)),
            Ok(None)
        );
    }
    assert!(
        bench
            .push(&fragment(base, 8, &BYTES[..8], false))
            .unwrap()
            .is_some()
    );
}

#[test]
fn an_exact_duplicate_is_harmless() {
    let mut bench = Bench::new(1 << 20);
    for _ in 0..3 {
        assert_eq!(
            bench.push(&fragment(key(1, 5), 0, &BYTES[..16], true)),
            Ok(None)
        );
    }
    assert!(
        bench
            .push(&fragment(key(1, 5), 16, &BYTES[16..], false))
            .unwrap()
            .is_some()
    );
}

/// RFC 5722 §4.
/// RFC 8200 §4.5-1.
#[test]
fn an_overlap_drops_the_datagram_and_all_its_fragments_to_come() {
    let mut bench = Bench::new(1 << 20);
    bench
        .push(&fragment(key(1, 5), 0, &BYTES[..16], true))
        .unwrap();
    assert_eq!(
        bench.push(&fragment(key(1, 5), 8, &BYTES[..16], true)),
        Err(DropReason::FragmentOverlap)
    );
    assert_eq!(
        bench.dropped(DropReason::FragmentOverlap),
        1,
        "the one held; the other is for the caller to count"
    );
    assert_eq!(
        bench.push(&fragment(key(1, 5), 0, &BYTES[..16], true)),
        Err(DropReason::FragmentOverlap)
    );
    assert_eq!(
        bench.push(&fragment(key(1, 5), 16, &BYTES[..16], false)),
        Err(DropReason::FragmentOverlap)
    );
    bench.now += Duration::from_secs(16);
    assert_eq!(
        bench
            .reassembler
            .pop_expired(bench.now, &mut bench.counters),
        Some(None)
    );
    assert_eq!(
        bench.push(&fragment(key(1, 5), 0, &BYTES[..16], true)),
        Ok(None)
    );
}

#[test]
fn the_same_place_with_other_bytes_is_an_overlap() {
    let mut bench = Bench::new(1 << 20);
    bench
        .push(&fragment(key(1, 5), 0, &BYTES[..16], true))
        .unwrap();
    assert_eq!(
        bench.push(&fragment(key(1, 5), 0, &BYTES[16..], true)),
        Err(DropReason::FragmentOverlap)
    );
}

#[test]
fn two_ends_or_bytes_beyond_the_end_are_malformed() {
    for (second, more) in [(8, false), (24, false), (16, true), (8, true)] {
        let mut bench = Bench::new(1 << 20);
        bench
            .push(&fragment(key(1, 5), 8, &BYTES[..8], false))
            .unwrap();
        let data = if second == 8 && more {
            &BYTES[..16]
        } else {
            &BYTES[8..16]
        };
        let outcome = bench.push(&fragment(key(1, 5), second, data, more));
        assert!(
            matches!(
                outcome,
                Err(DropReason::FragmentMalformed | DropReason::FragmentOverlap)
            ),
            "{second} {more}"
        );
    }
    let mut bench = Bench::new(1 << 20);
    bench
        .push(&fragment(key(1, 5), 16, &BYTES[..8], true))
        .unwrap();
    assert_eq!(
        bench.push(&fragment(key(1, 5), 8, &BYTES[..8], false)),
        Err(DropReason::FragmentMalformed),
        "an end before what is there"
    );
    assert_eq!(
        bench.push(&fragment(key(1, 6), 0, &[], true)),
        Err(DropReason::FragmentMalformed)
    );
    assert_eq!(
        bench.push(&fragment(key(1, 6), 0, &BYTES[..9], true)),
        Err(DropReason::FragmentMalformed)
    );
}

#[test]
fn time_out_reports_the_first_fragment_if_there_is_one() {
    let mut bench = Bench::new(1 << 20);
    bench
        .push(&fragment(key(1, 1), 0, &BYTES[..8], true))
        .unwrap();
    bench.now += Duration::from_secs(1);
    bench
        .push(&fragment(key(1, 2), 8, &BYTES[..8], true))
        .unwrap();
    assert_eq!(
        bench.reassembler.next_deadline(),
        Some(Instant::from_millis(15_007))
    );
    let at = Instant::from_millis(15_006);
    assert_eq!(bench.reassembler.pop_expired(at, &mut bench.counters), None);
    let at = Instant::from_millis(16_007);
    let first = bench
        .reassembler
        .pop_expired(at, &mut bench.counters)
        .unwrap()
        .unwrap();
    assert_eq!(
        (first.data.as_slice(), first.head.as_slice()),
        (&BYTES[..8], b"header".as_slice())
    );
    assert_eq!(
        bench.reassembler.pop_expired(at, &mut bench.counters),
        Some(None)
    );
    assert_eq!(bench.reassembler.pop_expired(at, &mut bench.counters), None);
    assert_eq!(
        (
            bench.dropped(DropReason::FragmentTimeout),
            bench.reassembler.used()
        ),
        (2, 0)
    );
}

/// RFC 3168 §5.3.
/// RFC 3168 §5.3-1.
#[test]
fn congestion_marks_of_fragments_are_combined() {
    let cases = [
        ([Ecn::Ect0, Ecn::Ce], Some(Ecn::Ce)),
        ([Ecn::Ect0, Ecn::Ect0], Some(Ecn::Ect0)),
        ([Ecn::Ect1, Ecn::Ect1], Some(Ecn::Ect1)),
        ([Ecn::NotEct, Ecn::Ect0], Some(Ecn::NotEct)),
        ([Ecn::NotEct, Ecn::Ce], None),
    ];
    for (marks, expected) in cases {
        let mut bench = Bench::new(1 << 20);
        bench
            .push(&Fragment {
                ecn: marks[0],
                ..fragment(key(1, 1), 0, &BYTES[..8], true)
            })
            .unwrap();
        let whole = bench.push(&Fragment {
            ecn: marks[1],
            ..fragment(key(1, 1), 8, &BYTES[..8], false)
        });
        assert_eq!(whole.ok().flatten().map(|whole| whole.ecn), expected);
    }
}

#[test]
fn one_source_cannot_take_the_share_of_others() {
    let mut bench = Bench::new(1 << 20);
    bench
        .push(&fragment(key(1, 0), 0, &BYTES[..8], true))
        .unwrap();
    for ident in 0..1000 {
        bench
            .push(&fragment(key(2, ident), 0, &BYTES[..8], true))
            .unwrap();
    }
    assert_eq!(bench.reassembler.len(), 1 + MAX_PER_SOURCE);
    assert!(
        bench
            .push(&fragment(key(1, 0), 8, &BYTES[..8], false))
            .unwrap()
            .is_some()
    );
}

#[test]
fn floods_stay_within_the_bounds() {
    let mut bench = Bench::new(100_000);
    let data = [0; 1480];
    for n in 0..20_000u32 {
        let key = Key {
            src: IpAddr::from(n.to_be_bytes()),
            ..key(1, n)
        };
        let _ = bench.push(&fragment(key, 0, &data, true));
        let _ = bench.push(&fragment(key, 65_000 & !7, &data[..8], true));
        assert!(bench.reassembler.used() <= 100_000 && bench.reassembler.len() <= MAX_DATAGRAMS);
    }
    let mut bench = Bench::new(1 << 20);
    for n in 0..8000u16 {
        let _ = bench.push(&fragment(key(1, 1), n * 8, &data[..8], true));
    }
    assert!(bench.reassembler.used() <= Datagram::BASE_COST + 128 * (8 + 64));
    let mut none = Bench::new(0);
    assert_eq!(
        none.push(&fragment(key(1, 1), 0, &data, true)),
        Err(DropReason::FragmentMemory)
    );
}

#[test]
fn room_is_made_by_dropping_the_oldest_but_not_the_datagram_at_hand() {
    let mut bench = Bench::new(2 * (Datagram::BASE_COST + 64 + 8) + 64);
    bench
        .push(&fragment(key(1, 1), 0, &BYTES[..8], true))
        .unwrap();
    bench
        .push(&fragment(key(2, 2), 0, &BYTES[..8], true))
        .unwrap();
    assert!(
        bench
            .push(&fragment(key(1, 1), 8, &BYTES[..8], false))
            .unwrap()
            .is_some()
    );
    assert_eq!(
        (
            bench.dropped(DropReason::FragmentMemory),
            bench.reassembler.len()
        ),
        (1, 0)
    );
}

/// What a naive receiver does: a map from byte position to value for each datagram.
#[derive(Default)]
struct Oracle {
    bytes: BTreeMap<usize, u8>,
    pieces: Vec<(usize, usize)>,
    total: Option<usize>,
    dead: bool,
}

impl Oracle {
    fn push(&mut self, start: usize, data: &[u8], more: bool) -> Option<Vec<u8>> {
        let end = start + data.len();
        let same = |(at, byte): (usize, &u8)| self.bytes.get(&(start + at)) == Some(byte);
        let consistent = match self.total {
            Some(total) => {
                if more {
                    end <= total
                } else {
                    end == total
                }
            }
            None => more || self.bytes.keys().all(|&at| at < end),
        };
        if self.dead || !consistent {
            self.dead = true;
            return None;
        }
        if self.pieces.contains(&(start, end)) && data.iter().enumerate().all(same) {
            return None;
        }
        if (start..end).any(|at| self.bytes.contains_key(&at)) {
            self.dead = true;
            return None;
        }
        self.bytes.extend((start..).zip(data.iter().copied()));
        self.pieces.push((start, end));
        if !more {
            self.total = Some(end);
        }
        let complete = self.total == Some(self.bytes.len());
        complete.then(|| std::mem::take(self).bytes.into_values().collect())
    }
}

proptest! {
    #[test]
    fn behaves_like_a_map_of_bytes(
        steps in prop::collection::vec((0u32..3, 0u16..5, 1usize..4, any::<bool>(), 0u8..20, 0u64..4_000), 0..120)
    ) {
        let mut bench = Bench::new(1 << 20);
        let mut oracle: BTreeMap<u32, (Instant, Oracle)> = BTreeMap::new();
        for (ident, unit, units, more, odd, wait) in steps {
            bench.now += Duration::from_millis(wait);
            while bench.reassembler.pop_expired(bench.now, &mut bench.counters).is_some() {}
            oracle.retain(|_, (since, _)| *since + Duration::from_secs(15) > bench.now);
            let start = usize::from(unit) * 8;
            let len = if more { units * 8 } else { units * 8 - usize::from(odd % 8) };
            // Mostly the same bytes at the same place, sometimes others.
            let data: Vec<u8> = (start..start + len).map(|at| at as u8 ^ u8::from(odd == 19)).collect();
            let (_, expected) = oracle.entry(ident).or_insert((bench.now, Oracle::default()));
            let expected = expected.push(start, &data, more);
            if expected.is_some() {
                oracle.remove(&ident);
            }
            let got = bench.push(&fragment(key(1, ident), unit * 8, &data, more));
            prop_assert_eq!(got.ok().flatten().map(|whole| whole.data), expected);
        }
        let in_time: Vec<_> = oracle.keys().collect();
        prop_assert_eq!(bench.reassembler.len(), in_time.len());
        bench.now += Duration::from_secs(15);
        while bench.reassembler.pop_expired(bench.now, &mut bench.counters).is_some() {}
        prop_assert_eq!((bench.reassembler.used(), bench.reassembler.len()), (0, 0));
    }
}
