//! Our addresses and the links they are on.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use siphasher::sip::SipHasher13;
use wire::frame::{Capabilities, MacAddr};
use wire::ip::{Cidr, is_valid_source};
use wire::ndp::solicited_node;

use crate::config::{Config, Interface};
use crate::id::PortId;

/// RFC 791 §3.2: every host takes packets of 576 bytes; nothing sensible has less.
const MIN_MTU_V4: u16 = 576;
/// RFC 8200 §5.
const MIN_MTU_V6: u16 = 1280;

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_INTERFACE: Ipv6Addr = Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0, 1);

/// One port of the stack.
#[derive(Clone, Debug)]
pub struct NetLink {
    /// Our hardware address.
    pub mac: MacAddr,
    /// What the port can do.
    pub capabilities: Capabilities,
    /// Our addresses with their on-link prefixes.
    pub addresses: Vec<Cidr>,
}

impl NetLink {
    fn new(name: usize, config: &Interface, of_host: bool) -> io::Result<Self> {
        let error = |text: String| invalid(format!("interface {name}: {text}"));
        if config.mac.is_multicast() {
            return Err(error(format!(
                "{} is a group address, not one of an interface",
                config.mac
            )));
        }
        let mut addresses = Vec::with_capacity(config.addresses.len() + 1);
        for &crate::config::Address { addr, prefix_len } in &config.addresses {
            let Some(cidr) = Cidr::new(addr, prefix_len) else {
                return Err(error(format!(
                    "{addr}/{prefix_len}: the prefix is longer than the address"
                )));
            };
            // RFC 1122 §3.2.1.3(g): inside a host.
            let is_host = is_host_address(addr) || config.capabilities.loops && addr.is_loopback();
            if !is_host || matches!(addr, IpAddr::V4(v4) if cidr.is_broadcast(v4)) {
                return Err(error(format!("{cidr} is not the address of a host")));
            }
            if addresses.iter().any(|other: &Cidr| other.addr == addr) {
                return Err(error(format!("{addr} is there twice")));
            }
            addresses.push(cidr);
        }
        let mut link = Self {
            mac: config.mac,
            capabilities: config.capabilities,
            addresses,
        };
        if !of_host {
            link.add_link_local();
        }
        link.check_mtu().map_err(error)?;
        Ok(link)
    }

    /// RFC 4291 §2.8: every interface that speaks IPv6 has a link-local address.
    fn add_link_local(&mut self) {
        let all: Vec<IpAddr> = self.addresses.iter().map(|cidr| cidr.addr).collect();
        let own = link_local(self.mac, &all, 0);
        self.addresses
            .extend(own.and_then(|own| Cidr::new(own.into(), 64)));
    }

    fn check_mtu(&self) -> Result<(), String> {
        let mtu = self.capabilities.mtu;
        let has_v6 = self.addresses.iter().any(|cidr| cidr.addr.is_ipv6());
        let min = if has_v6 { MIN_MTU_V6 } else { MIN_MTU_V4 };
        if mtu < min {
            return Err(format!("an MTU of {mtu} is too small; at least {min}"));
        }
        Ok(())
    }

    /// Whether `addr` is ours on this link.
    pub fn has(&self, addr: IpAddr) -> bool {
        self.addresses.iter().any(|cidr| cidr.addr == addr)
    }

    /// Whether we are in the IPv6 multicast group on this link (RFC 4291 §2.8).
    pub fn in_group(&self, group: Ipv6Addr) -> bool {
        let v6 = |cidr: &Cidr| ipv6(cidr.addr).is_some_and(|addr| solicited_node(addr) == group);
        group == ALL_NODES || group == ALL_NODES_INTERFACE || self.addresses.iter().any(v6)
    }

