//! An interface before it is open: what takes privileges is done, for programs that give them up,
//! and that fork.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::thread;
use std::time::Duration;

use ::io::shm::{Owners, ShmPort};

use crate::assembly::secret;
use crate::config::{Config, IoSpec};
use crate::daemon::{Daemon, take_daemon};
use crate::executor::door::{self, Answer, Terms};
use crate::runtime::{Common, Mtcp, processors};
use crate::setup_error::SetupError;
use crate::testaments::Testaments;
use crate::wall::Wall;
use crate::{Result as SocketResult, clock, link};

/// Time for the kernel to take down what an executor had that has ended.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_millis(10);

/// An interface that can be opened without privileges. A child that is forked has it too; the
/// processes share the queues as `processes` of the configuration says, each taking what it needs
/// when it opens them.
#[derive(Debug)]
pub struct Prepared {
    config: Config,
    spec: IoSpec,
    processors: Vec<usize>,
    link: link::Prepared,
    common: Common,
    busy: bool,
    owners: Option<Owners>,
    /// The daemon that has the stack, if this process is attached already.
    attached: Option<Daemon>,
}

/// What the interface is prepared for.
#[derive(Debug)]
enum Part {
    Any,
    Server,
    Executor(Testaments),
}

impl Part {
    /// Asks for the interface, if an executor has it: what that one leaves, and how long the
    /// interface may take to be free.
    fn ask(&self, config: &Config, spec: &IoSpec) -> (Option<Testaments>, Duration) {
        let terms = Terms::of(config);
        let terms = match (self, spec) {
            (Self::Executor(_), _) => return (None, Duration::ZERO),
            (Self::Server, IoSpec::Afxdp(_)) => Some(&terms),
            (Self::Any, IoSpec::Afxdp(_)) => None,
            _ => return (None, Duration::ZERO),
        };
        match door::ask(&spec.name(), terms) {
            Answer::Nobody => (None, Duration::ZERO),
            Answer::Ended => (None, TRIAL_TIMEOUT),
            Answer::Left(fds) => (found(&spec.name(), fds, config).ok(), TRIAL_TIMEOUT),
        }
    }
}

/// What the executor of an interface has left. What cannot be read is told.
fn found(interface: &str, fds: [OwnedFd; 2], config: &Config) -> io::Result<Testaments> {
    Testaments::found(fds, config.holdings())
        .inspect_err(|error| log::warn!("{interface}: {error}: going on without them"))
}

/// Those for so many seats: what was `found`, if it is for as many.
fn testaments(config: &Config, seats: u8, found: Option<Testaments>) -> io::Result<Testaments> {
    let found = found.and_then(|found| found.for_seats(seats));
    found.map_or_else(|| Testaments::new(seats, config.holdings()), Ok)
}

/// Prepares the link, which others may have for so long. If `fresh`, nobody had our addresses on it
/// before.
fn prepare_link(
    config: &Config,
    spec: &IoSpec,
    processors: usize,
    timeout: Duration,
    fresh: bool,
) -> io::Result<link::Prepared> {
    let end = clock::now() + timeout;
    loop {
        match link::prepare(config, spec, processors, fresh) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && clock::now() < end => {
                thread::sleep(RETRY);
            }
            result => return result,
        }
    }
}

/// What listeners on this link ask: frames of others pass the firewall of the host, or come from no
/// host.
fn wall(config: &Config, link: &link::Prepared) -> Wall {
    match link {
        link::Prepared::Xdp(xdp, _) if !config.ignore_firewall => Wall::of(xdp.link()),
        link::Prepared::Packet(packet, _) if !config.ignore_firewall => Wall::of(packet.link()),
        _ => Wall::default(),
    }
}

/// Whether the executor of a program that has ended has this interface: who asks for it ends what
/// is left there.
fn has_executor(interface: &str) -> bool {
    let Ok(path) = door::path(interface) else {
        return false;
    };
    let sockets = std::fs::read_to_string("/proc/thread-self/net/unix").unwrap_or_default();
    let mut names = sockets
        .lines()
        .filter_map(|line| line.split(' ').next_back());
    path.to_str()
        .is_some_and(|path| names.any(|name| name == path))
}

