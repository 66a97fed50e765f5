//! Queues are few. A process that serves no more, but has answers to finish, leaves its queue to
//! one that waits for it, and has that one carry its frames.

use std::ffi::c_int;
use std::os::fd::AsRawFd;
use std::time::Duration;

use mtcp::{Owners, Prepared};

use crate::rules::rules;
use crate::socket::{Body, Socket};
use crate::sockets::Sockets;
use crate::vigil::Vigil;
use crate::{kernel, told};

/// After so many refusals in a row it sleeps until something happens to those who have queues;
/// where that cannot be seen it asks anew then: perhaps another took what was left to this process.
const TRIES: u32 = 5;
/// After so many it is told: by then whoever had one that is not its own has left it.
pub(crate) const TOLD: u32 = 4;

/// How often to ask for a queue that another process has.
const RETRY: Duration = Duration::from_millis(50);
const NEVER: u64 = u64::MAX;

/// What a process knows of its part in that.
#[derive(Debug)]
pub(crate) struct Sharing {
    /// How often it was refused a queue, ...
    refusals: u32,
    /// ... and how often since it looks again.
    tries: u32,
    /// When to ask for a queue again, in nanoseconds; 0: it was not refused; [`NEVER`]: when
    /// something happens to those who have them.
    next_try: u64,
    /// What it sleeps on.
    vigil: Vigil,
    /// Why it was refused one.
    pub(crate) reason: String,
    /// Others serve on listeners that it had.
    pub(crate) leaves: bool,
}

impl Sharing {
    pub(crate) const fn new() -> Self {
        Self {
            refusals: 0,
            tries: 0,
            next_try: 0,
            vigil: Vigil::new(),
            reason: String::new(),
            leaves: false,
        }
    }

    /// Whether it was refused a queue, and asks again.
    pub(crate) fn is_refused(&self) -> bool {
        self.next_try != 0
    }

    /// Whether to ask for one now.
    pub(crate) fn may_try(&mut self) -> bool {
        if self.is_refused() && self.vigil.notified() {
            (self.tries, self.next_try) = (0, self.next_try.min(kernel::now()));
        }
        self.next_try == 0 || kernel::now() >= self.next_try
    }

    /// It was refused one: when to ask again.
    pub(crate) fn pause(&mut self, prepared: Option<&Prepared>) {
        let owners = prepared.and_then(Prepared::owners);
        let sees_all = owners.is_some_and(|owners| {
            let pids = owners.pids();
            let doorbell = owners.doorbell().as_raw_fd();
            self.vigil.watch(doorbell, &pids) && !pids.is_empty()
        });
        self.next_try = if sees_all && self.tries >= TRIES {
            NEVER
        } else {
            kernel::now() + RETRY.as_nanos() as u64
        };
    }

    /// What ends a sleep of one that was refused a queue: how long it may take at most, and a
    /// descriptor.
    pub(crate) fn ends(&self) -> (Option<Duration>, Option<c_int>) {
        if !self.is_refused() {
            return (None, None);
        }
        let most = (self.next_try != NEVER).then_some(RETRY);
        (most, self.vigil.descriptor())
    }

    /// It is refused one. Returns whether others are to be asked anew, and how often it was
    /// refused.
    pub(crate) fn count(&mut self) -> (bool, u32) {
        self.refusals += 1;
        self.tries += 1;
        let asks_anew = self.tries == 1 || self.tries.is_multiple_of(4 * TRIES);
        (asks_anew, self.refusals)
    }

    /// It has one, or belongs to a child that was never refused any.
    pub(crate) fn forget(&mut self) {
        (self.refusals, self.tries, self.next_try) = (0, 0, 0);
        self.vigil.end();
    }
}

/// Names the program that has no stack, and the peers that it keeps waiting.
pub(crate) fn tell_refused(sockets: &Sockets, error: &str, then: &str) {
    let Some(rules) = rules() else {
        return;
    };
    let listens = |socket: &Socket| matches!(socket.body, Body::Listener { .. });
    let places = sockets.iter().filter(|(_, socket)| listens(socket));
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
    told::warn(&reason, &format!("{program}{listening}: {error}: {then}"));
}

/// Tells those that wait for a queue what became of this process's.
pub(crate) fn tell_owners(prepared: Option<&Prepared>, what: fn(&Owners)) {
    prepared
        .and_then(Prepared::owners)
        .into_iter()
        .for_each(what);
}
