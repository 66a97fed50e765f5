//! Buffer limits that follow the connection: the receive buffer what its application takes in a round trip (dynamic right-sizing), the
//! send buffer the congestion window, but on short paths no further than they need. Limits cost nothing by themselves, memory is taken as
//! it is used; and a limit that the application chose stays.

use std::time::Duration;

use wire::time::Instant;

use crate::command::Options;
use crate::config::Config;
use crate::event::Ready;
use crate::tcp::conn::Conn;
use crate::tcp::open::limits;

/// A shorter round trip is measured badly: an application that shares the processor takes bytes in bursts.
const MIN_RTT: Duration = Duration::from_millis(1);
/// Send buffers of connections over short paths: of one at most, and of all together. Each byte is written once and read once, from the
/// nearest cache that all of them fit in.
const NEAR: u32 = 512 << 10;
const NEAR_ALL: u32 = 8 << 20;
/// No connection grows to more than this part of a pool.
const POOL_SHARE: usize = 8;
/// Full-sized segments that are offered however short memory is.
const MIN_SEGMENTS: u32 = 2;

/// What the limits of a connection are measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Autotune {
    /// Begin of the current measurement.
    since: Instant,
    /// Bytes that the application had taken by then.
    taken: u64,
    /// Bytes that it took in a round trip, by the measurement before.
    last: u64,
    /// The send limit; `u32::MAX` if it is not to grow.
    send_limit: u32,
}

/// What there is to say of most send limits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SendLimit {
    /// That of the options.
    First,
    /// This power of two.
    Grown(u8),
    /// It is not to grow.
    Fixed,
}

impl Autotune {
    pub fn new(config: &Config, options: &Options, now: Instant) -> Self {
        Self {
            since: now,
            taken: 0,
            last: 0,
            send_limit: Self::send_limit(config, options),
        }
    }

    fn send_limit(config: &Config, options: &Options) -> u32 {
        if config.autotune && options.send_buffer.is_none() {
            limits(config, options).send
        } else {
            u32::MAX
        }
    }

    /// The application has taken all that came, `received` bytes, and nothing has happened since `since`: what it takes in a round trip says
    /// the next measurement.
    pub fn pause(&mut self, since: Instant, received: u64) {
        (self.since, self.taken, self.last) = (since, received, 0);
    }

    /// The send limit in a byte.
    pub fn packed_limit(&self) -> SendLimit {
        match self.send_limit {
            u32::MAX => SendLimit::Fixed,
            limit if limit.is_power_of_two() => SendLimit::Grown(limit.ilog2() as u8),
            _ => SendLimit::First,
        }
    }

    /// The same as it was packed, of one that has just been made.
    pub fn unpack_limit(&mut self, packed: SendLimit) {
        match packed {
            SendLimit::First => {}
            SendLimit::Grown(bits) => self.send_limit = 1 << (bits % 32),
            SendLimit::Fixed => self.send_limit = u32::MAX,
        }
    }

    /// Ends a measurement: the application has taken `taken` bytes in all. The buffer it deserves, bytes; `None` if it is too early to
    /// say.
    fn measure(&mut self, now: Instant, taken: u64, rtt: Duration) -> Option<u64> {
        let elapsed = now - self.since;
        if elapsed < rtt {
            return None;
        }
        let per_rtt = scale(taken.saturating_sub(self.taken), rtt, elapsed);
        let wanted = wanted(per_rtt, self.last);
        (self.since, self.taken, self.last) = (now, taken, per_rtt);
        Some(wanted)
    }
}

/// `bytes * part / whole`.
fn scale(bytes: u64, part: Duration, whole: Duration) -> u64 {
    let product = u128::from(bytes) * part.as_nanos();
    (product / whole.as_nanos().max(1)) as u64
}

/// Twice what is taken in a round trip, since a lost segment holds up all that comes in the round trip until it is there again; and as
/// much more as it grew by, since the sender is in slow start and sends twice as much in the next.
fn wanted(per_rtt: u64, last: u64) -> u64 {
    let growth = per_rtt.saturating_sub(last).min(per_rtt / 2);
    2 * per_rtt + 4 * growth
}

/// The window that may be promised with `free` of `total` bytes of the pool left, and `room` sure to find memory: anything, or what is
/// sure, or a share that falls to 0 with what is left.
fn promise(free: usize, total: usize, room: impl Fn() -> u32) -> u32 {
    if free >= total / 2 {
        u32::MAX
    } else if free >= total / 4 {
        room()
    } else {
        room().min(u32::try_from(free / 16).unwrap_or(u32::MAX))
    }
}

/// The send buffer of each of so many connections that are not idle, over a short path.
pub(crate) fn near_buffer(awake: u32) -> u32 {
    NEAR.min(NEAR_ALL / awake.max(1))
}

