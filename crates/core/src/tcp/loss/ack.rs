//! What an ACK says about the data in flight: what has arrived, and how long that took.

use wire::seq::SeqNumber;
use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::tcp::flags::LossFlags;
use crate::tcp::loss::actions::LossActions;
use crate::tcp::loss::part::Loss;
use crate::tcp::loss::scoreboard::DUP_THRESH;
use crate::tcp::loss::sent::micros;
use crate::tcp::ranges::Range;
use crate::tcp::segment::Segment;

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
        let began = !self.bits.has(LossFlags::RECOVERY);
        let delivered = self.view().delivered();
        let sacked = self.take_sack(now, seg);
        Report {
            news: sacked > 0,
            began,
            delivered,
        }
    }

    /// Does the ACK show that a reaction to loss was spurious, or what became of a tail loss probe?
    pub fn review(mut self, now: Instant, seg: &Segment<'_>, news: bool) -> LossActions {
        let duplicate = self.view().reported_duplicate(seg);
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
        if self.bits.has(LossFlags::SENT_LOG) {
            let arrival = self.view().arrival(now, seg);
            self.in_flight().advance(seg.ack, &arrival);
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
        if self.bits.has(LossFlags::TIMING) && seg.ack >= self.hot.rtt_seq {
            self.timers().take_timed(now);
        }
        self.hot.dup_acks = 0;
        self.cold.departed.bytes = 0;
        self.cold.keep_recover_below(self.snd_una);
    }

    /// The SYN of ours is acknowledged, up to `una`.
    pub fn on_syn_acked(&mut self, now: Instant, seg: &Segment<'_>, una: SeqNumber) {
        self.measure(now, seg);
        if self.bits.has(LossFlags::SENT_LOG) {
            let (from, arrival) = (self.snd_una, self.view().arrival(now, seg));
            self.in_flight().deliver(from, una, &arrival);
        }
        self.snd_una = una;
        self.timers().stop_rtx_timer();
        if self.bits.has(LossFlags::SENT_LOG)
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
        if self.bits.has(LossFlags::RECOVERY) {
            if una >= self.cold.recover {
                self.leave_recovery(now);
            } else {
                self.on_partial_ack(acked);
            }
            return;
        }
        self.hot.dup_acks = 0;
        self.cold.departed.bytes = 0;
        if self.bits.has(LossFlags::LOSS) && una >= self.cold.recover {
            self.recover_the_rest(now);
        }
        if !self.bits.has(LossFlags::RECOVERY | LossFlags::LOSS) {
            self.cold.keep_recover_below(self.snd_una);
        }
    }

    /// RFC 6298 §3 (Karn): the timed segment was sent once. When everything timed was
    /// retransmitted, timestamps tell the copies apart (RFC 7323 §4.1). While the RTO is backed
    /// off, any ACK that gets through with an echo ends that, without waiting for the segment that
    /// is being timed.
    /// RFC 9293 MUST-18; RFC 6298 §3-1; RFC 7323 §4.1-1.
    pub fn measure(&mut self, now: Instant, seg: &Segment<'_>) {
        if self.bits.has(LossFlags::TIMING) && seg.ack >= self.hot.rtt_seq {
            self.timers().take_timed(now);
        } else if self.view().needs_echo()
            && let Some(micros) = self.view().echoed(now, seg)
        {
            self.timers().take_measurement(now, micros);
        }
    }

    /// The round-trip time of the handshake: the SYN-ACK was sent at `sent_at` (µs, low 32 bits).
    /// If it was sent `again`, the copy that is echoed has to be the last: a peer that got an
    /// earlier one, and whose ACK was lost, echoes that one for as long as it hears nothing else.
    pub fn time_handshake(&mut self, now: Instant, sent_at: u32, again: bool) {
        if again {
            let age = micros(now).wrapping_sub(sent_at);
            self.cold.timeout_stamp = self.view().tsval(now).wrapping_sub(age / 1000);
            self.hot.backoff = 1;
        } else {
            let una = self.snd_una;
            self.timers().time_since(sent_at, una);
        }
    }

    /// Takes the SACK blocks of an acceptable ACK. Returns the bytes that none has reported before.
    fn take_sack(&mut self, now: Instant, seg: &Segment<'_>) -> u32 {
        if seg.options.sack.is_empty() || !self.bits.has(LossFlags::SACK) {
            return 0;
        }
        let arrival = self.view().arrival_behind(now);
        let sacked = self.in_flight().take_sack(seg, &arrival);
        if sacked > 0 {
            self.congestion().note_delivered(now, sacked);
        }
        sacked
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
        let duplicate = if self.bits.has(LossFlags::SACK) {
            news
        } else {
            plain && same_window
        };
        // The answers to window probes are no sign of loss.
        if duplicate && self.view().flight() > 0 && !self.bits.has(LossFlags::PERSIST) {
            self.on_duplicate_ack(now);
        }
        self.actions
    }

    /// RFC 8985 §9.2-1; RFC 5681 §3.2-1, §3.2-6.
    fn on_duplicate_ack(&mut self, now: Instant) {
        self.counters.duplicate_acks_in += 1;
        if !self.bits.has(LossFlags::SACK) {
            self.hot.dup_acks = self.hot.dup_acks.saturating_add(1);
            if !self.bits.has(LossFlags::LOSS) {
                self.note_departure();
            }
            if self.view().should_recover() {
                self.enter_recovery(now);
            }
        }
        // RFC 5681 §3.2-2, §3.2-3, §3.2-7; RFC 3042 §2-1, §2-2.
        // New data during the first duplicates is limited transmit (RFC 3042): `pipe` makes room
        // for one segment each.
        self.actions |= LossActions::OUTPUT;
    }

    /// A duplicate says that a segment has left the network. No more can have left than were
    /// outstanding when SND.UNA last moved (RFC 5681 §3.2 step 4), and before recovery limited
    /// transmit is for the first of them: duplicates that are made up let nothing more go.
    /// RFC 5681 §3.2-6, §3.2-7.
    fn note_departure(&mut self) {
        let mss = self.view().mss();
        let most = if self.bits.has(LossFlags::RECOVERY) {
            self.cold.departed.most
        } else {
            u32::from(DUP_THRESH) * mss
        };
        let noted = self.cold.departed.bytes;
        self.cold.departed.bytes = (noted + mss).min(most.min(self.view().flight())).max(noted);
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
        if self.bits.has(LossFlags::RECOVERY) {
            let (began, safe) = (report.began, advances && !found_lost);
            let pipe = self.view().pipe();
            if self.congestion().apply_prr(began, delivered, pipe, safe) {
                self.actions |= LossActions::OUTPUT;
            }
        }
        self.actions
    }
}
