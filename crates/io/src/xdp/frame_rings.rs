//! The life of the frames of one queue.
//!
//! The first half of the frames goes round fill ring → kernel → rx ring → lent to the stack → fill
//! ring, the second half free list → tx ring → kernel → completion ring → free list. The kernel's
//! rings hold all the frames of their half. Ours hold twice as many: the kernel hands a frame on
//! before it says that it has taken it (it moves the fill ring's consumer index after the rx ring's
//! producer index), so a frame may come round while its last entry still counts.

use libc::xdp_desc;
use ring::prefetch::prefetch_read;
use wire::frame::{BURST, RxFrame, RxMeta, TxChecksum, TxMeta};

use super::config::FRONT;
use super::parts::{Joiner, XDP_PKT_CONTD};
use super::rings::{Completion, Fill, Rx, Tx};
use super::umem::{Ledger, Place, Umem};

/// What is asked for of a received frame before any of it is looked at, bytes: headers, and data of
/// a short one.
const HEAD: usize = 128;
/// In the options of a descriptor: there are words (`linux/if_xdp.h`).
const XDP_TX_METADATA: u32 = 1 << 1;

/// What a device is to do with a frame: `struct xsk_tx_metadata` of `linux/if_xdp.h`, which lies
/// right before it.
pub(super) struct TxWords;

impl TxWords {
    /// Bytes.
    pub(super) const LEN: usize = 24;
    /// In the first word: finish the checksum.
    const XDP_TXMD_FLAGS_CHECKSUM: u64 = 1 << 1;

    /// Writes what `checksum` leaves to the device. Returns the options of the descriptor.
    fn write(into: &mut [u8], checksum: TxChecksum) -> u32 {
        let TxChecksum::Partial { start, offset } = checksum else {
            return 0;
        };
        let ([a, b], [c, d]) = (start.to_ne_bytes(), offset.to_ne_bytes());
        let flags = Self::XDP_TXMD_FLAGS_CHECKSUM.to_ne_bytes();
        let words = [flags, [a, b, c, d, 0, 0, 0, 0], [0; 8]];
        into.copy_from_slice(words.as_flattened());
        XDP_TX_METADATA
    }
}

/// Frames and rings of one queue; knows nothing of the socket they belong to.
#[derive(Debug)]
pub(super) struct FrameRings {
    umem: Umem,
    pub(super) fill: Fill,
    rx: Rx,
    pub(super) tx: Tx,
    completion: Completion,
    free: Vec<u32>,
    ledger: Ledger,
    /// The kernel reads what stands in front of a frame to send.
    words: bool,
    /// Where packets may lie in several frames: what puts those together that are received, ...
    joiner: Option<Box<Joiner>>,
    /// ... and by the first of the frames that carry a packet to send together, how many of them
    /// the kernel has.
    sending: Vec<u8>,
}

impl FrameRings {
    /// Hands the first half of the frames to the kernel. Fill and tx ring have room for all frames,
    /// the others for half of them.
    pub(super) fn new(
        umem: Umem,
        words: bool,
        fill: Fill,
        rx: Rx,
        tx: Tx,
        completion: Completion,
    ) -> Self {
        let frames = umem.frames();
        let mut frame_rings = Self {
            ledger: Ledger::new(frames.count()),
            // Popped from the end: the lowest address first.
            free: (0..frames.send / frames.parts)
                .rev()
                .map(|place| frames.receive + place * frames.parts)
                .collect(),
            joiner: frames
                .are_parts()
                .then(|| Box::new(Joiner::new(frames.size))),
            sending: vec![0; (frames.send / frames.parts) as usize],
            umem,
            fill,
            rx,
            tx,
            completion,
            words,
        };
        for index in 0..frames.receive {
            frame_rings
                .ledger
                .moves(index, Place::Free, Place::Receiving);
            frame_rings.fill.stage(frame_rings.umem.address(index));
        }
        frame_rings.fill.publish();
        frame_rings
    }

    /// Whether frames may be sent whose checksum is left to the device.
    pub(super) fn finishes_checksums(&self) -> bool {
        self.words
    }

    /// Whether a frame has been received and not lent yet.
    pub(super) fn has_received(&mut self) -> bool {
        self.rx.available(1) > 0
    }

