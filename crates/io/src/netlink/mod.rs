//! What the kernel knows about its interfaces: links, addresses, routes, neighbours and offloads;
//! and whom the firewall lets in.
//!
//! Set-up and diagnosis only; nothing here is called per packet. Every answer is about the network
//! namespace of the calling thread.

pub mod ethtool;
mod firewall;
mod link;
mod network;
mod receive_hash;
mod request;
mod sockets;
mod tables;
mod told;
mod watch;

pub use firewall::Firewall;
pub use link::{Link, OperState, XdpAttachment, link, link_by_index, links};
pub use network::{Hop, Network, Way};
pub use receive_hash::{ReceiveHash, receive_hash};
pub use sockets::listening;
pub use tables::{Address, Neighbour, Route, addresses, neighbours, route_to, routes};
pub(crate) use told::{socket as neighbour_events, told};
pub use watch::{News, Watcher, Whereabouts};

#[cfg(test)]
mod tests;
