//! Programs of one user that listen at one port, as processes that share a socket: who waits there
//! is served as long as one of them is left.

use std::net::TcpListener;
use std::os::fd::AsFd;

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
    /// Listens as one of those that have the kernel's socket.
    fn share_behind(&mut self, token: u32, kernel: &TcpListener) -> ListenerId {
        self.try_share(token, PORT, Some(kernel)).unwrap()
    }

    fn share(&mut self, token: u32) -> ListenerId {
        self.try_share(token, PORT, None).unwrap()
    }

    fn try_share(
        &mut self,
        token: u32,
        port: u16,
        kernel: Option<&TcpListener>,
    ) -> Result<ListenerId, Errno> {
        if let Some(kernel) = kernel {
            self.end.pass(kernel.as_fd()).unwrap();
            assert_eq!(self.call(&Call::KernelListener), Ok(Reply::Done));
        }
        let options = Options {
            reuse_port: true,
            ..Options::default()
        };
        let reply = self.ask(Command::Listen {
            token: Token(token),
            local: at("0.0.0.0", port),
            only_v6: false,
            backlog: 16,
            options,
        })?;
        let Reply::Listening(id, _) = reply else {
            panic!("{reply:?}");
        };
        Ok(id)
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

/// A process that has listened ends, or closes its listener, while others have the socket and do
/// not listen yet: who came and who comes waits for them. Once nobody has it, peers are refused.
#[test]
fn who_comes_waits_as_long_as_a_process_has_the_socket() {
    let mut world = World::new();
    let kernel = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut master = world.process(1);
    master.share_behind(5, &kernel);
    world.ask(b"before ");
    master.accepted();
    world.handle.detach(1);
    drop(master);
    world.ask(b"between");
    let of_nobody = |world: &World| {
        let rows = world.sockets(Some(USER));
        rows.iter().any(|&(_, pid, ..)| pid.is_none())
    };
    assert!(of_nobody(&world), "{:?}", world.sockets(None));
    // Another user gets nothing of it, and not the port.
    let mut other = world.program_of(USER + 1, 16);
    assert_eq!(other.listen(PORT, 1), Err(Errno::EADDRINUSE));
    let mut child = world.process(2);
    let listener = child.share_behind(6, &kernel);
    assert_eq!(child.hear_all(Token(6), 7), b"before ");
    assert_eq!(child.hear_all(Token(6), 7), b"between");
    assert_eq!(child.ask(Command::Leave(listener)), Ok(Reply::Done));
    world.ask(b"later  ");
    let mut third = world.process(3);
    let listener = third.share_behind(7, &kernel);
    assert_eq!(third.hear_all(Token(7), 7), b"later  ");
    // The one that was kept is not needed any more.
    let start = Instant::now();
    while of_nobody(&world) {
        assert!(start.elapsed() < DEADLINE, "{:?}", world.sockets(None));
    }
    drop(kernel);
    assert_eq!(third.ask(Command::Leave(listener)), Ok(Reply::Done));
    assert_eq!(world.connect(PORT), Err(Errno::ECONNREFUSED));
    world.end();
}

/// Two sockets of the kernel at one port (SO_REUSEPORT), as at the first reload of a master that
/// binds anew: who listens by the new one leaves it to a child that does not listen yet, and then
/// the old one ends. Who comes waits for the child.
#[test]
fn a_socket_is_kept_though_another_one_is_listened_at() {
    let mut world = World::new();
    let old = TcpListener::bind("127.0.0.1:0").unwrap();
    let new = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut first, mut second) = (world.process(1), world.process(2));
    let of_old = first.share_behind(5, &old);
    let of_new = second.share_behind(6, &new);
    assert_eq!(second.ask(Command::Leave(of_new)), Ok(Reply::Done));
    world.ask(b"before ");
    first.accepted();
    drop(old);
    assert_eq!(first.ask(Command::Leave(of_old)), Ok(Reply::Done));
    world.ask(b"between");
    let mut child = world.process(3);
    let listener = child.share_behind(7, &new);
    assert_eq!(child.hear_all(Token(7), 7), b"before ");
    assert_eq!(child.hear_all(Token(7), 7), b"between");
    drop(new);
    assert_eq!(child.ask(Command::Leave(listener)), Ok(Reply::Done));
    // That nobody has it is seen at the next look.
    let start = Instant::now();
    while world.connect(PORT) != Err(Errno::ECONNREFUSED) {
        assert!(start.elapsed() < DEADLINE, "{:?}", world.sockets(None));
    }
    world.end();
}

