//! The stack of the process and what belongs to it, and what holds for both.

use std::ffi::c_int;

#[cfg(test)]
use mtcp::Mtcp;
use mtcp::{Context, Prepared, SocketId, SocketOption};

use crate::background::Background;
use crate::epolls::Epolls;
use crate::lent::Pair;
use crate::queue::Sharing;
use crate::relay::Pumps;
use crate::rules::{Rules, rules};
use crate::slots::{self, Slot};
use crate::socket::Socket;
use crate::sockets::Sockets;
use crate::stack::Stack;
use crate::waiters::Waiters;
use crate::{away, process, real};

/// What the engine has others do, who come to it by the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Duties {
    /// Whether another thread waits for the lock.
    pub(crate) is_wanted: fn() -> bool,
    /// What the background thread does.
    pub(crate) background: fn(),
    /// What the thread does that starts the stack of a server.
    pub(crate) start_deferred: fn(),
    /// Has `fork` find the engine in order, ...
    pub(crate) watch_forks: fn(),
    /// ... and the end of the program.
    pub(crate) watch_end: fn(),
}

#[cfg(test)]
impl Duties {
    /// Of an engine that nobody shares.
    const NONE: Self = Self {
        is_wanted: || false,
        background: || (),
        start_deferred: || (),
        watch_forks: || (),
        watch_end: || (),
    };
}

/// Everything.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) stack: Stack,
    pub(crate) sockets: Sockets,
    pub(crate) epolls: Epolls,
    pub(crate) waiters: Waiters,
    pub(crate) background: Background,
    pub(crate) pumps: Pumps,
    /// Sockets, by index, for the child that a `fork` is about to make.
    pub(crate) lent: Vec<(u32, Pair)>,
    /// Turns of the stack so far.
    pub(crate) turns: u64,
    /// It has forked: its children may be those that serve.
    pub(crate) has_children: bool,
    /// It is a child, and the process that forked it had the stack.
    pub(crate) parent_serves: bool,
    /// A thread is about to start the stack.
    pub(crate) start_is_deferred: bool,
    /// Its listeners are for its children, until it waits for connections itself.
    pub(super) is_suspended: bool,
    pub(crate) sharing: Sharing,
    /// How often in a row what calls have staged was left to the next thread that waits for the
    /// lock; 0: nothing is.
    pub(crate) owed: u32,
    /// The process that this memory belongs to: `vfork` lends it to another. 0: none yet.
    pub(super) owner: libc::pid_t,
    pub(super) duties: Duties,
}

impl Engine {
    pub(crate) const fn new(duties: Duties) -> Self {
        Self {
            stack: Stack::new(),
            sockets: Sockets::new(),
            epolls: Epolls::new(),
            waiters: Waiters::new(),
            background: Background::new(),
            pumps: Pumps::new(),
            lent: Vec::new(),
            turns: 0,
            has_children: false,
            parent_serves: false,
            start_is_deferred: false,
            is_suspended: false,
            sharing: Sharing::new(),
            owed: 0,
            owner: 0,
            duties,
        }
    }

    /// One whose stack runs already.
    #[cfg(test)]
    pub(crate) fn running(mtcp: Mtcp, context: Context) -> Self {
        Self {
            stack: Stack::running(mtcp, context),
            ..Self::new(Duties::NONE)
        }
    }

    /// The stack, if it runs.
    #[inline]
    pub(crate) fn context(&mut self) -> Option<&mut Context> {
        self.stack.context()
    }

    /// The stack with its waiters, if it runs.
    pub(crate) fn parts(&mut self) -> Option<(&mut Context, &mut Waiters)> {
        let context = self.stack.context()?;
        Some((context, &mut self.waiters))
    }

    /// The stack, if it runs, and the epoll instances.
    pub(super) fn split(&mut self) -> (Option<&mut Context>, &mut Epolls) {
        (self.stack.context(), &mut self.epolls)
    }

    /// Whether this process has a connection of ours, which a child of it has, too.
    #[cfg(all(not(test), target_arch = "x86_64"))]
    pub(crate) fn has_connection(&self) -> bool {
        !self.is_borrowed() && self.sockets.has_connection()
    }

    /// Whether the stack waits for a queue.
    pub(crate) fn is_starved(&self) -> bool {
        self.stack.is_idle() && self.sharing.is_refused()
    }

    /// There is something that a child of this process must not take for its own.
    pub(crate) fn begin(&mut self) {
        if self.owner == 0 {
            self.owner = process::pid();
            (self.duties.watch_forks)();
        }
    }

