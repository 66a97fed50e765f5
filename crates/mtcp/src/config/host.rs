//! The host's own addresses: where the stack shares them with the kernel, it is configured as the
//! kernel is.

use std::io;
use std::net::IpAddr;

use ::io::netlink::{self, Route};

use super::value::{self, Parsed};
use super::{Cidr, Config, IoSpec, RouteSpec};

impl Config {
    /// `host`, addresses, or both.
    pub(super) fn set_addresses(&mut self, text: &str) -> Parsed<()> {
        for word in value::words(text) {
            match word {
                "host" => self.host = true,
                _ => self.addresses.push(word.parse()?),
            }
        }
        Ok(())
    }

    /// Where our addresses are the host's own, and it is not said which: takes those that the
    /// kernel has on the interface; and its routes there, unless some are given. They are the
    /// host's on an AF_XDP interface where none is given, or what the kernel has there.
    ///
    /// # Errors
    /// One line with cause and remedy.
    pub fn take_host(&mut self) -> Result<(), String> {
        let IoSpec::Afxdp(name) = self.link()? else {
            return Ok(());
        };
        let unknown =
            |error: io::Error| format!("{error}: allow netlink, or give addr and gateway");
        let is_asked = self.host || self.addresses.is_empty();
        let index = match netlink::link(&name) {
            Ok(link) => link.index,
            Err(error) if is_asked => return Err(error.to_string()),
            // Who opens it tells.
            Err(_) => return Ok(()),
        };
        if !self.host && !self.force_address && self.are_held(index) {
            self.host = true;
            if let Some(said) = told_shared(&self.addresses, &name) {
                log::warn!("{said}");
            }
        }
        if !self.host {
            return Ok(());
        }
        // Who has what is the kernel's to ask for: answers come to it.
        self.follow_kernel = true;
        self.take_ports(kernel_ports());
        if self.addresses.is_empty() {
            let held = netlink::addresses().map_err(unknown)?;
            let here = held.iter().filter(|held| held.interface == index);
            let global = here.filter(|held| !is_link_local(held.address));
            self.addresses.extend(global.map(|held| Cidr {
                addr: held.address,
                prefix_len: held.prefix,
            }));
        }
        if self.addresses.is_empty() {
            return Err(format!(
                "interface {name} has no address: give it one (ip address add ADDRESS/LENGTH dev {name}, or DHCP), or the stack one of its own (addr)"
            ));
        }
        if self.gateways.is_empty() && self.routes.is_empty() {
            let mut routes = netlink::routes().map_err(unknown)?;
            routes.retain(|route| route.interface == index);
            self.take_routes(&mut routes);
        }
        Ok(())
    }

    /// Has connections that the stack opens take ports that the kernel does not choose, as it would
    /// for the same destination.
    fn take_ports(&mut self, kernel: Option<(u16, u16)>) {
        self.own_ports = kernel.and_then(ports_beside);
        if let (None, Some((first, last))) = (self.own_ports, kernel) {
            log::warn!(
                "the kernel chooses from ports {first} to {last}, which leaves none for connections of the stack, and may choose one of theirs: \
                 narrow it (sysctl net.ipv4.ip_local_port_range='32768 60999')"
            );
        }
    }

    /// Whether the kernel has all our addresses on this interface. Where it does not say,
    /// [`Config::check_addresses`] tells.
    fn are_held(&self, index: u32) -> bool {
        if self.addresses.is_empty() {
            return true;
        }
        netlink::addresses().is_ok_and(|mut held| {
            held.retain(|held| held.interface == index);
            let is_held = |own: &Cidr| held.iter().any(|held| held.address == own.addr);
            self.addresses.iter().all(is_held)
        })
    }

    /// Of these, all on the interface, the best to each network.
    fn take_routes(&mut self, routes: &mut [Route]) {
        routes.sort_by_key(|route| route.metric);
        for route in routes {
            let network = Cidr {
                addr: route.destination,
                prefix_len: route.prefix,
            };
            let is_own = || {
                self.addresses
                    .iter()
                    .any(|own| is_network_of(own, &network))
            };
            let is_known = || self.routes.iter().any(|known| known.network == network);
            let family = |own: &Cidr| own.addr.is_ipv4() == route.destination.is_ipv4();
            let is_local = is_link_local(route.destination) || route.destination.is_multicast();
            if is_local || is_known() || !self.addresses.iter().any(family) {
                continue;
            }
            if route.gateway.is_some() || !is_own() {
                self.routes.push(RouteSpec {
                    network,
                    gateway: route.gateway,
                });
            }
            self.reach(route.gateway);
        }
    }

