//! What the application's thread of a paired context and its background driver have in common.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use ring::park::FdWaker;
use ring::spsc::Consumer;

use super::park::Park;
use super::{Inline, Staged};

/// The stack, and what the application told it since it last ran.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) inline: Inline,
    doorbells: Consumer<Staged>,
    /// It ran while the application was elsewhere, which may not have seen what came of that.
    pub(super) drove_alone: bool,
}

impl Held {
    pub(super) fn take_doorbells(&mut self) {
        while let Some(doorbell) = self.doorbells.pop() {
            self.inline.notify(doorbell);
        }
    }

    pub(super) fn has_doorbells(&mut self) -> bool {
        !self.doorbells.is_empty()
    }
}

/// What both threads see.
#[derive(Debug)]
pub(super) struct Shared {
    held: Mutex<Held>,
    /// Of the application, so far.
    calls: AtomicU64,
    /// The application sleeps in a call, and wakes when the stack has something to do.
    waits: AtomicBool,
    /// The background driver's sleep meanwhile.
    pub(super) park: Park,
    /// The application waits for the stack.
    wanted: AtomicBool,
    stop: AtomicBool,
}

impl Shared {
    pub(super) fn new(inline: Inline, doorbells: Consumer<Staged>) -> io::Result<Self> {
        Ok(Self {
            held: Mutex::new(Held {
                inline,
                doorbells,
                drove_alone: false,
            }),
            calls: AtomicU64::new(0),
            waits: AtomicBool::new(false),
            park: Park::new()?,
            wanted: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        })
    }

    /// The application begins to sleep in a call.
    pub(super) fn begin_wait(&self) {
        self.waits.store(true, Ordering::Relaxed);
    }

    /// That sleep is over.
    pub(super) fn end_wait(&self) {
        self.waits.store(false, Ordering::SeqCst);
    }

    /// The application needs the stack no more.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Acquire)
    }

    pub(super) fn waits(&self) -> bool {
        // Sequentially consistent with what `Park` does.
        self.waits.load(Ordering::SeqCst)
    }

    /// Whether a background driver that had seen `seen` calls has to go on.
    pub(super) fn is_away(&self, seen: u64) -> bool {
        self.calls() == seen && !self.wanted.load(Ordering::Acquire) && !self.stopped()
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// The stack, for the application: a background driver that sleeps is woken. `None` after a
    /// panic.
    #[inline]
    pub(super) fn hold(&self, background: &FdWaker) -> Option<MutexGuard<'_, Held>> {
        let held = self.held.try_lock();
        // Only the application writes it.
        let calls = self.calls.load(Ordering::Relaxed);
        self.calls.store(calls + 1, Ordering::Release);
        match held {
            Ok(held) => Some(held),
            Err(TryLockError::WouldBlock) => {
                // Until we have it: who gave it back could take it again before we run.
                self.wanted.store(true, Ordering::Release);
                background.wake();
                let held = self.held.lock().ok();
                self.wanted.store(false, Ordering::Relaxed);
                held
            }
            Err(TryLockError::Poisoned(_)) => None,
        }
    }

    /// The stack, unless the application has it.
    pub(super) fn try_hold(&self) -> Option<MutexGuard<'_, Held>> {
        self.held.try_lock().ok()
    }
}
