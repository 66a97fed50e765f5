//! Programs that do not come to accept: stopped ones, and those that are busy with what they have.
//! What waits at their listeners goes to others at the same place, as processes that share a socket
//! have one queue on Linux.
//!
//! A listener has stalled when connections wait there and none was accepted for a while, where
//! others listen beside it. From then on it gets connections only where all others have stalled,
//! too, until its program accepts one, or finds that one has gone.

use std::time::Duration;

use wire::time::Instant;

use crate::id::ListenerId;
use crate::tcp::Tcp;
use crate::tcp::heirs::hand_on_some;

/// How long a program may take until it accepts another connection: longer than the scheduler
/// leaves it waiting as a rule, and shorter than a peer notices.
const STALL: Duration = Duration::from_millis(5);
/// Connections that leave a listener at one look: links and other programs have to be served, too.
const MOVED_MAX: usize = 64;

/// Looks where programs have stalled, and hands on what waits there.
pub fn hand_on_stalled(tcp: &mut Tcp, now: Instant) {
    for slot in tcp.setup.listeners.look_at_waiting(now, STALL) {
        let heirs = tcp.setup.listeners.heirs_that_accept(slot);
        if heirs.is_empty() {
            continue;
        }
        if hand_on_some(tcp, slot, &heirs, MOVED_MAX) < MOVED_MAX
            && let Some(listener) = tcp.setup.listeners.at_mut(slot)
        {
            listener.pace.note(now);
        }
    }
}

/// When that is to be done next, if nothing happens meanwhile.
pub fn stall_due(tcp: &Tcp, now: Instant) -> Option<Instant> {
    tcp.setup.listeners.stall_due(now, STALL)
}

/// A program has found that a connection has gone which waited at its listener: it has come to
/// accept.
pub fn note_accepting(tcp: &mut Tcp, id: ListenerId) {
    let slot = tcp.setup.listeners.resolve(id);
    if let Some(listener) = slot.ok().and_then(|slot| tcp.setup.listeners.at_mut(slot)) {
        listener.pace.accept();
    }
}
