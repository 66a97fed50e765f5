//! Connections that processes have by a socket of the kernel: by `fork` or `exec`, or passed to
//! them. Bytes go between the stack and the other one of a pair of such sockets.
//!
//! A program gives one of a pair while it has the connection. It goes on by that when the program
//! is done with it, or gone: all that it left is moved to memory of the daemon. Who has the other
//! one of the pair needs no library for it. Of several pairs, which children got at several forks,
//! the first that reads gets what comes.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use mtcp_core::{AppStreams, Command, ConnId, Status};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno as Kernel;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketType, recv, send, sockopt};

use wire::time::Instant;

use crate::runner::Runner;
use crate::slab::Slab;
use crate::transport::OVER;
use crate::{Errno, Result};

/// Sockets that the programs of one user may give: each is a descriptor of the daemon.
const PER_USER: usize = if cfg!(test) { 64 } else { 4096 };
/// Bytes moved at a time ...
const CHUNK: usize = 64 << 10;
/// ... and how often, before others have their turn.
const ROUNDS: usize = 4;
/// News of sockets that are asked for at once.
const BURST: usize = 64;
/// Send buffers looked at in a turn, to give drained ones back.
const SWEEP: usize = 8;

/// The daemon's socket of a pair.
#[derive(Debug)]
struct End {
    socket: OwnedFd,
    /// Nothing more comes from the other one.
    is_shut: bool,
    /// Nobody reads at the other one.
    is_deaf: bool,
    /// Nobody has the other one any more.
    is_closed: bool,
}

/// A connection that goes on by pairs.
#[derive(Debug)]
struct Paired {
    conn: ConnId,
    uid: u32,
    ends: Vec<End>,
    /// The peer has sent all, and that was told.
    is_received: bool,
    /// A process closed it and left something unread.
    is_reset: bool,
}

/// What is left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// To wait for news.
    Nothing,
    More,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Pairs {
    /// The streams of connections that go on by pairs.
    streams: AppStreams,
    /// Given for connections that their programs still have, with the user.
    given: HashMap<ConnId, (u32, Vec<OwnedFd>)>,
    all: Slab<Paired>,
    /// By the stack's name of the connection.
    places: HashMap<ConnId, u32>,
    /// Of `all`, those with something to do.
    busy: Vec<u32>,
    /// How many sockets each user has given.
    users: HashMap<u32, usize>,
    /// Watches the sockets.
    epoll: OwnedFd,
    buffer: Vec<u8>,
}

impl Pairs {
    /// `streams`: those of the stack that are of no program.
    ///
    /// # Errors
    /// No descriptor left.
    pub(super) fn new(streams: AppStreams) -> io::Result<Self> {
        Ok(Self {
            streams,
            given: HashMap::new(),
            all: Slab::new(),
            places: HashMap::new(),
            busy: Vec::new(),
            users: HashMap::new(),
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            buffer: Vec::new(),
        })
    }

    /// Readable when a socket has news.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// No connection goes on by a pair.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether there is something to do at once.
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Gives memory back that nobody needs.
    pub(super) fn economize(&mut self, now: Instant) {
        if self.streams.send_bytes_in_use() > 0 {
            self.streams.sweep(SWEEP);
        }
        self.streams.economize(now.as_millis());
    }

    /// A program gives `end` for a connection that it has.
    ///
    /// # Errors
    /// `EINVAL`: it is no stream socket of the kernel's own (unix(7)), with which no call waits;
    /// `ENOBUFS`: the user has given too many.
    pub(super) fn add(&mut self, conn: ConnId, uid: u32, end: OwnedFd) -> Result<()> {
        let family = sockopt::socket_domain(&end);
        let kind = sockopt::socket_type(&end);
        if family != Ok(AddressFamily::UNIX) || kind != Ok(SocketType::STREAM) {
            return Err(Errno::EINVAL);
        }
        let count = self.users.entry(uid).or_default();
        if *count >= PER_USER {
            return Err(Errno::ENOBUFS);
        }
        *count += 1;
        let (_, ends) = self.given.entry(conn).or_insert((uid, Vec::new()));
        ends.push(end);
        Ok(())
    }

