//! The loop of the daemon's thread that has a stack: hears what programs say, moves the stack, and
//! tells them what came of it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use mtcp_core::{Acks, Command, Connect, Event, ListenerId, OptionsId, Reply, Token};
use ring::duplex::{Duplex, Shape};
use ring::park::{FdSleeper, FdWaker};
use wire::time::Instant;

use super::channel::Channel;
pub use super::channel::Policy;
use super::end::{Asked, DaemonEnd, ProgramEnd};
use super::listeners::{Listener, Listeners};
use super::message::{Answer, Call, Disorder};
use super::owners::{ChannelId, Owners};
use super::wake_socket::WakeSocket;
use super::wake_sockets::WakeSockets;
use crate::runner::Runner;
use crate::{Errno, Result};

/// Messages heard from a program in one turn: others have theirs, too.
const MESSAGES: usize = 512;
/// Bursts taken from the link in one turn.
const BURSTS: usize = 1;
/// So many events may wait for a program that sleeps while the link has more for us. A hand-over
/// for each burst costs a third of what two processes on one processor do (measured with 16, 64 and
/// 256).
const TOLD_AT_ONCE: u32 = 256;
/// How long ACKs wait for what programs answer to what they were told: as in inline mode.
const BATCH: Duration = Duration::from_micros(200);
/// How often a loop that never sleeps looks who is gone.
const LOOK: Duration = Duration::from_millis(1);
/// Rings of a program's channel.
pub(super) const SHAPE: Shape = Shape {
    to_daemon: 4096,
    to_program: 4096,
};

/// What a program gets to attach with.
#[derive(Debug)]
pub struct Attachment {
    /// The rings.
    pub queues: OwnedFd,
    /// The doorbell.
    pub wake: OwnedFd,
}

impl Attachment {
    /// The program's side.
    ///
    /// # Errors
    /// It is not of a daemon of this version.
    pub(crate) fn join(self, shape: Shape) -> io::Result<ProgramEnd> {
        let rings = Duplex::join(self.queues, shape)?;
        Ok(ProgramEnd::new(rings, WakeSocket::from_fd(self.wake)))
    }
}

/// What other threads want of the loop.
#[derive(Debug)]
enum Order {
    Attach(DaemonEnd, Arc<dyn Policy>, u32),
    Stop,
}

/// The loop, for other threads.
#[derive(Clone, Debug)]
pub struct HostHandle {
    orders: Sender<Order>,
    waker: FdWaker,
}

impl HostHandle {
    /// Makes a channel for a program, the process `pid`, that may do what `policy` says.
    ///
    /// # Errors
    /// No descriptor or no room; `BrokenPipe`: the loop has ended.
    pub fn attach(&self, policy: Arc<dyn Policy>, pid: u32) -> io::Result<Attachment> {
        let rings = Duplex::make(SHAPE)?;
        let (ours, theirs) = WakeSocket::pair()?;
        let end = DaemonEnd::new(rings, ours);
        let queues = end.memory().try_clone_to_owned()?;
        self.order(Order::Attach(end, policy, pid))?;
        Ok(Attachment {
            queues,
            wake: theirs.into_fd(),
        })
    }

    /// Ends the loop after its turn.
    pub fn stop(&self) {
        // One that has ended is what was wanted.
        let _ = self.order(Order::Stop);
    }

