//! Socket addresses, in and out.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use libc::{AF_INET, AF_INET6, EAFNOSUPPORT, EINVAL, sa_family_t, sockaddr, socklen_t};
use sim::calls::Errno;

use super::memory;

const V4_LEN: usize = size_of::<libc::sockaddr_in>();
const V6_LEN: usize = size_of::<libc::sockaddr_in6>();

/// The address at `addr`.
///
/// # Safety
/// `addr`, unless NULL, points to `len` readable bytes.
pub(super) unsafe fn parse(addr: *const sockaddr, len: socklen_t) -> Result<SocketAddr, Errno> {
    // SAFETY: the caller's promise.
    let bytes: &[u8] = unsafe { memory::elements(addr.cast(), len as usize) }?;
    let word = |at: usize| bytes.get(at..at + 2).and_then(|two| two.first_chunk());
    let (family, port) = (word(0).ok_or(Errno(EINVAL))?, word(2));
    let port = port.map_or(0, |port| u16::from_be_bytes(*port));
    // Both structures begin with the family and the port; then IPv4 has the address, IPv6 the flow label and the address.
    let ip: Option<IpAddr> = match i32::from(sa_family_t::from_ne_bytes(*family)) {
        AF_INET if bytes.len() >= V4_LEN => bytes
            .get(4..)
            .and_then(|rest| rest.first_chunk::<4>())
            .map(|octets| Ipv4Addr::from(*octets).into()),
        AF_INET6 => bytes
            .get(8..)
            .and_then(|rest| rest.first_chunk::<16>())
            .map(|octets| Ipv6Addr::from(*octets).into()),
        AF_INET => None,
        _ => return Err(Errno(EAFNOSUPPORT)),
    };
    Ok(SocketAddr::new(ip.ok_or(Errno(EINVAL))?, port))
}

/// Puts `addr` where the caller wants it, as much as there is room for, and in `*len` how much it is.
///
/// # Safety
/// `len`, unless NULL, points to a length, and `to`, unless NULL, to as many writable bytes as it says.
pub(super) unsafe fn store(
    addr: SocketAddr,
    to: *mut sockaddr,
    len: *mut socklen_t,
) -> Result<(), Errno> {
    if to.is_null() || len.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's promise, and it is not NULL.
    let room = unsafe { len.read_unaligned() } as usize;
    let bytes = encode(addr);
    // SAFETY: the caller's promise.
    unsafe { memory::copy_out(to.cast(), room, &bytes) }?;
    // SAFETY: the caller's promise.
    unsafe { memory::store(len, bytes.len() as socklen_t) }
}

fn encode(addr: SocketAddr) -> Vec<u8> {
    let (family, len) = match addr {
        SocketAddr::V4(_) => (AF_INET, V4_LEN),
        SocketAddr::V6(_) => (AF_INET6, V6_LEN),
    };
    let mut bytes = (family as sa_family_t).to_ne_bytes().to_vec();
    bytes.extend(addr.port().to_be_bytes());
    match addr.ip() {
        IpAddr::V4(ip) => bytes.extend(ip.octets()),
        IpAddr::V6(ip) => {
            bytes.extend([0; 4]);
            bytes.extend(ip.octets());
        }
    }
    bytes.resize(len, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(text: &str) {
        let addr: SocketAddr = text.parse().unwrap();
        let bytes = encode(addr);
        // SAFETY: the slice is readable.
        let parsed = unsafe { parse(bytes.as_ptr().cast(), bytes.len() as socklen_t) };
        assert_eq!(parsed, Ok(addr));
        // SAFETY: the slice is readable.
        let short = unsafe { parse(bytes.as_ptr().cast(), 7) };
        assert_eq!(short, Err(Errno(EINVAL)));
    }

    #[test]
    fn addresses_come_back_as_they_went() {
        round_trip("192.0.2.1:8080");
        round_trip("[2001:db8::1]:443");
    }

    #[test]
    fn other_families_are_refused() {
        let unix = [1u8, 0, b'/', 0];
        // SAFETY: the slice is readable.
        let parsed = unsafe { parse(unix.as_ptr().cast(), 4) };
        assert_eq!(parsed, Err(Errno(EAFNOSUPPORT)));
    }
}
