//! A host: a stack, its ports, its applications, and the loop that drives them.

mod answer;
mod replace;

use std::collections::VecDeque;
use std::time::Duration;

use mtcp_core::config::Interface;
use mtcp_core::{AppStreams, Config, PortId, Stack};
use wire::frame::{BURST, RxFrame, RxMeta};
use wire::impair::Rng;
use wire::time::Instant;

use crate::app::{Apps, HostParts};
use crate::check;
use crate::frame::Frame;
use crate::sink::Tx;
use answer::Answerer;

/// How a host is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Applications react to events before the stack transmits, so that ACKs ride on their data.
    pub eager: bool,
    /// Longest time between the arrival of a frame, or the moment of a timer, and the turn that
    /// takes it: what makes bursts. Without it the timers of all hosts fire at the same moments,
    /// and the first host has what room there is in a full queue.
    pub latency: Duration,
    /// How far the host's clock is ahead of the network's at most. Without it the timers of all
    /// hosts, which are in whole milliseconds, fire at the beginning of each together: what one
    /// sends again meets in a full queue what others send again, each time anew.
    pub ahead: Duration,
    /// Fewest and most frames that one turn can send; what is left waits for the next.
    pub tx_slots: (u64, u64),
    /// The links carry frames in memory: checksums that the stack leaves to them are not computed,
    /// and trusted. Not for links that corrupt.
    pub trust_checksums: bool,
    /// Longest time until the stack is saved and another goes on in its place, as when a program is
    /// replaced; zero: never. Its link does not answer SYNs then.
    pub replaced: Duration,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            eager: false,
            latency: Duration::ZERO,
            ahead: Duration::ZERO,
            tx_slots: (1024, 1024),
            trust_checksums: false,
            replaced: Duration::ZERO,
        }
    }
}

/// What a host is made of.
#[derive(Clone, Debug, Default)]
pub struct HostConfig {
    /// Its stack.
    pub stack: Config,
    /// How it is driven.
    pub style: Style,
    /// Its link answers SYNs over IPv4 where they arrive ([`wire::syn_offload`]), if the stack can
    /// have that.
    pub answers_syns: bool,
}

#[derive(Debug)]
struct Port {
    interface: Interface,
    /// The pipe that leads away from it.
    out: Option<usize>,
    received: VecDeque<Received>,
}

#[derive(Debug)]
struct Received {
    frame: Frame,
    /// It is a SYN that the link has answered.
    answered: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Host {
    stack: Stack,
    streams: AppStreams,
    apps: Apps,
    answerer: Option<Answerer>,
    config: Config,
    style: Style,
    ports: Vec<Port>,
    rng: Rng,
    /// How far its clock is ahead of the network's.
    ahead: Duration,
    /// A turn is due then.
    turn_at: Option<Instant>,
    /// How late the next turn for a timer is.
    late: Duration,
    /// The last turn, and how many there have been in a row without time passing.
    last_turn: Instant,
    spins: u32,
    turns: u64,
    /// Another stack takes the place of this one then, and how many have.
    replace_at: Option<Instant>,
    replaced: u64,
}

/// A frame that a host sends, and the pipe that it takes.
pub(crate) type Outgoing = (usize, PortId, Frame);

/// Turns in a row without time passing: a livelock.
const MAX_SPINS: u32 = 20_000;
/// Connections that are checked per turn, on average.
const CHECKED_PER_TURN: u64 = 4;
/// Time between two turns of a busy host.
const BUSY: Duration = Duration::from_micros(1);

impl Host {
    pub(crate) fn new(config: HostConfig, seed: u64, mut rng: Rng) -> std::io::Result<Self> {
        let HostConfig {
            stack: config,
            style,
            answers_syns,
        } = config;
        let interfaces = config.interfaces.iter().cloned();
        let ports = interfaces.map(|interface| Port {
            interface,
            out: None,
            received: VecDeque::new(),
        });
        let ports = ports.collect();
        let (mut stack, streams) = Stack::new(config.clone())?;
        let answers_syns = answers_syns && style.replaced.is_zero();
        let answerer = answers_syns.then(|| Answerer::of(&mut stack)).flatten();
        let ahead = match style.ahead {
            Duration::ZERO => Duration::ZERO,
            most => rng.duration_up_to(most),
        };
        Ok(Self {
            ahead,
            stack,
            streams,
            apps: Apps::new(seed, rng.split()),
            answerer,
            config,
            style,
            ports,
            rng,
            turn_at: None,
            late: Duration::ZERO,
            last_turn: Instant::ZERO,
            spins: 0,
            turns: 0,
            replace_at: (!style.replaced.is_zero()).then_some(Instant::ZERO),
            replaced: 0,
        })
    }

