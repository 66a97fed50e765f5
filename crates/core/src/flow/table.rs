//! The table of flows: from the hash of a key to an id, in one cache line.

use std::fmt;
use std::io;

use ring::region::{Column, PagePolicy};
use wire::steering::Steering;
use wire::syn_offload::SynOffload;
use wire::time::Instant;

use super::FlowKey;
use super::sip::Sip13;
use super::watcher::Watcher;
use crate::side_pool::SidePool;

/// The hash of a [`FlowKey`] under the secret of one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowHash(u32);

impl FlowHash {
    /// It as a number.
    pub fn bits(self) -> u32 {
        self.0
    }
}

/// What the keyed hash of a [`FlowKey`] gives: two numbers of which neither says anything about the
/// other.
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
    /// The bucket, as long as none is split.
    home: u32,
    /// Below `PLACES`.
    place: u32,
    /// What it names.
    pub id: u32,
}

/// Entries of a bucket.
const PLACES: usize = 7;
/// Where a bucket keeps the name of the one that goes on where it is full, plus one (0: none).
const MORE: usize = PLACES;
/// Entries for each bucket. Buckets that wait to be split have more, up to twice as many.
const SHARE: usize = 4;
/// Buckets from the start, at most.
const FIRST: usize = 1024;

/// One cache line: hashes, with the name of the bucket that goes on as the last word, and ids plus
/// one (0: free).
type Bucket = [[u32; PLACES + 1]; 2];

const _: () = assert!(size_of::<Bucket>() == 64);

const EMPTY: Bucket = [[0; PLACES + 1]; 2];

/// Where a bucket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Home(usize),
    /// It goes on where another is full.
    Overflow(u32),
}

/// Ids by the hash of their keys: SipHash-1-3 with a secret key, so that chosen addresses and ports
/// cannot make it slow.
///
/// A look-up reads one cache line, which [`prefetch`](Self::prefetch) can have fetched. The owner
/// keeps the keys; with the hash at hand, a look-up touches a key only when it is very probably the
/// right one. An entry that finds its bucket full goes to one linked to that.
///
/// It grows with its entries, by linear hashing: one bucket at a time is split in two, in order,
/// whenever there are too many entries for the buckets there are. So no insertion moves more than
/// the entries of a bucket, and memory is never needed twice.
pub struct FlowTable {
    buckets: Column<Bucket>,
    /// The lowest power of two that is not less than the number of buckets, less one.
    mask: usize,
    overflow: SidePool<Bucket>,
    len: usize,
    hasher: Sip13,
    /// Who has to know which flows there are.
    watcher: Option<Watcher>,
    /// What has their segments come to us, where that is not so in any case ...
    steering: Option<Box<dyn Steering>>,
    /// ... for so many.
    entered: usize,
}

impl fmt::Debug for FlowTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the hasher: it holds the secret.
        f.debug_struct("FlowTable")
            .field("entries", &self.len)
            .finish_non_exhaustive()
    }
}

