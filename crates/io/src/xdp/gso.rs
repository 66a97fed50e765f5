//! Segmentation offload beside AF_XDP. AF_XDP carries packets only, so frames of several segments
//! go through a packet socket, each behind a `virtio_net_hdr` that gives its `gso_size`
//! (`PACKET_VNET_HDR` of packet(7)). The kernel cuts them as late as it can, on a veth pair not at
//! all.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use libc::c_int;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SendFlags, send, sockopt};
use wire::frame::{LONGEST, TxMeta};

use crate::{packet_socket, virtio};

/// Bytes that the kernel may hold of frames sent.
const SEND_BUFFER: usize = 4 << 20;

/// The packet socket for frames of several segments, for one queue.
#[derive(Debug)]
pub(super) struct GsoSocket {
    socket: OwnedFd,
    /// One frame behind its `virtio_net_hdr`.
    memory: Box<[u8]>,
    /// Bytes in it that the kernel had no room for yet.
    waiting: usize,
    lost: u64,
}

impl GsoSocket {
    /// A socket on the interface with this index.
    ///
    /// # Errors
    /// No right to (CAP_NET_RAW), or no packet sockets in this kernel.
    pub(super) fn new(interface: u32) -> io::Result<Self> {
        let socket = packet_socket::open()?;
        let on: c_int = 1;
        packet_socket::set(socket.as_fd(), libc::PACKET_VNET_HDR, &on)?;
        if let Err(error) = sockopt::set_socket_send_buffer_size_force(&socket, SEND_BUFFER) {
            log::debug!("SO_SNDBUFFORCE of a packet socket: {error}");
        }
        packet_socket::bind(socket.as_fd(), interface, packet_socket::NONE)?;
        Ok(Self {
            socket,
            memory: vec![0; virtio::LEN + LONGEST].into_boxed_slice(),
            waiting: 0,
            lost: 0,
        })
    }

    /// Lends room to `write` and sends what it wrote. Returns false, without a call of `write`,
    /// while the last frame still waits.
    pub(super) fn send(&mut self, write: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        if !self.flush() {
            return false;
        }
        let Some((head, frame)) = self.memory.split_first_chunk_mut() else {
            return false;
        };
        let meta = write(frame);
        if (1..=frame.len()).contains(&meta.len) {
            *head = virtio::emit(frame, &meta);
            self.waiting = virtio::LEN + meta.len;
            self.flush();
        }
        true
    }

    /// Offers the waiting frame to the kernel once more. Returns whether none waits afterwards.
    pub(super) fn flush(&mut self) -> bool {
        let bytes = self.memory.get(..self.waiting).unwrap_or_default();
        if bytes.is_empty() {
            return true;
        }
        match retry_on_intr(|| send(&self.socket, bytes, SendFlags::DONTWAIT)) {
            Err(Errno::AGAIN) => return false,
            Ok(_) => {}
            // A queue discipline that is full, an interface that is down: the frame is lost, as on
            // any link.
            Err(_) => self.lost += 1,
        }
        self.waiting = 0;
        true
    }

    /// Whether a frame waits for room in the kernel.
    pub(super) fn waits(&self) -> bool {
        self.waiting > 0
    }

    /// Frames that the kernel did not take.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}
