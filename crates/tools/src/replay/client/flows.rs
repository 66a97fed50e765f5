//! The connections of a replay: one thread, any [`Sockets`].

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use replay::content::CHUNK;

use crate::load::stats::{Kind, Stats};
use crate::signals::Stop;
use crate::sockets::{Errno, Event, Handle, Ready, Sockets};

use super::delays::Delays;
use super::exchange::{Exchange, Sent};
use super::meter::Meter;
use super::schedule::{Job, Schedule};

/// Reads per connection and turn.
const ROUNDS: usize = 16;
/// Transactions begun per turn.
const LAUNCHES: usize = 256;
/// Bytes per read.
const BUFFER: usize = 64 * 1024;
/// How long a finished connection waits for the server to close.
const LAST_WAIT: Duration = Duration::from_secs(1);
/// How often connections are searched for those whose time is over.
const SWEEP: Duration = Duration::from_millis(250);

/// Which connection of the log a connection stands for: the number of the copy, and its own.
type Key = (u32, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Connecting,
    /// It has exchanges, or is idle.
    Open,
    /// All is there; the server closes first.
    Closing,
}

#[derive(Debug)]
struct Flow {
    socket: Handle,
    slot: u32,
    key: Key,
    state: State,
    current: Option<Exchange>,
    queue: VecDeque<Job>,
    /// Exchanges that ended.
    exchanges: u64,
    /// When `current`, or the wait for the end, takes too long.
    deadline: Instant,
    /// Whether the server's FIN was reported, maybe long before all in front of it is read.
    hung_up: bool,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    flow: Option<Flow>,
}

/// What a flow does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Wait,
    /// More can be done at once, after the others.
    Again,
    /// The connection is done with.
    Close,
    /// Its transaction failed, and the connection with it.
    Fail(Kind),
    /// The server closed a connection that it had kept open: the request was never looked at and
    /// goes out again.
    Retry,
}

/// Where a replay goes.
#[derive(Clone, Debug)]
pub(super) struct Route {
    /// Taken in turn.
    pub(super) targets: Vec<SocketAddr>,
    /// Our addresses to connect from, taken in turn; empty: whichever.
    pub(super) sources: Vec<IpAddr>,
    /// For one transaction, beyond what it took in the log.
    pub(super) timeout: Duration,
}

/// A replay.
pub(super) struct Flows<'a, S> {
    sockets: &'a mut S,
    schedule: Schedule,
    route: Route,
    pub(super) stats: Stats,
    pub(super) delays: Delays,
    slots: Vec<Slot>,
    free: Vec<u32>,
    open: HashMap<Key, u32>,
    again: Vec<u64>,
    redo: Vec<Job>,
    /// Transactions that began and did not end.
    outstanding: u64,
    launched: u64,
    began: Instant,
    now: Instant,
    next_sweep: Instant,
    buffer: Vec<u8>,
    scratch: Vec<u8>,
}

impl<'a, S: Sockets> Flows<'a, S> {
    /// A replay that has not begun.
    pub(super) fn new(
        sockets: &'a mut S,
        schedule: Schedule,
        route: Route,
    ) -> anyhow::Result<Self> {
        let now = Instant::now();
        Ok(Self {
            sockets,
            schedule,
            route,
            stats: Stats::new()?,
            delays: Delays::new()?,
            slots: Vec::new(),
            free: Vec::new(),
            open: HashMap::new(),
            again: Vec::new(),
            redo: Vec::new(),
            outstanding: 0,
            launched: 0,
            began: now,
            now,
            next_sweep: now + SWEEP,
            buffer: vec![0; BUFFER],
            scratch: vec![0; CHUNK],
        })
    }

