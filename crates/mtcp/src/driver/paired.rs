//! The application's side of a stack that goes on while the application computes.
//!
//! Whichever thread is there runs it: calls of the application, as inline, and while none come the
//! [background driver](super::background). A thread switch for every burst would cost more than the
//! stack itself: hand-offs between two threads of one processor take 2 us, and the answer of a call
//! has to be waited for. The lock is free when the application comes, unless it was away for a
//! while.

use std::mem;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use mtcp_core::{Acks, Command, Connect, Event, Opened, Reply, Undelivered};
use ring::park::FdWaker;
use ring::spsc::{Producer, channel};
use wire::time::Instant;

use super::background::{Background, LOOK};
use super::inline::is_fresh;
use super::shared::{Held, Shared};
use super::{Inline, STAGED, Staged, Wake};
use crate::clock;
use crate::runner::Runner;
use crate::stats::Snapshot;
use crate::{Errno, Result, signals};

/// A stack that two threads may run.
#[derive(Debug)]
pub(crate) struct Paired {
    doorbells: Producer<Staged>,
    shared: Arc<Shared>,
    /// Of the application's sleep.
    waker: FdWaker,
    /// Of the background driver.
    background_waker: FdWaker,
    /// When the application last had the stack look what has arrived.
    looked: Option<Instant>,
    failure: Option<String>,
    thread: Option<JoinHandle<()>>,
}

impl Paired {
    /// Starts the background driver, on processor `cpu` if given.
    pub(crate) fn start(runner: Runner, name: String, cpu: Option<usize>) -> std::io::Result<Self> {
        let (doorbells, doorbell_queue) = channel(STAGED);
        let (sleeper, background_waker) = ring::park::wake_fd()?;
        let inline = Inline::new(runner)?;
        let waker = inline.waker();
        let shared = Arc::new(Shared::new(inline, doorbell_queue)?);
        let background = Background::new(Arc::clone(&shared), sleeper, cpu);
        let builder = thread::Builder::new().name(name);
        let thread = signals::without(|| builder.spawn(move || background.run()))?;
        Ok(Self {
            doorbells,
            shared,
            waker,
            background_waker,
            looked: None,
            failure: None,
            thread: Some(thread),
        })
    }

    /// Does `work` with the stack.
    #[inline]
    fn with<T>(&mut self, work: impl FnOnce(&mut Inline) -> Result<T>) -> Result<T> {
        self.with_held(|held| work(&mut held.inline))
    }

    #[inline]
    fn with_held<T>(&mut self, work: impl FnOnce(&mut Held) -> Result<T>) -> Result<T> {
        let Some(mut held) = self.shared.hold(&self.background_waker) else {
            self.failure = Some("the stack's thread panicked".to_owned());
            return Err(Errno::ENETDOWN);
        };
        held.take_doorbells();
        let result = work(&mut held);
        if result.is_err() && self.failure.is_none() {
            self.failure = held.inline.failure().map(str::to_owned);
        }
        result
    }

    #[inline]
    pub(super) fn notify(&mut self, doorbell: Staged) {
        let mut doorbell = doorbell;
        while let Err(back) = self.doorbells.push(doorbell) {
            doorbell = back;
            // Takes them all, or never will.
            if self.with(|_| Ok(())).is_err() {
                return;
            }
        }
        self.background_waker.wake();
    }

    pub(super) fn begin_turn(&mut self, acks: Acks) -> Result<bool> {
        self.with(|inline| inline.begin_turn(acks))
    }

    pub(super) fn submit(&mut self) -> Result<()> {
        self.with(Inline::submit)
    }

    pub(super) fn collect(&mut self) -> Result<()> {
        self.looked = self.with(|inline| {
            inline.collect()?;
            Ok(inline.looked())
        })?;
        Ok(())
    }

    pub(super) fn is_fresh(&self) -> bool {
        is_fresh(self.looked, clock::now)
    }

    pub(super) fn settle(&mut self) -> Result<()> {
        self.with(Inline::settle)
    }

    pub(super) fn idle(
        &mut self,
        deadline: Option<Instant>,
        asked: impl Fn() -> bool,
    ) -> Result<Wake> {
        self.shared.begin_wait();
        let wake = self.with_held(|held| match mem::take(&mut held.drove_alone) {
            true => Ok(Wake::Look),
            false => held.inline.idle(deadline, asked),
        });
        self.shared.end_wait();
        self.shared.park.wake_after(LOOK);
        wake
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.with(|inline| Ok(inline.poll_event())).ok().flatten()
    }

    pub(super) fn connect(&mut self, request: &Connect<'_>) -> Result<Opened> {
        self.with(|inline| inline.connect(request))
    }

    #[inline(never)]
    pub(super) fn call(&mut self, command: Command) -> Result<Reply> {
        self.with(|inline| inline.call(command))
    }

    pub(super) fn snapshot(&mut self) -> Result<Snapshot> {
        self.with(Inline::snapshot)
    }

    pub(super) fn undelivered(&mut self) -> Result<Undelivered> {
        self.with(Inline::undelivered)
    }

    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    pub(super) fn waker(&self) -> FdWaker {
        self.waker.clone()
    }

    pub(super) fn now(&self) -> Instant {
        clock::now()
    }
}

impl Drop for Paired {
    fn drop(&mut self) {
        // What the application said last still leaves.
        let _ = self.submit();
        self.shared.stop();
        self.shared.park.wake();
        self.background_waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic has been reported as a failed link.
            let _ = thread.join();
        }
    }
}
