//! One AF_XDP socket: the system calls.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libc::{c_int, xdp_mmap_offsets, xdp_options, xdp_statistics, xdp_umem_reg};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socket_with, sockopt,
};

use super::config::{Frames, ZeroCopy};
use super::frame_rings::{FrameRings, TxWords};
use super::rings::{Completion, Fill, Rx, Tx};
use super::umem::Umem;
use crate::sys;

/// Frames that one send call takes in copy mode (Linux 6.17, `linux/if_xdp.h`); without it 32.
const XDP_MAX_TX_SKB_BUDGET: c_int = 9;

/// Descriptors may say that there are words for the device in front of a frame (Linux 6.11,
/// `linux/if_xdp.h`).
const XDP_UMEM_TX_METADATA_LEN: u32 = 1 << 2;

/// Packets may lie in several frames (Linux 6.6, `linux/if_xdp.h`).
const XDP_USE_SG: u16 = 1 << 4;

/// What a kick of the transmit side came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kick {
    /// The kernel has seen the ring.
    Done,
    /// It took some and wants to be asked again, now or later.
    Again,
    /// It cannot take any now: the device is busy or down, or there is no memory.
    Later,
}

/// An AF_XDP socket.
#[derive(Debug)]
pub(super) struct XskSocket {
    fd: OwnedFd,
}

/// Has `make` try it with words in front of each frame, and without where that fails, for whatever
/// reason: what else is wrong is wrong without them, too. Kernels say EINVAL or EOPNOTSUPP, as old
/// as they are.
fn with_words_or_without<T>(mut make: impl FnMut(bool) -> io::Result<T>) -> io::Result<T> {
    make(true).or_else(|_| make(false))
}

