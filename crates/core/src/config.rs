//! What a stack is told when it is made.

use std::io;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use wire::frame::{Capabilities, MacAddr};
use wire::handed::Handed;

use crate::arrivals::Arrivals;
use crate::id::PortId;

/// The algorithms of congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum CongestionControl {
    /// RFC 9438.
    #[default]
    Cubic,
    /// RFC 5681 and RFC 6582.
    NewReno,
    /// draft-ietf-ccwg-bbr.
    Bbr,
    /// RFC 8257: for networks of one's own whose switches mark.
    Dctcp,
}

impl CongestionControl {
    /// Their names, as configuration and TCP_CONGESTION have them. Where there are two, the first
    /// is the one shown.
    pub const NAMES: &[(&str, Self)] = &[
        ("cubic", Self::Cubic),
        ("reno", Self::NewReno),
        ("newreno", Self::NewReno),
        ("bbr", Self::Bbr),
        ("dctcp", Self::Dctcp),
    ];

    /// The name it is shown by.
    pub fn name(self) -> &'static str {
        let entry = Self::NAMES.iter().find(|(_, kind)| *kind == self);
        entry.map_or("", |(name, _)| name)
    }
}

impl FromStr for CongestionControl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let entry = Self::NAMES.iter().find(|(name, _)| *name == text);
        entry.map(|(_, kind)| *kind).ok_or_else(|| {
            let names: Vec<_> = Self::NAMES.iter().map(|(name, _)| *name).collect();
            format!("'{text}' is not available: use {}", names.join(", "))
        })
    }
}

/// When SYNs are answered with SYN cookies (RFC 4987 §3.6) instead of half-open records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SynCookies {
    /// When the half-open records, or the listener's share of them, are used up.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never: a SYN without room is dropped.
    Off,
}

/// When explicit congestion notification is used (RFC 3168, RFC 9768).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EcnUse {
    /// Never.
    Off,
    /// On connections whose peer asks for it, and on those whose congestion control is of no use
    /// without.
    #[default]
    Passive,
    /// Connections that we open ask for it, too.
    On,
}

impl EcnUse {
    /// Their names, as configuration has them.
    pub const NAMES: &[(&str, Self)] = &[
        ("off", Self::Off),
        ("passive", Self::Passive),
        ("on", Self::On),
    ];

    /// The name it is shown by.
    pub fn name(self) -> &'static str {
        let entry = Self::NAMES.iter().find(|(_, kind)| *kind == self);
        entry.map_or("", |(name, _)| name)
    }
}

impl FromStr for EcnUse {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let entry = Self::NAMES.iter().find(|(name, _)| *name == text);
        let entry = entry.map(|(_, kind)| *kind);
        entry.ok_or_else(|| format!("'{text}' is not off, passive or on"))
    }
}

/// An address of ours with the length of its on-link prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub addr: IpAddr,
    /// Bits of the network part.
    pub prefix_len: u8,
}

/// One port of the stack; its [`PortId`] is its index in [`Config::interfaces`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Our hardware address on it.
    pub mac: MacAddr,
    /// What it can do.
    pub capabilities: Capabilities,
    /// Our addresses on it, both families mixed.
    pub addresses: Vec<Address>,
}

/// A route to a network that is not on-link (the prefixes of our addresses are routes already).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The network.
    pub network: IpAddr,
    /// Bits of the network part; 0 is the default route.
    pub prefix_len: u8,
    /// The next hop; `None`: on-link.
    pub gateway: Option<IpAddr>,
    /// Where it leaves.
    pub port: PortId,
}

/// One of the ways that a route has: a router, or the link itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The router, of either family; `None`: on-link.
    pub gateway: Option<IpAddr>,
    /// Where it leaves; [`PortId::ELSEWHERE`]: by an interface that is not ours.
    pub port: PortId,
    /// Its share among the hops of the route, at least 1.
    pub weight: u16,
}

/// A route of the kernel of this host. Of two to the same network the first holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The network.
    pub network: IpAddr,
    /// Bits of the network part; 0 is the default route.
    pub prefix_len: u8,
    /// Which address of ours packets are from, if it says and we have it.
    pub source: Option<IpAddr>,
    /// Largest IP packet, in bytes, if it says.
    pub mtu: Option<u16>,
    /// Of several, each flow takes one. None: nothing passes.
    pub hops: Vec<Hop>,
}

