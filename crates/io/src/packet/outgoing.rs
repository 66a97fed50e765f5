//! Frames on their way out through a packet socket, several in one system call.

use std::mem;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use wire::frame::{BURST, LINK_HEADERS, LONGEST, TxMeta};

use crate::{sys, virtio};

/// Bytes of frames that wait for the end of a turn, beside a burst of the shortest.
const ROOM: usize = 256 << 10;

/// Frames, each behind its `virtio_net_hdr`, in the order in which they go.
#[derive(Debug)]
pub(super) struct Outgoing {
    memory: Box<[u8]>,
    /// Where each begins, and its length.
    frames: Vec<(usize, usize)>,
    /// Frames that the kernel has.
    sent: usize,
    /// Bytes of the memory that have frames.
    used: usize,
    /// Most bytes of a packet frame with its header.
    packet: usize,
    lost: u64,
    /// The kernel says that there is no such interface any more.
    is_gone: bool,
}

impl Outgoing {
    /// For an interface with this MTU.
    pub(super) fn new(mtu: u16) -> Self {
        let packet = virtio::LEN + LINK_HEADERS + usize::from(mtu);
        Self {
            memory: vec![0; ROOM.max(BURST * packet.next_multiple_of(64))].into_boxed_slice(),
            frames: Vec::with_capacity(BURST),
            sent: 0,
            used: 0,
            packet,
            lost: 0,
            is_gone: false,
        }
    }

    /// Lends room for a packet to `fill`, and keeps what it wrote. False when there is none.
    #[inline]
    pub(super) fn push(&mut self, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        self.has_room(self.packet) && self.put(self.packet, fill)
    }

    /// The same for a frame of several segments, of up to `len` bytes. What waits goes out first
    /// where there is no room.
    pub(super) fn push_gso(
        &mut self,
        socket: BorrowedFd<'_>,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> TxMeta,
    ) -> bool {
        let want = (virtio::LEN + len.min(LONGEST)).max(self.packet);
        if !self.has_room(want) {
            self.flush(socket);
        }
        self.has_room(want) && self.put(want, fill)
    }

    fn has_room(&self, len: usize) -> bool {
        self.frames.len() < BURST && self.used + len <= self.memory.len()
    }

    fn put(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        let start = self.used;
        let room = self.memory.get_mut(start..start + len);
        let Some((head, frame)) = room.and_then(<[u8]>::split_first_chunk_mut) else {
            return false;
        };
        let meta = fill(frame);
        if meta.len > 0 && meta.len <= frame.len() {
            *head = virtio::emit(frame, &meta);
            let len = virtio::LEN + meta.len;
            self.frames.push((start, len));
            self.used = (start + len).next_multiple_of(64);
        }
        true
    }

    /// Offers what waits to the kernel. What it refuses is lost, as on any link; what it has no
    /// room for waits.
    pub(super) fn flush(&mut self, socket: BorrowedFd<'_>) {
        while let Some(waiting) = self.frames.get(self.sent..).filter(|rest| !rest.is_empty()) {
            let memory = &self.memory;
            let bytes =
                |&(start, len): &(usize, usize)| memory.get(start..start + len).unwrap_or_default();
            match sys::send_many(socket, waiting.iter().map(bytes)) {
                Ok(count) => self.sent += count.max(1),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // The queue of the interface is full, it is down, or it is gone.
                Err(error) => {
                    self.is_gone |= matches!(error, Errno::NXIO | Errno::NODEV);
                    self.lost += 1;
                    self.sent += 1;
                }
            }
        }
        self.frames.clear();
        (self.sent, self.used) = (0, 0);
    }

    /// Whether frames wait for room in the kernel.
    pub(super) fn waits(&self) -> bool {
        !self.frames.is_empty()
    }

    /// Frames that the kernel did not take.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether the kernel said since the last look that the interface is gone.
    pub(super) fn take_gone(&mut self) -> bool {
        mem::take(&mut self.is_gone)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};
    use wire::frame::TxChecksum;

    use super::*;

    fn pair() -> (std::os::fd::OwnedFd, std::os::fd::OwnedFd) {
        let flags = SocketFlags::NONBLOCK;
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
    }

    fn frame(len: usize) -> impl FnOnce(&mut [u8]) -> TxMeta {
        move |room| {
            assert!(room.len() >= len);
            room[..len].fill(7);
            TxMeta {
                len,
                checksum: TxChecksum::Complete,
                segment: 0,
            }
        }
    }

    #[test]
    fn a_burst_goes_out_in_order() {
        let (ours, theirs) = pair();
        let mut outgoing = Outgoing::new(1500);
        for len in 0..BURST {
            assert!(outgoing.push(frame(len + 1)));
        }
        assert!(!outgoing.push(frame(1)), "a burst is full");
        outgoing.flush(ours.as_fd());
        assert!(!outgoing.waits());
        for len in 0..BURST {
            let mut room = [0; 2048];
            let (got, _) = recv(&theirs, &mut room[..], RecvFlags::empty()).unwrap();
            assert_eq!(got, virtio::LEN + len + 1);
            assert_eq!(room[virtio::LEN..got], vec![7; len + 1]);
        }
    }

    #[test]
    fn what_the_kernel_has_no_room_for_waits() {
        let (ours, theirs) = pair();
        let mut outgoing = Outgoing::new(9000);
        let mut given = 0;
        while !outgoing.waits() {
            while outgoing.push(frame(9000)) {
                given += 1;
            }
            outgoing.flush(ours.as_fd());
        }
        assert_eq!(outgoing.lost(), 0);
        let mut room = [0; 10_000];
        let mut got = 0;
        while got < given {
            if recv(&theirs, &mut room[..], RecvFlags::DONTWAIT).is_ok() {
                got += 1;
            } else {
                outgoing.flush(ours.as_fd());
            }
        }
        assert!(!outgoing.waits());
    }

    #[test]
    fn a_long_frame_makes_room_for_itself() {
        let (ours, _theirs) = pair();
        let mut outgoing = Outgoing::new(1500);
        for _ in 0..BURST {
            assert!(outgoing.push(frame(60)));
        }
        assert!(outgoing.push_gso(ours.as_fd(), 60_000, frame(60_000)));
        assert_eq!((outgoing.frames.len(), outgoing.lost()), (1, 0));
    }

    #[test]
    fn what_the_kernel_refuses_is_lost_and_the_rest_goes() {
        let (ours, theirs) = pair();
        drop(theirs);
        let mut outgoing = Outgoing::new(1500);
        for _ in 0..3 {
            assert!(outgoing.push(frame(60)));
        }
        outgoing.flush(ours.as_fd());
        assert!(!outgoing.waits());
        assert_eq!(outgoing.lost(), 3);
    }
}
