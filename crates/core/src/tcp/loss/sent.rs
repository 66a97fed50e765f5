//! The log of what is in flight: what RACK (RFC 8985) knows of every segment, for runs of them.
//!
//! A connection keeps a log only while data in flight was sent at more than one time, was sent
//! again, or is taken for lost. Runs that are alike are one span. When there are too many spans,
//! the two most alike are made one, which only makes RACK slower to judge.

#[cfg(test)]
mod tests;

use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::tcp::ranges::{Range, Ranges};

/// Most spans of a log.
const MAX_SPANS: usize = 64;

/// How the bytes of a span stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
enum Mark {
    /// Sent once.
    #[default]
    Sent,
    /// Sent again.
    Resent,
    /// Taken for lost, and not sent again yet. What is SACKed inside does not count. The time says
    /// nothing.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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
    /// How long ago the segment was sent whose timestamp is echoed, µs, rounded up; if there is an
    /// echo.
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

/// The scoreboard, if there is one.
type Sacked<'a> = Option<Ranges<'a>>;

/// See the module.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct SentLog {
    start: SeqNumber,
    /// RACK.fack: the highest sequence number known to be delivered.
    fack: SeqNumber,
    /// That before the ACK that is being processed: what one ACK reports was not overtaken by each
    /// other.
    fack_before: SeqNumber,
    rack: Option<Rack>,
    /// Taken for lost and not SACKed. Kept up to date, since it is asked for with each segment
    /// sent.
    lost_bytes: u32,
    len: u8,
    #[serde(with = "crate::array")]
    spans: [Span; MAX_SPANS],
}

/// The clock of the log: µs, low 32 bits.
pub(crate) fn micros(now: Instant) -> u32 {
    now.as_micros() as u32
}

