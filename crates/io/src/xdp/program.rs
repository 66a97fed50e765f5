//! The steering program on an interface.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use aya::maps::{MapError, XskMap};
use aya::programs::tc::SchedClassifierLink;
use aya::programs::xdp::XdpLink;
use aya::programs::{ProgramError, Xdp, XdpMode};
use aya::util::KernelVersion;
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};
use wire::frame::MacAddr;

use super::config::AttachMode;
use super::error::{ATTACH, JOIN, LOAD, errno, explain};
use super::queue::Rx;
use super::steering::{Steered, buckets};
use super::syn_offload::{Clock, Offload};
use super::tc_ring::{self, TcRing};
use crate::packet_socket::{groups, listen_as};
use crate::{netlink, ours};

/// `bpf/steer.bpf.c`, compiled; `bpf/check.sh` checks that the two match.
static OBJECT: &[u8] = include_bytes_aligned!("../../bpf/steer.bpf.o");

/// `bpf/host.bpf.c`, for addresses that the kernel has, too.
static HOST_OBJECT: &[u8] = include_bytes_aligned!("../../bpf/host.bpf.o");

/// The programs of those: for packets that one buffer holds, and for others (Linux 5.18).
const STEER: &str = "steer";
const STEER_PARTS: &str = "steer_parts";

/// Which of the programs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    /// Queues at most.
    pub(super) queues: u32,
    /// Packets may lie in several frames.
    pub(super) parts: bool,
    /// The kernel has the addresses, too, and so many flows at most are ours.
    pub(super) flows: Option<u32>,
}

impl Kind {
    fn name(self) -> &'static str {
        if self.parts { STEER_PARTS } else { STEER }
    }
}

/// Where the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// In the driver.
    Native,
    /// In the kernel's network stack.
    Generic,
    /// In traffic control: not XDP, but a veth pair has its frames sooner and whole there.
    TrafficControl,
}

impl fmt::Display for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native XDP",
            Self::Generic => "generic XDP",
            Self::TrafficControl => "traffic control",
        })
    }
}

/// How frames come in and go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Where the program runs.
    pub attachment: Attachment,
    /// Whether the driver uses our frames itself.
    pub zero_copy: bool,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let copy = if self.zero_copy { "zero copy" } else { "copy" };
        write!(f, "{}, {copy}", self.attachment)
    }
}

