//! Urgent data that is received (RFC 9293 §3.8.5), as Linux does it (RFC 6093): a sequence of
//! urgent data ends in one urgent byte, which the application may take apart from the stream.

use crate::tcp::receive::actions::ReceiveActions;
use crate::tcp::receive::part::Receive;
use crate::tcp::segment::Segment;

impl Receive<'_> {
    /// Takes the urgent pointer of a segment, as pointing behind the urgent byte: so hosts send it
    /// (RFC 6093 §3.1). One that points farther than the one before moves the mark; the application
    /// is told at once, whether the byte is here or not.
    /// RFC 9293 MUST-30, MUST-31, MUST-32, MUST-33, MUST-66.
    pub fn note_urgent(&mut self, seg: &Segment<'_>) {
        let at = seg.seq + u32::from(seg.urgent_pointer()).saturating_sub(1);
        if at < self.hot.nxt {
            return;
        }
        let offset = at - self.hot.nxt;
        if self.streams.mark_urgent(self.slot, offset) {
            self.actions |= ReceiveActions::URGENT;
        }
    }
}
