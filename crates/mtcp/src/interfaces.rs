//! The interfaces of this network namespace, as the kernel says by netlink: `/sys/class/net` may show those of another.

pub use ::io::netlink::ethtool::{driver, queues};
pub use ::io::netlink::{Link as Interface, OperState, XdpAttachment, link as find, links as all};
