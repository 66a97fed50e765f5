//! How a connection opens: SYN_SENT (RFC 9293 §3.10.7.3), the SYN_RECEIVED of a simultaneous open,
//! and Fast Open (RFC 7413): the data of a SYN is delivered before the handshake is complete, or
//! the first bytes go with the SYN, if the server's cookie is known.

use wire::seq::SeqNumber;
use wire::tcp::{TcpFlags, TcpOptions};
use wire::time::Instant;

use crate::drops::DropReason;
use crate::error::Error;
use crate::event::Ready;
use crate::info::State;
use crate::tcp::conn::Conn;
use crate::tcp::emit::fill_syn_options;
use crate::tcp::flags::Flags;
use crate::tcp::open::synchronize;
use crate::tcp::options::Agreed;
use crate::tcp::segment::Segment;
use crate::tcp::setup::{FastOpen, HalfOpen, Listeners, OpenActions, Options};
use crate::tcp::step::{Step, Stop};

impl Conn<'_> {
    /// If the state is SYN-SENT, then ...
    pub fn on_segment_syn_sent(&mut self, now: Instant, seg: &Segment<'_>) -> Step {
        self.cold.statistics.on_arrival(seg);
        // First, check the ACK bit: only our SYN can have been acknowledged.
        if seg.has(TcpFlags::ACK) && !self.open_view().acknowledges_syn(seg) {
            let actions = self.open().on_foreign_ack(seg);
            self.carry_out_opened(now, seg, actions);
            return Err(DropReason::TcpAck.into());
        }
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
            // "Otherwise, enter SYN-RECEIVED, form a SYN,ACK segment and send it". Text in the SYN
            // comes again. RFC 9293 MUST-10, MUST-11.
            self.hot.state = State::SynReceived;
            self.repeat_syn();
            Ok(())
        }
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
            self.cold.open.syn_repeated = true;
            self.repeat_syn();
        } else {
            self.fail(Error::Refused);
        }
        Err(Stop::Done)
    }

    /// Fourth, check the SYN bit.
    fn take_syn(&mut self, now: Instant, seg: &Segment<'_>) {
        let wscale = self.cold.open.wscale;
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
        let open = self.open_view();
        if open.is_repeated_syn(seg) {
            self.repeat_syn();
            return Err(Stop::Done);
        }
        if open.answers_our_syn(seg) {
            self.hot.state = State::SynSent;
            return self.on_segment_syn_sent(now, seg);
        }
        match open.without_repeated_syn(seg, self.hot.snd_wscale) {
            Some(seg) => {
                self.mark_ack();
                self.on_segment(now, &seg)
            }
            None => self.on_segment(now, seg),
        }
    }

    /// Does what a step of the set-up part asks for about `seg`.
    fn carry_out_opened(&mut self, now: Instant, seg: &Segment<'_>, actions: OpenActions) {
        if actions.contains(OpenActions::RESET) {
            self.sh.answer_with_reset(now, seg);
        }
        if actions.contains(OpenActions::FREE_RESET) {
            self.sh.reset(seg);
        }
        if actions.contains(OpenActions::SYN) {
            self.repeat_syn();
        }
    }

    /// Our SYN or SYN-ACK is due.
    pub fn repeat_syn(&mut self) {
        self.set(Flags::SYN_DUE);
        self.mark_output();
    }

    /// SYN_RECEIVED, with the data of the SYN delivered; our SYN-ACK is due.
    pub fn begin_fast(&mut self, now: Instant, iss: SeqNumber, seg: &Segment<'_>) {
        self.hot.snd.una = iss;
        self.hot.snd.nxt = iss;
        self.set(Flags::SYN_DUE);
        self.start_windows(now);
        self.greet();
        self.mark_output();
        let len = seg.payload_len().min(self.hot.rcv_wnd()) as usize;
        let Some(bytes) = seg.payload.get(..len).filter(|bytes| !bytes.is_empty()) else {
            return;
        };
        match self.take_text(now, seg.data_seq(), bytes) {
            Ok(()) => self.cold.statistics.syn_data = true,
            Err(stop) => self.sh.count(stop),
        }
    }

    /// The SYN is due, or waits for the first bytes.
    pub fn begin_active(&mut self, now: Instant) {
        let wants = self.options().fast_open_connect;
        if self.open().begin(now, wants) {
            self.repeat_syn();
        } else {
            self.notify(Ready::WRITABLE);
        }
    }

    /// The application wrote, or will not: the SYN waits no longer.
    pub fn release_syn(&mut self) {
        if self.cold.open.release() {
            self.set(Flags::SYN_DUE);
        }
    }

    /// Bytes of data that go with the SYN.
    #[inline]
    pub fn syn_data_len(&self, now: Instant) -> u32 {
        let open = self.open_view();
        if !open.sends_data() {
            return 0;
        }
        let mut options = TcpOptions::default();
        fill_syn_options(self, now, false, &mut options);
        let room = open.room_beside_syn(self.cold.path.mtu, options.emitted_len() as u32);
        self.sh.streams.send_len(self.stream).min(room)
    }

    /// The SYN-ACK: what it acknowledges of the SYN's data has arrived, the rest goes again.
    pub fn on_fast_open_answer(&mut self, now: Instant, seg: &Segment<'_>) {
        let data = seg.ack - self.cold.iss - 1;
        if self.cold.open.fast_open != FastOpen::Off {
            self.cold.statistics.syn_data = data > 0;
            let mss = self.cold.peer_mss;
            self.open().learn(now, seg, data, mss);
        }
        self.release(data);
        self.hot.snd.una = seg.ack;
        self.hot.snd.nxt = seg.ack;
    }

    /// A connection opened by cookie is established, or over.
    pub fn leave_pending(&mut self, now: Instant, listeners: &mut Listeners) {
        if self.hot.state == State::SynReceived || !self.cold.open.is_pending() {
            return;
        }
        self.cold.open.fast_open = FastOpen::Off;
        let by_reset = self.cold.error == Some(Error::Reset);
        if let Some(listener) = listeners.at_mut(self.cold.listener) {
            listener.pending.leave(now, by_reset);
        }
    }

    /// Waits for the application.
    pub fn enter_backlog(&mut self, listeners: &mut Listeners) {
        self.sh.counters.accepts += 1;
        listeners.enter_backlog(self.cold.listener, &mut self.sh.queues.backlog, self.place);
    }

    /// The time from SYN-ACK to ACK (RFC 6298 §3).
    pub fn time_handshake(&mut self, now: Instant, record: &HalfOpen, seg: &Segment<'_>) {
        let again = record.has(Options::SENT_AGAIN);
        let mut loss = self.loss();
        if again || record.has(Options::SENT) {
            loss.time_handshake(now, record.sent_at, again);
        }
        loss.measure(now, seg);
    }
}
