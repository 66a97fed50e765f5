//! What an ACK says about the data in flight: what has arrived, and how long that took.

use wire::seq::SeqNumber;
use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::tcp::flags::LossFlags;
use crate::tcp::loss::part::{Loss, LossActions};
use crate::tcp::loss::scoreboard::DUP_THRESH;
use crate::tcp::loss::sent::micros;
use crate::tcp::loss::state::{Cold, Hot, Pools};
use crate::tcp::ranges::{Range, most_ranges};
use crate::tcp::segment::Segment;

/// A timestamp echo that claims a longer round trip is not ours.
const MAX_ECHO_AGE_MS: u32 = 60 * 60 * 1000;

/// A round trip took so many µs.
fn take_measurement(hot: &mut Hot, cold: &mut Cold, pools: &mut Pools, now: Instant, micros: u32) {
    hot.rtt.sample(micros, pools.rto_bounds);
    pools.near_rtt.take(micros);
    cold.tail.measured = true;
    // RFC 6298 §5: a measurement collapses the back-off.
    hot.backoff = 0;
    cold.min_rtt.take(now, micros.max(1));
}

/// How things stood when the processing of an ACK began, and what its SACK blocks said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    /// The ACK SACKs something new.
    pub news: bool,
    /// No fast recovery was going on.
    pub(super) began: bool,
    /// How far delivery had come.
    pub(super) delivered: SeqNumber,
}

