//! Threads and processors.

use std::io;
use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Keeps the calling thread on processor `cpu`.
pub(crate) fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// The processor that the calling thread runs on.
pub(crate) fn current() -> u32 {
    u32::try_from(sched_getcpu()).unwrap_or(u32::MAX)
}

/// Processors that this process may use, lowest first.
pub(crate) fn processors() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU)
            .filter(|&cpu| set.is_set(cpu))
            .collect(),
        Err(_) => (0..thread::available_parallelism().map_or(1, Into::into)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_stays() {
        let cpu = processors()[0];
        thread::spawn(move || {
            pin(cpu).unwrap();
            assert_eq!(processors(), vec![cpu]);
        })
        .join()
        .unwrap();
        assert!(pin(usize::MAX).is_err());
    }
}