    /// The stack.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The application's end of the byte streams.
    pub fn streams(&self) -> &AppStreams {
        &self.streams
    }

    /// The applications.
    pub fn apps(&self) -> &Apps {
        &self.apps
    }

    /// As it was made.
    pub fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn apps_mut(&mut self) -> &mut Apps {
        &mut self.apps
    }

    pub(crate) fn streams_mut(&mut self) -> &mut AppStreams {
        &mut self.streams
    }

    pub(crate) fn interface(&self, port: PortId) -> Option<&Interface> {
        self.ports
            .get(usize::from(port.0))
            .map(|port| &port.interface)
    }

    pub(crate) fn connect_port(&mut self, port: PortId, out: usize) {
        if let Some(port) = self.ports.get_mut(usize::from(port.0)) {
            port.out = Some(out);
        }
    }

    pub(crate) fn parts(&mut self, now: Instant) -> (&mut Apps, HostParts<'_>) {
        let parts = HostParts {
            now,
            stack: &mut self.stack,
            streams: &mut self.streams,
        };
        (&mut self.apps, parts)
    }

    /// The time on its clock when it is `now` on the network's. All other times that it is told are
    /// of its clock.
    pub(crate) fn clock(&self, now: Instant) -> Instant {
        now + self.ahead
    }

    /// Makes sure that a turn comes soon.
    pub(crate) fn kick(&mut self, now: Instant) {
        self.turn_by(now);
    }

    fn turn_by(&mut self, at: Instant) {
        self.turn_at = Some(self.turn_at.map_or(at, |turn| turn.min(at)));
    }

    /// A frame arrived on a port. Returns what the link answers at once.
    pub(crate) fn deliver(&mut self, now: Instant, id: PortId, frame: Frame) -> Option<Outgoing> {
        let latency = self.rng.duration_up_to(self.style.latency);
        let port = self.ports.get_mut(usize::from(id.0))?;
        let answerer = self.answerer.as_ref();
        let answer = answerer.and_then(|answerer| answerer.answer(now, port.interface.mac, &frame));
        let answered = answer.is_some();
        port.received.push_back(Received { frame, answered });
        let out = port.out;
        self.turn_by(now + latency);
        Some((out?, id, answer?))
    }

    /// When it wants a turn, on the network's clock.
    pub(crate) fn next_turn(&self) -> Option<Instant> {
        let wakes = [
            self.turn_at,
            self.stack.next_deadline().map(|at| at + self.late),
            self.apps.next_wake(),
        ];
        let wake = wakes.into_iter().flatten().min()?;
        Some(Instant::ZERO + wake.since(self.clock(Instant::ZERO)))
    }

    /// One turn of the loop: receive, applications if they are eager, time, transmit, applications.
    pub(crate) fn turn(
        &mut self,
        now: Instant,
        spare: &mut Vec<Vec<u8>>,
        out: &mut Vec<Outgoing>,
    ) -> Result<(), String> {
        self.turn_at = None;
        self.late = self.rng.duration_up_to(self.style.latency);
        self.turns += 1;
        if let Some(answerer) = &mut self.answerer {
            answerer.set_clock(now);
        }
        self.count_spins(now)?;
        self.replace_if_due(now)?;
        self.receive(now, spare);
        if self.style.eager {
            let (apps, parts) = self.parts(now);
            apps.turn(parts)?;
        }
        self.stack.advance(now);
        let full = self.transmit(now, spare, out)?;
        let (apps, parts) = self.parts(now);
        let busy = apps.turn(parts)?;
        let waiting = self.ports.iter().any(|port| !port.received.is_empty());
        // What the applications just asked for: a RST, say.
        let more = (0..self.ports.len()).any(|port| self.stack.has_output(PortId(port as u8)));
        if busy || full || waiting || more {
            self.turn_by(now + BUSY);
        }
        self.check(now)
    }

