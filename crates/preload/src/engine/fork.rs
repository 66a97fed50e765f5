//! `fork`: the child inherits listeners and epoll instances; connections stay with the parent, and
//! the stack, if it has any. The parent pumps for the child.

use std::ffi::c_int;
use std::time::Duration;

use mtcp::SocketId;

use super::state::Engine;
use crate::background::Background;
use crate::lent::{Heir, Pair};
use crate::relay::MOST;
use crate::rules::{Rules, rules};
use crate::slots::{self, Slot};
use crate::socket::{Body, Socket};
use crate::waiters::Waiters;
use crate::{diagnostics, door, lent, process, real, told};

/// How long connections that the program has closed may take to end before it forks.
const LOCK_TIMEOUT: Duration = Duration::from_millis(100);
/// Connections that a daemon hears of before the child is there, so that this process may be killed
/// at once: of the others it hears in the turns that follow, and `fork` does not wait for it.
const GIVEN: usize = 16;

impl Engine {
    /// This process is about to fork.
    pub(super) fn prepare_fork(&mut self) {
        self.release_before_fork();
        self.has_children = true;
        self.sockets.share();
        self.lend();
    }

    /// In the child of a `fork`: the stack stays with the parent.
    pub(super) fn leave_to_parent(&mut self) {
        self.parent_serves |= self.stack.leave_to_parent();
        self.close_private();
        self.owner = process::pid();
        self.has_children = false;
        self.start_is_deferred = false;
        self.is_suspended = false;
        self.owed = 0;
        self.waiters = Waiters::new();
        self.pumps.forget();
        self.background = Background::new();
        self.forget_stack();
        self.sockets.inherit();
        self.epolls.inherit();
    }

    /// Leaves all descriptors to the kernel.
    pub(super) fn forget_everything(&mut self) {
        for (fd, _) in slots::used(0, u32::MAX) {
            slots::set(fd, Slot::Kernel);
        }
        let _ = std::mem::ManuallyDrop::new(std::mem::replace(self, Self::new(self.duties)));
        told::tell_always(
            "this process was made by the clone system call while another thread used a socket: its sockets are the kernel's",
        );
    }

    /// Queues are few: one that has no connections is for whoever waits for some first, parent or
    /// child. At a daemon it is the listeners.
    fn release_before_fork(&mut self) {
        if self.is_borrowed() || self.waiters.is_wanted() {
            return;
        }
        if rules().is_some_and(Rules::is_attached) {
            return suspend_listeners(self);
        }
        let serves = self.sockets.has_connection() || self.pumps.count() > 0;
        if serves || !rules().is_some_and(Rules::has_queues) {
            return;
        }
        self.leave_listeners();
        let context = self.context();
        if context.is_some_and(|context| context.drain(LOCK_TIMEOUT) == Ok(true)) {
            self.stop();
        } else {
            self.listen_everywhere();
        }
    }

    /// Has the stack listen no more. Those whom nobody has accepted are told so.
    fn leave_listeners(&mut self) {
        for id in self.sockets.stop_listening() {
            self.close(id);
        }
    }

    /// Makes a socket of the kernel for each connection, as many as there may be.
    fn lend(&mut self) {
        let connections: Vec<_> = self
            .sockets
            .iter()
            .filter_map(|(index, socket)| match socket.body {
                Body::Stream(id) => Some((index, id, socket.domain)),
                _ => None,
            })
            .take(MOST.saturating_sub(self.pumps.count()))
            .collect();
        let Some(context) = self.context() else {
            return;
        };
        let is_attached = rules().is_some_and(Rules::is_attached);
        let mut pairs = Vec::new();
        for (index, id, domain) in connections {
            // One that is not connected yet stays with the parent.
            let ends = (context.local_addr(id), context.peer_addr(id));
            let (Ok(local), Ok(remote)) = ends else {
                continue;
            };
            let Some(mut pair) = lent::pair(domain, [local, remote]) else {
                break;
            };
            if is_attached {
                pair.heir = Heir::Daemon;
            }
            if is_attached && pairs.len() < GIVEN {
                pair.give(context, id);
            }
            pairs.push((index, pair));
        }
        self.lent = pairs;
    }

