//! What the stack has to tell, on its way to the sockets that it is about.

use std::os::fd::RawFd;
use std::time::Duration;

use mtcp_core::{Acks, ConnId, Event, Ready, Token};

use super::{PASS, Sockets};
use crate::epoll::{Events, Watch};
use crate::socket::listener::{Listeners, Waiting};
use crate::socket::owners::Owners;
use crate::socket::table::{Flags, Table};
use crate::socket::urgent::UrgentNews;
use crate::transport::Transport;
use crate::{Result, SocketId};

impl Sockets {
    /// Does what is due without waiting: receives, fires timers, sends.
    pub(crate) fn poll(&mut self) -> Result<()> {
        let driver = &mut self.transport.driver;
        let taken = driver.submit().and_then(|()| driver.collect());
        self.dispatch();
        self.note_link(taken)?;
        let sent = self.transport.driver.settle();
        self.note_link(sent)
    }

    /// Sends what was staged, receives, and notes what became ready. What answers that sends later
    /// rides on the ACKs.
    pub(crate) fn begin_turn(&mut self) -> Result<()> {
        let driver = &mut self.transport.driver;
        let begun = driver.begin_turn(Acks::Due);
        let taken = begun.and_then(|_| driver.collect());
        self.transport.sweep();
        self.dispatch();
        self.note_link(taken)
    }

    /// Flushes ACKs that were held back for piggybacking. Says on which descriptors to sleep, and
    /// how long at most.
    pub(crate) fn prepare_sleep(&mut self, fds: &mut Vec<RawFd>) -> Result<Option<Duration>> {
        let delay = self.transport.delay();
        let prepared = self.transport.driver.prepare_sleep(fds);
        let most = prepared.map(|most| [most, delay].into_iter().flatten().min());
        self.note_link(most)
    }

    /// Leaves the queue to the process that asks. `closes` gets the descriptors that close by that.
    pub(crate) fn leave_queue(&mut self, closes: impl FnOnce(&[RawFd])) -> Result<()> {
        let fds = self.transport.driver.port_descriptors();
        if fds.is_empty() {
            // More has come; next time.
            return Ok(());
        }
        closes(&fds);
        let left = self.transport.driver.leave_queue();
        self.note_link(left)
    }

    /// A call on `id` wrote.
    #[inline]
    pub(crate) fn has_written(&mut self, id: SocketId) {
        if self.transport.has_much() {
            self.send_much();
        } else {
            let socket = self.table.get(id);
            let is_blocking = socket.is_ok_and(|socket| !socket.nonblocking());
            self.transport.hand_over(is_blocking);
        }
    }

    /// Sends much that was written, and takes the ACKs of what was sent before: who writes to many
    /// sockets between two waits then gets the buffers that these drained, which are still in the
    /// cache.
    #[cold]
    #[inline(never)]
    fn send_much(&mut self) {
        self.transport.tells_all();
        // The next call on the socket says what became of the link.
        let _ = self.poll();
        self.transport.sweep();
    }

    /// Tells every epoll instance, once, that the link is gone.
    pub(crate) fn note_link<T>(&mut self, link: Result<T>) -> Result<T> {
        if link.is_err() && !self.knows_down {
            self.knows_down = true;
            for id in self.table.ids() {
                self.news(id, Events::all());
            }
        }
        link
    }

    fn delivery(&mut self) -> Delivery<'_> {
        Delivery {
            table: &mut self.table,
            watch: &mut self.watch,
            listeners: &mut self.listeners,
            owners: &self.owners,
            urgent: &mut self.urgent,
            transport: &mut self.transport,
        }
    }

    /// Takes all events from the stack to the sockets they are about.
    pub(crate) fn dispatch(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        loop {
            let driver = &mut self.transport.driver;
            events.extend(std::iter::from_fn(|| driver.poll_event()).take(PASS));
            if events.is_empty() {
                break;
            }
            let mut delivery = self.delivery();
            delivery.prefetch(&events);
            for event in events.drain(..) {
                delivery.on_event(event);
            }
        }
        self.events = events;
        self.transport.reclaim();
        while let Some(slot) = self.transport.streams.poll_starved() {
            if let Some(owner) = self.owners.of(slot) {
                self.news(owner, Events::OUT | Events::WRNORM);
            }
        }
    }
}

/// The parts that events change.
#[derive(Debug)]
struct Delivery<'a> {
    table: &'a mut Table,
    watch: &'a mut Watch,
    listeners: &'a mut Listeners,
    owners: &'a Owners,
    urgent: &'a mut UrgentNews,
    transport: &'a mut Transport,
}

impl Delivery<'_> {
    /// Asks for what the events are about, one kind of record after the other: each says where the
    /// next one is, and the misses of all events overlap.
    fn prefetch(&self, events: &[Event]) {
        let ids = self.owners.prefetch(events);
        for id in ids.clone() {
            self.table.prefetch(id);
        }
        for socket in ids.filter_map(|id| self.table.get(id).ok()) {
            self.watch.prefetch(socket.watchers);
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Accepted {
                listener,
                conn,
                key,
            } => self.on_accepted(listener, Waiting { conn, key }),
            Event::Ready { conn, ready, .. } => self.on_ready(conn, ready),
        }
    }

    fn on_accepted(&mut self, listener: Token, waiting: Waiting) {
        let Some(id) = self.listeners.arrived(listener, waiting) else {
            self.transport.refuse([waiting.conn]);
            return;
        };
        if let Ok(socket) = self.table.get(id) {
            self.watch
                .news(socket.watchers, Events::IN | Events::RDNORM);
        }
    }

    fn on_ready(&mut self, conn: ConnId, ready: Ready) {
        let Some(id) = self.owners.of(conn.slot) else {
            return;
        };
        let Some(socket) = self.table.stream_mut(id, conn) else {
            return;
        };
        if ready.contains(Ready::DRAINED) {
            socket.flags |= Flags::DRAINED;
        }
        if ready.contains(Ready::URGENT) {
            self.urgent.note(id);
        }
        let socket = *socket;
        let mut edges = edges(ready);
        // As on Linux, too little to read wakes nobody.
        if edges != Events::all()
            && socket.flags.contains(Flags::LOW_WATER)
            && self.transport.streams.readable(conn.slot)
                < self.table.recv_low_water(id, socket.flags)
        {
            edges -= Events::IN | Events::RDNORM;
        }
        self.watch.news(socket.watchers, edges);
    }
}

/// Which epoll edges an event of the stack is, as Linux wakes: state changes concern everyone.
fn edges(ready: Ready) -> Events {
    let mut edges = Events::empty();
    if ready.contains(Ready::READABLE) {
        edges |= Events::IN | Events::RDNORM | Events::PRI;
    }
    if ready.contains(Ready::URGENT) {
        edges |= Events::PRI;
    }
    if ready.contains(Ready::WRITABLE) {
        edges |= Events::OUT | Events::WRNORM;
    }
    if ready.intersects(Ready::CONNECTED | Ready::EOF | Ready::ERROR | Ready::CLOSED) {
        edges = Events::all();
    }
    edges
}
