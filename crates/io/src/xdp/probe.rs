//! Whether another host has our addresses, asked before anything of ours is announced (RFC 5227 §2.1.1, RFC 4862 §5.4.2).
//!
//! The RFCs wait for seconds, for hosts that sleep. This waits for those that are awake, which is what a mistake is usually about; the stack
//! goes on listening.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use wire::arp::{ArpOperation, ArpPacket};
use wire::ethernet::{EtherType, EthernetHeader};
use wire::frame::MacAddr;
use wire::icmpv6::Icmpv6Message;
use wire::ip::Protocol;
use wire::ipv6::Ipv6Header;
use wire::ndp::{NdpMessage, NeighborSolicitation, multicast_mac, solicited_node};

use crate::poll::{self, PollFd, PollFlags};

use super::overhear::Overheard;

/// Questions about each address, and how far they are apart. An answer may take as long.
const PROBES: u32 = 2;
const INTERVAL: Duration = Duration::from_millis(50);
/// RFC 4861 §7.1.1.
const HOP_LIMIT: u8 = 255;

/// Questions on their way.
#[derive(Debug)]
pub(super) struct Probe {
    overheard: Overheard,
    mac: MacAddr,
    addresses: Vec<IpAddr>,
    asked: Instant,
}

/// Another host, and the address of ours that it has.
pub(super) type Holder = (IpAddr, MacAddr);

impl Probe {
    /// Asks for the first time.
    pub(super) fn start(interface: u32, mac: MacAddr, addresses: &[IpAddr]) -> io::Result<Self> {
        let probe = Self {
            overheard: Overheard::new(interface, addresses)?,
            mac,
            addresses: addresses.to_vec(),
            asked: Instant::now(),
        };
        probe.ask();
        Ok(probe)
    }

    /// Asks again, and waits for answers. What was done since [`Probe::start`] took part of that time.
    pub(super) fn finish(mut self) -> io::Result<Option<Holder>> {
        for number in 1..=PROBES {
            let holder = self.wait(self.asked + number * INTERVAL)?;
            if holder.is_some() {
                return Ok(holder);
            }
            if number < PROBES {
                self.ask();
            }
        }
        Ok(None)
    }

    fn ask(&self) {
        for address in &self.addresses {
            let frame = match address {
                IpAddr::V4(address) => arp_probe(self.mac, *address),
                IpAddr::V6(address) => solicitation(self.mac, *address),
            };
            // A queue that is full, an interface that goes down: the next question may get through, and the stack asks, too.
            if let Err(error) = self.overheard.say(&frame) {
                log::debug!("cannot ask who has {address}: {error}");
            }
        }
    }

