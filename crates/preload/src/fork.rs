//! `fork`: the child inherits listeners and epoll instances; connections stay with the parent, and
//! the stack, if it has any. The parent pumps for the child.

use std::ffi::{c_int, c_long};
use std::time::Duration;

use crate::engine::{self, Engine};
use crate::inside::{self, Side};
use crate::lent::Pair;
use crate::relay::MOST;
use crate::rules::{Rules, rules};
use crate::slots::{self, Slot};
use crate::socket::{Body, Socket};
use crate::{diagnostics, lent, process, real, streams, told};

/// How long connections that the program has closed may take to end before it forks.
const LOCK_TIMEOUT: Duration = Duration::from_millis(100);

/// Has `fork` find the engine in order. Once per process image; children inherit it.
pub(crate) fn register() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(process::watch_for_copies);
    static HANDLERS: std::sync::Once = std::sync::Once::new();
    // Fails without memory only. SAFETY: the three functions may run before, in the parent after,
    // and in the child after any fork.
    HANDLERS.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(parent), Some(child));
    });
}

extern "C" fn before() {
    // A handler that the kernel called in the midst of a call: what holds there nobody knows.
    if inside::side() != Side::Program {
        return;
    }
    if let Ok(mut engine) = engine::lock() {
        streams::before_fork();
        engine.vacate();
        engine.has_children = true;
        engine.share_listeners();
        engine.lend();
        // Given back by `parent`, made anew by `child`.
        let _ = std::mem::ManuallyDrop::new(engine);
        inside::go(Side::Forks);
    }
}

/// Whether this thread forks, and has the engine. A handler that interrupted the library has not.
fn forks() -> bool {
    inside::side() == Side::Forks
}

extern "C" fn parent() {
    if forks() {
        streams::after_fork();
        // SAFETY: `before` took it in this thread.
        unsafe { engine::raw().held() }.keep_lent();
    }
}

extern "C" fn child() {
    if !forks() {
        return;
    }
    streams::after_fork();
    inside::is_child();
    process::is_no_copy();
    // SAFETY: a child has one thread, this one.
    unsafe { engine::raw().renew() };
    inside::go(Side::Program);
    if let Ok(mut engine) = engine::lock() {
        engine.orphan();
        engine.take_lent();
    }
}

/// Runs a call that makes a process without the C library's `fork`, as if it were that.
pub(crate) fn around(call: impl FnOnce() -> c_long) -> c_long {
    if rules().is_none() {
        return call();
    }
    before();
    let result = call();
    if result == 0 {
        child();
    } else {
        parent();
    }
    result
}

/// It was made by the clone system call, which runs no handlers: the stack stays with the parent.
#[cold]
pub(crate) fn become_child() {
    process::is_no_copy();
    let lock = engine::raw();
    let is_whole = !lock.is_held();
    // SAFETY: such a child has one thread, this one.
    unsafe { lock.renew() };
    if let Ok(mut engine) = engine::lock() {
        if is_whole {
            engine.orphan();
        } else {
            // Another thread was at it: nobody knows what holds.
            engine.forget_everything();
        }
    }
}

impl Engine {
    /// Leaves all descriptors to the kernel.
    fn forget_everything(&mut self) {
        for (fd, _) in slots::used(0, u32::MAX) {
            slots::set(fd, Slot::Kernel);
        }
        let _ = std::mem::ManuallyDrop::new(std::mem::replace(self, Self::new()));
        told::tell_always(
            "this process was made by the clone system call while another thread used a socket: its sockets are the kernel's",
        );
    }

    /// Queues are few: one that has no connections is for whoever waits for some first, parent or
    /// child.
    fn vacate(&mut self) {
        let is_connected = |socket: &Socket| matches!(socket.body, Body::Stream(_));
        let connected = self.sockets.iter().any(|(_, socket)| is_connected(socket));
        let serves = connected || self.pumps.count() > 0;
        let shared = rules().is_some_and(Rules::has_queues);
        if serves || !shared || self.is_borrowed() || self.waiters.is_wanted() {
            return;
        }
        self.close_listeners();
        let context = self.context();
        if context.is_some_and(|context| context.drain(LOCK_TIMEOUT) == Ok(true)) {
            self.stop();
        } else {
            self.listen_everywhere();
        }
    }

    /// The child has the listeners, too.
    fn share_listeners(&mut self) {
        for index in self.indices() {
            if let Some(socket) = self.sockets.get_mut(index) {
                socket.shared = true;
            }
        }
    }

    /// Has the stack listen no more. Those whom nobody has accepted are told so.
    fn close_listeners(&mut self) {
        for index in self.indices() {
            if let Some(socket) = self.sockets.get_mut(index)
                && let Body::Listener {
                    backlog,
                    ours: Some(id),
                } = socket.body
            {
                socket.body = Body::Listener {
                    backlog,
                    ours: None,
                };
                self.close(id);
            }
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
        let mut lent = Vec::new();
        for (index, id, domain) in connections {
            // One that is not connected yet stays with the parent.
            let ends = (context.local_addr(id), context.peer_addr(id));
            let (Ok(local), Ok(remote)) = ends else {
                continue;
            };
            let Some(pair) = lent::pair(domain, [local, remote]) else {
                break;
            };
            lent.push((index, pair));
        }
        self.lent = lent;
    }

    /// Closes the library's own descriptors, but those that processes share, and those that the
    /// parent lends.
    pub(crate) fn close_private(&self) {
        let lent = |fd| self.lent.iter().any(|(_, pair)| pair.has(fd));
        let private = slots::used(0, u32::MAX).filter(|(_, slot)| *slot == Slot::Private);
        for fd in private.map(|(fd, _)| fd) {
            let is_kept = self.inherited.contains(&fd) || diagnostics::kept() == Some(fd);
            if !is_kept && !lent(fd) {
                // SAFETY: a descriptor of the library's own, which nothing here uses any more.
                unsafe { real::close(fd) };
            }
        }
    }

    /// A child has the connection of a socket, too.
    fn relay(&mut self, index: u32, pair: Pair) {
        let id = self.sockets.get(index).and_then(Socket::ours);
        if let Some(id) = id {
            self.lend_out(id, pair);
        }
    }

    /// In the parent: the child has its ends.
    fn keep_lent(&mut self) {
        for (index, pair) in std::mem::take(&mut self.lent) {
            // SAFETY: a descriptor of the library's own, which is the child's now.
            unsafe { real::close(pair.theirs) };
            self.relay(index, pair);
        }
        self.staged(true);
    }

    /// In the child: the program finds its ends where the connections were.
    fn take_lent(&mut self) {
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

/// Gives the kernel's socket `with` the number `fd`, which is closed by `exec` if it was before.
fn replace(fd: c_int, with: c_int) {
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
fn set_waiting(fd: c_int, wait: bool) {
    let flags = if wait { 0 } else { libc::O_NONBLOCK };
    // SAFETY: no memory is involved.
    unsafe { real::fcntl64(fd, libc::F_SETFL, flags.cast_unsigned().into()) };
}
