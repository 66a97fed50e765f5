//! Segments, to send and to expect.

use wire::ip::Ecn;
use wire::seq::SeqNumber;
use wire::tcp::{
    EcnBytes, FastOpenCookie, SackBlocks, TcpFlags, TcpHeader, TcpOptions, Timestamps,
};

/// A segment in the making. Sequence numbers are relative: the sender's SYN has 0, its first
/// byte 1.
///
/// To send, what is not said is 0 or absent. To expect, what is not said is not looked at, except
/// flags (PSH aside) and payload length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seg {
    pub(super) flags: TcpFlags,
    pub(super) seq: Option<u32>,
    pub(super) ack: Option<u32>,
    pub(super) window: Option<u16>,
    pub(super) urgent: u16,
    pub(super) payload: Payload,
    pub(super) mss: Option<u16>,
    pub(super) wscale: Option<u8>,
    pub(super) sack_permitted: bool,
    pub(super) stamps: Option<(u32, u32)>,
    pub(super) sack: Option<Vec<(u32, u32)>>,
    pub(super) fast_open: Option<FastOpenCookie>,
    pub(super) port: Option<u16>,
    pub(super) ecn: Option<Ecn>,
    pub(super) ecn_bytes: Option<EcnBytes>,
    pub(super) look_at_psh: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Payload {
    #[default]
    Empty,
    Len(usize),
    Bytes(Vec<u8>),
}

/// A segment without flags.
pub fn seg() -> Seg {
    Seg::default()
}

impl Seg {
    fn flag(mut self, flag: TcpFlags) -> Self {
        self.flags |= flag;
        self
    }

    /// These flags and no others.
    pub fn with_flags(mut self, flags: TcpFlags) -> Self {
        self.flags = flags;
        self
    }

    /// SYN.
    pub fn syn(self) -> Self {
        self.flag(TcpFlags::SYN)
    }

    /// FIN.
    pub fn fin(self) -> Self {
        self.flag(TcpFlags::FIN)
    }

    /// RST.
    pub fn rst(self) -> Self {
        self.flag(TcpFlags::RST)
    }

    /// URG, and the urgent pointer.
    pub fn urg(mut self, pointer: u16) -> Self {
        self.urgent = pointer;
        self.flag(TcpFlags::URG)
    }

    /// ECE.
    pub fn ece(self) -> Self {
        self.flag(TcpFlags::ECE)
    }

    /// CWR.
    pub fn cwr(self) -> Self {
        self.flag(TcpFlags::CWR)
    }

    /// The ACE field of RFC 9768: AE, CWR and ECE as a number.
    pub fn ace(self, ace: u16) -> Self {
        let bits = [TcpFlags::ECE, TcpFlags::CWR, TcpFlags::AE];
        let set = (0..3).filter(|bit| ace >> bit & 1 == 1);
        set.fold(self, |seg, bit| seg.flag(bits[bit]))
    }

    /// ECN field of the packet.
    pub fn ecn(mut self, codepoint: Ecn) -> Self {
        self.ecn = Some(codepoint);
        self
    }

    /// Byte counters of accurate ECN.
    pub fn ecn_bytes(mut self, ect0: u32, ce: u32, ect1: u32) -> Self {
        self.ecn_bytes = Some(EcnBytes::new(ect0, ce, ect1, false));
        self
    }

    /// PSH, which is looked at if it is said (see also [`Self::no_psh`]).
    pub fn psh(mut self) -> Self {
        self.look_at_psh = true;
        self.flag(TcpFlags::PSH)
    }

    /// Expects that PSH is not set.
    pub fn no_psh(mut self) -> Self {
        self.look_at_psh = true;
        self
    }

    /// ACK, and the acknowledgment number: relative to the SYN of the other end.
    pub fn ack(mut self, ack: u32) -> Self {
        self.ack = Some(ack);
        self.flag(TcpFlags::ACK)
    }

    /// ACK, whatever its number (0 when sent).
    pub fn any_ack(self) -> Self {
        self.flag(TcpFlags::ACK)
    }

    /// Sequence number, relative to the SYN.
    pub fn seq(mut self, seq: u32) -> Self {
        self.seq = Some(seq);
        self
    }

    /// Window field, as it stands in the header.
    pub fn win(mut self, window: u16) -> Self {
        self.window = Some(window);
        self
    }

    /// So many bytes of payload: those of [`pattern`] when sent, any when expected.
    pub fn len(mut self, len: usize) -> Self {
        self.payload = Payload::Len(len);
        self
    }

    /// This payload.
    pub fn data(mut self, bytes: &[u8]) -> Self {
        self.payload = Payload::Bytes(bytes.to_vec());
        self
    }

    /// MSS option.
    pub fn mss(mut self, mss: u16) -> Self {
        self.mss = Some(mss);
        self
    }

    /// Window scale option.
    pub fn wscale(mut self, shift: u8) -> Self {
        self.wscale = Some(shift);
        self
    }

    /// SACK-permitted option.
    pub fn sack_ok(mut self) -> Self {
        self.sack_permitted = true;
        self
    }

    /// Timestamps option: TSval as it is, TSecr relative to the first TSval that was seen from the
    /// stack (0 if none was).
    pub fn ts(mut self, tsval: u32, tsecr: u32) -> Self {
        self.stamps = Some((tsval, tsecr));
        self
    }

    /// SACK blocks, relative to the SYN of the other end. Expecting none: `sack(&[])`.
    pub fn sack(mut self, blocks: &[(u32, u32)]) -> Self {
        self.sack = Some(blocks.to_vec());
        self
    }

    /// Fast Open option, to send.
    pub fn fast_open(mut self, cookie: FastOpenCookie) -> Self {
        self.fast_open = Some(cookie);
        self
    }

    /// Another port of the peer than the usual one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        match &self.payload {
            Payload::Empty => Vec::new(),
            Payload::Len(len) => pattern(self.seq.unwrap_or(0), *len),
            Payload::Bytes(bytes) => bytes.clone(),
        }
    }

    /// The header to send, with `us` the SYN of the sender and `them` that of the other end.
    pub(super) fn header(&self, us: SeqNumber, them: SeqNumber, ts_base: u32) -> TcpHeader {
        let mut sack = SackBlocks::EMPTY;
        for &(left, right) in self.sack.iter().flatten() {
            sack.push(them + left, them + right);
        }
        TcpHeader {
            seq: us + self.seq.unwrap_or(0),
            ack: self.ack.map_or(SeqNumber(0), |ack| them + ack),
            flags: self.flags,
            window: self.window.unwrap_or(0),
            urgent: self.urgent,
            options: TcpOptions {
                mss: self.mss,
                window_scale: self.wscale,
                sack_permitted: self.sack_permitted,
                timestamps: self.stamps.map(|(tsval, tsecr)| Timestamps {
                    tsval,
                    tsecr: ts_base.wrapping_add(tsecr),
                }),
                sack,
                fast_open: self.fast_open,
                ecn_bytes: self.ecn_bytes,
                ..TcpOptions::default()
            },
            ..TcpHeader::default()
        }
    }
}

/// Bytes that say where they are in the stream: `len` of them from relative sequence number `seq`
/// on.
pub(super) fn pattern(seq: u32, len: usize) -> Vec<u8> {
    (0..len as u32)
        .map(|i| (seq.wrapping_add(i) % 251) as u8)
        .collect()
}
