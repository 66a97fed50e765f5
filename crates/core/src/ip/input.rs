//! From frames to what they carry: Ethernet, IPv4, IPv6, extension headers, fragments.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::ParseError;
use wire::ethernet::{EtherType, EthernetHeader};
use wire::frame::{MacAddr, RxChecksum, RxFrame};
use wire::ip::{Ecn, Protocol};
use wire::ipv4::Ipv4Header;
use wire::ipv6::{self, ExtensionError, FragmentHeader, Ipv6Header, Upper};
use wire::ndp::multicast_mac;
use wire::time::Instant;

use crate::counters::Counters;
use crate::drops::DropReason;
use crate::id::PortId;

use super::address::{NetLink, is_host_address};
use super::packet::{Arrival, Packet};
use super::reassemble::{Assembled, Fragment, Key};
use super::{Datagram, Input, Net};

impl Net {
    /// Takes a frame that arrived on `port` and was not [`predicted`](Self::predicted). Not part of
    /// the loop over the frames of a burst, which would keep at hand what this needs.
    #[inline(never)]
    pub fn input<'a>(
        &mut self,
        now: Instant,
        port: PortId,
        frame: &RxFrame<'a>,
        counters: &mut Counters,
    ) -> Input<'a> {
        counters.frame_in(frame.bytes.len());
        self.ethernet(now, port, frame, counters)
            .unwrap_or_else(|reason| {
                counters.drop(reason);
                Input::Consumed
            })
    }

    fn ethernet<'a>(
        &mut self,
        now: Instant,
        port: PortId,
        frame: &RxFrame<'a>,
        counters: &mut Counters,
    ) -> Result<Input<'a>, DropReason> {
        let link = self.addresses().link(port).ok_or(DropReason::FramePort)?;
        let (header, payload) =
            EthernetHeader::parse(frame.bytes).map_err(|error| match error {
                ParseError::Truncated => DropReason::FrameShort,
                _ => DropReason::FrameProtocol,
            })?;
        if header.vlan.is_some_and(|tag| tag.id != 0) {
            return Err(DropReason::FrameVlan);
        }
        let to_group = header.dst.is_multicast();
        let is_ours = header.dst == link.mac || to_group && is_group(header.dst);
        // Our own frames may come back from a hub or a bridge (RFC 4862 appendix A).
        let is_echo = header.src == link.mac && !link.capabilities.loops;
        if !is_ours || is_echo || header.src.is_multicast() {
            return Err(DropReason::FrameOther);
        }
        let at = Arrival {
            now,
            port,
            src: header.src,
            to_group,
            checksum: frame.meta.checksum,
        };
        match header.ether_type {
            EtherType::IPV4 => self.ipv4(&at, payload, counters),
            EtherType::IPV6 => self.ipv6(&at, payload, counters),
            EtherType::ARP => self
                .links
                .arp(&at, payload, counters)
                .map(|()| Input::Consumed),
            _ => Err(DropReason::FrameProtocol),
        }
    }

    #[inline]
    fn ipv4<'a>(
        &mut self,
        at: &Arrival,
        bytes: &'a [u8],
        counters: &mut Counters,
    ) -> Result<Input<'a>, DropReason> {
        let (header, payload) = Ipv4Header::parse(bytes).map_err(|error| match error {
            ParseError::BadChecksum => DropReason::IpChecksum,
            _ => DropReason::IpHeader,
        })?;
        self.check_ipv4(at, &header)?;
        let (src, dst) = (IpAddr::V4(header.src), IpAddr::V4(header.dst));
        if header.protocol == Protocol::TCP && !header.is_fragment() {
            self.note_sender(at, src);
            return Ok(tcp(at, src, dst, header.ecn(), payload));
        }
        let head = bytes
            .get(..usize::from(header.header_len))
            .unwrap_or_default();
        if header.is_fragment() {
            return self.ipv4_fragment(at, &header, head, payload, counters);
        }
        let packet = Packet {
            src,
            dst,
            protocol: header.protocol,
            hop_limit: header.ttl,
            ecn: header.ecn(),
            head: head.into(),
            payload: payload.into(),
            pointer: 9,
        };
        self.deliver(at, packet, counters)
    }

    /// RFC 1122 §3.2.1.3, §3.3.6, RFC 7126 §4.3 and §4.4. The TTL is none of a receiver's business
    /// (§3.2.1.7). RFC 9293 MUST-57. RFC 1122 §3.2.1.3-1, §3.2.1.7-2, §3.3.6-1.
    fn check_ipv4(&self, at: &Arrival, header: &Ipv4Header) -> Result<(), DropReason> {
        if header.source_route {
            return Err(DropReason::IpSourceRoute);
        }
        if !self.addresses().is_local(header.dst.into()) {
            return Err(DropReason::IpNotLocal);
        }
        if at.to_group {
            return Err(DropReason::IpLinkBroadcast);
        }
        if self.is_from_us(at, header.src.into()) {
            return Ok(());
        }
        self.check_ipv4_source(header.src)
    }

    /// Whether we may well have sent a packet that comes from an address of ours.
    fn is_from_us(&self, at: &Arrival, src: IpAddr) -> bool {
        self.addresses().loops(at.port) && self.addresses().is_local(src)
    }

    /// RFC 9293 MUST-63.
    /// RFC 1122 §3.2.1.3-2.
    fn check_ipv4_source(&self, src: Ipv4Addr) -> Result<(), DropReason> {
        if !is_host_address(src.into())
            || self.addresses().is_local(src.into())
            || self.addresses().is_broadcast(src)
        {
            return Err(DropReason::IpMartian);
        }
        Ok(())
    }

    fn ipv4_fragment<'a>(
        &mut self,
        at: &Arrival,
        header: &Ipv4Header,
        head: &[u8],
        data: &[u8],
        counters: &mut Counters,
    ) -> Result<Input<'a>, DropReason> {
        let key = Key {
            src: header.src.into(),
            dst: header.dst.into(),
            ident: u32::from(header.ident),
            protocol: Some(header.protocol),
        };
        let fragment = Fragment {
            key,
            port: at.port,
            protocol: header.protocol,
            offset: header.fragment_offset,
            more: header.more_fragments,
            ecn: header.ecn(),
            head,
            data,
        };
        counters.fragments_in += 1;
        let Some(whole) = self.reassembler.push(at.now, &fragment, counters)? else {
            return Ok(Input::Consumed);
        };
        let payload_start = 0;
        self.deliver_assembled(at, whole, payload_start, 9, counters)
    }

    fn ipv6<'a>(
        &mut self,
        at: &Arrival,
        bytes: &'a [u8],
        counters: &mut Counters,
    ) -> Result<Input<'a>, DropReason> {
        let (header, rest) = Ipv6Header::parse(bytes).map_err(|_| DropReason::IpHeader)?;
        self.check_ipv6_destination(at, header.dst)?;
        self.check_ipv6_source(at, &header, rest, counters)?;
        let (src, dst) = (IpAddr::V6(header.src), IpAddr::V6(header.dst));
        if header.next_header == Protocol::TCP && !header.dst.is_multicast() {
            self.note_sender(at, src);
            return Ok(tcp(at, src, dst, header.ecn(), rest));
        }
        let upper = match ipv6::upper_layer(header.next_header, rest) {
            Ok(upper) => upper,
            Err(error) => return Err(self.refuse_extension(at, &header, bytes, error, counters)),
        };
        let start = Ipv6Header::LEN + upper.offset;
        let head = bytes.get(..start).unwrap_or_default();
        let payload = rest.get(upper.offset..).ok_or(DropReason::IpHeader)?;
        if let Some(fragment) = upper.fragment {
            return self.ipv6_fragment(at, &header, fragment, head, payload, counters);
        }
        let packet = Packet {
            src,
            dst,
            protocol: upper.protocol,
            hop_limit: header.hop_limit,
            ecn: header.ecn(),
            head: head.into(),
            payload: payload.into(),
            pointer: upper.pointer,
        };
        self.deliver(at, packet, counters)
    }

    /// Where a segment came from, if whoever answers may not ask.
    #[inline(always)]
    fn note_sender(&mut self, at: &Arrival, src: IpAddr) {
        if self.links.neighbours.notes_guests() {
            self.links
                .neighbours
                .note_guest(at.now, at.port, src, at.src);
        }
    }

    fn check_ipv6_destination(&self, at: &Arrival, dst: Ipv6Addr) -> Result<(), DropReason> {
        if self.addresses().is_local(dst.into()) {
            return if at.to_group {
                Err(DropReason::IpLinkBroadcast)
            } else {
                Ok(())
            };
        }
        let in_group = |link: &NetLink| dst.is_multicast() && link.in_group(dst);
        if self.addresses().link(at.port).is_some_and(in_group) {
            Ok(())
        } else {
            Err(DropReason::IpNotLocal)
        }
    }

    /// RFC 4291 §2.5 and §2.7. The unspecified address is left to Neighbor Discovery, which needs
    /// it (RFC 4862 §5.4).
    fn check_ipv6_source(
        &mut self,
        at: &Arrival,
        header: &Ipv6Header,
        rest: &[u8],
        counters: &mut Counters,
    ) -> Result<(), DropReason> {
        let src = IpAddr::V6(header.src);
        if self.is_from_us(at, src) {
            return Ok(());
        }
        if self.addresses().is_local(src) {
            // Whoever has an address of ours defends it from that address.
            self.links.ndp_from_our_address(at, header, rest, counters);
            return Err(DropReason::IpMartian);
        }
        let is_probe = header.src.is_unspecified() && header.next_header == Protocol::ICMPV6;
        if is_probe || is_host_address(src) {
            Ok(())
        } else {
            Err(DropReason::IpMartian)
        }
    }

    /// Counts as why; tells the sender, if it may be told.
    fn refuse_extension(
        &mut self,
        at: &Arrival,
        header: &Ipv6Header,
        bytes: &[u8],
        error: ExtensionError,
        counters: &mut Counters,
    ) -> DropReason {
        if let ExtensionError::ParameterProblem {
            code,
            pointer,
            even_if_multicast,
        } = error
        {
            let is_unicast = !header.dst.is_multicast() && !at.to_group;
            if (is_unicast || even_if_multicast) && is_host_address(header.src.into()) {
                let mut errors = self.errors(at.now, counters);
                errors.parameter_problem((header.src, header.dst), (code, pointer), &[bytes]);
            }
        }
        DropReason::IpExtension
    }

    fn ipv6_fragment<'a>(
        &mut self,
        at: &Arrival,
        header: &Ipv6Header,
        fragment: FragmentHeader,
        head: &[u8],
        data: &[u8],
        counters: &mut Counters,
    ) -> Result<Input<'a>, DropReason> {
        counters.fragments_in += 1;
        // Nothing that is sent to a group needs fragments.
        if header.dst.is_multicast() || header.src.is_unspecified() {
            return Err(DropReason::FragmentMalformed);
        }
        let key = Key {
            src: header.src.into(),
            dst: header.dst.into(),
            ident: fragment.ident,
            protocol: None,
        };
        let piece = Fragment {
            key,
            port: at.port,
            protocol: fragment.next_header,
            offset: fragment.offset,
            more: fragment.more,
            ecn: header.ecn(),
            head,
            data,
        };
        let Some(whole) = self.reassembler.push(at.now, &piece, counters)? else {
            return Ok(Input::Consumed);
        };
        match ipv6::upper_layer_reassembled(whole.protocol, &whole.data) {
            Ok(Upper {
                protocol, offset, ..
            }) => {
                // The field in front of the fragmentable part is the first byte of the fragment
                // header.
                let pointer = whole.head.len().saturating_sub(FragmentHeader::LEN) as u32;
                self.deliver_assembled(
                    at,
                    Assembled { protocol, ..whole },
                    offset,
                    pointer,
                    counters,
                )
            }
            Err(_) => Err(DropReason::IpExtension),
        }
    }

    fn deliver_assembled<'a>(
        &mut self,
        at: &Arrival,
        whole: Assembled,
        payload_start: usize,
        pointer: u32,
        counters: &mut Counters,
    ) -> Result<Input<'a>, DropReason> {
        let Assembled {
            src,
            dst,
            port,
            protocol,
            ecn,
            mut head,
            mut data,
        } = whole;
        let at = Arrival {
            port,
            checksum: RxChecksum::Unverified,
            ..*at
        };
        head.extend(data.drain(..payload_start.min(data.len())));
        let packet = Packet {
            src,
            dst,
            protocol,
            hop_limit: 0,
            ecn,
            head: head.into(),
            payload: data.into(),
            pointer,
        };
        self.deliver(&at, packet, counters)
    }

    fn deliver<'a>(
        &mut self,
        at: &Arrival,
        packet: Packet<'a>,
        counters: &mut Counters,
    ) -> Result<Input<'a>, DropReason> {
        match packet.protocol {
            Protocol::TCP if packet.is_unicast() => {
                let Packet {
                    src,
                    dst,
                    ecn,
                    payload,
                    ..
                } = packet;
                Ok(Input::Tcp(Datagram {
                    src,
                    dst,
                    payload,
                    checksum: at.checksum,
                    ecn,
                }))
            }
            Protocol::ICMP if packet.dst.is_ipv4() => self.icmpv4(at, &packet, counters),
            Protocol::ICMPV6 if packet.dst.is_ipv6() => self.icmpv6(at, &packet, counters),
            Protocol::UDP => Err(self.udp(at, &packet, counters)),
            Protocol::NO_NEXT_HEADER if packet.dst.is_ipv6() => Err(DropReason::IpProtocol),
            _ => Err(self.errors(at.now, counters).refuse_protocol(&packet)),
        }
    }
}

/// A segment that came whole: what nearly every packet is.
#[inline]
fn tcp<'a>(at: &Arrival, src: IpAddr, dst: IpAddr, ecn: Ecn, payload: &'a [u8]) -> Input<'a> {
    Input::Tcp(Datagram {
        src,
        dst,
        payload: Cow::Borrowed(payload),
        checksum: at.checksum,
        ecn,
    })
}

/// Groups of ours are few: whether IP wants the packet is for IP to say, but most of what concerns
/// others ends here.
fn is_group(mac: MacAddr) -> bool {
    const ALL_NODES: MacAddr = multicast_mac(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1));
    mac == MacAddr::BROADCAST || mac == ALL_NODES || mac.0.starts_with(&[0x33, 0x33, 0xff])
}
