//! Answers of the daemon.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::io::Errno;

use super::envelope::{
    BUILD, Build, CHANNEL_WORDS, CLIENT_ROW, COMMAND, DESCRIPTORS_MAX, DROPS, Envelope, HEADER,
    MESSAGE_MAX, SETTINGS_HEAD, SOCKET_ROW, seal,
};
use super::words::{Malformed, Reader, Writer, cut};
use crate::NetNamespace;

const WELCOME: u16 = 0x8001;
const REFUSED: u16 = 0x8002;
const ATTACHED: u16 = 0x8003;
const CHANNEL: u16 = 0x8004;
const STATUS: u16 = 0x8005;
const SOCKETS: u16 = 0x8006;
const SETTINGS: u16 = 0x8007;

/// Bytes of the name of a daemon.
const NAME: usize = 32;
/// Bytes of a text that names links and addresses.
const LINKS: usize = 256;
/// Bytes of the line that says why not.
const LINE: usize = 1024;
/// Largest errno (Linux: MAX_ERRNO).
const ERRNO_MAX: u32 = 4095;

/// Bytes of a page of rows that are no rows: overview, count, next.
const PAGE: usize = 8 + 4 * 2 + 8 * DROPS + 4 + 8;
/// Rows of programs in one message.
pub const CLIENTS_IN_PAGE: usize = (MESSAGE_MAX - HEADER - PAGE) / CLIENT_ROW;
/// Rows of sockets in one message.
pub const SOCKETS_IN_PAGE: usize = (MESSAGE_MAX - HEADER - 12) / SOCKET_ROW;
/// Bytes of a piece of settings at most.
const SETTINGS_IN_PIECE: usize = MESSAGE_MAX - HEADER - SETTINGS_HEAD;

/// The first thing that a daemon says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Its build.
    pub build: String,
    /// Its name.
    pub name: String,
    /// Its network namespace.
    pub namespace: NetNamespace,
    /// Its process, as the daemon sees itself.
    pub pid: u32,
    /// How many stacks it has.
    pub stacks: u32,
    /// Its links and addresses, for people.
    pub links: String,
}

/// Why not. The same in all versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The build of who refuses.
    pub build: String,
    /// As an errno.
    pub errno: Errno,
    /// In one line.
    pub line: String,
}

/// What describes a channel to one stack; its descriptors come with the message. What the words
/// mean is for both ends of the channel to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Which stack.
    pub stack: u32,
    /// How many descriptors come with it.
    pub descriptors: u32,
    /// Sizes and offsets.
    pub words: [u64; CHANNEL_WORDS],
}

impl Channel {
    /// That of a stack, described by these words, of which there are at most 16.
    pub fn new(stack: u32, words: &[u64]) -> Self {
        let mut all = [0; CHANNEL_WORDS];
        for (place, word) in all.iter_mut().zip(words) {
            *place = *word;
        }
        Self {
            stack,
            descriptors: 0,
            words: all,
        }
    }
}

/// Programs that were turned away or dropped since the start, by reason: see
/// [`crate::server::DropReason`].
pub type Drops = [u64; DROPS];

/// How a daemon is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overview {
    /// Seconds since it started.
    pub uptime: u64,
    /// Programs that are attached.
    pub attached: u32,
    /// Programs that are connected to the control socket, whether attached or not.
    pub connected: u32,
    /// Programs that were turned away.
    pub drops: Drops,
}

/// A program that is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRow {
    /// Its id in this daemon.
    pub id: u64,
    /// Its process.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Connections that it has.
    pub connections: u32,
    /// Listeners that it has.
    pub listeners: u32,
    /// Events that wait for it.
    pub events: u32,
    /// Channels that it has.
    pub channels: u32,
    /// Bytes of shared memory that it has.
    pub memory: u64,
    /// Seconds since it attached.
    pub seconds: u64,
    /// The name of its program.
    pub command: String,
}

/// A socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketRow {
    /// Whose it is.
    pub uid: u32,
    /// The process that has it; 0: none, for it is not accepted yet, or closed.
    pub pid: u32,
    /// Its state, numbered as Linux's `TCP_ESTABLISHED` and so on (1..=12).
    pub state: u8,
    /// Our end.
    pub local: SocketAddr,
    /// The peer's; of a listener none, with port 0.
    pub remote: SocketAddr,
    /// As ss(8) counts: bytes received and not read, or connections that nobody has accepted.
    pub receive_queue: u32,
    /// Bytes written and not acknowledged, or the backlog.
    pub send_queue: u32,
}

