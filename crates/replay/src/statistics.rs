//! What a log is like, in one pass and in bounded memory.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use hdrhistogram::Histogram;

use crate::random::mix;
use crate::{Chunk, Transaction};

/// Names of chunks that are remembered; of more, an equal share is looked at.
const NAMES_MAX: usize = 1 << 20;
/// Largest size that is told apart, bytes.
const SIZE_MAX: u64 = 1 << 40;

/// The statistics of the transactions so far.
#[derive(Debug)]
pub struct Statistics {
    requests: u64,
    last_start_us: u64,
    first_start_us: Option<u64>,
    last_end_us: u64,
    sizes: Histogram<u64>,
    response_bytes: u64,
    request_bytes: u64,
    duration_us: u64,
    /// Squares of the times between beginnings.
    gaps_squared: f64,
    /// Ends of what is in flight, the first one first.
    ends: BinaryHeap<Reverse<u64>>,
    peak: usize,
    /// Connections that are open, and how many there were.
    open: HashMap<u64, u64>,
    connections: u64,
    open_peak: usize,
    names: Names,
}

/// What a log is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Transactions.
    pub requests: u64,
    /// Connections that they were on.
    pub connections: u64,
    /// From the first to the last beginning, seconds.
    pub seconds: f64,
    /// Of responses, bytes.
    pub median_bytes: f64,
    /// Of responses, bytes.
    pub mean_bytes: f64,
    /// The largest response, bytes.
    pub largest_bytes: u64,
    /// Of all responses, bytes.
    pub response_bytes: u64,
    /// Of all requests' bodies, bytes.
    pub request_bytes: u64,
    /// Standard deviation of the times between beginnings, in means of them: 1 where they are
    /// independent of each other, 0 where they are equal.
    pub arrival_variation: f64,
    /// Share of response bytes in chunks that came before.
    pub redundancy: f64,
    /// Transactions open at a time, on average.
    pub concurrency: f64,
    /// The same, at most.
    pub concurrency_peak: u64,
    /// Connections open at a time, at most.
    pub connections_peak: u64,
    /// How long a transaction takes on average, milliseconds.
    pub mean_duration_ms: f64,
}

impl Default for Statistics {
    fn default() -> Self {
        Self::new()
    }
}

impl Statistics {
    /// Of nothing yet.
    #[must_use]
    pub fn new() -> Self {
        // Three digits of any size: the bounds are constants that it takes.
        let sizes = Histogram::new_with_bounds(1, SIZE_MAX, 3);
        Self {
            requests: 0,
            last_start_us: 0,
            first_start_us: None,
            last_end_us: 0,
            sizes: sizes.unwrap_or_else(|_| unreachable!("the bounds are in order")),
            response_bytes: 0,
            request_bytes: 0,
            duration_us: 0,
            gaps_squared: 0.0,
            ends: BinaryHeap::new(),
            peak: 0,
            open: HashMap::new(),
            connections: 0,
            open_peak: 0,
            names: Names::default(),
        }
    }

    /// Takes the next transaction of a log.
    pub fn add(&mut self, transaction: &Transaction) {
        self.requests += 1;
        self.arrive(transaction);
        self.connect(transaction);
        self.sizes.saturating_record(transaction.response_bytes);
        self.response_bytes = self
            .response_bytes
            .saturating_add(transaction.response_bytes);
        self.request_bytes = self.request_bytes.saturating_add(transaction.request_bytes);
        let mut left = transaction.response_bytes;
        for chunk in &transaction.chunks {
            let length = left.min(crate::content::CHUNK as u64);
            self.names.add(chunk, length);
            left -= length;
        }
    }

    fn arrive(&mut self, transaction: &Transaction) {
        let start = transaction.start_us;
        if self.first_start_us.is_some() {
            let gap = start.saturating_sub(self.last_start_us) as f64;
            self.gaps_squared += gap * gap;
        }
        self.first_start_us.get_or_insert(start);
        self.last_start_us = start;
        self.last_end_us = self.last_end_us.max(transaction.end_us);
        self.duration_us = self.duration_us.saturating_add(transaction.duration_us());
        while self.ends.peek().is_some_and(|Reverse(end)| *end <= start) {
            self.ends.pop();
        }
        self.ends.push(Reverse(transaction.end_us));
        self.peak = self.peak.max(self.ends.len());
    }

    fn connect(&mut self, transaction: &Transaction) {
        let known = if transaction.keep_alive {
            let known = self.open.insert(transaction.connection, transaction.end_us);
            known.is_some()
        } else {
            self.open.remove(&transaction.connection).is_some()
        };
        self.connections += u64::from(!known);
        let closing = usize::from(!transaction.keep_alive);
        self.open_peak = self.open_peak.max(self.open.len() + closing);
    }

    /// The size that this share of all responses does not exceed, to three digits.
    fn size(&self, share: f64) -> u64 {
        let at = self.sizes.value_at_quantile(share);
        self.sizes.lowest_equivalent(at)
    }

