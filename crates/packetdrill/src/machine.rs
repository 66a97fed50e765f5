//! The thread of the stack: it makes the calls, one after the other, and does what else the tool's
//! threads ask for.
//!
//! A call that waits asks here what happens meanwhile, and so the requests of the other thread are
//! served from within it.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use mtcp::{Context, VirtualClock, Waiter};
use mtcp_core::Config;
use pkt::{FarEnd, Kind, OUR_MAC, Outcome, PEER_MAC, Sent, Timeline, boot, turn};
use sim::ethernet;
use wire::ethernet::{EtherType, EthernetHeader};
use wire::time::Instant;

/// The least step of the clock.
const TICK: Duration = Duration::from_micros(1);
/// How long to wait for a packet when nothing is due, in real time.
const NOTHING: Duration = Duration::from_millis(50);
/// How long a thread may take to come back after its call, in real time.
const COMEBACK: Duration = Duration::from_secs(1);
/// A call that waits while the tool does nothing for so long, in real time, moves time itself.
const ALONE: Duration = Duration::from_millis(200);
/// After so many waits for a packet that brought nothing, with nothing due, there will never be
/// one.
const FRUITLESS: u32 = 20;
/// Timers that fire without time passing, one after the other: more is a livelock, and the deadline
/// stays in the past.
const MAX_ROUNDS: u32 = 1000;

/// What waiting for a packet brought.
#[derive(Debug)]
pub enum Waited {
    /// An IP packet, without its Ethernet header.
    Packet(Sent),
    /// None yet.
    Nothing,
    /// None, and there will be none unless someone else does something.
    Never,
}

/// What a thread of the tool wants.
#[derive(Debug)]
pub(crate) enum Wish {
    Call(Kind, Sender<Outcome>),
    /// An IP packet arrives.
    Deliver(Vec<u8>),
    /// The next packet that the stack sends.
    Packet(Sender<Waited>),
    /// The time. It moves a little with each look: the tool waits for the last moments in a loop.
    Now(Sender<Instant>),
    /// Time passes, to this moment once it is known.
    Sleep(Duration, Option<Instant>, Sender<()>),
}

/// A wish, and whose it is.
#[derive(Debug)]
pub(crate) struct Request {
    pub thread: ThreadId,
    pub wish: Wish,
}

/// What is to be done next.
#[derive(Debug)]
enum Next {
    /// Time has moved on, or a packet has come: the stack is to look.
    Stack,
    Call(ThreadId, Kind, Sender<Outcome>),
    /// The tool has ended.
    Over,
}

/// What came while the stack waited for requests.
enum Came {
    Request(Request),
    /// A call waits, and nobody does anything.
    Nothing,
    End,
}

#[derive(Debug)]
struct Machine {
    clock: VirtualClock,
    far: FarEnd,
    requests: Receiver<Request>,
    /// It plays the script; what other threads call may wait.
    main: ThreadId,
    /// What the stack sent.
    sent: VecDeque<Sent>,
    /// A wish that takes time.
    held: Option<Request>,
    /// Threads whose call is over and which did not come back yet: time stands still for them, so
    /// that they read the right one.
    returning: Vec<ThreadId>,
    /// Nobody did anything while a call waited.
    alone: bool,
    /// Waits for a packet that brought nothing, one after the other.
    fruitless: u32,
    /// How often something was due without time passing.
    rounds: u32,
}

impl Machine {
    /// Serves requests until there is something for others to do. Nothing is due in the stack
    /// before `until`.
    fn serve(&mut self, until: Option<Instant>, blocked: bool) -> Next {
        self.sent.extend(std::iter::from_fn(|| self.far.take()));
        let behind = until.is_some_and(|until| until <= self.clock.now());
        self.rounds = if behind { self.rounds + 1 } else { 0 };
        if behind && self.rounds <= MAX_ROUNDS {
            return Next::Stack;
        }
        loop {
            let request = match self.held.take() {
                Some(request) => request,
                None => match self.receive(blocked) {
                    Came::Request(request) => request,
                    Came::Nothing => match until {
                        Some(until) => return self.move_to(until),
                        None => continue,
                    },
                    Came::End => return Next::Over,
                },
            };
            if let Some(next) = self.serve_one(request, until) {
                return next;
            }
        }
    }

