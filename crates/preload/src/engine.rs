//! The stack of the process and what belongs to it, under one lock.

use std::ffi::c_int;
use std::time::Duration;

use mtcp::slab::Slab;
use mtcp::{Context, Errno, Mtcp, Prepared, Result, SetupError, SocketId, SocketOption};

use crate::background::Background;
use crate::hooks::limits;
use crate::lent::Pair;
use crate::lock::{Guard, Lock};
use crate::queue::{Sharing, tell_refused};
use crate::relay::Pumps;
use crate::rules::rules;
use crate::slots::{self, Slot};
use crate::socket::{Body, Socket};
use crate::wait::Waiters;
use crate::watch::EpollSet;
use crate::{
    away, background, executor, exit, fork, marks, presence, private, process, real, wait,
};

/// How far the stack is.
#[derive(Debug)]
enum Stage {
    /// Nothing has needed it yet.
    Idle,
    Running {
        context: Box<Context>,
        /// The interface stays open as long as the process.
        _mtcp: Box<Mtcp>,
    },
    /// It could not be started.
    Failed,
}

/// Everything.
#[derive(Debug)]
pub(crate) struct Engine {
    stage: Stage,
    /// What children may open too.
    pub(crate) prepared: Option<Box<Prepared>>,
    /// Its descriptors.
    pub(crate) inherited: Vec<c_int>,
    pub(crate) sockets: Slab<Socket>,
    pub(crate) epolls: Slab<EpollSet>,
    pub(crate) waiters: Waiters,
    pub(crate) background: Background,
    pub(crate) pumps: Pumps,
    /// Sockets, by index, for the child that a `fork` is about to make.
    pub(crate) lent: Vec<(u32, Pair)>,
    /// Turns of the stack so far.
    pub(crate) turns: u64,
    /// It has forked: its children may be those that serve.
    pub(crate) has_children: bool,
    /// It is a child, and the process that forked it had the stack.
    pub(crate) parent_serves: bool,
    /// A thread is about to start the stack.
    pub(crate) starts_soon: bool,
    pub(crate) sharing: Sharing,
    /// How often in a row what calls have staged was left to the next thread that waits for the
    /// lock; 0: nothing is.
    pub(crate) owed: u32,
    /// The process that this memory belongs to: `vfork` lends it to another. 0: none yet.
    owner: libc::pid_t,
    /// A socket without a connection, of which accepted ones have a copy for their number.
    blank: c_int,
    serial: u32,
}

static ENGINE: Lock<Engine> = Lock::new(Engine::new());

/// The engine, alone.
///
/// # Errors
/// `EDEADLK`: this thread has it already, below a signal handler.
pub(crate) fn lock() -> Result<Guard<'static, Engine>> {
    // A handler that the kernel calls in the midst of a call leaves this to the next one.
    if process::is_copy() && !ENGINE.is_mine() {
        fork::become_child();
    }
    let mut engine = ENGINE.lock()?;
    if presence::noted().is_some() {
        wait::wake_up(&mut engine);
    }
    Ok(engine)
}

/// The lock itself, for `fork`.
pub(crate) fn raw() -> &'static Lock<Engine> {
    &ENGINE
}

/// What a descriptor of ours is, looked at under the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) index: u32,
    pub(crate) serial: u32,
    pub(crate) nonblocking: bool,
    pub(crate) body: Body,
}

/// Why the library's descriptors could not be made.
fn apart(error: &std::io::Error) -> String {
    format!("cannot make descriptors beside those of the program: {error}")
}

impl Engine {
    pub(crate) const fn new() -> Self {
        Self {
            stage: Stage::Idle,
            prepared: None,
            inherited: Vec::new(),
            sockets: Slab::new(),
            epolls: Slab::new(),
            waiters: Waiters::new(),
            background: Background::new(),
            pumps: Pumps::new(),
            lent: Vec::new(),
            turns: 0,
            has_children: false,
            parent_serves: false,
            starts_soon: false,
            sharing: Sharing::new(),
            owed: 0,
            owner: 0,
            blank: -1,
            serial: 0,
        }
    }

    /// One whose stack runs already.
    #[cfg(test)]
    pub(crate) fn running(mtcp: Mtcp, context: Context) -> Self {
        Self {
            stage: Stage::Running {
                context: Box::new(context),
                _mtcp: Box::new(mtcp),
            },
            ..Self::new()
        }
    }

