//! The sockets of a stack, as they are listed.

use proptest::prelude::*;

use crate::command::{Command, Options};
use crate::event::Event;
use crate::id::{ConnId, Token};
use crate::info::State;
use crate::testing::{CLIENT, Handshake, Harness, add_home, seg};
use crate::{AppStreams, ListLimits, ListedSocket, Stack};

const WIN: u16 = 60_000;
/// An owner, and another.
const ANNE: u32 = 1001;
const BERT: u32 = 1002;

fn harness() -> Harness {
    Harness::with(|config| config.max_homes = 4)
}

fn list_with(
    stack: &mut Stack,
    limits: ListLimits,
    is_wanted: impl Fn(u32) -> bool,
) -> Vec<ListedSocket> {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let before = all.len();
        let next = stack.list_sockets(from, limits, &is_wanted, &mut all);
        assert!(all.len() - before <= limits.sockets);
        match next {
            Some(next) => assert!(next > std::mem::replace(&mut from, next), "it goes on"),
            None => return all,
        }
    }
}

const AT_ONCE: ListLimits = ListLimits {
    sockets: usize::MAX / 2,
    looks: u32::MAX,
};

/// What these owners have: peer's port, state, queues, and whether a program has it.
fn seen(stack: &mut Stack, owners: &[u32]) -> Vec<(u16, State, u32, u32, bool)> {
    let is_wanted = |owner| owners.contains(&owner);
    let sockets = list_with(stack, AT_ONCE, is_wanted);
    let row = |socket: &ListedSocket| {
        assert!(owners.contains(&socket.owner));
        let ListedSocket {
            state,
            recv_queue,
            send_queue,
            ..
        } = *socket;
        let port = socket.remote.port();
        (port, state, recv_queue, send_queue, socket.home.is_some())
    };
    sockets.iter().map(row).collect()
}

/// The peer's SYN from `port`, and our answer.
fn half_open(h: &mut Harness, port: u16) {
    h.send(Handshake::default().syn().port(port));
    h.expect(seg().syn().ack(1).port(port));
}

/// A connection of the peer's `port`, not accepted.
fn waiting(h: &mut Harness, port: u16) -> ConnId {
    half_open(h, port);
    h.send(h.handshake_ack(&Handshake::default()).port(port));
    let accepted = |event| match event {
        Event::Accepted { conn, .. } => Some(conn),
        Event::Ready { .. } => None,
    };
    h.events().into_iter().find_map(accepted).unwrap()
}

fn accepted(h: &mut Harness, port: u16) -> ConnId {
    let conn = waiting(h, port);
    h.execute(Command::Accept {
        conn,
        token: CLIENT,
    });
    conn
}

/// A listener with a backlog of 5 in a home of this owner.
fn listener_of(h: &mut Harness, owner: u32) -> (u32, AppStreams) {
    let (home, there) = add_home(&mut h.stack, 16, owner);
    h.stack.serve(home);
    h.listen(5, Options::default());
    (home, there)
}

/// Accepts the connection of the peer's `port`, whose slot in the home is 0, and ends it from our
/// side.
fn time_wait(h: &mut Harness, there: &mut AppStreams, port: u16) {
    let conn = accepted(h, port);
    there.release(0);
    h.execute(Command::Close(conn));
    h.transmit();
    h.expect(seg().fin().seq(1).port(port));
    h.send(seg().seq(1).fin().ack(2).win(WIN).port(port));
    h.expect(seg().seq(2).ack(2).port(port));
}

