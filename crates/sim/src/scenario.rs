//! Two hosts, a bad link, and connections between them: everything drawn from one seed.

mod crowd;
mod draw;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use mtcp_core::config::{Address, Interface, StaticNeighbour};
use mtcp_core::{Config, Error, PortId};
use wire::frame::{Capabilities, MacAddr};
use wire::time::Instant;

use crate::app::{ListenPlan, LoadPlan, Plan, Record};
use crate::end::HostId;
use crate::failure::Failure;
use crate::host::{Host, HostConfig, Style};
use crate::network::{LinkConfig, Network};

/// The longest that a scenario may take, in virtual time.
const LIMIT: Duration = Duration::from_secs(24 * 3600);

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
            tx_gso: 0,
            loops: false,
        },
        addresses: vec![address(v4(index), 16), address(v6(index), 64)],
    };
    let stack = Config {
        max_resident: 0,
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
        answers_syns: false,
    }
}

/// One connection, or several alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Talk {
    /// Which of the two hosts opens it.
    pub opener: usize,
    /// When. Several: the longest pause before each.
    pub after: Duration,
    /// So many,
    pub times: u64,
    /// of which no more at a time.
    pub at_once: u64,
    /// Where the other listens.
    pub remote: SocketAddr,
    /// What the opener does.
    pub client: Plan,
    /// What the other does.
    pub server: Plan,
    /// An end may give up: then what arrives is right, but it need not be all, and the other end
    /// may see an error.
    pub may_fail: bool,
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
    pub connections: u64,
    pub bytes: u64,
    pub frames: u64,
    pub retransmits: u64,
    /// By links.
    pub answered_syns: u64,
    /// Stacks that another took the place of.
    pub replaced: u64,
    pub steps: u64,
    /// Virtual time.
    pub took: Duration,
    pub trace_hash: u64,
}

impl Scenario {
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
            talk.open(&mut network, opener)?;
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
        for talk in self.talks.iter().filter(|talk| !talk.may_fail) {
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
        let records: Vec<_> = records.iter().filter(mine).collect();
        let (send, receive) = talk.bytes(active);
        // The last ACK may be lost for longer than the peer is in TIME_WAIT. An end that closed
        // second then hears a RST, and cannot know that all has arrived; whether it has is asked of
        // the other end.
        let is_over = |one: &Record| match one.error {
            None => true,
            Some(error) => error == Error::Reset && one.eof,
        };
        let is_right = |one: &Record| {
            is_over(one) && !one.aborted && (one.sent, one.received) == (send, receive)
        };
        let wrong: Vec<_> = records.iter().filter(|one| !is_right(one)).collect();
        if records.len() as u64 == talk.times && wrong.is_empty() {
            return Ok(());
        }
        let what = format!(
            "host {} should have sent {send} and received {receive}, but of {} connections {wrong:?}; {talk:?}",
            host.0,
            records.len()
        );
        Err(network.failure(what))
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
            connections: self.talks.iter().map(|talk| talk.times).sum(),
            bytes: records().map(|record| record.received).sum(),
            frames: counters().map(|counters| counters.frames_out).sum(),
            retransmits: counters().map(|counters| counters.retransmits).sum(),
            answered_syns: counters()
                .map(|counters| counters.syns_answered_by_link)
                .sum(),
            replaced: network.hosts().iter().map(Host::replaced).sum(),
            steps: network.steps(),
            took: network.now().since(self.start),
            trace_hash: network.trace_hash(),
        }
    }
}

impl Talk {
    fn open(&self, network: &mut Network, opener: HostId) -> Result<(), Failure> {
        let (remote, plan) = (self.remote, self.client);
        if self.times == 1 {
            return network.connect(opener, self.after, remote, plan).map(drop);
        }
        let load = LoadPlan {
            remote,
            total: self.times,
            concurrent: self.at_once,
            gap: self.after,
            plan,
        };
        network.load(opener, load)
    }

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
