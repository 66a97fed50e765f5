//! What a context is put together from: a stack, what drives it, and sockets.

use std::io;
use std::net::Ipv6Addr;
use std::time::Duration;

use ::io::shm::Desk;
use ::io::{AnyPort, Port};
use control::client::Session;
use mtcp_core::config::{self as stack, Seat};
use mtcp_core::{AppStreams, Arrivals, Stack, Testament};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::calls::Sockets;
use crate::clock::{self, Clock, VirtualClock};
use crate::config::{Config, Mode, room, with_loop};
use crate::driver::{Driver, Inline, Paired, Service};
use crate::knowledge::Knowledge;
use crate::lease::PortLease;
use crate::runner::Runner;
use crate::service::{Attachment, Facts, Host, HostHandle};
use crate::settings::Settings;
use crate::setup_error::SetupError;
use crate::stats::Reporter;
use crate::transport::Transport;
use crate::wall::Wall;

/// The sockets of a context on a port of the caller's making.
///
/// # Errors
/// One line with cause and remedy.
pub(crate) fn on_port(port: AnyPort, config: &Config, core: usize) -> Result<Sockets, SetupError> {
    let secret = secret()?;
    let secrets = Secrets {
        own: secret,
        common: secret,
    };
    assemble(config, port.into(), secrets, core, Joined::default())
        .map_err(|error| SetupError(failure(core, &error)))
}

/// A context's sockets on virtual time: see [`in_virtual_time`](crate::in_virtual_time).
///
/// # Errors
/// The configuration contradicts itself, or memory could not be reserved.
pub(crate) fn in_virtual_time(
    port: AnyPort,
    mut config: stack::Config,
    clock: &VirtualClock,
) -> io::Result<Sockets> {
    if config.interfaces.len() == 1 {
        config.interfaces = config.interfaces.drain(..).flat_map(with_loop).collect();
    }
    let settings = Settings::of_stack(&config);
    let sockets = config.max_connections;
    let [a, b, ..] = config.secret;
    let (stack, streams) = Stack::new(config)?;
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
    let transport = Transport::new(driver, streams);
    Ok(Sockets::new(settings, sockets, seed, transport))
}

/// Why a context cannot be made, and what to do where something runs out.
pub(crate) fn failure(core: usize, error: &io::Error) -> String {
    let remedy = match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::OutOfMemory, _) => {
            ": raise the limit of address space (ulimit -v unlimited) or of the cgroup's memory, or lower max_concurrency or buffer_memory"
        }
        (_, Some(libc::EMFILE)) => ": raise the limit of open files (ulimit -n 1024)",
        _ => "",
    };
    format!("context {core}: {error}{remedy}")
}

/// Where the keys of a stack come from.
#[derive(Clone, Copy)]
pub(crate) struct Secrets {
    pub(crate) own: [u8; 32],
    /// Of all contexts: a Fast Open client that comes back may meet another one.
    pub(crate) common: [u8; 32],
}

/// What a context shares with others, besides its port.
#[derive(Default)]
pub(crate) struct Joined {
    pub(crate) cpu: Option<usize>,
    pub(crate) reporter: Option<Reporter>,
    pub(crate) desk: Option<Desk>,
    pub(crate) arrivals: Option<Arrivals>,
    pub(crate) link_local: Option<Ipv6Addr>,
    /// For the one that takes this one's place; and those of others whose place this one takes.
    pub(crate) testaments: Option<(Testament, Vec<Testament>)>,
    pub(crate) wall: Wall,
    /// Other processes that may have their streams in it.
    pub(crate) homes: u32,
}

/// Programs that are attached to a stack at a time, as many as the control socket takes, or were
/// and have connections that are not gone. Each takes 4 MiB of address space.
const MAX_PROGRAMS: u32 = 1024 + 256;

