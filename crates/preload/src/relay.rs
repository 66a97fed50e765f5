//! The parent's part of connections that its children have, too: bytes go between the stack and the
//! socket of the kernel that a child got (`lent`).
//!
//! What a child writes is sent. What the peer sends goes to the child once the program here has
//! closed its own descriptors of the connection, while it waits for a child, or where it has not
//! read since it forked; else to the program here. Of several children the one made first gets it,
//! as nobody knows which of them reads: that one does not is told. The connection ends with the
//! last who has it. A daemon that has the stack is given the same sockets, and goes on when the
//! program here has closed the connection, or is gone.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, MSG_DONTWAIT, MSG_NOSIGNAL, MSG_PEEK, epoll_event};
use mtcp::slab::Slab;
use mtcp::{
    Context, Ctl, EpollEvent, Errno, Events, How, Interest, RecvFlags, Result, SendFlags, SocketId,
};

use crate::lent::{Heir, Pair};
use crate::rules::rules;
use crate::waiters::Waiters;
use crate::{kernel, private, real, told};

/// Connections that children may have at most.
pub(crate) const MOST: usize = 1024;
/// Bytes that are moved at a time ...
const CHUNK: usize = 64 << 10;
/// ... and how often, before others have their turn.
const ROUNDS: usize = 8;
/// What the program here has not read for so long, and nothing since it forked, is for the child:
/// nanoseconds.
const LONG: u64 = 1_000_000_000;
/// Reports per turn.
const REPORTS: usize = 32;
/// Sockets given to the daemon per turn: `fork` waits for none.
const GIVEN: usize = 8;

/// One connection that a child has.
#[derive(Clone, Copy, Debug)]
struct Relay {
    id: SocketId,
    /// The child has the other end.
    pair: Pair,
    /// The program here has closed the connection.
    sole: bool,
    /// The program here has read from it since it forked.
    read: bool,
    /// Since when something waits that the program here has not read, in nanoseconds; 0: nothing
    /// does.
    since: u64,
    /// The peer has sent all, and the child knows.
    received: bool,
    /// The child has sent all, and the peer knows.
    sent: bool,
    /// Whether the child reads what it is given, where others have the connection, too.
    reads: Reads,
}

/// What is known of a child as a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    /// It was given nothing.
    Unknown,
    /// It was given something, for the first time, then, in nanoseconds.
    Since(u64),
    /// It read that, or that it did not was told.
    Settled,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Pumps {
    list: Slab<Relay>,
    /// What watches the children's sockets, and the connections.
    kernel: c_int,
    stack: Option<SocketId>,
    /// Those that have more to move.
    busy: Vec<u32>,
    /// Those with something that the program here may read, or the child.
    held: Vec<u32>,
    /// Those whose sockets the daemon is to be given.
    ungiven: Vec<u32>,
    /// Threads of the program that wait for the end of a child.
    waiting: u32,
    /// What is moved lies here meanwhile: threads of the program may have small stacks.
    buffer: Vec<u8>,
}

/// What is left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// To wait for more.
    Nothing,
    More,
    /// The child has closed it, or it failed.
    Over,
}

