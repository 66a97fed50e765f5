//! Turns in pieces, for a program that waits by itself: for this context and other descriptors at
//! once, or on several threads.
//!
//! It calls [`Context::begin_turn`], looks at what became ready, and if that is nothing
//! [`Context::prepare_sleep`], sleeps without the context (which other threads may use meanwhile),
//! and calls [`Context::end_sleep`]. Inline mode only.

use std::os::fd::RawFd;
use std::time::Duration;

use mtcp_core::Acks;

use crate::epoll::Events;
use crate::socket::table::NONE;
use crate::{Context, Result, SocketId};

/// Always of interest.
const ALWAYS: Events = Events::ERR.union(Events::HUP);

impl Context {
    /// Sends what was staged, receives, and notes what became ready. What answers that sends later
    /// rides on the ACKs.
    ///
    /// # Errors
    /// `ENETDOWN` when the link is gone.
    pub fn begin_turn(&mut self) -> Result<()> {
        let begun = self.driver.begin_turn(Acks::Due);
        let taken = begun.and_then(|_| self.driver.collect());
        self.sweep();
        self.dispatch();
        self.note_link(taken)
    }

    /// Sends what waited for company, adds the descriptors that become readable when there is
    /// something to do to `fds`, and says how long a sleep on them may be (`None`: no limit).
    ///
    /// # Errors
    /// `ENETDOWN` when the link is gone, `EOPNOTSUPP` in paired mode.
    pub fn prepare_sleep(&mut self, fds: &mut Vec<RawFd>) -> Result<Option<Duration>> {
        let delay = self.delay();
        let prepared = self.driver.prepare_sleep(fds);
        let most = prepared.map(|most| [most, delay].into_iter().flatten().min());
        self.note_link(most)
    }

    /// The sleep that was prepared is over.
    ///
    /// # Errors
    /// As [`Context::prepare_sleep`].
    pub fn end_sleep(&mut self) -> Result<()> {
        let ended = self.driver.end_sleep();
        self.note_link(ended)
    }

    /// Whether another thread sleeps on what [`Context::prepare_sleep`] gave, and takes a turn when
    /// there is something to do: calls that would block then leave that to it. Never on links that
    /// loop, where nothing tells the sleeper of what was just sent.
    pub fn set_attended(&mut self, attended: bool) {
        self.attended = attended && !self.driver.loops();
    }

    /// Whether another thread will take the next turn.
    pub fn is_attended(&self) -> bool {
        self.attended
    }

    /// How long until something is due by itself, as far as known; `None`: nothing, or in paired
    /// mode.
    pub fn due(&self) -> Option<Duration> {
        self.driver.due()
    }

    /// Whether calls staged something that the stack has not been told.
    pub fn has_staged(&self) -> bool {
        self.driver.has_staged()
    }

    /// Sends what waited for company.
    ///
    /// # Errors
    /// `ENETDOWN` when the link is gone.
    pub fn settle(&mut self) -> Result<()> {
        let sent = self.driver.settle();
        self.note_link(sent)
    }

    /// Whether the interface was removed, and the stack waits until it is there again. Its
    /// descriptors of it are closed.
    pub fn is_away(&self) -> bool {
        self.driver.is_away()
    }

    /// Whether [`Context::look_again`] has something to open.
    #[inline]
    pub fn wants_look(&self) -> bool {
        self.driver.wants_look()
    }

    /// From now on [`Context::look_again`] alone opens what comes later (an interface that was
    /// removed and is there again, more queues, peers): for programs that have to know which
    /// descriptors are made by that.
    pub fn look_when_asked(&mut self) {
        self.driver.look_when_asked();
    }

    /// Opens what there is to open: an interface that was removed and is there again (each 250 ms
    /// at most), queues, peers.
    pub fn look_again(&mut self) {
        self.driver.look_again();
    }

    /// Whether another process asks for the queue that this context has, and it could go on
    /// without: stacks there would carry its frames.
    pub fn is_asked_for_queue(&self) -> bool {
        self.driver.is_asked()
    }

    /// Leaves the queue to the process that asks. `closes` gets the descriptors that close by that.
    ///
    /// # Errors
    /// `ENETDOWN` when the link is gone, `EOPNOTSUPP` in paired mode.
    pub fn leave_queue(&mut self, closes: impl FnOnce(&[RawFd])) -> Result<()> {
        let fds = self.driver.port_descriptors();
        if fds.is_empty() {
            // More has come; next time.
            return Ok(());
        }
        closes(&fds);
        let left = self.driver.leave_queue();
        self.note_link(left)
    }

    /// What of `wanted` is true of a socket, and whether it failed or hung up, as `poll` asks.
    /// Where `OUT` is wanted and not true, the stack will tell when it is.
    pub fn ready(&mut self, id: SocketId, wanted: Events) -> Events {
        let ready = self.readiness(id, wanted);
        if wanted.contains(Events::OUT) && !ready.contains(Events::OUT) {
            return (ready | self.ask_for_space(id)) & (wanted | ALWAYS);
        }
        ready & (wanted | ALWAYS)
    }

    /// Whether the stack took in what had arrived so short a time ago that the program had better
    /// go on with that: a turn now would carry little. Never on links that loop.
    pub fn is_fresh(&self) -> bool {
        self.driver.is_fresh()
    }

    /// Whether an epoll instance watches a socket.
    pub fn is_watched(&self, id: SocketId) -> bool {
        let socket = self.table.get(id);
        socket.is_ok_and(|socket| socket.watchers != NONE)
    }

    /// Whether `epoll_wait` on the instance `ep` has something to look at.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL` (no epoll instance).
    pub fn epoll_pending(&self, ep: SocketId) -> Result<bool> {
        Ok(self.watch.queued(self.instance(ep)?) > 0)
    }

    /// Whether `epoll_wait` on the instance `ep` would report something now.
    ///
    /// # Errors
    /// As [`Context::epoll_pending`].
    pub fn epoll_ready(&mut self, ep: SocketId) -> Result<bool> {
        let queue = self.watch.queue_of(self.instance(ep)?);
        let mut any = false;
        for (id, armed) in queue {
            any |= !armed.is_empty() && !(self.ready(id, armed) & armed).is_empty();
        }
        Ok(any)
    }

    /// What `epoll_wait` would report now, at most as many as `events` has room for, and how many
    /// that is. Runs nothing.
    ///
    /// # Errors
    /// As [`Context::epoll_pending`].
    pub fn epoll_take(&mut self, ep: SocketId, events: &mut [crate::EpollEvent]) -> Result<usize> {
        let instance = self.instance(ep)?;
        self.table.rest();
        let n = self.harvest(instance, events);
        if n > 0 {
            self.reported(n);
        }
        Ok(n)
    }
}
