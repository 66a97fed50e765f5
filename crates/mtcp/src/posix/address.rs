//! Socket addresses, in and out.

use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::{Domain, Errno, Result};
use libc::{AF_INET, AF_INET6, sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

use super::memory;

const V4_LEN: usize = size_of::<sockaddr_in>();
const V6_LEN: usize = size_of::<sockaddr_in6>();

/// Why an address cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadAddress {
    /// NULL.
    Null,
    /// Shorter than its family needs.
    Short,
    /// Neither AF_INET nor AF_INET6.
    Family,
}

/// The address at `addr`.
///
/// # Safety
/// `addr`, unless NULL, points to `len` readable bytes.
pub unsafe fn parse(
    addr: *const sockaddr,
    len: socklen_t,
) -> std::result::Result<SocketAddr, BadAddress> {
    // A length above any address is one from a negative number.
    let len = i32::try_from(len)
        .ok()
        .and_then(|len| usize::try_from(len).ok());
    let len = len.unwrap_or(0).min(V6_LEN);
    // SAFETY: the caller's promise.
    let bytes = unsafe { memory::bytes(addr.cast(), len) };
    let bytes = bytes.map_err(|_| BadAddress::Null)?;
    if addr.is_null() {
        return Err(BadAddress::Null);
    }
    let Some((family, _)) = bytes.split_first_chunk() else {
        return Err(BadAddress::Short);
    };
    match i32::from(sa_family_t::from_ne_bytes(*family)) {
        AF_INET if len < V4_LEN => Err(BadAddress::Short),
        AF_INET6 if len < V6_LEN => Err(BadAddress::Short),
        // SAFETY: all of it is readable.
        AF_INET => Ok(from_v4(unsafe {
            addr.cast::<sockaddr_in>().read_unaligned()
        })),
        // SAFETY: all of it is readable.
        AF_INET6 => Ok(from_v6(unsafe {
            addr.cast::<sockaddr_in6>().read_unaligned()
        })),
        _ => Err(BadAddress::Family),
    }
}

fn from_v4(raw: sockaddr_in) -> SocketAddr {
    let ip = Ipv4Addr::from(u32::from_be(raw.sin_addr.s_addr));
    (IpAddr::V4(ip), u16::from_be(raw.sin_port)).into()
}

fn from_v6(raw: sockaddr_in6) -> SocketAddr {
    let (ip, port) = (
        Ipv6Addr::from(raw.sin6_addr.s6_addr),
        u16::from_be(raw.sin6_port),
    );
    SocketAddrV6::new(ip, port, u32::from_be(raw.sin6_flowinfo), raw.sin6_scope_id).into()
}

/// Puts `addr`, as a socket of `domain` sees it, where the caller wants it: as much as there is
/// room for, and in `*len` how much it is.
///
/// # Safety
/// `len`, unless NULL, points to a length, and `to` to as many writable bytes as it says.
pub unsafe fn store(
    addr: SocketAddr,
    domain: Domain,
    to: *mut sockaddr,
    len: *mut socklen_t,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let room = unsafe { memory::room(len) }?;
    let mut buffer = [0; V6_LEN];
    let full = encode(addr, domain, &mut buffer);
    if to.is_null() {
        return Err(Errno::EFAULT);
    }
    let value = buffer.get(..full).unwrap_or_default();
    // SAFETY: the caller's promise.
    unsafe { memory::copy_out(to.cast(), room, value) }?;
    // SAFETY: the caller's promise. It is 16 or 28.
    unsafe { memory::store(len, full as socklen_t) }
}

