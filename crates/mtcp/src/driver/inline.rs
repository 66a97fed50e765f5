//! Run to completion: calls that wait run the stack on the calling thread.

use std::hint;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use mtcp_core::{Acks, Command, Connect, Event, Opened, Reply, Undelivered};
use ring::park::{FdSleeper, FdWaker};
use wire::time::Instant;

use super::{STAGED, Staged, Wake};
use crate::runner::Runner;
use crate::stats::Snapshot;
use crate::{Errno, Result};

/// Bursts per turn. Few, so that what the application answers to them leaves while the peer still
/// works on what it got before: two programs that hand each other all they have in one piece take
/// turns at sleeping.
const BURSTS: usize = 1;
/// Reports per wait, for the same reason.
pub(crate) const REPORTS: usize = 32;
/// How long calls may go on with what a turn brought, and answers wait for company: about what a
/// program takes to answer a burst.
const BATCH: Duration = Duration::from_micros(200);

/// ACKs do not wait for the answers of a program that takes longer for a burst.
const PROMPT: Duration = Duration::from_millis(1);

/// Whether what was `looked` for has just been taken in; `now` reads the clock.
pub(super) fn is_fresh(looked: Option<Instant>, now: impl FnOnce() -> Instant) -> bool {
    looked.is_some_and(|looked| now().since(looked) < BATCH)
}

/// A stack on the calling thread.
#[derive(Debug)]
pub(crate) struct Inline {
    runner: Runner,
    staged: Vec<Staged>,
    sleeper: FdSleeper,
    waker: FdWaker,
    failure: Option<String>,
}

impl Inline {
    pub(crate) fn new(runner: Runner) -> std::io::Result<Self> {
        let (sleeper, waker) = ring::park::wake_fd()?;
        Ok(Self {
            runner,
            staged: Vec::with_capacity(STAGED),
            sleeper,
            waker,
            failure: None,
        })
    }

    #[inline(always)]
    pub(super) fn notify(&mut self, doorbell: Staged) {
        if self.staged.len() >= STAGED {
            self.make_room();
        }
        self.staged.push(doorbell);
    }

    #[cold]
    fn make_room(&mut self) {
        self.runner.begin();
        self.carry_out();
    }

    fn carry_out(&mut self) {
        for doorbell in self.staged.drain(..) {
            // A refusal means that the connection is gone, which its own event says.
            let _ = self.runner.execute(doorbell.into());
        }
    }

    pub(super) fn submit(&mut self) -> Result<()> {
        self.begin(Acks::All).map(drop)
    }

    pub(super) fn begin_turn(&mut self, acks: Acks) -> Result<bool> {
        self.begin(acks)
    }

    fn begin(&mut self, acks: Acks) -> Result<bool> {
        self.check()?;
        let quiet = self.runner.begin_quietly() && self.staged.is_empty();
        if !quiet {
            if self.staged.last().is_some_and(|doorbell| doorbell.sends()) {
                self.runner.wake_peer();
            }
            self.carry_out();
            let prompt = self.runner.now().since(self.runner.looked()) < PROMPT;
            self.send(if prompt { acks } else { Acks::All })?;
        }
        Ok(quiet)
    }

    pub(super) fn collect(&mut self) -> Result<()> {
        self.check()?;
        self.runner.receive(BURSTS);
        Ok(())
    }

    pub(super) fn settle(&mut self) -> Result<()> {
        self.send(Acks::All)
    }

    fn send(&mut self, acks: Acks) -> Result<()> {
        if self.runner.is_settled() {
            return Ok(());
        }
        let sent = self.runner.transmit(acks);
        self.note(sent)
    }

    pub(super) fn idle(
        &mut self,
        deadline: Option<Instant>,
        asked: impl Fn() -> bool,
    ) -> Result<Wake> {
        self.carry_out();
        self.settle()?;
        if self.runner.spins() {
            self.spin(deadline, asked);
            return Ok(Wake::Look);
        }
        self.sleeper.prepare();
        let slept = if asked() {
            Ok(Wake::Look)
        } else {
            self.runner.sleep(deadline, self.sleeper.fd())
        };
        self.sleeper.finish();
        let wake = self.note(slept)?;
        self.runner.begin();
        Ok(wake)
    }

    /// As [`idle`](Self::idle) without the sleep, which somebody else does. Says when something is
    /// due, at the latest `deadline`.
    pub(super) fn begin_pause(&mut self, deadline: Option<Instant>) -> Result<Option<Instant>> {
        self.carry_out();
        self.settle()?;
        let now = self.runner.now();
        Ok(self.runner.due(deadline).map(|due| now + due))
    }

