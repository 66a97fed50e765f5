//! What the kernel knows of its network, brought to a stack while it runs.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use ::io::netlink::{self, News, Watcher, Whereabouts};
use mtcp_core::{PortId, Stack, Told};
use wire::time::Instant;

/// The port of the interface.
const PORT: PortId = PortId(0);
/// How often to look at what was told, where no sleep says that there is something.
const LOOK: Duration = Duration::from_millis(10);
/// What is told at once and looked at in one turn.
const NEWS: usize = 1_024;
/// Questions put to the kernel in one turn.
const QUESTIONS: usize = 256;

/// The kernel's knowledge of one interface.
#[derive(Debug)]
pub(crate) struct Knowledge {
    watcher: Watcher,
    /// When to look at what was told.
    look_at: Instant,
}

impl Knowledge {
    /// Of the interface called `name`.
    ///
    /// # Errors
    /// There is none, or the kernel cannot be asked.
    pub(crate) fn new(name: &str) -> io::Result<Self> {
        let link = netlink::link(name)?;
        Ok(Self {
            watcher: Watcher::new(link.index)?,
            look_at: Instant::ZERO,
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

    /// Tells the stack what the kernel told. Returns whether that was anything.
    #[cold]
    pub(crate) fn look(&mut self, stack: &mut Stack, now: Instant) -> bool {
        self.look_at = now + LOOK;
        let mut was_told = false;
        for _ in 0..NEWS {
            match self.watcher.next_news() {
                Some(News::Neighbour(addr, known)) => stack.hear_of(now, PORT, addr, told(known)),
                Some(News::Lost) => self.read_neighbours(stack, now),
                Some(News::Network) => {}
                None => return was_told,
            }
            was_told = true;
        }
        // There is more.
        self.look_at = now;
        was_told
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
