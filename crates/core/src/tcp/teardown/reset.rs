//! What is in RSTs (RFC 9293 §3.5.2): to segments that belong to nothing, and the last word of a
//! connection that is aborted.

use wire::seq::SeqNumber;
use wire::tcp::{TcpFlags, TcpHeader, TcpOptions, Timestamps};

use crate::tcp::segment::Segment;

/// The RST that answers a segment for which there is no connection (RFC 9293 §3.10.7.1); none
/// answers a RST. Without timestamps: there is no clock that the other end knows, and one that
/// still has an earlier connection (Linux in TIME-WAIT, for one) would take the value for an old
/// one and keep to it, so that the port could not be used again for a minute.
pub(crate) fn reset_for(seg: &Segment<'_>) -> Option<TcpHeader> {
    if seg.has(TcpFlags::RST) {
        return None;
    }
    Some(if seg.has(TcpFlags::ACK) {
        TcpHeader {
            seq: seg.ack,
            flags: TcpFlags::RST,
            ..TcpHeader::default()
        }
    } else {
        TcpHeader {
            ack: seg.end(),
            flags: TcpFlags::RST | TcpFlags::ACK,
            ..TcpHeader::default()
        }
    })
}

/// The RST of ABORT (RFC 9293 §3.10.5): <SEQ=SND.NXT><CTL=RST>, with an ACK so that firewalls
/// believe it. RFC 7323 §3.2-6, §5.2-2: and with timestamps, if they were agreed on.
pub(crate) fn reset_of(
    snd_nxt: SeqNumber,
    rcv_nxt: SeqNumber,
    timestamps: Option<Timestamps>,
) -> TcpHeader {
    TcpHeader {
        seq: snd_nxt,
        ack: rcv_nxt,
        flags: TcpFlags::RST | TcpFlags::ACK,
        options: TcpOptions {
            timestamps,
            ..TcpOptions::default()
        },
        ..TcpHeader::default()
    }
}
