use super::*;
use proptest::prelude::*;

mod kernel;
mod room;

const PORT: PortId = PortId(0);
const A: MacAddr = MacAddr([2, 0, 0, 0, 1, 1]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 2, 2]);

fn addr(n: u16) -> IpAddr {
    let [high, low] = n.to_be_bytes();
    IpAddr::from([10, 0, high, low])
}

struct Bench {
    cache: Cache,
    counters: Counters,
    now: Instant,
}

impl Bench {
    fn new(max: u32) -> Self {
        Self {
            cache: Cache::new(max, &[5; 32]).unwrap(),
            counters: Counters::default(),
            now: Instant::from_millis(3),
        }
    }

    /// A cache in which neighbour 1 is in `state` with the hardware address A.
    fn in_state(state: State) -> Self {
        let mut bench = Self::new(4);
        bench.resolve(1);
        if matches!(state, State::Failed) {
            bench.run(Duration::from_secs(4));
        } else if !matches!(state, State::Incomplete) {
            bench.advertise(Some(A), true, true);
        }
        if matches!(state, State::Stale | State::Delay | State::Probe) {
            bench.run(Duration::from_secs(46));
        }
        if matches!(state, State::Delay | State::Probe) {
            bench.resolve(1);
        }
        if matches!(state, State::Probe) {
            bench.run(Duration::from_millis(5_500));
        }
        while bench.cache.pop_ended().is_some() {}
        assert_eq!(bench.state(), state);
        bench
    }

    fn resolve(&mut self, n: u16) -> Lookup {
        self.cache
            .resolve(self.now, PORT, addr(n), &mut self.counters)
    }

    fn confirm(&mut self, addr: IpAddr) {
        self.cache.confirm(self.now, PORT, addr, &mut self.counters);
    }

    fn meet(&mut self, n: u16, mac: MacAddr) {
        self.cache
            .on_solicitation(self.now, PORT, addr(n), mac, &mut self.counters);
    }

    fn advertise(&mut self, mac: Option<MacAddr>, solicited: bool, override_flag: bool) -> bool {
        self.cache.advertise(
            self.now,
            PORT,
            addr(1),
            Advertisement {
                mac,
                solicited,
                override_flag,
            },
        )
    }

    /// Lets time pass from deadline to deadline; returns the questions asked, with the milliseconds
    /// since now.
    fn run(&mut self, time: Duration) -> Vec<(u64, Option<MacAddr>)> {
        let (start, end) = (self.now, self.now + time);
        let mut asked = Vec::new();
        while let Some(at) = self.cache.next_deadline().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            while let Some(due) = self.cache.pop_due(self.now, &mut self.counters) {
                asked.extend(
                    due.map(|question| ((self.now - start).as_millis() as u64, question.to)),
                );
            }
        }
        self.now = end;
        asked
    }

    fn state(&self) -> State {
        self.cache.state(PORT, addr(1)).unwrap().0
    }

    fn mac(&self) -> MacAddr {
        self.cache.state(PORT, addr(1)).unwrap().1
    }
}

#[test]
fn those_asked_for_lately_are_known_until_anything_changes() {
    let mut bench = Bench::in_state(State::Reachable);
    let known = |bench: &Bench| bench.cache.known(PORT, addr(1));
    assert_eq!(known(&bench), None);
    assert_eq!(bench.resolve(1), Lookup::Ready(A));
    assert_eq!(known(&bench), Some(A));
    assert_eq!(bench.cache.known(PORT, addr(2)), None);
    assert_eq!(bench.cache.known(PortId(1), addr(1)), None);
    // It says that it has another hardware address now.
    assert!(bench.advertise(Some(B), true, true));
    assert_eq!(known(&bench), None);
    bench.resolve(1);
    assert_eq!((known(&bench), bench.mac()), (None, B));
    // Its first packet starts the wait for a sign of life, which the next ones do not change.
    assert_eq!(bench.state(), State::Delay);
    bench.resolve(1);
    assert_eq!(known(&bench), Some(B));
    // Its address is as good as unknown when nothing has come from it for long.
    let mut bench = Bench::in_state(State::Reachable);
    bench.resolve(1);
    bench.run(Duration::from_secs(46));
    assert_eq!((known(&bench), bench.state()), (None, State::Stale));
}

