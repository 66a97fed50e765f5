//! RACK (RFC 8985 §6): a segment is lost when one that was sent later has arrived and enough time has passed for reordering. It finds
//! lost retransmissions and lost tails, which counting duplicates cannot. Used when SACK was agreed on.

use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::tcp::conn::Conn;
use crate::tcp::ranges::{Range, Ranges};
use crate::tcp::sack::has_dup_thresh;
use crate::tcp::segment::Segment;
use crate::tcp::sent::{Arrival, SentLog, Verdict};
use crate::tcp::tail::Probe;
use crate::tcp::tcb::Flags;

/// Timestamps that claim to be older say nothing.
const MAX_ECHO_AGE_MS: u32 = 60_000;
/// RFC 8985 §6.2 step 4: recoveries after which the window for reordering is small again.
const REO_WND_PERSIST: u8 = 16;

/// What RACK knows of reordering on the path (RFC 8985 §6.2 step 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reordering {
    /// Segments were seen out of order (RACK.reordering_seen).
    seen: bool,
    /// How much of it is allowed for, in quarters of the shortest round trip, and for how many more recoveries.
    reo_wnd_mult: u8,
    reo_wnd_persist: u8,
    /// SND.NXT when that was last raised.
    dsack_round: SeqNumber,
}

/// What is left of it while nothing is in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reordered {
    seen: bool,
    reo_wnd_mult: u8,
    reo_wnd_persist: u8,
}

impl Reordering {
    pub fn new(iss: SeqNumber) -> Self {
        Self {
            seen: false,
            reo_wnd_mult: 1,
            reo_wnd_persist: 0,
            dsack_round: iss,
        }
    }

    /// A duplicate was reported; once per round trip, and a round that ends beyond SND.NXT is from before sequence numbers wrapped around.
    fn widen(&mut self, snd_una: SeqNumber, snd_nxt: SeqNumber) {
        if snd_una >= self.dsack_round || self.dsack_round > snd_nxt {
            self.dsack_round = snd_nxt;
            self.reo_wnd_mult = self.reo_wnd_mult.saturating_add(1);
            self.reo_wnd_persist = REO_WND_PERSIST;
        }
    }

    /// With nothing in flight, `una` is no earlier than the end of any round.
    pub fn forget_round(&mut self, una: SeqNumber) {
        self.dsack_round = una;
    }

    /// All but the round, which is forgotten.
    pub fn packed(&self) -> Reordered {
        Reordered {
            seen: self.seen,
            reo_wnd_mult: self.reo_wnd_mult,
            reo_wnd_persist: self.reo_wnd_persist,
        }
    }

    pub fn unpacked(packed: Reordered, una: SeqNumber) -> Self {
        let Reordered {
            seen,
            reo_wnd_mult,
            reo_wnd_persist,
        } = packed;
        Self {
            seen,
            reo_wnd_mult,
            reo_wnd_persist,
            dsack_round: una,
        }
    }

    /// A recovery ended.
    fn relax(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
        if self.reo_wnd_persist == 0 {
            self.reo_wnd_mult = 1;
        }
    }
}

/// The clock of the log: µs, low 32 bits.
pub(crate) fn micros(now: Instant) -> u32 {
    now.as_micros() as u32
}

