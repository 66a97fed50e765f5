//! The loop of the daemon's thread that has a stack: hears what programs say, moves the stack, and
//! tells them what came of it.

mod leftover;
mod sleep;

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use mtcp_core::{Acks, AppStreams, Command, ConnId, Event, FlowKey, Token};
use ring::duplex::{Duplex, Shape};
use ring::park::{FdSleeper, FdWaker};
use ring::stream::{HomeMemory, StreamsConfig};
use wire::time::Instant;

use super::attachment::Attachment;
use super::channel::{Channel, Identity, Policy, Taker, Usage, streams_config};
use super::desk::Desk;
use super::end::{Asked, DaemonEnd};
use super::kept::KeptListeners;
use super::listeners::Listeners;
use super::listing::{Listing, Listings, Piece};
use super::message::{Disorder, Facts};
use super::owners::{ChannelId, Owner, Owners};
use super::pairs::Pairs;
use super::wake_socket::WakeSocket;
use super::wake_sockets::WakeSockets;
use crate::affinity;
use crate::runner::Runner;
use crate::wall::Wall;
pub use leftover::Leftover;

/// News heard from a program in one turn: others have theirs, too.
const NEWS: usize = 512;
/// News that one counts as that is refused, or a call, of which a thread has one open at a time:
/// who says without end what comes to nothing takes little from others.
const REFUSED: usize = 32;
/// Bursts taken from the link in one turn.
const BURSTS: usize = 1;
/// How long ACKs wait for what programs answer to what they were told: as in inline mode.
const BATCH: Duration = Duration::from_micros(200);
/// How often a loop that never sleeps looks who is gone.
const LOOK: Duration = Duration::from_millis(1);
/// Rings of a program's channel.
pub(super) const SHAPE: Shape = Shape {
    to_daemon: 4096,
    to_program: 4096,
};

/// A program on its way to the loop.
#[derive(Debug)]
struct Attaching {
    end: DaemonEnd,
    memory: HomeMemory,
    policy: Arc<dyn Policy>,
    usage: Arc<Usage>,
    program: Identity,
}

/// What other threads want of the loop.
#[derive(Debug)]
enum Order {
    Attach(Box<Attaching>),
    Detach(u64),
    List(Listing),
    Leftover(Sender<Leftover>),
    Stop,
}

/// The loop, for other threads.
#[derive(Clone, Debug)]
pub struct HostHandle {
    orders: Sender<Order>,
    waker: FdWaker,
}

impl HostHandle {
    /// Makes a channel for a program that may do what `policy` says. `usage` says from then on what
    /// it has.
    ///
    /// # Errors
    /// No descriptor or no room; `BrokenPipe`: the loop has ended.
    pub fn attach(
        &self,
        program: Identity,
        policy: Arc<dyn Policy>,
        usage: Arc<Usage>,
    ) -> io::Result<Attachment> {
        let rings = Duplex::make(SHAPE)?;
        let (ours, theirs) = WakeSocket::pair()?;
        let end = DaemonEnd::new(rings, ours);
        let memory = HomeMemory::create("mtcp-streams", &streams_config(&*policy))?;
        let attachment = Attachment {
            queues: end.memory().try_clone_to_owned()?,
            wake: theirs.into_fd(),
            streams: memory.fd().try_clone_to_owned()?,
            plan: memory.plan(),
            shape: SHAPE,
        };
        self.order(Order::Attach(Box::new(Attaching {
            end,
            memory,
            policy,
            usage,
            program,
        })))?;
        Ok(attachment)
    }

    /// Ends the channel of a program, which is gone.
    pub fn detach(&self, id: u64) {
        // With the loop, all channels have ended.
        let _ = self.order(Order::Detach(id));
    }

