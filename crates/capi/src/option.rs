//! Socket options.

use std::ffi::{c_int, c_void};

use libc::{IPPROTO_IPV6, socklen_t};
use mtcp::{Domain, Errno, Kind, Result, SocketId, State};

use crate::call::done;
use crate::handle::{Handle, Inner, with};
use crate::memory;
use crate::option_table::{self, Entry, Source};
use crate::socket::id;
use crate::tcp_info::LinuxTcpInfo;

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
                return if inner.strict_options {
                    Err(Errno::ENOPROTOOPT)
                } else {
                    Ok(())
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
            let entry = find(inner, id, level, optname)?.ok_or(Errno::ENOPROTOOPT)?;
            // SAFETY: a length, says the header.
            let room = unsafe { memory::room(optlen) }?;
            if optval.is_null() {
                return Err(Errno::EFAULT);
            }
            let value = value(inner, id, entry.source)?;
            // SAFETY: room for a value of this length, says the header.
            let len = unsafe { memory::copy_out(optval.cast(), room, &value) }?;
            // SAFETY: a length, says the header. Values are short.
            unsafe { memory::store(optlen, len as socklen_t) }
        })
    })
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