impl Conn<'_> {
    /// The log, if there is one: otherwise everything in flight was sent once, at `flight_at`.
    pub fn sent_log(&self) -> Option<&SentLog> {
        self.has(Flags::SENT_LOG)
            .then(|| self.sh.sent.at(self.cold.sent))
            .flatten()
    }

    /// The log, from now on.
    pub fn sent_log_mut(&mut self) -> Option<&mut SentLog> {
        self.log_and_scoreboard().map(|(log, _)| log)
    }

    /// The log, from now on, and what the scoreboard says to it.
    pub fn log_and_scoreboard(&mut self) -> Option<(&mut SentLog, Option<Ranges<'_>>)> {
        if !self.has(Flags::SENT_LOG) {
            let flight = Range::new(self.hot.snd_una, self.hot.snd_nxt);
            let log = SentLog::new(flight, self.cold.flight_at);
            self.cold.sent = self.sh.sent.insert(log)?;
            self.set(Flags::SENT_LOG);
        }
        let is_sacked = self.has(Flags::SACKED);
        let sh = &mut *self.sh;
        let sacked = is_sacked.then(|| sh.ranges.view(&self.cold.sacked));
        Some((sh.sent.at_mut(self.cold.sent)?, sacked))
    }

    #[inline]
    pub fn forget_sent_log(&mut self) {
        if self.has(Flags::SENT_LOG) {
            self.free_sent_log();
        }
    }

    #[cold]
    fn free_sent_log(&mut self) {
        self.sh.sent.free(self.cold.sent);
        self.clear(Flags::SENT_LOG);
    }

    /// New data up to `end` is being sent: SND.NXT has not moved yet.
    /// RFC 8985 §4-1, §4-3.
    #[inline]
    pub fn log_new(&mut self, now: Instant, end: SeqNumber) {
        let now = micros(now);
        if self.hot.flight() == 0 {
            self.forget_sent_log();
            self.cold.flight_at = now;
        } else {
            self.log_behind(now, end);
        }
    }

    /// The same behind what is in flight.
    #[inline(never)]
    fn log_behind(&mut self, now: u32, end: SeqNumber) {
        // What is sent within a small part of the round trip is one: it is judged together anyway.
        let quantum = self.hot.rtt.srtt().as_micros() as u32 / 16;
        let is_one = now.wrapping_sub(self.cold.flight_at) <= quantum;
        if (self.has(Flags::SENT_LOG) || !is_one)
            && let Some((log, sacked)) = self.log_and_scoreboard()
        {
            log.extend(end, now, quantum, sacked);
        }
    }

    /// `range` is being sent again. What is SACKed around it is taken along, so that neighbours become one span.
    /// RFC 8985 §6.1-1.
    pub fn log_again(&mut self, now: Instant, range: Range) {
        let range = self.scoreboard().map_or(range, |set| {
            let before = set.containing(range.start - 1);
            let behind = set.containing(range.end);
            Range::new(
                before.map_or(range.start, |before| before.start),
                behind.map_or(range.end, |behind| behind.end),
            )
        });
        if let Some((log, sacked)) = self.log_and_scoreboard() {
            log.resend(range, micros(now), sacked);
        }
    }

    /// When the first byte in flight was last sent, µs, low 32 bits. `None` if it is taken for lost.
    pub fn first_sent_at(&self) -> Option<u32> {
        match self.sent_log() {
            Some(log) => log.first_sent_at(),
            None => Some(self.cold.flight_at),
        }
    }

    /// Whether anything in flight is taken for lost.
    pub fn has_lost(&self) -> bool {
        self.has(Flags::RECOVERY | Flags::LOSS)
            && self.sent_log().is_some_and(|log| log.lost_bytes() > 0)
    }

    /// Bytes `[from, to)` are acknowledged, cumulatively or selectively. Called before they are noted anywhere else.
    pub fn on_delivered(
        &mut self,
        now: Instant,
        seg: &Segment<'_>,
        from: SeqNumber,
        to: SeqNumber,
    ) {
        if !self.has(Flags::SACK | Flags::SENT_LOG) {
            return;
        }
        let arrival = self.arrival(now, seg, from);
        let mut from = from;
        while let Some(gap) = self.first_unsacked(from, to) {
            let Some(log) = self.sent_log_mut() else {
                return;
            };
            let reordered = log.deliver(gap, &arrival);
            let newest = log.newest();
            self.cold.reordering.seen |= reordered;
            if let Some(at) = newest {
                self.note_newest(at);
            }
            let seen = &mut self.cold.tally.reorderings;
            *seen = seen.saturating_add(u32::from(reordered));
            from = gap.end;
        }
    }

    /// RFC 7323 §4.3: the echo is of the segment that moved the left edge of the window, as long as there is a hole behind that also in ACKs
    /// of segments that came much later. So it says nothing about those, which a SACK reports, but what it says about the edge.
    fn arrival(&self, now: Instant, seg: &Segment<'_>, from: SeqNumber) -> Arrival {
        let tells = self.has(Flags::TIMESTAMPS) && from == self.hot.snd_una;
        let stamps = seg.options.timestamps.filter(|_| tells);
        let echo_age = stamps.map(|stamps| self.tsval(now).wrapping_sub(stamps.tsecr));
        Arrival {
            now: micros(now),
            min_rtt: self.cold.min_rtt.micros(),
            echo_age: echo_age
                .filter(|&age| age < MAX_ECHO_AGE_MS)
                .map(|age| age * 1000),
        }
    }

    /// RACK_update_reo_wnd (RFC 8985 §6.2 step 4), µs.
    /// RFC 8985 §6.2-4.
    fn reordering_window(&self) -> u32 {
        let mss = u32::from(self.hot.mss);
        let many = || {
            self.scoreboard()
                .is_some_and(|set| has_dup_thresh(set, mss))
        };
        if !self.cold.reordering.seen && (self.has(Flags::RECOVERY | Flags::LOSS) || many()) {
            return 0;
        }
        let srtt = self.hot.rtt.srtt().as_micros() as u32;
        let quarters = u32::from(self.cold.reordering.reo_wnd_mult);
        (self.cold.min_rtt.micros() / 4)
            .saturating_mul(quarters)
            .min(srtt)
    }

    /// A duplicate was reported (RFC 2883): what was sent again was not lost, so the window for reordering is too small.
    /// RFC 8985 §4-4, §6.2-5.
    pub fn on_spurious_retransmission(&mut self) {
        self.sh.counters.spurious_retransmits += 1;
        let tally = &mut self.cold.tally;
        tally.duplicates_reported = tally.duplicates_reported.saturating_add(1);
        // What a recovery sends again and arrives twice had been overtaken. A probe, or what a time-out repeats, may have missed its ACK only.
        self.cold.reordering.seen |= self.cold.tail.probe == Probe::None && !self.has(Flags::LOSS);
        let (una, nxt) = (self.hot.snd_una, self.hot.snd_nxt);
        self.cold.reordering.widen(una, nxt);
    }

    /// A recovery ended.
    /// RFC 8985 §6.2-5.
    pub fn relax_reordering_window(&mut self) {
        self.cold.reordering.relax();
    }

    /// How long ago a segment must have been sent to be lost when the timer expires (RFC 8985 §6.3), µs.
    /// RFC 8985 §6.3-1.
    pub fn age_of_loss(&self) -> u32 {
        if !self.has(Flags::SACK) {
            return 0;
        }
        let srtt = self.hot.rtt.srtt().as_micros() as u32;
        srtt.saturating_add(self.reordering_window())
    }

    /// RACK_detect_loss: after every ACK that says anything, and when its timer expires. Whether it found any.
    /// RFC 6675 §5.1-3; RFC 5681 §4.3-5.
    pub fn detect_losses(&mut self, now: Instant) -> bool {
        let unusual = Flags::SACKED | Flags::RECOVERY | Flags::LOSS;
        if !(self.has(Flags::SACK) && self.has(Flags::SENT_LOG) && self.has(unusual)) {
            return false;
        }
        let reo_wnd = self.reordering_window();
        let pipe = self.pipe();
        let Some((log, sacked)) = self.log_and_scoreboard() else {
            return false;
        };
        let verdict = log.detect(micros(now), reo_wnd, sacked);
        if verdict.lost {
            self.on_losses(now, verdict, pipe);
        }
        self.set_reordering_timer(now, verdict.wait);
        verdict.lost
    }

    /// RFC 6675 §5.1-2.
    fn on_losses(&mut self, now: Instant, verdict: Verdict, pipe_before: u32) {
        if verdict.resent_lost {
            self.sh.counters.lost_retransmissions += 1;
            self.give_frto_up();
        }
        self.keep_sndcnt(pipe_before);
        if !self.has(Flags::RECOVERY | Flags::LOSS) {
            if self.is_only_probe_lost() {
                self.recover_probe(now);
            } else {
                self.enter_recovery(now);
            }
        } else if verdict.resent_lost && self.has(Flags::RECOVERY) {
            self.reduce_again(now);
        }
        self.mark_output();
    }

    /// RFC 5681 §4.3: the loss of a retransmission is a second sign of congestion. At most once per round trip.
    /// RFC 8985 §9.3-3; RFC 5681 §4.3-4.
    fn reduce_again(&mut self, now: Instant) {
        let since = micros(now).wrapping_sub(self.cold.reduced_at);
        if u128::from(since) >= self.hot.rtt.srtt().as_micros() {
            let flight = self.pipe().min(self.hot.window.cwnd);
            self.reduce_window(now, flight);
            self.start_prr();
        }
    }

    /// The reordering timer shares its place with the probe time-out: neither runs when the other may.
    /// RFC 8985 §6.2-7.
    fn set_reordering_timer(&mut self, now: Instant, wait: Option<u32>) {
        if let Some(wait) = wait {
            self.hot.early_at = now + std::time::Duration::from_micros(u64::from(wait));
            self.set(Flags::REORDER_TIMER);
            self.wake_at(self.hot.early_at);
        } else if self.has(Flags::REORDER_TIMER) {
            self.stop_early_timer();
        }
    }

    pub fn stop_early_timer(&mut self) {
        self.hot.early_at = Instant::FAR;
        self.clear(Flags::REORDER_TIMER);
    }
}
