//! What the application asks of the stack.

use std::net::SocketAddr;
use std::time::Duration;

use crate::config::CongestionControl;
use crate::id::{ConnId, ListenerId, OptionsId, Token};
use crate::info::TcpInfo;

/// Keepalive probing (RFC 9293 §3.8.4; off by default, as it must be).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Keepalive {
    /// Silence before the first probe.
    pub idle: Duration,
    /// Time between probes.
    pub interval: Duration,
    /// Unanswered probes after which the connection is dropped.
    pub count: u8,
}

/// What can be set on a socket before or after it connects. `None` leaves the configured default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Options {
    /// Send small segments at once (TCP_NODELAY): no Nagle (RFC 9293 §3.7.4; with it, one waits for
    /// the ACK of another small one).
    pub nodelay: bool,
    /// Probe an idle peer (SO_KEEPALIVE).
    /// RFC 9293 MUST-25, MAY-5.
    pub keepalive: Option<Keepalive>,
    /// SO_LINGER: what `Close` does with unsent data. `None`: send it in the background. `Some(0)`:
    /// RST at once. `Some(t)`: as `None`; the socket layer does the waiting.
    pub linger: Option<Duration>,
    /// Receive buffer limit, bytes (SO_RCVBUF).
    pub recv_buffer: Option<u32>,
    /// Send buffer limit, bytes (SO_SNDBUF).
    pub send_buffer: Option<u32>,
    /// Upper bound for the MSS in both directions, bytes (TCP_MAXSEG).
    pub max_segment: Option<u16>,
    /// Give up on unacknowledged data after this time (TCP_USER_TIMEOUT, RFC 5482).
    pub user_timeout: Option<Duration>,
    /// Drop the connection when nothing was received or sent for this long (mtcp.conf
    /// `tcp_timeout`).
    pub idle_timeout: Option<Duration>,
    /// On a listener: take data in SYNs (TCP_FASTOPEN, RFC 7413), for so many connections at a time
    /// whose handshake is not complete.
    pub fast_open: Option<u32>,
    /// On a connection that is opened: send the first bytes with the SYN, if the peer has given us
    /// a cookie (TCP_FASTOPEN_CONNECT). The SYN then waits for `Send`, the reply is `Deferred`, and
    /// an event says `WRITABLE` at once. They may be delivered twice (RFC 7413 §2.1).
    pub fast_open_connect: bool,
    /// Congestion control (TCP_CONGESTION).
    pub congestion: Option<CongestionControl>,
    /// Most bytes per second to send data at, however large the windows (SO_MAX_PACING_RATE); 0, as
    /// on Linux: no limit.
    pub max_pacing_rate: Option<u64>,
    /// Hold back segments that are not full, for 200 ms at most (TCP_CORK).
    pub cork: bool,
    /// No ACKs at once but those that RFC 5681 §4.2 wants at once (TCP_QUICKACK off); see also
    /// [`Command::QuickAck`].
    pub delay_acks: bool,
    /// Upper bound for the window offered, bytes (TCP_WINDOW_CLAMP).
    pub window_clamp: Option<u32>,
    /// SYN retransmissions before a connect fails (TCP_SYNCNT).
    pub syn_retries: Option<u8>,
    /// How long FIN_WAIT_2 lasts after `Close`; zero: not at all (TCP_LINGER2).
    pub fin_wait_2: Option<Duration>,
    /// On a listener: others may listen on the same endpoint, if they all say so, and connections
    /// are spread over them (SO_REUSEPORT). For what it was when the listener was made.
    pub reuse_port: bool,
    /// Connections without data are accepted only after so many retransmissions of the SYN-ACK; 0:
    /// at once (TCP_DEFER_ACCEPT).
    pub defer_accept: u8,
    /// The send stream takes more only while less than this is unsent, bytes (TCP_NOTSENT_LOWAT).
    pub unsent_low_water: Option<u32>,
    /// Header fields of IPv4 packets (IP_TOS, IP_TTL).
    pub v4: Marking,
    /// Header fields of IPv6 packets (IPV6_TCLASS, IPV6_UNICAST_HOPS).
    pub v6: Marking,
}

impl Options {
    /// Whether a connection with these options has timers that few connections have.
    pub(crate) fn has_cold_timers(&self) -> bool {
        self.keepalive.is_some() || self.idle_timeout.is_some() || self.user_timeout.is_some()
    }
}

/// What the application says of the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Marking {
    /// TOS or traffic class; the two low bits are ECN's and do not count (RFC 2474 §3,
    /// RFC 3168 §5).
    pub class: u8,
    /// TTL or hop limit.
    pub hop_limit: Option<u8>,
}

/// What [`Command::Connect`] says, for who need not hand it over: options are large. See
/// [`crate::Stack::connect`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Connect<'a> {
    /// Comes back with every event.
    pub token: Token,
    /// Where from.
    pub local: Option<SocketAddr>,
    /// Where to.
    pub remote: SocketAddr,
    /// For this connection.
    pub options: &'a Options,
    /// What an earlier [`Opened`] with the same options said of them, so that they need not be
    /// compared; or [`OptionsId::NONE`].
    pub known: OptionsId,
}

/// What came of a [`Connect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its streams are open: bytes written now go out once it is established.
    pub conn: ConnId,
    /// Its local address.
    pub local: SocketAddr,
    /// Its SYN waits for the first bytes ([`Options::fast_open_connect`]).
    pub is_deferred: bool,
    /// The record of its options.
    pub options: OptionsId,
}

