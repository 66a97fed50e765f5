//! The client's event loop: as many connections as asked for, each replaced when it has ended,
//! until the window is over.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::bench::statistics::jain;
use crate::signals::Stop;
use crate::sockets::{Errno, Event, Handle, More, Ready, Sockets};

use super::latency::Recorder;
use super::outcome::Outcome;
use super::usage::Usage;
use super::work::{BUFFER, Work, WorkArgs};

/// Connections begun per turn: as many as can end in one, so that all that are asked for stay open.
const LAUNCHES: u32 = 1024;
/// Reads of a stream per turn and connection.
const READS: usize = 4;
/// How long the loop sleeps at most.
const TICK: Duration = Duration::from_millis(100);
/// After this the window begins, whether all connections are there or not.
const FLOWS_TIMEOUT: Duration = Duration::from_secs(20);

/// What the client does.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) work: WorkArgs,
    /// Taken in turn.
    pub(crate) targets: Vec<SocketAddr>,
    /// Before the window, at least.
    pub(crate) warm: Duration,
    /// The window, at most.
    pub(crate) window: Duration,
    /// Answered messages that end the window.
    pub(crate) responses: Option<u64>,
    /// Whether to record response times.
    pub(crate) latency: bool,
    /// Between a response and the next message.
    pub(crate) pause: Duration,
    /// Between two connections, if they are begun at a fixed rate and not as others end.
    pub(crate) pace: Option<Duration>,
    /// The server's processes and both processors, whose time is read at both ends of the window.
    pub(crate) server_pids: Vec<u32>,
    pub(crate) cores: [usize; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Connecting,
    Exchanging,
    /// All is there; the server closes first.
    Closing,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    state: State,
    hung_up: bool,
    messages: u32,
    received: u32,
    /// Since the window began.
    bytes: u64,
    began: Instant,
}

/// What became of a connection.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Open,
    /// It did what it was for.
    Over,
    Broken,
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    connections: u64,
    messages: u64,
    bytes: u64,
    errors: u64,
}

/// A client running a plan.
pub(crate) struct Client<'a, S> {
    sockets: &'a mut S,
    plan: &'a Plan,
    /// By handle: handles are small numbers.
    flows: Vec<Option<Flow>>,
    live: u32,
    /// Most that were live at a time.
    peak: u32,
    launched: usize,
    totals: Totals,
    recorder: Recorder,
    /// Connections that pause, and until when; all pause equally long, so the first is due first.
    pausing: VecDeque<(Instant, Handle)>,
    /// When the next connection is due, at a fixed rate.
    due: Instant,
    request: Vec<u8>,
    buffer: Vec<u8>,
    events: Vec<Event>,
    now: Instant,
}

impl<'a, S: Sockets> Client<'a, S> {
    /// A client that has done nothing yet.
    pub(crate) fn new(sockets: &'a mut S, plan: &'a Plan) -> anyhow::Result<Self> {
        let now = Instant::now();
        Ok(Self {
            sockets,
            plan,
            flows: Vec::new(),
            live: 0,
            peak: 0,
            launched: 0,
            totals: Totals::default(),
            recorder: Recorder::new()?,
            pausing: VecDeque::new(),
            due: now,
            request: vec![b'q'; plan.work.size as usize],
            buffer: vec![0; BUFFER],
            events: Vec::with_capacity(1024),
            now,
        })
    }

