//! One stack on one port, driven.

mod absence;
mod programs;

use std::io;
use std::net::IpAddr;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use ::io::absent::AbsentPort;
use ::io::loopback::LoopPort;
use ::io::shm::Desk;
use ::io::{AnyPort, Port, poll};
use io::ErrorKind;
use mtcp_core::{Acks, Command, Connect, Error, Event, Opened, PortId, Reply, Stack};
use wire::frame::{FrameSink, MacAddr, RxFrame, TxMeta};
use wire::handed::Handed;
use wire::time::Instant;

use crate::clock::Clock;
use crate::coalescing::Coalescer;
use crate::knowledge::Knowledge;
use crate::lease::PortLease;
use crate::stats::{Reporter, Snapshot};

/// How long to sleep while frames wait for room on a link that cannot say when there is some.
const BACKLOG_DELAY: Duration = Duration::from_millis(1);
/// A turn is taken at least so often while somebody looks again and again, for what nobody
/// announces: a peer that is gone, buffers that have drained.
const LOOK: Duration = Duration::from_millis(1);
/// Calls that come within so many cycles of one that read the clock do not read it: 4 us at 4 GHz,
/// 16 us at 1 GHz.
const AT_ONCE: u64 = 1 << 14;
/// Bursts taken at most from a link that is gone.
const REST: usize = 1024;
/// The link.
const PORT: PortId = PortId(0);
/// What is sent to our own addresses, which comes back.
const OWN: PortId = PortId(1);

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Something may be ready, or the time is up: look.
    Look,
    /// A signal handler ran meanwhile. Look first.
    Signal,
}

/// A stack, its port and their time. A turn is [`begin`](Self::begin), [`receive`](Self::receive),
/// commands, [`transmit`](Self::transmit), events; the clock is read once in it.
#[derive(Debug)]
pub(crate) struct Runner {
    stack: Stack,
    port: PortLease,
    /// To ourselves, unless the link does that.
    own: Option<Box<LoopPort>>,
    /// To the other stacks with our addresses.
    desk: Option<Desk>,
    /// One of them has our queue, and sends for us.
    is_guest: bool,
    clock: Clock,
    now: Instant,
    /// When a call last read the clock, in cycles.
    called: u64,
    /// When it last looked for frames.
    looked: Instant,
    /// Frames have come, and what they ask for may not be done.
    has_work: bool,
    /// When that was done.
    idle: Instant,
    /// How long after that to look for more before sleeping.
    spin: Duration,
    /// Whether to sleep until a frame comes, or for a while.
    coalescer: Coalescer,
    /// The port took less than was due.
    backlog: bool,
    /// All that was due has been sent, and nothing is before this, unless frames come or the
    /// application calls.
    quiet_until: Instant,
    reporter: Option<Reporter>,
    /// What the kernel knows, where the stack goes by that.
    knowledge: Option<Box<Knowledge>>,
}

impl Runner {
    pub(crate) fn new(
        stack: Stack,
        port: PortLease,
        desk: Option<Desk>,
        (spin, coalesce): (Duration, Duration),
        clock: Clock,
    ) -> Self {
        let now = clock.now();
        let coalescer = Coalescer::new(coalesce, port.coalesce(), now);
        let loops = port.capabilities().loops;
        Self {
            stack,
            port,
            own: (!loops).then(Box::default),
            desk,
            is_guest: false,
            clock,
            now,
            called: 0,
            looked: Instant::ZERO,
            has_work: false,
            idle: now,
            spin,
            coalescer,
            backlog: false,
            quiet_until: Instant::ZERO,
            reporter: None,
            knowledge: None,
        }
    }

    /// The same, reporting once per second.
    pub(crate) fn with_reporter(self, reporter: Option<Reporter>) -> Self {
        Self { reporter, ..self }
    }

    /// The same, going by what the kernel knows.
    pub(crate) fn with_knowledge(self, knowledge: Option<Box<Knowledge>>) -> Self {
        Self { knowledge, ..self }
    }

    /// Starts a turn.
    pub(crate) fn begin(&mut self) {
        self.now = self.clock.now();
        self.port.begin(self.now);
        if let Some(knowledge) = self.knowledge.as_mut().filter(|all| all.is_due(self.now))
            && knowledge.look(&mut self.stack, self.now)
        {
            self.quiet_until = Instant::ZERO;
        }
        if self
            .reporter
            .as_ref()
            .is_some_and(|reporter| reporter.due() <= self.now)
        {
            self.report();
        }
    }

    /// Starts a call. Calls that follow each other at once are at one time.
    pub(crate) fn begin_call(&mut self) {
        let cycles = self.clock.cycles();
        if cycles.is_some_and(|cycles| cycles.wrapping_sub(self.called) < AT_ONCE) {
            return;
        }
        self.begin();
        self.called = cycles.unwrap_or(0);
    }

