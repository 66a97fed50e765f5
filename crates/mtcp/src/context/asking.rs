//! The calls that ask again once the stack has run: who asks in a loop waits for a change.

use super::Context;
use super::wait::progress;
use crate::{Errno, OptionName, Result, SocketId, SocketOption};

pub(super) fn take_error(context: &mut Context, id: SocketId) -> Result<Option<Errno>> {
    let mut error = context.sockets.take_error(id)?;
    if error.is_none() && context.sockets.table.has_connection(id) {
        if progress(context, id) {
            error = context.sockets.take_error(id)?;
        }
        return Ok(error.or(context.sockets.transport.driver.check().err()));
    }
    Ok(error)
}

pub(super) fn option(
    context: &mut Context,
    id: SocketId,
    name: OptionName,
) -> Result<SocketOption> {
    match name {
        OptionName::Error => Ok(SocketOption::Error(take_error(context, id)?)),
        other => context.sockets.option(id, other),
    }
}

pub(super) fn available(context: &mut Context, id: SocketId) -> Result<usize> {
    let mut n = context.sockets.available(id)?;
    if n == 0 && context.sockets.table.has_connection(id) && progress(context, id) {
        n = context.sockets.available(id)?;
    }
    Ok(n as usize)
}

pub(super) fn unacknowledged(context: &mut Context, id: SocketId) -> Result<(u32, u32)> {
    progress(context, id);
    match context.sockets.info(id) {
        Ok(info) => Ok((info.unacked, info.not_sent)),
        Err(Errno::ENOTCONN) => Ok((0, 0)),
        Err(error) => Err(error),
    }
}
