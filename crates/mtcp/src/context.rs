//! One core's sockets and the stack below them.

use std::cell::Cell;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use mtcp_core::command::Options;
use mtcp_core::{Acks, AppStreams, ConnId, Event, Ready, Token, Undelivered};
use ring::prefetch::prefetch;
use wire::time::Instant;

use crate::coalescing::FirstDelay;
use crate::driver::{Doorbell, Driver, Wake};
use crate::epoll::{Events, Watch};
use crate::pipe::Pipe;
use crate::settings::Settings;
use crate::slab::Slab;
use crate::socket::bindings::Bindings;
use crate::socket::choices::Choices;
use crate::socket::listener::{Listener, Waiting};
use crate::socket::sources::Sources;
use crate::socket::table::{Body, Flags, NONE, Socket, Table};
use crate::stats::Snapshot;
use crate::wake::Requests;
use crate::{Errno, Result, SocketId, WakeHandle, signals};

/// Events of the stack looked at together.
const PASS: usize = 32;
/// Send buffers looked at per wait, to give drained ones back.
const SWEEP: usize = 8;
/// The same while writers wait for the memory.
const RECLAIM: usize = 1024;
/// The same before each sleep while very many have one.
const SWEEP_IDLE: usize = 64;
/// How long to wait for events while buffers are given back: none says that one has drained.
const RECLAIM_DELAY: Duration = Duration::from_millis(1);
/// Bytes written since the stack was last told that are better sent at once: while they are in the
/// cache, and while the peer has time.
const MUCH: usize = 128 << 10;
/// Waits that may last so long may begin with a coalescing delay.
const LONG: Duration = Duration::from_millis(1);
/// Calls that would block after `epoll_wait` has reported, per report and in any case, before such
/// calls run the stack themselves.
const ALLOWANCE: (u32, u32) = (2, 16);

/// Who is asked, in place of a sleep, by the calls of a context in
/// [virtual time](crate::in_virtual_time) that have to wait.
pub trait Waiter: Debug + Send + Sync {
    /// A call of `context` waits, and nothing is due before `until` (`None`: ever): moves the clock
    /// on, at most that far, or has frames arrive. The call goes on waiting afterwards if that was
    /// not enough; it ends with `EINTR` after [`WakeHandle::interrupt`]. Other calls on `context`
    /// may be made meanwhile.
    fn wait(&self, context: &mut Context, until: Option<Instant>);
}

/// Sockets, epoll instances and pipes of one thread. `Send`, so that it can be made elsewhere; not
/// `Sync`: one thread at a time uses it.
///
/// Dropping it closes its sockets and sends what can be sent at once; it does not wait for peers.
#[derive(Debug)]
pub struct Context {
    pub(crate) settings: Settings,
    pub(crate) driver: Driver,
    pub(crate) streams: AppStreams,
    pub(crate) table: Table,
    pub(crate) listeners: Slab<Listener>,
    pub(crate) pipes: Slab<Pipe>,
    pub(crate) watch: Watch,
    pub(crate) bindings: Bindings,
    pub(crate) sources: Sources,
    pub(crate) requests: Arc<Requests>,
    /// Listeners made so far.
    pub(crate) serial: u32,
    /// Which socket has the stream of each slot.
    owners: Vec<u32>,
    /// What the stack had to tell, while it is worked on.
    events: Vec<Event>,
    /// Bytes written since the stack was last told.
    pub(crate) ahead: usize,
    /// Calls that may still say `EAGAIN` without running the stack.
    allowance: u32,
    /// Another thread sleeps until the stack has something to do, and runs it then.
    pub(crate) attended: bool,
    /// Whether waits look before they sleep.
    first_delay: FirstDelay,
    /// Sockets with news of urgent data, if somebody wants to know.
    pub(crate) urgent: Option<Vec<SocketId>>,
    /// The loss of the link has been told to the epoll instances.
    down: bool,
    /// Sleeps in its place.
    pub(crate) waiter: Option<Arc<dyn Waiter>>,
    not_sync: PhantomData<Cell<()>>,
}

impl Context {
    pub(crate) fn assemble(
        settings: Settings,
        sockets: u32,
        seed: u16,
        driver: Driver,
        streams: AppStreams,
    ) -> Self {
        let usual = Choices::new(Options {
            idle_timeout: settings.idle_timeout,
            ..Options::default()
        });
        Self {
            settings,
            driver,
            streams,
            table: Table::new(sockets, usual),
            listeners: Slab::new(),
            pipes: Slab::new(),
            watch: Watch::new(),
            bindings: Bindings::new(seed),
            sources: Sources::default(),
            requests: Arc::default(),
            serial: 0,
            owners: Vec::new(),
            events: Vec::with_capacity(PASS),
            ahead: 0,
            allowance: 0,
            attended: false,
            urgent: None,
            first_delay: FirstDelay::default(),
            down: false,
            waiter: None,
            not_sync: PhantomData,
        }
    }