    /// Starts a turn. True: there is nothing to do in it.
    pub(crate) fn begin_quietly(&mut self) -> bool {
        self.begin();
        self.is_settled()
            && !self.stack.has_events()
            && !self.port.is_ready()
            && !self.port.has_unowned()
            && !self.has_own()
    }

    /// Whether something that we sent to ourselves has not come yet.
    #[inline]
    fn has_own(&self) -> bool {
        self.own.as_ref().is_some_and(|own| !own.is_empty())
    }

    /// Whether all that was due has been sent.
    pub(crate) fn is_settled(&self) -> bool {
        self.now < self.quiet_until
    }

    fn report(&mut self) {
        let snapshot = self.snapshot();
        if let Some(reporter) = &mut self.reporter {
            reporter.report(snapshot, self.now);
        }
    }

    /// The time of this turn.
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// The time, which may be later.
    pub(crate) fn read_clock(&self) -> Instant {
        self.clock.now()
    }

    /// Takes what arrived, at most so many bursts, and fires timers. Returns whether anything
    /// arrived.
    pub(crate) fn receive(&mut self, bursts: usize) -> bool {
        let is_due = !self.is_settled();
        let (stack, now) = (&mut self.stack, self.now);
        self.looked = now;
        let mut frames = 0;
        self.port.busy = true;
        for _ in 0..bursts {
            let burst = self.port.receive(|frames| stack.receive(now, PORT, frames));
            frames += burst;
            if burst == 0 {
                break;
            }
        }
        if let Some(own) = self.own.as_mut().filter(|own| !own.is_empty()) {
            for _ in 0..bursts {
                frames += own.receive(|frames| stack.receive(now, OWN, frames));
            }
        }
        if let Some(desk) = &mut self.desk {
            let receive = |frames: &[RxFrame<'_>]| stack.receive(now, PORT, frames);
            frames += self.port.receive_unowned(now, bursts, receive);
            let port = &mut *self.port;
            for _ in 0..bursts {
                frames += desk.receive(|frames| {
                    send_for_others(frames, port);
                    stack.receive(now, PortId::SIBLINGS, frames);
                });
            }
        }
        while let Some((address, mac)) = stack.take_contested(now) {
            tell_conflict(address, mac);
        }
        self.has_work |= frames > 0;
        self.coalescer.found(frames, stack.near_rtt(), now);
        if frames > 0 || is_due {
            self.quiet_until = Instant::ZERO;
            stack.advance(now);
        }
        self.port.busy = false;
        frames > 0
    }

    /// Whether the other end may be a socket of the same program, which knows what has arrived.
    pub(crate) fn loops(&self) -> bool {
        self.port.capabilities().loops || self.has_own()
    }

    /// When it last took what had arrived.
    pub(crate) fn looked(&self) -> Instant {
        self.looked
    }

    /// The link is gone: takes what had arrived before.
    pub(crate) fn receive_rest(&mut self) {
        let mut left = REST;
        while left > 0 && self.receive(1) {
            left -= 1;
        }
    }

    /// Carries out a call of the application.
    pub(crate) fn execute(&mut self, command: Command) -> Result<Reply, Error> {
        self.quiet_until = Instant::ZERO;
        self.stack.execute(self.now, command)
    }

    /// Opens a connection.
    pub(crate) fn connect(&mut self, request: &Connect<'_>) -> Result<Opened, Error> {
        self.quiet_until = Instant::ZERO;
        self.stack.connect(self.now, request)
    }

    /// Something will be due in a moment.
    pub(crate) fn wake_peer(&mut self) {
        self.port.wake_peer();
    }

    /// Sends what is due.
    ///
    /// # Errors
    /// The link is gone.
    pub(crate) fn transmit(&mut self, acks: Acks) -> io::Result<()> {
        self.port.busy = true;
        self.backlog = self.send(acks);
        // Sending asked for the address of a neighbour. The question goes in the same turn: a sleep
        // may follow.
        let has_asked = match &mut self.knowledge {
            Some(knowledge) => knowledge.ask(&mut self.stack, self.now),
            None => false,
        };
        if !self.backlog && (has_asked || self.stack.has_packets(PORT)) {
            self.backlog = self.send(acks);
        }
        let sent = self.port.flush();
        self.port.busy = false;
        if let Some(own) = &mut self.own
            && self.stack.has_more_output(OWN)
        {
            // What it does not take is due still when it has come.
            self.stack.transmit_with(self.now, OWN, acks, &mut **own);
        }
        if let Some(desk) = &mut self.desk {
            self.stack.transmit(self.now, PortId::SIBLINGS, desk);
            desk.flush();
        } else if !self.backlog && !self.stack.has_more_output(PORT) && !self.has_own() {
            self.quiet_until = self.next_turn();
        }
        sent
    }

    /// Hands what is due to the port. Returns whether it took less.
    fn send(&mut self, acks: Acks) -> bool {
        let (stack, now) = (&mut self.stack, self.now);
        match &mut self.desk {
            Some(desk) if self.is_guest => transmit(stack, now, acks, &mut desk.relay()),
            _ => transmit_to(stack, now, acks, &mut self.port),
        }
    }

    /// When to take a turn at the latest, if nothing comes.
    fn next_turn(&self) -> Instant {
        let due = self.due(Some(self.now + LOOK));
        self.now + due.unwrap_or_default()
    }

    /// Whether another process asks for the queue, and the stack could go on without.
    pub(crate) fn is_asked(&self) -> bool {
        self.desk.as_ref().is_some_and(Desk::is_asked)
    }

    /// The descriptors of the port, when nothing is left in it to be received.
    pub(crate) fn port_descriptors(&mut self) -> Vec<RawFd> {
        self.receive_rest();
        let mut fds = Vec::new();
        // One that fails has none that matter.
        let _ = self.port.prepare_wait(&mut fds);
        fds
    }

    /// Leaves the queue to the process that asks, and has the stack there send from now on.
    pub(crate) fn give_way(&mut self) {
        if self.desk.as_mut().is_some_and(Desk::grant) {
            self.is_guest = true;
            *self.port = AnyPort::from(AbsentPort::of(&*self.port));
        }
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.stack.poll_event()
    }

    /// Whether sleeps are coalescing delays now.
    pub(crate) fn delays(&self) -> bool {
        self.coalescer.delay().is_some()
    }

    /// There is nothing to do now. Whether there was so recently that it is better to look for more
    /// frames than to sleep: their work does not count, or two ends that hand each other much to do
    /// would both sleep each time.
    pub(crate) fn spins(&mut self) -> bool {
        if std::mem::take(&mut self.has_work) {
            self.idle = self.clock.now();
        }
        self.now.since(self.idle) < self.spin && !self.delays()
    }

    /// Sleeps until frames come, a timer is due, `deadline`, `wake` is readable or a signal handler
    /// ran; may return early.
    ///
    /// # Errors
    /// The link is gone.
    pub(crate) fn sleep(
        &mut self,
        deadline: Option<Instant>,
        wake: BorrowedFd<'_>,
    ) -> io::Result<Wake> {
        let timeout = self.due(deadline);
        if timeout == Some(Duration::ZERO) {
            return Ok(Wake::Look);
        }
        let doorbell = self.knowledge.as_mut().map(|knowledge| {
            knowledge.wake();
            knowledge.doorbell()
        });
        let slept = match (self.coalescer.delay(), &mut self.desk) {
            (Some(delay), _) => {
                poll::woken(Some(wake), Some(timeout.map_or(delay, |t| t.min(delay))))
            }
            (None, Some(desk)) => {
                let mut others = Vec::from_iter(doorbell);
                let most = self.port.prepare_unowned(&mut others);
                let timeout = [timeout, most].into_iter().flatten().min();
                let slept = desk.wait_beside(&mut *self.port, &others, timeout, wake);
                self.port.end_unowned();
                slept
            }
            (None, None) => match doorbell {
                None => self.port.wait(timeout, Some(wake)),
                Some(doorbell) => wait_beside(&mut self.port, doorbell, timeout, wake),
            },
        };
        match slept {
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(Wake::Signal),
            result => result.map(|()| Wake::Look),
        }
    }

    /// How long until something is due, at most until `deadline`.
    pub(crate) fn due(&self, deadline: Option<Instant>) -> Option<Duration> {
        if self.has_own() {
            return Some(Duration::ZERO);
        }
        let report = self.reporter.as_ref().map(Reporter::due);
        let knowledge = self.knowledge.as_ref().and_then(|all| all.deadline());
        let deadlines = [
            deadline,
            self.stack.next_deadline(),
            self.port.next_deadline(),
            report,
            knowledge,
        ];
        let timeout = deadlines
            .into_iter()
            .flatten()
            .min()
            .map(|at| at.since(self.now));
        if self.backlog {
            Some(timeout.map_or(BACKLOG_DELAY, |t| t.min(BACKLOG_DELAY)))
        } else {
            timeout
        }
    }

    /// For who sleeps by other means: how long at most, and on which descriptors. Looking for more
    /// frames instead is a sleep of no time.
    ///
    /// # Errors
    /// The link is gone.
    pub(crate) fn prepare_sleep(&mut self, fds: &mut Vec<RawFd>) -> io::Result<Option<Duration>> {
        if self.spins() {
            return Ok(Some(Duration::ZERO));
        }
        let due = self.due(None);
        if due == Some(Duration::ZERO) {
            return Ok(due);
        }
        if let Some(delay) = self.coalescer.delay() {
            return Ok(Some(due.map_or(delay, |due| due.min(delay))));
        }
        if let Some(desk) = &mut self.desk
            && !desk.prepare_wait(fds)
        {
            return Ok(Some(Duration::ZERO));
        }
        if let Some(knowledge) = &mut self.knowledge {
            knowledge.wake();
            fds.push(knowledge.doorbell());
        }
        let others = self.port.prepare_unowned(fds);
        let most = self.port.prepare_wait(fds)?;
        Ok([due, most, others].into_iter().flatten().min())
    }

    /// That sleep is over.
    ///
    /// # Errors
    /// The link is gone.
    pub(crate) fn end_sleep(&mut self) -> io::Result<()> {
        if let Some(desk) = &mut self.desk {
            desk.end_wait();
            self.port.end_unowned();
        }
        match self.port.wait(Some(Duration::ZERO), None) {
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            result => result,
        }
    }

    pub(crate) fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Numbers of this moment.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let (link_dropped, link_unsent) = self.losses();
        let usage = self.stack.usage();
        Snapshot {
            at_ns: self.now.as_nanos(),
            counters: self.stack.counters().clone(),
            connections: usage.connections,
            untold: usage.survivors,
            link_dropped,
            link_unsent,
        }
    }

