//! Addresses and URLs on the command line.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use crate::fail::Failure;

/// An address, with the length of its network part where mTCP shall own it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The address.
    pub(crate) ip: IpAddr,
    /// Bits of the network part, if given.
    pub(crate) prefix_len: Option<u8>,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (ip, length) = match text.split_once('/') {
            Some((ip, length)) => (ip, Some(length)),
            None => (text, None),
        };
        let ip: IpAddr = ip
            .parse()
            .map_err(|_| format!("'{ip}' is no IPv4 or IPv6 address"))?;
        let most = if ip.is_ipv4() { 32 } else { 128 };
        let prefix_len = match length.map(str::parse::<u8>) {
            None => None,
            Some(Ok(length)) if length <= most => Some(length),
            Some(_) => {
                return Err(format!(
                    "the network part of '{text}' is not 0 to {most} bits"
                ));
            }
        };
        Ok(Self { ip, prefix_len })
    }
}

/// What the stack has of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// The host's, which the kernel has, too.
    Host,
    /// This one.
    Address(Address),
}

impl Own {
    /// The address, if one is named.
    pub(crate) fn address(&self) -> Option<&Address> {
        match self {
            Self::Host => None,
            Self::Address(address) => Some(address),
        }
    }
}

impl FromStr for Own {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "host" => Ok(Self::Host),
            _ => text.parse().map(Self::Address),
        }
    }
}

/// What to load: `http://HOST[:PORT]/PATH`, or `HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    /// HOST as written, with brackets around IPv6.
    pub(crate) host: String,
    /// The port.
    pub(crate) port: u16,
    /// Path and query.
    pub(crate) target: String,
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some((scheme, _)) => {
                return Err(format!("'{scheme}' URLs are not spoken: use http://"));
            }
            None => text,
        };
        let rest = rest.split('#').next().unwrap_or(rest);
        let (authority, target) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let (host, port) = authority_parts(authority)
            .ok_or_else(|| format!("'{text}' is no URL: write http://HOST[:PORT]/PATH"))?;
        if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("'{target}' must be percent-encoded"));
        }
        let target = if target.starts_with('/') {
            target.to_owned()
        } else {
            format!("/{target}")
        };
        Ok(Self {
            host: host.to_owned(),
            port,
            target,
        })
    }
}

/// Host (with brackets) and port of `HOST[:PORT]`.
fn authority_parts(authority: &str) -> Option<(&str, u16)> {
    let split = if authority.starts_with('[') {
        authority.find(']')? + 1
    } else {
        authority.find(':').unwrap_or(authority.len())
    };
    let (host, port) = authority.split_at_checked(split)?;
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok()?,
        None if port.is_empty() => 80,
        None => return None,
    };
    let valid =
        !host.is_empty() && !host.contains('@') && host.bytes().all(|byte| byte.is_ascii_graphic());
    valid.then_some((host, port))
}

impl Url {
    /// Where to connect to: the literal, or what the kernel's resolver says, of the family that
    /// `wanted` has addresses of.
    pub(crate) fn resolve(&self, wanted: impl Fn(&IpAddr) -> bool) -> anyhow::Result<SocketAddr> {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(ip) = bare.parse::<IpAddr>() {
            return Ok(SocketAddr::new(ip, self.port));
        }
        let found = (bare, self.port).to_socket_addrs().map_err(|error| {
            Failure::error(
                format!("cannot resolve '{bare}': {error}"),
                "write an IPv4 or IPv6 address instead of the name",
            )
        })?;
        let mut found = found.filter(|address| wanted(&address.ip()));
        found.next().ok_or_else(|| {
            Failure::error(
                format!("'{bare}' has no address that our own addresses can reach"),
                "add an --addr of its family",
            )
        })
    }

    /// The value of Host.
    pub(crate) fn authority(&self) -> String {
        if self.port == 80 {
            self.host.clone()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// The address `offset` after `ip`.
pub(crate) fn nth_after(ip: IpAddr, offset: u32) -> Option<IpAddr> {
    match ip {
        IpAddr::V4(ip) => ip
            .to_bits()
            .checked_add(offset)
            .map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))),
        IpAddr::V6(ip) => ip
            .to_bits()
            .checked_add(offset.into())
            .map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(
            "10.0.0.2/24".parse(),
            Ok(Address {
                ip: IpAddr::from([10, 0, 0, 2]),
                prefix_len: Some(24)
            })
        );
        assert_eq!(
            "::1".parse(),
            Ok(Address {
                ip: Ipv6Addr::LOCALHOST.into(),
                prefix_len: None
            })
        );
        for bad in [
            "",
            "10.0.0",
            "10.0.0.1/33",
            "fd00::1/129",
            "10.0.0.1/x",
            "10.0.0.1/",
        ] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }

    #[test]
    fn urls() {
        let url = |host: &str, port, target: &str| {
            Ok(Url {
                host: host.into(),
                port,
                target: target.into(),
            })
        };
        assert_eq!("http://10.0.0.1/a?b#c".parse(), url("10.0.0.1", 80, "/a?b"));
        assert_eq!("10.0.0.1:9000".parse(), url("10.0.0.1", 9000, "/"));
        assert_eq!("HTTP://[fd00::1]:81".parse(), url("[fd00::1]", 81, "/"));
        assert_eq!("http://host?x".parse(), url("host", 80, "/?x"));
        for bad in [
            "https://a/",
            "http://",
            "http://a:b/",
            "http://a:99999/",
            "http://[::1/",
            "http://[::1]x/",
            "http://u@h/",
            "http://a/b c",
            "",
        ] {
            assert!(bad.parse::<Url>().is_err(), "{bad}");
        }
    }

    #[test]
    fn literals_resolve_without_asking() {
        let url: Url = "http://[fd00::1]:81/".parse().unwrap();
        assert_eq!(
            url.resolve(|_| true).unwrap(),
            "[fd00::1]:81".parse().unwrap()
        );
        assert_eq!(url.authority(), "[fd00::1]:81");
    }

    #[test]
    fn next_addresses() {
        assert_eq!(
            nth_after(IpAddr::from([10, 0, 0, 255]), 1),
            Some(IpAddr::from([10, 0, 1, 0]))
        );
        assert_eq!(nth_after(IpAddr::from([255, 255, 255, 255]), 1), None);
    }
}
