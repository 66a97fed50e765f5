//! Delivery rate estimation (draft-ietf-ccwg-bbr §4.1, first described in draft-cheng-iccrg-delivery-rate-estimation): how fast the path
//! delivers, measured over about a round trip, and whether it was the application that held back.
//!
//! The draft keeps the state of the connection with each packet. What counts of it is the state at the time a packet was sent, so here it is
//! logged by time: the log of what is in flight (`sent.rs`) knows when the newest segment that an ACK acknowledges was sent. Only algorithms
//! that model the path have such a log.

use wire::time::Instant;

use crate::cc::{Loss, RateSample};
use crate::command::Options;
use crate::info::RateInfo;
use crate::tcp::conn::Conn;
use crate::tcp::rack::micros;
use crate::tcp::tcb::Flags;

/// States remembered: about two round trips at sixteen in each.
const MAX_MOMENTS: usize = 40;

/// The state of the connection when something was sent: the per-packet state of §4.1.2.1.2. Times are µs, low 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Moment {
    sent_at: u32,
    first_sent: u32,
    delivered_at: u32,
    delivered: u64,
    lost: u64,
    /// After it was sent.
    in_flight: u32,
    is_app_limited: bool,
}

/// What was delivered (the per-connection state of §4.1.2.1.1), and the moments that are still needed, oldest first. Times are µs, low 32 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    /// Bytes, since the start, selectively acknowledged ones included.
    delivered: u64,
    lost: u64,
    /// What is sent before so much is delivered may be limited by the application. 0: nothing is.
    app_limited: u64,
    delivered_at: u32,
    /// When the newest segment known to be delivered was sent.
    first_sent: u32,
    len: u8,
    /// The last sample, bytes per second, and whether the application held it back.
    last: (u64, bool),
    moments: [Moment; MAX_MOMENTS],
}

/// Nothing was delivered.
static NONE: Rates = Rates {
    delivered: 0,
    lost: 0,
    app_limited: 0,
    delivered_at: 0,
    first_sent: 0,
    len: 0,
    last: (0, false),
    moments: [Moment {
        sent_at: 0,
        first_sent: 0,
        delivered_at: 0,
        delivered: 0,
        lost: 0,
        in_flight: 0,
        is_app_limited: false,
    }; MAX_MOMENTS],
};

impl Rates {
    fn moments(&self) -> &[Moment] {
        self.moments
            .get(..usize::from(self.len))
            .unwrap_or_default()
    }

    /// What is sent within `quantum` µs is one; the last of it says what was in flight.
    fn push(&mut self, sent_at: u32, in_flight: u32, quantum: u32) {
        if usize::from(self.len) == MAX_MOMENTS {
            self.thin_out();
        }
        let len = usize::from(self.len);
        let moment = Moment {
            sent_at,
            first_sent: self.first_sent,
            delivered_at: self.delivered_at,
            delivered: self.delivered,
            lost: self.lost,
            in_flight,
            is_app_limited: self.app_limited != 0,
        };
        if let Some(last) = self.moments.get_mut(len.wrapping_sub(1))
            && sent_at.wrapping_sub(last.sent_at) <= quantum
        {
            last.in_flight = in_flight;
        } else if let Some(place) = self.moments.get_mut(len) {
            *place = moment;
            self.len += 1;
        }
    }

    /// Forgets every second one: a sample that would need it begins a little earlier.
    fn thin_out(&mut self) {
        for i in 0..MAX_MOMENTS / 2 {
            self.moments[i] = self.moments[2 * i];
        }
        self.len = (MAX_MOMENTS / 2) as u8;
    }

    /// How many moments are not after `at`.
    fn until(&self, at: u32) -> usize {
        let is_after = |moment: &Moment| moment.sent_at.wrapping_sub(at) as i32 > 0;
        self.moments().partition_point(|moment| !is_after(moment))
    }

    /// The last moment not after `at`, or else the oldest.
    fn at(&self, at: u32) -> Option<&Moment> {
        self.moments().get(self.until(at).saturating_sub(1))
    }

    /// Forgets what lies before the last moment not after `at`.
    fn trim(&mut self, at: u32) {
        let gone = self.until(at).saturating_sub(1);
        if gone > 0 {
            self.moments.copy_within(gone..usize::from(self.len), 0);
            self.len -= gone as u8;
        }
    }

