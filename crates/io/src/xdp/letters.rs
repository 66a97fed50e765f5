//! Receives frames that traffic control copies into our memory: on a veth pair that takes a third of the time that AF_XDP takes, and a sender
//! keeps its segmentation. `bpf/letters.bpf.c` does it, with a box for each processor. AF_XDP sockets send beside it, and keep others off.

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

use super::lanes::fetch_head;
use super::mapping::Mapping;

/// `bpf/letters.bpf.c`, compiled; `bpf/check.sh` checks that the two match.
static OBJECT: &[u8] = include_bytes_aligned!("../../bpf/letters.bpf.o");

/// Letters of a box that may wait.
const LETTERS: usize = 16_384;
/// Where a frame begins is a multiple of this, bytes.
const LINE: usize = 64;
/// Memory for frames in the box, bytes: so little that it stays in the processor's cache.
const NEAR: usize = (64 << 10) + 4096;
/// What there is more of it comes in pieces of so many bytes.
const CHUNK: usize = 256 << 10;
/// How many of those all processors have, unless each then had less than [`FEWEST_CHUNKS`].
const CHUNKS: usize = 128;
const FEWEST_CHUNKS: usize = 4;
/// With more processors than these the boxes would take too much memory and time to look at.
const MOST_PROCESSORS: usize = 64;
/// Marks a place in the chunks.
const FAR: u32 = 1 << 31;
/// Marks the length of a SYN that was answered.
const ANSWERED: u32 = 1 << 31;

/// Where a frame lies, and when it came: as in `bpf/letters.bpf.c`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Letter {
    at: u32,
    len: u32,
    when: u64,
}

/// The words at the front of a box, as in `bpf/letters.bpf.c`.
#[repr(C)]
struct Head {
    written: AtomicU32,
    near: AtomicU32,
    far: AtomicU32,
    _reserved: u32,
    lost: AtomicU64,
    _reserved_too: [u64; 5],
    read: AtomicU32,
    near_read: AtomicU32,
    far_read: AtomicU32,
    far_bytes: AtomicU32,
    open: AtomicU32,
    asleep: AtomicU32,
    _reserved_three: [u32; 10],
}

/// A box, as in `bpf/letters.bpf.c`.
#[repr(C)]
struct Shared {
    head: Head,
    letters: [Letter; LETTERS],
    bytes: [u8; NEAR],
}

/// One box and how far we are in it.
#[derive(Debug)]
struct Reader {
    shared: NonNull<Shared>,
    chunks: NonNull<u8>,
    /// Bytes of those.
    far_bytes: usize,
    /// Letters that were there when we looked last, and those of them that we took.
    written: u32,
    read: u32,
    near_read: u32,
    far_read: u32,
    /// Frames lost before we came.
    lost_before: u64,
}

impl Reader {
    fn head(&self) -> &Head {
        // SAFETY: it lies in a mapping that lives as long as the reader and holds a whole box; all that changes in it is atomic.
        unsafe { &(*self.shared.as_ptr()).head }
    }

    fn open(&mut self) {
        let head = self.head();
        let (written, near, far) = (
            head.written.load(Ordering::Acquire),
            head.near.load(Ordering::Relaxed),
            head.far.load(Ordering::Relaxed),
        );
        let lost = head.lost.load(Ordering::Relaxed);
        (self.read, self.near_read, self.far_read) = (written, near, far);
        self.lost_before = lost;
        self.release();
        let far_bytes = u32::try_from(self.far_bytes).unwrap_or_default();
        let head = self.head();
        head.far_bytes.store(far_bytes, Ordering::Relaxed);
        head.asleep.store(0, Ordering::Relaxed);
        head.open.store(1, Ordering::Release);
    }

    fn has_received(&self) -> bool {
        self.head().written.load(Ordering::Relaxed) != self.read
    }

    /// Looks what there is. Returns whether there is anything.
    fn look(&mut self) -> bool {
        self.written = self.head().written.load(Ordering::Acquire);
        self.written != self.read
    }

    /// The first letter that was there when we looked.
    fn first(&self) -> Option<Letter> {
        if self.written == self.read {
            return None;
        }
        let at = self.read as usize % LETTERS;
        // SAFETY: as in `head`, and `at` is one of the letters. The program leaves it alone until we say that we read it.
        Some(unsafe { (&raw const (*self.shared.as_ptr()).letters[at]).read() })
    }

