//! CLOSE with unread data. What was written before it goes out as far as the windows let it, and
//! then the RST, which tells the peer of the loss (RFC 9293 §3.10.4, RFC 2525 §2.17): an answer to
//! a request that was not read to its end arrives.

use std::time::Duration;

use wire::time::Instant;

use crate::command::Reply;
use crate::error::Error;
use crate::id::{ConnId, PortId};
use crate::tcp::Tcp;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;

/// Connections whose RST is due when they have had their turn to send.
#[derive(Debug, Default)]
pub(crate) struct ClosingWithReset(Vec<ConnId>);

impl ClosingWithReset {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Conn<'_> {
    /// Whether the end that CLOSE brings is a RST, and there is something to send before it.
    fn has_last_words(&mut self, now: Instant) -> bool {
        self.has(Flags::ON_DATA)
            && self.sh.streams.recv_unread(self.slot) > 0
            && self.options().linger != Some(Duration::ZERO)
            && self.plan(now).is_some()
    }
}

impl Tcp {
    /// CLOSE.
    pub fn close(&mut self, now: Instant, id: ConnId) -> Result<Reply, Error> {
        let mut conn = self.live(id)?;
        if conn.has_last_words(now) {
            conn.set(Flags::APP_CLOSED);
            self.closing_with_reset.0.push(id);
            return Ok(Reply::Done);
        }
        conn.close(now);
        if conn.is_over() {
            self.settle(now, id.slot);
        } else {
            conn.enter_orphans();
            self.limit_orphans(now);
        }
        Ok(Reply::Done)
    }

    /// Ends those that have had their turn on this port.
    pub fn part(&mut self, now: Instant, port: PortId) {
        let mut at = 0;
        while let Some(&id) = self.closing_with_reset.0.get(at) {
            if self.live(id).is_ok_and(|conn| conn.hot.port != port) {
                at += 1;
                continue;
            }
            self.closing_with_reset.0.swap_remove(at);
            if let Ok(mut conn) = self.live(id)
                && !conn.hot.state.is_over()
            {
                conn.abort(now);
                self.settle(now, id.slot);
            }
        }
    }
}
