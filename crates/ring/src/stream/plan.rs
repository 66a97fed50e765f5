//! Memory of streams that the stack's process lends to a program: how it is laid out, and what the
//! two agree on.

use std::io;
use std::mem::offset_of;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::pool::{MIN_BLOCK, class_bytes, class_for};
use crate::region::{PagePolicy, Plot, Plots, Shared};

use super::config::StreamsConfig;
use super::marks::{Mark, Marks};
use super::memory::Memory;
use super::record::{Record, Records};

const PAGE: usize = 4096;
/// Most bytes of a pool in it: every descriptor below that of its end names a block inside, which
/// holds for sizes that are powers of two, and whose descriptors do not overflow.
const MAX_POOL: usize = 2 << 30;

/// What the two ends of streams in two processes have to agree on. Plain words, to be sent to the
/// program with the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[repr(C)]
pub struct HomePlan {
    /// Where everything lies: another build may have it elsewhere.
    pub layout: u64,
    /// Bytes of the receive pool, a power of two.
    pub recv_pool_bytes: u64,
    /// Bytes of the send pool, a power of two.
    pub send_pool_bytes: u64,
    /// Connection slots.
    pub slots: u32,
    /// The largest buffer of one direction, bytes.
    pub max_buffer: u32,
}

impl HomePlan {
    /// The layout of this build.
    pub const LAYOUT: u64 = layout();

    /// Of streams of this `config`, with pools rounded up to powers of two.
    ///
    /// # Errors
    /// `InvalidInput`: a pool of more than 2 GiB.
    pub fn new(config: &StreamsConfig) -> io::Result<Self> {
        let pool = |bytes: usize| {
            let whole = bytes.max(MIN_BLOCK).checked_next_power_of_two();
            let whole = whole.filter(|&bytes| bytes <= MAX_POOL);
            whole
                .map(|bytes| bytes as u64)
                .ok_or_else(|| refused(&format!("a pool of {bytes} bytes is too large to share")))
        };
        Ok(Self {
            layout: Self::LAYOUT,
            recv_pool_bytes: pool(config.recv_pool_bytes)?,
            send_pool_bytes: pool(config.send_pool_bytes)?,
            slots: config.slots,
            max_buffer: config.max_buffer,
        })
    }

    /// What another process says, looked at.
    fn check(&self) -> io::Result<()> {
        if self.layout != Self::LAYOUT {
            return Err(refused(
                "streams of another build: start the program with the library of the daemon",
            ));
        }
        let fits = |bytes: u64| {
            bytes.is_power_of_two() && (MIN_BLOCK as u64..=MAX_POOL as u64).contains(&bytes)
        };
        if fits(self.recv_pool_bytes) && fits(self.send_pool_bytes) {
            Ok(())
        } else {
            Err(refused("streams in pools of sizes that cannot be"))
        }
    }

    /// Bytes of all of it, in whole pages.
    fn bytes(&self) -> usize {
        let slots = self.slots as usize;
        let parts = [
            slots * size_of::<Record>(),
            slots * size_of::<Mark>(),
            self.recv_pool_bytes as usize,
            self.send_pool_bytes as usize,
        ];
        parts
            .map(|bytes| bytes.max(1).next_multiple_of(PAGE))
            .iter()
            .sum()
    }

    /// Largest limit there can be, bytes.
    pub(super) fn max_limit(&self) -> u32 {
        let largest = class_for(self.max_buffer).or(class_for(32 << 20));
        class_bytes(largest.unwrap_or(0))
    }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why.to_owned())
}

/// FNV-1a over everything that either end finds by its place.
const fn layout() -> u64 {
    let mut words: &[usize] = &[
        size_of::<Record>(),
        size_of::<Mark>(),
        MIN_BLOCK,
        offset_of!(Record, stack.recv),
        offset_of!(Record, stack.send),
        offset_of!(Record, stack.recv_limit),
        offset_of!(Record, stack.send_limit),
        offset_of!(Record, stack.sent),
        offset_of!(Record, stack.unsent_low_water),
        offset_of!(Record, stack.status),
        offset_of!(Record, stack.granted),
        offset_of!(Record, stack.open),
        offset_of!(Record, stack.send_outgrown),
        offset_of!(Record, app.send),
        offset_of!(Record, app.recv),
        offset_of!(Record, app.released),
        offset_of!(Record, app.wants_space),
        offset_of!(Mark, gap_end),
        offset_of!(Mark, skipped),
        offset_of!(Mark, taken),
        offset_of!(Mark, passed),
    ];
    let mut hash = 0xcbf2_9ce4_8422_2325;
    while let [word, rest @ ..] = words {
        hash = (hash ^ *word as u64).wrapping_mul(0x0100_0000_01b3);
        words = rest;
    }
    hash
}

/// Sealed memory for the streams of one program, which the stack's process makes. Costs memory only
/// as far as it is used.
#[derive(Debug)]
pub struct HomeMemory {
    plots: Arc<Plots>,
    plan: HomePlan,
}

impl HomeMemory {
    /// `name` is shown in `/proc`.
    ///
    /// # Errors
    /// As [`HomePlan::new`]; no descriptor, or no address space.
    pub fn create(name: &str, config: &StreamsConfig) -> io::Result<Self> {
        let plan = HomePlan::new(config)?;
        let plots = Plots::create(name, 1, plan.bytes())?;
        Ok(Self { plots, plan })
    }

    /// What a program was given. No process that it forks has it.
    pub(super) fn open(fd: OwnedFd, plan: &HomePlan) -> io::Result<Self> {
        plan.check()?;
        let mut memory = Shared::from_fd(fd, plan.bytes())?;
        memory.keep_from_children();
        let plots = Plots::found(memory, 1, plan.bytes())?;
        Ok(Self { plots, plan: *plan })
    }

    /// The memory that another process made for a program, which goes on.
    ///
    /// # Errors
    /// `InvalidInput`: it is of another build, or not as large as it should be; no address space.
    pub fn found(fd: OwnedFd, plan: &HomePlan) -> io::Result<Self> {
        Self::open(fd, plan)
    }

    /// The memory, to be sent to the program.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.plots.fd()
    }

    /// To be sent with it.
    pub fn plan(&self) -> HomePlan {
        self.plan
    }

    /// The parts. They can be had once as long as they live.
    pub(super) fn parts(&self) -> io::Result<Parts> {
        let mut plot = self.plots.take(0).ok_or(io::ErrorKind::AlreadyExists)?;
        let plan = &self.plan;
        let plot = &mut plot;
        Ok(Parts {
            records: Records::new(plan.slots, PagePolicy::Small, Some(plot))?,
            marks: Marks::new(plan.slots, Some(plot))?,
            recv: bounded(plan.recv_pool_bytes, plot)?,
            send: bounded(plan.send_pool_bytes, plot)?,
        })
    }
}

fn bounded(bytes: u64, plot: &mut Plot) -> io::Result<Memory> {
    Memory::bounded(bytes as usize, plot)
}

/// The parts of such memory, in their order.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) records: Records,
    pub(super) marks: Marks,
    pub(super) recv: Memory,
    pub(super) send: Memory,
}