    /// Data is sent at `at` after nothing had been in flight.
    fn restart(&mut self, at: u32) {
        (self.first_sent, self.delivered_at) = (at, at);
        self.len = 0;
    }

    /// MarkConnectionAppLimited.
    fn mark_application_limited(&mut self, in_flight: u32) {
        self.app_limited = (self.delivered + u64::from(in_flight)).max(1);
    }

    /// GenerateRateSample (§4.1.2.3): compares `now` with the moment when the newest segment acknowledged was sent.
    fn measure(&mut self, now: u32, newest: u32, min_rtt: u32, sample: &mut RateSample) {
        let Some(&moment) = self.at(newest) else {
            return;
        };
        self.trim(newest.wrapping_sub(sample.srtt));
        let send_elapsed = newest.wrapping_sub(moment.first_sent);
        let ack_elapsed = now.wrapping_sub(moment.delivered_at);
        let interval = send_elapsed.max(ack_elapsed);
        self.first_sent = newest;
        (sample.send_elapsed, sample.interval) = (send_elapsed, interval);
        sample.prior_delivered = moment.delivered;
        sample.delivered = (self.delivered - moment.delivered).min(u64::from(u32::MAX)) as u32;
        sample.at_send = moment.loss(self.lost);
        // A shorter interval than any round trip: a segment was acknowledged that had been sent again for nothing.
        if interval >= min_rtt.max(1) {
            sample.delivery_rate = u64::from(sample.delivered) * 1_000_000 / u64::from(interval);
            self.last = (sample.delivery_rate, moment.is_app_limited);
        }
    }
}

/// What a connection keeps of its rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rate {
    /// When the newest segment was sent that the current ACK acknowledges, µs, low 32 bits.
    pub(super) newest: Option<u32>,
    /// Index of its [`Rates`], if the algorithm models the path.
    log: Option<u32>,
}

/// How things stood before an ACK.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    delivered: u64,
    in_flight: u32,
}

