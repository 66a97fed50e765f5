//! The TC receive ring: a program in traffic control (`bpf/tc_ring.bpf.c`) copies frames into a
//! ring per processor that this module reads. On a veth pair that takes a third of the time of
//! AF_XDP, and the sender keeps its segmentation. The AF_XDP socket stays: it sends, and keeps
//! other processes off the queue.

use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use aya::maps::{Map, MapData, MapError, RingBuf};
use aya::programs::tc::SchedClassifierLink;
use aya::programs::{ProgramError, SchedClassifier, TcAttachType};
use aya::util::{KernelVersion, nr_cpus};
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};
use rustix::process::{Pid, getpid};
use wire::frame::{BURST, RxFrame, RxMeta};

use super::frame_rings::fetch_head;
use crate::mapping::Mapping;

/// `bpf/tc_ring.bpf.c`, compiled; `bpf/check.sh` checks that the two match.
static OBJECT: &[u8] = include_bytes_aligned!("../../bpf/tc_ring.bpf.o");

/// Records of a ring, each of one frame.
const RECORDS: usize = 16_384;
/// Frames begin at a multiple of this, bytes.
const LINE: usize = 64;
/// Bytes for frames inside the ring: few enough to stay in the cache of the processor.
const CACHED: usize = (64 << 10) + 4096;
/// Frames that find no room there go to chunks of so many bytes.
const CHUNK: usize = 256 << 10;
/// Chunks of all processors together, but each has at least [`FEWEST_CHUNKS`].
const CHUNKS: usize = 128;
const FEWEST_CHUNKS: usize = 4;
/// With more processors, the rings would take too much memory, and looking at all of them too much
/// time.
const MOST_PROCESSORS: usize = 64;
/// Marks an offset that counts from the first chunk.
const OVERFLOW: u32 = 1 << 31;
/// Marks the length of a SYN that the program has answered.
const ANSWERED: u32 = 1 << 31;

/// Where a frame lies, and when it came in nanoseconds: as in `bpf/tc_ring.bpf.c`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Record {
    at: u32,
    len: u32,
    when: u64,
}

/// The header of a ring, as in `bpf/tc_ring.bpf.c`.
#[repr(C)]
struct Header {
    written: AtomicU32,
    cached: AtomicU32,
    overflow: AtomicU32,
    _reserved: u32,
    lost: AtomicU64,
    _reserved_too: [u64; 5],
    read: AtomicU32,
    cached_read: AtomicU32,
    overflow_read: AtomicU32,
    overflow_bytes: AtomicU32,
    open: AtomicU32,
    armed: AtomicU32,
    _reserved_three: [u32; 10],
}

/// The ring of one processor, as in `bpf/tc_ring.bpf.c`.
#[repr(C)]
struct Ring {
    header: Header,
    records: [Record; RECORDS],
    bytes: [u8; CACHED],
}

/// The reading end of one ring.
#[derive(Debug)]
struct Reader {
    ring: NonNull<Ring>,
    chunks: NonNull<u8>,
    /// Bytes of the chunks.
    overflow_bytes: usize,
    /// Records that were written at the last look, and those of them that were read.
    written: u32,
    read: u32,
    cached_read: u32,
    overflow_read: u32,
    /// Frames that were lost before this reader opened the ring.
    lost_before: u64,
}

impl Reader {
    fn header(&self) -> &Header {
        // SAFETY: the mapping lives as long as the reader and holds a whole ring; all fields of the
        // header that change are atomic.
        unsafe { &(*self.ring.as_ptr()).header }
    }

    fn open(&mut self) {
        let header = self.header();
        let (written, cached, overflow) = (
            header.written.load(Ordering::Acquire),
            header.cached.load(Ordering::Relaxed),
            header.overflow.load(Ordering::Relaxed),
        );
        let lost = header.lost.load(Ordering::Relaxed);
        (self.read, self.cached_read, self.overflow_read) = (written, cached, overflow);
        self.lost_before = lost;
        self.release();
        let overflow_bytes = u32::try_from(self.overflow_bytes).unwrap_or_default();
        let header = self.header();
        header
            .overflow_bytes
            .store(overflow_bytes, Ordering::Relaxed);
        header.armed.store(0, Ordering::Relaxed);
        header.open.store(1, Ordering::Release);
    }

