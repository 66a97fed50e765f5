//! The ACK field (RFC 9293 §3.10.7.4, fifth): what it acknowledges, the window it offers, the
//! round-trip time it measures.

use std::time::Duration;

use ring::stream::Status;
use wire::tcp::{TcpFlags, TcpHeader};
use wire::time::Instant;

use crate::drops::DropReason;
use crate::event::Ready;
use crate::info::State;
use crate::tcp::conn::Conn;
use crate::tcp::ecn::EcnActions;
use crate::tcp::emit::fill_header;
use crate::tcp::flags::Flags;
use crate::tcp::loss::{Acked, Before};
use crate::tcp::segment::Segment;
use crate::tcp::send::PathTimes;
use crate::tcp::step::{Step, Stop};
use crate::tcp::timers::start_cold_timers;

impl Conn<'_> {
    /// Fifth, check the ACK field.
    pub fn process_ack(&mut self, now: Instant, seg: &Segment<'_>) -> Step {
        if !seg.has(TcpFlags::ACK) {
            return Err(DropReason::TcpState.into());
        }
        if self.hot.state == State::SynReceived {
            self.complete_simultaneous_open(now, seg)?;
        }
        self.check_ack(now, seg)?;
        // Not before: its ACK gives a forged segment away (RFC 5961 §5.2). Its mark would be
        // echoed, its arrival would pass for a sign of life, and its timestamp would have PAWS drop
        // the real ones.
        self.note_arrival(now);
        self.receive_marks(now, seg);
        self.hot.update_ts_recent(seg);
        self.process_progress(now, seg);
        self.update_window(now, seg);
        self.after_ack(now);
        if self.hot.state.is_over() {
            return Err(Stop::Done);
        }
        Ok(())
    }

    /// What it says of the segments in flight: arrived, lost, or late.
    fn process_progress(&mut self, now: Instant, seg: &Segment<'_>) {
        let rate = self.begin_rate_sample();
        let report = self.loss().begin_ack(now, seg);
        let actions = self.ecn().on_ack(seg, report.news);
        if actions.contains(EcnActions::REDUCE) {
            self.obey_marks(now);
        }
        let actions = self.loss().review(now, seg, report.news);
        self.carry_out(actions);
        let advances = seg.ack > self.hot.snd.una;
        if advances {
            self.on_ack_advance(now, seg);
            if self.cold.search.is_suspected() {
                self.path().confirm(now);
            }
        } else if seg.ack == self.hot.snd.una {
            let window = u32::from(seg.window) << self.hot.snd_wscale;
            let same_window = window == self.hot.snd.wnd;
            let loss = self.loss();
            let actions = loss.on_possible_duplicate(now, seg, report.news, same_window);
            self.carry_out(actions);
        }
        let probe = self.cold.search.probe();
        let actions = self.loss().finish_ack(now, &report, advances, probe);
        self.carry_out(actions);
        self.finish_rate_sample(now, rate);
    }

    /// The receiver's half of ECN: an acceptable segment says whether it met congestion.
    pub fn receive_marks(&mut self, now: Instant, seg: &Segment<'_>) {
        let is_wanted = self.cold.loss.congestion.wants_ecn();
        if self.cold.ecn.ends_run(seg, is_wanted) {
            self.acknowledge_run(now);
        }
        let actions = self.ecn().receive(seg);
        if actions.contains(EcnActions::ACK) {
            self.mark_ack();
        }
    }

    /// Acknowledges what came before the segment that is being processed, if that is still to be
    /// acknowledged and no ACK is withheld.
    #[cold]
    fn acknowledge_run(&mut self, now: Instant) {
        if self.hot.rcv.has_unacknowledged() && !self.receive_view().has_withheld_ack() {
            let plan = self.send_view().ack();
            let mut header = TcpHeader::default();
            fill_header(self, now, &plan, &mut header);
            self.sh.send_bare(self.key, &header);
            self.hot.rcv.last_ack_sent = self.hot.rcv.nxt;
        }
    }

    /// The ACK reports congestion that the sender has to react to. A window of one segment cannot
    /// shrink: the rate does. The next segment waits for as long as the retransmission timer would,
    /// twice as long each time in a row.
    /// RFC 3168 §6.1.2-4; RFC 9438 §4.6-5.
    #[cold]
    fn obey_marks(&mut self, now: Instant) {
        let flight = self.hot.flight();
        let is_least = self.loss().congestion().on_marks(flight);
        self.ecn().on_obeyed();
        if is_least {
            let holds = self.cold.ecn.next_hold();
            self.loss().congestion().hold_back(now, holds);
        }
    }

    /// An ACK is about to be processed. `None`: the algorithm has no use for rates.
    #[inline(always)]
    pub fn begin_rate_sample(&mut self) -> Option<Before> {
        self.cold.loss.rate.newest = None;
        self.cold.loss.rate.log.get()?;
        self.look_before()
    }

    #[inline(never)]
    fn look_before(&mut self) -> Option<Before> {
        let has_more = self.send_view().has_unsent() || self.loss_view().has_lost();
        self.loss().sampler().begin(has_more)
    }

    /// An ACK has been processed: what it says about the path.
    #[inline(always)]
    pub fn finish_rate_sample(&mut self, now: Instant, before: Option<Before>) {
        if let Some(before) = before {
            self.tell_rate(now, before);
        }
    }

    #[inline(never)]
    fn tell_rate(&mut self, now: Instant, before: Before) {
        let rtt = self.loss_view().rtt_of_newest(now);
        self.loss().sampler().finish(now, before, rtt);
    }

    /// RFC 5961 §5.2: an ACK is acceptable from SND.UNA - MAX.SND.WND to SND.NXT. On a young
    /// connection the window reaches back beyond the ISS, to what can never have been acknowledged.
    /// RFC 9293 MAY-12; RFC 5961 §5.2-1.
    fn check_ack(&mut self, now: Instant, seg: &Segment<'_>) -> Step {
        let ever = u32::try_from(self.cold.statistics.bytes_acked).unwrap_or(u32::MAX);
        let oldest = self.hot.snd.una - self.hot.snd.max_wnd.min(ever.saturating_add(1));
        // What the process had sent when it ended, and had not come to note.
        if seg.ack > self.hot.snd.nxt && self.is_orphan() && seg.ack <= self.hot.snd.fin_seq + 1 {
            self.hot.snd.nxt = seg.ack;
        }
        if seg.ack >= oldest && seg.ack <= self.hot.snd.nxt {
            return Ok(());
        }
        self.challenge(now);
        Err(DropReason::TcpAck.into())
    }

    /// SND.UNA < SEG.ACK =< SND.NXT.
    /// RFC 6298 §5-3, §5-4.
    /// RFC 6582 §3.2-5.
    #[inline]
    pub fn on_ack_advance(&mut self, now: Instant, seg: &Segment<'_>) {
        let acked = seg.ack - self.hot.snd.una;
        let flight = self.hot.flight();
        let fin = self.has(Flags::FIN_QUEUED) && seg.ack > self.hot.snd.fin_seq;
        self.release(acked - u32::from(fin));
        if self.hot.retries > 0 {
            self.hot.retries = 0;
            self.cold.statistics.end_timeouts(now);
        }
        self.cold.snd.una_since = now;
        self.set(Flags::PROGRESS);
        // What this ACK acknowledges was sent in the mode there was before it.
        let mode = self.hot.flags;
        if self.loss_view().is_usual(seg.ack) {
            self.loss().on_usual_advance(now, seg);
            self.hot.snd.una = seg.ack;
        } else {
            self.on_unusual_advance(now, seg);
        }
        if !mode.contains(Flags::RECOVERY) {
            let ack = Acked {
                acked,
                flight,
                marked: self.cold.ecn.take_marked(acked),
                after_timeout: mode.contains(Flags::LOSS),
            };
            self.loss().control_congestion(now, &ack);
            if self.sh.loss.pacing {
                self.repace();
            }
            let cwnd = self.hot.loss.window.cwnd;
            if self.cold.snd.may_want_more(cwnd, self.sh.near) {
                self.raise_send_limit();
            }
        }
        if self.hot.snd.una == self.hot.snd.nxt {
            self.loss().timers().stop_rtx_timer();
        } else {
            let to_send = self.sh.streams.send_len(self.stream);
            let mut loss = self.loss();
            loss.restart_timers(now, to_send);
            let actions = loss.actions;
            self.carry_out(actions);
        }
    }

    #[inline(never)]
    fn on_unusual_advance(&mut self, now: Instant, seg: &Segment<'_>) {
        let actions = self.loss().on_advance(now, seg);
        self.hot.snd.una = seg.ack;
        self.carry_out(actions);
    }

    /// The congestion window may have grown: more may be written ahead.
    #[cold]
    fn raise_send_limit(&mut self) {
        let cwnd = self.hot.loss.window.cwnd;
        let loss = &self.cold.loss;
        let path = PathTimes {
            shortest: Duration::from_micros(loss.min_rtt.micros().into()),
            srtt: self.hot.loss.rtt.srtt(),
            flight: loss.fill.flight,
            near: self.sh.near,
        };
        let mut send = self.send_part();
        send.raise_limit(cwnd, &path);
        let actions = send.actions;
        self.carry_out_sent(actions);
    }

    #[inline(never)]
    fn repace(&mut self) {
        self.loss().congestion().pace();
    }

    #[inline(never)]
    pub fn on_ack_of_tail_probe(&mut self, now: Instant, seg: &Segment<'_>) {
        let actions = self.loss().on_ack_of_tail_probe(now, seg);
        self.carry_out(actions);
    }

    /// RFC 9293 §3.10.7.4: SND.WND moves only with newer segments. What the ACK or the window let
    /// go is sent.
    pub fn update_window(&mut self, now: Instant, seg: &Segment<'_>) {
        if seg.ack < self.hot.snd.una {
            return;
        }
        if self.hot.snd.is_newer(seg) {
            self.move_window(now, seg);
        }
        self.mark_if_more();
    }

    fn move_window(&mut self, now: Instant, seg: &Segment<'_>) {
        self.hot.snd.take_window(seg, self.hot.snd_wscale);
        // A probe that is answered is not a time-out (RFC 9293 §3.8.6.1: the connection stays open
        // while the peer answers).
        if self.has(Flags::PERSIST) {
            self.hot.retries = 0;
            if self.hot.snd.wnd > 0 {
                self.leave_persist(now);
            }
        }
    }

    /// The window opened: what probes carried was never taken, so it counts as lost.
    fn leave_persist(&mut self, now: Instant) {
        self.loss().timers().stop_rtx_timer();
        self.hot.loss.backoff = 0;
        if self.hot.flight() > 0 {
            self.go_back(now);
            self.start_rtx_timer(now);
        }
    }

    /// Has `transmit` look, if there is anything that an ACK may have let go.
    fn mark_if_more(&mut self) {
        if self.send_view().has_more() || self.loss_view().has_lost() {
            self.mark_output();
        }
    }

    /// What the acknowledgment of our FIN means in each state.
    fn after_ack(&mut self, now: Instant) {
        if !self.send_view().fin_acked() {
            return;
        }
        match self.hot.state {
            State::FinWait1 => {
                self.hot.state = State::FinWait2;
                self.notify(Ready::DRAINED);
                self.start_fin_wait_2(now);
            }
            State::Closing => {
                self.notify(Ready::DRAINED);
                self.finish(State::TimeWait);
            }
            State::LastAck => {
                self.notify(Ready::DRAINED);
                self.finish(State::Closed);
            }
            _ => {}
        }
    }

    /// The handshake is complete.
    pub fn establish(&mut self, now: Instant) {
        self.hot.state = State::Established;
        if !self.sh.net.paths.is_empty() {
            self.path().adopt(now);
        }
        self.cold.snd.una_since = now;
        self.start_windows(now);
        self.greet();
        if self.has(Flags::FIN_QUEUED) {
            self.hot.state = State::FinWait1;
        }
        if self.options().unsent_low_water.is_some() {
            self.bound_unsent();
        }
        start_cold_timers(self, now);
        self.mark_if_more();
    }

    /// The application may read and write.
    pub fn greet(&mut self) {
        self.add_status(Status::CONNECTED);
        self.notify(Ready::CONNECTED | Ready::WRITABLE);
    }

    /// The windows and the RTO of a connection that has just been established.
    pub fn start_windows(&mut self, now: Instant) {
        let syn_lost = self.has(Flags::SYN_RETRANSMITTED);
        self.hot.retries = 0;
        self.cold.statistics.end_timeouts(now);
        self.loss().congestion().start_windows(now, syn_lost);
    }
}