/// What the daemon answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To a hello.
    Welcome(Welcome),
    /// To anything.
    Refused(Refused),
    /// To an attach: so many [`Reply::Channel`] follow.
    Attached {
        /// How many.
        channels: u32,
    },
    /// A channel.
    Channel(Channel),
    /// To a request for the status.
    Status {
        /// The daemon.
        overview: Overview,
        /// Programs, ascending by id.
        clients: Vec<ClientRow>,
        /// Where to go on; 0: this was all.
        next: u64,
    },
    /// To a request for settings: a piece of lines of the settings file ([`Reply::settings`]).
    Settings {
        /// The piece.
        lines: String,
        /// Where to go on; 0: this was all.
        next: u64,
    },
    /// To a request for sockets.
    Sockets {
        /// Sockets; none does not mean that none follow.
        sockets: Vec<SocketRow>,
        /// Where to go on; 0: this was all.
        next: u64,
    },
}

impl Reply {
    /// Of these lines as much as one message holds, from byte `from` on. Of a place that nobody
    /// gave out there is nothing.
    pub fn settings(lines: &str, from: u64) -> Self {
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let rest = lines.get(from..).unwrap_or_default();
        let piece = cut(rest, SETTINGS_IN_PIECE);
        let is_all = piece.len() == rest.len();
        Self::Settings {
            lines: piece.to_owned(),
            next: if is_all {
                0
            } else {
                (from + piece.len()) as u64
            },
        }
    }

    /// The message. Rows beyond what one message holds are left out.
    pub fn emit(&self, build: &Build) -> Vec<u8> {
        let mut body = Writer::default();
        let kind = match self {
            Self::Welcome(welcome) => welcome.emit(&mut body),
            Self::Refused(refused) => refused.emit(&mut body),
            Self::Attached { channels } => {
                body.u32(*channels);
                ATTACHED
            }
            Self::Channel(channel) => channel.emit(&mut body),
            Self::Status {
                overview,
                clients,
                next,
            } => {
                overview.emit(&mut body);
                let rows = &clients[..clients.len().min(CLIENTS_IN_PAGE)];
                body.u32(rows.len() as u32);
                body.u64(*next);
                rows.iter().for_each(|row| row.emit(&mut body));
                STATUS
            }
            Self::Sockets { sockets, next } => {
                let rows = &sockets[..sockets.len().min(SOCKETS_IN_PAGE)];
                body.u32(rows.len() as u32);
                body.u64(*next);
                rows.iter().for_each(|row| row.emit(&mut body));
                SOCKETS
            }
            Self::Settings { lines, next } => {
                body.u64(*next);
                body.piece(lines, SETTINGS_IN_PIECE);
                SETTINGS
            }
        };
        seal(build, kind, &body.bytes)
    }

    /// What the message says. Of another build only a refusal is to be believed
    /// ([`Envelope::fits`]).
    ///
    /// # Errors
    /// It is none of these.
    pub fn parse(envelope: &Envelope<'_>) -> Result<Self, Malformed> {
        let mut body = Reader::new(envelope.body);
        let reply = match envelope.kind {
            WELCOME => Self::Welcome(Welcome::parse(&mut body)?),
            REFUSED => Self::Refused(Refused::parse(&mut body)?),
            ATTACHED => Self::Attached {
                channels: body.u32()?,
            },
            CHANNEL => Self::Channel(Channel::parse(&mut body)?),
            STATUS => {
                let overview = Overview::parse(&mut body)?;
                let count = body.count(CLIENTS_IN_PAGE)?;
                let next = body.u64()?;
                let clients: Result<_, _> =
                    (0..count).map(|_| ClientRow::parse(&mut body)).collect();
                Self::Status {
                    overview,
                    clients: clients?,
                    next,
                }
            }
            SOCKETS => {
                let count = body.count(SOCKETS_IN_PAGE)?;
                let next = body.u64()?;
                let sockets: Result<_, _> =
                    (0..count).map(|_| SocketRow::parse(&mut body)).collect();
                Self::Sockets {
                    sockets: sockets?,
                    next,
                }
            }
            SETTINGS => Self::Settings {
                next: body.u64()?,
                lines: body.piece(SETTINGS_IN_PIECE)?,
            },
            _ => return Err(Malformed::Kind),
        };
        body.end()?;
        Ok(reply)
    }
}

impl Welcome {
    fn emit(&self, body: &mut Writer) -> u16 {
        body.text(&self.build, BUILD);
        body.text(&self.name, NAME);
        body.u64(self.namespace.device);
        body.u64(self.namespace.inode);
        body.u32(self.pid);
        body.u32(self.stacks);
        body.text(&self.links, LINKS);
        WELCOME
    }

