//! The ends of a connection: RFC 9293 §3.6, §3.10.4, §3.10.5, and the closing states of §3.10.7.4.

use std::time::Duration;

use crate::Status;
use crate::command::{Command, Options};
use crate::drops::DropReason;
use crate::error::Error;
use crate::event::Ready;
use crate::info::State;
use crate::testing::{Handshake, Harness, seg};

const WIN: u16 = 60_000;

#[test]
fn normal_close_from_our_side() {
    let mut h = Harness::fin_wait_2();
    h.send(seg().seq(1).fin().ack(2).win(WIN));
    h.expect(seg().seq(2).ack(2));
    assert_eq!(h.ready().0, Ready::EOF | Ready::READABLE | Ready::CLOSED);
    h.expect_state(State::TimeWait);
    assert_eq!(h.stack.usage().time_wait, 1);
    assert!(h.status().contains(Status::EOF | Status::CLOSED));
    // The application keeps the slot until it closes.
    h.advance(60_000);
    assert_eq!(
        (h.stack.usage().time_wait, h.stack.usage().connections),
        (0, 1)
    );
    h.close();
    h.expect_nothing();
    h.expect_gone();
}

#[test]
fn normal_close_from_the_peer() {
    let mut h = Harness::close_wait();
    assert!(h.status().contains(Status::EOF));
    h.shutdown();
    h.expect(seg().seq(1).fin().ack(2));
    h.expect_state(State::LastAck);
    h.send(seg().seq(2).ack(2).win(WIN));
    h.expect_nothing();
    assert_eq!(h.ready().0, Ready::DRAINED | Ready::CLOSED);
    h.close();
    h.expect_gone();
    assert_eq!(h.stack.usage().time_wait, 0);
}

#[test]
fn simultaneous_close() {
    // RFC 9293 figure 13.
    let mut h = Harness::closing();
    h.send(seg().seq(2).ack(2).win(WIN));
    h.expect_nothing();
    h.expect_state(State::TimeWait);
    assert_eq!(h.stack.usage().time_wait, 1);
}

#[test]
fn fin_and_its_ack_in_one_segment() {
    let mut h = Harness::fin_wait_1();
    h.send(seg().seq(1).fin().ack(2).win(WIN));
    h.expect(seg().seq(2).ack(2));
    h.expect_state(State::TimeWait);
}

#[test]
fn a_fin_rides_on_the_last_data() {
    let mut h = Harness::established();
    h.write_without_transmit(1500);
    h.shutdown();
    h.expect(seg().seq(1).ack(1).len(1000).no_psh());
    h.expect(seg().seq(1001).ack(1).len(500).psh().fin());
    h.expect_nothing();
    // One ACK for both.
    h.send(seg().seq(1).ack(1502).win(WIN));
    h.expect_state(State::FinWait2);
    assert!(h.ready().0.contains(Ready::DRAINED));
}

#[test]
fn half_close_still_receives() {
    let mut h = Harness::fin_wait_2();
    h.send(seg().seq(1).ack(2).win(WIN).len(100));
    h.expect(seg().seq(2).ack(101));
    h.expect_read(1, 100);
    h.send(seg().seq(101).fin().ack(2).win(WIN).len(5));
    h.expect(seg().seq(2).ack(107));
    h.expect_state(State::TimeWait);
    // What came before the FIN stays readable.
    h.expect_read(101, 5);
}

#[test]
fn close_wait_still_sends() {
    let mut h = Harness::close_wait();
    h.write(100);
    h.expect(seg().seq(1).ack(2).len(100));
    h.send(seg().seq(2).ack(101).win(WIN));
    h.close();
    h.expect(seg().seq(101).fin().ack(2));
    h.send(seg().seq(2).ack(102).win(WIN));
    h.expect_gone();
}

#[test]
fn nothing_can_be_sent_after_shutdown() {
    let mut h = Harness::fin_wait_1();
    let id = h.id();
    assert_eq!(h.refuse(Command::Send(id)), Error::BrokenPipe);
    assert!(h.status().contains(Status::WRITE_CLOSED));
}

#[test]
fn the_fin_is_sent_again() {
    let mut h = Harness::fin_wait_1();
    let rto = h.info().rto;
    h.advance(rto.as_millis() as u64);
    h.expect(seg().seq(1).fin().ack(1));
    h.send(seg().seq(1).ack(2).win(WIN));
    h.expect_state(State::FinWait2);
}