    /// Has a piece of the list of this stack's sockets made and given to `answer`: at most `most`
    /// of one user, or of all, from a place on, which is 0 or what the piece before said. An answer
    /// that is dropped never comes: the loop has ended. Who asks waits for it before asking again.
    ///
    /// # Errors
    /// `BrokenPipe`: the loop has ended.
    pub fn list_sockets(
        &self,
        of: Option<u32>,
        from: u64,
        most: usize,
        answer: impl FnOnce(Piece) + Send + 'static,
    ) -> io::Result<()> {
        let answer = Box::new(answer);
        self.order(Order::List(Listing {
            of,
            from,
            most,
            answer,
        }))
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
    /// Where the loop runs, if that is said.
    cpu: Option<usize>,
    channels: Vec<Option<Channel>>,
    owners: Owners,
    listeners: Listeners,
    pairs: Pairs,
    kept: KeptListeners,
    listings: Listings,
    /// Of programs that are gone, with connections that are not.
    homes: Vec<u32>,
    /// For programs.
    facts: Facts,
    /// What they may not listen at.
    wall: Wall,
    wakes: WakeSockets,
    orders: Receiver<Order>,
    sleeper: FdSleeper,
    stopped: bool,
    /// When programs were last told something.
    told: Instant,
    /// When it was last looked who is gone.
    looked: Instant,
    /// A program was woken that runs as soon as this processor is free, or has run since.
    handed_over: bool,
}

impl Host {
    /// `streams`: those of the stack that are of no program.
    pub(crate) fn new(
        runner: Runner,
        streams: AppStreams,
        facts: Facts,
        wall: Wall,
        cpu: Option<usize>,
    ) -> io::Result<(Self, HostHandle)> {
        let (sleeper, waker) = ring::park::wake_fd()?;
        let (orders, inbox) = channel();
        let pairs = Pairs::new(streams)?;
        let host = Self {
            wakes: WakeSockets::new([sleeper.fd(), pairs.fd()])?,
            pairs,
            runner,
            cpu,
            channels: Vec::new(),
            owners: Owners::default(),
            listeners: Listeners::default(),
            kept: KeptListeners::default(),
            listings: Listings::default(),
            homes: Vec::new(),
            facts,
            wall,
            orders: inbox,
            sleeper,
            stopped: false,
            told: Instant::ZERO,
            looked: Instant::ZERO,
            handed_over: false,
        };
        Ok((host, HostHandle { orders, waker }))
    }

    /// Serves programs until it is stopped.
    ///
    /// # Errors
    /// The link is gone.
    pub fn run(mut self) -> io::Result<()> {
        if let Some(cpu) = self.cpu
            && let Err(error) = affinity::pin(cpu)
        {
            log::warn!("the stack's thread is not pinned to processor {cpu}: {error}");
        }
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
        while !self.stopped && !self.leftover().is_nothing() {
            self.guarded_turn()?;
        }
        Ok(())
    }

    fn turn(&mut self) -> io::Result<()> {
        match self.work()? {
            true => Ok(()),
            false => self.rest(),
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
            let homes = self.kept.look(&mut self.runner, &mut self.listeners);
            self.homes.extend(homes);
            self.runner.hand_on_stalled();
            self.drop_homes();
            self.pairs.economize(now);
            self.list_some();
        }
        let heard = self.hear() | self.pairs.run(&mut self.runner);
        if heard {
            self.runner.note_work();
        }
        let acks = match now.since(self.told) < BATCH {
            true => Acks::Due,
            false => Acks::All,
        };
        if !self.runner.is_settled() {
            self.runner.transmit(acks)?;
        }
        let came = self.runner.receive(BURSTS);
        let ended = self.drop_disordered();
        self.tell();
        self.wake(came);
        Ok(heard || came || ended || self.pairs.is_busy())
    }

    /// Does what other threads want. True: there was something.
    pub(super) fn take_orders(&mut self) -> bool {
        let mut took = false;
        while let Ok(order) = self.orders.try_recv() {
            took = true;
            match order {
                Order::Attach(attaching) => self.attach(*attaching),
                Order::Detach(id) => self.detach(id),
                Order::List(listing) => self.listings.push(listing),
                Order::Leftover(answer) => self.say_leftover(&answer),
                Order::Stop => self.stopped = true,
            }
        }
        took
    }