impl From<Opened> for Reply {
    fn from(opened: Opened) -> Self {
        if opened.is_deferred {
            Self::Deferred(opened.conn, opened.local)
        } else {
            Self::Connecting(opened.conn, opened.local)
        }
    }
}

/// A call on the stack, see [`crate::Stack::execute`].
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Command {
    /// Listen on `local`. The unspecified address means all of ours in that family; port 0 picks
    /// one. An IPv6 wildcard listens on IPv4 too unless `only_v6`. Accepted connections inherit
    /// `options`. Replies `Listening`.
    Listen {
        /// Comes back with `Event::Accepted`.
        token: Token,
        /// Address and port.
        local: SocketAddr,
        /// IPV6_V6ONLY.
        only_v6: bool,
        /// Established connections that may wait for `Accept`.
        backlog: u32,
        /// For accepted connections.
        options: Options,
    },
    /// Stop listening. Connections not yet accepted wait at a listener of another program at the
    /// same place from now on, which has to share it ([`Options::reuse_port`]); where there is
    /// none, they are reset. Those announced with `Event::Accepted` still have to be given back:
    /// release their streams and `Abort` them, or [`crate::Stack::close_abandoned`]. Replies
    /// `Done`.
    Unlisten(ListenerId),
    /// Of a program in another process: it goes on listening and does not accept for now, as a
    /// process whose children do. The listener is a backup: it gets connections only where no other
    /// listens, and they are announced when the program accepts again, or to another that does.
    /// Connections that were announced have to be given back as after `Unlisten`. Replies `Done`.
    Suspend(ListenerId),
    /// The program of a listener accepts again. Replies `Done`.
    Resume {
        /// Whose.
        listener: ListenerId,
        /// Comes back with every `Event::Accepted` from now on.
        token: Token,
    },
    /// As `Unlisten`, and other stacks with these addresses listen on: connections not yet accepted
    /// are left to them, and nothing that comes for the port is answered for want of a listener.
    Leave(ListenerId),
    /// Open a connection. `local` with port 0 picks a port (RFC 6056), `None` picks the address
    /// too. Replies `Connecting`, or `Deferred`; then an event says `CONNECTED` or `ERROR`.
    Connect {
        /// Comes back with every event.
        token: Token,
        /// Where from.
        local: Option<SocketAddr>,
        /// Where to.
        remote: SocketAddr,
        /// For this connection.
        options: Options,
    },
    /// Take an accepted connection: its events carry `token` from now on, and it leaves the
    /// backlog. Replies `Done`.
    Accept {
        /// From `Event::Accepted`.
        conn: ConnId,
        /// Comes back with every event.
        token: Token,
    },
    /// Doorbell: bytes were written to the send stream. Replies `Done`.
    Send(ConnId),
    /// The same, and more will follow soon: what does not fill a segment waits for it, 200 ms at
    /// most (MSG_MORE). Replies `Done`.
    SendMore(ConnId),
    /// The same, and what is written up to this index of the send stream is urgent (MSG_OOB). It
    /// may be written later: if stack and application run at a time, the stack could send it before
    /// it hears of this. Replies `Done`.
    SendUrgent(ConnId, u32),
    /// Acknowledge without delay what has come, and the next few segments (TCP_QUICKACK on).
    /// Replies `Done`.
    QuickAck(ConnId),
    /// Send what has been written and is held back by MSG_MORE or TCP_CORK (TCP_NODELAY set when it
    /// was set already). Replies `Done`.
    Push(ConnId),
    /// Doorbell: enough was read from the receive stream that the window may want to move. Replies
    /// `Done`.
    Received(ConnId),
    /// Send FIN after what is in the send stream (shutdown(SHUT_WR)). Replies `Done`.
    Shutdown(ConnId),
    /// The application will not read any more (shutdown(SHUT_RD)). What comes is still taken, until
    /// our side is shut down too: then data is answered with RST, as Linux does. Replies `Done`.
    ShutdownRead(ConnId),
    /// The application is done with the connection and released its streams: send what is left and
    /// FIN in the background; with unread data, or linger 0, RST instead (RFC 9293 §3.10.4,
    /// RFC 2525 §2.17). Replies `Done`.
    Close(ConnId),
    /// Send RST and forget (RFC 9293 §3.10.5). The application released its streams. Replies
    /// `Done`.
    Abort(ConnId),
    /// The same of all connections, before an end that cannot wait. Replies `Done`.
    AbortAll,
    /// Replace the options. Replies `Done`.
    SetOptions {
        /// Whose.
        conn: ConnId,
        /// All of them.
        options: Options,
    },
    /// Replace the options that a listener hands on. Replies `Done`.
    SetListenerOptions {
        /// Whose.
        listener: ListenerId,
        /// All of them.
        options: Options,
    },
    /// TCP_INFO. Replies `Info`.
    Info(ConnId),
}

/// The answer to a command that succeeded.
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation per call, and no copy"
)]
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Reply {
    /// Nothing to say.
    Done,
    /// The listener, and where it listens (the port if 0 was asked for).
    Listening(ListenerId, SocketAddr),
    /// The connection, and its local address. Its streams are open: bytes written now go out once
    /// it is established.
    Connecting(ConnId, SocketAddr),
    /// The same, with a SYN that waits for the first bytes ([`Options::fast_open_connect`]).
    Deferred(ConnId, SocketAddr),
    /// What TCP knows.
    Info(TcpInfo),
}