#[test]
fn close_goes_on_in_the_background() {
    let mut h = Harness::established();
    h.write(3000);
    assert_eq!(h.drain(), 3);
    h.close();
    h.expect(seg().seq(3001).fin().ack(1));
    h.send(seg().seq(1).ack(3002).win(WIN));
    h.send(seg().seq(1).fin().ack(3002).win(WIN));
    h.expect(seg().seq(3002).ack(2));
    let usage = h.stack.usage();
    assert_eq!((usage.connections, usage.time_wait), (0, 1));
    h.advance(60_000);
    h.expect_gone();
}

/// RFC 9293 SHLD-3.
#[test]
fn close_with_unread_data_resets() {
    // RFC 2525 §2.17, RFC 9293 §3.10.4.
    let mut h = Harness::established();
    h.send(seg().seq(1).ack(1).win(WIN).len(10));
    h.expect(seg().ack(11));
    h.close();
    h.expect(seg().rst().seq(1).ack(11));
    h.expect_gone();
}

/// What was written before goes out as far as the peer's window lets it: it left Linux at once,
/// too.
#[test]
fn close_with_unread_data_sends_what_it_may_before_the_reset() {
    let mut h = Harness::established();
    h.send(seg().seq(1).ack(1).win(2000).len(10));
    h.expect(seg().ack(11));
    h.write(4000);
    h.close();
    h.expect(seg().seq(1).len(1000).ack(11));
    h.expect(seg().seq(1001).len(1000).ack(11));
    h.expect(seg().rst().seq(2001).ack(11));
    h.expect_nothing();
    h.expect_gone();
}

#[test]
fn close_with_unread_data_and_a_closed_window_resets() {
    let mut h = Harness::established();
    h.send(seg().seq(1).ack(1).win(0).len(10));
    h.expect(seg().ack(11));
    h.write(100);
    h.close();
    h.expect(seg().rst().seq(1).ack(11));
    h.expect_gone();
}

#[test]
fn close_without_lingering_resets() {
    let mut h = Harness::new();
    h.listen(
        4,
        Options {
            linger: Some(Duration::ZERO),
            ..Options::default()
        },
    );
    h.established_with(&Handshake::default());
    h.write(100);
    h.drain();
    h.close();
    h.expect(seg().rst().seq(101).ack(1));
    h.expect_gone();
}

#[test]
fn abort_resets() {
    for mut h in [
        Harness::established(),
        Harness::fin_wait_1(),
        Harness::fin_wait_2(),
        Harness::close_wait(),
        Harness::closing(),
        Harness::last_ack(),
    ] {
        h.abort();
        h.expect(seg().rst().any_ack());
        h.expect_gone();
    }
}

#[test]
fn data_after_close_is_reset() {
    // FIN_WAIT_1 and FIN_WAIT_2 without an application (RFC 9293 §3.10.4, last sentence of the
    // CLOSE call in ESTABLISHED; RFC 2525 §2.17).
    let mut h = Harness::established();
    h.close();
    h.expect(seg().seq(1).fin().ack(1));
    h.send(seg().seq(1).ack(1).win(WIN).len(10));
    h.expect(seg().rst().seq(2).any_ack());
    h.expect_gone();
    assert_eq!(h.stack.counters().dropped(DropReason::TcpClosed), 1);

    let mut h = Harness::fin_wait_2();
    h.close();
    h.send(seg().seq(1).ack(2).win(WIN).len(10));
    h.expect(seg().rst().seq(2).any_ack());
    h.expect_gone();
}

#[test]
fn data_after_both_directions_were_shut_down_is_reset() {
    // RFC 1122 §4.2.2.13.
    let mut h = Harness::established();
    let conn = h.id();
    h.execute(Command::ShutdownRead(conn));
    // Our side still sends: the peer's data is taken.
    h.send(seg().seq(1).ack(1).win(60_000).len(10));
    h.advance(50);
    h.expect(seg().seq(1).ack(11));
    h.expect_read(1, 10);
    h.shutdown();
    h.expect(seg().seq(1).fin().ack(11));
    h.send(seg().seq(11).ack(2).win(60_000).len(10));
    h.expect(seg().seq(2).rst().any_ack());
    assert_eq!(h.ready().1, Some(Error::Reset));
}

#[test]
fn a_fin_after_both_directions_were_shut_down_is_no_data() {
    let mut h = Harness::established();
    let conn = h.id();
    h.execute(Command::ShutdownRead(conn));
    h.shutdown();
    h.expect(seg().seq(1).fin().ack(1));
    h.send(seg().seq(1).fin().ack(2).win(60_000));
    h.expect(seg().seq(2).ack(2));
    h.expect_state(State::TimeWait);
}

