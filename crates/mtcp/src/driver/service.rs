//! The application's side of a stack that a daemon has.
//!
//! Calls that need no answer go with the next hand-over; the others wait for the daemon. Events
//! come by themselves. A sleep is one on the doorbell, which the daemon rings, and which says when
//! it is gone.

use std::collections::VecDeque;
use std::hint;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use ::io::poll::{self, PollFd, PollFlags};
use control::client::Session;
use mtcp_core::{Command, ConnId, Connect, Counters, Event, Opened, OptionsId, Reply, Undelivered};
use ring::park::{FdSleeper, FdWaker};
use wire::time::Instant;

use super::inline::is_fresh;
use super::{Staged, Wake};
use crate::service::{Answer, Call, Facts, Heard, ProgramEnd};
use crate::stats::Snapshot;
use crate::{Errno, Result, clock};

/// How long to sleep while the daemon has no room for what is to be said.
const FULL_DELAY: Duration = Duration::from_millis(1);

/// How often it is tried to pass a descriptor to a daemon that has not taken those before.
const PASS_TRIES: usize = 1000;

/// How often a program that never sleeps looks whether the daemon is there.
const HEAR: Duration = Duration::from_millis(1);
/// How long to look for an answer of a daemon that has a processor of its own before sleeping: it
/// may have to wake, and takes a turn first.
const ANSWER_SPIN: Duration = Duration::from_micros(50);

/// See the module.
#[derive(Debug)]
pub(crate) struct Service {
    end: ProgramEnd,
    /// Came while an answer was waited for.
    events: VecDeque<Event>,
    /// Of the last call.
    serial: u32,
    /// When the application last took in what has come.
    looked: Option<Instant>,
    /// When the doorbell last said that the daemon is there.
    heard: Instant,
    /// Events have come, and what they ask for may not be done.
    has_work: bool,
    /// When that was done.
    done: Instant,
    /// How long after that to look for more before sleeping.
    spin: Duration,
    sleeper: FdSleeper,
    waker: FdWaker,
    /// A thread sleeps for all without this: calls of others go on meanwhile.
    is_slept_on: bool,
    failure: Option<String>,
    /// The daemon takes the program for gone when this is.
    _session: Option<Session>,
}

impl Service {
    /// # Errors
    /// No descriptor left.
    pub(crate) fn new(
        end: ProgramEnd,
        spin: Duration,
        session: Option<Session>,
    ) -> std::io::Result<Self> {
        let (sleeper, waker) = ring::park::wake_fd()?;
        Ok(Self {
            end,
            events: VecDeque::new(),
            serial: 0,
            looked: None,
            heard: Instant::ZERO,
            has_work: false,
            done: Instant::ZERO,
            spin,
            sleeper,
            waker,
            is_slept_on: false,
            failure: None,
            _session: session,
        })
    }

    #[inline]
    pub(super) fn notify(&mut self, doorbell: Staged) {
        while !self.end.stage(doorbell) {
            if self.make_room().is_err() {
                return;
            }
        }
    }

    /// The daemon takes what has been said whenever it runs.
    #[cold]
    fn make_room(&mut self) -> Result<()> {
        self.submit()?;
        self.doze(Some(FULL_DELAY), false).map(drop)
    }

    pub(super) fn submit(&mut self) -> Result<()> {
        self.check()?;
        self.end.publish();
        Ok(())
    }

    /// True: nothing was staged, and nothing has come. A daemon that sleeps on this processor is
    /// not woken while a quick program has more to do: it could not run, or the program could not,
    /// and a hand-over for each report costs more than what it hands over.
    pub(super) fn begin_turn(&mut self) -> Result<bool> {
        self.check()?;
        let published = match self.is_fresh() {
            true => self.end.publish_beside(),
            false => self.end.publish(),
        };
        Ok(!published && self.is_empty())
    }

    pub(super) fn collect(&mut self) -> Result<()> {
        let now = clock::now();
        self.looked = Some(now);
        if now.since(self.heard) >= HEAR {
            // Who never sleeps would not notice that the daemon is gone.
            self.heard = now;
            let lives = self.end.lives();
            self.disturb();
            self.note_end(lives)?;
        }
        self.check()
    }

    pub(super) fn is_fresh(&self) -> bool {
        is_fresh(self.looked, clock::now)
    }

    fn is_empty(&mut self) -> bool {
        self.events.is_empty() && self.end.is_empty()
    }