/// What attaches a program.
#[derive(Debug)]
enum Link {
    Xdp(#[expect(dead_code, reason = "held, not looked at")] XdpLink),
    TrafficControl(#[expect(dead_code, reason = "held, not looked at")] SchedClassifierLink),
}

/// What holds the program on an interface, and that one to what it has to receive.
#[derive(Debug)]
struct Hold {
    /// Of the interface.
    index: u32,
    /// `None`: it is gone, or another process attached the program to it.
    link: Option<Link>,
    /// Keeps the interface listening to our multicast groups, and to the hardware address that it
    /// had first.
    _memberships: Option<OwnedFd>,
}

/// The loaded program; attached until dropped, or until the process ends.
#[derive(Debug)]
pub(super) struct Program {
    // Goes first: nothing is steered to sockets that are going.
    hold: Mutex<Hold>,
    ebpf: Mutex<Ebpf>,
    /// Our IPv4 addresses, in the order of their numbers.
    addresses4: Vec<Ipv4Addr>,
    name: &'static str,
    /// For addresses that the kernel has, too.
    steered: Option<Steered>,
    /// Processors that have a receive ring: none outside of traffic control.
    rings: usize,
    /// Where it runs.
    pub(super) attachment: Attachment,
}

impl Program {
    /// Loads the program for `addresses` and attaches it to interface `index`, called `interface`.
    pub(super) fn attach(
        interface: &str,
        index: u32,
        addresses: &[IpAddr],
        kind: Kind,
        mode: AttachMode,
    ) -> io::Result<Self> {
        let (mut ebpf, steered) = load(interface, addresses, kind)?;
        // The kernel listens for itself.
        let groups = match steered {
            Some(_) => None,
            None => groups(interface, index, addresses),
        };
        let name = kind.name();
        let (link, attachment) = attach(&mut ebpf, name, (interface, index), mode)?;
        let hold = Hold {
            index,
            link: Some(Link::Xdp(link)),
            _memberships: groups,
        };
        Ok(Self {
            hold: Mutex::new(hold),
            ebpf: Mutex::new(ebpf),
            addresses4: ours::addresses4(addresses).collect(),
            name,
            steered,
            rings: 0,
            attachment,
        })
    }

    /// Whether [`Program::attach`] could load it.
    pub(super) fn check(interface: &str, addresses: &[IpAddr], kind: Kind) -> io::Result<()> {
        load(interface, addresses, kind).map(drop)
    }

    /// What says which flows of the addresses are ours, if the kernel has them, too.
    pub(super) fn steered(&self) -> Option<&Steered> {
        self.steered.as_ref()
    }

    /// As [`Program::attach`], in traffic control.
    pub(super) fn attach_tc_ring(
        interface: &str,
        index: u32,
        addresses: &[IpAddr],
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let entries = ours::entries(addresses)?;
        let attached = tc_ring::attach(interface, entries, |ebpf| ours::fill(ebpf, addresses))?;
        let hold = Hold {
            index,
            link: Some(Link::TrafficControl(attached.link)),
            _memberships: groups(interface, index, addresses),
        };
        Ok(Self {
            hold: Mutex::new(hold),
            ebpf: Mutex::new(attached.ebpf),
            addresses4: ours::addresses4(addresses).collect(),
            name: STEER,
            steered: None,
            rings: attached.processors,
            attachment: Attachment::TrafficControl,
        })
    }

    /// Where queues receive from.
    pub(super) fn rx(&self) -> Result<Rx, Box<dyn std::error::Error>> {
        if self.attachment != Attachment::TrafficControl {
            return Ok(Rx::Socket);
        }
        let ebpf = self.ebpf.lock().unwrap_or_else(PoisonError::into_inner);
        TcRing::new(&ebpf, self.rings).map(Rx::TrafficControl)
    }

    /// The process that received in traffic control ends: another program on the interface has what
    /// comes from now on.
    pub(super) fn close(&self) {
        if self.attachment != Attachment::TrafficControl {
            return;
        }
        let ebpf = self.ebpf.lock().unwrap_or_else(PoisonError::into_inner);
        // Who cannot close it leaves it to the last process that has the program.
        let _ = tc_ring::close(&ebpf, self.rings);
    }

    /// What answers SYNs, if it is in traffic control.
    pub(super) fn syn_offload(&self) -> Option<(Offload, Clock)> {
        if self.attachment != Attachment::TrafficControl {
            return None;
        }
        let ebpf = self.ebpf.lock().unwrap_or_else(PoisonError::into_inner);
        let offload = Offload::new(&ebpf, &self.addresses4);
        offload
            .inspect_err(|error| log::debug!("XDP: no SYN is answered where it arrives: {error}"))
            .ok()
    }

    /// Steers our frames of `queue` to `socket`, which is bound to that queue. It leaves the map by
    /// itself when it closes. In traffic control there is nothing to do.
    pub(super) fn steer(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), MapError> {
        if self.attachment == Attachment::TrafficControl {
            return Ok(());
        }
        let mut ebpf = self.ebpf.lock().unwrap_or_else(PoisonError::into_inner);
        let map = ebpf.map_mut("sockets").ok_or(MapError::ElementNotFound)?;
        XskMap::try_from(map)?.set(queue, socket.as_raw_fd(), 0)
    }
}

impl Program {
    /// Attaches the program anew: a veth end runs it in the queues that it had when that was done,
    /// and in none that came later.
    pub(super) fn attach_again(&self, interface: &str, index: u32) -> io::Result<()> {
        if self.attachment == Attachment::TrafficControl {
            return Ok(());
        }
        let mut hold = self.hold();
        // There is room for one.
        hold.link = None;
        let mut tries = 0;
        hold.link = loop {
            match self.attach_at(interface, index) {
                // A child that has been forked and has not begun its program keeps the first for a
                // moment.
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy && tries < TRIES => {
                    tries += 1;
                    thread::sleep(RETRY);
                }
                result => break Some(result?),
            }
        };
        Ok(())
    }

    /// The interface with this index is gone.
    pub(super) fn detach(&self, index: u32) {
        let mut hold = self.hold();
        if hold.index == index {
            *hold = Hold {
                index: 0,
                link: None,
                _memberships: None,
            };
        }
    }

    /// Attaches the program to the interface that is there instead of one that is gone, unless that
    /// has been done. It listens to the hardware address of that one, which peers know. If the
    /// interface is shared, another process may have attached it.
    pub(super) fn move_to(
        &self,
        link: &netlink::Link,
        (addresses, mac): (&[IpAddr], MacAddr),
        shared: bool,
    ) -> io::Result<()> {
        let mut hold = self.hold();
        if hold.index == link.index {
            return Ok(());
        }
        let attached = match self.attach_at(&link.name, link.index) {
            Err(error) if shared && error.kind() == io::ErrorKind::ResourceBusy => None,
            result => Some(result?),
        };
        let own = match self.steered {
            Some(_) => None,
            None => groups(&link.name, link.index, addresses),
        };
        let memberships =
            listen_as(own, link, mac).map_err(|error| explain(&link.name, JOIN, &error))?;
        *hold = Hold {
            index: link.index,
            link: attached,
            _memberships: memberships,
        };
        Ok(())
    }

    fn hold(&self) -> MutexGuard<'_, Hold> {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attaches the program where it was attached before on an interface.
    fn attach_at(&self, interface: &str, index: u32) -> io::Result<Link> {
        let mut ebpf = self.ebpf.lock().unwrap_or_else(PoisonError::into_inner);
        let mode = match self.attachment {
            Attachment::Native => AttachMode::Native,
            Attachment::Generic => AttachMode::Generic,
            Attachment::TrafficControl => {
                let attached = tc_ring::attach_again(&mut ebpf, interface);
                return attached
                    .map(Link::TrafficControl)
                    .map_err(|error| explain(interface, ATTACH, &error));
            }
        };
        attach(&mut ebpf, self.name, (interface, index), mode).map(|(link, _)| Link::Xdp(link))
    }
}

/// How often, and how long after, to try again where the place of the program is not free yet.
const TRIES: u32 = 100;
const RETRY: Duration = Duration::from_millis(5);

/// A loaded program, and what says which flows are ours where the kernel has the addresses, too.
type Loaded = (Ebpf, Option<Steered>);

fn load(interface: &str, addresses: &[IpAddr], kind: Kind) -> io::Result<Loaded> {
    // Older kernels have no link for XDP: the program would outlive a process that is killed.
    if KernelVersion::current().is_ok_and(|version| version < KernelVersion::new(5, 9, 0)) {
        let reason = "XDP needs Linux 5.9 or newer";
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("XDP on {interface}: {reason}"),
        ));
    }
    load_filled(addresses, kind).map_err(|error| explain(interface, LOAD, &*error))
}

