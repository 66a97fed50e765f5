//! From the settings of a process to those of one stack.

use std::net::IpAddr;

use ::io::loopback::LoopPort;
use mtcp_core::config::{self as stack, NeighbourSource};
use mtcp_core::{Holdings, PortId};
use wire::frame::{Capabilities, MacAddr};

use super::keys::link;
use super::spec::is_original;
use super::{Cidr, Config, IoSpec};

/// The smallest pool that leaves room for a few buffers of any size.
const MIN_POOL: usize = 4 << 20;

impl Config {
    /// The link, with its name taken from `port` if `io` gives none.
    ///
    /// # Errors
    /// No name, or several: one line.
    pub fn link(&self) -> Result<IoSpec, String> {
        if self.io.is_whole() {
            return Ok(self.io.clone());
        }
        let (kind, syntax) = (self.io.kind(), self.io.syntax());
        match self.interfaces.as_slice() {
            [] => Err(format!("io '{kind}' names nothing: write io = {syntax}")),
            [all] if all == "all" => Err(format!(
                "port = all names no interface: write io = {syntax}, one interface per process"
            )),
            [first, others @ ..] => {
                if !others.is_empty() {
                    log::warn!(
                        "port: {} is not used: one interface per process, start another process for it",
                        others.join(" ")
                    );
                }
                IoSpec::of(kind, first)
            }
        }
    }

    /// The link that a file calls `text`: one that only the original mTCP has is another here, if
    /// it is said which.
    pub(super) fn link_for(&self, text: &str) -> Result<IoSpec, String> {
        match &self.io_as {
            Some(link) if is_original(text) => Ok(link.clone()),
            _ => link(text),
        }
    }

    /// What would make a stack of these settings useless, before anything is opened.
    ///
    /// # Errors
    /// One line with cause and remedy.
    pub fn check(&self) -> Result<(), String> {
        let link = self.link()?;
        if matches!(link, IoSpec::Daemon(_)) {
            // All else is the daemon's.
            return Ok(());
        }
        self.check_host(&link)?;
        if self.addresses.is_empty() {
            return Err("no address: set addr, for example addr = 10.0.0.2/24, or MTCP_ADDR in the environment".into());
        }
        for (index, cidr) in self.addresses.iter().enumerate() {
            check_address(cidr)?;
            let earlier = self.addresses.iter().take(index);
            if earlier.into_iter().any(|other| other.addr == cidr.addr) {
                return Err(format!("addr {} is given twice: leave one out", cidr.addr));
            }
        }
        self.check_gateways()?;
        self.check_follows()
    }

    /// Where the kernel has an interface of its own, it knows something of it.
    fn check_follows(&self) -> Result<(), String> {
        match self.link()? {
            IoSpec::Afxdp(_) | IoSpec::Packet(_) => Ok(()),
            _ if !self.follow_kernel => Ok(()),
            link => Err(format!(
                "follow_kernel = yes with io = {link}, of which the kernel knows nothing: use an interface of the kernel \
                 (io = afxdp:IFACE or packet:IFACE), or set follow_kernel = no"
            )),
        }
    }

    /// One gateway of a family at most, and each on a link of ours: in a network of ours, at the
    /// end of a route without a gateway, or an address that is of the link by itself
    /// (RFC 4291 §2.5.6).
    fn check_gateways(&self) -> Result<(), String> {
        for family in [IpAddr::is_ipv4, IpAddr::is_ipv6] {
            let of_family = self.gateways.iter().filter(|gateway| family(gateway));
            if of_family.count() > 1 {
                return Err(
                    "several gateways for one family: keep one, use route for the others".into(),
                );
            }
        }
        let routes = self.routes.iter().filter(|route| route.gateway.is_none());
        let near: Vec<Cidr> = routes
            .map(|route| route.network)
            .chain(self.addresses.iter().copied())
            .collect();
        // Who has nothing but an address of its own, as clouds give them, has a gateway beyond any
        // network.
        let alone = |ipv4: bool| {
            let mut ours = self
                .addresses
                .iter()
                .filter(|cidr| cidr.addr.is_ipv4() == ipv4);
            ours.any(|cidr| cidr.prefix_len == if ipv4 { 32 } else { 128 })
        };
        let is_far = |gateway: &&IpAddr| {
            let of_link = matches!(gateway, IpAddr::V6(v6) if v6.is_unicast_link_local());
            let near = || near.iter().any(|network| network.contains(**gateway));
            !of_link && !near() && !alone(gateway.is_ipv4())
        };
        match self.gateways.iter().find(is_far) {
            Some(gateway) => Err(format!(
                "gateway {gateway} is in no network of ours: use one that is, or say how to reach it (route = {gateway}/{} in mtcp.conf)",
                if gateway.is_ipv4() { 32 } else { 128 }
            )),
            None => Ok(()),
        }
    }