    /// The address to talk to `dst` from (RFC 6724 §5, as far as addresses without lifetimes and
    /// labels need it): of the same scope (rule 2), then with the longest prefix in common (rule
    /// 8).
    pub fn source_for(&self, dst: IpAddr) -> Option<IpAddr> {
        let candidates = self
            .addresses
            .iter()
            .map(|cidr| cidr.addr)
            .filter(|&addr| same_scope(addr, dst));
        // The first of equals: in the order of the configuration.
        candidates.reduce(|best, addr| {
            if common_prefix(addr, dst) > common_prefix(best, dst) {
                addr
            } else {
                best
            }
        })
    }
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

fn ipv6(addr: IpAddr) -> Option<Ipv6Addr> {
    match addr {
        IpAddr::V4(_) => None,
        IpAddr::V6(v6) => Some(v6),
    }
}

/// The link-local address that a stack with this hardware address and these addresses gives itself,
/// if any of them is of IPv6 and none is link-local.
///
/// Its interface identifier is one of ours, the same each time (RFC 7217 §5, without a secret): the
/// one that RFC 4291 appendix A makes of the hardware address is the kernel's on the same
/// interface. `dad_counter` says how many of them another host was found to have (RFC 7217 §6).
pub fn link_local(mac: MacAddr, addresses: &[IpAddr], dad_counter: u8) -> Option<Ipv6Addr> {
    let mut v6 = addresses.iter().filter_map(|addr| ipv6(*addr)).peekable();
    v6.peek()?;
    if v6.any(|addr| addr.is_unicast_link_local()) {
        return None;
    }
    let mut octets = [0; 16];
    octets[..2].copy_from_slice(&[0xfe, 0x80]);
    let hasher = SipHasher13::new_with_key(b"mtcp link-local ");
    let [a, b, c, d, e, f] = mac.0;
    let identifier = hasher.hash(&[a, b, c, d, e, f, dad_counter]);
    octets[8..].copy_from_slice(&identifier.to_be_bytes());
    // RFC 7136 §5: no bit of it means anything. Not that of a hardware address, so that nobody
    // mistakes it for one.
    octets[8] &= !2;
    Some(octets.into())
}

/// Whether a packet on a wire may come from or go to this single host: not unspecified, loopback,
/// multicast or broadcast, and not an IPv4 address in IPv6 clothes (RFC 1122 §3.2.1.3,
/// RFC 4291 §2.5, RFC 6890).
pub fn is_host_address(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(v4) => is_host_v4(v4),
        IpAddr::V6(v6) => {
            is_valid_source(addr) && !v6.is_loopback() && v6.to_ipv4_mapped().is_none()
        }
    }
}

/// From 1.0.0.0 to 223.255.255.255, without the loopback network.
#[inline]
fn is_host_v4(addr: Ipv4Addr) -> bool {
    let [network, ..] = addr.octets();
    (1..224).contains(&network) && network != 127
}

/// Whether a sorted list holds `value`. Most lists have one to four entries.
#[inline]
fn holds<T: Ord>(sorted: &[T], value: T) -> bool {
    if sorted.len() <= 8 {
        sorted.contains(&value)
    } else {
        sorted.binary_search(&value).is_ok()
    }
}

/// The bit that stands for an address in [`Addresses::sketch`].
#[inline]
const fn sketched(addr: u32) -> u64 {
    1 << (addr % u64::BITS)
}

fn same_scope(a: IpAddr, b: IpAddr) -> bool {
    match (a, b) {
        (IpAddr::V4(_), IpAddr::V4(_)) => true,
        (IpAddr::V6(a), IpAddr::V6(b)) => a.is_unicast_link_local() == is_link_scope(b),
        _ => false,
    }
}

/// Link-local, as an address or as the scope of a group (RFC 4291 §2.7).
fn is_link_scope(addr: Ipv6Addr) -> bool {
    addr.is_unicast_link_local() || addr.is_multicast() && addr.octets()[1] & 0x0f <= 2
}

fn common_prefix(a: IpAddr, b: IpAddr) -> u32 {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => 0,
    }
}

/// All ports with all our addresses.
#[derive(Debug)]
pub struct Addresses {
    links: Vec<NetLink>,
    /// All of ours, as numbers, sorted: two look-ups for every packet.
    local_v4: Vec<u32>,
    local_v6: Vec<u128>,
    /// Broadcast addresses of our networks (RFC 1122 §3.3.6: all ones, and all zeros of old), as
    /// numbers, sorted.
    broadcast: Vec<u32>,
    /// A bit for the end of each IPv4 address in the lists: where it is not set, nobody has to look
    /// whether a source is in one of them.
    sketch: u64,
}

impl Addresses {
    /// From the interfaces of `config`.
    ///
    /// # Errors
    /// An interface makes no sense; the text says which and why.
    pub fn new(config: &Config) -> io::Result<Self> {
        if config.interfaces.len() > 256 {
            return Err(invalid("more than 256 interfaces".into()));
        }
        let links: Vec<NetLink> = config
            .interfaces
            .iter()
            .enumerate()
            .map(|(i, interface)| NetLink::new(i, interface, config.host_addresses))
            .collect::<io::Result<_>>()?;
        let all = || links.iter().flat_map(|link| &link.addresses);
        let (mut local_v4, mut local_v6, mut broadcast) = (Vec::new(), Vec::new(), Vec::new());
        for cidr in all() {
            match cidr.addr {
                IpAddr::V4(v4) => local_v4.push(v4.to_bits()),
                IpAddr::V6(v6) => local_v6.push(v6.to_bits()),
            }
            if let (Some(ones), IpAddr::V4(zeros)) = (cidr.broadcast(), cidr.network()) {
                broadcast.extend([ones.to_bits(), zeros.to_bits()]);
            }
        }
        local_v4.sort_unstable();
        local_v6.sort_unstable();
        broadcast.sort_unstable();
        broadcast.dedup();
        let all_v4 = local_v4.iter().chain(&broadcast);
        Ok(Self {
            sketch: all_v4.fold(0, |sketch, &addr| sketch | sketched(addr)),
            local_v4,
            local_v6,
            broadcast,
            links,
        })
    }

