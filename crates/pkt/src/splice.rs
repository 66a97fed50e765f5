//! `splice`: bytes between a connection and a pipe. What one side does not take stays where it was.

use mtcp::{Context, Errno, Kind, RecvFlags, Result, SendFlags, SocketId};

use crate::constants::SPLICE_F_NONBLOCK;

/// What a pipe of Linux holds, bytes.
const CAPACITY: usize = 64 << 10;

/// Moves at most `len` bytes; one of the two is a pipe, the other is not.
pub(crate) fn splice(
    context: &mut Context,
    (from, to): (SocketId, SocketId),
    len: usize,
    flags: i32,
) -> Result<usize> {
    let is_pipe = |id| Ok::<_, Errno>(context.kind(id)? == Kind::Pipe);
    let into_pipe = match (is_pipe(from)?, is_pipe(to)?) {
        (false, true) => true,
        (true, false) => false,
        _ => return Err(Errno::EINVAL),
    };
    let mut wait = RecvFlags::empty();
    wait.set(RecvFlags::DONTWAIT, flags & SPLICE_F_NONBLOCK != 0);
    let room = match into_pipe {
        true => CAPACITY - context.available(to)?,
        false => CAPACITY,
    };
    let mut bytes = vec![0; len.min(room)];
    let seen = context.recv(from, &mut bytes, RecvFlags::PEEK | wait)?;
    let bytes = bytes.get_mut(..seen).unwrap_or_default();
    let moved = match seen {
        0 => 0,
        _ => context.send(to, bytes, SendFlags::DONTWAIT)?,
    };
    let moved = bytes.get_mut(..moved).unwrap_or_default();
    match moved.is_empty() {
        true => Ok(0),
        false => context.recv(from, moved, RecvFlags::DONTWAIT),
    }
}
