//! How packets travel.

use std::net::{IpAddr, Ipv4Addr};

use wire::frame::MacAddr;

use crate::id::PortId;

/// How packets to a destination travel. Neither neighbour states nor what is known of its MTU are
/// in it: it stays true while the stack exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Path {
    /// Where they leave.
    pub port: PortId,
    /// Our address.
    pub src: IpAddr,
    /// The neighbour that takes them.
    pub next_hop: IpAddr,
    /// Its hardware address, if that was configured: it has not to be asked for, nor confirmed.
    pub known: Option<MacAddr>,
    /// Largest IP packet of the link, in bytes.
    pub mtu: u16,
    /// TOS or traffic class, without the bits of ECN.
    pub class: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
}

impl Path {
    /// The way to no one.
    pub const NOWHERE: Self = Self {
        port: PortId(0),
        src: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        next_hop: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        known: None,
        mtu: 0,
        class: 0,
        hop_limit: 0,
    };
}
