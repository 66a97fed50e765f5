//! Two hosts, a bad link, and connections between them: everything drawn from one seed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use mtcp_core::command::{Keepalive, Options};
use mtcp_core::config::{Address, Interface, StaticNeighbour};
use mtcp_core::{Config, PortId};
use wire::frame::{Capabilities, MacAddr};
use wire::impair::{Impairments, Rng};
use wire::time::Instant;

use crate::app::{Ending, Expect, ListenPlan, Plan, Record};
use crate::end::HostId;
use crate::failure::Failure;
use crate::host::{HostConfig, Style};
use crate::network::{LinkConfig, Network};
use crate::pipe::PipeConfig;
use crate::random::{magnitude, percent, pick};

/// The longest that a scenario may take, in virtual time.
const LIMIT: Duration = Duration::from_secs(24 * 3600);
/// Both hosts listen from this port on.
const FIRST_PORT: u16 = 1000;

/// The hardware address of host `index`.
pub const fn mac(index: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, index])
}

/// The IPv4 address of host `index`; all are in one /16.
pub const fn v4(index: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, index))
}

/// The IPv6 address of host `index`; all are in one /64.
pub const fn v6(index: u8) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, index as u16))
}

/// Host `index` with an address of each family, small tables, and a fixed secret.
pub fn host_config(index: u8) -> HostConfig {
    let address = |addr, prefix_len| Address { addr, prefix_len };
    let interface = Interface {
        mac: mac(index),
        capabilities: Capabilities {
            mtu: 1500,
            queues: 1,
            tx_checksum: true,
        },
        addresses: vec![address(v4(index), 16), address(v6(index), 64)],
    };
    let stack = Config {
        interfaces: vec![interface],
        secret: [index; 32],
        max_connections: 64,
        max_half_open: 64,
        max_time_wait: 256,
        recv_pool: 32 << 20,
        send_pool: 32 << 20,
        recv_buffer: 256 << 10,
        send_buffer: 256 << 10,
        max_buffer: 4 << 20,
        max_neighbours: 64,
        huge_pages: false,
        ..Config::default()
    };
    HostConfig {
        stack,
        style: Style::default(),
    }
}

/// One connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Talk {
    /// Which of the two hosts opens it.
    pub opener: usize,
    /// When.
    pub after: Duration,
    /// Where the other listens.
    pub remote: SocketAddr,
    /// What the opener does.
    pub client: Plan,
    /// What the other does.
    pub server: Plan,
}

/// See the module. `Scenario::new(seed)` draws one; change what you like before `run`.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Where all of it comes from.
    pub seed: u64,
    /// When the clock starts.
    pub start: Instant,
    /// The two hosts.
    pub hosts: [HostConfig; 2],
    /// The link between them.
    pub link: LinkConfig,
    /// The link is down from then on, for that long.
    pub outage: Option<(Duration, Duration)>,
    /// The connections.
    pub talks: Vec<Talk>,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Summary {
    pub connections: usize,
    pub bytes: u64,
    pub frames: u64,
    pub retransmits: u64,
    pub steps: u64,
    /// Virtual time.
    pub took: Duration,
    pub trace_hash: u64,
}