    /// Lends the next burst to `each`, what `meta` says about each frame along with it, and gives
    /// the frames back to the kernel.
    pub(super) fn receive(
        &mut self,
        meta: impl Fn(&[u8]) -> RxMeta,
        each: impl FnOnce(&[RxFrame<'_>]),
    ) -> usize {
        if self.joiner.is_some() {
            return self.receive_parts(meta, each);
        }
        let count = self.rx.available(BURST as u32);
        if count == 0 {
            return 0;
        }
        let mut frames = [RxFrame {
            bytes: &[],
            meta: RxMeta::default(),
        }; BURST];
        for (offset, frame) in (0..count).zip(&mut frames) {
            let Some(entry) = self.rx.read(offset) else {
                continue;
            };
            // SAFETY: what is in the rx ring and not released yet is ours, and only read until
            // `recycle`.
            frame.bytes = unsafe { self.umem.bytes_at(entry.addr, entry.len) }.unwrap_or_default();
            fetch_head(frame.bytes);
            if let Some(index) = self.umem.index(entry.addr) {
                self.ledger.moves(index, Place::Receiving, Place::HandOut);
            }
        }
        let frames = frames.get_mut(..count as usize).unwrap_or_default();
        for frame in &mut *frames {
            frame.meta = meta(frame.bytes);
        }
        each(frames);
        self.recycle(count);
        count as usize
    }

    /// As [`FrameRings::receive`], where packets may lie in several frames. Those are copied
    /// together.
    #[inline(never)]
    fn receive_parts(
        &mut self,
        meta: impl Fn(&[u8]) -> RxMeta,
        each: impl FnOnce(&[RxFrame<'_>]),
    ) -> usize {
        let umem = &self.umem;
        let Some(joiner) = &mut self.joiner else {
            return 0;
        };
        joiner.begin();
        let count = self.rx.available(BURST as u32);
        let rx = &self.rx;
        let part = |entry: &xdp_desc| {
            // SAFETY: what is in the rx ring and not released yet is ours, and only read until
            // `recycle`.
            unsafe { umem.bytes_at(entry.addr, entry.len) }.unwrap_or_default()
        };
        for number in 0..count {
            let Some(entry) = rx.read(number) else {
                continue;
            };
            joiner.add(number, part(&entry), entry.options & XDP_PKT_CONTD == 0);
            if let Some(index) = umem.index(entry.addr) {
                self.ledger.moves(index, Place::Receiving, Place::HandOut);
            }
        }
        let at = |number| rx.read(number).map_or(&[][..], |entry| part(&entry));
        let make = |bytes| RxFrame {
            bytes,
            meta: meta(bytes),
        };
        let packets = joiner.lend(at, make, each);
        self.recycle(count);
        packets
    }

    /// Packets that were received and were longer than any is.
    pub(super) fn lost(&self) -> u64 {
        self.joiner.as_ref().map_or(0, |joiner| joiner.lost())
    }

    /// Gives the first `count` frames of the rx ring back to the fill ring.
    fn recycle(&mut self, count: u32) {
        for offset in 0..count {
            // A descriptor points past the headroom; the fill ring takes frame starts.
            let index = self
                .rx
                .read(offset)
                .and_then(|entry| self.umem.index(entry.addr));
            if let Some(index) = index {
                self.ledger.moves(index, Place::HandOut, Place::Receiving);
                let room = self.fill.stage(self.umem.address(index));
                debug_assert!(
                    room,
                    "the fill ring holds every frame that is received into"
                );
            }
        }
        self.rx.release(count);
        self.fill.publish();
    }

    /// Lends `room` bytes of a free frame to `write` and queues what it wrote. Returns false, and
    /// does not call `write`, when no frame is free.
    pub(super) fn send(&mut self, room: u32, write: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        if self.free.is_empty() {
            self.reap();
        }
        // Taken off the list only when it is queued: should `write` unwind, the frame is still
        // there.
        let Some(&index) = self.free.last() else {
            return false;
        };
        let address = self.umem.address(index) + u64::from(FRONT);
        let words = TxWords::LEN as u32;
        let (from, len) = (address - u64::from(words), room + words);
        let parts = self.umem.frames().parts;
        // SAFETY: a frame on the free list is ours alone, and so are those behind it that carry a
        // packet with it.
        let bytes = unsafe { self.umem.parts_at_mut(from, len, parts) };
        let Some((words, frame)) = bytes.and_then(|bytes| bytes.split_at_mut_checked(TxWords::LEN))
        else {
            return false;
        };
        let meta = write(frame);
        let options = TxWords::write(words, meta.checksum);
        let queued = u32::try_from(meta.len)
            .ok()
            .filter(|len| (1..=room).contains(len));
        if let Some(len) = queued {
            if parts > 1 {
                self.queue_parts(index, len, options);
            } else {
                self.queue(index, address, len, options);
            }
            self.free.pop();
        }
        true
    }

    /// Queues what a frame holds.
    #[inline]
    fn queue(&mut self, index: u32, addr: u64, len: u32, options: u32) {
        let queued = self.tx.stage(xdp_desc { addr, len, options });
        debug_assert!(queued, "the tx ring holds every frame that is sent from");
        self.ledger.moves(index, Place::Free, Place::Sending);
    }

    /// Queues what lies in the frames from this one on. What is to be done with it stands before
    /// the first.
    #[inline(never)]
    fn queue_parts(&mut self, first: u32, len: u32, options: u32) {
        let size = self.umem.frames().size;
        let part = size - FRONT;
        let parts = len.div_ceil(part);
        self.part(first, len, parts);
        for number in 0..parts {
            let index = first + number;
            let address = self.umem.address(index) + u64::from(FRONT);
            let goes_on = if number + 1 < parts { XDP_PKT_CONTD } else { 0 };
            let options = if number == 0 { options } else { 0 } | goes_on;
            let len = (len - number * part).min(part);
            self.queue(index, address, len, options);
        }
        let place = self.place(first);
        if let Some(sending) = self.sending.get_mut(place) {
            *sending = parts as u8;
        }
    }

    /// Moves what was written as one to where it begins in each frame.
    fn part(&mut self, first: u32, len: u32, parts: u32) {
        let frames = self.umem.frames();
        let (address, all) = (self.umem.address(first), frames.parts);
        // SAFETY: as in `send`: the frames are on the free list.
        let bytes = unsafe { self.umem.parts_at_mut(address, frames.size * all, all) };
        let Some(bytes) = bytes else {
            return;
        };
        let (front, size) = (FRONT as usize, frames.size as usize);
        let (part, end) = (size - front, front + len as usize);
        // The last one first: it moves farthest.
        for number in (1..parts as usize).rev() {
            let from = front + number * part;
            bytes.copy_within(from..end.min(from + part), number * size + front);
        }
    }

    /// The number of the frames to send together that this one is of.
    fn place(&self, index: u32) -> usize {
        let frames = self.umem.frames();
        (index.saturating_sub(frames.receive) / frames.parts) as usize
    }

    /// Takes back the frames that the kernel has sent.
    pub(super) fn reap(&mut self) {
        let count = self.completion.available(u32::MAX);
        for offset in 0..count {
            let index = self
                .completion
                .read(offset)
                .and_then(|address| self.umem.index(address));
            if let Some(index) = index
                && self.free.len() < self.free.capacity()
            {
                self.ledger.moves(index, Place::Sending, Place::Free);
                if self.joiner.is_some() {
                    self.free_part(index);
                } else {
                    self.free.push(index);
                }
            }
        }
        self.completion.release(count);
    }

    /// The kernel gave back one of the frames that carried a packet.
    #[inline(never)]
    fn free_part(&mut self, index: u32) {
        let place = self.place(index);
        let frames = self.umem.frames();
        if let Some(sending @ 1..) = self.sending.get_mut(place) {
            *sending -= 1;
            if *sending == 0 {
                self.free.push(frames.receive + place as u32 * frames.parts);
            }
        }
    }
}

/// Asks for the first lines of a frame, which the processor has that copied it: those of a burst
/// arrive together.
pub(super) fn fetch_head(frame: &[u8]) {
    for line in frame.get(..HEAD).unwrap_or(frame).chunks(64) {
        prefetch_read(line.as_ptr());
    }
}

#[cfg(test)]
mod tests;