/// RFC 1122 §2.3.2-1; RFC 4861 §7.2.2-2, §7.2.2-3.
#[test]
fn resolution_asks_three_times_then_holds_down() {
    let mut bench = Bench::new(4);
    assert_eq!(
        bench.resolve(1),
        Lookup::Pending {
            slot: 0,
            solicit: true
        }
    );
    assert_eq!(
        bench.resolve(1),
        Lookup::Pending {
            slot: 0,
            solicit: false
        }
    );
    // Ticks of the wheel: up to 1 ms late.
    let asked = bench.run(Duration::from_millis(2_999));
    assert_eq!(asked, [(1_000, None), (2_000, None)]);
    assert_eq!(bench.cache.pop_ended(), None);
    bench.run(Duration::from_millis(1));
    assert_eq!(
        bench.cache.pop_ended(),
        Some(Ended {
            slot: 0,
            port: PORT,
            addr: addr(1),
            mac: None
        })
    );
    assert_eq!(
        (bench.resolve(1), bench.counters.neighbour_failures),
        (Lookup::Failed, 1)
    );
    assert_eq!(bench.run(Duration::from_millis(2_999)), []);
    assert_eq!(bench.resolve(1), Lookup::Failed);
    bench.run(Duration::from_millis(1));
    assert_eq!(bench.cache.len(), 0);
    assert_eq!(
        bench.resolve(1),
        Lookup::Pending {
            slot: 0,
            solicit: true
        }
    );
}

#[test]
fn an_answer_ends_resolution() {
    let mut bench = Bench::new(4);
    bench.resolve(1);
    assert!(bench.advertise(Some(A), true, true));
    assert_eq!(
        bench.cache.pop_ended(),
        Some(Ended {
            slot: 0,
            port: PORT,
            addr: addr(1),
            mac: Some(A)
        })
    );
    assert_eq!(bench.resolve(1), Lookup::Ready(A));
    assert_eq!(bench.state(), State::Reachable);
}

/// RFC 4861 §7.2.5-1.
#[test]
fn nothing_is_learned_about_strangers() {
    let mut bench = Bench::new(4);
    assert!(!bench.advertise(Some(A), true, true));
    assert_eq!(bench.cache.len(), 0);
}

/// RFC 4861 §7.2.3.
#[test]
fn who_asks_is_known_but_not_trusted() {
    let mut bench = Bench::new(4);
    bench.meet(1, A);
    assert_eq!(bench.state(), State::Stale);
    assert_eq!(bench.resolve(1), Lookup::Ready(A));
    assert_eq!(bench.state(), State::Delay);
}

#[test]
fn strangers_who_ask_push_out_nobody_in_use() {
    let mut bench = Bench::new(4);
    for n in 1..=3 {
        bench.meet(n, A);
        bench.resolve(n);
    }
    for n in 100..120 {
        bench.meet(n, B);
    }
    assert_eq!(bench.cache.len(), 4);
    for n in 1..=3 {
        assert_eq!(bench.resolve(n), Lookup::Ready(A));
    }
    bench.resolve(119);
    bench.meet(200, B);
    assert_eq!(bench.cache.state(PORT, addr(200)), None);
}

/// RFC 4861 appendix C: use, delay, unicast probes; then, beyond the RFC, everybody is asked before
/// giving up. RFC 1122 §2.3.2-2.
#[test]
fn an_unused_neighbour_ages_and_is_probed_when_used() {
    let mut bench = Bench::in_state(State::Reachable);
    assert_eq!(bench.run(Duration::from_secs(46)), []);
    assert_eq!(bench.state(), State::Stale);
    assert_eq!(bench.cache.next_deadline(), None);
    assert_eq!(bench.resolve(1), Lookup::Ready(A));
    assert_eq!(bench.state(), State::Delay);
    let asked = bench.run(Duration::from_secs(11));
    let expected = [
        (5_000, Some(A)),
        (6_000, Some(A)),
        (7_000, Some(A)),
        (8_000, None),
        (9_000, None),
        (10_000, None),
    ];
    assert_eq!(asked, expected);
    assert_eq!(bench.resolve(1), Lookup::Failed);
}

#[test]
fn reachable_lasts_between_half_and_one_and_a_half_of_reachable_time() {
    let mut bench = Bench::in_state(State::Reachable);
    bench.run(Duration::from_millis(14_999));
    assert_eq!(bench.state(), State::Reachable);
    bench.run(Duration::from_millis(30_001));
    assert_eq!(bench.state(), State::Stale);
}

