//! One connection of an application: reads, writes and ends it as its plan says.

use std::net::SocketAddr;
use std::time::Duration;

use mtcp_core::{AppStreams, Command, ConnId, Error, Ready, Reply, Stack, Status, Token};
use wire::impair::Rng;
use wire::time::Instant;

use super::plan::{Content, Ending, Expect, Plan, Record};
use crate::pattern::Pattern;

/// Reads or writes of one connection before others have their turn.
const BUDGET: u32 = 64;

/// What an application works with.
pub(crate) struct Env<'a> {
    pub now: Instant,
    pub seed: u64,
    pub stack: &'a mut Stack,
    pub streams: &'a mut AppStreams,
    pub rng: &'a mut Rng,
    pub scratch: &'a mut Vec<u8>,
    /// The stack was told something, so that it may have something to send.
    pub busy: &'a mut bool,
}

impl Env<'_> {
    pub fn execute(&mut self, command: Command) -> Result<Reply, Error> {
        *self.busy = true;
        self.stack.execute(self.now, command)
    }
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Will connect at `connect_at`.
    Planned,
    Open,
    Done,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Conn {
    plan: Plan,
    phase: Phase,
    pub id: ConnId,
    pub record: Record,
    /// Who started it, if it belongs to a load.
    pub load: Option<usize>,
    /// It is in the run queue.
    pub queued: bool,
    /// It ran out of budget.
    pub again: bool,
    target: u64,
    outgoing: Pattern,
    incoming: Pattern,
    shut: bool,
    /// All that was written, and our FIN, are acknowledged.
    drained: bool,
    connect_at: Instant,
    /// Paused until then.
    read_at: Option<Instant>,
    write_at: Option<Instant>,
    hold_at: Option<Instant>,
    abort_at: Option<Instant>,
    /// The last write came up short.
    stuck: bool,
    /// Bytes that were in use then.
    stuck_at: u32,
    send_limit: u32,
    /// Bytes read since the last event that said READABLE.
    unannounced: u64,
}

impl Conn {
    pub fn new(plan: Plan, token: Token, at: Instant, remote: SocketAddr, rng: &mut Rng) -> Self {
        let record = Record {
            token,
            active: true,
            local: remote,
            remote,
            connected: false,
            sent: 0,
            received: 0,
            eof: false,
            aborted: false,
            error: None,
            tries: 0,
            opened_at: at,
            closed_at: at,
        };
        Self {
            plan,
            phase: Phase::Planned,
            id: ConnId {
                slot: u32::MAX,
                generation: 0,
            },
            record,
            load: None,
            queued: false,
            again: false,
            target: rng.between(plan.send.0, plan.send.1),
            outgoing: Pattern::between(0, remote, remote),
            incoming: Pattern::between(0, remote, remote),
            shut: false,
            drained: false,
            connect_at: at,
            read_at: None,
            write_at: None,
            hold_at: None,
            abort_at: None,
            stuck: false,
            stuck_at: 0,
            send_limit: 0,
            unannounced: 0,
        }
    }

    /// The stack knows it from now on.
    pub fn open(&mut self, id: ConnId, local: SocketAddr, remote: SocketAddr, env: &Env<'_>) {
        self.id = id;
        self.phase = Phase::Open;
        self.record.local = local;
        self.record.remote = remote;
        self.record.opened_at = env.now;
        self.abort_at = self.plan.abort_after.map(|after| env.now + after);
        self.outgoing = Pattern::between(env.seed, local, remote);
        self.incoming = Pattern::between(env.seed, remote, local);
        match (self.plan.content, self.plan.expect) {
            (Content::Echo, _) => self.outgoing = self.incoming,
            (_, Expect::Echo) => self.incoming = self.outgoing,
            _ => {}
        }
        if !self.plan.first_read.is_zero() {
            self.read_at = Some(env.now + self.plan.first_read);
        }
        // What room there is before anything was written is the limit.
        self.send_limit = env.streams.writable(id.slot);
    }

    /// Does what can be done now. True when the connection is over for the application.
    pub fn run(&mut self, env: &mut Env<'_>) -> Result<bool, String> {
        self.again = false;
        if self.phase == Phase::Planned {
            return Ok(env.now >= self.connect_at && self.connect(env));
        }
        if self.abort_at.is_some_and(|at| at <= env.now) {
            self.abort(env);
            return Ok(true);
        }
        self.unpause(env.now);
        self.record.connected |= env.streams.status(self.id.slot).contains(Status::CONNECTED);
        self.read(env)?;
        if self.failed(env) {
            return Ok(self.phase == Phase::Done);
        }
        self.write(env)?;
        self.end(env)?;
        Ok(self.phase == Phase::Done)
    }