    /// Where this fails, the program finds the daemon gone.
    fn attach(&mut self, attaching: Attaching) {
        let Attaching {
            end,
            memory,
            policy,
            usage,
            program,
        } = attaching;
        let free = self.channels.iter().position(Option::is_none);
        let at = free.unwrap_or(self.channels.len());
        let added = self.runner.add_home(&memory, program.uid);
        // A channel whose socket is not watched would sleep over what its program says.
        let watched = added.and_then(|home| {
            self.wakes.watch(end.as_fd(), at).inspect_err(|_| {
                self.homes.push(home);
            })?;
            Ok(home)
        });
        match watched {
            Ok(home) => {
                if at == self.channels.len() {
                    self.channels.push(None);
                }
                if let Some(place) = self.channels.get_mut(at) {
                    *place = Some(Channel::new(end, program, policy, usage, home));
                }
            }
            Err(error) => log::warn!("process {} cannot attach: {error}", program.pid),
        }
    }

    fn detach(&mut self, id: u64) {
        let is_it = |channel: &Channel| channel.program.id == id;
        let mut channels = self.channels.iter();
        if let Some(at) = channels.position(|place| place.as_ref().is_some_and(is_it)) {
            self.hear_last(at);
            self.end(at);
        }
    }

    /// Ends the channels of programs that are gone.
    fn drop_gone(&mut self) {
        self.wakes.look();
        while let Some(at) = self.wakes.next() {
            let channel = self.channels.get_mut(at).and_then(Option::as_mut);
            if channel.is_some_and(|channel| !channel.end.drain()) {
                self.hear_last(at);
                self.end(at);
            }
        }
    }

    /// Hears what a program had said when it ended: at most what its ring holds.
    fn hear_last(&mut self, at: usize) {
        // What means nothing is not worth a line any more.
        let _ = self.hear_one(at, SHAPE.to_daemon as usize, 1);
    }

    /// The program is gone, or cannot be understood: what it wrote is sent, as if it had closed all
    /// it had.
    fn end(&mut self, at: usize) {
        let Some(channel) = self.channels.get_mut(at).and_then(Option::take) else {
            return;
        };
        self.wakes.forget(channel.end.as_fd());
        let id = channel_id(at);
        self.leave_listeners(id, &streams_config(&*channel.policy));
        self.runner.release_home(channel.home);
        for conn in channel.conns() {
            // Of what waited there, some has gone to other programs.
            if self
                .owners
                .of(conn)
                .is_some_and(|owner| owner.channel == id)
            {
                self.owners.clear(conn);
                // What others have is theirs, and all else is closed.
                self.pairs.begin(&mut self.runner, conn);
            }
        }
        self.runner.app_gone(channel.home);
        self.homes.push(channel.home);
    }

    /// The listeners of a program that is gone: those that other processes have go on.
    fn leave_listeners(&mut self, id: ChannelId, streams: &StreamsConfig) {
        for listener in self.listeners.of_channel(id) {
            let kept = self
                .kept
                .keep(&mut self.runner, &self.listeners, &listener, streams);
            match kept {
                true => self.listeners.disown(listener.id),
                false => self.listeners.remove(listener.id),
            }
        }
    }

    /// Answers who wants to know of sockets, one at a time. True: somebody did.
    pub(super) fn list_some(&mut self) -> bool {
        self.listings.answer_one(&mut self.runner, &self.channels)
    }

    /// Forgets the memory of programs that are gone, when all they wrote has arrived.
    fn drop_homes(&mut self) {
        let runner = &mut self.runner;
        self.homes.retain(|&home| !runner.remove_home(home));
    }

    /// Takes what programs say. True: there was something.
    fn hear(&mut self) -> bool {
        let mut heard = false;
        for at in 0..self.channels.len() {
            match self.hear_one(at, NEWS, REFUSED) {
                Ok(some) => heard |= some,
                Err(Disorder) => self.tell_of_disorder(at, "says what means nothing"),
            }
        }
        heard
    }