fn load_filled(
    addresses: &[IpAddr],
    kind: Kind,
) -> Result<Loaded, Box<dyn std::error::Error + 'static>> {
    let entries = ours::entries(addresses)?;
    let buckets = kind.flows.map(buckets);
    let mut loader = EbpfLoader::new();
    loader
        .map_max_entries("sockets", kind.queues)
        .map_max_entries("addresses4", entries)
        .map_max_entries("addresses6", entries)
        .map_max_entries("flows", buckets.unwrap_or_default());
    let object = if buckets.is_some() {
        HOST_OBJECT
    } else {
        OBJECT
    };
    let mut ebpf = loader.load(object)?;
    ours::fill(&mut ebpf, addresses)?;
    program(&mut ebpf, kind.name())?.load()?;
    let numbered: Vec<IpAddr> = ours::numbered(addresses).collect();
    let steered = buckets.map(|buckets| Steered::new(&ebpf, buckets, &numbered));
    Ok((ebpf, steered.transpose()?))
}

fn program<'e>(ebpf: &'e mut Ebpf, name: &str) -> Result<&'e mut Xdp, ProgramError> {
    ebpf.program_mut(name)
        .ok_or(ProgramError::NotLoaded)?
        .try_into()
}

fn attach(
    ebpf: &mut Ebpf,
    name: &str,
    (interface, index): (&str, u32),
    mode: AttachMode,
) -> io::Result<(XdpLink, Attachment)> {
    let mut attach = |mode| {
        let program = program(ebpf, name)?;
        let link = program.attach_to_if_index(index, mode)?;
        program.take_link(link)
    };
    let error = match mode {
        AttachMode::Generic => None,
        AttachMode::Auto | AttachMode::Native => match attach(XdpMode::Driver) {
            Ok(link) => return Ok((link, Attachment::Native)),
            Err(error) if mode == AttachMode::Native || is_final(&error) => {
                return Err(explain(interface, ATTACH, &error));
            }
            Err(error) => Some(error),
        },
    };
    if let Some(error) = error {
        log::warn!(
            "XDP on {interface}: no native XDP ({error}): going on with generic XDP, which is slower"
        );
    }
    match attach(XdpMode::Skb) {
        Ok(link) => Ok((link, Attachment::Generic)),
        Err(error) => Err(explain(interface, ATTACH, &error)),
    }
}

/// Whether generic mode would fail for the same reason.
fn is_final(error: &ProgramError) -> bool {
    let finals = [libc::EPERM, libc::EBUSY, libc::EEXIST, libc::ENODEV];
    errno(error).is_some_and(|errno| finals.contains(&errno))
}
