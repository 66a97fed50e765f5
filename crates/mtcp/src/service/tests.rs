//! Programs that say what they must not, or more than there is room for, beside others.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ::io::sim::{SimConfig, SimPort, pair};
use mtcp_core::command::Options;
use mtcp_core::info::State;
use mtcp_core::{AppStreams, Command, ConnId, Event, ListenerId, Reply, Token};
use ring::region::Shared;

use super::*;
use crate::driver::{Doorbell, Staged};
use crate::{Config, Context, Domain, Errno, SocketId, assembly};

mod attachments;
mod beside;
mod heirs;
mod pairs;
mod slept_on;

const DEADLINE: Duration = Duration::from_secs(60);
const HOST: &str = "10.0.0.2";

fn config(address: &str) -> Config {
    let mut config = Config {
        spin: Duration::ZERO,
        huge_pages: false,
        max_concurrency: 4096,
        ..Config::default()
    };
    config.set("addr", &format!("{address}/24")).unwrap();
    config
}

fn at(host: &str, port: u16) -> SocketAddr {
    SocketAddr::new(host.parse().unwrap(), port)
}

/// Ports below 1000 are not allowed, and so many connections and listeners.
#[derive(Debug)]
struct Few(usize);

impl Policy for Few {
    fn listen(&self, local: SocketAddr) -> crate::Result<()> {
        let is_allowed = local.port() >= 1000;
        is_allowed.then_some(()).ok_or(Errno::EACCES)
    }

    fn connect(&self, _: Option<SocketAddr>, remote: SocketAddr) -> crate::Result<()> {
        self.listen(remote)
    }

    fn tell(&self, _: &str) {}

    fn connections(&self) -> usize {
        self.0
    }

    fn listeners(&self) -> usize {
        self.0
    }

    fn memory(&self) -> usize {
        1 << 20
    }
}

/// A daemon on a thread, and a peer.
struct World {
    handle: HostHandle,
    thread: JoinHandle<std::io::Result<()>>,
    peer: Context,
}

impl World {
    fn new() -> Self {
        let (ours, theirs): (SimPort, SimPort) = pair(SimConfig::default()).unwrap();
        let (host, handle) = assembly::host_on_port(ours.into(), &config(HOST)).unwrap();
        Self {
            handle,
            thread: thread::spawn(|| host.run()),
            peer: Context::on_port(theirs, &config("10.0.0.1"), 0).unwrap(),
        }
    }

    fn program(&self, most: usize) -> Program {
        self.program_of(1000, most)
    }

    /// That of a user, whose process has the same number.
    fn program_of(&self, uid: u32, most: usize) -> Program {
        let who = Identity {
            id: uid.into(),
            pid: uid,
            uid,
        };
        self.program_as(who, most)
    }

    fn program_as(&self, who: Identity, most: usize) -> Program {
        let policy = Arc::new(Few(most));
        let attachment = self.handle.attach(who, policy, Arc::default()).unwrap();
        let memory = attachment.streams.try_clone().unwrap();
        let (end, streams) = attachment.join().unwrap();
        Program {
            end,
            streams,
            memory: Shared::from_fd(memory, usize::MAX).unwrap(),
            events: Vec::new(),
            serial: 0,
        }
    }

    /// The sockets of a user, or of all: each with its user, process, port and state.
    fn sockets(&self, of: Option<u32>) -> Vec<(u32, Option<u32>, u16, State)> {
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            let (answer, answered) = channel();
            let send = move |piece| answer.send(piece).unwrap();
            self.handle.list_sockets(of, from, 2, send).unwrap();
            let piece = answered.recv_timeout(DEADLINE).unwrap();
            assert!(piece.sockets.len() <= 2);
            let row = |one: &Socket| (one.uid, one.pid, one.local.port(), one.state);
            all.extend(piece.sockets.iter().map(row));
            match piece.next {
                Some(next) => from = next,
                None => return all,
            }
        }
    }

    /// A connection of the peer, or why there is none.
    fn connect(&mut self, port: u16) -> Result<SocketId, Errno> {
        let socket = self.peer.socket(Domain::V4).unwrap();
        self.peer.connect(socket, at(HOST, port)).map(|()| socket)
    }

    fn end(self) {
        self.handle.stop();
        self.thread.join().unwrap().unwrap();
    }
}

/// A program that says what it likes.
struct Program {
    end: ProgramEnd,
    streams: AppStreams,
    /// That of the streams, with the record of the first slot at its beginning.
    memory: Shared,
    events: Vec<Event>,
    serial: u32,
}

impl Program {
    fn hear(&mut self) -> Option<(u32, Answer)> {
        match self.end.hear().unwrap()? {
            Heard::Answer(serial, answer) => Some((serial, answer)),
            Heard::Event(event) => {
                self.events.push(event);
                None
            }
        }
    }

