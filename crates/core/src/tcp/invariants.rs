//! What must hold of a connection after anything that happens to it. Tests and simulations run with these assertions; releases do not.

use wire::time::Instant;

use crate::tcp::conn::Conn;
use crate::tcp::tcb::Flags;

impl Conn<'_> {
    pub fn check_invariants(&self) {
        if cfg!(debug_assertions) {
            self.check_source();
            self.check_sequence_space();
            self.check_scoreboard();
            self.check_timers();
        }
    }

    /// RFC 9293 MUST-45: segments come from where the connection is.
    fn check_source(&self) {
        assert_eq!(self.cold.path.src, self.key.local().ip(), "the source");
    }

    fn check_sequence_space(&self) {
        let hot = &*self.hot;
        assert!(hot.snd_una <= hot.snd_nxt, "more acknowledged than sent");
        assert!(!hot.flags.contains(Flags::RECOVERY | Flags::LOSS));
        assert!(self.pipe() <= hot.flight(), "more in the network than sent");
        if self.has_urgent() {
            assert!(
                self.cold.snd_up <= self.stream_end(),
                "urgent, but not written"
            );
        }
        if let Some(log) = self.sent_log() {
            let logged = (log.start(), log.end());
            assert_eq!(logged, (hot.snd_una, hot.snd_nxt), "the log of the flight");
            let lost = log.count_lost(self.scoreboard());
            assert_eq!(log.lost_bytes(), lost, "the bytes taken for lost");
        }
    }

    fn check_scoreboard(&self) {
        let Some(sacked) = self.scoreboard() else {
            return;
        };
        assert!(!sacked.is_empty(), "an empty scoreboard");
        let (una, nxt) = (self.hot.snd_una, self.hot.snd_nxt);
        // Not behind SND.UNA only if the peer has discarded it (RFC 2018 §8).
        let inside = sacked.covered(una, nxt);
        assert_eq!(inside, sacked.bytes(), "SACKed, but not in flight");
    }

    /// Whatever is in flight will be looked after.
    fn check_timers(&self) {
        let hot = &*self.hot;
        if hot.flight() > 0 && hot.state.is_synchronized() {
            assert!(hot.rtx_at < Instant::FAR, "in flight, and no timer runs");
        }
        let first = hot.rtx_at.min(hot.early_at);
        assert!(hot.wheel_at <= first, "a timer that the wheel forgot");
    }
}
