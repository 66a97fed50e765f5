//! Listeners of several programs at one place: what waits at one that ends, or where nobody
//! accepts, goes to the others. As with a socket that processes share: a connection is lost only
//! when nobody is left who could accept it.

use ring::stream::StreamError;

use crate::command::Reply;
use crate::error::Error;
use crate::id::{ListenerId, Token};
use crate::tcp::Tcp;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;

/// Nobody accepts at a listener for now.
pub fn suspend(tcp: &mut Tcp, id: ListenerId) -> Result<Reply, Error> {
    let slot = tcp.setup.listeners.resolve(id)?;
    let entry = tcp
        .setup
        .listeners
        .at_mut(slot)
        .filter(|entry| entry.home != 0);
    entry.ok_or(Error::Invalid)?.is_backup = true;
    hand_on(tcp, slot);
    take_back(tcp, slot);
    Ok(Reply::Done)
}

/// Its program accepts again.
pub fn resume(tcp: &mut Tcp, id: ListenerId, token: Token) -> Result<Reply, Error> {
    let slot = tcp.setup.listeners.resolve(id)?;
    if let Some(entry) = tcp.setup.listeners.at_mut(slot) {
        (entry.is_backup, entry.token) = (false, token);
        entry.pace.accept();
    }
    begin_accepting(tcp, slot);
    Ok(Reply::Done)
}

/// Somebody accepts at a listener: what waits there is announced, and what waits where nobody
/// accepts comes there.
pub fn begin_accepting(tcp: &mut Tcp, slot: u32) {
    for place in waiting_at(tcp, slot) {
        tcp.shared.queues.push_news(place);
    }
    let is_backup = |slot: &u32| tcp.setup.listeners.at(*slot).is_some_and(|at| at.is_backup);
    let backups: Vec<u32> = tcp.setup.listeners.beside(slot).filter(is_backup).collect();
    for backup in backups {
        hand_on(tcp, backup);
    }
}

/// A listener is of another home from now on, where nobody accepts: who waits there goes to others
/// that accept, or along, as far as there is room.
pub fn move_home(tcp: &mut Tcp, id: ListenerId, home: u32) -> Result<(), Error> {
    let slot = tcp.setup.listeners.resolve(id)?;
    let entry = tcp.setup.listeners.at_mut(slot).ok_or(Error::BadId)?;
    (entry.home, entry.is_backup) = (home, true);
    hand_on(tcp, slot);
    take_back(tcp, slot);
    Ok(())
}

/// How many connections wait at a listener for somebody who accepts them. `None`: there is no such
/// listener.
pub fn waiting(tcp: &Tcp, id: ListenerId) -> Option<u32> {
    let slot = tcp.setup.listeners.resolve(id).ok()?;
    Some(tcp.setup.listeners.at(slot)?.waiting.len())
}

/// Hands what waits at a listener on to others at the same place, as far as they have room for it:
/// to those where programs accept, those that have stalled last, and where this one ends, to any.
pub fn hand_on(tcp: &mut Tcp, slot: u32) {
    let heirs = tcp.setup.listeners.heirs_that_accept(slot);
    hand_on_to(tcp, slot, &heirs);
    let is_backup = |heir: &u32| tcp.setup.listeners.at(*heir).is_some_and(|at| at.is_backup);
    let mut heirs = tcp.setup.listeners.heirs(slot);
    heirs.retain(|heir| !is_backup(heir));
    hand_on_to(tcp, slot, &heirs);
}

/// The same of a listener that ends: what those have no room for waits where nobody accepts.
pub fn leave_to_heirs(tcp: &mut Tcp, slot: u32) {
    hand_on(tcp, slot);
    let heirs = tcp.setup.listeners.heirs(slot);
    hand_on_to(tcp, slot, &heirs);
}

fn hand_on_to(tcp: &mut Tcp, slot: u32, heirs: &[u32]) {
    if let Some(&first) = heirs.first() {
        tcp.setup().hand_on_half_open(slot, first);
        hand_on_some(tcp, slot, heirs, usize::MAX);
    }
}

/// Hands the oldest connections that wait at a listener on, so many at most. How many were looked
/// at. There is an heir.
pub fn hand_on_some(tcp: &mut Tcp, slot: u32, heirs: &[u32], most: usize) -> usize {
    let oldest = oldest_at(tcp, slot, most);
    for (n, &place) in oldest.iter().enumerate() {
        // In turn, each with the others behind it.
        let in_turn = heirs.iter().cycle().skip(n % heirs.len());
        let _ = in_turn
            .take(heirs.len())
            .any(|&heir| move_to(tcp, place, heir));
    }
    oldest.len()
}

