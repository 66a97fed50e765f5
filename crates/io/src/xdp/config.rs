//! What a caller chooses.

use std::io;
use std::net::IpAddr;

use wire::frame::LINK_HEADERS;

use crate::context::invalid;

use super::steering::ADDRESSES;

/// Bytes that the kernel keeps free in front of a received frame (`XDP_PACKET_HEADROOM`).
const HEADROOM: u32 = 256;
/// [`LINK_HEADERS`], as the kernel counts.
pub(super) const LINK_HEADER: u32 = LINK_HEADERS as u32;
/// Frame sizes that an aligned UMEM may have on a machine with pages of 4 KiB.
const FRAME_SIZES: [u32; 2] = [2048, 4096];

/// Where what is to be sent begins in a frame, so that words for the device have room before it: at
/// a cache line. The kernel wants the room in each frame of a packet.
pub(super) const FRONT: u32 = 64;
/// Frames that carry a packet at most, of those that the kernel takes (`MAX_SKB_FRAGS`): enough for
/// 16,000 bytes.
const MOST_PARTS: u32 = 4;

/// Frames of all queues together to receive into, unless the configuration says otherwise: 32 MiB
/// with the usual MTU.
const ALL_FRAMES: u32 = 16_384;
/// There is one frame to send for so many to receive into: what is sent waits for nobody but the
/// device.
const RECEIVED_PER_SENT: u32 = 4;
/// The least that a queue gets then, for either.
const LEAST_FRAMES: u32 = 2048;

/// Where memory may not be locked a queue has fewer, and these at least.
const FEWEST_FRAMES: u32 = 256;

/// Frames of one queue; all three are powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frames {
    /// To receive into. They come first.
    pub(super) receive: u32,
    pub(super) send: u32,
    /// Bytes of each.
    pub(super) size: u32,
    /// Frames that lie one behind the other and carry a packet to send together: more than one
    /// where none holds the longest packet.
    pub(super) parts: u32,
}

impl Frames {
    pub(super) fn count(&self) -> u32 {
        self.receive + self.send
    }

    /// Half as many, if those still fill a few bursts.
    pub(super) fn half(&self) -> Option<Self> {
        let [receive, send] = [self.receive / 2, self.send / 2];
        let is_enough = receive.min(send) >= FEWEST_FRAMES;
        is_enough.then_some(Self {
            receive,
            send,
            ..*self
        })
    }

    /// Whether a packet may lie in several.
    pub(super) fn are_parts(&self) -> bool {
        self.parts > 1
    }

    /// Size of all of them in bytes.
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.count()) * u64::from(self.size)
    }
}

/// Where the XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AttachMode {
    /// In the driver if it can, else generic.
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// In the kernel's network stack: works on every interface, and is slower.
    Generic,
}

/// Whether the driver may use our frames itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ZeroCopy {
    /// If it can.
    #[default]
    Auto,
    /// The kernel copies each frame.
    Copy,
    /// It must: opening fails otherwise.
    ZeroCopy,
}

/// Which received frames are passed on as [`wire::frame::RxChecksum::Trusted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ChecksumPolicy {
    /// On virtual devices and in generic mode, frames whose transport checksum is visibly
    /// unfinished (it holds the pseudo-header sum that a kernel leaves for the device to finish):
    /// they come from this machine's memory, or its host's, and no wire can have damaged them. No
    /// others.
    #[default]
    Auto,
    /// All. Only for links that check frames themselves.
    Trust,
    /// None. On a veth the peer must then finish its checksums (`ethtool -K PEER tx off`).
    Verify,
}

/// How to open an interface.
#[derive(Clone, Debug)]
pub struct XdpConfig {
    /// Name of the interface.
    pub interface: String,
    /// Our addresses: frames for them are ours, all others stay with the kernel.
    pub addresses: Vec<IpAddr>,
    /// The kernel has the addresses, too, and of what comes to them only TCP of the stack's flows
    /// and listeners is ours: the stack says which ([`crate::Port::steering`]). So many flows at
    /// most.
    pub flows: Option<u32>,
    /// Number of ports; none: one per receive queue of the interface. With fewer ports than queues
    /// a port serves several queues.
    pub ports: Option<u16>,
    /// Processes that share the queues of the interface, each with a part of them: one and those
    /// that it forks.
    pub processes: u16,
    /// Where the program runs.
    pub mode: AttachMode,
    /// Whether the driver may use our frames itself.
    pub zero_copy: ZeroCopy,
    /// Frames per queue, half of them to receive and half to send. A power of two from 128 to
    /// 65536; none: 16384 over all queues to receive and a quarter of that to send, but at least
    /// 2048 of each per queue.
    pub frames: Option<u32>,
    /// Which transport checksums are trusted.
    pub checksums: ChecksumPolicy,
    /// Ask first whether another host has one of the addresses.
    pub probe: bool,
    /// When the interface is removed, wait until there is one of its name, and go on there, instead
    /// of failing.
    pub retakes: bool,
}

