//! The calls that read and write, with their waits.

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;

use mtcp_core::ConnId;

use super::Context;
use super::blocking::open_fast;
use super::wait::{TimeLeft, Wait, complete, progress};
use crate::calls::Sockets;
use crate::socket::table::{Body, Flags};
use crate::{Errno, RecvFlags, Result, SendFlags, SocketId};

pub(super) fn receive(
    context: &mut Context,
    id: SocketId,
    bufs: &mut [IoSliceMut<'_>],
    flags: RecvFlags,
) -> Result<usize> {
    let peek = flags.contains(RecvFlags::PEEK);
    if flags.contains(RecvFlags::OOB) {
        return receive_urgent(context, id, bufs, peek);
    }
    let sockets = &mut context.sockets;
    let socket = sockets.table.get(id)?;
    let is_blocking = !socket.nonblocking() && !flags.contains(RecvFlags::DONTWAIT);
    let conn = match socket.body {
        Body::Stream(conn) => conn,
        Body::Pipe(pipe) => return sockets.pipe_read(id, pipe, bufs, peek, is_blocking),
        _ => return Err(sockets.not_connected(id)),
    };
    if sockets.settings.legacy_errors {
        let is_empty = bufs.iter().all(|buf| buf.is_empty());
        sockets.stream(id, conn)?.check_as_original(is_empty)?;
    }
    let mut limit = TimeLeft::Unasked;
    let left = |sockets: &Sockets| {
        let timeout = || sockets.table.recv_timeout(id);
        limit.left(&sockets.transport.driver, timeout)
    };
    let taken = complete(context, id, is_blocking, left, |sockets| {
        sockets.take_bytes((id, conn), bufs, peek)
    })?;
    let Some(n) = taken else {
        return Err(context.sockets.transport.would_block());
    };
    if n == 0 || !is_blocking || peek {
        return Ok(n);
    }
    let wanted = wanted(&context.sockets, id, bufs, flags);
    if n >= wanted {
        return Ok(n);
    }
    read_rest(context, (id, conn), bufs, n, wanted, &mut limit)
}

/// Bytes without which a blocking call does not return: SO_RCVLOWAT, MSG_WAITALL.
fn wanted(sockets: &Sockets, id: SocketId, bufs: &[IoSliceMut<'_>], flags: RecvFlags) -> usize {
    let room = || bufs.iter().map(|buf| buf.len()).sum::<usize>();
    if flags.contains(RecvFlags::WAITALL) {
        return room();
    }
    match sockets.table.low_water(id) {
        1 => 1,
        bytes => room().min(bytes),
    }
}

/// Reads on after `done` bytes until `wanted` are there; end of file, errors, signals and time-outs
/// end it early.
fn read_rest(
    context: &mut Context,
    (id, conn): (SocketId, ConnId),
    bufs: &mut [IoSliceMut<'_>],
    done: usize,
    wanted: usize,
    limit: &mut TimeLeft,
) -> Result<usize> {
    let (mut filled, mut skip) = (done, done);
    for buf in bufs {
        let mut at = skip.min(buf.len());
        skip -= at;
        while let Some(rest) = buf.get_mut(at..).filter(|rest| !rest.is_empty()) {
            if filled >= wanted {
                return Ok(filled);
            }
            let mut rest = [IoSliceMut::new(rest)];
            let sockets = &context.sockets;
            let timeout = || sockets.table.recv_timeout(id);
            let left = limit.left(&sockets.transport.driver, timeout);
            let more = Wait::at_most(left).until(context, |sockets| {
                if sockets.transport.streams.at_mark(conn.slot) {
                    return Some(Ok(0));
                }
                sockets.take_bytes((id, conn), &mut rest, false)
            });
            let Ok(Some(Ok(n @ 1..))) = more else {
                return Ok(filled);
            };
            at += n;
            filled += n;
        }
    }
    Ok(filled)
}

/// MSG_OOB: takes the urgent byte apart. It never waits.
fn receive_urgent(
    context: &mut Context,
    id: SocketId,
    bufs: &mut [IoSliceMut<'_>],
    peek: bool,
) -> Result<usize> {
    let conn = match context.sockets.table.get(id)?.body {
        Body::Stream(conn) => conn,
        Body::Idle => return Err(Errno::EINVAL),
        Body::Pipe(_) | Body::Epoll(_) => return Err(Errno::ENOTSOCK),
        Body::Free(_) | Body::Listener(_) => return Err(Errno::ENOTCONN),
    };
    if !context.sockets.stream(id, conn)?.has_urgent() {
        progress(context, id);
    }
    context.sockets.stream(id, conn)?.take_urgent(bufs, peek)
}

pub(super) fn send_to(
    context: &mut Context,
    id: SocketId,
    bytes: &[u8],
    flags: SendFlags,
    remote: Option<SocketAddr>,
) -> Result<usize> {
    if flags.contains(SendFlags::FASTOPEN) {
        let socket = context.sockets.table.get(id)?;
        let is_blocking = !socket.nonblocking() && !flags.contains(SendFlags::DONTWAIT);
        open_fast(context, id, remote, is_blocking)?;
    }
    let sent = put(context, id, bytes, flags);
    context.sockets.has_written(id);
    sent
}

pub(super) fn writev(context: &mut Context, id: SocketId, bufs: &[IoSlice<'_>]) -> Result<usize> {
    let written = put_all(context, id, bufs);
    context.sockets.has_written(id);
    written
}

fn put_all(context: &mut Context, id: SocketId, bufs: &[IoSlice<'_>]) -> Result<usize> {
    let mut written = 0;
    let mut bufs = bufs.iter().filter(|buf| !buf.is_empty()).peekable();
    if bufs.peek().is_none() {
        return put(context, id, &[], SendFlags::empty());
    }
    for buf in bufs {
        match put(context, id, buf, SendFlags::empty()) {
            Ok(n) => {
                written += n;
                if n < buf.len() {
                    break;
                }
            }
            Err(error) if written == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(written)
}

/// Writes; what it stages is not handed over.
fn put(context: &mut Context, id: SocketId, bytes: &[u8], flags: SendFlags) -> Result<usize> {
    let sockets = &mut context.sockets;
    let socket = sockets.table.get(id)?;
    let is_blocking = !socket.nonblocking() && !flags.contains(SendFlags::DONTWAIT);
    let conn = match socket.body {
        Body::Stream(conn) => conn,
        Body::Pipe(pipe) => return sockets.pipe_write(id, pipe, bytes, is_blocking),
        _ => return Err(sockets.not_connected(id)),
    };
    if sockets.settings.legacy_errors && !socket.flags.contains(Flags::DEFERRED) {
        let is_empty = bytes.is_empty() && !is_blocking;
        sockets.stream(id, conn)?.check_as_original(is_empty)?;
    }
    let written = match sockets.put_bytes((id, conn), bytes, flags) {
        Some(result) => result?,
        None if is_blocking => 0,
        None => {
            let again =
                progress(context, id).then(|| context.sockets.put_bytes((id, conn), bytes, flags));
            let would_block = || Err(context.sockets.transport.would_block());
            return again.flatten().unwrap_or_else(would_block);
        }
    };
    if is_blocking && written < bytes.len() {
        return write_rest(context, (id, conn), bytes, written, flags);
    }
    Ok(written)
}

/// Blocks until all is written; an error after the first bytes is left for the next call.
fn write_rest(
    context: &mut Context,
    (id, conn): (SocketId, ConnId),
    bytes: &[u8],
    mut written: usize,
    flags: SendFlags,
) -> Result<usize> {
    let mut limit = TimeLeft::Unasked;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        let sockets = &context.sockets;
        let timeout = || sockets.table.send_timeout(id);
        let left = limit.left(&sockets.transport.driver, timeout);
        let put = Wait::at_most(left).until(context, |sockets| {
            sockets.put_bytes((id, conn), rest, flags)
        });
        match put.and_then(|put| put.unwrap_or(Err(Errno::EAGAIN))) {
            Ok(n) => written += n,
            Err(error) if written == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(written)
}