    pub(super) fn idle(
        &mut self,
        deadline: Option<Instant>,
        asked: impl Fn() -> bool,
    ) -> Result<Wake> {
        self.submit()?;
        if self.events.is_empty() && self.spins(deadline, &asked) {
            return Ok(Wake::Look);
        }
        self.sleeper.prepare();
        let slept = if asked() || !self.events.is_empty() {
            Ok(Wake::Look)
        } else {
            let timeout = deadline.map(|deadline| deadline.since(clock::now()));
            self.doze(timeout, true)
        };
        self.sleeper.finish();
        slept
    }

    /// Looks for more events before sleeping, if some came a moment ago and the daemon runs
    /// meanwhile. True: there is a reason to look.
    fn spins(&mut self, deadline: Option<Instant>, asked: impl Fn() -> bool) -> bool {
        if std::mem::take(&mut self.has_work) {
            self.done = clock::now();
        }
        let end = self.done + self.spin;
        let end = deadline.map_or(end, |deadline| deadline.min(end));
        self.looks_until(end, asked)
    }

    /// Looks until the daemon has said something or `asked` says so. False: the time is up, or the
    /// daemon says nothing while this looks.
    fn looks_until(&mut self, end: Instant, asked: impl Fn() -> bool) -> bool {
        while clock::now() < end && !self.end.is_beside() {
            if !self.end.is_empty() || asked() {
                return true;
            }
            hint::spin_loop();
        }
        false
    }

    /// Sleeps until the daemon has something to say or is gone, somebody wakes this side (if that
    /// is `woken`), or `timeout` has passed.
    fn doze(&mut self, timeout: Option<Duration>, woken: bool) -> Result<Wake> {
        if !self.end.begin_sleep() {
            self.disturb();
            return Ok(Wake::Look);
        }
        let mut fds = [
            PollFd::from_borrowed_fd(self.end.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.sleeper.fd(), PollFlags::IN),
        ];
        let fds = if woken { &mut fds[..] } else { &mut fds[..1] };
        let slept = poll::sleep_or_signal(fds, timeout);
        let lives = self.end.end_sleep();
        self.disturb();
        self.note_end(lives)?;
        match slept {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Ok(Wake::Signal),
            _ => Ok(Wake::Look),
        }
    }

    /// What the daemon has rung, or will, is not heard any more by the thread that sleeps: it looks
    /// for itself, and says anew that it sleeps.
    #[inline]
    fn disturb(&self) {
        if self.is_slept_on {
            self.waker.wake();
        }
    }

    fn note_end(&mut self, lives: bool) -> Result<()> {
        if !lives {
            self.fail("the daemon that has the stack has ended");
        }
        self.check()
    }

    #[cold]
    fn fail(&mut self, why: &str) {
        self.failure.get_or_insert_with(|| why.to_owned());
    }

    pub(super) fn prepare_sleep(&mut self, fds: &mut Vec<RawFd>) -> Result<Option<Duration>> {
        self.submit()?;
        if !self.events.is_empty() || !self.end.begin_sleep() {
            return Ok(Some(Duration::ZERO));
        }
        self.is_slept_on = true;
        self.sleeper.prepare();
        fds.push(self.end.as_fd().as_raw_fd());
        fds.push(self.sleeper.fd().as_raw_fd());
        Ok(None)
    }

