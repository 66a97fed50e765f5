//! The network: what it is made of.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use mtcp_core::{Command, Error, PortId, Reply, Token};
use wire::impair::Rng;
use wire::time::Instant;

use crate::app::{ListenPlan, LoadPlan, Plan};
use crate::calendar::Calendar;
use crate::end::{End, HostId, LinkId, PeerId, SwitchId};
use crate::failure::Failure;
use crate::host::{Host, HostConfig, Outgoing};
use crate::peer::{Peer, PeerConfig};
use crate::pipe::{Pipe, PipeConfig};
use crate::segment::Segment;
use crate::switch::Switch;
use crate::trace::Trace;

/// Steps that one run may take at most, unless [`Network::set_max_steps`] says otherwise.
const MAX_STEPS: u64 = 100_000_000;

/// A link, from the first end to the second and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LinkConfig {
    /// From the first end to the second.
    pub there: PipeConfig,
    /// From the second to the first.
    pub back: PipeConfig,
}

impl LinkConfig {
    /// Both directions alike (their random decisions differ).
    pub fn both(pipe: PipeConfig) -> Self {
        Self {
            there: pipe,
            back: pipe,
        }
    }
}

/// A direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From its first end to its second.
    There,
    /// From its second end to its first.
    Back,
}

/// Hosts, peers, switches and links in virtual time. See the crate.
#[derive(Debug)]
pub struct Network {
    pub(crate) seed: u64,
    pub(crate) now: Instant,
    pub(crate) rng: Rng,
    pub(crate) hosts: Vec<Host>,
    pub(crate) peers: Vec<Peer>,
    pub(crate) switches: Vec<Switch>,
    /// Two per link.
    pub(crate) pipes: Vec<Pipe>,
    pub(crate) due: Calendar,
    pub(crate) steps: u64,
    pub(crate) max_steps: u64,
    pub(crate) trace: Trace,
    /// Buffers to use again.
    pub(crate) spare: Vec<Vec<u8>>,
    pub(crate) outgoing: Vec<Outgoing>,
    reproduce: String,
}

