//! One question to netlink and all its answers.

use std::io;

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, NetlinkSerializable,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// Room for one datagram: the kernel fills at most 32 KiB of it with a dump.
const DATAGRAM_MAX: usize = 64 << 10;
/// Most messages read for one question: a full Internet table several times over.
const MESSAGES_MAX: usize = 4_000_000;

/// Messages of one family of netlink.
pub(super) trait Message: NetlinkSerializable + NetlinkDeserializable {}

impl<M: NetlinkSerializable + NetlinkDeserializable> Message for M {}

/// Asks the family `protocol` for everything `question` matches.
pub(super) fn dump<M: Message>(protocol: isize, question: M) -> io::Result<Vec<M>> {
    exchange(protocol, question, NLM_F_REQUEST | NLM_F_DUMP)
}

/// Asks rtnetlink for the one thing that `question` names.
pub(super) fn one(question: RouteNetlinkMessage) -> io::Result<RouteNetlinkMessage> {
    exchange(NETLINK_ROUTE, question, NLM_F_REQUEST)?
        .pop()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "rtnetlink: empty answer"))
}

fn exchange<M: Message>(protocol: isize, question: M, flags: u16) -> io::Result<Vec<M>> {
    let mut socket = Socket::new(protocol)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&encode(question, flags), 0)?;
    let mut answers = Vec::new();
    let mut datagram = Vec::with_capacity(DATAGRAM_MAX);
    let mut more = true;
    while more && answers.len() < MESSAGES_MAX {
        datagram.clear();
        socket.recv(&mut datagram, 0)?;
        more = read_datagram(&datagram, flags, &mut answers)?;
    }
    Ok(answers)
}

fn encode<M: Message>(question: M, flags: u16) -> Vec<u8> {
    let payload = NetlinkPayload::InnerMessage(question);
    let mut message = NetlinkMessage::new(NetlinkHeader::default(), payload);
    message.header.flags = flags;
    message.header.sequence_number = 1;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// Adds the messages of one datagram to `answers`. Returns whether more datagrams follow.
fn read_datagram<M: Message>(
    datagram: &[u8],
    flags: u16,
    answers: &mut Vec<M>,
) -> io::Result<bool> {
    let mut rest = datagram;
    while let Some(length) = message_length(rest) {
        let (bytes, after) = rest.split_at(length);
        // Messages are padded to four bytes, the last one perhaps not.
        rest = after
            .get(length.next_multiple_of(4) - length..)
            .unwrap_or_default();
        match NetlinkMessage::<M>::deserialize(bytes).map(|message| message.payload) {
            Ok(NetlinkPayload::InnerMessage(answer)) => answers.push(answer),
            Ok(NetlinkPayload::Done(_)) => return Ok(false),
            Ok(NetlinkPayload::Error(error)) if error.code.is_some() => return Err(error.to_io()),
            Ok(NetlinkPayload::Error(_)) => return Ok(false),
            Ok(_) => {}
            // A newer kernel says something this parser does not know: one entry less is better
            // than none at all.
            Err(error) => log::debug!("netlink: skipped a message: {error}"),
        }
    }
    Ok(flags & NLM_F_DUMP == NLM_F_DUMP)
}

/// Length of the first message of `bytes`, if it is all there (RFC 3549 section 2.3.2).
fn message_length(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?);
    let length = usize::try_from(length).ok()?;
    (length >= 16 && length <= bytes.len()).then_some(length)
}