    /// What they are.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let span_us = self.last_start_us - self.first_start_us.unwrap_or_default();
        let requests = self.requests.max(1) as f64;
        let gaps = self.requests.saturating_sub(1).max(1) as f64;
        let gap = span_us as f64 / gaps;
        let variance = (self.gaps_squared / gaps - gap * gap).max(0.0);
        Summary {
            requests: self.requests,
            connections: self.connections,
            seconds: span_us as f64 / 1e6,
            median_bytes: self.size(0.5) as f64,
            mean_bytes: self.response_bytes as f64 / requests,
            largest_bytes: self.size(1.0),
            response_bytes: self.response_bytes,
            request_bytes: self.request_bytes,
            arrival_variation: if gap > 0.0 {
                variance.sqrt() / gap
            } else {
                0.0
            },
            redundancy: self.names.redundancy(),
            concurrency: self.duration_us as f64 / (span_us as f64).max(1.0),
            concurrency_peak: self.peak as u64,
            connections_peak: self.open_peak as u64,
            mean_duration_ms: self.duration_us as f64 / requests / 1e3,
        }
    }
}

/// Which names came before: of those whose hash has `skipped` zeros at its end.
#[derive(Debug, Default)]
struct Names {
    seen: HashSet<u64>,
    skipped: u32,
    /// Bytes of the chunks that were looked at, and of those of them that came before.
    bytes: u64,
    repeated: u64,
    /// The same of chunks by how many zeros their hashes have at their ends, so that a share of
    /// them can be left out later.
    by_zeros: Vec<(u64, u64)>,
}

impl Names {
    fn add(&mut self, chunk: &Chunk, length: u64) {
        let hash = mix(chunk.seed());
        let zeros = hash.trailing_zeros();
        if zeros < self.skipped {
            return;
        }
        let repeated = if self.seen.insert(hash) { 0 } else { length };
        self.count(zeros, length, repeated);
        if self.seen.len() > NAMES_MAX {
            self.skip_more();
        }
    }

    fn count(&mut self, zeros: u32, length: u64, repeated: u64) {
        let zeros = zeros as usize;
        if self.by_zeros.len() <= zeros {
            self.by_zeros.resize(zeros + 1, (0, 0));
        }
        self.by_zeros[zeros].0 += length;
        self.by_zeros[zeros].1 += repeated;
        self.bytes += length;
        self.repeated += repeated;
    }

    fn skip_more(&mut self) {
        let left_out = self.by_zeros.get(self.skipped as usize).copied();
        let (bytes, repeated) = left_out.unwrap_or_default();
        self.bytes -= bytes;
        self.repeated -= repeated;
        self.skipped += 1;
        let skipped = self.skipped;
        self.seen.retain(|hash| hash.trailing_zeros() >= skipped);
    }

    fn redundancy(&self) -> f64 {
        self.repeated as f64 / self.bytes.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Digest;
    use crate::log::example;

    #[test]
    fn a_small_log_is_counted_by_hand() {
        let name = |text: &str| Chunk::of(text.as_bytes(), Digest::Sha1);
        let all = [
            (0, 10, 1, true, 4096, vec![name("a")]),
            (4, 20, 2, false, 8192, vec![name("a"), name("b")]),
            (10, 12, 1, false, 0, vec![]),
        ];
        let mut statistics = Statistics::new();
        for (start_us, end_us, connection, keep_alive, response_bytes, chunks) in all {
            statistics.add(&Transaction {
                start_us,
                end_us,
                connection,
                keep_alive,
                response_bytes,
                chunks,
                ..example()
            });
        }
        let summary = statistics.summary();
        assert_eq!((summary.requests, summary.connections), (3, 2));
        assert_eq!(summary.seconds, 1e-5);
        assert_eq!((summary.median_bytes, summary.mean_bytes), (4096.0, 4096.0));
        assert_eq!(summary.response_bytes, 12_288);
        assert_eq!(summary.redundancy, 1.0 / 3.0);
        assert_eq!(summary.concurrency, 2.8);
        assert_eq!((summary.concurrency_peak, summary.connections_peak), (2, 2));
        assert!((summary.arrival_variation - 0.2).abs() < 1e-9);
    }

    #[test]
    fn nothing_has_statistics_too() {
        assert_eq!(Statistics::new().summary().requests, 0);
    }

    #[test]
    fn of_many_names_an_equal_share_is_remembered() {
        let mut names = Names::default();
        let many = 5 * NAMES_MAX as u64;
        for number in 0..many {
            // Every third chunk is one that came before.
            let number = if number % 3 == 0 { number / 3 } else { number };
            let mut bytes = [0; 20];
            bytes[..8].copy_from_slice(&mix(number).to_be_bytes());
            names.add(&Chunk::Sha1(bytes), 4096);
        }
        assert!(names.seen.len() <= NAMES_MAX);
        // A third of the numbers is below a third of `many`; two of three of these come twice.
        let expected = 2.0 / 9.0;
        let found = names.redundancy();
        assert!((found / expected - 1.0).abs() < 0.01, "{found} {expected}");
    }
}
