//! The interfaces of this network namespace, as the kernel says by netlink: `/sys/class/net` may show those of another.

use std::net::IpAddr;

pub use ::io::netlink::ethtool::{driver, queues};
pub use ::io::netlink::{
    Link as Interface, OperState, Route, XdpAttachment, link as find, links as all, route_to,
};

/// Whether a route of the kernel that is more than a default one leads to `destination` over another interface than this.
pub fn has_route_elsewhere(destination: IpAddr, interface: &str) -> bool {
    // Where the kernel cannot be asked, what is configured holds.
    let Ok(Some(route)) = route_to(destination) else {
        return false;
    };
    let same = || find(interface).is_ok_and(|own| own.index == route.interface);
    route.prefix > 0 && !same()
}
