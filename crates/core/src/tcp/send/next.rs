//! What the next segment is: of data that was never sent, of what is sent again, and probes.

use wire::seq::SeqNumber;
use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::tcp::flags::SendFlags;
use crate::tcp::ranges::Range;
use crate::tcp::send::plan::{Kind, Plan};
use crate::tcp::send::view::SendView;

/// Data and FIN that were never sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsent {
    /// The sequence number behind the last byte.
    end: SeqNumber,
    /// Bytes of data.
    pub available: u32,
    /// Bytes for which the peer's window has room.
    pub usable: u32,
}

impl Unsent {
    /// The bytes of data for which there is room.
    #[inline(always)]
    pub fn sendable(&self) -> u32 {
        self.available.min(self.usable)
    }
}

impl SendView<'_> {
    /// What was never sent, if there is anything.
    #[inline(always)]
    pub fn unsent(self) -> Option<Unsent> {
        let nxt = self.hot.nxt;
        let end = self.stream_end();
        let available = if end > nxt { end - nxt } else { 0 };
        let fin = self.has(SendFlags::FIN_QUEUED) && nxt <= self.hot.fin_seq;
        if available == 0 && !fin {
            return None;
        }
        let edge = self.edge();
        let usable = if edge > nxt { edge - nxt } else { 0 };
        Some(Unsent {
            end,
            available,
            usable,
        })
    }

    /// Whether nothing was in flight or sent for `rto` microseconds.
    #[inline(always)]
    pub fn was_idle(self, now: Instant, rto: u64) -> bool {
        self.hot.flight() == 0 && now > self.cold.last_sent.after_micros(rto)
    }

    /// How many bytes of new data go in the next segment, which can carry `room` bytes: none with a
    /// FIN alone. `None`: no segment is worth sending.
    /// RFC 9293 MUST-34, SHLD-15, SHLD-28, MUST-60; RFC 7323 §2.4-3, §2.4-4.
    #[inline(always)]
    pub fn new_len(self, unsent: &Unsent, room: u32) -> Option<u32> {
        if unsent.available == 0 {
            return (unsent.usable > 0).then_some(0);
        }
        let len = unsent.sendable().min(room);
        let is_worth_it = len > 0 && self.is_worth_sending(len, room, unsent);
        is_worth_it.then_some(len)
    }

    /// Sender's silly window avoidance with Nagle's algorithm (RFC 9293 §3.8.6.2.1, §3.7.4). `len`
    /// is min(D, U, Eff.snd.MSS). RFC 9293 SHLD-7, MUST-17, MUST-38.
    #[inline(always)]
    fn is_worth_sending(self, len: u32, room: u32, unsent: &Unsent) -> bool {
        // (1) a full segment.
        if len == room {
            return true;
        }
        // (2) all there is; (3) a good part of the largest window the peer ever offered.
        let is_enough = unsent.available <= unsent.usable || len >= self.hot.max_wnd / 2;
        is_enough && self.may_send_small()
    }

    /// Nagle's algorithm in Minshall's variant, as Linux has it: a small segment waits only for the
    /// ACK of another small one. The end of a message that is longer than a segment goes at once:
    /// the peer delays the ACK that it would wait for.
    pub(super) fn may_send_small(self) -> bool {
        // Nothing will follow a FIN that the bytes before it could join.
        let no_delay = self.has(SendFlags::NODELAY | SendFlags::FIN_QUEUED);
        let waits = self.is_corked() || (!no_delay && self.has_small_in_flight());
        // As on Linux, urgent data never does.
        !waits || self.has_urgent()
    }

    fn has_small_in_flight(self) -> bool {
        let small = self.cold.small_end;
        small > self.hot.una && small <= self.hot.nxt
    }

    /// The segment of `len` bytes at `seq`: PSH on the last of what the application wrote
    /// (RFC 9293 §3.9.1.2), FIN behind the last byte. RFC 9293 MUST-61, SHLD-27.
    pub fn segment(self, kind: Kind, seq: SeqNumber, len: u32) -> Plan {
        self.segment_before(self.stream_end(), kind, seq, len)
    }

    /// The segment of `len` bytes of new data.
    #[inline(always)]
    pub fn new_segment(self, unsent: &Unsent, len: u32) -> Plan {
        self.segment_before(unsent.end, Kind::New, self.hot.nxt, len)
    }

    /// A segment of what ends at `end`.
    #[inline(always)]
    fn segment_before(self, end: SeqNumber, kind: Kind, seq: SeqNumber, len: u32) -> Plan {
        let mut flags = TcpFlags::ACK;
        if seq + len == end {
            if len > 0 {
                flags |= TcpFlags::PSH;
            }
            // The FIN of a probe with data would lie beyond the window: it goes when that opens.
            if self.has(SendFlags::FIN_QUEUED) && (kind != Kind::Probe || len == 0) {
                flags |= TcpFlags::FIN;
            }
        }
        let mut plan = Plan {
            kind,
            seq,
            len,
            flags,
            cut: 0,
        };
        let is_new = kind == Kind::New || kind == Kind::TailProbe;
        let has_fin = flags.contains(TcpFlags::FIN);
        if has_fin && is_new && plan.end() > self.edge() {
            // The FIN does not fit the window behind the data.
            plan.flags.remove(TcpFlags::FIN);
        }
        plan
    }

    /// Whether certainly nothing is left to be sent behind it: it goes to the end of what was
    /// written, and takes the FIN along that is due.
    #[inline(always)]
    pub fn is_last(self, plan: &Plan) -> bool {
        let fin = plan.flags.contains(TcpFlags::FIN);
        let to_the_end = plan.flags.contains(TcpFlags::PSH) && plan.cut == 0;
        plan.kind == Kind::New && (fin || to_the_end && !self.has(SendFlags::FIN_QUEUED))
    }

    /// The first segment of `lost` again, with `room` bytes at most.
    /// RFC 9293 SHLD-16, SHLD-17, MUST-35; RFC 7323 §2.4-5.
    pub fn retransmission(self, lost: Range, room: u32) -> Option<Plan> {
        // RFC 9293 §3.8.6: the peer may have taken back a part of its window. What lies beyond can
        // only be thrown away. A closed window is the persist timer's business.
        let edge = self.edge();
        if lost.start >= edge || self.hot.wnd == 0 {
            return None;
        }
        let lost = Range::new(lost.start, lost.end.min(edge.max(lost.start + 1)));
        self.again(Kind::Retransmission, lost, room)
    }

    /// The first segment of `range`, none of which is SACKed, with `room` bytes at most.
    fn again(self, kind: Kind, range: Range, room: u32) -> Option<Plan> {
        let Range { start, end } = range;
        // What reaches SND.NXT takes unsent data along: a probe's single byte would go alone
        // otherwise.
        let end = if end == self.hot.nxt {
            end.max(self.sendable_end())
        } else {
            end
        };
        let len = (end.min(self.stream_end()) - start).min(room);
        let len = if start >= self.stream_end() { 0 } else { len };
        let plan = self.segment(kind, start, len);
        (plan.end() > start).then_some(plan)
    }

    /// RFC 9293 §3.8.6.1: at least one octet of new data, or a retransmission, whatever the window
    /// says; all that fits if the window is merely too small to be worth it (§3.8.6.2.1 (4), the
    /// override time-out).
    pub fn window_probe(self, room: u32) -> Option<Plan> {
        let start = self.hot.una;
        let end = self.stream_end();
        let available = if end > start { end - start } else { 0 };
        let len = self.hot.wnd.max(1).min(available).min(room);
        let fin = len == 0 && self.has(SendFlags::FIN_QUEUED) && start == self.hot.fin_seq;
        (len > 0 || fin).then(|| self.segment(Kind::Probe, start, len))
    }

    /// A tail loss probe of new data, whatever the congestion window says.
    pub fn tail_probe_of_new(self, room: u32) -> Option<Plan> {
        let nxt = self.hot.nxt;
        let end = self.sendable_end();
        let len = if end > nxt { end - nxt } else { 0 };
        (len > 0).then(|| self.segment(Kind::TailProbe, nxt, len.min(room)))
    }

    /// The last segment in flight, of `room` bytes at most: what a tail loss probe sends again.
    pub fn last_in_flight(self, room: u32) -> Range {
        let (una, nxt) = (self.hot.una, self.hot.nxt);
        let last = room + u32::from(self.fin_sent());
        let start = if nxt - una > last { nxt - last } else { una };
        Range::new(start, nxt)
    }

    /// A tail loss probe of the first segment of `gap`, which is not SACKed.
    pub fn tail_probe_again(self, gap: Range, room: u32) -> Option<Plan> {
        self.again(Kind::TailProbe, gap, room)
    }

    /// The ACK that the ACK list sends.
    #[inline(always)]
    pub fn ack(self) -> Plan {
        self.bare(Kind::Ack, self.hot.nxt)
    }

    /// RFC 9293 §3.8.4: SEG.SEQ = SND.NXT - 1.
    /// RFC 9293 SHLD-12.
    pub fn keepalive(self) -> Plan {
        self.bare(Kind::Keepalive, self.hot.nxt - 1)
    }

    #[inline(always)]
    fn bare(self, kind: Kind, seq: SeqNumber) -> Plan {
        Plan {
            kind,
            seq,
            len: 0,
            flags: TcpFlags::ACK,
            cut: 0,
        }
    }
}
