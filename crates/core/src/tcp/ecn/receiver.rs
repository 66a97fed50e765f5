//! The receiver's half: congestion that arriving segments have met is told to the sender.

use wire::ip::Ecn;
use wire::tcp::TcpFlags;

use crate::tcp::ecn::actions::EcnActions;
use crate::tcp::ecn::handshake::Feedback;
use crate::tcp::ecn::part::EcnPart;
use crate::tcp::ecn::state::EcnState;
use crate::tcp::segment::Segment;

impl EcnState {
    /// Whether an acceptable segment ends a run of segments that all met congestion, or all did
    /// not. RFC 8257 §3.2: each ACK says whether what it acknowledges met congestion, so what came
    /// before a change is acknowledged before it, and the change at once. `is_wanted`: DCTCP is in
    /// use. RFC 8257 §3.2-1, §3.2-2.
    #[inline(always)]
    pub fn ends_run(&self, seg: &Segment<'_>, is_wanted: bool) -> bool {
        self.feedback == Feedback::Classic
            && is_wanted
            && !seg.payload.is_empty()
            && (seg.ecn == Ecn::Ce) != self.echo
    }
}

impl EcnPart<'_> {
    /// An acceptable segment arrived (RFC 3168 §6.1.5: what is outside of the window says nothing;
    /// RFC 9768 §1.3: nor does what RFC 5961 refuses). If it [ends a run](EcnState::ends_run), what
    /// came before has been acknowledged.
    /// RFC 3168 §6.1.5-2.
    #[inline(always)]
    pub fn receive(mut self, seg: &Segment<'_>) -> EcnActions {
        self.counters.congestion_marks_in += u64::from(seg.ecn == Ecn::Ce);
        let ecn = &mut *self.state;
        ecn.seen |= ecn.feedback != Feedback::None && seg.ecn != Ecn::NotEct;
        match ecn.feedback {
            Feedback::None => EcnActions::empty(),
            Feedback::Classic if self.is_wanted => self.echo_exactly(seg),
            Feedback::Classic => self.echo_until_known(seg),
            Feedback::Accurate => {
                ecn.counts.count(seg.ecn, seg.payload_len());
                // RFC 9768 §3.2.2.5.1-1, §3.2.2.5.1-2.
                // RFC 9768 §3.2.2.5.1: before the counter can have gone round.
                if seg.ecn == Ecn::Ce && (!seg.payload.is_empty() || ecn.counts.is_ack_due()) {
                    EcnActions::ACK
                } else {
                    EcnActions::empty()
                }
            }
        }
    }

    /// RFC 3168 §6.1.3: ECE is in every ACK from the first mark until CWR comes.
    /// RFC 3168 §6.1.3-1, §6.1.6-2.
    fn echo_until_known(&mut self, seg: &Segment<'_>) -> EcnActions {
        let mut actions = EcnActions::empty();
        if seg.payload.is_empty() {
            return actions;
        }
        if seg.has(TcpFlags::CWR) {
            self.state.echo = false;
            // The sender's window may be down to this one segment.
            actions |= EcnActions::ACK;
        }
        if seg.ecn == Ecn::Ce {
            self.state.echo = true;
            actions |= EcnActions::ACK;
        }
        actions
    }

    fn echo_exactly(&mut self, seg: &Segment<'_>) -> EcnActions {
        if !self.state.ends_run(seg, self.is_wanted) {
            return EcnActions::empty();
        }
        self.state.echo = seg.ecn == Ecn::Ce;
        EcnActions::ACK
    }
}