impl XdpConfig {
    /// The defaults for `interface`: one port per queue, everything else automatic.
    pub fn new(interface: impl Into<String>, addresses: impl Into<Vec<IpAddr>>) -> Self {
        Self {
            interface: interface.into(),
            addresses: addresses.into(),
            flows: None,
            ports: None,
            processes: 1,
            mode: AttachMode::Auto,
            zero_copy: ZeroCopy::Auto,
            frames: None,
            checksums: ChecksumPolicy::Auto,
            probe: false,
            retakes: false,
        }
    }

    /// Checks what can be checked without the interface.
    pub(super) fn check(&self) -> io::Result<()> {
        let Self {
            interface,
            addresses,
            flows,
            ports,
            processes,
            mode: _,
            zero_copy: _,
            frames,
            checksums: _,
            probe: _,
            retakes: _,
        } = self;
        if addresses.is_empty() {
            return Err(invalid(format_args!(
                "XDP on {interface}: no address given, so no frame would be ours"
            )));
        }
        if let Some(address) = addresses
            .iter()
            .find(|address| address.is_unspecified() || address.is_multicast())
        {
            return Err(invalid(format_args!(
                "XDP on {interface}: {address} is not an address of a host"
            )));
        }
        if flows.is_some() && addresses.len() > ADDRESSES {
            return Err(invalid(format_args!(
                "XDP on {interface}: {} addresses shared with the kernel, and it can be {ADDRESSES}: name those that the stack shall have (addr)",
                addresses.len()
            )));
        }
        if flows.is_some() && *processes > 1 {
            return Err(invalid(format_args!(
                "XDP on {interface}: several processes cannot share addresses with the kernel: set processes = 1"
            )));
        }
        if *ports == Some(0) {
            return Err(invalid(format_args!(
                "XDP on {interface}: at least one port is needed"
            )));
        }
        if let Some(frames) = frames
            && (!frames.is_power_of_two() || !(128..=65_536).contains(frames))
        {
            return Err(invalid(format_args!(
                "XDP on {interface}: {frames} frames asked for; it must be a power of two from 128 to 65536"
            )));
        }
        Ok(())
    }

    /// Frames for each of `queues`, which receive into them or only send.
    ///
    /// A queue holds what arrives while the stack is busy. What it cannot hold is lost, and ten
    /// thousand peers that all lost something send it again at the same moments, so that it is lost
    /// again.
    pub(super) fn frames_per_queue(&self, queues: u32, receives: bool, shape: Shape) -> Frames {
        let Shape { size, parts, .. } = shape;
        if let Some(frames) = self.frames {
            let half = frames / 2;
            return Frames {
                receive: half,
                send: half,
                size,
                parts,
            };
        }
        let all = if receives { ALL_FRAMES } else { LEAST_FRAMES };
        let receive = (all / queues.max(1).next_power_of_two()).max(LEAST_FRAMES);
        Frames {
            receive,
            send: (receive / RECEIVED_PER_SENT).max(LEAST_FRAMES),
            size,
            parts,
        }
    }
}

/// Drivers that tell their device of frames in whole KiB, rounded down, and cut what is longer
/// without a word: of 2048 bytes 1792 are left behind the headroom, and that is one.
const WHOLE_KIB: [&str; 2] = ["igb", "igc"];

/// What the frames of an interface are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Bytes of each.
    pub(super) size: u32,
    /// As in [`Frames`].
    pub(super) parts: u32,
    /// The longest packet that they hold, bytes.
    pub(super) mtu: u32,
}

