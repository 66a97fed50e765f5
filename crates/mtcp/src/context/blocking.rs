//! The calls that open and end connections, with their waits.

use std::net::SocketAddr;
use std::time::Duration;

use mtcp_core::{Acks, ConnId, Undelivered};

use super::Context;
use super::wait::{Wait, complete, progress};
use crate::calls::Sockets;
use crate::socket::table::{Body, Flags};
use crate::{Errno, Result, SocketId};

/// How often it is looked whether connections are left.
const DRAIN_DELAY: Duration = Duration::from_millis(5);
/// How often it is looked whether peers have acknowledged more.
const DELIVER_DELAY: Duration = Duration::from_millis(2);

pub(super) fn accept(context: &mut Context, id: SocketId) -> Result<(SocketId, SocketAddr)> {
    let (socket, _) = context.sockets.table.look(id)?;
    let Body::Listener(index) = socket.body else {
        return Err(Errno::EINVAL);
    };
    let is_blocking = !socket.nonblocking();
    let limit = |sockets: &Sockets| sockets.table.recv_timeout(id);
    let accepted = complete(context, id, is_blocking, limit, |sockets| {
        sockets.accept(id, index)
    })?;
    accepted.ok_or_else(|| context.sockets.transport.would_block())
}

pub(super) fn connect(context: &mut Context, id: SocketId, remote: SocketAddr) -> Result<()> {
    let sockets = &mut context.sockets;
    let (socket, _) = sockets.table.look(id)?;
    let (body, flags) = (socket.body, socket.flags);
    let is_blocking = !socket.nonblocking();
    match body {
        Body::Idle => {
            let conn = sockets.connect(id, remote, false)?;
            opened(context, id, conn, is_blocking)
        }
        Body::Stream(_) if flags.contains(Flags::DEFERRED) => Err(Errno::EISCONN),
        Body::Stream(conn) if flags.contains(Flags::CONNECTING) => {
            match sockets.connected(id, conn) {
                Some(result) => result,
                None if is_blocking => wait_connected(context, id, conn),
                None if progress(context, id) => {
                    let ended = context.sockets.connected(id, conn);
                    ended.unwrap_or(Err(Errno::EALREADY))
                }
                None => Err(Errno::EALREADY),
            }
        }
        _ => Err(Errno::EISCONN),
    }
}

pub(super) fn finish_connect(
    context: &mut Context,
    id: SocketId,
    remote: SocketAddr,
) -> Result<()> {
    let table = &mut context.sockets.table;
    if table.look(id)?.0.body == Body::Idle {
        let told = table.take_given_up(id);
        return Err(told.unwrap_or(Errno::ECONNABORTED));
    }
    connect(context, id, remote)
}

/// MSG_FASTOPEN: connects, for the write that follows.
pub(super) fn open_fast(
    context: &mut Context,
    id: SocketId,
    remote: Option<SocketAddr>,
    is_blocking: bool,
) -> Result<()> {
    let sockets = &mut context.sockets;
    let (socket, _) = sockets.table.look(id)?;
    match socket.body {
        Body::Idle => {
            let conn = sockets.connect(id, remote.ok_or(Errno::EINVAL)?, true)?;
            opened(context, id, conn, is_blocking)
        }
        Body::Stream(_) if socket.flags.contains(Flags::DEFERRED) => Ok(()),
        Body::Stream(conn) if socket.flags.contains(Flags::CONNECTING) => {
            match sockets.connected(id, conn) {
                Some(result) => result,
                None if is_blocking => wait_connected(context, id, conn),
                None => Err(Errno::EALREADY),
            }
        }
        _ => Err(Errno::EISCONN),
    }
}

/// The attempt has begun: what the call says, unless it waits.
fn opened(context: &mut Context, id: SocketId, conn: ConnId, is_blocking: bool) -> Result<()> {
    let flags = context.sockets.table.get(id).map(|socket| socket.flags);
    if flags.is_ok_and(|flags| flags.contains(Flags::DEFERRED)) {
        // The SYN waits for a write.
        return Ok(());
    }
    if !is_blocking {
        return Err(Errno::EINPROGRESS);
    }
    wait_connected(context, id, conn)
}

/// Blocks until the handshake has ended.
fn wait_connected(context: &mut Context, id: SocketId, conn: ConnId) -> Result<()> {
    let limit = context.sockets.table.choices_of(id)?.send_timeout;
    let ended = Wait::at_most(limit).until(context, |sockets| sockets.connected(id, conn))?;
    // The ACK that ends the handshake leaves now: the program may wait for the peer by other means
    // than a call here.
    let _ = context.sockets.transport.driver.settle();
    ended.unwrap_or(Err(Errno::EINPROGRESS))
}

pub(super) fn close(context: &mut Context, id: SocketId) -> Result<()> {
    context.sockets.table.get(id)?;
    context.sockets.begin_close(id);
    let lingered = linger(context, id);
    context.sockets.close(id)?;
    lingered
}

/// SO_LINGER: waits for the peer to acknowledge everything, FIN included. Linux waits on
/// non-blocking sockets too.
fn linger(context: &mut Context, id: SocketId) -> Result<()> {
    let Some(timeout) = context.sockets.begin_linger(id)? else {
        return Ok(());
    };
    let wait = Wait::at_most(Some(timeout));
    let lingered = wait.until(context, |sockets| sockets.has_lingered(id).then_some(()));
    lingered.map(drop)
}

/// Runs the stack for so long.
pub(super) fn run_for(context: &mut Context, time: Duration) -> Result<()> {
    let wait = Wait::at_most(Some(time));
    wait.until(context, |_| None::<()>).map(drop)
}

pub(super) fn drain(context: &mut Context, timeout: Duration) -> Result<bool> {
    let mut left = timeout;
    loop {
        let snapshot = context.sockets.transport.driver.snapshot()?;
        if snapshot.connections == 0 {
            return Ok(true);
        }
        if left.is_zero() {
            return Ok(false);
        }
        let step = left.min(DRAIN_DELAY);
        run_for(context, step)?;
        left = left.saturating_sub(step);
    }
}

pub(super) fn deliver(context: &mut Context, timeout: Duration) -> Result<Undelivered> {
    let mut last = Undelivered::default();
    let mut since = context.sockets.transport.driver.read_clock();
    loop {
        let driver = &mut context.sockets.transport.driver;
        // Closing is a command, too.
        driver.submit()?;
        let left = driver.undelivered()?;
        if left != last {
            (last, since) = (left, driver.read_clock());
        }
        if left.connections == 0 || driver.read_clock().since(since) >= timeout {
            return Ok(left);
        }
        let wait = Wait {
            acks: Acks::All,
            ..Wait::at_most(Some(DELIVER_DELAY))
        };
        wait.until(context, |_| None::<()>)?;
    }
}
