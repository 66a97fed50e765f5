//! The receive ring of a packet socket (TPACKET_V2 of packet(7)): the kernel copies each frame into
//! the next slot, behind a `tpacket2_hdr` and a `virtio_net_hdr`. A slot holds a packet of the
//! interface's MTU. What the kernel has joined, several segments in one frame, has no room in one:
//! the slot says so, and the frame is read from the socket.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::c_int;
use rustix::net::{RecvFlags, recv, sockopt};
use wire::frame::{BURST, LINK_HEADERS, LONGEST, RxFrame, RxMeta};

use crate::mapping::Mapping;
use crate::{packet_socket, virtio};

/// Room in front of a frame: `TPACKET2_HDRLEN`, alignment, and the `virtio_net_hdr`.
const FRONT: usize = 128;
/// Bytes that the kernel makes room for at a time: a multiple of every slot.
const BLOCK: usize = 256 << 10;
/// Memory of the rings of all ports of an interface, and of one at least, bytes.
const ALL_BYTES: usize = 16 << 20;
const LEAST_BYTES: usize = 4 << 20;
/// Frames without room in a slot that are lent at a time.
const LONG: usize = 8;
/// Bytes that the kernel may hold of those.
const LONG_BUFFER: usize = 4 << 20;

/// The beginning of `struct tpacket2_hdr`.
#[repr(C)]
struct Header {
    /// `TP_STATUS_*`: who has the slot.
    status: AtomicU32,
    /// Bytes of the frame, and how many of them are in the slot.
    len: u32,
    snaplen: u32,
    /// Where the frame begins in the slot.
    mac: u16,
    net: u16,
}

/// How a ring is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Bytes of a slot.
    slot: usize,
    slots: usize,
    blocks: usize,
}

impl Shape {
    /// For one of `ports` ports of an interface with this MTU.
    pub(super) fn new(mtu: u16, ports: u16) -> Self {
        let slot = (FRONT + LINK_HEADERS + usize::from(mtu)).next_power_of_two();
        let bytes = (ALL_BYTES / usize::from(ports.max(1))).max(LEAST_BYTES);
        let blocks = bytes.div_ceil(BLOCK);
        Self {
            slot,
            slots: blocks * (BLOCK / slot),
            blocks,
        }
    }

    fn bytes(self) -> usize {
        self.blocks * BLOCK
    }
}

/// Sets the options that a packet socket must have before it has a ring. Returns whether the kernel
/// holds as many long frames as are wanted, and not only what it lets every socket have.
///
/// # Errors
/// A kernel without them: before Linux 4.20.
pub(super) fn prepare(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let set = |name: c_int, value: c_int| packet_socket::set(socket, name, &value);
    set(
        libc::PACKET_VERSION,
        libc::tpacket_versions::TPACKET_V2 as c_int,
    )?;
    set(libc::PACKET_VNET_HDR, 1)?;
    set(libc::PACKET_IGNORE_OUTGOING, 1)?;
    // Frames that have no room in their slots go to the socket, too.
    set(libc::PACKET_COPY_THRESH, 1)?;
    if sockopt::set_socket_recv_buffer_size_force(socket, LONG_BUFFER).is_ok() {
        return Ok(true);
    }
    sockopt::set_socket_recv_buffer_size(socket, LONG_BUFFER)?;
    Ok(sockopt::socket_recv_buffer_size(socket)? >= LONG_BUFFER)
}

/// Gives a packet socket an empty ring, in place of the one of a process that has ended.
///
/// # Errors
/// No memory for it.
pub(super) fn set_up(socket: BorrowedFd<'_>, shape: Shape) -> io::Result<()> {
    let none = libc::tpacket_req {
        tp_block_size: 0,
        tp_block_nr: 0,
        tp_frame_size: 0,
        tp_frame_nr: 0,
    };
    packet_socket::set(socket, libc::PACKET_RX_RING, &none)?;
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    let request = libc::tpacket_req {
        tp_block_size: number(BLOCK),
        tp_block_nr: number(shape.blocks),
        tp_frame_size: number(shape.slot),
        tp_frame_nr: number(shape.slots),
    };
    packet_socket::set(socket, libc::PACKET_RX_RING, &request)
}

/// Where a frame of a burst lies.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In the mapping: where it begins, and its length.
    Slot(usize, usize),
    /// Among the long ones: its number, and its length with the header before it.
    Long(usize, usize),
    /// It was cut, or is nothing that a link has.
    Lost,
}

/// The ring of a socket, mapped.
#[derive(Debug)]
pub(super) struct Ring {
    mapping: Mapping,
    shape: Shape,
    /// The slot that is filled next.
    next: usize,
    places: Box<[Place; BURST]>,
    /// Room for frames without room in a slot, from the first of them on.
    long: Vec<u8>,
    /// Frames that were lost here.
    lost: u64,
}

const LONG_STRIDE: usize = (virtio::LEN + LONGEST + 1).next_multiple_of(64);

impl Ring {
    /// Maps the ring that [`set_up`] made.
    pub(super) fn map(socket: BorrowedFd<'_>, shape: Shape) -> io::Result<Self> {
        Ok(Self {
            mapping: Mapping::of(socket, 0, shape.bytes())?,
            shape,
            next: 0,
            places: Box::new([Place::Lost; BURST]),
            long: Vec::new(),
            lost: 0,
        })
    }