    /// Takes the first letter, which this is. The bytes are ours until `release`.
    fn take(&mut self, letter: Letter) -> NonNull<[u8]> {
        self.read = self.read.wrapping_add(1);
        let (at, len) = (
            (letter.at & !FAR) as usize,
            (letter.len & !ANSWERED) as usize,
        );
        let (start, room) = if letter.at & FAR == 0 {
            self.near_read = (at + len.next_multiple_of(LINE)) as u32;
            // SAFETY: as in `head`; no reference is made.
            let bytes = unsafe { &raw mut (*self.shared.as_ptr()).bytes };
            (bytes.cast::<u8>(), NEAR)
        } else {
            self.far_read = (at + len.next_multiple_of(LINE)) as u32;
            (self.chunks.as_ptr(), self.far_bytes)
        };
        let inside = at.checked_add(len).is_some_and(|end| end <= room);
        debug_assert!(inside, "the program keeps to its memory");
        let (at, len) = if inside { (at, len) } else { (0, 0) };
        // SAFETY: `start` is not null, and `at` lies in its `room` bytes.
        let start = unsafe { NonNull::new_unchecked(start).add(at) };
        NonNull::slice_from_raw_parts(start, len)
    }

    /// Gives back what was taken.
    fn release(&self) {
        let head = self.head();
        head.near_read.store(self.near_read, Ordering::Release);
        head.far_read.store(self.far_read, Ordering::Release);
        head.read.store(self.read, Ordering::Release);
    }

    fn lost(&self) -> u64 {
        let lost = self.head().lost.load(Ordering::Relaxed);
        lost.wrapping_sub(self.lost_before)
    }
}

/// What an interface receives through traffic control.
pub(super) struct Letters {
    readers: Vec<Reader>,
    /// Those that have letters.
    waiting: Vec<usize>,
    /// Becomes readable when a letter came while we said that we sleep.
    bell: RingBuf<MapData>,
    /// The process that opened them, if any did: one that it forks has them too.
    owner: Option<Pid>,
    asleep: bool,
    _mappings: [Mapping; 2],
}

// SAFETY: the readers point into the mappings, which belong to the process; nobody else in it has those.
unsafe impl Send for Letters {}

impl Letters {
    /// The memory of a loaded program. What comes still goes to the kernel.
    pub(super) fn new(ebpf: &Ebpf) -> Result<Self, Box<dyn Error>> {
        let count = processors().ok_or("too many processors")?;
        let far_bytes = chunks(count) * CHUNK;
        let boxes = map(ebpf, "boxes", size_of::<Shared>() * count)?;
        let chunks = map(ebpf, "chunks", far_bytes * count)?;
        let reader = |processor| {
            Some(Reader {
                shared: boxes.at(processor * size_of::<Shared>(), 1)?,
                chunks: chunks.at(processor * far_bytes, far_bytes)?,
                far_bytes,
                written: 0,
                read: 0,
                near_read: 0,
                far_read: 0,
                lost_before: 0,
            })
        };
        let readers: Option<Vec<Reader>> = (0..count).map(reader).collect();
        let Some(Map::RingBuf(bell)) = ebpf.map("bell") else {
            return Err(MapError::ElementNotFound.into());
        };
        let bell = MapData::from_fd(bell.fd().as_fd().try_clone_to_owned()?)?;
        Ok(Self {
            readers: readers.ok_or_else(|| io::Error::other("maps of another size"))?,
            waiting: Vec::with_capacity(count),
            bell: RingBuf::try_from(Map::RingBuf(bell))?,
            owner: None,
            asleep: false,
            _mappings: [boxes, chunks],
        })
    }

    /// Begins to receive.
    pub(super) fn open(&mut self) {
        self.readers.iter_mut().for_each(Reader::open);
        self.owner = Some(getpid());
    }

    /// Whether a frame has been received and not lent yet.
    pub(super) fn has_received(&self) -> bool {
        self.readers.iter().any(Reader::has_received)
    }

    /// Lends the next burst to `each` in the order in which its frames came, what `meta` says about each along with it.
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

    /// Takes the letter that came first, and says whether it is a SYN that was answered.
    fn take(&mut self) -> Option<(NonNull<[u8]>, bool)> {
        let firsts = self.waiting.iter().filter_map(|at| {
            let letter = self.readers.get(*at)?.first()?;
            Some((*at, letter))
        });
        let (at, letter) = firsts.min_by_key(|(_, letter)| letter.when)?;
        let frame = self.readers.get_mut(at)?.take(letter);
        Some((frame, letter.len & ANSWERED != 0))
    }

