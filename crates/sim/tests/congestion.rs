//! Each algorithm of congestion control on a path with a bottleneck.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::{Pair, ms};
use mtcp_core::Counters;
use mtcp_core::command::Options;
use mtcp_core::config::CongestionControl;
use sim::{HostConfig, Plan};

/// 50 Mbit/s and 40 ms there and back: 250 kB are under way when the path is full.
const RATE: u64 = 50_000_000;
const PRODUCT: u64 = 250_000;

/// What a transfer came to.
struct Outcome {
    /// Share of the rate that the bytes needed, in percent.
    percent: u64,
    counters: Counters,
    dropped: u64,
}

fn large_buffers(config: &mut HostConfig) {
    let stack = &mut config.stack;
    (stack.recv_buffer, stack.send_buffer, stack.max_buffer) = (8 << 20, 8 << 20, 8 << 20);
}

fn transfer(options: Options, loss: &str, queue: u64, bytes: u64) -> Outcome {
    let mut pair = Pair::with(1, ms(20), large_buffers);
    pair.change(|pipe| {
        pipe.bits_per_second = Some(RATE);
        pipe.queue_bytes = queue;
        pipe.impairments = loss.parse().unwrap();
    });
    let plan = Plan {
        write_size: (64 << 10, 64 << 10),
        read_size: (64 << 10, 64 << 10),
        options,
        ..Plan::default()
    };
    pair.talk(plan.sends(bytes), plan);
    pair.finish();
    let [host, peer] = [pair.a, pair.b].map(|id| pair.net.host(id).unwrap());
    // The receiver is done when it has read everything.
    let [begun, ended] = [host, peer].map(|host| host.apps().records()[0]);
    assert_eq!((ended.is_clean(), ended.received), (true, bytes));
    let took = ended.closed_at - begun.opened_at;
    let ideal = Duration::from_nanos(bytes * 8 * 1_000_000_000 / RATE);
    let counters = host.stack().counters().clone();
    let pipe = pair.net.pipe_mut(pair.link, sim::Direction::There).unwrap();
    Outcome {
        percent: (ideal.as_nanos() * 100 / took.as_nanos()) as u64,
        counters,
        dropped: pipe.stats().tail_dropped,
    }
}

fn with(kind: CongestionControl) -> Options {
    Options {
        congestion: Some(kind),
        ..Options::default()
    }
}

#[test]
fn each_algorithm_fills_the_path() {
    // Slow start fills the queue once, and what it costs to repair that is in these figures.
    for (kind, least) in [
        (CongestionControl::Cubic, 85),
        (CongestionControl::NewReno, 75),
        (CongestionControl::Dctcp, 75),
        (CongestionControl::Bbr, 85),
    ] {
        let outcome = transfer(with(kind), "", PRODUCT, 40_000_000);
        let percent = outcome.percent;
        assert!(percent >= least, "{kind:?}: {percent} %");
        assert_eq!(outcome.counters.timeouts, 0, "{kind:?}");
    }
}

/// RFC 9406: a queue that is deep enough for five rounds of conservative slow start behind the
/// delay never overflows.
#[test]
fn slow_start_ends_by_itself() {
    for kind in [CongestionControl::Cubic, CongestionControl::NewReno] {
        let outcome = transfer(with(kind), "", 12 * PRODUCT, 20_000_000);
        assert_eq!(outcome.dropped, 0, "{kind:?}");
        assert_eq!(outcome.counters.retransmits, 0, "{kind:?}");
    }
}

/// A thousandth lost at random: Reno gets 1.2 / sqrt(p) segments per round trip, and CUBIC as much,
/// since its own 1.054 * (RTT / p)^0.75 is less (RFC 9438 §5.1): 38, which are 11 Mbit/s. BBR does
/// not take it for congestion.
#[test]
fn random_loss() {
    let bbr = transfer(
        with(CongestionControl::Bbr),
        "loss=0.1%",
        PRODUCT,
        40_000_000,
    );
    assert!(bbr.percent >= 80, "{} %", bbr.percent);
    for kind in [CongestionControl::Cubic, CongestionControl::NewReno] {
        let outcome = transfer(with(kind), "loss=0.1%", PRODUCT, 30_000_000);
        let percent = outcome.percent;
        assert!((15..=32).contains(&percent), "{kind:?}: {percent} %");
    }
}

/// SO_MAX_PACING_RATE: 2 MB/s of the 6.25 there are.
#[test]
fn a_limit_to_the_rate_holds() {
    for kind in [CongestionControl::Cubic, CongestionControl::Bbr] {
        let options = Options {
            max_pacing_rate: Some(2_000_000),
            ..with(kind)
        };
        let outcome = transfer(options, "", PRODUCT, 20_000_000);
        let percent = outcome.percent;
        assert!((30..=32).contains(&percent), "{kind:?}: {percent} %");
        assert_eq!(outcome.dropped, 0);
    }
}
