//! The process: one interface, its queues, and the contexts that drive them.

use std::io;
use std::net::Ipv6Addr;
use std::sync::Arc;

use ::io::shm::{Desk, Exchange};
use ::io::{AnyPort, Port};
use mtcp_core::config as stack;
use mtcp_core::{Arrivals, Testament};
use wire::handed::Handed;

use crate::assembly::{self, Joined, Secrets, assemble, failure, secret};
use crate::clock::VirtualClock;
use crate::config::{Config, IoSpec, Mode};
use crate::context::{Context, Waiter};
use crate::daemon::Daemon;
use crate::lease::{PortLease, Ports};
use crate::service::{Host, HostHandle};
use crate::setup_error::SetupError;
use crate::stats::{Board, Reporter};
use crate::testaments::Testaments;
use crate::wall::Wall;
use crate::{affinity, link};

/// What was opened, for people and for `mtcp doctor`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// `(what, value)` lines: io, contexts, mac, mtu, checksum offload, mode, processors, pages,
    /// and what the link adds.
    pub lines: Vec<(&'static str, String)>,
}

/// The interface, opened once per process. Contexts may outlive it.
#[derive(Debug)]
pub struct Mtcp {
    config: Config,
    below: Below,
    cores: usize,
    processors: Vec<usize>,
    board: Arc<Board>,
    facts: Vec<(&'static str, String)>,
    /// By context, which frames come to it, if there are others and it is known.
    arrivals: Vec<Option<Arrivals>>,
    /// The link-local address that the stack gives itself, where others were asked for it.
    link_local: Option<Ipv6Addr>,
    /// A secret that all contexts have in common.
    common: [u8; 32],
    /// Joins the stacks that share the interface, if there are several ...
    exchange: Option<Arc<Exchange>>,
    /// ... of which those of this process begin with this ...
    first_seat: usize,
    /// ... and what they leave, if there is somebody to leave it to.
    testaments: Option<Testaments>,
    /// What listeners ask.
    wall: Wall,
}

/// Where the stacks of contexts are.
#[derive(Debug)]
enum Below {
    /// In this process, each on a port of the link.
    Ports(Arc<Ports>),
    /// In a daemon.
    Daemon(Box<Daemon>),
}

/// What the stacks of several processes have in common.
#[derive(Clone, Debug)]
pub(crate) struct Common {
    pub(crate) secret: [u8; 32],
    /// `None`: there is one process.
    pub(crate) exchange: Option<Arc<Exchange>>,
    /// As many as there are seats. `None`: nobody goes on when a process ends.
    pub(crate) testaments: Option<Testaments>,
    /// What listeners ask.
    pub(crate) wall: Wall,
}

impl Mtcp {
    /// Puts an opened link together.
    pub(crate) fn assemble(
        config: Config,
        spec: &IoSpec,
        processors: Vec<usize>,
        opened: link::Opened,
        first_seat: u8,
        common: Common,
    ) -> Result<Self, SetupError> {
        let cores = opened.ports.len();
        let exchange = match common.exchange {
            Some(exchange) => Some(exchange),
            None => among_contexts(&opened)?,
        };
        if config.cores > cores {
            let text = format!(
                "{spec} has {cores} queues, {} contexts are wanted: set num_cores = {cores}, or give it more queues",
                config.cores
            );
            return Err(SetupError(text));
        }
        let mut facts = facts(&config, spec, &opened);
        let (arrivals, link_local) = (opened.arrivals, opened.link_local);
        facts.extend(opened.facts);
        let mut ports = Vec::with_capacity(cores);
        for port in opened.ports {
            ports.push((port, secret()?));
        }
        Ok(Self {
            below: Below::Ports(Ports::new(ports, exchange.clone())),
            exchange,
            testaments: common.testaments,
            first_seat: first_seat.into(),
            board: Board::new(spec.name(), cores),
            arrivals,
            link_local,
            config,
            cores,
            processors,
            facts,
            common: common.secret,
            wall: common.wall,
        })
    }

