//! What came, on its way in.

use std::borrow::Cow;
use std::net::IpAddr;

use wire::frame::{MacAddr, RxChecksum};
use wire::ip::{Ecn, Protocol};
use wire::time::Instant;

use crate::id::PortId;

use super::address::is_host_address;

/// A frame on its way in.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Now.
    pub now: Instant,
    /// Where it came in.
    pub port: PortId,
    /// Its link-layer source.
    pub src: MacAddr,
    /// Whether its link-layer destination is a group, or everybody.
    pub to_group: bool,
    /// What the port knows of the transport checksum.
    pub checksum: RxChecksum,
}

/// A whole IP packet behind its headers.
#[derive(Debug)]
pub struct Packet<'a> {
    /// Source: can be a host's address, except that IPv6 also permits the unspecified one.
    pub src: IpAddr,
    /// Destination: ours, or (IPv6 only) a group that we are in.
    pub dst: IpAddr,
    /// What the payload is.
    pub protocol: Protocol,
    /// Hop limit or TTL as it arrived; 0 for what came in fragments.
    pub hop_limit: u8,
    /// ECN field.
    pub ecn: Ecn,
    /// Everything in front of the payload, for ICMP errors.
    pub head: Cow<'a, [u8]>,
    /// From the transport header on.
    pub payload: Cow<'a, [u8]>,
    /// Position of the field that says `protocol`, from the start of the IP header, in bytes.
    pub pointer: u32,
}

impl Packet<'_> {
    /// Whether one host sent it to one host: all others must not be answered with errors
    /// (RFC 1122 §3.2.2, RFC 4443 §2.4(e)). RFC 1122 §3.2.2-2; RFC 4443 §2.4-3.
    pub fn is_unicast(&self) -> bool {
        is_host_address(self.src) && is_host_address(self.dst)
    }
}
