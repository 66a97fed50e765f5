//! What is said on the link and concerns us, but is not addressed to us: who moved (gratuitous ARP,
//! unsolicited neighbour advertisements, router advertisements), and who has an address of ours.
//! XDP gives a frame to one side only, and these are the kernel's too: packet sockets beside it see
//! them there. Where the kernel knows a neighbour to be (`known`) the stack hears as what the
//! neighbour would say to all.

mod filter;
mod known;
mod probe;

pub(crate) use probe::Probe;

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libc::sock_filter;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use wire::ethernet::EtherType;
use wire::frame::{RxFrame, RxMeta};

use self::known::{Known, Look};
use crate::{ours, packet_socket, sys};

/// Frames that are read at a time.
const MOST: usize = 16;
/// Bytes of a frame that are kept. What we listen for is shorter, but for router advertisements
/// with many prefixes.
const ROOM: usize = 512;

/// The sockets, and what they heard.
#[derive(Debug)]
pub(crate) struct Overheard {
    sockets: Vec<OwnedFd>,
    /// Where the kernel knows neighbours to be.
    known: Option<Known>,
    frames: Box<[[u8; ROOM]; MOST]>,
    lengths: [usize; MOST],
    /// Frames that were read and not lent yet.
    waiting: usize,
}

impl Overheard {
    /// Listens beside a stack that has these addresses. `shared`: the kernel has them, too, and
    /// answers who asks for them; what neighbours answer the stack goes to the kernel as well, and
    /// is heard.
    pub(crate) fn new(interface: u32, addresses: &[IpAddr], shared: bool) -> io::Result<Self> {
        let mut sockets = Vec::with_capacity(2);
        let v4: Vec<_> = ours::addresses4(addresses).collect();
        if !v4.is_empty() {
            sockets.push(open(interface, EtherType::ARP, &filter::arp(&v4, shared))?);
        }
        if v4.len() < addresses.len() {
            sockets.push(open(
                interface,
                EtherType::IPV6,
                &filter::advertisements(shared),
            )?);
        }
        let known = Known::new(interface, addresses)
            .inspect_err(|error| log::debug!("the kernel's neighbours are not followed: {error}"));
        Ok(Self {
            sockets,
            known: known.ok(),
            frames: Box::new([[0; ROOM]; MOST]),
            lengths: [0; MOST],
            waiting: 0,
        })
    }

    /// What becomes readable when something is said.
    pub(crate) fn doorbells(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let known = self.known.iter().map(Known::doorbell);
        self.sockets.iter().map(AsFd::as_fd).chain(known)
    }

    /// Reads what was said. Returns whether there is something to lend.
    pub(crate) fn listen(&mut self) -> bool {
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

    /// Notes what the kernel knows, and so much of it that a flood of it takes no longer than one
    /// of frames.
    fn ask_kernel(&mut self) {
        let Some(known) = &mut self.known else {
            return;
        };
        for _ in self.waiting..MOST {
            let frame = match known.look() {
                Look::Frame(frame) => frame,
                Look::Other => continue,
                Look::Nothing => return,
            };
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
    pub(crate) fn has_heard(&self) -> bool {
        self.waiting > 0
    }

    /// Lends what was heard to `each`.
    #[cold]
    pub(crate) fn lend(&mut self, each: impl FnOnce(&[RxFrame<'_>])) -> usize {
        let heard = self.frames.iter().zip(self.lengths);
        let frames: Vec<RxFrame<'_>> = heard
            .take(self.waiting)
            .map(|(frame, length)| RxFrame {
                bytes: frame.get(..length).unwrap_or_default(),
                meta: RxMeta::default(),
            })
            .collect();
        each(&frames);
        let count = std::mem::take(&mut self.waiting);
        // For the next look there may be no other reason.
        if self.known.as_ref().is_some_and(Known::has_rest) {
            self.ask_kernel();
        }
        count
    }

    /// Sends a frame from beside the stack.
    pub(crate) fn say(&self, frame: &[u8]) -> io::Result<()> {
        let Some(socket) = self.sockets.first() else {
            return Ok(());
        };
        retry_on_intr(|| send(socket, frame, SendFlags::DONTWAIT))?;
        Ok(())
    }
}

/// A packet socket for one protocol. Unlike one for all, it costs what the kernel sends nothing,
/// and sees frames after the programs that take ours: none comes twice.
fn open(interface: u32, protocol: EtherType, filter: &[sock_filter]) -> io::Result<OwnedFd> {
    let socket = packet_socket::open()?;
    sys::attach_filter(socket.as_fd(), filter)?;
    packet_socket::bind(socket.as_fd(), interface, protocol)?;
    Ok(socket)
}