/// The first place of a bucket that has this hash, `PLACES` if none does: all are compared, without
/// a branch to guess, and the last word, whose bit is set in any case, with them: processors
/// compare four at a time.
#[inline(always)]
fn first_equal(hashes: &[u32; PLACES + 1], hash: FlowHash) -> usize {
    const BITS: [u32; PLACES + 1] = [1, 2, 4, 8, 16, 32, 64, 128];
    let equal = std::array::from_fn::<u32, { PLACES + 1 }, _>(|place| {
        if hashes[place] == hash.0 {
            BITS[place]
        } else {
            0
        }
    });
    let all = equal.iter().fold(1 << PLACES, |all, bit| all | bit);
    all.trailing_zeros() as usize
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
        let most = max.div_ceil(SHARE).max(1);
        let mut buckets = Column::with_capacity(most, pages)?;
        // A power of two: none is split yet.
        let first = FIRST.min(1 << most.ilog2());
        buckets.resize(first, EMPTY);
        Ok(Self {
            buckets,
            mask: first - 1,
            overflow: SidePool::new(u32::try_from(max).unwrap_or(u32::MAX))?,
            len: 0,
            hasher: Sip13::new(&key),
            watcher: None,
            steering: None,
            entered: 0,
        })
    }

    /// What hashes begin with.
    pub(crate) fn key_state(&self) -> [u64; 4] {
        self.hasher.state()
    }

    /// Has `watcher` know of each flow that comes or goes.
    pub fn watch(&mut self, watcher: Box<dyn SynOffload>) {
        self.watcher = Some(Watcher::new(watcher));
    }

    /// The watcher, if there is one.
    pub fn watcher(&mut self) -> Option<&mut (dyn SynOffload + 'static)> {
        self.watcher.as_mut().map(Watcher::link)
    }

    /// From now on segments come to us of flows that `steering` is told.
    pub fn steer(&mut self, steering: Box<dyn Steering>) {
        self.steering = Some(steering);
    }

    /// What has segments come to us, if they do not in any case.
    pub fn steering(&mut self) -> Option<&mut (dyn Steering + 'static)> {
        self.steering.as_deref_mut()
    }

    /// Has the segments of a flow come to us, which is about to be inserted. False: there is no
    /// room for that.
    #[inline]
    #[must_use]
    pub fn enter(&mut self, key: &FlowKey) -> bool {
        self.steering.is_none() || self.tell_link(key, true)
    }

    /// Tells the link of a flow that comes or goes. False: it has no room.
    // Not inlined: every SYN would lie on what few links take.
    #[cold]
    #[inline(never)]
    fn tell_link(&mut self, key: &FlowKey, comes: bool) -> bool {
        let Some(steering) = &mut self.steering else {
            return true;
        };
        let (local, remote) = (key.local(), key.remote());
        if !comes {
            steering.leave(local, remote);
            self.entered -= 1;
            return true;
        }
        let entered = steering.enter(local, remote);
        self.entered += usize::from(entered);
        entered
    }

    /// They need not come any more: it was removed, or not inserted.
    #[inline]
    pub fn leave(&mut self, key: &FlowKey) {
        if self.steering.is_some() {
            self.tell_link(key, false);
        }
    }

    /// Has the watcher know of what ended some time ago.
    pub fn advance(&mut self, now: Instant) {
        if let Some(watcher) = &mut self.watcher {
            watcher.advance(now);
        }
    }

    /// The hash to find, insert and remove `key` with.
    #[inline(never)]
    pub fn hash(&self, key: &FlowKey) -> FlowHash {
        self.digest(key).hash
    }

    /// The same, and where its sequence numbers start.
    #[inline(always)]
    pub fn digest(&self, key: &FlowKey) -> Digest {
        let hash = key.hash(&self.hasher);
        Digest {
            hash: FlowHash(hash as u32),
            origin: (hash >> 32) as u32,
        }
    }

    /// The bucket to begin with: one that has not been split yet holds what will be in the other
    /// half, too.
    #[inline(always)]
    fn home(&self, hash: FlowHash) -> usize {
        let home = hash.0 as usize & self.mask;
        if home < self.buckets.len() {
            home
        } else {
            home & (self.mask >> 1)
        }
    }

    fn bucket(&self, at: At) -> Option<&Bucket> {
        match at {
            At::Home(index) => self.buckets.get(index),
            At::Overflow(name) => self.overflow.at(name),
        }
    }

    fn bucket_mut(&mut self, at: At) -> Option<&mut Bucket> {
        match at {
            At::Home(index) => self.buckets.get_mut(index),
            At::Overflow(name) => self.overflow.at_mut(name),
        }
    }

    /// The buckets to look into, each with where it is.
    fn probe(&self, hash: FlowHash) -> impl Iterator<Item = (At, &Bucket)> {
        let mut next = Some(At::Home(self.home(hash)));
        std::iter::from_fn(move || {
            let at = next?;
            let bucket = self.bucket(at)?;
            next = bucket[0][MORE].checked_sub(1).map(At::Overflow);
            Some((at, bucket))
        })
    }

    /// Hints the processor to load what [`find`](Self::find) will look at.
    pub fn prefetch(&self, hash: FlowHash) {
        self.buckets.prefetch(self.home(hash));
    }

    /// Where the home bucket has an entry with this hash, and its id: very probably the one that
    /// [`find`](Self::find) will name.
    #[inline]
    pub fn guess(&self, hash: FlowHash) -> Option<Guess> {
        let home = self.home(hash);
        let [hashes, ids] = self.buckets.get(home)?;
        let place = first_equal(hashes, hash);
        let id = ids[place].checked_sub(1)?;
        let (home, place) = (home as u32, place as u32);
        Some(Guess { home, place, id })
    }

    /// [`find`](Self::find), which looks first where [`guess`](Self::guess) found something a
    /// moment ago.
    #[inline]
    pub fn find_guessed(
        &self,
        hash: FlowHash,
        guess: Option<Guess>,
        is_key: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        if let Some(Guess { home, place, id }) = guess
            && let Some([hashes, ids]) = self.buckets.get(home as usize)
        {
            let place = place as usize % (PLACES + 1);
            if hashes[place] == hash.0 && ids[place] == id + 1 && is_key(id) {
                return Some(id);
            }
        }
        self.find(hash, is_key)
    }

    /// The id inserted with `hash` whose key is the wanted one, says `is_key`.
    pub fn find(&self, hash: FlowHash, mut is_key: impl FnMut(u32) -> bool) -> Option<u32> {
        let [hashes, ids] = self.buckets.get(self.home(hash))?;
        let id = ids[first_equal(hashes, hash)];
        if id != 0 && is_key(id - 1) {
            return Some(id - 1);
        }
        // The hash of a free place is 0.
        let is_alone = hashes[MORE] == 0 && id == 0 && hash.0 != 0;
        if is_alone {
            return None;
        }
        self.search(hash, is_key)
    }

    /// The same, at every place that it can be: the bucket is full, or two have the same hash.
    #[cold]
    fn search(&self, hash: FlowHash, mut is_key: impl FnMut(u32) -> bool) -> Option<u32> {
        self.probe(hash).find_map(|(_, [hashes, ids])| {
            let mut places = hashes.iter().zip(ids).take(PLACES);
            let found = places.find(|&(&other, &id)| other == hash.0 && id != 0 && is_key(id - 1));
            found.map(|(_, id)| id - 1)
        })
    }

    /// Adds `id`; the caller made sure that its key is not in the table, and that there are not
    /// more ids than it was made for.
    pub fn insert(&mut self, hash: FlowHash, id: u32) {
        if self.put(hash, id) {
            self.len += 1;
            debug_assert!(self.steering.is_none() || self.len <= self.entered);
            if let Some(watcher) = &mut self.watcher {
                watcher.enter(hash.0);
            }
        }
        if self.len > self.buckets.len() * SHARE {
            self.split();
        }
    }

    /// Puts an entry into the first free place, which is in a new bucket if all are full.
    #[inline]
    fn put(&mut self, hash: FlowHash, id: u32) -> bool {
        let mut at = At::Home(self.home(hash));
        while let Some(bucket) = self.bucket_mut(at) {
            if let Some(place) = free_in(bucket) {
                bucket[0][place] = hash.0;
                bucket[1][place] = id + 1;
                return true;
            }
            at = match bucket[0][MORE].checked_sub(1) {
                Some(name) => At::Overflow(name),
                None => match self.append(at) {
                    Some(name) => At::Overflow(name),
                    None => return false,
                },
            };
        }
        false
    }

    /// Links a new bucket to the last of a chain.
    #[cold]
    fn append(&mut self, last: At) -> Option<u32> {
        let name = self.overflow.insert(EMPTY)?;
        self.bucket_mut(last)?[0][MORE] = name + 1;
        Some(name)
    }

    /// Adds a bucket, and spreads the entries of the one whose turn it is over that and the new
    /// one.
    #[cold]
    fn split(&mut self) {
        let new = self.buckets.len();
        if self.buckets.push(EMPTY).is_err() {
            return;
        }
        if new > self.mask {
            self.mask = 2 * new - 1;
        }
        let old = new & (self.mask >> 1);
        let Some(first) = self.buckets.get_mut(old) else {
            return;
        };
        let mut bucket = std::mem::replace(first, EMPTY);
        loop {
            let [hashes, ids] = bucket;
            for (hash, id) in hashes.into_iter().zip(ids).take(PLACES) {
                if let Some(id) = id.checked_sub(1) {
                    self.put(FlowHash(hash), id);
                }
            }
            let Some(name) = hashes[MORE].checked_sub(1) else {
                return;
            };
            bucket = self.overflow.at(name).copied().unwrap_or(EMPTY);
            self.overflow.free(name);
        }
    }

    /// The bucket and the place of `id`, inserted with `hash`.
    fn locate(&self, hash: FlowHash, id: u32) -> Option<(At, usize)> {
        self.probe(hash)
            .find_map(|(at, bucket)| Some((at, place_in(bucket, id)?)))
    }

    /// Replaces `old` (inserted with `hash`) by `new`, which has the same key. False if it was not
    /// there.
    pub fn replace(&mut self, hash: FlowHash, old: u32, new: u32) -> bool {
        let Some((at, place)) = self.locate(hash, old) else {
            return false;
        };
        if let Some([_, ids]) = self.bucket_mut(at) {
            ids[place] = new + 1;
        }
        true
    }

    /// Takes `id` out; false if it was not inserted with `hash`.
    pub fn remove(&mut self, hash: FlowHash, id: u32) -> bool {
        let Some((at, place)) = self.locate(hash, id) else {
            return false;
        };
        if let Some([hashes, ids]) = self.bucket_mut(at) {
            (hashes[place], ids[place]) = (0, 0);
        }
        self.len -= 1;
        if let Some(watcher) = &mut self.watcher {
            watcher.leave(hash.0);
        }
        if let At::Overflow(name) = at {
            self.tidy(hash, name);
        }
        true
    }

    /// Gives an overflow bucket back if it is empty.
    #[cold]
    fn tidy(&mut self, hash: FlowHash, name: u32) {
        let Some([hashes, ids]) = self.overflow.at(name) else {
            return;
        };
        let (is_empty, next) = (ids.iter().all(|&id| id == 0), hashes[MORE]);
        let before = self
            .probe(hash)
            .find_map(|(at, bucket)| (bucket[0][MORE] == name + 1).then_some(at));
        if let (true, Some(before)) = (is_empty, before)
            && let Some(bucket) = self.bucket_mut(before)
        {
            bucket[0][MORE] = next;
            self.overflow.free(name);
        }
    }

    /// Ids in the table.
    pub fn count(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::tests::key;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::net::{Ipv4Addr, SocketAddr};

    fn table(max: usize, secret: u8) -> FlowTable {
        FlowTable::new(max, &[secret; 32], PagePolicy::Small).unwrap()
    }

    fn key_of(n: u32) -> FlowKey {
        let remote = Ipv4Addr::from_bits(0x0a00_0000 + (n >> 12));
        let remote = SocketAddr::new(remote.into(), n as u16 & 0xfff);
        FlowKey::new("192.0.2.1:80".parse().unwrap(), remote)
    }

    #[test]
    fn the_hash_depends_on_the_secret_and_on_every_part_of_the_key() {
        let (table, other) = (table(8, 1), table(8, 2));
        assert_ne!(table.hash(&key(9)), other.hash(&key(9)));
        assert_ne!(table.hash(&key(9)), table.hash(&key(10)));
        let swapped = FlowKey::new(key(80).remote(), key(80).local());
        assert_ne!(table.hash(&key(80)), table.hash(&swapped));
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
        assert!(table.count() == 0 && table.overflow.len() == 0);
        assert!(table.buckets.iter().all(|bucket| *bucket == EMPTY));
    }

    /// From some to very many: at each size all are found, and few beside their bucket.
    #[test]
    fn it_grows_with_its_entries() {
        let max = 100_000;
        let mut table = table(max as usize, 1);
        let hashes: Vec<_> = (0..max).map(|n| table.hash(&key_of(n))).collect();
        let is = |id| move |other| other == id;
        for (id, &hash) in (0..).zip(&hashes) {
            table.insert(hash, id);
            let earlier = id / 2;
            let found = table.find(hashes[earlier as usize], is(earlier));
            assert_eq!(found, Some(earlier));
            let buckets = table.buckets.len();
            assert!(buckets <= FIRST.max(id as usize / SHARE + 1), "{buckets}");
            assert!(table.overflow.len() as usize <= buckets / 2);
        }
        for (id, &hash) in (0..).zip(&hashes) {
            assert_eq!(table.find(hash, is(id)), Some(id));
            assert!(table.guess(hash).is_none_or(|guess| guess.id < max));
            assert!(table.remove(hash, id));
        }
        assert_eq!((table.count(), table.overflow.len()), (0, 0));
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
