//! TCP segments by hand: what scripted peers send and see.

use std::net::{IpAddr, SocketAddr};

use wire::checksum;
use wire::ethernet::{EtherType, EthernetHeader};
use wire::frame::MacAddr;
use wire::ip::Protocol;
use wire::ipv4::Ipv4Header;
use wire::ipv6::Ipv6Header;
use wire::seq::SeqNumber;
use wire::tcp::{self, TcpFlags, TcpHeader, Timestamps};
use wire::time::Instant;

/// A TCP segment with the addresses it travels between. Build one by chaining.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where from.
    pub src: SocketAddr,
    /// Where to.
    pub dst: SocketAddr,
    /// Its ports are those of `src` and `dst`.
    pub header: TcpHeader,
    /// Data.
    pub payload: Vec<u8>,
}

/// A segment that a peer received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: Instant,
    /// What.
    pub segment: Segment,
}

impl Segment {
    /// A segment without flags and data, sequence number 0, window 65535.
    pub fn new(src: SocketAddr, dst: SocketAddr) -> Self {
        let header = TcpHeader {
            src_port: src.port(),
            dst_port: dst.port(),
            window: u16::MAX,
            ..TcpHeader::default()
        };
        Self {
            src,
            dst,
            header,
            payload: Vec::new(),
        }
    }

    /// Sets the sequence number.
    #[must_use]
    pub fn seq(mut self, seq: impl Into<Seq>) -> Self {
        self.header.seq = seq.into().0;
        self
    }

    /// Sets ACK and the acknowledgment number.
    #[must_use]
    pub fn ack(mut self, ack: impl Into<Seq>) -> Self {
        self.header.ack = ack.into().0;
        self.flags(TcpFlags::ACK)
    }

    /// Adds flags.
    #[must_use]
    pub fn flags(mut self, flags: TcpFlags) -> Self {
        self.header.flags |= flags;
        self
    }

    /// Adds SYN.
    #[must_use]
    pub fn syn(self) -> Self {
        self.flags(TcpFlags::SYN)
    }

    /// Adds FIN.
    #[must_use]
    pub fn fin(self) -> Self {
        self.flags(TcpFlags::FIN)
    }

    /// Adds RST.
    #[must_use]
    pub fn rst(self) -> Self {
        self.flags(TcpFlags::RST)
    }

    /// Sets the window field.
    #[must_use]
    pub fn window(mut self, window: u16) -> Self {
        self.header.window = window;
        self
    }

    /// Adds the MSS option.
    #[must_use]
    pub fn mss(mut self, mss: u16) -> Self {
        self.header.options.mss = Some(mss);
        self
    }

    /// Adds what all systems send in a SYN beside the MSS: SACK permitted, a window scale and a
    /// timestamp.
    #[must_use]
    pub fn usual_options(mut self, window_scale: u8, tsval: u32) -> Self {
        let options = &mut self.header.options;
        options.sack_permitted = true;
        options.window_scale = Some(window_scale);
        options.timestamps = Some(Timestamps { tsval, tsecr: 0 });
        self
    }

    /// Sets the data.
    #[must_use]
    pub fn data(mut self, data: &[u8]) -> Self {
        self.payload = data.to_vec();
        self
    }

    /// Sequence space that it takes.
    pub fn len(&self) -> u32 {
        self.header.segment_len(self.payload.len() as u32)
    }

    /// Whether it takes no sequence space.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sequence number behind it.
    pub fn end(&self) -> SeqNumber {
        self.header.seq + self.len()
    }

    /// Whether `flags` are all set.
    pub fn has(&self, flags: TcpFlags) -> bool {
        self.header.flags.contains(flags)
    }

    /// The RST that answers it where no connection exists (RFC 9293 §3.10.7.1).
    #[must_use]
    pub fn refusal(&self) -> Self {
        let reset = Self::new(self.dst, self.src).window(0).rst();
        if self.has(TcpFlags::ACK) {
            reset.seq(self.header.ack)
        } else {
            reset.ack(self.end())
        }
    }

    /// The whole frame, checksums included; empty if the addresses are of different families.
    pub fn to_frame(&self, from: MacAddr, to: MacAddr) -> Vec<u8> {
        let mut tcp = vec![0; self.header.header_len()];
        self.header.emit(&mut tcp);
        tcp.extend_from_slice(&self.payload);
        tcp::fill_checksum(self.src.ip(), self.dst.ip(), &mut tcp);
        ip_frame(
            from,
            to,
            (self.src.ip(), self.dst.ip()),
            Protocol::TCP,
            &tcp,
        )
    }

