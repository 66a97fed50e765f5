//! Active open: SYN_SENT (RFC 9293 §3.10.7.3) and the SYN_RECEIVED of a simultaneous open.

use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::drops::DropReason;
use crate::error::Error;
use crate::info::State;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;
use crate::tcp::open::synchronize;
use crate::tcp::options::Agreed;
use crate::tcp::segment::Segment;
use crate::tcp::step::{Step, Stop};

impl Conn<'_> {
    /// If the state is SYN-SENT, then ...
    pub fn on_segment_syn_sent(&mut self, now: Instant, seg: &Segment<'_>) -> Step {
        self.cold.statistics.on_arrival(seg);
        self.check_ack_of_syn(now, seg)?;
        self.check_rst_of_syn(seg)?;
        // "Fifth, if neither of the SYN or RST bits is set, then drop the segment and return."
        if !seg.has(TcpFlags::SYN) {
            return Err(DropReason::TcpState.into());
        }
        self.take_syn(now, seg);
        if seg.has(TcpFlags::ACK) {
            self.ecn().agree(seg);
            self.complete_active_open(now, seg);
            self.process_data(now, seg)?;
            self.process_fin(now, seg)
        } else {
            self.become_simultaneous();
            Ok(())
        }
    }

    /// First, check the ACK bit: only our SYN can have been acknowledged.
    ///
    /// An ACK that cannot be for us is what a peer sends that still has an earlier connection
    /// between the same endpoints (in TIME_WAIT, or half-open: RFC 9293 §3.5.1, figure 9). The RST
    /// ends that one; a SYN right behind it, once, spares us the time-out. This first RST is not
    /// counted: a client that opens very many connections would wait for its time-outs otherwise,
    /// and nobody can have more of them sent than SYNs.
    fn check_ack_of_syn(&mut self, now: Instant, seg: &Segment<'_>) -> Step {
        if !seg.has(TcpFlags::ACK) || (seg.ack > self.cold.iss && seg.ack <= self.hot.snd.nxt) {
            return Ok(());
        }
        if self.cold.syn_repeated || seg.has(TcpFlags::RST) {
            self.sh.answer_with_reset(now, seg);
        } else {
            self.sh.reset(seg);
            self.cold.syn_repeated = true;
            self.set(Flags::SYN_DUE);
            self.mark_output();
        }
        Err(DropReason::TcpAck.into())
    }

    /// Second, check the RST bit. Without an acceptable ACK anybody could have sent it.
    /// RFC 5961 §3.2-5.
    fn check_rst_of_syn(&mut self, seg: &Segment<'_>) -> Step {
        if !seg.has(TcpFlags::RST) {
            return Ok(());
        }
        if !seg.has(TcpFlags::ACK) {
            return Err(DropReason::TcpReset.into());
        }
        self.sh.counters.resets_in += 1;
        if self.cold.ecn.stop_asking() {
            self.cold.syn_repeated = true;
            self.set(Flags::SYN_DUE);
            self.mark_output();
        } else {
            self.fail(Error::Refused);
        }
        Err(Stop::Done)
    }

    /// Fourth, check the SYN bit.
    fn take_syn(&mut self, now: Instant, seg: &Segment<'_>) {
        let wscale = self.cold.offer_wscale;
        let is_ipv4 = self.key.is_ipv4();
        let agreed = Agreed::new(&self.sh.config, wscale, seg.options, is_ipv4);
        let config = &self.sh.config;
        let options = self.sh.options.at(self.cold.options);
        let (hot, cold) = (&mut *self.hot, &mut *self.cold);
        synchronize(config, hot, cold, options, seg.seq, &agreed, is_ipv4);
        if let Some(stamps) = seg.options.timestamps {
            self.hot.ts_recent = stamps.tsval;
        }
        self.hot.snd.take_window(seg, 0);
        self.hot.last_received = now.as_millis() as u32;
    }

    /// "If SND.UNA > ISS (our SYN has been ACKed), change the connection state to ESTABLISHED".
    fn complete_active_open(&mut self, now: Instant, seg: &Segment<'_>) {
        self.acknowledge_syn(now, seg);
        self.on_fast_open_answer(now, seg);
        self.mark_ack();
        self.establish(now);
    }

    /// Our SYN is acknowledged: nothing is in flight any more.
    fn acknowledge_syn(&mut self, now: Instant, seg: &Segment<'_>) {
        let una = self.cold.iss + 1;
        self.loss().on_syn_acked(now, seg, una);
        self.hot.snd.una = una;
        self.clear(Flags::SYN_DUE);
    }

    /// "Otherwise, enter SYN-RECEIVED, form a SYN,ACK segment and send it". Text in the SYN comes
    /// again. RFC 9293 MUST-10, MUST-11.
    fn become_simultaneous(&mut self) {
        self.hot.state = State::SynReceived;
        self.set(Flags::SYN_DUE);
        self.mark_output();
    }

    /// Fifth of RFC 9293 §3.10.7.4 in SYN-RECEIVED: "If SND.UNA < SEG.ACK =< SND.NXT, then enter
    /// ESTABLISHED state".
    pub fn complete_simultaneous_open(&mut self, now: Instant, seg: &Segment<'_>) -> Step {
        if seg.ack <= self.hot.snd.una || seg.ack > self.hot.snd.nxt {
            self.sh.answer_with_reset(now, seg);
            return Err(DropReason::TcpAck.into());
        }
        self.acknowledge_syn(now, seg);
        self.hot.snd.take_window(seg, self.hot.snd_wscale);
        self.establish(now);
        if self.hot.flight() > 0 {
            // Data went before the handshake was complete (RFC 7413 §4.2.2).
            self.start_rtx_timer(now);
        }
        Ok(())
    }

    /// SYN_RECEIVED of a simultaneous open, or of one by Fast Open.
    pub fn on_segment_syn_received(&mut self, now: Instant, seg: &Segment<'_>) -> Step {
        let is_syn = seg.has(TcpFlags::SYN) && !seg.has(TcpFlags::ACK | TcpFlags::RST);
        if is_syn && seg.seq == self.cold.irs && self.may_send_early() {
            // The client did not get our SYN-ACK: again.
            self.set(Flags::SYN_DUE);
            self.mark_output();
            return Err(Stop::Done);
        }
        if self.answers_our_syn(seg) {
            self.hot.state = State::SynSent;
            return self.on_segment_syn_sent(now, seg);
        }
        let seg = self.strip_repeated_syn(seg);
        self.on_segment(now, &seg)
    }

    /// In a simultaneous open, the SYN-ACK of somebody else than whose SYN came first. A SYN
    /// anybody can send who knows the addresses; but who acknowledges ours has seen it.
    /// (RFC 9293 §3.10.7.4 would have both of us answer until one sends a RST.)
    fn answers_our_syn(&self, seg: &Segment<'_>) -> bool {
        let is_answer =
            seg.flags.contains(TcpFlags::SYN | TcpFlags::ACK) && !seg.has(TcpFlags::RST);
        let acknowledges = seg.ack > self.cold.iss && seg.ack <= self.hot.snd.nxt;
        is_answer && acknowledges && seg.seq != self.cold.irs && !self.may_send_early()
    }

    /// In a simultaneous open the SYN-ACK repeats the peer's SYN, which is left of the window by
    /// then. What counts is its ACK (RFC 9293 figure 8, lines 5 and 6).
    fn strip_repeated_syn<'a>(&mut self, seg: &Segment<'a>) -> Segment<'a> {
        let mut seg = *seg;
        let repeats = seg.flags.contains(TcpFlags::SYN | TcpFlags::ACK) && seg.seq == self.cold.irs;
        if repeats && self.hot.state == State::SynReceived {
            seg.seq += 1;
            seg.flags.remove(TcpFlags::SYN);
            // Its window is not scaled: leave it alone until the next segment.
            seg.window >>= self.hot.snd_wscale.min(15);
            self.mark_ack();
        }
        seg
    }
}
