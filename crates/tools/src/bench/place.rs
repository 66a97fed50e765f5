//! Where the two ends run and how they reach each other.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use mtcp::CongestionControl;

use crate::directory::Directory;
use crate::fail::Failure;
use crate::link;
use crate::programs::program;

use super::baseline::Baseline;
use super::end::work::WorkArgs;
use super::network::{self, Network};
use super::options::{LinkKind, Mode, Stack};
use super::side::Side;

/// Addresses of a server, at least: as many ports as one client can use towards one address are too
/// few.
const ADDRESSES: u32 = 8;
/// Connections that one address is for: half of a client's ports.
const PER_ADDRESS: u32 = 14_000;
/// The daemon's name.
const DAEMON: &str = "bench";
/// Most addresses of a server: clients have the rest of the network.
const MOST_ADDRESSES: u32 = 100;

/// How mTCP's frames travel and who is at the ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// The link.
    pub(crate) link: LinkKind,
    /// How mTCP runs.
    pub(crate) mode: Mode,
    /// Who connects to mTCP's server.
    pub(crate) client: Stack,
    /// Each end's processor receives for it.
    pub(crate) steer: bool,
    /// Congestion control of the kernel's sockets.
    pub(crate) kernel_congestion: CongestionControl,
    /// Processors of the server and of the client.
    pub(crate) cores: [usize; 2],
    /// Of the daemon, if the server attaches to one.
    pub(crate) daemon_core: usize,
}

/// A place for runs.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    program: String,
    directory: &'a Directory,
    setting: Setting,
    /// Where frames leave shared memory, and where the kernel's loopback is measured if namespaces
    /// can be had.
    network: Option<Network>,
    runs: u32,
    /// Clients of this run so far; each has an address of its own, as each would be a machine of
    /// its own.
    clients: u32,
}

/// One end: its namespace (`None`: that of this process), its sockets, its addresses.
struct Seat {
    namespace: Option<usize>,
    io: String,
    addresses: String,
    /// How the stack of the end runs; `None`: it has none.
    mode: Option<link::Mode>,
}

impl<'a> Place<'a> {
    /// Prepares it.
    ///
    /// # Errors
    /// The link cannot be had here.
    pub(crate) fn new(setting: Setting, directory: &'a Directory) -> anyhow::Result<Self> {
        let network = match (setting.link, setting.client) {
            (LinkKind::Shm, Stack::Kernel) => {
                return Err(Failure::error(
                    "the kernel has no end of a shared-memory link",
                    "use --client mtcp, or --link afxdp, packet or tap",
                ));
            }
            (LinkKind::Tap, Stack::Mtcp) => {
                return Err(Failure::error(
                    "the other end of a TAP device is the kernel",
                    "use --client kernel, or --link afxdp, packet or shm",
                ));
            }
            (LinkKind::Shm | LinkKind::Tap, _) if setting.steer => {
                return Err(Failure::error(
                    "only what veth pairs receive can be steered",
                    "use --steer with --link afxdp or packet",
                ));
            }
            (LinkKind::Shm, Stack::Mtcp) => Network::loopback(),
            (LinkKind::Afxdp | LinkKind::Packet | LinkKind::Tap, _) => {
                Some(Network::new(setting.link)?)
            }
        };
        if let Some(network) = network.as_ref().filter(|_| setting.steer) {
            network.steer(setting.cores)?;
        }
        Ok(Self {
            program: program()?,
            directory,
            setting,
            network,
            runs: 0,
            clients: 0,
        })
    }

    /// Processors of the server and of the client.
    pub(crate) fn cores(&self) -> [usize; 2] {
        self.setting.cores
    }

