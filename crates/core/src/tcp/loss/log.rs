//! The log and the scoreboard, which are always read together.

use wire::seq::SeqNumber;

use crate::side_pool::SidePool;
use crate::tcp::flags::{Bits, LossFlags};
use crate::tcp::loss::sent::SentLog;
use crate::tcp::loss::state::Cold;
use crate::tcp::ranges::{Range, RangePool, Ranges};

/// What is known of the bytes in flight, borrowed for one step.
#[derive(Debug)]
pub(super) struct InFlight<'a> {
    pub cold: &'a mut Cold,
    pub bits: Bits<'a, LossFlags>,
    pub sent: &'a mut SidePool<SentLog>,
    pub ranges: &'a mut RangePool,
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

    #[cold]
    #[inline(never)]
    pub fn free_sent_log(mut self) {
        self.sent.free(self.cold.sent);
        self.bits.remove(LossFlags::SENT_LOG);
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
        let is_sacked = self.bits.has(LossFlags::SACKED);
        let first = is_sacked.then(|| self.ranges.view(&self.cold.sacked).first());
        if first
            .flatten()
            .is_some_and(|range| range.start <= self.snd_una)
        {
            self.forget_scoreboard();
        }
    }

    /// `block` is SACKed. Returns the bytes of it that were not before, or `None` if the scoreboard
    /// has no room for it.
    pub fn insert(mut self, block: Range, most: u32) -> Option<u32> {
        let Range { start, end } = block;
        let before = if self.bits.has(LossFlags::SACKED) {
            self.ranges.view(&self.cold.sacked).bytes()
        } else {
            0
        };
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

    /// `range` is taken for lost.
    pub fn lose(self, range: Range) {
        if let Some((log, sacked)) = self.log_and_scoreboard() {
            log.lose(range, sacked);
        }
    }
}
