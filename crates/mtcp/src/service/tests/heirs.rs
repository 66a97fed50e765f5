//! Programs of one user that listen at one port, as processes that share a socket: who waits there
//! is served as long as one of them is left.

use super::*;

const PORT: u16 = 8080;
const USER: u32 = 1000;

impl World {
    /// A process of the same user as all others.
    fn process(&self, pid: u32) -> Program {
        let who = Identity {
            id: pid.into(),
            pid,
            uid: USER,
        };
        self.program_as(who, 16)
    }

    /// A connection of the peer, on which it says something.
    fn ask(&mut self, text: &[u8]) -> SocketId {
        let socket = self.connect(PORT).unwrap();
        assert_eq!(self.peer.write(socket, text), Ok(text.len()));
        socket
    }
}

impl Program {
    fn share(&mut self, token: u32) -> ListenerId {
        let options = Options {
            reuse_port: true,
            ..Options::default()
        };
        let reply = self.ask(Command::Listen {
            token: Token(token),
            local: at("0.0.0.0", PORT),
            only_v6: false,
            backlog: 16,
            options,
        });
        let Ok(Reply::Listening(id, _)) = reply else {
            panic!("{reply:?}");
        };
        id
    }

    /// Accepts a connection that waits; all that the peer says on it.
    fn hear_all(&mut self, token: Token, len: usize) -> Vec<u8> {
        let (listener, conn) = self.accepted();
        assert_eq!(listener, token);
        let token = Token(77);
        assert_eq!(self.ask(Command::Accept { conn, token }), Ok(Reply::Done));
        let (mut bytes, mut n, start) = (vec![0; len], 0, Instant::now());
        while n < len {
            n += self.streams.read(conn.slot, &mut bytes[n..]);
            assert!(start.elapsed() < DEADLINE, "{n} bytes");
            thread::yield_now();
        }
        bytes
    }
}

/// `kill -9` of one: what it has not accepted is the other's, with all that peers have said.
#[test]
fn what_a_killed_process_has_not_accepted_is_served_by_another() {
    let mut world = World::new();
    let (mut killed, mut left) = (world.process(1), world.process(2));
    killed.share(5);
    for _ in 0..4 {
        world.ask(b"before ");
    }
    // It was told of one at least.
    killed.accepted();
    left.share(6);
    let late = world.ask(b"before ");
    world.handle.detach(1);
    drop(killed);
    for _ in 0..5 {
        assert_eq!(left.hear_all(Token(6), 7), b"before ");
    }
    assert_eq!(world.peer.write(late, b"and after"), Ok(9));
    world.end();
}

/// A master that has forked keeps nothing from its workers, and what comes while there are none it
/// keeps for the next one. What it was told of before cannot be accepted by it any more.
#[test]
fn a_suspended_listener_keeps_what_comes_for_others() {
    let mut world = World::new();
    let (mut master, mut worker) = (world.process(1), world.process(2));
    let listener = master.share(5);
    world.ask(b"first");
    let (_, conn) = master.accepted();
    assert_eq!(master.ask(Command::Suspend(listener)), Ok(Reply::Done));
    let token = Token(9);
    let stale = master.ask(Command::Accept { conn, token });
    assert_eq!(stale, Err(Errno::EBADF));
    assert_eq!(master.ask(Command::Info(conn)), Err(Errno::EBADF));
    master.streams.release(conn.slot);
    assert_eq!(master.ask(Command::Abort(conn)), Err(Errno::EBADF));
    world.ask(b"while");
    worker.share(6);
    assert_eq!(worker.hear_all(Token(6), 5), b"first");
    assert_eq!(worker.hear_all(Token(6), 5), b"while");
    world.handle.detach(2);
    drop(worker);
    world.ask(b"after");
    let token = Token(7);
    let resumed = master.ask(Command::Resume { listener, token });
    assert_eq!(resumed, Ok(Reply::Done));
    assert_eq!(master.hear_all(Token(7), 5), b"after");
    // Nobody holds it: peers are refused at once.
    assert_eq!(master.ask(Command::Unlisten(listener)), Ok(Reply::Done));
    assert_eq!(world.connect(PORT), Err(Errno::ECONNREFUSED));
    world.end();
}