    fn unpause(&mut self, now: Instant) {
        self.read_at = self.read_at.filter(|at| *at > now);
        self.write_at = self.write_at.filter(|at| *at > now);
    }

    /// True when there is no hope.
    fn connect(&mut self, env: &mut Env<'_>) -> bool {
        self.record.tries += 1;
        let command = Command::Connect {
            token: self.record.token,
            local: None,
            remote: self.record.remote,
            options: self.plan.options,
        };
        match env.execute(command) {
            Ok(Reply::Connecting(id, local) | Reply::Deferred(id, local)) => {
                self.open(id, local, self.record.remote, env);
                self.again = true;
                false
            }
            Ok(_) => self.give_up(env, None),
            Err(error) => self.give_up(env, Some(error)),
        }
    }

    /// The attempt failed: tries again later, or not (true).
    fn give_up(&mut self, env: &mut Env<'_>, error: Option<Error>) -> bool {
        if self.record.tries < self.plan.tries {
            self.phase = Phase::Planned;
            self.record.sent = 0;
            (self.stuck, self.shut, self.again, self.drained) = (false, false, false, false);
            (self.write_at, self.hold_at, self.abort_at) = (None, None, None);
            self.connect_at = env.now + Duration::from_millis(env.rng.between(10, 3000));
            return false;
        }
        self.record.error = error;
        self.finish(env.now);
        true
    }

    fn finish(&mut self, now: Instant) {
        self.record.closed_at = now;
        self.phase = Phase::Done;
    }

    fn read(&mut self, env: &mut Env<'_>) -> Result<(), String> {
        if self.read_at.is_some() || self.record.eof {
            return Ok(());
        }
        let slot = self.id.slot;
        let mut got = 0;
        for turn in 0..=BUDGET {
            self.again |= turn == BUDGET;
            let want = env
                .rng
                .between(self.plan.read_size.0.into(), self.plan.read_size.1.into());
            let want = (want as usize).clamp(1, env.scratch.len());
            let buffer = env.scratch.get_mut(..want).unwrap_or_default();
            let mut n = env.streams.read(slot, buffer);
            while n == 0 && env.streams.pass_mark(slot, true) {
                n = env.streams.read(slot, buffer);
            }
            if n == 0 {
                break;
            }
            let bytes = buffer.get(..n).unwrap_or_default();
            self.check_bytes(bytes)?;
            got += n;
            self.record.received += n as u64;
            self.unannounced += n as u64;
            if !self.plan.read_pause.is_zero() {
                self.read_at = Some(env.now + env.rng.duration_up_to(self.plan.read_pause));
                break;
            }
        }
        if got > 0 && env.streams.window_update_due(slot) {
            self.tell(env, Command::Received(self.id))?;
        }
        self.record.eof = env.streams.at_eof(slot);
        Ok(())
    }

    fn check_bytes(&self, bytes: &[u8]) -> Result<(), String> {
        if self.plan.expect == Expect::Anything {
            return Ok(());
        }
        match self.incoming.mismatch(self.record.received, bytes) {
            None => Ok(()),
            Some(at) => Err(format!(
                "{}: wrong byte at position {at} of what it received",
                self.name()
            )),
        }
    }

    /// Bytes that are there to be sent, if the stream takes them.
    fn pending(&self) -> u64 {
        let ready = match self.plan.content {
            Content::Pattern => self.target,
            Content::Echo => self.record.received,
        };
        ready.saturating_sub(self.record.sent)
    }

    /// Nothing is left to write, now and later.
    fn all_written(&self) -> bool {
        self.pending() == 0 && (self.plan.content == Content::Pattern || self.record.eof)
    }

