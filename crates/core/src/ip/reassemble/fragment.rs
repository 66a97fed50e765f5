//! A fragment as it came, and what comes of all of them.

use std::net::IpAddr;

use wire::ip::{Ecn, Protocol};

use crate::id::PortId;

/// What fragments of one datagram have in common: RFC 791 §3.2 (with the protocol), RFC 8200 §4.5
/// (without).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Source.
    pub src: IpAddr,
    /// Destination.
    pub dst: IpAddr,
    /// Identification.
    pub ident: u32,
    /// IPv4 only; `None` for IPv6.
    pub protocol: Option<Protocol>,
}

/// A fragment as it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Fragment<'a> {
    /// Of its datagram.
    pub key: Key,
    /// Where it came in.
    pub port: PortId,
    /// What the datagram carries, as this fragment says.
    pub protocol: Protocol,
    /// Position in the datagram, in bytes; a multiple of 8.
    pub offset: u16,
    /// More fragments follow.
    pub more: bool,
    /// ECN field of its header.
    pub ecn: Ecn,
    /// The packet up to `data`, for ICMP errors.
    pub head: &'a [u8],
    /// Its piece of the datagram.
    pub data: &'a [u8],
}

/// A datagram that is complete, or that gave up with its first fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembled {
    /// Addresses and so on.
    pub src: IpAddr,
    /// Destination.
    pub dst: IpAddr,
    /// Where its first fragment to arrive came in.
    pub port: PortId,
    /// What it carries, as the first fragment says.
    pub protocol: Protocol,
    /// RFC 3168 §5.3 over all fragments.
    pub ecn: Ecn,
    /// Headers of the first fragment, for ICMP errors; empty if they were too long.
    pub head: Vec<u8>,
    /// The bytes: of the whole datagram, or of the first fragment if it timed out.
    pub data: Vec<u8>,
}
