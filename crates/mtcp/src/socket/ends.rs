//! The two addresses of a socket, small where they are of IPv4.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Both, as the application sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    V4(Short),
    /// IPv4-mapped addresses of IPv6 (RFC 4291 §2.5.5.2).
    Mapped(Short),
    /// Local and remote.
    V6(Box<[SocketAddr; 2]>),
}

/// Addresses and ports of IPv4: local and remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Short {
    addresses: [u32; 2],
    ports: [u16; 2],
}

impl Short {
    fn of(ends: [SocketAddrV4; 2]) -> Self {
        Self {
            addresses: ends.map(|end| end.ip().to_bits()),
            ports: ends.map(|end| end.port()),
        }
    }

    fn ends(self) -> [SocketAddrV4; 2] {
        let Self {
            addresses: [local, remote],
            ports: [local_port, remote_port],
        } = self;
        [
            SocketAddrV4::new(Ipv4Addr::from_bits(local), local_port),
            SocketAddrV4::new(Ipv4Addr::from_bits(remote), remote_port),
        ]
    }
}

fn mapped(end: SocketAddrV4) -> SocketAddr {
    SocketAddrV6::new(end.ip().to_ipv6_mapped(), end.port(), 0, 0).into()
}

/// The end that `end` stands for, if that is all it says.
fn unmapped(end: SocketAddr) -> Option<SocketAddrV4> {
    let SocketAddr::V6(v6) = end else { return None };
    let v4 = SocketAddrV4::new(Ipv6Addr::to_ipv4_mapped(v6.ip())?, v6.port());
    (mapped(v4) == end).then_some(v4)
}

impl Ends {
    pub(crate) fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        if let (SocketAddr::V4(local), SocketAddr::V4(remote)) = (local, remote) {
            return Self::V4(Short::of([local, remote]));
        }
        match (unmapped(local), unmapped(remote)) {
            (Some(local), Some(remote)) => Self::Mapped(Short::of([local, remote])),
            _ => Self::V6(Box::new([local, remote])),
        }
    }

    fn both(&self) -> [SocketAddr; 2] {
        match self {
            Self::V4(short) => short.ends().map(SocketAddr::V4),
            Self::Mapped(short) => short.ends().map(mapped),
            Self::V6(ends) => **ends,
        }
    }

    pub(crate) fn local(&self) -> SocketAddr {
        let [local, _] = self.both();
        local
    }

    pub(crate) fn remote(&self) -> SocketAddr {
        let [_, remote] = self.both();
        remote
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_keep_what_they_are() {
        let ends = [
            ("192.0.2.1:80", "198.51.100.7:1234", true),
            ("[::ffff:192.0.2.1]:80", "[::ffff:198.51.100.7]:9", true),
            ("[2001:db8::1]:80", "[2001:db8::2]:9", false),
            ("[::]:80", "[::ffff:198.51.100.7]:9", false),
        ];
        for (local, remote, is_short) in ends {
            let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
            let ends = Ends::new(local, remote);
            assert_eq!((ends.local(), ends.remote()), (local, remote));
            assert_eq!(!matches!(ends, Ends::V6(_)), is_short);
        }
    }

    #[test]
    fn a_scope_is_kept() {
        let v6 = SocketAddrV6::new(Ipv4Addr::LOCALHOST.to_ipv6_mapped(), 1, 0, 3).into();
        assert_eq!(Ends::new(v6, v6).local(), v6);
    }
}
