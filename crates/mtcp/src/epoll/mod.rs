//! Readiness: several epoll instances per context, with the semantics of Linux.

use std::time::Duration;

use mtcp_core::{Acks, Status};

use crate::driver::REPORTS;
use crate::socket::table::{Body, Flags, NONE};
use crate::{Context, Domain, Errno, Result, SocketId};

mod events;
mod original;
mod ready;
mod watch;

pub use events::{Ctl, EpollEvent, Events, Interest};
use watch::Entry;
pub(crate) use watch::Watch;

impl Context {
    /// A new epoll instance, closed with [`Context::close`].
    ///
    /// # Errors
    /// `ENFILE`.
    pub fn epoll_create(&mut self) -> Result<SocketId> {
        let instance = self.watch.create();
        let details = self.table.blank(Domain::V4);
        let id = self
            .table
            .insert(Body::Epoll(instance), Flags::empty(), details);
        if id.is_err() {
            self.watch.destroy(instance);
        }
        id
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
        self.table.get(ep)?;
        let socket = self.table.get(id)?;
        let instance = self.instance(ep)?;
        if matches!(socket.body, Body::Epoll(_)) {
            return Err(Errno::EINVAL);
        }
        let first = socket.watchers;
        let first = match (ctl, self.watch.find(first, instance)) {
            (Ctl::Add, None) => {
                let entry = self.watch.add(instance, id, interest, first);
                if !self.will_tell(id) {
                    self.watch.queue(entry);
                }
                entry
            }
            (Ctl::Add, Some(_)) => return Err(Errno::EEXIST),
            (Ctl::Mod | Ctl::Del, None) => return Err(Errno::ENOENT),
            (Ctl::Mod, Some(entry)) => {
                self.watch.modify(entry, interest);
                first
            }
            (Ctl::Del, Some(entry)) => self.watch.remove(entry, first),
        };
        self.table.get_mut(id)?.watchers = first;
        Ok(())
    }

    /// Whether nothing is true of a socket before the stack has told of it: it is connecting.
    fn will_tell(&self, id: SocketId) -> bool {
        let quiet = Flags::CONNECTING.union(Flags::DEFERRED);
        let over = Status::CONNECTED.union(Status::ERROR).union(Status::CLOSED);
        self.table.get(id).is_ok_and(|socket| match socket.body {
            Body::Stream(conn) => {
                socket.flags.intersection(quiet) == Flags::CONNECTING
                    && !self.streams.status(conn.slot).intersects(over)
                    && self.driver.failure().is_none()
            }
            _ => false,
        })
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
        let instance = self.instance(ep)?;
        if events.is_empty() {
            return Err(Errno::EINVAL);
        }
        self.table.rest();
        let mut n = self.report_rest(instance, events);
        if n == 0 {
            // Who has been told of all that came, and asks for more, has answered what it answers
            // at once.
            let acks = if self.watch.has_news(instance) {
                Acks::Due
            } else {
                Acks::All
            };
            let harvest =
                |context: &mut Self| Some(context.harvest(instance, events)).filter(|&n| n > 0);
            n = self.wait_until(timeout, true, acks, harvest)?.unwrap_or(0);
        }
        self.reported(n);
        Ok(n)
    }

    /// What the last turn brought is reported before more is taken from the link, for a moment:
    /// what has arrived is best worked on while it is in the cache, and what waits on the link
    /// takes no memory.
    fn report_rest(&mut self, instance: u32, events: &mut [EpollEvent]) -> usize {
        if !self.watch.has_news(instance) || !self.driver.is_fresh() {
            return 0;
        }
        // The next turn says what became of the link.
        let _ = self.driver.begin_turn(Acks::Due);
        self.harvest(instance, events)
    }

    /// The events of the original mTCP, as programs for it expect them: one bit per reported entry,
    /// and a socket once per wait; what else is ready comes with the next wait, in the order ERR,
    /// IN, OUT, RDHUP. A reset is RDHUP, or else IN, and ERR a connection that failed otherwise; a
    /// FIN is IN; sockets that were never connected are silent. Starts as configured.
    pub fn set_one_event_per_entry(&mut self, on: bool) {
        self.settings.one_event_per_entry = on;
    }

