//! News for the application.

use crate::event::{Event, Ready};
use crate::id::{ConnId, Token};
use crate::tcp::conn::Conn;
use crate::tcp::conns::Conns;
use crate::tcp::flags::Flags;
use crate::tcp::setup::Listeners;
use crate::tcp::shared::Shared;

/// What there is to say of the connection at `place`.
pub(crate) fn news_of(
    place: u32,
    conns: &mut Conns,
    sh: &mut Shared,
    listeners: &Listeners,
) -> Option<Event> {
    let (id, mut conn) = conns.named_at(place, sh)?;
    if conn.has(Flags::UNANNOUNCED) {
        let listener = listeners.at(conn.cold.listener)?;
        // Nobody accepts at a backup: it waits here.
        return (!listener.is_backup).then(|| announce(&mut conn, id, listener.token))?;
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

/// From here on the application holds the streams.
fn announce(conn: &mut Conn<'_>, id: ConnId, listener: Token) -> Option<Event> {
    conn.sh.streams.turn_to(conn.stream);
    conn.sh.streams.grant(conn.stream).ok()?;
    conn.hot.remove(Flags::UNANNOUNCED);
    Some(Event::Accepted {
        listener,
        conn: id,
        key: *conn.key,
    })
}
