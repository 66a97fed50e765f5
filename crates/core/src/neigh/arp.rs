//! ARP (RFC 826) and address conflicts (RFC 5227).

use std::net::{IpAddr, Ipv4Addr};

use wire::arp::{ArpOperation, ArpPacket};
use wire::ethernet::{EtherType, EthernetHeader};
use wire::frame::MacAddr;
use wire::time::Instant;

use crate::counters::Counters;
use crate::drops::DropReason;
use crate::id::PortId;
use crate::ip::packet::Arrival;
use crate::ip::{Links, is_host_address};
use crate::neigh::announce::{Announcement, Kind};
use crate::neigh::cache::{Advertisement, MAX_QUESTIONS, Solicitation};

impl Links {
    pub(crate) fn arp(
        &mut self,
        at: &Arrival,
        payload: &[u8],
        counters: &mut Counters,
    ) -> Result<(), DropReason> {
        counters.arp_in += 1;
        let (packet, _) = ArpPacket::parse(payload).map_err(|_| DropReason::ArpMalformed)?;
        let our_mac = self
            .addresses()
            .link(at.port)
            .ok_or(DropReason::FramePort)?
            .mac;
        let sender = IpAddr::V4(packet.sender_ip);
        if packet.sender_mac.is_multicast()
            || !(packet.sender_ip.is_unspecified() || is_host_address(sender))
        {
            return Err(DropReason::ArpMalformed);
        }
        if packet.sender_mac == our_mac {
            return Err(DropReason::ArpIgnored);
        }
        if self.routing.is_local(sender) {
            // RFC 5227 §2.4.
            self.conflict(at, sender, counters);
            return Err(DropReason::ArpIgnored);
        }
        let known = self.learn_from_arp(at, &packet, our_mac, counters);
        let answered = packet.operation == ArpOperation::Request
            && self.answer_arp(at, &packet, our_mac, counters);
        if known || answered {
            Ok(())
        } else {
            Err(DropReason::ArpIgnored)
        }
    }

    /// The sender says its address, whatever else the packet is about (RFC 826). Only an answer to
    /// us, to a question still open, counts as solicited.
    ///
    /// ARP has no checksum. A damaged hardware address would be believed until it has been
    /// reachable for long enough to be doubted; so one that is neither the frame's source nor known
    /// before (as that of a router with a virtual address is) has to stand a probe first.
    /// RFC 826 §0-2.
    fn learn_from_arp(
        &mut self,
        at: &Arrival,
        packet: &ArpPacket,
        our_mac: MacAddr,
        counters: &mut Counters,
    ) -> bool {
        let to_us = packet.target_mac == our_mac
            && self.routing.is_local(packet.target_ip.into())
            && !at.to_group;
        let (sender, mac) = (packet.sender_ip.into(), packet.sender_mac);
        let credible = mac == at.src || self.neighbours.has(at.port, sender, mac);
        let advertisement = Advertisement {
            mac: Some(mac),
            solicited: packet.operation == ArpOperation::Reply && to_us && credible,
            override_flag: true,
        };
        let known = self
            .neighbours
            .advertise(at.now, at.port, sender, advertisement);
        self.settle(counters);
        known
    }

    /// RFC 826 §0-1.
    fn answer_arp(
        &mut self,
        at: &Arrival,
        packet: &ArpPacket,
        our_mac: MacAddr,
        counters: &mut Counters,
    ) -> bool {
        let target = IpAddr::V4(packet.target_ip);
        if !self
            .addresses()
            .link(at.port)
            .is_some_and(|link| link.has(target))
        {
            return false;
        }
        if packet.sender_ip.is_unspecified() && self.claims.is_tentative(at.port, target) {
            // RFC 5227 §2.1.1: somebody else probes for the same address.
            self.conflict(at, target, counters);
        }
        let reply = ArpPacket {
            operation: ArpOperation::Reply,
            sender_mac: our_mac,
            sender_ip: packet.target_ip,
            target_mac: packet.sender_mac,
            target_ip: packet.sender_ip,
        };
        self.send_arp(at.port, packet.sender_mac, &reply, counters);
        if !packet.sender_ip.is_unspecified() {
            self.meet(at, packet.sender_ip.into(), packet.sender_mac, counters);
        }
        true
    }

