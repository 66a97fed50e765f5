//! What the fuzz target `service` runs, and the tests on random bytes: a program that says anything
//! and writes anything into its rings and streams, and punches holes there, beside one that is
//! honest.

#![allow(clippy::panic)]

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use ::io::sim::{SimConfig, pair};
use mtcp_core::command::Options;
use mtcp_core::info::State;
use mtcp_core::{AppStreams, Command, ConnId, Event, ListenerId, Reply, Token};
use ring::region::Shared;
use rustix::fs::{FallocateFlags, fallocate};

use super::local::Anything;
use super::{Answer, Call, Heard, Host, HostHandle, Identity, Piece, ProgramEnd};
use crate::driver::Staged;
use crate::{Config, Context, Domain, SocketId, assembly};

const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// Where the hostile and the honest program listen.
const HOSTILE: u16 = 8080;
const HONEST: u16 = 8081;
/// Users of the two.
const HOSTILE_UID: u32 = 1001;
const HONEST_UID: u32 = 1002;
/// Turns in which anything is done that is due.
const TURNS: usize = 50;
/// Bytes of a page.
const PAGE: usize = 4096;
/// Deeds of one hostile program at most.
const DEEDS: usize = 256;
/// What the honest program and its peer write to each other.
const LEN: usize = 100;
const TO_HONEST: [u8; LEN] = [0xa5; LEN];
const TO_PEER: [u8; LEN] = [0x5a; LEN];

fn config(address: Ipv4Addr) -> Config {
    let mut config = Config {
        spin: std::time::Duration::ZERO,
        huge_pages: false,
        max_concurrency: 64,
        ..Config::default()
    };
    let set = config.set("addr", &format!("{address}/24"));
    assert!(set.is_ok(), "{set:?}");
    config
}

/// A program.
#[derive(Debug)]
struct Program {
    end: ProgramEnd,
    streams: AppStreams,
    serial: u32,
    /// What it was last told.
    conn: ConnId,
    listener: ListenerId,
    accepted: usize,
    /// Of the connection that it last asked about.
    state: State,
}

impl Program {
    fn attach(handle: &HostHandle, uid: u32) -> Option<(Self, [Memory; 2])> {
        let who = Identity { id: 0, pid: 1, uid };
        let attachment = handle
            .attach(who, Arc::new(Anything), Arc::default())
            .ok()?;
        let memory = [
            Memory::of(&attachment.queues)?,
            Memory::of(&attachment.streams)?,
        ];
        let (end, streams) = attachment.join().ok()?;
        let program = Self {
            end,
            streams,
            serial: 0,
            conn: ConnId {
                slot: 0,
                generation: 0,
            },
            listener: ListenerId {
                slot: 0,
                generation: 0,
            },
            accepted: 0,
            state: State::Closed,
        };
        Some((program, memory))
    }

    fn call(&mut self, command: Command) {
        self.serial = self.serial.wrapping_add(1);
        self.end.stage_call(self.serial, &Call::Command(command));
        self.end.publish();
    }

    /// Says news, if these words are some.
    fn say(&mut self, unit: [u64; 2]) {
        if let Some(news) = Staged::from_unit(unit) {
            self.end.stage(news);
            self.end.publish();
        }
    }

    fn listen(&mut self, port: u16) {
        self.call(Command::Listen {
            token: Token(u32::from(port)),
            local: SocketAddr::new(HOST.into(), port),
            only_v6: false,
            backlog: 8,
            options: Options::default(),
        });
    }

    /// Takes what it is told. False: that means nothing.
    fn hear(&mut self) -> bool {
        loop {
            match self.end.hear() {
                Ok(Some(Heard::Event(Event::Accepted { conn, .. }))) => {
                    self.conn = conn;
                    self.accepted += 1;
                }
                Ok(Some(Heard::Answer(_, Answer::Reply(Ok(Reply::Listening(id, _)))))) => {
                    self.listener = id;
                }
                Ok(Some(Heard::Answer(_, Answer::Reply(Ok(Reply::Info(info)))))) => {
                    self.state = info.state;
                }
                Ok(Some(_)) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }
}

/// What a program shares with the daemon.
#[derive(Debug)]
struct Memory {
    all: Shared,
    fd: OwnedFd,
}

impl Memory {
    fn of(fd: &OwnedFd) -> Option<Self> {
        Some(Self {
            all: Shared::from_fd(fd.try_clone().ok()?, usize::MAX).ok()?,
            fd: fd.try_clone().ok()?,
        })
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        self.all.write_at(at % self.all.len(), bytes);
    }

    /// Gives all pages back. They are zeros from then on.
    fn punch(&self) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let punched = fallocate(self.fd.as_fd(), flags, 0, self.all.len() as u64);
        assert!(punched.is_ok(), "{punched:?}");
    }
}

/// A daemon, its programs and a peer, on one thread.
struct World {
    host: Host,
    hostile: Program,
    queues: Memory,
    streams: Memory,
    honest: Program,
    peer: Context,
    handle: HostHandle,
}

impl World {
    fn new() -> Option<Self> {
        let (ours, theirs) = pair(SimConfig::default()).ok()?;
        let (mut host, handle) = assembly::host_on_port(ours.into(), &config(HOST)).ok()?;
        let (mut hostile, [queues, streams]) = Program::attach(&handle, HOSTILE_UID)?;
        let (mut honest, _) = Program::attach(&handle, HONEST_UID)?;
        hostile.listen(HOSTILE);
        honest.listen(HONEST);
        host.take_orders();
        Some(Self {
            host,
            hostile,
            queues,
            streams,
            honest,
            peer: Context::on_port(theirs, &config(PEER), 0).ok()?,
            handle,
        })
    }