    /// The logical core it was made for.
    pub fn core(&self) -> usize {
        self.settings.core
    }

    /// Does what is due without waiting: receives, fires timers, sends. Calls that wait or would
    /// have to do this by themselves.
    ///
    /// # Errors
    /// `ENETDOWN` when the link is gone.
    pub fn poll(&mut self) -> Result<()> {
        let taken = self.driver.submit().and_then(|()| self.driver.collect());
        self.dispatch();
        self.note_link(taken)?;
        let sent = self.driver.settle();
        self.note_link(sent)
    }

    /// A handle that ends this context's sleep from elsewhere.
    pub fn wake_handle(&self) -> WakeHandle {
        WakeHandle::new(Arc::clone(&self.requests), self.driver.bell())
    }

    /// Why the link went down, once it has.
    pub fn link_error(&self) -> Option<&str> {
        self.driver.failure()
    }

    /// What the stack counted, and how much it holds.
    ///
    /// # Errors
    /// `ENETDOWN` in paired mode when the link is gone.
    pub fn counters(&mut self) -> Result<Snapshot> {
        self.driver.snapshot()
    }

    /// Waits until no connection is left but those in TIME_WAIT, at most `timeout`. Returns whether
    /// that is so. For the end of a program, after it closed its sockets.
    ///
    /// # Errors
    /// `EINTR`, `ENETDOWN`.
    pub fn drain(&mut self, timeout: Duration) -> Result<bool> {
        let delay = Duration::from_millis(5);
        let mut left = timeout;
        loop {
            if self.driver.snapshot()?.connections == 0 {
                return Ok(true);
            }
            if left.is_zero() {
                return Ok(false);
            }
            let step = left.min(delay);
            self.wait_until(Some(step), false, Acks::Due, |_| None::<()>)?;
            left = left.saturating_sub(step);
        }
    }

    /// Waits until peers have acknowledged all that was written to sockets that are closed now, and
    /// the end of it, as long as they go on doing so: `timeout` passes without, and the wait is
    /// over. Returns what is left. It does not wait for the ends of peers. For the end of a
    /// program, after it closed its sockets.
    ///
    /// # Errors
    /// `EINTR`, `ENETDOWN`.
    pub fn deliver(&mut self, timeout: Duration) -> Result<Undelivered> {
        let delay = Duration::from_millis(2);
        let mut last = Undelivered::default();
        let mut since = self.driver.read_clock();
        loop {
            // Closing is a command, too.
            self.driver.submit()?;
            let left = self.driver.undelivered()?;
            if left != last {
                (last, since) = (left, self.driver.read_clock());
            }
            if left.connections == 0 || self.driver.read_clock().since(since) >= timeout {
                return Ok(left);
            }
            self.wait_until(Some(delay), false, Acks::All, |_| None::<()>)?;
        }
    }

