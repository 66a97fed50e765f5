//! The headers in front of what the stack sends.

use std::net::IpAddr;

use wire::ethernet::{EtherType, EthernetHeader};
use wire::frame::MacAddr;
use wire::ip::Protocol;
use wire::ipv4::Ipv4Header;
use wire::ipv6::Ipv6Header;

use crate::id::PortId;

use super::path::Path;

/// RFC 1700's recommendation, and everybody's.
/// RFC 1122 §3.2.1.7-1.
pub const HOP_LIMIT: u8 = 64;

/// Whom a frame goes to on its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// This hardware address.
    Mac(MacAddr),
    /// The neighbour with this address.
    NextHop(IpAddr),
}

/// The headers of a packet that the stack itself sends.
#[derive(Clone, Copy, Debug)]
pub struct Envelope {
    /// Where it leaves.
    pub port: PortId,
    /// Whom it goes to on the link.
    pub to: To,
    /// Source.
    pub src: IpAddr,
    /// Destination.
    pub dst: IpAddr,
    /// What the payload is.
    pub protocol: Protocol,
    /// Hop limit or TTL.
    pub hop_limit: u8,
}

impl Envelope {
    /// A packet along `path`.
    pub fn along(path: &Path, dst: IpAddr, protocol: Protocol) -> Self {
        let Path {
            port,
            src,
            next_hop,
            known: _,
            mtu: _,
            class: _,
            hop_limit,
        } = *path;
        Self {
            port,
            to: To::NextHop(next_hop),
            src,
            dst,
            protocol,
            hop_limit,
        }
    }

    /// Part of its callers: most of what it is told is the same each time. One look at the length
    /// of the frame for both headers.
    #[inline(always)]
    pub(super) fn emit(
        &self,
        frame: &mut [u8],
        our_mac: MacAddr,
        mac: MacAddr,
        payload_len: usize,
        tos: u8,
    ) -> usize {
        let ethernet = |ether_type| EthernetHeader {
            dst: mac,
            src: our_mac,
            ether_type,
            vlan: None,
        };
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let Some(headers) = frame.first_chunk_mut::<HEADERS_V4>() else {
                    return 0;
                };
                let start = ethernet(EtherType::IPV4).emit(headers);
                // Don't fragment, and therefore identification 0 (RFC 6864 §4.1).
                let header = Ipv4Header {
                    ttl: self.hop_limit,
                    tos,
                    ..Ipv4Header::new(src, dst, self.protocol, payload_len)
                };
                start + header.emit(headers.get_mut(start..).unwrap_or_default())
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let Some(headers) = frame.first_chunk_mut::<HEADERS_V6>() else {
                    return 0;
                };
                let start = ethernet(EtherType::IPV6).emit(headers);
                let header = Ipv6Header {
                    hop_limit: self.hop_limit,
                    traffic_class: tos,
                    ..Ipv6Header::new(src, dst, self.protocol, payload_len)
                };
                start + header.emit(headers.get_mut(start..).unwrap_or_default())
            }
            _ => 0,
        }
    }
}

const HEADERS_V4: usize = EthernetHeader::LEN + Ipv4Header::LEN;
const HEADERS_V6: usize = EthernetHeader::LEN + Ipv6Header::LEN;

/// Bytes of the headers in front of what goes to `dst`.
#[inline]
pub(crate) fn headers_len(dst: IpAddr) -> usize {
    match dst {
        IpAddr::V4(_) => HEADERS_V4,
        IpAddr::V6(_) => HEADERS_V6,
    }
}
