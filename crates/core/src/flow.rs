//! From the addresses of a segment to what it belongs to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

mod kept;
mod sip;
mod table;
mod watcher;

pub(crate) use kept::{Kept, LongKeys};
pub(crate) use sip::Sip13;
pub use table::{Digest, FlowHash, FlowTable, Guess};

/// The two highest bits of an id say what it names; the rest is a slot.
pub const TAG_SHIFT: u32 = 30;
/// Tag of the slots of connections (control blocks).
pub const CONNECTION: u32 = 0;
/// Tag of half-open records.
pub const HALF_OPEN: u32 = 1;
/// Tag of TIME_WAIT records.
pub const TIME_WAIT: u32 = 2;

/// The id of a slot of a kind.
pub const fn id(tag: u32, slot: u32) -> u32 {
    tag << TAG_SHIFT | slot & ((1 << TAG_SHIFT) - 1)
}

/// What kind of thing an id names: below 4.
pub const fn tag(id: u32) -> usize {
    (id >> TAG_SHIFT) as usize
}

/// Which slot of its kind an id names.
pub const fn index(id: u32) -> usize {
    (id & ((1 << TAG_SHIFT) - 1)) as usize
}

/// The addresses and ports of a connection. IPv4 addresses are kept IPv4-mapped; input drops IPv6
/// packets with such addresses, so that the two families cannot be taken for one another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct FlowKey {
    local: [u8; 16],
    remote: [u8; 16],
    /// The local one above the remote one. Compared and hashed as one number, so kept as one: what
    /// is written in two halves and read as a whole waits until both have reached the cache.
    ports: u32,
}

const _: () = assert!(size_of::<FlowKey>() == 36);

/// What is in front of an IPv4 address in an IPv6 address that stands for it (RFC 4291 §2.5.5.2).
const MAPPED: u128 = 0xffff;

