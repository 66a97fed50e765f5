//! The question whether another host has an address of ours, asked before anything of ours is
//! announced (RFC 5227 §2.1.1, RFC 4862 §5.4.2).
//!
//! The RFCs wait for seconds, for hosts that sleep. This waits for those that are awake, which is
//! what a mistake is usually about; the stack goes on listening.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use wire::arp::{ArpOperation, ArpPacket};
use wire::ethernet::{EtherType, EthernetHeader};
use wire::frame::MacAddr;
use wire::icmpv6::Icmpv6Message;
use wire::ip::Protocol;
use wire::ipv6::Ipv6Header;
use wire::ndp::{
    NdpMessage, NeighborAdvertisement, NeighborSolicitation, multicast_mac, solicited_node,
};

/// Questions about each address, and how far they are apart. An answer may take as long.
pub(crate) const PROBES: u32 = 2;
pub(crate) const INTERVAL: Duration = Duration::from_millis(50);
/// RFC 4861 §7.1.1.
const HOP_LIMIT: u8 = 255;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Another host, and the address of ours that it has.
pub type Holder = (IpAddr, MacAddr);

/// The frame that asks from `mac` who has `address`.
pub(crate) fn question(mac: MacAddr, address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => arp_probe(mac, address),
        IpAddr::V6(address) => solicitation(mac, address),
    }
}

/// Why an address cannot be taken on an interface.
#[derive(Debug)]
struct InUse {
    holder: Holder,
    interface: String,
}

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            holder: (address, mac),
            interface,
        } = self;
        write!(
            f,
            "address {address} is in use by another host on {interface}, {mac}: choose another, or take it all the same with --force-address \
             (force_address = yes)"
        )
    }
}

impl Error for InUse {}

/// Another host has an address of ours on the interface `name`.
pub fn in_use(holder: Holder, name: &str) -> io::Error {
    let interface = name.to_owned();
    io::Error::new(io::ErrorKind::AddrInUse, InUse { holder, interface })
}

/// Which host has which address of ours, if that is why a link was not opened.
pub fn holder(error: &io::Error) -> Option<Holder> {
    let in_use: &InUse = error.get_ref()?.downcast_ref()?;
    Some(in_use.holder)
}

/// The frame by which a neighbour says without being asked that `address` is at `mac` (RFC 5227 §3,
/// RFC 4861 §7.2.6).
pub(crate) fn announcement(address: IpAddr, mac: MacAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => {
            let packet = ArpPacket {
                operation: ArpOperation::Request,
                sender_mac: mac,
                sender_ip: address,
                target_mac: MacAddr::default(),
                target_ip: address,
            };
            arp(mac, &packet)
        }
        IpAddr::V6(address) => {
            let message = NdpMessage::NeighborAdvertisement(NeighborAdvertisement {
                router: false,
                solicited: false,
                override_flag: true,
                target: address,
                target_lladdr: Some(mac),
            });
            ndp(mac, address, ALL_NODES, message)
        }
    }
}

/// The frame by which a neighbour asks for `own` and says where it is itself
/// (RFC 826, RFC 4861 §4.3): it is about to be sent to.
pub(crate) fn introduction((address, mac): Holder, own: IpAddr) -> Vec<u8> {
    match (address, own) {
        (IpAddr::V4(address), IpAddr::V4(own)) => {
            let packet = ArpPacket {
                operation: ArpOperation::Request,
                sender_mac: mac,
                sender_ip: address,
                target_mac: MacAddr::default(),
                target_ip: own,
            };
            arp(mac, &packet)
        }
        (IpAddr::V6(address), IpAddr::V6(own)) => {
            let message = NdpMessage::NeighborSolicitation(NeighborSolicitation {
                target: own,
                source_lladdr: Some(mac),
                nonce: None,
            });
            ndp(mac, address, solicited_node(own), message)
        }
        // Nobody says that.
        _ => announcement(address, mac),
    }
}

/// Who says that it has which address.
pub(crate) fn said(frame: &[u8]) -> Option<Holder> {
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
    arp(mac, &packet)
}

/// A broadcast from `mac`.
fn arp(mac: MacAddr, packet: &ArpPacket) -> Vec<u8> {
    let mut frame = ethernet(MacAddr::BROADCAST, mac, EtherType::ARP, ArpPacket::LEN);
    packet.emit(frame.get_mut(EthernetHeader::LEN..).unwrap_or_default());
    frame
}

fn solicitation(mac: MacAddr, address: Ipv6Addr) -> Vec<u8> {
    let message = NdpMessage::NeighborSolicitation(NeighborSolicitation {
        target: address,
        source_lladdr: None,
        nonce: None,
    });
    let group = solicited_node(address);
    ndp(mac, Ipv6Addr::UNSPECIFIED, group, message)
}

/// A message from `mac` to a group.
fn ndp(mac: MacAddr, src: Ipv6Addr, group: Ipv6Addr, message: NdpMessage) -> Vec<u8> {
    let message = Icmpv6Message::Ndp(message);
    let mut header = Ipv6Header::new(src, group, Protocol::ICMPV6, message.len());
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
    fn an_announcement_says_where_a_neighbour_is() {
        for address in ["10.0.0.9", "fd00::9", "fe80::9"] {
            let address = address.parse().unwrap();
            assert_eq!(said(&announcement(address, OTHER)), Some((address, OTHER)));
        }
    }

    #[test]
    fn who_has_an_address_can_be_read_from_the_error() {
        let holder_of = ([10, 0, 0, 1].into(), OTHER);
        assert_eq!(holder(&in_use(holder_of, "eth0")), Some(holder_of));
        assert_eq!(holder(&io::ErrorKind::AddrInUse.into()), None);
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