/// Opens the link, and closes it again, so that whoever is about to hand it to another program
/// knows why that would fail; also asks whether another host has our addresses. Links that others
/// take part in by that are only looked at; of those that an executor has, all is tried but what
/// would take it from that one.
///
/// # Errors
/// One line with cause and remedy.
pub fn try_out(config: &Config) -> Result<(), SetupError> {
    let mut config = config.clone();
    take_daemon(&mut config)?;
    config.take_host()?;
    config.check()?;
    let spec = config.link()?;
    config.check_room(&spec)?;
    let failed = |error: io::Error| SetupError(error.to_string());
    match &spec {
        IoSpec::Loop(_) | IoSpec::Daemon(_) => return Ok(()),
        IoSpec::Shm(path) => return ShmPort::check(path).map_err(failed),
        IoSpec::Afxdp(_) | IoSpec::Packet(_) | IoSpec::Tap(_) => {}
    }
    let processors = processors(&config)?.len();
    if let IoSpec::Afxdp(name) = &spec
        && has_executor(name)
    {
        return link::check_held(&config, name, processors).map_err(failed);
    }
    // The one before may just have ended.
    let mut prepared =
        prepare_link(&config, &spec, processors, TRIAL_TIMEOUT, true).map_err(failed)?;
    // A capture is made anew when it is opened.
    config.pcap = None;
    let opened = link::open(&config, &spec, &mut prepared);
    opened.map(drop).map_err(|error| SetupError(error.text))
}

impl Prepared {
    /// Does what takes privileges and belongs to all processes.
    ///
    /// # Errors
    /// One line with cause and remedy.
    pub fn new(config: Config) -> Result<Self, SetupError> {
        Self::make(config, Part::Any)
    }

    /// The same, for a program that serves, with one context in each process: what its stacks know
    /// outlives them, and the next process that opens the interface goes on with their connections,
    /// or an executor of the program (see [`crate::executor`]).
    ///
    /// # Errors
    /// As [`Prepared::new`].
    pub fn for_server(config: Config) -> Result<Self, SetupError> {
        Self::make(config, Part::Server)
    }

    /// The same, for who takes the places of all the stacks that left these.
    pub(crate) fn for_executor(config: Config, left: Testaments) -> Result<Self, SetupError> {
        Self::make(config, Part::Executor(left))
    }

    fn make(mut config: Config, part: Part) -> Result<Self, SetupError> {
        if config.addresses.is_empty() {
            take_daemon(&mut config)?;
        }
        config.take_host()?;
        config.check()?;
        config.check_room(&config.link()?)?;
        config.fit();
        config.check_addresses()?;
        let spec = config.link()?;
        let processors = processors(&config)?;
        let failed = |error: io::Error| SetupError(error.to_string());
        let (found, timeout) = part.ask(&config, &spec);
        // Who goes on for others has their addresses already.
        let fresh = timeout.is_zero() && !matches!(part, Part::Executor(_));
        let mut link =
            prepare_link(&config, &spec, processors.len(), timeout, fresh).map_err(failed)?;
        let exchange = link.exchange().map_err(failed)?;
        link.join(exchange.as_ref());
        let wall = wall(&config, &link);
        let seats = exchange.as_ref().map(|exchange| exchange.seats());
        let testaments = match (part, seats) {
            (Part::Executor(left), _) => Some(left),
            (_, Some(seats)) => Some(testaments(&config, seats, found).map_err(failed)?),
            (Part::Server, None) if link.lasts() && config.cores == 1 => {
                // Without memory for it, what a process has ends with it.
                testaments(&config, 1, found).ok()
            }
            (Part::Server | Part::Any, None) => None,
        };
        Ok(Self {
            common: Common {
                secret: secret()?,
                exchange,
                testaments,
                wall,
            },
            config,
            spec,
            processors,
            link,
            busy: false,
            owners: None,
            attached: None,
        })
    }

    /// Notes from now on which process has queues, for children that this one forks.
    ///
    /// # Errors
    /// No memory or descriptors.
    pub fn note_owners(&mut self) -> io::Result<()> {
        self.owners = Some(Owners::new()?);
        Ok(())
    }

    /// Who has queues, if that is noted, and when to look again.
    pub fn owners(&self) -> Option<&Owners> {
        self.owners.as_ref()
    }

