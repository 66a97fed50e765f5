//! What congestion control is told of each ACK, and rate samples for algorithms that model the
//! path.

use wire::time::Instant;

use crate::cc::AckSample;
use crate::tcp::flags::LossFlags;
use crate::tcp::loss::actions::LossActions;
use crate::tcp::loss::part::Loss;
use crate::tcp::loss::sampler::Sampler;

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
    /// OnPacketSent (§4.1.2.2). `was_idle`: nothing was in flight.
    #[inline(always)]
    pub(super) fn note_sent(&mut self, now: Instant, was_idle: bool) {
        if self.cold.rate.log.is_some() {
            self.apart().keep_rate(now, was_idle);
        }
    }

    #[inline(never)]
    fn keep_rate(mut self, now: Instant, was_idle: bool) {
        self.sampler().on_sent(now, was_idle);
    }

    /// Rate samples, for a connection that has a log of rates.
    pub fn sampler(&mut self) -> Sampler<'_> {
        let (pipe, flags) = (self.view().pipe(), LossFlags::of(self.bits.word()));
        Sampler {
            congestion: self.congestion(),
            flags,
            pipe,
        }
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
            mss: self.view().mss(),
            srtt: self.hot.rtt.srtt(),
            rtt: self.view().rtt_of_newest(now),
            round_start: self.cold.begins_round(self.snd_una, self.snd_nxt),
            after_timeout: ack.after_timeout,
        };
        self.congestion().on_ack(&sample);
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
        self.actions |= LossActions::OUTPUT;
        self.actions
    }
}
