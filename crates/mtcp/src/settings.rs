//! The settings of one context.

use std::net::IpAddr;
use std::time::Duration;

use crate::service::Facts;
use crate::wall::Wall;
use crate::{Config, CongestionControl, affinity};

/// What a context takes from the configuration.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) core: usize,
    pub(crate) one_event_per_entry: bool,
    pub(crate) legacy_errors: bool,
    pub(crate) rcvbuf: u32,
    pub(crate) sndbuf: u32,
    pub(crate) congestion: CongestionControl,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) pinned: bool,
    /// First and last port that `bind` picks from.
    pub(crate) ports: (u16, u16),
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) wall: Wall,
}

impl Settings {
    pub(crate) fn new(config: &Config, core: usize, wall: Wall) -> Self {
        Self {
            core,
            one_event_per_entry: config.one_event_per_entry,
            legacy_errors: config.legacy_errors,
            rcvbuf: config.rcvbuf,
            sndbuf: config.sndbuf,
            congestion: config.congestion,
            idle_timeout: config.tcp_timeout,
            ports: config.ephemeral(),
            pinned: config.pin,
            addresses: config.addresses.iter().map(|cidr| cidr.addr).collect(),
            wall,
        }
    }

    /// Of a program that is attached to a stack.
    pub(crate) fn of_facts(config: &Config, core: usize, facts: &Facts) -> Self {
        Self {
            core,
            one_event_per_entry: config.one_event_per_entry,
            legacy_errors: config.legacy_errors,
            rcvbuf: facts.recv_buffer,
            sndbuf: facts.send_buffer,
            congestion: facts.congestion,
            idle_timeout: facts.idle_timeout,
            ports: facts.ports,
            pinned: false,
            addresses: facts.addresses().collect(),
            wall: Wall::default(),
        }
    }

    /// As the settings of a stack say, and otherwise what nobody has set.
    pub(crate) fn of_stack(config: &mtcp_core::Config) -> Self {
        let link = config.interfaces.first();
        let addresses = link.map(|link| link.addresses.iter().map(|address| address.addr));
        Self {
            core: 0,
            one_event_per_entry: false,
            legacy_errors: false,
            rcvbuf: config.recv_buffer,
            sndbuf: config.send_buffer,
            congestion: config.congestion,
            idle_timeout: None,
            ports: config.ephemeral,
            pinned: false,
            addresses: addresses.into_iter().flatten().collect(),
            wall: Wall::default(),
        }
    }

    /// The processor that works for this context: the one its threads are pinned to.
    pub(crate) fn processor(&self) -> Option<i32> {
        let pinned = self.pinned.then(affinity::current);
        pinned.and_then(|cpu| i32::try_from(cpu).ok())
    }
}