    /// The stack, if it runs.
    pub(crate) fn context(&mut self) -> Option<&mut Context> {
        match &mut self.stage {
            Stage::Running { context, .. } => Some(context),
            Stage::Idle | Stage::Failed => None,
        }
    }

    /// The stack with its waiters, if it runs.
    pub(crate) fn parts(&mut self) -> Option<(&mut Context, &mut Waiters)> {
        match &mut self.stage {
            Stage::Running { context, .. } => Some((context, &mut self.waiters)),
            Stage::Idle | Stage::Failed => None,
        }
    }

    /// The stack with its waiters, if it runs, and the epoll instances.
    pub(crate) fn split(&mut self) -> (Option<(&mut Context, &mut Waiters)>, &mut Slab<EpollSet>) {
        let parts = match &mut self.stage {
            Stage::Running { context, .. } => Some((&mut **context, &mut self.waiters)),
            Stage::Idle | Stage::Failed => None,
        };
        (parts, &mut self.epolls)
    }

    /// Starts the stack, once. Returns whether it runs. While other processes have all queues it
    /// does not, and is to be asked again.
    pub(crate) fn start(&mut self) -> bool {
        if let Stage::Idle = self.stage
            && self.sharing.may_try()
        {
            self.stage = match self.open() {
                Ok(stage) => stage,
                Err(error) => self.refused(&error),
            };
            if matches!(self.stage, Stage::Running { .. }) {
                self.stop_asking();
                self.keep();
                exit::register();
                self.listen_everywhere();
            }
        }
        matches!(self.stage, Stage::Running { .. })
    }

    /// Has the background thread look after the stack.
    fn keep(&mut self) {
        if self.background.is_there() {
            self.background.attend();
        } else {
            self.background = background::start();
        }
    }

