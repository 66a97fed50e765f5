//! Who goes on with the connections of a program that was killed, all of it: as the kernel does
//! with those that it has, what was written is sent, and sent again until it is acknowledged, and
//! then the FIN.
//!
//! A process beside the program has the memory in which its stacks note what they have
//! ([`Prepared::for_server`]), and sleeps until the last process of the program is gone. If
//! connections are left it opens the interface, and ends when they have ended. A program that wants
//! the interface meanwhile asks for it (`door`), and gets the connections too if its stacks are
//! like those before.

pub(crate) mod door;

use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use ::io::poll::{self, PollFd, PollFlags};
use ::io::privileges;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs,
};

use wire::time::Instant;

use self::door::{Door, Guest, Terms};
use crate::config::{Config, Mode};
use crate::context::Context;
use crate::prepared::Prepared;
use crate::runtime::Mtcp;
use crate::setup_error::SetupError;
use crate::testaments::Testaments;
use crate::{Result, clock};

/// Longest that it goes on: a peer that has said nothing for so long has gone, too.
const MOST: Duration = Duration::from_secs(120);
/// The same when others wait for the interface, and cannot go on with the connections.
const GRACE: Duration = Duration::from_secs(1);
/// Time for the kernel to take down what a process had that is gone.
const PATIENCE: Duration = Duration::from_secs(5);
/// Who comes to the door may know that the program was killed before its last process is gone.
const DYING: Duration = Duration::from_millis(300);
/// Between one look at the door and the next.
const STEP: Duration = Duration::from_millis(20);

/// What it takes to open the interface and its queues.
const PRIVILEGES: CapabilitySet = privileges::USEFUL.union(CapabilitySet::SYS_RESOURCE);

/// See the module.
#[derive(Debug)]
pub struct Executor {
    config: Config,
    interface: String,
    testaments: Testaments,
    /// The other end is open as long as a process of the program lives.
    lifeline: OwnedFd,
    terms: Terms,
    door: Option<Door>,
}

/// The stack, in the place of those before.
#[derive(Debug)]
struct Running {
    context: Context,
    /// The interface stays open as long.
    _mtcp: Mtcp,
}

impl Executor {
    /// For a program with this `config`, and what [`Prepared::bequests`] said there. `lifeline` is
    /// the end to read of a pipe whose other end each process of the program has. Gives up the
    /// privileges of this process that it does not need.
    ///
    /// # Errors
    /// One line with cause and remedy.
    pub fn new(
        mut config: Config,
        bequests: [OwnedFd; 2],
        lifeline: OwnedFd,
    ) -> std::result::Result<Self, SetupError> {
        let failed = |error: io::Error| SetupError(format!("executor: {error}"));
        give_up_privileges().map_err(|error| failed(error.into()))?;
        let interface = config.link()?.name();
        config.fit();
        Ok(Self {
            testaments: Testaments::found(bequests, config.holdings()).map_err(failed)?,
            terms: Terms::of(&config),
            door: Door::open(&interface),
            interface,
            config: alone(config),
            lifeline,
        })
    }

    /// Waits until the program is gone, and goes on with what it left.
    ///
    /// # Errors
    /// One line with cause and remedy: what is left is lost.
    pub fn run(mut self) -> std::result::Result<(), SetupError> {
        let first = self.wait();
        let first = first.map_err(|error| SetupError(format!("executor: {error}")))?;
        if self.testaments.are_empty() {
            return Ok(());
        }
        if self.door.is_none() {
            // That of the program before, which is still there.
            self.door = Door::open(&self.interface);
        }
        self.serve(first)
    }

