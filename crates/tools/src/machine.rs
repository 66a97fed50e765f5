//! The process and the processor it runs on.

use std::ffi::OsString;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::CpuSet;

use crate::fail::Failure;

/// The processors that this process may use.
fn allowed() -> impl Iterator<Item = usize> {
    let set = rustix::thread::sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(move |core| set.is_set(*core))
}

/// Refuses a processor that this process may not use.
pub(crate) fn check_core(core: usize) -> anyhow::Result<()> {
    if allowed().any(|other| other == core) {
        return Ok(());
    }
    let list: Vec<String> = allowed().map(|core| core.to_string()).collect();
    let cause = format!("this process may not use processor {core}");
    Err(Failure::error(
        cause,
        format!("choose --core from {}", list.join(", ")),
    ))
}

/// Pins this thread to processor `core`.
pub(crate) fn pin(core: usize) -> anyhow::Result<()> {
    check_core(core)?;
    let mut set = CpuSet::new();
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set).map_err(|error| {
        Failure::error(
            format!("cannot pin to processor {core}: {error}"),
            "leave --core out",
        )
    })
}

/// Does `work` on a thread of its own on a processor; `None` if it cannot run there.
pub(crate) fn on<T: Send + 'static>(
    core: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let thread = std::thread::spawn(move || pin(core).ok().map(|()| work()));
    thread.join().ok().flatten()
}

/// Two processors that this process may use, for a server and its client; the same twice if there
/// is but one.
pub(crate) fn two_cores() -> (usize, usize) {
    let mut allowed = allowed();
    let first = allowed.next().unwrap_or_default();
    (first, allowed.next().unwrap_or(first))
}

/// Raises the limit of open files as far as this user may: every kernel socket is one. Returns the
/// limit.
pub(crate) fn raise_open_files() -> u64 {
    const WANTED: u64 = 1_048_576;
    let limit = getrlimit(Resource::Nofile);
    // A privileged user may go past the hard limit; anyone may go up to it.
    for maximum in [
        limit.maximum.map(|maximum| maximum.max(WANTED)),
        limit.maximum,
    ] {
        let wanted = Rlimit {
            current: maximum,
            maximum,
        };
        if setrlimit(Resource::Nofile, wanted).is_ok() {
            return maximum.unwrap_or(u64::MAX);
        }
    }
    limit.current.unwrap_or(u64::MAX)
}

/// Has this process take as much address space as this user may have: a limit that was set for the
/// program which started it is not for it.
pub(crate) fn raise_address_space() {
    let limit = getrlimit(Resource::As);
    for maximum in [None, limit.maximum] {
        let wanted = Rlimit {
            current: maximum,
            maximum,
        };
        if setrlimit(Resource::As, wanted).is_ok() {
            return;
        }
    }
}

/// This program's file.
///
/// # Errors
/// There is no `/proc`.
pub(crate) fn own_program() -> anyhow::Result<OsString> {
    let own = std::env::current_exe().map_err(|error| {
        Failure::error(format!("this program has no name: {error}"), "mount /proc")
    })?;
    Ok(own.into_os_string())
}

/// Processor time of this process so far, seconds: (user, system).
pub(crate) fn cpu_seconds() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may hold anything; fields 14 and 15 are counted from the state after
    // it.
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_ascii_whitespace()
        .collect();
    let ticks = |index: usize| {
        fields
            .get(index)
            .and_then(|field| field.parse::<u64>().ok())
            .unwrap_or_default() as f64
    };
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    (ticks(11) / per_second, ticks(12) / per_second)
}

/// The machine, for reports: processor, how many of them, kernel.
pub(crate) fn description() -> serde_json::Value {
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split(':').nth(1));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    serde_json::json!({
        "processor": model.unwrap_or("unknown").trim(),
        "processors": allowed().count(),
        "kernel": kernel.trim(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_grows() {
        let total = || cpu_seconds().0 + cpu_seconds().1;
        let (before, start) = (total(), std::time::Instant::now());
        while total() <= before {
            assert!(
                start.elapsed().as_secs() < 60,
                "busy for a minute, and nothing counted"
            );
        }
    }
}
