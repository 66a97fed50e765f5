//! What the loss part says when it is asked: nothing here changes anything.

use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::info::RateInfo;
use crate::tcp::flags::LossFlags;
use crate::tcp::loss::rates::Rates;
use crate::tcp::loss::scoreboard::{DUP_THRESH, first_unsacked, has_dup_thresh};
use crate::tcp::loss::sent::{Arrival, SentLog, micros};
use crate::tcp::loss::state::{Cold, Hot, Pools};
use crate::tcp::loss::tail::{Probe, probe_timeout};
use crate::tcp::loss::undo::{Frto, Undo};
use crate::tcp::ranges::{Range, RangePool, Ranges};
use crate::tcp::segment::Segment;

/// A timestamp echo that claims a longer round trip is not ours.
const MAX_ECHO_AGE_MS: u32 = 60 * 60 * 1000;
/// The log learns nothing of one that claims to be older than this.
const MAX_ARRIVAL_AGE_MS: u32 = 60_000;
/// rrthresh of RFC 7765 §4, segments.
const RESTART_THRESHOLD: u32 = 4;

/// With any of these, `pipe` is not simply what is in flight.
const PIPE_UNSURE: LossFlags = LossFlags::RECOVERY
    .union(LossFlags::LOSS)
    .union(LossFlags::SACKED);

/// Losses, or a time-out, are being recovered from.
const RECOVERING: LossFlags = LossFlags::RECOVERY.union(LossFlags::LOSS);

/// The loss part of a connection, to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossView<'a> {
    pub hot: &'a Hot,
    pub cold: &'a Cold,
    pub flags: LossFlags,
    pub pools: &'a Pools,
    pub ranges: &'a RangePool,
    pub snd_una: SeqNumber,
    pub snd_nxt: SeqNumber,
    /// Our timestamps are the millisecond clock plus this.
    pub ts_offset: u32,
}

/// What is in flight, less what is SACKed, taken for lost, or has left otherwise. A function of its
/// own arguments: a view that is passed on would have to be in memory wherever this is called.
#[inline(never)]
fn counted_pipe(
    cold: &Cold,
    flags: LossFlags,
    pools: &Pools,
    ranges: &RangePool,
    flight: u32,
) -> u32 {
    let mut gone = cold.departed.bytes;
    if flags.contains(LossFlags::SACKED) {
        gone += ranges.view(&cold.sacked).bytes();
    }
    if flags.contains(LossFlags::SENT_LOG) {
        gone += pools.sent.at(cold.sent).map_or(0, SentLog::lost_bytes);
    }
    flight.saturating_sub(gone)
}

fn undo<'a>(cold: &Cold, pools: &'a Pools) -> Option<&'a Undo> {
    pools.undos.at(cold.undo.get()?)
}

impl<'a> LossView<'a> {
    #[inline(always)]
    pub fn has(self, flags: LossFlags) -> bool {
        self.flags.intersects(flags)
    }

    /// Sequence numbers sent and not acknowledged.
    #[inline(always)]
    pub fn flight(self) -> u32 {
        self.snd_nxt - self.snd_una
    }

    /// SMSS, bytes.
    #[inline(always)]
    pub fn mss(self) -> u32 {
        u32::from(self.hot.mss)
    }

    /// Whether an ACK up to `ack` says nothing but that new data has arrived: there is no loss, no
    /// log, no log of rates, and the echo of a timestamp is not needed.
    #[inline(always)]
    pub fn is_usual(self, ack: SeqNumber) -> bool {
        let unusual = PIPE_UNSURE.union(LossFlags::SENT_LOG);
        !self.has(unusual)
            && !self.cold.rate.log.is_some()
            && (self.has(LossFlags::TIMING) && ack >= self.hot.rtt_seq || !self.needs_echo())
    }

    /// Whether the echo of a timestamp is needed where the segment that is being timed is not
    /// acknowledged: while the RTO is backed off, or if nothing is being timed and nothing is
    /// known.
    #[inline(always)]
    pub fn needs_echo(self) -> bool {
        let knows = self.has(LossFlags::TIMING) || self.hot.rtt.is_known();
        self.hot.backoff > 0 || !knows
    }

    /// Whether an ACK up to `ack` decides what became of the tail loss probe.
    #[inline(always)]
    pub fn resolves_tail_probe(self, ack: SeqNumber) -> bool {
        let tail = &self.cold.tail;
        tail.probe != Probe::None && ack >= tail.end
    }

    /// RTO with back-off, µs.
    #[inline(always)]
    pub fn rto_micros(self) -> u64 {
        let max = self.pools.rto_bounds.max;
        self.hot.rtt.backed_off_micros(self.hot.backoff, max)
    }