    /// Replays all of the log, or until `stop`; how long it took.
    ///
    /// # Errors
    /// The log is none, or the link is gone.
    pub(super) fn run(&mut self, stop: &Stop, meter: &Meter) -> anyhow::Result<Duration> {
        let mut events = Vec::with_capacity(512);
        self.began = Instant::now();
        self.now = self.began;
        while !stop.requested() && !self.stats.is_dead() {
            let next_start = self.launch()?;
            if next_start.is_none() && self.outstanding == 0 {
                break;
            }
            let timeout = self.timeout(next_start, meter);
            self.sockets
                .wait(&mut events, Some(timeout))
                .map_err(|error| anyhow::anyhow!("the link failed: {error}: see 'mtcp doctor'"))?;
            self.now = Instant::now();
            for event in &events {
                self.dispatch(*event);
            }
            for data in std::mem::take(&mut self.again) {
                let ready = Ready::IN | Ready::OUT;
                self.dispatch(Event { data, ready });
            }
            for job in std::mem::take(&mut self.redo) {
                self.begin(job);
            }
            if self.now >= self.next_sweep {
                self.sweep();
            }
            meter.show(&self.stats, self.now - self.began);
        }
        self.close_all();
        Ok(self.now - self.began)
    }

    /// Begins what is due; when the next is, `None` after the last.
    fn launch(&mut self) -> anyhow::Result<Option<Duration>> {
        for _ in 0..LAUNCHES {
            let Some(start) = self.schedule.next_start()? else {
                return Ok(None);
            };
            let late = match (self.now - self.began).checked_sub(start) {
                Some(late) => late,
                None => return Ok(Some(start)),
            };
            if let Some(job) = self.schedule.pop() {
                self.delays.begun(late);
                self.outstanding += 1;
                self.begin(job);
            }
        }
        self.schedule.next_start()
    }

    fn timeout(&self, next_start: Option<Duration>, meter: &Meter) -> Duration {
        if !self.again.is_empty() {
            return Duration::ZERO;
        }
        let next = next_start.map(|start| self.began + start);
        let next = [next, Some(self.next_sweep)].into_iter().flatten().min();
        let until = next.map(|next| next.saturating_duration_since(Instant::now()));
        let until = [until, meter.interval()].into_iter().flatten().min();
        until.unwrap_or(SWEEP)
    }

    /// Begins a transaction: on the connection that is its own, or on a new one.
    fn begin(&mut self, job: Job) {
        let key = (job.copy, job.task.connection);
        let keeps = job.task.keep_alive;
        let slot = match self.open.get(&key).copied() {
            Some(slot) => slot,
            None => match self.connect(&job) {
                Ok(slot) => slot,
                Err(error) => {
                    self.fail(&job, Kind::of(error, false, false));
                    return;
                }
            },
        };
        if keeps {
            self.open.insert(key, slot);
        } else {
            // What comes later with this number is on another one.
            self.open.remove(&key);
        }
        let index = slot as usize;
        let Some(place) = self.slots.get_mut(index) else {
            return;
        };
        let data = u64::from(place.generation) << 32 | index as u64;
        let Some(mut flow) = place.flow.take() else {
            return;
        };
        flow.queue.push_back(job);
        let next = if flow.state == State::Open && flow.current.is_none() {
            self.next_exchange(&mut flow)
        } else {
            Next::Wait
        };
        self.conclude(index, flow, next, data);
    }

    /// Opens a connection for `job`.
    fn connect(&mut self, job: &Job) -> Result<u32, Errno> {
        let turn = self.launched;
        self.launched += 1;
        let targets = &self.route.targets;
        let at = (turn % targets.len().max(1) as u64) as usize;
        let remote = targets.get(at).copied().ok_or(Errno::INVAL)?;
        let of_family = |source: &&IpAddr| source.is_ipv4() == remote.is_ipv4();
        let sources = self.route.sources.iter().filter(of_family);
        let count = sources.clone().count().max(1) as u64;
        // Every pair of source and target comes up in turn.
        let nth = (turn / targets.len().max(1) as u64 % count) as usize;
        let source = sources.clone().nth(nth).copied();
        let socket = self.sockets.connect(source, remote, false)?;
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = self.slots.get_mut(index as usize).ok_or(Errno::INVAL)?;
        let data = u64::from(slot.generation) << 32 | u64::from(index);
        let interest = Ready::IN | Ready::OUT | Ready::RDHUP | Ready::ET;
        if let Err(error) = self.sockets.add(socket, interest, data) {
            self.sockets.close(socket);
            self.free.push(index);
            return Err(error);
        }
        slot.flow = Some(Flow {
            socket,
            slot: index,
            key: (job.copy, job.task.connection),
            state: State::Connecting,
            current: None,
            queue: VecDeque::new(),
            exchanges: 0,
            deadline: self.now + self.route.timeout,
            hung_up: false,
        });
        Ok(index)
    }