impl Scenario {
    /// Draws a scenario.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let rng = &mut rng;
        let is_v6 = percent(rng, 50);
        let link = LinkConfig {
            there: pipe(rng),
            back: pipe(rng),
        };
        let hosts = [host(rng, 1, is_v6), host(rng, 2, is_v6)];
        let connections = rng.between(1, 4) as u16;
        let budget = bytes_for(&link);
        let talks = (0..connections)
            .map(|index| talk(rng, index, is_v6, budget))
            .collect();
        let mut scenario = Self {
            seed,
            start: start(rng),
            hosts,
            link,
            outage: percent(rng, 20).then(|| {
                let at = Duration::from_millis(rng.between(1, 5_000));
                (at, Duration::from_millis(rng.between(10, 20_000)))
            }),
            talks,
        };
        if percent(rng, 30) {
            scenario.fix_neighbours();
        }
        let corrupts = [&link.there, &link.back]
            .iter()
            .any(|pipe| pipe.impairments.corrupt_ppm > 0);
        for host in &mut scenario.hosts {
            host.style.trust_checksums = !corrupts && percent(rng, 50);
        }
        scenario
    }

    /// Neighbours are configured, not asked for.
    pub fn fix_neighbours(&mut self) {
        for (host, other) in self.hosts.iter_mut().zip([2, 1]) {
            host.stack.neighbours = [(v4(other), 32), (v6(other), 128)]
                .map(|(addr, prefix_len)| StaticNeighbour {
                    addr,
                    prefix_len,
                    mac: mac(other),
                    port: PortId(0),
                })
                .to_vec();
        }
    }

    /// The network, with everything about to begin.
    ///
    /// # Errors
    /// The scenario makes no sense.
    pub fn build(&self) -> Result<Network, Failure> {
        let mut network = Network::new(self.seed);
        let seed = self.seed;
        network.set_reproduce(&format!(
            "SIM_SEED={seed} SIM_TRACE=1 cargo test -p sim --test seeds -- --nocapture"
        ));
        network.start_at(self.start);
        let [a, b] = &self.hosts;
        let ends = [network.add_host(a.clone())?, network.add_host(b.clone())?];
        network.link(ends[0], ends[1], self.link);
        for talk in &self.talks {
            let [opener, other] = if talk.opener == 0 {
                ends
            } else {
                [ends[1], ends[0]]
            };
            network.listen(other, ListenPlan::new(talk.remote, talk.server))?;
            network.connect(opener, talk.after, talk.remote, talk.client)?;
        }
        Ok(network)
    }

    /// Runs it to the end and checks everything.
    ///
    /// # Errors
    /// Something is not as it should be.
    pub fn run(&self, mut network: Network) -> Result<Summary, Failure> {
        if let Some((at, how_long)) = self.outage {
            network.run_for(at)?;
            self.set_down(&mut network, true);
            network.run_for(how_long)?;
            self.set_down(&mut network, false);
        }
        network.run_idle(LIMIT)?;
        network.check()?;
        network.check_empty()?;
        network.check_pairs()?;
        self.check_records(&network)?;
        Ok(self.summary(&network))
    }

    fn set_down(&self, network: &mut Network, down: bool) {
        let mut link = self.link;
        link.there.down = down;
        link.back.down = down;
        network.set_link(crate::LinkId(0), link);
    }

    /// Each end of each connection sent and received what it should, without an error.
    fn check_records(&self, network: &Network) -> Result<(), Failure> {
        for talk in &self.talks {
            for (host, active) in [(talk.opener, true), (1 - talk.opener, false)] {
                self.check_end(network, talk, HostId(host), active)?;
            }
        }
        Ok(())
    }

    fn check_end(
        &self,
        network: &Network,
        talk: &Talk,
        host: HostId,
        active: bool,
    ) -> Result<(), Failure> {
        let port = |record: &Record| {
            if active {
                record.remote.port()
            } else {
                record.local.port()
            }
        };
        let records = network
            .host(host)
            .map(|host| host.apps().records())
            .unwrap_or_default();
        let mine = |record: &&Record| record.active == active && port(record) == talk.remote.port();
        let (send, receive) = talk.bytes(active);
        match records.iter().filter(mine).collect::<Vec<_>>()[..] {
            [one]
                if one.error.is_none()
                    && !one.aborted
                    && (one.sent, one.received) == (send, receive) =>
            {
                Ok(())
            }
            ref other => {
                let what = format!(
                    "host {} should have sent {send} and received {receive}, but {other:?}; {talk:?}",
                    host.0
                );
                Err(network.failure(what))
            }
        }
    }

    fn summary(&self, network: &Network) -> Summary {
        let records = || {
            network
                .hosts()
                .iter()
                .flat_map(|host| host.apps().records())
        };
        let counters = || network.hosts().iter().map(|host| host.stack().counters());
        Summary {
            connections: records().count() / 2,
            bytes: records().map(|record| record.received).sum(),
            frames: counters().map(|counters| counters.frames_out).sum(),
            retransmits: counters().map(|counters| counters.retransmits).sum(),
            steps: network.steps(),
            took: network.now().since(self.start),
            trace_hash: network.trace_hash(),
        }
    }
}