    /// The next request. A call that waits does not do so for ever: then nobody may ever do
    /// anything.
    fn receive(&mut self, blocked: bool) -> Came {
        let limit = match (blocked, self.alone) {
            (false, _) => None,
            (true, false) => Some(ALONE),
            (true, true) => Some(Duration::ZERO),
        };
        let came = self.await_request(limit);
        self.alone = matches!(came, Came::Nothing);
        came
    }

    fn await_request(&mut self, limit: Option<Duration>) -> Came {
        let came = match limit {
            Some(limit) => self.requests.recv_timeout(limit),
            None => self.requests.recv().map_err(Into::into),
        };
        match came {
            Ok(request) => Came::Request(request),
            Err(RecvTimeoutError::Timeout) => Came::Nothing,
            Err(RecvTimeoutError::Disconnected) => Came::End,
        }
    }

    /// Time stands still until those whose call is over are back.
    fn serve_one(&mut self, request: Request, until: Option<Instant>) -> Option<Next> {
        let Request { thread, wish } = request;
        let was_away = self.returning.contains(&thread);
        self.returning.retain(|away| *away != thread);
        let takes_time = match &wish {
            Wish::Now(_) => !was_away,
            Wish::Sleep(..) | Wish::Packet(_) => true,
            Wish::Call(..) | Wish::Deliver(_) => false,
        };
        if !takes_time || self.returning.is_empty() {
            return self.fulfil(Request { thread, wish }, was_away, until);
        }
        self.held = Some(Request { thread, wish });
        match self.await_request(Some(COMEBACK)) {
            Came::Request(Request { thread, wish }) => {
                let was_away = self.returning.contains(&thread);
                self.returning.retain(|away| *away != thread);
                self.fulfil(Request { thread, wish }, was_away, until)
            }
            Came::Nothing => {
                // Who makes no other call does not read the clock either.
                self.returning.clear();
                None
            }
            Came::End => Some(Next::Over),
        }
    }

    fn fulfil(
        &mut self,
        Request { thread, wish }: Request,
        was_away: bool,
        until: Option<Instant>,
    ) -> Option<Next> {
        match wish {
            Wish::Call(kind, reply) => Some(Next::Call(thread, kind, reply)),
            Wish::Deliver(packet) => {
                self.far.send(&framed(&packet));
                Some(Next::Stack)
            }
            Wish::Now(reply) => {
                if !was_away {
                    self.clock.advance(self.clock.now() + TICK);
                }
                let _ = reply.send(self.clock.now());
                (!was_away).then_some(Next::Stack)
            }
            Wish::Sleep(time, end, reply) => {
                let end = end.unwrap_or(self.clock.now() + time);
                if self.clock.now() >= end {
                    let _ = reply.send(());
                    return None;
                }
                let wish = Wish::Sleep(time, Some(end), reply);
                self.held = Some(Request { thread, wish });
                Some(self.move_to(until.map_or(end, |until| until.min(end))))
            }
            Wish::Packet(reply) => self.send_packet(thread, reply, until),
        }
    }

    /// What the stack sent next. If there is nothing, time moves on until there is, as long as
    /// anything is due.
    fn send_packet(
        &mut self,
        thread: ThreadId,
        reply: Sender<Waited>,
        until: Option<Instant>,
    ) -> Option<Next> {
        let waited = match self.next_packet() {
            Some(sent) => {
                self.fruitless = 0;
                Waited::Packet(sent)
            }
            None if until.is_some() => {
                let wish = Wish::Packet(reply);
                self.held = Some(Request { thread, wish });
                return until.map(|until| self.move_to(until));
            }
            None => match self.await_request(Some(NOTHING)) {
                Came::Request(other) => {
                    let wish = Wish::Packet(reply);
                    self.held = Some(Request { thread, wish });
                    let Request { thread, wish } = other;
                    let was_away = self.returning.contains(&thread);
                    self.returning.retain(|away| *away != thread);
                    return self.fulfil(Request { thread, wish }, was_away, until);
                }
                Came::End => return Some(Next::Over),
                Came::Nothing if self.fruitless >= FRUITLESS => Waited::Never,
                Came::Nothing => {
                    self.fruitless += 1;
                    Waited::Nothing
                }
            },
        };
        let _ = reply.send(waited);
        None
    }