/// What of a network may change while a stack runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// As many as there are, in their order: [`Config::interfaces`]. No MTU is larger than the one
    /// at the start.
    pub interfaces: Vec<Interface>,
    /// [`Config::ways`].
    pub ways: Vec<Way>,
}

/// A static neighbour: never aged, never probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticNeighbour {
    /// Address (all of it: `prefix_len` bits must match, as in arp.conf).
    pub addr: IpAddr,
    /// Bits that must match; 32 or 128 for one host.
    pub prefix_len: u8,
    /// Its hardware address.
    pub mac: MacAddr,
    /// On this port.
    pub port: PortId,
}

/// Who asks where neighbours are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum NeighbourSource {
    /// The stack itself, by ARP and Neighbor Discovery.
    #[default]
    Stack,
    /// The kernel of this host, which has an address on the link: who drives the stack asks it for
    /// the neighbours that [`Stack::poll_question`](crate::Stack::poll_question) names, and says
    /// what it tells of any ([`Stack::hear_of`](crate::Stack::hear_of)).
    Kernel,
}

/// A stack's place among those that have the same addresses, each with a queue of the same
/// interface. Which queue a frame comes to is not for them to say, so they hand each other what
/// they do not know, on [`PortId::SIBLINGS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Counted from 0.
    pub index: u8,
    /// How many there are, at most [`wire::handed::Handed::MAX_STACKS`].
    pub seats: u8,
    /// Whether the others go on when this one ends, perhaps without notice. Then what no
    /// application has accepted is kept so that any of them can take it up: the sequence number of
    /// each SYN-ACK is a SYN cookie, and data waits for its ACK. That takes timestamps.
    pub bequeaths: bool,
}

