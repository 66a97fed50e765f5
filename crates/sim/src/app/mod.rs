//! Applications in virtual time. They sleep until an event or a timer of their own wakes them, as
//! real ones do, and look at nothing in between: a stack that forgets to wake them is found out.

mod conn;
mod plan;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use mtcp_core::{Command, ConnId, Event, ListenerId, Reply, Token};
use wire::impair::Rng;
use wire::time::Instant;

pub use plan::{Content, Ending, Expect, ListenPlan, LoadPlan, Plan, Record};

use conn::Conn;
pub(crate) use conn::Env;

use crate::random::percent;

/// Largest read or write.
const SCRATCH: usize = 64 << 10;
/// Send buffers looked at per turn for being given back.
const SWEEP: usize = 8;

#[derive(Debug)]
struct Listener {
    plan: ListenPlan,
    id: ListenerId,
}

#[derive(Debug)]
struct Load {
    plan: LoadPlan,
    started: u64,
    ended: u64,
}

/// A connection that waits for `Accept`.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    listener: usize,
    conn: ConnId,
    local: SocketAddr,
    remote: SocketAddr,
}

/// The applications of one host.
#[derive(Debug)]
pub struct Apps {
    seed: u64,
    rng: Rng,
    listeners: Vec<Listener>,
    loads: Vec<Load>,
    /// By token.
    conns: Vec<Option<Box<Conn>>>,
    free: Vec<u32>,
    /// Tokens of the connections in the stack, by slot.
    slots: BTreeMap<u32, u32>,
    /// Tokens of those that can do something.
    queue: VecDeque<u32>,
    timers: BTreeSet<(Instant, u32)>,
    arrived: BTreeMap<(Instant, u64), Arrived>,
    arrivals: u64,
    records: Vec<Record>,
    scratch: Vec<u8>,
}

/// What applications need of their host.
pub(crate) struct HostParts<'a> {
    pub now: Instant,
    pub stack: &'a mut mtcp_core::Stack,
    pub streams: &'a mut mtcp_core::AppStreams,
}

impl Apps {
    pub(crate) fn new(seed: u64, rng: Rng) -> Self {
        Self {
            seed,
            rng,
            listeners: Vec::new(),
            loads: Vec::new(),
            conns: Vec::new(),
            free: Vec::new(),
            slots: BTreeMap::new(),
            queue: VecDeque::new(),
            timers: BTreeSet::new(),
            arrived: BTreeMap::new(),
            arrivals: 0,
            records: Vec::new(),
            scratch: vec![0; SCRATCH],
        }
    }

    /// What became of the connections that are over.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// How far the connections are that the stack knows.
    pub fn open_records(&self) -> impl Iterator<Item = &Record> {
        let open = self.conns.iter().flatten().filter(|conn| conn.is_open());
        open.map(|conn| &conn.record)
    }

    /// Forgets the records; for long runs.
    pub fn clear_records(&mut self) {
        self.records = Vec::new();
    }

    /// Connections that are not over for the application, those not opened yet included.
    pub fn live(&self) -> usize {
        self.conns.len() - self.free.len()
    }

    /// Nothing is left to do but to listen.
    pub fn is_idle(&self) -> bool {
        self.live() == 0 && self.arrived.is_empty()
    }

    pub(crate) fn next_wake(&self) -> Option<Instant> {
        let timer = self.timers.first().map(|(at, _)| *at);
        let arrival = self.arrived.first_key_value().map(|((at, _), _)| *at);
        timer.into_iter().chain(arrival).min()
    }

    pub(crate) fn listen(
        &mut self,
        parts: HostParts<'_>,
        plan: ListenPlan,
    ) -> Result<SocketAddr, String> {
        let command = Command::Listen {
            token: Token(self.listeners.len() as u32),
            local: plan.local,
            only_v6: plan.only_v6,
            backlog: plan.backlog,
            options: plan.plan.options,
        };
        match parts.stack.execute(parts.now, command) {
            Ok(Reply::Listening(id, local)) => {
                self.listeners.push(Listener { plan, id });
                Ok(local)
            }
            other => Err(format!("listen on {}: {other:?}", plan.local)),
        }
    }

    /// Ends all listeners.
    pub(crate) fn unlisten(&mut self, parts: HostParts<'_>) -> Result<(), String> {
        for listener in self.listeners.drain(..) {
            let local = listener.plan.local;
            let done = parts
                .stack
                .execute(parts.now, Command::Unlisten(listener.id));
            done.map_err(|error| format!("unlisten {local}: {error}"))?;
        }
        // Those not accepted yet are the stack's to reset; their streams are given back.
        for arrived in std::mem::take(&mut self.arrived).into_values() {
            parts.streams.release(arrived.conn.slot);
            let _ = parts.stack.execute(parts.now, Command::Close(arrived.conn));
        }
        Ok(())
    }