    /// The segment in a frame; `None` for anything else, and for wrong checksums.
    pub fn from_frame(frame: &[u8]) -> Option<Self> {
        let (src, dst, protocol, bytes) = ip_payload(frame)?;
        if protocol != Protocol::TCP || !checksum::verify_transport(src, dst, protocol, bytes) {
            return None;
        }
        let (header, payload) = TcpHeader::parse(bytes).ok()?;
        Some(Self {
            src: SocketAddr::new(src, header.src_port),
            dst: SocketAddr::new(dst, header.dst_port),
            header,
            payload: payload.to_vec(),
        })
    }
}

/// A sequence number written as one or as a plain number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seq(pub SeqNumber);

impl From<SeqNumber> for Seq {
    fn from(seq: SeqNumber) -> Self {
        Self(seq)
    }
}

impl From<u32> for Seq {
    fn from(seq: u32) -> Self {
        Self(SeqNumber(seq))
    }
}

/// An Ethernet frame with an IP packet between `addrs` (source, destination); empty if they are of
/// different families.
pub(crate) fn ip_frame(
    from: MacAddr,
    to: MacAddr,
    addrs: (IpAddr, IpAddr),
    protocol: Protocol,
    payload: &[u8],
) -> Vec<u8> {
    let mut ip = [0; Ipv6Header::LEN];
    let (ether_type, len) = match addrs {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let header = Ipv4Header::new(src, dst, protocol, payload.len());
            (EtherType::IPV4, header.emit(&mut ip))
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut header = Ipv6Header::new(src, dst, protocol, payload.len());
            if protocol == Protocol::ICMPV6 {
                // RFC 4861 §7.1 asks it of neighbour discovery; other ICMPv6 does not mind.
                header.hop_limit = 255;
            }
            (EtherType::IPV6, header.emit(&mut ip))
        }
        _ => return Vec::new(),
    };
    let mut frame = ethernet(from, to, ether_type);
    frame.extend_from_slice(ip.get(..len).unwrap_or_default());
    frame.extend_from_slice(payload);
    frame
}

/// An Ethernet header.
pub fn ethernet(from: MacAddr, to: MacAddr, ether_type: EtherType) -> Vec<u8> {
    let header = EthernetHeader {
        dst: to,
        src: from,
        ether_type,
        vlan: None,
    };
    let mut bytes = vec![0; EthernetHeader::LEN];
    header.emit(&mut bytes);
    bytes
}

/// Source, destination, protocol and payload of an unfragmented IP packet without extension
/// headers.
pub(crate) fn ip_payload(frame: &[u8]) -> Option<(IpAddr, IpAddr, Protocol, &[u8])> {
    let (header, packet) = EthernetHeader::parse(frame).ok()?;
    match header.ether_type {
        EtherType::IPV4 => {
            let (ip, payload) = Ipv4Header::parse(packet).ok()?;
            let plain = !ip.is_fragment();
            plain.then_some((ip.src.into(), ip.dst.into(), ip.protocol, payload))
        }
        EtherType::IPV6 => {
            let (ip, payload) = Ipv6Header::parse(packet).ok()?;
            Some((ip.src.into(), ip.dst.into(), ip.next_header, payload))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    #[test]
    fn a_segment_survives_its_frame() {
        for (src, dst) in [
            ("10.0.0.1:5", "10.0.0.2:80"),
            ("[fd00::1]:5", "[fd00::2]:80"),
        ] {
            let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
            let segment = Segment::new(src, dst).syn().seq(7).mss(1000).data(b"hey");
            let mut frame = segment.to_frame(MAC, MAC);
            assert_eq!(Segment::from_frame(&frame), Some(segment.clone()));
            assert_eq!(segment.end(), SeqNumber(11));
            *frame.last_mut().unwrap() ^= 1;
            assert_eq!(Segment::from_frame(&frame), None);
        }
    }

    #[test]
    fn a_refusal_is_acceptable() {
        let (src, dst) = (
            "10.0.0.1:5".parse().unwrap(),
            "10.0.0.2:80".parse().unwrap(),
        );
        let refusal = Segment::new(src, dst).syn().seq(7).refusal();
        assert!(refusal.has(TcpFlags::RST | TcpFlags::ACK));
        assert_eq!((refusal.src, refusal.header.ack), (dst, SeqNumber(8)));
        let refusal = Segment::new(src, dst).seq(7).ack(9).refusal();
        assert_eq!(refusal.header.seq, SeqNumber(9));
    }
}
