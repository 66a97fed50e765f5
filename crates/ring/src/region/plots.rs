//! Memory of processes that come and go, in parts.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::page::PAGE;
use super::shared::Shared;

/// Memory in parts of one size that forked processes have in common. Each is one owner's at a time:
/// here that is seen to; across processes it is for who forked them to see that an owner is gone
/// before another takes its place.
#[derive(Debug)]
pub struct Plots {
    pub(super) memory: Shared,
    pub(super) each: usize,
    pub(super) taken: Vec<AtomicBool>,
}

/// Held by a plot and its regions.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) plots: Arc<Plots>,
    pub(super) index: usize,
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(taken) = self.plots.taken.get(self.index) {
            taken.store(false, Ordering::Release);
        }
    }
}

impl Plots {
    /// So many parts of at least `bytes`, all zero. Costs memory as it is used.
    ///
    /// # Errors
    /// No descriptor or address space.
    pub fn create(name: &str, count: usize, bytes: usize) -> io::Result<Arc<Self>> {
        let (each, all) = sizes(count, bytes)?;
        let memory = Shared::create(name, all)?;
        memory.seal()?;
        Ok(Self::on(memory, count, each))
    }

    /// Those of another process, as [`Plots::create`] made them there, whose owners are gone.
    ///
    /// # Errors
    /// `InvalidInput`: `memory` has another size.
    pub fn found(memory: Shared, count: usize, bytes: usize) -> io::Result<Arc<Self>> {
        let (each, all) = sizes(count, bytes)?;
        if memory.len() != all {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Self::on(memory, count, each))
    }

    fn on(memory: Shared, count: usize, each: usize) -> Arc<Self> {
        Arc::new(Self {
            memory,
            each,
            taken: (0..count).map(|_| AtomicBool::new(false)).collect(),
        })
    }

    /// The memory, for the process that is to find it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memory.fd()
    }
}

/// Bytes of a part, and of all of them.
fn sizes(count: usize, bytes: usize) -> io::Result<(usize, usize)> {
    let each = bytes.max(1).checked_next_multiple_of(PAGE);
    let all = each.and_then(|each| each.checked_mul(count.max(1)));
    each.zip(all)
        .ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}
