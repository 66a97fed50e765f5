//! Loss recovery: RACK (RFC 8985) with SACK, RFC 6582 (NewReno) without, limited transmit (RFC 3042) and go-back after a time-out.
//!
//! All of it is a log and an estimate. What the log says is lost, less what is SACKed, wants to be retransmitted. `pipe` is what is still
//! thought to be in the network; sending anything needs `pipe` to stay below `cwnd`, which each ACK of a recovery sets by proportional
//! rate reduction (`prr`). Without SACK `cwnd` stands at `ssthresh` then, and each duplicate ACK says that one segment has left the network:
//! the same as RFC 6582's inflation of `cwnd`, told from the other side.

use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::tcp::conn::Conn;
use crate::tcp::prr::Prr;
use crate::tcp::rack::micros;
use crate::tcp::ranges::Range;
use crate::tcp::sack::DUP_THRESH;
use crate::tcp::segment::Segment;
use crate::tcp::sent::SentLog;
use crate::tcp::spurious::Frto;
use crate::tcp::tcb::Flags;

/// What duplicate ACKs say has left the network, without SACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Departed {
    pub bytes: u32,
    /// No more than that, during recovery.
    pub(super) most: u32,
}

impl Conn<'_> {
    /// SetPipe (RFC 6675 §4), bytes.
    /// RFC 6675 §4-3.
    pub fn pipe(&self) -> u32 {
        let hot = &*self.hot;
        let flight = hot.flight();
        if !hot.has(Flags::RECOVERY | Flags::LOSS | Flags::SACKED) && hot.dup_acks == 0 {
            return flight;
        }
        let lost = self.sent_log().map_or(0, SentLog::lost_bytes);
        let gone = self.sacked_bytes() + lost + self.cold.departed.bytes;
        flight.saturating_sub(gone)
    }

    /// SND.UNA advanced over `acked` sequence numbers.
    /// RFC 6675 §5-7, §5-8, §5-9.
    pub fn on_progress(&mut self, now: Instant, acked: u32) {
        self.trim_scoreboard();
        let una = self.hot.snd_una;
        if self.has(Flags::RECOVERY) {
            if una >= self.cold.recover {
                self.leave_recovery(now);
            } else {
                self.on_partial_ack(acked);
            }
            return;
        }
        self.hot.dup_acks = 0;
        self.cold.departed.bytes = 0;
        if self.has(Flags::LOSS) && una >= self.cold.recover {
            self.recover_the_rest(now);
        }
        if !self.has(Flags::RECOVERY | Flags::LOSS) && una > self.cold.recover {
            // It stays below, although sequence numbers wrap around.
            self.cold.recover = una - 1;
        }
    }

    /// RFC 6582 §3.2 step 3, partial acknowledgments: the next segment is lost too. With SACK the log knows.
    /// RFC 6582 §3.2-4, §5-1.
    fn on_partial_ack(&mut self, acked: u32) {
        if !self.has(Flags::SACK) {
            let mss = u32::from(self.hot.mss);
            let deflate = acked.saturating_sub(mss);
            self.cold.departed.bytes = self.cold.departed.bytes.saturating_sub(deflate);
            self.cold.departed.most = self.hot.flight();
            self.lose_first();
        }
        self.mark_output();
    }

    /// The first unacknowledged segment is lost, and the next to be sent, whatever `cwnd` says.
    /// RFC 5681 §3.2-5.
    fn lose_first(&mut self) {
        let una = self.hot.snd_una;
        let end = (una + u32::from(self.hot.mss)).min(self.hot.snd_nxt);
        if let Some((log, sacked)) = self.log_and_scoreboard() {
            log.lose(Range::new(una, end), sacked);
        }
        self.set(Flags::FORCE_RETRANSMIT);
    }

    /// RFC 6582 §3.2 step 3, full acknowledgments.
    /// RFC 5681 §3.2-8, §4.3-3.
    /// RFC 6582 §3.2-3.
    fn leave_recovery(&mut self, now: Instant) {
        let mss = u32::from(self.hot.mss);
        if self.has(Flags::SACK) {
            self.relax_reordering_window();
            self.end_prr();
        } else {
            let flight = self.hot.flight();
            let window = &mut self.hot.window;
            window.cwnd = window.ssthresh.min(flight.max(mss) + mss);
        }
        self.hot.dup_acks = 0;
        self.cold.departed.bytes = 0;
        self.recover_the_rest(now);
    }

    /// A recovery is over. What was sent after it began may be lost as well: that is the next one.
    fn recover_the_rest(&mut self, now: Instant) {
        let lost = self.has_lost();
        self.clear(Flags::RECOVERY | Flags::LOSS | Flags::FORCE_RETRANSMIT);
        if lost && self.has(Flags::SACK) {
            self.enter_recovery(now);
        } else if lost && let Some(log) = self.sent_log_mut() {
            log.forgive(micros(now));
        }
    }

    /// SEG.ACK = SND.UNA. Is it a duplicate as RFC 5681 §2 defines one, or as RFC 6675 §2 does if SACK is in use?
    /// RFC 3042 §2-3; RFC 5681 §3.2-9.
    pub fn on_possible_duplicate(&mut self, now: Instant, seg: &Segment<'_>, sack_news: bool) {
        let same_window = u32::from(seg.window) << self.hot.snd_wscale == self.hot.snd_wnd;
        let plain = seg.payload.is_empty() && !seg.has(TcpFlags::SYN | TcpFlags::FIN);
        let duplicate = if self.has(Flags::SACK) {
            sack_news
        } else {
            plain && same_window
        };
        // The answers to window probes are no sign of loss.
        if duplicate && self.hot.flight() > 0 && !self.has(Flags::PERSIST) {
            self.on_duplicate_ack(now);
        }
    }

    /// RFC 8985 §9.2-1; RFC 5681 §3.2-1, §3.2-6.
    fn on_duplicate_ack(&mut self, now: Instant) {
        self.sh.counters.duplicate_acks_in += 1;
        if !self.has(Flags::SACK) {
            self.hot.dup_acks = self.hot.dup_acks.saturating_add(1);
            if !self.has(Flags::LOSS) {
                self.note_departure();
            }
            if self.should_recover() {
                self.enter_recovery(now);
            }
        }
        // RFC 5681 §3.2-2, §3.2-3, §3.2-7; RFC 3042 §2-1, §2-2.
        // New data during the first duplicates is limited transmit (RFC 3042): `pipe` makes room for one segment each.
        self.mark_output();
    }

    /// A duplicate says that a segment has left the network. No more can have left than were outstanding when SND.UNA last moved (RFC 5681
    /// §3.2 step 4), and before recovery limited transmit is for the first of them: duplicates that are made up let nothing more go.
    /// RFC 5681 §3.2-6, §3.2-7.
    fn note_departure(&mut self) {
        let mss = u32::from(self.hot.mss);
        let most = if self.has(Flags::RECOVERY) {
            self.cold.departed.most
        } else {
            u32::from(DUP_THRESH) * mss
        };
        let noted = self.cold.departed.bytes;
        self.cold.departed.bytes = (noted + mss).min(most.min(self.hot.flight())).max(noted);
    }

    /// RFC 6582 §3.2 step 2: not for duplicates of what was retransmitted before.
    /// RFC 5681 §3.2-1.
    /// RFC 6582 §3.2-2.
    fn should_recover(&self) -> bool {
        !self.has(Flags::RECOVERY | Flags::LOSS)
            && self.hot.dup_acks >= DUP_THRESH
            && self.hot.snd_una > self.cold.recover
    }

    /// RFC 6675 §5 (4), RFC 6582 §3.2 step 2: once per window.
    /// RFC 6675 §5-4, §5-5, §5-6; RFC 5681 §3.2-4, §4.3-1.
    pub fn enter_recovery(&mut self, now: Instant) {
        // What limited transmit sent beyond `cwnd` does not count (RFC 5681 §3.2 step 2); what ACKs of the same burst took away does.
        let flight = self.hot.window.cwnd - self.unfilled(self.hot.flight());
        self.cold.recover = self.hot.snd_nxt;
        self.cold.departed.most = self.hot.flight();
        let doubt = self.doubt(Frto::Off);
        self.reduce_window(now, flight);
        self.set_doubt(doubt);
        self.stop_early_timer();
        self.forget_tail_probe();
        self.set(Flags::RECOVERY | Flags::FORCE_RETRANSMIT);
        self.start_prr();
        if !self.has(Flags::SACK) {
            self.lose_first();
        }
        self.sh.counters.fast_retransmits += 1;
        self.mark_output();
    }

    /// Only the probe of a larger size was lost: it is repaired, and the window stays as it is (RFC 4821 §7.6.2).
    pub fn recover_probe(&mut self, now: Instant) {
        let models = &mut self.sh.models;
        let saved = self.cold.congestion.save(&self.hot.window, models);
        self.enter_recovery(now);
        let (window, models) = (&mut self.hot.window, &mut self.sh.models);
        self.cold.congestion.undo(window, &saved, models);
        self.cold.prr = Prr::default();
        self.forget_doubt();
    }

    /// The answer to congestion, with `flight` bytes outstanding.
    pub fn reduce_window(&mut self, now: Instant, flight: u32) {
        let mss = u32::from(self.hot.mss);
        self.cold.reduced_at = micros(now);
        self.forget_doubt();
        self.cold.congestion.on_congestion_event(
            &mut self.hot.window,
            flight,
            mss,
            &mut self.sh.models,
        );
        self.note_reduction();
    }

    /// The retransmission timer expired (RFC 5681 §3.1, RFC 6675 §5.1, RFC 8985 §6.3).
    /// RFC 2018 §5.1-1; RFC 5681 §3.1-10, §3.1-12.
    /// RFC 5682 §2.1-1.
    pub fn on_loss_timeout(&mut self, now: Instant) {
        self.review_path(now);
        self.sh.net.doubt(now, &self.cold.path);
        let mss = u32::from(self.hot.mss);
        let first = !self.has(Flags::LOSS);
        let flight = self.hot.flight().min(self.hot.window.cwnd.max(mss));
        let doubt = self.doubt_timeout();
        self.cold.congestion.on_rto(
            &mut self.hot.window,
            flight,
            mss,
            first,
            &mut self.sh.models,
        );
        self.note_reduction();
        self.go_back(now, self.age_of_loss());
        self.set_doubt(doubt);
    }

    /// Everything that was sent at least `age` µs ago, and the first segment in any case, counts as lost.
    /// RFC 6298 §5-5, §5-1; RFC 2018 §5-4; RFC 6675 §5.1-1.
    /// RFC 6582 §3.2-6.
    pub fn go_back(&mut self, now: Instant, age: u32) {
        self.detect_reneging();
        if let Some((log, sacked)) = self.log_and_scoreboard() {
            log.lose_older_than(age, micros(now), sacked);
        }
        self.cold.recover = self.hot.snd_nxt;
        self.cold.departed.bytes = 0;
        self.cold.prr = Prr::default();
        self.forget_doubt();
        self.hot.dup_acks = 0;
        self.stop_early_timer();
        self.forget_tail_probe();
        self.clear(Flags::RECOVERY | Flags::TIMING);
        self.set(Flags::LOSS | Flags::FORCE_RETRANSMIT);
        self.mark_output();
    }
}
