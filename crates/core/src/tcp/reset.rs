//! RSTs (RFC 9293 §3.5.2): to segments that belong to nothing, and the last word of a connection
//! that is aborted.

use wire::tcp::{TcpFlags, TcpHeader, TcpOptions, Timestamps};
use wire::time::Instant;

use crate::drops::DropReason;
use crate::info::State;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;
use crate::tcp::segment::Segment;
use crate::tcp::shared::Shared;

/// The RST that answers a segment for which there is no connection (RFC 9293 §3.10.7.1); none
/// answers a RST. Without timestamps: there is no clock that the other end knows, and one that
/// still has an earlier connection (Linux in TIME-WAIT, for one) would take the value for an old
/// one and keep to it, so that the port could not be used again for a minute.
fn reset_for(seg: &Segment<'_>) -> Option<TcpHeader> {
    if seg.has(TcpFlags::RST) {
        return None;
    }
    Some(if seg.has(TcpFlags::ACK) {
        TcpHeader {
            seq: seg.ack,
            flags: TcpFlags::RST,
            ..TcpHeader::default()
        }
    } else {
        TcpHeader {
            ack: seg.end(),
            flags: TcpFlags::RST | TcpFlags::ACK,
            ..TcpHeader::default()
        }
    })
}

impl Shared {
    /// Answers a segment that belongs to nothing, unless there were too many. Whether there was an
    /// answer.
    pub fn answer_with_reset(&mut self, now: Instant, seg: &Segment<'_>) -> bool {
        if seg.has(TcpFlags::RST) {
            return false;
        }
        let allowed = self.resets.allow(now);
        if allowed {
            self.reset(seg);
        } else {
            self.counters.drop(DropReason::ReplyLimited);
        }
        allowed
    }

    /// Answers a segment that belongs to nothing.
    pub fn reset(&mut self, seg: &Segment<'_>) {
        if let Some(header) = reset_for(seg) {
            self.counters.resets_out += 1;
            self.send_bare(seg.key, &header);
        }
    }
}

impl Conn<'_> {
    /// The RST of ABORT (RFC 9293 §3.10.5): <SEQ=SND.NXT><CTL=RST>, with an ACK so that firewalls
    /// believe it. RFC 7323 §3.2-6, §5.2-2: and with timestamps, if they were agreed on.
    pub fn send_reset(&mut self, now: Instant) {
        if !self.hot.state.is_synchronized() && self.hot.state != State::SynReceived {
            return;
        }
        if self.has(Flags::DETACHED) {
            return;
        }
        let header = TcpHeader {
            seq: self.hot.snd.nxt,
            ack: self.hot.rcv.nxt,
            flags: TcpFlags::RST | TcpFlags::ACK,
            options: TcpOptions {
                timestamps: self.has(Flags::TIMESTAMPS).then(|| Timestamps {
                    tsval: self.tsval(now),
                    tsecr: self.hot.ts_recent,
                }),
                ..TcpOptions::default()
            },
            ..TcpHeader::default()
        };
        self.sh.send_bare(self.key, &header);
        self.sh.counters.resets_out += 1;
    }
}