    fn ask(&mut self, command: Command) -> Result<Reply, Errno> {
        self.call(&Call::Command(command))
    }

    fn call(&mut self, call: &Call) -> Result<Reply, Errno> {
        self.serial += 1;
        assert!(self.end.stage_call(self.serial, call));
        self.end.publish();
        let start = Instant::now();
        loop {
            match self.hear() {
                Some((serial, Answer::Reply(reply))) if serial == self.serial => {
                    return reply.map_err(Errno);
                }
                Some(other) => panic!("{other:?}"),
                None => assert!(start.elapsed() < DEADLINE),
            }
            thread::yield_now();
        }
    }

    fn listen(&mut self, port: u16, token: u32) -> Result<ListenerId, Errno> {
        let reply = self.ask(Command::Listen {
            token: Token(token),
            local: at("0.0.0.0", port),
            only_v6: false,
            backlog: 16,
            options: Options::default(),
        })?;
        let Reply::Listening(id, _) = reply else {
            panic!("{reply:?}");
        };
        Ok(id)
    }

    /// The next connection that waits at a listener.
    fn accepted(&mut self) -> (Token, ConnId) {
        let start = Instant::now();
        loop {
            if let Some(Event::Accepted { listener, conn, .. }) = self.events.pop() {
                return (listener, conn);
            }
            self.hear();
            assert!(start.elapsed() < DEADLINE);
            thread::yield_now();
        }
    }

    fn is_detached(&mut self) -> bool {
        let start = Instant::now();
        while self.end.lives() {
            assert!(start.elapsed() < DEADLINE);
            thread::yield_now();
        }
        true
    }
}

/// It hears so in a turn that has nothing else to do, and does not sleep over it.
#[test]
fn a_daemon_ends_when_it_is_told() {
    let (ours, _theirs): (SimPort, SimPort) = pair(SimConfig::default()).unwrap();
    let (mut host, handle) = assembly::host_on_port(ours.into(), &config(HOST)).unwrap();
    let start = Instant::now();
    while host.work().unwrap() || !host.is_at_rest() {
        assert!(start.elapsed() < DEADLINE);
        thread::sleep(Duration::from_millis(1));
    }
    handle.stop();
    assert!(host.take_orders());
    let (ended, end) = channel();
    thread::spawn(move || ended.send(host.sleep().is_ok()));
    assert_eq!(end.recv_timeout(DEADLINE), Ok(true));
}

/// Everything that a program may name belongs to it.
#[test]
fn a_program_reaches_nothing_of_another() {
    let mut world = World::new();
    let (mut owner, mut other) = (world.program(8), world.program(8));
    let listener = owner.listen(8080, 5).unwrap();
    assert_eq!(other.listen(8080, 5), Err(Errno::EADDRINUSE));
    let socket = world.connect(8080).unwrap();
    let (token, conn) = owner.accepted();
    assert_eq!(token, Token(5));

    for command in [
        Command::Unlisten(listener),
        Command::Leave(listener),
        Command::Suspend(listener),
        Command::Resume {
            listener,
            token: Token(1),
        },
        Command::SetListenerOptions {
            listener,
            options: Options::default(),
        },
        Command::Accept {
            conn,
            token: Token(1),
        },
        Command::Send(conn),
        Command::Shutdown(conn),
        Command::Close(conn),
        Command::Abort(conn),
        Command::Info(conn),
        Command::SetOptions {
            conn,
            options: Options::default(),
        },
    ] {
        assert_eq!(other.ask(command), Err(Errno::EBADF), "{command:?}");
    }
    // All of its own are none.
    assert_eq!(other.ask(Command::AbortAll), Ok(Reply::Done));
    let token = Token(9);
    assert_eq!(owner.ask(Command::Accept { conn, token }), Ok(Reply::Done));
    // A connection is taken once.
    assert_eq!(
        owner.ask(Command::Accept { conn, token }),
        Err(Errno::EBADF)
    );
    assert!(owner.ask(Command::Info(conn)).is_ok());
    assert!(other.events.is_empty());
    world.peer.close(socket).unwrap();
    world.end();
}

