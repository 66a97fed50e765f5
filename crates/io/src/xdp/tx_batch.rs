//! Transmit batches: one system call sends all frames of a turn, in copy mode. A send call of
//! AF_XDP takes many frames as well, but on a veth pair the kernel then does the receiver's work
//! after each. `bpf/tx_batch.bpf.c` sends all frames before any of that work begins.

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use aya::maps::{Map, MapError};
use aya::programs::{ProgramError, SchedClassifier, TestRun, TestRunOptions};
use aya::{Ebpf, include_bytes_aligned};
use wire::frame::{BURST, TxMeta};

use crate::checksum::finish;
use crate::mapping::Mapping;

/// `bpf/tx_batch.bpf.c`, compiled; `bpf/check.sh` checks that the two match.
static OBJECT: &[u8] = include_bytes_aligned!("../../bpf/tx_batch.bpf.o");

/// Bytes of the longest frame.
const LONGEST: usize = 4096;
/// Bytes of all frames of a batch.
const BYTES: usize = BURST * 2048;
/// Frames begin at cache lines of so many bytes.
const LINE: usize = 64;
/// The template packet that the program runs on. It is short, so that the kernel allocates buffers
/// for short frames until a long one comes.
const TEMPLATE: [u8; LINE] = {
    let mut template = [0; LINE];
    template[12] = 0x08;
    template[14] = 0x45;
    template
};

/// Where a frame lies.
#[repr(C)]
#[derive(Clone, Copy)]
struct Slice {
    at: u32,
    len: u32,
}

/// The memory that the program reads, as in `bpf/tx_batch.bpf.c`.
#[repr(C)]
struct Shared {
    netns: u64,
    interface: u32,
    count: u32,
    lost: u64,
    reserved: [u64; 5],
    frames: [Slice; BURST],
    bytes: [u8; BYTES],
}

/// What happened to a submitted batch.
pub(super) enum Submitted {
    /// The kernel took all frames.
    All,
    /// The kernel took so many of its frames: the interface is down or gone.
    Part(usize),
    /// The kernel took none and will take none, for this reason.
    Never(Box<dyn std::error::Error>),
}

/// The frames of one queue that the next call sends.
#[derive(Debug)]
pub(super) struct TxBatch {
    ebpf: Ebpf,
    shared: NonNull<Shared>,
    count: usize,
    /// Bytes of those frames.
    used: usize,
    _mapping: Mapping,
}

// SAFETY: `shared` points into the mapping, which this value owns; the kernel uses it during the
// calls of `submit` only.
unsafe impl Send for TxBatch {}

impl TxBatch {
    /// A batch for the interface with this index, of the network namespace with the cookie `netns`.
    ///
    /// # Errors
    /// The kernel is older than Linux 6.15, or there is no right to (CAP_BPF and CAP_NET_ADMIN).
    pub(super) fn new(interface: u32, netns: u64) -> Result<Self, Box<dyn std::error::Error>> {
        let mut ebpf = Ebpf::load(OBJECT)?;
        program(&mut ebpf)?.load()?;
        let Some(Map::Array(map)) = ebpf.map("batches") else {
            return Err(MapError::ElementNotFound.into());
        };
        let mapping = Mapping::of(map.fd().as_fd(), 0, size_of::<Shared>())?;
        let missing = || io::Error::other("a map of another size");
        let shared: NonNull<Shared> = mapping.at(0, 1).ok_or_else(missing)?;
        let mut batch = Self {
            ebpf,
            shared,
            count: 0,
            used: 0,
            _mapping: mapping,
        };
        let shared = batch.shared();
        (shared.interface, shared.netns) = (interface, netns);
        Ok(batch)
    }

    fn shared(&mut self) -> &mut Shared {
        // SAFETY: the mapping is that large and aligned, any bytes are a `Shared`, and only the
        // calls of `submit` let the kernel use it.
        unsafe { self.shared.as_mut() }
    }

    /// Whether there is room for one more frame of `room` bytes.
    pub(super) fn has_room(&self, room: usize) -> bool {
        self.count < BURST && self.used + room.max(LONGEST) <= BYTES
    }

    /// Whether the batch has a frame.
    pub(super) fn waits(&self) -> bool {
        self.count > 0
    }

    /// Frames that were lost inside batches.
    pub(super) fn lost(&self) -> u64 {
        // SAFETY: as in `shared`.
        unsafe { self.shared.as_ref() }.lost
    }

    /// Lends `room` bytes to `write` and adds what it wrote. Returns false, and does not call
    /// `write`, where there is no room.
    pub(super) fn add(&mut self, room: usize, write: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        if !self.has_room(room) {
            return false;
        }
        let (at, count) = (self.used, self.count);
        let shared = self.shared();
        let (Some(bytes), Some(slice)) = (
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
            (slice.at, slice.len) = (at as u32, meta.len as u32);
            self.count += 1;
            self.used += meta.len.next_multiple_of(LINE);
        }
        true
    }

    /// Sends as many frames as the kernel takes.
    pub(super) fn submit(&mut self) -> Submitted {
        let count = self.count;
        self.shared().count = count as u32;
        let options = TestRunOptions {
            data_in: Some(&TEMPLATE),
            ..TestRunOptions::new()
        };
        let result = program(&mut self.ebpf).and_then(|program| program.test_run(options));
        match result.map(|run| run.return_value as usize) {
            Ok(taken) if taken < count => Submitted::Part(taken),
            Ok(taken) if taken == count => Submitted::All,
            Ok(_) => Submitted::Never("a thread of another network namespace sends".into()),
            Err(error) => Submitted::Never(error.into()),
        }
    }

    /// Empties the batch.
    pub(super) fn clear(&mut self) {
        (self.count, self.used) = (0, 0);
    }

    /// The frames of the batch.
    pub(super) fn frames(&self) -> impl Iterator<Item = &[u8]> {
        // SAFETY: as in `shared`.
        let shared = unsafe { self.shared.as_ref() };
        let slices = shared.frames.get(..self.count).unwrap_or_default();
        slices.iter().filter_map(|slice| {
            let (at, len) = (slice.at as usize, slice.len as usize);
            shared.bytes.get(at..at + len)
        })
    }
}

fn program(ebpf: &mut Ebpf) -> Result<&mut SchedClassifier, ProgramError> {
    ebpf.program_mut("tx_batch")
        .ok_or(ProgramError::NotLoaded)?
        .try_into()
}
