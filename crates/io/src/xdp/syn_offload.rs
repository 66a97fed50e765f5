//! SYNs that are answered where they arrive: what `bpf/answer.h` is told.

use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use aya::Ebpf;
use aya::maps::{Map, MapError};
use rustix::process::{Pid, getpid};
use wire::syn_offload::{SynOffload, SynRules};
use wire::time::Instant;

use crate::mapping::Mapping;

/// How many numbers of flows there are.
const FLOWS: usize = 256 << 10;
/// For how many addresses SYNs are answered at most.
const ADDRESSES: usize = 16;
/// So many flows with the same number are not counted any more: it stays taken.
const COUNTLESS: u8 = u8::MAX;

/// What the program reads, as in `bpf/answer.h`. All of it is atomic: the program reads it whenever
/// a frame comes.
#[repr(C)]
struct Shared {
    flow_key: [AtomicU64; 4],
    iss_key: [AtomicU64; 4],
    clock: AtomicU32,
    started: AtomicU32,
    stamps: AtomicU32,
    window: AtomicU16,
    mss: AtomicU16,
    window_scale: AtomicU8,
    ttl: AtomicU8,
    _reserved: [u8; 46],
    ports: [[AtomicU64; 65_536 / 64]; ADDRESSES],
    flows: [AtomicU8; FLOWS],
}

/// The memory that is shared with the program.
#[derive(Debug)]
struct Memory {
    shared: NonNull<Shared>,
    _mapping: Mapping,
}

// SAFETY: `shared` points into the mapping, which belongs to the process, and all that changes in
// it is atomic.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn shared(&self) -> &Shared {
        // SAFETY: it lies in the mapping, which lives as long as this and holds all of it; all that
        // changes in it is atomic.
        unsafe { self.shared.as_ref() }
    }
}

/// What answers SYNs, and for whom. Ends when dropped by the process that made it: one that it
/// forks has it too.
#[derive(Debug)]
pub(super) struct Offload {
    memory: Arc<Memory>,
    /// Ours, in the order of their numbers.
    addresses: Vec<Ipv4Addr>,
    owner: Pid,
}

/// Tells it what time it is.
#[derive(Debug)]
pub(super) struct Clock(Arc<Memory>);

impl Offload {
    /// Of a loaded program. No SYN is answered yet.
    pub(super) fn new(
        ebpf: &Ebpf,
        addresses: &[Ipv4Addr],
    ) -> Result<(Self, Clock), Box<dyn Error>> {
        let Some(Map::Array(map)) = ebpf.map("offload") else {
            return Err(MapError::ElementNotFound.into());
        };
        let mapping = Mapping::of(map.fd().as_fd(), 0, size_of::<Shared>())?;
        let missing = || io::Error::other("a map of another size");
        let shared = mapping.at(0, 1).ok_or_else(missing)?;
        let memory = Arc::new(Memory {
            shared,
            _mapping: mapping,
        });
        let clock = Clock(Arc::clone(&memory));
        let offload = Self {
            memory,
            addresses: addresses.iter().copied().take(ADDRESSES).collect(),
            owner: getpid(),
        };
        Ok((offload, clock))
    }

    fn flow(&self, hash: u32) -> Option<&AtomicU8> {
        self.memory.shared().flows.get(hash as usize % FLOWS)
    }
}

/// The word and the bit of a port.
fn place(port: u16) -> (usize, u64) {
    (usize::from(port / 64), 1 << (port % 64))
}

impl Clock {
    /// A turn begins.
    pub(super) fn set(&self, now: Instant) {
        let clock = &self.0.shared().clock;
        let now = now.as_millis() as u32;
        if clock.load(Ordering::Relaxed) != now {
            clock.store(now, Ordering::Relaxed);
        }
    }
}

impl SynOffload for Offload {
    fn start(&mut self, rules: &SynRules) {
        let shared = self.memory.shared();
        for (words, key) in [
            (&shared.flow_key, &rules.flow_key),
            (&shared.iss_key, &rules.iss_key),
        ] {
            for (word, value) in words.iter().zip(key) {
                word.store(*value, Ordering::Relaxed);
            }
        }
        shared
            .ports
            .iter()
            .flatten()
            .for_each(|ports| ports.store(0, Ordering::Relaxed));
        shared
            .flows
            .iter()
            .for_each(|flows| flows.store(0, Ordering::Relaxed));
        shared.window.store(rules.window, Ordering::Relaxed);
        shared.mss.store(rules.mss, Ordering::Relaxed);
        shared.stamps.store(rules.stamps, Ordering::Relaxed);
        shared
            .window_scale
            .store(rules.window_scale, Ordering::Relaxed);
        shared.ttl.store(rules.ttl, Ordering::Relaxed);
        shared.started.store(1, Ordering::Release);
    }

    fn offer(&mut self, local: SocketAddrV4, answered: bool) {
        let number = self.addresses.iter().position(|addr| addr == local.ip());
        let (word, bit) = place(local.port());
        let ports = &self.memory.shared().ports;
        let Some(ports) = number.and_then(|number| ports.get(number)?.get(word)) else {
            return;
        };
        let before = ports.load(Ordering::Relaxed);
        let after = if answered {
            before | bit
        } else {
            before & !bit
        };
        if after != before {
            ports.store(after, Ordering::Relaxed);
        }
    }

    fn withdraw(&mut self, port: u16) {
        let (word, bit) = place(port);
        for ports in self
            .memory
            .shared()
            .ports
            .iter()
            .filter_map(|ports| ports.get(word))
        {
            ports.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    fn enter(&mut self, hash: u32) {
        if let Some(flow) = self.flow(hash) {
            let before = flow.load(Ordering::Relaxed);
            flow.store(before.saturating_add(1), Ordering::Relaxed);
        }
    }

    fn leave(&mut self, hash: u32) {
        if let Some(flow) = self.flow(hash) {
            let before = flow.load(Ordering::Relaxed);
            if (1..COUNTLESS).contains(&before) {
                flow.store(before - 1, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Offload {
    fn drop(&mut self) {
        if self.owner == getpid() {
            let started = &self.memory.shared().started;
            started.store(0, Ordering::Relaxed);
        }
    }
}