    /// The program that had a connection has released it: it goes on by the pairs that were given.
    /// False: there are none, or there is no memory, and it is for the caller to close.
    pub(super) fn begin(&mut self, runner: &mut Runner, conn: ConnId) -> bool {
        let Some((uid, sockets)) = self.given.remove(&conn) else {
            return false;
        };
        if !runner.take_streams(conn, &mut self.streams) {
            log::warn!("no memory for a connection that processes have without its program");
            self.discount(uid, sockets.len());
            return false;
        }
        // What it wrote last it may not have told of.
        let _ = runner.execute(Command::Send(conn));
        let end = |socket| End {
            socket,
            is_shut: false,
            is_deaf: false,
            is_closed: false,
        };
        let at = self.all.insert(Paired {
            conn,
            uid,
            ends: sockets.into_iter().map(end).collect(),
            is_received: false,
            is_reset: false,
        });
        self.places.insert(conn, at);
        self.watch(at);
        self.busy.push(at);
        true
    }

    /// Has the kernel tell of the sockets of a connection.
    fn watch(&mut self, at: u32) {
        let Some(paired) = self.all.get_mut(at) else {
            return;
        };
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        for end in &mut paired.ends {
            let data = EventData::new_u64(at.into());
            // One that is not watched would never be served.
            end.is_closed = epoll::add(&self.epoll, &end.socket, data, flags).is_err();
        }
    }

    fn discount(&mut self, uid: u32, sockets: usize) {
        if let Some(count) = self.users.get_mut(&uid) {
            *count = count.saturating_sub(sockets);
            if *count == 0 {
                self.users.remove(&uid);
            }
        }
    }

    /// The stack has something to say of a connection that no program has.
    pub(super) fn note(&mut self, conn: ConnId) {
        if let Some(&at) = self.places.get(&conn) {
            self.busy.push(at);
        }
    }

    /// Moves what there is to move. True: there was something.
    #[inline]
    pub(super) fn run(&mut self, runner: &mut Runner) -> bool {
        !self.is_empty() && self.run_all(runner)
    }

    #[cold]
    fn run_all(&mut self, runner: &mut Runner) -> bool {
        self.look();
        self.buffer.resize(CHUNK, 0);
        let mut due = std::mem::take(&mut self.busy);
        due.sort_unstable();
        due.dedup();
        for &at in &due {
            let Some(paired) = self.all.get_mut(at) else {
                continue;
            };
            let mut moved = Moving {
                runner,
                streams: &mut self.streams,
                buffer: &mut self.buffer,
            };
            match moved.run(paired) {
                _ if paired.is_over(&self.streams) => self.end(runner, at),
                Left::More => self.busy.push(at),
                Left::Nothing => {}
            }
        }
        self.streams.sweep(SWEEP);
        !due.is_empty()
    }

    /// Asks which sockets have news.
    fn look(&mut self) {
        let mut events = [Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        }; BURST];
        let now = Timespec::default();
        // What fails, and what is more, is told the next time.
        let n = epoll::wait(&self.epoll, &mut events, Some(&now)).unwrap_or(0);
        let news = events.iter().take(n);
        self.busy.extend(news.map(|event| event.data.u64() as u32));
    }

    /// Nobody has the connection any more.
    fn end(&mut self, runner: &mut Runner, at: u32) {
        let Some(paired) = self.all.remove(at) else {
            return;
        };
        self.places.remove(&paired.conn);
        self.discount(paired.uid, paired.ends.len());
        for end in &paired.ends {
            // Others may have the descriptor still.
            let _ = epoll::delete(&self.epoll, &end.socket);
        }
        self.streams.release(paired.conn.slot);
        // RFC 9293 §3.10.4 and RFC 2525 §2.17: who leaves something unread resets. One that has
        // failed is gone.
        let _ = runner.execute(match paired.is_reset {
            true => Command::Abort(paired.conn),
            false => Command::Close(paired.conn),
        });
    }
}

impl Paired {
    /// Nobody has another one of its pairs, or the stack has it no more.
    fn is_over(&self, streams: &AppStreams) -> bool {
        let is_closed = self.ends.iter().all(|end| end.is_closed);
        is_closed || streams.status(self.conn.slot).intersects(OVER)
    }
}

