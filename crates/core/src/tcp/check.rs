//! The checks that come before a segment is believed (RFC 9293 §3.10.7.4 first to fourth,
//! RFC 7323 §5, RFC 5961).

use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::drops::DropReason;
use crate::error::Error;
use crate::info::State;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;
use crate::tcp::segment::Segment;
use crate::tcp::step::{Step, Stop};

/// RFC 7323 §5.5: a TS.Recent older than 24 days says nothing any more.
const TS_RECENT_LIFETIME_MS: u32 = 24 * 24 * 3600 * 1000;

impl Conn<'_> {
    /// PAWS (RFC 7323 §5.3 R1). A segment without timestamps on a connection that has them is
    /// taken: §3.2 says that it SHOULD be dropped, but middleboxes strip options, and dropping
    /// kills the connection. RFC 7323 §3.2-8, §3.2-9, §5.2-3, §5.3-1, §5.3-5.
    pub fn check_timestamp(&mut self, now: Instant, seg: &Segment<'_>) -> Step {
        let Some(stamps) = seg.options.timestamps else {
            return Ok(());
        };
        if !self.has(Flags::TIMESTAMPS) || seg.has(TcpFlags::RST) {
            return Ok(());
        }
        let is_old = (stamps.tsval.wrapping_sub(self.hot.ts_recent) as i32) < 0;
        if !is_old || self.ts_recent_is_stale(now) {
            return Ok(());
        }
        self.acknowledge_unacceptable(now, seg);
        Err(DropReason::TcpPaws.into())
    }

    /// RFC 7323 §5.5-1.
    fn ts_recent_is_stale(&self, now: Instant) -> bool {
        let age = (now.as_millis() as u32).wrapping_sub(self.hot.last_received);
        age > TS_RECENT_LIFETIME_MS
    }

    /// First, check the sequence number.
    /// RFC 7323 §5.3-2, §5.3-4.
    pub fn check_sequence(&mut self, now: Instant, seg: &Segment<'_>) -> Step {
        if self.is_acceptable(seg) {
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

    /// RFC 9293 §3.10.7.4, the table of four cases.
    fn is_acceptable(&self, seg: &Segment<'_>) -> bool {
        let hot = &*self.hot;
        let in_window = |seq| seq >= hot.rcv.nxt && seq < hot.rcv.adv;
        match (seg.len(), hot.rcv_wnd()) {
            (0, 0) => seg.seq == hot.rcv.nxt,
            (0, _) => in_window(seg.seq),
            // "Special allowance should be made to accept valid ACKs, URGs, and RSTs": the text is
            // cut off later.
            (_, 0) => seg.seq == hot.rcv.nxt,
            (len, _) => in_window(seg.seq) || in_window(seg.seq + (len - 1)),
        }
    }

    /// Second, check the RST bit, as RFC 5961 §3.2 has it.
    /// RFC 9293 MUST-66; RFC 5961 §3.2-1, §3.2-2, §3.2-3, §3.2-4; RFC 7323 §5.2-4.
    pub fn check_rst(&mut self, now: Instant, seg: &Segment<'_>) -> Step {
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
            State::SynReceived if !self.may_send_early() => self.fail(Error::Refused),
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
    pub fn check_syn(&mut self, now: Instant, seg: &Segment<'_>) -> Step {
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

    /// RFC 7323 §4.3 (2): SEG.TSval >= TS.Recent and SEG.SEQ <= Last.ACK.sent.
    /// RFC 7323 §4.3-1, §4.3-3, §4.3-4, §4.3-5, §5.3-3.
    pub fn update_ts_recent(&mut self, seg: &Segment<'_>) {
        if let Some(stamps) = seg.options.timestamps
            && self.has(Flags::TIMESTAMPS)
            && seg.seq <= self.hot.rcv.last_ack_sent
        {
            self.hot.ts_recent = stamps.tsval;
        }
    }

    /// A challenge ACK, unless there were too many, or none may be sent.
    /// RFC 5961 §7-1.
    pub fn challenge(&mut self, now: Instant) {
        if self.receive_view().has_withheld_ack() {
            return;
        }
        if self.sh.may_challenge_by(now, &mut self.cold.challenges) {
            self.sh.counters.challenge_acks += 1;
            self.mark_ack();
        } else {
            self.sh.counters.drop(DropReason::ReplyLimited);
        }
    }

    /// The answer to a segment that is not acceptable. Retransmitted data and keepalive probes
    /// always get one; anything else could be forged, or the peer answering our answer, and is
    /// limited.
    pub fn acknowledge_unacceptable(&mut self, now: Instant, seg: &Segment<'_>) {
        let is_keepalive = seg.seq + 1 == self.hot.rcv.nxt && !seg.has(TcpFlags::SYN);
        let challenges = &mut self.cold.challenges;
        if !seg.payload.is_empty() || is_keepalive || self.sh.may_challenge_by(now, challenges) {
            self.mark_ack();
        } else {
            self.sh.counters.drop(DropReason::ReplyLimited);
        }
    }
}