impl Loss<'_> {
    /// An acceptable ACK that is not a predicted one: takes its SACK blocks.
    pub fn begin_ack(mut self, now: Instant, seg: &Segment<'_>) -> Report {
        let began = !self.has(LossFlags::RECOVERY);
        let delivered = self.view().delivered();
        let news = self.process_sack(now, seg);
        Report {
            news,
            began,
            delivered,
        }
    }

    /// Does the ACK show that a reaction to loss was spurious, or what became of a tail loss probe?
    pub fn review(mut self, now: Instant, seg: &Segment<'_>, news: bool) -> LossActions {
        let duplicate = self.reported_duplicate(seg);
        if let Some(report) = duplicate {
            self.on_spurious_retransmission();
            self.on_duplicate_report(now, seg, report);
        }
        self.review_loss(now, seg, news, duplicate);
        self.resolve_tail_probe(now, seg, duplicate);
        self.actions
    }

    /// SND.UNA < SEG.ACK =< SND.NXT.
    pub fn on_advance(mut self, now: Instant, seg: &Segment<'_>) -> LossActions {
        let una = self.snd_una;
        let sacked = self.view().scoreboard();
        let sacked = sacked.map_or(0, |set| set.covered(una, seg.ack));
        self.congestion()
            .note_delivered(now, (seg.ack - una).saturating_sub(sacked));
        if self.has(LossFlags::SENT_LOG) {
            self.advance_log(now, seg);
        } else {
            self.cold.rate.newest = Some(self.cold.flight_at);
        }
        self.snd_una = seg.ack;
        self.measure(now, seg);
        self.on_progress(now, seg.ack - una);
        self.actions
    }

    /// The same, where [`LossView::is_usual`]: everything that can be left out is left out, so that
    /// the borrows stay in registers.
    #[inline(always)]
    pub fn on_usual_advance(&mut self, now: Instant, seg: &Segment<'_>) {
        self.cold.rate.newest = Some(self.cold.flight_at);
        self.snd_una = seg.ack;
        if self.has(LossFlags::TIMING) && seg.ack >= self.hot.rtt_seq {
            self.take_timed(now);
        }
        self.hot.dup_acks = 0;
        self.cold.departed.bytes = 0;
        self.keep_recover_below();
    }

    fn advance_log(&mut self, now: Instant, seg: &Segment<'_>) {
        self.on_delivered(now, seg, self.snd_una, seg.ack);
        if seg.ack == self.snd_nxt {
            self.forget_sent_log();
        } else if let Some(log) = self.in_flight().sent_log() {
            log.trim(seg.ack);
        }
    }

    /// The SYN of ours is acknowledged, up to `una`.
    pub fn on_syn_acked(&mut self, now: Instant, seg: &Segment<'_>, una: SeqNumber) {
        self.measure(now, seg);
        if self.has(LossFlags::SENT_LOG) {
            self.on_delivered(now, seg, self.snd_una, una);
        }
        self.snd_una = una;
        self.stop_rtx_timer();
        if self.has(LossFlags::SENT_LOG)
            && let Some(log) = self.in_flight().sent_log()
        {
            log.trim(una);
        }
    }

    /// SND.UNA advanced over `acked` sequence numbers.
    /// RFC 6675 §5-7, §5-8, §5-9.
    fn on_progress(&mut self, now: Instant, acked: u32) {
        self.in_flight().trim_scoreboard();
        let una = self.snd_una;
        if self.has(LossFlags::RECOVERY) {
            if una >= self.cold.recover {
                self.leave_recovery(now);
            } else {
                self.on_partial_ack(acked);
            }
            return;
        }
        self.hot.dup_acks = 0;
        self.cold.departed.bytes = 0;
        if self.has(LossFlags::LOSS) && una >= self.cold.recover {
            self.recover_the_rest(now);
        }
        if !self.has(LossFlags::RECOVERY | LossFlags::LOSS) {
            self.keep_recover_below();
        }
    }

    /// `recover` stays below SND.UNA, although sequence numbers wrap around.
    #[inline(always)]
    fn keep_recover_below(&mut self) {
        if self.snd_una > self.cold.recover {
            self.cold.recover = self.snd_una - 1;
        }
    }

    /// RFC 6298 §3 (Karn): the timed segment was sent once. When everything timed was
    /// retransmitted, timestamps tell the copies apart (RFC 7323 §4.1). While the RTO is backed
    /// off, any ACK that gets through with an echo ends that, without waiting for the segment that
    /// is being timed.
    /// RFC 9293 MUST-18; RFC 6298 §3-1; RFC 7323 §4.1-1.
    pub fn measure(&mut self, now: Instant, seg: &Segment<'_>) {
        if self.has(LossFlags::TIMING) && seg.ack >= self.hot.rtt_seq {
            self.take_timed(now);
        } else if self.view().needs_echo()
            && let Some(micros) = self.echoed(now, seg)
        {
            self.take_measurement(now, micros);
        }
    }

    /// The segment that was timed is acknowledged.
    #[inline(always)]
    fn take_timed(&mut self, now: Instant) {
        self.bits.remove(LossFlags::TIMING);
        self.take_measurement(now, micros(now).wrapping_sub(self.hot.rtt_at));
    }

    /// The age of the timestamp echoed in µs. The clock ticks in milliseconds, so it is the poorer
    /// measure.
    /// RFC 7323 §3.2-3, §4.2-1.
    fn echoed(&self, now: Instant, seg: &Segment<'_>) -> Option<u32> {
        let stamps = seg
            .options
            .timestamps
            .filter(|_| self.has(LossFlags::TIMESTAMPS))?;
        // An echo from before the time-out is no measure: perhaps the data arrived in time and its
        // ACK was lost, and what is answered now is the copy (Karn).
        let since_timeout = stamps.tsecr.wrapping_sub(self.cold.timeout_stamp) as i32;
        if self.hot.backoff > 0 && since_timeout < 0 {
            return None;
        }
        let age = self.tsval(now).wrapping_sub(stamps.tsecr);
        (age < MAX_ECHO_AGE_MS).then(|| age * 1000)
    }

    /// A round trip took so many µs.
    #[inline(always)]
    pub(super) fn take_measurement(&mut self, now: Instant, micros: u32) {
        take_measurement(self.hot, self.cold, self.pools, now, micros);
    }

    /// The round-trip time of the handshake: the SYN-ACK was sent at `sent_at` (µs, low 32 bits).
    /// If it was sent `again`, the copy that is echoed has to be the last: a peer that got an
    /// earlier one, and whose ACK was lost, echoes that one for as long as it hears nothing else.
    pub fn time_handshake(&mut self, now: Instant, sent_at: u32, again: bool) {
        if again {
            let age = micros(now).wrapping_sub(sent_at);
            self.cold.timeout_stamp = self.tsval(now).wrapping_sub(age / 1000);
            self.hot.backoff = 1;
        } else {
            self.hot.rtt_seq = self.snd_una;
            self.hot.rtt_at = sent_at;
            self.bits.insert(LossFlags::TIMING);
        }
    }

    /// Takes the SACK blocks of an acceptable ACK. Whether they say anything new.
    /// RFC 2018 §5-1; RFC 6675 §5-1.
    /// RFC 2883 §7-1.
    fn process_sack(&mut self, now: Instant, seg: &Segment<'_>) -> bool {
        if seg.options.sack.is_empty() || !self.has(LossFlags::SACK) {
            return false;
        }
        let una = self.snd_una.max(seg.ack);
        let mut news = false;
        for (left, right) in seg.options.sack.iter() {
            // RFC 2018 §5 and RFC 2883: blocks below SND.UNA report duplicates; blocks beyond
            // SND.NXT are nonsense. Distances are compared, since a block half the sequence space
            // away is at once above and below.
            let (from, to) = (left - una, right - una);
            if 0 < from && from < to && to <= self.snd_nxt - una {
                news |= self.note_sacked(now, seg, Range::new(left, right));
            }
        }
        news
    }

    /// RFC 2883 §4: the first block reports a duplicate if it lies below the ACK, or inside the
    /// second.
    /// RFC 2883 §5-1.
    fn reported_duplicate(&self, seg: &Segment<'_>) -> Option<Range> {
        let mut blocks = seg.options.sack.iter();
        let (left, right) = blocks.next().filter(|_| self.has(LossFlags::SACK))?;
        let inside = blocks.next().is_some_and(|(l, r)| l <= left && right <= r);
        let is_report = left < right && (right <= seg.ack || inside);
        is_report.then(|| Range::new(left, right))
    }

    /// Whether it is news. A full scoreboard takes no more, and what it does not know will be sent
    /// again.
    /// RFC 6675 §4-1.
    fn note_sacked(&mut self, now: Instant, seg: &Segment<'_>, block: Range) -> bool {
        let Range { start, end } = block;
        let most = most_ranges(self.flight());
        if self.view().first_unsacked(start, end).is_none()
            || !self.ranges.accepts(&self.cold.sacked, block, most)
        {
            return false;
        }
        self.on_delivered(now, seg, start, end);
        let Some(bytes) = self.in_flight().insert(block, most) else {
            return false;
        };
        self.congestion().note_delivered(now, bytes);
        true
    }

    /// SEG.ACK = SND.UNA. Is it a duplicate as RFC 5681 §2 defines one, or as RFC 6675 §2 does if
    /// SACK is in use? `same_window`: it offers the window that there was before.
    /// RFC 3042 §2-3; RFC 5681 §3.2-9.
    pub fn on_possible_duplicate(
        mut self,
        now: Instant,
        seg: &Segment<'_>,
        news: bool,
        same_window: bool,
    ) -> LossActions {
        let plain = seg.payload.is_empty() && !seg.has(TcpFlags::SYN | TcpFlags::FIN);
        let duplicate = if self.has(LossFlags::SACK) {
            news
        } else {
            plain && same_window
        };
        // The answers to window probes are no sign of loss.
        if duplicate && self.flight() > 0 && !self.has(LossFlags::PERSIST) {
            self.on_duplicate_ack(now);
        }
        self.actions
    }

    /// RFC 8985 §9.2-1; RFC 5681 §3.2-1, §3.2-6.
    fn on_duplicate_ack(&mut self, now: Instant) {
        self.counters.duplicate_acks_in += 1;
        if !self.has(LossFlags::SACK) {
            self.hot.dup_acks = self.hot.dup_acks.saturating_add(1);
            if !self.has(LossFlags::LOSS) {
                self.note_departure();
            }
            if self.view().should_recover() {
                self.enter_recovery(now);
            }
        }
        // RFC 5681 §3.2-2, §3.2-3, §3.2-7; RFC 3042 §2-1, §2-2.
        // New data during the first duplicates is limited transmit (RFC 3042): `pipe` makes room
        // for one segment each.
        self.mark_output();
    }

    /// A duplicate says that a segment has left the network. No more can have left than were
    /// outstanding when SND.UNA last moved (RFC 5681 §3.2 step 4), and before recovery limited
    /// transmit is for the first of them: duplicates that are made up let nothing more go.
    /// RFC 5681 §3.2-6, §3.2-7.
    fn note_departure(&mut self) {
        let mss = self.mss();
        let most = if self.has(LossFlags::RECOVERY) {
            self.cold.departed.most
        } else {
            u32::from(DUP_THRESH) * mss
        };
        let noted = self.cold.departed.bytes;
        self.cold.departed.bytes = (noted + mss).min(most.min(self.flight())).max(noted);
    }

    /// The rest of the processing of an ACK that began with `report`: is anything lost, and how
    /// much may be sent for it? `path_probe` is the range of a larger segment that probes the path.
    pub fn finish_ack(
        mut self,
        now: Instant,
        report: &Report,
        advances: bool,
        path_probe: Option<Range>,
    ) -> LossActions {
        let found_lost = self.detect_losses(now, path_probe);
        let delivered = self.view().delivered() - report.delivered;
        if self.has(LossFlags::RECOVERY) {
            let (began, safe) = (report.began, advances && !found_lost);
            let pipe = self.view().pipe();
            if self.congestion().apply_prr(began, delivered, pipe, safe) {
                self.mark_output();
            }
        }
        self.actions
    }
}
