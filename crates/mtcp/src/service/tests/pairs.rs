//! Connections that processes have by sockets of the kernel: who has the other one of a pair reads
//! and writes as on the connection itself.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixDatagram, UnixStream};

use super::*;
use crate::How;

/// A connection that a program has accepted, and given one of a pair for, and the peer's side.
struct Conversation {
    world: World,
    program: Program,
    conn: ConnId,
    peer: SocketId,
    child: UnixStream,
}

impl Conversation {
    fn new() -> Self {
        let mut world = World::new();
        let mut program = world.program(8);
        program.listen(8080, 5).unwrap();
        let peer = world.connect(8080).unwrap();
        let (_, conn) = program.accepted();
        let token = Token(7);
        program.ask(Command::Accept { conn, token }).unwrap();
        let child = program.pair(conn);
        Self {
            world,
            program,
            conn,
            peer,
            child,
        }
    }
}

impl World {
    fn say(&mut self, peer: SocketId, text: &[u8]) {
        assert_eq!(self.peer.write(peer, text), Ok(text.len()));
    }

    /// What the peer hears next.
    fn heard(&mut self, peer: SocketId, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let mut n = 0;
        while n < len {
            let read = self.peer.read(peer, &mut bytes[n..]).unwrap();
            assert!(read > 0, "{n} of {len} bytes");
            n += read;
        }
        bytes
    }

    /// Waits until the stack has no connection, but those in TIME_WAIT.
    fn await_none(&mut self) {
        let start = Instant::now();
        let is_over = |(.., state): &(u32, Option<u32>, u16, State)| {
            matches!(state, State::TimeWait | State::Listen)
        };
        while !self.sockets(None).iter().all(is_over) {
            assert!(start.elapsed() < DEADLINE, "{:?}", self.sockets(None));
            self.peer.poll().unwrap();
            thread::yield_now();
        }
    }
}

impl Program {
    /// Gives one of a pair for a connection, and returns the other.
    fn pair(&mut self, conn: ConnId) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_read_timeout(Some(DEADLINE)).unwrap();
        self.give(conn, ours).unwrap();
        theirs
    }

    fn give(&mut self, conn: ConnId, end: impl AsFd) -> Result<Reply, Errno> {
        self.end.pass(end.as_fd()).unwrap();
        self.call(&Call::Pair(conn))
    }

    /// Waits until there is so much to read.
    fn await_readable(&self, conn: ConnId, len: u32) {
        let start = Instant::now();
        while self.streams.readable(conn.slot) < len {
            assert!(start.elapsed() < DEADLINE);
            thread::yield_now();
        }
    }

    fn close(&mut self, conn: ConnId) {
        self.streams.release(conn.slot);
        self.ask(Command::Close(conn)).unwrap();
    }
}

fn hears(child: &mut UnixStream, text: &[u8]) {
    let mut bytes = vec![0; text.len()];
    child.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes, text);
}

/// The program reads a part and writes something; who has the pair then goes on, in both
/// directions, and each end of the conversation is heard at the other side.
#[test]
fn a_connection_goes_on_when_its_program_has_closed_it() {
    let Conversation {
        mut world,
        mut program,
        conn,
        peer,
        mut child,
    } = Conversation::new();
    world.say(peer, b"one two");
    program.await_readable(conn, 7);
    assert_eq!(program.streams.read(conn.slot, &mut [0; 4]), 4);
    assert_eq!(program.streams.write(conn.slot, b"the program, "), 13);
    // It waits until the program is done.
    child.write_all(b"then the child").unwrap();
    program.close(conn);
    assert_eq!(world.heard(peer, 27), b"the program, then the child");
    hears(&mut child, b"two");
    world.say(peer, b"three");
    hears(&mut child, b"three");
    let much: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 253) as u8).collect();
    let (mut writer, sent) = (child.try_clone().unwrap(), much.clone());
    let writer = thread::spawn(move || writer.write_all(&sent).unwrap());
    assert!(world.heard(peer, much.len()) == much);
    writer.join().unwrap();
    child.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(world.peer.read(peer, &mut [0; 8]), Ok(0));
    world.say(peer, b"last");
    world.peer.shutdown(peer, How::Write).unwrap();
    hears(&mut child, b"last");
    assert_eq!(child.read(&mut [0; 8]).unwrap(), 0);
    drop(child);
    world.await_none();
    world.end();
}

