//! Which flows of an address that the kernel has, too, are the stack's: what `bpf/flows.h` is told.
//! The stack writes memory that the program reads; neither waits for the other.

use std::collections::HashMap;
use std::error::Error;
use std::hash::Hasher as _;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aya::Ebpf;
use aya::maps::{Map, MapError};
use rustix::process::{Pid, getpid};
use rustix::rand::{GetRandomFlags, getrandom};
use siphasher::sip::SipHasher13;
use wire::steering::Steering;
use wire::time::Instant;

use crate::mapping::Mapping;

/// Tags of a bucket.
const WAYS: usize = 8;
/// Addresses at most.
pub(super) const ADDRESSES: usize = 32;
/// Buckets at most: 32 MiB.
const MOST_BUCKETS: u32 = 1 << 19;

/// One cache line. 0: free.
#[repr(C)]
struct Bucket([AtomicU64; WAYS]);

/// What the program reads and counts, as in `bpf/flows.h`.
#[repr(C)]
struct Shared {
    key: [AtomicU64; 2],
    cookies: AtomicU64,
    mask: AtomicU32,
    open: AtomicU32,
    _reserved: [u64; 4],
    dropped: AtomicU64,
    early: AtomicU64,
    _reserved_too: [u64; 6],
    ports: [[AtomicU64; 65_536 / 64]; ADDRESSES],
}

/// How many buckets hold so many flows, half full: then hardly any finds both of its buckets full.
pub(super) fn buckets(flows: u32) -> u32 {
    let wanted = flows.saturating_mul(2) / WAYS as u32;
    wanted.clamp(1, MOST_BUCKETS).next_power_of_two()
}

/// The memory that is shared with the program. All that changes in it is atomic.
#[derive(Debug)]
struct Memory {
    shared: NonNull<Shared>,
    buckets: NonNull<Bucket>,
    count: u32,
    /// The hash of flows begins with it.
    hasher: SipHasher13,
    /// The process whose flows these are: one that it forks has the memory no more.
    owner: Pid,
    _mappings: [Mapping; 2],
}

// SAFETY: both point into the mappings, which belong to the process, and all that changes there is
// atomic.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Of a loaded program with so many buckets.
    fn of(ebpf: &Ebpf, count: u32) -> Result<Self, Box<dyn Error>> {
        let shared = map(ebpf, "stack", size_of::<Shared>())?;
        let flows = map(ebpf, "flows", size_of::<Bucket>() * count as usize)?;
        let missing = || io::Error::other("maps of another size");
        let key = key()?;
        let memory = Self {
            shared: shared.at(0, 1).ok_or_else(missing)?,
            buckets: flows.at(0, count as usize).ok_or_else(missing)?,
            count,
            hasher: SipHasher13::new_with_keys(key[0], key[1]),
            owner: getpid(),
            _mappings: [shared, flows],
        };
        let shared = memory.shared();
        for (word, value) in shared.key.iter().zip(key) {
            word.store(value, Ordering::Relaxed);
        }
        shared.mask.store(count - 1, Ordering::Relaxed);
        shared.open.store(1, Ordering::Release);
        Ok(memory)
    }

    fn shared(&self) -> &Shared {
        // SAFETY: it lies in a mapping, which lives as long as this and holds all of it; all that
        // changes in it is atomic.
        unsafe { self.shared.as_ref() }
    }

    /// There are no flows.
    fn clear(&self) {
        for at in 0..self.count as usize {
            // SAFETY: as in `shared`, and there are `count` buckets.
            let bucket = unsafe { self.buckets.add(at).as_ref() };
            bucket
                .0
                .iter()
                .for_each(|tag| tag.store(0, Ordering::Relaxed));
        }
    }

    /// The two buckets of a hash.
    fn buckets(&self, hash: u64) -> [&Bucket; 2] {
        [hash as u32, (hash >> 32) as u32].map(|half| {
            let at = half & (self.count - 1);
            // SAFETY: as in `shared`, and there are `count` buckets, a power of two.
            unsafe { self.buckets.add(at as usize).as_ref() }
        })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.owner == getpid() {
            self.shared().open.store(0, Ordering::Relaxed);
        }
    }
}

