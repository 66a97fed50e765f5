//! Numbers: snapshots for callers, and a line per second for people.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mtcp_core::counters::Counters;
use wire::time::Instant;

/// Time between lines.
const PERIOD: Duration = Duration::from_secs(1);

/// The numbers of one context at one moment; differences of two are rates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// When, on the monotonic clock, nanoseconds.
    pub at_ns: u64,
    /// What the stack counted since it was made.
    pub counters: Counters,
    /// Connections that exist now, those in TIME_WAIT excepted.
    pub connections: u32,
    /// Peers that are to be told that the process before is gone, and their connection with it.
    pub untold: u32,
    /// Frames that the link received and dropped.
    pub link_dropped: u64,
    /// Frames that the link did not send.
    pub link_unsent: u64,
}

/// One second of one context.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rates {
    flows: u64,
    rx_frames: u64,
    rx_errors: u64,
    rx_bytes: u64,
    tx_frames: u64,
    tx_bytes: u64,
}

impl Rates {
    fn between(old: &Snapshot, new: &Snapshot) -> Self {
        let nanos = new.at_ns.saturating_sub(old.at_ns).max(1);
        let rate = |old: u64, new: u64| {
            let per_second =
                u128::from(new.saturating_sub(old)) * 1_000_000_000 / u128::from(nanos);
            u64::try_from(per_second).unwrap_or(u64::MAX)
        };
        let (a, b) = (&old.counters, &new.counters);
        Self {
            flows: u64::from(new.connections),
            rx_frames: rate(a.frames_in, b.frames_in),
            rx_errors: rate(old.link_dropped, new.link_dropped),
            rx_bytes: rate(a.bytes_in, b.bytes_in),
            tx_frames: rate(a.frames_out, b.frames_out),
            tx_bytes: rate(a.bytes_out, b.bytes_out),
        }
    }

    fn add(&mut self, other: &Self) {
        let Self {
            flows,
            rx_frames,
            rx_errors,
            rx_bytes,
            tx_frames,
            tx_bytes,
        } = other;
        self.flows += flows;
        self.rx_frames += rx_frames;
        self.rx_errors += rx_errors;
        self.rx_bytes += rx_bytes;
        self.tx_frames += tx_frames;
        self.tx_bytes += tx_bytes;
    }

    /// The line that tools for the original mTCP parse.
    fn line(&self, who: &str, link: &str) -> String {
        let gbps = |bytes: u64| bytes as f64 * 8.0 / 1e9;
        format!(
            "[{who}] {link} flows: {:6}, RX: {:7}(pps) (err: {:5}), {:5.2}(Gbps), TX: {:7}(pps), {:5.2}(Gbps)\n",
            self.flows,
            self.rx_frames,
            self.rx_errors,
            gbps(self.rx_bytes),
            self.tx_frames,
            gbps(self.tx_bytes),
        )
    }
}

/// The last second of every context of a process.
#[derive(Debug)]
pub(crate) struct Board {
    link: String,
    rates: Mutex<Vec<Option<Rates>>>,
}

impl Board {
    pub(crate) fn new(link: String, cores: usize) -> Arc<Self> {
        Arc::new(Self {
            link,
            rates: Mutex::new(vec![None; cores]),
        })
    }

    /// Notes the last second of `core`. The first context prints for all.
    fn report(&self, core: usize, rates: Rates) -> Option<String> {
        let mut all = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        *all.get_mut(core)? = Some(rates);
        if all.iter().position(Option::is_some) != Some(core) {
            return None;
        }
        let mut text = String::new();
        let mut sum = Rates::default();
        for (core, rates) in all
            .iter()
            .enumerate()
            .filter_map(|(core, rates)| Some((core, rates.as_ref()?)))
        {
            // Writing to a string cannot fail.
            let _ = text.write_str(&rates.line(&format!("CPU {core}"), &self.link));
            sum.add(rates);
        }
        let _ = text.write_str(&sum.line(" ALL ", &self.link));
        Some(text)
    }

    fn leave(&self, core: usize) {
        let mut all = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rates) = all.get_mut(core) {
            *rates = None;
        }
    }
}

/// Makes a runner report once per second.
#[derive(Debug)]
pub(crate) struct Reporter {
    core: usize,
    board: Arc<Board>,
    last: Option<Snapshot>,
    due: Instant,
}

impl Reporter {
    pub(crate) fn new(core: usize, board: Arc<Board>) -> Self {
        Self {
            core,
            board,
            last: None,
            due: Instant::ZERO,
        }
    }

    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    pub(crate) fn report(&mut self, snapshot: Snapshot, now: Instant) {
        self.due = now + PERIOD;
        if let Some(last) = &self.last
            && let Some(text) = self
                .board
                .report(self.core, Rates::between(last, &snapshot))
        {
            // Nobody to tell if nobody listens.
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
        self.last = Some(snapshot);
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.board.leave(self.core);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(at_ns: u64, frames: u64, bytes: u64) -> Snapshot {
        let counters = Counters {
            frames_in: frames,
            bytes_in: bytes,
            ..Counters::default()
        };
        Snapshot {
            at_ns,
            counters,
            connections: 3,
            untold: 0,
            link_dropped: 0,
            link_unsent: 0,
        }
    }

    #[test]
    fn rates_are_per_second() {
        let rates = Rates::between(
            &snapshot(0, 0, 0),
            &snapshot(2_000_000_000, 100, 1_000_000_000),
        );
        assert_eq!(
            (rates.rx_frames, rates.rx_bytes, rates.flows),
            (50, 500_000_000, 3)
        );
        let line = rates.line("CPU 0", "veth0");
        assert_eq!(
            line,
            "[CPU 0] veth0 flows:      3, RX:      50(pps) (err:     0),  4.00(Gbps), TX:       0(pps),  0.00(Gbps)\n"
        );
    }

    #[test]
    fn the_first_context_prints_for_all() {
        let board = Board::new("x".into(), 2);
        let rates = Rates {
            flows: 1,
            ..Rates::default()
        };
        assert!(board.report(0, rates).unwrap().contains("[ ALL ]"));
        assert!(board.report(1, rates).is_none());
        let text = board.report(0, rates).unwrap();
        assert!(
            text.contains("[CPU 1]") && text.contains("[ ALL ] x flows:      2"),
            "{text}"
        );
        board.leave(0);
        assert!(board.report(1, rates).is_some());
    }
}
