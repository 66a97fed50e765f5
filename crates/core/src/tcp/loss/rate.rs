//! What congestion control is told of each ACK, and rate samples for algorithms that model the
//! path.

use wire::time::Instant;

use crate::cc::{self, AckSample, RateSample};
use crate::tcp::flags::LossFlags;
use crate::tcp::loss::part::{Loss, LossActions};
use crate::tcp::loss::rates::Before;
use crate::tcp::loss::sent::micros;

/// What an ACK of new data says to congestion control, besides what the loss part knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    /// Sequence numbers newly acknowledged.
    pub acked: u32,
    /// What was in flight before, sequence numbers.
    pub flight: u32,
    /// Those of `acked` that the receiver says met congestion (ECN-CE).
    pub marked: u32,
    /// Data sent before a retransmission time-out was still being recovered.
    pub after_timeout: bool,
}

impl Loss<'_> {
    /// An ACK is about to be processed, and the algorithm models the path. `unsent`: there is data
    /// that was never sent.
    pub fn begin_rate_sample(mut self, unsent: bool) -> Option<Before> {
        self.check_application_limited(unsent);
        let in_flight = self.view().in_network();
        self.congestion().rates().map(|rates| Before {
            delivered: rates.delivered,
            in_flight,
        })
    }

    /// Bytes are acknowledged for the first time.
    #[inline]
    pub(super) fn note_delivered(&mut self, now: Instant, bytes: u32) {
        if let Some(rates) = self.congestion().rates() {
            rates.delivered += u64::from(bytes);
            rates.delivered_at = micros(now);
        }
    }

    /// OnPacketSent (§4.1.2.2). `was_idle`: nothing was in flight.
    #[inline(always)]
    pub(super) fn note_sent(&mut self, now: Instant, was_idle: bool) {
        if self.cold.rate.log.is_some() {
            self.apart().keep_rate(now, was_idle);
        }
    }

    #[inline(never)]
    fn keep_rate(mut self, now: Instant, was_idle: bool) {
        if was_idle {
            self.restart_model(now);
        }
        let in_flight = self.view().in_network();
        let quantum = self.hot.rtt.srtt().as_micros() as u32 / 16;
        if let Some(rates) = self.congestion().rates() {
            rates.push(micros(now), in_flight, quantum);
        }
    }

    /// Data after a silence: the application had none, unless the peer had no room.
    fn restart_model(&mut self, now: Instant) {
        if !self.has(LossFlags::PERSIST) {
            self.mark_application_limited();
        }
        if let Some(rates) = self.congestion().rates() {
            rates.restart(micros(now));
        }
        self.congestion().restart_model(now);
    }

    /// CheckIfApplicationLimited (§4.1.2.4).
    fn check_application_limited(&mut self, unsent: bool) {
        let view = self.view();
        let has_more = unsent || view.has_lost();
        if !has_more && view.pipe() < self.hot.window.cwnd {
            self.mark_application_limited();
        }
    }

    fn mark_application_limited(&mut self) {
        let in_flight = self.view().in_network();
        if let Some(rates) = self.congestion().rates() {
            rates.mark_application_limited(in_flight);
        }
    }

    /// What was in flight before a timer expired, and is no more, counts as lost.
    pub fn note_flight_lost(mut self, before: u32) {
        let after = self.view().modelled_flight();
        if let (Some(after), Some(rates)) = (after, self.congestion().rates()) {
            rates.lost += u64::from(before.saturating_sub(after));
        }
    }

    /// An ACK has been processed: what it says about the path.
    pub fn finish_rate_sample(mut self, now: Instant, before: Before) {
        let Some(sample) = self.rate_sample(now, before) else {
            return;
        };
        if self.congestion().on_rate(&sample) {
            self.mark_application_limited();
        }
        self.congestion().pace();
    }

    fn rate_sample(&mut self, now: Instant, before: Before) -> Option<RateSample> {
        let (mss, min_rtt) = (self.mss(), self.cold.min_rtt.micros());
        let mut sample = RateSample {
            now,
            mss,
            srtt: self.hot.rtt.srtt().as_micros() as u32,
            rtt: self.view().rtt_of_newest(now),
            total_delivered: 0,
            total_lost: 0,
            newly_acked: 0,
            in_flight: self.view().in_network(),
            is_cwnd_limited: before.in_flight.saturating_add(mss) > self.hot.window.cwnd,
            in_recovery: self.has(LossFlags::RECOVERY | LossFlags::LOSS),
            has_sack: self.has(LossFlags::SACK),
            delivery_rate: 0,
            send_elapsed: 0,
            interval: 0,
            delivered: 0,
            prior_delivered: 0,
            at_send: cc::Loss::default(),
            of_lost: cc::Loss::default(),
        };
        let newest = self.cold.rate.newest;
        let rates = self.congestion().rates()?;
        rates.on_ack(micros(now), before, newest, min_rtt, &mut sample);
        Some(sample)
    }

    /// An ACK acknowledged new data outside of fast recovery.
    #[inline(always)]
    pub fn control_congestion(&mut self, now: Instant, ack: &Acked) {
        let sample = AckSample {
            now,
            acked: ack.acked,
            marked: ack.marked,
            flight: self.cold.fill.flight.max(ack.flight),
            unfilled: self.view().unfilled(ack.flight),
            mss: self.mss(),
            srtt: self.hot.rtt.srtt(),
            rtt: self.view().rtt_of_newest(now),
            round_start: self.begins_round(),
            after_timeout: ack.after_timeout,
        };
        self.congestion().on_ack(&sample);
    }

    /// Rounds as RFC 9406 §4.2 and RFC 8257 §3.3 count them: each lasts until what was in flight
    /// when it began is acknowledged.
    #[inline(always)]
    fn begins_round(&mut self) -> bool {
        let begins = self.snd_una >= self.cold.round_end;
        if begins {
            self.cold.round_end = self.snd_nxt;
        }
        begins
    }

    /// Whether a data segment may leave now. If not, the connection is looked at again when it may.
    #[inline(always)]
    pub fn may_depart(&mut self, now: Instant) -> bool {
        let may = self.cold.pacing.may_depart(now);
        if !may {
            self.actions |= LossActions::RELEASE;
        }
        may
    }

    /// What waited may leave.
    pub fn on_release_timer(mut self) -> LossActions {
        self.cold.pacing.release();
        self.mark_output();
        self.actions
    }
}
