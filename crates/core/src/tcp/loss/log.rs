//! The log and the scoreboard, which are always read together.

use wire::seq::SeqNumber;

use crate::side_pool::SidePool;
use crate::tcp::flags::{Bits, LossFlags};
use crate::tcp::loss::scoreboard::first_unsacked;
use crate::tcp::loss::sent::{Arrival, SentLog};
use crate::tcp::loss::state::Cold;
use crate::tcp::ranges::{Range, RangePool, Ranges, most_ranges};
use crate::tcp::segment::Segment;
use crate::tcp::statistics::Statistics;

/// What is known of the bytes in flight, borrowed for one step.
#[derive(Debug)]
pub(super) struct InFlight<'a> {
    pub cold: &'a mut Cold,
    pub bits: Bits<'a, LossFlags>,
    pub sent: &'a mut SidePool<SentLog>,
    pub ranges: &'a mut RangePool,
    pub statistics: &'a mut Statistics,
    pub snd_una: SeqNumber,
    pub snd_nxt: SeqNumber,
}

impl<'a> InFlight<'a> {
    /// The log, from now on.
    pub fn sent_log(self) -> Option<&'a mut SentLog> {
        self.log_and_scoreboard().map(|(log, _)| log)
    }

    /// The log, from now on, and what the scoreboard says to it.
    pub fn log_and_scoreboard(mut self) -> Option<(&'a mut SentLog, Option<Ranges<'a>>)> {
        if !self.bits.has(LossFlags::SENT_LOG) {
            let flight = Range::new(self.snd_una, self.snd_nxt);
            let log = SentLog::new(flight, self.cold.flight_at);
            self.cold.sent = self.sent.insert(log)?;
            self.bits.insert(LossFlags::SENT_LOG);
        }
        let is_sacked = self.bits.has(LossFlags::SACKED);
        let (ranges, cold) = (&*self.ranges, &*self.cold);
        let sacked = is_sacked.then(|| ranges.view(&cold.sacked));
        Some((self.sent.at_mut(cold.sent)?, sacked))
    }

    /// Call it only where there is a log: this borrow would have to be in memory to be passed on.
    #[cold]
    #[inline(never)]
    pub fn free_sent_log(mut self) {
        self.sent.free(self.cold.sent);
        self.bits.remove(LossFlags::SENT_LOG);
    }

    fn scoreboard(&self) -> Option<Ranges<'_>> {
        let is_sacked = self.bits.has(LossFlags::SACKED);
        is_sacked.then(|| self.ranges.view(&self.cold.sacked))
    }

    fn reborrow(&mut self) -> InFlight<'_> {
        InFlight {
            cold: self.cold,
            bits: self.bits.reborrow(),
            sent: self.sent,
            ranges: self.ranges,
            statistics: self.statistics,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
        }
    }

    /// An ACK up to `ack` acknowledges new data, which was logged.
    #[inline(never)]
    pub fn advance(mut self, ack: SeqNumber, arrival: &Arrival) {
        self.deliver(self.snd_una, ack, arrival);
        if ack == self.snd_nxt {
            self.free_sent_log();
        } else if let Some(log) = self.sent_log() {
            log.trim(ack);
        }
    }

    /// Bytes `[from, to)` are acknowledged, cumulatively or selectively. Called before they are
    /// noted anywhere else.
    pub fn deliver(&mut self, from: SeqNumber, to: SeqNumber, arrival: &Arrival) {
        if !self.bits.has(LossFlags::SACK | LossFlags::SENT_LOG) {
            return;
        }
        let mut from = from;
        while let Some(gap) = first_unsacked(self.scoreboard(), from, to) {
            let Some(log) = self.reborrow().sent_log() else {
                return;
            };
            let reordered = log.deliver(gap, arrival);
            let newest = log.newest();
            self.cold.reordering.seen |= reordered;
            self.cold.rate.newest = newest.or(self.cold.rate.newest);
            let seen = &mut self.statistics.reorderings;
            *seen = seen.saturating_add(u32::from(reordered));
            from = gap.end;
        }
    }

    /// Takes the SACK blocks of an acceptable ACK. Returns the bytes that none has reported before.
    /// RFC 2018 §5-1; RFC 6675 §5-1.
    /// RFC 2883 §7-1.
    #[inline(never)]
    pub fn take_sack(mut self, seg: &Segment<'_>, arrival: &Arrival) -> u32 {
        let una = self.snd_una.max(seg.ack);
        let mut news = 0;
        for (left, right) in seg.options.sack.iter() {
            // RFC 2018 §5 and RFC 2883: blocks below SND.UNA report duplicates; blocks beyond
            // SND.NXT are nonsense. Distances are compared, since a block half the sequence space
            // away is at once above and below.
            let (from, to) = (left - una, right - una);
            if 0 < from && from < to && to <= self.snd_nxt - una {
                news += self.take_block(Range::new(left, right), arrival);
            }
        }
        news
    }

    /// Returns the bytes of it that are news. A full scoreboard takes no more, and what it does not
    /// know will be sent again.
    /// RFC 6675 §4-1.
    fn take_block(&mut self, block: Range, arrival: &Arrival) -> u32 {
        let Range { start, end } = block;
        let most = most_ranges(self.snd_nxt - self.snd_una);
        if first_unsacked(self.scoreboard(), start, end).is_none()
            || !self.ranges.accepts(&self.cold.sacked, block, most)
        {
            return 0;
        }
        self.deliver(start, end, arrival);
        self.insert(block, most).unwrap_or(0)
    }

    /// SND.UNA moved: what was SACKed below it is forgotten.
    pub fn trim_scoreboard(mut self) {
        if self.bits.has(LossFlags::SACKED) {
            let (una, sacked) = (self.snd_una, &mut self.cold.sacked);
            self.ranges.remove_below(sacked, una);
            if self.ranges.view(sacked).is_empty() {
                self.bits.remove(LossFlags::SACKED);
            }
        }
    }

    pub fn forget_scoreboard(mut self) {
        if self.bits.has(LossFlags::SACKED) {
            self.ranges.clear(&mut self.cold.sacked);
            self.bits.remove(LossFlags::SACKED);
        }
    }

    /// RFC 2018 §8: a receiver may discard what it SACKed. If it acknowledges up to a SACKed range
    /// and no further, it has.
    pub fn detect_reneging(self) {
        if self
            .scoreboard()
            .and_then(Ranges::first)
            .is_some_and(|range| range.start <= self.snd_una)
        {
            self.forget_scoreboard();
        }
    }

    /// `block` is SACKed. Returns the bytes of it that were not before, or `None` if the scoreboard
    /// has no room for it.
    fn insert(&mut self, block: Range, most: u32) -> Option<u32> {
        let Range { start, end } = block;
        let before = self.scoreboard().map_or(0, Ranges::bytes);
        let sacked = &mut self.cold.sacked;
        self.ranges.insert(sacked, start, end, most).ok()?;
        self.bits.insert(LossFlags::SACKED);
        Some(self.ranges.view(sacked).bytes() - before)
    }

    /// New data up to `end` was sent at `now` behind what is in flight. What is sent within
    /// `quantum` µs, a small part of the round trip, is one: it is judged together anyway.
    #[inline(never)]
    pub fn log_behind(self, now: u32, end: SeqNumber, quantum: u32) {
        let is_one = now.wrapping_sub(self.cold.flight_at) <= quantum;
        if (self.bits.has(LossFlags::SENT_LOG) || !is_one)
            && let Some((log, sacked)) = self.log_and_scoreboard()
        {
            log.extend(end, now, quantum, sacked);
        }
    }

    /// `range` is sent again at `now`. What is SACKed around it is taken along, so that neighbours
    /// become one span.
    /// RFC 8985 §6.1-1.
    pub fn log_again(self, now: u32, range: Range) {
        if let Some((log, sacked)) = self.log_and_scoreboard() {
            let range = sacked.map_or(range, |set| {
                let before = set.containing(range.start - 1);
                let behind = set.containing(range.end);
                Range::new(
                    before.map_or(range.start, |before| before.start),
                    behind.map_or(range.end, |behind| behind.end),
                )
            });
            log.resend(range, now, sacked);
        }
    }

    /// The first unacknowledged segment is lost, and the next to be sent, whatever `cwnd` says.
    /// RFC 5681 §3.2-5.
    pub fn lose_first(mut self, mss: u32) {
        let una = self.snd_una;
        let end = (una + mss).min(self.snd_nxt);
        self.bits.insert(LossFlags::FORCE_RETRANSMIT);
        self.lose(Range::new(una, end));
    }

    /// `range` is taken for lost.
    fn lose(self, range: Range) {
        if let Some((log, sacked)) = self.log_and_scoreboard() {
            log.lose(range, sacked);
        }
    }
}