    /// Whether nothing has needed the stack yet.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Idle)
    }

    /// Whether it could not be started, and its connections are nobody's.
    pub(crate) fn is_down(&self) -> bool {
        matches!(self.stage, Stage::Failed) && rules().is_some_and(|rules| !rules.falls_back)
    }

    fn refused(&mut self, error: &str) -> Stage {
        if self
            .prepared
            .as_ref()
            .is_some_and(|prepared| prepared.is_busy())
        {
            if self.ask_for_queue() {
                tell_refused(self, error, "waiting until its owner ends");
            }
            self.sharing.pause(self.prepared.as_deref());
            return Stage::Idle;
        }
        self.sharing.forget();
        let then = if rules().is_some_and(|rules| rules.falls_back) {
            "connections of this process are the kernel's"
        } else {
            "connections through the stack fail with ENETDOWN (--fallback kernel: they are the kernel's)"
        };
        tell_refused(self, error, then);
        Stage::Failed
    }

    /// Whether the stack waits for a queue.
    pub(crate) fn is_starved(&self) -> bool {
        matches!(self.stage, Stage::Idle) && self.sharing.is_refused()
    }

    fn open(&mut self) -> std::result::Result<Stage, String> {
        self.prepare()?;
        let prepared = self.prepared.as_mut().ok_or("no settings")?;
        let open = || {
            let mtcp = prepared.open()?;
            let mut context = mtcp.context(0)?;
            context.look_when_asked();
            context.tell_urgent();
            // SAFETY: makes a socket; no memory is involved.
            let blank =
                unsafe { real::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
            marks::mark(blank);
            // Large ones, which the caller may have no room for.
            Ok((Box::new(mtcp), Box::new(context), blank))
        };
        let (opened, _) = private::make(open).map_err(|error| apart(&error))?;
        let (_mtcp, context, blank) = opened.map_err(|error: SetupError| error.to_string())?;
        self.blank = blank;
        Ok(Stage::Running { context, _mtcp })
    }

    /// Does what opening the link takes privileges for, once for this process and its children.
    pub(crate) fn prepare(&mut self) -> std::result::Result<(), String> {
        if self.prepared.is_some() || !matches!(self.stage, Stage::Idle) {
            return Ok(());
        }
        let rules = rules().ok_or("no settings")?;
        let serves = self.has_listener();
        let prepare = || executor::prepare(rules, serves).map(Box::new);
        let (prepared, kept) = private::make(prepare).map_err(|error| apart(&error))?;
        self.prepared = Some(prepared.map_err(|error| error.to_string())?);
        self.inherited = kept;
        limits::note_taken(rules.config.address_space());
        Ok(())
    }

    /// The same, for a server: what fails, fails now.
    pub(crate) fn get_ready(&mut self) {
        if self.is_idle()
            && let Err(error) = self.prepare()
        {
            self.stage = self.refused(&error);
        }
    }

    /// Whether the stack can listen for this listener once it runs.
    ///
    /// # Errors
    /// `EACCES`: the firewall of the host keeps peers out.
    pub(crate) fn admits(&self, index: u32, only_v6: bool) -> Result<()> {
        let local = self.sockets.get(index).and_then(|socket| socket.local);
        match (&self.prepared, local) {
            (Some(prepared), Some(local)) => prepared.admits(local, only_v6),
            _ => Ok(()),
        }
    }

    /// Has the stack, if it runs, listen for a listener of the program.
    ///
    /// # Errors
    /// Those of `bind` and `listen`.
    pub(crate) fn listen(&mut self, index: u32) -> Result<()> {
        let Stage::Running { context, .. } = &mut self.stage else {
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
        if let Err(error) = context.listen(id, backlog) {
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
        let Stage::Running { context, .. } = &mut self.stage else {
            return Err(Errno::ENETDOWN);
        };
        let socket = self.sockets.get_mut(index).ok_or(Errno::EBADF)?;
        let id = socket.make(context)?;
        socket.body = Body::Stream(id);
        marks::mark(socket.number);
        self.rewatch(index, true);
        Ok(id)
    }

    /// There is something that a child of this process must not take for its own.
    pub(crate) fn begin(&mut self) {
        if self.owner == 0 {
            self.owner = process::pid();
            fork::register();
        }
    }

    /// Notes a new socket. Returns its index.
    pub(crate) fn insert(&mut self, mut socket: Socket) -> u32 {
        self.begin();
        self.serial = self.serial.wrapping_add(1);
        socket.serial = self.serial;
        self.sockets.insert(socket)
    }

    /// Notes a new epoll instance. Returns its index.
    pub(crate) fn insert_epoll(&mut self, name: c_int) -> u32 {
        self.begin();
        self.epolls.insert(EpollSet::new(name))
    }

    /// Whether this process shares the memory of the one it comes from: then nothing here may
    /// change.
    pub(crate) fn is_borrowed(&self) -> bool {
        self.owner != 0 && self.owner != process::pid()
    }

    /// The socket that `fd` names.
    pub(crate) fn find(&self, fd: c_int) -> Option<Found> {
        let Slot::Socket(index) = slots::look(fd) else {
            return None;
        };
        let socket = self.sockets.get(index)?;
        Some(Found {
            index,
            serial: socket.serial,
            nonblocking: socket.nonblocking,
            body: socket.body,
        })
    }

    /// Whether the socket found there earlier is still there.
    pub(crate) fn still(&self, found: &Found) -> bool {
        self.sockets
            .get(found.index)
            .is_some_and(|socket| socket.serial == found.serial)
    }

    /// SO_RCVTIMEO of the socket found there.
    pub(crate) fn recv_timeout(&self, found: &Found) -> Option<Duration> {
        let socket = self.sockets.get(found.index);
        socket.and_then(|socket| socket.recv_timeout)
    }

    /// SO_SNDTIMEO of the socket found there.
    pub(crate) fn send_timeout(&self, found: &Found) -> Option<Duration> {
        let socket = self.sockets.get(found.index);
        socket.and_then(|socket| socket.send_timeout)
    }

    /// A new descriptor to stand for an accepted connection.
    ///
    /// # Errors
    /// `EMFILE`.
    pub(crate) fn placeholder(&self, cloexec: bool) -> Result<c_int> {
        let command = if cloexec {
            libc::F_DUPFD_CLOEXEC
        } else {
            libc::F_DUPFD
        };
        // SAFETY: duplicates a descriptor of ours; no memory is involved.
        match unsafe { real::fcntl64(self.blank, command, 0) } {
            fd @ 0.. => Ok(fd),
            _ => Err(Errno(mtcp::posix::call::errno())),
        }
    }

    /// The socket behind `fd` is the kernel's for good.
    pub(crate) fn disown(&mut self, fd: c_int, index: u32) {
        // Other descriptors of the same socket keep their entry, and find it open.
        if self
            .sockets
            .get(index)
            .is_some_and(|socket| socket.refs == 1)
        {
            slots::set(fd, Slot::Kernel);
            self.sockets.remove(index);
            self.forget(index);
        }
    }

    /// One descriptor less names the socket.
    pub(crate) fn release(&mut self, index: u32) {
        let Some(socket) = self.sockets.get_mut(index) else {
            return;
        };
        socket.refs -= 1;
        if socket.refs > 0 {
            return;
        }
        let socket = self.sockets.remove(index);
        self.forget(index);
        if let Some(socket) = socket {
            self.end(&socket);
        }
    }

    /// Closes our side of a socket. A listener that others have too is theirs from now on.
    pub(crate) fn end(&mut self, socket: &Socket) {
        let Some(id) = socket.ours() else {
            return;
        };
        if self.pumps.inherit(id) {
            return self.staged(true);
        }
        let is_shared = self
            .prepared
            .as_ref()
            .is_some_and(|prepared| prepared.is_shared());
        let left = is_shared
            && socket.inherited
            && self
                .context()
                .is_some_and(|context| context.leave(id).is_ok());
        if !left {
            self.close(id);
        }
        self.sharing.leaves |= left;
    }

    /// Closes a socket of the stack. What lingers has done so (`linger`), or does without the
    /// program.
    pub(crate) fn close(&mut self, id: SocketId) {
        let Some(context) = self.context() else {
            return;
        };
        let linger = context.option(id, mtcp::OptionName::Linger);
        if matches!(linger, Ok(SocketOption::Linger(Some(time))) if !time.is_zero()) {
            let _ = context.set_option(id, SocketOption::Linger(None));
        }
        let _ = context.close(id);
        self.staged(false);
    }

    /// Runs the first half of a turn, and wakes who waited for what it brought.
    pub(crate) fn turn(&mut self) {
        if self.is_starved() {
            self.start();
        }
        self.leave_queue();
        let Stage::Running { context, .. } = &mut self.stage else {
            return;
        };
        // Sockets say what became of the link.
        let _ = context.begin_turn();
        self.owed = 0;
        if context.wants_look() {
            away::open(context);
            self.waiters.wake_driver();
        }
        self.pumps.run(context, &self.waiters);
        self.waiters.wake_ready(context);
        self.turns += 1;
    }

    /// Ends the stack, which has no connections and for which nobody waits: what needs it next
    /// starts it again.
    pub(crate) fn stop(&mut self) {
        self.stage = Stage::Idle;
        for fd in [self.blank, self.pumps.forget()] {
            // SAFETY: a descriptor of the library's own, which nothing here uses any more, or none.
            unsafe { real::close(fd) };
        }
        self.forget_stack();
        self.forget_instances();
        self.waiters.wake_driver();
    }

    /// In the child of a `fork`: the stack stays with the parent.
    pub(crate) fn orphan(&mut self) {
        if let Stage::Running { context, _mtcp } = std::mem::replace(&mut self.stage, Stage::Idle) {
            // Its rings and its memory are the parent's: nothing of it may run here, not even its
            // end.
            Box::leak(context);
            Box::leak(_mtcp);
            self.parent_serves = true;
        }
        if let Some(prepared) = &mut self.prepared {
            prepared.disarm();
        }
        self.close_private();
        self.owner = process::pid();
        self.has_children = false;
        self.starts_soon = false;
        self.owed = 0;
        self.waiters = Waiters::new();
        self.pumps.forget();
        self.background = Background::new();
        self.forget_stack();
        for index in self.indices() {
            if let Some(socket) = self.sockets.get_mut(index) {
                socket.inherited = true;
            }
        }
        self.orphan_epolls();
    }

    /// Nothing is on the stack any more.
    fn forget_stack(&mut self) {
        self.sharing.forget();
        self.blank = -1;
        for index in self.indices() {
            if let Some(socket) = self.sockets.get_mut(index) {
                socket.body = match socket.body {
                    Body::Stream(_) => Body::Lost,
                    Body::Listener { backlog, .. } => Body::Listener {
                        backlog,
                        ours: None,
                    },
                    other => other,
                };
            }
        }
    }

    /// Another process, or the kernel, has the other end of the pair.
    pub(crate) fn lend_out(&mut self, id: SocketId, pair: Pair) {
        if let Stage::Running { context, .. } = &mut self.stage {
            self.pumps.add(context, id, pair);
        }
    }

    /// The program is about to write: what its children wrote before goes first.
    pub(crate) fn children_first(&mut self, id: SocketId) {
        if let Stage::Running { context, .. } = &mut self.stage {
            self.pumps.write(context, id);
        }
    }

    pub(crate) fn indices(&self) -> Vec<u32> {
        self.sockets.iter().map(|(index, _)| index).collect()
    }
}
