//! The words of rules.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::credentials::Credentials;

/// Where names of users and groups are looked up.
pub trait Names {
    /// The id of a user.
    fn user(&self, name: &str) -> Option<u32>;
    /// The id of a group.
    fn group(&self, name: &str) -> Option<u32>;
}

/// Nobody has a name: rules have numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNames;

impl Names for NoNames {
    fn user(&self, _: &str) -> Option<u32> {
        None
    }

    fn group(&self, _: &str) -> Option<u32> {
        None
    }
}

/// Whom a rule names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Everyone,
    /// Only root, whom no rule has to name.
    None,
    User(u32),
    Group(u32),
}

impl Who {
    pub(super) fn names(self, who: &Credentials) -> bool {
        match self {
            Self::Everyone => true,
            Self::None => false,
            Self::User(uid) => who.uid == uid,
            Self::Group(gid) => who.is_in(gid),
        }
    }

    /// `everyone`, `none`, a user, or `@` and a group, by name or number.
    pub(super) fn parse(word: &str, names: &dyn Names) -> Result<Self, String> {
        match (word, word.strip_prefix('@')) {
            ("everyone", _) => Ok(Self::Everyone),
            ("none", _) => Ok(Self::None),
            (_, Some(group)) => group
                .parse()
                .ok()
                .or_else(|| names.group(group))
                .map(Self::Group)
                .ok_or_else(|| format!("there is no group '{group}': see 'getent group'")),
            (user, None) => user
                .parse()
                .ok()
                .or_else(|| names.user(user))
                .map(Self::User)
                .ok_or_else(|| {
                    format!("there is no user '{user}': see 'getent passwd', or write @GROUP")
                }),
        }
    }
}

/// Addresses that a rule names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Addresses {
    All,
    /// The network part is this long, bits.
    Network(IpAddr, u8),
}

impl Addresses {
    /// Whether all that `wanted` stands for is named.
    pub(super) fn cover(self, wanted: IpAddr) -> bool {
        match self {
            Self::All => true,
            Self::Network(IpAddr::V4(_), 0) => wanted.is_ipv4(),
            Self::Network(..) => !wanted.is_unspecified() && self.overlap(wanted),
        }
    }

    /// Whether something that `wanted` stands for is named.
    pub(super) fn overlap(self, wanted: IpAddr) -> bool {
        match (self, wanted) {
            (Self::All, _) => true,
            // `::` takes IPv4, too.
            (_, IpAddr::V6(all)) if all.is_unspecified() => true,
            (Self::Network(IpAddr::V4(_), _), IpAddr::V4(all)) if all.is_unspecified() => true,
            (Self::Network(IpAddr::V4(network), length), IpAddr::V4(one)) => {
                let shift = 32 - u32::from(length.min(32));
                let bits = |ip: std::net::Ipv4Addr| u64::from(u32::from(ip)) >> shift;
                bits(network) == bits(one)
            }
            (Self::Network(IpAddr::V6(network), length), IpAddr::V6(one)) => {
                let shift = 128 - u32::from(length.min(128));
                let bits = |ip| u128::from(ip).checked_shr(shift).unwrap_or(0);
                bits(network) == bits(one)
            }
            _ => false,
        }
    }

    /// `*`, an address, or a network with the length of its network part.
    pub(super) fn parse(word: &str) -> Result<Self, String> {
        let wrong = || format!("'{word}' is no address: write *, 10.0.0.2, 10.0.0.0/24 or fd00::2");
        if word == "*" {
            return Ok(Self::All);
        }
        let (address, length) = match word.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (word, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let address = address.to_canonical();
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            Some(length) => length.parse().map_err(|_| wrong())?,
            None => most,
        };
        if length > most {
            return Err(format!(
                "the network part of '{word}' is not 0 to {most} bits"
            ));
        }
        if address.is_unspecified() && length != 0 {
            return Err(format!(
                "'{word}' is the address of nobody: write * for all"
            ));
        }
        Ok(Self::Network(address, length))
    }
}

/// Ports that a rule names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ports(RangeInclusive<u16>);

impl Ports {
    pub(super) fn contain(&self, port: u16) -> bool {
        self.0.contains(&port)
    }

    /// `*`, a port, or `FIRST-LAST`.
    pub(super) fn parse(word: &str) -> Result<Self, String> {
        if word == "*" {
            return Ok(Self(1..=u16::MAX));
        }
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(Self(first..=last)),
            _ => Err(format!(
                "'{word}' is no port: write *, 80, or 8000-8999, and a comma between several"
            )),
        }
    }
}

/// A word of several, with commas between them.
pub(super) fn list<T>(
    word: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    word.split(',').map(parse).collect()
}

/// A count, or bytes with K, M or G.
pub(super) fn amount(word: &str) -> Result<u64, String> {
    let (digits, shift) = match word.as_bytes().last() {
        Some(b'K' | b'k') => (&word[..word.len() - 1], 10),
        Some(b'M' | b'm') => (&word[..word.len() - 1], 20),
        Some(b'G' | b'g') => (&word[..word.len() - 1], 30),
        _ => (word, 0),
    };
    let amount = digits.parse::<u64>().ok();
    amount
        .and_then(|amount| amount.checked_mul(1 << shift))
        .ok_or_else(|| format!("'{word}' is no number: write 1000, or 64M"))
}
