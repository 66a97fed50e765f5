//! Urgent data that is sent (RFC 9293 §3.8.5), as Linux does it (RFC 6093): a sequence of urgent
//! data ends in one urgent byte.

use wire::seq::SeqNumber;

use crate::tcp::send::part::SendPart;
use crate::tcp::send::state::FARTHEST_MARK;
use crate::tcp::send::view::SendView;

/// The farthest that an urgent pointer can point.
const FARTHEST: u32 = u16::MAX as u32;

impl SendView<'_> {
    /// Whether urgent data is unacknowledged.
    #[inline(always)]
    pub fn has_urgent(self) -> bool {
        self.cold.is_urgent && self.cold.up > self.hot.una
    }
}

impl SendPart<'_> {
    /// What is written up to byte `end` of the send stream is urgent: SND.UP points behind it. The
    /// application may write it later, so that no segment has the byte without the pointer.
    /// RFC 9293 MUST-30, MUST-31, MUST-62.
    pub fn mark_urgent(&mut self, end: u32) {
        let urgent = end.wrapping_sub(self.streams.send_head(self.slot));
        if urgent <= FARTHEST_MARK {
            self.cold.up = self.view().stream_start() + urgent;
            self.cold.is_urgent = urgent > 0;
        }
    }

    /// Nothing will be written any more: what was not is not urgent.
    pub fn end_urgent(&mut self) {
        self.cold.up = self.cold.up.min(self.hot.fin_seq);
        self.cold.is_urgent &= self.cold.up > self.hot.una;
    }

    /// Whatever goes from before SND.UP says how far that is; where it is out of reach and nothing
    /// beyond has been sent, as far as can be. RFC 9293 MUST-62.
    pub fn urgent_pointer(&mut self, seq: SeqNumber) -> Option<u16> {
        self.cold.is_urgent = self.view().has_urgent();
        let up = self.cold.up;
        if !self.cold.is_urgent || seq >= up {
            return None;
        }
        let is_last = seq + FARTHEST > self.hot.nxt;
        let pointer = u16::try_from(up - seq);
        pointer.ok().or(is_last.then_some(u16::MAX))
    }
}