    /// Warms up, then measures.
    ///
    /// # Errors
    /// Waiting failed: the link is gone.
    pub(crate) fn run(mut self, stop: &Stop) -> Result<Outcome, Errno> {
        let start = self.now;
        // Those that are reset at once may never be as many at a time; at a fixed rate there are as
        // many as it takes.
        let mut filled = self.plan.work.work == Work::Reset || self.plan.pace.is_some();
        while !stop.requested() {
            filled |= self.live >= self.plan.work.concurrency;
            let warm = self.now - start;
            if (warm >= self.plan.warm && filled) || warm >= FLOWS_TIMEOUT {
                break;
            }
            self.turn()?;
        }
        let (before, from, first) = (self.totals, self.now, self.usage());
        let open = u64::from(self.peak);
        self.recorder.clear();
        for flow in self.flows.iter_mut().flatten() {
            flow.bytes = 0;
        }
        let enough = self.plan.responses.unwrap_or(u64::MAX);
        while self.now - from < self.plan.window
            && self.totals.messages - before.messages < enough
            && !stop.requested()
        {
            self.turn()?;
        }
        let last = self.usage();
        let outcome = Outcome {
            wall: u64::try_from((self.now - from).as_nanos()).unwrap_or(u64::MAX),
            connections: self.totals.connections - before.connections,
            messages: self.totals.messages - before.messages,
            bytes: self.totals.bytes - before.bytes,
            errors: self.totals.errors,
            open,
            server: last[0].since(first[0]),
            client: last[1].since(first[1]),
            latency: self.recorder.summary(),
            jain: jain(self.flows.iter().flatten().map(|flow| flow.bytes)),
        };
        self.abort_all();
        Ok(outcome)
    }

    fn usage(&self) -> [Usage; 2] {
        [
            Usage::now(self.plan.cores[0], &self.plan.server_pids),
            Usage::now(self.plan.cores[1], &[std::process::id()]),
        ]
    }

    fn turn(&mut self) -> Result<(), Errno> {
        self.launch();
        let timeout = self.timeout();
        // The events are in a vector of their own while they are worked on.
        let mut events = std::mem::take(&mut self.events);
        self.sockets.wait(&mut events, Some(timeout))?;
        self.now = Instant::now();
        for event in &events {
            self.dispatch(*event);
        }
        self.events = events;
        self.resume();
        Ok(())
    }

    fn timeout(&self) -> Duration {
        if self.plan.work.spin || self.plan.pace.is_some() {
            return Duration::ZERO;
        }
        let next = self.pausing.front();
        next.map_or(TICK, |(until, _)| {
            until.saturating_duration_since(self.now).min(TICK)
        })
    }

    /// Begins connections: as many as are missing, or as are due.
    fn launch(&mut self) {
        for _ in 0..LAUNCHES {
            if self.live >= self.plan.work.concurrency {
                return;
            }
            let began = match self.plan.pace {
                Some(_) if self.due > self.now => return,
                Some(pace) => {
                    let due = self.due;
                    self.due += pace;
                    due
                }
                None => self.now,
            };
            if self.connect(began).is_err() {
                self.totals.errors += 1;
                return;
            }
        }
    }

    fn connect(&mut self, began: Instant) -> Result<(), Errno> {
        let target = self
            .plan
            .targets
            .get(self.launched % self.plan.targets.len().max(1));
        let target = *target.ok_or(Errno::INVAL)?;
        self.launched += 1;
        let socket = self.sockets.connect(None, target, true)?;
        let interest = if self.plan.work.work == Work::Stream {
            Ready::IN | Ready::RDHUP
        } else {
            Ready::IN | Ready::OUT | Ready::RDHUP | Ready::ET
        };
        if let Err(error) = self.sockets.add(socket, interest, u64::from(socket.0)) {
            self.sockets.abort(socket);
            return Err(error);
        }
        let index = socket.0 as usize;
        if index >= self.flows.len() {
            self.flows.resize(index + 1024, None);
        }
        if let Some(slot) = self.flows.get_mut(index) {
            *slot = Some(Flow {
                state: State::Connecting,
                hung_up: false,
                messages: 0,
                received: 0,
                bytes: 0,
                began,
            });
        }
        self.live += 1;
        self.peak = self.peak.max(self.live);
        Ok(())
    }

    fn dispatch(&mut self, event: Event) {
        let socket = Handle(event.data as u32);
        // Each is worked on where it is.
        let mut flows = std::mem::take(&mut self.flows);
        let fate = match flows.get_mut(socket.0 as usize) {
            Some(Some(flow)) => match self.plan.work.work {
                Work::Exchange | Work::Hold => self.exchange(socket, flow, event.ready),
                Work::Reset => self.await_reset(flow, event.ready),
                Work::Stream => self.drain(socket, flow, event.ready),
            },
            _ => Fate::Open,
        };
        self.flows = flows;
        match fate {
            Fate::Open => {}
            Fate::Over => self.end(socket),
            Fate::Broken => self.fail(socket),
        }
    }

