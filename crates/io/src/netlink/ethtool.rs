//! Driver, queues and offloads of an interface, by the ethtool ioctl (`linux/ethtool.h`).

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::sys;

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GRXCSUM: u32 = 0x14;
const ETHTOOL_GTXCSUM: u32 = 0x16;
const ETHTOOL_STXCSUM: u32 = 0x17;
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GGSO: u32 = 0x23;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETH_FLAG_LRO: u32 = 1 << 15;

/// Offloads that change what frames look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloads {
    /// The device checks transport checksums of received frames.
    pub rx_checksum: bool,
    /// The kernel leaves transport checksums to the device: on a veth they are never finished.
    pub tx_checksum: bool,
    /// Segmentation is left to the device.
    pub tso: bool,
    /// Segmentation is put off until just before the device.
    pub gso: bool,
    /// Received segments are merged by the kernel.
    pub gro: bool,
    /// Received segments are merged by the device.
    pub lro: bool,
}

/// Queues of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues {
    /// Receive queues in use.
    pub rx: u32,
    /// Transmit queues in use.
    pub tx: u32,
    /// Most receive queues that can be in use (`ethtool -L`).
    pub rx_max: u32,
    /// Most transmit queues that can be in use.
    pub tx_max: u32,
    /// A queue is for both directions.
    pub combined: bool,
}

impl Queues {
    /// The command that gives `interface` so many queues, in the words that its device takes.
    pub fn command(&self, interface: &str, count: impl std::fmt::Display) -> String {
        if self.combined {
            format!("ethtool -L {interface} combined {count}")
        } else {
            format!("ethtool -L {interface} rx {count} tx {count}")
        }
    }
}

/// Name of the driver of `interface`.
///
/// # Errors
/// `ENODEV` when there is no such interface, `EOPNOTSUPP` when its driver does not say.
pub fn driver(interface: &str) -> io::Result<String> {
    #[repr(C)]
    struct DriverInfo {
        command: u32,
        driver: [u8; 32],
        rest: [u8; 160],
    }
    let mut info = DriverInfo {
        command: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        rest: [0; 160],
    };
    // SAFETY: ETHTOOL_GDRVINFO fills one `struct ethtool_drvinfo`, which is the 196 bytes of
    // `DriverInfo`.
    unsafe { request(interface, &mut info) }?;
    let name = info
        .driver
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Queues of `interface` that are in use. A driver that does not say has one of each.
///
/// # Errors
/// `ENODEV` when there is no such interface.
pub fn queues(interface: &str) -> io::Result<Queues> {
    #[repr(C)]
    #[derive(Default)]
    struct Channels {
        command: u32,
        max_rx: u32,
        max_tx: u32,
        max_other: u32,
        max_combined: u32,
        rx: u32,
        tx: u32,
        other: u32,
        combined: u32,
    }
    let mut channels = Channels {
        command: ETHTOOL_GCHANNELS,
        ..Channels::default()
    };
    // SAFETY: ETHTOOL_GCHANNELS fills one `struct ethtool_channels`, which is `Channels`.
    match unsafe { request(interface, &mut channels) } {
        Ok(()) => Ok(Queues {
            rx: (channels.rx + channels.combined).max(1),
            tx: (channels.tx + channels.combined).max(1),
            rx_max: (channels.max_rx + channels.max_combined).max(1),
            tx_max: (channels.max_tx + channels.max_combined).max(1),
            combined: channels.max_combined > 0,
        }),
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(Queues {
            rx: 1,
            tx: 1,
            rx_max: 1,
            tx_max: 1,
            combined: false,
        }),
        Err(error) => Err(error),
    }
}

/// Offloads of `interface` that are on.
///
/// # Errors
/// `ENODEV` when there is no such interface.
pub fn offloads(interface: &str) -> io::Result<Offloads> {
    let on = |command| value(interface, command, 0).map(|value| value != 0);
    Ok(Offloads {
        rx_checksum: on(ETHTOOL_GRXCSUM)?,
        tx_checksum: on(ETHTOOL_GTXCSUM)?,
        tso: on(ETHTOOL_GTSO)?,
        gso: on(ETHTOOL_GGSO)?,
        gro: on(ETHTOOL_GGRO)?,
        lro: value(interface, ETHTOOL_GFLAGS, 0)? & ETH_FLAG_LRO != 0,
    })
}

/// Has the kernel finish transport checksums itself before it hands frames to `interface` (`on` =
/// false), or leave them to the device. On a veth it is the setting of the *peer* that decides what
/// arrives at our end, and the peer may be in another network namespace: call this there.
///
/// # Errors
/// `EPERM` without `CAP_NET_ADMIN`, `EOPNOTSUPP` when the driver cannot, `ENODEV` when there is no
/// such interface.
pub fn set_tx_checksum(interface: &str, on: bool) -> io::Result<()> {
    value(interface, ETHTOOL_STXCSUM, u32::from(on)).map(drop)
}

/// Runs a command that takes or answers one number. A command that the driver does not know
/// answers 0.
fn value(interface: &str, command: u32, data: u32) -> io::Result<u32> {
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    let mut value = Value { command, data };
    // SAFETY: the commands above take and fill one `struct ethtool_value`, which is `Value`.
    match unsafe { request(interface, &mut value) } {
        Ok(()) => Ok(value.data),
        Err(error)
            if error.raw_os_error() == Some(libc::EOPNOTSUPP) && command != ETHTOOL_STXCSUM =>
        {
            Ok(0)
        }
        Err(error) => Err(error),
    }
}

/// Runs one SIOCETHTOOL request.
///
/// # Safety
/// `argument` is `repr(C)`, starts with a command, and is the structure that this command reads and
/// writes.
pub(super) unsafe fn request<T>(interface: &str, argument: &mut T) -> io::Result<()> {
    let socket: OwnedFd = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let mut name = [0; libc::IFNAMSIZ];
    if interface.is_empty() || interface.len() >= name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in name.iter_mut().zip(interface.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    let mut request = libc::ifreq {
        ifr_name: name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_data: std::ptr::from_mut(argument).cast(),
        },
    };
    // SAFETY: `request` is a whole ifreq whose name ends in a zero and whose data is the caller's
    // structure, alive and exclusive.
    unsafe { sys::control(socket.as_fd(), libc::SIOCETHTOOL as _, &mut request) }
}