/// What moving takes.
struct Moving<'a> {
    runner: &'a mut Runner,
    streams: &'a mut AppStreams,
    buffer: &'a mut [u8],
}

impl Moving<'_> {
    fn run(&mut self, paired: &mut Paired) -> Left {
        for _ in 0..ROUNDS {
            let mut left = self.receive(paired);
            for at in 0..paired.ends.len() {
                let sent = self.send(paired, at);
                left = if sent == Left::More { sent } else { left };
            }
            if left == Left::Nothing || paired.is_over(self.streams) {
                return Left::Nothing;
            }
        }
        Left::More
    }

    /// From a process to the peer.
    fn send(&mut self, paired: &mut Paired, at: usize) -> Left {
        let conn = paired.conn;
        let end = paired.ends.get_mut(at);
        let Some(end) = end.filter(|end| !end.is_shut && !end.is_closed) else {
            return Left::Nothing;
        };
        let slot = conn.slot;
        if !self.streams.want_space(slot) && !self.writes_are_refused(slot) {
            // The stack tells when there is room.
            return Left::Nothing;
        }
        let peek = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match recv(&end.socket, &mut *self.buffer, peek) {
            Ok((_, 0)) => {
                end.is_shut = true;
                end.is_closed = is_closed(&end.socket);
                if !end.is_closed {
                    let _ = self.runner.execute(Command::Shutdown(conn));
                }
                Left::More
            }
            Ok((_, n)) => {
                let bytes = self.buffer.get(..n).unwrap_or_default();
                let written = match self.writes_are_refused(slot) {
                    // As after shutdown(2): nobody gets it.
                    true => n,
                    false => self.streams.write(slot, bytes),
                };
                let taken = self.buffer.get_mut(..written).unwrap_or_default();
                if written == 0 || recv(&end.socket, taken, RecvFlags::DONTWAIT).is_err() {
                    return Left::Nothing;
                }
                let _ = self.runner.execute(Command::Send(conn));
                Left::More
            }
            Err(Kernel::AGAIN | Kernel::INTR) => Left::Nothing,
            Err(_) => {
                end.is_closed = true;
                paired.is_reset = true;
                Left::More
            }
        }
    }

    fn writes_are_refused(&self, slot: u32) -> bool {
        let status = self.streams.status(slot);
        status.contains(Status::WRITE_CLOSED)
    }

    /// From the peer to the first process that reads.
    fn receive(&mut self, paired: &mut Paired) -> Left {
        let slot = paired.conn.slot;
        if self.streams.at_eof(slot) {
            if !std::mem::replace(&mut paired.is_received, true) {
                for end in &paired.ends {
                    let _ = rustix::net::shutdown(&end.socket, Shutdown::Write);
                }
            }
            return Left::Nothing;
        }
        let mut ends = paired.ends.iter_mut();
        let Some(end) = ends.find(|end| !end.is_deaf && !end.is_closed) else {
            return Left::Nothing;
        };
        let mut n = self.streams.peek(slot, self.buffer);
        if n == 0 && self.streams.pass_mark(slot, true) {
            // An urgent byte is one of the stream for who has no library.
            n = self.streams.peek(slot, self.buffer);
        }
        let bytes = self.buffer.get(..n).unwrap_or_default();
        if bytes.is_empty() {
            return Left::Nothing;
        }
        match send(
            &end.socket,
            bytes,
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        ) {
            Ok(given) => {
                self.streams.skip(slot, given as u32);
                if self.streams.window_update_due(slot) {
                    let _ = self.runner.execute(Command::Received(paired.conn));
                }
                Left::More
            }
            Err(Kernel::AGAIN | Kernel::INTR) => Left::Nothing,
            // It has closed it, and perhaps written before.
            Err(_) => {
                end.is_deaf = true;
                Left::More
            }
        }
    }
}

/// Whether nobody has the other socket any more: one that only sends no more can still receive.
fn is_closed(socket: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::empty())];
    let asked = poll(&mut fds, Some(&Timespec::default()));
    let [fd] = fds;
    asked.is_ok() && fd.revents().intersects(PollFlags::HUP | PollFlags::ERR)
}
