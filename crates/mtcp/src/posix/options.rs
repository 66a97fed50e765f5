//! Values of socket options as `getsockopt` gives them.

use std::ffi::c_int;

use libc::{IPPROTO_IP, IPPROTO_IPV6, SO_MAX_PACING_RATE, SOL_SOCKET};

use super::option_table::{self, Entry, Source};
use super::tcp_info::LinuxTcpInfo;
use crate::{Context, Domain, Errno, Kind, Result, SocketId, State};

/// Longest value that is looked at.
pub const MAX_LEN: usize = 64;

/// The option, if the socket can have it.
///
/// # Errors
/// `EBADF`, `ENOTSOCK`.
pub fn find(
    context: &mut Context,
    id: SocketId,
    level: c_int,
    name: c_int,
) -> Result<Option<&'static Entry>> {
    // Also says whether it is a socket at all.
    let domain = context.domain(id)?;
    let entry = option_table::find(level, name);
    Ok(entry.filter(|_| level != IPPROTO_IPV6 || domain == Domain::V6))
}

/// The option, to be read.
///
/// # Errors
/// What Linux says when it is not there: IPv4 sockets know nothing of IPv6. Those of [`find`].
pub fn known(
    context: &mut Context,
    id: SocketId,
    level: c_int,
    name: c_int,
) -> Result<&'static Entry> {
    let missing = if level == IPPROTO_IPV6 {
        Errno::EOPNOTSUPP
    } else {
        Errno::ENOPROTOOPT
    };
    find(context, id, level, name)?.ok_or(missing)
}

/// The bytes of a value, for who has so much room.
///
/// # Errors
/// Those of [`Context::option`] and [`Context::info`].
pub fn value(context: &mut Context, id: SocketId, entry: &Entry, room: usize) -> Result<Vec<u8>> {
    let mut value = match entry.source {
        Source::Fixed(value) => value.to_ne_bytes().to_vec(),
        Source::Option(name) => option_table::show(context.option(id, name)?),
        Source::Info => tcp_info(context, id)?.to_bytes(),
    };
    if entry.level == IPPROTO_IP && room < value.len() && is_octet(&value) {
        // Linux: an option of IPv4 that fits one byte comes in one, to who has no room for an int.
        value.truncate(1);
    }
    if entry.name == SO_MAX_PACING_RATE && entry.level == SOL_SOCKET && room < value.len() {
        value = option_table::narrow(&value);
    }
    Ok(value)
}

fn is_octet(value: &[u8]) -> bool {
    let int = value.first_chunk().map(|int| c_int::from_ne_bytes(*int));
    int.is_some_and(|int| u8::try_from(int).is_ok())
}

/// Linux answers for sockets without a connection too.
fn tcp_info(context: &mut Context, id: SocketId) -> Result<LinuxTcpInfo> {
    if context.kind(id)? == Kind::Listener {
        return Ok(LinuxTcpInfo::without_connection(State::Listen));
    }
    match context.info(id) {
        Ok(info) => Ok(info.into()),
        Err(Errno::ENOTCONN) => Ok(LinuxTcpInfo::without_connection(State::Closed)),
        Err(errno) => Err(errno),
    }
}
