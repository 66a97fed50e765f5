//! Delivery rate estimation (draft-ietf-ccwg-bbr §4.1, first described in
//! draft-cheng-iccrg-delivery-rate-estimation): how fast the path delivers, measured over about a
//! round trip, and whether it was the application that held back.
//!
//! The draft keeps the state of the connection with each packet. This module logs the state by the
//! time at which packets were sent instead. The log of what is in flight (`sent`) knows when the
//! newest segment that an ACK acknowledges was sent. Only algorithms that model the path have a log
//! of rates.

use crate::cc::{Loss, RateSample};
use crate::side_pool::MaybeIndex;

/// States remembered: about two round trips at sixteen in each.
const MAX_MOMENTS: usize = 40;

/// The state of the connection when something was sent: the per-packet state of §4.1.2.1.2. Times
/// are µs, low 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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

/// What was delivered (the per-connection state of §4.1.2.1.1), and the moments that are still
/// needed, oldest first. Times are µs, low 32 bits.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Rates {
    /// Bytes, since the start, selectively acknowledged ones included.
    pub delivered: u64,
    pub lost: u64,
    /// What is sent before so much is delivered may be limited by the application. 0: nothing is.
    app_limited: u64,
    pub delivered_at: u32,
    /// When the newest segment known to be delivered was sent.
    first_sent: u32,
    len: u8,
    /// The last sample, bytes per second, and whether the application held it back.
    pub last: (u64, bool),
    #[serde(with = "crate::array")]
    moments: [Moment; MAX_MOMENTS],
}

/// Nothing was delivered.
pub(super) static NONE: Rates = Rates {
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
    /// Whether it is one that this module could have made.
    pub fn is_sound(&self) -> bool {
        usize::from(self.len) <= MAX_MOMENTS
    }

    fn moments(&self) -> &[Moment] {
        self.moments
            .get(..usize::from(self.len))
            .unwrap_or_default()
    }

    /// What is sent within `quantum` µs is one; the last of it says what was in flight.
    pub fn push(&mut self, sent_at: u32, in_flight: u32, quantum: u32) {
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
    pub fn restart(&mut self, at: u32) {
        (self.first_sent, self.delivered_at) = (at, at);
        self.len = 0;
    }

    /// MarkConnectionAppLimited.
    pub fn mark_application_limited(&mut self, in_flight: u32) {
        self.app_limited = (self.delivered + u64::from(in_flight)).max(1);
    }

    /// An ACK was processed at `now`: fills in what this log adds to `sample`, whose newest segment
    /// was sent at `newest`. `before` is how things stood before the ACK.
    pub fn on_ack(
        &mut self,
        now: u32,
        before: Before,
        newest: Option<u32>,
        min_rtt: u32,
        sample: &mut RateSample,
    ) {
        sample.newly_acked = (self.delivered - before.delivered) as u32;
        // What has left the network otherwise than by arriving.
        let newly_lost = before.in_flight.saturating_sub(sample.newly_acked);
        self.lost += u64::from(newly_lost.saturating_sub(sample.in_flight));
        if self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        // What is found lost now was sent a round trip ago.
        let then = self.at(now.wrapping_sub(sample.srtt));
        sample.of_lost = then.map_or_else(Loss::default, |moment| moment.loss(self.lost));
        (sample.total_delivered, sample.total_lost) = (self.delivered, self.lost);
        if let Some(newest) = newest {
            self.measure(now, newest, min_rtt, sample);
        }
    }

    /// GenerateRateSample (§4.1.2.3): compares `now` with the moment when the newest segment
    /// acknowledged was sent.
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
        // A shorter interval than any round trip: a segment was acknowledged that had been sent
        // again for nothing.
        if interval >= min_rtt.max(1) {
            sample.delivery_rate = u64::from(sample.delivered) * 1_000_000 / u64::from(interval);
            self.last = (sample.delivery_rate, moment.is_app_limited);
        }
    }
}

/// What a connection keeps of its rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Rate {
    /// When the newest segment was sent that the current ACK acknowledges, µs, low 32 bits.
    pub newest: Option<u32>,
    /// Index of its [`Rates`], if the algorithm models the path.
    pub log: MaybeIndex,
}

/// How things stood before an ACK.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    pub delivered: u64,
    pub in_flight: u32,
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
