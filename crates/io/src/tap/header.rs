//! `struct virtio_net_hdr`: the ten bytes before each frame of a TAP interface opened with `IFF_VNET_HDR`
//! (Virtual I/O Device 1.2, §5.1.6; in the machine's byte order for a legacy device, which TAP is unless told otherwise).

use wire::frame::{RxChecksum, TxChecksum};

/// Length of the header, in bytes.
pub(super) const LEN: usize = 10;

/// `csum_start` and `csum_offset` are valid: the checksum is to be finished.
const F_NEEDS_CSUM: u8 = 1;
/// The checksum has been verified.
const F_DATA_VALID: u8 = 2;
/// Not a bundle of segments.
const GSO_NONE: u8 = 0;

/// The header of a frame that we send.
pub(super) fn emit(checksum: TxChecksum) -> [u8; LEN] {
    let mut header = [0; LEN];
    if let TxChecksum::Partial { start, offset } = checksum {
        header[0] = F_NEEDS_CSUM;
        [header[6], header[7]] = start.to_ne_bytes();
        [header[8], header[9]] = offset.to_ne_bytes();
    }
    header
}

/// What the header of a received frame says; `None` for a bundle of segments, which we did not ask for.
pub(super) fn parse(header: &[u8; LEN]) -> Option<RxChecksum> {
    let [flags, gso, ..] = *header;
    if gso != GSO_NONE {
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

    #[test]
    fn a_partial_checksum_is_left_to_the_kernel() {
        let header = emit(TxChecksum::Partial {
            start: 34,
            offset: 16,
        });
        assert_eq!(&header[..6], &[F_NEEDS_CSUM, 0, 0, 0, 0, 0]);
        assert_eq!(u16::from_ne_bytes([header[6], header[7]]), 34);
        assert_eq!(u16::from_ne_bytes([header[8], header[9]]), 16);
        assert_eq!(emit(TxChecksum::Complete), [0; LEN]);
    }

    #[test]
    fn flags_decide_whether_a_checksum_is_trusted() {
        let with = |flags, gso| parse(&[flags, gso, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(with(0, 0), Some(RxChecksum::Unverified));
        assert_eq!(with(F_NEEDS_CSUM, 0), Some(RxChecksum::Trusted));
        assert_eq!(with(F_DATA_VALID, 0), Some(RxChecksum::Trusted));
        assert_eq!(with(F_NEEDS_CSUM, 1), None);
    }
}
