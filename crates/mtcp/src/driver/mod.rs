//! What moves a context: the calling thread itself, and in paired mode a background driver while
//! that thread is elsewhere.

mod background;
mod doorbell;
mod inline;
mod paired;
mod park;
mod service;
mod shared;

use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use mtcp_core::{Acks, Command, ConnId, Connect, Event, Opened, Reply, Undelivered};
use ring::park::FdWaker;
use wire::time::Instant;

pub(crate) use doorbell::{Doorbell, Staged};
pub(crate) use inline::{Inline, REPORTS};
pub(crate) use paired::Paired;
pub(crate) use service::Service;

pub(crate) use crate::runner::Wake;

use crate::stats::Snapshot;
use crate::{Errno, Result, clock};

/// Doorbells staged at most before they are handed over.
const STAGED: usize = 1024;

/// The modes. Every operation fails with `ENETDOWN` once the link, or the daemon that has the
/// stack, is gone.
#[derive(Debug)]
pub(crate) enum Driver {
    Inline(Box<Inline>),
    Paired(Box<Paired>),
    Service(Box<Service>),
}

/// The same call on each.
macro_rules! each {
    ($self:ident, $driver:ident => $call:expr) => {
        match $self {
            Driver::Inline($driver) => $call,
            Driver::Paired($driver) => $call,
            Driver::Service($driver) => $call,
        }
    };
}

impl Driver {
    /// Stages news that needs no answer; it goes with the next `submit` or `call`.
    #[inline(always)]
    pub(crate) fn notify(&mut self, doorbell: Doorbell) {
        let doorbell = Staged::from(doorbell);
        each!(self, driver => driver.notify(doorbell));
    }

    /// Starts a turn: hands over what was staged, and has it sent, with such ACKs. True: that was
    /// nothing, and nothing has come.
    pub(crate) fn begin_turn(&mut self, acks: Acks) -> Result<bool> {
        match self {
            Self::Inline(driver) => driver.begin_turn(acks),
            Self::Paired(driver) => driver.begin_turn(acks),
            Self::Service(driver) => driver.begin_turn(),
        }
    }

    /// Hands over what was staged, and has it sent.
    pub(crate) fn submit(&mut self) -> Result<()> {
        each!(self, driver => driver.submit())
    }

    /// Takes in what arrived.
    pub(crate) fn collect(&mut self) -> Result<()> {
        each!(self, driver => driver.collect())
    }

    /// Nothing was ready: flushes held ACKs, and sleeps until something may be, at most
    /// until `deadline`. Returns early when `asked` says that someone asked for it.
    pub(crate) fn idle(
        &mut self,
        deadline: Option<Instant>,
        asked: impl Fn() -> bool,
    ) -> Result<Wake> {
        each!(self, driver => driver.idle(deadline, asked))
    }

    /// As [`Driver::idle`] without the sleep, which somebody else does. Says when something is due,
    /// at the latest `deadline`.
    pub(crate) fn begin_pause(&mut self, deadline: Option<Instant>) -> Result<Option<Instant>> {
        match self {
            Self::Inline(driver) => driver.begin_pause(deadline),
            Self::Paired(_) | Self::Service(_) => Err(Errno::EOPNOTSUPP),
        }
    }

    /// That sleep is over.
    pub(crate) fn end_pause(&mut self) {
        if let Self::Inline(driver) = self {
            driver.end_pause();
        }
    }

    /// Nothing was ready: flushes held ACKs, and says on which descriptors to sleep,
    /// and how long at most.
    pub(crate) fn prepare_sleep(&mut self, fds: &mut Vec<RawFd>) -> Result<Option<Duration>> {
        match self {
            Self::Inline(driver) => driver.prepare_sleep(fds),
            Self::Service(driver) => driver.prepare_sleep(fds),
            Self::Paired(_) => Err(Errno::EOPNOTSUPP),
        }
    }

    /// Other processes have a connection by the socket at the other end of `end`, too.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: the stack is in this process.
    pub(crate) fn pair(&mut self, conn: ConnId, end: BorrowedFd<'_>) -> Result<()> {
        match self {
            Self::Service(driver) => driver.pair(conn, end),
            Self::Inline(_) | Self::Paired(_) => Err(Errno::EOPNOTSUPP),
        }
    }

    /// Processes share what is listened at next by this socket of the kernel. A stack of this
    /// process's own has no use for it.
    ///
    /// # Errors
    /// It cannot be said.
    pub(crate) fn note_kernel_listener(&mut self, socket: BorrowedFd<'_>) -> Result<()> {
        match self {
            Self::Service(driver) => driver.note_kernel_listener(socket),
            Self::Inline(_) | Self::Paired(_) => Ok(()),
        }
    }

    /// Whether something is staged.
    pub(crate) fn has_staged(&self) -> bool {
        match self {
            Self::Inline(driver) => driver.has_staged(),
            Self::Service(driver) => driver.has_staged(),
            Self::Paired(_) => false,
        }
    }

