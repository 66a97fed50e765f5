//! The limit of the send buffer follows the congestion window, but on short paths no further than
//! they need. A limit costs nothing by itself, memory is taken as it is used; and a limit that the
//! application chose stays.

use std::time::Duration;

use crate::command::Options;
use crate::config::Config;
use crate::tcp::buffers::{MIN_RTT, limits, most, scale};
use crate::tcp::send::part::SendPart;
use crate::tcp::send::state::Cold;

/// Send buffers of connections over short paths: of one at most, and of all together. Each byte is
/// written once and read once, from the nearest cache that all of them fit in.
const NEAR: u32 = 512 << 10;
const NEAR_ALL: u32 = 8 << 20;
/// The limit of a send buffer that is not to grow.
const FIXED: u32 = u32::MAX;

/// The send buffer of each of so many connections that are not idle, over a short path.
pub(crate) fn near_buffer(resident: u32) -> u32 {
    NEAR.min(NEAR_ALL / resident.max(1))
}

/// The limit of a send buffer at first, bytes; `FIXED` if it is not to grow.
pub(crate) fn send_limit(config: &Config, options: &Options) -> u32 {
    if config.autotune && options.send_buffer.is_none() {
        limits(config, options).send
    } else {
        FIXED
    }
}

/// What there is to say of most send limits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// That of the options.
    First,
    /// This power of two.
    Grown(u8),
    /// It is not to grow.
    Fixed,
}

impl Limit {
    /// A send limit in a byte.
    pub fn of(limit: u32) -> Self {
        match limit {
            FIXED => Self::Fixed,
            limit if limit.is_power_of_two() => Self::Grown(limit.ilog2() as u8),
            _ => Self::First,
        }
    }

    /// The same as it was packed, of a connection whose limit was `first`.
    pub fn unpacked(self, first: u32) -> u32 {
        match self {
            Self::First => first,
            Self::Grown(bits) => 1 << (bits % 32),
            Self::Fixed => FIXED,
        }
    }
}

/// What is known of a path that may be short.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathTimes {
    /// The shortest round trip; zero if none was measured.
    pub shortest: Duration,
    pub srtt: Duration,
    /// Bytes in flight when data was last sent.
    pub flight: u32,
    /// The send buffer that each connection gets over a short path.
    pub near: u32,
}

impl PathTimes {
    /// What is in flight on a short path, beyond what gets there in the shortest round trip, waits
    /// in a queue that we have filled ourselves: more makes that longer. What serves there is that
    /// the peer has something to do until the application writes again.
    fn wanted(&self) -> u32 {
        let flight = u64::from(self.flight);
        let under_way = scale(flight, self.shortest, self.srtt.max(self.shortest)) as u32;
        self.near.max(under_way)
    }
}

/// Twice as much may be written as may be on its way, so that it is there when room is.
fn twice(cwnd: u32) -> u32 {
    cwnd.saturating_mul(2)
}

impl Cold {
    /// Whether a congestion window of `cwnd` bytes may ask for a higher limit. Over a short path,
    /// `near` bytes are enough.
    #[inline(always)]
    pub fn may_want_more(&self, cwnd: u32, near: u32) -> bool {
        twice(cwnd).max(near) > self.limit
    }
}

impl SendPart<'_> {
    /// The congestion window may have grown.
    pub fn raise_limit(&mut self, cwnd: u32, path: &PathTimes) {
        let is_short = !path.shortest.is_zero() && path.shortest < MIN_RTT;
        let wanted = if is_short { path.wanted() } else { twice(cwnd) };
        if wanted <= self.cold.limit {
            return;
        }
        let most = most(self.config.max_buffer, self.config.send_pool);
        let before = self.cold.limit;
        let limit = wanted.checked_next_power_of_two().unwrap_or(most).min(most);
        self.cold.limit = if limit < most { limit } else { FIXED };
        if limit > before {
            self.streams.set_send_limit(self.slot, limit);
            self.offer_room();
        }
    }

    /// The application has chosen another limit, or none.
    pub fn fit_limit(&mut self) {
        let options = self.options.at(self.set);
        let limit = limits(self.config, options).send;
        self.streams.set_send_limit(self.slot, limit);
        self.cold.limit = send_limit(self.config, options);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_connections_share_the_nearest_cache() {
        assert_eq!(near_buffer(0), NEAR);
        assert_eq!(near_buffer(NEAR_ALL / NEAR), NEAR);
        assert_eq!(near_buffer(4 * NEAR_ALL / NEAR), NEAR / 4);
    }

    #[test]
    fn a_limit_fits_into_a_byte() {
        for limit in [1, 4096, 1 << 31, FIXED] {
            assert_eq!(Limit::of(limit).unpacked(5000), limit);
        }
        assert_eq!(Limit::of(5000).unpacked(5000), 5000);
    }

    #[test]
    fn a_queue_of_our_own_asks_for_no_more() {
        let mut path = PathTimes {
            shortest: Duration::from_micros(100),
            srtt: Duration::from_micros(1000),
            flight: 1_000_000,
            near: 50_000,
        };
        assert_eq!(path.wanted(), 100_000);
        path.near = 200_000;
        assert_eq!(path.wanted(), 200_000);
    }
}