    /// What one context has for connections. Those that the application closed go on for a while
    /// without a socket.
    pub(crate) fn holdings(&self) -> Holdings {
        let least = stack::Config::default().max_buffer;
        Holdings {
            connections: self.max_concurrency.saturating_add(self.orphans()),
            send_pool: self.pool(self.sndbuf),
            max_buffer: self.rcvbuf.max(self.sndbuf).max(least),
        }
    }

    fn max_half_open(&self) -> u32 {
        let default = stack::Config::default().max_half_open;
        default.max(self.max_concurrency)
    }

    fn max_time_wait(&self) -> u32 {
        let default = stack::Config::default().max_time_wait;
        default.max(self.max_concurrency)
    }

    /// Flows that one context has at most, in any state.
    pub(crate) fn flows(&self) -> u32 {
        let records = self.max_half_open().saturating_add(self.max_time_wait());
        self.holdings().connections.saturating_add(records)
    }

    /// Connections without a socket: they do not count against `max_concurrency`.
    pub(super) fn orphans(&self) -> u32 {
        if self.max_orphans == 0 {
            self.max_concurrency
        } else {
            self.max_orphans
        }
    }

    /// One context's stack. `secret` is random.
    pub(crate) fn stack(
        &self,
        mac: MacAddr,
        capabilities: Capabilities,
        secret: [u8; 32],
    ) -> stack::Config {
        let port = PortId(0);
        let defaults = stack::Config::default();
        let Holdings {
            connections,
            send_pool,
            max_buffer,
        } = self.holdings();
        let room = self.has_room_for_ipv6(capabilities.mtu);
        let neighbour = |spec: &super::NeighbourSpec| stack::StaticNeighbour {
            addr: spec.network.addr,
            prefix_len: spec.network.prefix_len,
            mac: spec.mac,
            port,
        };
        stack::Config {
            interfaces: with_loop(stack::Interface {
                mac: self.mac.unwrap_or(mac),
                capabilities,
                addresses: self.stack_addresses(room),
            }),
            routes: self.stack_routes(port, room),
            neighbours: self.neighbours.iter().map(neighbour).collect(),
            host_addresses: self.host,
            ephemeral: self.ephemeral(),
            neighbour_source: match self.follow_kernel {
                true => NeighbourSource::Kernel,
                false => NeighbourSource::Stack,
            },
            secret,
            max_connections: connections,
            max_orphans: self.orphans(),
            prefault: self.prefault,
            max_half_open: self.max_half_open(),
            max_time_wait: self.max_time_wait(),
            recv_pool: self.pool(self.rcvbuf),
            send_pool,
            recv_buffer: self.rcvbuf,
            send_buffer: self.sndbuf,
            autotune: self.autotune,
            max_buffer,
            time_wait: self.tcp_timewait,
            persist_timeout: self.persist_timeout,
            max_segment: (self.mss > 0).then_some(self.mss),
            congestion: self.congestion,
            pacing: self.pacing,
            syn_cookies: self.syn_cookies,
            abort_on_overflow: self.abort_on_overflow,
            ecn: self.ecn,
            huge_pages: self.huge_pages,
            ..defaults
        }
    }

    /// First and last port that the stack chooses from.
    pub(crate) fn ephemeral(&self) -> (u16, u16) {
        let usual = || stack::Config::default().ephemeral;
        self.own_ports.unwrap_or_else(usual)
    }

