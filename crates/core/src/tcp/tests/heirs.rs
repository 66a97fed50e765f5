//! Listeners of several programs at one place, as processes share one socket on Linux: what waits
//! is lost only when nobody is left who could accept it.

mod stalled;

use wire::tcp::{FastOpenCookie, TcpFlags};

use crate::AppStreams;
use crate::command::{Command, Options, Reply};
use crate::config::SynCookies;
use crate::error::Error;
use crate::event::Event;
use crate::id::{ConnId, ListenerId, Token};
use crate::testing::{CLIENT, Handshake, Harness, add_home, seg};

const WIN: u16 = 60_000;

/// A program with a listener.
struct Program {
    home: u32,
    app: AppStreams,
    listener: ListenerId,
    token: Token,
}

impl Program {
    fn new(h: &mut Harness, number: u32) -> Self {
        Self::with_slots(h, number, 8)
    }

    fn with_slots(h: &mut Harness, number: u32, slots: u32) -> Self {
        let (home, app) = add_home(&mut h.stack, slots, 0);
        let token = Token(100 + number);
        let mut program = Self {
            home,
            app,
            listener: ListenerId {
                slot: 0,
                generation: 0,
            },
            token,
        };
        program.listener = program.listen(h, "0.0.0.0:80");
        program
    }

    fn listen(&self, h: &mut Harness, local: &str) -> ListenerId {
        h.stack.serve(self.home);
        let options = Options {
            reuse_port: true,
            fast_open: Some(8),
            ..Options::default()
        };
        let reply = h.execute(Command::Listen {
            token: self.token,
            local: local.parse().unwrap(),
            only_v6: false,
            backlog: 8,
            options,
        });
        let Reply::Listening(listener, _) = reply else {
            panic!("{reply:?}");
        };
        listener
    }

    fn suspend(&self, h: &mut Harness) {
        h.execute(Command::Suspend(self.listener));
    }

    fn resume(&mut self, h: &mut Harness) {
        self.token = Token(self.token.0 + 1000);
        h.execute(Command::Resume {
            listener: self.listener,
            token: self.token,
        });
    }
}

fn harness() -> Harness {
    Harness::with(|config| config.max_homes = 6)
}

fn syn(h: &mut Harness, port: u16) {
    h.transmit();
    h.drain();
    h.send(Handshake::default().syn().port(port));
    h.expect(seg().syn().ack(1).port(port));
}

fn open(h: &mut Harness, port: u16) {
    syn(h, port);
    h.send(h.handshake_ack(&Handshake::default()).port(port));
}

/// The connections that were announced, with the listeners' tokens.
fn announced(h: &mut Harness) -> Vec<(Token, ConnId)> {
    let accepted = |event| match event {
        Event::Accepted { listener, conn, .. } => Some((listener, conn)),
        Event::Ready { .. } => None,
    };
    h.events().into_iter().filter_map(accepted).collect()
}

/// Whether the stack has sent a reset.
fn resets(h: &mut Harness) -> bool {
    h.transmit();
    let mut sent = std::iter::from_fn(|| h.pop());
    sent.any(|(.., header, _)| header.flags.contains(TcpFlags::RST))
}

/// The program accepts the connection and reads all of it.
fn read(h: &mut Harness, program: &mut Program, conn: ConnId) -> Vec<u8> {
    h.execute(Command::Accept {
        conn,
        token: CLIENT,
    });
    let (home, slot) = h.stack.stream_of(conn).unwrap();
    assert_eq!(home, program.home);
    let mut bytes = [0; 9000];
    let n = program.app.read(slot, &mut bytes);
    bytes[..n].to_vec()
}