    pub(crate) fn losses(&self) -> (u64, u64) {
        let (dropped, unsent) = self.port.losses();
        let desk = self.desk.as_ref().map_or(0, Desk::dropped);
        (dropped + desk, unsent)
    }
}

/// Sleeps as [`Port::wait`] does, until this descriptor is readable at the latest.
fn wait_beside(
    port: &mut AnyPort,
    other: RawFd,
    timeout: Option<Duration>,
    wake: BorrowedFd<'_>,
) -> io::Result<()> {
    let mut links = vec![other];
    let most = port.prepare_wait(&mut links)?;
    let timeout = [timeout, most].into_iter().flatten().min();
    let slept = poll::on_all(&links, wake, timeout);
    port.wait(Some(Duration::ZERO), None)?;
    slept
}

/// Another host uses an address of ours, which we keep (RFC 5227 §2.4(b), RFC 4862 §5.4.5 for what
/// is configured).
#[cold]
fn tell_conflict(address: IpAddr, mac: MacAddr) {
    let is_of_link = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let remedy = if is_of_link {
        "give one of the two another address (if the stack gave itself this one, start the program again)"
    } else {
        "give one of the two another address"
    };
    log::warn!("another host, {mac}, has {address}, too: connections to it may break; {remedy}");
}

/// Sends what is due to the port. Returns whether it took less.
fn transmit_to(stack: &mut Stack, now: Instant, acks: Acks, port: &mut AnyPort) -> bool {
    match port.plain_shm() {
        Some(shm) => transmit(stack, now, acks, shm),
        None => transmit(stack, now, acks, port),
    }
}

