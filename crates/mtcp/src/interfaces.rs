//! The interfaces of this network namespace, as the kernel says by netlink: `/sys/class/net` may
//! show those of another.

use std::io;
use std::net::IpAddr;

use ::io::netlink;
pub use ::io::netlink::ethtool::{driver, queues};
pub use ::io::netlink::{
    Link as Interface, OperState, Route, XdpAttachment, link as find, links as all, route_to,
};
pub use ::io::xdp::longest_packet;

use crate::claim;

/// Who of the kernel's interfaces has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// None.
    Nobody,
    /// The loopback interface, for itself: it is there for programs of this machine, and frames for
    /// it come to no interface of the kernel.
    Loopback,
    /// The interface of this name.
    Interface(String),
}

/// Who of the kernel's interfaces has this address.
///
/// # Errors
/// The kernel cannot be asked.
pub fn holder(address: IpAddr) -> io::Result<Holder> {
    let (held, links) = (netlink::addresses()?, all()?);
    let anywhere = || held.iter().any(|held| held.address == address);
    Ok(match claim::holder(&held, &links, address) {
        Some(held) => Holder::Interface(claim::link_name(&links, held.interface)),
        None if anywhere() => Holder::Loopback,
        None => Holder::Nobody,
    })
}

/// Whether the kernel has this address itself.
pub fn is_local(address: IpAddr) -> bool {
    let held = || netlink::addresses().unwrap_or_default();
    address.is_loopback() || held().iter().any(|held| held.address == address)
}

/// Whether the kernel sends to `destination` over this interface.
pub fn has_route_by(destination: IpAddr, interface: &str) -> bool {
    let Ok(Some(route)) = route_to(destination) else {
        return false;
    };
    find(interface).is_ok_and(|own| own.index == route.interface)
}

/// Whether a route of the kernel that is more than a default one leads to `destination` over
/// another interface than this.
pub fn has_route_elsewhere(destination: IpAddr, interface: &str) -> bool {
    // Where the kernel cannot be asked, what is configured holds.
    let Ok(Some(route)) = route_to(destination) else {
        return false;
    };
    let same = || find(interface).is_ok_and(|own| own.index == route.interface);
    route.prefix > 0 && !same()
}