    /// Whether what is sent may come back to the same stack.
    pub(crate) fn loops(&self) -> bool {
        match self {
            Self::Inline(driver) => driver.loops(),
            Self::Paired(_) | Self::Service(_) => false,
        }
    }

    /// Whether what arrived was taken in a moment ago: a turn now would carry little.
    pub(crate) fn is_fresh(&self) -> bool {
        match self {
            Self::Inline(driver) => driver.is_fresh(),
            Self::Paired(driver) => driver.is_fresh(),
            Self::Service(driver) => driver.is_fresh(),
        }
    }

    /// Whether sleeps are coalescing delays now.
    pub(crate) fn delays(&self) -> bool {
        match self {
            Self::Inline(driver) => driver.delays(),
            Self::Paired(_) | Self::Service(_) => false,
        }
    }

    /// How long until something is due by itself.
    pub(crate) fn due(&self) -> Option<Duration> {
        match self {
            Self::Inline(driver) => driver.due(),
            Self::Paired(_) | Self::Service(_) => None,
        }
    }

    /// That sleep is over.
    pub(crate) fn end_sleep(&mut self) -> Result<()> {
        match self {
            Self::Inline(driver) => driver.end_sleep(),
            Self::Service(driver) => driver.end_sleep(),
            Self::Paired(_) => Err(Errno::EOPNOTSUPP),
        }
    }

    /// Whether the link is gone for now. A stack thread sees to that by itself.
    pub(crate) fn is_away(&self) -> bool {
        match self {
            Self::Inline(driver) => driver.is_away(),
            Self::Paired(_) | Self::Service(_) => false,
        }
    }

    /// Whether [`Driver::look_again`] has something to do.
    pub(crate) fn wants_look(&self) -> bool {
        match self {
            Self::Inline(driver) => driver.wants_look(),
            Self::Paired(_) | Self::Service(_) => false,
        }
    }

    /// From now on it opens what comes later in [`Driver::look_again`] alone.
    pub(crate) fn look_when_asked(&mut self) {
        if let Self::Inline(driver) = self {
            driver.look_when_asked();
        }
    }

    /// Opens what there is to open.
    pub(crate) fn look_again(&mut self) {
        if let Self::Inline(driver) = self {
            driver.look_again();
        }
    }

    /// Whether another process asks for the queue, and the stack could go on without. A stack
    /// thread keeps it.
    pub(crate) fn is_asked(&self) -> bool {
        match self {
            Self::Inline(driver) => driver.is_asked(),
            Self::Paired(_) | Self::Service(_) => false,
        }
    }

    /// The descriptors of the port.
    pub(crate) fn port_descriptors(&mut self) -> Vec<RawFd> {
        match self {
            Self::Inline(driver) => driver.port_descriptors(),
            Self::Paired(_) | Self::Service(_) => Vec::new(),
        }
    }

    /// Leaves the queue to the process that asks.
    pub(crate) fn leave_queue(&mut self) -> Result<()> {
        match self {
            Self::Inline(driver) => driver.give_way(),
            Self::Paired(_) | Self::Service(_) => Err(Errno::EOPNOTSUPP),
        }
    }

    /// Flushes ACKs that were held back for piggybacking.
    pub(crate) fn settle(&mut self) -> Result<()> {
        match self {
            Self::Inline(driver) => driver.settle(),
            Self::Paired(driver) => driver.settle(),
            Self::Service(driver) => driver.submit(),
        }
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        each!(self, driver => driver.poll_event())
    }

    /// Carries out a call and waits for the answer. None of the drivers does so in line: each would
    /// take room for its answer on the stack of whoever calls, of which programs have little.
    pub(crate) fn call(&mut self, command: Command) -> Result<Reply> {
        each!(self, driver => driver.call(command))
    }

    /// Opens a connection.
    pub(crate) fn connect(&mut self, request: &Connect<'_>) -> Result<Opened> {
        each!(self, driver => driver.connect(request))
    }

    /// Numbers of this moment.
    pub(crate) fn snapshot(&mut self) -> Result<Snapshot> {
        each!(self, driver => driver.snapshot())
    }

    /// What peers have still to acknowledge of what the application has closed.
    pub(crate) fn undelivered(&mut self) -> Result<Undelivered> {
        each!(self, driver => driver.undelivered())
    }

    /// Why the link is gone.
    pub(crate) fn failure(&self) -> Option<&str> {
        each!(self, driver => driver.failure())
    }

    /// Now, or the time of the turn.
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::Inline(driver) => driver.now(),
            Self::Paired(driver) => driver.now(),
            Self::Service(_) => clock::now(),
        }
    }

    /// Now.
    pub(crate) fn read_clock(&self) -> Instant {
        match self {
            Self::Inline(driver) => driver.read_clock(),
            Self::Paired(driver) => driver.now(),
            Self::Service(_) => clock::now(),
        }
    }

    pub(crate) fn waker(&self) -> FdWaker {
        each!(self, driver => driver.waker())
    }

    pub(crate) fn check(&self) -> Result<()> {
        match self.failure() {
            None => Ok(()),
            Some(_) => Err(Errno::ENETDOWN),
        }
    }
}
