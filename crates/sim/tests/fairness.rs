//! How flows fill and share a bottleneck.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use sim::bottleneck::{Bottleneck, Flow, Shares};

const MBPS: u64 = 1_000_000;

fn run(bottleneck: &Bottleneck) -> Shares {
    bottleneck
        .run()
        .unwrap_or_else(|failure| panic!("{failure}"))
}

/// Two flows for a minute over 100 Mbit/s and 20 ms.
#[test]
fn a_pair_shares_fairly() {
    let bottleneck = Bottleneck::new(
        100 * MBPS,
        Duration::from_millis(20),
        &[Flow::default(), Flow::default()],
    );
    let shares = run(&bottleneck);
    assert!(
        shares.jain() >= 0.95 && shares.utilisation() >= 0.90,
        "{shares:?}"
    );
    // The queue holds 20 ms, and one packet more.
    assert!(shares.link.longest_wait <= Duration::from_millis(21));
    assert!(shares.queue_delay() < shares.link.longest_wait);
}