    /// Waits until `ready` answers, at most `timeout`. Starts by sending what was staged. `wakes`:
    /// also returns `None` early when asked to wake.
    pub(crate) fn wait_until<T>(
        &mut self,
        timeout: Option<Duration>,
        wakes: bool,
        acks: Acks,
        mut ready: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<Option<T>> {
        self.ahead = 0;
        let begun = self.driver.begin_turn(acks);
        let mut quiet = begun == Ok(true);
        let mut link = begun.map(|_| Wake::Look);
        let deadline = timeout.map(|timeout| self.driver.now() + timeout);
        if !quiet {
            self.sweep();
        }
        let may_delay = wakes && timeout.is_none_or(|t| t >= LONG) && self.driver.delays();
        let mut looks = !quiet && !self.first_delay.begins(may_delay);
        loop {
            if looks {
                link = link.and_then(|wake| self.driver.collect().map(|()| wake));
            }
            if !quiet {
                self.dispatch();
            }
            let down = self.note_link(link);
            if let Some(result) = ready(self) {
                return Ok(Some(result));
            }
            let wake = down?;
            if self.ends(deadline, wakes)? {
                self.driver.settle()?;
                return Ok(None);
            }
            // As in Linux, signals end epoll_wait(2) whatever their handlers say (signal(7)).
            if wake == Wake::Signal && (wakes || !signals::restart()) {
                return Err(Errno::EINTR);
            }
            link = self.idle(deadline, wakes);
            self.first_delay.slept();
            (quiet, looks) = (false, true);
        }
    }

    /// Whether a wait is over without a result.
    fn ends(&mut self, deadline: Option<Instant>, wakes: bool) -> Result<bool> {
        if deadline.is_some_and(|deadline| deadline <= self.driver.now()) {
            return Ok(true);
        }
        if self.requests.take_interrupt() {
            return Err(Errno::EINTR);
        }
        Ok(wakes && self.requests.take_wake())
    }

    fn idle(&mut self, deadline: Option<Instant>, wakes: bool) -> Result<Wake> {
        let delay = self.delay().map(|delay| self.driver.now() + delay);
        let deadline = [deadline, delay].into_iter().flatten().min();
        if let Some(waiter) = &self.waiter {
            let waiter = Arc::clone(waiter);
            return pause(self, &*waiter, deadline);
        }
        let Self {
            driver, requests, ..
        } = self;
        driver.idle(deadline, || {
            requests.interrupted() || (wakes && requests.woken())
        })
    }

    /// There is nothing to do: gives drained buffers back, if many have one, and the kernel what
    /// nobody has needed for a while. How long to sleep at most.
    pub(crate) fn delay(&mut self) -> Option<Duration> {
        let gave = self.streams.is_crowded() && self.streams.sweep(SWEEP_IDLE) > 0;
        let reclaims = (gave || self.streams.is_starved()).then_some(RECLAIM_DELAY);
        let now = self.driver.now().as_millis();
        let economizes = self.streams.economize(now).map(Duration::from_millis);
        reclaims.into_iter().chain(economizes).min()
    }

    /// Gives drained buffers back in passing.
    pub(crate) fn sweep(&mut self) {
        self.streams.sweep(SWEEP);
    }

    /// A call on `id` would block and must not: runs the stack, unless another thread will, or
    /// `epoll_wait` soon will, and either tells of `id` then or would have little to tell. Returns
    /// whether it did.
    pub(crate) fn progress(&mut self, id: SocketId) -> bool {
        if self.attended {
            return false;
        }
        let watched = self
            .table
            .get(id)
            .is_ok_and(|socket| socket.watchers != NONE);
        if self.allowance > 0 && (watched || self.driver.is_fresh()) {
            self.allowance -= 1;
            return false;
        }
        // The call itself says what became of the link.
        let _ = self.poll();
        true
    }

    /// `epoll_wait` reported `n` events.
    pub(crate) fn reported(&mut self, n: usize) {
        let n = u32::try_from(n).unwrap_or(u32::MAX);
        self.allowance = n.saturating_mul(ALLOWANCE.0).saturating_add(ALLOWANCE.1);
    }

    /// A call on `id` staged news. A blocking socket's news leaves at once: its program may do
    /// anything next. So does much that was written.
    #[inline]
    pub(crate) fn hand_over(&mut self, id: SocketId) {
        let blocking = |socket: &Socket| !socket.nonblocking();
        if self.ahead >= MUCH {
            self.send_much();
        } else if self.table.get(id).is_ok_and(blocking) {
            self.ahead = 0;
            // The next call on the socket says what became of the link.
            let _ = self.driver.submit();
        }
    }

    /// Sends much that was written, and takes the ACKs of what was sent before: who writes to many
    /// sockets between two waits then gets the buffers that these drained, which are still in the
    /// cache.
    #[cold]
    #[inline(never)]
    fn send_much(&mut self) {
        self.ahead = 0;
        // As above.
        let _ = self.poll();
        self.sweep();
    }

    /// Tells every epoll instance, once, that the link is gone.
    pub(crate) fn note_link<T>(&mut self, link: Result<T>) -> Result<T> {
        if link.is_err() && !self.down {
            self.down = true;
            for id in self.table.ids() {
                self.news(id, Events::all());
            }
        }
        link
    }

    /// Takes all events from the stack to the sockets they are about.
    pub(crate) fn dispatch(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        loop {
            events.extend(std::iter::from_fn(|| self.driver.poll_event()).take(PASS));
            if events.is_empty() {
                break;
            }
            self.prefetch(&events);
            for event in events.drain(..) {
                self.on_event(event);
            }
        }
        self.events = events;
        if self.streams.is_starved() {
            self.streams.sweep(RECLAIM);
        }
        while let Some(slot) = self.streams.poll_starved() {
            if let Some(&owner) = self.owners.get(slot as usize) {
                self.news(SocketId(owner), Events::OUT | Events::WRNORM);
            }
        }
    }

    /// Asks for what the events are about, one kind of record after the other: each says where the
    /// next one is, and the misses of all events overlap.
    fn prefetch(&self, events: &[Event]) {
        let slots = events.iter().filter_map(|event| match event {
            Event::Ready { conn, .. } => Some(conn.slot as usize),
            Event::Accepted { .. } => None,
        });
        for slot in slots.clone() {
            if let Some(owner) = self.owners.get(slot) {
                prefetch(owner);
            }
        }
        let ids = slots.filter_map(|slot| self.owners.get(slot).copied().map(SocketId));
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

    fn on_accepted(&mut self, token: Token, waiting: Waiting) {
        match self.listeners.get_mut(Listener::index(token)) {
            Some(listener) if listener.token == token => {
                let id = listener.socket;
                listener.queue.push_back(waiting);
                self.news(id, Events::IN | Events::RDNORM);
            }
            // Closed in the meantime.
            _ => self.refuse(waiting.conn),
        }
    }

    /// Resets a connection that nobody accepted.
    pub(crate) fn refuse(&mut self, conn: ConnId) {
        self.streams.release(conn.slot);
        self.driver.ring(Doorbell::Abort(conn));
    }

    fn on_ready(&mut self, conn: ConnId, ready: Ready) {
        let Some(&owner) = self.owners.get(conn.slot as usize) else {
            return;
        };
        let id = SocketId(owner);
        if !self.table.is_stream(id, conn) {
            return;
        }
        if ready.contains(Ready::DRAINED)
            && let Ok(socket) = self.table.get_mut(id)
        {
            socket.flags |= Flags::DRAINED;
        }
        if ready.contains(Ready::URGENT) {
            self.note_urgent(id);
        }
        let mut edges = edges(ready);
        // As on Linux, too little to read wakes nobody.
        if edges != Events::all() && !self.is_worth_reading(id, conn) {
            edges -= Events::IN | Events::RDNORM;
        }
        self.news(id, edges);
    }

    /// Whether there is as much to read as SO_RCVLOWAT wants.
    fn is_worth_reading(&self, id: SocketId, conn: ConnId) -> bool {
        let bounded = self
            .table
            .get(id)
            .is_ok_and(|socket| socket.flags.contains(Flags::LOW_WATER));
        !bounded || self.streams.readable(conn.slot) >= self.table.recv_low_water(id)
    }

    /// Notes that `id` has the stream of `conn`.
    pub(crate) fn own(&mut self, conn: ConnId, id: SocketId) {
        let slot = conn.slot as usize;
        if slot >= self.owners.len() {
            self.owners.resize(slot + 1, NONE);
        }
        if let Some(owner) = self.owners.get_mut(slot) {
            *owner = id.0;
        }
    }

    /// Lets go of a connection's stream.
    pub(crate) fn disown(&mut self, conn: ConnId) {
        if let Some(owner) = self.owners.get_mut(conn.slot as usize) {
            *owner = NONE;
        }
        self.streams.release(conn.slot);
    }

    /// Something about `id` may have become true.
    #[inline]
    pub(crate) fn news(&mut self, id: SocketId, edges: Events) {
        if let Ok(socket) = self.table.get(id) {
            self.watch.news(socket.watchers, edges);
        }
    }

    /// The address of a peer or of ours as a socket of this family sees it.
    pub(crate) fn outward(v6: bool, addr: SocketAddr) -> SocketAddr {
        match addr {
            SocketAddr::V4(v4) if v6 => {
                SocketAddr::new(IpAddr::V6(v4.ip().to_ipv6_mapped()), v4.port())
            }
            _ => addr,
        }
    }
}

/// The sleep of a context that has a waiter.
#[cold]
fn pause(context: &mut Context, waiter: &dyn Waiter, deadline: Option<Instant>) -> Result<Wake> {
    let until = context.driver.begin_pause(deadline)?;
    waiter.wait(context, until);
    context.driver.end_pause();
    Ok(Wake::Look)
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

impl Drop for Context {
    fn drop(&mut self) {
        for id in self.table.ids() {
            match self.table.get(id).map(|socket| socket.body) {
                Ok(Body::Stream(conn)) => {
                    self.disown(conn);
                    self.driver.ring(Doorbell::Close(conn));
                }
                // Nobody will accept who waits there.
                Ok(Body::Listener(index)) => self.close_listener(index),
                _ => {}
            }
        }
        // Nobody to tell.
        let _ = self.poll();
    }
}
