//! The ECN part of a connection as its behaviour sees it: borrowed for one step.

use wire::ip::Ecn;
use wire::seq::SeqNumber;
use wire::tcp::TcpFlags;

use crate::counters::Counters;
use crate::tcp::ecn::handshake::{Answer, BITS, Feedback, ace, ace_flags, arrival_code};
use crate::tcp::ecn::state::EcnState;
use crate::tcp::flags::EcnFlags;
use crate::tcp::segment::Segment;

/// State of the ECN part, and what it needs of everything else.
#[derive(Debug)]
pub(crate) struct EcnPart<'a> {
    pub state: &'a mut EcnState,
    /// The flags of the next segment that is received, if nothing is unusual about it, PSH aside.
    pub predicted: &'a mut TcpFlags,
    pub counters: &'a mut Counters,
    pub flags: EcnFlags,
    pub snd_una: SeqNumber,
    pub snd_nxt: SeqNumber,
    /// SMSS, bytes.
    pub mss: u16,
    /// The congestion control is of use only with ECN.
    pub is_wanted: bool,
}

impl EcnPart<'_> {
    /// The SYN-ACK says what the peer agrees to.
    pub fn agree(mut self, seg: &Segment<'_>) {
        let sent = if self.is_wanted {
            Ecn::Ect0
        } else {
            Ecn::NotEct
        };
        let answer = Answer::of(seg.flags);
        let ecn = &mut *self.state;
        ecn.feedback = ecn.asks().agreed(answer);
        ecn.capable = answer.is_plausible(sent);
        if ecn.feedback == Feedback::Accurate {
            ecn.counts.on_syn_ack(seg.ecn, seg.options.ecn_bytes);
        }
        self.predict_flags();
    }

    /// The ACK that completes a passive handshake. With accurate ECN its bits can be a code of how
    /// the SYN-ACK arrived (RFC 9768 §3.2.2.1, table 3). The result has the counter in their place
    /// that the peer goes on from.
    /// RFC 9768 §3.2.2.1-1, §3.2.2.1-2.
    pub fn take_handshake_report<'a>(mut self, seg: &Segment<'a>) -> Segment<'a> {
        let mut seg = *seg;
        let ecn = &mut *self.state;
        if ecn.feedback == Feedback::Accurate {
            let is_code = seg.payload.is_empty() && seg.options.sack.is_empty();
            if is_code {
                // 000: the peer does not count after all, or the path clears the bits. Then there
                // is no feedback (RFC 9768 §3.2.2.1, note 1).
                let counts = ace(seg.flags) != 0;
                ecn.capable &= counts;
                ecn.counts
                    .start(ace(seg.flags) == arrival_code(Ecn::Ce), counts);
            }
            ecn.counts.option = seg.options.ecn_bytes.is_some();
            seg.flags = seg.flags.difference(BITS) | ace_flags(ecn.counts.peer_ace());
        }
        self.predict_flags();
        seg
    }

    /// The flags that the next segment has if nothing is unusual about it. After a reduction
    /// nothing is usual for a window.
    pub(super) fn predict_flags(&mut self) {
        let ecn = &*self.state;
        *self.predicted = match ecn.feedback {
            _ if ecn.reduced.is_some() => TcpFlags::empty(),
            Feedback::Accurate => TcpFlags::ACK | ace_flags(ecn.counts.peer_ace()),
            _ => TcpFlags::ACK,
        };
    }
}
