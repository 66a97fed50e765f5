//! Urgent data, segment text and FIN (RFC 9293 §3.10.7.4, sixth to eighth): what they mean for the
//! connection.

use ring::stream::Status;
use wire::seq::SeqNumber;
use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::drops::DropReason;
use crate::error::Error;
use crate::event::Ready;
use crate::info::State;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;
use crate::tcp::segment::Segment;
use crate::tcp::step::{Step, Stop};

impl Conn<'_> {
    /// Sixth, check the URG bit.
    pub fn process_urgent(&mut self, now: Instant, seg: &Segment<'_>) {
        if !seg.has(TcpFlags::URG) || !self.hot.state.may_receive() {
            return;
        }
        let mut receive = self.receive();
        receive.note_urgent(seg);
        let actions = receive.actions;
        self.carry_out_received(now, actions);
    }

    /// Seventh, process the segment text.
    pub fn process_data(&mut self, now: Instant, seg: &Segment<'_>) -> Step {
        // In the other states the peer has sent FIN already: "ignore the segment text".
        if seg.payload.is_empty() || !self.hot.state.may_receive() {
            return Ok(());
        }
        let start = seg.data_seq().max(self.hot.rcv.nxt);
        let end = (seg.data_seq() + seg.payload_len()).min(self.receive_view().limit());
        if end <= start {
            // Behind a closed window, or old with a new FIN behind it.
            self.mark_ack();
            return if seg.has(TcpFlags::FIN) && end == self.hot.rcv.nxt {
                Ok(())
            } else {
                Err(DropReason::TcpWindow.into())
            };
        }
        self.refuse_unread(now)?;
        let skip = (start - seg.data_seq()) as usize;
        let bytes = seg
            .payload
            .get(skip..skip + (end - start) as usize)
            .unwrap_or_default();
        let taken = self.take_text(now, start, bytes);
        // The report is of the first part that the segment brings again, and not of what is held
        // beyond the gap.
        self.receive().note_duplicate(seg.data_seq(), start);
        taken
    }

    /// Nobody will read this, and the peer must know that it is lost: the application has closed
    /// (RFC 9293 §3.10.4 and RFC 2525 §2.17), or has shut both directions down
    /// (RFC 1122 §4.2.2.13). With our side still open, Linux keeps it; so do we.
    fn refuse_unread(&mut self, now: Instant) -> Step {
        let is_closed = self.has(Flags::APP_CLOSED);
        let is_shut = self.cold.read_shut && self.has(Flags::FIN_QUEUED);
        if !is_closed && !is_shut {
            return Ok(());
        }
        self.send_reset(now);
        if is_closed {
            self.finish(State::Closed);
        } else {
            self.fail(Error::Reset);
        }
        Err(DropReason::TcpClosed.into())
    }

    /// Takes the text of a segment from inside the window.
    #[inline]
    pub fn take_text(&mut self, now: Instant, start: SeqNumber, bytes: &[u8]) -> Step {
        if self.has(Flags::HOLES) || start != self.hot.rcv.nxt {
            return self.take_unusual_text(now, start, bytes);
        }
        self.receive().take_next(now, bytes)?;
        self.notify(Ready::READABLE);
        let mut receive = self.receive();
        receive.owe_ack(now, false);
        let actions = receive.actions;
        self.carry_out_received(now, actions);
        Ok(())
    }

    /// The text is out of order, or fills a gap.
    #[inline(never)]
    fn take_unusual_text(&mut self, now: Instant, start: SeqNumber, bytes: &[u8]) -> Step {
        let mut receive = self.receive();
        let taken = receive.take_text(now, start, bytes);
        let actions = receive.actions;
        self.carry_out_received(now, actions);
        taken.map_err(Stop::from)
    }

    /// The application has read: the window may open.
    pub fn on_read(&mut self, now: Instant) {
        let srtt = self.hot.loss.rtt.srtt();
        let actions = self.receive().on_read(now, srtt);
        if self.hot.state.may_receive() {
            self.carry_out_received(now, actions);
        }
    }

    /// The connection is about to be accepted, and stays here.
    pub fn release_withheld_ack(&mut self, now: Instant) {
        let mut receive = self.receive();
        receive.release_withheld_ack(now);
        let actions = receive.actions;
        self.carry_out_received(now, actions);
    }

    /// Notes that a segment came. After a silence longer than the RTO the peer is in slow start
    /// again: ACKs without delay help it.
    pub fn note_arrival(&mut self, now: Instant) {
        let millis = now.as_millis() as u32;
        let silence = millis.wrapping_sub(self.hot.last_received);
        if silence > self.hot.loss.rtt.rto_millis() {
            self.hot.rcv.quick_acks = self.hot.rcv.quick_acks.max(self.sh.config.quick_acks);
        }
        self.hot.last_received = millis;
        self.cold.keepalive_probes = 0;
    }

    /// Eighth, check the FIN bit. A FIN beyond a gap is remembered until the gap is filled.
    pub fn process_fin(&mut self, now: Instant, seg: &Segment<'_>) -> Step {
        let has_fin = seg.has(TcpFlags::FIN) && self.hot.state.may_receive();
        let mut receive = self.receive();
        if has_fin {
            let fin = seg.data_seq() + seg.payload_len();
            receive.note_fin(fin);
            // Each time it comes, as for data (RFC 5681 §4.2): the peer learns what is missing from
            // the answer.
            if seg.payload.is_empty() && fin > receive.hot.nxt {
                receive.owe_duplicate_ack();
            }
        }
        let is_next = receive.take_fin();
        let actions = receive.actions;
        self.carry_out_received(now, actions);
        if is_next {
            self.on_fin();
        }
        Ok(())
    }

    /// The peer's FIN has been taken.
    fn on_fin(&mut self) {
        self.add_status(Status::EOF);
        self.notify(Ready::EOF | Ready::READABLE);
        match self.hot.state {
            State::SynReceived | State::Established => self.hot.state = State::CloseWait,
            // Our FIN is not acknowledged, or this would be FIN_WAIT_2.
            State::FinWait1 => self.hot.state = State::Closing,
            State::FinWait2 => self.finish(State::TimeWait),
            _ => {}
        }
    }
}
