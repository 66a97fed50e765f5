//! Losses that were none: F-RTO (RFC 5682), Eifel (RFC 3522) and D-SACK (RFC 3708) find them, and
//! the reaction is undone (RFC 4015).
//!
//! Before a window is reduced because of loss, its undo state is noted. Three kinds of ACK show
//! that nothing was lost, and that the segments, or their ACKs, were only late: an ACK that echoes
//! a timestamp from before the first retransmission; an ACK that D-SACKs everything that was sent
//! again; and, after a time-out, two ACKs that only the original transmission can have caused.

use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::cc::initial_window;
use crate::tcp::flags::LossFlags;
use crate::tcp::loss::actions::LossActions;
use crate::tcp::loss::part::Loss;
use crate::tcp::loss::prr::Prr;
use crate::tcp::loss::sent::micros;
use crate::tcp::loss::undo::{Frto, Undo};
use crate::tcp::ranges::Range;
use crate::tcp::segment::Segment;

impl Loss<'_> {
    /// The undo state of this moment. Call it before the window is reduced.
    pub(super) fn undo_state(&mut self, frto: Frto) -> Undo {
        let saved = self.congestion().save();
        let flight = Range::new(self.snd_una, self.snd_nxt);
        Undo::new(saved, flight, frto, self.view().first_sent_at())
    }

    /// The undo state for a time-out that is about to be reacted to. The second one for the same
    /// data changes nothing, as long as only the first segment went again (RFC 5682 §3.1 step 2).
    /// Any other time-out during a recovery is a real one.
    /// RFC 5682 §2.1-6.
    pub(super) fn undo_state_of_timeout(&mut self) -> Undo {
        let before = self.view().undo_copy();
        if !self.bits.has(LossFlags::RECOVERY | LossFlags::LOSS) {
            self.undo_state(Frto::First)
        } else if self.bits.has(LossFlags::LOSS) && before.frto == Frto::First {
            before
        } else {
            Undo::default()
        }
    }

    /// An acceptable ACK, before it is processed: does it show that the reaction was spurious?
    /// `news`: it SACKs something new; `duplicate`: the range that it reports to have arrived
    /// twice.
    pub(super) fn review_loss(
        &mut self,
        now: Instant,
        seg: &Segment<'_>,
        news: bool,
        duplicate: Option<Range>,
    ) {
        if !self.bits.has(LossFlags::RECOVERY | LossFlags::LOSS) || !self.cold.undo.is_some() {
            return;
        }
        if self.shows_late_original(seg, duplicate) || self.step_of_frto(now, seg, news) {
            self.take_back(now, seg);
        }
    }

    /// RFC 3522 §3, steps 3 to 6: the first ACK that advances after the retransmission echoes what
    /// was sent before it. If it acknowledges everything, that may be because all ACKs were lost:
    /// then only a peer that would have reported the duplicate is believed.
    fn shows_late_original(&mut self, seg: &Segment<'_>, duplicate: Option<Range>) -> bool {
        if seg.ack <= self.snd_una {
            return false;
        }
        let Some(stamp) = self.congestion().undo().and_then(Undo::take_stamp) else {
            return false;
        };
        let stamps = seg
            .options
            .timestamps
            .filter(|_| self.bits.has(LossFlags::TIMESTAMPS));
        let is_older = stamps.is_some_and(|s| (s.tsecr.wrapping_sub(stamp) as i32) < 0);
        let is_clear = self.cold.reordering.dsack_seen || seg.ack < self.snd_nxt;
        is_older && duplicate.is_none() && is_clear
    }

    /// RFC 5682 §2.1 (without SACK) and §3.1 (with it).
    /// RFC 5682 §2.1-2, §2.1-3, §2.1-4, §2.1-5, §3.1-1, §3.1-2.
    fn step_of_frto(&mut self, now: Instant, seg: &Segment<'_>, news: bool) -> bool {
        let advances = seg.ack > self.snd_una;
        let is_duplicate = !advances && seg.payload.is_empty() && !self.bits.has(LossFlags::SACK);
        let recover = self.cold.recover;
        match self.view().frto() {
            Frto::Off => false,
            // Step 2a: everything at once says nothing.
            Frto::First if is_duplicate || seg.ack >= recover => {
                self.leave_frto();
                false
            }
            Frto::First => {
                if let Some(undo) = self.congestion().undo().filter(|_| advances) {
                    undo.on_first_ack(micros(now));
                }
                false
            }
            // Step 3a: the new data arrived, and what was sent before it did not.
            Frto::Second(_) if is_duplicate || self.view().reaches_beyond(seg) => {
                self.hot.window.cwnd = 3 * self.view().mss();
                self.leave_frto();
                false
            }
            // Step 3b: something arrived that was sent before the time-out, and never again.
            Frto::Second(_) => advances || news,
        }
    }

    /// Conventional recovery from here on: the time-out is not known to be spurious, or there is no
    /// new data to send while F-RTO waits for the ACK of some.
    pub fn leave_frto(&mut self) {
        if let Some(undo) = self.congestion().undo() {
            undo.frto = Frto::Off;
        }
        self.actions |= LossActions::OUTPUT;
    }

    /// RFC 3708: once all that was sent again is reported to have arrived twice, nothing was lost.
    pub(super) fn on_duplicate_report(&mut self, now: Instant, seg: &Segment<'_>, report: Range) {
        self.cold.reordering.dsack_seen = true;
        let rto = self.view().rto_micros();
        let undo = self.congestion().undo();
        let is_complete = undo.is_some_and(|undo| undo.take_report(micros(now), report, rto));
        if is_complete {
            self.take_back(now, seg);
        }
    }

    /// The Eifel response (RFC 4015 §3), unless the network says that it is congested.
    /// RFC 9438 §4.9.2-1.
    fn take_back(&mut self, now: Instant, seg: &Segment<'_>) {
        let undo = self.view().undo_copy();
        self.congestion().forget_undo();
        let was_timeout = self.bits.has(LossFlags::LOSS);
        self.resume(now);
        let Some(saved) = undo.saved.filter(|_| !seg.has(TcpFlags::ECE)) else {
            return;
        };
        self.counters.spurious_losses += 1;
        let in_flight_then = undo.range.len();
        self.congestion().restore(&saved);
        if was_timeout {
            // The flight may have drained meanwhile: back to pipe_prev in slow start, not in one
            // burst.
            let initial = initial_window(self.pools.initial_window, u32::from(self.hot.mss));
            let left = self.snd_nxt - self.snd_una.max(seg.ack);
            let window = &mut self.hot.window;
            window.ssthresh = window.ssthresh.max(in_flight_then);
            window.cwnd = window.cwnd.min(left.saturating_add(initial));
            // RFC 4015 §3.3: the time-out came too early. It is clear now which transmission was
            // acknowledged, so it is a measurement.
            if let Some(took) = undo.first_took(micros(now)) {
                self.timers().take_measurement(now, took);
            }
        }
    }

    /// What was taken for lost is in flight.
    fn resume(&mut self, now: Instant) {
        if self.bits.has(LossFlags::RECOVERY | LossFlags::LOSS) {
            if let Some(log) = self.in_flight().sent_log() {
                log.forgive(micros(now));
            }
            self.end_recovery();
            self.hot.dup_acks = 0;
            self.cold.departed.bytes = 0;
            self.cold.prr = Prr::default();
            self.hot.backoff = 0;
        }
        self.actions |= LossActions::OUTPUT;
    }
}
