//! Losses that were none: F-RTO (RFC 5682), Eifel (RFC 3522) and D-SACK (RFC 3708) find them, and the reaction is taken back (RFC 4015).
//!
//! Before a window is reduced because of loss, what is needed to undo that is noted. An ACK that echoes a timestamp from before the first
//! retransmission, D-SACKs for everything that was sent again, or, after a time-out, two ACKs that only the original transmission can
//! have caused show that nothing was lost: the segments, or their ACKs, were only late.

use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::cc::{Saved, initial_window};
use crate::tcp::conn::Conn;
use crate::tcp::prr::Prr;
use crate::tcp::rack::micros;
use crate::tcp::ranges::Range;
use crate::tcp::segment::Segment;
use crate::tcp::tcb::Flags;

/// New segments of step 2b of F-RTO.
pub(crate) const FRTO_SEGMENTS: u8 = 2;

/// The steps of RFC 5682 §2.1 and §3.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Frto {
    /// Conventional recovery.
    #[default]
    Off,
    /// Step 2: the first segment was sent again, and nothing else; its ACK is awaited.
    First,
    /// Step 3: so many segments of new data may go, and the next ACK decides.
    Second(u8),
}

/// What has to be known to take back a reaction to loss.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Doubt {
    /// The congestion state before the reaction; `None`: there is nothing to take back.
    saved: Option<Saved>,
    /// SND.UNA and SND.NXT when it began.
    range: Range,
    pub frto: Frto,
    /// An ACK has decided what timestamps can decide.
    echo_seen: bool,
    /// Segments were sent again, ...
    resent: bool,
    /// ... the first of them with this timestamp (RetransmitTS of RFC 3522), ...
    stamp: u32,
    /// ... the last of them then (µs, low 32 bits), ...
    resent_at: u32,
    /// ... and so many bytes of them were not reported as duplicates.
    unreported: u32,
    /// When the first segment in flight had been sent, µs, low 32 bits; if it had been sent once.
    sent_at: Option<u32>,
    /// How long the ACK of that took, µs.
    took: Option<u32>,
}