/// Sends what is due to `sink`. Returns whether it took less.
fn transmit(stack: &mut Stack, now: Instant, acks: Acks, sink: &mut impl FrameSink) -> bool {
    let mut sink = Watched {
        port: sink,
        refused: false,
    };
    stack.transmit_with(now, PORT, acks, &mut sink);
    sink.refused
}

/// Sends what stacks without a queue of their own have handed over. What the port does not take is
/// lost, as on any full queue.
fn send_for_others(frames: &[RxFrame<'_>], port: &mut AnyPort) {
    let split = frames.iter().filter_map(|frame| Handed::split(frame.bytes));
    for (frame, _) in split.filter(|(_, words)| words.relay) {
        port.send(|into| {
            let room = into.get_mut(..frame.len());
            let fits = room.map(|room| room.copy_from_slice(frame)).is_some();
            TxMeta {
                len: if fits { frame.len() } else { 0 },
                ..TxMeta::default()
            }
        });
    }
}

/// A port that remembers having refused a frame.
struct Watched<'a, P> {
    port: &'a mut P,
    refused: bool,
}

impl<P: FrameSink> FrameSink for Watched<'_, P> {
    #[inline]
    fn send(&mut self, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        let sent = self.port.send(fill);
        self.refused |= !sent;
        sent
    }

    #[inline]
    fn send_gso(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        let sent = self.port.send_gso(len, fill);
        self.refused |= !sent;
        sent
    }
}
