//! News for the application.

use crate::event::{Event, Ready};
use crate::id::ConnId;
use crate::tcp::Tcp;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;
use crate::tcp::listen::Listeners;

impl Tcp {
    pub fn poll_event(&mut self) -> Option<Event> {
        loop {
            let place = self.shared.queues.pop_news()?;
            if let Some(event) = self.news_of(place) {
                return Some(event);
            }
        }
    }

    fn news_of(&mut self, place: u32) -> Option<Event> {
        let (id, mut conn) = self.conns.named_at(place, &mut self.shared)?;
        if conn.has(Flags::UNANNOUNCED) {
            return announce(&mut conn, id, &self.listeners);
        }
        // Before `Accept` nobody waits for more; `accept` asks for it again.
        if conn.has(Flags::BACKLOG) || conn.hot.ready.is_empty() {
            return None;
        }
        let ready = std::mem::take(&mut conn.hot.ready);
        Some(Event::Ready {
            conn: id,
            token: conn.cold.token,
            ready,
            error: conn.cold.error.filter(|_| ready.contains(Ready::ERROR)),
        })
    }
}

/// From here on the application holds the streams.
fn announce(conn: &mut Conn<'_>, id: ConnId, listeners: &Listeners) -> Option<Event> {
    conn.sh.streams.grant(conn.slot).ok()?;
    conn.hot.remove(Flags::UNANNOUNCED);
    let listener = listeners.at(conn.cold.listener)?;
    Some(Event::Accepted {
        listener: listener.token,
        conn: id,
        key: *conn.key,
    })
}
