//! Two rings in memory shared with another process, one each way, and a word each by which a side
//! says that it sleeps.
//!
//! A daemon [makes](Duplex::make) the memory, seals it and gives its descriptor to one program,
//! which [joins](Duplex::join). Each side then has the producer's end of one ring and the
//! consumer's of the other.
//!
//! The other side may write anything at any time. Each end trusts its own index only, and refuses
//! all work once the other's index cannot be (see [`crate::cursor`]); each entry is copied out
//! before it is looked at. A side that tampers with the words of sleep makes itself miss a wake-up,
//! or the other side ring once too often.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::announcement;
use crate::cursor::{Consumer, Producer, RawRing};
use crate::region::Shared;
use crate::sync::AtomicU32;

/// An entry of a ring. What travels takes one or several of them.
pub type Unit = [u64; 2];

/// Distance of words that different processors write, bytes: processors fetch lines in pairs.
const APART: usize = 128;
/// Where the indices lie: producer and consumer of the ring to the daemon, and of that to the
/// program; then the words of sleep.
const WORDS: usize = 6;
/// Where the entries begin, bytes.
const HEADER: usize = 4096;
/// Most entries of a ring.
const MAX_UNITS: u32 = 1 << 20;

/// How many entries the rings have. Both sides have to say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Of the ring to the daemon; a power of two.
    pub to_daemon: u32,
    /// Of the ring to the program; a power of two.
    pub to_program: u32,
}

impl Shape {
    /// Bytes that the memory has.
    ///
    /// # Errors
    /// `InvalidInput`: a number is not a power of two, or above 2²⁰.
    fn bytes(self) -> io::Result<usize> {
        let is_right = |n: u32| n.is_power_of_two() && n <= MAX_UNITS;
        if !is_right(self.to_daemon) || !is_right(self.to_program) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let units = self.to_daemon as usize + self.to_program as usize;
        Ok(HEADER + units * size_of::<Unit>())
    }
}

/// Which side this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Daemon,
    Program,
}

/// One side of the two rings; see the [module](self).
#[derive(Debug)]
pub struct Duplex {
    /// What this side says.
    sender: Producer<Unit>,
    /// Of that, entries that the other side does not see yet.
    staged: u32,
    /// What the other side says.
    receiver: Consumer<Unit>,
    side: Side,
    /// Both rings lie in it: dropped after them.
    memory: Shared,
}

impl Duplex {
    /// Makes the memory, sealed, and the daemon's side of it.
    ///
    /// # Errors
    /// `InvalidInput`: the shape; no descriptor or no room.
    pub fn make(shape: Shape) -> io::Result<Self> {
        let memory = Shared::create("mtcp-queues", shape.bytes()?)?;
        memory.seal()?;
        Self::over(memory, shape, Side::Daemon)
    }