/// Other processes have a listener whose program is gone: who comes waits in the meantime, also who
/// had come before, with what was said. Nobody is told of it until somebody listens there.
#[test]
fn a_listener_without_a_program_keeps_who_comes_for_the_next() {
    let mut h = harness();
    let gone = Program::new(&mut h, 0);
    open(&mut h, 5001);
    h.send(seg().seq(1).ack(1).win(WIN).data(b"GET").port(5001));
    assert_eq!(announced(&mut h).len(), 1);
    syn(&mut h, 5002);
    let (between, _) = add_home(&mut h.stack, 8, 0);
    let (listener, now) = (gone.listener, h.now());
    h.stack.release_home(gone.home);
    h.stack.move_listener(listener, between).unwrap();
    h.stack.app_gone(now, gone.home);
    assert!(!resets(&mut h));
    assert!(h.stack.remove_home(gone.home), "nothing is left there");
    h.send(h.handshake_ack(&Handshake::default()).port(5002));
    open(&mut h, 5003);
    assert_eq!(announced(&mut h), [], "nobody accepts");
    assert_eq!(h.stack.waiting_at(listener), Some(3));
    let mut next = Program::new(&mut h, 1);
    let waiting = announced(&mut h);
    assert!(waiting.iter().all(|(token, _)| *token == next.token));
    let texts = waiting
        .iter()
        .map(|&(_, conn)| read(&mut h, &mut next, conn));
    assert_eq!(texts.collect::<Vec<_>>(), [&b"GET"[..], b"", b""]);
    assert_eq!(h.stack.waiting_at(listener), Some(0));
    h.stack.app_gone(now, between);
    assert!(h.stack.remove_home(between) && !resets(&mut h));
    assert_eq!(h.stack.waiting_at(listener), None);
}

/// A worker that closes its listener, with a connection that it was told of, one that it was not
/// told of, and one whose handshake is not complete. All of them are another's; the first bytes of
/// the peers, also those that came out of order, and what they ended.
#[test]
fn what_waits_at_a_listener_that_closes_goes_to_another_program() {
    let mut h = harness();
    let mut first = Program::new(&mut h, 0);
    for port in [5001, 5002] {
        open(&mut h, port);
        h.send(seg().seq(1).ack(1).win(WIN).data(b"GET").port(port));
        h.send(seg().seq(6).ack(1).win(WIN).data(b"\r\n").port(port));
        if port == 5001 {
            assert_eq!(announced(&mut h).len(), 1);
        }
    }
    syn(&mut h, 5003);
    h.drain();
    let mut second = Program::new(&mut h, 1);
    h.execute(Command::Unlisten(first.listener));
    assert!(!resets(&mut h));
    h.send(h.handshake_ack(&Handshake::default()).port(5003));
    let waiting = announced(&mut h);
    assert_eq!(waiting.len(), 3);
    assert!(waiting.iter().all(|(token, _)| *token == second.token));
    for (port, (_, conn)) in [5001, 5002].into_iter().zip(&waiting) {
        h.send(seg().seq(4).ack(1).win(WIN).data(b" /").port(port));
        h.send(seg().seq(8).ack(1).fin().win(WIN).port(port));
        assert_eq!(read(&mut h, &mut second, *conn), b"GET /\r\n");
        let (_, slot) = h.stack.stream_of(*conn).unwrap();
        assert!(second.app.at_eof(slot));
        assert_eq!(second.app.write(slot, b"200"), 3);
        h.execute(Command::Send(*conn));
    }
    h.transmit();
    let answers = std::iter::from_fn(|| h.pop()).filter(|(.., bytes)| bytes == b"200");
    assert_eq!(answers.count(), 2);
    // The first gives back what it was told of, and has its slots again.
    first.app.release(0);
    assert!(h.stack.close_abandoned(first.home, 0));
    assert!(h.stack.remove_home(first.home));
}

/// `kill -9` of a worker: what it had not accepted is served by who is left.
#[test]
fn what_waits_at_a_program_that_is_gone_goes_to_another() {
    let mut h = harness();
    let mut second = Program::new(&mut h, 1);
    second.suspend(&mut h);
    let first = Program::new(&mut h, 0);
    for port in 5001..5004 {
        open(&mut h, port);
        h.send(seg().seq(1).ack(1).win(WIN).data(b"GET").port(port));
    }
    let told = announced(&mut h);
    assert!(told.iter().all(|(token, _)| *token == first.token));
    // One of them it has accepted: that ends.
    let accepted = told[0].1;
    h.execute(Command::Accept {
        conn: accepted,
        token: CLIENT,
    });
    second.resume(&mut h);
    h.drain();
    let now = h.now();
    h.stack.app_gone(now, first.home);
    assert!(resets(&mut h), "what it had read and not answered");
    let waiting = announced(&mut h);
    assert_eq!(waiting.len(), 2);
    for (_, conn) in waiting {
        assert_eq!(read(&mut h, &mut second, conn), b"GET");
    }
    assert!(h.stack.remove_home(first.home));
}

