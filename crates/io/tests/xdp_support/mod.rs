//! Two network namespaces with a veth pair between them: ours, where the port under test is, and
//! the peer's, where a kernel answers. Neither has a name: both end with the last thread and
//! descriptor that refers to them, however the test ends.

#![allow(clippy::disallowed_methods)] // the kernel is asked, as by any program

pub mod frames;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use aya::util::KernelVersion;
use io_crate::xdp::{AttachMode, XdpConfig, XdpInterface, XdpPort};
use io_crate::{Port, netlink};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use wire::checksum::pseudo_header;
use wire::ethernet::EtherType;
use wire::frame::{FrameSink, MacAddr, RxMeta, TxChecksum, TxMeta};
use wire::ip::Protocol;

use ::io as io_crate;

/// Address of the port under test.
pub const OURS: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
/// Address of the kernel on the other end.
pub const PEER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
/// Address of the kernel on our end, which must not notice us.
pub const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 3);
pub const OURS6: Ipv6Addr = Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 1);
pub const PEER6: Ipv6Addr = Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 2);
pub const KERNEL6: Ipv6Addr = Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 3);

/// Where the transport header of an IPv4 frame begins, bytes.
pub const START: u16 = 34;

/// Longest that anything may take.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// How a veth pair of one queue may be opened: the best way, and by XDP.
pub const MODES: [AttachMode; 2] = [AttachMode::Auto, AttachMode::Native];

/// Whether this kernel is new enough that frames come through traffic control; says so if not.
pub fn has_traffic_control() -> bool {
    let new = KernelVersion::current().unwrap() >= KernelVersion::new(6, 6, 0);
    if !new {
        let reason = "no traffic control of our kind (Linux 6.6)";
        let _ = writeln!(io::stdout(), "\nskipped: {reason}"); // println! would be captured
    }
    new
}

/// Whether the test may run; says why not.
pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        let reason = "needs root for network namespaces and XDP";
        let _ = writeln!(io::stdout(), "\nskipped: {reason}"); // println! would be captured
    }
    root
}

/// A network namespace.
pub struct Namespace(OwnedFd);

impl Namespace {
    /// A new one.
    pub fn new() -> Self {
        let made = thread::spawn(|| {
            // SAFETY: a new network namespace does not change descriptors or memory of this or any
            // other thread.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
            run("ip", &["link", "set", "lo", "up"]);
            OwnedFd::from(File::open("/proc/thread-self/ns/net").unwrap())
        });
        Self(made.join().unwrap())
    }

    /// Runs `work` inside. Sockets that it makes stay inside.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))
                    .unwrap();
                work()
            });
            inside
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Runs `ip` with these words inside.
    pub fn ip(&self, words: &str) {
        self.run(|| run("ip", &words.split_whitespace().collect::<Vec<_>>()));
    }

    /// Where another process finds it.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

