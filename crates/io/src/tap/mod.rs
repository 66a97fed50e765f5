//! TAP: a link to this machine's kernel, through /dev/net/tun.
//!
//! The kernel sees an interface, we are the only other station on it. Checksums need not be
//! computed in either direction: each frame has a header (`IFF_VNET_HDR`) that says that its
//! checksum is unfinished. The same header says of a frame that it holds several TCP segments, in
//! either direction: nobody cuts them unless the kernel sends them on elsewhere.
//!
//! The interface is looked up in the network namespace of the thread that opens it.

mod batch;
mod probe;
mod sys;

pub use probe::refuse_taken;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use wire::frame::{BURST, Capabilities, FrameSink, LONGEST, MacAddr, RxFrame, RxMeta, TxMeta};

use self::batch::Batch;
use crate::{Coalesce, Port, context, poll, virtio};

/// The kernel's limit (MAX_TAP_QUEUES).
const MAX_QUEUES: u16 = 256;

/// Which interface to open, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapConfig {
    /// Name of the interface; made if there is none of this name, and removed again when the last
    /// queue closes unless it is persistent. With `%d` in it the kernel picks a number.
    pub name: String,
    /// Queues, 1 to 256. The kernel spreads flows over them.
    pub queues: u16,
    /// Whether to bring the kernel's side up (its addresses are the administrator's).
    pub up: bool,
    /// Our hardware address. `None`: made from the kernel's by setting the locally-administered bit
    /// and inverting the lowest bit of the last byte, so that it is another one and stays the same
    /// as long as the interface does.
    pub mac: Option<MacAddr>,
}

impl TapConfig {
    /// One queue of `name`, brought up.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            queues: 1,
            up: true,
            mac: None,
        }
    }
}

/// One queue of a TAP interface.
#[derive(Debug)]
pub struct TapPort {
    fd: OwnedFd,
    name: String,
    mac: MacAddr,
    mtu: u16,
    queues: u16,
    rx: Batch,
    tx: Batch,
    rx_lost: u64,
    tx_lost: u64,
    /// Why the link is gone.
    gone: Option<io::Error>,
}

impl TapPort {
    /// Opens all queues of an interface.
    ///
    /// # Errors
    /// No /dev/net/tun, no right to use it (CAP_NET_ADMIN), the name is in use or belongs to
    /// something else, `mac` is not a station's address; says what to do.
    pub fn open(config: &TapConfig) -> io::Result<Vec<Self>> {
        if config.queues == 0 || config.queues > MAX_QUEUES {
            return Err(context::invalid(format_args!(
                "tap {}: {} queues: give 1 to {MAX_QUEUES}",
                config.name, config.queues
            )));
        }
        let mut name = config.name.clone();
        let mut fds = Vec::new();
        for _ in 0..config.queues {
            let fd = open_device()?;
            name = attach(&fd, &name, config.queues)?;
            fds.push(fd);
        }
        let link = Link::prepare(name, config)?;
        fds.into_iter().map(|fd| Self::new(fd, &link)).collect()
    }

    fn new(fd: OwnedFd, link: &Link) -> io::Result<Self> {
        let explain = |error| {
            context::error(
                format_args!("tap {}: cannot set offloads", link.name),
                error,
            )
        };
        sys::set_header_len(fd.as_fd(), virtio::LEN).map_err(explain)?;
        sys::set_offloads(fd.as_fd()).map_err(explain)?;
        Ok(Self {
            fd,
            name: link.name.clone(),
            mac: link.mac,
            mtu: link.mtu,
            queues: link.queues,
            rx: Batch::new(LONGEST),
            tx: Batch::new(LONGEST),
            rx_lost: 0,
            tx_lost: 0,
            gone: None,
        })
    }

    /// Name of the interface.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn check(&self) -> io::Result<()> {
        match &self.gone {
            None => Ok(()),
            Some(cause) => Err(io::Error::new(
                io::ErrorKind::NotConnected,
                format!("tap {}: the interface is gone: {cause}", self.name),
            )),
        }
    }
}

/// What the queues of one interface share.
struct Link {
    name: String,
    mac: MacAddr,
    mtu: u16,
    queues: u16,
}

impl Link {
    fn prepare(name: String, config: &TapConfig) -> io::Result<Self> {
        let explain = |error| context::error(format_args!("tap {name}"), error);
        let interface = sys::Interface::new(&name).map_err(explain)?;
        let theirs = interface.mac().map_err(explain)?;
        let mac = config.mac.unwrap_or_else(|| our_mac(theirs));
        if mac.is_multicast() || mac == theirs {
            return Err(context::invalid(format_args!(
                "tap {name}: {mac} cannot be our address: it is a group's or the kernel's own"
            )));
        }
        if config.up {
            interface.up().map_err(|error| {
                context::error(
                    format_args!("tap {name}: cannot bring it up (CAP_NET_ADMIN, or `ip link set {name} up` and no `up` here)"),
                    error,
                )
            })?;
        }
        Ok(Self {
            mtu: interface.mtu().map_err(explain)?,
            mac,
            queues: config.queues,
            name,
        })
    }
}

