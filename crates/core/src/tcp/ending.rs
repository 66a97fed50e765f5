//! How a connection ends: what every step may say, and the RST that may go with it.

use ring::stream::Status;
use wire::tcp::Timestamps;
use wire::time::Instant;

use crate::error::Error;
use crate::event::Ready;
use crate::info::State;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;
use crate::tcp::teardown::reset_of;

impl Conn<'_> {
    /// The connection failed: the state is CLOSED, the application learns why. What it has not read
    /// stays readable. RFC 9293 MUST-12.
    pub fn fail(&mut self, error: Error) {
        match self.hot.state {
            State::SynSent | State::SynReceived => self.sh.counters.connect_failures += 1,
            _ => self.sh.counters.failures += 1,
        }
        self.cold.error = Some(error);
        self.hot.state = State::Closed;
        let errno = u16::try_from(error.errno()).unwrap_or(0);
        let status = Status::CLOSED | Status::WRITE_CLOSED;
        self.add_status(status.with_errno(errno));
        self.notify(Ready::ERROR | Ready::CLOSED);
    }

    /// Both directions are finished.
    pub fn finish(&mut self, state: State) {
        self.hot.state = state;
        self.add_status(Status::CLOSED | Status::WRITE_CLOSED);
        self.notify(Ready::CLOSED);
    }

    /// ABORT.
    pub fn abort(&mut self, now: Instant) {
        self.send_reset(now);
        self.hot.state = State::Closed;
    }

    /// RFC 9293 leaves FIN_WAIT_2 open-ended; without an application nobody would ever end it. As
    /// on Linux, one that may not last at all (TCP_LINGER2 below zero) ends with a reset.
    pub fn start_fin_wait_2(&mut self, now: Instant) {
        if !self.has(Flags::APP_CLOSED) {
            return;
        }
        let time = self.options().fin_wait_2;
        let time = time.unwrap_or(self.sh.config.fin_wait_2);
        if time.is_zero() {
            self.abort(now);
            return;
        }
        self.cold.fin_wait_2_at = now + time;
        self.set(Flags::COLD_TIMERS);
        self.wake_at(self.cold.fin_wait_2_at);
    }

    /// The RST of ABORT, unless the peer has not heard of the connection.
    pub fn send_reset(&mut self, now: Instant) {
        if !self.hot.state.is_synchronized() && self.hot.state != State::SynReceived {
            return;
        }
        if self.has(Flags::DETACHED) {
            return;
        }
        let timestamps = self.has(Flags::TIMESTAMPS).then(|| Timestamps {
            tsval: self.hot.tsval(now),
            tsecr: self.hot.ts_recent,
        });
        let header = reset_of(self.hot.snd.nxt, self.hot.rcv.nxt, timestamps);
        self.sh.send_bare(self.key, &header);
        self.sh.counters.resets_out += 1;
    }
}