/// What was announced of a listener where nobody accepts any more waits in the stack again.
fn take_back(tcp: &mut Tcp, slot: u32) {
    for place in waiting_at(tcp, slot) {
        move_to(tcp, place, slot);
    }
}

/// The places of the connections that wait at a listener, in order.
fn waiting_at(tcp: &Tcp, slot: u32) -> Vec<u32> {
    oldest_at(tcp, slot, usize::MAX)
}

/// Those of the first so many.
fn oldest_at(tcp: &Tcp, slot: u32, most: usize) -> Vec<u32> {
    let listener = tcp.setup.listeners.at(slot);
    let first = listener.and_then(|listener| listener.waiting.front().zip(Some(listener.waiting)));
    let Some((first, list)) = first else {
        return Vec::new();
    };
    let links = &tcp.shared.queues.backlog;
    let all = std::iter::successors(Some(first), |&place| list.next(links, place));
    all.take(most).collect()
}

/// The connection at `place` waits at the listener `heir` from now on, as if it had come there.
/// False: that has no room, or the program has done something with the connection that it did not
/// accept.
fn move_to(tcp: &mut Tcp, place: u32, heir: u32) -> bool {
    let Some(home) = tcp.setup.listeners.at(heir).map(|heir| heir.home) else {
        return false;
    };
    let slot = tcp
        .conns
        .named_at(place, &mut tcp.shared)
        .map(|(id, _)| id.slot);
    let conn = tcp.conns.at(place, &mut tcp.shared);
    let (Some(slot), Some(mut conn)) = (slot, conn) else {
        return false;
    };
    if !is_untouched(&mut conn) {
        return false;
    }
    let Ok(stream) = move_bytes(&mut conn, slot, home) else {
        return false;
    };
    let from = conn.stream;
    conn.set(Flags::UNANNOUNCED);
    // In the order in which they wait.
    conn.sh.queues.remove_news(place);
    conn.sh.queues.push_news(place);
    let before = std::mem::replace(&mut conn.cold.listener, heir);
    let links = &mut conn.sh.queues.backlog;
    tcp.setup.listeners.leave_backlog(before, links, place);
    tcp.setup.listeners.enter_backlog(heir, links, place);
    if conn.cold.open.is_pending()
        && let Some(listener) = tcp.setup.listeners.at_mut(heir)
    {
        listener.pending.enter();
    }
    if stream != from {
        tcp.shared.streams.homes().abandon(from);
        tcp.conns.set_stream(slot, stream);
        if let Some(mut conn) = tcp.conns.at(place, &mut tcp.shared) {
            conn.bound_unsent();
        }
    }
    true
}

/// Nothing has happened to it that only its program could have done: it is as it was announced. One
/// that was killed may have accepted it and read or written, and not have said so.
fn is_untouched(conn: &mut Conn<'_>) -> bool {
    conn.sh.streams.turn_to(conn.stream);
    let streams = &conn.sh.streams;
    let has_read =
        conn.cold.statistics.bytes_received > u64::from(streams.recv_unread(conn.stream));
    let is_used = has_read || streams.send_len(conn.stream) > 0;
    let is_over = conn.hot.state.is_over() || conn.has(Flags::DETACHED);
    let is_closed = conn.has(Flags::APP_CLOSED | Flags::FIN_QUEUED) || conn.cold.read_shut;
    !is_over && !is_closed && !is_used
}

/// The bytes of a connection are in `home` from now on: its slot there. It stays where it is if
/// that is its home, and its program does not know of it.
fn move_bytes(conn: &mut Conn<'_>, slot: u32, home: u32) -> Result<u32, StreamError> {
    let (from, streams) = (conn.stream, &mut conn.sh.streams);
    let is_untold = streams.app_released(from);
    if streams.home_of(from) == home && is_untold {
        return Ok(from);
    }
    let limits = streams.homes().limits(from).ok_or(StreamError::NotOpen)?;
    let into = streams.reserve_in(home, slot, limits)?;
    let mut homes = streams.homes();
    let copied = homes.copy_received(from, into);
    // From here on the program that was told of it does not get it, or has accepted it meanwhile.
    if copied.is_ok() && (is_untold || homes.withdraw(from)) {
        return Ok(into);
    }
    homes.abandon(into);
    Err(copied.err().unwrap_or(StreamError::Held))
}
