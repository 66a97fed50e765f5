//! Socket options.

use std::ffi::{c_int, c_void};

use libc::{IPPROTO_IPV6, socklen_t};
use mtcp::Errno;
use mtcp::posix::call::done;
use mtcp::posix::{memory, options};

use crate::handle::{Handle, with};
use crate::socket::id;

/// Length of most values.
const INT: socklen_t = 4;

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
            let Some(entry) = options::find(&mut inner.context, id, level, optname)? else {
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
            let len = len.ok_or(Errno::EINVAL)?.min(options::MAX_LEN);
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
            let entry = options::known(&mut inner.context, id, level, optname)?;
            // SAFETY: a length, says the header.
            let room = unsafe { memory::room(optlen) }?;
            if optval.is_null() {
                return Err(Errno::EFAULT);
            }
            let value = options::value(&mut inner.context, id, entry, room)?;
            // SAFETY: room for a value of this length, says the header.
            let len = unsafe { memory::copy_out(optval.cast(), room, &value) }?;
            // SAFETY: a length, says the header. Values are short.
            unsafe { memory::store(optlen, len as socklen_t) }
        })
    })
}
