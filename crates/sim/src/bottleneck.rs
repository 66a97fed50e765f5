//! Bulk flows over one link: how well they fill it, and how they share it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use mtcp_core::command::Options;
use mtcp_core::config::{CongestionControl, StaticNeighbour};
use mtcp_core::{Config, PortId};

use crate::app::{ListenPlan, Plan};
use crate::end::{End, HostId, LinkId};
use crate::failure::Failure;
use crate::host::{HostConfig, Style};
use crate::network::{Direction, LinkConfig, Network};
use crate::pipe::{PipeConfig, PipeStats};
use crate::scenario::{host_config, mac, v4};

/// Everybody sends to this host.
const RECEIVER: u8 = 200;
const PORT: u16 = 5001;
/// Bytes of one read of an application, and of one write: when buffers are short, little of it
/// fits, and all of it has been made.
const READ: u32 = 64 << 10;
const WRITE: u32 = 4 << 10;

/// A transfer that does not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flow {
    /// `None`: what the sender's configuration says.
    pub congestion: Option<CongestionControl>,
    /// When it begins.
    pub after: Duration,
}

/// What is to be run. The flows go from one to the other end of the link, or, from several senders,
/// through a switch in front of it.
#[derive(Clone, Debug)]
pub struct Bottleneck {
    /// Decides everything random.
    pub seed: u64,
    /// `there` carries the data.
    pub link: LinkConfig,
    /// All that send at the same time, spread over the senders.
    pub flows: Vec<Flow>,
    /// Hosts that send, 1 to 199.
    pub senders: u8,
    /// The stacks of all hosts, but for addresses and secrets.
    pub stack: Config,
    /// How all hosts are driven. A little latency, and clocks of their own, keep flows from
    /// marching in step, as they do on real machines.
    pub style: Style,
    /// Not measured.
    pub warm_up: Duration,
    /// Measured.
    pub time: Duration,
}

/// How it went, while it was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Bits per second that each application received.
    pub goodput: Vec<u64>,
    /// Bits per second of the link.
    pub rate: u64,
    /// What the link carried in the direction of the data.
    pub link: PipeStats,
    /// Segments sent again, from the first moment on.
    pub retransmits: u64,
    /// Retransmission time-outs, from the first moment on.
    pub timeouts: u64,
}

impl Shares {
    /// What all flows got together, as a share of the link.
    pub fn utilisation(&self) -> f64 {
        self.goodput.iter().sum::<u64>() as f64 / self.rate as f64
    }

    /// Jain's fairness index: 1 if all got the same, 1/n if one got everything.
    pub fn jain(&self) -> f64 {
        let shares = self.goodput.iter().map(|goodput| *goodput as f64);
        let (sum, squares) = shares.fold((0.0, 0.0), |(sum, squares), share| {
            (sum + share, squares + share * share)
        });
        sum * sum / (self.goodput.len() as f64 * squares)
    }

    /// Average time that a packet waited for the link.
    pub fn queue_delay(&self) -> Duration {
        let carried = self.link.frames - self.link.tail_dropped - self.link.too_big;
        self.link.waited / u32::try_from(carried.max(1)).unwrap_or(u32::MAX)
    }
}

