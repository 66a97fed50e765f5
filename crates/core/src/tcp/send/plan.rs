//! A segment that is to be sent, before it has a header.

use wire::frame::HEADERS;
use wire::seq::SeqNumber;
use wire::tcp::TcpFlags;

/// Why a segment is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// SYN or SYN-ACK.
    Syn,
    /// Data or FIN, for the first time.
    New,
    /// Data or FIN again.
    Retransmission,
    /// The end of what there is to send, because ACKs fail to come (RFC 8985 §7).
    TailProbe,
    /// One byte behind a closed window.
    Probe,
    /// An ACK, with nothing.
    Ack,
    /// An old sequence number, to make the peer answer.
    Keepalive,
}

/// A segment that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub kind: Kind,
    pub seq: SeqNumber,
    /// Bytes of payload.
    pub len: u32,
    pub flags: TcpFlags,
    /// Bytes of payload of each segment of a GSO frame (see `gather`); 0: it is one
    /// segment.
    pub cut: u16,
}

impl Plan {
    /// The sequence number behind it.
    pub fn end(&self) -> SeqNumber {
        let syn = u32::from(self.flags.contains(TcpFlags::SYN));
        let fin = u32::from(self.flags.contains(TcpFlags::FIN));
        self.seq + self.len + syn + fin
    }

    /// The sequence number of the first byte of payload.
    pub fn data_seq(&self) -> SeqNumber {
        self.seq + u32::from(self.flags.contains(TcpFlags::SYN))
    }

    /// Segments that it is on the wire.
    pub fn segments(&self) -> u32 {
        match self.cut {
            0 => 1,
            cut => self.len.div_ceil(u32::from(cut)),
        }
    }

    /// Leaves out what a frame of `room` bytes does not hold; one segment fits any frame.
    pub fn fit(&mut self, room: usize) {
        let cut = u32::from(self.cut);
        let most = room.saturating_sub(HEADERS).min(u16::MAX.into()) as u32;
        if self.len > most {
            self.len = (most - most % cut.max(1)).max(cut);
            self.flags.remove(TcpFlags::PSH | TcpFlags::FIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(len: u32) -> Plan {
        Plan {
            kind: Kind::New,
            seq: SeqNumber(u32::MAX - 999),
            len,
            flags: TcpFlags::ACK | TcpFlags::PSH | TcpFlags::FIN,
            cut: 1000,
        }
    }

    #[test]
    fn what_a_frame_does_not_hold_is_left_out_with_the_end() {
        let mut plan = gathered(3500);
        plan.fit(HEADERS + 3500);
        assert_eq!(plan, gathered(3500));
        assert_eq!((plan.segments(), plan.end()), (4, SeqNumber(2501)));
        plan.fit(HEADERS + 2999);
        assert_eq!((plan.len, plan.flags), (2000, TcpFlags::ACK));
        assert_eq!((plan.segments(), plan.end()), (2, SeqNumber(1000)));
    }

    #[test]
    fn one_segment_fits_any_frame() {
        let mut plan = gathered(3500);
        plan.fit(0);
        assert_eq!((plan.len, plan.segments()), (1000, 1));
    }
}