/// Whether `a` is later than `b`: both the low bits of a count of µs.
fn is_later(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

impl SentLog {
    /// Whether it is one that this module could have made.
    pub fn is_sound(&self) -> bool {
        let len = usize::from(self.len);
        let mut last = self.start;
        let mut follows = |span: &Span| std::mem::replace(&mut last, span.end) <= span.end;
        len <= MAX_SPANS && self.spans().iter().all(&mut follows)
    }

    /// All of `range` was sent once, at `sent_at`.
    pub fn new(range: Range, sent_at: u32) -> Self {
        let mut log = Self {
            start: range.start,
            fack: range.start,
            fack_before: range.start,
            rack: None,
            lost_bytes: 0,
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

    /// Bytes taken for lost that are not SACKed.
    pub fn lost_bytes(&self) -> u32 {
        self.lost_bytes
    }

    /// The same, counted.
    pub fn count_lost(&self, sacked: Sacked<'_>) -> u32 {
        self.count(Mark::Lost, sacked)
    }

    /// Bytes sent again that are not SACKed: for people to look at.
    pub fn count_resent(&self, sacked: Sacked<'_>) -> u32 {
        self.count(Mark::Resent, sacked)
    }

    fn count(&self, mark: Mark, sacked: Sacked<'_>) -> u32 {
        let spans = self.iter().filter(|(_, span)| span.mark == mark);
        spans
            .map(|(start, span)| missing(start, span.end, sacked))
            .sum()
    }

    /// New data up to `end` was sent at `now`. It joins what was sent less than `quantum` µs
    /// before.
    pub fn extend(&mut self, end: SeqNumber, now: u32, quantum: u32, sacked: Sacked<'_>) {
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
        self.reserve(1, sacked);
        if let Some(place) = self.spans.get_mut(usize::from(self.len)) {
            *place = Span {
                end,
                sent_at: now,
                mark: Mark::Sent,
            };
            self.len += 1;
        }
    }

    /// `range` was sent again at `now`; it may reach beyond what was sent before.
    pub fn resend(&mut self, range: Range, now: u32, sacked: Sacked<'_>) {
        if range.end > self.end() {
            self.extend(range.end, now, 0, sacked);
        }
        self.set(range, now, Mark::Resent, sacked);
    }

    /// `range` is taken for lost.
    pub fn lose(&mut self, range: Range, sacked: Sacked<'_>) {
        self.set(range, 0, Mark::Lost, sacked);
    }

    /// Everything sent at least `age` µs ago is taken for lost, and the first byte's span in any
    /// case (RFC 8985 §6.3).
    pub fn lose_older_than(&mut self, age: u32, now: u32, sacked: Sacked<'_>) {
        for (i, span) in self.spans_mut().iter_mut().enumerate() {
            if i == 0 || now.wrapping_sub(span.sent_at) >= age {
                (span.mark, span.sent_at) = (Mark::Lost, 0);
            }
        }
        self.join();
        self.lost_bytes = self.count_lost(sacked);
    }

    /// Nothing is taken for lost any more.
    pub fn forgive(&mut self, now: u32) {
        for span in self.spans_mut() {
            if span.mark == Mark::Lost {
                (span.mark, span.sent_at) = (Mark::Resent, now);
            }
        }
        self.lost_bytes = 0;
        self.join();
    }

    fn spans_mut(&mut self) -> &mut [Span] {
        self.spans
            .get_mut(..usize::from(self.len))
            .unwrap_or_default()
    }

    /// Forgets what lies before `una`, all of which was delivered.
    pub fn trim(&mut self, una: SeqNumber) {
        let gone = self.spans().partition_point(|span| span.end <= una);
        let len = usize::from(self.len);
        self.spans.copy_within(gone..len, 0);
        self.len -= gone as u8;
        self.start = self.start.max(una);
        self.fack = self.fack.max(una);
    }

    fn set(&mut self, range: Range, sent_at: u32, mark: Mark, sacked: Sacked<'_>) {
        // Both before the first split: what is joined to make room must not undo it.
        self.reserve(2, sacked);
        self.split(range.start);
        self.split(range.end);
        let (mut start, mut lost_bytes) = (self.start, self.lost_bytes);
        for span in self.spans_mut() {
            if start >= range.start && span.end <= range.end {
                if (span.mark == Mark::Lost) != (mark == Mark::Lost) {
                    let missing = missing(start, span.end, sacked);
                    lost_bytes = match mark {
                        Mark::Lost => lost_bytes + missing,
                        _ => lost_bytes.saturating_sub(missing),
                    };
                }
                (span.sent_at, span.mark) = (sent_at, mark);
            }
            start = span.end;
        }
        self.lost_bytes = lost_bytes;
        self.join();
    }

    /// Makes room for `n` more spans.
    fn reserve(&mut self, n: usize, sacked: Sacked<'_>) {
        while usize::from(self.len) + n > MAX_SPANS {
            self.make_room(sacked);
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
    }

    /// Joins the two neighbours that are most alike. The later time is the more careful one, and
    /// what is lost together with what is not counts as not lost, so that nothing is sent again for
    /// ever: RACK looks at it again, or the RTO does.
    fn make_room(&mut self, sacked: Sacked<'_>) {
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
        if a.mark != b.mark && (a.mark == Mark::Lost || b.mark == Mark::Lost) {
            self.lost_bytes = self.count_lost(sacked);
        }
    }

    /// RACK_update and RACK_detect_reordering (RFC 8985 §6.2 steps 2 and 3) for bytes that are
    /// acknowledged for the first time. Whether they came out of order. Their SACK, or their ACK,
    /// must be noted next.
    /// RFC 8985 §6.2-2, §6.2-3.
    pub fn deliver(&mut self, range: Range, arrival: &Arrival) -> bool {
        let mut rack = self.rack;
        let (mut reordered, mut found) = (false, 0);
        for (start, span) in self.overlapping(range) {
            let end = span.end.min(range.end);
            reordered |= end < self.fack_before && span.mark != Mark::Resent;
            if span.mark == Mark::Lost {
                found += end - start.max(range.start);
            }
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
        self.lost_bytes = self.lost_bytes.saturating_sub(found);
        self.fack = self.fack.max(range.end);
        reordered
    }

    /// When the newest segment known to be delivered was sent (RACK.xmit_ts), µs.
    pub fn newest(&self) -> Option<u32> {
        self.rack.map(|rack| rack.sent_at)
    }

    /// RACK_detect_loss (RFC 8985 §6.2 step 5).
    /// RFC 8985 §6.2-6.
    pub fn detect(&mut self, now: u32, reo_wnd: u32, sacked: Sacked<'_>) -> Verdict {
        let mut verdict = Verdict::default();
        self.fack_before = self.fack;
        let Some(rack) = self.rack else {
            return verdict;
        };
        // What was sent together with the segment that arrived, and lies behind it, was not sent
        // before it.
        self.reserve(1, sacked);
        self.split(rack.end);
        let (mut start, mut lost_bytes) = (self.start, self.lost_bytes);
        for span in self.spans_mut() {
            let range = Range::new(start, span.end);
            start = span.end;
            if span.mark == Mark::Lost || !rack.is_after(span.sent_at, span.end) {
                continue;
            }
            let missing = missing(range.start, range.end, sacked);
            if missing == 0 {
                continue;
            }
            let age = now.wrapping_sub(span.sent_at);
            let limit = rack.rtt.saturating_add(reo_wnd);
            if age >= limit {
                verdict.lost = true;
                verdict.resent_lost |= span.mark == Mark::Resent;
                lost_bytes += missing;
                (span.mark, span.sent_at) = (Mark::Lost, 0);
            } else {
                verdict.wait = verdict.wait.max(Some(limit - age));
            }
        }
        self.lost_bytes = lost_bytes;
        self.join();
        verdict
    }

    /// The first run of bytes from `from` on that are lost and not SACKed.
    /// RFC 2018 §5-2; RFC 6675 §4-4.
    pub fn next_lost(&self, from: SeqNumber, sacked: Sacked<'_>) -> Option<Range> {
        if self.lost_bytes == 0 {
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

    /// When the first byte was last sent, µs; `None` if that is unknown because it is taken for
    /// lost.
    pub fn first_sent_at(&self) -> Option<u32> {
        let first = self.spans().first();
        first
            .filter(|span| span.mark != Mark::Lost)
            .map(|span| span.sent_at)
    }

    /// The spans that have part of `range`, with where they start.
    fn overlapping(&self, range: Range) -> impl Iterator<Item = (SeqNumber, Span)> + '_ {
        let from = self.spans().partition_point(|span| span.end <= range.start);
        self.iter()
            .skip(from)
            .take_while(move |(start, _)| *start < range.end)
    }
}

impl Rack {
    /// RACK_sent_after.
    fn is_after(&self, sent_at: u32, end: SeqNumber) -> bool {
        is_later(self.sent_at, sent_at) || (self.sent_at == sent_at && self.end >= end)
    }
}

/// Bytes of `[start, end)` that are not SACKed.
fn missing(start: SeqNumber, end: SeqNumber, sacked: Sacked<'_>) -> u32 {
    end - start - sacked.map_or(0, |set| set.covered(start, end))
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
