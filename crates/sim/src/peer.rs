//! A scripted peer: an Ethernet station without a stack. It answers ARP and neighbour solicitations
//! for its addresses, keeps the TCP segments that it receives, and sends what it is told to, or
//! what its reaction makes of each segment.

use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use wire::arp::{ArpOperation, ArpPacket};
use wire::ethernet::{EtherType, EthernetHeader};
use wire::frame::MacAddr;
use wire::icmpv6::Icmpv6Message;
use wire::ip::{Cidr, Protocol};
use wire::ndp::{NdpMessage, NeighborAdvertisement};
use wire::time::Instant;

use crate::segment::{Arrival, Segment, ethernet, ip_frame, ip_payload};

/// What a peer answers to a segment. Has no memory of its own but what it captures.
pub type Reaction = Box<dyn FnMut(&Arrival) -> Vec<Segment> + Send>;

/// Segments that a peer keeps; older ones are forgotten.
const KEPT: usize = 1 << 16;

/// What a peer is.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// Its hardware address.
    pub mac: MacAddr,
    /// Where its frames go.
    pub gateway_mac: MacAddr,
    /// It is all of these hosts.
    pub networks: Vec<Cidr>,
}

/// See the module.
pub struct Peer {
    config: PeerConfig,
    received: VecDeque<Arrival>,
    reaction: Option<Reaction>,
    pub(crate) out: Option<usize>,
    frames: u64,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Peer");
        debug
            .field("config", &self.config)
            .field("frames", &self.frames);
        debug
            .field("received", &self.received)
            .finish_non_exhaustive()
    }
}

impl Peer {
    pub(crate) fn new(config: PeerConfig) -> Self {
        Self {
            config,
            received: VecDeque::new(),
            reaction: None,
            out: None,
            frames: 0,
        }
    }

    /// Segments received and not taken, oldest first.
    pub fn received(&self) -> impl Iterator<Item = &Arrival> {
        self.received.iter()
    }

    /// Takes the segments received so far.
    pub fn take(&mut self) -> Vec<Arrival> {
        self.received.drain(..).collect()
    }

    /// Answers every segment from now on; without a reaction it keeps them.
    pub fn react(&mut self, reaction: Option<Reaction>) {
        self.reaction = reaction;
    }

    /// Frames received of any kind.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// The frame that carries a segment.
    pub fn frame(&self, segment: &Segment) -> Vec<u8> {
        segment.to_frame(self.config.mac, self.config.gateway_mac)
    }

    /// The frame that carries `message` to `dst`, of which `self` is a neighbour.
    pub fn icmp_frame(&self, src: IpAddr, dst: IpAddr, message: &[u8]) -> Vec<u8> {
        let protocol = match src {
            IpAddr::V4(_) => Protocol::ICMP,
            IpAddr::V6(_) => Protocol::ICMPV6,
        };
        ip_frame(
            self.config.mac,
            self.config.gateway_mac,
            (src, dst),
            protocol,
            message,
        )
    }

    /// Takes a frame; returns the frames that answer it.
    pub(crate) fn receive(&mut self, now: Instant, frame: &[u8]) -> Vec<Vec<u8>> {
        self.frames += 1;
        if let Some(answer) = self.answer_arp(frame).or_else(|| self.answer_ndp(frame)) {
            return vec![answer];
        }
        let Some(segment) = Segment::from_frame(frame) else {
            return Vec::new();
        };
        let arrival = Arrival { at: now, segment };
        if let Some(reaction) = &mut self.reaction {
            let answers = reaction(&arrival);
            return answers.iter().map(|segment| self.frame(segment)).collect();
        }
        if self.received.len() == KEPT {
            self.received.pop_front();
        }
        self.received.push_back(arrival);
        Vec::new()
    }

    fn is(&self, addr: IpAddr) -> bool {
        self.config
            .networks
            .iter()
            .any(|network| network.contains(addr))
    }

    fn answer_arp(&self, frame: &[u8]) -> Option<Vec<u8>> {
        let (header, bytes) = EthernetHeader::parse(frame).ok()?;
        let (question, _) = ArpPacket::parse(bytes)
            .ok()
            .filter(|_| header.ether_type == EtherType::ARP)?;
        let asked =
            question.operation == ArpOperation::Request && question.sender_ip != question.target_ip;
        if !asked || !self.is(question.target_ip.into()) {
            return None;
        }
        let reply = ArpPacket {
            operation: ArpOperation::Reply,
            sender_mac: self.config.mac,
            sender_ip: question.target_ip,
            target_mac: question.sender_mac,
            target_ip: question.sender_ip,
        };
        let mut answer = ethernet(self.config.mac, question.sender_mac, EtherType::ARP);
        let mut body = [0; ArpPacket::LEN];
        reply.emit(&mut body);
        answer.extend_from_slice(&body);
        Some(answer)
    }

    fn answer_ndp(&self, frame: &[u8]) -> Option<Vec<u8>> {
        let (IpAddr::V6(src), IpAddr::V6(dst), Protocol::ICMPV6, bytes) = ip_payload(frame)? else {
            return None;
        };
        let message = Icmpv6Message::parse(src, dst, bytes).ok()?;
        let Icmpv6Message::Ndp(NdpMessage::NeighborSolicitation(question)) = message else {
            return None;
        };
        if src == Ipv6Addr::UNSPECIFIED || !self.is(question.target.into()) {
            return None;
        }
        let answer = NeighborAdvertisement {
            router: false,
            solicited: true,
            override_flag: true,
            target: question.target,
            target_lladdr: Some(self.config.mac),
        };
        let message = Icmpv6Message::Ndp(NdpMessage::NeighborAdvertisement(answer));
        let mut body = vec![0; message.len()];
        message.emit(question.target, src, &mut body);
        let addrs = (question.target.into(), src.into());
        let to = question.source_lladdr.unwrap_or(self.config.gateway_mac);
        Some(ip_frame(
            self.config.mac,
            to,
            addrs,
            Protocol::ICMPV6,
            &body,
        ))
    }
}
