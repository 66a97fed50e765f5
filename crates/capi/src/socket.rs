//! Sockets: making, connecting and closing them.

use std::ffi::c_int;
use std::net::{IpAddr, SocketAddr};

use libc::{SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM, in_addr_t, sockaddr, socklen_t};
use mtcp::{Domain, Errno, How, Result, SocketId, SourceRange};

use crate::handle::{Handle, Inner, with};
use crate::say::say;
use mtcp::posix::address::{self, BadAddress};
use mtcp::posix::call::{answer, done};
use mtcp::posix::memory;

/// The socket that C calls `sockid`.
#[inline]
pub(crate) fn id(sockid: c_int) -> Result<SocketId> {
    u32::try_from(sockid)
        .map(SocketId)
        .map_err(|_| Errno::EBADF)
}

/// What C calls the socket.
#[inline]
pub(crate) fn number(id: SocketId) -> Result<c_int> {
    c_int::try_from(id.0).map_err(|_| Errno::ENFILE)
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mtcp_socket(
    mctx: *mut Handle,
    domain: c_int,
    kind: c_int,
    _protocol: c_int,
) -> c_int {
    answer(|| {
        with(mctx, |inner| {
            let domain = match domain {
                libc::AF_INET => Domain::V4,
                libc::AF_INET6 => Domain::V6,
                _ => return Err(Errno::EAFNOSUPPORT),
            };
            if kind & !(SOCK_NONBLOCK | SOCK_CLOEXEC) != SOCK_STREAM {
                return Err(Errno::EINVAL);
            }
            let id = inner.context.socket(domain)?;
            if kind & SOCK_NONBLOCK != 0 {
                inner.context.set_nonblocking(id, true)?;
            }
            number(id)
        })
    })
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_bind(
    mctx: *mut Handle,
    sockid: c_int,
    addr: *const sockaddr,
    addrlen: socklen_t,
) -> c_int {
    done(|| {
        with(mctx, |inner| {
            let id = id(sockid)?;
            inner.context.kind(id)?;
            // SAFETY: an address of this length, says the header.
            let local = unsafe { address::parse(addr, addrlen) }.map_err(|_| Errno::EINVAL)?;
            inner.context.bind(id, local)
        })
    })
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mtcp_listen(mctx: *mut Handle, sockid: c_int, backlog: c_int) -> c_int {
    done(|| {
        with(mctx, |inner| {
            let id = id(sockid)?;
            inner.context.kind(id)?;
            let most = inner.max_concurrency;
            let backlog = u32::try_from(backlog)
                .ok()
                .filter(|backlog| (1..=most).contains(backlog));
            inner.context.listen(id, backlog.ok_or(Errno::EINVAL)?)
        })
    })
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_accept(
    mctx: *mut Handle,
    sockid: c_int,
    addr: *mut sockaddr,
    addrlen: *mut socklen_t,
) -> c_int {
    // SAFETY: the same promises.
    unsafe { mtcp_accept4(mctx, sockid, addr, addrlen, 0) }
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_accept4(
    mctx: *mut Handle,
    sockid: c_int,
    addr: *mut sockaddr,
    addrlen: *mut socklen_t,
    flags: c_int,
) -> c_int {
    answer(|| {
        with(mctx, |inner| {
            let listener = id(sockid)?;
            if flags & !(SOCK_NONBLOCK | SOCK_CLOEXEC) != 0 {
                return Err(Errno::EINVAL);
            }
            if !addr.is_null() {
                // Refused before a connection is taken and lost. SAFETY: a length, says the header.
                unsafe { memory::room(addrlen) }?;
            }
            let (id, peer) = inner.context.accept(listener)?;
            if flags & SOCK_NONBLOCK != 0 {
                inner.context.set_nonblocking(id, true)?;
            }
            if !addr.is_null() {
                let domain = inner.context.domain(id)?;
                // SAFETY: room for an address of this length, says the header.
                unsafe { address::store(peer, domain, addr, addrlen) }?;
            }
            number(id)
        })
    })
}

/// See `mtcp_api.h`. Destination and port do not matter: which flows come to this context is not
/// the choice of their ports.
#[unsafe(no_mangle)]
pub extern "C" fn mtcp_init_rss(
    mctx: *mut Handle,
    saddr_base: in_addr_t,
    num_addr: c_int,
    daddr: in_addr_t,
    dport: in_addr_t,
) -> c_int {
    let _ = (daddr, dport);
    done(|| {
        with(mctx, |inner| {
            let count = u32::try_from(num_addr).ok().filter(|&count| count > 0);
            let count = count.ok_or(Errno::EINVAL)?;
            let base = u32::from_be(saddr_base);
            let any = base == libc::INADDR_ANY;
            if any && count == 1 {
                return inner.context.set_source_range(None).map(drop);
            }
            let base = if any {
                inner.first_v4.ok_or(Errno::EADDRNOTAVAIL)?
            } else {
                base.into()
            };
            let range = SourceRange {
                base: IpAddr::V4(base),
                count,
            };
            let ours = inner.context.set_source_range(Some(range))?;
            if u32::try_from(ours) != Ok(count) {
                say(&format!(
                    "mtcp_init_rss: {ours} of the {count} addresses from {base} on are ours, and used: add the others to addr"
                ));
            }
            Ok(())
        })
    })
}

/// An address to connect to.
///
/// # Safety
/// As [`address::parse`].
pub(crate) unsafe fn peer(addr: *const sockaddr, len: socklen_t) -> Result<SocketAddr> {
    // SAFETY: the caller's promise.
    unsafe { address::parse(addr, len) }.map_err(|bad| match bad {
        BadAddress::Null => Errno::EFAULT,
        BadAddress::Short => Errno::EINVAL,
        BadAddress::Family => Errno::EAFNOSUPPORT,
    })
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_connect(
    mctx: *mut Handle,
    sockid: c_int,
    addr: *const sockaddr,
    addrlen: socklen_t,
) -> c_int {
    done(|| {
        with(mctx, |inner| {
            let id = id(sockid)?;
            inner.context.kind(id)?;
            // SAFETY: an address of this length, says the header.
            let remote = unsafe { peer(addr, addrlen) }?;
            inner.context.connect(id, remote)
        })
    })
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mtcp_close(mctx: *mut Handle, sockid: c_int) -> c_int {
    done(|| with(mctx, |inner| inner.context.close(id(sockid)?)))
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mtcp_abort(mctx: *mut Handle, sockid: c_int) -> c_int {
    done(|| with(mctx, |inner| inner.context.abort(id(sockid)?)))
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mtcp_shutdown(mctx: *mut Handle, sockid: c_int, how: c_int) -> c_int {
    done(|| {
        with(mctx, |inner| {
            let id = id(sockid)?;
            inner.context.kind(id)?;
            let how = match how {
                libc::SHUT_RD => How::Read,
                libc::SHUT_WR => How::Write,
                libc::SHUT_RDWR => How::Both,
                _ => return Err(Errno::EINVAL),
            };
            inner.context.shutdown(id, how)
        })
    })
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_getsockname(
    mctx: *mut Handle,
    sockid: c_int,
    addr: *mut sockaddr,
    addrlen: *mut socklen_t,
) -> c_int {
    let look = |inner: &mut Inner, id| inner.context.local_addr(id);
    // SAFETY: room for an address of this length, says the header.
    unsafe { tell(mctx, sockid, addr, addrlen, look) }
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_getpeername(
    mctx: *mut Handle,
    sockid: c_int,
    addr: *mut sockaddr,
    addrlen: *mut socklen_t,
) -> c_int {
    let look = |inner: &mut Inner, id| inner.context.peer_addr(id);
    // SAFETY: room for an address of this length, says the header.
    unsafe { tell(mctx, sockid, addr, addrlen, look) }
}

/// Gives the caller one of the socket's addresses.
///
/// # Safety
/// As [`address::store`].
unsafe fn tell(
    mctx: *mut Handle,
    sockid: c_int,
    addr: *mut sockaddr,
    addrlen: *mut socklen_t,
    look: impl FnOnce(&mut Inner, SocketId) -> Result<std::net::SocketAddr>,
) -> c_int {
    done(|| {
        with(mctx, |inner| {
            let id = id(sockid)?;
            let found = look(inner, id)?;
            let domain = inner.context.domain(id)?;
            // SAFETY: the caller's promise.
            unsafe { address::store(found, domain, addr, addrlen) }
        })
    })
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_pipe(mctx: *mut Handle, pipeid: *mut c_int) -> c_int {
    done(|| {
        with(mctx, |inner| {
            if pipeid.is_null() {
                return Err(Errno::EFAULT);
            }
            let (reader, writer) = inner.context.pipe()?;
            // SAFETY: room for two numbers, says the header.
            unsafe {
                memory::store(
                    pipeid.cast::<[c_int; 2]>(),
                    [number(reader)?, number(writer)?],
                )
            }
        })
    })
}