    fn order(&self, order: Order) -> io::Result<()> {
        let sent = self.orders.send(order);
        self.waker.wake();
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// See the module.
#[derive(Debug)]
pub struct Host {
    runner: Runner,
    channels: Vec<Option<Channel>>,
    owners: Owners,
    listeners: Listeners,
    wakes: WakeSockets,
    orders: Receiver<Order>,
    sleeper: FdSleeper,
    stopped: bool,
    /// When programs were last told something.
    told: Instant,
    /// When it was last looked who is gone.
    looked: Instant,
}

impl Host {
    pub(crate) fn new(runner: Runner) -> io::Result<(Self, HostHandle)> {
        let (sleeper, waker) = ring::park::wake_fd()?;
        let (orders, inbox) = channel();
        let host = Self {
            wakes: WakeSockets::new(sleeper.fd())?,
            runner,
            channels: Vec::new(),
            owners: Owners::default(),
            listeners: Listeners::default(),
            orders: inbox,
            sleeper,
            stopped: false,
            told: Instant::ZERO,
            looked: Instant::ZERO,
        };
        Ok((host, HostHandle { orders, waker }))
    }

    /// Serves programs until it is stopped.
    ///
    /// # Errors
    /// The link is gone.
    pub fn run(mut self) -> io::Result<()> {
        while !self.stopped {
            self.guarded_turn()?;
        }
        Ok(())
    }

    /// A turn. Should the link be gone, programs hear of what had come before.
    fn guarded_turn(&mut self) -> io::Result<()> {
        let done = self.turn();
        if done.is_err() {
            self.runner.receive_rest();
            self.tell();
            self.wake(false);
        }
        done
    }

    /// Serves programs until none is attached and what they wrote has arrived.
    ///
    /// # Errors
    /// The link is gone.
    pub(crate) fn run_until_unused(mut self) -> io::Result<()> {
        self.take_orders();
        while !self.stopped && !self.is_unused() {
            self.guarded_turn()?;
        }
        Ok(())
    }

    fn is_unused(&self) -> bool {
        let is_attached = self.channels.iter().any(Option::is_some);
        !is_attached && self.runner.stack().undelivered().connections == 0
    }

    fn turn(&mut self) -> io::Result<()> {
        match self.work()? {
            true => Ok(()),
            false => self.sleep(),
        }
    }

    /// A turn without the sleep. False: there was nothing to do.
    pub(super) fn work(&mut self) -> io::Result<bool> {
        self.runner.begin();
        let now = self.runner.now();
        if now.since(self.looked) >= LOOK {
            self.looked = now;
            self.take_orders();
            self.drop_gone();
        }
        let heard = self.hear();
        let acks = match now.since(self.told) < BATCH {
            true => Acks::Due,
            false => Acks::All,
        };
        if !self.runner.is_settled() {
            self.runner.transmit(acks)?;
        }
        let came = self.runner.receive(BURSTS);
        self.tell();
        self.wake(came);
        Ok(heard || came)
    }

    pub(super) fn take_orders(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Attach(end, policy, pid) => self.attach(Channel::new(end, policy, pid)),
                Order::Stop => self.stopped = true,
            }
        }
    }