/// The smallest frames that hold an IP packet of `mtu` bytes on an interface with this driver,
/// several of them if `joins` says that the kernel knows packets in several (Linux 6.6). The
/// longest packet that they hold is shorter than `mtu` where no frames are long enough: peers keep
/// to the largest segment that the stack offers them, and longer packets of others are lost.
pub(super) fn shape(mtu: u32, driver: &str, joins: bool) -> Shape {
    let room = |size: u32| match size - HEADROOM {
        room if WHOLE_KIB.contains(&driver) => room / 1024 * 1024,
        room => room,
    };
    let longest = |size: u32| (room(size) - LINK_HEADER).min(mtu);
    let [short, long] = FRAME_SIZES;
    let one = |size: u32| Shape {
        size,
        parts: 1,
        mtu: longest(size),
    };
    if longest(short) == mtu {
        one(short)
    } else if longest(long) == mtu || !joins {
        one(long)
    } else {
        let part = long - FRONT;
        let mtu = mtu.min(MOST_PARTS * part - LINK_HEADER);
        Shape {
            size: long,
            parts: (LINK_HEADER + mtu).div_ceil(part).max(2),
            mtu,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    fn config() -> XdpConfig {
        XdpConfig::new("eth0", [IpAddr::from([10, 0, 0, 1])])
    }

    #[test]
    fn the_defaults_pass() {
        config().check().unwrap();
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let refused = [
            XdpConfig {
                addresses: vec![],
                ..config()
            },
            XdpConfig {
                addresses: vec![Ipv4Addr::UNSPECIFIED.into()],
                ..config()
            },
            XdpConfig {
                addresses: vec![Ipv6Addr::from([0xff02, 0, 0, 0, 0, 0, 0, 1]).into()],
                ..config()
            },
            XdpConfig {
                ports: Some(0),
                ..config()
            },
            XdpConfig {
                frames: Some(64),
                ..config()
            },
            XdpConfig {
                frames: Some(5000),
                ..config()
            },
            XdpConfig {
                frames: Some(1 << 17),
                ..config()
            },
        ];
        for config in refused {
            assert_eq!(
                config.check().unwrap_err().kind(),
                io::ErrorKind::InvalidInput
            );
        }
    }

    #[test]
    fn queues_share_the_frames() {
        let shape = shape(1500, "veth", true);
        let frames = |config: &XdpConfig, queues, receives| {
            let frames = config.frames_per_queue(queues, receives, shape);
            (frames.receive, frames.send)
        };
        let shares = [0, 1, 2, 3, 8, 64].map(|queues| frames(&config(), queues, true));
        let least = (2048, 2048);
        let (all, half, quarter) = ((16_384, 4096), (8192, 2048), (4096, 2048));
        assert_eq!(shares, [all, all, half, quarter, least, least]);
        assert_eq!(frames(&config(), 1, false), least);
        let chosen = XdpConfig {
            frames: Some(128),
            ..config()
        };
        assert_eq!(frames(&chosen, 64, true), (64, 64));
    }

    #[test]
    fn frames_are_as_small_as_the_mtu_allows() {
        let size = |mtu| {
            let Shape { size, parts, mtu } = shape(mtu, "virtio_net", false);
            assert_eq!(parts, 1);
            (size, mtu)
        };
        assert_eq!(size(1500), (2048, 1500));
        assert_eq!(size(1774), (2048, 1774));
        assert_eq!(size(1775), (4096, 1775));
        assert_eq!(size(3822), (4096, 3822));
        for longer in [3823, 9000, u32::MAX] {
            assert_eq!(size(longer), (4096, 3822));
        }
    }

    #[test]
    fn packets_that_no_frame_holds_lie_in_several() {
        let parts = |mtu| {
            let shape = shape(mtu, "veth", true);
            (shape.size, shape.parts, shape.mtu)
        };
        assert_eq!(parts(1500), (2048, 1, 1500));
        assert_eq!(parts(3822), (4096, 1, 3822));
        assert_eq!(parts(3823), (4096, 2, 3823));
        assert_eq!(parts(9000), (4096, 3, 9000));
        let most = 4 * (4096 - FRONT) - LINK_HEADER;
        assert_eq!(parts(most), (4096, 4, most));
        assert_eq!(parts(u32::MAX), (4096, 4, most));
    }

    #[test]
    fn devices_that_know_whole_kib_get_frames_that_hold_the_mtu_so() {
        for driver in WHOLE_KIB {
            let size = |mtu| {
                let shape = shape(mtu, driver, false);
                (shape.size, shape.mtu)
            };
            assert_eq!(size(1006), (2048, 1006));
            assert_eq!(size(1500), (4096, 1500));
            assert_eq!(size(3054), (4096, 3054));
            assert_eq!(size(9000), (4096, 3054));
        }
    }
}