/// Puts a context together on `port`.
pub(crate) fn assemble(
    config: &Config,
    port: PortLease,
    secrets: Secrets,
    core: usize,
    joined: Joined,
) -> io::Result<Sockets> {
    let [a, b, ..] = secrets.own;
    let (cpu, wall) = (joined.cpu, joined.wall.clone());
    let (runner, streams) = stack(config, port, secrets, core, joined)?;
    let driver = match config.mode {
        Mode::Inline => Driver::Inline(Box::new(Inline::new(runner)?)),
        Mode::Paired => Driver::Paired(Box::new(Paired::start(
            runner,
            format!("mtcp-{core}"),
            cpu,
        )?)),
    };
    let seed = u16::from_ne_bytes([a, b]);
    Ok(Sockets::new(
        Settings::new(config, core, wall),
        config.max_concurrency,
        seed,
        Transport::new(driver, streams),
    ))
}

/// Puts a stack together on `port`, and what takes its turns; and the application's end of its
/// streams.
fn stack(
    config: &Config,
    mut port: PortLease,
    secrets: Secrets,
    core: usize,
    joined: Joined,
) -> io::Result<(Runner, AppStreams)> {
    let stack_config = config.stack(port.mac(), port.capabilities(), secrets.own);
    let stack_config = join(stack_config, secrets.common, &joined);
    let knowledge = knowledge(config, &stack_config)?;
    let Joined {
        reporter,
        desk,
        testaments,
        ..
    } = joined;
    let (mut stack, streams) = match testaments {
        Some((own, others)) => Stack::heir(stack_config, clock::now(), own, others)?,
        None => Stack::new(stack_config)?,
    };
    if let Some(steering) = port.steering() {
        stack.steer(steering);
    }
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
    .with_reporter(reporter)
    .with_knowledge(knowledge);
    Ok((runner, streams))
}

/// A stack that programs attach to, and what it is served by.
///
/// # Errors
/// The configuration contradicts itself, or memory could not be reserved.
pub(crate) fn host(
    config: &Config,
    port: PortLease,
    secrets: Secrets,
    core: usize,
    joined: Joined,
) -> io::Result<(Host, HostHandle)> {
    let joined = Joined {
        homes: room::programs(MAX_PROGRAMS),
        ..joined
    };
    let (cpu, wall) = (joined.cpu, joined.wall.clone());
    let (runner, streams) = stack(config, port, secrets, core, joined)?;
    Host::new(runner, streams, Facts::of(config), wall, cpu)
}

/// The same on a port of the caller's making.
///
/// # Errors
/// One line with cause and remedy.
pub(crate) fn host_on_port(
    port: AnyPort,
    config: &Config,
) -> Result<(Host, HostHandle), SetupError> {
    let secret = secret()?;
    let secrets = Secrets {
        own: secret,
        common: secret,
    };
    host(config, port.into(), secrets, 0, Joined::default())
        .map_err(|error| SetupError(failure(0, &error)))
}

/// The sockets of a program that is attached. `config` says how its calls behave; what concerns the
/// stack, the daemon says.
///
/// `session` keeps the program attached, if something has to.
///
/// # Errors
/// It is not of a daemon of this build, or that is gone; no descriptor left.
pub(crate) fn attached(
    config: &Config,
    core: usize,
    attachment: Attachment,
    session: Option<Session>,
) -> io::Result<Sockets> {
    let (end, streams) = attachment.join()?;
    let mut service = Service::new(end, config.spin, session)?;
    let facts = service.facts()?;
    let [a, b, ..] = secret().map_err(|error| io::Error::other(error.to_string()))?;
    Ok(Sockets::new(
        Settings::of_facts(config, core, &facts),
        config.max_concurrency,
        u16::from_ne_bytes([a, b]),
        Transport::new(Driver::Service(Box::new(service)), streams),
    ))
}

/// What the kernel knows of the interface, if the stack goes by that.
fn knowledge(config: &Config, stack: &stack::Config) -> io::Result<Option<Box<Knowledge>>> {
    if !config.follow_kernel {
        return Ok(None);
    }
    let link = config.link().map_err(io::Error::other)?;
    Ok(Some(Box::new(Knowledge::new(&link.name(), stack)?)))
}

/// Adds to the settings of a stack what it has in common with others.
fn join(mut stack: stack::Config, common: [u8; 32], joined: &Joined) -> stack::Config {
    stack.common_secret = Some(common);
    stack.max_homes = joined.homes;
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