impl Pumps {
    pub(crate) const fn new() -> Self {
        Self {
            list: Slab::new(),
            kernel: -1,
            stack: None,
            busy: Vec::new(),
            held: Vec::new(),
            ungiven: Vec::new(),
            waiting: 0,
            buffer: Vec::new(),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.list.iter().count()
    }

    /// What a driver has to sleep on, too.
    pub(crate) fn descriptor(&self) -> Option<c_int> {
        (self.kernel >= 0 && self.count() > 0).then_some(self.kernel)
    }

    /// Whether there is something to move at once.
    pub(crate) fn is_busy(&self) -> bool {
        !self.busy.is_empty() || !self.ungiven.is_empty()
    }

    /// When to look again at those that wait for nothing that is told.
    pub(crate) fn look_again(&self) -> Option<Duration> {
        (!self.held.is_empty()).then_some(Duration::from_nanos(LONG))
    }

    /// A child has `pair.theirs`.
    pub(crate) fn add(&mut self, context: &mut Context, id: SocketId, pair: Pair) {
        let index = self.list.insert(Relay {
            id,
            pair,
            sole: false,
            read: false,
            since: 0,
            received: false,
            sent: false,
            reads: Reads::Unknown,
        });
        if self.watch(context, id, pair.ours, index).is_err() {
            return self.remove(context, index);
        }
        if pair.heir == Heir::Daemon {
            self.ungiven.push(index);
        }
    }

    /// Gives the daemon the sockets that it has not, at most so many.
    #[inline]
    fn give(&mut self, context: &mut Context, most: usize) {
        if !self.ungiven.is_empty() {
            self.give_some(context, most);
        }
    }

    #[cold]
    #[inline(never)]
    fn give_some(&mut self, context: &mut Context, most: usize) {
        let from = self.ungiven.len().saturating_sub(most);
        for index in self.ungiven.split_off(from) {
            if let Some(relay) = self.list.get_mut(index) {
                relay.pair.give(context, relay.id);
            }
        }
    }

    /// As [`Self::give`], all of them: the program ends.
    pub(crate) fn give_all(&mut self, context: &mut Context) {
        self.give(context, usize::MAX);
    }

    fn watch(&mut self, context: &mut Context, id: SocketId, end: c_int, index: u32) -> Result<()> {
        if self.kernel < 0 {
            // SAFETY: makes a descriptor; no memory is involved.
            let made = unsafe { real::epoll_create1(libc::EPOLL_CLOEXEC) };
            if made < 0 {
                return Err(Errno(libc::EMFILE));
            }
            self.kernel = private::own(made);
        }
        let mut event = epoll_event {
            events: (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET)
                .cast_unsigned(),
            u64: index.into(),
        };
        // SAFETY: an event.
        if unsafe { real::epoll_ctl(self.kernel, EPOLL_CTL_ADD, end, &raw mut event) } < 0 {
            return Err(Errno(libc::ENOMEM));
        }
        let stack = match self.stack {
            Some(stack) => stack,
            None => *self.stack.insert(context.epoll_create()?),
        };
        let interest = Interest {
            events: Events::IN | Events::OUT | Events::RDHUP | Events::ET,
            // Of all children that have it: the one made last may be the first to end.
            data: id.0.into(),
        };
        // Another child may have the same connection: then that one's is changed.
        match context.epoll_ctl(stack, Ctl::Add, id, interest) {
            Err(Errno(libc::EEXIST)) => context.epoll_ctl(stack, Ctl::Mod, id, interest),
            result => result,
        }
    }

    /// The program here has closed the connection. Returns whether a child has it still, for which
    /// it is kept: not where the daemon sees to that.
    pub(crate) fn inherit(&mut self, context: &mut Context, id: SocketId) -> bool {
        let mine: Vec<u32> = self.of(id).collect();
        if mine.iter().any(|index| self.ungiven.contains(index)) {
            self.give_all(context);
        }
        let heir = |index: &u32| self.list.get(*index).map(|relay| relay.pair.heir);
        if mine.iter().all(|index| heir(index) == Some(Heir::Given)) {
            for index in mine {
                self.remove(context, index);
            }
            return false;
        }
        for index in &mine {
            if let Some(relay) = self.list.get_mut(*index) {
                relay.sole = true;
                self.busy.push(*index);
            }
        }
        !mine.is_empty()
    }

    /// The program here reads from the connection.
    #[inline]
    pub(crate) fn read(&mut self, id: SocketId) {
        if self.kernel >= 0 {
            for relay in self.list.values_mut().filter(|relay| relay.id == id) {
                (relay.read, relay.since) = (true, 0);
            }
        }
    }

    /// A thread of the program is about to wait for the end of a child, who may read meanwhile.
    /// Returns whether there is one with a connection.
    pub(crate) fn begin_waiting(&mut self) -> bool {
        let any = self.look_at_all();
        self.waiting += u32::from(any);
        any
    }

    /// The program here is about to write: takes what children have written before, as far as there
    /// is room for it.
    pub(crate) fn write(&mut self, context: &mut Context, id: SocketId) {
        if self.descriptor().is_none() {
            return;
        }
        self.buffer.resize(CHUNK, 0);
        let all: Vec<u32> = self.of(id).collect();
        for index in all {
            let Some(relay) = self.list.get_mut(index) else {
                continue;
            };
            let more = |_: &usize| relay.send(context, &mut self.buffer) == Left::More;
            (0..ROUNDS).take_while(more).for_each(drop);
        }
    }

    /// Has the next turn look at each. Returns whether there is one.
    pub(crate) fn look_at_all(&mut self) -> bool {
        self.busy.extend(self.list.iter().map(|(index, _)| index));
        self.descriptor().is_some()
    }

    /// It waits again, after a handler.
    pub(crate) fn wait_on(&mut self) {
        self.waiting += 1;
    }

    /// That is over.
    pub(crate) fn end_waiting(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// Whether a child has the connection.
    pub(crate) fn has(&self, id: SocketId) -> bool {
        self.of(id).next().is_some()
    }

    fn of(&self, id: SocketId) -> impl Iterator<Item = u32> {
        let mine = self.list.iter().filter(move |(_, relay)| relay.id == id);
        mine.map(|(index, _)| index)
    }

    /// Moves what there is to move.
    #[inline]
    pub(crate) fn run(&mut self, context: &mut Context, waiters: &Waiters) {
        if self.descriptor().is_some() {
            self.run_all(context, waiters);
        }
    }

    /// Reports take room on the stack of nobody who has no children.
    #[inline(never)]
    fn run_all(&mut self, context: &mut Context, waiters: &Waiters) {
        self.give(context, GIVEN);
        self.buffer.resize(CHUNK, 0);
        let mut due = std::mem::take(&mut self.busy);
        due.append(&mut self.held);
        self.collect(context, &mut due);
        due.sort_unstable();
        due.dedup();
        for index in due {
            let id = self.list.get(index).map(|one| one.id);
            let shared = id.is_some_and(|id| self.of(id).nth(1).is_some());
            let Some(relay) = self.list.get_mut(index) else {
                continue;
            };
            let waits = self.waiting > 0 && !waiters.wants(relay.id);
            let left = relay.run(context, &mut self.buffer, waits);
            relay.watch_reader(context, shared);
            if relay.since > 0 || matches!(relay.reads, Reads::Since(_)) {
                self.held.push(index);
            }
            match left {
                Left::More => self.busy.push(index),
                Left::Over => self.remove(context, index),
                Left::Nothing => {}
            }
        }
    }

    /// Adds those that have news. Nothing else is on the stack beside the reports.
    #[inline(never)]
    fn collect(&mut self, context: &mut Context, due: &mut Vec<u32>) {
        let mut kernel = [epoll_event { events: 0, u64: 0 }; REPORTS];
        let most = REPORTS as c_int;
        // SAFETY: room for so many events.
        let n = unsafe { real::epoll_wait(self.kernel, kernel.as_mut_ptr(), most, 0) };
        let n = usize::try_from(n).unwrap_or(0);
        due.extend(kernel.iter().take(n).map(|event| event.u64 as u32));
        let mut stack = [EpollEvent::default(); REPORTS];
        let taken = self.stack.map(|id| context.epoll_take(id, &mut stack));
        let m = taken.and_then(Result::ok).unwrap_or(0);
        for event in stack.iter().take(m) {
            due.extend(self.of(SocketId(event.data as u32)));
        }
        if n == REPORTS || m == REPORTS {
            // There may be more.
            self.busy.extend(due.first());
        }
    }

    fn remove(&mut self, context: &mut Context, index: u32) {
        let Some(relay) = self.list.remove(index) else {
            return;
        };
        // Another one may have the number soon, and what is left to do is nobody's any more.
        for list in [&mut self.ungiven, &mut self.busy, &mut self.held] {
            list.retain(|&other| other != index);
        }
        // The daemon may have the socket, too: closed here, it would be watched on.
        let none = std::ptr::null_mut();
        // SAFETY: no event is needed.
        unsafe { real::epoll_ctl(self.kernel, EPOLL_CTL_DEL, relay.pair.ours, none) };
        // SAFETY: the library's own descriptor, which nothing uses any more.
        unsafe { real::close(relay.pair.ours) };
        if !relay.sole {
            if let (Some(stack), None) = (self.stack, self.of(relay.id).next()) {
                let _ = context.epoll_ctl(stack, Ctl::Del, relay.id, Interest::default());
            }
        } else if self.of(relay.id).next().is_none() {
            // What was written still goes out.
            let _ = context.close(relay.id);
        }
    }

    /// The stack is gone, or the parent's. Returns the descriptor that watched.
    pub(crate) fn forget(&mut self) -> c_int {
        std::mem::replace(self, Self::new()).kernel
    }
}

impl Relay {
    /// `waits`: the program here cannot read, as it waits for a child.
    fn run(&mut self, context: &mut Context, buffer: &mut [u8], waits: bool) -> Left {
        for _ in 0..ROUNDS {
            let up = self.send(context, buffer);
            let down = self.receive(context, buffer, waits);
            match (up, down) {
                (Left::Over, _) | (_, Left::Over) => return Left::Over,
                (Left::Nothing, Left::Nothing) => return Left::Nothing,
                _ => {}
            }
        }
        Left::More
    }

    /// From the child to the peer.
    fn send(&mut self, context: &mut Context, buffer: &mut [u8]) -> Left {
        if self.sent {
            return Left::Nothing;
        }
        match take(self.pair.ours, buffer, MSG_PEEK) {
            Ok(0) if is_closed(self.pair.ours) => Left::Over,
            Ok(0) => {
                self.sent = true;
                let _ = context.shutdown(self.id, How::Write);
                Left::More
            }
            Ok(n) => {
                let bytes = buffer.get(..n).unwrap_or_default();
                match context.send(self.id, bytes, SendFlags::empty()) {
                    Ok(sent) => {
                        let _ = take(
                            self.pair.ours,
                            buffer.get_mut(..sent).unwrap_or_default(),
                            0,
                        );
                        Left::More
                    }
                    Err(Errno::EAGAIN) => Left::Nothing,
                    Err(_) => Left::Over,
                }
            }
            Err(Errno::EAGAIN) => Left::Nothing,
            Err(_) => Left::Over,
        }
    }

    /// Whether what has come is for the child: the program here has closed the connection, cannot
    /// read, or has not for long.
    fn is_childs(&mut self, context: &mut Context, waits: bool) -> bool {
        if self.sole {
            return true;
        }
        if context.ready(self.id, Events::IN).is_empty() {
            self.since = 0;
            return false;
        }
        let now = kernel::now();
        if self.since == 0 {
            self.since = now;
        }
        waits || (!self.read && now - self.since >= LONG)
    }

    /// Tells that the child has not read for long what it was given, which others that have the
    /// connection may wait for.
    fn watch_reader(&mut self, context: &mut Context, shared: bool) {
        let Reads::Since(given) = self.reads else {
            return;
        };
        let is_late = kernel::now() - given >= LONG;
        if !shared || !unread(self.pair.ours) {
            self.reads = Reads::Settled;
        } else if is_late {
            self.reads = Reads::Settled;
            tell_unread(context, self.id);
        }
    }

    /// From the peer to the child.
    fn receive(&mut self, context: &mut Context, buffer: &mut [u8], waits: bool) -> Left {
        if self.received || !self.is_childs(context, waits) {
            return Left::Nothing;
        }
        self.since = 0;
        match context.recv(self.id, buffer, RecvFlags::PEEK) {
            Ok(0) => {
                self.received = true;
                // SAFETY: no memory is involved.
                unsafe { real::shutdown(self.pair.ours, libc::SHUT_WR) };
                Left::More
            }
            Ok(n) => match give(self.pair.ours, buffer.get(..n).unwrap_or_default()) {
                Ok(given) => {
                    if self.reads == Reads::Unknown {
                        self.reads = Reads::Since(kernel::now());
                    }
                    let _ = context.read(self.id, buffer.get_mut(..given).unwrap_or_default());
                    Left::More
                }
                Err(Errno::EAGAIN) => Left::Nothing,
                // It has closed it, and perhaps written before.
                Err(_) => {
                    self.received = true;
                    Left::More
                }
            },
            Err(Errno::EAGAIN) => Left::Nothing,
            Err(_) => Left::Over,
        }
    }
}

fn take(fd: c_int, into: &mut [u8], flags: c_int) -> Result<usize> {
    let at: *mut c_void = into.as_mut_ptr().cast();
    // SAFETY: room for so many bytes.
    let n = unsafe { real::recv(fd, at, into.len(), flags | MSG_DONTWAIT) };
    usize::try_from(n).map_err(|_| Errno(mtcp::posix::call::errno()))
}

fn give(fd: c_int, bytes: &[u8]) -> Result<usize> {
    let at: *const c_void = bytes.as_ptr().cast();
    // SAFETY: so many bytes are there.
    let n = unsafe { real::send(fd, at, bytes.len(), MSG_DONTWAIT | MSG_NOSIGNAL) };
    usize::try_from(n).map_err(|_| Errno(mtcp::posix::call::errno()))
}

/// Whether something lies at the other end that nobody has read (SIOCOUTQ).
fn unread(fd: c_int) -> bool {
    let mut bytes: c_int = 0;
    // SAFETY: room for a number.
    unsafe { real::ioctl(fd, libc::TIOCOUTQ, (&raw mut bytes).cast()) };
    bytes > 0
}

#[cold]
fn tell_unread(context: &mut Context, id: SocketId) {
    let (Some(rules), Ok(peer)) = (rules(), context.peer_addr(id)) else {
        return;
    };
    let program = &rules.program;
    told::warn(
        &format!("unread {peer}"),
        &format!(
            "{program}: several children have the connection with {peer}, and the one made first gets what comes, but does not read it: others \
             that do wait; have it close its descriptor"
        ),
    );
}

/// Whether nobody has the other end any more: one that only sends no more can still receive.
fn is_closed(fd: c_int) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: 0,
        revents: 0,
    };
    // SAFETY: one descriptor.
    unsafe { real::poll(&raw mut poll, 1, 0) };
    poll.revents & (libc::POLLHUP | libc::POLLERR) != 0
}
