//! Frames that one system call sends, in copy mode. AF_XDP takes many in a call as well, but for each the kernel then does at once what it
//! causes on this processor, as the receiver's work on a veth pair. `bpf/volley.bpf.c` sends them all before any of that.

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use aya::maps::{Map, MapError};
use aya::programs::{ProgramError, SchedClassifier, TestRun, TestRunOptions};
use aya::{Ebpf, include_bytes_aligned};
use wire::frame::{BURST, TxMeta};

use super::mapping::Mapping;
use crate::checksum::finish;

/// `bpf/volley.bpf.c`, compiled; `bpf/check.sh` checks that the two match.
static OBJECT: &[u8] = include_bytes_aligned!("../../bpf/volley.bpf.o");

/// What a frame has at most, bytes.
const LONGEST: usize = 4096;
/// What all frames of a volley have at most, bytes.
const BYTES: usize = BURST * 2048;
/// Frames begin at a cache line.
const LINE: usize = 64;
/// The packet that the program runs on: of IPv4, so short that what frames are made of has the size of small ones until there is a long one.
const MOULD: [u8; LINE] = {
    let mut mould = [0; LINE];
    mould[12] = 0x08;
    mould[14] = 0x45;
    mould
};

/// Where a frame lies.
#[repr(C)]
#[derive(Clone, Copy)]
struct Place {
    at: u32,
    len: u32,
}

/// What we and the program share, as in `bpf/volley.bpf.c`.
#[repr(C)]
struct Shared {
    netns: u64,
    interface: u32,
    count: u32,
    lost: u64,
    reserved: [u64; 5],
    frames: [Place; BURST],
    bytes: [u8; BYTES],
}

/// What became of a volley.
pub(super) enum Fired {
    /// All its frames are on their way.
    All,
    /// So many are; the interface is down or gone.
    Part(usize),
    /// None is, and none will ever be: why.
    Never(Box<dyn std::error::Error>),
}

/// The frames of one queue that are to go out next.
#[derive(Debug)]
pub(super) struct Volley {
    ebpf: Ebpf,
    shared: NonNull<Shared>,
    count: usize,
    /// Bytes that those have.
    used: usize,
    _mapping: Mapping,
}

// SAFETY: `shared` points into the mapping, which belongs to the process; nobody else has it, and the kernel uses it during our calls only.
unsafe impl Send for Volley {}

impl Volley {
    /// On `interface` of the network namespace with the cookie `netns`.
    ///
    /// # Errors
    /// The kernel is older than Linux 6.15, or there is no right to (CAP_BPF and CAP_NET_ADMIN).
    pub(super) fn new(interface: u32, netns: u64) -> Result<Self, Box<dyn std::error::Error>> {
        let mut ebpf = Ebpf::load(OBJECT)?;
        program(&mut ebpf)?.load()?;
        let Some(Map::Array(map)) = ebpf.map("volleys") else {
            return Err(MapError::ElementNotFound.into());
        };
        let mapping = Mapping::of(map.fd().as_fd(), 0, size_of::<Shared>())?;
        let missing = || io::Error::other("a map of another size");
        let shared: NonNull<Shared> = mapping.at(0, 1).ok_or_else(missing)?;
        let mut volley = Self {
            ebpf,
            shared,
            count: 0,
            used: 0,
            _mapping: mapping,
        };
        let shared = volley.shared();
        (shared.interface, shared.netns) = (interface, netns);
        Ok(volley)
    }

    fn shared(&mut self) -> &mut Shared {
        // SAFETY: the mapping is that large and aligned, any bytes are a `Shared`, and only the calls of `fire` let the kernel use it.
        unsafe { self.shared.as_mut() }
    }

    /// Whether there is room for one more frame of `room` bytes.
    pub(super) fn has_room(&self, room: usize) -> bool {
        self.count < BURST && self.used + room.max(LONGEST) <= BYTES
    }

    /// Whether a frame waits.
    pub(super) fn waits(&self) -> bool {
        self.count > 0
    }

    /// How many frames the kernel did not take.
    pub(super) fn lost(&self) -> u64 {
        // SAFETY: as in `shared`.
        unsafe { self.shared.as_ref() }.lost
    }

    /// Lends `room` bytes to `write` and adds what it wrote. Returns false, and does not call `write`, where there is no room.
    pub(super) fn add(&mut self, room: usize, write: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        if !self.has_room(room) {
            return false;
        }
        let (at, count) = (self.used, self.count);
        let shared = self.shared();
        let (Some(bytes), Some(place)) = (
            shared.bytes.get_mut(at..at + room),
            shared.frames.get_mut(count),
        ) else {
            return false;
        };
        let meta = write(bytes);
        if let Some(frame) = bytes.get_mut(..meta.len)
            && !frame.is_empty()
        {
            finish(frame, meta.checksum);
            (place.at, place.len) = (at as u32, meta.len as u32);
            self.count += 1;
            self.used += meta.len.next_multiple_of(LINE);
        }
        true
    }

    /// Sends all that it can.
    pub(super) fn fire(&mut self) -> Fired {
        let count = self.count;
        self.shared().count = count as u32;
        let options = TestRunOptions {
            data_in: Some(&MOULD),
            ..TestRunOptions::new()
        };
        let result = program(&mut self.ebpf).and_then(|program| program.test_run(options));
        match result.map(|run| run.return_value as usize) {
            Ok(taken) if taken < count => Fired::Part(taken),
            Ok(taken) if taken == count => Fired::All,
            Ok(_) => Fired::Never("a thread of another network namespace sends".into()),
            Err(error) => Fired::Never(error.into()),
        }
    }

    /// Forgets the frames that wait.
    pub(super) fn clear(&mut self) {
        (self.count, self.used) = (0, 0);
    }

    /// The frames that wait.
    pub(super) fn frames(&self) -> impl Iterator<Item = &[u8]> {
        // SAFETY: as in `shared`.
        let shared = unsafe { self.shared.as_ref() };
        let places = shared.frames.get(..self.count).unwrap_or_default();
        places.iter().filter_map(|place| {
            let (at, len) = (place.at as usize, place.len as usize);
            shared.bytes.get(at..at + len)
        })
    }
}

fn program(ebpf: &mut Ebpf) -> Result<&mut SchedClassifier, ProgramError> {
    ebpf.program_mut("volley")
        .ok_or(ProgramError::NotLoaded)?
        .try_into()
}