    pub(crate) fn connect(&mut self, at: Instant, remote: SocketAddr, plan: Plan) -> Token {
        let token = self.add(at, remote, plan);
        self.set_timer(token);
        Token(token)
    }

    pub(crate) fn load(&mut self, now: Instant, plan: LoadPlan) {
        let index = self.loads.len();
        self.loads.push(Load {
            plan,
            started: 0,
            ended: 0,
        });
        for _ in 0..plan.concurrent {
            self.start_next(now, index);
        }
    }

    /// Whether all loads have started and ended all of their connections.
    pub fn loads_done(&self) -> bool {
        self.loads.iter().all(|load| load.ended >= load.plan.total)
    }

    fn start_next(&mut self, now: Instant, index: usize) {
        let Some(load) = self.loads.get_mut(index) else {
            return;
        };
        if load.started >= load.plan.total {
            return;
        }
        load.started += 1;
        let plan = load.plan;
        let at = now + self.rng.duration_up_to(plan.gap);
        let token = self.add(at, plan.remote, plan.plan);
        if let Some(conn) = self.conn(token) {
            conn.load = Some(index);
        }
        self.set_timer(token);
    }

    fn add(&mut self, at: Instant, remote: SocketAddr, plan: Plan) -> u32 {
        let token = self.free.pop().unwrap_or(self.conns.len() as u32);
        let conn = Box::new(Conn::new(plan, Token(token), at, remote, &mut self.rng));
        match self.conns.get_mut(token as usize) {
            Some(place) => *place = Some(conn),
            None => self.conns.push(Some(conn)),
        }
        token
    }

    fn conn(&mut self, token: u32) -> Option<&mut Conn> {
        self.conns.get_mut(token as usize)?.as_deref_mut()
    }

    fn set_timer(&mut self, token: u32) {
        if let Some(at) = self.conn(token).and_then(|conn| conn.next_wake()) {
            self.timers.insert((at, token));
        }
    }

    fn enqueue(&mut self, token: u32) {
        if let Some(conn) = self.conn(token).filter(|conn| !conn.queued) {
            conn.queued = true;
            self.queue.push_back(token);
        }
    }

    /// Looks at events and timers and does what they ask for. True if the stack was told anything,
    /// or more is to be done at once.
    pub(crate) fn turn(&mut self, mut parts: HostParts<'_>) -> Result<bool, String> {
        let mut busy = self.poll_events(&mut parts)?;
        while let Some(entry) = self
            .timers
            .first()
            .copied()
            .filter(|(at, _)| *at <= parts.now)
        {
            self.timers.remove(&entry);
            self.enqueue(entry.1);
        }
        self.accept_due(&mut parts, &mut busy)?;
        self.wake_starved(&mut parts);
        for _ in 0..self.queue.len() {
            let Some(token) = self.queue.pop_front() else {
                break;
            };
            self.run(token, &mut parts, &mut busy)?;
        }
        // What has run may have given buffers back that others wait for.
        self.wake_starved(&mut parts);
        Ok(busy || !self.queue.is_empty())
    }

    fn poll_events(&mut self, parts: &mut HostParts<'_>) -> Result<bool, String> {
        let mut any = false;
        while let Some(event) = parts.stack.poll_event() {
            any = true;
            match event {
                Event::Accepted {
                    listener,
                    conn,
                    key,
                } => {
                    let arrived = Arrived {
                        listener: listener.0 as usize,
                        conn,
                        local: key.local(),
                        remote: key.remote(),
                    };
                    self.arrive(parts.now, arrived);
                }
                Event::Ready {
                    conn,
                    token,
                    ready,
                    error,
                } => {
                    let streams = &*parts.streams;
                    if let Some(owner) = self
                        .conn(token.0)
                        .filter(|owner| owner.is_open() && owner.id == conn)
                    {
                        owner.check_event(streams, ready, error)?;
                        self.enqueue(token.0);
                    }
                }
            }
        }
        Ok(any)
    }

    fn arrive(&mut self, now: Instant, arrived: Arrived) {
        let delay = self
            .listeners
            .get(arrived.listener)
            .map_or(Duration::ZERO, |listener| listener.plan.accept_delay);
        let at = now + self.rng.duration_up_to(delay);
        self.arrivals += 1;
        self.arrived.insert((at, self.arrivals), arrived);
    }

