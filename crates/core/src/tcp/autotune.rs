//! The limit of the send buffer follows the congestion window, but on short paths no further than
//! they need. A limit costs nothing by itself, memory is taken as it is used; and a limit that the
//! application chose stays.

use std::time::Duration;

use crate::command::Options;
use crate::event::Ready;
use crate::tcp::buffers::{MIN_RTT, limits, most, scale};
use crate::tcp::conn::Conn;
use crate::tcp::send::send_limit;

/// Send buffers of connections over short paths: of one at most, and of all together. Each byte is
/// written once and read once, from the nearest cache that all of them fit in.
const NEAR: u32 = 512 << 10;
const NEAR_ALL: u32 = 8 << 20;

/// The send buffer of each of so many connections that are not idle, over a short path.
pub(crate) fn near_buffer(resident: u32) -> u32 {
    NEAR.min(NEAR_ALL / resident.max(1))
}

impl Conn<'_> {
    /// The congestion window may have grown: twice as much may be written as may be on its way, so
    /// that it is there when room is.
    pub fn tune_send_buffer(&mut self) {
        let wanted = self.hot.loss.window.cwnd.saturating_mul(2);
        if wanted.max(self.sh.near) > self.cold.snd.limit {
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
        if wanted <= self.cold.snd.limit {
            return;
        }
        let config = &self.sh.config;
        let most = most(config.max_buffer, config.send_pool);
        let before = self.cold.snd.limit;
        let limit = wanted.checked_next_power_of_two().unwrap_or(most).min(most);
        self.cold.snd.limit = if limit < most { limit } else { u32::MAX };
        if limit > before {
            self.sh.streams.set_send_limit(self.slot, limit);
            if self.sh.streams.app_wants_space(self.slot) {
                self.notify(Ready::WRITABLE);
            }
        }
    }

    /// What is in flight on a short path, beyond what gets there in the shortest round trip, waits
    /// in a queue that we have filled ourselves: more makes that longer. What serves there is that
    /// the peer has something to do until the application writes again.
    fn wanted_on_short_path(&self, shortest: Duration) -> u32 {
        let flight = u64::from(self.cold.loss.fill.flight);
        let under_way = scale(flight, shortest, self.hot.loss.rtt.srtt().max(shortest)) as u32;
        self.sh.near.max(under_way)
    }

    /// The application has changed options: the limits that it chose apply; one that it leaves to
    /// us stays as it is.
    pub fn fit_buffers(&mut self, before: &Options) {
        let options = *self.options();
        let limits = limits(&self.sh.config, &options);
        if options.recv_buffer != before.recv_buffer {
            self.receive().set_limit(limits.recv);
        }
        if options.send_buffer != before.send_buffer {
            self.sh.streams.set_send_limit(self.slot, limits.send);
            self.cold.snd.limit = send_limit(&self.sh.config, &options);
        }
    }
}