    /// The log, if there is one: otherwise everything in flight was sent once, at `flight_at`.
    #[inline(always)]
    pub fn sent_log(self) -> Option<&'a SentLog> {
        if self.has(LossFlags::SENT_LOG) {
            self.pools.sent.at(self.cold.sent)
        } else {
            None
        }
    }

    /// The scoreboard, if anything is on it.
    /// RFC 6675 §3-1; RFC 8985 §4-2.
    #[inline(always)]
    pub fn scoreboard(self) -> Option<Ranges<'a>> {
        self.has(LossFlags::SACKED)
            .then(|| self.ranges.view(&self.cold.sacked))
    }

    /// Bytes on the scoreboard.
    #[inline(always)]
    pub fn sacked_bytes(self) -> u32 {
        self.scoreboard().map_or(0, Ranges::bytes)
    }

    /// How far delivery has come: the bytes acknowledged, and those SACKed as if they followed.
    pub fn delivered(self) -> SeqNumber {
        self.snd_una + self.sacked_bytes()
    }

    /// The first bytes of `[from, to)` that are not SACKed.
    pub fn first_unsacked(self, from: SeqNumber, to: SeqNumber) -> Option<Range> {
        first_unsacked(self.scoreboard(), from, to)
    }

    /// SetPipe (RFC 6675 §4): bytes thought to be in the network.
    /// RFC 6675 §4-3.
    #[inline(always)]
    pub fn pipe(self) -> u32 {
        if !self.has(PIPE_UNSURE) && self.hot.dup_acks == 0 {
            self.flight()
        } else {
            counted_pipe(
                self.cold,
                self.flags,
                self.pools,
                self.ranges,
                self.flight(),
            )
        }
    }

    /// RFC 6675 §5-10; RFC 5681 §3.1-13, §3-2, §4.3-2; RFC 8985 §9.3-1;
    /// RFC 9937 §3-2.
    #[inline(always)]
    pub fn cwnd_allows(self, len: u32) -> bool {
        let pipe = self.pipe();
        pipe == 0 || pipe.saturating_add(len) <= self.hot.window.cwnd
    }

    /// Whether a retransmission of `len` bytes may go.
    pub fn may_retransmit(self, len: u32) -> bool {
        self.has(LossFlags::FORCE_RETRANSMIT) || self.cwnd_allows(len)
    }

    /// What was left of the congestion window when the last data was sent, or is without `flight`
    /// bytes. That an ACK made room says nothing before there was an occasion to send: many ACKs
    /// may come in one burst.
    #[inline(always)]
    pub fn unfilled(self, flight: u32) -> u32 {
        let without = self.hot.window.cwnd.saturating_sub(flight);
        self.cold.fill.room.min(without)
    }

    /// Whether anything in flight is taken for lost.
    #[inline(always)]
    pub fn has_lost(self) -> bool {
        self.has(RECOVERING) && self.sent_log().is_some_and(|log| log.lost_bytes() > 0)
    }

    /// The first bytes that are taken for lost, and were not sent again since.
    pub fn next_lost(self) -> Option<Range> {
        self.sent_log()?.next_lost(self.snd_una, self.scoreboard())
    }

    /// Whether nothing but bytes of `range` is taken for lost.
    /// RFC 4821 §7.6.2-1, §7.6.4-1.
    pub fn is_only_lost(self, range: Range) -> bool {
        let Some(log) = self.sent_log() else {
            return false;
        };
        let first = self.next_lost();
        first.is_some_and(|lost| lost.start >= range.start && lost.end <= range.end)
            && log.next_lost(range.end, self.scoreboard()).is_none()
    }

    /// When the first byte in flight was last sent, µs, low 32 bits. `None` if it is taken for
    /// lost.
    #[inline(always)]
    pub fn first_sent_at(self) -> Option<u32> {
        match self.sent_log() {
            Some(log) => log.first_sent_at(),
            None => Some(self.cold.flight_at),
        }
    }

    /// RACK_update_reo_wnd (RFC 8985 §6.2 step 4), µs.
    /// RFC 8985 §6.2-4.
    pub fn reordering_window(self) -> u32 {
        let many = || {
            self.scoreboard()
                .is_some_and(|set| has_dup_thresh(set, self.mss()))
        };
        let reordering = &self.cold.reordering;
        if !reordering.seen && (self.has(RECOVERING) || many()) {
            return 0;
        }
        let srtt = self.hot.rtt.srtt().as_micros() as u32;
        let quarters = u32::from(reordering.reo_wnd_mult);
        (self.cold.min_rtt.micros() / 4)
            .saturating_mul(quarters)
            .min(srtt)
    }

    /// How long ago a segment must have been sent to be lost when the retransmission timer expires
    /// (RFC 8985 §6.3), µs.
    /// RFC 8985 §6.3-1.
    pub fn age_of_loss(self) -> u32 {
        if !self.has(LossFlags::SACK) {
            return 0;
        }
        let srtt = self.hot.rtt.srtt().as_micros() as u32;
        srtt.saturating_add(self.reordering_window())
    }

    /// RFC 6582 §3.2 step 2: duplicates of what was retransmitted before do not count.
    /// RFC 5681 §3.2-1.
    /// RFC 6582 §3.2-2.
    pub fn should_recover(self) -> bool {
        !self.has(RECOVERING) && self.hot.dup_acks >= DUP_THRESH && self.snd_una > self.cold.recover
    }

    /// A tail loss probe may go with SACK, nothing SACKed, and no recovery. Only one goes at a
    /// time, and none before a round trip was measured since the last: probes that are sent again
    /// spoil the measurements by which the timer would adapt to a longer path. The RTO timer runs
    /// in any case.
    /// RFC 8985 §7.3-1, §7.3-2, §7.3-3.
    #[inline(always)]
    fn may_probe(self) -> bool {
        let unfit = PIPE_UNSURE.union(LossFlags::PERSIST);
        let tail = &self.cold.tail;
        self.has(LossFlags::SACK) && !self.has(unfit) && tail.probe == Probe::None && tail.measured
    }

    /// PTO (RFC 8985 §7.2), µs, if a tail loss probe may be sent.
    #[inline(always)]
    pub fn pto(self) -> Option<u64> {
        if !self.may_probe() {
            return None;
        }
        let single = self.flight() <= self.mss();
        Some(probe_timeout(self.hot.rtt.srtt_micros(), single))
    }

    /// RFC 7765 §4: when fewer segments are in flight than DupThresh needs to find a loss, and no
    /// more wait to be sent, the RTO counts from when the first of them was sent (µs, low 32 bits),
    /// not from this ACK. There is no setting for it: it costs nothing, it helps most where there
    /// are no tail loss probes, and if it was too early F-RTO says so.
    #[inline(always)]
    pub fn tail_sent_at(self, to_send: u32) -> Option<u32> {
        let few = RESTART_THRESHOLD * self.mss();
        let is_tail = self.hot.backoff == 0 && self.flight() < few && to_send < few;
        if is_tail { self.first_sent_at() } else { None }
    }

    /// The millisecond clock of this connection's timestamps (RFC 7323 §4.1).
    #[inline(always)]
    pub fn tsval(self, now: Instant) -> u32 {
        (now.as_millis() as u32).wrapping_add(self.ts_offset)
    }

    /// The age of the timestamp echoed in µs. The clock ticks in milliseconds, so it is the poorer
    /// measure.
    /// RFC 7323 §3.2-3, §4.2-1.
    pub fn echoed(self, now: Instant, seg: &Segment<'_>) -> Option<u32> {
        let stamps = seg
            .options
            .timestamps
            .filter(|_| self.has(LossFlags::TIMESTAMPS))?;
        // An echo from before the time-out is no measure: perhaps the data arrived in time and its
        // ACK was lost, and what is answered now is the copy (Karn).
        let since_timeout = stamps.tsecr.wrapping_sub(self.cold.timeout_stamp) as i32;
        if self.hot.backoff > 0 && since_timeout < 0 {
            return None;
        }
        let age = self.tsval(now).wrapping_sub(stamps.tsecr);
        (age < MAX_ECHO_AGE_MS).then(|| age * 1000)
    }

    /// What an ACK says to the log of what arrived at the left edge of the window.
    pub fn arrival(self, now: Instant, seg: &Segment<'_>) -> Arrival {
        let stamps = seg
            .options
            .timestamps
            .filter(|_| self.has(LossFlags::TIMESTAMPS));
        let echo_age = stamps.map(|stamps| self.tsval(now).wrapping_sub(stamps.tsecr));
        Arrival {
            echo_age: echo_age
                .filter(|&age| age < MAX_ARRIVAL_AGE_MS)
                .map(|age| age * 1000),
            ..self.arrival_behind(now)
        }
    }

    /// What a SACK says of what arrived behind that. RFC 7323 §4.3: as long as there is a hole, the
    /// echo is of the segment that moved the left edge of the window also in ACKs of segments that
    /// came much later. So it says nothing about those.
    pub fn arrival_behind(self, now: Instant) -> Arrival {
        Arrival {
            now: micros(now),
            min_rtt: self.cold.min_rtt.micros(),
            echo_age: None,
        }
    }

    /// RFC 2883 §4: the first block reports a duplicate if it lies below the ACK, or inside the
    /// second.
    /// RFC 2883 §5-1.
    pub fn reported_duplicate(self, seg: &Segment<'_>) -> Option<Range> {
        let mut blocks = seg.options.sack.iter();
        let (left, right) = blocks.next().filter(|_| self.has(LossFlags::SACK))?;
        let inside = blocks.next().is_some_and(|(l, r)| l <= left && right <= r);
        let is_report = left < right && (right <= seg.ack || inside);
        is_report.then(|| Range::new(left, right))
    }

    /// Whether an ACK says that data has arrived which was sent after the last reaction to loss.
    pub fn reaches_beyond(self, seg: &Segment<'_>) -> bool {
        let recover = self.cold.recover;
        let sacks_beyond = || seg.options.sack.iter().any(|(_, right)| right > recover);
        self.has(LossFlags::SACK) && (seg.ack > recover || sacks_beyond())
    }

    /// The undo state, or that of no reaction.
    pub fn undo_copy(self) -> Undo {
        undo(self.cold, self.pools).copied().unwrap_or_default()
    }

    #[inline(always)]
    pub fn frto(self) -> Frto {
        undo(self.cold, self.pools).map_or(Frto::Off, |undo| undo.frto)
    }

    /// Whether F-RTO holds retransmissions back: until the ACK of the first one, and for new data
    /// after it.
    #[inline(always)]
    pub fn is_held_by_frto(self) -> bool {
        self.has(LossFlags::LOSS)
            && !self.has(LossFlags::FORCE_RETRANSMIT)
            && self.frto() != Frto::Off
    }

    pub fn rates(self) -> Option<&'a Rates> {
        self.pools.rates.at(self.cold.rate.log.get()?)
    }

    /// C.inflight. Without SACK, what duplicate ACKs say has left is not known to be delivered yet.
    #[inline(always)]
    pub fn in_network(self) -> u32 {
        self.pipe().saturating_add(self.cold.departed.bytes)
    }

    /// Bytes thought to be in the network, if the algorithm models the path.
    #[inline(always)]
    pub fn modelled_flight(self) -> Option<u32> {
        self.cold.rate.log.get().map(|_| self.in_network())
    }

    /// The round-trip time of the newest segment that the current ACK acknowledges, µs. Unlike the
    /// one that is timed for the RTO there is one with almost every ACK.
    #[inline(always)]
    pub fn rtt_of_newest(self, now: Instant) -> Option<u32> {
        let rtt = micros(now).wrapping_sub(self.cold.rate.newest?);
        Some(rtt.max(1))
    }

    /// For `TCP_INFO`; the application allows `most` bytes per second.
    pub fn rate_info(self, most: Option<u64>) -> RateInfo {
        let (delivery, app_limited) = self.rates().map_or((0, false), |rates| rates.last);
        RateInfo {
            pacing: self.cold.pacing.rate(),
            most,
            delivery,
            app_limited,
        }
    }

    /// Bytes taken for lost, and bytes sent again: for `TCP_INFO`.
    pub fn lost_and_resent(self) -> (u32, u32) {
        self.sent_log().map_or((0, 0), |log| {
            (log.lost_bytes(), log.count_resent(self.scoreboard()))
        })
    }

    /// What must hold after anything that happens: tests run with these assertions. `needs_timer`:
    /// the connection is synchronized, so that whatever is in flight is looked after.
    pub fn check(self, needs_timer: bool) {
        self.check_hot(needs_timer);
        self.check_cold();
        assert!(!self.flags.contains(RECOVERING), "two recoveries at a time");
        assert!(
            self.pipe() <= self.flight(),
            "more in the network than sent"
        );
        if let Some(log) = self.sent_log() {
            let logged = (log.start(), log.end());
            let flight = (self.snd_una, self.snd_nxt);
            assert_eq!(logged, flight, "the log of the flight");
            let lost = log.count_lost(self.scoreboard());
            assert_eq!(log.lost_bytes(), lost, "the bytes taken for lost");
        }
    }

    fn check_hot(self, needs_timer: bool) {
        let Hot {
            rtx_at,
            early_at: _,
            window: _,
            rtt_seq: _,
            rtt_at: _,
            rtt: _,
            mss: _,
            dup_acks: _,
            backoff: _,
        } = self.hot;
        if needs_timer && self.flight() > 0 {
            assert!(*rtx_at < Instant::FAR, "in flight, and no timer runs");
        }
    }

    fn check_cold(self) {
        let Cold {
            fill: _,
            recover: _,
            sacked,
            sent: _,
            flight_at: _,
            reduced_at: _,
            tail: _,
            reordering: _,
            prr: _,
            undo: _,
            departed: _,
            congestion: _,
            round_end: _,
            rate: _,
            pacing: _,
            timeout_stamp: _,
            min_rtt: _,
        } = self.cold;
        if self.has(LossFlags::SACKED) {
            let sacked = self.ranges.view(sacked);
            assert!(!sacked.is_empty(), "an empty scoreboard");
            // Below SND.UNA, or at it, is only what the peer has discarded (RFC 2018 §8).
            let inside = sacked.covered(self.snd_una, self.snd_nxt);
            assert_eq!(inside, sacked.bytes(), "SACKed, but not in flight");
        }
    }
}