impl Conn<'_> {
    fn doubted(&self) -> Option<&Doubt> {
        self.sh.doubts.at(self.cold.doubt?)
    }

    fn doubted_mut(&mut self) -> Option<&mut Doubt> {
        self.sh.doubts.at_mut(self.cold.doubt?)
    }

    pub fn frto(&self) -> Frto {
        self.doubted().map_or(Frto::Off, |doubt| doubt.frto)
    }

    /// From here on `doubt` is the reaction that may be wrong.
    pub fn set_doubt(&mut self, doubt: Doubt) {
        self.forget_doubt();
        if doubt.saved.is_some() {
            self.cold.doubt = self.sh.doubts.insert(doubt);
        }
    }

    /// There is nothing to take back any more.
    pub fn forget_doubt(&mut self) {
        if let Some(index) = self.cold.doubt.take() {
            self.sh.doubts.free(index);
        }
    }

    /// What there is to remember of this moment. Call it before the window is reduced.
    pub fn doubt(&mut self, frto: Frto) -> Doubt {
        let models = &mut self.sh.models;
        Doubt {
            saved: Some(self.cold.congestion.save(&self.hot.window, models)),
            range: Range::new(self.hot.snd_una, self.hot.snd_nxt),
            frto,
            sent_at: self.first_sent_at(),
            ..Doubt::default()
        }
    }

    /// What is known of the time-out that is about to be reacted to. The second one for the same data changes nothing, as long as only the
    /// first segment went again (RFC 5682 §3.1 step 2); any other time-out during a recovery is a real one.
    /// RFC 5682 §2.1-6.
    pub fn doubt_timeout(&mut self) -> Doubt {
        let before = self.doubted().copied().unwrap_or_default();
        if !self.has(Flags::RECOVERY | Flags::LOSS) {
            self.doubt(Frto::First)
        } else if self.has(Flags::LOSS) && before.frto == Frto::First {
            before
        } else {
            Doubt::default()
        }
    }

    /// A segment was sent again, of so many sequence numbers.
    pub fn on_sent_again(&mut self, now: Instant, len: u32) {
        let stamp = self.tsval(now);
        if let Some(doubt) = self.doubted_mut() {
            doubt.resent_at = micros(now);
            if !doubt.resent {
                doubt.resent = true;
                doubt.stamp = stamp;
            }
            doubt.unreported = doubt.unreported.saturating_add(len);
        }
    }

    /// An acceptable ACK, before it is processed: does it show that the reaction was wrong? `news`: it SACKs something new.
    pub fn review_loss(&mut self, now: Instant, seg: &Segment<'_>, news: bool) {
        if !self.has(Flags::RECOVERY | Flags::LOSS) || self.cold.doubt.is_none() {
            return;
        }
        let duplicate = self.reported_duplicate(seg);
        if self.shows_late_original(seg, duplicate) || self.step_of_frto(now, seg, news) {
            self.take_back(now, seg);
        }
    }

    /// RFC 3522 §3, steps 3 to 6: the first ACK that advances after the retransmission echoes what was sent before it. If it acknowledges
    /// everything, that may be because all ACKs were lost: then only a peer that would have reported the duplicate is believed.
    fn shows_late_original(&mut self, seg: &Segment<'_>, duplicate: Option<Range>) -> bool {
        let una = self.hot.snd_una;
        let Some(doubt) = self.doubted_mut() else {
            return false;
        };
        if seg.ack <= una || doubt.echo_seen || !doubt.resent {
            return false;
        }
        doubt.echo_seen = true;
        let stamp = doubt.stamp;
        let stamps = seg
            .options
            .timestamps
            .filter(|_| self.has(Flags::TIMESTAMPS));
        let is_older = stamps.is_some_and(|s| (s.tsecr.wrapping_sub(stamp) as i32) < 0);
        let is_clear = self.cold.dsack_seen || seg.ack < self.hot.snd_nxt;
        is_older && duplicate.is_none() && is_clear
    }

    /// RFC 5682 §2.1 (without SACK) and §3.1 (with it).
    /// RFC 5682 §2.1-2, §2.1-3, §2.1-4, §2.1-5, §3.1-1, §3.1-2.
    fn step_of_frto(&mut self, now: Instant, seg: &Segment<'_>, news: bool) -> bool {
        let advances = seg.ack > self.hot.snd_una;
        let is_duplicate = !advances && seg.payload.is_empty() && !self.has(Flags::SACK);
        let recover = self.cold.recover;
        match self.frto() {
            Frto::Off => false,
            // Step 2a: everything at once says nothing.
            Frto::First if is_duplicate || seg.ack >= recover => self.give_frto_up(),
            Frto::First => {
                if let Some(doubt) = self.doubted_mut().filter(|_| advances) {
                    doubt.took = doubt.sent_at.map(|at| micros(now).wrapping_sub(at));
                    doubt.frto = Frto::Second(FRTO_SEGMENTS);
                }
                false
            }
            // Step 3a: the new data arrived, and what was sent before it did not.
            Frto::Second(_) if is_duplicate || self.reaches_beyond(seg) => {
                self.hot.window.cwnd = 3 * u32::from(self.hot.mss);
                self.give_frto_up()
            }
            // Step 3b: something arrived that was sent before the time-out, and never again.
            Frto::Second(_) => advances || news,
        }
    }

    fn reaches_beyond(&self, seg: &Segment<'_>) -> bool {
        let recover = self.cold.recover;
        let sacks_beyond = || seg.options.sack.iter().any(|(_, right)| right > recover);
        self.has(Flags::SACK) && (seg.ack > recover || sacks_beyond())
    }

    /// Conventional recovery from here on. False, for the convenience of those who asked whether the time-out was spurious.
    pub fn give_frto_up(&mut self) -> bool {
        if let Some(doubt) = self.doubted_mut() {
            doubt.frto = Frto::Off;
        }
        self.mark_output();
        false
    }

    /// RFC 3708: once all that was sent again is reported to have arrived twice, nothing was lost.
    pub fn on_duplicate_report(&mut self, now: Instant, seg: &Segment<'_>, report: Range) {
        self.cold.dsack_seen = true;
        let rto = self.rto_micros();
        let Some(doubt) = self.doubted_mut() else {
            return;
        };
        // Later, sequence numbers may have wrapped around.
        let is_recent = u64::from(micros(now).wrapping_sub(doubt.resent_at)) <= 2 * rto;
        let is_ours = report.start >= doubt.range.start && report.end <= doubt.range.end;
        if !doubt.resent || !is_recent || !is_ours {
            return;
        }
        doubt.unreported = doubt.unreported.saturating_sub(report.len());
        if doubt.unreported == 0 {
            self.take_back(now, seg);
        }
    }

    /// The Eifel response (RFC 4015 §3), unless the network says that it is congested.
    /// RFC 9438 §4.9.2-1.
    fn take_back(&mut self, now: Instant, seg: &Segment<'_>) {
        let doubt = self.doubted().copied().unwrap_or_default();
        self.forget_doubt();
        let was_timeout = self.has(Flags::LOSS);
        self.resume(now);
        let Some(saved) = doubt.saved.filter(|_| !seg.has(TcpFlags::ECE)) else {
            return;
        };
        self.sh.counters.spurious_losses += 1;
        let in_flight_then = doubt.range.len();
        let window = &mut self.hot.window;
        let models = &mut self.sh.models;
        self.cold.congestion.undo(window, &saved, models);
        if was_timeout {
            // The flight may have drained meanwhile: back to pipe_prev in slow start, not in one burst.
            let mss = u32::from(self.hot.mss);
            let initial = initial_window(self.sh.config.initial_window, mss);
            let left = self.hot.snd_nxt - self.hot.snd_una.max(seg.ack);
            window.ssthresh = window.ssthresh.max(in_flight_then);
            window.cwnd = window.cwnd.min(left.saturating_add(initial));
            self.learn_from(doubt.took, doubt.sent_at, now);
        }
    }

    /// What was taken for lost is in flight.
    fn resume(&mut self, now: Instant) {
        if self.has(Flags::RECOVERY | Flags::LOSS) {
            if let Some(log) = self.sent_log_mut() {
                log.forgive(micros(now));
            }
            self.clear(Flags::RECOVERY | Flags::LOSS | Flags::FORCE_RETRANSMIT);
            self.hot.dup_acks = 0;
            self.cold.departed.bytes = 0;
            self.cold.prr = Prr::default();
            self.hot.backoff = 0;
        }
        self.mark_output();
    }

    /// RFC 4015 §3.3: the time-out came too early. It is clear now which transmission was acknowledged, so it is a measurement.
    fn learn_from(&mut self, took: Option<u32>, sent_at: Option<u32>, now: Instant) {
        let took = took.or_else(|| sent_at.map(|at| micros(now).wrapping_sub(at)));
        if let Some(took) = took {
            self.take_measurement(now, took);
        }
    }

    /// Whether F-RTO holds retransmissions back: until the ACK of the first one, and for new data after it.
    pub fn is_held_by_frto(&self) -> bool {
        self.has(Flags::LOSS) && !self.has(Flags::FORCE_RETRANSMIT) && self.frto() != Frto::Off
    }

    /// New data went out.
    pub fn on_new_data_of_frto(&mut self) {
        if let Some(doubt) = self.doubted_mut()
            && let Frto::Second(left) = &mut doubt.frto
        {
            *left = left.saturating_sub(1);
        }
    }
}
