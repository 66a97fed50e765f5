//! The application's side of a stack that goes on while the application computes.
//!
//! Whichever thread is there runs it: calls of the application, as inline, and while none come the
//! [stand-in](super::stand_in). A thread switch for every burst would cost more than the stack
//! itself: hand-offs between two threads of one processor take 2 us, and the answer of a call has
//! to be waited for. The lock is free when the application comes, unless it was away for a while.

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
    bells: Producer<Staged>,
    shared: Arc<Shared>,
    /// Of the application's sleep.
    bell: FdWaker,
    /// Of the stand-in while it stands in.
    standing: FdWaker,
    /// When the application last had the stack look what has arrived.
    looked: Option<Instant>,
    failure: Option<String>,
    thread: Option<JoinHandle<()>>,
}

impl Paired {
    /// Starts the thread that stands in, on processor `cpu` if given.
    pub(crate) fn start(runner: Runner, name: String, cpu: Option<usize>) -> std::io::Result<Self> {
        let (bells, bell_queue) = channel(STAGED);
        let (sleeper, standing) = ring::park::wake_fd()?;
        let inline = Inline::new(runner)?;
        let bell = inline.bell();
        let shared = Arc::new(Shared::new(inline, bell_queue)?);
        let background = Background::new(Arc::clone(&shared), sleeper, cpu);
        let builder = thread::Builder::new().name(name);
        let thread = signals::without(|| builder.spawn(move || background.run()))?;
        Ok(Self {
            bells,
            shared,
            bell,
            standing,
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
        let Some(mut held) = self.shared.hold(&self.standing) else {
            self.failure = Some("the stack's thread panicked".to_owned());
            return Err(Errno::ENETDOWN);
        };
        held.take_bells();
        let result = work(&mut held);
        if result.is_err() && self.failure.is_none() {
            self.failure = held.inline.failure().map(str::to_owned);
        }
        result
    }

    #[inline]
    pub(super) fn ring(&mut self, bell: Staged) {
        let mut bell = bell;
        while let Err(back) = self.bells.push(bell) {
            bell = back;
            // Takes them all, or never will.
            if self.with(|_| Ok(())).is_err() {
                return;
            }
        }
        self.standing.wake();
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
        let wake = self.with_held(|held| match mem::take(&mut held.stood_in) {
            true => Ok(Wake::Look),
            false => held.inline.idle(deadline, asked),
        });
        self.shared.end_wait();
        self.shared.rest.wake_after(LOOK);
        wake
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.with(|inline| Ok(inline.poll_event())).ok().flatten()
    }

    pub(super) fn connect(&mut self, request: &Connect<'_>) -> Result<Opened> {
        self.with(|inline| inline.connect(request))
    }

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

    pub(super) fn bell(&self) -> FdWaker {
        self.bell.clone()
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
        self.shared.rest.wake();
        self.standing.wake();
        if let Some(thread) = self.thread.take() {
            // A panic has been reported as a failed link.
            let _ = thread.join();
        }
    }
}