    pub(super) fn end_sleep(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_slept_on) {
            self.sleeper.finish();
        }
        let lives = self.end.end_sleep();
        self.note_end(lives)
    }

    pub(super) fn has_staged(&self) -> bool {
        self.end.has_staged()
    }

    #[inline]
    pub(super) fn poll_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                self.has_work = true;
                return Some(event);
            }
            match self.hear()? {
                Heard::Event(event) => {
                    self.has_work = true;
                    return Some(event);
                }
                // Of a call that nobody waits for any more.
                Heard::Answer(..) => {}
            }
        }
    }

    #[inline]
    fn hear(&mut self) -> Option<Heard> {
        self.end.hear().unwrap_or_else(|_| {
            self.disorder();
            None
        })
    }

    #[cold]
    fn disorder(&mut self) -> Errno {
        self.fail(
            "the daemon that has the stack says what means nothing: it is of another version",
        );
        Errno::ENETDOWN
    }

    #[inline(never)]
    pub(super) fn call(&mut self, command: Command) -> Result<Reply> {
        match self.ask(&Call::Command(command))? {
            Answer::Reply(reply) => reply.map_err(Errno),
            _ => Err(self.disorder()),
        }
    }

    /// What the stack is.
    pub(crate) fn facts(&mut self) -> Result<Facts> {
        match self.ask(&Call::Facts)? {
            Answer::Facts(facts) => Ok(facts),
            _ => Err(self.disorder()),
        }
    }

    /// Its open connections, and what peers have still to acknowledge of what it has closed.
    fn usage(&mut self) -> Result<(u32, Undelivered)> {
        match self.ask(&Call::Usage)? {
            Answer::Usage { open, undelivered } => Ok((open, undelivered)),
            _ => Err(self.disorder()),
        }
    }

    pub(super) fn undelivered(&mut self) -> Result<Undelivered> {
        self.usage().map(|(_, undelivered)| undelivered)
    }

    #[inline(never)]
    pub(super) fn connect(&mut self, request: &Connect<'_>) -> Result<Opened> {
        let command = Command::Connect {
            token: request.token,
            local: request.local,
            remote: request.remote,
            options: *request.options,
        };
        let opened = |conn: ConnId, local, is_deferred| Opened {
            conn,
            local,
            is_deferred,
            options: OptionsId::NONE,
        };
        match self.call(command)? {
            Reply::Connecting(conn, local) => Ok(opened(conn, local, false)),
            Reply::Deferred(conn, local) => Ok(opened(conn, local, true)),
            _ => Err(self.disorder()),
        }
    }

    /// Other processes have a connection, too, by the socket at the other end of `end`: the daemon
    /// goes on with it when this one is done with it.
    #[cold]
    #[inline(never)]
    pub(super) fn pair(&mut self, conn: ConnId, end: BorrowedFd<'_>) -> Result<()> {
        self.ask_with(end, &Call::Pair(conn))
    }

    /// Processes share what is listened at next by this socket of the kernel.
    #[cold]
    #[inline(never)]
    pub(super) fn note_kernel_listener(&mut self, socket: BorrowedFd<'_>) -> Result<()> {
        self.ask_with(socket, &Call::KernelListener)
    }

    /// A call with a descriptor.
    fn ask_with(&mut self, end: BorrowedFd<'_>, call: &Call) -> Result<()> {
        let mut tries = 0..PASS_TRIES;
        while let Err(error) = self.end.pass(end) {
            let is_full = error.kind() == std::io::ErrorKind::WouldBlock;
            if !is_full || tries.next().is_none() {
                return Err(Errno(error.raw_os_error().unwrap_or(libc::EIO)));
            }
            self.make_room()?;
        }
        match self.ask(call)? {
            Answer::Reply(reply) => reply.map(drop).map_err(Errno),
            _ => Err(self.disorder()),
        }
    }

    /// What was staged comes before a call. Signals do not end it: the daemon answers at once.
    #[inline(never)]
    fn ask(&mut self, call: &Call) -> Result<Answer> {
        self.serial = self.serial.wrapping_add(1);
        while !self.end.stage_call(self.serial, call) {
            self.make_room()?;
        }
        self.submit()?;
        loop {
            match self.hear() {
                Some(Heard::Answer(serial, answer)) if serial == self.serial => return Ok(answer),
                Some(Heard::Answer(..)) => {}
                Some(Heard::Event(event)) => self.events.push_back(event),
                None => self.await_answer()?,
            }
        }
    }

    /// Nothing has come yet: looks for a while where the daemon runs meanwhile, then sleeps.
    fn await_answer(&mut self) -> Result<()> {
        self.check()?;
        if self.looks_until(clock::now() + ANSWER_SPIN, || false) {
            return Ok(());
        }
        self.doze(None, false).map(drop)
    }

    /// Of this program's connections. The daemon counts what passes, for all programs.
    pub(super) fn snapshot(&mut self) -> Result<Snapshot> {
        let (open, undelivered) = self.usage()?;
        Ok(Snapshot {
            at_ns: clock::now().as_nanos(),
            counters: Counters::default(),
            connections: open + undelivered.connections,
            untold: 0,
            link_dropped: 0,
            link_unsent: 0,
        })
    }

    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    pub(super) fn waker(&self) -> FdWaker {
        self.waker.clone()
    }

    fn check(&self) -> Result<()> {
        match self.failure {
            None => Ok(()),
            Some(_) => Err(Errno::ENETDOWN),
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // What the application said last still counts.
        self.end.publish();
    }
}
