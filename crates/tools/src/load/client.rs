//! The event loop of the load generator: one thread, any [`Sockets`].

use std::io::Write as _;
use std::time::{Duration, Instant};

use crate::serve::conn::read_exactly;
use crate::signals::Stop;
use crate::sockets::{Errno, Event, Handle, More, Ready, Sockets};

use super::plan::Plan;
use super::progress::Meter;
use super::stats::{Kind, Stats};
use http1::reply::{Progress, Reply};

/// Reads and writes per connection and turn.
const ROUNDS: usize = 16;
/// Connections begun per turn.
const LAUNCHES: usize = 256;
/// Bytes per read, and of a body per write.
const BUFFER: usize = 64 * 1024;
/// How long a finished connection waits for the server to close.
const LAST_WAIT: Duration = Duration::from_secs(1);
/// How long a connection that could not even be begun waits before the next attempt.
const BACK_OFF: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Connecting,
    Exchanging,
    /// All is there; the server closes first.
    Closing,
}

#[derive(Debug)]
struct Flow {
    socket: Handle,
    target: usize,
    state: State,
    began: Instant,
    deadline: Instant,
    sent: u64,
    reply: Reply,
    /// Requests finished on this connection.
    exchanges: u64,
    /// Whether the response's body goes to the output file.
    captured: bool,
    /// Whether the server's FIN was reported, which happens once, maybe long before all in front of
    /// it is read.
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
    /// The connection is done with, for good.
    Close,
    /// The request failed.
    Fail(Kind),
    /// The server closed a connection that it had kept open: the request was never looked at and
    /// goes out again.
    Retry,
}

/// A client running `plan`.
pub(crate) struct Client<'a, S> {
    sockets: &'a mut S,
    plan: &'a mut Plan,
    stats: Stats,
    slots: Vec<Slot>,
    idle: Vec<u32>,
    again: Vec<u64>,
    issued: u64,
    launched: u64,
    now: Instant,
    next_sweep: Option<Instant>,
    hold_until: Option<Instant>,
    buffer: Vec<u8>,
}

impl<'a, S: Sockets> Client<'a, S> {
    /// A client that has done nothing yet.
    pub(crate) fn new(sockets: &'a mut S, plan: &'a mut Plan) -> anyhow::Result<Self> {
        let connections = u32::try_from(plan.connections)?;
        Ok(Self {
            sockets,
            stats: Stats::new()?,
            slots: (0..connections).map(|_| Slot::default()).collect(),
            idle: (0..connections).rev().collect(),
            plan,
            again: Vec::new(),
            issued: 0,
            launched: 0,
            now: Instant::now(),
            next_sweep: None,
            hold_until: None,
            buffer: vec![0; BUFFER],
        })
    }

    /// Runs the plan; what was counted, and how long it took.
    ///
    /// # Errors
    /// Waiting failed: the link is gone.
    pub(crate) fn run(mut self, stop: &Stop, meter: &Meter) -> Result<(Stats, Duration), Errno> {
        let start = Instant::now();
        let end = self.plan.duration.map(|duration| start + duration);
        let mut events = Vec::with_capacity(512);
        self.now = start;
        while !self.finished() && !stop.requested() && end.is_none_or(|end| self.now < end) {
            if self.stats.is_dead() && !self.plan.keep_going {
                break;
            }
            self.launch();
            let timeout = self.timeout(end, meter);
            self.sockets.wait(&mut events, timeout)?;
            self.now = Instant::now();
            for event in &events {
                self.dispatch(*event);
            }
            self.continue_others();
            if self.next_sweep.is_some_and(|next| self.now >= next) {
                self.sweep();
            }
            meter.show(&self.stats, self.now - start);
        }
        let took = self.now - start;
        for index in 0..self.slots.len() {
            if let Some(flow) = self.slots.get_mut(index).and_then(|slot| slot.flow.take()) {
                self.sockets.abort(flow.socket);
            }
        }
        Ok((self.stats, took))
    }

    fn finished(&self) -> bool {
        self.plan
            .requests
            .is_some_and(|requests| self.stats.finished() >= requests)
            && self.idle.len() == self.slots.len()
    }

    fn may_issue(&self) -> bool {
        self.plan
            .requests
            .is_none_or(|requests| self.issued < requests)
    }

    fn timeout(&self, end: Option<Instant>, meter: &Meter) -> Option<Duration> {
        if self.finished() {
            return Some(Duration::ZERO);
        }
        let can_launch = self.may_issue() && !self.idle.is_empty();
        if !self.again.is_empty() || (can_launch && self.hold_until.is_none()) {
            return Some(Duration::ZERO);
        }
        let hold = self.hold_until.filter(|_| can_launch);
        let next = [self.next_sweep, end, hold].into_iter().flatten().min();
        let until = next.map(|next| next.saturating_duration_since(self.now));
        [until, meter.interval()].into_iter().flatten().min()
    }

