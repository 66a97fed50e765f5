//! Who stays, and how much is asked, when many want to be known.

use super::*;

#[test]
fn who_has_connections_stays_whoever_wants_to_be_known() {
    let mut bench = Bench::new(4);
    for n in 1..=4 {
        bench.resolve(n);
        bench.cache.advertise(
            bench.now,
            PORT,
            addr(n),
            Advertisement {
                mac: Some(A),
                solicited: true,
                override_flag: true,
            },
        );
        if n > 1 {
            bench.confirm(addr(n));
        }
    }
    bench.run(Duration::from_secs(50));
    assert!(matches!(bench.resolve(5), Lookup::Pending { .. }));
    assert_eq!(bench.cache.state(PORT, addr(1)), None);
    assert_eq!(bench.resolve(6), Lookup::Failed);
    bench.meet(7, B);
    assert_eq!(bench.cache.state(PORT, addr(7)), None);
    for n in 2..=4 {
        let (state, mac) = bench.cache.state(PORT, addr(n)).unwrap();
        assert_eq!((state, mac), (State::Stale, A), "{n}");
    }
    bench.run(SILENT);
    assert!(
        matches!(bench.resolve(6), Lookup::Pending { .. }),
        "silence ends"
    );
}

/// Longer than silent connections keep their neighbour.
const SILENT: Duration = Duration::from_secs(601);

/// The questions about each of `targets`, over `millis`, when each is wanted each 100 ms; at which
/// milliseconds.
fn flood(bench: &mut Bench, targets: u16, millis: u64) -> Vec<Vec<u64>> {
    let mut asked = vec![Vec::new(); usize::from(targets)];
    let at = |addr: IpAddr| match addr {
        IpAddr::V4(v4) => usize::from(v4.octets()[2]) << 8 | usize::from(v4.octets()[3]),
        IpAddr::V6(_) => 0,
    };
    for step in 0..millis / 100 {
        bench.now += Duration::from_millis(100);
        while let Some(due) = bench.cache.pop_due(bench.now, &mut bench.counters) {
            if let Some(question) = due {
                asked[at(question.target)].push(step * 100);
            }
        }
        for n in 0..targets {
            if matches!(bench.resolve(n), Lookup::Pending { solicit: true, .. }) {
                asked[usize::from(n)].push(step * 100);
            }
        }
        while bench.cache.pop_ended().is_some() {}
    }
    asked
}

/// RFC 1122 §2.3.2-1; RFC 4861 §7.2.2-2.
#[test]
fn a_flood_of_unknown_neighbours_asks_for_each_once_a_second_at_most() {
    let mut bench = Bench::new(1_024);
    let asked = flood(&mut bench, 4_000, 10_000);
    for times in &asked {
        assert!(
            times.windows(2).all(|pair| pair[1] - pair[0] >= 1_000),
            "{times:?}"
        );
    }
    let questions: usize = asked.iter().map(Vec::len).sum();
    assert!(
        (1_000..2_048 + 512 * 10 + 1).contains(&questions),
        "{questions}"
    );
}

#[test]
fn a_flood_leaves_questions_for_who_was_known() {
    let mut bench = Bench::new(1_024);
    bench.resolve(5_000);
    let answer = Advertisement {
        mac: Some(A),
        solicited: true,
        override_flag: true,
    };
    bench.cache.advertise(bench.now, PORT, addr(5_000), answer);
    bench.confirm(addr(5_000));
    bench.run(Duration::from_secs(46));
    bench.resolve(5_000);
    let mut about = Vec::new();
    for _ in 0..200 {
        bench.now += Duration::from_millis(100);
        while let Some(due) = bench.cache.pop_due(bench.now, &mut bench.counters) {
            about.extend(due.filter(|question| question.target == addr(5_000)));
        }
        for n in 0..4_000 {
            bench.resolve(n);
        }
    }
    let to: Vec<_> = about.iter().map(|question| question.to).collect();
    assert_eq!(
        to,
        [Some(A), Some(A), Some(A), None, None, None],
        "by unicast, then of everybody"
    );
}

/// A cache for which a flood has used up the questions.
fn flooded(places: u32) -> Bench {
    let mut bench = Bench::new(places);
    bench.cache.note_guest(bench.now, PORT, addr(5_000), B);
    assert!(!bench.cache.notes_guests(), "nobody is noted without need");
    flood(&mut bench, 4_000, 2_000);
    assert!(bench.cache.notes_guests());
    bench
}

#[test]
fn in_a_flood_a_new_neighbour_is_where_its_frames_come_from() {
    let mut bench = flooded(1_024);
    assert!(!matches!(bench.resolve(5_000), Lookup::Ready(_)));
    bench.cache.note_guest(bench.now, PORT, addr(5_000), A);
    assert_eq!(bench.resolve(5_000), Lookup::Ready(A));
    bench.confirm(addr(5_000));
    let reachable = Some((State::Reachable, A));
    assert_eq!(bench.cache.state(PORT, addr(5_000)), reachable);
    bench.cache.note_guest(bench.now, PORT, addr(5_000), B);
    assert_eq!(bench.resolve(5_000), Lookup::Ready(A), "it is known");
    bench.run(Duration::from_secs(10));
    bench.cache.note_guest(bench.now, PORT, addr(5_001), A);
    assert!(!bench.cache.notes_guests(), "it is over");
    let asks = bench.resolve(5_001);
    assert!(matches!(asks, Lookup::Pending { solicit: true, .. }));
}

#[test]
fn what_an_acknowledgement_proves_wakes_who_waited() {
    let mut bench = flooded(16_384);
    let mut waits = |n: &u16| match bench.resolve(*n) {
        Lookup::Pending { slot, .. } => bench.cache.entries[slot as usize].asked.is_none(),
        _ => false,
    };
    let n = (0..4_000).find(|n| waits(n)).unwrap();
    bench.cache.note_guest(bench.now, PORT, addr(n), A);
    bench.confirm(addr(n));
    let ended = bench.cache.pop_ended().unwrap();
    assert_eq!((ended.addr, ended.mac), (addr(n), Some(A)));
}

#[test]
fn who_was_asked_for_answers_itself_also_in_a_flood() {
    let mut bench = Bench::new(1_024);
    bench.resolve(5_000);
    flood(&mut bench, 4_000, 500);
    bench.cache.note_guest(bench.now, PORT, addr(5_000), A);
    assert!(matches!(bench.resolve(5_000), Lookup::Pending { .. }));
    bench.confirm(addr(5_000));
    assert!(matches!(bench.resolve(5_000), Lookup::Pending { .. }));
}
