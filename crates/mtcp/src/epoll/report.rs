//! What `epoll_wait` reports: the ready list of an instance, looked at once.

use super::events::{Ctl, EpollEvent, Events, Interest};
use super::watch::{Entry, Watch};
use crate::driver::REPORTS;
use crate::{Errno, Result, SocketId};

impl Watch {
    /// Registers, changes or removes `id`, which `first` and its siblings watch, in an instance.
    /// Returns the new first of those. `is_silent`: nothing is true of `id` before the stack has
    /// told of it.
    pub(crate) fn control(
        &mut self,
        instance: u32,
        ctl: Ctl,
        (id, first): (SocketId, u32),
        interest: Interest,
        is_silent: bool,
    ) -> Result<u32> {
        match (ctl, self.find(first, instance)) {
            (Ctl::Add, None) => {
                let entry = self.add(instance, id, interest, first);
                if !is_silent {
                    self.queue(entry);
                }
                Ok(entry)
            }
            (Ctl::Add, Some(_)) => Err(Errno::EEXIST),
            (Ctl::Mod | Ctl::Del, None) => Err(Errno::ENOENT),
            (Ctl::Mod, Some(entry)) => {
                self.modify(entry, interest);
                Ok(first)
            }
            (Ctl::Del, Some(entry)) => Ok(self.remove(entry, first)),
        }
    }

    /// Reports what is ready in `instance`: looks once at each queued entry. `look` says what is
    /// true of a socket among what it is asked for; `one`: reports one bit per entry.
    pub(crate) fn harvest(
        &mut self,
        instance: u32,
        events: &mut [EpollEvent],
        one: bool,
        mut look: impl FnMut(SocketId, Events) -> Events,
    ) -> usize {
        let mut left = self.queued(instance);
        let room = events.len().min(REPORTS);
        let events = events.get_mut(..room).unwrap_or_default();
        let mut n = 0;
        while left > 0 {
            left -= 1;
            let Some(event) = events.get_mut(n) else {
                break;
            };
            let Some(index) = self.pop(instance) else {
                break;
            };
            if let Some(report) = self.report(index, one, &mut look) {
                *event = report;
                n += 1;
            }
        }
        n
    }

    /// What an entry just taken from the ready list has to report.
    fn report(
        &mut self,
        index: u32,
        one: bool,
        look: &mut impl FnMut(SocketId, Events) -> Events,
    ) -> Option<EpollEvent> {
        let entry = self.entry_mut(index)?;
        let ready = look(entry.socket, entry.armed());
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
            self.queue(index);
        } else if !how.intersects(Events::ET | Events::ONESHOT) {
            self.requeue(index);
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
    use crate::socket::table::NONE;

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