impl Talk {
    /// What one end sends and receives.
    fn bytes(&self, active: bool) -> (u64, u64) {
        let client = self.client.send.0;
        let server = match self.server.content {
            crate::Content::Echo => client,
            crate::Content::Pattern => self.server.send.0,
        };
        if active {
            (client, server)
        } else {
            (server, client)
        }
    }
}

/// A time at which clocks of fewer bits are about to wrap, or not.
fn start(rng: &mut Rng) -> Instant {
    let before = Duration::from_millis(rng.between(0, 30_000));
    let wrap = pick(rng, &[0, 1, 1_000_000, u64::from(u32::MAX), 1 << 33]).unwrap_or(0);
    let nanos = Duration::from_millis(wrap)
        .saturating_sub(before)
        .as_nanos();
    let micros_wrap = percent(rng, 20)
        .then(|| Instant::from_micros((1u64 << 32).saturating_sub(before.as_micros() as u64)));
    micros_wrap.unwrap_or(Instant::from_nanos(nanos as u64))
}

fn pipe(rng: &mut Rng) -> PipeConfig {
    let loss = pick(rng, &[0, 10_000, 50_000, 100_000, 200_000]).unwrap_or(0);
    let upto = |rng: &mut Rng, most| {
        if percent(rng, 50) {
            rng.below(most) as u32
        } else {
            0
        }
    };
    let bits_per_second = percent(rng, 50).then(|| magnitude(rng, 1_000_000, 1_000_000_000));
    PipeConfig {
        impairments: Impairments {
            loss_ppm: loss,
            duplicate_ppm: upto(rng, 100_000),
            reorder_ppm: upto(rng, 200_000),
            corrupt_ppm: upto(rng, 50_000),
            delay: Duration::ZERO,
            jitter: Duration::from_micros(u64::from(upto(rng, 20_000))),
            seed: rng.next_u64(),
        },
        bits_per_second,
        queue_bytes: magnitude(rng, 20_000, 1_000_000),
        delay: Duration::from_micros(magnitude(rng, 1, 200_000)),
        ..PipeConfig::default()
    }
}

/// Bytes that may be sent in all over a good link.
const EASY: u64 = 4 << 20;

/// How much may be sent in all, so that a bad link does not take for ever.
fn bytes_for(link: &LinkConfig) -> u64 {
    let bad = |pipe: &PipeConfig| pipe.impairments.loss_ppm + pipe.impairments.corrupt_ppm;
    match bad(&link.there).max(bad(&link.back)) {
        0..=20_000 => EASY,
        20_001..=80_000 => 1 << 20,
        _ => 256 << 10,
    }
}

fn host(rng: &mut Rng, index: u8, is_v6: bool) -> HostConfig {
    let mut config = host_config(index);
    let stack = &mut config.stack;
    let least = if is_v6 { 1280 } else { 576 };
    let mtus = [
        least,
        1500,
        1500,
        9000,
        rng.between(least.into(), 9000) as u16,
    ];
    for interface in &mut stack.interfaces {
        interface.capabilities.mtu = pick(rng, &mtus).unwrap_or(1500);
        interface.capabilities.tx_checksum = percent(rng, 50);
        interface
            .addresses
            .retain(|address| address.addr.is_ipv6() == is_v6);
    }
    stack.timestamps = percent(rng, 70);
    stack.window_scaling = percent(rng, 70);
    stack.secret = std::array::from_fn(|_| rng.next_u32() as u8);
    stack.recv_buffer = magnitude(rng, 2048, 1 << 20) as u32;
    stack.send_buffer = magnitude(rng, 2048, 1 << 20) as u32;
    // A connection must survive what the worst link does: 16 losses in a row happen.
    stack.data_retries = 40;
    stack.orphan_retries = 200;
    stack.syn_retries = 30;
    stack.syn_ack_retries = 30;
    stack.delayed_ack = Duration::from_millis(rng.between(1, 400));
    stack.initial_window = rng.between(1, 10) as u8;
    if percent(rng, 20) {
        stack.recv_pool = 2 << 20;
        stack.send_pool = 2 << 20;
    }
    config.style = style(rng);
    config
}

