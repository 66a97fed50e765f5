//! How flows of each algorithm fill and share a bottleneck.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use mtcp_core::config::CongestionControl;
use sim::bottleneck::{Bottleneck, Flow, Shares};

const MBPS: u64 = 1_000_000;

fn run(bottleneck: &Bottleneck) -> Shares {
    bottleneck
        .run()
        .unwrap_or_else(|failure| panic!("{failure}"))
}

/// What people compare, rounded so that it can be read.
fn summary(shares: &Shares) -> String {
    format!(
        "fills {:.1}%, Jain {:.3}, waits {:.1} ms, drops {}, retransmits {}, time-outs {}",
        100.0 * shares.utilisation(),
        shares.jain(),
        shares.queue_delay().as_secs_f64() * 1e3,
        shares.link.tail_dropped,
        shares.retransmits,
        shares.timeouts,
    )
}

/// The algorithms, each once.
fn algorithms() -> impl Iterator<Item = (&'static str, CongestionControl)> {
    let names = CongestionControl::NAMES.iter().copied();
    names.filter(|(name, kind)| kind.name() == *name)
}

/// One line of figures per algorithm.
fn of_each(bottleneck: impl Fn(CongestionControl) -> Bottleneck) -> Vec<(&'static str, Shares)> {
    algorithms()
        .map(|(name, kind)| (name, run(&bottleneck(kind))))
        .collect()
}

fn table(figures: &[(&str, Shares)]) -> String {
    let lines = figures
        .iter()
        .map(|(name, shares)| format!("{name}: {}", summary(shares)));
    lines.collect::<Vec<_>>().join("\n")
}

fn flow(kind: CongestionControl) -> Flow {
    Flow {
        congestion: Some(kind),
        ..Flow::default()
    }
}

/// Two flows for a minute over 100 Mbit/s and 20 ms.
#[test]
fn a_pair_of_each_algorithm_shares_fairly() {
    let figures = of_each(|kind| {
        Bottleneck::new(
            100 * MBPS,
            Duration::from_millis(20),
            &[flow(kind), flow(kind)],
        )
    });
    eprintln!("{}", table(&figures));
    for (name, shares) in figures {
        assert!(shares.jain() >= 0.95, "{name}: {shares:?}");
        assert!(shares.utilisation() >= 0.90, "{name}: {shares:?}");
    }
}

/// `MTCP_FULL=1`: everything as large as it is meant.
fn full() -> bool {
    std::env::var_os("MTCP_FULL").is_some()
}

/// Flows of CUBIC, 1.25 Mbit/s for each over 40 ms: four segments on the way, and as many in the
/// queue. It is what the paper on mTCP has for its 8,000 flows over 10 Gbit/s, which take 10 MiB
/// each; here they are measured for as long behind the start.
///
/// They begin within a second, each at its own time. Here the links of the senders carry a burst in
/// no time: flows of one host that began at the same moment would lose their first windows
/// together, time out at the same millisecond, and meet a full queue together again, each time
/// twice as late. And the hosts poll: in the 20 µs that others take to notice a frame, 16 pass at
/// 10 Gbit/s, and flows whose windows travel in one piece lose much of it at once.
fn crowd(flows: u32, seconds: u64) -> Bottleneck {
    const EACH: u64 = 1_250_000;
    let rate = u64::from(flows) * EACH;
    let begun = |index: u32| Flow {
        // Multiples of the golden ratio: even, and in no order.
        after: Duration::from_micros(u64::from(index) * 618_033_989 % 1_000_000_000 / 1000),
        ..flow(CongestionControl::Cubic)
    };
    let flows: Vec<_> = (0..flows).map(begun).collect();
    let mut bottleneck = Bottleneck {
        warm_up: Duration::from_secs(5),
        time: Duration::from_secs(seconds),
        ..Bottleneck::new(rate, Duration::from_millis(40), &flows)
    };
    bottleneck.style.latency = Duration::from_micros(2);
    bottleneck.stack.max_connections = 10_000;
    bottleneck.stack.max_half_open = 10_000;
    bottleneck.style.trust_checksums = true;
    bottleneck
}

/// What each gets is an average over its windows, which go up and down by a third with each loss,
/// each at its own time: over half the time there is less to average.
#[test]
fn a_crowd_shares_fairly() {
    let (flows, seconds, least) = if full() {
        (8_000, 67, 0.99)
    } else {
        (64, 30, 0.97)
    };
    let shares = run(&crowd(flows, seconds));
    eprintln!("{}", summary(&shares));
    assert!(shares.jain() >= least, "{}", summary(&shares));
    assert!(shares.utilisation() >= 0.90, "{}", summary(&shares));
    // Those of the start: first windows are more than path and queue hold.
    let timeouts = shares.timeouts / u64::from(flows);
    assert!(timeouts <= 2, "{}", summary(&shares));
}
