//! The ACK field (RFC 9293 §3.10.7.4, fifth): what it acknowledges, the window it offers, the round-trip time it measures.

use std::time::Duration;

use ring::stream::Status;
use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::cc::AckSample;
use crate::drops::Drop;
use crate::event::Ready;
use crate::info::State;
use crate::tcp::conn::{Conn, Step, Stop};
use crate::tcp::segment::Segment;
use crate::tcp::tcb::Flags;

/// A timestamp echo that claims a longer round trip is not ours.
const MAX_ECHO_AGE_MS: u32 = 60 * 60 * 1000;

impl Conn<'_> {
    /// Fifth, check the ACK field.
    pub fn process_ack(&mut self, now: Instant, seg: &Segment<'_>) -> Step {
        if !seg.has(TcpFlags::ACK) {
            return Err(Drop::TcpState.into());
        }
        if self.hot.state == State::SynReceived {
            self.complete_simultaneous_open(now, seg)?;
        }
        self.check_ack(now, seg)?;
        // Not before: its ACK gives a forged segment away (RFC 5961 §5.2). Its mark would be echoed, its arrival would pass for a sign of
        // life, and its timestamp would have PAWS drop the real ones.
        self.note_arrival(now);
        self.receive_marks(now, seg);
        self.update_ts_recent(seg);
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
        let began = !self.has(Flags::RECOVERY);
        let rate = self.begin_rate_sample();
        let before = self.delivered_so_far();
        let news = self.process_sack(now, seg);
        self.process_ecn(now, seg, news);
        let duplicate = self.reported_duplicate(seg);
        if let Some(report) = duplicate {
            self.on_spurious_retransmission();
            self.on_duplicate_report(now, seg, report);
        }
        self.review_loss(now, seg, news);
        self.on_ack_of_tail_probe(now, seg, duplicate);
        let advances = seg.ack > self.hot.snd_una;
        if advances {
            self.on_ack_advance(now, seg);
            self.confirm_path(now);
        } else if seg.ack == self.hot.snd_una {
            self.on_possible_duplicate(now, seg, news);
        }
        let found_lost = self.detect_losses(now);
        let delivered = self.delivered_so_far() - before;
        self.apply_prr(began, delivered, advances && !found_lost);
        self.finish_rate_sample(now, rate);
    }

    /// RFC 5961 §5.2: an ACK is acceptable from SND.UNA - MAX.SND.WND to SND.NXT. On a young connection the window reaches back beyond the
    /// ISS, to what can never have been acknowledged.
    /// RFC 9293 MAY-12; RFC 5961 §5.2-1.
    fn check_ack(&mut self, now: Instant, seg: &Segment<'_>) -> Step {
        let ever = u32::try_from(self.cold.tally.bytes_acked).unwrap_or(u32::MAX);
        let oldest = self.hot.snd_una - self.hot.max_snd_wnd.min(ever.saturating_add(1));
        // What the process had sent when it ended, and had not come to note.
        if seg.ack > self.hot.snd_nxt && self.is_orphan() && seg.ack <= self.hot.fin_seq + 1 {
            self.hot.snd_nxt = seg.ack;
        }
        if seg.ack >= oldest && seg.ack <= self.hot.snd_nxt {
            return Ok(());
        }
        self.challenge(now);
        Err(Drop::TcpAck.into())
    }

    /// SND.UNA < SEG.ACK =< SND.NXT.
    pub fn on_ack_advance(&mut self, now: Instant, seg: &Segment<'_>) {
        let acked = seg.ack - self.hot.snd_una;
        let flight = self.hot.flight();
        let fin = self.has(Flags::FIN_QUEUED) && seg.ack > self.hot.fin_seq;
        self.release(acked - u32::from(fin));
        self.count_delivered(now, seg);
        self.advance_snd_una(now, seg);
        if self.hot.retries > 0 {
            self.hot.retries = 0;
            self.cold.tally.end_timeouts(now);
        }
        self.cold.una_since = now;
        self.set(Flags::PROGRESS);
        self.measure(now, seg);
        // What this ACK acknowledges was sent in the mode there was before it.
        let mode = self.hot.flags;
        self.on_progress(now, acked);
        if !mode.contains(Flags::RECOVERY) {
            self.control_congestion(now, acked, flight, mode.contains(Flags::LOSS));
        }
        // RFC 6298 §5-3, §5-4.
        // RFC 6582 §3.2-5.
        if self.hot.snd_una == self.hot.snd_nxt {
            self.stop_rtx_timer();
        } else {
            self.restart_rtx_timer(now);
            self.schedule_tail_probe(now);
        }
    }

    /// What was SACKed before counts only once.
    fn count_delivered(&mut self, now: Instant, seg: &Segment<'_>) {
        let una = self.hot.snd_una;
        let sacked = self.scoreboard().map_or(0, |set| set.covered(una, seg.ack));
        self.note_delivered(now, (seg.ack - una).saturating_sub(sacked));
    }

    fn advance_snd_una(&mut self, now: Instant, seg: &Segment<'_>) {
        if self.has(Flags::SENT_LOG) {
            self.on_delivered(now, seg, self.hot.snd_una, seg.ack);
        } else {
            self.note_newest(self.cold.flight_at);
        }
        self.hot.snd_una = seg.ack;
        if self.hot.snd_una == self.hot.snd_nxt {
            self.forget_sent_log();
        } else if self.has(Flags::SENT_LOG)
            && let Some(log) = self.sent_log_mut()
        {
            log.trim(seg.ack);
        }
    }

    /// Gives acknowledged bytes back to the application. Of a SYN or FIN alone there are none: whether room is waited for need not be asked,
    /// which takes a fence.
    /// RFC 2018 §8-1; RFC 6675 §4-5.
    pub fn release(&mut self, bytes: u32) {
        if bytes == 0 {
            return;
        }
        self.sh.streams.consume(self.slot, bytes);
        self.cold.tally.bytes_acked += u64::from(bytes);
        if self.sh.streams.app_wants_space(self.slot) {
            self.notify(Ready::WRITABLE);
        }
    }

    fn control_congestion(&mut self, now: Instant, acked: u32, flight: u32, after_timeout: bool) {
        let sample = AckSample {
            now,
            acked,
            marked: self.cold.ecn.take_marked(acked),
            flight: self.cold.fill.flight.max(flight),
            unfilled: self.unfilled(flight),
            mss: u32::from(self.hot.mss),
            srtt: self.hot.rtt.srtt(),
            rtt: self.rtt_of_newest(now),
            round_start: self.begins_round(),
            after_timeout,
        };
        self.cold.congestion.on_ack(&mut self.hot.window, &sample);
        if self.sh.config.pacing {
            self.pace();
        }
        self.tune_send_buffer();
    }

    /// What was left of the congestion window when the last data was sent, or is without it. That an ACK made room says nothing before there
    /// was an occasion to send: many ACKs may come in one burst.
    pub fn unfilled(&self, flight: u32) -> u32 {
        let without = self.hot.window.cwnd.saturating_sub(flight);
        self.cold.fill.room.min(without)
    }

    /// Rounds as RFC 9406 §4.2 and RFC 8257 §3.3 count them: each lasts until what was in flight when it began is acknowledged.
    fn begins_round(&mut self) -> bool {
        let begins = self.hot.snd_una >= self.cold.round_end;
        if begins {
            self.cold.round_end = self.hot.snd_nxt;
        }
        begins
    }

    /// RFC 6298 §3 (Karn): the timed segment was sent once. When everything timed was retransmitted, timestamps tell the copies apart
    /// (RFC 7323 §4.1); and while the RTO is backed off, any ACK that gets through with an echo ends that, without waiting for the segment
    /// that is being timed.
    /// RFC 9293 MUST-18; RFC 6298 §3-1; RFC 7323 §4.1-1.
    pub fn measure(&mut self, now: Instant, seg: &Segment<'_>) {
        let measured = if !self.has(Flags::TIMING) {
            self.echoed(now, seg)
        } else if seg.ack >= self.hot.rtt_seq {
            self.clear(Flags::TIMING);
            Some((now.as_micros() as u32).wrapping_sub(self.hot.rtt_at))
        } else {
            self.echoed(now, seg).filter(|_| self.hot.backoff > 0)
        };
        if let Some(micros) = measured {
            self.take_measurement(now, micros);
        }
    }

    /// The age of the timestamp echoed in µs, where it is needed: the clock ticks in milliseconds, so it is the poorer measure.
    /// RFC 7323 §3.2-3, §4.2-1.
    fn echoed(&self, now: Instant, seg: &Segment<'_>) -> Option<u32> {
        let needed = self.hot.backoff > 0 || !self.hot.rtt.is_known();
        let stamps = seg
            .options
            .timestamps
            .filter(|_| needed && self.has(Flags::TIMESTAMPS))?;
        // An echo from before the time-out is no measure: perhaps the data arrived in time and its ACK was lost, and what is answered now
        // is the copy (Karn).
        let since_timeout = stamps.tsecr.wrapping_sub(self.cold.timeout_stamp) as i32;
        if self.hot.backoff > 0 && since_timeout < 0 {
            return None;
        }
        let age = self.tsval(now).wrapping_sub(stamps.tsecr);
        (age < MAX_ECHO_AGE_MS).then(|| age * 1000)
    }

    pub fn take_measurement(&mut self, now: Instant, micros: u32) {
        self.hot.rtt.sample(micros, self.sh.rto_bounds);
        self.sh.near_rtt.take(micros);
        self.cold.tail.measured = true;
        // RFC 6298 §5: a measurement collapses the back-off.
        self.hot.backoff = 0;
        self.cold.min_rtt.take(now, micros.max(1));
    }

    /// RFC 9293 §3.10.7.4: SND.WND moves only with newer segments. What the ACK or the window let go is sent.
    pub fn update_window(&mut self, now: Instant, seg: &Segment<'_>) {
        let hot = &*self.hot;
        if seg.ack < hot.snd_una {
            return;
        }
        let newer = hot.snd_wl1 < seg.seq || (hot.snd_wl1 == seg.seq && hot.snd_wl2 <= seg.ack);
        if newer {
            self.move_window(now, seg);
        }
        self.mark_if_more();
    }

    fn move_window(&mut self, now: Instant, seg: &Segment<'_>) {
        self.set_send_window(seg, self.hot.snd_wscale);
        // A probe that is answered is not a time-out (RFC 9293 §3.8.6.1: the connection stays open while the peer answers).
        if self.has(Flags::PERSIST) {
            self.hot.retries = 0;
            if self.hot.snd_wnd > 0 {
                self.leave_persist(now);
            }
        }
    }

    /// Takes the window of a segment; on a SYN it is not scaled (RFC 7323 §2.2).
    /// RFC 9293 MUST-1; RFC 7323 §2.3-1.
    pub fn set_send_window(&mut self, seg: &Segment<'_>, scale: u8) {
        self.hot.snd_wnd = u32::from(seg.window) << scale;
        self.hot.max_snd_wnd = self.hot.max_snd_wnd.max(self.hot.snd_wnd);
        self.hot.snd_wl1 = seg.seq;
        self.hot.snd_wl2 = seg.ack;
    }

    /// The window opened: what probes carried was never taken, so it counts as lost.
    fn leave_persist(&mut self, now: Instant) {
        self.stop_rtx_timer();
        self.hot.backoff = 0;
        if self.hot.flight() > 0 {
            self.go_back(now, 0);
            self.start_rtx_timer(now);
        }
    }

    /// Has `transmit` look, if there is anything that an ACK may have let go.
    fn mark_if_more(&mut self) {
        let unsent = self.stream_end() > self.hot.snd_nxt;
        let fin_due = self.has(Flags::FIN_QUEUED) && !self.hot.fin_sent();
        if unsent || fin_due || self.has_lost() {
            self.mark_output();
        }
    }

    /// What the acknowledgment of our FIN means in each state.
    fn after_ack(&mut self, now: Instant) {
        if !(self.hot.fin_sent() && self.hot.snd_una > self.hot.fin_seq) {
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
                self.enter_time_wait();
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
        self.adopt_path_mtu(now);
        self.cold.una_since = now;
        self.start_windows(now);
        self.greet();
        if self.has(Flags::FIN_QUEUED) {
            self.hot.state = State::FinWait1;
        }
        if self.options().unsent_low_water.is_some() {
            self.bound_unsent();
        }
        self.start_cold_timers(now);
        self.mark_if_more();
    }

    /// The application may read and write.
    pub fn greet(&mut self) {
        self.add_status(Status::CONNECTED);
        self.notify(Ready::CONNECTED | Ready::WRITABLE);
    }

    /// RFC 5681 §3.1: one segment if the SYN was lost, the initial window otherwise; RFC 6298 §5.7: an RTO of 3 s if it was lost and
    /// nothing could be measured.
    /// RFC 6298 §5-8; RFC 5681 §3.1-2, §3.1-3.
    /// RFC 7413 §4.2.2-7.
    pub fn start_windows(&mut self, now: Instant) {
        let mss = u32::from(self.hot.mss);
        let segments = self.sh.config.initial_window;
        self.hot.window.cwnd = crate::cc::initial_window(segments, mss);
        if self.has(Flags::SYN_RETRANSMITTED) {
            self.hot.window.cwnd = mss;
            if !self.hot.rtt.is_known() {
                self.hot.rtt.set_rto(Duration::from_secs(3));
            }
        }
        self.hot.backoff = 0;
        self.hot.retries = 0;
        self.cold.tally.end_timeouts(now);
        self.start_model(now);
        self.pace();
    }
}