    /// That sleep is over.
    pub(super) fn end_pause(&mut self) {
        self.runner.begin();
    }

    /// Looks for something to do for as long as that is better than to sleep. Ends in a turn that
    /// was begun.
    fn spin(&mut self, deadline: Option<Instant>, asked: impl Fn() -> bool) {
        loop {
            hint::spin_loop();
            let quiet = self.runner.begin_quietly();
            let over = deadline.is_some_and(|deadline| deadline <= self.runner.now());
            if !quiet || over || !self.runner.spins() || asked() {
                return;
            }
        }
    }

    /// Sleeps until the stack has something to do, or `wake` is readable.
    pub(super) fn sleep(&mut self, wake: BorrowedFd<'_>) -> Result<()> {
        let slept = self.runner.sleep(None, wake);
        self.note(slept.map(drop))
    }

    pub(super) fn prepare_sleep(&mut self, fds: &mut Vec<RawFd>) -> Result<Option<Duration>> {
        self.carry_out();
        self.settle()?;
        let prepared = self.runner.prepare_sleep(fds);
        self.note(prepared)
    }

    pub(super) fn has_staged(&self) -> bool {
        !self.staged.is_empty()
    }

    pub(super) fn loops(&self) -> bool {
        self.runner.loops()
    }

    pub(super) fn is_fresh(&self) -> bool {
        is_fresh(self.looked(), || self.read_clock())
    }

    /// When it last looked what has arrived. `None` where that is what was just sent.
    pub(super) fn looked(&self) -> Option<Instant> {
        (!self.runner.loops()).then(|| self.runner.looked())
    }

    pub(super) fn delays(&self) -> bool {
        self.runner.delays()
    }

    pub(super) fn due(&self) -> Option<Duration> {
        self.runner.due(None)
    }

    pub(super) fn end_sleep(&mut self) -> Result<()> {
        self.check()?;
        let ended = self.runner.end_sleep();
        self.note(ended)
    }

    pub(super) fn is_away(&self) -> bool {
        self.runner.is_away()
    }

    pub(super) fn wants_look(&self) -> bool {
        self.runner.wants_look()
    }

    pub(super) fn look_when_asked(&mut self) {
        self.runner.look_when_asked();
    }

    pub(super) fn look_again(&mut self) {
        self.runner.look_again();
    }

    pub(super) fn is_asked(&self) -> bool {
        self.runner.is_asked()
    }

    pub(super) fn port_descriptors(&mut self) -> Vec<RawFd> {
        self.runner.begin();
        self.runner.port_descriptors()
    }

    pub(super) fn give_way(&mut self) -> Result<()> {
        self.submit()?;
        self.runner.give_way();
        Ok(())
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.runner.poll_event()
    }

    /// What was staged comes before a call.
    fn begin_call(&mut self) -> Result<()> {
        self.check()?;
        self.runner.begin_call();
        self.carry_out();
        Ok(())
    }

    pub(super) fn connect(&mut self, request: &Connect<'_>) -> Result<Opened> {
        self.begin_call()?;
        if self.runner.is_away() {
            return Err(Errno::ENETDOWN);
        }
        Ok(self.runner.connect(request)?)
    }

    #[inline(never)]
    pub(super) fn call(&mut self, command: Command) -> Result<Reply> {
        self.begin_call()?;
        Ok(self.runner.execute(command)?)
    }

    pub(super) fn snapshot(&mut self) -> Result<Snapshot> {
        Ok(self.runner.snapshot())
    }

    pub(super) fn undelivered(&mut self) -> Result<Undelivered> {
        Ok(self.runner.stack().undelivered())
    }

    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    pub(super) fn waker(&self) -> FdWaker {
        self.waker.clone()
    }

    pub(super) fn now(&self) -> Instant {
        self.runner.now()
    }

    pub(super) fn read_clock(&self) -> Instant {
        self.runner.read_clock()
    }

    fn check(&self) -> Result<()> {
        if self.failure.is_none() {
            Ok(())
        } else {
            Err(Errno::ENETDOWN)
        }
    }

    fn note<T>(&mut self, result: std::io::Result<T>) -> Result<T> {
        result.map_err(|error| {
            self.runner.receive_rest();
            self.failure = Some(error.to_string());
            Errno::ENETDOWN
        })
    }
}