fn run(program: &str, words: &[&str]) {
    let output = Command::new(program).args(words).output().unwrap();
    assert!(
        output.status.success(),
        "{program} {words:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A veth pair: `xdp0` in our namespace, `peer0` in the peer's.
pub struct Pair {
    pub ours: Namespace,
    pub peer: Namespace,
}

impl Pair {
    /// With `queues` queues each way on both ends.
    pub fn new(queues: u32) -> Self {
        let pair = Self {
            ours: Namespace::new(),
            peer: Namespace::new(),
        };
        pair.make(queues);
        pair
    }

    /// Makes both ends, in these namespaces, once more.
    pub fn make(&self, queues: u32) {
        let Self { ours, peer } = self;
        let count = format!("numrxqueues {queues} numtxqueues {queues}");
        ours.ip(&format!(
            "link add xdp0 {count} type veth peer name peer0 {count} netns {}",
            peer.path()
        ));
        ours.ip(&format!("address add {KERNEL}/24 dev xdp0"));
        ours.ip(&format!("address add {KERNEL6}/64 dev xdp0 nodad"));
        peer.ip(&format!("address add {PEER}/24 dev peer0"));
        peer.ip(&format!("address add {PEER6}/64 dev peer0 nodad"));
        ours.ip("link set xdp0 up");
        peer.ip("link set peer0 up");
    }

    /// Hardware address of the peer.
    pub fn peer_mac(&self) -> MacAddr {
        self.peer.run(|| netlink::link("peer0").unwrap().mac)
    }

    /// Opens our end.
    pub fn open(&self, config: &XdpConfig) -> io::Result<XdpInterface> {
        self.ours.run(|| XdpInterface::open(config))
    }

    /// Opens our end with one port, as the default configuration has it.
    pub fn station(&self) -> Station {
        self.station_with(&XdpConfig {
            ports: Some(1),
            ..config()
        })
    }

    /// As [`Pair::station`], in this mode.
    pub fn station_in(&self, mode: AttachMode) -> Station {
        self.station_with(&XdpConfig { mode, ..config() })
    }

    /// As [`Pair::station`], if the kernel reads what stands before frames of AF_XDP; says so if
    /// not.
    pub fn offloading_station(&self) -> Option<Station> {
        let station = self.station();
        let leaves = station.port.capabilities().tx_checksum;
        if !leaves {
            println!("skipped: this kernel reads no words before frames of AF_XDP (Linux 6.11)");
        }
        leaves.then_some(station)
    }

    /// Opens our end with the first port of `config`.
    pub fn station_with(&self, config: &XdpConfig) -> Station {
        let mut ports = self.open(config).unwrap().ports();
        Station {
            port: ports.remove(0),
            peer_mac: self.peer_mac(),
            arrived: VecDeque::new(),
        }
    }

    /// A socket of the peer that sends whole frames.
    pub fn raw(&self) -> Raw {
        self.peer.run(|| Raw::new("peer0"))
    }
}

/// Leaves the checksum of the segment, whose field is `offset` bytes into it, to the link. Returns
/// what says so.
pub fn leave_checksum(segment: &mut [u8], protocol: Protocol, offset: u16) -> TxChecksum {
    let sum = pseudo_header(OURS.into(), PEER.into(), protocol, segment.len() as u32);
    let at = usize::from(offset);
    segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    TxChecksum::Partial {
        start: START,
        offset,
    }
}

/// A UDP socket of the peer, bound to its `address`.
pub fn peer_socket(pair: &Pair, address: impl Into<IpAddr>) -> UdpSocket {
    let address = SocketAddr::new(address.into(), 0);
    let socket = pair.peer.run(|| UdpSocket::bind(address)).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    socket
}

/// The default configuration of our end.
pub fn config() -> XdpConfig {
    XdpConfig::new("xdp0", [IpAddr::from(OURS), IpAddr::from(OURS6)])
}

/// A frame as it arrived.
pub struct Arrived {
    pub bytes: Vec<u8>,
    pub meta: RxMeta,
}

/// A port with what it received.
pub struct Station {
    pub port: XdpPort,
    pub peer_mac: MacAddr,
    pub arrived: VecDeque<Arrived>,
}

impl Station {
    /// Sends one frame.
    pub fn send(&mut self, frame: &[u8]) {
        self.put(frame, TxChecksum::default());
        self.port.flush().unwrap();
    }

    /// Hands a frame to the port, which the next flush sends.
    pub fn put(&mut self, frame: &[u8], checksum: TxChecksum) {
        let sent = self.port.send(|room| {
            room[..frame.len()].copy_from_slice(frame);
            TxMeta {
                len: frame.len(),
                checksum,
                ..TxMeta::default()
            }
        });
        assert!(sent, "no free frame");
    }

    /// As `put`, a datagram to `port` of the peer, whose checksum is left to the link if `leaves`.
    pub fn put_datagram(&mut self, port: u16, data: &[u8], leaves: bool) {
        let mut datagram = frames::udp(OURS.into(), PEER.into(), (2000, port), data);
        let checksum = match leaves {
            true => leave_checksum(&mut datagram, Protocol::UDP, 6),
            false => TxChecksum::Complete,
        };
        let packet = frames::ipv4((OURS, PEER), Protocol::UDP, &datagram, |_| ());
        let (ours, peer) = (self.port.mac(), self.peer_mac);
        let frame = frames::ethernet(ours, peer, EtherType::IPV4, None, &packet);
        self.put(&frame, checksum);
    }

    /// Receives what is there.
    pub fn poll(&mut self) -> usize {
        let arrived = &mut self.arrived;
        self.port.receive(|frames| {
            arrived.extend(frames.iter().map(|frame| Arrived {
                bytes: frame.bytes.to_vec(),
                meta: frame.meta,
            }));
        })
    }

    /// The first frame received from now on, or before and not asked for yet, that `is_it`; those
    /// before it are dropped.
    pub fn expect(&mut self, what: &str, is_it: impl Fn(&[u8]) -> bool) -> Arrived {
        let end = Instant::now() + DEADLINE;
        loop {
            while let Some(frame) = self.arrived.pop_front() {
                if is_it(&frame.bytes) {
                    return frame;
                }
            }
            assert!(Instant::now() < end, "no {what} came");
            self.poll();
            self.port.flush().unwrap();
            if self.arrived.is_empty() {
                self.port
                    .wait(Some(Duration::from_millis(100)), None)
                    .unwrap();
            }
        }
    }

    /// Answers the peer's question for our hardware address, so that it sends what waits for the
    /// answer.
    pub fn answer_arp(&mut self) {
        self.expect("ARP request", frames::is_arp_request);
        let mac = self.port.mac();
        let reply = frames::arp_reply(mac, self.peer_mac);
        self.send(&reply);
    }
}

/// A packet socket: sends and receives whole frames past the kernel's stack.
pub struct Raw(OwnedFd);

impl Raw {
    /// On `interface` of the calling thread's namespace.
    pub fn new(interface: &str) -> Self {
        Self::of(interface, 0)
    }

    /// As [`Raw::new`], but sees all frames of the interface.
    pub fn listening(interface: &str) -> Self {
        Self::of(interface, (libc::ETH_P_ALL as u16).to_be())
    }

    fn of(interface: &str, protocol: u16) -> Self {
        let index = netlink::link(interface).unwrap().index;
        let socket = rustix::net::socket_with(
            AddressFamily::PACKET,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        // SAFETY: all bytes zero is a value of this plain structure.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = index as i32;
        let len = size_of_val(&address) as u32;
        let (fd, address) = (socket.as_raw_fd(), &raw const address);
        // SAFETY: `address` is a whole sockaddr_ll of that length.
        let bound = unsafe { libc::bind(fd, address.cast(), len) };
        assert_eq!(bound, 0);
        Self(socket)
    }

    /// Sends one frame.
    pub fn send(&self, frame: &[u8]) {
        assert_eq!(
            rustix::net::send(&self.0, frame, SendFlags::empty()).unwrap(),
            frame.len()
        );
    }
}

impl AsFd for Raw {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
