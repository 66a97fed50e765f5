//! One core's sockets and the stack below them: what programs call.
//!
//! Nothing is done here. [`Sockets`] does what takes no waiting; the modules below let calls wait.
//!
//! A program may also take turns in pieces, where it waits by itself: for this context and other
//! descriptors at once, or on several threads. It calls [`Context::begin_turn`], looks at what
//! became ready, and if that is nothing [`Context::prepare_sleep`], sleeps without the context
//! (which other threads may use meanwhile), and calls [`Context::end_sleep`]. Inline mode only.

mod asking;
mod blocking;
mod bytes;
mod close;
mod epoll;
mod open;
mod options;
mod reports;
mod stream;
mod wait;
mod waits;

use std::cell::Cell;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use ::io::AnyPort;
use control::client::Session;
use mtcp_core::Command;
use wire::time::Instant;

use crate::calls::Sockets;
use crate::service::Attachment;
use crate::stats::Snapshot;
use crate::{Config, Result, SetupError, WakeHandle, assembly};
use waits::Waits;

/// Who is asked, in place of a sleep, by the calls of a context in
/// [virtual time](crate::in_virtual_time) that have to wait.
pub trait Waiter: Debug + Send + Sync {
    /// A call of `context` waits, and nothing is due before `until` (`None`: ever): moves the clock
    /// on, at most that far, or has frames arrive. The call goes on waiting afterwards if that was
    /// not enough; it ends with `EINTR` after [`WakeHandle::interrupt`]. Other calls on `context`
    /// may be made meanwhile.
    fn wait(&self, context: &mut Context, until: Option<Instant>);
}

/// Sockets, epoll instances and pipes of one thread. `Send`, so that it can be made elsewhere; not
/// `Sync`: one thread at a time uses it.
///
/// Dropping it closes its sockets and sends what can be sent at once; it does not wait for peers.
#[derive(Debug)]
pub struct Context {
    sockets: Sockets,
    waits: Waits,
    /// Sleeps in its place.
    waiter: Option<Arc<dyn Waiter>>,
    not_sync: PhantomData<Cell<()>>,
}

impl From<Sockets> for Context {
    fn from(sockets: Sockets) -> Self {
        Self {
            sockets,
            waits: Waits::default(),
            waiter: None,
            not_sync: PhantomData,
        }
    }
}

impl Context {
    /// `waiter` sleeps in place of its calls.
    pub(crate) fn with_waiter(self, waiter: Arc<dyn Waiter>) -> Self {
        let mut context = self;
        context.waiter = Some(waiter);
        context
    }

    /// Resets all connections, to whose peers nobody is left to talk.
    pub(crate) fn reset_all(&mut self) {
        // Who is told nothing waits for long.
        let _ = self.sockets.transport.driver.call(Command::AbortAll);
        let _ = self.poll();
    }

    /// A context on a port of the caller's making, for programs that bring their own link, and for
    /// tests. `config` says the rest; its `io` is not used, threads are not pinned.
    ///
    /// # Errors
    /// As [`Mtcp::context`](crate::Mtcp::context).
    pub fn on_port(
        port: impl Into<AnyPort>,
        config: &Config,
        core: usize,
    ) -> std::result::Result<Self, SetupError> {
        assembly::on_port(port.into(), config, core).map(Self::from)
    }

    /// A context whose stack a daemon has. `config` says how its calls behave; what concerns the
    /// stack, the daemon says. With a `session` it is attached as long as it lives.
    ///
    /// # Errors
    /// It is not a daemon of this build, or it is gone; no descriptor left.
    pub(crate) fn attach(
        attachment: Attachment,
        session: Option<Session>,
        config: &Config,
        core: usize,
    ) -> std::result::Result<Self, SetupError> {
        assembly::attached(config, core, attachment, session)
            .map(Self::from)
            .map_err(|error| SetupError(format!("cannot attach to the daemon: {error}")))
    }

    /// The logical core it was made for.
    pub fn core(&self) -> usize {
        self.sockets.settings.core
    }