    /// Whether a frame is there.
    pub(super) fn is_ready(&self) -> bool {
        self.header(self.next).is_some_and(is_filled)
    }

    /// Frames that were lost here.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Lends the next burst to `each`. Returns the number of frames.
    pub(super) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        each: impl FnOnce(&[RxFrame<'_>]),
    ) -> usize {
        let taken = self.gather(socket);
        if taken == 0 {
            return 0;
        }
        let empty = RxFrame {
            bytes: &[],
            meta: RxMeta::default(),
        };
        let mut frames = [empty; BURST];
        let mut n = 0;
        for place in self.places.iter().take(taken) {
            let frame = self.frame(*place);
            if let (Some(frame), Some(to)) = (frame, frames.get_mut(n)) {
                *to = frame;
                n += 1;
            }
        }
        if n > 0 {
            each(frames.get(..n).unwrap_or_default());
        }
        self.lost += (taken - n) as u64;
        self.give_back(taken);
        n
    }

    /// Notes where the next frames lie. Returns how many slots they have.
    fn gather(&mut self, socket: BorrowedFd<'_>) -> usize {
        let (mut taken, mut long) = (0, 0);
        while taken < BURST.min(self.shape.slots) {
            let at = (self.next + taken) % self.shape.slots;
            let Some(header) = self.header(at).filter(|header| is_filled(header)) else {
                break;
            };
            let is_copied = header.status.load(Ordering::Relaxed) & libc::TP_STATUS_COPY != 0;
            let place = if !is_copied {
                self.in_slot(at, header)
            } else if long < LONG {
                long += 1;
                self.read(socket, long - 1)
            } else {
                break;
            };
            if let Some(noted) = self.places.get_mut(taken) {
                *noted = place;
            }
            taken += 1;
        }
        taken
    }

    /// Where the frame of a slot lies: all of it is there, and inside.
    fn in_slot(&self, at: usize, header: &Header) -> Place {
        let (from, len) = (usize::from(header.mac), header.len as usize);
        let fits = from >= virtio::LEN && from + len <= self.shape.slot;
        match header.snaplen == header.len && fits {
            true => Place::Slot(at * self.shape.slot + from, len),
            false => Place::Lost,
        }
    }

    /// Reads a frame that had no room in its slot.
    #[cold]
    fn read(&mut self, socket: BorrowedFd<'_>, number: usize) -> Place {
        self.long.resize(LONG_STRIDE * LONG, 0);
        let start = number * LONG_STRIDE;
        let Some(room) = self.long.get_mut(start..start + LONG_STRIDE) else {
            return Place::Lost;
        };
        match recv(socket, room, RecvFlags::DONTWAIT) {
            Ok((len, _)) if (virtio::LEN..=virtio::LEN + LONGEST).contains(&len) => {
                Place::Long(number, len)
            }
            _ => Place::Lost,
        }
    }

    /// The frame at a place, if it is one that a link has.
    fn frame(&self, place: Place) -> Option<RxFrame<'_>> {
        let bytes = match place {
            Place::Slot(at, len) => {
                let whole = len + virtio::LEN;
                let start = self.mapping.at::<u8>(at - virtio::LEN, whole)?;
                // SAFETY: it lies in the mapping, which outlives the borrow, and the kernel does
                // not write to a slot that it has filled until it is given back.
                unsafe { std::slice::from_raw_parts(start.as_ptr(), whole) }
            }
            Place::Long(number, len) => {
                let start = number * LONG_STRIDE;
                self.long.get(start..start + len)?
            }
            Place::Lost => return None,
        };
        let (head, bytes) = bytes.split_first_chunk()?;
        Some(RxFrame {
            bytes,
            meta: RxMeta {
                checksum: virtio::parse(&virtio::without_ecn(head))?,
                ..RxMeta::default()
            },
        })
    }

    /// Gives slots back to the kernel.
    fn give_back(&mut self, count: usize) {
        for _ in 0..count {
            if let Some(header) = self.header(self.next) {
                header
                    .status
                    .store(libc::TP_STATUS_KERNEL, Ordering::Release);
            }
            self.next = (self.next + 1) % self.shape.slots;
        }
    }

    fn header(&self, slot: usize) -> Option<&Header> {
        let header = self.mapping.at::<Header>(slot * self.shape.slot, 1)?;
        // SAFETY: it lies in the mapping, which outlives the borrow. The kernel writes to the
        // fields that are not atomic only while the slot is its own, and they are read only while
        // it is not.
        Some(unsafe { header.as_ref() })
    }
}

/// Whether the kernel has filled the slot.
fn is_filled(header: &Header) -> bool {
    header.status.load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_holds_a_packet_of_the_mtu() {
        for (mtu, slot) in [(576, 1024), (1280, 2048), (1500, 2048), (9000, 16 << 10)] {
            let shape = Shape::new(mtu, 1);
            assert_eq!(shape.slot, slot);
            assert_eq!(BLOCK % shape.slot, 0);
        }
        assert!(Shape::new(u16::MAX, 1).slot <= BLOCK);
    }

    #[test]
    fn ports_share_the_memory() {
        let bytes = |ports| Shape::new(1500, ports).bytes() >> 20;
        assert_eq!([0, 1, 2, 4, 64].map(bytes), [16, 16, 8, 4, 4]);
    }
}
