//! Challenge ACKs and other answers to segments that should not be
//! (RFC 5961), and how many of them there are (§7).

use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::drops::DropReason;
use crate::tcp::conn::Conn;
use crate::tcp::segment::Segment;

impl Conn<'_> {
    /// A challenge ACK, unless there were too many, or none may be sent.
    /// RFC 5961 §7-1.
    pub fn challenge(&mut self, now: Instant) {
        if self.receive_view().has_withheld_ack() {
            return;
        }
        if self.may_challenge(now) {
            self.sh.counters.challenge_acks += 1;
            self.mark_ack();
        } else {
            self.sh.counters.drop(DropReason::ReplyLimited);
        }
    }

    /// The answer to a segment that is not acceptable. Retransmitted data and keepalive probes
    /// always get one; anything else could be forged, or the peer answering our answer, and is
    /// limited.
    pub fn acknowledge_unacceptable(&mut self, now: Instant, seg: &Segment<'_>) {
        let is_keepalive = seg.seq + 1 == self.hot.rcv.nxt && !seg.has(TcpFlags::SYN);
        if !seg.payload.is_empty() || is_keepalive || self.may_challenge(now) {
            self.mark_ack();
        } else {
            self.sh.counters.drop(DropReason::ReplyLimited);
        }
    }

    fn may_challenge(&mut self, now: Instant) -> bool {
        self.cold.challenges.allow(now) && self.sh.may_challenge(now)
    }
}