    /// The stack is a daemon's.
    pub(crate) fn attached(config: Config, processors: Vec<usize>, daemon: Daemon) -> Self {
        let cores = match config.cores {
            0 => processors.len(),
            cores => cores,
        };
        Self {
            facts: [
                ("io", config.io.to_string()),
                ("contexts", cores.to_string()),
            ]
            .into_iter()
            .chain(daemon.facts().iter().cloned())
            .collect(),
            below: Below::Daemon(Box::new(daemon)),
            exchange: None,
            testaments: None,
            first_seat: 0,
            board: Board::new(config.io.name(), cores),
            arrivals: Vec::new(),
            link_local: None,
            config,
            cores,
            processors,
            common: [0; 32],
            wall: Wall::default(),
        }
    }

    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The configuration in force. What concerns a context only (`max_concurrency`, buffers,
    /// time-outs) may be changed until it is made; changes of the rest come too late.
    pub fn config_mut(&mut self) -> &mut Config {
        &mut self.config
    }

    /// Logical cores that contexts may be made for: 0..cores.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// Pins the calling thread to the processor that logical core `core` maps to.
    ///
    /// # Errors
    /// No such core.
    pub fn pin(&self, core: usize) -> Result<(), SetupError> {
        let cpu = self.processor(core)?;
        affinity::pin(cpu).map_err(|error| {
            SetupError(format!(
                "cannot pin to processor {cpu}: {error}: check core_mask"
            ))
        })
    }

    fn processor(&self, core: usize) -> Result<usize, SetupError> {
        // More contexts than processors share them.
        let place = core
            .checked_rem(self.processors.len())
            .and_then(|place| self.processors.get(place));
        match place {
            Some(&cpu) if core < self.cores => Ok(cpu),
            _ => Err(self.no_core(core)),
        }
    }

    fn no_core(&self, core: usize) -> SetupError {
        SetupError(format!(
            "no core {core}: there are {}, counted from 0: set num_cores, or use a lower one",
            self.cores
        ))
    }

    /// Makes the context of logical core `core`, which has queue `core` until it is dropped; then
    /// another can be made. Call it on the thread that will use it, or move it there. In paired
    /// mode this starts the stack thread.
    ///
    /// # Errors
    /// One line with cause and remedy: no such core, context exists already, out of memory.
    pub fn context(&self, core: usize) -> Result<Context, SetupError> {
        if let Below::Daemon(daemon) = &self.below {
            self.processor(core)?;
            return daemon.context(core, &self.config);
        }
        let (port, secrets, joined) = self.parts(core)?;
        assemble(&self.config, port, secrets, core, joined)
            .map(Context::from)
            .map_err(|error| SetupError(failure(core, &error)))
    }

    /// Makes the stack of logical core `core` for programs that attach to it, in place of a
    /// context. Its loop runs on the thread that calls [`Host::run`].
    ///
    /// # Errors
    /// As [`Mtcp::context`].
    pub fn host(&self, core: usize) -> Result<(Host, HostHandle), SetupError> {
        let (port, secrets, joined) = self.parts(core)?;
        assembly::host(&self.config, port, secrets, core, joined)
            .map_err(|error| SetupError(failure(core, &error)))
    }

    /// What the stack of logical core `core` is made of.
    fn parts(&self, core: usize) -> Result<(PortLease, Secrets, Joined), SetupError> {
        let cpu = self.processor(core)?;
        let Below::Ports(ports) = &self.below else {
            return Err(SetupError(
                "the stack is the daemon's: ask that for what it has".to_owned(),
            ));
        };
        let (port, own) = ports.lease(core)?;
        let secrets = Secrets {
            own,
            common: self.common,
        };
        let reporter = self
            .config
            .stat_print
            .then(|| Reporter::new(core, Arc::clone(&self.board)));
        let cpu = self.config.pin.then_some(cpu);
        let desk = self.desk(core);
        let desk = desk.map_err(|error| SetupError(failure(core, &error)))?;
        let joined = Joined {
            cpu,
            reporter,
            arrivals: self.arrivals.get(core).cloned().flatten(),
            link_local: self.link_local,
            testaments: self.testaments(desk.as_ref()),
            desk,
            wall: self.wall.clone(),
            homes: 0,
        };
        Ok((port, secrets, joined))
    }

    /// What the stack at this desk, or the only one, finds and leaves; and what else it finds.
    fn testaments(&self, desk: Option<&Desk>) -> Option<(Testament, Vec<Testament>)> {
        Some(self.testaments.as_ref()?.of(desk.map_or(0, Desk::seat)))
    }

    /// The seat of logical core `core` among the stacks that share the interface.
    fn desk(&self, core: usize) -> io::Result<Option<Desk>> {
        let seat = u8::try_from(self.first_seat + core).unwrap_or(u8::MAX);
        let exchange = self.exchange.as_ref();
        exchange.map(|exchange| exchange.sit(seat)).transpose()
    }

    /// What was opened.
    pub fn report(&self) -> Report {
        let mut lines = self.facts.clone();
        let shown: Vec<String> = self
            .processors
            .iter()
            .take(self.cores)
            .map(ToString::to_string)
            .collect();
        lines.push((
            "processors",
            if self.config.pin {
                shown.join(" ")
            } else {
                "not pinned".to_owned()
            },
        ));
        lines.push((
            "pages",
            if self.config.huge_pages {
                "2 MB if reserved"
            } else {
                "4 KB or transparent"
            }
            .to_owned(),
        ));
        Report { lines }
    }
}

/// A context on virtual time, for tests: its calls read `clock` and ask `waiter` in place of
/// sleeping, so that what happens is the same in each run. `port` must not block; of its properties
/// those of the first interface of `config` count. Everything else is as in a context of
/// [`Mtcp::context`] in inline mode.
///
/// # Errors
/// The configuration contradicts itself, or memory could not be reserved.
pub fn in_virtual_time(
    port: impl Into<AnyPort>,
    config: stack::Config,
    clock: &VirtualClock,
    waiter: Arc<dyn Waiter>,
) -> io::Result<Context> {
    let sockets = assembly::in_virtual_time(port.into(), config, clock)?;
    Ok(Context::from(sockets).with_waiter(waiter))
}

/// What joins the contexts of a process that has the link alone; `None`: there is one, or there are
/// more than can tell each other apart.
fn among_contexts(opened: &link::Opened) -> Result<Option<Arc<Exchange>>, SetupError> {
    let cores = opened.ports.len();
    let several = 2..=usize::from(Handed::MAX_STACKS);
    let Some(port) = opened.ports.first().filter(|_| several.contains(&cores)) else {
        return Ok(None);
    };
    let exchange = link::exchange(cores, port.capabilities().mtu);
    exchange
        .map(Some)
        .map_err(|error| SetupError(error.to_string()))
}

/// Processors that logical cores map to.
pub(crate) fn processors(config: &Config) -> Result<Vec<usize>, SetupError> {
    let allowed = affinity::processors();
    if config.core_list.is_empty() {
        if let Some(crowd) = crowd(config, allowed.len()) {
            log::warn!("{crowd}");
        }
        return Ok(allowed);
    }
    match config.core_list.iter().find(|cpu| !allowed.contains(cpu)) {
        Some(cpu) if config.pin => Err(SetupError(format!(
            "core_mask names processor {cpu}, which this process may not use: correct core_mask, or set pin = no"
        ))),
        _ => Ok(config.core_list.clone()),
    }
}

/// What is wrong if there are fewer processors than contexts.
fn crowd(config: &Config, there: usize) -> Option<String> {
    let cores = config.cores;
    (config.pin && cores > there).then(|| {
        format!(
            "num_cores = {cores}, but this process may use {there} processors, which the contexts share: set num_cores = {there}, or 0 for as many \
             as there are"
        )
    })
}

/// What people want to know of it.
fn facts(config: &Config, spec: &IoSpec, opened: &link::Opened) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("io", spec.to_string()),
        ("contexts", opened.ports.len().to_string()),
    ];
    if let Some(port) = opened.ports.first() {
        let capabilities = port.capabilities();
        let checksum = match capabilities.tx_checksum {
            true => "by the link",
            false => "in software",
        };
        facts.push(("mac", config.mac.unwrap_or(port.mac()).to_string()));
        facts.push(("mtu", capabilities.mtu.to_string()));
        facts.push(("tx checksum", checksum.to_owned()));
    }
    let mode = match config.mode {
        Mode::Inline => "inline",
        Mode::Paired => "paired",
    };
    facts.push(("mode", mode.to_owned()));
    if config.host {
        facts.push((
            "addresses",
            "the host's own, and the kernel's, too".to_owned(),
        ));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_contexts_than_processors_are_told() {
        let config = Config {
            cores: 8,
            ..Config::default()
        };
        assert_eq!(crowd(&config, 8), None);
        let said = crowd(&config, 2).unwrap();
        assert!(said.starts_with("num_cores = 8, but this process may use 2 processors"));
        assert!(said.contains("set num_cores = 2"), "{said}");
    }
}
