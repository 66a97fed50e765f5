//! Questions to netlink and all their answers.

use std::io;
use std::os::fd::OwnedFd;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader,
    NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_packet_route::RouteNetlinkMessage;
use rustix::io::retry_on_intr;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send,
    socket_with,
};

/// NETLINK_ROUTE, which is what a socket of netlink is without a protocol.
pub(super) const ROUTE: Option<Protocol> = None;
/// Room for one datagram: the kernel fills at most 32 KiB of it with a dump.
const DATAGRAM_MAX: usize = 64 << 10;
/// Most messages read for one question: a full Internet table several times over.
const MESSAGES_MAX: usize = 4_000_000;
/// How often a dump is asked for again during which the table changed.
const RETRIES: u32 = 8;

/// Messages of one family of netlink.
pub(super) trait Message: NetlinkSerializable + NetlinkDeserializable + Clone {}

impl<M: NetlinkSerializable + NetlinkDeserializable + Clone> Message for M {}

/// A socket for questions, one after the other. Only the kernel can send to it.
#[derive(Debug)]
pub(super) struct Asker {
    socket: OwnedFd,
    /// Of the last question: what else is in the socket answers an earlier one.
    sequence: u32,
}

/// What one datagram brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    /// More follows.
    More,
    /// It was the last.
    Done,
}

impl Asker {
    /// Asks the family `protocol`.
    pub(super) fn new(protocol: Option<Protocol>) -> io::Result<Self> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            protocol,
        )?;
        connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    /// Asks for everything `question` matches. A dump during which the table changed has holes
    /// (`NLM_F_DUMP_INTR`): it is asked for again.
    pub(super) fn dump<M: Message>(&mut self, question: M) -> io::Result<Vec<M>> {
        for _ in 0..RETRIES {
            if let Some(whole) = self.exchange(question.clone(), NLM_F_REQUEST | NLM_F_DUMP)? {
                return Ok(whole);
            }
        }
        Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "rtnetlink: the table changes faster than it can be read",
        ))
    }

    /// Asks for the one thing that `question` names.
    pub(super) fn one(&mut self, question: RouteNetlinkMessage) -> io::Result<RouteNetlinkMessage> {
        let answers = self.exchange(question, NLM_F_REQUEST)?;
        answers
            .and_then(|mut answers| answers.pop())
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "rtnetlink: empty answer"))
    }

    /// Has the kernel do something.
    pub(super) fn tell(&mut self, command: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.exchange(command, NLM_F_REQUEST | NLM_F_ACK | flags)
            .map(drop)
    }

    /// `None`: what came is not whole.
    fn exchange<M: Message>(&mut self, question: M, flags: u16) -> io::Result<Option<Vec<M>>> {
        self.sequence = self.sequence.wrapping_add(1);
        let question = encode(question, flags, self.sequence);
        retry_on_intr(|| send(&self.socket, &question, SendFlags::empty()))?;
        let mut answers = Answers {
            sequence: self.sequence,
            is_dump: flags & NLM_F_DUMP == NLM_F_DUMP,
            has_holes: false,
            messages: Vec::new(),
        };
        let mut datagram = vec![0; DATAGRAM_MAX];
        let mut read = Read::More;
        while read == Read::More && answers.messages.len() < MESSAGES_MAX {
            let (length, _) =
                retry_on_intr(|| recv(&self.socket, &mut datagram[..], RecvFlags::empty()))?;
            read = answers.read(datagram.get(..length).unwrap_or_default())?;
        }
        Ok((!answers.has_holes).then_some(answers.messages))
    }
}

/// Asks the family `protocol` for everything `question` matches.
pub(super) fn dump<M: Message>(protocol: Option<Protocol>, question: M) -> io::Result<Vec<M>> {
    Asker::new(protocol)?.dump(question)
}

/// Asks rtnetlink for the one thing that `question` names.
pub(super) fn one(question: RouteNetlinkMessage) -> io::Result<RouteNetlinkMessage> {
    Asker::new(ROUTE)?.one(question)
}

fn encode<M: Message>(question: M, flags: u16, sequence: u32) -> Vec<u8> {
    let payload = NetlinkPayload::InnerMessage(question);
    let mut message = NetlinkMessage::new(NetlinkHeader::default(), payload);
    message.header.flags = flags;
    message.header.sequence_number = sequence;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// What a question has brought so far.
struct Answers<M> {
    sequence: u32,
    is_dump: bool,
    has_holes: bool,
    messages: Vec<M>,
}

impl<M: Message> Answers<M> {
    /// Adds the messages of one datagram.
    fn read(&mut self, datagram: &[u8]) -> io::Result<Read> {
        let mut read = Read::More;
        for bytes in messages(datagram).filter(|bytes| sequence(bytes) == Some(self.sequence)) {
            if !self.is_dump {
                read = Read::Done;
            }
            let message = match NetlinkMessage::<M>::deserialize(bytes) {
                Ok(message) => message,
                // A newer kernel says something this parser does not know: one entry less is better
                // than none at all.
                Err(error) => {
                    log::debug!("netlink: skipped a message: {error}");
                    continue;
                }
            };
            self.has_holes |= self.is_dump && message.header.flags & NLM_F_DUMP_INTR != 0;
            match message.payload {
                NetlinkPayload::InnerMessage(answer) => self.messages.push(answer),
                NetlinkPayload::Done(_) => return Ok(Read::Done),
                NetlinkPayload::Error(error) if error.code.is_some() => {
                    return Err(error.to_io());
                }
                NetlinkPayload::Error(_) => return Ok(Read::Done),
                _ => {}
            }
        }
        Ok(read)
    }
}

/// The messages of a datagram, as far as they are all there (RFC 3549 section 2.3.2).
pub(super) fn messages(datagram: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let length = message_length(rest)?;
        let (bytes, after) = rest.split_at(length);
        // Messages are padded to four bytes, the last one perhaps not.
        rest = after
            .get(length.next_multiple_of(4) - length..)
            .unwrap_or_default();
        Some(bytes)
    })
}

/// The sequence number of a message, behind its length, type and flags.
fn sequence(message: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*message.get(8..)?.first_chunk()?))
}

fn message_length(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?);
    let length = usize::try_from(length).ok()?;
    (length >= 16 && length <= bytes.len()).then_some(length)
}
