//! Pacing: what an application may ask for, as its peer sees it.

use crate::command::{Command, Options};
use crate::config::CongestionControl;
use crate::testing::{Handshake, Harness, seg};

const WIN: u16 = 60_000;

/// Connected, with 10 ms for each segment of 1000 bytes.
fn paced() -> Harness {
    let options = Options {
        max_pacing_rate: Some(100_000),
        ..Options::default()
    };
    Harness::new().and_connected(&Handshake::default(), options)
}

#[test]
fn segments_leave_one_by_one() {
    let mut h = paced();
    h.write(4000);
    h.expect(seg().seq(1).len(1000));
    h.expect_nothing();
    // Whoever comes from a silence has 2 ms of credit.
    for (i, wait) in [8, 10, 10].into_iter().enumerate() {
        h.expect_silence(wait - 1);
        h.advance(1);
        h.expect(seg().seq(1001 + i as u32 * 1000).len(1000));
        h.expect_nothing();
    }
}

#[test]
fn an_acknowledgment_does_not_wait_for_data_that_does() {
    let mut h = paced();
    h.write(4000);
    h.drain();
    h.send(seg().seq(1).len(100).ack(1).win(WIN));
    h.expect(seg().seq(1001).ack(101));
}

#[test]
fn data_that_waits_with_nothing_in_flight_needs_no_probe() {
    let mut h = paced();
    h.write(4000);
    h.drain();
    h.send(seg().seq(1).ack(1001).win(WIN));
    h.expect_nothing();
    h.advance(8);
    h.expect(seg().seq(1001).len(1000));
    assert_eq!(h.stack.counters().window_probes, 0);
}

#[test]
fn without_the_limit_everything_leaves() {
    let mut h = paced();
    h.write(4000);
    h.drain();
    let (conn, options) = (h.id(), Options::default());
    h.execute(Command::SetOptions { conn, options });
    h.transmit();
    for seq in [1001, 2001, 3001] {
        h.expect(seg().seq(seq).len(1000));
    }
}

/// draft-ietf-ccwg-bbr §5.6.2: 2.77 times the initial window per round trip.
#[test]
fn bbr_spreads_its_first_window() {
    let mut h = Harness::new();
    h.connect(Options {
        congestion: Some(CongestionControl::Bbr),
        ..Options::default()
    });
    h.advance(277);
    h.send(Handshake::default().syn().ack(1));
    h.drain();
    h.write(20_000);
    // 10 segments in 100 ms: every 10 ms one.
    let mut sent = h.drain();
    assert_eq!(sent, 1);
    h.advance(90);
    sent += h.drain();
    assert!((9..=11).contains(&sent), "{sent}");
}