    /// Closes the library's own descriptors, but those that processes share, and those that the
    /// parent lends.
    fn close_private(&self) {
        let lent = |fd| self.lent.iter().any(|(_, pair)| pair.has(fd));
        let private = slots::used(0, u32::MAX).filter(|(_, slot)| *slot == Slot::Private);
        for fd in private.map(|(fd, _)| fd) {
            let is_kept =
                self.stack.shares(fd) || [diagnostics::kept(), door::number()].contains(&Some(fd));
            if !is_kept && !lent(fd) {
                // SAFETY: a descriptor of the library's own, which nothing here uses any more.
                unsafe { real::close(fd) };
            }
        }
    }

    /// The program is about to write: what its children wrote before goes first.
    pub(crate) fn children_first(&mut self, id: SocketId) {
        if let Some(context) = self.stack.context() {
            self.pumps.write(context, id);
        }
    }

    /// A child has the connection of a socket, too.
    fn relay(&mut self, index: u32, pair: Pair) {
        let id = self.sockets.get(index).and_then(Socket::ours);
        if let (Some(id), Some(context)) = (id, self.stack.context()) {
            self.pumps.add(context, id, pair);
        }
    }

    /// In the parent: the child has its ends.
    pub(super) fn keep_lent(&mut self) {
        for (index, pair) in std::mem::take(&mut self.lent) {
            // SAFETY: a descriptor of the library's own, which is the child's now.
            unsafe { real::close(pair.theirs) };
            self.relay(index, pair);
        }
        self.staged(true);
    }

    /// In the child: the program finds its ends where the connections were.
    pub(super) fn take_lent(&mut self) {
        for (index, pair) in std::mem::take(&mut self.lent) {
            let names = slots::used(0, u32::MAX).filter(|(_, slot)| *slot == Slot::Socket(index));
            let names: Vec<c_int> = names.map(|(fd, _)| fd).collect();
            for fd in names {
                replace(fd, pair.theirs);
            }
            if let Some(socket) = self.sockets.remove(index) {
                set_waiting(pair.theirs, !socket.nonblocking);
            }
            for fd in [pair.ours, pair.theirs] {
                // SAFETY: descriptors of the library's own: the one is the parent's, the other has
                // the program's numbers.
                unsafe { real::close(fd) };
            }
        }
    }
}

/// Whoever waits for connections first gets them, this process or a child. Until then they wait.
fn suspend_listeners(engine: &mut Engine) {
    let served = engine.sockets.served();
    let Some(context) = engine.context() else {
        return;
    };
    for &id in &served {
        // Sockets say what became of the link.
        let _ = context.suspend(id);
    }
    engine.is_suspended = !served.is_empty();
}

/// Gives the kernel's socket `with` the number `fd`, which is closed by `exec` if it was before.
pub(super) fn replace(fd: c_int, with: c_int) {
    // SAFETY: no memory is involved.
    unsafe {
        let flags = real::fcntl64(fd, libc::F_GETFD, 0);
        let cloexec = if flags & libc::FD_CLOEXEC != 0 {
            libc::O_CLOEXEC
        } else {
            0
        };
        real::dup3(with, fd, cloexec);
    }
    slots::set(fd, Slot::Kernel);
}

/// Whether calls on a socket of the kernel wait.
pub(super) fn set_waiting(fd: c_int, wait: bool) {
    let flags = if wait { 0 } else { libc::O_NONBLOCK };
    // SAFETY: no memory is involved.
    unsafe { real::fcntl64(fd, libc::F_SETFL, flags.cast_unsigned().into()) };
}
