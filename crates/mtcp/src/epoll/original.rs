//! What the original mTCP reports, for programs that were written for it (`one_event_per_entry`).
//!
//! It has events that Linux has not meant so: ERR is a connection that failed or timed out and
//! never a reset, RDHUP a reset and never a FIN, HUP nothing. docs/porting.md has the table.

use mtcp_core::Status;

use super::events::Events;
use crate::socket::table::Body;
use crate::{Context, Errno, SocketId};

/// What Linux adds where something is over.
pub(super) const ENDS: Events = Events::ERR.union(Events::HUP).union(Events::RDHUP);

impl Context {
    /// What the original says to who `asked` for this, where Linux says `ready`, which is among it
    /// and has some of [`ENDS`].
    pub(super) fn as_original(&self, id: SocketId, ready: Events, asked: Events) -> Events {
        let Ok(socket) = self.table.get(id) else {
            return ready;
        };
        match socket.body {
            Body::Pipe(_) => of_pipe(ready, asked),
            _ if self.driver.failure().is_some() => ready,
            Body::Idle => Events::empty(),
            Body::Stream(conn) => {
                let status = self.streams.status(conn.slot);
                if status.contains(Status::ERROR) {
                    let is_reset = i32::from(status.errno()) == Errno::ECONNRESET.0;
                    let is_unread = self.streams.readable(conn.slot) > 0;
                    if is_reset {
                        of_reset(ready, is_unread)
                    } else {
                        ready
                    }
                } else {
                    of_fin(ready)
                }
            }
            _ => ready,
        }
    }
}

/// RDHUP, or else IN; what came before the reset can be read. Who asked for neither finds out by
/// writing.
fn of_reset(ready: Events, is_unread: bool) -> Events {
    let told = first(ready, [Events::RDHUP, Events::IN, Events::OUT, Events::HUP]);
    let unread = if is_unread {
        Events::IN
    } else {
        Events::empty()
    };
    told | (ready & unread)
}

/// IN: `read` gives 0. RDHUP only to who did not ask for that, and would not be told.
fn of_fin(ready: Events) -> Events {
    if ready.contains(Events::IN) {
        ready - Events::RDHUP
    } else {
        ready
    }
}

/// The other end was closed: IN, and `read` gives 0; OUT, and `write` fails with EPIPE. ERR and HUP
/// only to who did not ask for that.
fn of_pipe(ready: Events, asked: Events) -> Events {
    let mut told = ready - ENDS;
    for (end, event) in [(Events::HUP, Events::IN), (Events::ERR, Events::OUT)] {
        let known = if asked.contains(event) { event } else { end };
        told.set(known, told.contains(known) || ready.contains(end));
    }
    told
}

fn first<const N: usize>(ready: Events, order: [Events; N]) -> Events {
    let bit = order.into_iter().find(|&bit| ready.contains(bit));
    bit.unwrap_or(ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_is_told_once_and_by_the_best_bit() {
        let all = Events::IN | Events::OUT | ENDS;
        assert_eq!(of_reset(all, false), Events::RDHUP);
        assert_eq!(of_reset(all, true), Events::RDHUP | Events::IN);
        assert_eq!(of_reset(all - Events::RDHUP, false), Events::IN);
        let unasked = Events::ERR | Events::HUP;
        assert_eq!(of_reset(unasked | Events::OUT, true), Events::OUT);
        assert_eq!(of_reset(unasked, true), Events::HUP);
    }

    #[test]
    fn a_pipe_whose_other_end_is_closed_can_be_read_and_written() {
        let always = Events::ERR | Events::HUP;
        assert_eq!(of_pipe(Events::HUP, always | Events::IN), Events::IN);
        assert_eq!(of_pipe(Events::ERR, always | Events::OUT), Events::OUT);
        assert_eq!(of_pipe(always, always), always);
    }

    #[test]
    fn the_end_of_what_comes_is_readable() {
        assert_eq!(of_fin(Events::IN | Events::RDHUP), Events::IN);
        assert_eq!(of_fin(Events::RDHUP), Events::RDHUP);
    }
}
