//! A run that reads what connections cost the server in memory while they do nothing.

use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::bench::end::hold::FIRST;
use crate::bench::end::work::{Work, WorkArgs};
use crate::bench::place::Place;
use crate::bench::side::Side;
use crate::process::{Running, start};
use crate::signals::Stop;

/// How long making all of them may take, or asking all of them once more.
const LIMIT: Duration = Duration::from_secs(120);

/// What idles gives memory back after a while: looked at so often ...
const LOOK: Duration = Duration::from_millis(500);
/// ... until there was no change so often in a row, but no longer than `MOST_LOOKS`.
const STILL: u32 = 4;
const MOST_LOOKS: u32 = 60;

/// So many connections, and whether they stay or are left in TIME_WAIT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// Beside the first ones.
    pub(crate) connections: u32,
    /// The server closes after the first message.
    pub(crate) closed: bool,
}

impl Memory {
    /// Figures: bytes per connection, memory of the server's process before the first connection
    /// and with all of them in MB, and the part of the kept connections that still answered
    /// afterwards, percent.
    ///
    /// # Errors
    /// An end could not start or lost connections.
    pub(super) fn run(
        self,
        place: &mut Place<'_>,
        side: Side,
        stop: &Stop,
    ) -> anyhow::Result<Vec<f64>> {
        let all = self.connections + FIRST;
        let work = self.work(all);
        place.next_run();
        let server = start(place.server(side, &work), stop).context("the server")?;
        let fresh = process_bytes(server.pid(), "Pss:")?;
        let command = place.client(side, &work, server.first_line())?;
        let mut client = start(command, stop).context("the client")?;
        check(client.first_line(), FIRST)?;
        let before = Held::settled(side, &server)?;
        check(&client.ask(LIMIT, stop).context("the client")?, all)?;
        let grown = Held::settled(side, &server)?.since(&before, self.closed);
        let full = process_bytes(server.pid(), "Pss:")?;
        let text = client.finish(LIMIT, stop).context("the client")?;
        let answered: u32 = text.trim().parse().context("the client said no number")?;
        server.stop();
        let percent = f64::from(answered) * 100.0 / f64::from(all);
        Ok(vec![
            grown / f64::from(self.connections),
            fresh as f64 / 1e6,
            full as f64 / 1e6,
            if self.closed { f64::NAN } else { percent },
        ])
    }

    fn work(self, connections: u32) -> WorkArgs {
        WorkArgs {
            work: Work::Hold,
            size: 64,
            messages: u32::from(self.closed),
            concurrency: connections,
            spin: false,
        }
    }
}

/// Refuses a client that has other than `wanted` connections.
fn check(said: &str, wanted: u32) -> anyhow::Result<()> {
    let there: u32 = said.parse().context("the client said no number")?;
    ensure!(there == wanted, "{there} of {wanted} connections were made");
    Ok(())
}

/// Memory that connections are in, bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Held {
    /// Of the server's process, not shared with anyone (so without the link).
    process: u64,
    /// Of the kernel's objects. Both ends of a connection over the loopback are in them.
    kernel: u64,
}

impl Held {
    fn now(side: Side, server: &Running) -> anyhow::Result<Self> {
        let kernel = match side {
            Side::Mtcp | Side::MtcpInline => 0,
            Side::Kernel | Side::KernelTuned | Side::KernelPlain => kernel_bytes()?,
        };
        let process = process_bytes(server.pid(), "Anonymous:")?
            + process_bytes(server.pid(), "Private_Hugetlb:")?;
        Ok(Self { process, kernel })
    }

    /// When the server's process has become still.
    fn settled(side: Side, server: &Running) -> anyhow::Result<Self> {
        let mut held = Self::now(side, server)?;
        let mut still = 0;
        for _ in 0..MOST_LOOKS {
            std::thread::sleep(LOOK);
            let before = std::mem::replace(&mut held, Self::now(side, server)?);
            still = if held.process == before.process {
                still + 1
            } else {
                0
            };
            if still == STILL {
                break;
            }
        }
        Ok(held)
    }

    /// The growth at the server. Half of the kernel's is that of the other end, unless the
    /// connections are `closed`: then only the end that closed first remembers them.
    fn since(self, before: &Self, closed: bool) -> f64 {
        let grown = |now: u64, before: u64| now as f64 - before as f64;
        let ends = if closed { 1.0 } else { 2.0 };
        grown(self.process, before.process) + grown(self.kernel, before.kernel) / ends
    }
}

fn process_bytes(pid: u32, key: &str) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    kilobytes(&text, key).with_context(|| format!("{path} has no {key}"))
}

fn kernel_bytes() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
    kilobytes(&text, "Slab:").context("/proc/meminfo has no Slab")
}

/// The number of `key` in a list of `key: number kB`, in bytes.
fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let number: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(number * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_bytes() {
        let text = "Rss:   100 kB\nAnonymous:        7 kB\nAnonHugePages:   0 kB\n";
        assert_eq!(kilobytes(text, "Anonymous:"), Some(7 * 1024));
        assert_eq!(kilobytes(text, "Pss:"), None);
        assert!(process_bytes(std::process::id(), "Anonymous:").unwrap() > 0);
    }

    #[test]
    fn the_kernels_part_is_shared_by_both_ends() {
        let before = Held {
            process: 1000,
            kernel: 5000,
        };
        let after = Held {
            process: 1100,
            kernel: 5400,
        };
        assert_eq!(after.since(&before, false), 300.0);
        assert_eq!(after.since(&before, true), 500.0);
    }
}