    fn wait(&mut self, until: Instant) -> io::Result<Option<Holder>> {
        loop {
            if self.overheard.listen() {
                let (mac, addresses) = (self.mac, &self.addresses);
                let mut holder = None;
                self.overheard.lend(|frames| {
                    let said = frames.iter().filter_map(|frame| said(frame.bytes));
                    let mut others = said.filter(|(ip, of)| *of != mac && addresses.contains(ip));
                    holder = others.next();
                });
                if holder.is_some() {
                    return Ok(holder);
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let bells = self.overheard.bells();
            let mut fds: Vec<_> = bells
                .map(|bell| PollFd::from_borrowed_fd(bell, PollFlags::IN))
                .collect();
            poll::sleep(&mut fds, Some(left))?;
        }
    }
}

/// Who says that it has which address.
fn said(frame: &[u8]) -> Option<Holder> {
    let (ethernet, packet) = EthernetHeader::parse(frame).ok()?;
    match ethernet.ether_type {
        EtherType::ARP => {
            let (arp, _) = ArpPacket::parse(packet).ok()?;
            Some((arp.sender_ip.into(), arp.sender_mac))
        }
        EtherType::IPV6 => {
            let (header, payload) = Ipv6Header::parse(packet).ok()?;
            let message = Icmpv6Message::parse(header.src, header.dst, payload).ok()?;
            match message {
                Icmpv6Message::Ndp(NdpMessage::NeighborAdvertisement(message)) => Some((
                    message.target.into(),
                    message.target_lladdr.unwrap_or(ethernet.src),
                )),
                _ => None,
            }
        }
        _ => None,
    }
}

fn arp_probe(mac: MacAddr, address: Ipv4Addr) -> Vec<u8> {
    let packet = ArpPacket {
        operation: ArpOperation::Request,
        sender_mac: mac,
        sender_ip: Ipv4Addr::UNSPECIFIED,
        target_mac: MacAddr::default(),
        target_ip: address,
    };
    let mut frame = ethernet(MacAddr::BROADCAST, mac, EtherType::ARP, ArpPacket::LEN);
    packet.emit(frame.get_mut(EthernetHeader::LEN..).unwrap_or_default());
    frame
}

fn solicitation(mac: MacAddr, address: Ipv6Addr) -> Vec<u8> {
    let message = Icmpv6Message::Ndp(NdpMessage::NeighborSolicitation(NeighborSolicitation {
        target: address,
        source_lladdr: None,
        nonce: None,
    }));
    let group = solicited_node(address);
    let mut header = Ipv6Header::new(
        Ipv6Addr::UNSPECIFIED,
        group,
        Protocol::ICMPV6,
        message.len(),
    );
    header.hop_limit = HOP_LIMIT;
    let length = Ipv6Header::LEN + message.len();
    let mut frame = ethernet(multicast_mac(group), mac, EtherType::IPV6, length);
    let packet = frame.get_mut(EthernetHeader::LEN..).unwrap_or_default();
    header.emit(packet);
    let body = packet.get_mut(Ipv6Header::LEN..).unwrap_or_default();
    message.emit(header.src, header.dst, body);
    frame
}

/// A frame with room for so many bytes behind its header.
fn ethernet(dst: MacAddr, src: MacAddr, ether_type: EtherType, length: usize) -> Vec<u8> {
    let mut frame = vec![0; EthernetHeader::LEN + length];
    let header = EthernetHeader {
        dst,
        src,
        ether_type,
        vlan: None,
    };
    header.emit(&mut frame);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ndp::NeighborAdvertisement;

    const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    #[test]
    fn a_probe_names_nobody_as_its_sender() {
        let frame = arp_probe(OURS, Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(said(&frame), Some((Ipv4Addr::UNSPECIFIED.into(), OURS)));
        let frame = solicitation(OURS, "fd00::1".parse().unwrap());
        assert_eq!(said(&frame), None, "a question");
        let (ethernet, packet) = EthernetHeader::parse(&frame).unwrap();
        let (header, payload) = Ipv6Header::parse(packet).unwrap();
        assert_eq!(ethernet.dst.to_string(), "33:33:ff:00:00:01");
        assert!(header.src.is_unspecified() && header.hop_limit == HOP_LIMIT);
        assert!(Icmpv6Message::parse(header.src, header.dst, payload).is_ok());
    }

    #[test]
    fn answers_name_who_has_it() {
        let packet = ArpPacket {
            operation: ArpOperation::Reply,
            sender_mac: OTHER,
            sender_ip: Ipv4Addr::new(10, 0, 0, 1),
            target_mac: OURS,
            target_ip: Ipv4Addr::UNSPECIFIED,
        };
        let mut frame = ethernet(OURS, OTHER, EtherType::ARP, ArpPacket::LEN);
        packet.emit(&mut frame[EthernetHeader::LEN..]);
        assert_eq!(said(&frame), Some(([10, 0, 0, 1].into(), OTHER)));
        let target: Ipv6Addr = "fd00::1".parse().unwrap();
        let message =
            Icmpv6Message::Ndp(NdpMessage::NeighborAdvertisement(NeighborAdvertisement {
                router: false,
                solicited: false,
                override_flag: true,
                target,
                target_lladdr: None,
            }));
        let all = "ff02::1".parse().unwrap();
        let header = Ipv6Header::new(target, all, Protocol::ICMPV6, message.len());
        let mut frame = ethernet(OURS, OTHER, EtherType::IPV6, 40 + message.len());
        header.emit(&mut frame[14..]);
        message.emit(target, all, &mut frame[54..]);
        assert_eq!(said(&frame), Some((target.into(), OTHER)));
        assert_eq!(said(&[0; 20]), None);
    }
}