#[test]
fn what_is_not_allowed_or_too_much_is_refused() {
    let mut world = World::new();
    let mut program = world.program(2);
    assert_eq!(program.listen(999, 1), Err(Errno::EACCES));
    program.listen(1000, 1).unwrap();
    program.listen(1001, 2).unwrap();
    assert_eq!(program.listen(1002, 3), Err(Errno::ENOBUFS));
    let connect = Command::Connect {
        token: Token(4),
        local: None,
        remote: at("10.0.0.1", 80),
        options: Options::default(),
    };
    assert_eq!(program.ask(connect), Err(Errno::EACCES));
    // The third connection is one too many: it waits until there is room, as where a backlog is
    // full.
    for port in [1000, 1001] {
        world.connect(port).unwrap();
    }
    let (_, first) = program.accepted();
    program.accepted();
    world.connect(1000).unwrap();
    program.streams.release(first.slot);
    assert_eq!(program.ask(Command::Abort(first)), Ok(Reply::Done));
    let start = Instant::now();
    while program.events.is_empty() {
        program.hear();
        // It answers the SYN-ACK when that comes again.
        world.peer.poll().unwrap();
        assert!(start.elapsed() < DEADLINE);
        thread::yield_now();
    }
    program.accepted();
    // Another program has a budget of its own.
    let mut other = world.program(2);
    other.listen(1003, 1).unwrap();
    world.connect(1003).unwrap();
    other.accepted();
    world.end();
}

/// What means nothing ends the channel of the program that said it, and no other.
#[test]
fn a_program_that_cannot_be_understood_is_detached() {
    let mut world = World::new();
    let (mut honest, mut broken) = (world.program(8), world.program(8));
    honest.listen(8080, 1).unwrap();
    broken.listen(8081, 1).unwrap();
    let nonsense = Staged::nonsense();
    assert!(broken.end.stage(nonsense));
    broken.end.publish();
    assert!(broken.is_detached());
    assert!(world.connect(8080).is_ok());
    assert_eq!(world.connect(8081), Err(Errno::ECONNREFUSED));
    honest.accepted();
    world.end();
}

/// The same for what it writes to the memory of its streams: at the next look at the connection
/// whose record it is.
#[test]
fn a_program_that_writes_to_its_streams_what_cannot_be_is_detached() {
    let mut world = World::new();
    let (mut honest, mut broken) = (world.program(8), world.program(8));
    honest.listen(8080, 1).unwrap();
    broken.listen(8081, 1).unwrap();
    let socket = world.connect(8080).unwrap();
    let (_, theirs) = honest.accepted();
    world.connect(8081).unwrap();
    let (_, conn) = broken.accepted();
    assert_eq!(conn.slot, 0);
    assert!(broken.memory.write_at(0, &[0xff; 64]));
    assert!(
        broken
            .end
            .stage_call(99, &Call::Command(Command::Info(conn)))
    );
    broken.end.publish();
    assert!(broken.is_detached());
    assert_eq!(world.connect(8081), Err(Errno::ECONNREFUSED));
    // Of the other, what was there goes on, and there is more.
    assert_eq!(world.peer.write(socket, b"still here"), Ok(10));
    let start = Instant::now();
    while honest.streams.readable(theirs.slot) < 10 {
        assert!(start.elapsed() < DEADLINE);
        thread::yield_now();
    }
    let mut got = [0; 10];
    assert_eq!(honest.streams.read(theirs.slot, &mut got), 10);
    assert_eq!(&got, b"still here");
    assert!(world.connect(8080).is_ok());
    honest.accepted();
    world.end();
}

/// As the kernel does for a process that ends: listeners close, and connections with them.
#[test]
fn the_end_of_a_program_closes_what_it_had() {
    let mut world = World::new();
    let mut program = world.program(8);
    program.listen(8080, 1).unwrap();
    let socket = world.connect(8080).unwrap();
    let (_, conn) = program.accepted();
    let news = Doorbell::Accept(conn, Token(3));
    // Said in the last moment.
    assert!(program.end.stage(news.into()));
    program.end.publish();
    drop(program);
    assert_eq!(world.peer.read(socket, &mut [0]), Ok(0));
    let start = Instant::now();
    while world.connect(8080) != Err(Errno::ECONNREFUSED) {
        assert!(start.elapsed() < DEADLINE);
    }
    world.end();
}

/// Events of a program that never looks are kept, one for a connection, and cost others nothing.
/// A write and a question that come in one turn.
#[test]
fn a_question_right_after_a_write_is_answered_as_if_the_write_was_done() {
    let mut world = World::new();
    let mut program = world.program(8);
    program.listen(7000, 1).unwrap();
    let _socket = world.connect(7000).unwrap();
    let (_, conn) = program.accepted();
    let token = Token(2);
    program.ask(Command::Accept { conn, token }).unwrap();
    assert_eq!(program.streams.write(conn.slot, &[7; 100]), 100);
    program.end.stage(Staged::from(Doorbell::Send(conn)));
    let Reply::Info(info) = program.ask(Command::Info(conn)).unwrap() else {
        panic!("no answer");
    };
    assert_eq!((info.unacked, info.not_sent), (100, 0));
    world.end();
}

