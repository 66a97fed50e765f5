//! `struct virtio_net_hdr`: the ten bytes before each frame of a TAP interface opened with
//! `IFF_VNET_HDR`, and of a packet socket with `PACKET_VNET_HDR` (Virtual I/O Device 1.2, §5.1.6;
//! in the machine's byte order for a legacy device, which both are unless told otherwise).

use wire::ethernet::{EtherType, EthernetHeader};
use wire::frame::{HEADERS, LONGEST, RxChecksum, TxChecksum, TxMeta};

/// Length of the header, in bytes.
pub(crate) const LEN: usize = 10;
/// Most bytes of payload in one frame.
pub(crate) const GSO_MAX: u32 = (LONGEST - HEADERS) as u32;

/// `csum_start` and `csum_offset` are valid: the checksum is to be finished.
const F_NEEDS_CSUM: u8 = 1;
/// The checksum has been verified.
const F_DATA_VALID: u8 = 2;
/// Not a GSO frame of segments.
const GSO_NONE: u8 = 0;
/// A GSO frame of TCP segments over IPv4.
const GSO_TCPV4: u8 = 1;
/// The same over IPv6.
const GSO_TCPV6: u8 = 4;

/// Beside the kind of a GSO frame: the first of its segments has CWR (RFC 3168 §6.1.2).
const GSO_ECN: u8 = 0x80;

/// The same header for who takes frames in which only the first segment has CWR, as the kernel
/// joins them: to who reads a frame as one segment that is all that it means.
pub(crate) fn without_ecn(header: &[u8; LEN]) -> [u8; LEN] {
    let mut header = *header;
    header[1] &= !GSO_ECN;
    header
}

/// The header of a frame that we send.
pub(crate) fn emit(frame: &[u8], meta: &TxMeta) -> [u8; LEN] {
    let mut header = [0; LEN];
    let TxChecksum::Partial { start, offset } = meta.checksum else {
        return header;
    };
    header[0] = F_NEEDS_CSUM;
    [header[6], header[7]] = start.to_ne_bytes();
    [header[8], header[9]] = offset.to_ne_bytes();
    if meta.segment > 0 {
        header[1] = family(frame);
        [header[2], header[3]] = headers_len(frame, start).to_ne_bytes();
        [header[4], header[5]] = meta.segment.to_ne_bytes();
    }
    header
}

/// What kind of GSO frame a frame is.
fn family(frame: &[u8]) -> u8 {
    match EthernetHeader::parse(frame) {
        Ok((header, _)) if header.ether_type == EtherType::IPV4 => GSO_TCPV4,
        Ok((header, _)) if header.ether_type == EtherType::IPV6 => GSO_TCPV6,
        _ => GSO_NONE,
    }
}

/// Length of all headers of a TCP segment that starts at `start`: of its own the data offset tells
/// (RFC 9293 §3.1).
fn headers_len(frame: &[u8], start: u16) -> u16 {
    let offset = frame.get(usize::from(start) + 12).copied();
    start + u16::from(offset.unwrap_or_default() >> 4) * 4
}

/// What the header of a received frame says; `None` for a GSO frame of what we did not ask for.
pub(crate) fn parse(header: &[u8; LEN]) -> Option<RxChecksum> {
    let [flags, gso, ..] = *header;
    if !matches!(gso, GSO_NONE | GSO_TCPV4 | GSO_TCPV6) {
        return None;
    }
    Some(if flags & (F_NEEDS_CSUM | F_DATA_VALID) != 0 {
        RxChecksum::Trusted
    } else {
        RxChecksum::Unverified
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTIAL: TxChecksum = TxChecksum::Partial {
        start: 34,
        offset: 16,
    };

    #[test]
    fn a_partial_checksum_is_left_to_the_kernel() {
        let mut meta = TxMeta {
            checksum: PARTIAL,
            ..TxMeta::default()
        };
        let header = emit(&[], &meta);
        assert_eq!(&header[..6], &[F_NEEDS_CSUM, 0, 0, 0, 0, 0]);
        assert_eq!(u16::from_ne_bytes([header[6], header[7]]), 34);
        assert_eq!(u16::from_ne_bytes([header[8], header[9]]), 16);
        meta.checksum = TxChecksum::Complete;
        assert_eq!(emit(&[], &meta), [0; LEN]);
    }

    #[test]
    fn a_gso_frame_says_how_to_cut_it() {
        let meta = TxMeta {
            len: 5000,
            checksum: PARTIAL,
            segment: 1448,
        };
        for (ether_type, family) in [(0x0800_u16, GSO_TCPV4), (0x86dd, GSO_TCPV6)] {
            let mut frame = [0; 100];
            frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
            frame[34 + 12] = 8 << 4;
            let header = emit(&frame, &meta);
            assert_eq!(&header[..2], &[F_NEEDS_CSUM, family]);
            assert_eq!(u16::from_ne_bytes([header[2], header[3]]), 34 + 32);
            assert_eq!(u16::from_ne_bytes([header[4], header[5]]), 1448);
        }
    }

    #[test]
    fn flags_decide_whether_a_checksum_is_trusted() {
        let with = |flags, gso| parse(&[flags, gso, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(with(0, 0), Some(RxChecksum::Unverified));
        assert_eq!(with(F_NEEDS_CSUM, 0), Some(RxChecksum::Trusted));
        assert_eq!(with(F_DATA_VALID, 0), Some(RxChecksum::Trusted));
        assert_eq!(with(F_NEEDS_CSUM, GSO_TCPV6), Some(RxChecksum::Trusted));
        // UDP, or with ECN.
        assert_eq!(with(F_NEEDS_CSUM, 3), None);
        assert_eq!(with(F_NEEDS_CSUM, 0x81), None);
    }
}
