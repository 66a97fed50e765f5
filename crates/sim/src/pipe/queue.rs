//! The queue in front of the bandwidth.

use std::collections::VecDeque;
use std::time::Duration;

use wire::time::Instant;

use super::config::PipeConfig;

/// A frame that may wait for the bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admission {
    /// When its last bit has left.
    pub sent: Instant,
    /// From now to its first bit.
    pub waited: Duration,
    /// It found more waiting than should be.
    pub mark: bool,
}

/// First in, first out.
#[derive(Debug, Default)]
pub(super) struct Queue {
    busy_until: Instant,
    /// When the frames in it have left.
    departures: VecDeque<Instant>,
}

impl Queue {
    /// Takes a frame; `None` if it is full.
    pub fn admit(&mut self, now: Instant, len: u64, config: &PipeConfig) -> Option<Admission> {
        let Some(rate) = config.bits_per_second.filter(|rate| *rate > 0) else {
            return Some(Admission {
                sent: now,
                waited: Duration::ZERO,
                mark: false,
            });
        };
        let time_of = |bytes: u64| {
            Duration::from_nanos((u128::from(bytes) * 8_000_000_000 / u128::from(rate)) as u64)
        };
        let waited = self.busy_until.since(now);
        let exceeds = |bytes: u64| bytes != 0 && waited > time_of(bytes);
        if exceeds(config.queue_bytes) || self.holds(now, config.queue_frames) {
            return None;
        }
        self.busy_until = self.busy_until.max(now) + time_of(len);
        if config.queue_frames != 0 {
            self.departures.push_back(self.busy_until);
        }
        Some(Admission {
            sent: self.busy_until,
            waited,
            mark: exceeds(config.mark_bytes),
        })
    }

    /// Whether so many frames wait.
    fn holds(&mut self, now: Instant, frames: u32) -> bool {
        while self.departures.front().is_some_and(|left| *left <= now) {
            self.departures.pop_front();
        }
        frames != 0 && self.departures.len() >= frames as usize
    }
}