#[test]
fn a_program_that_does_not_listen_hears_everything_later() {
    const CALLS: u32 = 2000;
    let mut world = World::new();
    let mut deaf = world.program(8);
    deaf.listen(8080, 1).unwrap();
    world.connect(8080).unwrap();
    let (_, conn) = deaf.accepted();
    // More answers than its ring has room for, and as many calls as the other has.
    for serial in 0..CALLS {
        assert!(deaf.end.stage_call(serial, &Call::Usage));
    }
    deaf.end.publish();
    let mut other = world.program(8);
    other.listen(8081, 1).unwrap();
    world.connect(8081).unwrap();
    other.accepted();
    for serial in 0..CALLS {
        let start = Instant::now();
        loop {
            match deaf.hear() {
                Some((answered, Answer::Usage { open, .. })) => {
                    assert_eq!((answered, open), (serial, 1));
                    break;
                }
                Some(other) => panic!("{other:?}"),
                None => assert!(start.elapsed() < DEADLINE),
            }
            deaf.end.publish();
            thread::yield_now();
        }
    }
    assert_eq!(deaf.ask(Command::Abort(conn)), Ok(Reply::Done));
    world.end();
}

/// Of other users' sockets a list says nothing, not even that there are some.
#[test]
fn users_see_their_own_sockets() {
    use State::{Established, FinWait2, Listen};
    let mut world = World::new();
    let (mut anne, mut bert) = (world.program_of(1001, 8), world.program_of(1002, 8));
    anne.listen(8080, 1).unwrap();
    anne.listen(8081, 2).unwrap();
    bert.listen(8082, 1).unwrap();
    for port in [8080, 8082] {
        world.connect(port).unwrap();
    }
    let (_, conn) = anne.accepted();
    let token = Token(9);
    assert_eq!(anne.ask(Command::Accept { conn, token }), Ok(Reply::Done));
    bert.accepted();
    let listeners = |uid: u32| (uid, Some(uid), Listen);
    let ofs = [Some(1001), Some(1002), Some(1003), Some(0)];
    let [of_anne, of_bert, of_nobody, of_root] = ofs.map(|of| world.sockets(of));
    let named = |(uid, pid, port, state): (u32, Option<u32>, u16, State)| ((uid, pid, state), port);
    assert_eq!(
        Vec::from_iter(of_anne.iter().copied().map(named)),
        [
            (listeners(1001), 8080),
            (listeners(1001), 8081),
            ((1001, Some(1001), Established), 8080),
        ]
    );
    // Nobody has accepted the other connection.
    assert_eq!(
        Vec::from_iter(of_bert.iter().copied().map(named)),
        [(listeners(1002), 8082), ((1002, None, Established), 8082),]
    );
    assert_eq!((of_nobody, of_root), (Vec::new(), Vec::new()));
    let mut all = world.sockets(None);
    all.sort_unstable_by_key(|row| row.0);
    assert_eq!(all, [of_anne, of_bert].concat());

    // What is left of a program is its user's, and no process has it.
    drop(anne);
    world.handle.detach(1001);
    let start = Instant::now();
    while world.sockets(Some(1001)) != [(1001, None, 8080, FinWait2)] {
        assert!(start.elapsed() < DEADLINE, "{:?}", world.sockets(None));
        let _ = world.peer.poll();
        thread::yield_now();
    }
    assert_eq!(world.sockets(Some(1002)).len(), 2);
    world.end();
}

/// Who asks without end has a piece in a turn, and packets are served in between.
#[test]
fn lists_hold_up_nobody() {
    let (ours, _theirs): (SimPort, SimPort) = pair(SimConfig::default()).unwrap();
    let (mut host, handle) = assembly::host_on_port(ours.into(), &config(HOST)).unwrap();
    let (answer, answered) = channel();
    for n in 0..100 {
        let answer = answer.clone();
        let send = move |_| answer.send(n).unwrap();
        handle.list_sockets(None, 0, 8, send).unwrap();
    }
    host.take_orders();
    assert_eq!(answered.try_iter().count(), 0);
    for done in 0..100 {
        host.sleep().unwrap();
        let pieces = Vec::from_iter(answered.try_iter());
        assert_eq!(pieces, [done], "one in its turn");
    }
    assert!(!host.list_some());
    // Those of a loop that ends never come, and who waits is told.
    drop(answer);
    let (answer, answered) = channel();
    let send = move |_| answer.send(()).unwrap();
    handle.list_sockets(None, 0, 8, send).unwrap();
    drop(host);
    assert!(answered.recv_timeout(DEADLINE).is_err());
    assert!(handle.list_sockets(None, 0, 8, |_| ()).is_err());
}
