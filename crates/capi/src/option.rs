//! Socket options.

use std::ffi::{c_int, c_void};

use libc::{IPPROTO_IP, IPPROTO_IPV6, socklen_t};
use mtcp::{Domain, Errno, Kind, Result, SocketId, State};

use crate::call::done;
use crate::handle::{Handle, Inner, with};
use crate::memory;
use crate::option_table::{self, Entry, Source};
use crate::socket::id;
use crate::tcp_info::LinuxTcpInfo;

/// Length of most values.
const INT: socklen_t = 4;
/// Longest value that is looked at.
const MAX_LEN: usize = 64;

/// The option, if the socket can have it.
fn find(
    inner: &mut Inner,
    id: SocketId,
    level: c_int,
    name: c_int,
) -> Result<Option<&'static Entry>> {
    // Also says whether it is a socket at all.
    let domain = inner.domain(id)?;
    let entry = option_table::find(level, name);
    Ok(entry.filter(|_| level != IPPROTO_IPV6 || domain == Domain::V6))
}

/// What Linux says when an option is asked for that is not there: IPv4 sockets know nothing of IPv6.
fn missing(level: c_int) -> Errno {
    if level == IPPROTO_IPV6 {
        Errno::EOPNOTSUPP
    } else {
        Errno::ENOPROTOOPT
    }
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_setsockopt(
    mctx: *mut Handle,
    sockid: c_int,
    level: c_int,
    optname: c_int,
    optval: *const c_void,
    optlen: socklen_t,
) -> c_int {
    done(|| {
        with(mctx, |inner| {
            let id = id(sockid)?;
            let Some(entry) = find(inner, id, level, optname)? else {
                return match inner.strict_options {
                    // Linux looks at the length first.
                    true if optlen < INT && level != IPPROTO_IPV6 => Err(Errno::EINVAL),
                    true => Err(Errno::ENOPROTOOPT),
                    false => Ok(()),
                };
            };
            let len = c_int::try_from(optlen)
                .ok()
                .and_then(|len| usize::try_from(len).ok());
            let len = len.ok_or(Errno::EINVAL)?.min(MAX_LEN);
            // SAFETY: a value of this length, says the header.
            let value = unsafe { memory::bytes(optval.cast(), len) }?;
            inner.context.set_option(id, (entry.parse)(value)?)
        })
    })
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_getsockopt(
    mctx: *mut Handle,
    sockid: c_int,
    level: c_int,
    optname: c_int,
    optval: *mut c_void,
    optlen: *mut socklen_t,
) -> c_int {
    done(|| {
        with(mctx, |inner| {
            let id = id(sockid)?;
            let entry = find(inner, id, level, optname)?.ok_or_else(|| missing(level))?;
            // SAFETY: a length, says the header.
            let room = unsafe { memory::room(optlen) }?;
            if optval.is_null() {
                return Err(Errno::EFAULT);
            }
            let mut value = value(inner, id, entry.source)?;
            if level == IPPROTO_IP && room < value.len() && is_octet(&value) {
                // Linux: an option of IPv4 that fits one byte comes in one, to who has no room for an int.
                value.truncate(1);
            }
            // SAFETY: room for a value of this length, says the header.
            let len = unsafe { memory::copy_out(optval.cast(), room, &value) }?;
            // SAFETY: a length, says the header. Values are short.
            unsafe { memory::store(optlen, len as socklen_t) }
        })
    })
}

fn is_octet(value: &[u8]) -> bool {
    let int = value.first_chunk().map(|int| c_int::from_ne_bytes(*int));
    int.is_some_and(|int| u8::try_from(int).is_ok())
}

fn value(inner: &mut Inner, id: SocketId, source: Source) -> Result<Vec<u8>> {
    match source {
        Source::Fixed(value) => Ok(value.to_ne_bytes().to_vec()),
        Source::Option(name) => Ok(option_table::show(inner.context.option(id, name)?)),
        Source::Info => Ok(tcp_info(inner, id)?.to_bytes()),
    }
}

/// Linux answers for sockets without a connection too.
fn tcp_info(inner: &mut Inner, id: SocketId) -> Result<LinuxTcpInfo> {
    if inner.context.kind(id)? == Kind::Listener {
        return Ok(LinuxTcpInfo::without_connection(State::Listen));
    }
    match inner.context.info(id) {
        Ok(info) => Ok(info.into()),
        Err(Errno::ENOTCONN) => Ok(LinuxTcpInfo::without_connection(State::Closed)),
        Err(errno) => Err(errno),
    }
}
