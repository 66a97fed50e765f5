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
            bench.cache.confirm(bench.now, PORT, addr(n));
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

/// The questions about each of `targets`, over `millis`, when each is wanted each 100 ms; at which milliseconds.
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
    bench.cache.confirm(bench.now, PORT, addr(5_000));
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