impl Conn<'_> {
    /// The application has taken something. A limit that the application chose, or the configuration for good, stays.
    pub fn tune_receive_buffer(&mut self, now: Instant) {
        let config = &self.sh.config;
        if !config.autotune || self.options().recv_buffer.is_some() {
            return;
        }
        let streams = &mut self.sh.streams;
        let taken = self.cold.statistics.bytes_received - u64::from(streams.recv_unread(self.slot));
        let rtt = self.hot.loss.rtt.srtt().max(MIN_RTT);
        let Some(wanted) = self.cold.autotune.measure(now, taken, rtt) else {
            return;
        };
        let pool = streams.recv_pool_bytes();
        let limit = wanted.min(u64::from(most(config.max_buffer, pool))) as u32;
        let has_room = streams.recv_bytes_in_use() <= pool / 2;
        if has_room && limit > streams.recv_limit(self.slot) {
            streams.set_recv_limit(self.slot, limit);
        }
    }

    /// The congestion window may have grown: twice as much may be written as may be on its way, so that it is there when room is.
    pub fn tune_send_buffer(&mut self) {
        let wanted = self.hot.loss.window.cwnd.saturating_mul(2);
        if wanted.max(self.sh.near) > self.cold.autotune.send_limit {
            self.raise_send_limit(wanted);
        }
    }

    #[cold]
    fn raise_send_limit(&mut self, wanted: u32) {
        let shortest = Duration::from_micros(self.cold.loss.min_rtt.micros().into());
        let is_short = !shortest.is_zero() && shortest < MIN_RTT;
        let wanted = if is_short {
            self.wanted_on_short_path(shortest)
        } else {
            wanted
        };
        if wanted <= self.cold.autotune.send_limit {
            return;
        }
        let config = &self.sh.config;
        let most = most(config.max_buffer, config.send_pool);
        let before = self.cold.autotune.send_limit;
        let limit = wanted.checked_next_power_of_two().unwrap_or(most).min(most);
        self.cold.autotune.send_limit = if limit < most { limit } else { u32::MAX };
        if limit > before {
            self.sh.streams.set_send_limit(self.slot, limit);
            if self.sh.streams.app_wants_space(self.slot) {
                self.notify(Ready::WRITABLE);
            }
        }
    }

    /// What is in flight on a short path, beyond what gets there in the shortest round trip, waits in a queue that we have filled ourselves: more
    /// makes that longer. What serves there is that the peer has something to do until the application writes again.
    fn wanted_on_short_path(&self, shortest: Duration) -> u32 {
        let flight = u64::from(self.cold.loss.fill.flight);
        let under_way = scale(flight, shortest, self.hot.loss.rtt.srtt().max(shortest)) as u32;
        self.sh.near.max(under_way)
    }

    /// The application has changed options: the limits that it chose apply; one that it leaves to us stays as it is.
    pub fn fit_buffers(&mut self, before: &Options) {
        let options = *self.options();
        let limits = limits(&self.sh.config, &options);
        if options.recv_buffer != before.recv_buffer {
            // RFC 7323 §2.4-1: whatever the limit is now, there is room for what was offered.
            let promised = self.sh.streams.recv_unread(self.slot) + self.hot.rcv_wnd();
            let recv = limits.recv.max(promised);
            self.sh.streams.set_recv_limit(self.slot, recv);
        }
        if options.send_buffer != before.send_buffer {
            self.sh.streams.set_send_limit(self.slot, limits.send);
            self.cold.autotune.send_limit = Autotune::send_limit(&self.sh.config, &options);
        }
    }

    /// The largest window to offer in view of the memory that is left for all connections. What was offered stays on offer; what comes
    /// and finds no memory is sent again.
    pub fn promise(&self) -> u32 {
        let streams = &self.sh.streams;
        let total = streams.recv_pool_bytes();
        let free = total.saturating_sub(streams.recv_bytes_in_use());
        let least = MIN_SEGMENTS * u32::from(self.cold.local_mss);
        promise(free, total, || streams.recv_room(self.slot)).max(least)
    }
}

/// The largest limit that a connection gets without asking.
fn most(max_buffer: u32, pool: usize) -> u32 {
    max_buffer.min(u32::try_from(pool / POOL_SHARE).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_steady_flow_deserves_two_round_trips() {
        assert_eq!(wanted(1_000_000, 1_000_000), 2_000_000);
        assert_eq!(wanted(1_000_000, 3_000_000), 2_000_000);
    }

    #[test]
    fn slow_start_is_let_ahead() {
        // Twice as much as in the round trip before: twice as much again in the next, and that twice.
        assert_eq!(wanted(1_000_000, 500_000), 4_000_000);
        assert_eq!(wanted(1_000_000, 0), 4_000_000);
    }

    #[test]
    fn a_measurement_lasts_a_round_trip_at_least() {
        let start = Instant::from_millis(1000);
        let mut tune = Autotune::new(&Config::default(), &Options::default(), start);
        assert_eq!(tune.measure(start + 99 * MS, 500_000, 100 * MS), None);
        // 500,000 in two round trips.
        assert_eq!(
            tune.measure(start + 200 * MS, 500_000, 100 * MS),
            Some(1_000_000)
        );
        assert_eq!(
            tune.measure(start + 300 * MS, 750_000, 100 * MS),
            Some(500_000)
        );
    }

    #[test]
    fn promises_shrink_with_what_is_left_of_a_pool() {
        let total = 256 << 20;
        assert_eq!(promise(128 << 20, total, || 1 << 20), u32::MAX);
        assert_eq!(promise(64 << 20, total, || 1 << 20), 1 << 20);
        assert_eq!(promise(32 << 20, total, || 8 << 20), 2 << 20);
        assert_eq!(promise(0, total, || 1 << 20), 0);
    }
}