/// The last process that has the socket ends without having listened: who waits is reset, and
/// others are refused.
#[test]
fn who_waits_for_nobody_is_told() {
    let mut world = World::new();
    let kernel = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut master = world.process(1);
    let listener = master.share_behind(5, &kernel);
    assert_eq!(master.ask(Command::Leave(listener)), Ok(Reply::Done));
    let waits = world.ask(b"hello");
    drop(kernel);
    let told = world.peer.read(waits, &mut [0; 8]);
    assert_eq!(told, Err(Errno::ECONNRESET));
    assert_eq!(world.connect(PORT), Err(Errno::ECONNREFUSED));
    assert!(world.sockets(Some(USER)).is_empty());
    world.end();
}

/// A master of one user makes the listener, and its workers are of another: they have the socket,
/// and accept. Who has another socket, or none, does not, nor does it get another port by this one.
#[test]
fn who_has_the_socket_accepts_whoever_made_it() {
    let mut world = World::new();
    let kernel = TcpListener::bind("127.0.0.1:0").unwrap();
    let another = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut master, mut worker) = (world.process(1), world.program_of(USER + 1, 16));
    let listener = master.share_behind(5, &kernel);
    assert_eq!(master.ask(Command::Suspend(listener)), Ok(Reply::Done));
    world.ask(b"before");
    let refused = [
        (PORT, None, Errno::EADDRINUSE),
        (PORT, Some(&another), Errno::EADDRINUSE),
        (80, Some(&kernel), Errno::EACCES),
    ];
    for (port, socket, error) in refused {
        assert_eq!(worker.try_share(6, port, socket), Err(error));
    }
    worker.share_behind(6, &kernel);
    assert_eq!(worker.hear_all(Token(6), 6), b"before");
    // A socket stands for one listener: it was for that.
    let mut other = world.program_of(USER + 2, 16);
    assert_eq!(other.try_share(7, PORT, None), Err(Errno::EADDRINUSE));
    world.end();
}

/// A process is stopped, or busy with what it has accepted: what waits there is served by another,
/// and what it finds gone is no error. Then it gets its part again.
#[test]
fn what_waits_at_a_process_that_does_not_accept_is_served_by_another() {
    let mut world = World::new();
    let (mut stopped, mut busy) = (world.process(1), world.process(2));
    stopped.share(5);
    world.ask(b"before ");
    let (_, conn) = stopped.accepted();
    busy.share(6);
    for _ in 0..3 {
        world.ask(b"before ");
    }
    for _ in 0..4 {
        assert_eq!(busy.hear_all(Token(6), 7), b"before ");
    }
    assert!(!stopped.streams.accept(conn.slot));
    stopped.streams.release(conn.slot);
    assert_eq!(stopped.ask(Command::Abort(conn)), Err(Errno::EBADF));
    // Whatever else it was told of in between.
    while stopped.hear().is_some() || !stopped.events.is_empty() {
        if let Some(Event::Accepted { conn, .. }) = stopped.events.pop() {
            assert!(!stopped.streams.accept(conn.slot));
            stopped.streams.release(conn.slot);
            assert_eq!(stopped.ask(Command::Abort(conn)), Err(Errno::EBADF));
        }
    }
    let start = Instant::now();
    let told = loop {
        world.ask(b"after  ");
        world.ask(b"after  ");
        while stopped.hear().is_some() {}
        let told = stopped.events.pop();
        if told.is_some() || start.elapsed() > DEADLINE {
            break told;
        }
        busy.hear_all(Token(6), 7);
    };
    let accepted = Token(5);
    assert!(
        matches!(told, Some(Event::Accepted { listener, .. }) if listener == accepted),
        "{told:?}"
    );
    world.end();
}
