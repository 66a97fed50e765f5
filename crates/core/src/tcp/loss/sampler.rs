//! Rate samples for algorithms that model the path (draft-ietf-ccwg-bbr §4.1), borrowed for one
//! step. Only connections with a log of rates come here.

use wire::time::Instant;

use crate::cc::{self, RateSample};
use crate::tcp::flags::LossFlags;
use crate::tcp::loss::congestion::Congestion;
use crate::tcp::loss::rates::{Before, Rates};
use crate::tcp::loss::sent::micros;

/// See the module.
#[derive(Debug)]
pub(crate) struct Sampler<'a> {
    pub congestion: Congestion<'a>,
    pub flags: LossFlags,
    /// Bytes thought to be in the network, as loss recovery counts them.
    pub pipe: u32,
}

impl Sampler<'_> {
    fn rates(&mut self) -> Option<&mut Rates> {
        self.congestion.rates()
    }

    /// C.inflight. Without SACK, what duplicate ACKs say has left is not known to be delivered yet.
    fn in_network(&self) -> u32 {
        let departed = self.congestion.cold.departed.bytes;
        self.pipe.saturating_add(departed)
    }

    /// An ACK is about to be processed. `has_more`: something could be sent at once.
    pub fn begin(mut self, has_more: bool) -> Option<Before> {
        // CheckIfApplicationLimited (§4.1.2.4).
        if !has_more && self.pipe < self.congestion.hot.window.cwnd {
            self.mark_application_limited();
        }
        let in_flight = self.in_network();
        self.rates().map(|rates| Before {
            delivered: rates.delivered,
            in_flight,
        })
    }

    /// OnPacketSent (§4.1.2.2). `was_idle`: nothing was in flight.
    pub(super) fn on_sent(mut self, now: Instant, was_idle: bool) {
        if was_idle {
            self.restart(now);
        }
        let in_flight = self.in_network();
        let quantum = self.congestion.hot.rtt.srtt().as_micros() as u32 / 16;
        if let Some(rates) = self.rates() {
            rates.push(micros(now), in_flight, quantum);
        }
    }

    /// Data after a silence: the application had none, unless the peer had no room.
    fn restart(&mut self, now: Instant) {
        if !self.flags.contains(LossFlags::PERSIST) {
            self.mark_application_limited();
        }
        if let Some(rates) = self.rates() {
            rates.restart(micros(now));
        }
        self.congestion.restart_model(now);
    }

    fn mark_application_limited(&mut self) {
        let in_flight = self.in_network();
        if let Some(rates) = self.rates() {
            rates.mark_application_limited(in_flight);
        }
    }

    /// A timer has expired: what was in flight `before`, and is no more, counts as lost.
    pub fn note_flight_lost(mut self, before: u32) {
        let after = self.in_network();
        if let Some(rates) = self.rates() {
            rates.lost += u64::from(before.saturating_sub(after));
        }
    }

    /// An ACK has been processed: what it says about the path. `rtt` is the round-trip time of the
    /// newest segment that it acknowledges, µs.
    pub fn finish(mut self, now: Instant, before: Before, rtt: Option<u32>) {
        let Some(sample) = self.sample(now, before, rtt) else {
            return;
        };
        if self.congestion.on_rate(&sample) {
            self.mark_application_limited();
        }
        self.congestion.pace();
    }

    fn sample(&mut self, now: Instant, before: Before, rtt: Option<u32>) -> Option<RateSample> {
        let (hot, cold) = (&*self.congestion.hot, &*self.congestion.cold);
        let (mss, min_rtt, newest) = (u32::from(hot.mss), cold.min_rtt.micros(), cold.rate.newest);
        let recovering = LossFlags::RECOVERY | LossFlags::LOSS;
        let mut sample = RateSample {
            now,
            mss,
            srtt: hot.rtt.srtt().as_micros() as u32,
            rtt,
            total_delivered: 0,
            total_lost: 0,
            newly_acked: 0,
            in_flight: self.in_network(),
            is_cwnd_limited: before.in_flight.saturating_add(mss) > hot.window.cwnd,
            in_recovery: self.flags.intersects(recovering),
            has_sack: self.flags.contains(LossFlags::SACK),
            delivery_rate: 0,
            send_elapsed: 0,
            interval: 0,
            delivered: 0,
            prior_delivered: 0,
            at_send: cc::Loss::default(),
            of_lost: cc::Loss::default(),
        };
        let rates = self.rates()?;
        rates.on_ack(micros(now), before, newest, min_rtt, &mut sample);
        Some(sample)
    }
}