#[test]
fn fin_wait_2_ends_without_an_application() {
    let mut h = Harness::fin_wait_2();
    // With one it may last: a half-close.
    h.advance(600_000);
    h.expect_state(State::FinWait2);
    h.close();
    h.advance(59_000);
    assert_eq!(h.stack.usage().connections, 1);
    h.advance(2_000);
    h.expect_nothing();
    h.expect_gone();
}

/// RFC 9293 MUST-12.
#[test]
fn reset_in_each_state() {
    for (mut h, seq) in [
        (Harness::established(), 1),
        (Harness::fin_wait_1(), 1),
        (Harness::fin_wait_2(), 1),
        (Harness::close_wait(), 2),
    ] {
        h.events();
        h.send(seg().rst().seq(seq));
        h.expect_nothing();
        assert_eq!(h.ready().1, Some(Error::Reset));
        h.close();
        h.expect_gone();
    }
    for (mut h, seq) in [(Harness::closing(), 2), (Harness::last_ack(), 2)] {
        h.events();
        h.send(seg().rst().seq(seq));
        assert_eq!(h.ready(), (Ready::CLOSED, None));
        h.close();
        h.expect_gone();
    }
}

/// What was written has not arrived: the application must know, as on Linux.
#[test]
fn a_reset_after_both_fins_is_an_error_if_data_is_lost() {
    for acked in [false, true] {
        let mut h = Harness::close_wait();
        h.write(10);
        h.shutdown();
        h.drain();
        h.events();
        if acked {
            h.send(seg().seq(2).ack(11).win(WIN));
        }
        h.expect_state(State::LastAck);
        h.send(seg().rst().seq(2));
        let lost = (Ready::ERROR | Ready::CLOSED, Some(Error::Reset));
        let whole = (Ready::CLOSED, None);
        assert_eq!(h.ready(), if acked { whole } else { lost });
    }
}

#[test]
fn text_after_the_peers_fin_is_ignored() {
    let mut h = Harness::close_wait();
    h.send(seg().seq(2).ack(1).win(WIN).len(10));
    h.expect_nothing();
    assert_eq!(h.app.readable(h.slot()), 0);
    h.expect_state(State::CloseWait);
}

#[test]
fn a_repeated_fin_is_acknowledged() {
    for mut h in [
        Harness::close_wait(),
        Harness::closing(),
        Harness::last_ack(),
    ] {
        let nxt = if h.info().state == State::CloseWait {
            1
        } else {
            2
        };
        h.send(seg().seq(1).fin().ack(1).win(WIN));
        h.expect(seg().seq(nxt).ack(2));
    }
}

#[test]
fn a_fin_beyond_a_gap_waits_for_it() {
    let mut h = Harness::established();
    h.send(seg().seq(101).fin().ack(1).win(WIN).len(50));
    h.expect(seg().seq(1).ack(1));
    h.expect_state(State::Established);
    h.send(seg().seq(1).ack(1).win(WIN).len(100));
    h.expect(seg().seq(1).ack(152));
    h.expect_state(State::CloseWait);
    h.expect_read(1, 150);
}

#[test]
fn nothing_beyond_a_fin_is_taken() {
    let mut h = Harness::established();
    h.send(seg().seq(101).fin().ack(1).win(WIN));
    h.expect(seg().ack(1));
    h.send(seg().seq(1).ack(1).win(WIN).len(300));
    h.expect(seg().ack(102));
    h.expect_read(1, 100);
    h.expect_state(State::CloseWait);
}

#[test]
fn calls_on_a_closed_connection() {
    let mut h = Harness::established();
    h.send(seg().rst().seq(1));
    let id = h.id();
    assert_eq!(h.refuse(Command::Send(id)), Error::NotConnected);
    assert_eq!(h.refuse(Command::Shutdown(id)), Error::NotConnected);
    h.execute(Command::Received(id));
    h.close();
    assert_eq!(h.refuse(Command::Close(id)), Error::BadId);
}

#[test]
fn a_slot_is_used_again_under_another_name() {
    let mut h = Harness::established();
    let old = h.id();
    h.abort();
    h.drain();
    h.established_with(&Handshake::default());
    assert_eq!(h.id().slot, old.slot);
    assert_ne!(h.id(), old);
    assert_eq!(h.refuse(Command::Info(old)), Error::BadId);
}
