//! From the addresses of a segment to what it belongs to.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ring::region::{Column, PagePolicy};
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
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowKey {
    local: [u8; 16],
    remote: [u8; 16],
    local_port: u16,
    remote_port: u16,
}

const _: () = assert!(size_of::<FlowKey>() == 36);

/// What is in front of an IPv4 address in an IPv6 address that stands for it (RFC 4291 §2.5.5.2).
const MAPPED: u128 = 0xffff;

#[inline]
fn octets(addr: IpAddr) -> [u8; 16] {
    match addr {
        IpAddr::V4(v4) => (MAPPED << 32 | u128::from(v4.to_bits())).to_be_bytes(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

#[inline]
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
        local_port: 0,
        remote_port: 0,
    };

    /// The key of the segments from `remote` to `local`.
    #[inline]
    pub fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        Self::between(local.ip(), local.port(), remote.ip(), remote.port())
    }

    /// The same from its parts.
    #[inline]
    pub fn between(local: IpAddr, local_port: u16, remote: IpAddr, remote_port: u16) -> Self {
        Self {
            local: octets(local),
            remote: octets(remote),
            local_port,
            remote_port,
        }
    }

    /// Our end.
    #[inline]
    pub fn local(&self) -> SocketAddr {
        SocketAddr::new(address(self.local), self.local_port)
    }

    /// The other end.
    #[inline]
    pub fn remote(&self) -> SocketAddr {
        SocketAddr::new(address(self.remote), self.remote_port)
    }

    /// Whether the connection runs over IPv4.
    pub fn is_ipv4(&self) -> bool {
        is_mapped(self.local)
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

    /// The key with these [`bytes`](Self::bytes).
    pub(crate) fn from_bytes(bytes: &[u8; 36]) -> Self {
        let mut key = Self::NONE;
        key.local.copy_from_slice(&bytes[..16]);
        key.remote.copy_from_slice(&bytes[16..32]);
        key.local_port = u16::from_be_bytes([bytes[32], bytes[33]]);
        key.remote_port = u16::from_be_bytes([bytes[34], bytes[35]]);
        key
    }

    /// All of it, if it is IPv4.
    #[inline]
    fn short(&self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&self.local[12..]);
        bytes[4..8].copy_from_slice(&self.remote[12..]);
        bytes[8..10].copy_from_slice(&self.local_port.to_be_bytes());
        bytes[10..].copy_from_slice(&self.remote_port.to_be_bytes());
        bytes
    }
}

impl fmt::Debug for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}<-{}", self.local(), self.remote())
    }
}

/// The hash of a [`FlowKey`] under the secret of one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowHash(u32);

/// What the keyed hash of a [`FlowKey`] gives: two numbers of which neither says anything about the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    /// For the flow table. Nobody outside may learn anything about it.
    pub hash: FlowHash,
    /// F of RFC 6528 §3: where sequence numbers of the flow start. The peer sees it.
    pub origin: u32,
}

/// An entry that has the hash of a key, and perhaps the key.
#[derive(Clone, Copy, Debug)]
pub struct Guess {
    /// Below `PLACES`.
    place: usize,
    /// What it names.
    pub id: u32,
}

/// Entries of a bucket.
const PLACES: usize = 7;
/// Where a bucket keeps how many entries were put behind it because it was full.
const BEHIND: usize = PLACES;

/// One cache line: hashes, with the count of entries put behind it as the last word, and ids plus one (0: free).
type Bucket = [[u32; PLACES + 1]; 2];

const _: () = assert!(size_of::<Bucket>() == 64);

/// Ids by the hash of their keys: SipHash-1-3 with a secret key, so that chosen addresses and ports cannot make it slow.
///
/// A look-up reads one cache line, which [`prefetch`](Self::prefetch) can have fetched. The owner keeps the keys; with the hash at hand, a
/// look-up touches a key only when it is very probably the right one. An entry that finds its bucket full goes to the next that is not.
///
/// There is room for twice the expected entries from the start: entries never move, so no insertion is slower than others.
pub struct FlowTable {
    buckets: Column<Bucket>,
    len: usize,
    hasher: SipHasher13,
}

