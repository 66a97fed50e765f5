//! What a stack counts: one table makes the fields, the names and the explanations.

use crate::drops::DropReason;

/// One counter with its name, for metrics and tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Unique among the drops, and among the others.
    pub name: &'static str,
    /// One line of explanation.
    pub text: &'static str,
    /// Whether this counts packets dropped for one reason.
    pub is_drop: bool,
    /// The count since the stack was made.
    pub value: u64,
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident;)*) => {
        /// Counts since the stack was made; they only grow.
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub struct Counters {
            $($(#[doc = $doc])* pub $name: u64,)*
            /// Packets dropped, by reason.
            #[serde(with = "crate::array")]
            pub drops: [u64; DropReason::COUNT],
        }

        impl Default for Counters {
            fn default() -> Self {
                Self { $($name: 0,)* drops: [0; DropReason::COUNT] }
            }
        }

        impl Counters {
            /// Every counter, drops last.
            pub fn samples(&self) -> impl Iterator<Item = Sample> + '_ {
                let Self { $($name,)* drops } = self;
                let plain = [$(Sample {
                    name: stringify!($name),
                    text: concat!($($doc),*).trim_ascii(),
                    is_drop: false,
                    value: *$name,
                },)*];
                let drops = DropReason::ALL.iter().zip(drops).map(|(reason, &value)| {
                    Sample { name: reason.name(), text: reason.text(), is_drop: true, value }
                });
                plain.into_iter().chain(drops)
            }

            /// Adds the counts of another stack.
            pub fn add(&mut self, other: &Self) {
                let Self { $($name,)* drops } = other;
                $(self.$name += $name;)*
                for (sum, count) in self.drops.iter_mut().zip(drops) {
                    *sum += count;
                }
            }
        }
    };
}

counters! {
    /// Frames received.
    frames_in;
    /// Bytes of the frames received.
    bytes_in;
    /// Frames sent.
    frames_out;
    /// Bytes of the frames sent.
    bytes_out;
    /// Fragments received.
    fragments_in;
    /// Datagrams put together from fragments.
    reassembled;
    /// ARP requests and replies received.
    arp_in;
    /// ARP requests and replies sent.
    arp_out;
    /// Neighbor Discovery messages received.
    ndp_in;
    /// Neighbor Discovery messages sent.
    ndp_out;
    /// Hosts that claimed one of our addresses (RFC 5227 §2.4, RFC 4862 §5.4).
    address_conflicts;
    /// ICMP messages received.
    icmp_in;
    /// ICMP messages sent.
    icmp_out;
    /// Echo requests answered.
    echo_replies;
    /// ICMP errors about our TCP segments.
    icmp_errors_in;
    /// Neighbours that did not answer.
    neighbour_failures;
    /// Entries that made room for others in the neighbour cache.
    neighbour_evictions;
    /// TCP segments received for us.
    segments_in;
    /// TCP segments sent.
    segments_out;
    /// Bytes received in order and given to applications.
    tcp_bytes_in;
    /// Bytes of payload sent, retransmissions included.
    tcp_bytes_out;
    /// Segments sent again.
    retransmits;
    /// Segments sent again early, because of duplicate or selective acknowledgments.
    fast_retransmits;
    /// Segments sent again that were taken for lost again (RFC 8985).
    lost_retransmissions;
    /// Segments that peers report to have received twice (RFC 2883).
    spurious_retransmits;
    /// Segments received that met congestion on their way (ECN).
    congestion_marks_in;
    /// Congestion windows reduced because the peer reported marks (ECN).
    congestion_marks_obeyed;
    /// Reactions to losses that were none, taken back (RFC 5682, RFC 3522, RFC 3708).
    spurious_losses;
    /// Segments sent to ask for ACKs that did not come (RFC 8985 §7).
    tail_probes;
    /// Retransmission time-outs.
    timeouts;
    /// Segments sent to find out whether a path takes larger ones (RFC 4821).
    mtu_probes;
    /// Connections whose path turned out to take only smaller segments, without an ICMP error
    /// (RFC 4821 §7.7).
    black_holes;
    /// Zero-window probes sent.
    window_probes;
    /// Keepalive probes sent.
    keepalive_probes;
    /// ACKs sent without data.
    acks_out;
    /// ACKs received that acknowledged nothing new while data was in flight.
    duplicate_acks_in;
    /// Challenge ACKs sent (RFC 5961).
    challenge_acks;
    /// SYNs that the link answered when they arrived.
    syns_answered_by_link;
    /// SYNs answered with a SYN cookie (RFC 4987).
    syn_cookies_sent;
    /// Connections accepted from a SYN cookie.
    syn_cookies_accepted;
    /// ACKs for a listener that brought no valid SYN cookie while some were expected.
    syn_cookies_failed;
    /// Connections opened by the data in a SYN (RFC 7413).
    fast_opens_in;
    /// Connections that we opened whose first data the peer took from the SYN.
    fast_opens_out;
    /// SYNs with a Fast Open option that were lost, while one without was answered.
    fast_open_losses;
    /// RSTs sent.
    resets_out;
    /// RSTs accepted.
    resets_in;
    /// Segments taken by header prediction.
    fast_path;
    /// Segments that arrived out of order and were kept.
    out_of_order;
    /// Connections opened by us.
    connects;
    /// Connections accepted from listeners.
    accepts;
    /// Connections that failed after they had been established.
    failures;
    /// Attempts to connect that failed.
    connect_failures;
    /// SYNs sent to peers of a stack that has ended without a word (RFC 9293 §3.5.1).
    survivors_asked;
    /// Connections of such a stack that go on here until what was written has arrived.
    orphans_adopted;
    /// Frames handed to other stacks with our addresses.
    handed_out;
    /// Frames that other stacks with our addresses handed to us.
    handed_in;
    /// TIME_WAIT records that went early to make room.
    time_wait_evictions;
    /// Connections closed by their application that were reset before they were over, to make room.
    orphans_evicted;
}

impl Counters {
    /// Counts a received frame of so many bytes.
    #[inline]
    pub(crate) fn frame_in(&mut self, bytes: usize) {
        self.frames_in += 1;
        self.bytes_in += bytes as u64;
    }

    /// Counts a dropped packet.
    #[inline]
    pub fn drop(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
    }

    /// Packets dropped for `reason`.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// Packets dropped for any reason.
    pub fn total_dropped(&self) -> u64 {
        self.drops.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn samples_cover_everything_under_distinct_names() {
        let mut counters = Counters {
            segments_in: 3,
            ..Counters::default()
        };
        counters.drop(DropReason::TcpPaws);
        let all: Vec<_> = counters.samples().collect();
        let names: BTreeSet<_> = all
            .iter()
            .map(|sample| (sample.is_drop, sample.name))
            .collect();
        assert_eq!(names.len(), all.len());
        assert!(all.iter().all(|sample| !sample.text.is_empty()));
        assert_eq!(all.iter().map(|sample| sample.value).sum::<u64>(), 4);
        assert!(
            all.iter()
                .any(|sample| sample.name == "tcp_paws" && sample.is_drop && sample.value == 1)
        );
    }

    #[test]
    fn adding_adds_every_field() {
        let mut a = Counters {
            timeouts: 1,
            ..Counters::default()
        };
        a.drop(DropReason::IpHeader);
        let b = a.clone();
        a.add(&b);
        assert_eq!(
            (
                a.timeouts,
                a.dropped(DropReason::IpHeader),
                a.total_dropped()
            ),
            (2, 2, 2)
        );
    }
}
