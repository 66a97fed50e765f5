//! The stack begins, listens, and ends.

use std::os::fd::BorrowedFd;
use std::thread;
use std::time::Duration;

use mtcp::{Context, Errno, Owners, Prepared, Result, SocketId, SocketOption, signals};

use super::state::Engine;
use crate::background::Background;
use crate::inside::{self, Side};
use crate::lock::Guard;
use crate::queue::{TOLD, tell_owners, tell_refused};
use crate::rules::{Rules, rules};
use crate::slots::{self, Slot};
use crate::socket::{Body, Socket};
use crate::{exit, log, marks, real};

/// How long a server may listen without a stack. Peers connect all the same, as with the kernel. A
/// master, which forks before long, has none.
const START_DELAY: Duration = Duration::from_millis(500);

impl Engine {
    /// Starts the stack, once. Returns whether it runs. While other processes have all queues it
    /// does not, and is to be asked again.
    pub(crate) fn start(&mut self) -> bool {
        if self.stack.is_idle() && self.sharing.may_try() {
            match self.stack.open(self.sockets.has_listener()) {
                Ok(()) => self.begin_serving(),
                Err(error) => self.refused(&error),
            }
        }
        self.stack.is_running()
    }

    /// The stack runs: has the background thread look after it, and listens.
    fn begin_serving(&mut self) {
        self.stop_asking();
        if self.background.is_there() {
            self.background.attend();
        } else {
            self.background = Background::start(self.duties.background);
        }
        (self.duties.watch_end)();
        self.listen_everywhere();
    }

    fn refused(&mut self, error: &str) {
        if self.stack.prepared().is_some_and(Prepared::is_busy) {
            if self.ask_for_queue() {
                tell_refused(&self.sockets, error, "waiting until its owner ends");
            }
            self.sharing.pause(self.stack.prepared());
            self.sharing.reason = error.to_owned();
            return;
        }
        self.sharing.forget();
        let then = if rules().is_some_and(|rules| rules.falls_back) {
            "connections of this process are the kernel's"
        } else {
            "connections through the stack fail with ENETDOWN (--fallback kernel: they are the kernel's)"
        };
        tell_refused(&self.sockets, error, then);
        self.stack.fail();
    }

    /// Prepares what a server needs to start the stack: what fails, fails now.
    pub(crate) fn get_ready(&mut self) {
        if self.stack.is_idle()
            && let Err(error) = self.stack.prepare(self.sockets.has_listener())
        {
            self.refused(&error);
        }
    }

    /// Has the stack, if it runs, listen for a listener of the program.
    ///
    /// # Errors
    /// Those of `bind` and `listen`.
    pub(crate) fn listen(&mut self, index: u32) -> Result<()> {
        let Some(context) = self.stack.context() else {
            return Ok(());
        };
        let socket = self.sockets.get_mut(index).ok_or(Errno::EBADF)?;
        let Body::Listener {
            backlog,
            ours: None,
        } = socket.body
        else {
            return Ok(());
        };
        let id = socket.make(context)?;
        let listening = match rules().is_some_and(Rules::is_attached) {
            true => listen_shared(context, id, backlog, index),
            false => context.listen(id, backlog),
        };
        if let Err(error) = listening {
            let _ = context.close(id);
            return Err(error);
        }
        socket.body = Body::Listener {
            backlog,
            ours: Some(id),
        };
        self.rewatch(index, false);
        Ok(())
    }

    /// A listener was shut down.
    pub(crate) fn stop_listening(&mut self, index: u32) {
        let Some(socket) = self.sockets.get_mut(index) else {
            return;
        };
        let Body::Listener { ours, .. } = socket.body else {
            return;
        };
        socket.body = Body::Open;
        if let Some(id) = ours {
            self.close(id);
            self.staged(true);
        }
    }

    /// Makes a connection of ours out of a socket that was the kernel's so far.
    ///
    /// # Errors
    /// `ENETDOWN`: there is no stack; those of `socket` and `bind`.
    pub(crate) fn adopt(&mut self, index: u32) -> Result<SocketId> {
        let Some(context) = self.stack.context() else {
            return Err(Errno::ENETDOWN);
        };
        let socket = self.sockets.get_mut(index).ok_or(Errno::EBADF)?;
        let id = socket.make(context)?;
        socket.body = Body::Stream(id);
        marks::mark(socket.number);
        self.rewatch(index, true);
        Ok(id)
    }

    /// Has the stack listen for the listeners that it does not listen for.
    pub(crate) fn listen_everywhere(&mut self) {
        for index in self.sockets.unserved() {
            if let Err(error) = self.listen(index) {
                log::line(format_args!("cannot listen on the stack: {}", error.text()));
            }
        }
    }

    /// Has a thread start the stack, unless the program waits for something of it, or forks, before
    /// that.
    pub(crate) fn start_deferred(&mut self) {
        if self.start_is_deferred || self.has_children || !self.stack.is_idle() {
            return;
        }
        let starter = thread::Builder::new().name("mtcp-starter".into());
        // Without it, peers wait for the program.
        self.start_is_deferred =
            signals::without(|| starter.spawn(self.duties.start_deferred)).is_ok();
    }

    /// A server that has its listeners and gives up privileges is about to serve, itself or by a
    /// child: does what takes them.
    pub(crate) fn arm(&mut self) {
        if self.sockets.has_listener() {
            self.arm_early();
        }
    }