    /// Notes a new socket. Returns its index.
    pub(crate) fn insert(&mut self, socket: Socket) -> u32 {
        self.begin();
        self.sockets.insert(socket)
    }

    /// Whether this process shares the memory of the one it comes from: then nothing here may
    /// change.
    pub(crate) fn is_borrowed(&self) -> bool {
        self.owner != 0 && self.owner != process::pid()
    }

    /// The socket behind `fd` is the kernel's for good.
    pub(crate) fn disown(&mut self, fd: c_int, index: u32) {
        // Other descriptors of the same socket keep their entry, and find it open.
        if self
            .sockets
            .get(index)
            .is_some_and(|socket| socket.refs == 1)
        {
            slots::set(fd, Slot::Kernel);
            self.sockets.remove(index);
            self.forget(index);
        }
    }

    /// One descriptor less names the socket.
    pub(crate) fn release(&mut self, index: u32) {
        let Some(socket) = self.sockets.get_mut(index) else {
            return;
        };
        socket.refs -= 1;
        if socket.refs > 0 {
            return;
        }
        let socket = self.sockets.remove(index);
        self.forget(index);
        if let Some(socket) = socket {
            self.end(&socket);
        }
    }

    /// Closes our side of a socket. A listener that others have too is theirs from now on.
    pub(crate) fn end(&mut self, socket: &Socket) {
        let Some(id) = socket.ours() else {
            return;
        };
        if let Some(context) = self.stack.context()
            && self.pumps.inherit(context, id)
        {
            return self.staged(true);
        }
        let prepared = self.stack.prepared();
        let has_others = prepared.is_some_and(Prepared::is_shared);
        let is_left = match rules().is_some_and(Rules::is_attached) {
            true => socket.inherited || socket.shared,
            false => socket.inherited && has_others,
        };
        let left = is_left
            && self
                .context()
                .is_some_and(|context| context.leave(id).is_ok());
        if !left {
            self.close(id);
        }
        self.sharing.leaves |= left && has_others;
    }

    /// Closes a socket of the stack. What lingers has done so (`linger`), or does without the
    /// program.
    pub(crate) fn close(&mut self, id: SocketId) {
        let Some(context) = self.context() else {
            return;
        };
        let linger = context.option(id, mtcp::OptionName::Linger);
        if matches!(linger, Ok(SocketOption::Linger(Some(time))) if !time.is_zero()) {
            let _ = context.set_option(id, SocketOption::Linger(None));
        }
        let _ = context.close(id);
        self.staged(false);
    }

    /// Runs the first half of a turn, and wakes who waited for what it brought.
    pub(crate) fn turn(&mut self) {
        if self.is_starved() {
            self.start();
        }
        if self.sharing.leaves {
            self.leave_queue();
        }
        let Some(context) = self.stack.context() else {
            return;
        };
        // Sockets say what became of the link.
        let _ = context.begin_turn();
        self.owed = 0;
        if context.wants_look() {
            away::open(context);
            self.waiters.wake_driver();
        }
        self.pumps.run(context, &self.waiters);
        self.waiters.go_on();
        self.waiters.wake_ready(context);
        self.turns += 1;
    }

    /// Closes a number of ours that the program never heard of.
    pub(crate) fn drop_number(&mut self, fd: c_int) {
        self.forget_number(fd, slots::look(fd));
        // SAFETY: no memory is involved.
        unsafe { real::close(fd) };
    }

    /// A number of ours is about to be closed.
    pub(crate) fn forget_number(&mut self, fd: c_int, slot: Slot) {
        if self.is_borrowed() {
            return;
        }
        match slot {
            Slot::Socket(index) => {
                slots::set(fd, Slot::Kernel);
                self.release(index);
            }
            Slot::Epoll(index) => {
                slots::set(fd, Slot::Kernel);
                self.release_epoll(index, fd);
            }
            // Whose ring it was finds out.
            Slot::Kernel | Slot::Private | Slot::Ring => {}
        }
    }

    /// `new` is what `fd` is.
    pub(crate) fn copy_number(&mut self, fd: c_int, new: c_int) {
        if self.is_borrowed() {
            return;
        }
        let slot = slots::look(fd);
        if !slots::set(new, slot) {
            return;
        }
        match slot {
            Slot::Socket(index) => {
                if let Some(socket) = self.sockets.get_mut(index) {
                    socket.refs += 1;
                }
            }
            Slot::Epoll(index) => {
                if let Some(set) = self.epolls.get_mut(index) {
                    set.names.push(new);
                }
            }
            Slot::Kernel | Slot::Private | Slot::Ring => {}
        }
    }
}
