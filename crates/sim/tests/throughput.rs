//! What one flow with default settings makes of a long path.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use mtcp_core::config::CongestionControl;
use sim::bottleneck::{Bottleneck, Flow, Shares};

const MBPS: u64 = 1_000_000;
const ROUND_TRIP: Duration = Duration::from_millis(100);

/// `MTCP_FULL=1`: everything as large as it is meant.
fn full() -> bool {
    std::env::var_os("MTCP_FULL").is_some()
}

fn flow(kind: CongestionControl) -> Flow {
    Flow {
        congestion: Some(kind),
        ..Flow::default()
    }
}

fn run(bottleneck: &Bottleneck) -> Shares {
    let shares = bottleneck.run();
    let shares = shares.unwrap_or_else(|failure| panic!("{failure}"));
    eprintln!("{:.3} of the path: {shares:?}", shares.utilisation());
    shares
}

/// A minute from the first SYN over 1 Gbit/s and 100 ms; or some seconds behind slow start over a
/// fifth of that.
fn alone(kind: CongestionControl) -> Bottleneck {
    let seconds = Duration::from_secs;
    let (rate, warm_up, time) = if full() {
        (1000 * MBPS, seconds(0), seconds(60))
    } else {
        (200 * MBPS, seconds(3), seconds(4))
    };
    Bottleneck {
        warm_up,
        time,
        ..Bottleneck::new(rate, ROUND_TRIP, &[flow(kind)])
    }
}

fn fills_the_path(kind: CongestionControl) {
    let shares = run(&alone(kind));
    assert!(shares.utilisation() >= 0.90, "{shares:?}");
}

#[test]
fn cubic_fills_a_long_path() {
    fills_the_path(CongestionControl::Cubic);
}

#[test]
fn new_reno_fills_a_long_path() {
    fills_the_path(CongestionControl::NewReno);
}

#[test]
fn bbr_fills_a_long_path() {
    fills_the_path(CongestionControl::Bbr);
}

/// Over a path that loses one segment of a thousand at random.
fn with_random_loss(kind: CongestionControl, rate: u64, warm_up: u64, time: u64) -> Shares {
    let mut bottleneck = Bottleneck {
        warm_up: Duration::from_secs(warm_up),
        time: Duration::from_secs(time),
        ..Bottleneck::new(rate, ROUND_TRIP, &[flow(kind)])
    };
    bottleneck.link.there.impairments = "loss=0.1%".parse().unwrap();
    run(&bottleneck)
}

/// It does not take single losses for congestion, though there be some in every round trip.
#[test]
fn bbr_fills_a_long_path_that_loses_segments() {
    let (rate, least) = if full() { (1000, 0.75) } else { (100, 0.88) };
    let shares = with_random_loss(CongestionControl::Bbr, rate * MBPS, 5, 10);
    assert!(shares.utilisation() >= least, "{shares:?}");
    assert_eq!(shares.timeouts, 0);
}

/// A path that does everything wrong, to ACKs too: what is lost is repaired while other holes are
/// there, also when it was sent again, without a time-out, which would be the time of twenty round
/// trips.
#[test]
fn bbr_goes_on_over_a_path_that_loses_repeats_and_damages() {
    let mut bottleneck = Bottleneck {
        time: Duration::from_secs(10),
        ..Bottleneck::new(
            100 * MBPS,
            Duration::from_millis(10),
            &[flow(CongestionControl::Bbr)],
        )
    };
    let faults = "loss=4%,dup=2%,reorder=5%,corrupt=2%".parse().unwrap();
    bottleneck.link.there.impairments = faults;
    bottleneck.link.back.impairments = faults;
    let shares = run(&bottleneck);
    assert!(shares.utilisation() >= 0.4, "{shares:?}");
    assert_eq!(shares.timeouts, 0);
}

/// RFC 9438 §5.1: 1.054 * (RTT / p)^0.75 are 33 segments, and what Reno would have, 1.22 / sqrt(p),
/// is more: 38.6 a round trip, however fast the path.
#[test]
fn cubic_with_random_loss_does_what_theory_says() {
    let shares = with_random_loss(CongestionControl::Cubic, 100 * MBPS, 20, 200);
    let segments = shares.goodput[0] as f64 * ROUND_TRIP.as_secs_f64() / 8.0 / 1448.0;
    assert!(
        (0.85..1.3).contains(&(segments / 38.6)),
        "{segments}: {shares:?}"
    );
}
