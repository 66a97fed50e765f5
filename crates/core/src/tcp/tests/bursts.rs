//! ACKs that are taken in one burst, before anything can be sent, do what they do one by one.

use crate::config::CongestionControl;
use crate::testing::{Handshake, Harness, Seg, seg};

const WIN: u16 = 60_000;

fn ack(n: u32, blocks: &[(u32, u32)]) -> Seg {
    seg().seq(1).ack(n).win(WIN).sack(blocks)
}

/// In congestion avoidance with a window of 14 segments of 1000 bytes, all in flight, and much more
/// to send; what comes next.
fn avoiding() -> (Harness, u32) {
    let mut h = Harness::with(|config| config.congestion = CongestionControl::NewReno)
        .and_established(&Handshake {
            sack: true,
            ..Handshake::default()
        });
    h.write(65_000);
    h.drain();
    let mut una = 1;
    // Slow start to 28 segments.
    while h.info().cwnd < 28_000 {
        una += 1000;
        h.send(ack(una, &[]));
        h.write(1000);
        h.drain();
    }
    let lost = una;
    let end = una + h.info().flight;
    let mut sacked = una + 1000;
    while sacked < end {
        sacked += 1000;
        h.send(ack(lost, &[(lost + 1000, sacked)]));
        h.drain();
    }
    let next = end + h.info().flight - (end - lost);
    h.send(ack(next, &[]));
    h.write(next as usize - lost as usize);
    h.drain();
    (h, next)
}

/// The window, after so many round trips of so many segments, `burst` ACKs at a time.
fn after(burst: usize) -> (u32, u32) {
    let (mut h, mut una) = avoiding();
    let before = h.info().cwnd;
    for _ in 0..60 / burst {
        let acks: Vec<_> = (0..burst)
            .map(|_| {
                una += 1000;
                ack(una, &[])
            })
            .collect();
        h.inject_all(&acks);
        h.write(1000 * burst);
        h.drain();
    }
    (before, h.info().cwnd)
}

/// RFC 5681 §3.1-8.
#[test]
fn a_full_window_grows_as_fast() {
    let (before, one_by_one) = after(1);
    assert!(one_by_one >= before + 3000, "{before} to {one_by_one}");
    for burst in [2, 5, 10] {
        assert_eq!(after(burst), (before, one_by_one), "{burst} at a time");
    }
}

/// RFC 5681 §3.1-5: what was outstanding is a full window, although ACKs before the first sign of
/// loss had made room.
#[test]
fn a_loss_takes_no_more() {
    let (mut h, una) = avoiding();
    let cwnd = h.info().cwnd;
    let mut acks: Vec<_> = (1..=6).map(|n| ack(una + n * 1000, &[])).collect();
    let lost = una + 6000;
    acks.extend((2..=4).map(|n| ack(lost, &[(lost + 1000, lost + n * 1000)])));
    h.inject_all(&acks);
    let ssthresh = h.info().ssthresh;
    assert!(ssthresh >= cwnd / 2, "{ssthresh} of {cwnd}");
}