    /// Has a route to a gateway that is in no network of ours: the kernel has it on the link.
    fn reach(&mut self, gateway: Option<IpAddr>) {
        let Some(addr) = gateway.filter(|gateway| !is_link_local(*gateway)) else {
            return;
        };
        let near = self.routes.iter().filter(|route| route.gateway.is_none());
        let mut near = near.map(|route| &route.network).chain(&self.addresses);
        if near.any(|network| network.contains(addr)) {
            return;
        }
        let prefix_len = if addr.is_ipv4() { 32 } else { 128 };
        self.routes.push(RouteSpec {
            network: Cidr { addr, prefix_len },
            gateway: None,
        });
    }

    /// What a stack cannot have that shares its addresses with the kernel.
    pub(super) fn check_host(&self, link: &IoSpec) -> Result<(), String> {
        if !self.host {
            return Ok(());
        }
        let problem = match link {
            IoSpec::Afxdp(_) if self.mac.is_some() => {
                "mac: the interface has its hardware address: leave mac out"
            }
            IoSpec::Afxdp(_) if self.processes > 1 => {
                "one process: set processes = 1, or give the stack an address of its own"
            }
            IoSpec::Afxdp(_) => return Ok(()),
            _ => "io = afxdp:IFACE: give the stack an address of its own elsewhere",
        };
        Err(format!("addr = host needs {problem}"))
    }

    /// Refuses addresses that are not the kernel's on the interface.
    pub(crate) fn check_host_addresses(&self) -> Result<(), String> {
        let name = self.link()?.name();
        let index = netlink::link(&name)
            .map_err(|error| error.to_string())?
            .index;
        let held = netlink::addresses().map_err(|error| error.to_string())?;
        let is_held = |cidr: &&Cidr| {
            let mut here = held.iter().filter(|held| held.interface == index);
            here.any(|held| held.address == cidr.addr)
        };
        match self.addresses.iter().find(|cidr| !is_held(cidr)) {
            None => Ok(()),
            Some(Cidr { addr, .. }) => Err(format!(
                "address {addr} is not the kernel's on {name}, as addr = host says: leave 'host' out, or this address"
            )),
        }
    }
}

/// The line that says that these, which are named and the kernel's, are not taken from it. `None`:
/// none is named.
fn told_shared(addresses: &[Cidr], interface: &str) -> Option<String> {
    let named: Vec<_> = addresses.iter().map(|own| own.addr.to_string()).collect();
    let (word, verb, them) = match named.len() {
        0 => return None,
        1 => ("address", "is", "it"),
        _ => ("addresses", "are", "them"),
    };
    Some(format!(
        "{word} {} {verb} the kernel's on {interface}: shared with it; say so (addr = host ADDRESS/LENGTH), or take {them} from it with \
         --force-address (force_address = yes)",
        named.join(", ")
    ))
}

/// First and last port that the kernel chooses from for connections of its own. `None`: it does
/// not say.
fn kernel_ports() -> Option<(u16, u16)> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut words = text.split_whitespace().map(str::parse);
    Some((words.next()?.ok()?, words.next()?.ok()?))
}

/// The first of the ports that may be ours: services are at lower ones, as a rule.
const FIRST_OWN: u16 = 16_384;
/// A block of fewer is none.
const FEWEST_OWN: u16 = 1024;

