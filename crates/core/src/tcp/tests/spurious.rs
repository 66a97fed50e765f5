//! Losses that were none: F-RTO (RFC 5682), Eifel (RFC 3522, RFC 4015), D-SACK (RFC 3708).

use crate::command::Options;
use crate::config::CongestionControl;
use crate::testing::{Handshake, Harness, Seg, seg};

const WIN: u16 = 60_000;
const RTT: u64 = 40;

fn ack(n: u32, blocks: &[(u32, u32)]) -> Seg {
    seg().seq(1).ack(n).win(WIN).sack(blocks)
}

/// A connection over a path of 40 ms.
fn far(sack: bool, stamps: bool) -> Harness {
    let offer = Handshake {
        sack,
        ts: stamps.then_some(1),
        mss: Some(if stamps { 1012 } else { 1000 }),
        ..Handshake::default()
    };
    let mut h = Harness::with(|config| config.congestion = CongestionControl::NewReno);
    let options = Options {
        nodelay: true,
        ..Options::default()
    };
    h.listen(4, options);
    h.syn_received(&offer);
    h.advance(RTT);
    h.send(h.handshake_ack(&offer));
    h.take_accepted();
    h
}

/// Ten segments that time out, all at once, with `more` bytes behind them. The first has been sent
/// again.
fn timed_out(sack: bool, stamps: bool, more: usize) -> Harness {
    let mut h = far(sack, stamps);
    h.write(10_000 + more);
    assert_eq!(h.drain(), 10);
    while h.stack.counters().timeouts == 0 {
        h.advance(1);
    }
    let sent = h.drain();
    // With SACK a tail loss probe went before.
    assert_eq!(sent, 1 + usize::from(sack));
    assert!(h.info().ssthresh < u32::MAX && h.info().cwnd == 1000);
    h
}

/// RFC 5682 §2.1-1, §2.1-3, §2.1-5.
#[test]
fn frto_without_sack() {
    let mut h = timed_out(false, false, 20_000);
    // Step 2b: the late ACK of the first segment lets new data go, not the old again.
    h.send(ack(1001, &[]));
    h.expect(seg().seq(10_001).len(1000));
    h.expect(seg().seq(11_001).len(1000));
    h.expect_nothing();
    // Step 3b: that one was never sent again.
    h.send(ack(2001, &[]));
    assert_eq!(h.stack.counters().spurious_losses, 1);
    let info = h.info();
    assert_eq!((info.ssthresh, info.backoff), (u32::MAX, 0));
    // RFC 4015: what is in flight, and an initial window.
    assert!(info.cwnd >= 10_000, "{}", info.cwnd);
    while let Some((_, _, header, _)) = h.pop() {
        assert!(header.seq - h.sent_syn() >= 12_001, "sent again");
    }
    h.send(ack(12_001, &[]));
    assert_eq!(h.stack.counters().retransmits, 1);
}

/// RFC 5682 §3.1-1.
#[test]
fn frto_with_sack() {
    let mut h = timed_out(true, false, 20_000);
    let backed_off = h.info().rto;
    h.send(ack(1001, &[]));
    h.expect(seg().seq(11_001).len(1000));
    h.expect(seg().seq(12_001).len(1000));
    h.expect_nothing();
    // Something from before the time-out, out of order.
    h.send(ack(1001, &[(2001, 3001)]));
    let info = h.info();
    assert_eq!((info.ssthresh, info.backoff), (u32::MAX, 0));
    assert_eq!(h.stack.counters().spurious_losses, 1);
    // The ACK that took so long is a measurement now.
    assert!(info.srtt.as_millis() > u128::from(RTT));
    assert!(info.rto < 2 * backed_off);
}

/// RFC 5682 §2.1-4, §3.1-2.
#[test]
fn frto_sees_a_real_loss() {
    for sack in [false, true] {
        let mut h = timed_out(sack, false, 20_000);
        h.send(ack(1001, &[]));
        let new = 10_001 + 1000 * u32::from(sack);
        h.expect(seg().seq(new).len(1000));
        h.expect(seg().seq(new + 1000).len(1000));
        // Step 3a: the new data arrived, what was sent before it did not.
        let blocks = [(new, new + 1000)];
        h.send(ack(1001, if sack { &blocks } else { &[] }));
        h.expect(seg().seq(1001).len(1000));
        let info = h.info();
        assert!(info.cwnd <= 3000 && info.ssthresh < u32::MAX);
        assert_eq!(h.stack.counters().spurious_losses, 0);
    }
}

/// RFC 5682 §2.1-7.
#[test]
fn frto_without_new_data_is_conventional() {
    let mut h = timed_out(false, false, 0);
    h.send(ack(1001, &[]));
    h.expect(seg().seq(1001).len(1000));
    h.expect(seg().seq(2001).len(1000));
}

