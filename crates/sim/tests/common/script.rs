//! One host, and a scripted peer that is whole networks.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use mtcp_core::config::StaticNeighbour;
use mtcp_core::{PortId, Usage};
use sim::scenario::{host_config, mac, v4};
use sim::{
    HostConfig, HostId, LinkConfig, ListenPlan, Network, PeerConfig, PeerId, PipeConfig, Plan,
    Record, Segment, settings,
};
use wire::frame::MacAddr;
use wire::tcp::TcpFlags;

use super::ms;

const PEER_MAC: MacAddr = MacAddr([2, 9, 9, 9, 9, 9]);

/// Initial sequence number of the peer: soon wraps.
pub const ISS: u32 = u32::MAX - 500;

pub struct Script {
    pub net: Network,
    pub host: HostId,
    pub peer: PeerId,
    ports: u16,
}

/// A connection as the peer sees it.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub me: SocketAddr,
    pub you: SocketAddr,
    /// SND.NXT of the peer.
    pub seq: u32,
    /// RCV.NXT of the peer.
    pub ack: u32,
}

impl Flow {
    /// An ACK with a window of 65535.
    pub fn seg(&self) -> Segment {
        Segment::new(self.me, self.you).seq(self.seq).ack(self.ack)
    }

    /// Takes note of segments received: acknowledges what is in order. Returns the bytes.
    pub fn take(&mut self, segments: &[Segment]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for segment in segments.iter().filter(|segment| segment.dst == self.me) {
            if segment.header.seq.0 == self.ack {
                bytes.extend_from_slice(&segment.payload);
                self.ack = segment.end().0;
            }
        }
        bytes
    }
}

impl Script {
    pub fn new(seed: u64) -> Self {
        Self::with(seed, |_| {})
    }

    pub fn with(seed: u64, change: impl Fn(&mut HostConfig)) -> Self {
        let mut net = Network::new(seed);
        if let Some(text) = settings::trace() {
            net.trace_to(text);
        }
        let mut config = host_config(1);
        // Asking for a thousand neighbours is another test.
        config.stack.neighbours = vec![StaticNeighbour {
            addr: "10.0.8.0".parse().unwrap(),
            prefix_len: 21,
            mac: PEER_MAC,
            port: PortId(0),
        }];
        change(&mut config);
        let host = net.add_host(config).unwrap();
        let peer = net.add_peer(PeerConfig {
            mac: PEER_MAC,
            gateway_mac: mac(1),
            networks: vec!["10.0.8.0/21".parse().unwrap()],
        });
        let pipe = PipeConfig {
            delay: ms(1),
            ..PipeConfig::default()
        };
        net.link(host, peer, LinkConfig::both(pipe));
        net.run_for(ms(10)).unwrap();
        Self {
            net,
            host,
            peer,
            ports: 1000,
        }
    }

    /// One of the peer's addresses.
    pub fn remote(&self, index: u16, port: u16) -> SocketAddr {
        let ip = Ipv4Addr::from_bits(0x0a00_0800 + u32::from(index) % 2000);
        SocketAddr::new(IpAddr::V4(ip), port)
    }

    pub fn listen(&mut self, plan: ListenPlan) -> SocketAddr {
        self.net.listen(self.host, plan).unwrap()
    }

    /// The host listens on a new port.
    pub fn server(&mut self, plan: Plan) -> SocketAddr {
        self.ports += 1;
        let local = SocketAddr::new(v4(1), self.ports);
        self.listen(ListenPlan::new(local, plan))
    }

    #[track_caller]
    pub fn run(&mut self, time: Duration) {
        self.net
            .run_for(time)
            .unwrap_or_else(|failure| panic!("{failure}"));
    }

    pub fn send(&mut self, segment: &Segment) {
        self.net.peer_send(self.peer, segment);
    }

    /// What the peer received since last asked.
    pub fn take(&mut self) -> Vec<Segment> {
        let arrivals = self.net.peer_mut(self.peer).unwrap().take();
        arrivals
            .into_iter()
            .map(|arrival| arrival.segment)
            .collect()
    }

    /// Sends, waits a while, and returns what came back.
    #[track_caller]
    pub fn ask(&mut self, segment: &Segment) -> Vec<Segment> {
        self.take();
        self.send(segment);
        self.run(ms(3));
        self.take()
    }

    /// The peer's side of a passive open, with `change` made to its SYN.
    #[track_caller]
    pub fn handshake(&mut self, you: SocketAddr, change: impl Fn(Segment) -> Segment) -> Flow {
        self.ports += 1;
        let me = self.remote(1, self.ports);
        let syn = change(Segment::new(me, you).syn().seq(ISS));
        let answers = self.ask(&syn);
        let [syn_ack] = &answers[..] else {
            panic!("{answers:?}");
        };
        assert!(syn_ack.has(TcpFlags::SYN | TcpFlags::ACK), "{syn_ack:?}");
        assert_eq!(syn_ack.header.ack.0, ISS + 1);
        let flow = Flow {
            me,
            you,
            seq: ISS + 1,
            ack: syn_ack.end().0,
        };
        self.send(&flow.seg().window(syn.header.window));
        flow
    }

    /// A connection that the host accepted and treats as `plan` says.
    #[track_caller]
    pub fn accepted(&mut self, plan: Plan) -> Flow {
        let you = self.server(plan);
        let flow = self.handshake(you, |syn| syn.mss(1460));
        self.run(ms(3));
        flow
    }

    /// The host connects; returns its SYN and a flow that has not answered it.
    #[track_caller]
    pub fn syn_sent(&mut self, plan: Plan) -> (Segment, Flow) {
        self.ports += 1;
        let me = self.remote(2, self.ports);
        self.take();
        self.net
            .connect(self.host, Duration::ZERO, me, plan)
            .unwrap();
        self.run(ms(5));
        let segments = self.take();
        let [syn] = &segments[..] else {
            panic!("{segments:?}");
        };
        assert!(syn.has(TcpFlags::SYN) && !syn.has(TcpFlags::ACK));
        let flow = Flow {
            me,
            you: syn.src,
            seq: ISS,
            ack: syn.end().0,
        };
        (syn.clone(), flow)
    }

    /// A connection that the host opened, with `change` made to the peer's SYN-ACK.
    #[track_caller]
    pub fn connected(&mut self, plan: Plan, change: impl Fn(Segment) -> Segment) -> Flow {
        let (_, mut flow) = self.syn_sent(plan);
        self.send(&change(flow.seg().syn()));
        flow.seq = flow.seq.wrapping_add(1);
        self.run(ms(3));
        flow
    }

    pub fn usage(&self) -> Usage {
        self.net.host(self.host).unwrap().stack().usage()
    }

    pub fn counters(&self) -> mtcp_core::Counters {
        self.net.host(self.host).unwrap().stack().counters().clone()
    }

    pub fn records(&self) -> Vec<Record> {
        self.net.host(self.host).unwrap().apps().records().to_vec()
    }

    /// Whether TCP knows no connection in any form.
    pub fn is_quiet(&self) -> bool {
        let usage = self.usage();
        usage.connections + usage.half_open + usage.time_wait == 0
    }

    /// Runs to the end; nothing may be left.
    #[track_caller]
    pub fn finish(&mut self) {
        let end = self.net.run_idle(Duration::from_secs(24 * 3600));
        let end = end
            .and_then(|()| self.net.check())
            .and_then(|()| self.net.check_empty());
        end.unwrap_or_else(|failure| panic!("{failure}"));
    }
}