    fn dispatch(&mut self, event: Event) {
        let (index, generation) = (event.data as u32 as usize, (event.data >> 32) as u32);
        let Some(slot) = self
            .slots
            .get_mut(index)
            .filter(|slot| slot.generation == generation)
        else {
            return;
        };
        let Some(mut flow) = slot.flow.take() else {
            return;
        };
        flow.hung_up |= event.ready.contains(Ready::RDHUP);
        let next = self.advance(&mut flow, event.ready);
        self.conclude(index, flow, next, event.data);
    }

    fn conclude(&mut self, index: usize, mut flow: Flow, next: Next, data: u64) {
        match next {
            Next::Wait | Next::Again => {
                if let Some(slot) = self.slots.get_mut(index) {
                    slot.flow = Some(flow);
                }
                if next == Next::Again {
                    self.again.push(data);
                }
                return;
            }
            Next::Close => self.sockets.close(flow.socket),
            Next::Fail(kind) => {
                let current = flow.current.take().map(|current| current.job);
                if let Some(job) = current.or_else(|| flow.queue.pop_front()) {
                    self.fail(&job, kind);
                }
                self.sockets.abort(flow.socket);
            }
            Next::Retry => self.sockets.close(flow.socket),
        }
        self.forget(&flow);
        if let Some(slot) = self.slots.get_mut(index) {
            slot.generation = slot.generation.wrapping_add(1);
        }
        self.free.push(index as u32);
        self.redo.extend(flow.current.map(|current| current.job));
        self.redo.extend(flow.queue);
    }

    /// What comes later for the connection of the log is on another one.
    fn forget(&mut self, flow: &Flow) {
        if self.open.get(&flow.key) == Some(&flow.slot) {
            self.open.remove(&flow.key);
        }
    }

    fn fail(&mut self, job: &Job, kind: Kind) {
        self.stats.failure(kind);
        self.delays.failed(job.task.start);
        self.outstanding = self.outstanding.saturating_sub(1);
    }

    fn advance(&mut self, flow: &mut Flow, ready: Ready) -> Next {
        let mut next = Next::Wait;
        if flow.state == State::Connecting {
            if ready.contains(Ready::ERR)
                || (ready.contains(Ready::HUP) && !ready.contains(Ready::OUT))
            {
                let error = self.sockets.take_error(flow.socket);
                let error = error.unwrap_or(Errno::CONNREFUSED);
                return Next::Fail(Kind::of(error, false, false));
            }
            if !ready.contains(Ready::OUT) {
                return Next::Wait;
            }
            flow.state = State::Open;
            self.stats.connections += 1;
            next = self.next_exchange(flow);
        } else if ready.writable() {
            next = self.send(flow);
        }
        if matches!(next, Next::Wait | Next::Again) && ready.readable() {
            next = match self.receive(flow) {
                Next::Wait => next,
                other => other,
            };
        }
        next
    }

    /// Sends the next request of the queue.
    fn next_exchange(&mut self, flow: &mut Flow) -> Next {
        let Some(job) = flow.queue.pop_front() else {
            return Next::Wait;
        };
        flow.deadline = self.now + job.task.duration + self.route.timeout;
        flow.current = Some(Exchange::new(job));
        self.send(flow)
    }

    fn send(&mut self, flow: &mut Flow) -> Next {
        let Some(current) = flow.current.as_mut() else {
            return Next::Wait;
        };
        match current.send(self.sockets, flow.socket) {
            Sent::Enough(sent) => {
                self.stats.sent += sent;
                Next::Wait
            }
            Sent::More(sent) => {
                self.stats.sent += sent;
                Next::Again
            }
            Sent::Failed(kind) => Next::Fail(kind),
        }
    }

