//! Loss recovery: RFC 6675 with SACK, RFC 6582 (NewReno) without, limited transmit (RFC 3042) and go-back after a time-out.
//!
//! All of it is two numbers and an estimate. `[rtx_nxt, rtx_end)`, less what is SACKed, is taken for lost and wants to be retransmitted.
//! `pipe` is what is still thought to be in the network; sending anything needs `pipe` to stay below `cwnd`, which stands at `ssthresh`
//! during recovery. Without SACK each duplicate ACK says that one segment has left the network: the same as RFC 6582's inflation of
//! `cwnd`, told from the other side.

use wire::tcp::TcpFlags;

use crate::tcp::conn::Conn;
use crate::tcp::sack::{DUP_THRESH, lost_edge};
use crate::tcp::segment::Segment;
use crate::tcp::tcb::Flags;

impl Conn<'_> {
    /// SetPipe (RFC 6675 §4), bytes.
    pub fn pipe(&self) -> u32 {
        let hot = &*self.hot;
        let quiet = hot.dup_acks == 0 && !hot.has(Flags::RECOVERY | Flags::LOSS | Flags::SACKED);
        if quiet && hot.rtx_nxt >= hot.rtx_end {
            return hot.flight();
        }
        // Not lost and not SACKed, and retransmitted: what is both counts twice, as RFC 6675 has it.
        let lost_to = hot.rtx_end.max(hot.snd_una);
        let sent_once = self.unsacked(lost_to, hot.snd_nxt);
        let sent_again = self.unsacked(hot.snd_una, hot.rtx_nxt);
        (sent_once + sent_again).saturating_sub(self.cold.dup_bytes)
    }

    /// SND.UNA advanced over `acked` sequence numbers.
    pub fn on_progress(&mut self, acked: u32) {
        self.trim_scoreboard();
        let una = self.hot.snd_una;
        if self.has(Flags::RECOVERY) {
            if una >= self.cold.recover {
                self.leave_recovery();
            } else {
                self.on_partial_ack(acked);
            }
            return;
        }
        if self.has(Flags::LOSS) && una >= self.cold.recover {
            self.clear(Flags::LOSS);
        }
        self.hot.dup_acks = 0;
        self.cold.dup_bytes = 0;
        self.update_lost();
    }

    /// RFC 6582 §3.2 step 3, partial acknowledgments: the next segment is lost too. With SACK the scoreboard knows.
    fn on_partial_ack(&mut self, acked: u32) {
        if self.has(Flags::SACK) {
            self.update_lost();
        } else {
            let mss = u32::from(self.hot.mss);
            let deflate = acked.saturating_sub(mss);
            self.cold.dup_bytes = self.cold.dup_bytes.saturating_sub(deflate);
            self.retransmit_first();
        }
        self.mark_output();
    }

    /// Makes the first unacknowledged segment the next to be sent, whatever `cwnd` says.
    fn retransmit_first(&mut self) {
        let hot = &mut *self.hot;
        hot.rtx_nxt = hot.snd_una;
        let end = (hot.snd_una + u32::from(hot.mss)).min(hot.snd_nxt);
        hot.rtx_end = hot.rtx_end.max(end);
        if !hot.has(Flags::SACK | Flags::LOSS) {
            hot.rtx_end = end;
        }
        self.set(Flags::FORCE_RETRANSMIT);
    }

    /// RFC 6582 §3.2 step 3, full acknowledgments.
    fn leave_recovery(&mut self) {
        let mss = u32::from(self.hot.mss);
        if !self.has(Flags::SACK) {
            let flight = self.hot.flight();
            let window = &mut self.hot.window;
            window.cwnd = window.ssthresh.min(flight.max(mss) + mss);
        }
        self.clear(Flags::RECOVERY | Flags::FORCE_RETRANSMIT | Flags::RESCUED);
        self.hot.dup_acks = 0;
        self.cold.dup_bytes = 0;
        self.hot.rtx_nxt = self.hot.snd_una;
        self.hot.rtx_end = self.hot.snd_una;
        self.update_lost();
    }

    /// SEG.ACK = SND.UNA. Is it a duplicate as RFC 5681 §2 defines one, or as RFC 6675 §2 does if SACK is in use?
    pub fn on_possible_duplicate(&mut self, seg: &Segment<'_>, sack_news: bool) {
        let same_window = u32::from(seg.window) << self.hot.snd_wscale == self.hot.snd_wnd;
        let plain = seg.payload.is_empty() && !seg.has(TcpFlags::SYN | TcpFlags::FIN);
        let duplicate = if self.has(Flags::SACK) {
            sack_news
        } else {
            plain && same_window
        };
        // The answers to window probes are no sign of loss.
        if duplicate && self.hot.flight() > 0 && !self.has(Flags::PERSIST) {
            self.on_duplicate_ack();
        }
    }

    fn on_duplicate_ack(&mut self) {
        self.sh.counters.duplicate_acks_in += 1;
        self.hot.dup_acks = self.hot.dup_acks.saturating_add(1);
        if !self.has(Flags::SACK | Flags::LOSS) {
            let mss = u32::from(self.hot.mss);
            self.cold.dup_bytes = (self.cold.dup_bytes + mss).min(self.hot.flight());
        }
        self.update_lost();
        if self.should_recover() {
            self.enter_recovery();
        }
        // New data during the first duplicates is limited transmit (RFC 3042): `pipe` makes room for one segment each.
        self.mark_output();
    }

    /// Moves the end of what is lost as far as the scoreboard says; nothing before recovery has begun.
    fn update_lost(&mut self) {
        if !self.has(Flags::RECOVERY | Flags::LOSS) {
            return;
        }
        let mss = u32::from(self.hot.mss);
        if let Some(edge) = self.scoreboard().and_then(|set| lost_edge(set, mss)) {
            self.hot.rtx_end = self.hot.rtx_end.max(edge);
        }
    }

    fn should_recover(&self) -> bool {
        if self.has(Flags::RECOVERY | Flags::LOSS) {
            return false;
        }
        let mss = u32::from(self.hot.mss);
        if self.has(Flags::SACK) {
            // RFC 6675 §5 (1), (2).
            let edge = self.scoreboard().and_then(|set| lost_edge(set, mss));
            self.hot.dup_acks >= DUP_THRESH || edge.is_some_and(|edge| edge > self.hot.snd_una)
        } else {
            // RFC 6582 §3.2 step 2: not for duplicates of what was retransmitted before.
            self.hot.dup_acks >= DUP_THRESH && self.hot.snd_una > self.cold.recover
        }
    }

    /// RFC 6675 §5 (4), RFC 6582 §3.2 step 2: once per window.
    fn enter_recovery(&mut self) {
        let mss = u32::from(self.hot.mss);
        // What limited transmit sent beyond `cwnd` does not count (RFC 5681 §3.2 step 2).
        let flight = self.hot.flight().min(self.hot.window.cwnd);
        self.cold.recover = self.hot.snd_nxt;
        self.cold
            .congestion
            .on_congestion_event(&mut self.hot.window, flight, mss);
        self.set(Flags::RECOVERY);
        self.clear(Flags::RESCUED);
        self.hot.rtx_end = self.hot.snd_una;
        self.retransmit_first();
        self.update_lost();
        self.sh.counters.fast_retransmits += 1;
    }

    /// The retransmission timer expired: everything not SACKed is taken for lost (RFC 5681 §3.1, RFC 6675 §5.1).
    pub fn on_loss_timeout(&mut self) {
        let mss = u32::from(self.hot.mss);
        let first = !self.has(Flags::LOSS);
        let flight = self.hot.flight().min(self.hot.window.cwnd.max(mss));
        self.cold
            .congestion
            .on_rto(&mut self.hot.window, flight, mss, first);
        self.go_back();
    }

    /// Everything in flight counts as lost.
    pub fn go_back(&mut self) {
        self.detect_reneging();
        self.cold.recover = self.hot.snd_nxt;
        self.cold.dup_bytes = 0;
        self.hot.dup_acks = 0;
        self.hot.rtx_nxt = self.hot.snd_una;
        self.hot.rtx_end = self.hot.snd_nxt;
        self.clear(Flags::RECOVERY | Flags::RESCUED | Flags::TIMING);
        self.set(Flags::LOSS | Flags::FORCE_RETRANSMIT);
        self.mark_output();
    }
}
