//! Segment text and FIN (RFC 9293 §3.10.7.4, seventh and eighth), and when to acknowledge them.

use std::time::Duration;

use ring::stream::Status;
use wire::seq::SeqNumber;
use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::drops::Drop;
use crate::error::Error;
use crate::event::Ready;
use crate::info::State;
use crate::tcp::clock::near;
use crate::tcp::conn::{Conn, Step, Stop};
use crate::tcp::flags::Flags;
use crate::tcp::ranges::Range;
use crate::tcp::segment::Segment;

/// How long an ACK waits for an application to accept the connection, if another stack may have to go on with it.
const WITHHELD_ACK: Duration = Duration::from_millis(400);
/// What counts as full-sized until something larger arrived, bytes.
pub(crate) const MIN_RCV_MSS: u16 = 536;

impl Conn<'_> {
    /// Seventh, process the segment text.
    pub fn process_data(&mut self, now: Instant, seg: &Segment<'_>) -> Step {
        // In the other states the peer has sent FIN already: "ignore the segment text".
        if seg.payload.is_empty() || !self.hot.state.may_receive() {
            return Ok(());
        }
        let start = seg.data_seq().max(self.hot.rcv_nxt);
        let end = (seg.data_seq() + seg.payload_len()).min(self.receive_limit());
        if end <= start {
            // Behind a closed window, or old with a new FIN behind it.
            self.mark_ack();
            return if seg.has(TcpFlags::FIN) && end == self.hot.rcv_nxt {
                Ok(())
            } else {
                Err(Drop::TcpWindow.into())
            };
        }
        self.refuse_after_close(now)?;
        self.refuse_after_shutdown(now)?;
        let skip = (start - seg.data_seq()) as usize;
        let bytes = seg
            .payload
            .get(skip..skip + (end - start) as usize)
            .unwrap_or_default();
        let taken = self.take_text(now, start, bytes);
        // Of what the segment brings again, the first is reported, so not what is held beyond the gap.
        self.note_duplicate(seg.data_seq(), start);
        taken
    }

    /// The edge beyond which no byte is taken: the window, or the peer's FIN.
    /// RFC 7323 §2.4-1.
    fn receive_limit(&self) -> SeqNumber {
        if self.has(Flags::PEER_FIN) {
            self.hot.rcv_adv.min(self.cold.peer_fin)
        } else {
            self.hot.rcv_adv
        }
    }

    /// RFC 9293 §3.10.4 and RFC 2525 §2.17: nobody will read this, and the peer must know that it is lost.
    fn refuse_after_close(&mut self, now: Instant) -> Step {
        if !self.has(Flags::APP_CLOSED) {
            return Ok(());
        }
        self.send_reset(now);
        self.finish(State::Closed);
        Err(Drop::TcpClosed.into())
    }

    /// RFC 1122 §4.2.2.13: both directions were shut down, and data comes that nobody will read. (With our side still open, Linux keeps it;
    /// so do we.)
    fn refuse_after_shutdown(&mut self, now: Instant) -> Step {
        if !(self.cold.read_shut && self.has(Flags::FIN_QUEUED)) {
            return Ok(());
        }
        self.send_reset(now);
        self.fail(Error::Reset);
        Err(Drop::TcpClosed.into())
    }

    pub fn take_text(&mut self, now: Instant, start: SeqNumber, bytes: &[u8]) -> Step {
        self.cold.statistics.data_at = now.as_millis() as u32;
        let had_holes = self.has(Flags::HOLES);
        let end = start + bytes.len() as u32;
        if let Some(Range { start, end }) = self.first_held(start, end) {
            self.note_duplicate(start, end);
        }
        let before = self.hot.rcv_nxt;
        if let Err(reason) = self.accept_bytes(start, bytes) {
            self.on_refused(start);
            return Err(Stop::Drop(reason));
        }
        let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        self.hot.rcv_mss = self.hot.rcv_mss.max(len.min(self.cold.local_mss));
        if self.hot.rcv_nxt == before {
            self.cold.statistics.out_of_order = self.cold.statistics.out_of_order.saturating_add(1);
            self.owe_duplicate_ack();
        } else {
            self.owe_ack(now, had_holes);
        }
        Ok(())
    }

    /// RFC 5681 §4.2: an out-of-order segment is acknowledged at once, even if there is no room to keep it.
    fn on_refused(&mut self, start: SeqNumber) {
        if start != self.hot.rcv_nxt {
            self.owe_duplicate_ack();
        }
    }

    /// One ACK for each out-of-order segment: the peer counts them (RFC 5681 §4.2).
    /// RFC 9293 MAY-13; RFC 5681 §4.2-3; RFC 2018 §4-3.
    fn owe_duplicate_ack(&mut self) {
        self.hot.dup_acks_due = self.hot.dup_acks_due.saturating_add(1);
        self.hot.quick_acks = self.sh.config.quick_acks;
        self.mark_ack();
    }

    /// In-order data came (RFC 9293 §3.8.6.3, RFC 5681 §4.2): acknowledge at once what fills a gap and at least every second full-sized
    /// segment; the rest may wait for data to ride on.
    /// RFC 9293 SHLD-19; RFC 5681 §4.2-1, §4.2-4.
    fn owe_ack(&mut self, now: Instant, filled_gap: bool) {
        self.hot.dup_acks_due = 0;
        let pending = self.hot.rcv_nxt - self.hot.last_ack_sent;
        let two_segments = 2 * u32::from(self.hot.rcv_mss);
        let quick = self.hot.quick_acks > 0 && !self.options().delay_acks;
        if self.withholds_acks() {
            // One that was due for what came before would acknowledge this, too.
            self.unmark_ack();
            self.delay_ack(now, WITHHELD_ACK);
        } else if filled_gap || quick || pending >= two_segments {
            self.mark_ack();
        } else {
            self.delay_ack(now, self.sh.config.delayed_ack);
        }
    }

    /// Whether another stack may have to go on with the connection, which the peer helps by sending again what was not acknowledged.
    fn withholds_acks(&self) -> bool {
        self.has(Flags::BACKLOG) && self.sh.config.bequeaths()
    }

    /// There is one that the peer does not get yet.
    pub fn has_withheld_ack(&self) -> bool {
        // Rarely both: then nothing else is looked at.
        let both = Flags::BACKLOG | Flags::ACK_DELAYED;
        self.hot.flags.contains(both) && self.withholds_acks()
    }

    /// The connection is about to be accepted, and stays here.
    pub fn release_withheld_ack(&mut self, now: Instant) {
        if self.has_withheld_ack() {
            self.clear(Flags::ACK_DELAYED | Flags::BACKLOG);
            self.owe_ack(now, false);
        }
    }

    /// RFC 9293 SHLD-18; RFC 5681 §4.2-2, §4.2-6.
    fn delay_ack(&mut self, now: Instant, delay: Duration) {
        if self.has(Flags::ACK_NOW | Flags::ACK_DELAYED) {
            return;
        }
        let at = now + delay;
        self.hot.ack_at = at.as_nanos().div_ceil(1_000_000) as u32;
        self.set(Flags::ACK_DELAYED);
        self.wake_at(near(now, self.hot.ack_at));
    }

    /// Notes that a segment came. After a silence longer than the RTO the peer is in slow start again: ACKs without delay help it.
    pub fn note_arrival(&mut self, now: Instant) {
        let millis = now.as_millis() as u32;
        let silence = millis.wrapping_sub(self.hot.last_received);
        if silence > self.hot.loss.rtt.rto_millis() {
            self.hot.quick_acks = self.hot.quick_acks.max(self.sh.config.quick_acks);
        }
        self.hot.last_received = millis;
        self.cold.keepalive_probes = 0;
    }

    /// Eighth, check the FIN bit. A FIN beyond a gap is remembered until the gap is filled.
    pub fn process_fin(&mut self, seg: &Segment<'_>) -> Step {
        if seg.has(TcpFlags::FIN) && self.hot.state.may_receive() {
            let fin = seg.data_seq() + seg.payload_len();
            if !self.has(Flags::PEER_FIN) {
                self.note_fin(fin);
            }
            // Each time it comes, as for data (RFC 5681 §4.2): the peer learns what is missing from the answer.
            if seg.payload.is_empty() && fin > self.hot.rcv_nxt {
                self.owe_duplicate_ack();
            }
        }
        if self.has(Flags::PEER_FIN) && self.hot.rcv_nxt == self.cold.peer_fin {
            self.take_fin();
        }
        Ok(())
    }

    /// Not if data was received from beyond it: one of the two is a lie, and RCV.NXT could pass the FIN by.
    fn note_fin(&mut self, fin: SeqNumber) {
        let edge = self.hot.rcv_adv;
        let is_last = self.first_held(fin, edge).is_none();
        if fin >= self.hot.rcv_nxt && fin <= edge && is_last {
            self.cold.peer_fin = fin;
            self.set(Flags::PEER_FIN);
        }
    }

    /// The peer's FIN is next: "advance RCV.NXT over the FIN, and send an acknowledgment for the FIN".
    fn take_fin(&mut self) {
        self.clear(Flags::PEER_FIN);
        self.forget_held();
        self.hot.rcv_nxt += 1;
        self.hot.rcv_adv = self.hot.rcv_adv.max(self.hot.rcv_nxt);
        self.hot.dup_acks_due = 0;
        self.mark_ack();
        self.add_status(Status::EOF);
        self.notify(Ready::EOF | Ready::READABLE);
        match self.hot.state {
            State::SynReceived | State::Established => self.hot.state = State::CloseWait,
            // Our FIN is not acknowledged, or this would be FIN_WAIT_2.
            State::FinWait1 => self.hot.state = State::Closing,
            State::FinWait2 => self.enter_time_wait(),
            _ => {}
        }
    }
}
