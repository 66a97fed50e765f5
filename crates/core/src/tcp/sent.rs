//! What is in flight, and when it was sent: what RACK (RFC 8985) knows of every segment, for runs of them.
//!
//! A connection keeps one of these only while data in flight was sent at more than one time, was sent again, or is taken for lost. Runs
//! that are alike are one span; when there are too many the two most alike are made one, which only makes RACK slower to judge.

#[cfg(test)]
mod tests;

use wire::seq::SeqNumber;

use crate::tcp::ranges::{MAX_RANGES, Range, RangeSet};

/// Most spans of a log.
const MAX_SPANS: usize = 64;

/// How the bytes of a span stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Mark {
    /// Sent once.
    #[default]
    Sent,
    /// Sent again.
    Resent,
    /// Taken for lost, and not sent again yet. What is SACKed inside does not count. The time says nothing.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Span {
    end: SeqNumber,
    /// µs, low 32 bits.
    sent_at: u32,
    mark: Mark,
}

impl Span {
    fn is_like(&self, other: &Self) -> bool {
        self.mark == other.mark && self.sent_at == other.sent_at
    }
}

/// The segment sent last among those known to be delivered (RACK.segment of RFC 8985 §6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rack {
    sent_at: u32,
    end: SeqNumber,
    /// RACK.rtt, µs.
    rtt: u32,
}

/// What an ACK says besides the ranges that it acknowledges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// µs, low 32 bits.
    pub now: u32,
    /// Shortest round-trip time ever, µs.
    pub min_rtt: u32,
    /// How long ago the segment was sent whose timestamp is echoed, µs, rounded up; if there is an echo.
    pub echo_age: Option<u32>,
}

/// What RACK found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Verdict {
    /// Something is lost that was not before.
    pub lost: bool,
    /// Some of it had been sent again.
    pub resent_lost: bool,
    /// Look again after so many µs: more will be lost then, unless it is acknowledged.
    pub wait: Option<u32>,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentLog {
    start: SeqNumber,
    /// RACK.fack: the highest sequence number known to be delivered.
    fack: SeqNumber,
    rack: Option<Rack>,
    has_lost: bool,
    len: u8,
    spans: [Span; MAX_SPANS],
}

impl Default for SentLog {
    fn default() -> Self {
        Self::new(Range::default(), 0)
    }
}

