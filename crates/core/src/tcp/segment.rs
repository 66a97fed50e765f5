//! A received segment as the protocol steps see it.

use wire::checksum::verify_transport;
use wire::frame::RxChecksum;
use wire::ip::{Ecn, Protocol};
use wire::seq::SeqNumber;
use wire::tcp::{TcpFlags, TcpHeader, TcpOptions};

use crate::drops::DropReason;
use crate::flow::{Digest, FlowHash, FlowKey, FlowTable};
use crate::ip::Datagram;

/// What a segment belongs to: as much as is needed to fetch that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub key: FlowKey,
    pub digest: Digest,
}

impl Flow {
    /// Of the segment in `datagram`, which need not be one.
    #[inline(always)]
    pub fn of(datagram: &Datagram<'_>, flows: &FlowTable) -> Option<Self> {
        let &[a, b, c, d] = datagram.payload.first_chunk::<4>()?;
        let (remote, local) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let key = FlowKey::between(datagram.dst, local, datagram.src, remote);
        let digest = flows.digest(&key);
        Some(Self { key, digest })
    }
}

/// RFC 9293 §3.3.1: SEG.SEQ, SEG.ACK, SEG.WND and the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub key: &'a FlowKey,
    /// Of `key`, in the table of this stack.
    pub hash: FlowHash,
    /// Where our sequence numbers of this flow start (RFC 6528 §3).
    pub origin: u32,
    pub seq: SeqNumber,
    pub ack: SeqNumber,
    pub flags: TcpFlags,
    /// As in the header, not scaled.
    pub window: u16,
    pub options: &'a TcpOptions,
    /// ECN field of the packet.
    pub ecn: Ecn,
    pub payload: &'a [u8],
    /// All of it.
    bytes: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Parses and verifies the payload of `datagram`, which belongs to `flow`. The options go to
    /// their place, which is as they are by default: they are too large to be moved around.
    /// RFC 9293 MUST-3, MUST-5.
    #[inline]
    pub fn parse(
        datagram: &'a Datagram<'_>,
        flow: &'a Flow,
        options: &'a mut TcpOptions,
    ) -> Result<Self, DropReason> {
        let bytes = &*datagram.payload;
        let (header, option_bytes, payload) =
            TcpHeader::split(bytes).map_err(|_| DropReason::TcpMalformed)?;
        if datagram.checksum == RxChecksum::Unverified
            && !verify_transport(datagram.src, datagram.dst, Protocol::TCP, bytes)
        {
            return Err(DropReason::TcpChecksum);
        }
        // Port 0 is reserved: nothing can answer to it.
        if header.src_port == 0 || header.dst_port == 0 {
            return Err(DropReason::TcpMalformed);
        }
        options.read(option_bytes);
        let Digest { hash, origin } = flow.digest;
        Ok(Self {
            key: &flow.key,
            hash,
            origin,
            seq: header.seq,
            ack: header.ack,
            flags: header.flags,
            window: header.window,
            options,
            ecn: datagram.ecn,
            payload,
            bytes,
        })
    }

    /// The urgent pointer, which counts with URG. Read where it does, which is rare.
    pub fn urgent_pointer(&self) -> u16 {
        TcpHeader::split(self.bytes).map_or(0, |(header, ..)| header.urgent)
    }

    pub fn has(&self, flags: TcpFlags) -> bool {
        self.flags.intersects(flags)
    }

    pub fn payload_len(&self) -> u32 {
        self.payload.len() as u32
    }

    /// SEG.LEN: payload, SYN and FIN.
    pub fn len(&self) -> u32 {
        let syn = u32::from(self.has(TcpFlags::SYN));
        let fin = u32::from(self.has(TcpFlags::FIN));
        self.payload_len() + syn + fin
    }

    /// The sequence number of the first payload byte.
    pub fn data_seq(&self) -> SeqNumber {
        self.seq + u32::from(self.has(TcpFlags::SYN))
    }

    /// The sequence number behind SYN, payload and FIN.
    pub fn end(&self) -> SeqNumber {
        self.seq + self.len()
    }
}