/// All settings of a stack. `Config::default()` serves a small machine; sizes are bounds, memory is
/// taken as it is used.
#[derive(Clone, Debug)]
pub struct Config {
    /// Ports with their addresses.
    pub interfaces: Vec<Interface>,
    /// Longest prefix wins.
    pub routes: Vec<Route>,
    /// Routes of the kernel, if the stack goes by them; those above come first.
    pub ways: Vec<Way>,
    /// Static neighbours.
    pub neighbours: Vec<StaticNeighbour>,
    /// Who asks where neighbours are.
    pub neighbour_source: NeighbourSource,
    /// The addresses are those of the kernel of this host, which claims and defends them, and
    /// answers who asks for them.
    pub host_addresses: bool,
    /// Which of several stacks with these addresses this is; `None`: there are no others.
    pub seat: Option<Seat>,
    /// Which frames the device gives to this one of them: ports of active opens are chosen so that
    /// the answers are among these, where there are such ports. `None`: it does not say, or there
    /// are no others.
    pub arrivals: Option<Arrivals>,
    /// Secret of this stack, from the system's random source: keys the flow hash, ISNs (RFC 6528),
    /// ports (RFC 6056) and timestamp offsets. Fixed in simulations.
    pub secret: [u8; 32],
    /// If several stacks share an address, keys what a peer may bring to any of them: Fast Open
    /// cookies and, where one goes on for another, SYN cookies, sequence numbers and timestamps.
    /// `None`: `secret` does.
    pub common_secret: Option<[u8; 32]>,
    /// Control blocks.
    pub max_connections: u32,
    /// Connections that their application has closed and that are not over (Linux:
    /// tcp_max_orphans). For one more, the first of those whose peers do not answer is reset, or if
    /// need be the first of all. New connections have room if there are more control blocks than
    /// this by as many as the application uses.
    pub max_orphans: u32,
    /// Connections that keep all of their state at hand while they idle; when there are more, those
    /// that idle are packed.
    pub max_resident: u32,
    /// Connections whose control blocks and small buffers are in memory from the start: none of
    /// them waits for a huge page.
    pub prefault: u32,
    /// Other processes whose streams can be [added](crate::Stack::add_home).
    pub max_homes: u32,
    /// Half-open records over all listeners.
    pub max_half_open: u32,
    /// TIME_WAIT records; the oldest goes first when they run out.
    pub max_time_wait: u32,
    /// Listeners.
    pub max_listeners: u32,
    /// Bytes that all receive buffers together may hold.
    pub recv_pool: usize,
    /// Bytes that all send buffers together may hold.
    pub send_pool: usize,
    /// Limit of one receive buffer to begin with, bytes.
    pub recv_buffer: u32,
    /// Limit of one send buffer to begin with, bytes.
    pub send_buffer: u32,
    /// Largest limit a socket may ask for, or grow to, bytes.
    pub max_buffer: u32,
    /// Limits that the application did not set grow with what the connection needs, as far as
    /// memory allows.
    pub autotune: bool,
    /// First and last ephemeral port.
    pub ephemeral: (u16, u16),
    /// Offer timestamps and window scaling on connections that we open (RFC 7323); used only if
    /// both sides offer them.
    pub timestamps: bool,
    /// See `timestamps`.
    pub window_scaling: bool,
    /// RTO before the first measurement (RFC 6298 §2.1).
    pub rto_initial: Duration,
    /// Lower bound of the RTO. RFC 6298 §2.4 says 1 s should be; 200 ms is what hosts do.
    pub rto_min: Duration,
    /// Upper bound of the RTO (RFC 6298 §2.5).
    /// RFC 6298 §2-8.
    pub rto_max: Duration,
    /// SYN retransmissions before a connect fails.
    /// RFC 9293 MUST-23.
    pub syn_retries: u8,
    /// SYN-ACK retransmissions before a half-open record goes.
    pub syn_ack_retries: u8,
    /// What to do when there is no room for a half-open record.
    pub syn_cookies: SynCookies,
    /// Reset a handshake that ends at a full backlog. If not, its last ACK is dropped, and the
    /// peer's next segment tries again.
    pub abort_on_overflow: bool,
    /// Data retransmissions in a row before the connection fails (R2 of RFC 9293 §3.8.3).
    /// RFC 9293 SHLD-11.
    pub data_retries: u8,
    /// The same for a connection that its application has closed; and how often the closed window
    /// of such a connection is probed, answered or not.
    pub orphan_retries: u8,
    /// A connection whose peer keeps its window closed for this long is reset; `None`: as long as
    /// the peer answers, it may.
    pub persist_timeout: Option<Duration>,
    /// Longest delay of an ACK (RFC 9293 §3.8.6.3: under 0.5 s).
    pub delayed_ack: Duration,
    /// ACKs that a connection sends without delay at its start, after a silence and after
    /// out-of-order data, while the peer's congestion window is small.
    pub quick_acks: u8,
    /// FIN_WAIT_2 without an application (RFC 9293 leaves it open-ended; every host has a limit).
    pub fin_wait_2: Duration,
    /// 2 MSL.
    pub time_wait: Duration,
    /// Initial window in segments (RFC 6928).
    pub initial_window: u8,
    /// Largest MSS that is offered and used, bytes, on networks whose paths carry less than their
    /// links (`None`: what the links take).
    pub max_segment: Option<u16>,
    /// Default congestion control.
    pub congestion: CongestionControl,
    /// Spread what CUBIC, NewReno and DCTCP send over the round trip. BBR does in any case.
    pub pacing: bool,
    /// Explicit congestion notification.
    pub ecn: EcnUse,
    /// Upper bound of reassembly memory for IP fragments, bytes.
    pub reassembly_bytes: usize,
    /// How long fragments wait for the rest (RFC 791: 15 s here; RFC 8200 §4.5: 60 s).
    pub reassembly_timeout: Duration,
    /// Neighbour cache entries.
    pub max_neighbours: u32,
    /// ICMP errors and challenge ACKs per second, each (RFC 1812 §4.3.2.8, RFC 5961 §7).
    /// RFC 5961 §7-2.
    pub reply_rate: u32,
    /// RSTs to nowhere per second. None is longer than the segment that it answers, so they amplify
    /// nothing; who scans all ports must not take closed ones for filtered ones.
    pub reset_rate: u32,
    /// Use 2 MB pages where reserved, transparent huge pages otherwise.
    pub huge_pages: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            interfaces: Vec::new(),
            routes: Vec::new(),
            ways: Vec::new(),
            neighbours: Vec::new(),
            neighbour_source: NeighbourSource::Stack,
            host_addresses: false,
            seat: None,
            arrivals: None,
            secret: [0; 32],
            common_secret: None,
            max_connections: 65_536,
            max_orphans: 32_768,
            max_resident: 1024,
            prefault: 0,
            max_homes: 0,
            max_half_open: 16_384,
            max_time_wait: 65_536,
            max_listeners: 256,
            recv_pool: 256 << 20,
            send_pool: 256 << 20,
            recv_buffer: 1 << 20,
            send_buffer: 128 << 10,
            max_buffer: 32 << 20,
            autotune: true,
            ephemeral: (32_768, 60_999),
            timestamps: true,
            window_scaling: true,
            rto_initial: Duration::from_secs(1),
            rto_min: Duration::from_millis(200),
            rto_max: Duration::from_secs(60),
            syn_retries: 7,
            syn_ack_retries: 5,
            syn_cookies: SynCookies::Auto,
            abort_on_overflow: false,
            data_retries: 15,
            orphan_retries: 8,
            persist_timeout: None,
            delayed_ack: Duration::from_millis(40),
            quick_acks: 16,
            fin_wait_2: Duration::from_secs(60),
            time_wait: Duration::from_secs(60),
            initial_window: 10,
            max_segment: None,
            congestion: CongestionControl::default(),
            pacing: false,
            ecn: EcnUse::default(),
            reassembly_bytes: 4 << 20,
            reassembly_timeout: Duration::from_secs(15),
            max_neighbours: 4096,
            reply_rate: 1000,
            reset_rate: 100_000,
            huge_pages: true,
        }
    }
}