    fn attach(&mut self, channel: Channel) {
        let free = self.channels.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.channels.push(None);
            self.channels.len() - 1
        });
        // A channel whose doorbell is not watched would sleep over what its program says.
        if self.wakes.watch(channel.end.as_fd(), at).is_ok()
            && let Some(place) = self.channels.get_mut(at)
        {
            *place = Some(channel);
        }
    }

    /// Ends the channels of programs that are gone.
    fn drop_gone(&mut self) {
        self.wakes.look();
        while let Some(at) = self.wakes.next() {
            let channel = self.channels.get(at).and_then(Option::as_ref);
            if channel.is_some_and(|channel| !channel.end.drain()) {
                self.hear_last(at);
                self.end(at);
            }
        }
    }

    /// Hears what a program had said when it ended: at most what its ring holds.
    fn hear_last(&mut self, at: usize) {
        for _ in 0..SHAPE.to_daemon as usize / MESSAGES {
            // What means nothing is not worth a line any more.
            if self.hear_one(at) != Ok(true) {
                return;
            }
        }
    }

    /// The program is gone, or cannot be understood: what it wrote is sent, as if it had closed all
    /// it had.
    fn end(&mut self, at: usize) {
        let Some(channel) = self.channels.get_mut(at).and_then(Option::take) else {
            return;
        };
        self.wakes.forget(channel.end.as_fd());
        let id = channel_id(at);
        let listeners: Vec<ListenerId> = self.listeners.of(id).collect();
        for listener in listeners {
            self.listeners.remove(listener);
            let _ = self.runner.execute(Command::Unlisten(listener));
        }
        for conn in channel.conns() {
            self.owners.clear(conn);
            let _ = self.runner.execute(Command::Close(conn));
        }
    }

    /// Takes what programs say. True: there was something.
    fn hear(&mut self) -> bool {
        let mut heard = false;
        for at in 0..self.channels.len() {
            match self.hear_one(at) {
                Ok(some) => heard |= some,
                Err(Disorder) => self.tell_of_disorder(at),
            }
        }
        heard
    }

    fn hear_one(&mut self, at: usize) -> std::result::Result<bool, Disorder> {
        let Some(channel) = self.channels.get_mut(at).and_then(Option::as_mut) else {
            return Ok(false);
        };
        let mut desk = Desk {
            runner: &mut self.runner,
            owners: &mut self.owners,
            listeners: &mut self.listeners,
            id: channel_id(at),
            channel,
        };
        for n in 0..MESSAGES {
            match desk.channel.end.hear()? {
                None => return Ok(n > 0),
                Some(Asked::News(command)) => desk.on_news(command),
                Some(Asked::Call(serial, call)) => {
                    let answer = desk.on_call(&call);
                    desk.channel.end.answer(serial, &answer)?;
                }
            }
        }
        Ok(true)
    }

    #[cold]
    fn tell_of_disorder(&mut self, at: usize) {
        let channel = self.channels.get(at).and_then(Option::as_ref);
        let pid = channel.map_or(0, |channel| channel.pid);
        log::warn!(
            "process {pid} says what means nothing, and is detached: was it built with another version of mTCP?"
        );
        self.end(at);
    }

    /// Hands the stack's events to the programs that they are for.
    fn tell(&mut self) {
        while let Some(event) = self.runner.poll_event() {
            self.route(event);
        }
        let now = self.runner.now();
        for channel in self.channels.iter_mut().flatten() {
            channel.tell_rest();
            if channel.end.publish() {
                self.told = now;
            }
        }
    }

    fn route(&mut self, event: Event) {
        match event {
            Event::Ready { conn, .. } => {
                let owner = self.owners.of(conn);
                if let Some(channel) = owner.and_then(|id| channel_of(&mut self.channels, id)) {
                    channel.unrung += 1;
                    channel.tell(&event);
                }
            }
            Event::Accepted {
                listener,
                conn,
                key,
            } => {
                let found = self.listeners.get(listener);
                let channel = found.and_then(|one| channel_of(&mut self.channels, one.channel));
                let (Some(found), Some(channel)) = (found, channel) else {
                    let _ = self.runner.execute(Command::Abort(conn));
                    return;
                };
                if !channel.has_room() {
                    let _ = self.runner.execute(Command::Abort(conn));
                    return;
                }
                channel.add(conn, None);
                self.owners.set(conn, found.channel);
                channel.unrung += 1;
                channel.tell(&Event::Accepted {
                    listener: found.token,
                    conn,
                    key,
                });
            }
        }
    }

    /// Wakes programs that sleep over what they were told: when the link has no more, or much waits
    /// for them.
    fn wake(&mut self, more: bool) {
        for channel in self.channels.iter_mut().flatten() {
            if !more || channel.unrung >= TOLD_AT_ONCE {
                channel.unrung = 0;
                channel.end.wake();
            }
        }
    }

    /// There is nothing to do: sleeps until there is.
    fn sleep(&mut self) -> io::Result<()> {
        let now = self.runner.now();
        let answers = self.told + BATCH;
        let deadline = match self.runner.is_settled() {
            true => None,
            // Programs may answer in a moment, and what they say carries the ACKs.
            false if now < answers => Some(answers),
            false => {
                self.runner.transmit(Acks::All)?;
                None
            }
        };
        self.sleeper.prepare();
        let mut quiet = true;
        for channel in self.channels.iter_mut().flatten() {
            quiet &= channel.end.begin_sleep();
        }
        self.take_orders();
        let slept = match quiet && !self.stopped {
            true => self.runner.sleep(deadline, self.wakes.fd()).map(drop),
            false => Ok(()),
        };
        for channel in self.channels.iter().flatten() {
            channel.end.end_sleep();
        }
        self.sleeper.finish();
        self.drop_gone();
        slept
    }

    /// Connections of all programs, for people.
    pub fn connections(&self) -> usize {
        let channels = self.channels.iter().flatten();
        channels.map(Channel::connections).sum()
    }
}

fn channel_id(at: usize) -> ChannelId {
    ChannelId(u32::try_from(at).unwrap_or(u32::MAX))
}

fn channel_of(channels: &mut [Option<Channel>], id: ChannelId) -> Option<&mut Channel> {
    channels.get_mut(id.0 as usize)?.as_mut()
}

