//! From the addresses of a segment to what it belongs to.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use hashbrown::HashTable;
use siphasher::sip::SipHasher13;

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

/// The addresses and ports of a connection. IPv4 addresses are kept IPv4-mapped; input drops IPv6 packets with such addresses, so that
/// the two families cannot be taken for one another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FlowKey {
    local: [u8; 16],
    remote: [u8; 16],
    local_port: u16,
    remote_port: u16,
}

const _: () = assert!(size_of::<FlowKey>() == 36);

fn octets(addr: IpAddr) -> [u8; 16] {
    match addr {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

fn address(octets: [u8; 16]) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(octets)).to_canonical()
}

impl FlowKey {
    /// A key that no segment can have.
    pub const NONE: Self = Self {
        local: [0; 16],
        remote: [0; 16],
        local_port: 0,
        remote_port: 0,
    };

    /// The key of the segments from `remote` to `local`.
    pub fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        Self {
            local: octets(local.ip()),
            remote: octets(remote.ip()),
            local_port: local.port(),
            remote_port: remote.port(),
        }
    }

    /// Our end.
    pub fn local(&self) -> SocketAddr {
        SocketAddr::new(address(self.local), self.local_port)
    }

    /// The other end.
    pub fn remote(&self) -> SocketAddr {
        SocketAddr::new(address(self.remote), self.remote_port)
    }

    /// Whether the connection runs over IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.local
            .starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])
    }

    /// All of it, for keyed hashes.
    pub(crate) fn bytes(&self) -> [u8; 36] {
        let mut bytes = [0; 36];
        bytes[..16].copy_from_slice(&self.local);
        bytes[16..32].copy_from_slice(&self.remote);
        bytes[32..34].copy_from_slice(&self.local_port.to_be_bytes());
        bytes[34..].copy_from_slice(&self.remote_port.to_be_bytes());
        bytes
    }
}

impl fmt::Debug for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}<-{}", self.local(), self.remote())
    }
}

/// 32 bits of hash and the id. The owner keeps the keys; with the hash at hand, a lookup touches a key only when it is very probably the
/// right one, and moving entries (which room reserved beforehand makes rare) touches none.
#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u32,
    id: u32,
}

/// The hash of a [`FlowKey`] under the secret of one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowHash(u32);

impl FlowHash {
    /// The table takes its position from the low bits and its tag from the highest: 32 bits are enough for both if spread over both ends.
    fn spread(self) -> u64 {
        u64::from(self.0) << 32 | u64::from(self.0)
    }
}

/// Ids by the hash of their keys: SipHash-1-3 with a secret key, so that chosen addresses and ports cannot make it slow.
///
/// All room is reserved when it is made, for twice the expected entries: entries are never moved while the table is at most half full,
/// so no insertion is slower than others.
pub struct FlowTable {
    entries: HashTable<Entry>,
    hasher: SipHasher13,
}

impl fmt::Debug for FlowTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the hasher: it holds the secret.
        f.debug_struct("FlowTable")
            .field("entries", &self.entries.len())
            .finish_non_exhaustive()
    }
}

impl FlowTable {
    /// For `max` ids, hashed with a key from `secret`.
    pub fn new(max: usize, secret: &[u8; 32]) -> Self {
        let mut key = [0; 16];
        key.copy_from_slice(&secret[..16]);
        Self {
            entries: HashTable::with_capacity(max.saturating_mul(2)),
            hasher: SipHasher13::new_with_key(&key),
        }
    }

    /// The hash to find, insert and remove `key` with.
    pub fn hash(&self, key: &FlowKey) -> FlowHash {
        let hash = self.hasher.hash(&key.bytes());
        FlowHash((hash >> 32) as u32 ^ hash as u32)
    }

    /// The id inserted with `hash` whose key is the wanted one, says `is_key`.
    pub fn find(&self, hash: FlowHash, mut is_key: impl FnMut(u32) -> bool) -> Option<u32> {
        self.entries
            .find(hash.spread(), |entry| {
                entry.hash == hash.0 && is_key(entry.id)
            })
            .map(|entry| entry.id)
    }