    /// The addresses of its stack.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.sockets.settings.addresses
    }

    /// Does what is due without waiting: receives, fires timers, sends. Calls that wait or would
    /// have to do this by themselves.
    ///
    /// # Errors
    /// `ENETDOWN` when the link is gone.
    pub fn poll(&mut self) -> Result<()> {
        self.sockets.poll()
    }

    /// A handle that ends this context's sleep from elsewhere.
    pub fn wake_handle(&self) -> WakeHandle {
        let requests = Arc::clone(&self.waits.requests);
        WakeHandle::new(requests, self.sockets.transport.driver.waker())
    }

    /// Why the link went down, once it has.
    pub fn link_error(&self) -> Option<&str> {
        self.sockets.transport.driver.failure()
    }

    /// What the stack counted, and how much it holds.
    ///
    /// # Errors
    /// `ENETDOWN` in paired mode when the link is gone.
    pub fn counters(&mut self) -> Result<Snapshot> {
        self.sockets.transport.driver.snapshot()
    }

    /// Sends what was staged, receives, and notes what became ready. What answers that sends later
    /// rides on the ACKs.
    ///
    /// # Errors
    /// `ENETDOWN` when the link is gone.
    pub fn begin_turn(&mut self) -> Result<()> {
        self.sockets.begin_turn()
    }

    /// Flushes ACKs that were held back for piggybacking, adds the descriptors that become readable
    /// when there is something to do to `fds`, and says how long a sleep on them may be (`None`: no
    /// limit).
    ///
    /// # Errors
    /// `ENETDOWN` when the link is gone, `EOPNOTSUPP` in paired mode.
    pub fn prepare_sleep(&mut self, fds: &mut Vec<RawFd>) -> Result<Option<Duration>> {
        self.sockets.prepare_sleep(fds)
    }

    /// The sleep that was prepared is over.
    ///
    /// # Errors
    /// As [`Context::prepare_sleep`].
    pub fn end_sleep(&mut self) -> Result<()> {
        let ended = self.sockets.transport.driver.end_sleep();
        self.sockets.note_link(ended)
    }

    /// Whether another thread sleeps on what [`Context::prepare_sleep`] gave, and takes a turn when
    /// there is something to do: calls that would block then leave that to it. Never on links that
    /// loop, where nothing tells the sleeper of what was just sent.
    pub fn set_attended(&mut self, attended: bool) {
        self.waits.attended = attended && !self.sockets.transport.driver.loops();
    }

    /// Whether another thread will take the next turn.
    pub fn is_attended(&self) -> bool {
        self.waits.attended
    }

    /// How long until something is due by itself, as far as known; `None`: nothing, or in paired
    /// mode.
    pub fn due(&self) -> Option<Duration> {
        self.sockets.transport.driver.due()
    }

    /// Whether calls staged something that the stack has not been told.
    pub fn has_staged(&self) -> bool {
        self.sockets.transport.driver.has_staged()
    }

    /// Flushes ACKs that were held back for piggybacking.
    ///
    /// # Errors
    /// `ENETDOWN` when the link is gone.
    pub fn settle(&mut self) -> Result<()> {
        let sent = self.sockets.transport.driver.settle();
        self.sockets.note_link(sent)
    }

    /// Whether the interface was removed, and the stack waits until it is there again. Its
    /// descriptors of it are closed.
    pub fn is_away(&self) -> bool {
        self.sockets.transport.driver.is_away()
    }

    /// Whether [`Context::look_again`] has something to open.
    #[inline]
    pub fn wants_look(&self) -> bool {
        self.sockets.transport.driver.wants_look()
    }

    /// From now on [`Context::look_again`] alone opens what comes later (an interface that was
    /// removed and is there again, more queues, peers): for programs that have to know which
    /// descriptors are made by that.
    pub fn look_when_asked(&mut self) {
        self.sockets.transport.driver.look_when_asked();
    }

    /// Opens what there is to open: an interface that was removed and is there again (each 250 ms
    /// at most), queues, peers.
    pub fn look_again(&mut self) {
        self.sockets.transport.driver.look_again();
    }

    /// Whether another process asks for the queue that this context has, and it could go on
    /// without: stacks there would carry its frames.
    pub fn is_asked_for_queue(&self) -> bool {
        self.sockets.transport.driver.is_asked()
    }

    /// Leaves the queue to the process that asks. `closes` gets the descriptors that close by that.
    ///
    /// # Errors
    /// `ENETDOWN` when the link is gone, `EOPNOTSUPP` in paired mode.
    pub fn leave_queue(&mut self, closes: impl FnOnce(&[RawFd])) -> Result<()> {
        self.sockets.leave_queue(closes)
    }

    /// Whether the stack took in what had arrived so short a time ago that the program had better
    /// go on with that: a turn now would carry little. Never on links that loop.
    pub fn is_fresh(&self) -> bool {
        self.sockets.transport.driver.is_fresh()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.sockets.close_all();
    }
}
