//! Sockets: small numbers, each a stream, a listener, an epoll instance or an end of a pipe.

use std::net::IpAddr;
use std::time::Duration;

use bitflags::bitflags;

use crate::{CongestionControl, Errno};

pub(crate) mod bindings;
pub(crate) mod choices;
pub(crate) mod ends;
pub(crate) mod listener;
pub(crate) mod option_values;
pub(crate) mod owners;
pub(crate) mod sources;
pub(crate) mod stream;
pub(crate) mod table;
pub(crate) mod urgent;

/// A socket of one context: `0..max_concurrency`, reused after `close`. The same number in another
/// context is another socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u32);

/// Address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Domain {
    /// AF_INET.
    V4,
    /// AF_INET6.
    V6,
}

/// What a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A TCP connection, or what may become one.
    Stream,
    /// After `listen`.
    Listener,
    /// An epoll instance.
    Epoll,
    /// An end of a pipe.
    Pipe,
}

/// Which directions to shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    /// SHUT_RD.
    Read,
    /// SHUT_WR: sends FIN.
    Write,
    /// SHUT_RDWR.
    Both,
}

bitflags! {
    /// For [`Context::recv`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct RecvFlags: u32 {
        /// Leave the bytes there.
        const PEEK = 1;
        /// As if non-blocking.
        const DONTWAIT = 2;
        /// Block until the buffer is full, or end of file or an error.
        const WAITALL = 4;
        /// The urgent byte (MSG_OOB). Does not block: `EAGAIN` if it is announced and not here,
        /// `EINVAL` if there is none.
        const OOB = 8;
    }
}

bitflags! {
    /// For [`Context::send`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct SendFlags: u32 {
        /// As if non-blocking.
        const DONTWAIT = 2;
        /// More follows: this write need not leave now.
        const MORE = 4;
        /// Connect first, and take the bytes along with the SYN if the peer has given us a cookie
        /// (TCP Fast Open).
        const FASTOPEN = 8;
        /// The last byte is urgent (MSG_OOB).
        const OOB = 16;
    }
}

/// A socket option with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOption {
    /// SO_REUSEADDR.
    ReuseAddr(bool),
    /// SO_REUSEPORT.
    ReusePort(bool),
    /// SO_OOBINLINE: the urgent byte stays in the stream.
    OobInline(bool),
    /// SO_LINGER.
    Linger(Option<Duration>),
    /// SO_KEEPALIVE.
    KeepAlive(bool),
    /// SO_RCVBUF, bytes.
    RecvBuffer(u32),
    /// SO_SNDBUF, bytes.
    SendBuffer(u32),
    /// IPV6_V6ONLY.
    OnlyV6(bool),
    /// TCP_NODELAY.
    NoDelay(bool),
    /// TCP_MAXSEG, bytes; 0 if unknown or not set.
    MaxSegment(u16),
    /// TCP_KEEPIDLE.
    KeepIdle(Duration),
    /// TCP_KEEPINTVL.
    KeepInterval(Duration),
    /// TCP_KEEPCNT.
    KeepCount(u8),
    /// TCP_USER_TIMEOUT; zero: none.
    UserTimeout(Duration),
    /// TCP_CONGESTION.
    Congestion(CongestionControl),
    /// TCP_CORK.
    Cork(bool),
    /// TCP_QUICKACK: reads as it was set last; the stack changes its mind meanwhile.
    QuickAck(bool),
    /// TCP_DEFER_ACCEPT; zero: at once. Reads as the time that so many retransmissions of a SYN-ACK
    /// take.
    DeferAccept(Duration),
    /// TCP_SYNCNT.
    SynCount(u8),
    /// TCP_LINGER2: `None` is the default, zero not at all.
    FinWait2(Option<Duration>),
    /// TCP_WINDOW_CLAMP, bytes; 0: none.
    WindowClamp(u32),
    /// TCP_NOTSENT_LOWAT, bytes; 0: no bound.
    UnsentLowWater(u32),
    /// TCP_FASTOPEN on a listener: connections that data in a SYN may have opened at a time; 0:
    /// none.
    FastOpen(u32),
    /// TCP_FASTOPEN_CONNECT: with a cookie of the peer `connect` returns at once, and the SYN takes
    /// along what is written first.
    FastOpenConnect(bool),
    /// SO_MAX_PACING_RATE, bytes per second; `None`: no limit.
    MaxPacingRate(Option<u64>),
    /// SO_RCVLOWAT, bytes.
    RecvLowWater(u32),
    /// SO_RCVTIMEO: `None` waits for ever.
    RecvTimeout(Option<Duration>),
    /// SO_SNDTIMEO: `None` waits for ever.
    SendTimeout(Option<Duration>),
    /// IP_TOS, without the bits of ECN.
    Tos(u8),
    /// IP_TTL; `None`: the default.
    Ttl(Option<u8>),
    /// IPV6_TCLASS, without the bits of ECN.
    TrafficClass(u8),
    /// IPV6_UNICAST_HOPS; `None`: the default.
    HopLimit(Option<u8>),
    /// IP_MTU and IPV6_MTU of the path, bytes; only to read.
    Mtu(u16),
    /// IP_MTU_DISCOVER.
    MtuDiscovery(MtuDiscovery),
    /// IPV6_MTU_DISCOVER.
    MtuDiscoveryV6(MtuDiscovery),
    /// SO_INCOMING_CPU: the processor of the context, if threads are pinned, unless another was
    /// set. Steers nothing: contexts have processors, sockets have not.
    IncomingCpu(Option<i32>),
    /// SO_ERROR, taken by reading; only to read.
    Error(Option<Errno>),
    /// SO_ACCEPTCONN; only to read.
    AcceptConn(bool),
    /// SO_DOMAIN; only to read.
    Domain(Domain),
}

/// How the MTU of the path is found (IP_MTU_DISCOVER). The stack never has its segments fragmented
/// on their way, and obeys what routers and its own probes say of the path: both of these ask for
/// that. What asks for something else is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MtuDiscovery {
    /// IP_PMTUDISC_WANT.
    #[default]
    Want,
    /// IP_PMTUDISC_DO.
    Do,
}

/// Which option to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum OptionName {
    ReuseAddr,
    ReusePort,
    OobInline,
    Linger,
    KeepAlive,
    RecvBuffer,
    SendBuffer,
    OnlyV6,
    NoDelay,
    MaxSegment,
    KeepIdle,
    KeepInterval,
    KeepCount,
    UserTimeout,
    Congestion,
    Cork,
    QuickAck,
    DeferAccept,
    SynCount,
    FinWait2,
    WindowClamp,
    UnsentLowWater,
    FastOpen,
    FastOpenConnect,
    MaxPacingRate,
    RecvLowWater,
    RecvTimeout,
    SendTimeout,
    Tos,
    Ttl,
    TrafficClass,
    HopLimit,
    Mtu,
    MtuDiscovery,
    MtuDiscoveryV6,
    IncomingCpu,
    Error,
    AcceptConn,
    Domain,
}

/// Local addresses that `connect` takes in turn for sockets that are not bound, for more flows to
/// one destination than one address has ports (`mtcp_init_rss`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRange {
    /// The first.
    pub base: IpAddr,
    /// How many, one after the other; those that are not ours are left out.
    pub count: u32,
}