    fn turns(&mut self, n: usize) {
        for _ in 0..n {
            let worked = self.host.work();
            assert!(worked.is_ok(), "{worked:?}");
            let _ = self.peer.poll();
            assert!(self.honest.hear(), "an honest program is told nonsense");
        }
    }

    /// Holes in what the hostile program shares, or a new channel.
    fn punch_or_attach(&mut self, choice: u8) {
        match choice {
            0..16 => self.streams.punch(),
            16..32 => self.queues.punch(),
            _ => self.attach_again(),
        }
    }

    /// The hostile program comes back when it was detached.
    fn attach_again(&mut self) {
        if self.hostile.end.lives() {
            return;
        }
        if let Some((hostile, [queues, streams])) = Program::attach(&self.handle, HOSTILE_UID) {
            self.hostile = hostile;
            (self.queues, self.streams) = (queues, streams);
            self.hostile.listen(HOSTILE);
            self.host.take_orders();
        }
    }

    /// The peer and the honest program write to each other.
    fn write_both(&mut self, conn: ConnId, socket: SocketId) {
        assert_eq!(self.peer.write(socket, &TO_HONEST), Ok(TO_HONEST.len()));
        let written = self.honest.streams.write(conn.slot, &TO_PEER);
        assert_eq!(written, TO_PEER.len());
        self.honest.call(Command::Send(conn));
    }

    /// What both have written is what the other reads.
    fn read_both(&mut self, conn: ConnId, socket: SocketId) {
        let (mut here, mut there) = (Vec::new(), Vec::new());
        let mut buf = [0; 2 * LEN];
        for _ in 0..TURNS {
            self.turns(1);
            let len = self.honest.streams.read(conn.slot, &mut buf);
            here.extend(buf.get(..len).unwrap_or_default());
            let len = self.peer.read(socket, &mut buf).unwrap_or(0);
            there.extend(buf.get(..len).unwrap_or_default());
            if here.len() + there.len() >= 2 * LEN {
                break;
            }
        }
        assert_eq!((&here[..], &there[..]), (&TO_HONEST[..], &TO_PEER[..]));
    }

    /// A connection of the peer with the honest program, which takes it.
    fn serve_one(&mut self) -> (ConnId, Option<SocketId>) {
        let before = self.honest.accepted;
        let socket = self.connect(HONEST);
        for _ in 0..TURNS {
            self.turns(1);
            if self.honest.accepted > before {
                let conn = self.honest.conn;
                self.honest.call(Command::Accept {
                    conn,
                    token: Token(1),
                });
                self.turns(1);
                return (conn, socket);
            }
        }
        panic!("a program that did nothing wrong is not served");
    }

    /// The hostile program asks for sockets from anywhere on: none is the honest one's.
    fn list(&mut self, from: u64) {
        let check = move |piece: Piece| {
            let mut sockets = piece.sockets.iter();
            assert!(sockets.all(|one| one.uid == HOSTILE_UID), "{piece:?}");
            assert!(piece.next.is_none_or(|next| next > from), "{piece:?}");
        };
        let ordered = self.handle.list_sockets(Some(HOSTILE_UID), from, 4, check);
        assert!(ordered.is_ok(), "{ordered:?}");
        self.host.take_orders();
        assert!(self.host.list_some(), "nobody is answered");
    }

    fn connect(&mut self, port: u16) -> Option<SocketId> {
        let socket = self.peer.socket(Domain::V4).ok()?;
        self.peer.set_nonblocking(socket, true).ok()?;
        let _ = self
            .peer
            .connect(socket, SocketAddr::new(HOST.into(), port));
        Some(socket)
    }

    /// The peer connects to the hostile program, writes, and perhaps closes.
    fn visit(&mut self, a: u8) {
        let Some(socket) = self.connect(HOSTILE) else {
            return;
        };
        self.turns(3);
        let _ = self.peer.write(socket, &[a; 100]);
        if a & 1 == 0 {
            let _ = self.peer.close(socket);
        }
    }