    fn exchange(&mut self, socket: Handle, flow: &mut Flow, ready: Ready) -> Fate {
        flow.hung_up |= ready.contains(Ready::RDHUP);
        if ready.intersects(Ready::ERR) {
            return Fate::Broken;
        }
        if flow.state == State::Connecting {
            if !ready.contains(Ready::OUT) {
                return Fate::Open;
            }
            flow.state = State::Exchanging;
            if self.plan.work.messages != 1 {
                flow.began = self.now;
            }
            if !self.send(socket) {
                return Fate::Broken;
            }
        }
        if flow.state == State::Exchanging && ready.readable() && !self.receive(socket, flow) {
            return Fate::Broken;
        }
        if flow.state == State::Closing && flow.hung_up {
            self.totals.connections += 1;
            return Fate::Over;
        }
        Fate::Open
    }

    fn send(&mut self, socket: Handle) -> bool {
        self.sockets.write(socket, &self.request, More::Follows) == Ok(self.request.len())
    }

    /// Reads once, which is all there is; false: the connection broke.
    fn receive(&mut self, socket: Handle, flow: &mut Flow) -> bool {
        match self.sockets.read(socket, &mut self.buffer) {
            Ok(0) => return false,
            Ok(read) => {
                flow.received += read as u32;
                flow.bytes += read as u64;
                self.totals.bytes += read as u64;
            }
            Err(error) => return matches!(error, Errno::AGAIN | Errno::INTR),
        }
        if flow.received < self.plan.work.size {
            return true;
        }
        flow.received = 0;
        self.answered(socket, flow)
    }

    /// A message was answered.
    fn answered(&mut self, socket: Handle, flow: &mut Flow) -> bool {
        self.totals.messages += 1;
        flow.messages += 1;
        if self.plan.latency {
            self.recorder.record(flow.began.elapsed());
        }
        if flow.messages == self.plan.work.messages {
            flow.state = State::Closing;
            return true;
        }
        if !self.plan.pause.is_zero() {
            self.pausing.push_back((self.now + self.plan.pause, socket));
            return true;
        }
        if self.plan.latency {
            flow.began = Instant::now();
        }
        self.send(socket)
    }

    /// Goes on with the connections whose pause is over.
    fn resume(&mut self) {
        while let Some((until, socket)) = self.pausing.front().copied() {
            if until > self.now {
                return;
            }
            self.pausing.pop_front();
            let Some(Some(flow)) = self.flows.get_mut(socket.0 as usize) else {
                continue;
            };
            flow.began = Instant::now();
            if !self.send(socket) {
                self.fail(socket);
            }
        }
    }

    fn await_reset(&mut self, flow: &Flow, ready: Ready) -> Fate {
        if !ready.intersects(Ready::ERR | Ready::HUP) {
            return Fate::Open;
        }
        self.totals.connections += 1;
        if self.plan.latency {
            self.recorder.record(flow.began.elapsed());
        }
        Fate::Over
    }

    fn drain(&mut self, socket: Handle, flow: &mut Flow, ready: Ready) -> Fate {
        if ready.intersects(Ready::ERR | Ready::HUP | Ready::RDHUP) {
            return Fate::Broken;
        }
        for _ in 0..READS {
            match self.sockets.read(socket, &mut self.buffer) {
                Ok(0) => return Fate::Broken,
                Ok(read) => {
                    flow.bytes += read as u64;
                    self.totals.bytes += read as u64;
                    if read < self.buffer.len() {
                        break;
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(_) => return Fate::Broken,
            }
        }
        Fate::Open
    }

    fn fail(&mut self, socket: Handle) {
        self.totals.errors += 1;
        self.end(socket);
    }

    /// Closes with RST: the socket was made so.
    fn end(&mut self, socket: Handle) {
        if let Some(slot) = self.flows.get_mut(socket.0 as usize) {
            *slot = None;
        }
        self.live -= 1;
        self.sockets.close(socket);
    }

    fn abort_all(&mut self) {
        for (index, slot) in (0..).zip(&mut self.flows) {
            if slot.take().is_some() {
                self.sockets.abort(Handle(index));
            }
        }
    }
}
