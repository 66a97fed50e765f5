//! The stack, its time, and the calls that wait.

use std::io;
use std::thread::ThreadId;
use std::time::Duration;

use mtcp_core::Config;
use sim::calls::constants::EMFILE;
use sim::calls::{Call, Errno, Kind, Outcome, Process, Reply, Sent};
use sim::ethernet;
use sim::pkt::{OUR_MAC, PEER_MAC};
use wire::ethernet::{EtherType, EthernetHeader};
use wire::time::Instant;

use crate::numbers::Numbers;

/// The least step of the clock.
const TICK: Duration = Duration::from_micros(1);

/// What a call that succeeds does to the numbers of descriptors.
#[derive(Clone, Copy, Debug)]
enum Effect {
    None,
    Opens,
    OpensPair,
    Closes(i32),
}

/// A call that waits.
#[derive(Debug)]
struct Waiting {
    id: u64,
    /// Who waits for it.
    thread: ThreadId,
    call: Call,
    effect: Effect,
    outcome: Option<Outcome>,
}

/// Everything that is under the lock of a [`World`](crate::world::World).
#[derive(Debug)]
pub(crate) struct Machine {
    process: Process,
    numbers: Numbers,
    waiting: Vec<Waiting>,
    calls: u64,
    /// Threads whose call is over and which did not come back yet: time stands still for them, so that they read the right one.
    pub returning: Vec<ThreadId>,
    /// Grows with everything that the tool does.
    pub activity: u64,
    /// Waits for a packet that brought nothing, one after the other.
    pub fruitless: u32,
}

impl Machine {
    pub fn new(config: Config) -> io::Result<Self> {
        let mut process = Process::new(config)?;
        process.settle_in();
        Ok(Self {
            process,
            numbers: Numbers::default(),
            waiting: Vec::new(),
            calls: 0,
            returning: Vec::new(),
            activity: 0,
            fruitless: 0,
        })
    }

    pub fn now(&self) -> Instant {
        self.process.now()
    }

    // ---- calls ---------------------------------------------------------------------------------------------------------------------

    /// Begins a call for this thread; what it returns, or its name if it waits.
    pub fn begin(&mut self, mut kind: Kind, thread: ThreadId) -> Result<Outcome, u64> {
        let effect = effect(&kind);
        self.numbers.translate(&mut kind);
        let mut call = Call::new(kind);
        let outcome = call.poll(&mut self.process);
        self.settle();
        if let Some(outcome) = outcome {
            return Ok(self.apply(effect, outcome));
        }
        self.calls += 1;
        self.waiting.push(Waiting {
            id: self.calls,
            thread,
            call,
            effect,
            outcome: None,
        });
        Err(self.calls)
    }

    /// What a call that waited returns; `None`: it still waits.
    pub fn end(&mut self, id: u64) -> Option<Outcome> {
        let is_over = |waiting: &Waiting| waiting.id == id && waiting.outcome.is_some();
        let at = self.waiting.iter().position(is_over)?;
        let Waiting {
            effect, outcome, ..
        } = self.waiting.swap_remove(at);
        outcome.map(|outcome| self.apply(effect, outcome))
    }

    /// Lets the calls that wait look, until none of them ends.
    fn settle(&mut self) {
        let mut over = true;
        while over {
            over = false;
            let open = self.waiting.iter_mut().filter(|w| w.outcome.is_none());
            for waiting in open {
                waiting.outcome = waiting.call.poll(&mut self.process);
                if waiting.outcome.is_some() {
                    self.returning.push(waiting.thread);
                    over = true;
                }
            }
        }
    }

    /// Descriptors become the tool's numbers.
    fn apply(&mut self, effect: Effect, outcome: Outcome) -> Outcome {
        let reply = outcome?;
        let mut give = |inner| self.numbers.give(inner).ok_or(Errno(EMFILE));
        match (effect, reply.pipe) {
            (Effect::Opens, _) => Ok(Reply {
                value: give(reply.value as i32)?.into(),
                ..reply
            }),
            (Effect::OpensPair, Some((reader, writer))) => Ok(Reply {
                pipe: Some((give(reader)?, give(writer)?)),
                ..reply
            }),
            (Effect::Closes(number), _) => {
                self.numbers.take_back(number);
                Ok(reply)
            }
            _ => Ok(reply),
        }
    }

    /// Whether the number is one of ours.
    pub fn knows(&self, number: i32) -> bool {
        self.numbers.contains(number)
    }

    /// The tool closes what is left.
    pub fn abandon(&mut self) {
        self.numbers.abandon();
    }

    // ---- time ----------------------------------------------------------------------------------------------------------------------

    /// Moves time on to the next moment at which something is due, at most to `end`; false: there is none.
    pub fn step(&mut self, end: Option<Instant>) -> bool {
        let calls = self.waiting.iter().filter(|w| w.outcome.is_none());
        let calls = calls.filter_map(|waiting| waiting.call.deadline());
        let Some(due) = calls.chain(self.process.next_deadline()).min() else {
            return false;
        };
        if end.is_some_and(|end| due > end) {
            return false;
        }
        // What is due in the past must not stop the clock.
        let due = due.max(self.now() + TICK);
        self.advance(end.map_or(due, |end| due.min(end)));
        true
    }

    /// Moves time on to `now`, at which nothing before is due.
    pub fn advance(&mut self, now: Instant) {
        self.process.advance(now);
        self.settle();
    }

    /// Time passes while the tool looks at the clock: it waits for the last moments in a loop.
    pub fn tick(&mut self) {
        self.advance(self.now() + TICK);
    }

    // ---- packets -------------------------------------------------------------------------------------------------------------------

    /// An IP packet arrives.
    pub fn deliver(&mut self, packet: &[u8]) {
        let ether_type = match packet.first().map(|byte| byte >> 4) {
            Some(6) => EtherType::IPV6,
            _ => EtherType::IPV4,
        };
        let mut frame = ethernet(PEER_MAC, OUR_MAC, ether_type);
        frame.extend_from_slice(packet);
        self.process.receive(&frame);
        self.settle();
    }

    /// The next IP packet that the stack sent, without its Ethernet header.
    pub fn pop_packet(&mut self) -> Option<Sent> {
        while let Some(Sent { at, frame }) = self.process.pop_sent() {
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

/// Neighbour and listener discovery of IPv6: the tool's link has none (RFC 4861 §4, RFC 3810 §5).
fn is_discovery(packet: &[u8]) -> bool {
    let icmp = packet.first().is_some_and(|byte| byte >> 4 == 6) && packet.get(6) == Some(&58);
    icmp && matches!(packet.get(40), Some(133..=137 | 143))
}

fn effect(kind: &Kind) -> Effect {
    match kind {
        Kind::Socket { .. } | Kind::Accept { .. } | Kind::EpollCreate { .. } => Effect::Opens,
        Kind::Pipe { .. } => Effect::OpensPair,
        Kind::Close { fd } => Effect::Closes(*fd),
        _ => Effect::None,
    }
}