/// What a program says, carried out.
#[derive(Debug)]
struct Desk<'a> {
    runner: &'a mut Runner,
    owners: &'a mut Owners,
    listeners: &'a mut Listeners,
    id: ChannelId,
    channel: &'a mut Channel,
}

impl Desk<'_> {
    fn on_news(&mut self, command: Command) {
        // As in one process: a refusal means that the connection is gone, which its own event says.
        let _ = self.execute(command);
    }

    fn on_call(&mut self, call: &Call) -> Answer {
        match *call {
            Call::Command(command) => Answer::Reply(self.execute(command).map_err(|error| error.0)),
            Call::Usage => {
                let stack = self.runner.stack();
                let open = self.channel.connections();
                Answer::Usage {
                    open: u32::try_from(open).unwrap_or(u32::MAX),
                    undelivered: self.channel.undelivered(|conn| stack.undelivered_of(conn)),
                }
            }
        }
    }

    /// Carries out a command that names nothing but what is this program's.
    fn execute(&mut self, command: Command) -> Result<Reply> {
        match command {
            Command::Listen { .. } => self.listen(command),
            Command::Connect { .. } => self.connect(command),
            Command::Unlisten(id) | Command::Leave(id) => {
                self.check_listener(id)?;
                self.listeners.remove(id);
                self.carry_out(command)
            }
            Command::SetListenerOptions { listener, .. } => {
                self.check_listener(listener)?;
                self.carry_out(command)
            }
            Command::Accept { conn, token } => {
                if token == Token::NONE || !self.channel.accept(conn, token) {
                    return Err(Errno::EBADF);
                }
                self.carry_out(command)
            }
            Command::Close(conn) | Command::Abort(conn) => {
                if !self.channel.remove(conn) {
                    return Err(Errno::EBADF);
                }
                self.owners.clear(conn);
                self.carry_out(command)
            }
            Command::AbortAll => {
                let conns: Vec<_> = self.channel.conns().collect();
                for conn in conns {
                    self.execute(Command::Abort(conn))?;
                }
                Ok(Reply::Done)
            }
            Command::Send(conn)
            | Command::SendMore(conn)
            | Command::SendUrgent(conn, _)
            | Command::QuickAck(conn)
            | Command::Push(conn)
            | Command::Received(conn)
            | Command::Shutdown(conn)
            | Command::ShutdownRead(conn)
            | Command::SetOptions { conn, .. }
            | Command::Info(conn) => {
                if !self.channel.has(conn) {
                    return Err(Errno::EBADF);
                }
                self.carry_out(command)
            }
        }
    }

    fn carry_out(&mut self, command: Command) -> Result<Reply> {
        Ok(self.runner.execute(command)?)
    }

    fn check_listener(&self, id: ListenerId) -> Result<()> {
        let is_own = self.listeners.is_of(self.id, id);
        is_own.then_some(()).ok_or(Errno::EBADF)
    }

    fn listen(&mut self, command: Command) -> Result<Reply> {
        let Command::Listen {
            token,
            local,
            only_v6,
            backlog,
            options,
        } = command
        else {
            return Err(Errno::EINVAL);
        };
        self.channel.policy.listen(local)?;
        if self.listeners.of(self.id).count() >= self.channel.policy.listeners() {
            return Err(Errno::ENOBUFS);
        }
        let ours = self.listeners.free_token();
        let reply = self.carry_out(Command::Listen {
            token: ours,
            local,
            only_v6,
            backlog,
            options,
        })?;
        if let Reply::Listening(id, _) = reply {
            let listener = Listener {
                channel: self.id,
                id,
                token,
            };
            self.listeners.set(ours, listener);
        }
        Ok(reply)
    }

    fn connect(&mut self, command: Command) -> Result<Reply> {
        let Command::Connect {
            token,
            local,
            remote,
            options,
        } = command
        else {
            return Err(Errno::EINVAL);
        };
        self.channel.policy.connect(local, remote)?;
        if !self.channel.has_room() {
            return Err(Errno::ENOBUFS);
        }
        if self.runner.is_away() {
            return Err(Errno::ENETDOWN);
        }
        let opened = self.runner.connect(&Connect {
            token,
            local,
            remote,
            options: &options,
            known: OptionsId::NONE,
        })?;
        self.channel.add(opened.conn, Some(token));
        self.owners.set(opened.conn, self.id);
        Ok(opened.into())
    }
}
