//! Queues are few. A process that serves no more, but has answers to finish, leaves its queue to one that waits for it, and has that one
//! carry its frames.

use crate::children;
use crate::engine::Engine;
use crate::rules::rules;
use crate::slots::{self, Slot};
use crate::socket::{Body, Socket};

/// After so many refusals it is asked anew: perhaps another took what was left to this process.
const PATIENCE: u32 = 20;
/// After so many it is told: by then whoever had one that is not its own has left it.
const TOLD: u32 = 4;

/// What a process knows of its part in that.
#[derive(Debug)]
pub(crate) struct Sharing {
    /// How often it was refused a queue.
    refusals: u32,
    /// Others serve on listeners that it had.
    pub(crate) leaves: bool,
}

impl Sharing {
    pub(crate) const fn new() -> Self {
        Self {
            refusals: 0,
            leaves: false,
        }
    }
}

/// Names the program that has no stack, and the peers that it keeps waiting.
pub(crate) fn tell_refused(engine: &Engine, error: &str, then: &str) {
    let Some(rules) = rules() else {
        return;
    };
    let listens = |socket: &Socket| matches!(socket.body, Body::Listener { .. });
    let places = engine.sockets.iter().filter(|(_, socket)| listens(socket));
    let places = places.filter_map(|(_, socket)| Some(socket.local?.to_string()));
    let mut places: Vec<String> = places.collect();
    places.dedup();
    let listening = if places.is_empty() {
        String::new()
    } else {
        format!(", which listens at {}", places.join(" "))
    };
    let program = &rules.program;
    let reason = format!("{program}: {error}");
    children::warn(&reason, &format!("{program}{listening}: {error}: {then}"));
}

impl Engine {
    /// There is no queue for this process. Returns whether it is time to tell.
    pub(crate) fn ask_for_queue(&mut self) -> bool {
        self.sharing.refusals += 1;
        let Some(prepared) = &self.prepared else {
            return false;
        };
        if self.sharing.refusals.is_multiple_of(PATIENCE) {
            prepared.stop_asking();
        }
        prepared.ask_for_queue();
        // The only one is the parent's.
        let is_certain = self.parent_serves && !prepared.is_shared();
        self.sharing.refusals == if is_certain { 1 } else { TOLD }
    }

    /// There is one.
    pub(crate) fn stop_asking(&mut self) {
        self.sharing.refusals = 0;
        if let Some(prepared) = &self.prepared {
            prepared.stop_asking();
        }
    }

    /// Leaves the queue to a process that asks, unless this one still listens.
    pub(crate) fn leave_queue(&mut self) {
        if !self.sharing.leaves {
            return;
        }
        let listens = |socket: &Socket| matches!(socket.body, Body::Listener { ours: Some(_), .. });
        let serves = self.sockets.iter().any(|(_, socket)| listens(socket));
        let Some(context) = self.context() else {
            return;
        };
        if serves || !context.is_asked_for_queue() {
            return;
        }
        // Their numbers may soon be the program's.
        let forget = |fds: &[i32]| {
            for &fd in fds {
                slots::set(fd, Slot::Kernel);
            }
        };
        // Sockets say what became of the link.
        let _ = context.leave_queue(forget);
    }
}
