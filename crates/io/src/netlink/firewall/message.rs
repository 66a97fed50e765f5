//! Messages of nftables: `nfgenmsg` and attributes.

use std::io;

use netlink_packet_core::{
    DecodeError, NetlinkDeserializable, NetlinkHeader, NetlinkSerializable, NlasIterator,
};
use rustix::net::netlink;

use crate::netlink::request;

/// `NFNL_SUBSYS_NFTABLES`, the upper byte of a message type.
const NFTABLES: u16 = 10 << 8;
/// `struct nfgenmsg`: family, version, resource.
const HEADER_LEN: usize = 4;

/// One message.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) family: u8,
    pub(super) attributes: Vec<u8>,
    kind: u16,
}

impl Message {
    pub(super) fn question(kind: u8, family: u8, attributes: Vec<u8>) -> Self {
        Self {
            family,
            attributes,
            kind: NFTABLES | u16::from(kind),
        }
    }

    pub(super) fn is(&self, kind: u8) -> bool {
        self.kind == NFTABLES | u16::from(kind)
    }
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        HEADER_LEN + self.attributes.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let bytes = [self.family, 0, 0, 0]
            .into_iter()
            .chain(self.attributes.iter().copied());
        for (to, byte) in buffer.iter_mut().zip(bytes) {
            *to = byte;
        }
    }
}

impl NetlinkDeserializable for Message {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        let too_short = || DecodeError::from("nfgenmsg is too short");
        Ok(Self {
            family: *payload.first().ok_or_else(too_short)?,
            attributes: payload.get(HEADER_LEN..).ok_or_else(too_short)?.to_vec(),
            kind: header.message_type,
        })
    }
}

/// Asks, and returns all answers.
pub(super) fn dump(question: Message) -> io::Result<Vec<Message>> {
    request::dump(Some(netlink::NETFILTER), question)
}

/// One attribute with `value`.
pub(super) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The bytes of the first attribute of this kind.
pub(super) fn value(attributes: &[u8], kind: u16) -> Option<Vec<u8>> {
    let found = NlasIterator::new(attributes)
        .map_while(Result::ok)
        .find(|attribute| attribute.kind() == kind)?;
    Some(found.value().to_vec())
}

/// The values in the list that the first attribute of this kind is.
pub(super) fn elements(attributes: &[u8], kind: u16) -> Vec<Vec<u8>> {
    let list = value(attributes, kind).unwrap_or_default();
    NlasIterator::new(&list[..])
        .map_while(Result::ok)
        .map(|element| element.value().to_vec())
        .collect()
}

pub(super) fn number(attributes: &[u8], kind: u16) -> Option<u32> {
    let bytes = value(attributes, kind)?.try_into().ok()?;
    Some(u32::from_be_bytes(bytes))
}

pub(super) fn text(attributes: &[u8], kind: u16) -> Option<String> {
    let mut bytes = value(attributes, kind)?;
    let end = bytes.iter().position(|byte| *byte == 0);
    bytes.truncate(end.unwrap_or(bytes.len()));
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