    fn has_received(&self) -> bool {
        self.header().written.load(Ordering::Relaxed) != self.read
    }

    /// Reads how many records are written. Returns whether any is unread.
    fn look(&mut self) -> bool {
        self.written = self.header().written.load(Ordering::Acquire);
        self.written != self.read
    }

    /// The first unread record, as of the last look.
    fn first(&self) -> Option<Record> {
        if self.written == self.read {
            return None;
        }
        let at = self.read as usize % RECORDS;
        // SAFETY: as in `header`, and `at` is one of the records. The program does not write it
        // until `release`.
        Some(unsafe { (&raw const (*self.ring.as_ptr()).records[at]).read() })
    }

    /// Takes the first record, which is `record`. Its bytes are ours until `release`.
    fn take(&mut self, record: Record) -> NonNull<[u8]> {
        self.read = self.read.wrapping_add(1);
        let (at, len) = (
            (record.at & !OVERFLOW) as usize,
            (record.len & !ANSWERED) as usize,
        );
        let (start, room) = if record.at & OVERFLOW == 0 {
            self.cached_read = (at + len.next_multiple_of(LINE)) as u32;
            // SAFETY: as in `header`; no reference is made.
            let bytes = unsafe { &raw mut (*self.ring.as_ptr()).bytes };
            (bytes.cast::<u8>(), CACHED)
        } else {
            self.overflow_read = (at + len.next_multiple_of(LINE)) as u32;
            (self.chunks.as_ptr(), self.overflow_bytes)
        };
        let inside = at.checked_add(len).is_some_and(|end| end <= room);
        debug_assert!(inside, "the program keeps to its memory");
        let (at, len) = if inside { (at, len) } else { (0, 0) };
        // SAFETY: `start` is not null, and `at` lies in its `room` bytes.
        let start = unsafe { NonNull::new_unchecked(start).add(at) };
        NonNull::slice_from_raw_parts(start, len)
    }

    /// Gives the records and bytes that were taken back to the program.
    fn release(&self) {
        let header = self.header();
        header
            .cached_read
            .store(self.cached_read, Ordering::Release);
        header
            .overflow_read
            .store(self.overflow_read, Ordering::Release);
        header.read.store(self.read, Ordering::Release);
    }

    fn lost(&self) -> u64 {
        let lost = self.header().lost.load(Ordering::Relaxed);
        lost.wrapping_sub(self.lost_before)
    }
}

/// The receive rings of an interface, one for each processor.
pub(super) struct TcRing {
    readers: Vec<Reader>,
    /// Readers that have unread records in the current burst.
    waiting: Vec<usize>,
    /// Becomes readable when a record is written while the wake-up is armed.
    doorbell: RingBuf<MapData>,
    /// The process that opened the rings, if any. Its children have the rings as well, and must not
    /// close them.
    owner: Option<Pid>,
    armed: bool,
    _mappings: [Mapping; 2],
}

// SAFETY: the readers point into the mappings, which this value owns.
unsafe impl Send for TcRing {}

impl TcRing {
    /// Maps the rings of a loaded program, of so many processors. Frames still go to the kernel
    /// until `open`.
    pub(super) fn new(ebpf: &Ebpf, count: usize) -> Result<Self, Box<dyn Error>> {
        let overflow_bytes = chunks(count) * CHUNK;
        let rings = map(ebpf, "rings", size_of::<Ring>() * count)?;
        let chunks = map(ebpf, "chunks", overflow_bytes * count)?;
        let reader = |processor| {
            Some(Reader {
                ring: rings.at(processor * size_of::<Ring>(), 1)?,
                chunks: chunks.at(processor * overflow_bytes, overflow_bytes)?,
                overflow_bytes,
                written: 0,
                read: 0,
                cached_read: 0,
                overflow_read: 0,
                lost_before: 0,
            })
        };
        let readers: Option<Vec<Reader>> = (0..count).map(reader).collect();
        let Some(Map::RingBuf(doorbell)) = ebpf.map("doorbell") else {
            return Err(MapError::ElementNotFound.into());
        };
        let doorbell = MapData::from_fd(doorbell.fd().as_fd().try_clone_to_owned()?)?;
        Ok(Self {
            readers: readers.ok_or_else(|| io::Error::other("maps of another size"))?,
            waiting: Vec::with_capacity(count),
            doorbell: RingBuf::try_from(Map::RingBuf(doorbell))?,
            owner: None,
            armed: false,
            _mappings: [rings, chunks],
        })
    }