#[inline(always)]
fn octets(addr: IpAddr) -> [u8; 16] {
    match addr {
        IpAddr::V4(v4) => (MAPPED << 32 | u128::from(v4.to_bits())).to_be_bytes(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

#[inline(always)]
fn is_mapped(octets: [u8; 16]) -> bool {
    u128::from_be_bytes(octets) >> 32 == MAPPED
}

#[inline]
fn address(octets: [u8; 16]) -> IpAddr {
    let bits = u128::from_be_bytes(octets);
    if is_mapped(octets) {
        Ipv4Addr::from_bits(bits as u32).into()
    } else {
        Ipv6Addr::from_bits(bits).into()
    }
}

impl FlowKey {
    /// A key that no segment can have.
    pub const NONE: Self = Self {
        local: [0; 16],
        remote: [0; 16],
        ports: 0,
    };

    /// The key of the segments from `remote` to `local`.
    #[inline]
    pub fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        Self::between(local.ip(), local.port(), remote.ip(), remote.port())
    }

    /// The same from its parts.
    #[inline(always)]
    pub fn between(local: IpAddr, local_port: u16, remote: IpAddr, remote_port: u16) -> Self {
        Self {
            local: octets(local),
            remote: octets(remote),
            ports: u32::from(local_port) << 16 | u32::from(remote_port),
        }
    }

    /// Our end.
    #[inline]
    pub fn local(&self) -> SocketAddr {
        SocketAddr::new(address(self.local), (self.ports >> 16) as u16)
    }

    /// The other end.
    #[inline]
    pub fn remote(&self) -> SocketAddr {
        SocketAddr::new(address(self.remote), self.ports as u16)
    }

    /// Whether both keys are of the same two hosts.
    #[inline]
    pub fn has_hosts_of(&self, other: &Self) -> bool {
        self.local == other.local && self.remote == other.remote
    }

    /// The same but for the local port.
    #[inline(always)]
    pub fn with_local_port(mut self, port: u16) -> Self {
        self.ports = u32::from(port) << 16 | self.ports & 0xffff;
        self
    }

    /// What tells pairs of hosts of two networks apart: both addresses differ in their ends.
    #[inline]
    pub fn host_ends(&self) -> u8 {
        self.local[15].wrapping_add(self.remote[15])
    }

    /// Whether the connection runs over IPv4.
    #[inline(always)]
    pub fn is_ipv4(&self) -> bool {
        is_mapped(self.local)
    }

    /// All of it, for keyed hashes.
    pub(crate) fn bytes(&self) -> [u8; 36] {
        let mut bytes = [0; 36];
        bytes[..16].copy_from_slice(&self.local);
        bytes[16..32].copy_from_slice(&self.remote);
        bytes[32..].copy_from_slice(&self.ports.to_be_bytes());
        bytes
    }

    /// The key with these [`bytes`](Self::bytes).
    pub(crate) fn from_bytes(bytes: &[u8; 36]) -> Self {
        let mut key = Self::NONE;
        key.local.copy_from_slice(&bytes[..16]);
        key.remote.copy_from_slice(&bytes[16..32]);
        key.ports = u32::from_be_bytes([bytes[32], bytes[33], bytes[34], bytes[35]]);
        key
    }

    /// Its hash. That of a key of IPv4 is of what tells it from others, and of another length: the
    /// two cannot be taken for one another.
    #[inline(always)]
    fn hash(&self, hasher: &Sip13) -> u64 {
        if self.is_ipv4() {
            // Bytes, as they lie in a packet.
            let last =
                |octets: [u8; 16]| u64::from((u128::from_be_bytes(octets) as u32).swap_bytes());
            let addresses = last(self.remote) << 32 | last(self.local);
            hasher.hash([addresses], self.ports.to_be_bytes())
        } else {
            self.long_hash(hasher)
        }
    }

    #[inline(never)]
    fn long_hash(&self, hasher: &Sip13) -> u64 {
        let halves = |octets: [u8; 16]| {
            let octets = u128::from_le_bytes(octets);
            [octets as u64, (octets >> 64) as u64]
        };
        let ([a, b], [c, d]) = (halves(self.local), halves(self.remote));
        hasher.hash([a, b, c, d], self.ports.to_be_bytes())
    }
}

impl fmt::Debug for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}<-{}", self.local(), self.remote())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use siphasher::sip::SipHasher13;

    use super::*;

    pub(crate) fn key(port: u16) -> FlowKey {
        FlowKey::new(
            "192.0.2.1:80".parse().unwrap(),
            SocketAddr::new("198.51.100.7".parse().unwrap(), port),
        )
    }

    #[test]
    fn keys_keep_both_families() {
        let v4 = key(9);
        assert_eq!(
            (v4.local().to_string(), v4.remote().to_string()),
            ("192.0.2.1:80".into(), "198.51.100.7:9".into())
        );
        let v6 = FlowKey::new(
            "[2001:db8::1]:80".parse().unwrap(),
            "[2001:db8::2]:9".parse().unwrap(),
        );
        assert_eq!(v6.remote(), "[2001:db8::2]:9".parse().unwrap());
        assert!(v4.is_ipv4() && !v6.is_ipv4());
    }

    #[test]
    fn the_hash_is_of_what_tells_keys_apart() {
        let secret = std::array::from_fn(|i| i as u8);
        let (ours, known) = (Sip13::new(&secret), SipHasher13::new_with_key(&secret));
        let bytes = [192, 0, 2, 1, 198, 51, 100, 7, 0, 80, 0, 9];
        assert_eq!(key(9).hash(&ours), known.hash(&bytes));
        let v6 = FlowKey::new(
            "[2001:db8::1]:80".parse().unwrap(),
            "[2001:db8::2]:9".parse().unwrap(),
        );
        assert_eq!(v6.hash(&ours), known.hash(&v6.bytes()));
    }

    #[test]
    fn ids_carry_their_kind() {
        let time_wait = id(TIME_WAIT, 5);
        assert_eq!((tag(time_wait), index(time_wait)), (TIME_WAIT as usize, 5));
        assert_eq!(id(CONNECTION, 5), 5);
        assert_eq!(tag(id(HALF_OPEN, u32::MAX)), HALF_OPEN as usize);
    }
}