/// RFC 4861 §7.3.3-1.
#[test]
fn confirmation_from_above_keeps_a_neighbour_reachable() {
    let mut bench = Bench::in_state(State::Reachable);
    for _ in 0..20 {
        bench.run(Duration::from_secs(10));
        bench.confirm(addr(1));
        assert_eq!(bench.state(), State::Reachable);
    }
    for state in [State::Stale, State::Delay, State::Probe] {
        let mut bench = Bench::in_state(state);
        bench.confirm(addr(1));
        assert_eq!(bench.state(), State::Reachable);
        assert_eq!(bench.run(Duration::from_secs(10)), []);
    }
    for state in [State::Incomplete, State::Failed] {
        let mut bench = Bench::in_state(state);
        bench.confirm(addr(1));
        assert_eq!(bench.state(), state);
    }
}

/// RFC 4861 appendix C, the rows about advertisements: state, hardware address (same, other, none),
/// S, O → state, hardware address.
#[test]
fn a_doubted_neighbour_is_asked_at_once_and_then_everybody() {
    for state in [State::Stale, State::Delay] {
        let mut bench = Bench::in_state(state);
        bench.cache.suspect(bench.now, PORT, addr(1));
        let asked = bench.run(Duration::from_millis(3_500));
        let to: Vec<_> = asked.iter().map(|(_, to)| *to).collect();
        assert_eq!(to, [Some(A), Some(A), Some(A), None], "{state:?}");
        assert!(asked[0].0 < 2 && asked[3].0 < 3_010, "{asked:?}");
    }
}

#[test]
fn a_neighbour_that_lives_is_not_doubted() {
    let mut bench = Bench::in_state(State::Reachable);
    bench.confirm(addr(1));
    bench.now += Duration::from_millis(900);
    bench.cache.suspect(bench.now, PORT, addr(1));
    assert_eq!(bench.state(), State::Reachable);
    bench.now += Duration::from_millis(200);
    bench.cache.suspect(bench.now, PORT, addr(1));
    assert_eq!(bench.state(), State::Probe);
    bench.advertise(Some(B), true, true);
    assert_eq!((bench.state(), bench.mac()), (State::Reachable, B));
    let mut bench = Bench::in_state(State::Failed);
    bench.cache.suspect(bench.now, PORT, addr(1));
    assert_eq!(bench.state(), State::Failed);
}

#[test]
fn advertisements_change_what_the_rfc_says() {
    use State::*;
    let usable = [Reachable, Stale, Delay, Probe];
    for state in usable {
        for (mac, solicited, override_flag, expected, kept) in [
            // Same address, or none: only S matters.
            (Some(A), true, false, Reachable, A),
            (Some(A), true, true, Reachable, A),
            (Some(A), false, true, state, A),
            (Some(A), false, false, state, A),
            (None, true, true, Reachable, A),
            (None, false, true, state, A),
            // Other address, not to be replaced.
            (
                Some(B),
                false,
                false,
                if state == Reachable { Stale } else { state },
                A,
            ),
            (
                Some(B),
                true,
                false,
                if state == Reachable { Stale } else { state },
                A,
            ),
            // Other address, to be replaced; solicited only if we asked.
            (Some(B), false, true, Stale, B),
            (
                Some(B),
                true,
                true,
                if state == Probe { Reachable } else { Stale },
                B,
            ),
        ] {
            let mut bench = Bench::in_state(state);
            assert!(bench.advertise(mac, solicited, override_flag));
            assert_eq!(
                (bench.state(), bench.mac()),
                (expected, kept),
                "{state:?} {mac:?} S={solicited} O={override_flag}"
            );
        }
    }
    for (mac, solicited, expected) in [
        (None, true, Incomplete),
        (Some(B), true, Reachable),
        (Some(B), false, Stale),
    ] {
        let mut bench = Bench::in_state(Incomplete);
        assert_eq!(bench.advertise(mac, solicited, false), mac.is_some());
        assert_eq!(bench.state(), expected);
    }
}

#[test]
fn a_failed_neighbour_that_speaks_up_is_usable_again() {
    let mut bench = Bench::in_state(State::Failed);
    bench.meet(1, B);
    assert_eq!(bench.state(), State::Stale);
    assert_eq!(bench.cache.pop_ended(), None, "nobody waited");
}

