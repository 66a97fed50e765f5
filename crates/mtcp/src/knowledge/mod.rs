//! What the kernel knows of its network, brought to a stack while it runs.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant as Moment};

use ::io::netlink::{self, News, Watcher, Whereabouts};
use mtcp_core::config as stack;
use mtcp_core::{PortId, Stack, Told};
use wire::time::Instant;

mod network;

use network::Origin;

/// The port of the interface.
const PORT: PortId = PortId(0);
/// How often to look at what was told, where no sleep says that there is something.
const LOOK: Duration = Duration::from_millis(10);
/// What is told at once and looked at in one turn.
const NEWS: usize = 1_024;
/// Reading the network takes one part in so many of the time, however large its tables are and
/// however often they change.
const SHARE: u32 = 20;
/// The network is not read again sooner.
const AGAIN: Duration = Duration::from_millis(5);
/// Questions put to the kernel in one turn.
const QUESTIONS: usize = 256;

/// The kernel's knowledge of one interface.
#[derive(Debug)]
pub(crate) struct Knowledge {
    watcher: Watcher,
    /// When to look at what was told.
    look_at: Instant,
    origin: Origin,
    /// What the stack has.
    known: Option<stack::Network>,
    /// The network may have changed since it was read.
    is_behind: bool,
    /// Then it is read again at this time.
    read_at: Instant,
}

impl Knowledge {
    /// Of the interface called `name`, for a stack of this configuration.
    ///
    /// # Errors
    /// There is none, or the kernel cannot be asked.
    pub(crate) fn new(name: &str, config: &stack::Config) -> io::Result<Self> {
        let link = netlink::link(name)?;
        Ok(Self {
            watcher: Watcher::new(link.index)?,
            look_at: Instant::ZERO,
            origin: Origin {
                name: name.to_owned(),
                interfaces: config.interfaces.clone(),
                of_host: config.host_addresses,
            },
            known: None,
            is_behind: true,
            read_at: Instant::ZERO,
        })
    }

    /// What ends a sleep.
    pub(crate) fn doorbell(&self) -> RawFd {
        self.watcher.doorbell().as_raw_fd()
    }

    /// A sleep is over: there may be something.
    pub(crate) fn wake(&mut self) {
        self.look_at = Instant::ZERO;
    }

    /// Whether it is time to look.
    #[inline]
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.look_at
    }

    /// When it wants to look, though the kernel tells nothing more.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.is_behind.then(|| self.read_at.max(self.look_at))
    }

    /// Tells the stack what the kernel told. Returns whether that was anything.
    #[cold]
    pub(crate) fn look(&mut self, stack: &mut Stack, now: Instant) -> bool {
        self.look_at = now + LOOK;
        let mut was_told = self.listen(stack, now);
        if self.is_behind && now >= self.read_at {
            was_told |= self.read_network(stack, now);
        }
        was_told
    }

    fn listen(&mut self, stack: &mut Stack, now: Instant) -> bool {
        let mut was_told = false;
        for _ in 0..NEWS {
            match self.watcher.next_news() {
                Some(News::Neighbour(addr, known)) => {
                    stack.hear_of(now, PORT, addr, told(known));
                    was_told = true;
                }
                Some(News::Lost) => {
                    self.read_neighbours(stack, now);
                    (self.is_behind, was_told) = (true, true);
                }
                Some(News::Network) => self.is_behind = true,
                None => return was_told,
            }
        }
        // There is more.
        self.look_at = now;
        was_told
    }

    /// Brings the stack the network as it is now. Returns whether it has changed.
    fn read_network(&mut self, stack: &mut Stack, now: Instant) -> bool {
        let begun = Moment::now();
        let read = self.watcher.network();
        self.read_at = now + AGAIN.max(begun.elapsed() * SHARE);
        let network = match read {
            Ok(network) => network,
            // It is read again.
            Err(error) => {
                log::debug!("the kernel's network cannot be read: {error}");
                return false;
            }
        };
        self.is_behind = false;
        if let Some(link) = network.link(&self.origin.name) {
            self.watcher.move_to(link.index);
        }
        let Some(new) = self.origin.network(&network) else {
            return false;
        };
        if self.known.as_ref() == Some(&new) {
            return false;
        }
        match stack.set_network(new.clone()) {
            Ok(()) => self.known = Some(new),
            Err(error) => log::warn!(
                "the network of {} is not followed: {error}: correct it, or start the program again",
                self.origin.name
            ),
        }
        true
    }

    fn read_neighbours(&mut self, stack: &mut Stack, now: Instant) {
        match self.watcher.neighbours() {
            Ok(all) => {
                for (addr, known) in all {
                    stack.hear_of(now, PORT, addr, told(known));
                }
            }
            // Those in use are asked for again before long.
            Err(error) => log::debug!("the kernel's neighbours cannot be read: {error}"),
        }
    }

    /// Puts the stack's questions to the kernel. Returns whether there were any.
    #[inline]
    pub(crate) fn ask(&mut self, stack: &mut Stack, now: Instant) -> bool {
        match stack.poll_question() {
            Some(first) => {
                self.ask_all(first, stack, now);
                true
            }
            None => false,
        }
    }

    #[cold]
    fn ask_all(&mut self, first: (PortId, IpAddr), stack: &mut Stack, now: Instant) {
        let mut next = Some(first);
        for _ in 0..QUESTIONS {
            let Some((port, addr)) = next else { return };
            match self.watcher.ask(addr) {
                // What it finds is told later.
                Ok(Whereabouts::Unknown) => {}
                Ok(known @ Whereabouts::At { .. }) => stack.hear_of(now, port, addr, told(known)),
                // It is asked again now.
                Ok(Whereabouts::Failed) => {}
                // It is asked again in a second, and then given up.
                Err(error) => log::debug!("the kernel does not look for {addr}: {error}"),
            }
            next = stack.poll_question();
        }
        if let Some((port, addr)) = next {
            log::debug!(
                "port {}: too many questions at once, {addr} waits a second",
                port.0
            );
        }
    }
}

fn told(known: Whereabouts) -> Told {
    match known {
        Whereabouts::At { mac, reachable } => Told::At { mac, reachable },
        Whereabouts::Failed => Told::Failed,
        Whereabouts::Unknown => Told::Forgotten,
    }
}
