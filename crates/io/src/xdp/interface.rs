//! An interface that is open: ports, and what it is like.

use std::net::IpAddr;

use crate::netlink::Link;

use super::port::XdpPort;
use super::program::Mode;

/// An interface with our steering program on it and a socket on each of its queues.
#[derive(Debug)]
pub struct XdpInterface {
    pub(super) ports: Vec<XdpPort>,
    pub(super) share: u32,
    pub(super) mode: Mode,
    pub(super) link: Link,
    pub(super) conflicts: Vec<IpAddr>,
}

impl XdpInterface {
    /// The ports: as many as were asked for, or one per queue. Port `i` of `n` serves the queues
    /// `i`, `i + n`, …
    pub fn ports(self) -> Vec<XdpPort> {
        self.ports
    }

    /// Which share of the queues this is, of those that processes have: counted from 0.
    pub fn share(&self) -> u32 {
        self.share
    }

    /// How frames come in and go out.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The interface as it was when it was opened.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Those of our addresses that the kernel owns as well. It keeps answering for them on other
    /// interfaces, and connections of its own from them get no answer on this one.
    pub fn conflicts(&self) -> &[IpAddr] {
        &self.conflicts
    }
}