fn map(ebpf: &Ebpf, name: &str, bytes: usize) -> Result<Mapping, Box<dyn Error>> {
    match ebpf.map(name) {
        Some(Map::Array(map)) => Ok(Mapping::of(map.fd().as_fd(), 0, bytes)?),
        _ => Err(MapError::ElementNotFound.into()),
    }
}

/// From the system's random numbers: who knew it could choose flows that look like one of ours.
fn key() -> io::Result<[u64; 2]> {
    let mut bytes = [0; 16];
    // So few come at once or not at all (getrandom(2)).
    if getrandom(&mut bytes, GetRandomFlags::empty())? < bytes.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let key = u128::from_ne_bytes(bytes);
    Ok([key as u64, (key >> 64) as u64])
}

/// What tells a flow apart, as it lies in a packet to us: the peer's address, ours, the peer's
/// port, ours. Returns how much of the bytes that is.
fn name(local: SocketAddr, remote: SocketAddr, into: &mut [u8; 36]) -> usize {
    let ports = [remote.port().to_be_bytes(), local.port().to_be_bytes()];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        if let Some(place) = into.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        at += bytes.len();
    };
    for end in [remote.ip(), local.ip()] {
        match end {
            IpAddr::V4(address) => put(&address.octets()),
            IpAddr::V6(address) => put(&address.octets()),
        }
    }
    put(ports.as_flattened());
    at.min(into.len())
}

/// What the stacks of this process have in common.
#[derive(Debug, Default)]
struct Common {
    stacks: usize,
    /// Where they listen, and how often: index of the address, and port.
    listened: HashMap<(usize, u16), u32>,
}

/// What the program of an interface is told, by all stacks that have its queues.
#[derive(Clone, Debug)]
pub(super) struct Steered {
    memory: Arc<Memory>,
    /// Ours, in the order of their numbers.
    addresses: Arc<[IpAddr]>,
    common: Arc<Mutex<Common>>,
}