    /// The same for a program that gives up what opening the link takes and keeps what listening
    /// takes: it is about to.
    pub(crate) fn arm_early(&mut self) {
        if self.is_borrowed() || rules().is_none() || !self.stack.is_idle() {
            return;
        }
        self.stack.arm(self.sockets.has_listener());
    }

    /// A server that is about to have no more threads starts the stack, which takes some, now.
    pub(crate) fn start_server(&mut self) {
        if !self.is_borrowed() && rules().is_some() && self.sockets.has_listener() {
            self.start();
        }
    }

    /// There is no queue for this process. Returns whether it is time to tell.
    pub(crate) fn ask_for_queue(&mut self) -> bool {
        let (asks_anew, refusals) = self.sharing.count();
        let Some(prepared) = self.stack.prepared() else {
            return false;
        };
        if asks_anew {
            prepared.stop_asking();
        }
        prepared.ask_for_queue();
        // The only one is the parent's.
        let is_certain = self.parent_serves && !prepared.is_shared();
        refusals == if is_certain { 1 } else { TOLD }
    }

    /// There is one.
    pub(crate) fn stop_asking(&mut self) {
        self.sharing.forget();
        if let Some(prepared) = self.stack.prepared() {
            prepared.stop_asking();
        }
    }

    /// Leaves the queue to a process that asks, unless this one still listens.
    #[cold]
    #[inline(never)]
    pub(crate) fn leave_queue(&mut self) {
        let serves = self.sockets.is_served();
        let Some(context) = self.context() else {
            return;
        };
        if serves || !context.is_asked_for_queue() {
            return;
        }
        // Their numbers may soon be the program's.
        let forget = |fds: &[i32]| {
            for &fd in fds {
                slots::set(fd, Slot::Kernel);
            }
        };
        // Sockets say what became of the link.
        if context.leave_queue(forget).is_ok() {
            tell_owners(self.stack.prepared(), Owners::leave);
        }
    }

    /// Ends the stack, which has no connections and for which nobody waits: what needs it next
    /// starts it again.
    pub(crate) fn stop(&mut self) {
        self.stack.end();
        // SAFETY: a descriptor of the library's own, which nothing here uses any more, or none.
        unsafe { real::close(self.pumps.forget()) };
        self.forget_stack();
        self.epolls.forget_instances();
        self.waiters.wake_driver();
    }

    /// Nothing is on the stack any more.
    pub(super) fn forget_stack(&mut self) {
        self.sharing.forget();
        self.sockets.forget_stack();
    }

    /// The program ends: closes the connections and sees what was written off, within bounds.
    pub(super) fn finish(&mut self) {
        if self.is_borrowed() {
            return;
        }
        if let Some(context) = self.stack.context() {
            self.pumps.give_all(context);
        }
        // A descriptor that is used after this is one of a thread that the process takes along.
        let open: Vec<Socket> = self
            .sockets
            .iter()
            .map(|(_, socket)| socket.clone())
            .collect();
        for socket in &open {
            self.end(socket);
        }
        if self.pumps.look_at_all() {
            // What children have written goes out, too.
            self.turn();
        }
        let is_attached = rules().is_some_and(Rules::is_attached);
        let deliver = |context: &mut Context| match is_attached {
            // The daemon sees to it: it only has to be told.
            true => context.poll().err().and(None),
            false => context.deliver(exit::ANSWER_TIMEOUT).ok(),
        };
        if let Some(left) = self.context().and_then(deliver) {
            exit::tell(left);
        }
        if let (true, Some(prepared)) = (self.stack.is_running(), self.stack.prepared()) {
            prepared.retire();
        }
    }
}

/// A call fails because another process has the queues.
#[cold]
pub(crate) fn tell_failing(engine: &Engine) {
    if engine.is_starved() {
        let then = "its connections fail with ENETDOWN until the owner of the queues ends";
        tell_refused(&engine.sockets, &engine.sharing.reason, then);
    }
}

/// The program waits for connections: the stack runs, and tells of them.
pub(crate) fn serve(engine: &mut Engine) {
    engine.start();
    if std::mem::take(&mut engine.is_suspended) {
        resume_listeners(engine);
    }
}

#[cold]
fn resume_listeners(engine: &mut Engine) {
    let served = engine.sockets.served();
    if let Some(context) = engine.context() {
        for id in served {
            // Sockets say what became of the link.
            let _ = context.resume(id);
        }
    }
}

/// The kernel has said who may have the address: all processes that have its socket. As long as one
/// of them has it, who comes waits.
#[cold]
#[inline(never)]
fn listen_shared(context: &mut Context, id: SocketId, backlog: u32, index: u32) -> Result<()> {
    // It takes this of any socket.
    let _ = context.set_option(id, SocketOption::ReusePort(true));
    let mut names = slots::used(0, u32::MAX).filter(|(_, slot)| *slot == Slot::Socket(index));
    match names.next() {
        None => context.listen(id, backlog),
        Some((fd, _)) => {
            // SAFETY: a descriptor of the program, which names this socket: it stays open while the
            // engine is locked.
            let socket = unsafe { BorrowedFd::borrow_raw(fd) };
            context.listen_behind(id, backlog, socket)
        }
    }
}

/// What the thread does that starts the stack of a server.
pub(super) fn run(lock: fn() -> Result<Guard<'static, Engine>>) {
    inside::go(Side::Library);
    thread::sleep(START_DELAY);
    let Ok(mut engine) = lock() else {
        return;
    };
    engine.start_is_deferred = false;
    if !engine.has_children && engine.sockets.has_listener() {
        engine.start();
    }
}
