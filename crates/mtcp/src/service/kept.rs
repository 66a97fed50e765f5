//! Listeners that no program has any more, while processes have the kernel's socket that stands for
//! them: who comes waits for one of those to listen, as with the kernel.

use std::collections::HashMap;
use std::time::Duration;

use ::io::netlink;
use mtcp_core::{Command, ListenerId, RateLimiter};
use ring::stream::{HomeMemory, StreamsConfig};
use wire::time::Instant;

use super::listeners::{Listener, Listeners};
use crate::runner::Runner;

/// How soon it is looked whether somebody still has the socket, and how seldom after a while.
const LOOK_MIN: Duration = Duration::from_millis(1);
const LOOK_MAX: Duration = Duration::from_millis(250);
/// Listeners of a user that are kept at most.
const PER_USER: usize = 16;
/// How often a second it is looked for a user whether one is to be kept, and at once: it takes as
/// long as many packets do.
const LOOKS: u32 = 100;
/// Users whose looks are counted.
const USERS: usize = 1024;

/// One of them.
#[derive(Clone, Copy, Debug)]
struct Kept {
    id: ListenerId,
    uid: u32,
    /// Which socket of the kernel stands for it.
    cookie: u64,
    /// Where the streams of those who wait lie, and nothing else.
    home: u32,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct KeptListeners {
    all: Vec<Kept>,
    /// When it is looked next.
    due: Instant,
    pause: Duration,
    looks: HashMap<u32, RateLimiter>,
    /// That nobody can say who has a socket was told.
    told: bool,
}

impl KeptListeners {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// When it has to be looked again.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.is_empty()).then_some(self.due)
    }

    /// Its program is done with a listener, which goes on if a process has its socket and nobody
    /// else listens by that. (Who listens there by another one may end before.) False: it is for
    /// the caller to close.
    pub(super) fn keep(
        &mut self,
        runner: &mut Runner,
        listeners: &Listeners,
        listener: &Listener,
        streams: &StreamsConfig,
    ) -> bool {
        let Some(cookie) = listener.cookie.filter(|_| !listeners.has_twin(listener)) else {
            return false;
        };
        let of_user = self.all.iter().filter(|kept| kept.uid == listener.uid);
        if of_user.count() >= PER_USER
            || !self.may_look(listener.uid, runner.now())
            || !self.listening().contains(&cookie)
        {
            return false;
        }
        let memory = HomeMemory::create("mtcp-streams", streams);
        let home = memory.and_then(|memory| runner.add_home(&memory, listener.uid));
        let home = match home {
            Ok(home) => home,
            Err(error) => {
                log::warn!("a listener is closed that processes have: {error}");
                return false;
            }
        };
        // It is there.
        let _ = runner.move_listener(listener.id, home);
        self.all.push(Kept {
            id: listener.id,
            uid: listener.uid,
            cookie,
            home,
        });
        self.pause = LOOK_MIN;
        self.due = runner.now() + self.pause;
        true
    }

    /// Looks, if it is time, whom nobody has any more, and whom others listen instead of. Returns
    /// the homes that are not needed any more.
    pub(super) fn look(&mut self, runner: &mut Runner, listeners: &mut Listeners) -> Vec<u32> {
        if self.due().is_none_or(|due| due > runner.now()) {
            return Vec::new();
        }
        let listening = self.listening();
        let is_needed = |kept: &Kept| {
            let waiting = runner.stack().waiting_at(kept.id);
            let listener = listeners.named(kept.id).zip(waiting);
            let is_replaced =
                listener.is_none_or(|(one, waiting)| waiting == 0 && listeners.has_twin(&one));
            !is_replaced && listening.contains(&kept.cookie)
        };
        let (needed, over): (Vec<Kept>, Vec<Kept>) =
            self.all.iter().partition(|kept| is_needed(kept));
        self.all = needed;
        for kept in &over {
            // It is there.
            let _ = runner.execute(Command::Unlisten(kept.id));
            listeners.remove(kept.id);
            runner.app_gone(kept.home);
        }
        self.pause = (self.pause * 2).min(LOOK_MAX);
        self.due = runner.now() + self.pause;
        over.iter().map(|kept| kept.home).collect()
    }

    fn may_look(&mut self, uid: u32, now: Instant) -> bool {
        if self.looks.len() >= USERS && !self.looks.contains_key(&uid) {
            self.looks.clear();
        }
        let limit = || RateLimiter::new(LOOKS, LOOKS);
        self.looks.entry(uid).or_insert_with(limit).allow(now)
    }

    fn listening(&mut self) -> Vec<u64> {
        netlink::listening().unwrap_or_else(|error| {
            if !std::mem::replace(&mut self.told, true) {
                log::warn!(
                    "listeners end with the program that listens, though others have them: the kernel does not say who has a socket ({error}); \
                     load its module tcp_diag"
                );
            }
            Vec::new()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_of_one_user_are_not_those_of_another() {
        let mut kept = KeptListeners::default();
        let mut now = Instant::ZERO;
        let looks = |kept: &mut KeptListeners, uid, now| {
            let allowed = (0..1_000).filter(|_| kept.may_look(uid, now));
            allowed.count()
        };
        assert_eq!(looks(&mut kept, 1, now), 100);
        assert_eq!(looks(&mut kept, 2, now), 100);
        now += Duration::from_millis(500);
        assert_eq!(looks(&mut kept, 1, now), 50);
        for uid in 0..10_000 {
            assert!(kept.may_look(uid, now + Duration::from_secs(1)));
        }
        assert!(kept.looks.len() <= USERS);
    }
}
