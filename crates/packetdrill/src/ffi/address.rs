//! Socket addresses, in and out.

use std::net::SocketAddr;

use libc::{EAFNOSUPPORT, sockaddr, socklen_t};
use mtcp::posix::address::{self, BadAddress};
use mtcp::{Domain, Errno};

/// The address at `addr`.
///
/// # Safety
/// `addr`, unless NULL, points to `len` readable bytes.
pub(super) unsafe fn parse(addr: *const sockaddr, len: socklen_t) -> Result<SocketAddr, Errno> {
    // SAFETY: the caller's promise.
    let parsed = unsafe { address::parse(addr, len) };
    parsed.map_err(|bad| match bad {
        BadAddress::Null => Errno::EFAULT,
        BadAddress::Short => Errno::EINVAL,
        BadAddress::Family => Errno(EAFNOSUPPORT),
    })
}

/// Puts `addr` where the caller wants it, as much as there is room for, and in `*len` how much it
/// is.
///
/// # Safety
/// `len`, unless NULL, points to a length, and `to`, unless NULL, to as many writable bytes as it
/// says.
pub(super) unsafe fn store(
    addr: SocketAddr,
    to: *mut sockaddr,
    len: *mut socklen_t,
) -> Result<(), Errno> {
    if to.is_null() || len.is_null() {
        return Ok(());
    }
    let domain = match addr {
        SocketAddr::V4(_) => Domain::V4,
        SocketAddr::V6(_) => Domain::V6,
    };
    // SAFETY: the caller's promise.
    unsafe { address::store(addr, domain, to, len) }
}
