//! Prediction of the headers below TCP: what nearly every frame carries, in a few comparisons.
//! Whatever is taken here, [`Net::input`] takes as well; nothing is while that has to note where
//! frames come from.

use std::borrow::Cow;
use std::net::IpAddr;

use wire::ethernet::{EtherType, EthernetHeader};
use wire::frame::RxFrame;
use wire::ip::Protocol;
use wire::ipv4::PlainIpv4;

use crate::id::PortId;

use super::address::NetLink;
use super::{Datagram, Net};

/// The packet in a frame with an untagged IPv4 header that another station sent to this one alone.
#[inline]
fn unwrap<'a>(link: &NetLink, frame: &'a [u8]) -> Option<&'a [u8]> {
    let (h, packet) = frame.split_first_chunk::<{ EthernetHeader::LEN }>()?;
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *h;
    let is_ours = is_same([d0, d1, d2, d3, d4, d5], link.mac.0);
    let is_echo = is_same([s0, s1, s2, s3, s4, s5], link.mac.0);
    let from_group = s0 & 1 != 0;
    let is_ipv4 = u16::from_be_bytes([t0, t1]) == EtherType::IPV4.0;
    (is_ours && is_ipv4 && !is_echo && !from_group).then_some(packet)
}

/// Whether two hardware addresses are the same, in two words: six bytes at once are first put
/// together from what lies in memory.
#[inline(always)]
fn is_same([a, b, c, d, e, f]: [u8; 6], [g, h, i, j, k, l]: [u8; 6]) -> bool {
    let start = u32::from_ne_bytes([a, b, c, d]) ^ u32::from_ne_bytes([g, h, i, j]);
    let end = u16::from_ne_bytes([e, f]) ^ u16::from_ne_bytes([k, l]);
    start | u32::from(end) == 0
}

impl Net {
    /// The segment in a frame that came on `port`: IPv4 without options and in one piece, from
    /// another host to us. `None` says nothing.
    #[inline(always)]
    pub fn predicted<'a>(&self, port: PortId, frame: &RxFrame<'a>) -> Option<Datagram<'a>> {
        if self.links.neighbours.notes_guests() {
            return None;
        }
        let link = self.addresses().link(port)?;
        let packet = PlainIpv4::parse(unwrap(link, frame.bytes)?)?;
        let fits =
            packet.protocol == Protocol::TCP && self.addresses().are_apart(packet.src, packet.dst);
        fits.then_some(Datagram {
            src: IpAddr::V4(packet.src),
            dst: IpAddr::V4(packet.dst),
            payload: Cow::Borrowed(packet.payload),
            checksum: frame.meta.checksum,
            ecn: packet.ecn,
        })
    }
}
