//! What the wheel fires. A connection has several deadlines and one entry in the wheel, for the
//! earliest or earlier: when it fires, whatever is due happens, and the entry is set again.

use wire::time::Instant;

use crate::error::Error;
use crate::info::State;
use crate::tcp::clock::near;
use crate::tcp::conn::Conn;
use crate::tcp::deadlines::{Deadlines, probe_interval};
use crate::tcp::flags::Flags;

impl Conn<'_> {
    pub fn on_timer(&mut self, now: Instant) {
        self.hot.wheel_at = Instant::FAR;
        let in_flight = self.loss_view().modelled_flight();
        if self.cold.loss.pacing.release_at() <= now {
            let actions = self.loss().on_release_timer();
            self.carry_out(actions);
        }
        if self.hot.loss.early_at <= now {
            self.on_early_timer(now);
        }
        if self.hot.loss.rtx_at <= now {
            self.on_rtx_timer(now);
        }
        if let Some(before) = in_flight {
            self.loss().sampler().note_flight_lost(before);
        }
        if self.has(Flags::ACK_DELAYED) && near(now, self.hot.rcv.ack_at) <= now {
            self.clear(Flags::ACK_DELAYED);
            self.mark_ack();
        }
        if self.has(Flags::COLD_TIMERS) && !self.hot.state.is_over() {
            self.on_cold_timers(now);
        }
        if !self.hot.state.is_over() {
            self.wake_at(self.earliest(now));
        }
    }

    fn earliest(&self, now: Instant) -> Instant {
        let mut at = self.hot.loss.deadline();
        at = at.min(self.cold.loss.pacing.release_at());
        if self.has(Flags::ACK_DELAYED) {
            at = at.min(near(now, self.hot.rcv.ack_at));
        }
        if self.has(Flags::COLD_TIMERS) {
            at = at
                .min(self.deadlines(now).first())
                .min(self.user_deadline(now))
                .min(self.cold.snd.cork_deadline());
        }
        at
    }

    /// The reordering timer or the probe timer expired.
    fn on_early_timer(&mut self, now: Instant) {
        let may_send = self.hot.snd.wnd > 0 && self.hot.state.may_transmit();
        let probe = self.cold.search.probe();
        let actions = self.loss().on_early_timer(now, may_send, probe);
        self.carry_out(actions);
    }

    fn on_rtx_timer(&mut self, now: Instant) {
        self.hot.loss.rtx_at = Instant::FAR;
        match self.hot.state {
            State::SynSent | State::SynReceived => self.on_syn_timeout(now),
            _ if self.has(Flags::PERSIST) || self.hot.snd.wnd == 0 => self.on_persist_timer(now),
            // What should have been sent never was: its neighbour could not be resolved, or a send
            // is still due.
            _ if self.hot.flight() == 0 => self.mark_output(),
            _ => self.on_retransmission_timer(now),
        }
    }

    /// RFC 9293 §3.8.3: R2 for a SYN.
    /// RFC 9293 MUST-22.
    fn on_syn_timeout(&mut self, now: Instant) {
        self.sh.counters.timeouts += 1;
        let limit = if self.cold.open.may_send_early(self.hot.state) {
            self.sh.config.syn_ack_retries
        } else {
            let asked = self.options().syn_retries;
            asked.unwrap_or(self.sh.config.syn_retries)
        };
        if self.hot.retries >= limit || self.user_deadline(now) <= now {
            self.fail(self.cold.soft_error.unwrap_or(Error::TimedOut));
            return;
        }
        self.cold.statistics.on_timeout(now, self.hot.retries == 0);
        self.hot.retries += 1;
        self.cold.ecn.on_syn_lost(self.hot.retries);
        let stamp = self.tsval(now);
        self.loss().timers().back_off(stamp);
        self.set(Flags::SYN_DUE);
        self.start_rtx_timer(now);
        self.mark_output();
    }

    /// RFC 6298 §5.4 to §5.6.
    /// RFC 9293 MUST-20; RFC 6298 §5-7.
    fn on_retransmission_timer(&mut self, now: Instant) {
        self.sh.counters.timeouts += 1;
        let mut limit = self.sh.config.data_retries;
        if self.has(Flags::APP_CLOSED) {
            limit = limit.min(self.sh.config.orphan_retries);
        }
        if self.hot.retries >= limit || self.user_deadline(now) <= now {
            self.fail(self.cold.soft_error.unwrap_or(Error::TimedOut));
            return;
        }
        self.cold.statistics.on_timeout(now, self.hot.retries == 0);
        self.hot.retries += 1;
        // With data in flight: perhaps the path has changed.
        self.path().on_timeout(now);
        self.sh.net.links.suspect(now, &self.cold.path);
        let actions = self.loss().on_timeout(now);
        self.carry_out(actions);
        let stamp = self.tsval(now);
        self.loss().timers().back_off(stamp);
        self.start_rtx_timer(now);
    }

    /// The window is closed (RFC 9293 §3.8.6.1): probe, ever more rarely, for as long as the peer
    /// answers. RFC 9293 MUST-36, MUST-37.
    fn on_persist_timer(&mut self, now: Instant) {
        let orphaned =
            self.has(Flags::APP_CLOSED) && self.hot.loss.backoff >= self.sh.config.orphan_retries;
        let unanswered = self.hot.retries >= self.sh.config.data_retries;
        let mut send = self.send_part();
        send.note_blocked(now);
        if unanswered || orphaned || send.is_held_up(now) {
            self.send_reset(now);
            self.fail(self.cold.soft_error.unwrap_or(Error::TimedOut));
            return;
        }
        send.owe_probe();
        self.start_rtx_timer(now);
        self.mark_output();
    }

    /// Which timers that few connections have does this one have? Its options have changed.
    pub fn choose_cold_timers(&mut self) {
        let wanted = self.options().has_cold_timers()
            || self.cold.fin_wait_2_at < Instant::FAR
            || self.cold.snd.cork_deadline() < Instant::FAR;
        self.hot.set(Flags::COLD_TIMERS, wanted);
    }

    /// The timers that few connections have.
    #[inline]
    pub fn start_cold_timers(&mut self, now: Instant) {
        if self.has(Flags::COLD_TIMERS) {
            self.wake_at(self.earliest(now));
        }
    }

    fn on_cold_timers(&mut self, now: Instant) {
        if self.cold.snd.cork_deadline() <= now {
            self.push();
        }
        let deadlines = self.deadlines(now);
        if deadlines.fin_wait_2() <= now {
            self.finish(State::Closed);
        } else if deadlines.idle() <= now {
            self.send_reset(now);
            self.fail(Error::TimedOut);
        } else if deadlines.keepalive() <= now {
            self.on_keepalive_timer(now);
        } else if self.user_deadline(now) <= now {
            self.fail(self.cold.soft_error.unwrap_or(Error::TimedOut));
        }
    }

    /// The deadlines that few connections have.
    fn deadlines(&self, now: Instant) -> Deadlines<'_> {
        let (hot, cold) = (&*self.hot, &*self.cold);
        Deadlines {
            options: self.options(),
            state: hot.state,
            is_waiting: hot.flight() > 0 || self.has(Flags::PERSIST),
            last_received: near(now, hot.last_received),
            last_sent: cold.snd.last_sent,
            probes: cold.keepalive_probes,
            probe_at: cold.keepalive_at,
            fin_wait_2_at: cold.fin_wait_2_at,
        }
    }

    fn user_deadline(&self, now: Instant) -> Instant {
        self.send_view().user_deadline(now, self.hot.retries)
    }

    /// RFC 9293 MUST-29.
    fn on_keepalive_timer(&mut self, now: Instant) {
        let Some(keepalive) = self.options().keepalive else {
            return;
        };
        if self.deadlines(now).is_given_up(now, &keepalive) {
            self.send_reset(now);
            self.fail(self.cold.soft_error.unwrap_or(Error::TimedOut));
            return;
        }
        self.cold.keepalive_probes += 1;
        self.cold.keepalive_at = now + probe_interval(&keepalive);
        self.set(Flags::KEEPALIVE_DUE);
        self.queue_ack();
    }
}
