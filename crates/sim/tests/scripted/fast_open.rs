//! TCP Fast Open between two hosts over bad networks: every byte once, in order, and nothing left.

use std::time::Duration;

use sim::{Ending, Expect, ListenPlan, LoadPlan, Plan, Record};

use crate::common::{Pair, ms};

fn exchange(seed: u64, impairments: &str, change: impl Fn(&mut Plan)) -> Pair {
    let mut pair = Pair::new(seed, ms(5));
    pair.change(|pipe| pipe.impairments = impairments.parse().unwrap());
    let mut server = Plan::echo();
    server.options.fast_open = Some(16);
    let mut client = Plan {
        expect: Expect::Echo,
        tries: 100,
        linger: true,
        send: (0, 5000),
        ..Plan::default()
    };
    client.options.fast_open_connect = true;
    change(&mut client);
    let remote = pair.addr(pair.b, 7);
    pair.net
        .listen(pair.b, ListenPlan::new(remote, server))
        .unwrap();
    let load = LoadPlan {
        remote,
        total: 40,
        concurrent: 3,
        gap: ms(50),
        plan: client,
    };
    pair.net.load(pair.a, load).unwrap();
    pair.finish();
    let records = pair.net.host(pair.a).unwrap().apps().records();
    assert_eq!(records.len(), 40);
    let is_good = |record: &Record| record.connected && record.error.is_none();
    assert!(records.iter().all(is_good), "seed {seed}");
    pair
}

fn fast_opens(pair: &Pair) -> (u64, u64) {
    let counters = |host| pair.net.host(host).unwrap().stack().counters();
    (
        counters(pair.a).fast_opens_out,
        counters(pair.b).fast_opens_in,
    )
}

/// After the first few connections, which bring the cookie, every one that has something to say
/// opens fast.
#[test]
fn on_a_good_network() {
    let pair = exchange(1, "", |client| client.send = (1, 5000));
    let (out, accepted) = fast_opens(&pair);
    assert!(out >= 37 && accepted == out, "{out} out, {accepted} in");
}

/// A request and its answer take one round trip instead of two.
#[test]
fn it_saves_a_round_trip() {
    let times = |fast: bool| -> Vec<Duration> {
        let pair = exchange(2, "", |client| {
            client.send = (100, 100);
            client.ending = Ending::AfterBytes(100);
            client.options.fast_open_connect = fast;
        });
        let records = pair.net.host(pair.a).unwrap().apps().records();
        let mut times: Vec<_> = records
            .iter()
            .map(|record| record.closed_at - record.opened_at)
            .collect();
        times.sort_unstable();
        times
    };
    let (fast, plain) = (times(true)[20], times(false)[20]);
    assert!(fast + ms(9) <= plain, "{fast:?} against {plain:?}");
}

#[test]
fn on_bad_networks() {
    let mut sum = (0, 0);
    for seed in 0..20 {
        let pair = exchange(seed, "loss=5%,reorder=5%,dup=3%,jitter=2ms", |_| {});
        let records = pair.net.host(pair.a).unwrap().apps().records();
        assert!(records.iter().all(Record::is_clean), "seed {seed}");
        let (out, accepted) = fast_opens(&pair);
        sum = (sum.0 + out, sum.1 + accepted);
    }
    assert!(sum.0 > 100 && sum.1 > 100, "{sum:?}");
}
