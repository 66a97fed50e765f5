//! Headers and payload, written straight into the frame that the port lends.

use ring::stream::Pieces;
use wire::frame::{FrameSink, TxChecksum, TxMeta};
use wire::ip::Protocol;
use wire::tcp::{CHECKSUM_OFFSET, TcpHeader, fill_checksum, fill_partial_checksum};

use crate::ip::{Net, headers_len};
use crate::tcp::target::Target;
use crate::tcp::usual::{START, write_usual};

/// Writes a whole frame. A frame that is too short for it (no port lends one) stays empty.
/// RFC 9293 MUST-2.
pub(crate) fn write_frame(
    frame: &mut [u8],
    net: &Net,
    target: &Target<'_>,
    header: &TcpHeader,
    payload: Pieces<'_>,
) -> TxMeta {
    match write_usual(frame, net, target, header, payload) {
        Some(len) => TxMeta {
            len,
            checksum: TxChecksum::Partial {
                start: START as u16,
                offset: CHECKSUM_OFFSET,
            },
            segment: 0,
        },
        None => write_any(frame, net, target, header, payload),
    }
}

/// Writes a frame of any kind.
#[inline(never)]
pub(crate) fn write_any(
    frame: &mut [u8],
    net: &Net,
    target: &Target<'_>,
    header: &TcpHeader,
    payload: Pieces<'_>,
) -> TxMeta {
    let Target { path, dst, .. } = *target;
    let start = headers_len(dst);
    let Some(rest) = frame.get_mut(start..) else {
        return TxMeta::default();
    };
    // First, as it says how long it is.
    let header_len = header.emit(rest);
    let segment_len = header_len + payload.len();
    let Some(segment) = rest.get_mut(..segment_len).filter(|_| header_len > 0) else {
        return TxMeta::default();
    };
    payload.copy_to(segment.get_mut(header_len..).unwrap_or_default());
    let checksum = if target.partial {
        fill_partial_checksum(path.src, dst, segment, segment_len);
        TxChecksum::Partial {
            start: start as u16,
            offset: CHECKSUM_OFFSET,
        }
    } else {
        fill_checksum(path.src, dst, segment);
        TxChecksum::Complete
    };
    let (tcp, ecn) = (Protocol::TCP, target.ecn.bits());
    if net
        .links
        .write_headers(frame, path, target.mac, dst, tcp, segment_len, ecn)
        == 0
    {
        return TxMeta::default();
    }
    TxMeta {
        len: start + segment_len,
        checksum,
        segment: 0,
    }
}

/// Writes a segment into a frame that `sink` lends; its length in bytes, `None` if there was no
/// frame.
pub(crate) fn send_segment(
    sink: &mut impl FrameSink,
    net: &Net,
    target: &Target<'_>,
    header: &TcpHeader,
    payload: Pieces<'_>,
) -> Option<usize> {
    let mut len = 0;
    let sent = sink.send(|frame| {
        let meta = write_frame(frame, net, target, header, payload);
        len = meta.len;
        meta
    });
    sent.then_some(len)
}