    /// RFC 8200 §5: IPv6 needs a link that carries 1280 bytes. On a shorter one IPv4 goes on alone,
    /// as in the kernel.
    fn has_room_for_ipv6(&self, mtu: u16) -> bool {
        let has =
            |family: fn(&IpAddr) -> bool| self.addresses.iter().any(|cidr| family(&cidr.addr));
        let alone = mtu < 1280 && has(IpAddr::is_ipv4);
        if alone && has(IpAddr::is_ipv6) {
            log::warn!(
                "the MTU of {mtu} bytes is too small for IPv6: its addresses are not used (at least 1280: ip link set INTERFACE mtu 1280)"
            );
        }
        !alone
    }

    fn stack_addresses(&self, room_for_ipv6: bool) -> Vec<stack::Address> {
        let fit = |cidr: &&Cidr| room_for_ipv6 || cidr.addr.is_ipv4();
        let addresses = self.addresses.iter().filter(fit);
        let address = |cidr: &Cidr| stack::Address {
            addr: cidr.addr,
            prefix_len: cidr.prefix_len,
        };
        addresses.map(address).collect()
    }

    fn stack_routes(&self, port: PortId, room_for_ipv6: bool) -> Vec<stack::Route> {
        let routes = self.routes.iter().map(|route| stack::Route {
            network: masked(route.network.addr, route.network.prefix_len),
            prefix_len: route.network.prefix_len,
            gateway: route.gateway,
            port,
        });
        let gateways = self.gateways.iter().map(|&gateway| stack::Route {
            network: masked(gateway, 0),
            prefix_len: 0,
            gateway: Some(gateway),
            port,
        });
        routes
            .chain(gateways)
            .filter(|route| room_for_ipv6 || route.network.is_ipv4())
            .collect()
    }

    /// Bytes for buffers with the limit `buffer`.
    fn pool(&self, buffer: u32) -> usize {
        let buffers = if self.max_num_buffers == 0 {
            self.max_concurrency
        } else {
            self.max_num_buffers
        };
        let wanted = (buffers as usize).saturating_mul(buffer as usize);
        wanted.clamp(MIN_POOL, self.buffer_memory.max(MIN_POOL))
    }
}