    /// Adds `id`; the caller made sure that its key is not in the table.
    pub fn insert(&mut self, hash: FlowHash, id: u32) {
        let entry = Entry { hash: hash.0, id };
        self.entries
            .insert_unique(hash.spread(), entry, |entry| FlowHash(entry.hash).spread());
    }

    /// Replaces `old` (inserted with `hash`) by `new`, which has the same key. False if it was not there.
    pub fn replace(&mut self, hash: FlowHash, old: u32, new: u32) -> bool {
        match self
            .entries
            .find_mut(hash.spread(), |entry| entry.id == old)
        {
            Some(entry) => {
                entry.id = new;
                true
            }
            None => false,
        }
    }

    /// Takes `id` out; false if it was not inserted with `hash`.
    pub fn remove(&mut self, hash: FlowHash, id: u32) -> bool {
        match self
            .entries
            .find_entry(hash.spread(), |entry| entry.id == id)
        {
            Ok(entry) => {
                entry.remove();
                true
            }
            Err(_) => false,
        }
    }

    /// Ids in the table.
    pub fn count(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn key(port: u16) -> FlowKey {
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
    fn the_hash_depends_on_the_secret_and_on_every_part_of_the_key() {
        let table = FlowTable::new(8, &[1; 32]);
        let other = FlowTable::new(8, &[2; 32]);
        assert_ne!(table.hash(&key(9)), other.hash(&key(9)));
        assert_ne!(table.hash(&key(9)), table.hash(&key(10)));
        let swapped = FlowKey::new(key(80).remote(), key(80).local());
        assert_ne!(table.hash(&key(80)), table.hash(&swapped));
    }

    #[test]
    fn ids_carry_their_kind() {
        let time_wait = id(TIME_WAIT, 5);
        assert_eq!((tag(time_wait), index(time_wait)), (TIME_WAIT as usize, 5));
        assert_eq!(id(CONNECTION, 5), 5);
        assert_eq!(tag(id(HALF_OPEN, u32::MAX)), HALF_OPEN as usize);
    }

    #[test]
    fn room_for_the_configured_entries_never_moves() {
        let mut table = FlowTable::new(1000, &[0; 32]);
        let before = table.entries.capacity();
        for round in 0..20u16 {
            for i in 0..1000 {
                table.insert(table.hash(&key(round * 1000 + i)), u32::from(i));
            }
            for i in 0..1000 {
                assert!(table.remove(table.hash(&key(round * 1000 + i)), u32::from(i)));
            }
        }
        assert_eq!(table.entries.capacity(), before);
    }

    proptest! {
        #[test]
        fn behaves_like_a_map(ops in prop::collection::vec((0u8..3, 0u16..40, 0u32..1000), 0..300)) {
            let mut table = FlowTable::new(4, &[3; 32]);
            let mut oracle = BTreeMap::new();
            // The owner's column of keys.
            let mut keys = BTreeMap::new();
            for (n, (op, port, slot)) in ops.into_iter().enumerate() {
                let hash = table.hash(&key(port));
                let found = table.find(hash, |id| keys.get(&id) == Some(&port));
                prop_assert_eq!(found, oracle.get(&port).copied());
                let new = (slot * 1000 + n as u32) % (1 << 30);
                match (op, found) {
                    (0, None) => {
                        table.insert(hash, new);
                        keys.insert(new, port);
                        oracle.insert(port, new);
                    }
                    (1, Some(old)) => {
                        prop_assert!(table.remove(hash, old));
                        oracle.remove(&port);
                    }
                    (2, Some(old)) => {
                        prop_assert!(table.replace(hash, old, new));
                        keys.insert(new, port);
                        oracle.insert(port, new);
                    }
                    _ => prop_assert!(!table.remove(hash, u32::MAX)),
                }
                prop_assert_eq!(table.count(), oracle.len());
            }
        }
    }
}