    /// Waits until no process of the program is left. Returns who came to the door just before.
    fn wait(&self) -> io::Result<Option<Guest>> {
        loop {
            let mut fds = vec![self.lifeline()];
            fds.extend(self.door.as_ref().map(Door::poll));
            poll::sleep(&mut fds, None)?;
            if fds.first().is_some_and(is_cut) {
                return Ok(None);
            }
            let Some(guest) = self.door.as_ref().and_then(Door::accept) else {
                continue;
            };
            let mut fds = [self.lifeline()];
            poll::sleep(&mut fds, Some(DYING))?;
            if is_cut(&fds[0]) {
                return Ok(Some(guest));
            }
            // The interface is not ours to give.
            guest.refuse();
        }
    }

    fn lifeline(&self) -> PollFd<'_> {
        // That nobody has the other end is always told.
        PollFd::new(&self.lifeline, PollFlags::empty())
    }

    /// Goes on with the connections, until they have ended or one can do so that comes; `next` is
    /// the first.
    fn serve(&self, mut next: Option<Guest>) -> std::result::Result<(), SetupError> {
        let mut running = None;
        let (start, mut guests) = (clock::now(), Vec::new());
        let mut end = start + MOST;
        while clock::now() < end {
            next = next.or_else(|| self.door.as_ref()?.accept());
            if let Some(guest) = next.take() {
                if guest.terms() == Some(&self.terms) {
                    drop(running);
                    return self.hand_over(&guest);
                }
                end = end.min(clock::now() + GRACE);
                guests.push(guest);
            }
            match &mut running {
                Some(running) => {
                    if go_on(running) {
                        return Ok(());
                    }
                }
                None => running = self.open_by(start + PATIENCE)?,
            }
        }
        if let Some(Running { context, .. }) = &mut running {
            context.reset_all();
        }
        Ok(())
    }

    /// Leaves everything to one whose stacks can go on with it.
    fn hand_over(&self, guest: &Guest) -> std::result::Result<(), SetupError> {
        let fds = self.testaments.fds();
        let sent = fds.map_or(Ok(()), |fds| guest.give(fds));
        sent.map_err(|error| SetupError(format!("executor: {error}")))
    }

    /// Opens the interface. `None`: it is not free yet.
    fn open_by(&self, end: Instant) -> std::result::Result<Option<Running>, SetupError> {
        match self.open() {
            Err(_) if clock::now() < end => {
                thread::sleep(STEP);
                Ok(None)
            }
            result => result.map(Some),
        }
    }

    fn open(&self) -> std::result::Result<Running, SetupError> {
        let found = self.testaments.clone();
        let mtcp = Prepared::for_executor(self.config.clone(), found)?.open()?;
        let context = mtcp.context(0)?;
        let _mtcp = mtcp;
        Ok(Running { context, _mtcp })
    }
}

fn is_cut(lifeline: &PollFd<'_>) -> bool {
    !lifeline.revents().is_empty()
}

/// Runs the stack for a moment. Returns whether nothing is left to be done.
fn go_on(running: &mut Running) -> bool {
    let Running { context, .. } = running;
    let left = |context: &mut Context| -> Result<bool> {
        let drained = context.drain(STEP)?;
        if drained && context.counters()?.untold > 0 {
            context.run_for(STEP)?;
            return Ok(true);
        }
        Ok(!drained)
    };
    // Without the link there is nobody to talk to.
    !left(context).unwrap_or(false)
}

/// One stack has all queues of the interface, and writes to no file of the program's.
fn alone(config: Config) -> Config {
    Config {
        processes: 1,
        cores: 1,
        mode: Mode::Inline,
        pcap: None,
        stat_print: false,
        spin: Duration::ZERO,
        ..config
    }
}

fn give_up_privileges() -> rustix::io::Result<()> {
    let has = capabilities(None)?;
    let kept = |set: CapabilitySet| set & PRIVILEGES;
    set_capabilities(
        None,
        CapabilitySets {
            effective: kept(has.effective),
            permitted: kept(has.permitted),
            inheritable: CapabilitySet::empty(),
        },
    )?;
    set_no_new_privs(true)
}

#[cfg(test)]
mod tests;