/// `addr` with the host part zero.
fn masked(addr: IpAddr, prefix_len: u8) -> IpAddr {
    match addr {
        IpAddr::V4(v4) => {
            let mask = u32::MAX
                .checked_shl(32 - u32::from(prefix_len))
                .unwrap_or(0);
            IpAddr::V4((u32::from(v4) & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX
                .checked_shl(128 - u32::from(prefix_len))
                .unwrap_or(0);
            IpAddr::V6((u128::from(v6) & mask).into())
        }
    }
}

/// An address that a host can have: not that of a network, nor of everybody in it
/// (RFC 1122 §3.2.1.3).
fn check_address(cidr: &Cidr) -> Result<(), String> {
    let Cidr { addr, prefix_len } = cidr;
    let whole = wire::ip::Cidr::new(*addr, *prefix_len);
    let what = match (addr, whole) {
        _ if addr.is_unspecified() || addr.is_multicast() => "is not the address of a host",
        (_, None) => "has more bits of a network than an address has",
        (IpAddr::V4(v4), Some(whole)) if whole.is_broadcast(*v4) => {
            "is the address of the network itself, or its broadcast address"
        }
        _ => return Ok(()),
    };
    Err(format!(
        "addr {addr}/{prefix_len} {what}: use one of a host in it"
    ))
}

/// An interface, and unless that is one itself, one on which what we send to our addresses comes
/// back, as on the loopback interface of a host (RFC 1122 §3.3.4.2).
pub(crate) fn with_loop(link: stack::Interface) -> Vec<stack::Interface> {
    let host = |address: &stack::Address| stack::Address {
        addr: address.addr,
        prefix_len: if address.addr.is_ipv4() { 32 } else { 128 },
    };
    let own = (!link.capabilities.loops).then(|| stack::Interface {
        mac: LoopPort::MAC,
        capabilities: LoopPort::CAPABILITIES,
        addresses: link.addresses.iter().map(host).collect(),
    });
    [link].into_iter().chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_parts_are_masked() {
        let addr = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(masked(addr("10.0.1.5"), 24), addr("10.0.1.0"));
        assert_eq!(masked(addr("10.0.1.5"), 0), addr("0.0.0.0"));
        assert_eq!(masked(addr("10.0.1.5"), 32), addr("10.0.1.5"));
        assert_eq!(masked(addr("fd00::5"), 64), addr("fd00::"));
    }

    #[test]
    fn what_is_missing_is_said() {
        let mut config = Config::default();
        assert!(config.check().unwrap_err().contains("addr = "));
        config.set("addr", "10.0.0.2/24").unwrap();
        assert_eq!(config.check(), Ok(()));
        config.set("gateway", "10.0.0.1 10.0.0.3").unwrap();
        assert!(config.check().unwrap_err().contains("several gateways"));
    }

    #[test]
    fn a_gateway_is_on_a_link_of_ours() {
        let gateway = |settings: &[(&str, &str)]| {
            let mut config = Config::default();
            for (key, value) in settings {
                config.set(key, value).unwrap();
            }
            config.check()
        };
        let far = gateway(&[("addr", "10.0.0.2/24"), ("gateway", "10.9.0.1")]).unwrap_err();
        assert!(
            far.contains("10.9.0.1") && far.contains("route = 10.9.0.1/32 "),
            "{far}"
        );
        for near in [
            [
                ("addr", "10.0.0.2/24"),
                ("gateway", "10.0.0.1"),
                ("route", "10.1.0.0/16@10.0.0.9"),
            ],
            [
                ("addr", "10.0.0.2/32"),
                ("gateway", "10.9.0.1"),
                ("route", "10.9.0.1/32"),
            ],
            [
                ("addr", "fd00::2/128"),
                ("gateway", "fe80::1"),
                ("route", "fd01::/64"),
            ],
        ] {
            assert_eq!(gateway(&near), Ok(()), "{near:?}");
        }
    }

    #[test]
    fn an_address_is_that_of_a_host() {
        for (addr, word) in [
            ("0.0.0.0/0", "not the address of a host"),
            ("224.0.0.1/4", "not the address of a host"),
            ("10.0.0.0/24", "the network itself"),
            ("10.0.0.255/24", "broadcast"),
        ] {
            let mut config = Config::default();
            config.set("addr", addr).unwrap();
            let refused = config.check().unwrap_err();
            assert!(
                refused.contains(word) && refused.contains(": use one"),
                "{refused}"
            );
        }
        // Two addresses, two hosts (RFC 3021).
        for addr in ["10.0.0.0/31", "10.0.0.1/32", "fd00::/64"] {
            let mut config = Config::default();
            config.set("addr", addr).unwrap();
            assert_eq!(config.check(), Ok(()), "{addr}");
        }
    }

    #[test]
    fn ipv6_stays_away_from_links_that_are_too_short() {
        let mut config = Config::default();
        config.set("addr", "10.0.0.2/24 fd00::2/64").unwrap();
        config.set("gateway", "10.0.0.1 fd00::1").unwrap();
        let stack = |mtu| {
            let capabilities = Capabilities {
                mtu,
                queues: 1,
                tx_checksum: false,
                tx_gso: 0,
                loops: false,
            };
            let stack = config.stack(MacAddr::default(), capabilities, [0; 32]);
            (stack.interfaces[0].addresses.len(), stack.routes.len())
        };
        assert_eq!(stack(1280), (2, 2));
        assert_eq!(stack(576), (1, 1));
    }

    #[test]
    fn a_lone_address_has_its_gateway_anywhere() {
        let mut config = Config::default();
        config.set("addr", "10.0.9.2/32").unwrap();
        config.set("gateway", "10.0.0.1").unwrap();
        assert_eq!(config.check(), Ok(()));
        config.set("gateway", "fd00::1").unwrap();
        assert!(config.check().unwrap_err().contains("fd00::1"));
    }

    #[test]
    fn of_several_interfaces_the_first_is_used() {
        let mut config = Config::default();
        config.set("io", "afxdp").unwrap();
        assert!(config.link().unwrap_err().contains("afxdp:IFACE"));
        config.set("port", "a b").unwrap();
        assert_eq!(config.link(), Ok(IoSpec::Afxdp("a".into())));
        config.set("port", "all").unwrap();
        assert!(config.link().unwrap_err().contains("one interface"));
    }
}