    /// Begins as many connections as there are free slots and requests.
    fn launch(&mut self) {
        if self.hold_until.is_some_and(|until| self.now < until) {
            return;
        }
        self.hold_until = None;
        for _ in 0..LAUNCHES {
            if !self.may_issue() {
                return;
            }
            let Some(index) = self.idle.pop() else { return };
            self.issued += 1;
            if let Err(error) = self.connect(index as usize, Instant::now()) {
                self.idle.push(index);
                let routed = self.is_routed(self.launched.wrapping_sub(1));
                self.stats.failure(Kind::of(error, false, routed));
                self.hold_until = Some(self.now + BACK_OFF);
                return;
            }
        }
    }

    /// Which server the connection of this turn is for.
    fn target(&self, turn: u64) -> usize {
        (turn % self.plan.targets.len().max(1) as u64) as usize
    }

    /// Whether the server of this turn is behind a gateway.
    fn is_routed(&self, turn: u64) -> bool {
        let target = self.plan.targets.get(self.target(turn));
        target.is_some_and(|target| target.routed)
    }

    fn connect(&mut self, index: usize, began: Instant) -> Result<(), Errno> {
        let turn = self.launched;
        self.launched += 1;
        let target = self.target(turn);
        let remote = self.plan.targets.get(target).ok_or(Errno::INVAL)?.remote;
        let mut sources = self
            .plan
            .sources
            .iter()
            .filter(|source| source.is_ipv4() == remote.is_ipv4());
        let count = sources.clone().count().max(1) as u64;
        // Every pair of source and target comes up in turn.
        let source = sources
            .nth((turn / self.plan.targets.len().max(1) as u64 % count) as usize)
            .copied();
        let socket = self.sockets.connect(source, remote, self.plan.reset)?;
        let slot = self.slots.get_mut(index).ok_or(Errno::INVAL)?;
        let data = u64::from(slot.generation) << 32 | index as u64;
        if let Err(error) = self.sockets.add(
            socket,
            Ready::IN | Ready::OUT | Ready::RDHUP | Ready::ET,
            data,
        ) {
            self.sockets.close(socket);
            return Err(error);
        }
        let deadline = began + self.plan.timeout;
        slot.flow = Some(Flow {
            socket,
            target,
            state: State::Connecting,
            began,
            deadline,
            sent: 0,
            reply: self.plan.reply(),
            exchanges: 0,
            captured: turn == 0 && self.plan.output.is_some(),
            hung_up: false,
        });
        self.next_sweep = Some(self.next_sweep.map_or(deadline, |next| next.min(deadline)));
        Ok(())
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

    fn continue_others(&mut self) {
        for data in std::mem::take(&mut self.again) {
            self.dispatch(Event {
                data,
                ready: Ready::IN | Ready::OUT,
            });
        }
    }

    fn conclude(&mut self, index: usize, flow: Flow, next: Next, data: u64) {
        match next {
            Next::Wait | Next::Again => {
                if let Some(slot) = self.slots.get_mut(index) {
                    slot.flow = Some(flow);
                }
                if next == Next::Again {
                    self.again.push(data);
                }
            }
            Next::Close => self.release(index, flow.socket),
            Next::Fail(kind) => {
                self.stats.failure(kind);
                self.sockets.abort(flow.socket);
                self.free(index);
            }
            Next::Retry => {
                self.release(index, flow.socket);
                self.issued -= 1;
            }
        }
    }

    fn release(&mut self, index: usize, socket: Handle) {
        self.sockets.close(socket);
        self.free(index);
    }

    fn free(&mut self, index: usize) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.generation = slot.generation.wrapping_add(1);
        }
        self.idle.push(index as u32);
    }

    fn advance(&mut self, flow: &mut Flow, ready: Ready) -> Next {
        if flow.state == State::Connecting {
            if ready.intersects(Ready::ERR)
                || (ready.contains(Ready::HUP) && !ready.contains(Ready::OUT))
            {
                let error = self
                    .sockets
                    .take_error(flow.socket)
                    .unwrap_or(Errno::CONNREFUSED);
                let routed = self.is_routed(flow.target as u64);
                return Next::Fail(Kind::of(error, false, routed));
            }
            if !ready.contains(Ready::OUT) {
                return Next::Wait;
            }
            flow.state = State::Exchanging;
            self.stats.connections += 1;
        }
        let mut next = Next::Wait;
        if flow.state == State::Exchanging && ready.writable() {
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

    /// Sends what is left of the request.
    fn send(&mut self, flow: &mut Flow) -> Next {
        let Some(target) = self.plan.targets.get(flow.target) else {
            return Next::Close;
        };
        let total = self.plan.request_length(target);
        for _ in 0..ROUNDS {
            if flow.sent >= total {
                return Next::Wait;
            }
            let piece = match piece(self.plan, &target.request, flow.sent, &mut self.buffer) {
                Ok(piece) => piece,
                Err(_) => return Next::Fail(Kind::File),
            };
            match self.sockets.write(flow.socket, piece, More::Follows) {
                Ok(sent) => {
                    flow.sent += sent as u64;
                    self.stats.sent += sent as u64;
                }
                Err(Errno::AGAIN) => return Next::Wait,
                Err(Errno::INTR) => {}
                // The server may have answered and closed before it read everything: what it said
                // decides.
                Err(Errno::PIPE | Errno::CONNRESET) => return Next::Wait,
                Err(error) => return Next::Fail(Kind::of(error, true, false)),
            }
        }
        Next::Again
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
            let drained = read < self.buffer.len();
            if flow.state == State::Exchanging {
                match self.take(flow, read) {
                    Next::Wait => {}
                    other => return other,
                }
            }
            if drained {
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

    /// Gives `read` bytes of the buffer to the reply.
    fn take(&mut self, flow: &mut Flow, read: usize) -> Next {
        let input = self.buffer.get(..read).unwrap_or_default();
        let output = if flow.captured {
            self.plan.output.as_mut()
        } else {
            None
        };
        let mut output = output;
        let taken = flow
            .reply
            .take(input, &mut |_, data| match output.as_mut() {
                Some(output) => output.write_all(data).map_err(|_| Kind::File),
                None => Ok(()),
            });
        match taken {
            Ok(Progress::More) => Next::Wait,
            Ok(Progress::Done(0)) => self.complete(flow),
            // Nothing was asked for that these bytes could answer.
            Ok(Progress::Done(_)) => Next::Fail(Kind::BadResponse),
            Err(kind) => Next::Fail(kind),
        }
    }

    /// The response is complete.
    fn complete(&mut self, flow: &mut Flow) -> Next {
        let finished = Instant::now();
        self.stats.status(flow.reply.status);
        if (200..400).contains(&flow.reply.status) {
            self.stats.success(finished - flow.began);
        } else {
            self.stats.failure(Kind::BadStatus);
        }
        flow.exchanges += 1;
        let all_sent = self
            .plan
            .targets
            .get(flow.target)
            .is_some_and(|target| flow.sent >= self.plan.request_length(target));
        if !(self.plan.keep_alive && flow.reply.keep_alive && all_sent) {
            flow.state = State::Closing;
            flow.deadline = finished + LAST_WAIT;
            self.next_sweep = Some(
                self.next_sweep
                    .map_or(flow.deadline, |next| next.min(flow.deadline)),
            );
            return Next::Wait;
        }
        if !self.may_issue() {
            return Next::Close;
        }
        self.issued += 1;
        flow.reply = self.plan.reply();
        flow.captured = false;
        flow.sent = 0;
        flow.began = finished;
        flow.deadline = finished + self.plan.timeout;
        self.send(flow)
    }

    /// The server closed, or the connection broke.
    fn ended(&mut self, flow: &mut Flow, error: Option<Errno>) -> Next {
        if flow.state == State::Closing {
            return Next::Close;
        }
        if flow.exchanges > 0 && !flow.reply.begun {
            return Next::Retry;
        }
        if let Some(error) = error {
            return Next::Fail(Kind::of(error, true, false));
        }
        match flow.reply.end() {
            Ok(()) => {
                self.complete(flow);
                Next::Close
            }
            Err(unfinished) => Next::Fail(unfinished.into()),
        }
    }

    fn sweep(&mut self) {
        let mut earliest: Option<Instant> = None;
        for index in 0..self.slots.len() {
            let Some(slot) = self.slots.get_mut(index) else {
                continue;
            };
            let Some(flow) = slot.flow.take_if(|flow| flow.deadline <= self.now) else {
                let deadline = slot.flow.as_ref().map(|flow| flow.deadline);
                earliest = [earliest, deadline].into_iter().flatten().min();
                continue;
            };
            let next = match flow.state {
                State::Connecting => Next::Fail(Kind::ConnectTimeout),
                State::Exchanging => Next::Fail(Kind::Timeout),
                State::Closing => Next::Close,
            };
            self.conclude(index, flow, next, 0);
        }
        // At most twenty sweeps a second.
        self.next_sweep =
            earliest.map(|earliest| earliest.max(self.now + Duration::from_millis(50)));
    }
}

/// The next bytes of a request of which `sent` are out.
fn piece<'b>(
    plan: &Plan,
    request: &'b [u8],
    sent: u64,
    buffer: &'b mut [u8],
) -> Result<&'b [u8], Errno> {
    let head = usize::try_from(sent)
        .ok()
        .and_then(|sent| request.get(sent..))
        .unwrap_or_default();
    let Some(body) = &plan.body else {
        return Ok(head);
    };
    let offset = sent.saturating_sub(request.len() as u64);
    let room = buffer.len().saturating_sub(head.len()) as u64;
    let want = (body.length - offset.min(body.length)).min(room) as usize;
    let assembled = buffer.get_mut(..head.len() + want).ok_or(Errno::NOBUFS)?;
    let (first, rest) = assembled.split_at_mut(head.len());
    first.copy_from_slice(head);
    read_exactly(&body.file, rest, offset)?;
    Ok(assembled)
}
