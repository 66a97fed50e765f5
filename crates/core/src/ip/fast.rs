//! Prediction of the headers below TCP: what nearly every frame carries, in a few comparisons. Whatever is taken here,
//! [`Net::input`] takes as well in its other steps.

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
    // Where they lie: addresses taken out of the header are compared byte by byte.
    let is_ours = h[..6] == link.mac.0;
    let is_echo = h[6..12] == link.mac.0;
    let from_group = h[6] & 1 != 0;
    let is_ipv4 = h[12..] == EtherType::IPV4.0.to_be_bytes();
    (is_ours && is_ipv4 && !is_echo && !from_group).then_some(packet)
}

impl Net {
    /// The segment in a frame that came on `port`: IPv4 without options and in one piece, from another host to us. `None` says nothing.
    #[inline(always)]
    pub fn predicted<'a>(&self, port: PortId, frame: &RxFrame<'a>) -> Option<Datagram<'a>> {
        let link = self.addresses.link(port)?;
        let packet = PlainIpv4::parse(unwrap(link, frame.bytes)?)?;
        let fits =
            packet.protocol == Protocol::TCP && self.addresses.are_apart(packet.src, packet.dst);
        fits.then_some(Datagram {
            src: IpAddr::V4(packet.src),
            dst: IpAddr::V4(packet.dst),
            payload: Cow::Borrowed(packet.payload),
            checksum: frame.meta.checksum,
            ecn: packet.ecn,
        })
    }
}
