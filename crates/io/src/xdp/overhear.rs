//! What is said on the link and concerns us, but is not addressed to us: who moved (gratuitous ARP, unsolicited neighbour advertisements, router
//! advertisements), and who has an address of ours. XDP gives a frame to one side only, and these are the kernel's too: packet sockets beside
//! it see them there. Where the kernel knows a neighbour to be, or is told by the administrator, it tells by netlink; the stack hears that as an
//! announcement of the neighbour, which is what it would be if the neighbour had said it to all.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libc::sock_filter;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};
use wire::ethernet::EtherType;
use wire::frame::{RxFrame, RxMeta};

use super::filter;
use crate::claim::announcement;
use crate::netlink::{neighbour_events, told};
use crate::sys;

/// Frames that are read at a time.
const MOST: usize = 16;
/// Bytes of a frame that are kept. What we listen for is shorter, but for router advertisements with many prefixes.
const ROOM: usize = 512;

/// The sockets, and what they heard.
#[derive(Debug)]
pub(super) struct Overheard {
    sockets: Vec<OwnedFd>,
    /// Where the kernel tells what it learns of neighbours.
    kernel: Option<OwnedFd>,
    /// Ours, of which nobody else tells where they are.
    addresses: Box<[IpAddr]>,
    frames: Box<[[u8; ROOM]; MOST]>,
    lengths: [usize; MOST],
    /// Frames that were read and not lent yet.
    waiting: usize,
}

impl Overheard {
    /// Listens beside a stack that has these addresses.
    pub(super) fn new(interface: u32, addresses: &[IpAddr]) -> io::Result<Self> {
        let mut sockets = Vec::with_capacity(2);
        let v4: Vec<_> = addresses
            .iter()
            .filter_map(|address| match address {
                IpAddr::V4(address) => Some(*address),
                IpAddr::V6(_) => None,
            })
            .collect();
        if !v4.is_empty() {
            sockets.push(open(interface, EtherType::ARP, &filter::arp(&v4))?);
        }
        if v4.len() < addresses.len() {
            sockets.push(open(interface, EtherType::IPV6, &filter::advertisements())?);
        }
        let kernel = neighbour_events(&filter::neighbours(interface))
            .inspect_err(|error| log::debug!("the kernel's neighbours are not followed: {error}"));
        Ok(Self {
            sockets,
            kernel: kernel.ok(),
            addresses: addresses.into(),
            frames: Box::new([[0; ROOM]; MOST]),
            lengths: [0; MOST],
            waiting: 0,
        })
    }

    /// What becomes readable when something is said.
    pub(super) fn doorbells(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().chain(&self.kernel).map(AsFd::as_fd)
    }

    /// Reads what was said. Returns whether there is something to lend.
    pub(super) fn listen(&mut self) -> bool {
        for socket in &self.sockets {
            while let Some(frame) = self.frames.get_mut(self.waiting) {
                match retry_on_intr(|| recv(socket, &mut frame[..], RecvFlags::DONTWAIT)) {
                    Ok((length, _)) => {
                        self.lengths[self.waiting] = length.min(ROOM);
                        self.waiting += 1;
                    }
                    Err(Errno::AGAIN) => break,
                    // The interface went down, which is told once; what comes later is heard again.
                    Err(_) => break,
                }
            }
        }
        self.ask_kernel();
        self.waiting > 0
    }

    /// Reads what the kernel told, and so much of it that a flood of it takes no longer than one of frames.
    fn ask_kernel(&mut self) {
        let Some(kernel) = &self.kernel else {
            return;
        };
        let mut datagram = [0; ROOM];
        for _ in self.waiting..MOST {
            let read = retry_on_intr(|| recv(kernel, &mut datagram[..], RecvFlags::DONTWAIT));
            // What was too much to keep is lost; the neighbours are asked themselves in time.
            let Ok((_, length)) = read else {
                return;
            };
            let neighbour = datagram.get(..length).and_then(told);
            let Some(neighbour) = neighbour.filter(|at| !self.addresses.contains(&at.address))
            else {
                continue;
            };
            let frame = announcement(neighbour.address, neighbour.mac);
            let place = self.frames.get_mut(self.waiting);
            if let Some(place) = place.and_then(|place| place.get_mut(..frame.len())) {
                place.copy_from_slice(&frame);
                self.lengths[self.waiting] = frame.len();
                self.waiting += 1;
            }
        }
    }

    /// Whether there is something to lend.
    #[inline]
    pub(super) fn has_heard(&self) -> bool {
        self.waiting > 0
    }

    /// Lends what was heard to `each`.
    #[cold]
    pub(super) fn lend(&mut self, each: impl FnOnce(&[RxFrame<'_>])) -> usize {
        let heard = self.frames.iter().zip(self.lengths);
        let frames: Vec<RxFrame<'_>> = heard
            .take(self.waiting)
            .map(|(frame, length)| RxFrame {
                bytes: frame.get(..length).unwrap_or_default(),
                meta: RxMeta::default(),
            })
            .collect();
        each(&frames);
        std::mem::take(&mut self.waiting)
    }

    /// Sends a frame from beside the stack.
    pub(super) fn say(&self, frame: &[u8]) -> io::Result<()> {
        let Some(socket) = self.sockets.first() else {
            return Ok(());
        };
        retry_on_intr(|| send(socket, frame, SendFlags::DONTWAIT))?;
        Ok(())
    }
}

/// A packet socket for one protocol. Unlike one for all, it costs what the kernel sends nothing, and sees frames after the programs that
/// take ours: none comes twice.
fn open(interface: u32, protocol: EtherType, filter: &[sock_filter]) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Of no protocol until it is bound: nothing comes that the filter did not see.
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    sys::attach_filter(socket.as_fd(), filter)?;
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.0.to_be(),
        sll_ifindex: interface.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    sys::bind(socket.as_fd(), &address)?;
    Ok(socket)
}
