//! Queues that an interface gets while it is in use (`ethtool -L`). What comes to one without a
//! socket is the kernel's, which has no use for it. (Queues with sockets cannot be taken away: the
//! kernel refuses.)

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use wire::time::Instant;

use crate::netlink::{Link, ethtool};

use super::config::{Frames, ZeroCopy};
use super::error::{BIND, REGISTER, explain};
use super::program::Program;
use super::queue::{Extras, Queue};
use super::resources::register;

/// How often the interface is asked, as no event tells.
const LOOK: Duration = Duration::from_secs(1);

/// What it takes to receive from one more queue.
#[derive(Debug)]
pub(super) struct Follower {
    pub(super) link: Link,
    pub(super) program: Arc<Program>,
    pub(super) frames: Frames,
    pub(super) zero_copy: ZeroCopy,
    /// So many queues there were ...
    pub(super) known: u32,
    /// ... and are.
    pub(super) seen: u32,
    pub(super) due: Instant,
}

impl Follower {
    /// Whether there are queues to be opened. Looks when it is time to.
    #[inline]
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        now >= self.due && self.has_more(now)
    }

    #[cold]
    fn has_more(&mut self, now: Instant) -> bool {
        self.due = now + LOOK;
        // The sockets say it when the interface is gone.
        let Ok(queues) = ethtool::queues(&self.link.name) else {
            return false;
        };
        self.seen = queues.rx;
        self.known = self.known.min(self.seen);
        self.seen > self.known
    }

    /// The queues that are new. One that cannot be received from is told once.
    #[cold]
    pub(super) fn open_new(&mut self) -> Vec<Queue> {
        let known = std::mem::replace(&mut self.known, self.seen);
        let new: Vec<Queue> = (known..self.seen)
            .filter_map(|number| match self.open(number) {
                Ok(queue) => {
                    log::info!("XDP on {}: receives from queue {number}, too", self.link.name);
                    Some(queue)
                }
                Err(error) => {
                    log::warn!(
                        "what comes to the new queue {number} gets no answer: {error}; start the program again, or take the queue away \
                         ({})",
                        self.way_back(known)
                    );
                    None
                }
            })
            .collect();
        if !new.is_empty()
            && self.link.is_veth()
            && let Err(error) = self.program.attach_again(&self.link.name, self.link.index)
        {
            log::warn!("nothing is received any more: {error}; start the program again");
        }
        new
    }

    /// How the interface gets so many queues again.
    fn way_back(&self, known: u32) -> String {
        let queues = ethtool::queues(&self.link.name);
        queues.map_or_else(
            |_| "`ethtool -L`".to_owned(),
            |queues| format!("`{}`", queues.command(&self.link.name, known)),
        )
    }

    fn open(&self, number: u32) -> io::Result<Queue> {
        let name = &self.link.name;
        let (socket, frame_rings) =
            register(self.frames).map_err(|error| explain(name, REGISTER, &error))?;
        socket
            .bind((self.link.index, number), self.zero_copy, self.frames)
            .map_err(|error| explain(name, BIND, &error))?;
        self.program
            .steer(number, socket.as_fd())
            .map_err(|error| explain(name, BIND, &error))?;
        Ok(Queue::new(number, (socket, frame_rings), Extras::default()))
    }
}