    /// Moves time on. What is due in the past must not stop the clock.
    fn move_to(&mut self, time: Instant) -> Next {
        let now = self.clock.now();
        self.clock
            .advance(if time > now { time } else { now + TICK });
        Next::Stack
    }

    fn next_packet(&mut self) -> Option<Sent> {
        while let Some(Sent { at, frame }) = self.sent.pop_front() {
            if let Ok((header, packet)) = EthernetHeader::parse(&frame)
                && matches!(header.ether_type, EtherType::IPV4 | EtherType::IPV6)
                && !is_discovery(packet)
            {
                let frame = packet.to_vec();
                return Some(Sent { at, frame });
            }
        }
        None
    }
}

/// An IP packet with an Ethernet header.
fn framed(packet: &[u8]) -> Vec<u8> {
    let ether_type = match packet.first().map(|byte| byte >> 4) {
        Some(6) => EtherType::IPV6,
        _ => EtherType::IPV4,
    };
    let mut frame = ethernet(PEER_MAC, OUR_MAC, ether_type);
    frame.extend_from_slice(packet);
    frame
}

/// Neighbour and listener discovery of IPv6: the tool's link has none (RFC 4861 §4, RFC 3810 §5).
fn is_discovery(packet: &[u8]) -> bool {
    let icmp = packet.first().is_some_and(|byte| byte >> 4 == 6) && packet.get(6) == Some(&58);
    icmp && matches!(packet.get(40), Some(133..=137 | 143))
}

/// Whom the calls of the context ask.
#[derive(Debug)]
struct Server {
    clock: VirtualClock,
    /// `None` until the stack is there, and when the tool has ended.
    machine: Mutex<Option<Machine>>,
}

impl Server {
    fn lock(&self) -> MutexGuard<'_, Option<Machine>> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves requests.
    fn serve(&self, until: Option<Instant>, blocked: bool) -> Next {
        let mut machine = self.lock();
        let next = match &mut *machine {
            Some(machine) => machine.serve(until, blocked),
            None => Next::Over,
        };
        if matches!(next, Next::Over) {
            *machine = None;
        }
        next
    }

    fn call(
        &self,
        context: &mut Context,
        (thread, kind, reply): (ThreadId, Kind, Sender<Outcome>),
    ) {
        let outcome = kind.perform(context, self);
        if let Some(machine) = &mut *self.lock()
            && machine.main != thread
        {
            machine.returning.push(thread);
        }
        let _ = reply.send(outcome);
    }
}

impl Waiter for Server {
    fn wait(&self, context: &mut Context, until: Option<Instant>) {
        match self.serve(until, true) {
            Next::Stack => {}
            Next::Call(thread, kind, reply) => self.call(context, (thread, kind, reply)),
            Next::Over => context.wake_handle().interrupt(),
        }
    }
}

impl Timeline for Server {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn is_over(&self) -> bool {
        self.lock().is_none()
    }
}

/// Runs the stack until nobody asks for anything any more. Says when it is there, or why it is not.
pub(crate) fn run(
    config: Config,
    main: ThreadId,
    requests: Receiver<Request>,
    ready: &Sender<io::Result<()>>,
) {
    let clock = VirtualClock::default();
    let server = Arc::new(Server {
        clock: clock.clone(),
        machine: Mutex::default(),
    });
    let waiter: Arc<dyn Waiter> = Arc::clone(&server) as _;
    let (mut context, far) = match boot(config, &clock, waiter) {
        Ok(booted) => booted,
        Err(error) => {
            let _ = ready.send(Err(error));
            return;
        }
    };
    *server.lock() = Some(Machine {
        clock,
        far,
        requests,
        main,
        sent: VecDeque::new(),
        held: None,
        returning: Vec::new(),
        alone: false,
        fruitless: 0,
        rounds: 0,
    });
    let _ = ready.send(Ok(()));
    loop {
        let until = context.due().map(|due| server.now() + due);
        match server.serve(until, false) {
            Next::Stack => {}
            Next::Call(thread, kind, reply) => server.call(&mut context, (thread, kind, reply)),
            Next::Over => return,
        }
        turn(&mut context);
    }
}