impl Config {
    /// Has this network instead of the one that is returned.
    pub(crate) fn replace_network(&mut self, new: Network) -> Network {
        let Network { interfaces, ways } = new;
        Network {
            interfaces: std::mem::replace(&mut self.interfaces, interfaces),
            ways: std::mem::replace(&mut self.ways, ways),
        }
    }

    /// Whether another stack takes up what no application here has accepted.
    pub(crate) fn bequeaths(&self) -> bool {
        self.syn_cookies != SynCookies::Off && self.seat.is_some_and(|seat| seat.bequeaths)
    }

    /// Keys what peers may bring to another stack.
    pub(crate) fn common_secret(&self) -> &[u8; 32] {
        self.common_secret.as_ref().unwrap_or(&self.secret)
    }

    /// Keys what they may if that one goes on for this.
    pub(crate) fn inherited_secret(&self) -> &[u8; 32] {
        if self.bequeaths() {
            self.common_secret()
        } else {
            &self.secret
        }
    }

    /// Whether the numbers fit together; addresses and routes are checked where they are used.
    ///
    /// # Errors
    /// Says which setting is wrong.
    /// RFC 9293 MUST-40.
    pub fn check(&self) -> io::Result<()> {
        let wrong = [
            (self.max_connections == 0, "max_connections is 0"),
            (self.max_buffer == 0, "max_buffer is 0"),
            (self.interfaces.len() > 255, "more than 255 interfaces"),
            (
                self.seat.is_some_and(|seat| {
                    seat.index >= seat.seats || seat.seats > Handed::MAX_STACKS
                }),
                "the seat is none of at most 64",
            ),
            (
                self.max_listeners > u32::from(u16::MAX),
                "max_listeners is more than 65535",
            ),
            (
                self.ephemeral.0 == 0 || self.ephemeral.0 > self.ephemeral.1,
                "the ephemeral port range is empty or begins with 0",
            ),
            (self.rto_min > self.rto_max, "rto_min is more than rto_max"),
            (self.rto_initial.is_zero(), "rto_initial is 0"),
            (
                self.delayed_ack >= Duration::from_millis(500),
                "delayed_ack is 500 ms or more (RFC 9293 §3.8.6.3)",
            ),
            (
                self.time_wait > Duration::from_secs(20 * 86_400),
                "time_wait is more than 20 days",
            ),
        ];
        match wrong.iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, text)) => Err(io::Error::new(io::ErrorKind::InvalidInput, *text)),
            None => Ok(()),
        }
    }
}
