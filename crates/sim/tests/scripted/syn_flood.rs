//! A SYN flood from spoofed sources, on a link that it fills, while others work.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use mtcp_core::config::{Route, StaticNeighbour};
use mtcp_core::{Counters, PortId};
use sim::scenario::{host_config, mac, v4};
use sim::{
    HostId, LinkConfig, ListenPlan, LoadPlan, Network, PeerConfig, PeerId, PipeConfig, Plan,
    Record, Rng, Segment,
};
use wire::frame::MacAddr;

use crate::common::ms;

const FLOODER: MacAddr = MacAddr([2, 9, 9, 9, 9, 9]);
/// The link of the server, and that of the client, bits per second: the client's is the narrow one.
const SERVER_RATE: u64 = 20_000_000;
const CLIENT_RATE: u64 = 4_000_000;
/// SYNs per second: their answers and the transfer together fill the server's link. The half-open
/// table has room for 64.
const FLOOD: u64 = 32_000;
/// Bytes of the transfer: two seconds of the client's link.
const TRANSFER: u64 = 1_000_000;

struct Siege {
    net: Network,
    server: HostId,
    client: HostId,
    newcomers: HostId,
    flooder: PeerId,
    rng: Rng,
}

fn pipe(rate: u64) -> LinkConfig {
    LinkConfig::both(PipeConfig {
        delay: ms(2),
        bits_per_second: Some(rate),
        queue_bytes: 64 << 10,
        ..PipeConfig::default()
    })
}

impl Siege {
    fn new() -> Self {
        let mut net = Network::new(1);
        let mut config = host_config(1);
        let spoofed: IpAddr = "198.18.0.0".parse().unwrap();
        config.stack.routes = vec![Route {
            network: spoofed,
            prefix_len: 15,
            gateway: None,
            port: PortId(0),
        }];
        config.stack.neighbours = vec![StaticNeighbour {
            addr: spoofed,
            prefix_len: 15,
            mac: FLOODER,
            port: PortId(0),
        }];
        let server = net.add_host(config).unwrap();
        let client = net.add_host(host_config(2)).unwrap();
        let newcomers = net.add_host(host_config(3)).unwrap();
        let flooder = net.add_peer(PeerConfig {
            mac: FLOODER,
            gateway_mac: mac(1),
            networks: vec!["198.18.0.0/15".parse().unwrap()],
        });
        let switch = net.add_switch();
        net.link(server, switch, pipe(SERVER_RATE));
        net.link(client, switch, pipe(CLIENT_RATE));
        net.link(newcomers, switch, pipe(CLIENT_RATE));
        net.link(flooder, switch, LinkConfig::default());
        let bulk = Plan::default().sends(TRANSFER);
        for (port, plan) in [(80, bulk), (7, Plan::echo())] {
            let local = SocketAddr::new(v4(1), port);
            net.listen(server, ListenPlan::new(local, plan)).unwrap();
        }
        Self {
            net,
            server,
            client,
            newcomers,
            flooder,
            rng: Rng::new(5),
        }
    }

    /// The transfer, and fifty short connections a while after it began; under the flood or not.
    fn run(&mut self, flood: bool) {
        self.net.run_for(ms(50)).unwrap();
        let from = SocketAddr::new(v4(1), 80);
        self.net
            .connect(self.client, Duration::ZERO, from, Plan::default())
            .unwrap();
        self.for_a_while(ms(200), flood);
        let load = LoadPlan {
            remote: SocketAddr::new(v4(1), 7),
            total: 50,
            concurrent: 2,
            gap: ms(20),
            plan: Plan::default().sends(500),
        };
        let plan = Plan {
            expect: sim::Expect::Echo,
            ..load.plan
        };
        self.net
            .load(self.newcomers, LoadPlan { plan, ..load })
            .unwrap();
        self.for_a_while(ms(3300), flood);
    }

    fn for_a_while(&mut self, time: Duration, flood: bool) {
        if !flood {
            return self.net.run_for(time).unwrap();
        }
        let end = self.net.now() + time;
        while self.net.now() < end {
            for _ in 0..FLOOD / 1000 {
                let syn = self.spoofed_syn();
                self.net.peer_send(self.flooder, &syn);
            }
            self.net.run_for(ms(1)).unwrap();
            let usage = self.net.host(self.server).unwrap().stack().usage();
            assert!(usage.half_open <= 64 && usage.connections <= 8, "{usage:?}");
            assert!(usage.recv_bytes <= 1 << 20, "{usage:?}");
            self.net.peer_mut(self.flooder).unwrap().take();
        }
    }

    fn spoofed_syn(&mut self) -> Segment {
        let host = 0xc612_0000 | self.rng.next_u32() & 0x1_ffff;
        let src = SocketAddr::new(
            Ipv4Addr::from_bits(host).into(),
            self.rng.next_u32() as u16 | 1,
        );
        let port = if self.rng.below(2) == 0 { 80 } else { 7 };
        Segment::new(src, SocketAddr::new(v4(1), port))
            .syn()
            .seq(self.rng.next_u32())
            .mss(1460)
    }

    fn records(&self, host: HostId) -> &[Record] {
        self.net.host(host).unwrap().apps().records()
    }

    /// How long the transfer took.
    fn transfer_time(&self) -> Duration {
        let [record] = self.records(self.client) else {
            panic!("the transfer has not ended");
        };
        assert!(
            record.is_clean() && record.received == TRANSFER,
            "{record:?}"
        );
        record.closed_at - record.opened_at
    }

    fn counters(&self) -> &Counters {
        self.net.host(self.server).unwrap().stack().counters()
    }
}

/// The transfer keeps nine tenths of its rate, those who come meanwhile are served, and memory
/// stays what it was.
#[test]
fn others_are_served() {
    let mut peace = Siege::new();
    peace.run(false);
    let mut war = Siege::new();
    war.run(true);
    let (alone, flooded) = (peace.transfer_time(), war.transfer_time());
    assert!(
        flooded * 9 <= alone * 10,
        "{flooded:?} under the flood, {alone:?} without"
    );
    let served = war.records(war.newcomers);
    assert_eq!(served.len(), 50);
    assert!(served.iter().all(Record::is_clean));
    let counters = war.counters();
    assert!(counters.syn_cookies_sent > 100_000);
    assert!(counters.syn_cookies_accepted >= 50);
    // The flood ends; its half-open records go with time.
    war.net.run_for(Duration::from_secs(120)).unwrap();
    let usage = war.net.host(war.server).unwrap().stack().usage();
    assert_eq!(
        (usage.half_open, usage.connections, usage.recv_bytes),
        (0, 0, 0)
    );
}