    /// The port, if there is one with this number.
    pub fn link(&self, port: PortId) -> Option<&NetLink> {
        self.links.get(usize::from(port.0))
    }

    /// Whether packets to this address of ours come back on its link.
    pub fn comes_back(&self, addr: IpAddr) -> bool {
        let mut links = self.links.iter();
        links.any(|link| link.capabilities.loops && link.has(addr))
    }

    /// Whether what is sent to ourselves comes back on this link.
    pub fn loops(&self, port: PortId) -> bool {
        self.link(port).is_some_and(|link| link.capabilities.loops)
    }

    /// How many ports there are.
    pub fn ports(&self) -> usize {
        self.links.len()
    }

    /// Every address of ours with its port.
    pub fn iter(&self) -> impl Iterator<Item = (PortId, Cidr)> + '_ {
        (0..=u8::MAX)
            .zip(&self.links)
            .flat_map(|(port, link)| link.addresses.iter().map(move |&cidr| (PortId(port), cidr)))
    }

    /// Whether `addr` is ours on any port (weak host model, RFC 1122 §3.3.4.2).
    pub fn is_local(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(v4) => holds(&self.local_v4, v4.to_bits()),
            IpAddr::V6(v6) => holds(&self.local_v6, v6.to_bits()),
        }
    }

    /// Whether `addr` is the limited broadcast address or a broadcast address of one of our
    /// networks.
    pub fn is_broadcast(&self, addr: Ipv4Addr) -> bool {
        addr.is_broadcast() || holds(&self.broadcast, addr.to_bits())
    }

    /// Whether `dst` is ours and `src` can be another host's.
    /// RFC 9293 MUST-63.
    /// RFC 1122 §3.2.1.3-2.
    #[inline]
    pub fn are_apart(&self, src: Ipv4Addr, dst: Ipv4Addr) -> bool {
        let bits = src.to_bits();
        holds(&self.local_v4, dst.to_bits())
            && is_host_v4(src)
            && (self.sketch & sketched(bits) == 0 || !self.has_v4(bits))
    }

    /// Whether the lists of IPv4 addresses have this one.
    #[cold]
    fn has_v4(&self, bits: u32) -> bool {
        holds(&self.local_v4, bits) || holds(&self.broadcast, bits)
    }

    /// The address to talk to `dst` from when packets leave on `port`: one of that port, or else
    /// one of any other that is not bound to its link.
    pub fn source_for(&self, port: PortId, dst: IpAddr) -> Option<IpAddr> {
        let of_port = self.link(port).and_then(|link| link.source_for(dst));
        let elsewhere = || {
            let global =
                |addr: &IpAddr| !matches!(addr, IpAddr::V6(v6) if v6.is_unicast_link_local());
            self.links
                .iter()
                .filter_map(|link| link.source_for(dst))
                .find(global)
        };
        of_port.or_else(elsewhere)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::testing::{config, interface};

    fn addresses(texts: &[&[&str]]) -> Addresses {
        let interfaces = texts
            .iter()
            .enumerate()
            .map(|(i, texts)| interface(i as u8, texts))
            .collect();
        Addresses::new(&config(interfaces)).unwrap()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_link_local_address_comes_with_ipv6() {
        let ours = addresses(&[
            &["192.0.2.1/24"],
            &["2001:db8::1/64"],
            &["2001:db8:1::1/64", "fe80::1/64"],
        ]);
        let address = link_local(interface(1, &[]).mac, &[ip("2001:db8::1")], 0).unwrap();
        let own = format!("1 {address}/64");
        let all: Vec<_> = ours
            .iter()
            .map(|(port, cidr)| format!("{} {cidr}", port.0))
            .collect();
        assert_eq!(
            all,
            [
                "0 192.0.2.1/24",
                "1 2001:db8::1/64",
                own.as_str(),
                "2 2001:db8:1::1/64",
                "2 fe80::1/64"
            ]
        );
        assert!(ours.is_local(address.into()) && !ours.is_local(ip("fe80::2")));
        assert!(
            !ours.is_local(ip("fe80::ff:fe00:1")),
            "what the kernel makes of the same hardware address"
        );
    }

    /// RFC 7217 §6.
    #[test]
    fn a_link_local_address_that_another_host_has_is_followed_by_another() {
        let mac = interface(0, &[]).mac;
        let nth = |dad_counter| link_local(mac, &[ip("2001:db8::1")], dad_counter).unwrap();
        for (one, other) in [(0, 1), (1, 2), (0, 2)] {
            assert_ne!(nth(one), nth(other));
        }
        assert_eq!(nth(1), nth(1), "the same each time");
        assert!(nth(3).is_unicast_link_local());
    }

    #[test]
    fn sources_have_the_scope_and_the_longest_prefix_of_the_destination() {
        let ours = addresses(&[
            &[
                "10.0.0.1/8",
                "10.1.0.1/16",
                "2001:db8::1/64",
                "2001:db8:0:1::1/64",
                "fe80::1/64",
            ],
            &["fe80::9/64"],
        ]);
        let from = |dst: &str| ours.source_for(PortId(0), ip(dst));
        assert_eq!(from("10.1.2.3"), Some(ip("10.1.0.1")));
        assert_eq!(from("10.0.2.3"), Some(ip("10.0.0.1")));
        assert_eq!(from("2001:db8:0:1::77"), Some(ip("2001:db8:0:1::1")));
        assert_eq!(from("fe80::77"), Some(ip("fe80::1")));
        assert_eq!(from("ff02::1"), Some(ip("fe80::1")));
        // Port 1 has only a link-local address: another port's address is used for what is beyond
        // the link.
        assert_eq!(
            ours.source_for(PortId(1), ip("2001:db8::77")),
            Some(ip("2001:db8::1"))
        );
        assert_eq!(
            ours.source_for(PortId(1), ip("fe80::77")),
            Some(ip("fe80::9"))
        );
    }

    #[test]
    fn groups_are_all_nodes_and_solicited_nodes() {
        let ours = addresses(&[&["2001:db8::aa:bbcc/64"]]);
        let link = ours.link(PortId(0)).unwrap();
        assert!(
            link.in_group("ff02::1".parse().unwrap())
                && link.in_group("ff02::1:ffaa:bbcc".parse().unwrap())
        );
        assert!(
            !link.in_group("ff02::1:ffaa:bbcd".parse().unwrap())
                && !link.in_group("ff02::2".parse().unwrap())
        );
    }

    #[test]
    fn broadcast_addresses_of_our_networks_are_known() {
        let ours = addresses(&[&["10.1.0.1/16", "192.0.2.0/31"]]);
        let is = |text: &str| ours.is_broadcast(text.parse().unwrap());
        assert!(is("10.1.255.255") && is("10.1.0.0") && is("255.255.255.255"));
        assert!(!is("10.2.255.255") && !is("192.0.2.0") && !is("192.0.2.1"));
    }

    /// However much a source looks like one of ours, and however many of those there are.
    #[test]
    fn a_source_is_anothers_or_not() {
        let few: Vec<String> = (1..4).map(|n| format!("192.0.2.{n}/24")).collect();
        let many: Vec<String> = (1..100).map(|n| format!("192.0.2.{n}/24")).collect();
        for texts in [few, many] {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let ours = addresses(&[&texts]);
            let dst = Ipv4Addr::new(192, 0, 2, 1);
            for end in 0..=u8::MAX {
                let src = Ipv4Addr::new(192, 0, 2, end);
                let is_other = !ours.is_local(src.into()) && !ours.is_broadcast(src);
                assert_eq!(ours.are_apart(src, dst), is_other, "{src}");
                // The same ends elsewhere.
                assert!(ours.are_apart(Ipv4Addr::new(198, 51, 100, end), dst));
                assert!(!ours.are_apart(src, Ipv4Addr::new(198, 51, 100, end)));
            }
        }
    }

    #[test]
    fn what_cannot_be_ours_is_refused_with_a_reason() {
        for bad in [
            "224.0.0.1/24",
            "0.0.0.0/0",
            "127.0.0.1/8",
            "255.255.255.255/32",
            "10.0.0.255/24",
            "::/64",
            "::1/128",
            "ff02::1/64",
            "::ffff:10.0.0.1/128",
        ] {
            let error = Addresses::new(&config(vec![
                interface(0, &["192.0.2.1/24"]),
                interface(1, &[bad]),
            ]))
            .unwrap_err();
            assert!(error.to_string().starts_with("interface 1: "), "{error}");
        }
        let mut tiny = interface(0, &["2001:db8::1/64"]);
        tiny.capabilities.mtu = 1279;
        assert!(
            Addresses::new(&config(vec![tiny]))
                .unwrap_err()
                .to_string()
                .contains("1280")
        );
        let mut group = interface(0, &[]);
        group.mac = MacAddr::BROADCAST;
        assert!(Addresses::new(&config(vec![group])).is_err());
        let twice = interface(0, &["10.0.0.1/24", "10.0.0.1/25"]);
        assert!(Addresses::new(&config(vec![twice])).is_err());
        let mut long = interface(0, &["10.0.0.1/24"]);
        long.addresses[0].prefix_len = 33;
        assert!(Addresses::new(&config(vec![long])).is_err());
    }
}
