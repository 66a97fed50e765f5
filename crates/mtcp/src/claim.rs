//! Whether our addresses are free to take.

use std::net::IpAddr;

use ::io::netlink::{self, Address, Link};

use crate::config::{Config, IoSpec};

impl Config {
    /// Refuses addresses that the kernel of this machine has: frames for them would come to the
    /// stack, and the kernel's own connections would get no answers. An address of its own on the
    /// loopback interface (`ip address add ADDRESS/32 dev lo`) is meant for programs of this
    /// machine, and stays.
    ///
    /// # Errors
    /// One line with cause and remedy.
    pub fn check_addresses(&self) -> Result<(), String> {
        if self.host {
            return self.check_host_addresses();
        }
        if self.force_address
            || !matches!(
                self.link()?,
                IoSpec::Afxdp(_) | IoSpec::Packet(_) | IoSpec::Tap(_)
            )
        {
            return Ok(());
        }
        let unknown = |error| {
            format!(
                "cannot ask the kernel for its addresses: {error}: allow netlink, or take ours unasked with --force-address \
                 (force_address = yes)"
            )
        };
        let held = netlink::addresses().map_err(unknown)?;
        let links = netlink::links().map_err(unknown)?;
        let taken = self.addresses.iter().find_map(|cidr| {
            let held = holder(&held, &links, cidr.addr)?;
            Some((held, link_name(&links, held.interface)))
        });
        taken.map_or(Ok(()), |(held, interface)| {
            let Address {
                address, prefix, ..
            } = held;
            Err(format!(
                "address {address} is the kernel's, on {interface}: remove it there (ip address del {address}/{prefix} dev {interface}), choose \
                 another, or cut this machine off from it with --force-address (force_address = yes)"
            ))
        })
    }
}

/// Where the kernel has an address, but for the loopback interface.
pub(crate) fn holder<'a>(held: &'a [Address], links: &[Link], ours: IpAddr) -> Option<&'a Address> {
    let whole = if ours.is_ipv4() { 32 } else { 128 };
    let is_loopback = |index| {
        links
            .iter()
            .any(|link| link.index == index && link.loopback)
    };
    held.iter()
        .filter(|held| held.address == ours)
        .find(|held| !(held.prefix == whole && is_loopback(held.interface)))
}

pub(crate) fn link_name(links: &[Link], index: u32) -> String {
    let link = links.iter().find(|link| link.index == index);
    link.map_or_else(|| format!("interface {index}"), |link| link.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_this_machine_is_refused_unless_forced() {
        let mut config = Config::default();
        config.set("io", "afxdp:eth0").unwrap();
        config.set("addr", "127.0.0.1/8").unwrap();
        let refused = config.check_addresses().unwrap_err();
        for word in [
            "127.0.0.1",
            "kernel's, on lo",
            "ip address del",
            "--force-address",
        ] {
            assert!(refused.contains(word), "{refused}");
        }
        assert_eq!(refused.lines().count(), 1);
        config.set("force_address", "yes").unwrap();
        assert_eq!(config.check_addresses(), Ok(()));
        config.set("force_address", "no").unwrap();
        config.set("io", "loop:lo").unwrap();
        assert_eq!(config.check_addresses(), Ok(()));
    }

    #[test]
    fn an_address_of_its_own_on_the_loopback_interface_is_not_in_the_way() {
        let links = netlink::links().unwrap();
        let lo = links.iter().find(|link| link.loopback).unwrap().index;
        let ours = IpAddr::from([10, 0, 0, 2]);
        let held = |interface, prefix| {
            [Address {
                interface,
                address: ours,
                prefix,
            }]
        };
        assert_eq!(holder(&held(lo, 32), &links, ours), None);
        assert!(holder(&held(lo, 8), &links, ours).is_some());
        assert!(holder(&held(lo + 1, 32), &links, ours).is_some());
        assert_eq!(holder(&held(lo, 8), &links, [10, 0, 0, 3].into()), None);
    }
}
