//! A segment of a synchronized connection: the steps of RFC 9293 §3.10.7.4, and the checks that
//! come before it is believed (first to fourth, RFC 7323 §5, RFC 5961).

use wire::ip::Ecn;
use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::drops::DropReason;
use crate::error::Error;
use crate::info::State;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;
use crate::tcp::segment::Segment;
use crate::tcp::step::{Step, Stop};

impl Conn<'_> {
    /// RFC 9293 §3.10.7.4, "Otherwise". (Security, third, has no effect: nobody uses it.)
    pub fn on_segment(&mut self, now: Instant, seg: &Segment<'_>) -> Step {
        self.cold.statistics.on_arrival(seg);
        if self.hot.is_predicted(seg) {
            return self.take_predicted(now, seg);
        }
        self.check_timestamp(now, seg)?;
        self.check_sequence(now, seg)?;
        self.check_rst(now, seg)?;
        self.check_syn(now, seg)?;
        self.process_ack(now, seg)?;
        self.process_urgent(now, seg);
        self.process_data(now, seg)?;
        self.process_fin(now, seg)
    }

    /// Takes a predicted segment: everything that this does the steps do as well.
    fn take_predicted(&mut self, now: Instant, seg: &Segment<'_>) -> Step {
        self.sh.counters.fast_path += 1;
        self.hot.update_ts_recent(seg);
        self.note_arrival(now);
        if seg.ecn != Ecn::NotEct {
            self.receive_marks(now, seg);
        }
        if seg.ack > self.hot.snd.una {
            let before = self.begin_rate_sample();
            if self.loss_view().resolves_tail_probe(seg.ack) {
                self.on_ack_of_tail_probe(now, seg);
            }
            self.on_ack_advance(now, seg);
            self.finish_rate_sample(now, before);
        }
        self.update_window(now, seg);
        if seg.payload.is_empty() {
            return Ok(());
        }
        self.take_text(now, seg.seq, seg.payload)
    }

    /// PAWS (RFC 7323 §5.3 R1).
    fn check_timestamp(&mut self, now: Instant, seg: &Segment<'_>) -> Step {
        if !self.hot.is_old(now, seg) {
            return Ok(());
        }
        self.acknowledge_unacceptable(now, seg);
        Err(DropReason::TcpPaws.into())
    }

    /// First, check the sequence number.
    /// RFC 7323 §5.3-2, §5.3-4.
    fn check_sequence(&mut self, now: Instant, seg: &Segment<'_>) -> Step {
        if self.hot.rcv.is_acceptable(seg) {
            return Ok(());
        }
        if !seg.payload.is_empty() && seg.data_seq() + seg.payload_len() <= self.hot.rcv.nxt {
            let end = seg.data_seq() + seg.payload_len();
            self.receive().note_duplicate(seg.data_seq(), end);
        }
        // "If an incoming segment is not acceptable, an acknowledgment should be sent in reply
        // (unless the RST bit is set)".
        if !seg.has(TcpFlags::RST) {
            self.acknowledge_unacceptable(now, seg);
            self.report_repeated_syn_ack(seg);
        }
        Err(DropReason::TcpWindow.into())
    }

    /// Second, check the RST bit, as RFC 5961 §3.2 has it.
    /// RFC 9293 MUST-66; RFC 5961 §3.2-1, §3.2-2, §3.2-3, §3.2-4; RFC 7323 §5.2-4.
    fn check_rst(&mut self, now: Instant, seg: &Segment<'_>) -> Step {
        if !seg.has(TcpFlags::RST) {
            return Ok(());
        }
        if seg.seq != self.hot.rcv.nxt {
            self.challenge(now);
            return Err(DropReason::TcpReset.into());
        }
        // RFC 9293 SHLD-2.
        self.sh.counters.resets_in += 1;
        match self.hot.state {
            State::SynReceived if !self.cold.open.may_send_early(self.hot.state) => {
                self.fail(Error::Refused)
            }
            // What was sent has arrived, or else the application must know.
            State::Closing | State::LastAck if self.hot.snd.una >= self.hot.snd.fin_seq => {
                self.finish(State::Closed);
            }
            _ => self.fail(Error::Reset),
        }
        Err(Stop::Done)
    }

    /// Fourth, check the SYN bit: never believed on a synchronised connection (RFC 5961 §4.2).
    /// RFC 5961 §4.2-1, §4.2-2.
    fn check_syn(&mut self, now: Instant, seg: &Segment<'_>) -> Step {
        if !seg.has(TcpFlags::SYN) {
            return Ok(());
        }
        self.challenge(now);
        Err(DropReason::TcpSyn.into())
    }

    /// The peer has not seen the ACK of its SYN-ACK: the ACK that is due now is that one again, and
    /// says again how the SYN-ACK arrived. Once more has been sent or has come the peer takes the
    /// bits for a counter. RFC 9768 §3.2.2.1-3.
    fn report_repeated_syn_ack(&mut self, seg: &Segment<'_>) {
        let is_syn_ack = seg.flags.contains(TcpFlags::SYN | TcpFlags::ACK);
        let repeats = is_syn_ack && seg.seq == self.cold.irs;
        let is_new = self.hot.snd.nxt == self.cold.iss + 1 && self.hot.rcv.nxt == seg.seq + 1;
        if repeats && is_new && self.has(Flags::ACK_NOW) {
            self.cold.ecn.answer_again(seg.ecn);
        }
    }
}
