//! What the original mTCP reports, for programs that were written for it (`one_event_per_entry`).
//!
//! It has events that Linux has not meant so: ERR is a connection that failed or timed out and
//! never a reset, RDHUP a reset and never a FIN, HUP nothing. docs/porting.md has the table.

use mtcp_core::Status;

use super::events::Events;
use crate::Errno;

/// What Linux adds where something is over.
pub(super) const ENDS: Events = Events::ERR.union(Events::HUP).union(Events::RDHUP);

/// What it says of a stream with this status, where Linux says `ready`.
pub(super) fn of_stream(status: Status, is_unread: impl Fn() -> bool, ready: Events) -> Events {
    if !status.contains(Status::ERROR) {
        return of_fin(ready);
    }
    if i32::from(status.errno()) == Errno::ECONNRESET.0 {
        of_reset(ready, is_unread())
    } else {
        ready
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
pub(super) fn of_pipe(ready: Events, asked: Events) -> Events {
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
