//! The process: one interface, its queues, and the contexts that drive them.

use std::fmt;
use std::io;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use ::io::shm::{Desk, Exchange};
use ::io::{AnyPort, Port};
use mtcp_core::config::{self as stack, Seat};
use mtcp_core::{Arrivals, Stack, Testament};
use rustix::rand::{GetRandomFlags, getrandom};
use wire::handed::Handed;

use crate::clock::{Clock, VirtualClock};
use crate::config::{Config, ConfigError, IoSpec, Mode, with_loop};
use crate::context::{Context, Waiter};
use crate::driver::{Driver, Inline, Paired};
use crate::lent::{Lent, Ports};
use crate::runner::Runner;
use crate::settings::Settings;
use crate::stats::{Board, Reporter};
use crate::testaments::Testaments;
use crate::wall::Wall;
use crate::{affinity, clock, link};

/// Why set-up failed: one line with cause and remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupError(pub String);

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SetupError {}

impl From<String> for SetupError {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<ConfigError> for SetupError {
    fn from(error: ConfigError) -> Self {
        Self(error.to_string())
    }
}

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
    ports: Arc<Ports>,
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
            ports: Ports::new(ports, exchange.clone()),
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
        let cpu = self.processor(core)?;
        let (port, own) = self.ports.lend(core)?;
        let secrets = Secrets {
            own,
            common: self.common,
        };
        let reporter = self
            .config
            .stat_print
            .then(|| Reporter::new(core, Arc::clone(&self.board)));
        let cpu = self.config.pin.then_some(cpu);
        let failed = |error: io::Error| SetupError(failure(core, &error));
        let desk = self.desk(core).map_err(failed)?;
        assemble(
            &self.config,
            port,
            secrets,
            core,
            Joined {
                cpu,
                reporter,
                arrivals: self.arrivals.get(core).cloned().flatten(),
                link_local: self.link_local,
                testaments: self.testaments(desk.as_ref()),
                desk,
                wall: self.wall.clone(),
            },
        )
        .map_err(failed)
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

impl Context {
    /// A context on a port of the caller's making, for programs that bring their own link, and for
    /// tests. `config` says the rest; its `io` is not used, threads are not pinned.
    ///
    /// # Errors
    /// As [`Mtcp::context`].
    pub fn on_port(
        port: impl Into<AnyPort>,
        config: &Config,
        core: usize,
    ) -> Result<Self, SetupError> {
        let port: AnyPort = port.into();
        let secret = secret()?;
        let secrets = Secrets {
            own: secret,
            common: secret,
        };
        assemble(config, port.into(), secrets, core, Joined::default())
            .map_err(|error| SetupError(failure(core, &error)))
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
    mut config: stack::Config,
    clock: &VirtualClock,
    waiter: Arc<dyn Waiter>,
) -> io::Result<Context> {
    if config.interfaces.len() == 1 {
        config.interfaces = config.interfaces.drain(..).flat_map(with_loop).collect();
    }
    let settings = Settings::of_stack(&config);
    let sockets = config.max_connections;
    let [a, b, ..] = config.secret;
    let (stack, streams) = Stack::new(config)?;
    let port: AnyPort = port.into();
    let never = (Duration::ZERO, Duration::ZERO);
    let runner = Runner::new(
        stack,
        port.into(),
        None,
        never,
        Clock::Virtual(clock.clone()),
    );
    let driver = Driver::Inline(Box::new(Inline::new(runner)?));
    let seed = u16::from_ne_bytes([a, b]);
    let mut context = Context::assemble(settings, sockets, seed, driver, streams);
    context.waiter = Some(waiter);
    Ok(context)
}

/// Why a context cannot be made, and what to do where something runs out.
fn failure(core: usize, error: &io::Error) -> String {
    let remedy = match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::OutOfMemory, _) => {
            ": raise the limit of address space (ulimit -v unlimited) or of the cgroup's memory, or lower max_concurrency or buffer_memory"
        }
        (_, Some(libc::EMFILE)) => ": raise the limit of open files (ulimit -n 1024)",
        _ => "",
    };
    format!("context {core}: {error}{remedy}")
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

/// Where the keys of a stack come from.
#[derive(Clone, Copy)]
struct Secrets {
    own: [u8; 32],
    /// Of all contexts: a Fast Open client that comes back may meet another one.
    common: [u8; 32],
}

/// What a context shares with others, besides its port.
#[derive(Default)]
struct Joined {
    cpu: Option<usize>,
    reporter: Option<Reporter>,
    desk: Option<Desk>,
    arrivals: Option<Arrivals>,
    link_local: Option<Ipv6Addr>,
    /// For the one that takes this one's place; and those of others whose place this one takes.
    testaments: Option<(Testament, Vec<Testament>)>,
    wall: Wall,
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
    facts
}

fn assemble(
    config: &Config,
    mut port: Lent,
    secrets: Secrets,
    core: usize,
    joined: Joined,
) -> io::Result<Context> {
    let [a, b, ..] = secrets.own;
    let stack_config = config.stack(port.mac(), port.capabilities(), secrets.own);
    let stack_config = join(stack_config, secrets.common, &joined);
    let Joined {
        cpu,
        reporter,
        desk,
        testaments,
        wall,
        ..
    } = joined;
    let (mut stack, streams) = match testaments {
        Some((own, others)) => Stack::heir(stack_config, clock::now(), own, others)?,
        None => Stack::new(stack_config)?,
    };
    if config.syn_offload
        && let Some(link) = port.syn_offload()
        && !stack.offload_syns(link)
    {
        log::debug!(
            "context {core}: no SYN is answered where it arrives, as this stack's answers differ"
        );
    }
    let runner = Runner::new(
        stack,
        port,
        desk,
        (config.spin, config.coalesce),
        Clock::Machine,
    )
    .with_reporter(reporter);
    let driver = match config.mode {
        Mode::Inline => Driver::Inline(Box::new(Inline::new(runner)?)),
        Mode::Paired => Driver::Paired(Box::new(Paired::start(
            runner,
            format!("mtcp-{core}"),
            cpu,
        )?)),
    };
    let seed = u16::from_ne_bytes([a, b]);
    Ok(Context::assemble(
        Settings::new(config, core, wall),
        config.max_concurrency,
        seed,
        driver,
        streams,
    ))
}

/// Adds to the settings of a stack what it has in common with others.
fn join(mut stack: stack::Config, common: [u8; 32], joined: &Joined) -> stack::Config {
    stack.common_secret = Some(common);
    stack.arrivals = joined.arrivals.clone();
    give_link_local(&mut stack, joined.link_local);
    stack.seat = joined.desk.as_ref().map(|desk| Seat {
        index: desk.seat(),
        seats: desk.seats(),
        bequeaths: joined.testaments.is_some(),
    });
    stack
}

/// Gives the link of a stack that speaks IPv6 there this address (RFC 4291 §2.8).
fn give_link_local(config: &mut stack::Config, link_local: Option<Ipv6Addr>) {
    let (Some(own), Some(link)) = (link_local, config.interfaces.first_mut()) else {
        return;
    };
    if link.addresses.iter().any(|address| address.addr.is_ipv6()) {
        link.addresses.push(stack::Address {
            addr: own.into(),
            prefix_len: 64,
        });
    }
}

/// 32 random bytes from the system.
pub(crate) fn secret() -> Result<[u8; 32], SetupError> {
    let mut secret = [0; 32];
    let mut filled = 0;
    while let Some(rest) = secret.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        filled += getrandom(rest, GetRandomFlags::empty())
            .map_err(|error| SetupError(format!("no random numbers: {error}")))?;
    }
    Ok(secret)
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
