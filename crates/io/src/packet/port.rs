//! The port of one context.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::net::sockopt;
use wire::frame::{Capabilities, FrameSink, MacAddr, RxFrame, TxMeta};

use super::common::Common;
use super::outgoing::Outgoing;
use super::ring::Ring;
use crate::netlink::{self, Link};
use crate::{Coalesce, Port, poll, sys, virtio};

/// Frames that the kernel had no room for are offered again after this.
const RETRY: Duration = Duration::from_millis(1);

/// One socket of an interface, driven by one thread.
#[derive(Debug)]
pub struct PacketPort {
    socket: OwnedFd,
    ring: Ring,
    outgoing: Outgoing,
    interface: Box<str>,
    index: u32,
    mac: MacAddr,
    mtu: u16,
    ports: u16,
    /// Frames that the kernel had no slot for, as far as it was asked: asking begins anew.
    full: Cell<u64>,
    /// Why the interface is gone.
    gone: Option<Box<str>>,
    // Goes last: while there is a socket the kernel is kept from what is ours.
    _common: [Arc<Common>; 2],
}

impl PacketPort {
    pub(super) fn new(
        socket: OwnedFd,
        ring: Ring,
        (link, ports): (&Link, u16),
        common: [Arc<Common>; 2],
    ) -> Self {
        let mtu = u16::try_from(link.mtu).unwrap_or(u16::MAX);
        Self {
            ring,
            outgoing: Outgoing::new(mtu),
            socket,
            interface: link.name.as_str().into(),
            index: link.index,
            mac: link.mac,
            mtu,
            ports,
            full: Cell::new(0),
            gone: None,
            _common: common,
        }
    }

    /// Whether the interface is gone, which an error of the socket may mean; it may be down, too.
    #[cold]
    fn look_for_interface(&mut self) {
        if let Err(error) = netlink::link_by_index(self.index) {
            self.gone = Some(error.to_string().into());
        }
    }

    fn check(&self) -> io::Result<()> {
        match &self.gone {
            None => Ok(()),
            Some(cause) => Err(io::Error::new(
                io::ErrorKind::NotConnected,
                format!(
                    "AF_PACKET on {}: the interface is gone: {cause}",
                    self.interface
                ),
            )),
        }
    }

    /// How long a sleep may be at most.
    fn sleep_at_most(&self) -> Option<Duration> {
        self.outgoing.waits().then_some(RETRY)
    }

    /// Frames that the kernel had no slot for.
    fn full(&self) -> u64 {
        let mut latest = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let statistics = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
        // SAFETY: any bytes are two numbers.
        if unsafe { sys::option(self.socket.as_fd(), statistics, &mut latest) }.is_ok() {
            self.full.set(self.full.get() + u64::from(latest.tp_drops));
        }
        self.full.get()
    }
}

impl FrameSink for PacketPort {
    #[inline]
    fn send(&mut self, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        self.outgoing.push(fill)
    }

    #[inline]
    fn send_gso(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        self.outgoing.push_gso(self.socket.as_fd(), len, fill)
    }
}

impl Port for PacketPort {
    // Not inlined: what it lies on would else be taken by the receiving of every other kind of
    // port, too.
    #[inline(never)]
    fn receive(&mut self, each: impl FnOnce(&[RxFrame<'_>])) -> usize {
        self.ring.receive(self.socket.as_fd(), each)
    }

    fn is_ready(&mut self) -> bool {
        self.outgoing.waits() || self.ring.is_ready()
    }

    fn coalesce(&self) -> Coalesce {
        Coalesce::Always
    }

    fn flush(&mut self) -> io::Result<()> {
        self.outgoing.flush(self.socket.as_fd());
        if self.outgoing.take_gone() {
            self.look_for_interface();
        }
        self.check()
    }

    fn wait(&mut self, timeout: Option<Duration>, wake: Option<BorrowedFd<'_>>) -> io::Result<()> {
        self.check()?;
        if self.ring.is_ready() {
            return Ok(());
        }
        let most = self.sleep_at_most();
        let timeout = timeout.into_iter().chain(most).min();
        let ready = poll::readable(self.socket.as_fd(), wake, timeout)?;
        if ready.contains(PollFlags::ERR) {
            // It is told once.
            let _ = sockopt::socket_error(&self.socket);
            self.look_for_interface();
        }
        self.check()
    }

    fn prepare_wait(&mut self, fds: &mut Vec<RawFd>) -> io::Result<Option<Duration>> {
        self.check()?;
        if self.ring.is_ready() {
            return Ok(Some(Duration::ZERO));
        }
        fds.push(self.socket.as_raw_fd());
        Ok(self.sleep_at_most())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            mtu: self.mtu,
            queues: self.ports,
            // The kernel finishes checksums, and cuts frames of several segments, where the device
            // does not.
            tx_checksum: true,
            tx_gso: virtio::GSO_MAX,
            loops: false,
        }
    }

    fn mac(&self) -> MacAddr {
        self.mac
    }

    fn losses(&self) -> (u64, u64) {
        (self.ring.lost() + self.full(), self.outgoing.lost())
    }
}