#[test]
fn a_full_cache_throws_out_the_least_useful() {
    let mut bench = Bench::new(4);
    // 1 reachable, 2 stale, 3 failed, 4 incomplete.
    for n in [2, 1] {
        bench.resolve(n);
        let answer = Advertisement {
            mac: Some(A),
            solicited: n == 1,
            override_flag: true,
        };
        assert!(bench.cache.advertise(bench.now, PORT, addr(n), answer));
    }
    bench.resolve(3);
    bench.run(Duration::from_secs(4));
    bench.resolve(4);
    while bench.cache.pop_ended().is_some() {}
    bench.now += Duration::from_secs(1);
    let mut gone = Vec::new();
    for n in 5..8 {
        assert!(matches!(
            bench.resolve(n),
            Lookup::Pending { solicit: true, .. }
        ));
        let known = |n: &u16| bench.cache.state(PORT, addr(*n)).is_some();
        gone.push((1..n).filter(|n| !known(n)).collect::<Vec<_>>());
        assert_eq!(bench.cache.len(), 4);
    }
    assert_eq!(gone, [vec![3], vec![2, 3], vec![1, 2, 3]]);
    assert_eq!(bench.resolve(8), Lookup::Failed, "all are being asked");
    assert_eq!(bench.cache.pop_ended(), None);
    assert_eq!(bench.counters.neighbour_evictions, 3);
}

#[test]
fn ports_and_families_are_kept_apart() {
    let mut bench = Bench::new(4);
    bench.resolve(1);
    bench.advertise(Some(A), true, true);
    let other = bench
        .cache
        .resolve(bench.now, PortId(1), addr(1), &mut bench.counters);
    assert!(matches!(other, Lookup::Pending { .. }));
    let v6 = "::10.0.0.1".parse().unwrap();
    assert!(matches!(
        bench
            .cache
            .resolve(bench.now, PORT, v6, &mut bench.counters),
        Lookup::Pending { .. }
    ));
}

#[test]
fn a_cache_without_room_fails() {
    assert_eq!(Bench::new(0).resolve(1), Lookup::Failed);
}

#[derive(Clone, Debug)]
enum Op {
    Resolve(u16),
    Advertise(u16, bool, bool, bool),
    Confirm(u16),
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0u16..12).prop_map(Op::Resolve),
        (0u16..12, any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(n, b, s, o)| Op::Advertise(n, b, s, o)),
        (0u16..12).prop_map(Op::Confirm),
        (0u64..20_000).prop_map(Op::Wait),
    ]
}

proptest! {
    /// Whoever was told to wait is told how it ended, within the time that resolution may take;
    /// nobody is told twice.
    #[test]
    fn every_wait_ends(ops in prop::collection::vec(op(), 0..200)) {
        let mut bench = Bench::new(4);
        let mut waiting = std::collections::BTreeSet::new();
        for op in ops {
            match op {
                Op::Resolve(n) => match bench.resolve(n) {
                    // A neighbour that is probed in vain is asked for anew without anybody waiting.
                    Lookup::Pending { solicit, .. } => prop_assert!(waiting.insert(addr(n)) || !solicit),
                    Lookup::Ready(_) | Lookup::Failed => prop_assert!(!waiting.contains(&addr(n))),
                },
                Op::Advertise(n, b, solicited, override_flag) => {
                    let what = Advertisement { mac: Some(if b { B } else { A }), solicited, override_flag };
                    bench.cache.advertise(bench.now, PORT, addr(n), what);
                }
                Op::Confirm(n) => bench.confirm(addr(n)),
                Op::Wait(millis) => { bench.run(Duration::from_millis(millis)); }
            }
            while let Some(ended) = bench.cache.pop_ended() {
                waiting.remove(&ended.addr);
            }
            for class in [Class::Failed, Class::Stale, Class::Live, Class::Idle, Class::Incomplete, Class::Proven] {
                let on_list = bench.cache.classes[class as usize].len();
                let in_class = bench.cache.slots.iter()
                    .filter(|&slot| bench.cache.entries[slot as usize].class() == class);
                prop_assert_eq!(on_list as usize, in_class.count());
                prop_assert!(class != Class::Incomplete || on_list == bench.cache.incomplete);
            }
            prop_assert!(bench.cache.len() <= 4);
            for Known { port, addr, mac, slot } in bench.cache.known.into_iter().flatten() {
                let (state, now) = bench.cache.state(port, addr).unwrap();
                prop_assert!(matches!(state, State::Reachable | State::Delay | State::Probe) && now == mac);
                prop_assert!(bench.cache.is(slot, port, addr));
            }
        }
        bench.run(Duration::from_secs(4));
        while let Some(ended) = bench.cache.pop_ended() {
            waiting.remove(&ended.addr);
        }
        prop_assert!(waiting.is_empty());
    }
}
