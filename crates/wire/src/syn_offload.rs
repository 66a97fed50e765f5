//! Links that answer SYNs in the stack's name, where they arrive: the peer has its SYN-ACK, and the
//! stack has the handshake's first two segments behind it when the SYN comes
//! ([`crate::frame::RxMeta::answered`]). Nothing else of TCP changes: the stack keeps a record of
//! each, sends the SYN-ACK again if no ACK comes, and answers all other SYNs itself.

use std::fmt;
use std::net::SocketAddrV4;

/// How the link answers: with these numbers, the hash of the flow, and the time of the last turn.
///
/// `h` is SipHash-1-3 under `flow_key` of our address, the peer's, our port and the peer's, as they
/// lie in a packet. The initial sequence number is the low half of SipHash-1-3 under `iss_key` of
/// `h` and the peer's sequence number, little-endian: the same for every copy of a SYN. The
/// timestamp is the millisecond of the last turn and the high half of `h` times `stamps`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SynRules {
    /// State of the hash under the key of flows.
    pub flow_key: [u64; 4],
    /// The same for sequence numbers.
    pub iss_key: [u64; 4],
    /// See above.
    pub stamps: u32,
    /// Window.
    pub window: u16,
    /// MSS option.
    pub mss: u16,
    /// Window scale option.
    pub window_scale: u8,
    /// TTL.
    pub ttl: u8,
}

impl fmt::Debug for SynRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the keys.
        f.debug_struct("SynRules")
            .field("window", &self.window)
            .field("mss", &self.mss)
            .field("window_scale", &self.window_scale)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}

/// What answers SYNs over IPv4 to endpoints that it was told, from peers of whom no flow is known.
/// To begin with there are none of either.
pub trait SynOffload: fmt::Debug + Send {
    /// How to answer from now on.
    fn start(&mut self, rules: &SynRules);

    /// Whether SYNs to an address and port of ours are answered.
    fn offer(&mut self, local: SocketAddrV4, answered: bool);

    /// SYNs to this port are not answered any more, whatever the address.
    fn withdraw(&mut self, port: u16);

    /// There is a flow more with this low half of its `h`: SYNs of such are the stack's.
    fn enter(&mut self, hash: u32);

    /// There is one fewer, since some time ago: copies of the segments of one that has ended come
    /// late.
    fn leave(&mut self, hash: u32);
}