/// Writes a `sockaddr_in` or `sockaddr_in6` and says how long it is.
fn encode(addr: SocketAddr, domain: Domain, buffer: &mut [u8; V6_LEN]) -> usize {
    let (family, len) = match domain {
        Domain::V4 => (AF_INET, V4_LEN),
        Domain::V6 => (AF_INET6, V6_LEN),
    };
    // Both structures begin with the family and the port; then IPv4 has the address, IPv6 the flow
    // label, the address, the scope.
    buffer[..2].copy_from_slice(&(family as sa_family_t).to_ne_bytes());
    buffer[2..4].copy_from_slice(&addr.port().to_be_bytes());
    match (domain, addr) {
        (Domain::V4, _) => buffer[4..8].copy_from_slice(&v4(addr.ip()).octets()),
        (Domain::V6, SocketAddr::V4(v4)) => {
            buffer[8..24].copy_from_slice(&mapped(*v4.ip()).octets());
        }
        (Domain::V6, SocketAddr::V6(v6)) => {
            buffer[4..8].copy_from_slice(&v6.flowinfo().to_be_bytes());
            buffer[8..24].copy_from_slice(&v6.ip().octets());
            buffer[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
        }
    }
    len
}

/// RFC 4291 §2.5.5.2; the unspecified address stays what it is.
fn mapped(ip: Ipv4Addr) -> Ipv6Addr {
    if ip.is_unspecified() {
        Ipv6Addr::UNSPECIFIED
    } else {
        ip.to_ipv6_mapped()
    }
}

fn v4(ip: IpAddr) -> Ipv4Addr {
    match ip {
        IpAddr::V4(ip) => ip,
        IpAddr::V6(ip) => ip.to_ipv4_mapped().unwrap_or(Ipv4Addr::UNSPECIFIED),
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    fn round(addr: &str, domain: Domain) -> (String, socklen_t) {
        let mut buffer = [0u8; 64];
        let mut len = 64;
        // SAFETY: 64 bytes are there.
        unsafe {
            let to = buffer.as_mut_ptr().cast();
            store(addr.parse().unwrap(), domain, to, &raw mut len).unwrap();
            (parse(to, len).unwrap().to_string(), len)
        }
    }

    #[test]
    fn what_goes_out_comes_in() {
        assert_eq!(round("10.0.0.2:80", Domain::V4), ("10.0.0.2:80".into(), 16));
        assert_eq!(
            round("[fd00::2]:443", Domain::V6),
            ("[fd00::2]:443".into(), 28)
        );
        assert_eq!(
            round("10.0.0.2:80", Domain::V6),
            ("[::ffff:10.0.0.2]:80".into(), 28)
        );
    }

    #[test]
    fn short_room_cuts_and_tells() {
        let (mut buffer, mut len) = ([0xffu8; 16], 4);
        let addr = "1.2.3.4:80".parse().unwrap();
        // SAFETY: 16 bytes are there.
        unsafe { store(addr, Domain::V4, buffer.as_mut_ptr().cast(), &raw mut len) }.unwrap();
        assert_eq!((len, &buffer[..5]), (16, &[2, 0, 0, 80, 0xff][..]));
    }

    #[test]
    fn bad_addresses_are_told_apart() {
        let bytes = [9u8; 28];
        let mut v4 = bytes;
        v4[..2].copy_from_slice(&(AF_INET as u16).to_ne_bytes());
        // SAFETY: 28 bytes are there; NULL may be given.
        unsafe {
            assert_eq!(parse(ptr::null(), 16), Err(BadAddress::Null));
            assert_eq!(parse(ptr::null(), 0), Err(BadAddress::Null));
            assert_eq!(parse(v4.as_ptr().cast(), 15), Err(BadAddress::Short));
            assert_eq!(parse(v4.as_ptr().cast(), 1), Err(BadAddress::Short));
            assert_eq!(
                parse(v4.as_ptr().cast(), socklen_t::MAX),
                Err(BadAddress::Short)
            );
            assert_eq!(parse(bytes.as_ptr().cast(), 28), Err(BadAddress::Family));
            let addr = "1.2.3.4:80".parse().unwrap();
            let (to, mut len) = (ptr::null_mut(), 16);
            assert_eq!(
                store(addr, Domain::V4, to, &raw mut len),
                Err(Errno::EFAULT)
            );
            assert_eq!(
                store(addr, Domain::V4, to, ptr::null_mut()),
                Err(Errno::EFAULT)
            );
        }
    }
}