impl fmt::Debug for FlowTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the hasher: it holds the secret.
        f.debug_struct("FlowTable")
            .field("entries", &self.len)
            .finish_non_exhaustive()
    }
}

/// The first place of a bucket that has this hash, `PLACES` if none does: all are compared, without a branch to guess.
#[inline(always)]
fn first_equal(hashes: &[u32; PLACES + 1], hash: FlowHash) -> usize {
    let mut equal = 1 << PLACES;
    for (place, &other) in hashes.iter().take(PLACES).enumerate() {
        equal |= u32::from(other == hash.0) << place;
    }
    equal.trailing_zeros() as usize
}

/// The place of `id` in a bucket.
fn place_in([_, ids]: &Bucket, id: u32) -> Option<usize> {
    ids.iter().position(|&other| other == id + 1)
}

/// A free place in a bucket.
fn free_in([_, ids]: &Bucket) -> Option<usize> {
    ids.iter().take(PLACES).position(|&id| id == 0)
}

impl FlowTable {
    /// For `max` ids, hashed with a key from `secret`.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(max: usize, secret: &[u8; 32], pages: PagePolicy) -> io::Result<Self> {
        let mut key = [0; 16];
        key.copy_from_slice(&secret[..16]);
        let buckets = max.saturating_mul(2).div_ceil(PLACES).next_power_of_two();
        Ok(Self {
            buckets: Column::new(buckets, pages)?,
            len: 0,
            hasher: SipHasher13::new_with_key(&key),
        })
    }

    /// The hash to find, insert and remove `key` with.
    pub fn hash(&self, key: &FlowKey) -> FlowHash {
        self.digest(key).hash
    }

    /// The same, and where its sequence numbers start.
    #[inline]
    pub fn digest(&self, key: &FlowKey) -> Digest {
        // The length is part of the hash: the two cannot be taken for one another.
        let hash = if key.is_ipv4() {
            self.hasher.hash(&key.short())
        } else {
            self.hasher.hash(&key.bytes())
        };
        Digest {
            hash: FlowHash(hash as u32),
            origin: (hash >> 32) as u32,
        }
    }

    /// The buckets to look into, each once.
    fn probe(&self, hash: FlowHash) -> impl Iterator<Item = usize> + use<> {
        let mask = self.buckets.len() - 1;
        (0..=mask).map(move |step| (hash.0 as usize).wrapping_add(step) & mask)
    }

    /// Hints the processor to load what [`find`](Self::find) will look at.
    pub fn prefetch(&self, hash: FlowHash) {
        let home = hash.0 as usize & (self.buckets.len() - 1);
        self.buckets.prefetch(home);
    }

    /// Where the home bucket has an entry with this hash, and its id: very probably the one that [`find`](Self::find) will name.
    #[inline]
    pub fn guess(&self, hash: FlowHash) -> Option<Guess> {
        let home = hash.0 as usize & (self.buckets.len() - 1);
        let [hashes, ids] = self.buckets.get(home)?;
        let place = first_equal(hashes, hash);
        let id = ids[place].checked_sub(1)?;
        Some(Guess { place, id })
    }

    /// [`find`](Self::find), which looks first where [`guess`](Self::guess) found something a moment ago.
    #[inline]
    pub fn find_guessed(
        &self,
        hash: FlowHash,
        guess: Option<Guess>,
        is_key: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        if let Some(Guess { place, id }) = guess {
            let home = hash.0 as usize & (self.buckets.len() - 1);
            let [hashes, ids] = self.buckets.get(home)?;
            if hashes[place] == hash.0 && ids[place] == id + 1 && is_key(id) {
                return Some(id);
            }
        }
        self.find(hash, is_key)
    }

    /// The id inserted with `hash` whose key is the wanted one, says `is_key`.
    pub fn find(&self, hash: FlowHash, mut is_key: impl FnMut(u32) -> bool) -> Option<u32> {
        let home = hash.0 as usize & (self.buckets.len() - 1);
        let [hashes, ids] = self.buckets.get(home)?;
        let id = ids[first_equal(hashes, hash)];
        if id != 0 && is_key(id - 1) {
            return Some(id - 1);
        }
        // The hash of a free place is 0.
        let is_alone = hashes[BEHIND] == 0 && id == 0 && hash.0 != 0;
        if is_alone {
            return None;
        }
        self.search(hash, is_key)
    }

    /// The same, at every place that it can be: the bucket is full, or two have the same hash.
    #[cold]
    fn search(&self, hash: FlowHash, mut is_key: impl FnMut(u32) -> bool) -> Option<u32> {
        for at in self.probe(hash) {
            let [hashes, ids] = self.buckets.get(at)?;
            let mut places = hashes.iter().zip(ids).take(PLACES);
            let found = places.find(|&(&other, &id)| other == hash.0 && id != 0 && is_key(id - 1));
            if let Some((_, id)) = found {
                return Some(id - 1);
            }
            if hashes[BEHIND] == 0 {
                return None;
            }
        }
        None
    }

    /// Adds `id`; the caller made sure that its key is not in the table, and that there are not more ids than it was made for.
    pub fn insert(&mut self, hash: FlowHash, id: u32) {
        for at in self.probe(hash) {
            let Some(bucket) = self.buckets.get_mut(at) else {
                return;
            };
            if let Some(place) = free_in(bucket) {
                bucket[0][place] = hash.0;
                bucket[1][place] = id + 1;
                self.len += 1;
                return;
            }
            bucket[0][BEHIND] += 1;
        }
    }

    /// The bucket and the place of `id`, inserted with `hash`.
    fn locate(&self, hash: FlowHash, id: u32) -> Option<(usize, usize)> {
        for at in self.probe(hash) {
            let bucket = self.buckets.get(at)?;
            if let Some(place) = place_in(bucket, id) {
                return Some((at, place));
            }
            if bucket[0][BEHIND] == 0 {
                return None;
            }
        }
        None
    }

    /// Replaces `old` (inserted with `hash`) by `new`, which has the same key. False if it was not there.
    pub fn replace(&mut self, hash: FlowHash, old: u32, new: u32) -> bool {
        let Some((at, place)) = self.locate(hash, old) else {
            return false;
        };
        if let Some([_, ids]) = self.buckets.get_mut(at) {
            ids[place] = new + 1;
        }
        true
    }

    /// Takes `id` out; false if it was not inserted with `hash`.
    pub fn remove(&mut self, hash: FlowHash, id: u32) -> bool {
        let Some((found, place)) = self.locate(hash, id) else {
            return false;
        };
        for at in self.probe(hash) {
            let Some([hashes, ids]) = self.buckets.get_mut(at) else {
                break;
            };
            if at == found {
                ids[place] = 0;
                hashes[place] = 0;
                break;
            }
            hashes[BEHIND] -= 1;
        }
        self.len -= 1;
        true
    }

    /// Ids in the table.
    pub fn count(&self) -> usize {
        self.len
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

    fn table(max: usize, secret: u8) -> FlowTable {
        FlowTable::new(max, &[secret; 32], PagePolicy::Small).unwrap()
    }

    #[test]
    fn the_hash_depends_on_the_secret_and_on_every_part_of_the_key() {
        let (table, other) = (table(8, 1), table(8, 2));
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

    /// However full its bucket is.
    #[test]
    fn as_many_as_were_promised_find_room_with_one_hash() {
        let mut table = table(100, 0);
        let hash = table.hash(&key(1));
        for round in 0..3 {
            for id in 0..100 {
                table.insert(hash, id);
            }
            for id in 0..100 {
                assert_eq!(table.find(hash, |other| other == id), Some(id), "{round}");
            }
            for id in 0..100 {
                assert!(table.remove(hash, id) && !table.remove(hash, id));
            }
            assert_eq!(table.find(hash, |_| true), None);
        }
        let empty = |bucket: &Bucket| bucket[0][BEHIND] == 0 && bucket[1] == [0; PLACES + 1];
        assert!(table.count() == 0 && table.buckets.iter().all(empty));
    }

    proptest! {
        #[test]
        fn behaves_like_a_map(ops in prop::collection::vec((0u8..3, 0u16..40, 0u32..1000), 0..300)) {
            let mut table = table(40, 3);
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
                    _ => prop_assert!(!table.remove(hash, u32::MAX - 1)),
                }
                prop_assert_eq!(table.count(), oracle.len());
            }
        }
    }
}
