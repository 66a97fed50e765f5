//! The sender's half: what the peer says of congestion, and what is done about it.

use wire::seq::SeqNumber;
use wire::tcp::TcpFlags;

use crate::tcp::ecn::actions::EcnActions;
use crate::tcp::ecn::handshake::{Feedback, ace};
use crate::tcp::ecn::part::EcnPart;
use crate::tcp::flags::EcnFlags;
use crate::tcp::segment::Segment;

/// With any of these, the window has just been reduced for a loss.
const REDUCED: EcnFlags = EcnFlags::RECOVERY.union(EcnFlags::LOSS);

impl EcnPart<'_> {
    /// What an acceptable ACK says of our data. `sacked`: it reports data that it does not
    /// acknowledge.
    pub fn on_ack(mut self, seg: &Segment<'_>, sacked: bool) -> EcnActions {
        let acked = if seg.ack > self.snd_una {
            seg.ack - self.snd_una
        } else {
            0
        };
        let met = match self.state.feedback {
            Feedback::None => return EcnActions::empty(),
            Feedback::Classic => seg.has(TcpFlags::ECE).then_some(acked),
            // An ACK that was overtaken has old counters (RFC 9768 §3.2.2.5.2).
            Feedback::Accurate if acked == 0 && !sacked => None,
            Feedback::Accurate => self.newly_marked(seg, acked),
        };
        self.end_reduction(seg.ack);
        let mut actions = EcnActions::empty();
        if let Some(bytes) = met {
            self.state.marked = self.state.marked.saturating_add(bytes);
            actions.set(EcnActions::REDUCE, self.has_to_react());
        } else if acked > 0 {
            self.state.holds = 0;
        }
        self.predict_flags();
        actions
    }

    fn newly_marked(&mut self, seg: &Segment<'_>, acked: u32) -> Option<u32> {
        let mss = u32::from(self.mss);
        let ecn = &mut *self.state;
        let congested = ecn.reduced.is_some();
        let option = seg.options.ecn_bytes;
        let bytes = ecn
            .counts
            .take_report(ace(seg.flags), option, acked, mss, congested);
        (bytes > 0).then_some(bytes)
    }

    /// What was in flight at the reduction is acknowledged. The classic echo goes on until the
    /// segment behind it is, which carried CWR.
    fn end_reduction(&mut self, ack: SeqNumber) {
        let ecn = &mut *self.state;
        let classic = ecn.feedback == Feedback::Classic;
        if ecn
            .reduced
            .is_some_and(|end| ack > end || ack == end && !classic)
        {
            ecn.reduced = None;
        }
    }

    /// RFC 3168 §6.1.2: the sender reacts as if a segment had been lost, but at most once per
    /// window, and not on top of a loss.
    /// RFC 3168 §6.1.2-1, §6.1.2-2; RFC 9293 SHLD-8.
    fn has_to_react(&self) -> bool {
        self.state.reduced.is_none()
            && !self.flags.intersects(REDUCED)
            && self.snd_nxt != self.snd_una
    }

    /// The window was reduced because of marks.
    pub fn on_obeyed(self) {
        self.counters.congestion_marks_obeyed += 1;
        self.on_reduced();
    }

    /// The window was reduced, for whatever reason: the receiver is to know (RFC 3168 §6.1.2).
    /// RFC 3168 §6.1.2-3.
    pub fn on_reduced(mut self) {
        if self.state.feedback != Feedback::None {
            self.state.reduced = Some(self.snd_nxt);
            self.state.cwr_due = true;
            self.predict_flags();
        }
    }
}
