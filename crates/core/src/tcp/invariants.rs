//! What must hold of a connection after anything that happens to it. Tests and simulations run with
//! these assertions; releases do not.

use crate::tcp::conn::Conn;

impl Conn<'_> {
    pub fn check_invariants(&self) {
        if cfg!(debug_assertions) {
            self.check_source();
            self.loss_view().check(self.hot.state.is_synchronized());
            self.receive_view().check();
            self.send_view().check();
            self.check_timers();
        }
    }

    /// RFC 9293 MUST-45: segments come from where the connection is.
    fn check_source(&self) {
        assert_eq!(self.cold.path.src, self.key.local().ip(), "the source");
    }

    /// The wheel fires no later than the first deadline.
    fn check_timers(&self) {
        let first = self.hot.loss.deadline();
        assert!(self.hot.wheel_at <= first, "a timer that the wheel forgot");
    }
}
