//! Captures as files: pcap and pcapng, packet by packet.

use std::fmt;
use std::io::{BufRead, ErrorKind};

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::PcapNgReader;
use pcap_file::pcapng::blocks::Block;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};

/// The first bytes of a pcapng file (draft-ietf-opsawg-pcapng §4.1).
const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Units of a second where an interface of a pcapng file names none.
const MICROSECONDS: u64 = 1_000_000;
/// `LINKTYPE_LINUX_SLL2`, which is what `tcpdump -i any` writes.
const SLL2: u32 = 276;

/// How packets begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Ethernet,
    /// With an IP header.
    Raw,
    /// Four bytes, then an IP header.
    Null,
    /// `LINKTYPE_LINUX_SLL`.
    Cooked,
    /// `LINKTYPE_LINUX_SLL2`.
    Cooked2,
    Unknown,
}

/// A packet of a capture.
#[derive(Debug)]
pub(super) struct Packet<'a> {
    /// When it was captured, microseconds since 1970.
    pub(super) time_us: u64,
    pub(super) link: Link,
    pub(super) data: &'a [u8],
    /// Whether it was longer on the wire.
    pub(super) is_cut: bool,
}

/// A file is no capture, or cannot be read: at which packet, and why.
#[derive(Debug)]
pub struct CaptureError {
    /// Packets that were read before.
    pub packets: u64,
    /// What is wrong.
    pub cause: String,
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {} packets: {}", self.packets, self.cause)
    }
}

impl std::error::Error for CaptureError {}

enum Kind<R: BufRead> {
    Pcap(PcapReader<R>, Link),
    Ng(PcapNgReader<R>),
}

/// A capture that is read.
pub(super) struct Capture<R: BufRead> {
    kind: Kind<R>,
    /// Of the current section: link and units of a second.
    interfaces: Vec<(Link, u64)>,
    packets: u64,
    buffer: Vec<u8>,
    /// The file ends within a packet.
    pub(super) is_cut: bool,
}

/// What came of looking for the next packet: when, how it begins, whether it is cut.
type Found = Option<(u64, Link, bool)>;

impl<R: BufRead> Capture<R> {
    pub(super) fn open(mut input: R) -> Result<Self, CaptureError> {
        let error = |cause: String| CaptureError { packets: 0, cause };
        let start = input.fill_buf();
        let start = start.map_err(|cause| error(format!("cannot read: {cause}")))?;
        let kind = if start.starts_with(&SECTION) {
            PcapNgReader::new(input).map(Kind::Ng)
        } else {
            PcapReader::new(input).map(|reader| {
                let link = link(reader.header().datalink);
                Kind::Pcap(reader, link)
            })
        };
        let kind = kind.map_err(|_| error("it is neither pcap nor pcapng".to_owned()))?;
        Ok(Self {
            kind,
            interfaces: Vec::new(),
            packets: 0,
            buffer: Vec::new(),
            is_cut: false,
        })
    }

    /// The next packet; `None` at the end.
    pub(super) fn next_packet(&mut self) -> Result<Option<Packet<'_>>, CaptureError> {
        let found = match &mut self.kind {
            Kind::Pcap(reader, link) => next_of_pcap(reader, *link, &mut self.buffer),
            Kind::Ng(reader) => next_of_ng(reader, &mut self.interfaces, &mut self.buffer),
        };
        match found {
            Ok(None) => Ok(None),
            Ok(Some((time_us, link, is_cut))) => {
                self.packets += 1;
                Ok(Some(Packet {
                    time_us,
                    link,
                    data: &self.buffer,
                    is_cut,
                }))
            }
            // Who captures is stopped at any time.
            Err(PcapError::IoError(error)) if error.kind() == ErrorKind::UnexpectedEof => {
                self.is_cut = true;
                Ok(None)
            }
            Err(error) => Err(CaptureError {
                packets: self.packets,
                cause: error.to_string(),
            }),
        }
    }
}

fn next_of_pcap<R: BufRead>(
    reader: &mut PcapReader<R>,
    link: Link,
    buffer: &mut Vec<u8>,
) -> Result<Found, PcapError> {
    let Some(packet) = reader.next_packet() else {
        return Ok(None);
    };
    let packet = packet?;
    buffer.clear();
    buffer.extend_from_slice(&packet.data);
    let time_us = packet.timestamp.as_micros() as u64;
    Ok(Some((
        time_us,
        link,
        packet.orig_len as usize > buffer.len(),
    )))
}

fn next_of_ng<R: BufRead>(
    reader: &mut PcapNgReader<R>,
    interfaces: &mut Vec<(Link, u64)>,
    buffer: &mut Vec<u8>,
) -> Result<Found, PcapError> {
    while let Some(block) = reader.next_block() {
        match block? {
            Block::SectionHeader(_) => interfaces.clear(),
            Block::InterfaceDescription(interface) => {
                interfaces.push((link(interface.linktype), units(&interface)?));
            }
            Block::EnhancedPacket(packet) => {
                let interface = interfaces.get(packet.interface_id as usize).copied();
                let (link, units) =
                    interface.ok_or(PcapError::InvalidInterfaceId(packet.interface_id))?;
                buffer.clear();
                buffer.extend_from_slice(&packet.data);
                // The number of the file, whatever its unit.
                let count = packet.timestamp.as_nanos();
                let time_us = (count * u128::from(MICROSECONDS) / u128::from(units)) as u64;
                let is_cut = packet.original_len as usize > buffer.len();
                return Ok(Some((time_us, link, is_cut)));
            }
            // Without a time, or no packets.
            _ => {}
        }
    }
    Ok(None)
}

/// Units of a second in which an interface counts time.
fn units(interface: &InterfaceDescriptionBlock<'_>) -> Result<u64, PcapError> {
    let named = interface.options.iter().find_map(|option| match option {
        InterfaceDescriptionOption::IfTsResol(resolution) => Some(*resolution),
        _ => None,
    });
    let Some(resolution) = named else {
        return Ok(MICROSECONDS);
    };
    let (base, exponent) = (
        if resolution & 0x80 == 0 { 10u64 } else { 2 },
        resolution & 0x7f,
    );
    base.checked_pow(u32::from(exponent))
        .ok_or(PcapError::InvalidField("if_tsresol is too fine"))
}

fn link(datalink: DataLink) -> Link {
    match datalink {
        DataLink::ETHERNET => Link::Ethernet,
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => Link::Raw,
        DataLink::NULL | DataLink::LOOP => Link::Null,
        DataLink::LINUX_SLL => Link::Cooked,
        other if u32::from(other) == SLL2 => Link::Cooked2,
        _ => Link::Unknown,
    }
}
