//! Up to 64 frames, each with its header, in one block of memory.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use wire::frame::{BURST, RxFrame, RxMeta, TxMeta};

use crate::virtio;

/// Frames in one block, with room for a header before each.
#[derive(Debug)]
pub(super) struct Batch {
    memory: Box<[u8]>,
    /// Bytes per frame, header included; one more than the longest, so that a longer one is seen to
    /// be cut.
    stride: usize,
    lens: [usize; BURST],
    count: usize,
}

/// What became of a batch of sends.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Frames that the kernel did not take.
    pub(super) lost: u64,
    /// The interface is gone.
    pub(super) gone: Option<io::Error>,
}

impl Batch {
    /// Room for frames of up to `frame_len` bytes.
    pub(super) fn new(frame_len: usize) -> Self {
        let stride = (virtio::LEN + frame_len + 1).next_multiple_of(64);
        Self {
            memory: vec![0; stride * BURST].into_boxed_slice(),
            stride,
            lens: [0; BURST],
            count: 0,
        }
    }

    /// Reads what is there, at most [`BURST`] frames. Returns how many were unusable.
    pub(super) fn read(&mut self, fd: BorrowedFd<'_>) -> io::Result<u64> {
        self.count = 0;
        let mut unusable = 0;
        for _ in 0..BURST {
            let start = self.count * self.stride;
            let Some(slot) = self.memory.get_mut(start..start + self.stride) else {
                break;
            };
            match rustix::io::read(fd, &mut *slot) {
                Ok(len) if usable(slot, len) => {
                    self.lens[self.count] = len;
                    self.count += 1;
                }
                Ok(_) => unusable += 1,
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(unusable)
    }

    /// The frames that were read.
    pub(super) fn frames<'a>(&'a self, into: &mut [RxFrame<'a>; BURST]) -> usize {
        let slots = self.memory.chunks_exact(self.stride).zip(&self.lens);
        let mut n = 0;
        for (frame, (slot, &len)) in into.iter_mut().zip(slots).take(self.count) {
            let Some((head, rest)) = slot.split_first_chunk() else {
                break;
            };
            *frame = RxFrame {
                bytes: rest.get(..len - virtio::LEN).unwrap_or_default(),
                meta: RxMeta {
                    checksum: virtio::parse(head).unwrap_or_default(),
                    ..RxMeta::default()
                },
            };
            n += 1;
        }
        n
    }

    /// Lends a free frame to `fill`, and keeps it until it is written. False when the batch is
    /// full.
    pub(super) fn push(&mut self, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        let start = self.count * self.stride;
        let Some(slot) = self.memory.get_mut(start..start + self.stride) else {
            return false;
        };
        let Some((head, frame)) = slot.split_first_chunk_mut() else {
            return false;
        };
        let meta = fill(frame);
        if meta.len > 0 && meta.len <= frame.len() {
            *head = virtio::emit(frame, &meta);
            self.lens[self.count] = virtio::LEN + meta.len;
            self.count += 1;
        }
        true
    }

    /// Writes all frames. What the kernel refuses is lost, as on any link.
    pub(super) fn write(&mut self, fd: BorrowedFd<'_>) -> Sent {
        let mut sent = Sent::default();
        let slots = self.memory.chunks_exact(self.stride).zip(&self.lens);
        for (slot, &len) in slots.take(self.count) {
            let frame = slot.get(..len).unwrap_or_default();
            match rustix::io::retry_on_intr(|| rustix::io::write(fd, frame)) {
                Ok(_) => {}
                Err(error @ (Errno::BADFD | Errno::NODEV)) => {
                    sent.lost += 1;
                    sent.gone = Some(error.into());
                }
                // Down (EIO), out of memory or of send buffer: the frame is lost, the link is not.
                Err(_) => sent.lost += 1,
            }
        }
        self.count = 0;
        sent
    }
}

/// Whole, with a header, and nothing that we did not ask for.
fn usable(slot: &[u8], len: usize) -> bool {
    len > virtio::LEN && len < slot.len() && slot.first_chunk().and_then(virtio::parse).is_some()
}