fn style(rng: &mut Rng) -> Style {
    let latency = if percent(rng, 60) { rng.below(200) } else { 0 };
    Style {
        eager: percent(rng, 50),
        latency: Duration::from_micros(latency),
        tx_slots: pick(rng, &[(1, 1), (1, 8), (64, 64), (1024, 1024)]).unwrap_or((1, 1)),
        trust_checksums: false,
    }
}

fn talk(rng: &mut Rng, index: u16, is_v6: bool, budget: u64) -> Talk {
    let opener = rng.below(2) as usize;
    let other = if opener == 0 { 2 } else { 1 };
    let addr = if is_v6 { v6(other) } else { v4(other) };
    let (mut client, mut server) = (plan(rng, budget), plan(rng, budget));
    client.tries = 1000;
    endings(rng, &mut client, &mut server);
    client.linger = percent(rng, 40);
    server.linger = percent(rng, 40);
    Talk {
        opener,
        after: Duration::from_micros(magnitude(rng, 1, 3_000_000)),
        remote: SocketAddr::new(addr, FIRST_PORT + index),
        client,
        server,
    }
}

fn plan(rng: &mut Rng, budget: u64) -> Plan {
    let size = |rng: &mut Rng| {
        let most = magnitude(rng, 1, 64 << 10) as u32;
        (rng.between(1, most.into()) as u32, most)
    };
    let (write_size, read_size) = (size(rng), size(rng));
    let sends = if percent(rng, 10) {
        0
    } else {
        magnitude(rng, 1, budget)
    };
    // Pauses are per operation; tiny operations with long pauses would take hours.
    let pause = |rng: &mut Rng, most: u32| {
        let operations = (budget / u64::from(most.max(1))).max(1);
        let longest = (60_000_000 / operations).min(100_000);
        let used = percent(rng, 30) && longest > 10;
        Duration::from_micros(if used { rng.between(1, longest) } else { 0 })
    };
    Plan {
        write_size,
        read_size,
        write_pause: pause(rng, write_size.1),
        read_pause: pause(rng, read_size.1),
        first_read: Duration::from_millis(if percent(rng, 15) {
            rng.between(1, 20_000)
        } else {
            0
        }),
        options: options(rng),
        ..Plan::default().sends(sends)
    }
}

fn options(rng: &mut Rng) -> Options {
    let keepalive = Keepalive {
        idle: Duration::from_secs(5),
        interval: Duration::from_secs(5),
        count: 100,
    };
    Options {
        nodelay: percent(rng, 50),
        keepalive: percent(rng, 10).then_some(keepalive),
        recv_buffer: percent(rng, 20).then(|| magnitude(rng, 2048, 1 << 20) as u32),
        send_buffer: percent(rng, 20).then(|| magnitude(rng, 2048, 1 << 20) as u32),
        max_segment: percent(rng, 10).then(|| rng.between(88, 9000) as u16),
        ..Options::default()
    }
}

/// Who ends first, and how; without anyone waiting for the other for ever.
fn endings(rng: &mut Rng, client: &mut Plan, server: &mut Plan) {
    let hold = Ending::Hold(Duration::from_millis(rng.between(1, 120_000)));
    let all = Ending::AfterBytes;
    let pairs = [
        (Ending::HalfClose, Ending::HalfClose),
        (Ending::HalfClose, Ending::AfterEof),
        (Ending::AfterEof, Ending::HalfClose),
        (Ending::AfterEof, hold),
        (all(server.send.0), all(client.send.0)),
        (all(server.send.0), Ending::AfterEof),
    ];
    let index = rng.below(pairs.len() as u64 + 1) as usize;
    match pairs.get(index) {
        Some(&(first, second)) => {
            client.ending = first;
            server.ending = second;
        }
        None => {
            client.expect = Expect::Echo;
            *server = Plan {
                linger: server.linger,
                write_size: server.write_size,
                read_size: server.read_size,
                options: server.options,
                ..Plan::echo()
            };
        }
    }
}
