//! Stacks that go on for others.

use proptest::prelude::*;

use crate::command::{Command, Options};
use crate::event::Event;
use crate::info::State;
use crate::testing::{Handshake, Harness, LISTENER, in_a_home, replace, restore_changed, seg};

/// The peer hears what was sent.
fn hear(h: &mut Harness) {
    while h.pop().is_some() {}
}

/// A stack with a bit of everything: a listener, a half-open connection, one that waits to be
/// accepted, one with bytes in flight, selectively acknowledged, and out of order.
fn a_bit_of_everything() -> Harness {
    let handshake = Handshake {
        sack: true,
        ..Handshake::default()
    };
    let mut h = Harness::new();
    h.listen(16, Options::default());
    for port in [6000, 6001] {
        h.send(handshake.syn().port(port));
    }
    hear(&mut h);
    h.send(h.handshake_ack(&handshake).port(6001));
    hear(&mut h);
    h.events();
    h.established_with(&handshake);
    h.write(8000);
    hear(&mut h);
    h.send(seg().seq(1).ack(1).win(60_000).sack(&[(2001, 3001)]));
    h.send(seg().seq(501).ack(1).win(60_000).len(200));
    let usage = h.stack.usage();
    let has = (usage.connections, usage.half_open, usage.listeners);
    assert_eq!((has, usage.range_sets, usage.sent_logs), ((2, 1, 1), 2, 1));
    h
}

/// A snapshot is input: whatever it says, it is refused or taken, and nothing panics.
fn check_changed(h: &mut Harness, at: usize, bits: u8) {
    let _ = restore_changed(h, |bytes| {
        let at = at % bytes.len();
        bytes[at] ^= bits.max(1);
    });
}

#[test]
fn a_cut_snapshot_is_refused() {
    let mut h = a_bit_of_everything();
    assert!(restore_changed(&mut h, |_| {}).is_ok());
    for part in 1..100 {
        let restored = restore_changed(&mut h, |bytes| bytes.truncate(bytes.len() * part / 100));
        assert!(restored.is_err(), "{part}%");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_changed_snapshot_does_no_harm(changes in prop::collection::vec((any::<usize>(), any::<u8>()), 64)) {
        let mut h = a_bit_of_everything();
        for (at, bits) in changes {
            check_changed(&mut h, at, bits);
        }
    }
}

/// A conversation, with `step` after each step. What the stack sent, frame by frame.
fn conversation(mut h: Harness, step: impl Fn(&mut Harness)) -> Vec<Vec<u8>> {
    let mut sent = Vec::new();
    let mut step = |h: &mut Harness| {
        sent.extend(h.sink.frames.iter().cloned());
        hear(h);
        step(h);
    };
    h.listen(16, Options::default());
    step(&mut h);
    h.send(Handshake::default().syn());
    step(&mut h);
    h.advance(1500); // the SYN-ACK goes out again
    step(&mut h);
    h.send(seg().seq(1).ack(1).win(60_000));
    step(&mut h);
    h.take_accepted();
    step(&mut h);
    h.write(1500);
    step(&mut h);
    h.advance(7500); // it goes out again
    step(&mut h);
    h.send(seg().seq(1).ack(1001).win(60_000));
    step(&mut h);
    h.send(seg().seq(1).ack(1501).win(60_000));
    step(&mut h);
    h.send(seg().seq(501).ack(1501).win(60_000).len(500)); // out of order
    step(&mut h);
    h.send(seg().seq(1).ack(1501).win(60_000).len(500));
    step(&mut h);
    h.expect_read(1, 1000);
    step(&mut h);
    h.write_without_transmit(700);
    step(&mut h);
    h.transmit();
    h.shutdown();
    step(&mut h);
    h.send(seg().seq(1001).ack(2202).win(60_000));
    step(&mut h);
    h.expect_state(State::FinWait2);
    h.send(seg().fin().seq(1001).ack(2202).win(60_000));
    step(&mut h);
    h.close();
    step(&mut h);
    assert_eq!(h.stack.usage().time_wait, 1);
    h.send(seg().fin().seq(1001).ack(2202).win(60_000)); // the ACK was lost
    step(&mut h);
    h.advance(120_000);
    step(&mut h);
    h.expect_gone();
    sent
}

#[test]
fn another_stack_sends_what_this_one_would_have() {
    let before = conversation(Harness::new(), |_| {});
    let after = conversation(Harness::new(), replace);
    assert_eq!(before, after);
}

/// The application is in another process, and goes on.
#[test]
fn another_stack_serves_the_same_programs() {
    let before = conversation(Harness::new(), |_| {});
    let after = conversation(in_a_home(Harness::new()), replace);
    assert_eq!(before, after);
}

/// Who waits to be accepted waits in the order in which they came, whether the program has been
/// told or is told when it accepts again.
#[test]
fn the_order_of_an_accept_queue_stays() {
    for is_suspended in [false, true] {
        let mut h = in_a_home(Harness::new());
        h.listen(16, Options::default());
        let listener = h.listener();
        if is_suspended {
            h.execute(Command::Suspend(listener));
        }
        for port in 6000..6005 {
            h.send(Handshake::default().syn().port(port));
            hear(&mut h);
            h.send(h.handshake_ack(&Handshake::default()).port(port));
        }
        replace(&mut h);
        if is_suspended {
            assert_eq!(h.events(), []);
            h.execute(Command::Resume {
                listener,
                token: LISTENER,
            });
        }
        let accepted = |event: &Event| match event {
            Event::Accepted { key, .. } => Some(key.remote().port()),
            Event::Ready { .. } => None,
        };
        let ports: Vec<u16> = h.events().iter().filter_map(accepted).collect();
        assert_eq!(ports, [6000, 6001, 6002, 6003, 6004]);
    }
}

/// What was due and had not left is sent by who goes on.
#[test]
fn what_is_due_leaves_from_the_next_stack() {
    let mut h = Harness::established();
    h.inject(seg().seq(501).ack(1).win(60_000).len(200)); // out of order: an ACK at once
    replace(&mut h);
    h.transmit();
    h.expect(seg().seq(1).ack(1));
    h.write_without_transmit(700);
    replace(&mut h);
    h.transmit();
    h.expect(seg().psh().seq(1).ack(1).len(700));
}