impl Bottleneck {
    /// Alike flows from one sender each, with default settings, over a link of `rate` bits per
    /// second whose queue holds one bandwidth-delay product.
    pub fn new(rate: u64, round_trip: Duration, flows: &[Flow]) -> Self {
        let product = u128::from(rate) * round_trip.as_nanos() / 8_000_000_000;
        let there = PipeConfig {
            bits_per_second: Some(rate),
            queue_bytes: product as u64,
            delay: round_trip / 2,
            ..PipeConfig::default()
        };
        let back = PipeConfig {
            delay: round_trip / 2,
            ..PipeConfig::default()
        };
        let stack = Config {
            huge_pages: false,
            ..Config::default()
        };
        Self {
            seed: 1,
            link: LinkConfig { there, back },
            flows: flows.to_vec(),
            senders: flows.len().clamp(1, 8) as u8,
            stack,
            style: Style {
                latency: Duration::from_micros(20),
                ahead: Duration::from_millis(1),
                ..Style::default()
            },
            warm_up: Duration::ZERO,
            time: Duration::from_secs(60),
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// It cannot be built, or a host did something wrong.
    pub fn run(&self) -> Result<Shares, Failure> {
        let mut network = Network::new(self.seed);
        // It ends after a time.
        network.set_max_steps(1 << 40);
        let (senders, receiver, link) = self.hosts(&mut network)?;
        self.start(&mut network, &senders, receiver)?;
        network.run_for(self.warm_up)?;
        let before = received(&network, receiver);
        if let Some(pipe) = network.pipe_mut(link, Direction::There) {
            pipe.clear_stats();
        }
        network.run_for(self.time)?;
        network.check()?;
        let after = received(&network, receiver);
        Ok(self.shares(&mut network, link, |flow| {
            let at = |when: &BTreeMap<SocketAddr, u64>| when.get(&flow).copied().unwrap_or(0);
            at(&after) - at(&before)
        }))
    }

    fn hosts(&self, network: &mut Network) -> Result<(Vec<HostId>, HostId, LinkId), Failure> {
        let senders = (1..=self.senders).map(|index| network.add_host(self.host(index)));
        let senders = senders.collect::<Result<Vec<_>, _>>()?;
        let receiver = network.add_host(self.host(RECEIVER))?;
        let link = match senders[..] {
            [sender] => network.link(sender, receiver, self.link),
            _ => {
                let switch = network.add_switch();
                for sender in &senders {
                    network.link(*sender, switch, LinkConfig::default());
                }
                network.link(End::from(switch), receiver, self.link)
            }
        };
        Ok((senders, receiver, link))
    }

    fn host(&self, index: u8) -> HostConfig {
        let HostConfig { stack, .. } = host_config(index);
        let others = (1..=self.senders).chain([RECEIVER]);
        let neighbours = others.map(|other| StaticNeighbour {
            addr: v4(other),
            prefix_len: 32,
            mac: mac(other),
            port: PortId(0),
        });
        HostConfig {
            stack: Config {
                interfaces: stack.interfaces,
                secret: stack.secret,
                neighbours: neighbours.collect(),
                ..self.stack.clone()
            },
            style: self.style,
            answers_syns: false,
        }
    }

    fn start(
        &self,
        network: &mut Network,
        senders: &[HostId],
        receiver: HostId,
    ) -> Result<(), Failure> {
        let remote = SocketAddr::new(v4(RECEIVER), PORT);
        let plan = Plan {
            expect: crate::Expect::Anything,
            write_size: (WRITE, WRITE),
            read_size: (READ, READ),
            ..Plan::default()
        };
        let listen = ListenPlan {
            backlog: self.flows.len() as u32,
            ..ListenPlan::new(remote, plan.ends(crate::Ending::AfterEof))
        };
        network.listen(receiver, listen)?;
        for (flow, sender) in self.flows.iter().zip(senders.iter().cycle()) {
            let options = Options {
                congestion: flow.congestion,
                ..Options::default()
            };
            let plan = Plan { options, ..plan };
            network.connect(*sender, flow.after, remote, plan.sends(u64::MAX))?;
        }
        Ok(())
    }

    fn shares(
        &self,
        network: &mut Network,
        link: LinkId,
        received: impl Fn(SocketAddr) -> u64,
    ) -> Shares {
        let hosts = || network.hosts().iter();
        let flows = hosts().flat_map(|host| host.apps().open_records());
        let active = flows.filter(|flow| flow.active);
        let bits = |bytes: u64| (u128::from(bytes) * 8_000_000_000 / self.time.as_nanos()) as u64;
        let goodput = active.map(|flow| bits(received(flow.local))).collect();
        let counters = || hosts().map(|host| host.stack().counters());
        let (retransmits, timeouts) = (
            counters().map(|counters| counters.retransmits).sum(),
            counters().map(|counters| counters.timeouts).sum(),
        );
        let pipe = network.pipe_mut(link, Direction::There);
        Shares {
            goodput,
            rate: self.link.there.bits_per_second.unwrap_or(0),
            link: pipe.map(|pipe| pipe.stats()).unwrap_or_default(),
            retransmits,
            timeouts,
        }
    }
}

/// What the receiver got so far, by sender.
fn received(network: &Network, receiver: HostId) -> BTreeMap<SocketAddr, u64> {
    let host = network.host(receiver);
    let records = host.into_iter().flat_map(|host| host.apps().open_records());
    records
        .map(|record| (record.remote, record.received))
        .collect()
}