/// The numbers are those that `ss` shows on Linux in the same places.
#[test]
fn sockets_of_all_kinds_are_listed() {
    let mut h = harness();
    let (_, mut there) = listener_of(&mut h, ANNE);
    time_wait(&mut h, &mut there, 6000);
    half_open(&mut h, 6001);
    let closed = accepted(&mut h, 6002);
    there.release(0);
    h.execute(Command::Close(closed));
    h.transmit();
    h.expect(seg().fin().seq(1).port(6002));
    accepted(&mut h, 6003);
    h.send(seg().seq(1).ack(1).win(WIN).len(100).port(6003));
    h.drain();
    assert_eq!(there.write(1, b"not sent yet"), 12);
    waiting(&mut h, 6004);
    let command = Command::Connect {
        token: Token(9),
        local: None,
        remote: (h.peer().ip(), 6005).into(),
        options: Options::default(),
    };
    h.stack.execute(h.now(), command).unwrap();
    let all = [
        (0, State::Listen, 1, 5, true),
        (6001, State::SynReceived, 0, 0, false),
        (6002, State::FinWait1, 0, 1, false),
        (6003, State::Established, 100, 12, true),
        (6004, State::Established, 0, 0, false),
        (6005, State::SynSent, 0, 1, true),
        (6000, State::TimeWait, 0, 0, false),
    ];
    let found = seen(&mut h.stack, &[ANNE]);
    assert_eq!(found.len(), all.len(), "{found:?}");
    for row in all {
        assert!(found.contains(&row), "{row:?} in {found:?}");
    }
    assert_eq!(seen(&mut h.stack, &[BERT]), []);
    // What the program reads is not there any more, though it tells nobody.
    assert_eq!(there.read(1, &mut [0; 60]), 60);
    let found = seen(&mut h.stack, &[ANNE]);
    assert!(found.contains(&(6003, State::Established, 40, 12, true)));
    // Of a reset connection only its program knows.
    h.send(seg().seq(101).rst().port(6003));
    let found = seen(&mut h.stack, &[ANNE]);
    assert!(found.iter().all(|row| row.0 != 6003), "{found:?}");
}

/// What is packed has its bytes elsewhere, and is listed as it was.
#[test]
fn what_idles_is_listed() {
    let mut h = Harness::with(|config| {
        config.max_homes = 4;
        config.max_resident = 0;
    });
    let (_, there) = listener_of(&mut h, ANNE);
    accepted(&mut h, 6000);
    h.send(seg().seq(1).ack(1).win(WIN).len(100).port(6000));
    h.events();
    h.drain();
    for _ in 0..4 {
        h.advance(1000);
        h.drain();
        h.stack.advance(h.now());
    }
    assert_eq!(h.stack.usage().compact, 1, "it idles");
    let found = seen(&mut h.stack, &[ANNE]);
    assert!(found.contains(&(6000, State::Established, 100, 0, true)));
    assert_eq!(h.stack.usage().compact, 1, "nobody wakes it");
    drop(there);
}

/// The number of a home goes to who comes next, the sockets of who had it do not.
#[test]
fn what_a_gone_program_leaves_stays_its_owners() {
    let mut h = harness();
    let (first, mut there) = listener_of(&mut h, ANNE);
    time_wait(&mut h, &mut there, 6000);
    let now = h.now();
    h.stack.app_gone(now, first);
    drop(there);
    assert!(h.stack.remove_home(first));
    let (second, _there) = listener_of(&mut h, BERT);
    assert_eq!(first, second);
    assert_eq!(
        seen(&mut h.stack, &[ANNE]),
        [(6000, State::TimeWait, 0, 0, false)]
    );
    assert_eq!(
        seen(&mut h.stack, &[BERT]),
        [(0, State::Listen, 0, 5, true)]
    );
    assert_eq!(seen(&mut h.stack, &[ANNE, BERT]).len(), 2);
    // The record is anybody's when its time is over: a slot says nothing of who had it.
    h.advance(60_000);
    h.stack.serve(0);
    assert_eq!(seen(&mut h.stack, &[ANNE]), []);
}

proptest! {
    /// However a list is cut, it is the same; and a place that nobody gave out names nothing else.
    #[test]
    fn a_list_in_pieces_is_whole(
        most in 1..4usize,
        looks in 1..6u32,
        ports in prop::collection::vec(6000..6040u16, 0..12),
        from in prop_oneof![any::<u64>(), (0..6u64, 0..20u64).prop_map(|(table, slot)| table << 32 | slot)],
    ) {
        let mut h = harness();
        let (_, _there) = listener_of(&mut h, ANNE);
        for (n, port) in ports.iter().copied().collect::<std::collections::BTreeSet<_>>().into_iter().enumerate() {
            if n % 3 == 0 {
                half_open(&mut h, port);
            } else if n < 4 {
                waiting(&mut h, port);
            }
        }
        let limits = ListLimits { sockets: most, looks };
        let whole = list_with(&mut h.stack, AT_ONCE, |_| true);
        prop_assert_eq!(&list_with(&mut h.stack, limits, |_| true), &whole);
        let mut some = Vec::new();
        let next = h.stack.list_sockets(from, limits, |_| true, &mut some);
        prop_assert!(next.is_none_or(|next| next > from));
        prop_assert!(some.len() <= most && some.iter().all(|socket| whole.contains(socket)));
        some.clear();
        let next = h.stack.list_sockets(from, limits, |_| false, &mut some);
        prop_assert!(next.is_none_or(|next| next > from) && some.is_empty());
    }
}
