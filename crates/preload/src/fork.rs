//! `fork`: the child inherits listeners and epoll instances; connections stay with the parent, and the stack, if it has any.

use std::time::Duration;

use crate::engine::{self, Engine};
use crate::rules::{Rules, rules};
use crate::socket::{Body, Socket};

/// How long connections that the program has closed may take to end before it forks.
const PATIENCE: Duration = Duration::from_millis(100);

/// The id of this process.
pub(crate) fn pid() -> libc::pid_t {
    // SAFETY: no conditions.
    unsafe { libc::getpid() }
}

/// Has `fork` find the engine in order. Once per process image; children inherit it.
pub(crate) fn register() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    // Fails without memory only.
    // SAFETY: the three functions may run before, in the parent after, and in the child after any fork.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(parent), Some(child));
    });
}

extern "C" fn before() {
    if let Ok(mut engine) = engine::lock() {
        engine.vacate();
        engine.has_children = true;
        // Given back by `parent`, made anew by `child`.
        let _ = std::mem::ManuallyDrop::new(engine);
    }
}

extern "C" fn parent() {
    // SAFETY: `before` took it in this thread.
    unsafe { engine::raw().unlock() };
}

extern "C" fn child() {
    // SAFETY: a child has one thread, this one.
    unsafe { engine::raw().renew() };
    if let Ok(mut engine) = engine::lock() {
        engine.orphan();
    }
}

impl Engine {
    /// Queues are few: one that has no connections is for whoever waits for some first, parent or child.
    fn vacate(&mut self) {
        let connected = |socket: &Socket| matches!(socket.body, Body::Stream(_));
        let serves = self.sockets.iter().any(|(_, socket)| connected(socket));
        let shared = rules().is_some_and(Rules::has_queues);
        if serves || !shared || self.is_borrowed() || self.waiters.is_wanted() {
            return;
        }
        self.close_listeners();
        let context = self.context();
        if context.is_some_and(|context| context.drain(PATIENCE) == Ok(true)) {
            self.stop();
        } else {
            self.listen_everywhere();
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
}
