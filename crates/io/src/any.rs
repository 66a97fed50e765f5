//! Whatever port the user asked for, as one type: for a runtime and tools that choose at start and
//! need not be generic.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use wire::frame::{Capabilities, FrameSink, MacAddr, RxFrame, TxMeta};
use wire::steering::Steering;
use wire::syn_offload::SynOffload;
use wire::time::Instant;

use crate::absent::AbsentPort;
use crate::fault::{Fault, FaultSpec};
use crate::loopback::LoopPort;
use crate::packet::PacketPort;
use crate::pcap::{Pcap, PcapFile};
use crate::shm::ShmPort;
use crate::sim::SimPort;
use crate::tap::TapPort;
use crate::xdp::XdpPort;
use crate::{Coalesce, Port};

/// Does the same with whatever variant it is.
macro_rules! each_variant {
    ($on:expr, $type:ident: $($variant:ident)*, $port:ident => $do:expr) => {
        match $on {
            $($type::$variant($port) => $do,)*
        }
    };
}

/// Implements `Port` for an enum of ports.
macro_rules! impl_port {
    ($type:ident: $($variant:ident)*) => {
        impl FrameSink for $type {
            #[inline]
            fn send(&mut self, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
                each_variant!(self, Self: $($variant)*, port => port.send(fill))
            }

            #[inline]
            fn send_gso(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
                each_variant!(self, Self: $($variant)*, port => port.send_gso(len, fill))
            }
        }

        impl Port for $type {
            #[inline]
            fn begin(&mut self, now: Instant) {
                each_variant!(self, Self: $($variant)*, port => port.begin(now));
            }

            #[inline]
            fn receive(&mut self, each: impl FnOnce(&[RxFrame<'_>])) -> usize {
                each_variant!(self, Self: $($variant)*, port => port.receive(each))
            }

            #[inline]
            fn is_ready(&mut self) -> bool {
                each_variant!(self, Self: $($variant)*, port => port.is_ready())
            }

            #[inline]
            fn wake_peer(&mut self) {
                each_variant!(self, Self: $($variant)*, port => port.wake_peer());
            }

            fn coalesce(&self) -> Coalesce {
                each_variant!(self, Self: $($variant)*, port => port.coalesce())
            }

            #[inline]
            fn flush(&mut self) -> io::Result<()> {
                each_variant!(self, Self: $($variant)*, port => port.flush())
            }

            fn wait(
                &mut self,
                timeout: Option<Duration>,
                wake: Option<BorrowedFd<'_>>,
            ) -> io::Result<()> {
                each_variant!(self, Self: $($variant)*, port => port.wait(timeout, wake))
            }

            fn prepare_wait(&mut self, fds: &mut Vec<RawFd>) -> io::Result<Option<Duration>> {
                each_variant!(self, Self: $($variant)*, port => port.prepare_wait(fds))
            }

            fn next_deadline(&self) -> Option<Instant> {
                each_variant!(self, Self: $($variant)*, port => port.next_deadline())
            }

            #[inline]
            fn is_away(&self) -> bool {
                each_variant!(self, Self: $($variant)*, port => port.is_away())
            }

            fn look_when_asked(&mut self) {
                each_variant!(self, Self: $($variant)*, port => port.look_when_asked());
            }

            #[inline]
            fn wants_look(&self) -> bool {
                each_variant!(self, Self: $($variant)*, port => port.wants_look())
            }

            fn look_again(&mut self, now: Instant) {
                each_variant!(self, Self: $($variant)*, port => port.look_again(now));
            }

            fn syn_offload(&mut self) -> Option<Box<dyn SynOffload>> {
                each_variant!(self, Self: $($variant)*, port => port.syn_offload())
            }

            fn steering(&mut self) -> Option<Box<dyn Steering>> {
                each_variant!(self, Self: $($variant)*, port => port.steering())
            }

            fn capabilities(&self) -> Capabilities {
                each_variant!(self, Self: $($variant)*, port => port.capabilities())
            }

            fn mac(&self) -> MacAddr {
                each_variant!(self, Self: $($variant)*, port => port.mac())
            }

            fn losses(&self) -> (u64, u64) {
                each_variant!(self, Self: $($variant)*, port => port.losses())
            }
        }
    };
}

/// A port of any kind, without wrappers.
#[derive(Debug)]
pub enum AnyLink {
    /// Shared memory.
    Shm(Box<ShmPort>),
    /// A TAP interface.
    Tap(Box<TapPort>),
    /// AF_XDP.
    Xdp(Box<XdpPort>),
    /// AF_PACKET.
    Packet(Box<PacketPort>),
    /// In-process, for tests.
    Sim(Box<SimPort>),
    /// To ourselves.
    Loop(Box<LoopPort>),
    /// Gone.
    Absent(Box<AbsentPort>),
}

impl_port!(AnyLink: Shm Tap Xdp Packet Sim Loop Absent);

impl From<AbsentPort> for AnyLink {
    fn from(port: AbsentPort) -> Self {
        Self::Absent(Box::new(port))
    }
}

impl From<LoopPort> for AnyLink {
    fn from(port: LoopPort) -> Self {
        Self::Loop(Box::new(port))
    }
}

impl From<ShmPort> for AnyLink {
    fn from(port: ShmPort) -> Self {
        Self::Shm(Box::new(port))
    }
}

impl From<TapPort> for AnyLink {
    fn from(port: TapPort) -> Self {
        Self::Tap(Box::new(port))
    }
}

impl From<XdpPort> for AnyLink {
    fn from(port: XdpPort) -> Self {
        Self::Xdp(Box::new(port))
    }
}

impl From<PacketPort> for AnyLink {
    fn from(port: PacketPort) -> Self {
        Self::Packet(Box::new(port))
    }
}

impl From<SimPort> for AnyLink {
    fn from(port: SimPort) -> Self {
        Self::Sim(Box::new(port))
    }
}

/// A port of any kind, perhaps behind a bad network, perhaps captured. A capture sees what the
/// stack sees: it is outermost.
#[derive(Debug)]
pub enum AnyPort {
    /// As it is.
    Plain(AnyLink),
    /// Behind a bad network.
    Faulty(Box<Fault<AnyLink>>),
    /// Captured.
    Captured(Box<Pcap<AnyLink>>),
    /// Behind a bad network, captured on this side of it.
    CapturedFaulty(Box<Pcap<Fault<AnyLink>>>),
}

impl_port!(AnyPort: Plain Faulty Captured CapturedFaulty);

impl AnyPort {
    /// Wraps a link: faults if a spec is given, with the number of this port among those that share
    /// it (see [`Fault::new`]), and a capture if a file is given, with the name of this interface
    /// in it.
    pub fn new(
        link: impl Into<AnyLink>,
        faults: Option<(&FaultSpec, u64)>,
        capture: Option<(&PcapFile, &str)>,
    ) -> Self {
        let link = link.into();
        match (faults, capture) {
            (None, None) => Self::Plain(link),
            (Some((spec, stream)), None) => Self::Faulty(Box::new(Fault::new(link, spec, stream))),
            (None, Some((file, name))) => Self::Captured(Box::new(Pcap::new(link, file, name))),
            (Some((spec, stream)), Some((file, name))) => {
                let faulty = Fault::new(link, spec, stream);
                Self::CapturedFaulty(Box::new(Pcap::new(faulty, file, name)))
            }
        }
    }
}

impl AnyPort {
    /// The shared-memory link that it is, with nothing around it: for who sends so many frames, and
    /// such short ones, that finding out for each what it is would cost as much as lending it.
    pub fn plain_shm(&mut self) -> Option<&mut ShmPort> {
        match self {
            Self::Plain(AnyLink::Shm(port)) => Some(port),
            _ => None,
        }
    }
}

impl<P: Into<AnyLink>> From<P> for AnyPort {
    fn from(link: P) -> Self {
        Self::Plain(link.into())
    }
}