impl Conn<'_> {
    fn rates(&self) -> Option<&Rates> {
        self.sh.rates.at(self.cold.rate.log?)
    }

    fn rates_mut(&mut self) -> Option<&mut Rates> {
        self.sh.rates.at_mut(self.cold.rate.log?)
    }

    pub fn rate_info(&self) -> RateInfo {
        let (delivery, app_limited) = self.rates().map_or((0, false), |rates| rates.last);
        RateInfo {
            pacing: self.cold.pacing.rate(),
            most: self.options().max_pacing_rate,
            delivery,
            app_limited,
        }
    }

    /// Begins to keep rates, if the algorithm wants them.
    #[inline]
    fn start_rates(&mut self) {
        if self.cold.congestion.models_path() && self.cold.rate.log.is_none() {
            self.begin_log();
        }
    }

    #[cold]
    fn begin_log(&mut self) {
        self.cold.rate.log = self.sh.rates.insert_copy(&NONE);
    }

    /// The options were `before`. Another algorithm takes over with the window that there is (Linux tcp(7): TCP_CONGESTION).
    pub fn fit_congestion(&mut self, now: Instant, before: &Options) {
        let default = self.sh.config.congestion;
        let kind = self.options().congestion.unwrap_or(default);
        if kind == before.congestion.unwrap_or(default) || self.hot.state.is_over() {
            return;
        }
        self.forget_doubt();
        self.forget_rates();
        let (seed, models) = (self.cold.iss.0, &mut self.sh.models);
        self.cold.congestion.begin(kind, seed, models);
        if self.hot.state.is_synchronized() {
            self.start_model(now);
        }
    }

    /// The connection is open: its algorithm hears of what was measured so far.
    #[inline(always)]
    pub fn start_model(&mut self, now: Instant) {
        self.start_rates();
        let srtt = self.hot.rtt.srtt_micros().unwrap_or(0);
        let (window, models) = (&self.hot.window, &mut self.sh.models);
        self.cold
            .congestion
            .on_established(now, window, srtt, models);
    }

    #[inline(always)]
    pub fn forget_rates(&mut self) {
        if let Some(index) = self.cold.rate.log.take() {
            self.sh.rates.free(index);
        }
        self.cold.congestion.forget(&mut self.sh.models);
    }

    /// An ACK is about to be processed. `None` if the algorithm has no use for rates.
    #[inline]
    pub fn begin_rate_sample(&mut self) -> Option<Before> {
        self.cold.rate.newest = None;
        self.cold.rate.log?;
        self.look_before()
    }

    fn look_before(&mut self) -> Option<Before> {
        self.check_application_limited();
        let in_flight = self.in_network();
        self.rates().map(|rates| Before {
            delivered: rates.delivered,
            in_flight,
        })
    }

    /// Bytes are acknowledged for the first time.
    pub fn note_delivered(&mut self, now: Instant, bytes: u32) {
        if let Some(rates) = self.rates_mut() {
            rates.delivered += u64::from(bytes);
            rates.delivered_at = micros(now);
        }
    }

    /// The newest of what an ACK acknowledges was sent at `at`.
    pub fn note_newest(&mut self, at: u32) {
        self.cold.rate.newest = Some(at);
    }

    /// The round-trip time of the newest segment that the current ACK acknowledges, µs. Unlike the one that is timed for the RTO there is one
    /// with almost every ACK.
    pub fn rtt_of_newest(&self, now: Instant) -> Option<u32> {
        let rtt = micros(now).wrapping_sub(self.cold.rate.newest?);
        Some(rtt.max(1))
    }

    /// C.inflight. Without SACK, what duplicate ACKs say has left is not known to be delivered yet.
    fn in_network(&self) -> u32 {
        self.pipe().saturating_add(self.cold.departed.bytes)
    }

    /// OnPacketSent (§4.1.2.2). `was_idle`: nothing was in flight.
    #[inline]
    pub fn note_sent(&mut self, now: Instant, was_idle: bool) {
        if self.cold.rate.log.is_some() {
            self.keep_rate(now, was_idle);
        }
    }

    fn keep_rate(&mut self, now: Instant, was_idle: bool) {
        if was_idle {
            self.restart_model(now);
        }
        let in_flight = self.in_network();
        let quantum = self.hot.rtt.srtt().as_micros() as u32 / 16;
        if let Some(rates) = self.rates_mut() {
            rates.push(micros(now), in_flight, quantum);
        }
    }

    /// Data after a silence: the application had none, unless the peer had no room.
    fn restart_model(&mut self, now: Instant) {
        if !self.has(Flags::PERSIST) {
            self.mark_application_limited();
        }
        if let Some(rates) = self.rates_mut() {
            rates.restart(micros(now));
        }
        let models = &mut self.sh.models;
        let window = &mut self.hot.window;
        self.cold.congestion.on_restart(window, now, models);
        self.pace();
    }

    /// CheckIfApplicationLimited (§4.1.2.4).
    fn check_application_limited(&mut self) {
        let has_more = self.stream_end() > self.hot.snd_nxt || self.has_lost();
        if !has_more && self.pipe() < self.hot.window.cwnd {
            self.mark_application_limited();
        }
    }

    fn mark_application_limited(&mut self) {
        let in_flight = self.in_network();
        if let Some(rates) = self.rates_mut() {
            rates.mark_application_limited(in_flight);
        }
    }

    /// Bytes thought to be in the network, if the algorithm wants to know.
    pub fn modelled_flight(&self) -> Option<u32> {
        self.cold.rate.log.map(|_| self.in_network())
    }

    /// What was in flight before a timer expired, and is no more, counts as lost.
    pub fn note_flight_lost(&mut self, before: Option<u32>) {
        if let (Some(before), Some(after)) = (before, self.modelled_flight())
            && let Some(rates) = self.rates_mut()
        {
            rates.lost += u64::from(before.saturating_sub(after));
        }
    }

    /// An ACK has been processed: what it says about the path.
    #[inline]
    pub fn finish_rate_sample(&mut self, now: Instant, before: Option<Before>) {
        if let Some(before) = before {
            self.tell_rate(now, before);
        }
    }

    fn tell_rate(&mut self, now: Instant, before: Before) {
        let Some(sample) = self.rate_sample(now, before) else {
            return;
        };
        let models = &mut self.sh.models;
        let window = &mut self.hot.window;
        self.cold.congestion.on_rate(window, &sample, models);
        if self.cold.congestion.ignores_rate(models) {
            self.mark_application_limited();
        }
        self.pace();
    }

    fn rate_sample(&mut self, now: Instant, before: Before) -> Option<RateSample> {
        let (mss, min_rtt) = (u32::from(self.hot.mss), self.cold.min_rtt.micros());
        let srtt = self.hot.rtt.srtt().as_micros() as u32;
        let (in_flight, rtt) = (self.in_network(), self.rtt_of_newest(now));
        let (is_cwnd_limited, in_recovery, has_sack) = (
            before.in_flight.saturating_add(mss) > self.hot.window.cwnd,
            self.has(Flags::RECOVERY | Flags::LOSS),
            self.has(Flags::SACK),
        );
        let newest = self.cold.rate.newest;
        let rates = self.rates_mut()?;
        let newly_acked = (rates.delivered - before.delivered) as u32;
        // What has left the network otherwise than by arriving.
        let newly_lost = before.in_flight.saturating_sub(newly_acked);
        rates.lost += u64::from(newly_lost.saturating_sub(in_flight));
        if rates.delivered > rates.app_limited {
            rates.app_limited = 0;
        }
        // What is found lost now was sent a round trip ago.
        let then = rates.at(micros(now).wrapping_sub(srtt));
        let of_lost = then.map_or_else(Loss::default, |moment| moment.loss(rates.lost));
        let mut sample = RateSample {
            now,
            mss,
            srtt,
            rtt,
            total_delivered: rates.delivered,
            total_lost: rates.lost,
            newly_acked,
            in_flight,
            is_cwnd_limited,
            in_recovery,
            has_sack,
            delivery_rate: 0,
            send_elapsed: 0,
            interval: 0,
            delivered: 0,
            prior_delivered: 0,
            at_send: Loss::default(),
            of_lost,
        };
        if let Some(newest) = newest {
            rates.measure(micros(now), newest, min_rtt, &mut sample);
        }
        Some(sample)
    }
}