    /// Says that we sleep. Returns false, and does not say it, when a frame is there.
    pub(super) fn lie_down(&mut self) -> bool {
        self.asleep = true;
        for reader in &self.readers {
            reader.head().asleep.store(1, Ordering::SeqCst);
        }
        // The program writes, then looks whether we sleep.
        fence(Ordering::SeqCst);
        let sleeps = !self.has_received();
        if !sleeps {
            self.get_up();
        }
        sleeps
    }

    /// Ends a sleep.
    pub(super) fn get_up(&mut self) {
        if !self.asleep {
            return;
        }
        self.asleep = false;
        for reader in &self.readers {
            reader.head().asleep.store(0, Ordering::Relaxed);
        }
        while self.bell.next().is_some() {}
    }

    /// Frames that found no room.
    pub(super) fn lost(&self) -> u64 {
        self.readers.iter().map(Reader::lost).sum()
    }
}

impl Drop for Letters {
    fn drop(&mut self) {
        if self.owner == Some(getpid()) {
            for reader in &self.readers {
                reader.head().open.store(0, Ordering::Relaxed);
            }
        }
    }
}

/// The memory of an array of a loaded program.
fn map(ebpf: &Ebpf, name: &str, bytes: usize) -> Result<Mapping, Box<dyn Error>> {
    match ebpf.map(name) {
        Some(Map::Array(map)) => Ok(Mapping::of(map.fd().as_fd(), 0, bytes)?),
        _ => Err(MapError::ElementNotFound.into()),
    }
}

/// Has what comes go on to the kernel, and to programs that were attached later: who received it ends.
pub(super) fn close(ebpf: &Ebpf) -> Result<(), Box<dyn Error>> {
    let count = processors().ok_or("too many processors")?;
    let boxes = map(ebpf, "boxes", size_of::<Shared>() * count)?;
    for at in 0..count {
        if let Some(shared) = boxes.at::<Shared>(at * size_of::<Shared>(), 1) {
            // SAFETY: it lies in the mapping and holds a whole box; all that changes in its head is atomic.
            let head = unsafe { &(*shared.as_ptr()).head };
            head.open.store(0, Ordering::Relaxed);
        }
    }
    Ok(())
}

impl fmt::Debug for Letters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Letters");
        out.field("readers", &self.readers);
        out.finish_non_exhaustive()
    }
}

impl AsFd for Letters {
    /// Becomes readable when a frame came while we said that we sleep.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// The processors that this machine can have, if not too many for us.
fn processors() -> Option<usize> {
    let count = nr_cpus().ok();
    count.filter(|count| (1..=MOST_PROCESSORS).contains(count))
}

/// How many chunks each of `processors` has.
fn chunks(processors: usize) -> usize {
    (CHUNKS / processors.max(1)).clamp(FEWEST_CHUNKS, CHUNKS / 2)
}

/// Whether the kernel can: it has links that end with the process, and runs at most one program on a processor.
fn is_possible() -> Result<(), Box<dyn Error>> {
    if KernelVersion::current()? < KernelVersion::new(6, 6, 0) {
        return Err("Linux 6.6 or newer is needed".into());
    }
    if Path::new("/sys/kernel/realtime").exists() {
        return Err("this kernel is a PREEMPT_RT one".into());
    }
    Ok(())
}

/// Whether the kernel hands on to another processor what its only queue receives (a bit is set in `rps_cpus`).
fn is_steered(interface: &str) -> bool {
    let file = format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus");
    fs::read_to_string(file).is_ok_and(|processors| processors.contains(|digit| digit > '0'))
}

/// Loads the program and attaches it to `interface`. `fill` puts our addresses into its maps.
pub(super) fn attach(
    interface: &str,
    addresses: u32,
    fill: impl FnOnce(&mut Ebpf) -> Result<(), MapError>,
) -> Result<(Ebpf, SchedClassifierLink), Box<dyn Error>> {
    is_possible()?;
    if is_steered(interface) {
        return Err("receive packet steering comes before it, and XDP before that".into());
    }
    let count = processors().ok_or("too many processors")?;
    let mut ebpf = EbpfLoader::new()
        .map_max_entries("boxes", u32::try_from(count)?)
        .map_max_entries("chunks", u32::try_from(count * chunks(count))?)
        .map_max_entries("addresses4", addresses)
        .map_max_entries("addresses6", addresses)
        .load(OBJECT)?;
    fill(&mut ebpf)?;
    program(&mut ebpf)?.load()?;
    let link = attach_again(&mut ebpf, interface)?;
    Ok((ebpf, link))
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
    ebpf.program_mut("letters")
        .ok_or(ProgramError::NotLoaded)?
        .try_into()
}

#[cfg(test)]
mod tests;
