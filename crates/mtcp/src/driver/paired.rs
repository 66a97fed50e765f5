//! The application's side of a stack thread.
//!
//! Four queues join them: commands and replies (one of each at a time), doorbells, events. The stack thread never waits for the
//! application: events that do not fit stay in the stack. The application waits for room only in the doorbell queue, which the stack
//! thread always empties; so neither can wait for the other in a circle.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mtcp_core::{Command, Event, Reply};
use ring::park::{FdWaker, Parked, Parker, Unparker};
use ring::spsc::{Consumer, Producer, channel};
use wire::time::Instant;

use super::stack_thread::{Answer, Request, Shared, StackThread};
use super::{Doorbell, STAGED, Wake};
use crate::runner::Runner;
use crate::stats::Snapshot;
use crate::wake::Bell;
use crate::{Errno, Result, clock, signals};

/// Entries of the event and doorbell queues.
pub(super) const QUEUE: usize = 4096;
/// Looks for a reply before sleeping; between them the stack thread gets the processor.
const LOOKS: u32 = 4;
/// Between looks for room in a full queue.
const NAP: Duration = Duration::from_micros(50);

/// Sleep that only others end.
const LONG: Duration = Duration::from_secs(3600);

/// A stack thread and the queues to it.
#[derive(Debug)]
pub(crate) struct Paired {
    requests: Producer<Request>,
    answers: Consumer<Answer>,
    bells: Producer<Doorbell>,
    events: Consumer<Event>,
    parker: Parker,
    unparker: Unparker,
    stack: FdWaker,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Paired {
    /// Starts the stack thread, on processor `cpu` if given.
    pub(crate) fn start(runner: Runner, name: String, cpu: Option<usize>) -> std::io::Result<Self> {
        let (requests, request_queue) = channel(4);
        let (answer_queue, answers) = channel(4);
        let (bells, bell_queue) = channel(QUEUE);
        let (event_queue, events) = channel(QUEUE);
        let (parker, unparker) = ring::park::parker();
        let (sleeper, stack) = ring::park::wake_fd()?;
        let shared = Arc::new(Shared::default());
        let stack_thread = StackThread {
            runner,
            requests: request_queue,
            answers: answer_queue,
            bells: bell_queue,
            events: event_queue,
            app: unparker.clone(),
            sleeper,
            shared: Arc::clone(&shared),
            cpu,
        };
        let builder = thread::Builder::new().name(name);
        let thread = signals::without(|| builder.spawn(move || stack_thread.run()))?;
        Ok(Self {
            requests,
            answers,
            bells,
            events,
            parker,
            unparker,
            stack,
            shared,
            thread: Some(thread),
        })
    }

    #[inline]
    pub(super) fn ring(&mut self, bell: Doorbell) {
        let mut bell = bell;
        while let Err(back) = self.bells.stage(bell) {
            bell = back;
            self.publish();
            if self.shared.failed() {
                return;
            }
            thread::sleep(NAP);
        }
        if self.bells.staged() as usize >= STAGED {
            self.publish();
        }
    }

    fn publish(&mut self) {
        if self.bells.publish() > 0 {
            self.stack.wake();
        }
    }

    pub(super) fn submit(&mut self) -> Result<()> {
        self.publish();
        self.check()
    }

    pub(super) fn collect(&mut self) -> Result<()> {
        self.check()
    }

    pub(super) fn settle(&mut self) -> Result<()> {
        self.submit()
    }

    pub(super) fn idle(
        &mut self,
        deadline: Option<Instant>,
        asked: impl Fn() -> bool,
    ) -> Result<Wake> {
        self.submit()?;
        // A sleep without a limit would not end for every signal handler.
        let timeout = deadline.map_or(LONG, |at| at.since(clock::now()));
        let wake = self.park(timeout, |paired| !paired.events.is_empty() || asked());
        self.check()?;
        Ok(wake)
    }

    /// Sleeps unless `ready`.
    fn park(&mut self, timeout: Duration, ready: impl Fn(&mut Self) -> bool) -> Wake {
        self.parker.prepare();
        if ready(self) || self.shared.failed() {
            self.parker.cancel();
            return Wake::Look;
        }
        match self.parker.park_or_signal(Some(timeout)) {
            Parked::Signal => Wake::Signal,
            Parked::Woken | Parked::Early => Wake::Look,
        }
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop();
        if event.is_none() && self.shared.take_stalled() {
            self.stack.wake();
        }
        event
    }

    pub(super) fn call(&mut self, command: Command) -> Result<Reply> {
        match self.ask(Request::Command(command))? {
            Answer::Reply(reply) => Ok(reply?),
            Answer::Snapshot => Err(Errno::EINVAL),
        }
    }

    pub(super) fn snapshot(&mut self) -> Result<Snapshot> {
        match self.ask(Request::Snapshot)? {
            Answer::Snapshot => self.shared.take_snapshot().ok_or(Errno::ENOMEM),
            Answer::Reply(_) => Err(Errno::EINVAL),
        }
    }

    fn ask(&mut self, request: Request) -> Result<Answer> {
        self.check()?;
        // What was staged before the call happens before it.
        self.bells.publish();
        self.requests.push(request).map_err(|_| Errno::ENOBUFS)?;
        self.stack.wake();
        for _ in 0..LOOKS {
            thread::yield_now();
            if let Some(answer) = self.answers.pop() {
                return Ok(answer);
            }
        }
        loop {
            if let Some(answer) = self.answers.pop() {
                return Ok(answer);
            }
            self.check()?;
            self.park(LONG, |paired| !paired.answers.is_empty());
        }
    }

    pub(super) fn failure(&self) -> Option<&str> {
        self.shared.failure()
    }

    pub(super) fn bell(&self) -> Bell {
        Bell::Futex(self.unparker.clone())
    }

    pub(super) fn now(&self) -> Instant {
        clock::now()
    }

    fn check(&self) -> Result<()> {
        if self.shared.failed() {
            Err(Errno::ENETDOWN)
        } else {
            Ok(())
        }
    }
}

impl Drop for Paired {
    fn drop(&mut self) {
        self.bells.publish();
        self.shared.stop();
        self.stack.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the stack thread has been reported as a failed link.
            let _ = thread.join();
        }
    }
}