impl Moment {
    fn loss(&self, lost: u64) -> Loss {
        Loss {
            in_flight: self.in_flight,
            lost: lost.saturating_sub(self.lost).min(u64::from(u32::MAX)) as u32,
            is_app_limited: self.is_app_limited,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent_at(times: &[u32]) -> Rates {
        let mut rates = NONE;
        for &at in times {
            rates.push(at, 0, 10);
        }
        rates
    }

    fn found(rates: &Rates, at: u32) -> Option<u32> {
        rates.at(at).map(|moment| moment.sent_at)
    }

    #[test]
    fn the_moment_before_is_found() {
        let rates = sent_at(&[100, 200, 205, 300]);
        assert_eq!(rates.moments().len(), 3);
        assert_eq!(found(&rates, 99), Some(100));
        assert_eq!(found(&rates, 199), Some(100));
        assert_eq!(found(&rates, 205), Some(200));
        assert_eq!(found(&rates, 1_000), Some(300));
        assert_eq!(found(&NONE, 1), None);
    }

    #[test]
    fn trimming_keeps_what_is_still_needed() {
        let mut rates = sent_at(&[100, 200, 300]);
        rates.trim(250);
        assert_eq!(found(&rates, 0), Some(200));
        rates.trim(5_000);
        assert_eq!(found(&rates, 0), Some(300));
    }

    #[test]
    fn times_wrap_around() {
        let rates = sent_at(&[u32::MAX - 50, 50]);
        assert_eq!(found(&rates, 49), Some(u32::MAX - 50));
        assert_eq!(found(&rates, 51), Some(50));
    }

    #[test]
    fn it_never_grows_beyond_its_size() {
        let times: Vec<u32> = (0..1000).map(|i| i * 100).collect();
        let rates = sent_at(&times);
        assert!(rates.moments().len() <= MAX_MOMENTS);
        assert!(rates.moments().is_sorted_by_key(|moment| moment.sent_at));
        assert_eq!(found(&rates, u32::MAX / 2), Some(99_900));
    }
}
