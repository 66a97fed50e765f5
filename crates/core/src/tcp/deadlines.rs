//! The deadlines that few connections have: keepalive (RFC 9293 §3.8.4), silence, and FIN_WAIT_2.
//! Here is when they are; what happens then is in `timers`.

use std::time::Duration;

use wire::time::Instant;

use crate::command::{Keepalive, Options};
use crate::info::State;

/// The shortest time between probes, and before the first of them.
const SHORTEST: Duration = Duration::from_millis(1);

/// What the deadlines of a connection follow from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadlines<'a> {
    pub options: &'a Options,
    pub state: State,
    /// Something is in flight, or the peer's window is closed.
    pub is_waiting: bool,
    /// When a segment was last received, ...
    pub last_received: Instant,
    /// ... and when one was last sent that was more than an ACK.
    pub last_sent: Instant,
    /// Keepalive probes sent without an answer, ...
    pub probes: u8,
    /// ... and when the next one is due, if there are any.
    pub probe_at: Instant,
    /// FIN_WAIT_2 without an application ends then.
    pub fin_wait_2_at: Instant,
}

/// The pause after a keepalive probe.
pub(crate) fn probe_interval(keepalive: &Keepalive) -> Duration {
    keepalive.interval.max(SHORTEST)
}

impl Deadlines<'_> {
    /// The first of all.
    pub fn first(&self) -> Instant {
        let fin_wait_2 = self.fin_wait_2();
        self.keepalive().min(self.idle()).min(fin_wait_2)
    }

    pub fn fin_wait_2(&self) -> Instant {
        if self.state == State::FinWait2 {
            self.fin_wait_2_at
        } else {
            Instant::FAR
        }
    }

    /// Nothing sent, nothing received.
    pub fn idle(&self) -> Instant {
        let Some(timeout) = self.options.idle_timeout else {
            return Instant::FAR;
        };
        if !self.state.is_synchronized() {
            return Instant::FAR;
        }
        self.last_received.max(self.last_sent) + timeout
    }

    /// RFC 9293 §3.8.4: only on a connection with nothing in flight.
    /// RFC 9293 MUST-26, MUST-27.
    pub fn keepalive(&self) -> Instant {
        let Some(keepalive) = self.options.keepalive else {
            return Instant::FAR;
        };
        if !self.state.is_synchronized() || self.is_waiting {
            return Instant::FAR;
        }
        if self.probes > 0 {
            return self.probe_at;
        }
        self.last_received + keepalive.idle.max(SHORTEST)
    }

    /// Whether probes have gone unanswered for long enough. RFC 5482 §4.2: a user time-out, if
    /// there is one, says how long to probe, instead of the number of probes.
    pub fn is_given_up(&self, now: Instant, keepalive: &Keepalive) -> bool {
        match self.options.user_timeout {
            Some(timeout) => self.probes > 0 && now - self.last_received >= timeout,
            None => self.probes >= keepalive.count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1000)
    }

    fn idle_since_ten(options: &Options) -> Deadlines<'_> {
        Deadlines {
            options,
            state: State::Established,
            is_waiting: false,
            last_received: at(10),
            last_sent: at(8),
            probes: 0,
            probe_at: Instant::FAR,
            fin_wait_2_at: at(70),
        }
    }

    fn probing() -> Keepalive {
        Keepalive {
            idle: 20 * SECOND,
            interval: 5 * SECOND,
            count: 3,
        }
    }

    #[test]
    fn without_options_there_are_none() {
        let options = Options::default();
        assert_eq!(idle_since_ten(&options).first(), Instant::FAR);
    }

    #[test]
    fn keepalive_waits_for_what_is_in_flight() {
        let options = Options {
            keepalive: Some(probing()),
            ..Options::default()
        };
        let mut deadlines = idle_since_ten(&options);
        assert_eq!(deadlines.first(), at(30));
        (deadlines.probes, deadlines.probe_at) = (1, at(35));
        assert_eq!(deadlines.first(), at(35));
        deadlines.is_waiting = true;
        assert_eq!(deadlines.first(), Instant::FAR);
    }

    #[test]
    fn a_user_time_out_takes_the_place_of_the_number_of_probes() {
        let mut options = Options::default();
        let mut deadlines = idle_since_ten(&options);
        deadlines.probes = 3;
        assert!(deadlines.is_given_up(at(11), &probing()));
        options.user_timeout = Some(60 * SECOND);
        let mut deadlines = idle_since_ten(&options);
        deadlines.probes = 3;
        assert!(!deadlines.is_given_up(at(69), &probing()));
        assert!(deadlines.is_given_up(at(70), &probing()));
    }

    #[test]
    fn only_fin_wait_2_ends_by_itself() {
        let options = Options::default();
        let mut deadlines = idle_since_ten(&options);
        deadlines.state = State::FinWait2;
        assert_eq!(deadlines.first(), at(70));
    }
}
