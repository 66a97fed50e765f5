//! The four rings of an AF_XDP socket, as ends of the common cursor.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{XDP_RING_NEED_WAKEUP, xdp_desc, xdp_ring_offset};
use ring::cursor::{Consumer, Producer, RawRing};

use crate::mapping::Mapping;

/// Free frames on their way to the kernel (their addresses).
pub(super) type Fill = ToKernel<u64>;
/// Filled frames on their way out.
pub(super) type Tx = ToKernel<xdp_desc>;
/// Received frames.
pub(super) type Rx = FromKernel<xdp_desc>;
/// Sent frames that are free again (their addresses).
pub(super) type Completion = FromKernel<u64>;

/// A ring that we fill and the kernel drains.
#[derive(Debug)]
pub(super) struct ToKernel<T: Copy> {
    cursor: Producer<T>,
    size: u32,
    /// Written, not published yet.
    staged: u32,
    flags: NonNull<AtomicU32>,
    _mapping: Mapping,
}

// SAFETY: `flags` points into `_mapping`, which moves along and may be used from any thread.
unsafe impl<T: Copy + Send> Send for ToKernel<T> {}

impl<T: Copy> ToKernel<T> {
    /// The ring of `size` entries that `socket` has at page offset `page`, laid out as `offsets`
    /// says.
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        page: u64,
        offsets: &xdp_ring_offset,
        size: u32,
    ) -> io::Result<Self> {
        let (mapping, raw) = map::<T>(socket, page, offsets, size)?;
        let flags = usize::try_from(offsets.flags)
            .ok()
            .and_then(|flags| mapping.at(flags, 1));
        // SAFETY: `map` checked that indices and entries lie in `mapping`, which lives as long as
        // the cursor, and each ring is mapped once, so this is its only producer.
        let cursor = unsafe { Producer::from_raw(raw) };
        match (cursor, flags) {
            (Some(cursor), Some(flags)) => Ok(Self {
                cursor,
                size,
                staged: 0,
                flags,
                _mapping: mapping,
            }),
            _ => Err(bad_layout()),
        }
    }

    /// Writes one entry, seen by the kernel from the next [`Self::publish`] on. Returns whether
    /// there was room.
    pub(super) fn stage(&mut self, value: T) -> bool {
        let room = self.cursor.free(self.staged + 1) > self.staged
            && self.cursor.write(self.staged, value);
        self.staged += u32::from(room);
        room
    }

    /// Shows the staged entries to the kernel.
    pub(super) fn publish(&mut self) {
        if self.staged > 0 {
            self.cursor.publish(self.staged);
            self.staged = 0;
        }
    }

    /// Published entries that the kernel has not taken yet.
    pub(super) fn unread(&mut self) -> u32 {
        debug_assert_eq!(self.staged, 0, "publish first");
        self.size.saturating_sub(self.cursor.free(self.size))
    }

    /// Whether the kernel wants a system call before it looks at the ring again.
    pub(super) fn needs_wakeup(&self) -> bool {
        // SAFETY: points into the mapping that `self` holds; the kernel accesses it atomically as
        // well.
        let flags = unsafe { self.flags.as_ref() };
        flags.load(Ordering::Relaxed) & XDP_RING_NEED_WAKEUP != 0
    }
}

/// A ring that the kernel fills and we drain.
#[derive(Debug)]
pub(super) struct FromKernel<T: Copy> {
    cursor: Consumer<T>,
    _mapping: Mapping,
}

impl<T: Copy> FromKernel<T> {
    /// As [`ToKernel::map`].
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        page: u64,
        offsets: &xdp_ring_offset,
        size: u32,
    ) -> io::Result<Self> {
        let (mapping, raw) = map::<T>(socket, page, offsets, size)?;
        // SAFETY: `map` checked that indices and entries lie in `mapping`, which lives as long as
        // the cursor, and each ring is mapped once, so this is its only consumer.
        let cursor = unsafe { Consumer::from_raw(raw) }.ok_or_else(bad_layout)?;
        Ok(Self {
            cursor,
            _mapping: mapping,
        })
    }

    /// Entries to read, at most `want`.
    pub(super) fn available(&mut self, want: u32) -> u32 {
        self.cursor.available(want).min(want)
    }

    /// The entry `offset` past those released.
    pub(super) fn read(&self, offset: u32) -> Option<T> {
        self.cursor.read(offset)
    }

    /// Gives `count` entries back to the kernel.
    pub(super) fn release(&mut self, count: u32) {
        self.cursor.release(count);
    }
}

fn map<T>(
    socket: BorrowedFd<'_>,
    page: u64,
    offsets: &xdp_ring_offset,
    size: u32,
) -> io::Result<(Mapping, RawRing<T>)> {
    let layout = || {
        let count = usize::try_from(size).ok()?;
        let entries = usize::try_from(offsets.desc).ok()?;
        let producer = usize::try_from(offsets.producer).ok()?;
        let consumer = usize::try_from(offsets.consumer).ok()?;
        let len = size_of::<T>().checked_mul(count)?.checked_add(entries)?;
        Some((len, entries, producer, consumer, count))
    };
    let (len, entries, producer, consumer, count) = layout().ok_or_else(bad_layout)?;
    let mapping = Mapping::of(socket, page, len)?;
    let raw = || {
        Some(RawRing {
            producer: mapping.at::<AtomicU32>(producer, 1)?.as_ptr().cast_const(),
            consumer: mapping.at::<AtomicU32>(consumer, 1)?.as_ptr().cast_const(),
            entries: mapping.at::<T>(entries, count)?.as_ptr(),
            size,
        })
    };
    let raw = raw().ok_or_else(bad_layout)?;
    Ok((mapping, raw))
}

fn bad_layout() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the kernel describes a ring that does not fit its own mapping",
    )
}
