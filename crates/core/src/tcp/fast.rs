//! Header prediction: what a connection mostly receives, in a few comparisons.

use wire::ip::Ecn;
use wire::tcp::TcpFlags;

use crate::info::State;
use crate::tcp::flags::Flags;
use crate::tcp::segment::Segment;
use crate::tcp::tcb::Hot;

/// Anything that makes an ACK or data more than the next in line.
const UNUSUAL: Flags = Flags::HOLES
    .union(Flags::SACKED)
    .union(Flags::RECOVERY)
    .union(Flags::LOSS)
    .union(Flags::PERSIST)
    .union(Flags::FIN_QUEUED)
    .union(Flags::PEER_FIN)
    .union(Flags::APP_CLOSED);

impl Hot {
    /// Whether the segment can take the short way: ESTABLISHED, next in order, no flags but ACK,
    /// PSH and what ECN says all the time, acknowledging something that is in flight or nothing new
    /// with data behind it.
    #[inline(always)]
    pub fn is_predicted(&self, seg: &Segment<'_>) -> bool {
        self.state == State::Established
            && !self.has(UNUSUAL)
            && seg.flags.difference(TcpFlags::PSH) == self.predicted
            && seg.ecn != Ecn::Ce
            && seg.seq == self.rcv.nxt
            && seg.payload_len() <= self.rcv_wnd()
            && self.predicts_ack(seg)
            && self.predicts_timestamp(seg)
    }

    fn predicts_ack(&self, seg: &Segment<'_>) -> bool {
        let snd = &self.snd;
        let advances = seg.ack > snd.una && seg.ack <= snd.nxt && self.loss.dup_acks == 0;
        let only_data = seg.ack == snd.una && !seg.payload.is_empty();
        let reports = !seg.options.sack.is_empty() || seg.options.ecn_bytes.is_some();
        (advances || only_data) && !reports
    }

    fn predicts_timestamp(&self, seg: &Segment<'_>) -> bool {
        match (seg.options.timestamps, self.has(Flags::TIMESTAMPS)) {
            (Some(stamps), true) => stamps.tsval.wrapping_sub(self.ts_recent) as i32 >= 0,
            (None, false) => true,
            _ => false,
        }
    }
}
