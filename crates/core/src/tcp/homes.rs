//! Connections whose bytes lie in memory of other processes.

use ring::stream::slot_in_home;
use wire::time::Instant;

use crate::id::ConnId;
use crate::tcp::Tcp;

/// Connections of programs in other processes, for one step.
#[derive(Debug)]
pub struct Programs<'a>(pub &'a mut Tcp);

impl Programs<'_> {
    /// Closes what the program of a home had. Looks at each slot there that was ever used.
    pub fn app_gone(&mut self, now: Instant, home: u32) {
        self.0.shared.streams.homes().app_gone(home);
        for listener in self.0.setup.listeners.of_home(home) {
            // It is there.
            let _ = self.0.unlisten(now, listener, false);
        }
        for slot in self.0.shared.streams.homes().owners(home) {
            // What was closed before may wait for nothing but that the streams are released.
            let _ = self.0.close(now, self.0.conns.id_of(slot));
            self.0.settle(now, slot);
        }
    }
}

/// The home of a connection, and its slot there.
pub fn stream_of(tcp: &Tcp, conn: ConnId) -> Option<(u32, u32)> {
    let is_live = tcp.conns.slots.is_live(conn.slot, conn.generation);
    let stream = is_live.then(|| tcp.conns.stream(conn.slot))?;
    Some(match tcp.shared.streams.home_of(stream) {
        0 => (0, stream),
        home => (home, slot_in_home(stream)),
    })
}