    fn accept_due(&mut self, parts: &mut HostParts<'_>, busy: &mut bool) -> Result<(), String> {
        while let Some(entry) = self
            .arrived
            .first_entry()
            .filter(|entry| entry.key().0 <= parts.now)
        {
            let arrived = entry.remove();
            self.accept(parts, arrived, busy)?;
        }
        Ok(())
    }

    fn accept(
        &mut self,
        parts: &mut HostParts<'_>,
        arrived: Arrived,
        busy: &mut bool,
    ) -> Result<(), String> {
        let Arrived {
            listener,
            conn,
            local,
            remote,
        } = arrived;
        *busy = true;
        let listener = self.listeners.get(listener).map(|listener| listener.plan);
        let refuse = listener.is_none_or(|plan| percent(&mut self.rng, plan.refuse_percent));
        let Some(plan) = listener.filter(|_| !refuse) else {
            parts.streams.release(conn.slot);
            let _ = parts.stack.execute(parts.now, Command::Abort(conn));
            return Ok(());
        };
        let token = self.add(parts.now, remote, plan.plan);
        let accept = Command::Accept {
            conn,
            token: Token(token),
        };
        parts
            .stack
            .execute(parts.now, accept)
            .map_err(|error| format!("accept of {remote}: {error}"))?;
        let (owner, env) = self.env(token, parts, busy);
        if let Some(owner) = owner {
            owner.record.active = false;
            owner.open(conn, local, remote, &env);
        }
        self.slots.insert(conn.slot, token);
        self.enqueue(token);
        Ok(())
    }

    fn env<'a>(
        &'a mut self,
        token: u32,
        parts: &'a mut HostParts<'_>,
        busy: &'a mut bool,
    ) -> (Option<&'a mut Conn>, Env<'a>) {
        let conn = self
            .conns
            .get_mut(token as usize)
            .and_then(Option::as_deref_mut);
        let env = Env {
            now: parts.now,
            seed: self.seed,
            stack: parts.stack,
            streams: parts.streams,
            rng: &mut self.rng,
            scratch: &mut self.scratch,
            busy,
        };
        (conn, env)
    }

    /// Those whose write came up short for lack of pool memory are the application's own to wake.
    fn wake_starved(&mut self, parts: &mut HostParts<'_>) {
        parts.streams.sweep(SWEEP);
        while let Some(slot) = parts.streams.poll_starved() {
            if let Some(token) = self.slots.get(&slot).copied() {
                self.enqueue(token);
            }
        }
    }

    fn run(
        &mut self,
        token: u32,
        parts: &mut HostParts<'_>,
        busy: &mut bool,
    ) -> Result<(), String> {
        let (Some(conn), mut env) = self.env(token, parts, busy) else {
            return Ok(());
        };
        conn.queued = false;
        let before = conn.is_open().then_some(conn.id.slot);
        let done = conn.run(&mut env)?;
        let (after, again) = (conn.is_open().then_some(conn.id.slot), conn.again);
        if let Some(slot) = before.filter(|_| before != after) {
            self.slots.remove(&slot);
        }
        if let Some(slot) = after {
            self.slots.insert(slot, token);
        }
        if done {
            self.retire(parts.now, token);
            return Ok(());
        }
        if again {
            self.enqueue(token);
        }
        self.set_timer(token);
        Ok(())
    }

    fn retire(&mut self, now: Instant, token: u32) {
        let Some(conn) = self.conns.get_mut(token as usize).and_then(Option::take) else {
            return;
        };
        self.free.push(token);
        self.records.push(conn.record);
        if let Some(index) = conn.load {
            if let Some(load) = self.loads.get_mut(index) {
                load.ended += 1;
            }
            self.start_next(now, index);
        }
    }

    /// No application sleeps while it could work.
    pub(crate) fn check(&self, parts: &HostParts<'_>) -> Result<(), String> {
        for conn in self.conns.iter().flatten() {
            conn.check_waiting(parts.streams, parts.now)?;
        }
        Ok(())
    }

    /// The first connections, in words.
    pub(crate) fn describe(&self, parts: &mut HostParts<'_>, most: usize) -> Vec<String> {
        let conns = self.conns.iter().flatten().take(most);
        let words = conns.map(|conn| {
            let info = parts.stack.execute(parts.now, Command::Info(conn.id));
            let status = parts.streams.status(conn.id.slot);
            format!("{conn:?} status {status:?} {info:?}")
        });
        words.collect()
    }

    /// The connections that are open in the stack.
    pub(crate) fn open_ids(&self) -> impl Iterator<Item = ConnId> + '_ {
        let open = self.conns.iter().flatten().filter(|conn| conn.is_open());
        open.map(|conn| conn.id)
    }
}