    /// What the kernel's sockets run with here.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn baseline(&self) -> anyhow::Result<Baseline> {
        let (link, cc) = (self.setting.link, self.setting.kernel_congestion);
        let mut baseline = match &self.network {
            Some(network) => network.baseline(link, cc)?,
            None => Baseline::read(cc, false),
        };
        baseline.add_machine();
        Ok(baseline)
    }

    /// Begins the next run.
    pub(crate) fn next_run(&mut self) {
        self.runs += 1;
        self.clients = 0;
    }

    /// The daemon that this run's server attaches to, if it does.
    pub(crate) fn daemon(&self, side: Side, work: &WorkArgs) -> Option<Command> {
        if !self.is_served(side) {
            return None;
        }
        let mut command = match &self.network {
            Some(network) => network.command(0, &self.program),
            None => Command::new(&self.program),
        };
        command
            .args(["daemon", "--name", DAEMON, "--directory"])
            .arg(self.daemon_directory())
            .args(["--io", &self.link(0)])
            .args(["--addr", &network::server_addresses(addresses(work))])
            .args(["--core", &self.setting.daemon_core.to_string()]);
        Some(command)
    }

    /// Each run's daemon has a directory of its own, so that none meets what another left.
    fn daemon_directory(&self) -> PathBuf {
        self.directory.path(&format!("daemon-{}", self.runs))
    }

    /// Whether this side's server attaches to a daemon.
    fn is_served(&self, side: Side) -> bool {
        side == Side::Mtcp && self.setting.mode == Mode::Service
    }

    /// Whether the daemon runs on the server's processor.
    pub(crate) fn daemon_is_beside(&self) -> bool {
        self.setting.daemon_core == self.setting.cores[0]
    }

    /// The server of this run.
    pub(crate) fn server(&self, side: Side, work: &WorkArgs) -> Command {
        let seat = match (side, &self.network) {
            (Side::Mtcp, network) if self.is_served(side) => Seat {
                namespace: network.as_ref().map(|_| 0),
                io: format!("daemon:{}/{DAEMON}", self.daemon_directory().display()),
                addresses: String::new(),
                mode: None,
            },
            (Side::Mtcp | Side::MtcpInline, network) => Seat {
                namespace: network.as_ref().map(|_| 0),
                io: self.link(0),
                addresses: network::server_addresses(addresses(work)),
                mode: Some(self.mode(side)),
            },
            (_, network) => kernel(network.as_ref().map(|_| 0)),
        };
        let mut command = self.command("bench-server", &seat, 0);
        command.args(work.words());
        match side {
            Side::Mtcp | Side::MtcpInline => {}
            Side::Kernel | Side::KernelPlain => {
                command.args(["--port", "0"]);
            }
            Side::KernelTuned => {
                command.args(["--port", "0", "--tuned"]);
            }
        }
        command
    }

    /// Its client; `port` is what the server said.
    ///
    /// # Errors
    /// The server said something else.
    pub(crate) fn client(
        &mut self,
        side: Side,
        work: &WorkArgs,
        port: &str,
    ) -> anyhow::Result<Command> {
        let port: u16 = port.parse().context("the server named no port")?;
        self.clients += 1;
        let seat = self.client_seat(side);
        let mut command = self.command("bench-client", &seat, 1);
        let target = match (side, self.setting.link) {
            (_, LinkKind::Afxdp | LinkKind::Packet | LinkKind::Tap) => network::target(side),
            (Side::Mtcp | Side::MtcpInline, LinkKind::Shm) => network::OURS,
            (_, LinkKind::Shm) => network::LOOPBACK,
        };
        command
            .args(work.words())
            .args(["--server-core", &self.setting.cores[0].to_string()])
            .arg(format!("{target}:{port}"))
            .args(["--spread", &addresses(work).to_string()]);
        Ok(command)
    }

    fn client_seat(&self, side: Side) -> Seat {
        match (side, self.setting.link, self.setting.client) {
            (Side::Mtcp | Side::MtcpInline, LinkKind::Tap, _) => kernel(Some(0)),
            // Both ends of a loopback are in one namespace.
            (_, LinkKind::Shm, _) if !matches!(side, Side::Mtcp | Side::MtcpInline) => {
                kernel(self.network.as_ref().map(|_| 0))
            }
            (Side::Mtcp | Side::MtcpInline, _, Stack::Mtcp) => Seat {
                namespace: self.network.as_ref().map(|_| 1),
                io: self.link(1),
                addresses: network::client_address(self.clients),
                mode: Some(self.mode(side)),
            },
            _ => kernel(self.network.as_ref().map(|_| 1)),
        }
    }

    /// How both of mTCP's ends run.
    fn mode(&self, side: Side) -> link::Mode {
        match side {
            Side::MtcpInline => link::Mode::Inline,
            _ => self.setting.mode.of_process(),
        }
    }

    /// mTCP's link, seen from the server (0) or the client (1). Each run over shared memory has one
    /// of its own.
    fn link(&self, end: usize) -> String {
        match self.setting.link {
            LinkKind::Shm => {
                let path = self.directory.path(&format!("link-{}", self.runs));
                format!("shm:{}", path.display())
            }
            LinkKind::Afxdp => format!("afxdp:{}", network::ENDS[end.min(1)]),
            LinkKind::Packet => format!("packet:{}", network::ENDS[end.min(1)]),
            LinkKind::Tap => format!("tap:{}", network::TAP),
        }
    }

    fn command(&self, what: &str, seat: &Seat, end: usize) -> Command {
        let mut command = match (&self.network, seat.namespace) {
            (Some(network), Some(namespace)) => network.command(namespace, &self.program),
            _ => Command::new(&self.program),
        };
        command
            .args([what, "--io", &seat.io])
            .args(["--core", &self.setting.cores[end.min(1)].to_string()]);
        if !seat.addresses.is_empty() {
            command.args(["--addr", &seat.addresses]);
        }
        match seat.mode {
            Some(mode) => command.args(["--mode", mode.name()]),
            None if seat.addresses.is_empty() => &mut command,
            None => command.args(["--cc", self.setting.kernel_congestion.name()]),
        };
        command
    }
}

/// An end with the kernel's sockets.
fn kernel(namespace: Option<usize>) -> Seat {
    Seat {
        namespace,
        io: "kernel".to_owned(),
        addresses: "0.0.0.0".to_owned(),
        mode: None,
    }
}

/// Addresses that a server needs for so many connections at a time.
fn addresses(work: &WorkArgs) -> u32 {
    (work.concurrency / PER_ADDRESS + 1).clamp(ADDRESSES, MOST_ADDRESSES)
}
