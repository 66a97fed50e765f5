//! Readiness: several epoll instances per context, with the semantics of Linux.

use std::time::Duration;

use super::{Context, reports};
use crate::socket::table::NONE;
use crate::{Ctl, EpollEvent, Events, Interest, Result, SocketId};

/// Always of interest.
const ALWAYS: Events = Events::ERR.union(Events::HUP);

impl Context {
    /// A new epoll instance, closed with [`Context::close`].
    ///
    /// # Errors
    /// `ENFILE`.
    pub fn epoll_create(&mut self) -> Result<SocketId> {
        self.sockets.epoll_create()
    }

    /// Registers, changes or removes `id` in the instance `ep`. `Add` and `Mod` report what is
    /// ready already.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL` (`ep` is no epoll instance, or `id` is one), `EEXIST`, `ENOENT`.
    pub fn epoll_ctl(
        &mut self,
        ep: SocketId,
        ctl: Ctl,
        id: SocketId,
        interest: Interest,
    ) -> Result<()> {
        self.sockets.epoll_ctl(ep, ctl, id, interest)
    }

    /// What is asked for of `id` in the instance `ep`. `None`: it is not watched there, or was
    /// reported the one time that was asked for.
    pub fn epoll_interest(&mut self, ep: SocketId, id: SocketId) -> Option<Interest> {
        let watched = self.sockets.table.watched(ep, id)?;
        self.sockets.watch.interest(watched)
    }

    /// Fills `events` with what is ready, at most `timeout` from now (`None`: no limit) if nothing
    /// is yet, and says how many. Starts by sending what was written and closed since.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL` (no epoll instance, or no room in `events`), `EINTR`, `ENETDOWN` (the link
    /// is gone and nothing is ready).
    pub fn epoll_wait(
        &mut self,
        ep: SocketId,
        events: &mut [EpollEvent],
        timeout: Option<Duration>,
    ) -> Result<usize> {
        reports::epoll_wait(self, ep, events, timeout)
    }

    /// Whether `epoll_wait` on the instance `ep` has something to look at.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL` (no epoll instance).
    pub fn epoll_pending(&self, ep: SocketId) -> Result<bool> {
        let instance = self.sockets.table.instance(ep)?;
        Ok(self.sockets.watch.queued(instance) > 0)
    }

    /// Whether `epoll_wait` on the instance `ep` would report something now.
    ///
    /// # Errors
    /// As [`Context::epoll_pending`].
    pub fn epoll_ready(&mut self, ep: SocketId) -> Result<bool> {
        let instance = self.sockets.table.instance(ep)?;
        Ok(self.sockets.has_ready(instance))
    }

    /// What `epoll_wait` would report now, at most as many as `events` has room for, and how many
    /// that is. Runs nothing.
    ///
    /// # Errors
    /// As [`Context::epoll_pending`].
    pub fn epoll_take(&mut self, ep: SocketId, events: &mut [crate::EpollEvent]) -> Result<usize> {
        reports::epoll_take(self, ep, events)
    }

    /// What of `wanted` is true of a socket, and whether it failed or hung up, as `poll` asks.
    /// Where `OUT` is wanted and not true, the stack will tell when it is.
    pub fn ready(&mut self, id: SocketId, wanted: Events) -> Events {
        self.sockets.levels().ready(id, wanted | ALWAYS)
    }

    /// Whether an epoll instance watches a socket.
    pub fn is_watched(&self, id: SocketId) -> bool {
        let socket = self.sockets.table.get(id);
        socket.is_ok_and(|socket| socket.watchers != NONE)
    }

    /// The events of the original mTCP, as programs for it expect them: one bit per reported entry,
    /// and a socket once per wait; what else is ready comes with the next wait, in the order ERR,
    /// IN, OUT, RDHUP. A reset is RDHUP, or else IN, and ERR a connection that failed otherwise; a
    /// FIN is IN; sockets that were never connected are silent. Starts as configured.
    pub fn set_one_event_per_entry(&mut self, on: bool) {
        self.sockets.settings.one_event_per_entry = on;
    }
}