    fn receive(&mut self, flow: &mut Flow) -> Next {
        for _ in 0..ROUNDS {
            let read = match self.sockets.read(flow.socket, &mut self.buffer) {
                Ok(0) => return self.ended(flow, None),
                Ok(read) => read,
                Err(Errno::AGAIN) => return Next::Wait,
                Err(Errno::INTR) => continue,
                Err(error) => return self.ended(flow, Some(error)),
            };
            self.stats.received += read as u64;
            if flow.state == State::Open {
                match self.take(flow, read) {
                    Next::Wait => {}
                    other => return other,
                }
            }
            if read < self.buffer.len() {
                // Everything before the FIN was there when it was reported, and now it is read.
                return if flow.hung_up {
                    self.ended(flow, None)
                } else {
                    Next::Wait
                };
            }
        }
        Next::Again
    }

    /// Gives `read` bytes of the buffer to the response.
    fn take(&mut self, flow: &mut Flow, read: usize) -> Next {
        let input = self.buffer.get(..read).unwrap_or_default();
        let Some(current) = flow.current.as_mut() else {
            // Nobody asked for these.
            return Next::Close;
        };
        match current.take(input, &mut self.scratch) {
            Ok(false) => Next::Wait,
            Ok(true) => self.complete(flow),
            Err(kind) => Next::Fail(kind),
        }
    }

    /// The response is complete, and right.
    fn complete(&mut self, flow: &mut Flow) -> Next {
        let Some(current) = flow.current.take() else {
            return Next::Wait;
        };
        let task = &current.job.task;
        let finished = Instant::now() - self.began;
        let took = finished.saturating_sub(task.start);
        let extra = took.saturating_sub(task.duration);
        self.stats.success(took);
        self.delays.answered(task.start, extra, task.response_bytes);
        self.outstanding = self.outstanding.saturating_sub(1);
        flow.exchanges += 1;
        if current.keeps() {
            return self.next_exchange(flow);
        }
        // Where the server does not keep what the log keeps, what waits goes elsewhere.
        self.forget(flow);
        self.redo.extend(flow.queue.drain(..));
        flow.state = State::Closing;
        flow.deadline = Instant::now() + LAST_WAIT;
        Next::Wait
    }

    /// The server closed, or the connection broke.
    fn ended(&mut self, flow: &mut Flow, error: Option<Errno>) -> Next {
        if flow.state == State::Closing {
            return Next::Close;
        }
        let Some(current) = flow.current.as_mut() else {
            return Next::Close;
        };
        if flow.exchanges > 0 && current.is_unanswered() {
            return Next::Retry;
        }
        if let Some(error) = error {
            return Next::Fail(Kind::of(error, true, false));
        }
        match current.end() {
            Ok(()) => {
                self.complete(flow);
                Next::Close
            }
            Err(kind) => Next::Fail(kind),
        }
    }

    fn sweep(&mut self) {
        self.next_sweep = self.now + SWEEP;
        for index in 0..self.slots.len() {
            let Some(slot) = self.slots.get_mut(index) else {
                continue;
            };
            let now = self.now;
            let is_over = |flow: &mut Flow| {
                let waits = flow.current.is_some() || flow.state != State::Open;
                waits && flow.deadline <= now
            };
            let Some(flow) = slot.flow.take_if(is_over) else {
                continue;
            };
            let next = match flow.state {
                State::Connecting => Next::Fail(Kind::ConnectTimeout),
                State::Open => Next::Fail(Kind::Timeout),
                State::Closing => Next::Close,
            };
            self.conclude(index, flow, next, 0);
        }
    }

    fn close_all(&mut self) {
        for slot in &mut self.slots {
            let Some(flow) = slot.flow.take() else {
                continue;
            };
            if flow.current.is_some() || flow.state == State::Connecting {
                self.sockets.abort(flow.socket);
            } else {
                self.sockets.close(flow.socket);
            }
        }
    }
}