impl Network {
    /// An empty network at time zero.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            now: Instant::ZERO,
            rng: Rng::new(seed),
            hosts: Vec::new(),
            peers: Vec::new(),
            switches: Vec::new(),
            pipes: Vec::new(),
            due: Calendar::default(),
            steps: 0,
            max_steps: MAX_STEPS,
            trace: Trace::new(seed),
            spare: Vec::new(),
            outgoing: Vec::new(),
            reproduce: format!("SIM_SEED={seed} SIM_TRACE=1 cargo test -p sim"),
        }
    }

    /// The command that failures name: how to run the same again.
    pub fn set_reproduce(&mut self, command: &str) {
        command.clone_into(&mut self.reproduce);
    }

    /// Steps that a run may take before it counts as a livelock.
    pub fn set_max_steps(&mut self, steps: u64) {
        self.max_steps = steps;
    }

    /// Writes every frame as text from now on.
    pub fn trace_to(&mut self, text: Box<dyn Write + Send>) {
        self.trace.write_to(text);
    }

    /// Begins at another time than zero, so that clocks wrap where they would after weeks. Only
    /// before anything happened.
    pub fn start_at(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// A host.
    ///
    /// # Errors
    /// Its configuration is wrong.
    pub fn add_host(&mut self, config: HostConfig) -> Result<HostId, Failure> {
        let rng = self.rng.split();
        let id = HostId(self.hosts.len());
        let host = Host::new(config, self.seed, rng)
            .map_err(|error| self.failure(format!("host {}: {error}", id.0)))?;
        self.hosts.push(host);
        if let Some(host) = self.hosts.last_mut() {
            host.kick(host.clock(self.now));
        }
        Ok(id)
    }

    /// A scripted peer.
    pub fn add_peer(&mut self, config: PeerConfig) -> PeerId {
        self.peers.push(Peer::new(config));
        PeerId(self.peers.len() - 1)
    }

    /// A learning switch.
    pub fn add_switch(&mut self) -> SwitchId {
        self.switches.push(Switch::default());
        SwitchId(self.switches.len() - 1)
    }

    /// A link between two ends. A port or peer has one link; a later one replaces it.
    pub fn link(&mut self, a: impl Into<End>, b: impl Into<End>, config: LinkConfig) -> LinkId {
        let (a, b) = (a.into(), b.into());
        let id = LinkId(self.pipes.len() / 2);
        for (pipe, from, to) in [(config.there, a, b), (config.back, b, a)] {
            let rng = self.rng.split();
            self.attach(from, self.pipes.len());
            self.pipes.push(Pipe::new(pipe, from, to, rng));
        }
        id
    }

    fn attach(&mut self, from: End, pipe: usize) {
        match from {
            End::Host(host, port) => {
                if let Some(host) = self.hosts.get_mut(host.0) {
                    host.connect_port(port, pipe);
                }
            }
            End::Peer(peer) => {
                if let Some(peer) = self.peers.get_mut(peer.0) {
                    peer.out = Some(pipe);
                }
            }
            End::Switch(switch) => {
                if let Some(switch) = self.switches.get_mut(switch.0) {
                    switch.add_port(pipe);
                }
            }
        }
    }

    /// One direction of a link.
    pub fn pipe_mut(&mut self, link: LinkId, direction: Direction) -> Option<&mut Pipe> {
        self.pipes.get_mut(2 * link.0 + direction as usize)
    }

    /// Changes both directions of a link, from now on.
    pub fn set_link(&mut self, link: LinkId, config: LinkConfig) {
        for (direction, pipe) in [
            (Direction::There, config.there),
            (Direction::Back, config.back),
        ] {
            if let Some(place) = self.pipe_mut(link, direction) {
                place.set_config(pipe);
            }
        }
    }

    /// Virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Steps taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// A hash over everything that went over the links, and when.
    pub fn trace_hash(&self) -> u64 {
        self.trace.hash()
    }

    /// A host.
    pub fn host(&self, host: HostId) -> Option<&Host> {
        self.hosts.get(host.0)
    }

    /// All hosts.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// A peer.
    pub fn peer_mut(&mut self, peer: PeerId) -> Option<&mut Peer> {
        self.peers.get_mut(peer.0)
    }

    /// Sends a segment from a peer.
    pub fn peer_send(&mut self, peer: PeerId, segment: &Segment) {
        if let Some(frame) = self.peers.get(peer.0).map(|peer| peer.frame(segment)) {
            self.peer_send_frame(peer, frame);
        }
    }

    /// Sends any bytes from a peer.
    pub fn peer_send_frame(&mut self, peer: PeerId, frame: Vec<u8>) {
        if let Some(pipe) = self.peers.get(peer.0).and_then(|peer| peer.out) {
            self.carry(pipe, frame.into());
        }
    }

    /// Lets a host listen; says where (the port if 0 was asked for).
    ///
    /// # Errors
    /// The stack refused.
    pub fn listen(&mut self, host: HostId, plan: ListenPlan) -> Result<SocketAddr, Failure> {
        self.with_host(host, |host, now| {
            let (apps, parts) = host.parts(now);
            apps.listen(parts, plan)
        })
    }

    /// Ends all listeners of a host.
    ///
    /// # Errors
    /// The stack refused.
    pub fn unlisten(&mut self, host: HostId) -> Result<(), Failure> {
        self.with_host(host, |host, now| {
            let (apps, parts) = host.parts(now);
            apps.unlisten(parts)
        })
    }

    /// Lets a host connect after a while.
    ///
    /// # Errors
    /// There is no such host.
    pub fn connect(
        &mut self,
        host: HostId,
        after: Duration,
        remote: SocketAddr,
        plan: Plan,
    ) -> Result<Token, Failure> {
        self.with_host(host, |host, now| {
            Ok(host.apps_mut().connect(now + after, remote, plan))
        })
    }

    /// Lets a host open many connections.
    ///
    /// # Errors
    /// There is no such host.
    pub fn load(&mut self, host: HostId, plan: LoadPlan) -> Result<(), Failure> {
        self.with_host(host, |host, now| {
            host.apps_mut().load(now, plan);
            Ok(())
        })
    }

    /// Carries out a command that no application knows of.
    ///
    /// # Errors
    /// The stack refused; `None`: there is no such host.
    pub fn execute(&mut self, host: HostId, command: Command) -> Result<Reply, Option<Error>> {
        let host = self.hosts.get_mut(host.0).ok_or(None)?;
        let now = host.clock(self.now);
        host.kick(now);
        let (_, parts) = host.parts(now);
        parts.stack.execute(now, command).map_err(Some)
    }

    /// Releases a stream that no application knows of.
    pub fn release(&mut self, host: HostId, slot: u32) {
        if let Some(host) = self.hosts.get_mut(host.0) {
            host.streams_mut().release(slot);
        }
    }

    /// Forgets the records of what is over, for long runs.
    pub fn clear_records(&mut self) {
        for host in &mut self.hosts {
            host.apps_mut().clear_records();
        }
    }

    fn with_host<T>(
        &mut self,
        id: HostId,
        act: impl FnOnce(&mut Host, Instant) -> Result<T, String>,
    ) -> Result<T, Failure> {
        let result = match self.hosts.get_mut(id.0) {
            Some(host) => {
                let now = host.clock(self.now);
                host.kick(now);
                act(host, now)
            }
            None => Err("there is no such host".to_owned()),
        };
        result.map_err(|what| self.failure(format!("host {}: {what}", id.0)))
    }

    /// Something is wrong now.
    pub fn failure(&self, what: String) -> Failure {
        Failure {
            seed: self.seed,
            at: self.now,
            step: self.steps,
            what,
            reproduce: self.reproduce.clone(),
            frames: self.trace.tail(),
        }
    }

    /// The hardware address of a host's port.
    pub fn mac(&self, host: HostId, port: PortId) -> Option<wire::frame::MacAddr> {
        Some(self.host(host)?.interface(port)?.mac)
    }
}
