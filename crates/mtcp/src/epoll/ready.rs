//! What is true of a socket now: levels, as Linux reports them.

use mtcp_core::{AppStreams, ConnId, Status, Urgent};

use super::events::Events;
use super::original;
use crate::SocketId;
use crate::pipe::Pipes;
use crate::socket::listener::Listeners;
use crate::socket::table::{Body, Flags, Socket, Table};
use crate::transport::{self, Transport};

const READABLE: Events = Events::IN.union(Events::RDNORM);
const WRITABLE: Events = Events::OUT.union(Events::WRNORM);
/// Both directions are over.
const OVER: Events = READABLE
    .union(WRITABLE)
    .union(Events::RDHUP)
    .union(Events::HUP);

/// What is true of all sockets, borrowed for a look at some of them.
#[derive(Debug)]
pub(crate) struct Levels<'a> {
    pub(crate) table: &'a Table,
    pub(crate) listeners: &'a mut Listeners,
    pub(crate) pipes: &'a Pipes,
    pub(crate) transport: &'a mut Transport,
    /// As the original mTCP reports it.
    pub(crate) as_original: bool,
}

impl Levels<'_> {
    /// What is true of `id` among `wanted`. Where `OUT` is wanted and not true, the stack will tell
    /// when it is.
    #[inline]
    pub(crate) fn ready(&mut self, id: SocketId, wanted: Events) -> Events {
        let mut ready = self.all(id, wanted) & wanted;
        if wanted.contains(Events::OUT) && !ready.contains(Events::OUT) {
            ready |= self.ask_for_space(id);
        }
        ready
    }

    /// As [`Levels::ready`], as `epoll_wait` reports it.
    #[inline]
    pub(crate) fn reported(&mut self, id: SocketId, wanted: Events) -> Events {
        let ready = self.ready(id, wanted);
        if self.as_original && ready.intersects(original::ENDS) {
            return self.translate(id, ready, wanted);
        }
        ready
    }

    /// Everything that is true of `id`, as far as it is `wanted`.
    #[inline]
    fn all(&mut self, id: SocketId, wanted: Events) -> Events {
        let Ok(socket) = self.table.get(id) else {
            return Events::empty();
        };
        let down = self.transport.is_down();
        match socket.body {
            Body::Free(_) | Body::Epoll(_) => Events::empty(),
            Body::Pipe(pipe) => self.pipes.readiness(pipe, socket.flags),
            // Nobody comes any more, and nobody who asks would hear of anybody: not a reason to
            // accept again and again.
            Body::Listener(_) if down => Events::empty(),
            _ if down => OVER | Events::ERR,
            Body::Idle if socket.flags.contains(Flags::GIVEN_UP) => {
                WRITABLE | Events::HUP | Events::ERR
            }
            // Neither connected nor listening: Linux has always said so.
            Body::Idle => WRITABLE | Events::HUP,
            Body::Listener(index) if self.has_waiting(index) => READABLE,
            Body::Listener(_) => Events::empty(),
            Body::Stream(conn) => {
                let low_water = self.table.recv_low_water(id, socket.flags);
                stream(&self.transport.streams, socket, conn, low_water, wanted)
            }
        }
    }

    /// Whether somebody waits at a listener whom no other program has got.
    fn has_waiting(&mut self, index: u32) -> bool {
        while let Some(waiting) = self.listeners.front(index) {
            if !self.transport.streams.is_withdrawn(waiting.conn.slot) {
                return true;
            }
            self.listeners.pop(index);
            self.transport.refuse([waiting.conn]);
        }
        false
    }

    /// `id` is not writable and someone wants it to be: has the stack tell when it is. Returns what
    /// became true of it meanwhile.
    fn ask_for_space(&mut self, id: SocketId) -> Events {
        match self.table.get(id).map(|socket| socket.body) {
            Ok(Body::Stream(conn))
                if self.transport.status(conn).contains(Status::CONNECTED)
                    && self.transport.streams.want_space(conn.slot) =>
            {
                Events::OUT
            }
            _ => Events::empty(),
        }
    }

    /// Whether nothing is true of a socket before the stack has told of it: it is connecting.
    pub(crate) fn is_silent(&self, socket: &Socket) -> bool {
        let quiet = Flags::CONNECTING.union(Flags::DEFERRED);
        match socket.body {
            Body::Stream(conn) => {
                let told = transport::OVER.union(Status::CONNECTED);
                socket.flags.intersection(quiet) == Flags::CONNECTING
                    && !self.transport.status(conn).intersects(told)
                    && !self.transport.is_down()
            }
            _ => false,
        }
    }

    /// What the original says to who `asked` for this, where Linux says `ready`, which is among it
    /// and has some of [`original::ENDS`].
    fn translate(&self, id: SocketId, ready: Events, asked: Events) -> Events {
        let Ok(socket) = self.table.get(id) else {
            return ready;
        };
        match socket.body {
            Body::Pipe(_) => original::of_pipe(ready, asked),
            _ if self.transport.is_down() => ready,
            Body::Idle => Events::empty(),
            Body::Stream(conn) => {
                let is_unread = || self.transport.streams.readable(conn.slot) > 0;
                original::of_stream(self.transport.status(conn), is_unread, ready)
            }
            _ => ready,
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
