//! What is true of a socket now: levels, as Linux reports them.

use mtcp_core::{AppStreams, ConnId, Status, Urgent};

use super::events::Events;
use crate::socket::table::{Body, Flags, Socket};
use crate::{Context, SocketId};

const READABLE: Events = Events::IN.union(Events::RDNORM);
const WRITABLE: Events = Events::OUT.union(Events::WRNORM);
/// Both directions are over.
const OVER: Events = READABLE
    .union(WRITABLE)
    .union(Events::RDHUP)
    .union(Events::HUP);

impl Context {
    /// Everything that is true of `id`, as far as it is `wanted`.
    pub(crate) fn readiness(&self, id: SocketId, wanted: Events) -> Events {
        let Ok(socket) = self.table.get(id) else {
            return Events::empty();
        };
        let down = self.driver.failure().is_some();
        match socket.body {
            Body::Free(_) | Body::Epoll(_) => Events::empty(),
            Body::Pipe(pipe) => self
                .pipes
                .get(pipe)
                .map_or(Events::empty(), |pipe| pipe.readiness(socket.flags)),
            // Nobody comes any more, and nobody who asks would hear of anybody: not a reason to
            // accept again and again.
            Body::Listener(_) if down => Events::empty(),
            _ if down => OVER | Events::ERR,
            Body::Idle if socket.flags.contains(Flags::GIVEN_UP) => {
                WRITABLE | Events::HUP | Events::ERR
            }
            // Neither connected nor listening: Linux has always said so.
            Body::Idle => WRITABLE | Events::HUP,
            Body::Listener(index) => match self.listeners.get(index) {
                Some(listener) if !listener.queue.is_empty() => READABLE,
                _ => Events::empty(),
            },
            Body::Stream(conn) => {
                let low_water = if socket.flags.contains(Flags::LOW_WATER) {
                    self.table.recv_low_water(id)
                } else {
                    1
                };
                stream(&self.streams, socket, conn, low_water, wanted)
            }
        }
    }

    /// `id` is not writable and someone wants it to be: has the stack tell when it is. Returns what
    /// became true of it meanwhile.
    pub(crate) fn ask_for_space(&mut self, id: SocketId) -> Events {
        match self.table.get(id).map(|socket| socket.body) {
            Ok(Body::Stream(conn))
                if self.streams.status(conn.slot).contains(Status::CONNECTED)
                    && self.streams.want_space(conn.slot) =>
            {
                Events::OUT
            }
            _ => Events::empty(),
        }
    }
}

fn stream(
    streams: &AppStreams,
    socket: &Socket,
    conn: ConnId,
    low_water: u32,
    wanted: Events,
) -> Events {
    let status = streams.status(conn.slot);
    let mut events = Events::empty();
    if status.intersects(Status::ERROR | Status::CLOSED) {
        events |= OVER;
        if status.contains(Status::ERROR) && !socket.flags.contains(Flags::ERROR_TAKEN) {
            events |= Events::ERR;
        }
        return events;
    }
    if !status.contains(Status::CONNECTED) {
        // The SYN waits for a write.
        let deferred = socket.flags.contains(Flags::DEFERRED);
        return if deferred { WRITABLE } else { events };
    }
    let no_more = status.contains(Status::EOF) || socket.flags.contains(Flags::SHUT_RD);
    let shut = socket.flags.contains(Flags::SHUT_WR);
    if no_more {
        events |= READABLE | Events::RDHUP;
    }
    if no_more && shut {
        events |= Events::HUP;
    }
    if wanted.intersects(READABLE) && streams.readable(conn.slot) >= low_water {
        events |= READABLE;
        // What is read is mostly answered.
        streams.prefetch_write(conn.slot);
    }
    if wanted.intersects(WRITABLE) && (shut || streams.writable(conn.slot) > 0) {
        events |= WRITABLE;
    }
    if status.contains(Status::URGENT) {
        return with_urgent(streams, socket, conn, low_water, events, no_more);
    }
    events
}

/// As Linux: an urgent byte is news of its own, and nothing that can be read.
#[cold]
fn with_urgent(
    streams: &AppStreams,
    socket: &Socket,
    conn: ConnId,
    low_water: u32,
    mut events: Events,
    no_more: bool,
) -> Events {
    let inline = socket.flags.contains(Flags::OOB_INLINE);
    if !no_more && streams.readable_past_mark(conn.slot, inline) < low_water {
        events -= READABLE;
    }
    if matches!(streams.urgent(conn.slot), Urgent::Here(_)) {
        events |= Events::PRI;
    }
    events
}
