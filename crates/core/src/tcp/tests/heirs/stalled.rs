//! Programs that do not come to accept: what waits at their listeners is served by who does.

use std::time::Duration;

use super::*;

const STALL: Duration = Duration::from_millis(5);

/// Opens so many connections, of which a peer says something each.
fn come(h: &mut Harness, ports: std::ops::Range<u16>) {
    for port in ports {
        open(h, port);
        h.send(seg().seq(1).ack(1).win(WIN).data(b"GET").port(port));
    }
}

/// So long nobody accepts anything. What is announced after it.
fn stall(h: &mut Harness) -> Vec<(Token, ConnId)> {
    h.stack.hand_on_stalled(h.now());
    h.pass(STALL);
    h.stack.hand_on_stalled(h.now());
    announced(h)
}

/// Those that were announced to a program.
fn of(told: &[(Token, ConnId)], program: &Program) -> Vec<ConnId> {
    let own = told.iter().filter(|(token, _)| *token == program.token);
    own.map(|&(_, conn)| conn).collect()
}

/// The program accepts one: it decides that in the memory that both see, and says so.
fn accept(h: &mut Harness, program: &mut Program, conn: ConnId) {
    let (_, slot) = h.stack.stream_of(conn).unwrap();
    assert!(program.app.accept(slot));
    assert_eq!(read(h, program, conn), b"GET");
}

/// A worker is stopped: what waits at it is another's in a moment, and what comes then is so at
/// once. When it comes to accept and finds that, it gets its part again.
#[test]
fn what_waits_at_a_stopped_program_goes_to_another() {
    let mut h = harness();
    let mut stopped = Program::new(&mut h, 0);
    let mut busy = Program::new(&mut h, 1);
    come(&mut h, 5001..5005);
    let told = announced(&mut h);
    let (left, own) = (of(&told, &stopped), of(&told, &busy));
    assert_eq!((left.len(), own.len()), (2, 2), "each has its part");
    let slots = left.iter().map(|&conn| h.stack.stream_of(conn).unwrap().1);
    let slots: Vec<u32> = slots.collect();
    for conn in own {
        accept(&mut h, &mut busy, conn);
    }
    assert_eq!(h.stack.stall_due(h.now()), Some(h.now() + STALL));
    let told = stall(&mut h);
    assert_eq!(of(&told, &busy), left);
    for conn in left {
        accept(&mut h, &mut busy, conn);
    }
    come(&mut h, 5005..5009);
    let told = announced(&mut h);
    assert_eq!(of(&told, &busy).len(), 4, "not before it shows up");
    assert_eq!(h.stack.stall_due(h.now()), None, "nobody else is there");
    // It goes on, and comes to accept.
    for slot in slots {
        assert!(!stopped.app.accept(slot) && stopped.app.is_withdrawn(slot));
        stopped.app.release(slot);
        h.stack.note_accepting(stopped.listener);
        assert!(h.stack.close_abandoned(stopped.home, slot));
    }
    come(&mut h, 5009..5011);
    let told = announced(&mut h);
    assert_eq!(of(&told, &stopped).len(), 2, "it has nothing else to do");
}

/// What a program has accepted is its own, though it has not said so yet: it may say so with what
/// it writes, a long time later.
#[test]
fn what_a_program_has_accepted_and_not_said_is_its_own() {
    let mut h = harness();
    let mut program = Program::new(&mut h, 0);
    come(&mut h, 5001..5003);
    let told = announced(&mut h);
    let other = Program::new(&mut h, 1);
    let [(_, first), (_, second)] = told[..] else {
        panic!("{told:?}");
    };
    let (_, slot) = h.stack.stream_of(first).unwrap();
    assert!(program.app.accept(slot));
    assert_eq!(stall(&mut h), [(other.token, second)]);
    assert_eq!(h.stack.stream_of(first), Some((program.home, slot)));
    assert_eq!(read(&mut h, &mut program, first), b"GET");
}

/// All are busy: who waits stays where he is, and is served by who comes to accept first.
#[test]
fn who_comes_first_serves_what_waits_at_all_others() {
    let mut h = harness();
    let mut programs = [0, 1, 2].map(|number| Program::new(&mut h, number));
    come(&mut h, 5001..5007);
    let told = announced(&mut h);
    assert_eq!(stall(&mut h), [], "there is nobody to go to");
    let (token, conn) = told[0];
    let mut first = programs.iter_mut().filter(|one| one.token == token);
    let first = first.next().unwrap();
    accept(&mut h, first, conn);
    h.stack.hand_on_stalled(h.now());
    let given = announced(&mut h);
    assert_eq!(of(&given, first).len(), 4);
    assert_eq!(h.stack.waiting_at(first.listener), Some(5));
}

/// A program that accepts one after the other keeps what waits, however long that takes, and one
/// alone keeps all.
#[test]
fn a_program_that_accepts_keeps_what_waits() {
    let mut h = harness();
    let mut program = Program::new(&mut h, 0);
    come(&mut h, 5001..5005);
    let told = announced(&mut h);
    assert_eq!(stall(&mut h), []);
    assert_eq!(h.stack.stall_due(h.now()), None);
    accept(&mut h, &mut program, told[0].1);
    let other = Program::new(&mut h, 1);
    for &(_, conn) in &told[1..3] {
        h.stack.hand_on_stalled(h.now());
        h.pass(STALL - Duration::from_millis(1));
        accept(&mut h, &mut program, conn);
        assert_eq!(announced(&mut h), []);
    }
    assert_eq!(stall(&mut h), [(other.token, told[3].1)]);
}

/// Where the other has no room, nothing changes: neither has lost what waits.
#[test]
fn what_finds_no_room_elsewhere_can_be_accepted_where_it_is() {
    let mut h = harness();
    let mut program = Program::new(&mut h, 0);
    come(&mut h, 5001..5003);
    let told = announced(&mut h);
    let _other = Program::with_slots(&mut h, 1, 1);
    let moved = stall(&mut h);
    let [(_, conn)] = moved[..] else {
        panic!("{moved:?}");
    };
    let (_, left) = *told.iter().find(|(_, one)| *one != conn).unwrap();
    accept(&mut h, &mut program, left);
}
