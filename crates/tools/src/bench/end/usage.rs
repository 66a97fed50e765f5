//! Processor time: of a processor, from /proc/stat, and of a process, from its schedstat.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// Time that a processor and the measured processes on it have used, nanoseconds. Differences of
/// two are what a window used.
///
/// The parts of a processor's time are sampled by the timer tick; `busy` is what is left of the
/// wall clock without the idle time, which the kernel measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// In programs.
    pub(crate) user: u64,
    /// In system calls.
    pub(crate) system: u64,
    /// In interrupts and what they leave for later.
    pub(crate) softirq: u64,
    /// Taken by the hypervisor.
    pub(crate) steal: u64,
    /// Idle.
    pub(crate) idle: u64,
    /// Of the measured processes: their own time on any processor.
    pub(crate) process: u64,
}

impl Usage {
    /// So far, of processor `core` and the processes `pids`.
    pub(crate) fn now(core: usize, pids: &[u32]) -> Self {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        Self {
            process: pids.iter().map(|&pid| process_time(pid)).sum(),
            ..processor_time(&stat, core).unwrap_or_default()
        }
    }

    /// What was used since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            softirq: self.softirq.saturating_sub(before.softirq),
            steal: self.steal.saturating_sub(before.steal),
            idle: self.idle.saturating_sub(before.idle),
            process: self.process.saturating_sub(before.process),
        }
    }

    /// What the processor was not idle for in a window of `wall` nanoseconds: user, system and
    /// softirq time of whoever ran there.
    ///
    /// No less than the measured process ran: stolen time is told late and in whole ticks, so that
    /// a short window can be told of more than its own.
    pub(crate) fn busy(&self, wall: u64) -> u64 {
        wall.saturating_sub(self.idle + self.steal)
            .max(self.process)
    }
}

fn processor_time(stat: &str, core: usize) -> Option<Usage> {
    let name = format!("cpu{core}");
    let line = stat
        .lines()
        .find(|line| line.split_ascii_whitespace().next() == Some(name.as_str()))?;
    let fields: Vec<u64> = line
        .split_ascii_whitespace()
        .skip(1)
        .map_while(|field| field.parse().ok())
        .collect();
    let tick = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let field = |index: usize| fields.get(index).copied().unwrap_or_default() * tick;
    Some(Usage {
        user: field(0) + field(1),
        system: field(2),
        idle: field(3) + field(4),
        softirq: field(5) + field(6),
        steal: field(7),
        process: 0,
    })
}

/// The time that all threads of a process have run.
fn process_time(pid: u32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    threads
        .into_iter()
        .flatten()
        .flatten()
        .map(|thread| thread_time(&thread.path()))
        .sum()
}

fn thread_time(thread: &Path) -> u64 {
    let text = std::fs::read_to_string(thread.join("schedstat")).unwrap_or_default();
    text.split_ascii_whitespace()
        .next()
        .and_then(|field| field.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_processor_is_read() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\ncpu1 100 20 30 400 5 6 7 8 0 0\nintr 1\n";
        let usage = processor_time(stat, 1).unwrap();
        let tick = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        assert_eq!(usage.user, 120 * tick);
        assert_eq!(usage.system, 30 * tick);
        assert_eq!(usage.idle, 405 * tick);
        assert_eq!(usage.softirq, 13 * tick);
        assert_eq!(usage.steal, 8 * tick);
        assert_eq!(usage.busy(1000 * tick), 587 * tick);
        assert!(processor_time(stat, 2).is_none());
    }

    #[test]
    fn stolen_time_told_late_hides_no_work() {
        let usage = Usage {
            steal: 120,
            process: 30,
            ..Usage::default()
        };
        assert_eq!(usage.busy(100), 30);
    }

    #[test]
    fn work_shows_in_the_time_of_the_process() {
        let pid = std::process::id();
        let (before, start) = (Usage::now(0, &[pid]), std::time::Instant::now());
        while Usage::now(0, &[pid]).since(before).process < 1_000_000 {
            assert!(start.elapsed().as_secs() < 60, "nothing was counted");
        }
    }
}