    fn write(&mut self, env: &mut Env<'_>) -> Result<(), String> {
        if self.write_at.is_some() || self.shut {
            return Ok(());
        }
        let mut written = 0;
        for turn in 0..=BUDGET {
            self.again |= turn == BUDGET;
            if self.pending() == 0 {
                break;
            }
            let want = env
                .rng
                .between(self.plan.write_size.0.into(), self.plan.write_size.1.into());
            let want = want.clamp(1, self.pending()).min(env.scratch.len() as u64);
            // Bytes that do not fit need not be made; one of them tells that they do not.
            let room = env.streams.writable(self.id.slot).max(1);
            let want = want.min(room.into());
            let buffer = env.scratch.get_mut(..want as usize).unwrap_or_default();
            self.outgoing.fill(self.record.sent, buffer);
            let n = env.streams.write(self.id.slot, buffer);
            written += n;
            self.record.sent += n as u64;
            self.stuck = n < buffer.len();
            if self.stuck {
                self.stuck_at = env.streams.unsent(self.id.slot);
                break;
            }
            if !self.plan.write_pause.is_zero() {
                self.write_at = Some(env.now + env.rng.duration_up_to(self.plan.write_pause));
                break;
            }
        }
        if written > 0 {
            let urgent = self.plan.urgent && self.record.sent.is_multiple_of(3);
            let end = env.streams.written(self.id.slot);
            self.tell(
                env,
                if urgent {
                    Command::SendUrgent(self.id, end)
                } else {
                    Command::Send(self.id)
                },
            )?;
        }
        Ok(())
    }

    /// A doorbell or shutdown, which may only be refused when the connection has failed.
    fn tell(&mut self, env: &mut Env<'_>, command: Command) -> Result<(), String> {
        match env.execute(command) {
            Ok(_) => Ok(()),
            Err(_)
                if env
                    .streams
                    .status(self.id.slot)
                    .intersects(Status::ERROR | Status::CLOSED) =>
            {
                Ok(())
            }
            Err(error) => Err(format!("{}: {command:?} was refused: {error}", self.name())),
        }
    }

    /// Whether the connection has failed; if so, it is over, unless an attempt to connect is to be
    /// repeated.
    fn failed(&mut self, env: &mut Env<'_>) -> bool {
        let status = env.streams.status(self.id.slot);
        if !status.contains(Status::ERROR) {
            return false;
        }
        if self.read_at.is_some() || self.again {
            // First reads what came before the error; there is nothing else to wait for.
            (self.write_at, self.hold_at) = (None, None);
            return true;
        }
        let error = Error::from_errno(status.errno().into());
        self.release(env, Command::Close(self.id));
        if self.record.connected {
            self.record.error = error;
            self.finish(env.now);
        } else {
            self.give_up(env, error);
        }
        true
    }

    fn release(&mut self, env: &mut Env<'_>, last: Command) {
        env.streams.release(self.id.slot);
        // A connection that has failed may be gone already.
        let _ = env.execute(last);
    }