    /// The program's side of memory that a daemon has made with the same shape.
    ///
    /// # Errors
    /// `InvalidInput`: the shape, or it is not that of the memory; otherwise the kernel's.
    pub fn join(memory: OwnedFd, shape: Shape) -> io::Result<Self> {
        let bytes = shape.bytes()?;
        let memory = Shared::from_fd(memory, bytes)?;
        if memory.len() != bytes {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Self::over(memory, shape, Side::Program)
    }

    fn over(memory: Shared, shape: Shape, side: Side) -> io::Result<Self> {
        let base = memory.as_ptr();
        let raw = |first: usize, entries: usize, size: u32| RawRing::<Unit> {
            producer: base.wrapping_add(first * APART).cast(),
            consumer: base.wrapping_add((first + 1) * APART).cast(),
            entries: base.wrapping_add(entries).cast(),
            size,
        };
        let behind = HEADER + shape.to_daemon as usize * size_of::<Unit>();
        let to_daemon = raw(0, HEADER, shape.to_daemon);
        let to_program = raw(2, behind, shape.to_program);
        let (send, receive) = match side {
            Side::Daemon => (to_program, to_daemon),
            Side::Program => (to_daemon, to_program),
        };
        // SAFETY: indices and entries lie inside the mapping, at different places, aligned, and it
        // lives as long as `Self`, from which the ends are not moved. Every bit pattern is a value
        // of `Unit`. `memory` was made or opened by our caller and is the only mapping of it in
        // this process that ends are made from.
        let ends = unsafe { (Producer::from_raw(send), Consumer::from_raw(receive)) };
        let (Some(sender), Some(receiver)) = ends else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        Ok(Self {
            sender,
            staged: 0,
            receiver,
            side,
            memory,
        })
    }

    /// Writes entries behind those staged already, all or none: false if there is no room. The
    /// other side sees them after [`Self::publish`].
    #[inline]
    pub fn stage(&mut self, units: &[Unit]) -> bool {
        let end = units
            .len()
            .try_into()
            .ok()
            .and_then(|n| self.staged.checked_add(n));
        let Some(end) = end.filter(|&end| self.sender.free(end) >= end) else {
            return false;
        };
        for (at, &unit) in (self.staged..end).zip(units) {
            self.sender.write(at, unit);
        }
        self.staged = end;
        true
    }

    /// Lets the other side see what is staged. True: there was something.
    #[inline]
    pub fn publish(&mut self) -> bool {
        let staged = std::mem::take(&mut self.staged);
        self.sender.publish(staged);
        staged > 0
    }

    /// Whether something is staged.
    pub fn has_staged(&self) -> bool {
        self.staged > 0
    }

    /// Takes the oldest entry of the other side.
    #[inline]
    pub fn pop(&mut self) -> Option<Unit> {
        self.receiver.pop()
    }

    /// Takes as many entries as `into` has: all or none. False: there are fewer.
    pub fn take(&mut self, into: &mut [Unit]) -> bool {
        let Ok(n) = u32::try_from(into.len()) else {
            return false;
        };
        if self.receiver.available(n) < n {
            return false;
        }
        for (at, unit) in (0..n).zip(into) {
            *unit = self.receiver.read(at).unwrap_or_default();
        }
        self.receiver.release(n);
        true
    }

    /// The other side has said nothing more.
    #[inline]
    pub fn is_empty(&mut self) -> bool {
        self.receiver.available(1) == 0
    }

    /// The other side's index was seen where it cannot be. Nothing is taken or said any more.
    pub fn is_corrupt(&self) -> bool {
        self.sender.is_corrupt() || self.receiver.is_corrupt()
    }

    /// The memory, to be given to the program.
    pub fn memory(&self) -> BorrowedFd<'_> {
        self.memory.fd()
    }

    fn word(&self, side: Side) -> &AtomicU32 {
        let index = WORDS - 2 + side as usize;
        let at = self.memory.as_ptr().wrapping_add(index * APART);
        // SAFETY: inside the mapping, aligned, accessed atomically by both sides.
        unsafe { AtomicU32::from_ptr(at.cast()) }
    }

    /// Says that this side sleeps. It then looks once more at what the other side says.
    pub fn announce_sleep(&self) {
        announcement::announce(self.word(self.side), processor());
    }

    /// That sleep is over. True: the other side has rung, or is about to.
    pub fn end_sleep(&self) -> bool {
        announcement::end(self.word(self.side))
    }

    /// The other side sleeps and has to be rung for, which nobody else does. Asked after something
    /// was published.
    #[inline]
    pub fn take_announcement(&self) -> bool {
        announcement::take(self.other())
    }

    /// Whether the other side says that it sleeps, and nobody has rung for it: only a hint.
    #[inline]
    pub fn other_sleeps(&self) -> bool {
        announcement::is_there(self.other())
    }

    /// Whether the other side last went to sleep on the processor that this one runs on: only a
    /// hint. If so, one of the two runs while the other sleeps.
    pub fn is_beside(&self) -> bool {
        announcement::is_beside(self.other(), processor())
    }

    fn other(&self) -> &AtomicU32 {
        self.word(match self.side {
            Side::Daemon => Side::Program,
            Side::Program => Side::Daemon,
        })
    }
}

/// The processor that the caller runs on.
fn processor() -> u32 {
    u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
