//! The words that ports and the stack share, so that neither has to know the other.

use std::fmt;

/// Most frames that a port lends at once.
pub const BURST: usize = 64;
/// What is in front of an IP packet at most, bytes: Ethernet header and one VLAN tag.
pub const LINK_HEADERS: usize = 18;
/// All that is in front of TCP's payload at most, bytes: that, IPv6 without extension headers, TCP
/// with options.
pub const HEADERS: usize = LINK_HEADERS + 40 + 60;
/// Longest frame, bytes: an IP packet of the largest size there is, which holds several segments.
pub const LONGEST: usize = LINK_HEADERS + u16::MAX as usize;

/// An Ethernet hardware address.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Whether frames to this address may have several receivers (the group bit; broadcast
    /// included).
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What the port knows about the transport checksum of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RxChecksum {
    /// Nothing: the stack must verify it.
    #[default]
    Unverified,
    /// The device verified it, or the frame never left memory and carries none (TAP `NEEDS_CSUM`,
    /// shm link).
    Trusted,
}

/// What the port knows about a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RxMeta {
    /// State of the transport checksum.
    pub checksum: RxChecksum,
    /// A SYN that the link has answered in our name ([`crate::syn_offload`]).
    pub answered: bool,
}

/// A received frame, lent by its port until the closure that got it returns.
#[derive(Clone, Copy, Debug)]
pub struct RxFrame<'a> {
    /// The frame from its Ethernet header on, without FCS. Shorter than a header if the peer says
    /// so: check.
    pub bytes: &'a [u8],
    /// What the port knows about it.
    pub meta: RxMeta,
}

/// State of the transport checksum in a frame that the stack hands to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TxChecksum {
    /// Written.
    #[default]
    Complete,
    /// The field at `start + offset` holds the pseudo-header sum (folded, not inverted); the sum
    /// from `start` to the end is left to the link. Only used on ports whose capabilities say
    /// `tx_checksum`.
    Partial {
        /// Where the transport header starts in the frame, in bytes.
        start: u16,
        /// Where the checksum field is in the transport header, in bytes.
        offset: u16,
    },
}

/// A frame as the stack filled it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TxMeta {
    /// Length from the Ethernet header on, in bytes; at most the length of the lent frame. 0:
    /// nothing to send after all.
    pub len: usize,
    /// State of the transport checksum.
    pub checksum: TxChecksum,
    /// Bytes of payload of each TCP segment in a frame that holds several, less than that in the
    /// last; 0: the frame is one packet.
    pub segment: u16,
}

/// What a port can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// Queues of the interface, of which this port is one.
    pub queues: u16,
    /// The link finishes or does not need transport checksums: the stack may send
    /// [`TxChecksum::Partial`].
    pub tx_checksum: bool,
    /// Most bytes of TCP payload that the link takes in one frame, to cut it into segments itself
    /// or to carry it whole ([`FrameSink::send_gso`]); 0: a frame is one packet. Only with
    /// `tx_checksum`.
    pub tx_gso: u32,
    /// What is sent to our own hardware address comes back: our own addresses are reachable here,
    /// as those of a host are through its loopback interface.
    pub loops: bool,
}

/// Where the stack puts frames.
pub trait FrameSink {
    /// Lends a free frame of at least MTU + 18 bytes to `fill`, which writes a frame into it and
    /// says how long it is. Returns false, and does not call `fill`, when no frame is free now:
    /// stop, and go on after the port's next flush.
    fn send(&mut self, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool;

    /// The same for a frame of up to `len` bytes that holds several segments ([`TxMeta::segment`]),
    /// on links whose capabilities say `tx_gso`. What is lent may be shorter, but not than what
    /// [`send`](Self::send) lends.
    fn send_gso(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        let _ = len;
        self.send(fill)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macs_print_and_know_groups() {
        let mac = MacAddr([2, 0, 0, 0xab, 0, 1]);
        assert_eq!(mac.to_string(), "02:00:00:ab:00:01");
        assert!(!mac.is_multicast() && MacAddr::BROADCAST.is_multicast());
    }
}