    fn end(&mut self, env: &mut Env<'_>) -> Result<(), String> {
        let written = self.all_written();
        match self.plan.ending {
            Ending::HalfClose if written => self.shut_down(env),
            Ending::Hold(time) if written && self.record.connected => self.hold(env, time),
            Ending::AfterEof if written && self.record.eof => self.close(env),
            // CLOSE before the connection is established would delete it with all that was written
            // (RFC 9293 §3.10.4).
            Ending::AfterBytes(bytes)
                if written && self.record.connected && self.record.received >= bytes =>
            {
                self.close(env)
            }
            Ending::Abort(bytes) if self.record.connected && self.is_aborted_by(bytes) => {
                self.abort(env);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn abort(&mut self, env: &mut Env<'_>) {
        self.record.aborted = true;
        self.release(env, Command::Abort(self.id));
        self.finish(env.now);
    }

    /// Enough has passed, or nothing more will.
    fn is_aborted_by(&self, bytes: u64) -> bool {
        let passed = self.record.sent + self.record.received;
        passed >= bytes || (self.all_written() && self.record.eof)
    }

    fn hold(&mut self, env: &mut Env<'_>, time: Duration) -> Result<(), String> {
        let until = *self.hold_at.get_or_insert(env.now + time);
        // A peer that has ended will not be waited for.
        if env.now >= until || self.record.eof {
            return self.shut_down(env);
        }
        Ok(())
    }

    fn shut_once(&mut self, env: &mut Env<'_>) -> Result<(), String> {
        if self.shut {
            return Ok(());
        }
        self.shut = true;
        self.tell(env, Command::Shutdown(self.id))
    }

    fn shut_down(&mut self, env: &mut Env<'_>) -> Result<(), String> {
        self.shut_once(env)?;
        if self.record.eof {
            self.close(env)
        } else {
            Ok(())
        }
    }

    fn close(&mut self, env: &mut Env<'_>) -> Result<(), String> {
        self.drained |= env.streams.status(self.id.slot).contains(Status::CLOSED);
        if self.plan.linger && !self.drained {
            return self.shut_once(env);
        }
        self.release(env, Command::Close(self.id));
        self.finish(env.now);
        Ok(())
    }

    /// When it wants to run although nothing happens.
    pub fn next_wake(&self) -> Option<Instant> {
        match self.phase {
            Phase::Planned => Some(self.connect_at),
            Phase::Done => None,
            Phase::Open => {
                let hold = self.hold_at.filter(|_| !self.shut);
                let wakes = [self.read_at, self.write_at, hold, self.abort_at];
                wakes.into_iter().flatten().min()
            }
        }
    }

    /// An event must be true when it is polled.
    pub fn check_event(
        &mut self,
        streams: &AppStreams,
        ready: Ready,
        error: Option<Error>,
    ) -> Result<(), String> {
        let status = streams.status(self.id.slot);
        let implied = [
            (Ready::CONNECTED, Status::CONNECTED),
            (Ready::EOF, Status::EOF),
            (Ready::ERROR, Status::ERROR),
            (Ready::CLOSED, Status::CLOSED),
        ];
        for (flag, truth) in implied {
            if ready.contains(flag) && !status.contains(truth) {
                return Err(format!(
                    "{}: event {ready:?}, but the status is {status:?}",
                    self.name()
                ));
            }
        }
        let errno = error.map_or(0, Error::errno);
        if ready.contains(Ready::ERROR) && errno != i32::from(status.errno()) {
            return Err(format!(
                "{}: event with {error:?}, but the status is {status:?}",
                self.name()
            ));
        }
        let unread = u64::from(streams.readable(self.id.slot));
        if ready.contains(Ready::READABLE)
            && !ready.contains(Ready::EOF)
            && unread + self.unannounced == 0
        {
            return Err(format!("{}: READABLE, but nothing came", self.name()));
        }
        if ready.contains(Ready::DRAINED) && (!self.shut || streams.unsent(self.id.slot) > 0) {
            return Err(format!("{}: DRAINED, but it is not", self.name()));
        }
        self.drained |= ready.contains(Ready::DRAINED);
        if ready.contains(Ready::READABLE) {
            self.unannounced = 0;
        }
        Ok(())
    }

    /// Something could be done and nobody will: a wake-up was lost.
    pub fn check_waiting(&self, streams: &AppStreams, now: Instant) -> Result<(), String> {
        if self.phase != Phase::Open || self.queued {
            return Ok(());
        }
        let slot = self.id.slot;
        let status = streams.status(slot);
        // A pause that ends now ends in the next turn.
        let paused = |at: Option<Instant>| at.is_some_and(|at| at >= now);
        let reads = !paused(self.read_at) && !self.record.eof;
        if reads && streams.readable(slot) > 0 {
            return Err(format!(
                "{}: sleeps on {} bytes",
                self.name(),
                streams.readable(slot)
            ));
        }
        if reads && streams.at_eof(slot) {
            return Err(format!("{}: sleeps on the end of file", self.name()));
        }
        if !paused(self.read_at) && status.contains(Status::ERROR) {
            return Err(format!("{}: sleeps on an error", self.name()));
        }
        let over = self.shut && self.record.eof && status.contains(Status::CLOSED);
        if over && !paused(self.read_at) {
            return Err(format!("{}: lingers although all is over", self.name()));
        }
        if !self.record.connected && status.contains(Status::CONNECTED) {
            return Err(format!(
                "{}: does not know that it is connected",
                self.name()
            ));
        }
        self.check_room(streams, now)
    }

    /// A writer that found no room is woken when something was acknowledged and a quarter of what
    /// it may use is free; with nothing to be acknowledged, when the pool has memory.
    fn check_room(&self, streams: &AppStreams, now: Instant) -> Result<(), String> {
        let slot = self.id.slot;
        let waits = self.stuck && self.pending() > 0 && self.write_at.is_none_or(|at| at < now);
        let (unsent, limit) = (streams.unsent(slot), self.send_limit);
        let told = unsent == 0 || unsent < self.stuck_at;
        if waits && told && unsent <= limit - limit / 4 && streams.writable(slot) > 0 {
            return Err(format!(
                "{}: sleeps although {unsent} of {limit} bytes are in use",
                self.name()
            ));
        }
        Ok(())
    }

    /// Whether the stack knows it.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// For people.
    pub fn name(&self) -> String {
        let Record { local, remote, .. } = self.record;
        format!("connection {} ({local} to {remote})", self.record.token.0)
    }
}