    /// A host on the link asked for an address of ours and said its own (RFC 826; RFC 4861 §7.2.3):
    /// it is about to send, and we to answer.
    pub(super) fn meet(
        &mut self,
        at: &Arrival,
        addr: IpAddr,
        mac: MacAddr,
        counters: &mut Counters,
    ) {
        let is_on_link = self
            .routing
            .path(addr, None)
            .is_ok_and(|path| path.port == at.port && path.next_hop == addr);
        if is_on_link {
            self.neighbours
                .on_solicitation(at.now, at.port, addr, mac, counters);
            self.settle(counters);
        }
    }

    /// Another host uses an address of ours, or is about to.
    pub(super) fn conflict(&mut self, at: &Arrival, addr: IpAddr, counters: &mut Counters) {
        counters.address_conflicts += 1;
        self.claims.contest(at.now, (at.port, addr), at.src);
    }

    /// Asks for the hardware address of a neighbour, or has the kernel ask.
    pub(crate) fn solicit(
        &mut self,
        now: Instant,
        question: Solicitation,
        counters: &mut Counters,
    ) {
        if let Some(questions) = &mut self.for_kernel {
            // One that finds no room is asked again in a second.
            if questions.len() < MAX_QUESTIONS {
                questions.push_back((question.port, question.target));
            }
            return;
        }
        match question.target {
            IpAddr::V4(target) => self.solicit_arp(question.port, target, question.to, counters),
            IpAddr::V6(target) => {
                self.solicit_ndp(now, question.port, target, question.to, counters)
            }
        }
    }

    fn solicit_arp(
        &mut self,
        port: PortId,
        target: Ipv4Addr,
        to: Option<MacAddr>,
        counters: &mut Counters,
    ) {
        let Some(IpAddr::V4(sender_ip)) = self.addresses().source_for(port, target.into()) else {
            return;
        };
        self.ask_arp(
            port,
            sender_ip,
            target,
            to.unwrap_or(MacAddr::BROADCAST),
            counters,
        );
    }

    fn ask_arp(
        &mut self,
        port: PortId,
        sender_ip: Ipv4Addr,
        target_ip: Ipv4Addr,
        to: MacAddr,
        counters: &mut Counters,
    ) {
        let Some(sender_mac) = self.addresses().link(port).map(|link| link.mac) else {
            return;
        };
        let request = ArpPacket {
            operation: ArpOperation::Request,
            sender_mac,
            sender_ip,
            target_mac: MacAddr::default(),
            target_ip,
        };
        self.send_arp(port, to, &request, counters);
    }

    fn send_arp(&mut self, port: PortId, to: MacAddr, packet: &ArpPacket, counters: &mut Counters) {
        let header = EthernetHeader {
            dst: to,
            src: packet.sender_mac,
            ether_type: EtherType::ARP,
            vlan: None,
        };
        let sent = self.send_frame(port, counters, |frame| {
            let start = header.emit(frame);
            let len = frame.get_mut(start..).map_or(0, |body| packet.emit(body));
            if start == 0 || len == 0 {
                0
            } else {
                start + len
            }
        });
        counters.arp_out += u64::from(sent);
    }

    /// Says or asks something about an address of ours.
    pub(crate) fn announce(
        &mut self,
        now: Instant,
        message: Announcement,
        counters: &mut Counters,
    ) {
        let Announcement { port, addr, kind } = message;
        match (addr, kind) {
            // RFC 5227 §1.1: a probe does not fill in the sender, so that it cannot disturb the
            // cache of anybody.
            (IpAddr::V4(addr), Kind::Probe) => self.ask_arp(
                port,
                Ipv4Addr::UNSPECIFIED,
                addr,
                MacAddr::BROADCAST,
                counters,
            ),
            (IpAddr::V4(addr), Kind::Claim) => {
                self.ask_arp(port, addr, addr, MacAddr::BROADCAST, counters)
            }
            (IpAddr::V6(addr), Kind::Probe) => self.probe_ndp(now, port, addr, counters),
            (IpAddr::V6(addr), Kind::Claim) => self.claim_ndp(now, port, addr, counters),
        }
    }
}