/// A worker that is killed when it has accepted, and read or written, and not said so yet: what is
/// left of those connections is nobody's, and their peers are told.
#[test]
fn what_a_program_that_is_gone_has_used_goes_to_nobody() {
    let mut h = harness();
    let _second = Program::new(&mut h, 1);
    let mut first = Program::new(&mut h, 0);
    let mut used = Vec::new();
    while used.len() < 2 {
        let port = 5001 + used.len() as u16 * 2;
        for port in [port, port + 1] {
            open(&mut h, port);
            h.send(seg().seq(1).ack(1).win(WIN).data(b"GET").port(port));
        }
        for (token, conn) in announced(&mut h) {
            let (_, slot) = h.stack.stream_of(conn).unwrap();
            if token != first.token {
                continue;
            }
            match used.len() {
                0 => assert_eq!(first.app.read(slot, &mut [0; 3]), 3),
                _ => assert_eq!(first.app.write(slot, b"200"), 3),
            }
            used.push(conn);
        }
    }
    let now = h.now();
    h.stack.release_home(first.home);
    h.stack.app_gone(now, first.home);
    assert_eq!(announced(&mut h), []);
    h.transmit();
    let sent = std::iter::from_fn(|| h.pop());
    let ends = TcpFlags::FIN | TcpFlags::RST;
    let ended = sent.filter(|(.., header, _)| header.flags.intersects(ends));
    assert_eq!(ended.count(), 2);
}

/// Nobody is left: peers are told, as by the kernel.
#[test]
fn the_last_listener_takes_with_it_who_waits() {
    let mut h = harness();
    let first = Program::new(&mut h, 0);
    // Of another place, which is no heir.
    let _other = first.listen(&mut h, "10.0.0.1:81");
    open(&mut h, 5001);
    assert_eq!(announced(&mut h).len(), 1);
    h.execute(Command::Unlisten(first.listener));
    assert!(resets(&mut h));
    h.send(Handshake::default().syn().port(5002));
    h.expect(seg().rst().ack(1).port(5002));
}

/// A master that has forked: its workers get everything, and it keeps what comes while there are
/// none. Nobody is refused or lost.
#[test]
fn a_backup_keeps_what_comes_until_somebody_accepts() {
    let mut h = harness();
    let mut master = Program::new(&mut h, 0);
    open(&mut h, 5001);
    assert_eq!(announced(&mut h).len(), 1);
    master.suspend(&mut h);
    assert!(!resets(&mut h));
    master.app.release(0);
    assert!(h.stack.close_abandoned(master.home, 0));
    open(&mut h, 5002);
    assert!(announced(&mut h).is_empty(), "it does not accept");
    h.send(seg().seq(1).ack(1).win(WIN).data(b"GET").port(5002));
    let mut worker = Program::new(&mut h, 1);
    let waiting = announced(&mut h);
    assert_eq!(waiting.len(), 2);
    assert!(waiting.iter().all(|(token, _)| *token == worker.token));
    assert_eq!(read(&mut h, &mut worker, waiting[1].1), b"GET");
    for port in 5010..5018 {
        open(&mut h, port);
    }
    let fresh = announced(&mut h);
    assert_eq!(fresh.len(), 8 - 2, "its slots");
    assert!(fresh.iter().all(|(token, _)| *token == worker.token));
    // The worker is killed, the master accepts itself.
    let now = h.now();
    h.stack.app_gone(now, worker.home);
    assert!(announced(&mut h).is_empty());
    master.resume(&mut h);
    let waiting = announced(&mut h);
    assert!(waiting.len() >= 7, "{waiting:?}");
    assert!(waiting.iter().all(|(token, _)| *token == master.token));
    assert_eq!(read(&mut h, &mut master, waiting[0].1), b"");
}

/// A master keeps nothing that a worker could have, however many wait at one that ends.
#[test]
fn what_waits_where_one_closes_goes_to_who_accepts_and_not_to_the_master() {
    let mut h = harness();
    let [master, first] = [0, 1].map(|number| Program::new(&mut h, number));
    master.suspend(&mut h);
    for port in 5001..5006 {
        open(&mut h, port);
    }
    assert_eq!(announced(&mut h).len(), 5);
    let second = Program::new(&mut h, 2);
    h.execute(Command::Unlisten(first.listener));
    let waiting = announced(&mut h);
    assert_eq!(waiting.len(), 5, "{waiting:?}");
    assert!(waiting.iter().all(|(token, _)| *token == second.token));
}

