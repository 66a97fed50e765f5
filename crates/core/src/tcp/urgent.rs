//! Urgent data (RFC 9293 §3.8.5), as Linux does it (RFC 6093): a sequence of urgent data ends in
//! one urgent byte, which the application may take apart from the stream.

use wire::seq::SeqNumber;
use wire::tcp::TcpFlags;

use crate::error::Error;
use crate::event::Ready;
use crate::tcp::conn::Conn;
use crate::tcp::segment::Segment;

/// The farthest that an urgent pointer can point.
const FARTHEST: u32 = u16::MAX as u32;

impl Conn<'_> {
    /// Whether urgent data is unacknowledged.
    #[inline]
    pub fn has_urgent(&self) -> bool {
        self.cold.snd.is_urgent && self.cold.snd.up > self.hot.snd.una
    }

    /// What was written up to byte `end` of the send stream is urgent: SND.UP points behind it.
    /// RFC 9293 MUST-30, MUST-31, MUST-62.
    pub fn send_urgent(&mut self, end: u32) -> Result<(), Error> {
        let head = self.sh.streams.send_head(self.slot);
        let written = self.sh.streams.send_len(self.slot);
        let urgent = end.wrapping_sub(head).min(written);
        if urgent > 0 {
            self.cold.snd.up = self.hot.stream_start() + urgent;
            self.cold.snd.is_urgent = true;
        }
        self.on_send(false)
    }

    /// Whatever goes from before SND.UP says how far that is; where it is out of reach and nothing
    /// beyond has been sent, as far as can be. RFC 9293 MUST-62.
    pub fn urgent_pointer(&mut self, seq: SeqNumber) -> Option<u16> {
        self.cold.snd.is_urgent = self.has_urgent();
        let up = self.cold.snd.up;
        if !self.cold.snd.is_urgent || seq >= up {
            return None;
        }
        let is_last = seq + FARTHEST > self.hot.snd.nxt;
        let pointer = u16::try_from(up - seq);
        pointer.ok().or(is_last.then_some(u16::MAX))
    }

    /// Sixth, check the URG bit. The pointer is taken to point behind the urgent byte, as hosts
    /// send it (RFC 6093 §3.1). One that points farther than the one before moves the mark; the
    /// application is told at once, whether the byte is here or not.
    /// RFC 9293 MUST-30, MUST-31, MUST-32, MUST-33, MUST-66.
    pub fn process_urgent(&mut self, seg: &Segment<'_>) {
        if !seg.has(TcpFlags::URG) || !self.hot.state.may_receive() {
            return;
        }
        let at = seg.seq + u32::from(seg.urgent_pointer()).saturating_sub(1);
        if at < self.hot.rcv.nxt {
            return;
        }
        let offset = at - self.hot.rcv.nxt;
        if self.sh.streams.mark_urgent(self.slot, offset) {
            self.notify(Ready::URGENT);
        }
    }
}