/// The larger of the two blocks of ports around those of the kernel's choice. `None`: both are
/// small.
fn ports_beside((first, last): (u16, u16)) -> Option<(u16, u16)> {
    let below = (FIRST_OWN, first.saturating_sub(1));
    let above = (last.saturating_add(1).max(FIRST_OWN), u16::MAX);
    let count = |(first, last): &(u16, u16)| last.saturating_sub(*first);
    let blocks = [below, above].into_iter();
    blocks
        .max_by_key(count)
        .filter(|block| count(block) >= FEWEST_OWN)
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// Whether this is the network of an address of ours.
fn is_network_of(own: &Cidr, network: &Cidr) -> bool {
    own.prefix_len == network.prefix_len && own.contains(network.addr)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn route(network: &str, gateway: Option<&str>, metric: u32) -> Route {
        let Cidr { addr, prefix_len } = network.parse().unwrap();
        Route {
            destination: addr,
            prefix: prefix_len,
            gateway: gateway.map(address),
            interface: 2,
            source: None,
            metric,
        }
    }

    fn taken(addr: &str, routes: &mut [Route]) -> String {
        let mut config = Config::default();
        config.set("io", "afxdp:eth0").unwrap();
        config.set("addr", addr).unwrap();
        config.take_routes(routes);
        config.check().unwrap();
        let route = mtcp_routes(&config);
        route.join(" ")
    }

    fn mtcp_routes(config: &Config) -> Vec<String> {
        let key = super::super::keys().iter().find(|key| key.name == "route");
        let shown = key.unwrap().show(config);
        shown.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn routes_are_the_kernels() {
        let mut routes = [
            route("0.0.0.0/0", Some("10.0.0.254"), 200),
            route("0.0.0.0/0", Some("10.0.0.1"), 100),
            route("10.0.0.0/24", None, 0),
            route("192.0.2.0/24", Some("10.0.0.2"), 0),
            route("fe80::/64", None, 0),
            route("::/0", Some("fe80::1"), 0),
        ];
        assert_eq!(
            taken("host 10.0.0.5/24", &mut routes),
            "192.0.2.0/24@10.0.0.2 0.0.0.0/0@10.0.0.1"
        );
        assert_eq!(taken("host fd00::5/64", &mut routes), "::/0@fe80::1");
    }

    #[test]
    fn addresses_that_are_named_and_shared_are_told_in_one_line() {
        let own = |texts: &[&str]| -> Vec<Cidr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        assert_eq!(told_shared(&[], "eth0"), None);
        let one = told_shared(&own(&["10.0.0.5/24"]), "eth0").unwrap();
        assert!(
            one.starts_with("address 10.0.0.5 is the kernel's on eth0: shared with it"),
            "{one}"
        );
        let both = told_shared(&own(&["10.0.0.5/24", "fd00::5/64"]), "eth0").unwrap();
        assert!(
            both.starts_with("addresses 10.0.0.5, fd00::5 are the kernel's on eth0: shared"),
            "{both}"
        );
        assert_eq!(both.lines().count(), 1);
    }

    #[test]
    fn ports_of_ours_are_none_that_the_kernel_chooses() {
        for (kernel, own) in [
            ((32_768, 60_999), Some((16_384, 32_767))),
            ((1024, 40_000), Some((40_001, 65_535))),
            ((1024, 10_000), Some((16_384, 65_535))),
            ((17_000, 65_535), None),
            ((1024, 65_000), None),
            ((0, 0), Some((16_384, 65_535))),
        ] {
            assert_eq!(ports_beside(kernel), own, "{kernel:?}");
        }
    }

    /// As clouds have it.
    #[test]
    fn a_gateway_in_no_network_of_ours_is_on_the_link() {
        let mut routes = [route("0.0.0.0/0", Some("169.254.1.1"), 0)];
        assert_eq!(
            taken("host 10.0.0.5/32", &mut routes),
            "0.0.0.0/0@169.254.1.1 169.254.1.1/32"
        );
    }

    #[test]
    fn what_cannot_be_shared_is_refused() {
        for (key, value, word) in [
            ("io", "tap:t0", "afxdp"),
            ("mac", "02:00:00:00:00:01", "mac"),
            ("processes", "2", "processes = 1"),
        ] {
            let mut config = Config::default();
            config.set("io", "afxdp:eth0").unwrap();
            config.set("addr", "host 10.0.0.5/24").unwrap();
            config.set(key, value).unwrap();
            let refused = config.check().unwrap_err();
            assert!(refused.contains(word), "{refused}");
        }
    }
}