/// Where others listen, a process that has forked and ends is not waited for.
#[test]
fn the_last_one_that_closes_is_the_last() {
    let mut h = harness();
    let [master, worker] = [0, 1].map(|number| Program::new(&mut h, number));
    master.suspend(&mut h);
    let now = h.now();
    h.stack.app_gone(now, master.home);
    h.execute(Command::Unlisten(worker.listener));
    h.send(Handshake::default().syn().port(5002));
    h.expect(seg().rst().ack(1).port(5002));
}

/// A worker that does not accept (SIGSTOP) keeps none but the first from the others.
#[test]
fn who_accepts_gets_what_another_would_leave_waiting() {
    let mut h = harness();
    let [stopped, mut worker] = [0, 1].map(|number| Program::new(&mut h, number));
    let mut left = 0;
    for port in 5001..5030 {
        open(&mut h, port);
        for (token, conn) in announced(&mut h) {
            if token == stopped.token {
                left += 1;
                continue;
            }
            read(&mut h, &mut worker, conn);
            let (_, slot) = h.stack.stream_of(conn).unwrap();
            worker.app.release(slot);
            h.execute(Command::Abort(conn));
        }
    }
    assert_eq!(left, 1);
}

/// A SYN that was answered for a program that is gone is completed for another: by its cookie.
#[test]
fn a_cookie_is_taken_by_who_is_left() {
    let mut h = Harness::with(|config| {
        config.max_homes = 6;
        config.syn_cookies = SynCookies::Always;
    });
    let [first, second] = [0, 1].map(|number| Program::new(&mut h, number));
    for port in 5001..5005 {
        syn(&mut h, port);
    }
    let now = h.now();
    h.stack.app_gone(now, first.home);
    for port in 5001..5005 {
        h.send(h.handshake_ack(&Handshake::default()).port(port));
    }
    let waiting = announced(&mut h);
    assert_eq!(waiting.len(), 4);
    assert!(waiting.iter().all(|(token, _)| *token == second.token));
}

/// Before its handshake is complete (RFC 7413 §4.2.2) a connection may have brought data, and move.
#[test]
fn what_came_with_a_syn_is_read_by_who_is_left() {
    let mut h = harness();
    let first = Program::new(&mut h, 0);
    let request = Handshake::default().syn().port(4000);
    h.send(request.fast_open(FastOpenCookie::REQUEST));
    let reply = h.expect(seg().syn().ack(1).port(4000));
    let cookie = reply.options.fast_open.expect("a cookie");
    let opens = Handshake::default().syn().port(5002);
    h.send(opens.fast_open(cookie).data(b"GET"));
    h.expect(seg().syn().ack(4).port(5002));
    assert_eq!(announced(&mut h).len(), 1);
    let mut second = Program::new(&mut h, 1);
    let now = h.now();
    h.stack.app_gone(now, first.home);
    let (_, conn) = announced(&mut h)[0];
    h.send(seg().seq(4).ack(1).win(WIN).data(b" /").port(5002));
    assert_eq!(read(&mut h, &mut second, conn), b"GET /");
}

/// A program that has sent on a connection before it accepted it, or has no room for another's,
/// does not get the stack into disorder: the peer is told.
#[test]
fn what_cannot_move_is_reset() {
    let mut h = harness();
    let mut first = Program::new(&mut h, 0);
    open(&mut h, 5001);
    let conn = announced(&mut h)[0].1;
    assert_eq!(first.app.write(0, b"too early"), 9);
    let _second = Program::with_slots(&mut h, 1, 1);
    h.execute(Command::Send(conn));
    h.transmit();
    h.drain();
    h.execute(Command::Unlisten(first.listener));
    assert!(resets(&mut h));
    first.app.release(0);
    h.execute(Command::Abort(conn));
    first.listener = first.listen(&mut h, "0.0.0.0:80");
    for port in 5002..5006 {
        open(&mut h, port);
    }
    announced(&mut h);
    h.execute(Command::Unlisten(first.listener));
    assert!(resets(&mut h), "there is one slot");
    assert_eq!(announced(&mut h).len(), 0);
    assert!(!h.stack.take_disorder(first.home));
}

/// Of the application in the stack's process nothing can be taken back.
#[test]
fn an_application_in_this_process_is_no_backup() {
    let mut h = harness();
    h.stack.serve(0);
    h.listen(5, Options::default());
    let listener = h.listener();
    assert_eq!(h.refuse(Command::Suspend(listener)), Error::Invalid);
}
