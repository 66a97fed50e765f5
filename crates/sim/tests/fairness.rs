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