fn our_mac(theirs: MacAddr) -> MacAddr {
    let [a, b, c, d, e, f] = theirs.0;
    MacAddr([(a | 2) & !1, b, c, d, e, f ^ 1])
}

fn open_device() -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open("/dev/net/tun", flags, Mode::empty()).map_err(|errno| {
        let remedy = match errno {
            Errno::NOENT | Errno::NODEV | Errno::NXIO => {
                "load the driver with `modprobe tun`, or give the container the device"
            }
            Errno::ACCESS | Errno::PERM => "run as root, or get read and write access to it",
            _ => "check the device",
        };
        context::error(format_args!("cannot open /dev/net/tun ({remedy})"), errno)
    })
}

fn attach(fd: &OwnedFd, name: &str, queues: u16) -> io::Result<String> {
    sys::set_interface(fd.as_fd(), name, queues > 1).map_err(|error| {
        let remedy = match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::PERM) => format!(
                "run with CAP_NET_ADMIN, or make it first: `ip tuntap add dev {name} mode tap user $USER`"
            ),
            Some(Errno::BUSY) => "another program has it open: stop that, or take another name".to_owned(),
            Some(Errno::INVAL) => {
                "an interface of this name exists and is no TAP, or was made with another `multi_queue`".to_owned()
            }
            Some(Errno::TOOBIG | Errno::MFILE) => "too many queues".to_owned(),
            // A bad name: the message says all there is to say.
            _ => return error,
        };
        context::error(format_args!("cannot open tap {name} ({remedy})"), error)
    })
}

impl FrameSink for TapPort {
    fn send(&mut self, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        self.tx.push(fill)
    }
}

impl Port for TapPort {
    // Not inlined: what it lies on would else be taken by the receiving of every other kind of
    // port, too.
    #[inline(never)]
    fn receive(&mut self, each: impl FnOnce(&[RxFrame<'_>])) -> usize {
        match self.rx.read(self.fd.as_fd()) {
            Ok(unusable) => self.rx_lost += unusable,
            Err(error) => self.gone = Some(error),
        }
        let empty = RxFrame {
            bytes: &[],
            meta: RxMeta::default(),
        };
        let mut frames = [empty; BURST];
        let n = self.rx.frames(&mut frames);
        if n > 0 {
            each(frames.get(..n).unwrap_or_default());
        }
        n
    }

    fn coalesce(&self) -> Coalesce {
        Coalesce::Always
    }

    fn flush(&mut self) -> io::Result<()> {
        let sent = self.tx.write(self.fd.as_fd());
        self.tx_lost += sent.lost;
        if sent.gone.is_some() {
            self.gone = sent.gone;
        }
        self.check()
    }

    fn wait(&mut self, timeout: Option<Duration>, wake: Option<BorrowedFd<'_>>) -> io::Result<()> {
        self.check()?;
        let ready = poll::readable(self.fd.as_fd(), wake, timeout)?;
        if ready.contains(PollFlags::ERR) {
            self.gone = Some(Errno::NODEV.into());
        }
        self.check()
    }

    fn prepare_wait(&mut self, fds: &mut Vec<RawFd>) -> io::Result<Option<Duration>> {
        self.check()?;
        fds.push(self.fd.as_raw_fd());
        Ok(None)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            mtu: self.mtu,
            queues: self.queues,
            tx_checksum: true,
            tx_gso: virtio::GSO_MAX,
            loops: false,
        }
    }

    fn mac(&self) -> MacAddr {
        self.mac
    }

    fn losses(&self) -> (u64, u64) {
        (self.rx_lost, self.tx_lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_address_is_local_and_not_the_kernels() {
        for theirs in [[0, 0x1b, 0x21, 1, 2, 3], [0x02, 0, 0, 0, 0, 0], [0xfe; 6]] {
            let theirs = MacAddr(theirs);
            let ours = our_mac(theirs);
            assert_ne!(ours, theirs);
            assert!(!ours.is_multicast());
            assert_eq!(ours.0[0] & 2, 2);
        }
    }

    #[test]
    fn no_queues_is_a_callers_mistake() {
        let config = TapConfig {
            queues: 0,
            ..TapConfig::new("mtcp-none")
        };
        let error = TapPort::open(&config).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