    /// Begins to receive: from now on the program copies our frames into the rings.
    pub(super) fn open(&mut self) {
        self.readers.iter_mut().for_each(Reader::open);
        self.owner = Some(getpid());
    }

    /// Whether a frame has been received and not lent yet.
    pub(super) fn has_received(&self) -> bool {
        self.readers.iter().any(Reader::has_received)
    }

    /// Lends the next burst to `each`, in the order of arrival over all processors, with what
    /// `meta` says about each frame.
    pub(super) fn receive(
        &mut self,
        meta: impl Fn(&[u8]) -> RxMeta,
        each: impl FnOnce(&[RxFrame<'_>]),
    ) -> usize {
        self.waiting.clear();
        for (at, reader) in self.readers.iter_mut().enumerate() {
            if reader.look() {
                self.waiting.push(at);
            }
        }
        let mut frames = [RxFrame {
            bytes: &[],
            meta: RxMeta::default(),
        }; BURST];
        let mut count = 0;
        for frame in &mut frames {
            let Some((bytes, answered)) = self.take() else {
                break;
            };
            // SAFETY: until `release` the bytes are ours, and only read.
            frame.bytes = unsafe { bytes.as_ref() };
            frame.meta.answered = answered;
            fetch_head(frame.bytes);
            count += 1;
        }
        let frames = frames.get_mut(..count).unwrap_or_default();
        if frames.is_empty() {
            return 0;
        }
        for frame in &mut *frames {
            let answered = frame.meta.answered;
            frame.meta = RxMeta {
                answered,
                ..meta(frame.bytes)
            };
        }
        each(frames);
        for at in &self.waiting {
            if let Some(reader) = self.readers.get(*at) {
                reader.release();
            }
        }
        count
    }

    /// Takes the oldest unread record, and says whether it is a SYN that the program has answered.
    fn take(&mut self) -> Option<(NonNull<[u8]>, bool)> {
        let firsts = self.waiting.iter().filter_map(|at| {
            let record = self.readers.get(*at)?.first()?;
            Some((*at, record))
        });
        let (at, record) = firsts.min_by_key(|(_, record)| record.when)?;
        let frame = self.readers.get_mut(at)?.take(record);
        Some((frame, record.len & ANSWERED != 0))
    }

    /// Arms the wake-up of every ring. Returns false, with none armed, if a frame is already
    /// waiting.
    pub(super) fn arm(&mut self) -> bool {
        self.armed = true;
        for reader in &self.readers {
            reader.header().armed.store(1, Ordering::SeqCst);
        }
        // The program writes a record, then looks whether the wake-up is armed.
        fence(Ordering::SeqCst);
        let sleeps = !self.has_received();
        if !sleeps {
            self.disarm();
        }
        sleeps
    }

    /// Disarms the wake-up.
    pub(super) fn disarm(&mut self) {
        if !self.armed {
            return;
        }
        self.armed = false;
        for reader in &self.readers {
            reader.header().armed.store(0, Ordering::Relaxed);
        }
        while self.doorbell.next().is_some() {}
    }

    /// Frames that were lost because a ring was full.
    pub(super) fn lost(&self) -> u64 {
        self.readers.iter().map(Reader::lost).sum()
    }
}

impl Drop for TcRing {
    fn drop(&mut self) {
        if self.owner == Some(getpid()) {
            for reader in &self.readers {
                reader.header().open.store(0, Ordering::Relaxed);
            }
        }
    }
}

/// Maps an array of a loaded program, which has `bytes` bytes.
fn map(ebpf: &Ebpf, name: &str, bytes: usize) -> Result<Mapping, Box<dyn Error>> {
    match ebpf.map(name) {
        Some(Map::Array(map)) => Ok(Mapping::of(map.fd().as_fd(), 0, bytes)?),
        _ => Err(MapError::ElementNotFound.into()),
    }
}

/// Closes the rings, since their reader ends: frames then pass on to programs that were attached
/// later, and to the kernel.
pub(super) fn close(ebpf: &Ebpf, count: usize) -> Result<(), Box<dyn Error>> {
    let rings = map(ebpf, "rings", size_of::<Ring>() * count)?;
    for at in 0..count {
        if let Some(ring) = rings.at::<Ring>(at * size_of::<Ring>(), 1) {
            // SAFETY: the mapping holds a whole ring; all fields of the header that change are
            // atomic.
            let header = unsafe { &(*ring.as_ptr()).header };
            header.open.store(0, Ordering::Relaxed);
        }
    }
    Ok(())
}

impl fmt::Debug for TcRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("TcRing");
        out.field("readers", &self.readers);
        out.finish_non_exhaustive()
    }
}