impl XskSocket {
    /// A socket that is bound to nothing yet.
    pub(super) fn new() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Ok(Self {
            fd: socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)?,
        })
    }

    /// A socket with memory. Kernels that do not read what stands in front of a frame (before Linux
    /// 6.11) refuse memory that has such words: then it has none.
    pub(super) fn with_memory(frames: Frames) -> io::Result<(Self, FrameRings)> {
        let make = |words| {
            let socket = Self::new()?;
            let frame_rings = socket.register(Umem::new(frames)?, words)?;
            Ok((socket, frame_rings))
        };
        with_words_or_without(make)
    }

    /// Gives a socket memory, with words in front of each frame or without.
    pub(super) fn furnish(&self, frames: Frames, words: bool) -> io::Result<FrameRings> {
        self.register(Umem::new(frames)?, words)
    }

    /// Tells the kernel of `umem`, and whether there are words in front of a frame.
    fn tell(&self, umem: &Umem, words: bool) -> io::Result<()> {
        let (flags, tx_metadata_len) = if words {
            (XDP_UMEM_TX_METADATA_LEN, TxWords::LEN as u32)
        } else {
            (0, 0)
        };
        let memory = xdp_umem_reg {
            addr: umem.base() as u64,
            len: umem.frames().bytes(),
            chunk_size: umem.frames().size,
            headroom: 0,
            flags,
            tx_metadata_len,
        };
        self.set(libc::XDP_UMEM_REG, &memory)
    }

    /// Registers `umem` and makes the four rings: those to the kernel with room for all frames, the
    /// others for those they bring.
    fn register(&self, umem: Umem, words: bool) -> io::Result<FrameRings> {
        let frames = umem.frames();
        let Frames {
            receive,
            send,
            size,
            parts: _,
        } = frames;
        let all = frames.count().next_power_of_two();
        self.tell(&umem, words)?;
        for (ring, size) in [
            (libc::XDP_UMEM_FILL_RING, all),
            (libc::XDP_UMEM_COMPLETION_RING, send),
            (libc::XDP_RX_RING, receive),
            (libc::XDP_TX_RING, all),
        ] {
            self.set(ring, &size)?;
        }
        let offsets = self.mmap_offsets()?;
        let fd = self.fd.as_fd();
        let fill = Fill::map(fd, libc::XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, all)?;
        let completion =
            Completion::map(fd, libc::XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, send)?;
        let rx = Rx::map(fd, libc::XDP_PGOFF_RX_RING as u64, &offsets.rx, receive)?;
        let tx = Tx::map(fd, libc::XDP_PGOFF_TX_RING as u64, &offsets.tx, all)?;
        self.widen(send, size);
        Ok(FrameRings::new(umem, words, fill, rx, tx, completion))
    }

    /// Lets one send call take the whole tx ring in copy mode. Older kernels take less at a time,
    /// which only costs calls.
    fn widen(&self, frames: u32, frame_size: u32) {
        if let Err(error) = self.set(XDP_MAX_TX_SKB_BUDGET, &frames) {
            log::debug!("XDP_MAX_TX_SKB_BUDGET: {error}");
        }
        let bytes =
            usize::try_from(u64::from(frames) * u64::from(frame_size) * 2).unwrap_or(usize::MAX);
        if let Err(error) = sockopt::set_socket_send_buffer_size_force(&self.fd, bytes.min(1 << 30))
        {
            log::debug!("SO_SNDBUFFORCE: {error}");
        }
    }

    /// Binds to one queue of an interface, with frames like these.
    pub(super) fn bind(
        &self,
        (interface, queue): (u32, u32),
        zero_copy: ZeroCopy,
        frames: Frames,
    ) -> io::Result<()> {
        let parts = if frames.are_parts() { XDP_USE_SG } else { 0 };
        // Without either flag the kernel takes zero copy where the driver has it.
        let copy = match zero_copy {
            ZeroCopy::Auto => 0,
            ZeroCopy::Copy => libc::XDP_COPY,
            ZeroCopy::ZeroCopy => libc::XDP_ZEROCOPY,
        };
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: libc::XDP_USE_NEED_WAKEUP | copy | parts,
            sxdp_ifindex: interface,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        sys::bind(self.fd.as_fd(), &address)
    }

    /// Whether the kernel and we share frames (bound with zero copy), or it copies them.
    pub(super) fn is_zero_copy(&self) -> io::Result<bool> {
        let options: xdp_options = self.option(libc::XDP_OPTIONS, xdp_options { flags: 0 })?;
        Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// What the socket has lost since it was made: (received and dropped, not sent).
    pub(super) fn losses(&self) -> io::Result<(u64, u64)> {
        let zero = xdp_statistics {
            rx_dropped: 0,
            rx_invalid_descs: 0,
            tx_invalid_descs: 0,
            rx_ring_full: 0,
            rx_fill_ring_empty_descs: 0,
            tx_ring_empty_descs: 0,
        };
        let all: xdp_statistics = self.option(libc::XDP_STATISTICS, zero)?;
        Ok((all.rx_dropped + all.rx_ring_full, all.tx_invalid_descs))
    }

    /// Asks the kernel to look at the tx ring.
    pub(super) fn kick_tx(&self) -> io::Result<Kick> {
        match rustix::net::send(&self.fd, &[], SendFlags::DONTWAIT) {
            Ok(_) => Ok(Kick::Done),
            Err(error) => match error.raw_os_error() {
                libc::EAGAIN | libc::EINTR => Ok(Kick::Again),
                libc::EBUSY | libc::ENOBUFS | libc::ENOMEM | libc::ENETDOWN => Ok(Kick::Later),
                _ => Err(error.into()),
            },
        }
    }

    /// Asks the kernel to look at the fill ring.
    pub(super) fn kick_fill(&self) -> io::Result<()> {
        let nothing: &mut [u8] = &mut [];
        match rustix::net::recv(&self.fd, nothing, RecvFlags::DONTWAIT) {
            Err(error @ (Errno::NXIO | Errno::BADF | Errno::NODEV)) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Takes the pending error of the socket: `ENETDOWN` once its interface is gone.
    pub(super) fn take_error(&self) -> io::Result<()> {
        sockopt::socket_error(&self.fd)?.map_err(io::Error::from)
    }

    /// What tells the network namespace of the socket from all others (Linux 5.14).
    pub(super) fn netns_cookie(&self) -> io::Result<u64> {
        self.get(libc::SOL_SOCKET, libc::SO_NETNS_COOKIE, 0)
    }

    fn mmap_offsets(&self) -> io::Result<xdp_mmap_offsets> {
        const NONE: libc::xdp_ring_offset = libc::xdp_ring_offset {
            producer: 0,
            consumer: 0,
            desc: 0,
            flags: 0,
        };
        self.option(
            libc::XDP_MMAP_OFFSETS,
            xdp_mmap_offsets {
                rx: NONE,
                tx: NONE,
                fr: NONE,
                cr: NONE,
            },
        )
    }

    fn set<T: Copy>(&self, name: c_int, value: &T) -> io::Result<()> {
        sys::set_option(self.fd.as_fd(), (libc::SOL_XDP, name), value)
    }

    /// The option `name`. An older kernel that fills less of it than `T` is an error.
    fn option<T: Copy>(&self, name: c_int, value: T) -> io::Result<T> {
        self.get(libc::SOL_XDP, name, value)
    }

    fn get<T: Copy>(&self, level: c_int, name: c_int, mut value: T) -> io::Result<T> {
        // SAFETY: the values asked for are plain integers.
        let filled = unsafe { sys::option(self.fd.as_fd(), (level, name), &mut value) }?;
        if filled == size_of::<T>() {
            Ok(value)
        } else {
            Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "AF_XDP of this kernel is too old (Linux 5.9 is needed)",
            ))
        }
    }
}

impl AsFd for XskSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_know_no_words_in_front_of_frames_get_none() {
        for refusal in [libc::EINVAL, libc::EOPNOTSUPP] {
            let mut tried = Vec::new();
            let made = with_words_or_without(|words| {
                tried.push(words);
                if words {
                    Err(io::Error::from_raw_os_error(refusal))
                } else {
                    Ok("frame_rings")
                }
            });
            assert_eq!(
                (made.unwrap(), &tried[..]),
                ("frame_rings", &[true, false][..])
            );
        }
    }

    #[test]
    fn what_is_wrong_without_words_is_told() {
        let failed = |words| {
            let reason = if words { libc::EINVAL } else { libc::ENOBUFS };
            Err::<(), _>(io::Error::from_raw_os_error(reason))
        };
        let error = with_words_or_without(failed).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOBUFS));
    }
}