    fn count_spins(&mut self, now: Instant) -> Result<(), String> {
        self.spins = if now == self.last_turn {
            self.spins + 1
        } else {
            0
        };
        self.last_turn = now;
        if self.spins > MAX_SPINS {
            let deadline = self.stack.next_deadline();
            return Err(format!(
                "livelock: {MAX_SPINS} turns and no time passes; the stack wants {deadline:?}"
            ));
        }
        Ok(())
    }

    fn receive(&mut self, now: Instant, spare: &mut Vec<Vec<u8>>) {
        for (index, port) in self.ports.iter_mut().enumerate() {
            let burst = port.received.len().min(BURST);
            let frames: Vec<RxFrame<'_>> = port.received.iter().take(burst).map(rx_frame).collect();
            if !frames.is_empty() {
                self.stack.receive(now, PortId(index as u8), &frames);
            }
            let received = port.received.drain(..burst);
            spare.extend(received.map(|received| received.frame.bytes));
        }
    }

    /// True if a sink was full.
    fn transmit(
        &mut self,
        now: Instant,
        spare: &mut Vec<Vec<u8>>,
        out: &mut Vec<Outgoing>,
    ) -> Result<bool, String> {
        let mut full = false;
        for index in 0..self.ports.len() {
            let Some(port) = self.ports.get(index) else {
                break;
            };
            let id = PortId(index as u8);
            let mut frames = Vec::new();
            let mut sink = Tx {
                out: &mut frames,
                spare,
                slots: self
                    .rng
                    .between(self.style.tx_slots.0.max(1), self.style.tx_slots.1),
                mtu: port.interface.capabilities.mtu,
                trust: self.style.trust_checksums,
                full: false,
                problem: None,
            };
            self.stack.transmit(now, id, &mut sink);
            let (was_full, problem) = (sink.full, sink.problem.take());
            problem.map_or(Ok(()), Err)?;
            full |= was_full;
            if !was_full && self.stack.has_output(id) {
                return Err("transmit left output although the sink had room".to_owned());
            }
            for frame in frames {
                check::frame(&frame, &port.interface)?;
                match port.out {
                    Some(pipe) => out.push((pipe, id, frame)),
                    None => spare.push(frame.bytes),
                }
            }
        }
        Ok(full)
    }

    fn check(&mut self, now: Instant) -> Result<(), String> {
        // After every turn where that costs little: a check looks at each connection.
        let every = (self.apps.live() as u64 / CHECKED_PER_TURN).max(1);
        if self.turns.is_multiple_of(every) {
            self.check_all(now)?;
        }
        Ok(())
    }

    /// All invariants, at whatever cost.
    pub(crate) fn check_all(&mut self, now: Instant) -> Result<(), String> {
        check::usage(&self.stack.usage(), &self.config)?;
        if let Some(answerer) = &self.answerer {
            check::known_flows(&self.stack.usage(), answerer.flows())?;
        }
        let ids: Vec<_> = self.apps.open_ids().collect();
        check::accounts(&self.stack.usage(), &self.streams, &ids)?;
        for id in ids {
            check::connection(now, &mut self.stack, &self.streams, &self.config, id)?;
        }
        let (apps, parts) = self.parts(now);
        apps.check(&parts)
    }
}

fn rx_frame(received: &Received) -> RxFrame<'_> {
    let Received { frame, answered } = received;
    RxFrame {
        bytes: &frame.bytes,
        meta: RxMeta {
            checksum: frame.checksum,
            answered: *answered,
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn host(ahead: Duration, seed: u64) -> Host {
        let mut config = crate::scenario::host_config(1);
        config.style.ahead = ahead;
        Host::new(config, seed, Rng::new(seed)).unwrap()
    }

    #[test]
    fn hosts_have_clocks_of_their_own_and_ask_in_the_networks_time() {
        let most = Duration::from_millis(1);
        let mut hosts = [host(most, 1), host(most, 2)];
        let now = Instant::from_micros(1);
        let clocks = hosts.each_ref().map(|host| host.clock(now).since(now));
        assert!(clocks[0] != clocks[1] && clocks[0].max(clocks[1]) <= most);
        for host in &mut hosts {
            let first = host.clock(Instant::ZERO);
            host.turn(first, &mut Vec::new(), &mut Vec::new()).unwrap();
            host.kick(host.clock(now));
            assert_eq!(host.next_turn(), Some(now));
        }
        assert_eq!(host(Duration::ZERO, 1).clock(now), now);
    }
}