/// A program that is killed leaves a connection to whoever else has it: of two, the first that
/// reads gets what comes, and both are heard.
#[test]
fn a_connection_goes_on_when_its_program_is_gone() {
    let Conversation {
        mut world,
        mut program,
        conn,
        peer,
        child: mut first,
    } = Conversation::new();
    let mut second = program.pair(conn);
    world.say(peer, b"not read");
    program.await_readable(conn, 8);
    assert_eq!(program.streams.write(conn.slot, b"last words"), 10);
    drop(program);
    assert_eq!(world.heard(peer, 10), b"last words");
    hears(&mut first, b"not read");
    first.write_all(b"one").unwrap();
    assert_eq!(world.heard(peer, 3), b"one");
    second.write_all(b"two").unwrap();
    assert_eq!(world.heard(peer, 3), b"two");
    drop(first);
    world.say(peer, b"for the second");
    hears(&mut second, b"for the second");
    drop(second);
    assert_eq!(world.peer.read(peer, &mut [0; 8]), Ok(0));
    world.peer.close(peer).unwrap();
    world.await_none();
    world.end();
}

/// Who closes with something unread resets (RFC 2525 §2.17), as on the kernel.
#[test]
fn a_child_that_leaves_something_unread_resets() {
    let Conversation {
        mut world,
        mut program,
        conn,
        peer,
        child,
    } = Conversation::new();
    program.close(conn);
    world.say(peer, b"nobody reads this");
    let start = Instant::now();
    while rustix::io::ioctl_fionread(&child).unwrap() < 17 {
        assert!(start.elapsed() < DEADLINE);
        thread::yield_now();
    }
    drop(child);
    let end = world.peer.read(peer, &mut [0; 8]);
    assert_eq!(end, Err(Errno::ECONNRESET));
    world.await_none();
    world.end();
}

/// A peer that resets ends the conversation of who has the pair.
#[test]
fn a_peer_that_resets_is_noticed() {
    let Conversation {
        mut world,
        mut program,
        conn,
        peer,
        mut child,
    } = Conversation::new();
    program.close(conn);
    world.peer.abort(peer).unwrap();
    world.peer.poll().unwrap();
    assert_eq!(child.read(&mut [0; 8]).unwrap(), 0);
    assert!(child.write_all(b"nobody hears").is_err());
    world.await_none();
    world.end();
}

/// Nothing but sockets with which no call waits, and nothing for what is another's.
#[test]
fn what_is_no_pair_is_refused() {
    let Conversation {
        mut world,
        mut program,
        conn,
        ..
    } = Conversation::new();
    let refused = Err(Errno::EINVAL);
    assert_eq!(program.call(&Call::Pair(conn)), refused, "nothing passed");
    let file = File::open("/dev/zero").unwrap();
    assert_eq!(program.give(conn, file), refused);
    let (datagrams, _other) = UnixDatagram::pair().unwrap();
    assert_eq!(program.give(conn, datagrams), refused);
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let mut other = world.program_of(1001, 8);
    assert_eq!(other.give(conn, &ours), Err(Errno::EBADF));
    // One that is not accepted may be another program's in the end.
    world.connect(8080).unwrap();
    let (_, waiting) = program.accepted();
    assert_eq!(program.give(waiting, ours), Err(Errno::EBADF));
    world.end();
}

/// Pairs are bounded for each user, and those of connections that are over count no more.
#[test]
fn pairs_of_a_user_are_bounded() {
    let Conversation {
        mut world,
        mut program,
        conn,
        peer,
        child,
    } = Conversation::new();
    let mut others = vec![child];
    let refused = loop {
        let (ours, theirs) = UnixStream::pair().unwrap();
        match program.give(conn, ours) {
            Ok(_) => others.push(theirs),
            Err(error) => break error,
        }
    };
    assert_eq!((others.len(), refused), (64, Errno::ENOBUFS));
    program.close(conn);
    drop(others);
    world.peer.close(peer).unwrap();
    world.await_none();
    world.connect(8080).unwrap();
    let (_, conn) = program.accepted();
    let token = Token(8);
    program.ask(Command::Accept { conn, token }).unwrap();
    let (ours, _theirs) = UnixStream::pair().unwrap();
    assert_eq!(program.give(conn, ours), Ok(Reply::Done));
    world.end();
}