impl AsFd for TcRing {
    /// Becomes readable when a frame comes while the wake-up is armed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }
}

/// The processors that this machine can have, unless there are too many for rings. Who has changed
/// its root (chroot) cannot ask any more.
fn processors() -> Result<usize, Box<dyn Error>> {
    let count = nr_cpus().map_err(|(file, error)| format!("{file}: {error}"))?;
    if (1..=MOST_PROCESSORS).contains(&count) {
        Ok(count)
    } else {
        Err(format!("{count} processors, and rings for {MOST_PROCESSORS} at most").into())
    }
}

/// Chunks of each of `processors`.
fn chunks(processors: usize) -> usize {
    (CHUNKS / processors.max(1)).clamp(FEWEST_CHUNKS, CHUNKS / 2)
}

/// Whether the kernel can run the program: it needs links that end with the process, and at most
/// one program at a time on a processor.
fn is_possible() -> Result<(), Box<dyn Error>> {
    if KernelVersion::current()? < KernelVersion::new(6, 6, 0) {
        return Err("Linux 6.6 or newer is needed".into());
    }
    if Path::new("/sys/kernel/realtime").exists() {
        return Err("this kernel is a PREEMPT_RT one".into());
    }
    Ok(())
}

/// Whether the kernel spreads the frames of the only queue over processors (a bit is set in
/// `rps_cpus`).
fn is_steered(interface: &str) -> bool {
    let file = format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus");
    fs::read_to_string(file).is_ok_and(|processors| processors.contains(|digit| digit > '0'))
}

/// A program with rings, on an interface.
pub(super) struct Attached {
    pub(super) ebpf: Ebpf,
    pub(super) link: SchedClassifierLink,
    /// Each has a ring.
    pub(super) processors: usize,
}

/// Loads the program and attaches it to `interface`. `fill` puts our addresses into its maps.
pub(super) fn attach(
    interface: &str,
    addresses: u32,
    fill: impl FnOnce(&mut Ebpf) -> Result<(), MapError>,
) -> Result<Attached, Box<dyn Error>> {
    is_possible()?;
    if is_steered(interface) {
        return Err("receive packet steering comes before it, and XDP before that".into());
    }
    let count = processors()?;
    let mut ebpf = EbpfLoader::new()
        .map_max_entries("rings", u32::try_from(count)?)
        .map_max_entries("chunks", u32::try_from(count * chunks(count))?)
        .map_max_entries("addresses4", addresses)
        .map_max_entries("addresses6", addresses)
        .load(OBJECT)?;
    fill(&mut ebpf)?;
    program(&mut ebpf)?.load()?;
    let link = attach_again(&mut ebpf, interface)?;
    Ok(Attached {
        ebpf,
        link,
        processors: count,
    })
}

/// Attaches a loaded program to `interface`.
pub(super) fn attach_again(
    ebpf: &mut Ebpf,
    interface: &str,
) -> Result<SchedClassifierLink, ProgramError> {
    let program = program(ebpf)?;
    let link = program.attach(interface, TcAttachType::Ingress)?;
    program.take_link(link)
}

fn program(ebpf: &mut Ebpf) -> Result<&mut SchedClassifier, ProgramError> {
    ebpf.program_mut("tc_ring")
        .ok_or(ProgramError::NotLoaded)?
        .try_into()
}

#[cfg(test)]
mod tests;