    /// One deed of the hostile program or the peer. What the former names is mostly what there is.
    fn step(&mut self, [deed, a, b, c]: [u8; 4]) {
        let word = u64::from_le_bytes([a, b, c, 0, 0, 0, 0, 0]);
        let program = &mut self.hostile;
        let conn = ConnId {
            slot: program.conn.slot ^ u32::from(a & b & 3),
            ..program.conn
        };
        match deed % 12 {
            0 => program.say([(word % 24) | (u64::from(c) << 32), u64::from(conn.slot)]),
            1 => {
                // Any word of the rings, and their indices most of all.
                let is_index = deed & 0x80 == 0;
                let at = if is_index { 128 * (word & 7) } else { word };
                let at = usize::try_from(at).unwrap_or(0) % self.queues.all.len();
                self.queues.write(at & !7, &[b, c, a, deed, c, 0, 0, b]);
            }
            2 => program.call(Command::Close(conn)),
            3 => program.call(Command::Abort(conn)),
            4 => program.call(Command::Accept {
                conn,
                token: Token(word as u32),
            }),
            5 => program.call(Command::Info(conn)),
            6 => program.call(match a % 6 {
                0 => Command::Unlisten(program.listener),
                1 => Command::Leave(program.listener),
                2 => Command::AbortAll,
                4 => Command::Suspend(program.listener),
                5 => Command::Resume {
                    listener: program.listener,
                    token: Token(word as u32),
                },
                _ => Command::Shutdown(conn),
            }),
            7 => program.listen(HOSTILE + u16::from(a % 3)),
            8 => program.call(Command::Connect {
                token: Token(word as u32),
                local: None,
                remote: SocketAddr::new(PEER.into(), u16::from(a)),
                options: Options::default(),
            }),
            // Any word of the records of the first streams, or anywhere.
            9 if deed & 0xc0 == 0x80 => self.streams.write(usize::from(a) * 4, &[b, c, c, b]),
            9 if deed & 0x80 != 0 => {
                let pages = self.streams.all.len() / PAGE;
                let at = usize::from(a) * pages / 256 * PAGE + usize::from(b) * 16;
                self.streams.write(at, &[c; 16]);
            }
            9 => {
                program.hear();
            }
            11 if deed & 0x80 != 0 => self.punch_or_attach(a),
            // Tables, and slots in them.
            10 if deed & 0x80 != 0 => self.list(u64::from(a % 8) << 32 | u64::from(b % 64)),
            10 => self.visit(a),
            _ => self.turns(1 + usize::from(a % 4)),
        }
    }
}

/// The hostile program does what the bytes say. Afterwards the honest one still has its connection
/// and its listener.
///
/// # Panics
/// If it has not.
pub fn service(bytes: &[u8]) {
    let Some(mut world) = World::new() else {
        return;
    };
    world.turns(2);
    let (conn, socket) = world.serve_one();
    // These bytes are on their way while the hostile program does what it does.
    if let Some(socket) = socket {
        world.write_both(conn, socket);
    }
    let (deeds, _) = bytes.as_chunks::<4>();
    for deed in deeds.iter().take(DEEDS) {
        world.step(*deed);
    }
    world.honest.call(Command::Info(conn));
    world.turns(2);
    assert_eq!(world.honest.state, State::Established);
    if let Some(socket) = socket {
        world.read_both(conn, socket);
        world.write_both(conn, socket);
        world.read_both(conn, socket);
    }
    world.serve_one();
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::Path;

    use proptest::prelude::*;

    /// Seeds for the fuzzer, and what it once found.
    #[test]
    fn the_corpus_passes() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/service");
        let files = std::fs::read_dir(corpus).unwrap();
        let seeds = files.map(|file| super::service(&std::fs::read(file.unwrap().path()).unwrap()));
        assert!(seeds.count() > 0, "no seeds");
    }

    /// A million deeds; `SEED` begins elsewhere.
    #[test]
    fn a_million_deeds_disturb_nobody() {
        if std::env::var_os("MTCP_FULL").is_none() {
            let _ = writeln!(std::io::stdout(), "\nskipped: MTCP_FULL is not set");
            return;
        }
        let seed = std::env::var("SEED").map_or(1, |seed| seed.parse().unwrap());
        let mut random = wire::impair::Rng::new(seed);
        let mut eight = || random.next_u64().to_le_bytes();
        for _ in 0..1_000_000_usize.div_ceil(super::DEEDS) {
            let bytes: Vec<u8> = (0..super::DEEDS / 2).flat_map(|_| eight()).collect();
            super::service(&bytes);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn an_honest_program_is_served_whatever_another_does(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
        ) {
            super::service(&bytes);
        }
    }
}