/// Whether `a` is later than `b`: both the low bits of a count of µs.
fn is_later(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

impl SentLog {
    /// All of `range` was sent once, at `sent_at`.
    pub fn new(range: Range, sent_at: u32) -> Self {
        let mut log = Self {
            start: range.start,
            fack: range.start,
            rack: None,
            has_lost: false,
            len: 1,
            spans: [Span::default(); MAX_SPANS],
        };
        log.spans[0] = Span {
            end: range.end,
            sent_at,
            mark: Mark::Sent,
        };
        log
    }

    pub fn start(&self) -> SeqNumber {
        self.start
    }

    fn spans(&self) -> &[Span] {
        self.spans.get(..usize::from(self.len)).unwrap_or_default()
    }

    pub fn end(&self) -> SeqNumber {
        self.spans().last().map_or(self.start, |span| span.end)
    }

    /// The spans with where they start.
    fn iter(&self) -> impl Iterator<Item = (SeqNumber, Span)> + '_ {
        let starts = std::iter::once(self.start).chain(self.spans().iter().map(|span| span.end));
        starts.zip(self.spans().iter().copied())
    }

    /// Bytes that are taken for lost, and that were sent again and are not SACKed: for people to look at.
    pub fn lost_and_resent(&self, sacked: Option<&RangeSet>) -> (u32, u32) {
        let left = |mark| {
            self.iter()
                .filter(|(_, span)| span.mark == mark)
                .map(|(start, span)| {
                    let held = sacked.map_or(0, |set| set.covered(start, span.end));
                    (span.end - start).saturating_sub(held)
                })
                .sum()
        };
        (left(Mark::Lost), left(Mark::Resent))
    }

    /// Whether anything is taken for lost (perhaps nothing of it is not SACKed).
    pub fn has_lost(&self) -> bool {
        self.has_lost
    }

    /// New data up to `end` was sent at `now`. It joins what was sent less than `quantum` µs before.
    pub fn extend(&mut self, end: SeqNumber, now: u32, quantum: u32) {
        if end <= self.end() {
            return;
        }
        if let Some(last) = self.spans.get_mut(usize::from(self.len).wrapping_sub(1))
            && last.mark == Mark::Sent
            && now.wrapping_sub(last.sent_at) <= quantum
        {
            last.end = end;
            return;
        }
        self.push(Span {
            end,
            sent_at: now,
            mark: Mark::Sent,
        });
    }

    fn push(&mut self, span: Span) {
        self.reserve(1);
        if let Some(place) = self.spans.get_mut(usize::from(self.len)) {
            *place = span;
            self.len += 1;
        }
    }

    /// `range` was sent again at `now`; it may reach beyond what was sent before.
    pub fn resend(&mut self, range: Range, now: u32) {
        if range.end > self.end() {
            self.extend(range.end, now, 0);
        }
        self.set(range, now, Mark::Resent);
    }

    /// `range` is taken for lost.
    pub fn lose(&mut self, range: Range) {
        self.set(range, 0, Mark::Lost);
    }

    /// Everything sent at least `age` µs ago is taken for lost, and the first byte's span in any case (RFC 8985 §6.3).
    pub fn lose_older_than(&mut self, age: u32, now: u32) {
        for (i, span) in self.spans_mut().iter_mut().enumerate() {
            if i == 0 || now.wrapping_sub(span.sent_at) >= age {
                (span.mark, span.sent_at) = (Mark::Lost, 0);
            }
        }
        self.join();
    }

    /// Nothing is taken for lost any more.
    pub fn forgive(&mut self, now: u32) {
        for span in self.spans_mut() {
            if span.mark == Mark::Lost {
                (span.mark, span.sent_at) = (Mark::Resent, now);
            }
        }
        self.join();
    }

    fn spans_mut(&mut self) -> &mut [Span] {
        self.spans
            .get_mut(..usize::from(self.len))
            .unwrap_or_default()
    }

    /// Forgets what lies before `una`.
    pub fn trim(&mut self, una: SeqNumber) {
        let gone = self.spans().partition_point(|span| span.end <= una);
        let len = usize::from(self.len);
        self.spans.copy_within(gone..len, 0);
        self.len -= gone as u8;
        self.start = self.start.max(una);
        self.fack = self.fack.max(una);
        if self.has_lost && gone > 0 {
            self.has_lost = self.spans().iter().any(|span| span.mark == Mark::Lost);
        }
    }

    fn set(&mut self, range: Range, sent_at: u32, mark: Mark) {
        // Both before the first split: what is joined to make room must not undo it.
        self.reserve(2);
        self.split(range.start);
        self.split(range.end);
        let mut start = self.start;
        for span in self.spans_mut() {
            if start >= range.start && span.end <= range.end {
                (span.sent_at, span.mark) = (sent_at, mark);
            }
            start = span.end;
        }
        self.join();
    }

    /// Makes room for `n` more spans.
    fn reserve(&mut self, n: usize) {
        while usize::from(self.len) + n > MAX_SPANS {
            self.make_room();
        }
    }

    /// Makes a span end at `at`, if there is room for one more.
    fn split(&mut self, at: SeqNumber) {
        if at <= self.start || at >= self.end() {
            return;
        }
        let i = self.spans().partition_point(|span| span.end < at);
        let len = usize::from(self.len);
        if i >= len || len == MAX_SPANS || self.spans[i].end == at {
            return;
        }
        self.spans.copy_within(i..len, i + 1);
        self.spans[i].end = at;
        self.len += 1;
    }

    /// Joins neighbours that are alike.
    fn join(&mut self) {
        let len = usize::from(self.len);
        let mut kept = 0;
        for i in 0..len {
            let span = self.spans[i];
            if kept > 0 && self.spans[kept - 1].is_like(&span) {
                self.spans[kept - 1].end = span.end;
            } else {
                self.spans[kept] = span;
                kept += 1;
            }
        }
        self.len = kept as u8;
        self.has_lost = self.spans().iter().any(|span| span.mark == Mark::Lost);
    }

    /// Joins the two neighbours that are most alike. The later time is the more careful one, and what is lost together with what is not
    /// counts as not lost, so that nothing is sent again for ever: RACK looks at it again, or the RTO does.
    fn make_room(&mut self) {
        let difference = |pair: &[Span]| match pair {
            [a, b] if a.mark == b.mark => u64::from(b.sent_at.wrapping_sub(a.sent_at))
                .min(u64::from(a.sent_at.wrapping_sub(b.sent_at))),
            [a, b] if a.mark != Mark::Lost && b.mark != Mark::Lost => 1 << 32,
            _ => u64::MAX,
        };
        let closest = self
            .spans()
            .windows(2)
            .enumerate()
            .min_by_key(|(_, pair)| difference(pair));
        let Some((i, &[a, b])) =
            closest.and_then(|(i, pair)| Some((i, <&[Span; 2]>::try_from(pair).ok()?)))
        else {
            return;
        };
        let (sent_at, mark) = match (a.mark, b.mark) {
            (Mark::Lost, mark) => (b.sent_at, mark),
            (mark, Mark::Lost) => (a.sent_at, mark),
            (one, other) => {
                let later = if is_later(a.sent_at, b.sent_at) { a } else { b };
                let mark = if one == other { one } else { Mark::Resent };
                (later.sent_at, mark)
            }
        };
        self.spans[i] = Span {
            end: b.end,
            sent_at,
            mark,
        };
        let len = usize::from(self.len);
        self.spans.copy_within(i + 2..len, i + 1);
        self.len -= 1;
    }

    /// RACK_update and RACK_detect_reordering (RFC 8985 §6.2 steps 2 and 3) for bytes that are acknowledged for the first time. Whether
    /// they came out of order.
    /// RFC 8985 §6.2-2, §6.2-3.
    pub fn deliver(&mut self, range: Range, arrival: &Arrival) -> bool {
        let mut rack = self.rack;
        let mut reordered = false;
        for span in self.overlapping(range) {
            let end = span.end.min(range.end);
            reordered |= end < self.fack && span.mark != Mark::Resent;
            if span.mark != Mark::Lost && !is_old_copy(&span, arrival) {
                let candidate = Rack {
                    sent_at: span.sent_at,
                    end,
                    rtt: arrival.now.wrapping_sub(span.sent_at),
                };
                rack = match rack {
                    Some(rack) if !candidate.is_after(rack.sent_at, rack.end) => Some(rack),
                    _ => Some(candidate),
                };
            }
        }
        self.rack = rack;
        self.fack = self.fack.max(range.end);
        reordered
    }

    /// When the newest segment known to be delivered was sent (RACK.xmit_ts), µs.
    pub fn newest(&self) -> Option<u32> {
        self.rack.map(|rack| rack.sent_at)
    }

    /// RACK_detect_loss (RFC 8985 §6.2 step 5).
    /// RFC 8985 §6.2-6.
    pub fn detect(&mut self, now: u32, reo_wnd: u32, sacked: Option<&RangeSet>) -> Verdict {
        let mut verdict = Verdict::default();
        let Some(rack) = self.rack else {
            return verdict;
        };
        // What was sent together with the segment that arrived, and lies behind it, was not sent before it.
        self.reserve(1);
        self.split(rack.end);
        let mut start = self.start;
        let len = usize::from(self.len);
        for span in self.spans.get_mut(..len).unwrap_or_default() {
            let range = Range::new(start, span.end);
            start = span.end;
            let is_missing =
                sacked.is_none_or(|set| set.first_gap(range.start, range.end).is_some());
            if span.mark == Mark::Lost || !rack.is_after(span.sent_at, span.end) || !is_missing {
                continue;
            }
            let age = now.wrapping_sub(span.sent_at);
            let limit = rack.rtt.saturating_add(reo_wnd);
            if age >= limit {
                verdict.lost = true;
                verdict.resent_lost |= span.mark == Mark::Resent;
                (span.mark, span.sent_at) = (Mark::Lost, 0);
            } else {
                verdict.wait = verdict.wait.max(Some(limit - age));
            }
        }
        self.join();
        verdict
    }

    /// The first run of bytes from `from` on that are lost and not SACKed.
    /// RFC 2018 §5-2; RFC 6675 §4-4.
    pub fn next_lost(&self, from: SeqNumber, sacked: Option<&RangeSet>) -> Option<Range> {
        if !self.has_lost {
            return None;
        }
        self.iter()
            .filter(|(_, span)| span.mark == Mark::Lost && span.end > from)
            .map(|(start, span)| Range::new(start.max(from), span.end))
            .find_map(|lost| match sacked {
                Some(set) => set.first_gap(lost.start, lost.end),
                None => Some(lost),
            })
    }

    /// Bytes that are neither lost nor SACKed: what is thought to be in the network (pipe of RFC 6675 §4).
    ///
    /// Asked for each segment sent during recovery, so one walk over spans and ranges side by side: every step leaves one of them behind.
    pub fn in_network(&self, sacked: Option<&RangeSet>) -> u32 {
        let mut ranges = sacked.map(RangeSet::as_slice).unwrap_or_default();
        let (mut bytes, mut steps) = (0, 0);
        for (start, span) in self.iter() {
            let mut held = 0;
            while let Some((range, behind)) = ranges.split_first() {
                steps += 1;
                let (from, to) = (range.start.max(start), range.end.min(span.end));
                held += if from < to { to - from } else { 0 };
                if range.end > span.end {
                    break;
                }
                ranges = behind;
            }
            if span.mark != Mark::Lost {
                bytes += span.end - start - held;
            }
        }
        debug_assert!(steps <= MAX_SPANS + MAX_RANGES);
        bytes
    }

    /// When the first byte was last sent, µs; `None` if that is unknown because it is taken for lost.
    pub fn first_sent_at(&self) -> Option<u32> {
        let first = self.spans().first();
        first
            .filter(|span| span.mark != Mark::Lost)
            .map(|span| span.sent_at)
    }

    fn overlapping(&self, range: Range) -> impl Iterator<Item = Span> + '_ {
        let from = self.spans().partition_point(|span| span.end <= range.start);
        let to = self.spans().partition_point(|span| span.end < range.end);
        let to = (to + 1).min(self.spans().len());
        self.spans()
            .get(from..to)
            .unwrap_or_default()
            .iter()
            .copied()
    }
}

impl Rack {
    /// RACK_sent_after.
    fn is_after(&self, sent_at: u32, end: SeqNumber) -> bool {
        is_later(self.sent_at, sent_at) || (self.sent_at == sent_at && self.end >= end)
    }
}

/// RFC 8985 §6.2 step 2: the ACK of a segment that was sent again may be for the first copy.
fn is_old_copy(span: &Span, arrival: &Arrival) -> bool {
    if span.mark != Mark::Resent {
        return false;
    }
    let age = arrival.now.wrapping_sub(span.sent_at);
    age < arrival.min_rtt
        || arrival
            .echo_age
            .is_some_and(|echo| age.saturating_add(1000) < echo)
}