    /// Whether this process could listen at `local` once the interface is open.
    ///
    /// # Errors
    /// `EACCES`: the host's firewall keeps some peers out; the log says so, with a remedy.
    pub fn admits(&self, local: SocketAddr, only_v6: bool) -> SocketResult<()> {
        let addresses: Vec<IpAddr> = self.config.addresses.iter().map(|cidr| cidr.addr).collect();
        self.common.wall.admits(local, only_v6, &addresses)
    }

    /// What an executor of this program needs to go on for it. `None`: there is nothing that it
    /// could go on with.
    pub fn bequests(&self) -> Option<[BorrowedFd<'_>; 2]> {
        self.common.testaments.as_ref()?.fds()
    }

    /// Does what takes privileges and belongs to one process: the one that calls.
    ///
    /// # Errors
    /// One line with cause and remedy.
    pub fn arm(&mut self) -> Result<(), SetupError> {
        if let (IoSpec::Daemon(name), None) = (&self.spec, &self.attached) {
            self.attached = Some(Daemon::attach(name)?);
        }
        match &mut self.link {
            link::Prepared::Xdp(prepared, _) => prepared
                .arm()
                .map_err(|error| SetupError(error.to_string())),
            link::Prepared::Packet(..) | link::Prepared::Other => Ok(()),
        }
    }

    /// The process whose stack uses the interface ends, and others keep it prepared: who prepared
    /// it after them receives from now on.
    pub fn retire(&self) {
        if let link::Prepared::Xdp(prepared, _) = &self.link {
            prepared.retire();
        }
    }

    /// In a forked child: gives up what [`Prepared::arm`] did for the parent.
    pub fn disarm(&mut self) {
        self.attached = None;
        if let link::Prepared::Xdp(prepared, _) = &mut self.link {
            prepared.disarm();
        }
    }

    /// Opens the queues of this process.
    ///
    /// # Errors
    /// One line with cause and remedy.
    pub fn open(&mut self) -> Result<Mtcp, SetupError> {
        if let IoSpec::Daemon(name) = &self.spec {
            let daemon = self.attached.take();
            let daemon = daemon.map_or_else(|| Daemon::attach(name), Ok)?;
            let (config, processors) = (self.config.clone(), self.processors.clone());
            return Ok(Mtcp::attached(config, processors, daemon));
        }
        let opened = link::open(&self.config, &self.spec, &mut self.link).map_err(|error| {
            self.busy = error.busy;
            SetupError(error.text)
        })?;
        let first_seat = self.first_seat(&opened).ok_or_else(|| {
            self.busy = true;
            SetupError("other processes have all seats at this link".into())
        })?;
        let (config, processors) = (self.config.clone(), self.processors.clone());
        let common = self.common.clone();
        let mtcp = Mtcp::assemble(config, &self.spec, processors, opened, first_seat, common)?;
        if let Some(owners) = &self.owners {
            owners.note();
        }
        Ok(mtcp)
    }

    /// The seat of the first of these queues.
    fn first_seat(&self, opened: &link::Opened) -> Option<u8> {
        let Some(exchange) = &self.common.exchange else {
            return Some(0);
        };
        let share = u8::try_from(opened.share).ok()?;
        match opened.ports.len() {
            1 => exchange.free_seat(share),
            several => share.checked_mul(u8::try_from(several).ok()?),
        }
    }

    /// Asks processes that have a queue and could go on without it to leave it, while
    /// [`Prepared::open`] finds none. To be repeated now and then.
    pub fn ask_for_queue(&self) {
        if let Some(exchange) = &self.common.exchange {
            exchange.ask_for_queue();
        }
    }

    /// There is one, or it is to be asked for anew.
    pub fn stop_asking(&self) {
        if let Some(exchange) = &self.common.exchange {
            exchange.stop_asking();
        }
    }

    /// Whether other processes share the interface, and go on when this one ends.
    pub fn is_shared(&self) -> bool {
        self.common.exchange.is_some()
    }

    /// Whether [`Prepared::open`] failed because other processes have all queues: it may succeed
    /// when one of them ends.
    pub fn is_busy(&self) -> bool {
        self.busy
    }
}

impl Mtcp {
    /// Opens all queues of the configured interface.
    ///
    /// # Errors
    /// One line with cause and remedy.
    pub fn init(config: Config) -> Result<Self, SetupError> {
        Prepared::new(config)?.open()
    }
}
