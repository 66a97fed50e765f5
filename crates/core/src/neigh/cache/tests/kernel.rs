//! Neighbours that the kernel asks.

use super::*;

/// What the kernel is reminded of or asked, in milliseconds from now.
fn asked(bench: &mut Bench, time: Duration) -> Vec<u64> {
    bench.run(time).into_iter().map(|(at, _)| at).collect()
}

fn bench() -> Bench {
    let mut bench = Bench::new(4);
    bench.cache.leave_to_kernel();
    bench
}

impl Bench {
    fn hear(&mut self, n: u16, told: Told) {
        let of = (PORT, addr(n));
        self.cache.hear(self.now, of, told, &mut self.counters);
    }

    fn known(n: u16) -> Self {
        let mut bench = bench();
        bench.resolve(n);
        bench.hear(n, at(A, true));
        while bench.cache.pop_ended().is_some() {}
        bench
    }
}

fn at(mac: MacAddr, reachable: bool) -> Told {
    Told::At { mac, reachable }
}

#[test]
fn of_strangers_the_kernel_tells_nothing() {
    let mut bench = bench();
    for told in [at(A, true), Told::Failed, Told::Forgotten] {
        bench.hear(1, told);
        assert_eq!(bench.cache.len(), 0);
    }
}

#[test]
fn what_the_kernel_finds_ends_the_wait() {
    for reachable in [true, false] {
        let mut bench = bench();
        assert!(matches!(
            bench.resolve(1),
            Lookup::Pending { solicit: true, .. }
        ));
        bench.hear(1, at(A, reachable));
        assert_eq!(bench.cache.pop_ended().unwrap().mac, Some(A));
        assert_eq!(bench.resolve(1), Lookup::Ready(A));
    }
}

#[test]
fn who_does_not_answer_the_kernel_is_asked_again_a_second_later() {
    let mut bench = bench();
    bench.resolve(1);
    bench.hear(1, Told::Failed);
    assert_eq!(bench.cache.pop_ended().unwrap().mac, None);
    assert_eq!(bench.resolve(1), Lookup::Failed);
    bench.run(Duration::from_millis(1_002));
    assert!(matches!(
        bench.resolve(1),
        Lookup::Pending { solicit: true, .. }
    ));
}

#[test]
fn a_neighbour_that_moved_is_used_where_it_is_from_then_on() {
    for reachable in [true, false] {
        let mut bench = Bench::known(1);
        assert_eq!(bench.resolve(1), Lookup::Ready(A));
        bench.hear(1, at(B, reachable));
        assert_eq!(bench.cache.known(PORT, addr(1)), None);
        assert_eq!(bench.resolve(1), Lookup::Ready(B));
    }
}

/// The kernel sees no traffic: without reminders it forgets who is in use.
#[test]
fn the_kernel_is_reminded_of_who_is_in_use_and_nobody_else() {
    let mut bench = Bench::known(1);
    let mut reminders = 0;
    for _ in 0..24 {
        bench.confirm(addr(1));
        bench.resolve(1);
        reminders += asked(&mut bench, Duration::from_secs(5)).len();
    }
    assert!((2..=9).contains(&reminders), "{reminders} in two minutes");
    asked(&mut bench, Duration::from_secs(60));
    assert_eq!(bench.state(), State::Stale);
    assert_eq!(asked(&mut bench, Duration::from_secs(600)), []);
    // The next packet goes where it was, and the kernel finds out whether it is there still.
    assert_eq!(bench.resolve(1), Lookup::Ready(A));
    assert!(!asked(&mut bench, Duration::from_millis(2)).is_empty());
}

#[test]
fn no_time_out_but_the_kernel_says_that_a_neighbour_is_gone() {
    let mut bench = Bench::known(1);
    asked(&mut bench, Duration::from_secs(60));
    bench.resolve(1);
    bench.cache.suspect(bench.now, PORT, addr(1));
    asked(&mut bench, Duration::from_secs(120));
    assert_eq!(bench.resolve(1), Lookup::Ready(A));
    bench.hear(1, Told::Failed);
    assert_eq!(bench.resolve(1), Lookup::Failed);
}

#[test]
fn who_the_kernel_forgot_is_asked_for_at_once_and_sent_to_meanwhile() {
    let mut bench = Bench::known(1);
    bench.resolve(1);
    bench.hear(1, Told::Forgotten);
    assert_eq!(asked(&mut bench, Duration::from_millis(2)).len(), 1);
    assert_eq!(bench.resolve(1), Lookup::Ready(A));
    // Nobody sends to it.
    asked(&mut bench, Duration::from_secs(60));
    let mut bench = Bench::known(1);
    asked(&mut bench, Duration::from_secs(60));
    bench.hear(1, Told::Forgotten);
    assert_eq!(asked(&mut bench, Duration::from_secs(60)), []);
}

#[test]
fn what_comes_from_a_neighbour_proves_more_than_its_silence() {
    let mut bench = Bench::known(1);
    bench.confirm(addr(1));
    bench.hear(1, Told::Failed);
    assert_eq!(bench.resolve(1), Lookup::Ready(A));
}
