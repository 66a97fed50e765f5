//! Settings: from a file, from the old configuration files beside it, or set one by one.
//!
//! Everything that a file or a caller can set is one line of the table in [`keys`]: parser, setter
//! and documentation come from it.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use mtcp_core::config::{CongestionControl, EcnUse, SynCookies};
use wire::frame::MacAddr;

mod cgroup;
mod core;
mod files;
mod host;
mod keys;
mod nearest;
pub(crate) mod room;
mod spec;
mod text;
mod value;

pub(crate) use self::core::with_loop;
pub use keys::{Key, describe, keys};
pub use spec::IoSpec;
pub use text::ConfigError;

/// How a context is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Calls that wait run the stack on the calling thread; while there are none, a stack thread
    /// does: timers and ACKs go on.
    #[default]
    Paired,
    /// Calls that wait run the stack on the calling thread, and nothing else does.
    Inline,
}

/// An address with the length of its network part: `10.0.0.2/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    /// The address.
    pub addr: IpAddr,
    /// Bits of the network part.
    pub prefix_len: u8,
}

impl Cidr {
    /// Whether `addr` is in this network.
    pub fn contains(&self, addr: IpAddr) -> bool {
        wire::ip::Cidr::new(self.addr, self.prefix_len).is_some_and(|cidr| cidr.contains(addr))
    }
}

/// A route: `network via gateway`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RouteSpec {
    /// The network.
    pub network: Cidr,
    /// The next hop; `None`: on-link.
    pub gateway: Option<IpAddr>,
}

/// A static neighbour: `address = mac`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NeighbourSpec {
    /// The address, or a network of which every address has this neighbour.
    pub network: Cidr,
    /// Its hardware address.
    pub mac: MacAddr,
}

/// All settings of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The link. An empty name is taken from `interfaces`.
    pub io: IoSpec,
    /// The link where a file names one that only the original mTCP has.
    pub io_as: Option<IoSpec>,
    /// Names for a link whose `io` names none (`io = afxdp` and `port = veth0`). One interface per
    /// process, the first.
    pub interfaces: Vec<String>,
    /// The addresses are the kernel's on the interface, too: all of them, unless some are given.
    pub host: bool,
    /// First and last port of connections that the stack opens; `None`: as the stack has it.
    pub own_ports: Option<(u16, u16)>,
    /// Our addresses.
    pub addresses: Vec<Cidr>,
    /// Take our addresses although the kernel or another host has them.
    pub force_address: bool,
    /// Listen at ports that the host's firewall closes.
    pub ignore_firewall: bool,
    /// Routes and neighbours are those of the kernel, which has addresses on the interface, too:
    /// they are followed as they change.
    pub follow_kernel: bool,
    /// Default gateways, at most one per family.
    pub gateways: Vec<IpAddr>,
    /// Further routes.
    pub routes: Vec<RouteSpec>,
    /// Static neighbours.
    pub neighbours: Vec<NeighbourSpec>,
    /// Our hardware address; `None`: the link's.
    pub mac: Option<MacAddr>,
    /// Contexts; 0: one per processor, or as many as the link has queues if those are fewer.
    pub cores: usize,
    /// Processes that share the queues of an interface.
    pub processes: u16,
    /// Processors that logical cores map to, in order; empty: 0, 1, 2, …
    pub core_list: Vec<usize>,
    /// How contexts are driven.
    pub mode: Mode,
    /// Sockets and connections per context.
    pub max_concurrency: u32,
    /// Connections per context that were closed and are not over; the one closed first is reset for
    /// one more. 0: as `max_concurrency`.
    pub max_orphans: u32,
    /// Connections per context whose memory is taken at the start, instead of as it is needed.
    pub prefault: u32,
    /// Buffers per context; 0: as `max_concurrency`. Bounds buffer memory together with `rcvbuf`
    /// and `sndbuf`.
    pub max_num_buffers: u32,
    /// Limit of a receive buffer to begin with, bytes.
    pub rcvbuf: u32,
    /// Limit of a send buffer to begin with, bytes.
    pub sndbuf: u32,
    /// Both grow with what a connection needs, unless the application sets them.
    pub autotune: bool,
    /// Most memory that the receive buffers of one context, and again its send buffers, take,
    /// bytes.
    pub buffer_memory: usize,
    /// Largest TCP segment that is offered and sent, bytes; 0: what the link takes.
    pub mss: u16,
    /// Congestion control.
    pub congestion: CongestionControl,
    /// Spread what CUBIC, NewReno and DCTCP send over the round trip.
    pub pacing: bool,
    /// Explicit congestion notification.
    pub ecn: EcnUse,
    /// Idle connections are dropped after this time; `None`: never.
    pub tcp_timeout: Option<Duration>,
    /// Connections whose peer keeps its window closed for this long are reset; `None`: never.
    pub persist_timeout: Option<Duration>,
    /// 2 MSL.
    pub tcp_timewait: Duration,
    /// When SYNs are answered with SYN cookies.
    pub syn_cookies: SynCookies,
    /// SYNs may be answered where they arrive.
    pub syn_offload: bool,
    /// Handshakes that end at a full backlog are reset.
    pub abort_on_overflow: bool,
    /// How long to look for more frames before sleeping, once those that came are dealt with; zero:
    /// not at all.
    pub spin: Duration,
    /// The longest coalescing delay, where frames come densely and each would end a sleep; zero:
    /// none.
    pub coalesce: Duration,
    /// Pin contexts' threads.
    pub pin: bool,
    /// Capture all frames to this pcapng file (one per context: `-N` is added before the extension
    /// from the second on).
    pub pcap: Option<PathBuf>,
    /// Faults to inject.
    pub fault: Option<String>,
    /// Print a statistics line per context and second to stderr.
    pub stat_print: bool,
    /// One event bit per epoll entry, as the original mTCP does.
    pub one_event_per_entry: bool,
    /// The original mTCP's results after RST: `read` returns 0, `write` `ENOTCONN`.
    pub legacy_errors: bool,
    /// Unknown socket options are refused (C API).
    pub strict_options: bool,
    /// 2 MB pages if reserved.
    pub huge_pages: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            io: IoSpec::Shm("/run/mtcp.shm".into()),
            io_as: None,
            interfaces: Vec::new(),
            host: false,
            own_ports: None,
            addresses: Vec::new(),
            force_address: false,
            ignore_firewall: false,
            follow_kernel: false,
            gateways: Vec::new(),
            routes: Vec::new(),
            neighbours: Vec::new(),
            mac: None,
            cores: 0,
            processes: 1,
            core_list: Vec::new(),
            mode: Mode::Paired,
            max_concurrency: 10_000,
            max_orphans: 0,
            prefault: 0,
            max_num_buffers: 0,
            rcvbuf: 1 << 20,
            sndbuf: 128 << 10,
            autotune: true,
            buffer_memory: 256 << 20,
            mss: 0,
            congestion: CongestionControl::default(),
            pacing: false,
            ecn: EcnUse::default(),
            tcp_timeout: None,
            persist_timeout: None,
            tcp_timewait: Duration::from_secs(60),
            syn_cookies: SynCookies::default(),
            syn_offload: true,
            abort_on_overflow: false,
            spin: Duration::from_micros(30),
            coalesce: Duration::from_micros(200),
            pin: true,
            pcap: None,
            fault: None,
            stat_print: false,
            one_event_per_entry: false,
            legacy_errors: false,
            strict_options: false,
            huge_pages: true,
        }
    }
}