impl Steered {
    /// Of a loaded program with so many buckets, and these addresses in the order of their numbers.
    /// Nothing is steered yet.
    pub(super) fn new(
        ebpf: &Ebpf,
        buckets: u32,
        addresses: &[IpAddr],
    ) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            memory: Arc::new(Memory::of(ebpf, buckets)?),
            addresses: addresses.into(),
            common: Arc::default(),
        })
    }

    /// Frames of ours that came to a queue without a socket, and were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.memory.shared().dropped.load(Ordering::Relaxed)
    }

    fn common(&self) -> MutexGuard<'_, Common> {
        self.common.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a stack tells.
    pub(super) fn steer(&self) -> Steer {
        self.common().stacks += 1;
        Steer {
            steered: self.clone(),
            told: Vec::new(),
        }
    }

    /// Adds or takes away one that listens on an address and a port.
    fn count(&self, place: (usize, u16), more: bool) {
        let listened = &mut self.common().listened;
        let count = listened.entry(place).or_default();
        *count = if more {
            *count + 1
        } else {
            count.saturating_sub(1)
        };
        let any = *count > 0;
        if !any {
            listened.remove(&place);
        }
        let (index, port) = place;
        let ports = self.memory.shared().ports.get(index);
        let Some(word) = ports.and_then(|ports| ports.get(usize::from(port / 64))) else {
            return;
        };
        let bit = 1 << (port % 64);
        if any {
            word.fetch_or(bit, Ordering::Relaxed);
        } else {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}

/// What one stack tells the program.
#[derive(Debug)]
pub(super) struct Steer {
    steered: Steered,
    /// Where it listens.
    told: Vec<SocketAddr>,
}

impl Steer {
    fn hash(&self, local: SocketAddr, remote: SocketAddr) -> u64 {
        let mut bytes = [0; 36];
        let len = name(local, remote, &mut bytes);
        let mut hasher = self.steered.memory.hasher;
        hasher.write(bytes.get(..len).unwrap_or_default());
        hasher.finish()
    }

    /// Of each address that `local` means.
    fn count(&self, local: SocketAddr, more: bool) {
        let is_meant = |own: &IpAddr| match local.ip() {
            any if any.is_unspecified() => any.is_ipv4() == own.is_ipv4(),
            one => one == *own,
        };
        let addresses = self.steered.addresses.iter().enumerate();
        for (index, _) in addresses.filter(|(_, own)| is_meant(own)) {
            self.steered.count((index, local.port()), more);
        }
    }
}

impl Steering for Steer {
    fn enter(&mut self, local: SocketAddr, remote: SocketAddr) -> bool {
        let hash = self.hash(local, remote);
        let buckets = self.steered.memory.buckets(hash);
        let mut places = buckets.iter().flat_map(|bucket| &bucket.0);
        places.any(|place| {
            let (order, free) = (Ordering::Relaxed, place.load(Ordering::Relaxed) == 0);
            free && place.compare_exchange(0, hash | 1, order, order).is_ok()
        })
    }

    fn leave(&mut self, local: SocketAddr, remote: SocketAddr) {
        let hash = self.hash(local, remote);
        let buckets = self.steered.memory.buckets(hash);
        let mut places = buckets.iter().flat_map(|bucket| &bucket.0);
        let order = Ordering::Relaxed;
        places.any(|place| place.compare_exchange(hash | 1, 0, order, order).is_ok());
    }

    fn listen(&mut self, local: SocketAddr) {
        self.told.push(local);
        self.count(local, true);
    }

    fn unlisten(&mut self, local: SocketAddr) {
        let Some(at) = self.told.iter().position(|told| *told == local) else {
            return;
        };
        self.told.swap_remove(at);
        self.count(local, false);
    }

    fn expect_cookies(&mut self, until: Instant) {
        let cookies = &self.steered.memory.shared().cookies;
        cookies.store(until.as_millis(), Ordering::Relaxed);
    }
}

impl Drop for Steer {
    fn drop(&mut self) {
        if self.steered.memory.owner != getpid() {
            return;
        }
        for local in std::mem::take(&mut self.told) {
            self.count(local, false);
        }
        // Of its flows nobody knows which they are. As long as there are others, segments of them
        // come to the queues of those, which reset them.
        let mut common = self.steered.common();
        common.stacks -= 1;
        if common.stacks == 0 {
            self.steered.memory.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_named_as_it_lies_in_a_packet_to_us() {
        let mut bytes = [0; 36];
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let len = name(address("10.0.0.1:80"), address("10.0.0.2:258"), &mut bytes);
        assert_eq!(bytes[..len], [10, 0, 0, 2, 10, 0, 0, 1, 1, 2, 0, 80]);
        let len = name(
            address("[fd00::1]:80"),
            address("[fe80::2]:258"),
            &mut bytes,
        );
        assert_eq!((len, bytes[0], bytes[15], bytes[16]), (36, 0xfe, 2, 0xfd));
        assert_eq!(bytes[32..], [1, 2, 0, 80]);
    }

    #[test]
    fn there_are_twice_as_many_places_as_flows() {
        for (flows, expected) in [
            (0, 1),
            (4, 1),
            (5, 1),
            (16, 4),
            (100, 32),
            (u32::MAX, 1 << 19),
        ] {
            assert_eq!(buckets(flows), expected, "{flows}");
        }
        for flows in [1 << 10, 10_000, 1 << 20] {
            assert!(buckets(flows) as usize * WAYS >= 2 * flows as usize);
        }
    }
}
