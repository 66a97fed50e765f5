//! What travels through the rings, as [units](Unit).
//!
//! To the daemon: news that need no answer ([`Staged`]) take one unit each; a call takes a header
//! and as many units as its text needs. To the program: an event takes one unit, that of a
//! connection that waits at a listener three more with its addresses; an answer is as a call.
//!
//! The texts of calls and answers are postcard's, which refuses what is none. All else is checked
//! here: what comes out of [`Said::of`] and [`Told::of`] is in order, though it may name what the
//! other side does not have.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use mtcp_core::{Command, ConnId, Error, Event, FlowKey, Ready, Reply, Token, Undelivered};
use ring::duplex::Unit;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::driver::Staged;
use crate::{Config, CongestionControl};

/// What the messages are; to be changed with them, and with what is said in their texts.
pub(super) const VERSION: u64 = 3;

/// Bytes of a unit.
const UNIT: usize = size_of::<Unit>();
/// The longest text, bytes: what TCP knows of a connection takes about 300.
const MAX_TEXT: usize = 1024;
/// The longest message.
pub(crate) const MAX_UNITS: usize = 1 + MAX_TEXT / UNIT;

/// The kind of a header to the daemon. Lower ones are news.
const CALL: u32 = 16;
/// Kinds of headers to the program.
const READY: u8 = 0;
const ACCEPTED: u8 = 1;
const ANSWER: u8 = 2;
/// Units behind the header of a connection that waits.
const ADDRESSES: usize = 3;

/// A call that is answered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "as Command, nearly all calls")]
pub(crate) enum Call {
    /// Of the stack.
    Command(Command),
    /// A descriptor was passed: one of a pair of sockets, by which other processes have this
    /// connection. It goes on with them when the program is done with it.
    Pair(ConnId),
    /// What the program has.
    Usage,
    /// What the stack is.
    Facts,
    /// A descriptor was passed: the kernel's socket that stands for what is listened at next. As
    /// long as a process has it, who comes there waits.
    KernelListener,
}

/// Addresses that a program is told of at most.
const ADDRESSES_TOLD: usize = 16;

/// What programs have to know of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Facts {
    addresses: [Option<IpAddr>; ADDRESSES_TOLD],
    /// What sockets begin with, bytes.
    pub(crate) recv_buffer: u32,
    /// The same of sending, bytes.
    pub(crate) send_buffer: u32,
    pub(crate) congestion: CongestionControl,
    pub(crate) idle_timeout: Option<Duration>,
    /// First and last port that `bind` picks from.
    pub(crate) ports: (u16, u16),
}

impl Facts {
    /// Of a stack with these settings.
    pub(crate) fn of(config: &Config) -> Self {
        let mut addresses = [None; ADDRESSES_TOLD];
        for (place, cidr) in addresses.iter_mut().zip(&config.addresses) {
            *place = Some(cidr.addr);
        }
        Self {
            addresses,
            recv_buffer: config.rcvbuf,
            send_buffer: config.sndbuf,
            congestion: config.congestion,
            idle_timeout: config.tcp_timeout,
            ports: config.ephemeral(),
        }
    }

    /// The addresses of the stack.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().flatten().copied()
    }
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// To a command; an error is an error number.
    Reply(Result<Reply, i32>),
    /// To [`Call::Usage`].
    Usage {
        /// Its open connections.
        open: u32,
        /// What peers have still to acknowledge of what it has closed.
        undelivered: Undelivered,
    },
    /// To [`Call::Facts`].
    Facts(Facts),
}

/// The units of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    units: [Unit; MAX_UNITS],
    len: usize,
}

impl Message {
    const EMPTY: Self = Self {
        units: [[0; 2]; MAX_UNITS],
        len: 0,
    };

    /// The answer to a call.
    pub(crate) fn answer(serial: u32, answer: &Answer) -> Option<Self> {
        let mut message = Self::EMPTY;
        message.say(ANSWER.into(), serial, answer, &mut [0; MAX_TEXT])?;
        Some(message)
    }

    /// Becomes a message with this text, which is written to `bytes` first. `None`: it is longer
    /// than any that the other side takes.
    fn say(
        &mut self,
        kind: u32,
        serial: u32,
        text: &impl Serialize,
        bytes: &mut [u8; MAX_TEXT],
    ) -> Option<()> {
        let len = postcard::to_slice(text, bytes).ok()?.len();
        let count = len.div_ceil(UNIT);
        bytes.get_mut(len..count * UNIT)?.fill(0);
        let (header, rest) = self.units.split_first_mut()?;
        *header = [join(kind, u32::try_from(len).ok()?), serial.into()];
        let (chunks, _) = bytes.as_chunks::<UNIT>();
        for (unit, chunk) in rest.iter_mut().zip(chunks).take(count) {
            let bits = u128::from_le_bytes(*chunk);
            *unit = [bits as u64, (bits >> 64) as u64];
        }
        self.len = 1 + count;
        Some(())
    }

    pub(crate) fn units(&self) -> &[Unit] {
        self.units.get(..self.len).unwrap_or_default()
    }
}

/// Room for a message and its text. The program's side keeps some: its calls may take little of
/// the caller's stack.
#[derive(Debug)]
pub(crate) struct Room {
    message: Message,
    bytes: [u8; MAX_TEXT],
}