/// RFC 5682 §2.1-2.
#[test]
fn frto_learns_nothing_from_an_ack_of_everything() {
    // Step 2a: perhaps only the first was lost, and perhaps all ACKs.
    let mut h = timed_out(false, false, 20_000);
    h.send(ack(10_001, &[]));
    assert_eq!(h.stack.counters().spurious_losses, 0);
    assert!(h.info().ssthresh < u32::MAX);
}

/// RFC 5682 §2.1-6.
#[test]
fn frto_survives_a_second_time_out() {
    let mut h = timed_out(false, false, 20_000);
    while h.stack.counters().timeouts == 1 {
        h.advance(1);
    }
    h.expect(seg().seq(1).len(1000));
    h.send(ack(1001, &[]));
    assert_eq!(h.drain(), 2);
    h.send(ack(2001, &[]));
    assert_eq!(h.info().ssthresh, u32::MAX);
}

#[test]
fn eifel_undoes_a_time_out_with_the_first_ack() {
    let mut h = timed_out(true, true, 20_000);
    // TSecr: the original transmission, one round trip after the SYN-ACK.
    h.send(ack(1001, &[]).ts(2, RTT as u32));
    let info = h.info();
    assert_eq!((info.ssthresh, info.backoff), (u32::MAX, 0));
    while let Some((_, _, header, _)) = h.pop() {
        assert!(header.seq - h.sent_syn() >= 11_001, "sent again");
    }
}

#[test]
fn eifel_believes_the_echo_of_the_retransmission() {
    let mut h = timed_out(true, true, 20_000);
    let resent = h.elapsed() as u32;
    h.send(ack(1001, &[]).ts(2, resent));
    assert!(h.info().ssthresh < u32::MAX);
    assert_eq!(h.stack.counters().spurious_losses, 0);
}

#[test]
fn eifel_does_not_take_lost_acks_for_late_segments() {
    // RFC 3522 §3 step 5: everything is acknowledged, and the peer has never reported a duplicate.
    let mut h = timed_out(true, true, 20_000);
    h.send(ack(11_001, &[]).ts(2, RTT as u32));
    assert!(h.info().ssthresh < u32::MAX);
}

#[test]
fn congestion_that_is_signalled_is_not_forgotten() {
    // RFC 4015 §3.2: not with ECN-Echo.
    let mut h = timed_out(true, true, 20_000);
    let late = ack(1001, &[]).ts(2, RTT as u32);
    h.send(late.with_flags(wire::tcp::TcpFlags::ACK | wire::tcp::TcpFlags::ECE));
    assert!(h.info().ssthresh < u32::MAX);
}

/// The first of ten segments was sent again, because three behind it were SACKed.
fn fast_retransmitted(stamps: bool) -> Harness {
    let mut h = far(true, stamps);
    h.write(10_000);
    assert_eq!(h.drain(), 10);
    h.advance(RTT);
    let sacked = ack(1, &[(1001, 5001)]);
    h.send(if stamps {
        sacked.ts(2, RTT as u32)
    } else {
        sacked
    });
    h.expect(seg().seq(1).len(1000));
    h.expect_nothing();
    assert_eq!(h.info().ssthresh, 5000);
    h.advance(1);
    h
}

#[test]
fn eifel_undoes_a_fast_retransmit() {
    let mut h = fast_retransmitted(true);
    h.send(ack(5001, &[]).ts(2, RTT as u32));
    let info = h.info();
    assert_eq!(info.ssthresh, u32::MAX);
    assert!(info.cwnd >= 10_000);
    h.expect_nothing();
}

/// RFC 9438 §4.9.2-1.
#[test]
fn a_duplicate_report_undoes_a_fast_retransmit() {
    let mut h = fast_retransmitted(false);
    h.send(ack(5001, &[]));
    assert_eq!(h.info().ssthresh, 5000);
    h.send(ack(5001, &[(1, 1001)]));
    let info = h.info();
    assert_eq!(info.ssthresh, u32::MAX);
    assert!(info.cwnd >= 10_000);
}

#[test]
fn a_report_after_the_end_of_the_recovery_still_counts() {
    let mut h = fast_retransmitted(false);
    h.send(ack(10_001, &[]));
    assert_eq!(h.info().ssthresh, 5000);
    h.advance(RTT);
    h.send(ack(10_001, &[(1, 1001)]));
    assert_eq!(h.info().ssthresh, u32::MAX);
    // Once.
    h.send(ack(10_001, &[(1, 1001)]));
    assert_eq!(h.stack.counters().spurious_losses, 1);
}

#[test]
fn a_report_of_half_of_it_undoes_nothing() {
    let mut h = fast_retransmitted(false);
    h.send(ack(5001, &[]));
    h.send(ack(5001, &[(1, 501)]));
    // Nor one of what was not sent in this recovery.
    h.send(ack(5001, &[(20_001, 30_001)]));
    assert_eq!(h.info().ssthresh, 5000);
}