    fn parse(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            build: body.text(BUILD)?,
            name: body.text(NAME)?,
            namespace: NetNamespace {
                device: body.u64()?,
                inode: body.u64()?,
            },
            pid: body.u32()?,
            stacks: body.u32()?,
            links: body.text(LINKS)?,
        })
    }
}

impl Refused {
    fn emit(&self, body: &mut Writer) -> u16 {
        body.text(&self.build, BUILD);
        body.u32(self.errno.raw_os_error().unsigned_abs());
        body.text(&self.line, LINE);
        REFUSED
    }

    fn parse(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        let build = body.text(BUILD)?;
        let errno = body.u32()?;
        if !(1..=ERRNO_MAX).contains(&errno) {
            return Err(Malformed::Field);
        }
        Ok(Self {
            build,
            errno: Errno::from_raw_os_error(errno as i32),
            line: body.text(LINE)?,
        })
    }
}

impl Channel {
    fn emit(&self, body: &mut Writer) -> u16 {
        body.u32(self.stack);
        body.u32(self.descriptors);
        self.words.iter().for_each(|word| body.u64(*word));
        CHANNEL
    }

    fn parse(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        let stack = body.u32()?;
        let descriptors = body.count(DESCRIPTORS_MAX)? as u32;
        let mut words = [0; CHANNEL_WORDS];
        for word in &mut words {
            *word = body.u64()?;
        }
        Ok(Self {
            stack,
            descriptors,
            words,
        })
    }
}

impl Overview {
    fn emit(&self, body: &mut Writer) {
        body.u64(self.uptime);
        body.u32(self.attached);
        body.u32(self.connected);
        self.drops.iter().for_each(|count| body.u64(*count));
    }

    fn parse(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (uptime, attached, connected) = (body.u64()?, body.u32()?, body.u32()?);
        let mut drops = [0; DROPS];
        for count in &mut drops {
            *count = body.u64()?;
        }
        Ok(Self {
            uptime,
            attached,
            connected,
            drops,
        })
    }
}

impl ClientRow {
    fn emit(&self, body: &mut Writer) {
        body.u64(self.id);
        body.u32(self.pid);
        body.u32(self.uid);
        body.u32(self.connections);
        body.u32(self.listeners);
        body.u32(self.events);
        body.u32(self.channels);
        body.u64(self.memory);
        body.u64(self.seconds);
        body.text(&self.command, COMMAND);
    }

    fn parse(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            id: body.u64()?,
            pid: body.u32()?,
            uid: body.u32()?,
            connections: body.u32()?,
            listeners: body.u32()?,
            events: body.u32()?,
            channels: body.u32()?,
            memory: body.u64()?,
            seconds: body.u64()?,
            command: body.text(COMMAND)?,
        })
    }
}

impl SocketRow {
    fn emit(&self, body: &mut Writer) {
        body.u32(self.uid);
        body.u32(self.pid);
        body.u8(self.state);
        for address in [self.local, self.remote] {
            emit_address(body, address);
        }
        body.u32(self.receive_queue);
        body.u32(self.send_queue);
    }

    fn parse(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (uid, pid) = (body.u32()?, body.u32()?);
        let state = body.u8()?;
        if !(1..=12).contains(&state) {
            return Err(Malformed::Field);
        }
        Ok(Self {
            uid,
            pid,
            state,
            local: parse_address(body)?,
            remote: parse_address(body)?,
            receive_queue: body.u32()?,
            send_queue: body.u32()?,
        })
    }
}

/// Family (4 or 6), port, 16 bytes of which IPv4 has the first four.
fn emit_address(body: &mut Writer, address: SocketAddr) {
    let (family, bytes) = match address.ip() {
        IpAddr::V4(v4) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&v4.octets());
            (4, bytes)
        }
        IpAddr::V6(v6) => (6, v6.octets()),
    };
    body.u8(family);
    body.u16(address.port());
    body.bytes.extend(bytes);
}

fn parse_address(body: &mut Reader<'_>) -> Result<SocketAddr, Malformed> {
    let (family, port) = (body.u8()?, body.u16()?);
    let bytes: [u8; 16] = body.take()?;
    let ip = match (family, bytes) {
        (4, [a, b, c, d, rest @ ..]) if rest == [0; 12] => Ipv4Addr::new(a, b, c, d).into(),
        (6, bytes) => Ipv6Addr::from(bytes).into(),
        _ => return Err(Malformed::Field),
    };
    Ok(SocketAddr::new(ip, port))
}