impl Room {
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self {
            message: Message::EMPTY,
            bytes: [0; MAX_TEXT],
        })
    }

    /// The units of a call, with the serial number that its answer will have.
    pub(crate) fn call(&mut self, serial: u32, call: &Call) -> Option<&[Unit]> {
        self.message.say(CALL, serial, call, &mut self.bytes)?;
        Some(self.message.units())
    }

    /// Room for the units of a text.
    pub(crate) fn units(&mut self, text: &Text) -> Option<&mut [Unit]> {
        self.message.units.get_mut(..text.units())
    }

    /// What a text says whose units are there.
    pub(crate) fn read<T: DeserializeOwned>(&mut self, text: &Text) -> Result<T, Disorder> {
        let units = self.message.units.get(..text.units()).ok_or(Disorder)?;
        text.read(units, &mut self.bytes)
    }
}

/// The units of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct News {
    units: [Unit; 1 + ADDRESSES],
    len: usize,
}

impl News {
    #[inline]
    pub(crate) fn of(event: &Event) -> Self {
        match *event {
            Event::Ready {
                conn,
                token,
                ready,
                error,
            } => {
                let what = u32::from_le_bytes([READY, ready.bits(), code(error), 0]);
                let unit = [join(what, token.0), join(conn.slot, conn.generation)];
                Self {
                    units: [unit, [0; 2], [0; 2], [0; 2]],
                    len: 1,
                }
            }
            Event::Accepted {
                listener,
                conn,
                key,
            } => {
                let (local, remote) = (key.local(), key.remote());
                let header = [
                    join(ACCEPTED.into(), listener.0),
                    join(conn.slot, conn.generation),
                ];
                let ports = [join(local.port().into(), remote.port().into()), 0];
                Self {
                    units: [header, address(local), address(remote), ports],
                    len: 1 + ADDRESSES,
                }
            }
        }
    }

    pub(crate) fn units(&self) -> &[Unit] {
        self.units.get(..self.len).unwrap_or_default()
    }
}

/// The other side said something that means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Disorder;

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Said {
    News(Staged),
    /// A call, whose text follows.
    Call(Text),
}

impl Said {
    /// Of a unit that a program has sent, where a message begins.
    pub(crate) fn of(unit: Unit) -> Result<Self, Disorder> {
        if unit[0] as u32 == CALL {
            return Text::of(unit).map(Self::Call);
        }
        Staged::from_unit(unit).map(Self::News).ok_or(Disorder)
    }
}

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Told {
    Event(Event),
    /// A connection waits at a listener; its addresses follow.
    Accepted {
        listener: Token,
        conn: ConnId,
    },
    /// An answer, whose text follows.
    Answer(Text),
}

impl Told {
    /// Of a unit that the daemon has sent, where a message begins.
    pub(crate) fn of(unit: Unit) -> Result<Self, Disorder> {
        let [kind, ready, error, _] = (unit[0] as u32).to_le_bytes();
        let token = Token((unit[0] >> 32) as u32);
        let conn = conn(unit[1]);
        match kind {
            READY => Ok(Self::Event(Event::Ready {
                conn,
                token,
                ready: Ready::from_bits_truncate(ready),
                error: error_of(error),
            })),
            ACCEPTED => Ok(Self::Accepted {
                listener: token,
                conn,
            }),
            ANSWER => Text::of(unit).map(Self::Answer),
            _ => Err(Disorder),
        }
    }

    /// The addresses behind [`Told::Accepted`].
    pub(crate) fn addresses(&[local, remote, [ports, _]]: &[Unit; ADDRESSES]) -> FlowKey {
        let end = |unit: Unit, port: u32| SocketAddr::new(ip(unit), port as u16);
        FlowKey::new(end(local, ports as u32), end(remote, (ports >> 32) as u32))
    }
}

/// A text that follows a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) serial: u32,
    len: usize,
}

impl Text {
    fn of([head, serial]: Unit) -> Result<Self, Disorder> {
        let len = (head >> 32) as usize;
        if len > MAX_TEXT {
            return Err(Disorder);
        }
        Ok(Self {
            serial: serial as u32,
            len,
        })
    }

    /// Units that it takes.
    pub(crate) fn units(self) -> usize {
        self.len.div_ceil(UNIT)
    }

    /// What it says; its bytes are put together in `bytes`.
    fn read<T: DeserializeOwned>(
        self,
        units: &[Unit],
        bytes: &mut [u8; MAX_TEXT],
    ) -> Result<T, Disorder> {
        let (chunks, _) = bytes.as_chunks_mut::<UNIT>();
        for (chunk, [low, high]) in chunks.iter_mut().zip(units) {
            *chunk = (u128::from(*high) << 64 | u128::from(*low)).to_le_bytes();
        }
        let text = bytes.get(..self.len).ok_or(Disorder)?;
        postcard::from_bytes(text).map_err(|_| Disorder)
    }
}

const fn join(low: u32, high: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

const fn conn(word: u64) -> ConnId {
    ConnId {
        slot: word as u32,
        generation: (word >> 32) as u32,
    }
}

/// Addresses travel as IPv6 ones, those of IPv4 mapped.
fn address(end: SocketAddr) -> Unit {
    let v6 = match end.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let bits = v6.to_bits();
    [bits as u64, (bits >> 64) as u64]
}

fn ip([low, high]: Unit) -> IpAddr {
    Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)).to_canonical()
}

/// 0: none, otherwise one more than its place in the list of all.
fn code(error: Option<Error>) -> u8 {
    let place = error.and_then(|error| Error::ALL.iter().position(|&one| one == error));
    place.map_or(0, |place| u8::try_from(place + 1).unwrap_or(0))
}

fn error_of(code: u8) -> Option<Error> {
    let place = usize::from(code).checked_sub(1)?;
    Error::ALL.get(place).copied()
}

#[cfg(test)]
mod tests;
