//! Names of the things in a network.

use mtcp_core::PortId;

/// A host: index in the order of [`crate::Network::add_host`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub usize);

/// A scripted peer: index in the order of [`crate::Network::add_peer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub usize);

/// A switch: index in the order of [`crate::Network::add_switch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchId(pub usize);

/// A link: index in the order of [`crate::Network::link`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub usize);

/// Where a link ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// A port of a host.
    Host(HostId, PortId),
    /// A peer.
    Peer(PeerId),
    /// A switch.
    Switch(SwitchId),
}

impl From<HostId> for End {
    /// The host's first port.
    fn from(host: HostId) -> Self {
        Self::Host(host, PortId(0))
    }
}

impl From<PeerId> for End {
    fn from(peer: PeerId) -> Self {
        Self::Peer(peer)
    }
}

impl From<SwitchId> for End {
    fn from(switch: SwitchId) -> Self {
        Self::Switch(switch)
    }
}
