//! Connections that were closed and whose peers never answer: there is a limit, and they make room
//! for those that somebody uses.

use crate::command::{Command, Options};
use crate::config::Config;
use crate::event::Event;
use crate::testing::{CLIENT, Handshake, Harness, seg};

const WIN: u16 = 60_000;

fn listening(change: impl FnOnce(&mut Config)) -> Harness {
    let mut h = Harness::with(change);
    h.listen(16, Options::default());
    h
}

/// A connection from `port`, accepted.
fn accepted(h: &mut Harness, port: u16) {
    h.send(Handshake::default().syn().port(port));
    h.expect(seg().syn().ack(1).port(port));
    h.send(seg().seq(1).ack(1).win(WIN).port(port));
    h.conn = h.events().iter().find_map(|event| match event {
        Event::Accepted { conn, .. } => Some(*conn),
        Event::Ready { .. } => None,
    });
    let conn = h.id();
    h.execute(Command::Accept {
        conn,
        token: CLIENT,
    });
    h.events();
}

/// The same, closed by the application: its FIN goes into the void.
fn closed(h: &mut Harness, port: u16) {
    accepted(h, port);
    h.close();
    h.expect(seg().seq(1).fin().ack(1).port(port));
}

#[test]
fn the_one_closed_first_goes_for_one_too_many() {
    let mut h = listening(|config| config.max_orphans = 3);
    for port in 5000..5003 {
        closed(&mut h, port);
    }
    h.expect_nothing();
    for port in 5003..5010 {
        accepted(&mut h, port);
        h.close();
        h.expect(seg().seq(2).rst().ack(1).port(port - 3));
        h.expect(seg().seq(1).fin().ack(1).port(port));
    }
    h.expect_nothing();
    assert_eq!(h.stack.usage().connections, 3);
    assert_eq!(h.stack.counters().orphans_evicted, 7);
}

/// Whoever connects finds room, and so does who is connected to.
#[test]
fn they_leave_room_for_new_connections() {
    let full = || {
        let mut h = listening(|config| {
            config.max_connections = 4;
            config.max_orphans = 3;
        });
        for port in 5000..5010 {
            accepted(&mut h, port);
            h.close();
            h.drain();
        }
        assert_eq!(h.stack.usage().connections, 3);
        h
    };
    let mut h = full();
    accepted(&mut h, 6000);
    assert_eq!(h.stack.usage().connections, 4);

    let mut h = full();
    h.start_connect(Options::default());
    assert_eq!(h.drain(), 1, "SYN");
    assert_eq!(h.stack.usage().connections, 4);
}

/// Those below the limit go for nobody: what was written may still arrive.
#[test]
fn those_below_the_limit_do_not_go() {
    let mut h = listening(|config| config.max_connections = 2);
    for port in 5000..5002 {
        closed(&mut h, port);
    }
    h.advance(1500);
    h.drain();
    h.send(Handshake::default().syn().port(5002));
    h.expect(seg().syn().ack(1).port(5002));
    h.send(seg().seq(1).ack(1).win(WIN).port(5002));
    h.expect_nothing();
    assert_eq!(h.stack.counters().orphans_evicted, 0);
}

/// One too many is one too many; but silent ones go first.
#[test]
fn silent_ones_go_before_those_that_were_closed_earlier() {
    let mut h = listening(|config| config.max_orphans = 2);
    closed(&mut h, 5000);
    h.send(seg().seq(1).ack(2).win(WIN).port(5000));
    closed(&mut h, 5001);
    h.advance(1500);
    h.drain();
    accepted(&mut h, 5002);
    h.close();
    h.expect(seg().seq(2).rst().ack(1).port(5001));
    h.expect(seg().seq(1).fin().ack(1).port(5002));
    assert_eq!(h.stack.usage().connections, 2);
}

#[test]
fn those_in_use_do_not_go() {
    let mut h = listening(|config| config.max_connections = 2);
    accepted(&mut h, 5000);
    accepted(&mut h, 5001);
    h.send(Handshake::default().syn().port(5002));
    h.expect(seg().syn().ack(1).port(5002));
    h.send(seg().seq(1).ack(1).win(WIN).port(5002));
    h.expect_nothing();
    assert_eq!(h.stack.usage().connections, 2);
    assert_eq!(h.stack.counters().orphans_evicted, 0);
}

#[test]
fn those_that_end_by_themselves_do_not_count() {
    let mut h = listening(|config| config.max_orphans = 1);
    for port in 5000..5010 {
        closed(&mut h, port);
        match port % 3 {
            0 => h.send(seg().seq(1).fin().ack(2).win(WIN).port(port)),
            1 => h.send(seg().seq(1).rst().port(port)),
            _ => {
                h.send(seg().seq(1).ack(2).win(WIN).port(port));
                h.send(seg().seq(1).fin().ack(2).win(WIN).port(port));
            }
        }
        h.drain();
    }
    assert_eq!(h.stack.usage().connections, 0);
    assert_eq!(h.stack.counters().orphans_evicted, 0);
}

/// Data that is on its way goes with it: the peer learns that there will be no more.
#[test]
fn what_was_written_is_lost_and_the_peer_is_told() {
    let mut h = listening(|config| config.max_orphans = 0);
    accepted(&mut h, 5000);
    h.write(100);
    h.expect(seg().seq(1).len(100).port(5000));
    h.close();
    h.expect(seg().seq(101).rst().ack(1).port(5000));
    assert_eq!(h.stack.usage().connections, 0);
}