    pub(crate) fn instance(&self, ep: SocketId) -> Result<u32> {
        match self.table.get(ep)?.body {
            Body::Epoll(instance) => Ok(instance),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Removes a socket that is being closed from every instance.
    pub(crate) fn unwatch(&mut self, id: SocketId) {
        if let Ok(socket) = self.table.get_mut(id) {
            let first = std::mem::replace(&mut socket.watchers, NONE);
            self.watch.remove_all(first);
        }
    }

    /// Removes an instance that is being closed.
    pub(crate) fn close_epoll(&mut self, instance: u32) {
        for (entry, id) in self.watch.members(instance) {
            if let Ok(socket) = self.table.get_mut(id) {
                socket.watchers = self.watch.remove(entry, socket.watchers);
            }
        }
        self.watch.destroy(instance);
    }

    /// Reports what is ready in `instance`: looks once at each queued entry.
    pub(crate) fn harvest(&mut self, instance: u32, events: &mut [EpollEvent]) -> usize {
        let mut left = self.watch.queued(instance);
        let room = events.len().min(REPORTS);
        let events = events.get_mut(..room).unwrap_or_default();
        let mut n = 0;
        while left > 0 {
            left -= 1;
            let Some(event) = events.get_mut(n) else {
                break;
            };
            let Some(index) = self.watch.pop(instance) else {
                break;
            };
            if let Some(report) = self.report(index) {
                *event = report;
                n += 1;
            }
        }
        n
    }

    /// What an entry just taken from the ready list has to report.
    fn report(&mut self, index: u32) -> Option<EpollEvent> {
        let entry = self.watch.entry_mut(index)?;
        let (socket, armed) = (entry.socket, entry.armed());
        let mut ready = self.readiness(socket, armed) & armed;
        if armed.contains(Events::OUT) && !ready.contains(Events::OUT) {
            ready |= self.ask_for_space(socket);
        }
        let one = self.settings.one_event_per_entry;
        if one && ready.intersects(original::ENDS) {
            ready = self.as_original(socket, ready, armed);
        }
        let entry = self.watch.entry_mut(index)?;
        let (events, over) = if one {
            entry.next_bit(ready)
        } else {
            (ready, true)
        };
        if events.is_empty() {
            return None;
        }
        let how = entry.events;
        if over && how.contains(Events::ONESHOT) {
            entry.disarmed = true;
        }
        let report = EpollEvent {
            events,
            data: entry.data(),
        };
        if !over {
            self.watch.queue(index);
        } else if !how.intersects(Events::ET | Events::ONESHOT) {
            self.watch.requeue(index);
        }
        Some(report)
    }
}

impl Entry {
    /// The next of `ready` to report alone, and whether it was the last of this round.
    fn next_bit(&mut self, ready: Events) -> (Events, bool) {
        let mut left = ready.difference(self.done());
        if left.is_empty() && !self.events.contains(Events::ET) {
            left = ready;
            self.set_done(Events::empty());
        }
        let order = [
            Events::ERR,
            Events::IN,
            Events::OUT,
            Events::RDHUP,
            Events::PRI,
            Events::RDNORM,
            Events::WRNORM,
            Events::HUP,
        ];
        let Some(bit) = order.into_iter().find(|&bit| left.contains(bit)) else {
            self.set_done(Events::empty());
            return (Events::empty(), true);
        };
        self.set_done(self.done() | bit);
        let rest = ready.difference(self.done() | Events::HUP);
        let over = bit == Events::ERR || rest.is_empty();
        if over {
            self.set_done(Events::empty());
        }
        (bit, over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(ready: Events, how: Events) -> Vec<(Events, bool)> {
        let mut watch = Watch::new();
        let ep = watch.create();
        let index = watch.add(
            ep,
            SocketId(0),
            Interest {
                events: Events::IN | Events::OUT | how,
                data: 0,
            },
            NONE,
        );
        let entry = watch.entry_mut(index).unwrap();
        (0..3).map(|_| entry.next_bit(ready)).collect()
    }

    #[test]
    fn levels_take_turns() {
        let both = Events::IN | Events::OUT;
        let turns = [
            (Events::IN, false),
            (Events::OUT, true),
            (Events::IN, false),
        ];
        assert_eq!(bits(both, Events::empty()), turns);
        assert_eq!(bits(both | Events::HUP, Events::empty()), turns);
    }

    #[test]
    fn an_error_comes_alone() {
        let all = Events::IN | Events::OUT | Events::ERR | Events::HUP;
        assert!(
            bits(all, Events::ET)
                .iter()
                .all(|turn| *turn == (Events::ERR, true))
        );
        assert!(
            bits(Events::HUP, Events::empty())
                .iter()
                .all(|turn| *turn == (Events::HUP, true))
        );
    }
}