    /// At most so many news; what is refused, and a call, counts as `refused` of them. True: there
    /// was something.
    fn hear_one(
        &mut self,
        at: usize,
        most: usize,
        refused: usize,
    ) -> std::result::Result<bool, Disorder> {
        let Some(channel) = self.channels.get_mut(at).and_then(Option::as_mut) else {
            return Ok(false);
        };
        let mut desk = Desk {
            runner: &mut self.runner,
            owners: &mut self.owners,
            listeners: &mut self.listeners,
            pairs: &mut self.pairs,
            kept: &mut self.kept,
            facts: &self.facts,
            wall: &self.wall,
            id: channel_id(at),
            channel,
        };
        let mut left = most;
        while left > 0 {
            let took = match desk.channel.end.hear()? {
                None => break,
                Some(Asked::News(command)) if desk.on_news(command) => 1,
                Some(Asked::News(_)) => refused,
                Some(Asked::Call(serial, call)) => {
                    let answer = desk.on_call(&call);
                    desk.channel.end.answer(serial, &answer)?;
                    refused
                }
            };
            left = left.saturating_sub(took);
        }
        Ok(left < most)
    }

    /// Ends the channels of programs that have written what cannot be to the memory of their
    /// streams. True: there was one.
    fn drop_disordered(&mut self) -> bool {
        let mut ended = false;
        for at in 0..self.channels.len() {
            let channel = self.channels.get(at).and_then(Option::as_ref);
            if channel.is_some_and(|channel| self.runner.take_disorder(channel.home)) {
                self.tell_of_disorder(at, "writes to its streams what cannot be");
                ended = true;
            }
        }
        ended
    }

    #[cold]
    fn tell_of_disorder(&mut self, at: usize, what: &str) {
        let channel = self.channels.get(at).and_then(Option::as_ref);
        let pid = channel.map_or(0, |channel| channel.program.pid);
        log::debug!("process {pid} {what}");
        // Without the number: who has many could fill the log with it.
        log::warn!("a program {what}, and is detached: use the build of the daemon for both");
        self.end(at);
    }

    /// Hands the stack's events to the programs that they are for.
    fn tell(&mut self) {
        while let Some(event) = self.runner.poll_event() {
            self.route(event);
        }
        self.runner.show();
        let now = self.runner.now();
        for channel in self.channels.iter_mut().flatten() {
            channel.tell_rest();
            if channel.end.publish() {
                self.told = now;
                channel.unrung = channel.unrung.max(1);
            }
        }
    }

    fn route(&mut self, event: Event) {
        match event {
            Event::Ready {
                conn, ready, error, ..
            } => {
                let Some(owner) = self.owners.of(conn) else {
                    return self.pairs.note(conn);
                };
                if let Some(channel) = channel_of(&mut self.channels, owner.channel) {
                    channel.tell(owner.slot, ready, error);
                }
            }
            Event::Accepted {
                listener,
                conn,
                key,
            } => {
                if !self.announce(listener, conn, key) {
                    let _ = self.runner.execute(Command::Abort(conn));
                }
            }
        }
    }

    /// Tells the program of a listener of a connection that waits there. False: nobody takes it.
    fn announce(&mut self, listener: Token, conn: ConnId, key: FlowKey) -> bool {
        let Some(found) = self.listeners.get(listener) else {
            return false;
        };
        let stream = self.runner.stack().stream_of(conn);
        let channel = channel_of(&mut self.channels, found.channel);
        let (Some((home, slot)), Some(channel)) = (stream, channel) else {
            return false;
        };
        if home != channel.home || !channel.has_room() {
            return false;
        }
        let name = channel.add(conn, slot, Taker::Listener(listener));
        let owner = Owner {
            channel: found.channel,
            slot,
        };
        self.owners.set(conn, owner);
        channel.tell_accepted(found.token, name, key);
        true
    }

    /// Wakes programs that sleep over what they were told: when the link has no more, or much waits
    /// for them.
    fn wake(&mut self, more: bool) {
        for channel in self.channels.iter_mut().flatten() {
            if channel.unrung > 0 && (!more || channel.unrung >= channel.hand_over()) {
                channel.unrung = 0;
                channel.handed_over |= channel.end.wake();
                self.handed_over |= channel.handed_over;
            }
        }
    }
}

fn channel_id(at: usize) -> ChannelId {
    ChannelId(u32::try_from(at).unwrap_or(u32::MAX))
}

fn channel_of(channels: &mut [Option<Channel>], id: ChannelId) -> Option<&mut Channel> {
    channels.get_mut(id.0 as usize)?.as_mut()
}
