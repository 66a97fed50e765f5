//! Why packets are dropped: one table makes the enum, the names, the explanations and the counters.

macro_rules! drops {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal;)*) => {
        /// Why a packet was dropped. Every dropped packet is counted under exactly one of these.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum DropReason { $($(#[doc = $doc])* $variant,)* }

        impl DropReason {
            /// Every reason, in the order of their counters.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// How many reasons there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The name in metrics and tools.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// One line of explanation for people.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),*).trim_ascii(),)* }
            }
        }
    };
}

drops! {
    /// The frame is shorter than its Ethernet header.
    FrameShort = "frame_short";
    /// The frame is for another hardware address, or for a multicast group that we are not in.
    FrameOther = "frame_other";
    /// The frame carries a VLAN tag other than the priority tag.
    FrameVlan = "frame_vlan";
    /// The frame carries neither ARP nor IP.
    FrameProtocol = "frame_protocol";
    /// The frame came from a port that the stack does not have.
    FramePort = "frame_port";
    /// The ARP message is malformed, or not about IPv4 over Ethernet.
    ArpMalformed = "arp_malformed";
    /// The ARP message concerns neither our addresses nor a neighbour that we talk to.
    ArpIgnored = "arp_ignored";
    /// The IPv4 or IPv6 header is malformed, or longer than the frame.
    IpHeader = "ip_header";
    /// The checksum of the IPv4 header is wrong.
    IpChecksum = "ip_checksum";
    /// The IPv4 packet carries a source route.
    IpSourceRoute = "ip_source_route";
    /// The source address cannot be the source of a packet: ours, loopback, multicast, broadcast,
    /// unspecified or IPv4-mapped.
    IpMartian = "ip_martian";
    /// The destination address is not ours.
    IpNotLocal = "ip_not_local";
    /// A unicast packet came in a link-layer broadcast or multicast frame.
    IpLinkBroadcast = "ip_link_broadcast";
    /// An IPv6 extension header or option is malformed or not understood.
    IpExtension = "ip_extension";
    /// The packet carries a protocol that we do not speak.
    IpProtocol = "ip_protocol";
    /// The fragment is empty, misaligned, too long or contradicts its datagram.
    FragmentMalformed = "fragment_malformed";
    /// The fragment overlaps another: all of its datagram is dropped.
    FragmentOverlap = "fragment_overlap";
    /// The rest of the datagram did not come in time.
    FragmentTimeout = "fragment_timeout";
    /// Memory for fragments, or one source's share of it, is used up.
    FragmentMemory = "fragment_memory";
    /// The ICMP message is malformed or of an unknown type.
    IcmpMalformed = "icmp_malformed";
    /// The checksum of the ICMP message is wrong.
    IcmpChecksum = "icmp_checksum";
    /// The ICMP message is of a kind that a host need not act on.
    IcmpIgnored = "icmp_ignored";
    /// The ICMP error does not quote a TCP segment of ours.
    IcmpQuote = "icmp_quote";
    /// The Neighbor Discovery message fails the checks of RFC 4861 (hop limit, addresses, options).
    NdpInvalid = "ndp_invalid";
    /// The Neighbor Discovery message concerns neither our addresses nor a neighbour that we talk
    /// to.
    NdpIgnored = "ndp_ignored";
    /// A router solicitation, router advertisement or redirect: routes are configured.
    NdpRouter = "ndp_router";
    /// A UDP datagram: nothing listens on UDP here.
    UdpNoPort = "udp_no_port";
    /// The UDP datagram is malformed or its checksum is wrong.
    UdpMalformed = "udp_malformed";
    /// An answer would have exceeded the rate limit.
    ReplyLimited = "reply_limited";
    /// The queue of packets that the stack answers with is full.
    ReplyQueueFull = "reply_queue_full";
    /// The answer does not fit a packet of the pool.
    ReplyTooLong = "reply_too_long";
    /// There is no route back.
    ReplyNoRoute = "reply_no_route";
    /// Too many packets wait for the neighbour's hardware address: the oldest is dropped.
    NeighbourQueueFull = "neighbour_queue_full";
    /// The neighbour did not answer: what waited for its hardware address is dropped.
    NeighbourFailed = "neighbour_failed";
    /// The frame is for another stack with our addresses, and too many wait to be handed over.
    HandoverFull = "handover_full";
    /// The TCP header is malformed.
    TcpMalformed = "tcp_malformed";
    /// The TCP checksum is wrong.
    TcpChecksum = "tcp_checksum";
    /// No connection or listener has these addresses and ports.
    TcpNoConnection = "tcp_no_connection";
    /// The segment makes no sense in the state of its connection.
    TcpState = "tcp_state";
    /// The segment lies outside the receive window (RFC 9293 §3.10.7.4, first check).
    TcpWindow = "tcp_window";
    /// The timestamp is older than the last one (PAWS, RFC 7323 §5).
    TcpPaws = "tcp_paws";
    /// The segment acknowledges what was never sent, or what was acknowledged long ago
    /// (RFC 5961 §5), or completes a handshake with a timestamp that we did not send.
    TcpAck = "tcp_ack";
    /// A SYN on a synchronised connection, answered with a challenge ACK (RFC 5961 §4).
    TcpSyn = "tcp_syn";
    /// A RST that is not exactly where it has to be (RFC 5961 §3), or for a connection in TIME_WAIT
    /// (RFC 1337).
    TcpReset = "tcp_reset";
    /// All control blocks are in use.
    TcpConnections = "tcp_connections";
    /// All half-open records, or the listener's share of them, are in use.
    TcpHalfOpen = "tcp_half_open";
    /// The link has no room to steer the segments of one more flow to us.
    TcpUnsteered = "tcp_unsteered";
    /// The listener's backlog is full.
    TcpBacklog = "tcp_backlog";
    /// The pool of receive buffers is used up: the peer will send again.
    TcpMemory = "tcp_memory";
    /// Too many separate ranges of out-of-order bytes.
    TcpRanges = "tcp_ranges";
    /// Everything in the segment had arrived before.
    TcpDuplicate = "tcp_duplicate";
    /// Bytes arrived after the application closed the connection.
    TcpClosed = "tcp_closed";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_distinct_and_texts_are_sentences() {
        let names: BTreeSet<_> = DropReason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), DropReason::COUNT);
        for (i, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, i);
            assert!(
                reason.text().ends_with('.') && !reason.text().starts_with(' '),
                "{reason:?}"
            );
            assert!(
                reason
                    .name()
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            );
        }
    }
}
