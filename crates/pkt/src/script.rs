//! What a script says.

use wire::tcp::TcpFlags;

/// A whole script.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Script {
    pub options: Vec<OptionLine>,
    /// The command before the first event.
    pub init: Option<String>,
    pub events: Vec<Event>,
}

/// `--name=value`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OptionLine {
    pub line: usize,
    pub name: String,
    pub value: String,
}

/// Something that happens, or is to happen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub line: usize,
    pub time: Time,
    pub action: Action,
    /// The source of the action.
    pub text: String,
}

/// When; nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    /// `*`.
    Any,
    /// Since the start of the script.
    Absolute(i64),
    AbsoluteRange(i64, i64),
    /// Since the event before.
    Relative(i64),
    RelativeRange(i64, i64),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Packet(PacketSpec),
    Call(CallSpec),
    /// A shell command.
    Command(String),
    /// Python.
    Code(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Inbound,
    Outbound,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PacketSpec {
    pub direction: Direction,
    pub ip: IpSpec,
    pub body: BodySpec,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BodySpec {
    Tcp(TcpSpec),
    Icmp(IcmpSpec),
    /// Payload length.
    Udp {
        ports: Option<(u16, u16)>,
        len: u16,
    },
}

/// Of the IP header; `None`: whatever it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IpSpec {
    pub ecn: Option<EcnSpec>,
    pub tos: Option<u8>,
    pub ttl: Option<u8>,
    pub flow_label: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EcnSpec {
    /// The two bits.
    Bits(u8),
    /// ECT(0) or ECT(1).
    Ect01,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TcpSpec {
    /// Source and destination.
    pub ports: Option<(u16, u16)>,
    pub flags: TcpFlags,
    pub seq: u32,
    pub len: u16,
    pub ack: Option<u32>,
    pub window: Option<u16>,
    pub urgent: Option<u16>,
    /// `None`: any.
    pub options: Option<Vec<TcpOption>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TcpOption {
    Nop,
    End,
    Mss(u16),
    WindowScale(u8),
    SackPermitted,
    Sack(Vec<(u32, u32)>),
    Timestamps {
        val: u32,
        ecr: u32,
    },
    FastOpen(Vec<u8>),
    /// With the experimental kind.
    FastOpenExperimental(Vec<u8>),
    /// Accurate ECN counters: their names (`e0b`, `ceb`, `e1b`) and values, in order.
    AccEcn(Vec<(Counter, u32)>),
    /// A kind that has no name here, and its value.
    Other(u8, Vec<u8>),
}

/// Byte counters of the AccECN option (RFC 9768 §3.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    Ect0,
    Ce,
    Ect1,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IcmpSpec {
    /// `unreachable`.
    pub kind: String,
    /// `frag_needed`.
    pub code: Option<String>,
    pub mtu: Option<u32>,
    pub id: Option<u16>,
    /// First sequence number and length of the segment that it quotes.
    pub quoted: Option<(u32, u16)>,
}

/// A call and what is to come of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CallSpec {
    pub name: String,
    /// It returns later: nanoseconds, counted as those of the event.
    pub end: Option<i64>,
    pub args: Vec<Expr>,
    pub result: Expr,
    pub errno: Option<String>,
}

/// An argument.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    /// `...`: whatever.
    Ellipsis,
    Int(i64),
    Word(String),
    Str(Vec<u8>),
    Or(Box<Expr>, Box<Expr>),
    Array(Vec<Expr>),
    /// Fields with their names, if they have any.
    Struct(Vec<(Option<String>, Expr)>),
    /// `htons(80)`.
    Apply(String, Vec<Expr>),
}
