//! The options that say which sockets to use, and the sockets they mean.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use mtcp::config::{Cidr, NeighbourSpec};
use mtcp::privileges::{allows, own};
use mtcp::{Config, CongestionControl, IoSpec, Mtcp};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;

use crate::fail::Failure;
use crate::machine;
use crate::net::{Address, Own};
use crate::sockets::kernel::Kernel;
use crate::sockets::stack::Stack;

/// `kernel`, or a link of mTCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Io {
    /// The kernel's sockets.
    Kernel,
    /// mTCP over this link, or on a daemon's stack.
    Mtcp(IoSpec),
}

impl FromStr for Io {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "kernel" => Ok(Self::Kernel),
            _ => text.parse().map(Self::Mtcp).map_err(|error: String| {
                error.replace("use afxdp:IFACE", "use kernel, afxdp:IFACE")
            }),
        }
    }
}

impl std::fmt::Display for Io {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Kernel => f.write_str("kernel"),
            Self::Mtcp(spec) => spec.fmt(f),
        }
    }
}

/// How mTCP runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// The application thread runs the stack, a stack thread while that is elsewhere
    Paired,
    /// The application thread runs the stack
    Inline,
}

impl Mode {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Paired => "paired",
            Self::Inline => "inline",
        }
    }
}

/// Which sockets.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Sockets")]
pub(crate) struct LinkArgs {
    /// Sockets to use: afxdp:IFACE, packet:IFACE, tap:NAME, shm:PATH, loop:NAME (mTCP),
    /// daemon[:NAME] (mTCP's daemon), or kernel
    #[arg(long, value_name = "IO")]
    pub(crate) io: Option<Io>,
    /// Address of ours with the length of its network, like 10.0.0.2/24 or fd00::2/64 (several
    /// allowed); without it, or with 'host': those that the kernel has on an AF_XDP interface,
    /// which keeps them
    #[arg(long, value_name = "A/LEN", value_delimiter = ',')]
    pub(crate) addr: Vec<Own>,
    /// Take an address although the kernel or another host has it: this machine is then cut off
    /// from it
    #[arg(long)]
    pub(crate) force_address: bool,
    /// Listen at ports that the host's firewall closes: it does not see what the stack takes
    #[arg(long)]
    pub(crate) ignore_firewall: bool,
    /// Default gateway (one per family)
    #[arg(long, value_name = "G", value_delimiter = ',')]
    pub(crate) gateway: Vec<IpAddr>,
    /// Static neighbour, like 10.0.0.1=02:00:00:00:00:01 (several allowed)
    #[arg(long, value_name = "IP=MAC", value_delimiter = ',')]
    pub(crate) neighbour: Vec<NeighbourSpec>,
    /// Processor to run on
    #[arg(long, value_name = "N")]
    pub(crate) core: Option<usize>,
    /// How mTCP runs [default: inline]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<Mode>,
    /// Congestion control: cubic, reno, bbr or dctcp [default: cubic; kernel: the system's]
    #[arg(long, value_name = "NAME")]
    pub(crate) cc: Option<CongestionControl>,
    /// Capture all frames to this pcapng file
    #[arg(long, value_name = "F")]
    pub(crate) pcap: Option<PathBuf>,
    /// Faults to inject, like 'loss=1%,seed=7' or 'rx:loss=5%;tx:reorder=1%'
    #[arg(long, value_name = "SPEC")]
    pub(crate) fault: Option<String>,
    /// Settings file (mtcp.conf); options given here win
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Connections that the stack must have room for, beyond what every tool has.
    #[arg(skip)]
    pub(crate) room: u32,
    /// Connections whose memory the stack takes at the start.
    #[arg(skip)]
    pub(crate) prefault: u32,
}

/// Opened sockets.
#[derive(Debug)]
pub(crate) enum Backend {
    /// The kernel's.
    Kernel(Kernel),
    /// mTCP's, and what they are on: an interface of this process, or a daemon.
    Stack(Box<Stack>, Box<Mtcp>),
}

/// What was opened, beside the sockets.
#[derive(Debug)]
pub(crate) struct Link {
    /// The sockets.
    pub(crate) backend: Backend,
    /// Our addresses.
    pub(crate) addresses: Vec<IpAddr>,
    /// The networks that they are in; none of the kernel's.
    pub(crate) networks: Vec<Cidr>,
    /// For the start line: io and mode.
    pub(crate) label: String,
}

impl LinkArgs {
    /// Opens what the options say, and pins this thread.
    pub(crate) fn open(&self) -> anyhow::Result<Link> {
        let config = self.settings(self.defaults())?;
        let io = self.chosen(&config)?;
        machine::raise_open_files();
        match io {
            Io::Kernel => self.open_kernel(),
            Io::Mtcp(spec) => self.open_stack(spec, config),
        }
    }

    /// The settings of a stack, for a program that opens it itself. `open`: the link has to be
    /// there. `defaults`: what counts where neither the file nor an option says.
    pub(crate) fn config(&self, open: bool, defaults: Config) -> anyhow::Result<Config> {
        let mut config = self.settings(defaults)?;
        let Io::Mtcp(spec) = self.chosen(&config)? else {
            return Err(Failure::error(
                "kernel sockets need no mTCP",
                "give --io afxdp:IFACE, packet:IFACE, tap:NAME, shm:PATH, loop:NAME or daemon[:NAME]",
            ));
        };
        self.apply(&spec, &mut config)?;
        if open {
            check_link(&spec)?;
        }
        config.check_addresses().map_err(anyhow::Error::msg)?;
        Ok(config)
    }

    fn chosen(&self, config: &Config) -> anyhow::Result<Io> {
        match (&self.io, &self.config) {
            (Some(io), _) => Ok(io.clone()),
            (None, Some(_)) => config
                .link()
                .map(Io::Mtcp)
                .map_err(|error| Failure::error(error, "or give --io")),
            (None, None) => Err(Failure::error(
                "no sockets chosen",
                "give --io afxdp:IFACE, packet:IFACE, tap:NAME, shm:PATH or kernel",
            )),
        }
    }

    /// What counts in a command where neither the file nor an option says: one context, which no
    /// thread runs beside it, and what the library's defaults, which are the paper's, do not give:
    /// many connections and wide windows.
    pub(crate) fn defaults(&self) -> Config {
        let library = Config::default();
        Config {
            cores: 1,
            mode: mtcp::Mode::Inline,
            pin: false,
            max_concurrency: library.max_concurrency.max(65_536).max(self.room),
            rcvbuf: library.rcvbuf.max(1 << 20),
            prefault: library.prefault.max(self.prefault),
            ..library
        }
    }

    /// The settings of the file, if there is one, over these.
    fn settings(&self, mut config: Config) -> anyhow::Result<Config> {
        if let Some(file) = &self.config {
            config
                .read_file(file)
                .map_err(|error| anyhow::anyhow!("{error}"))?;
        }
        if config.cores > 1 {
            log::warn!(
                "num_cores = {}: this command runs one context all the same, which serves all queues: set num_cores = 1",
                config.cores
            );
        }
        config.cores = 1;
        Ok(config)
    }

    fn open_kernel(&self) -> anyhow::Result<Link> {
        for (given, option) in [
            (self.pcap.is_some(), "--pcap"),
            (self.fault.is_some(), "--fault"),
        ] {
            if given {
                return Err(Failure::error(
                    format!("{option} needs frames, which kernel sockets do not show"),
                    "use it with --io afxdp, packet, tap or shm",
                ));
            }
        }
        if let Some(core) = self.core {
            machine::pin(core)?;
        }
        let mut kernel = Kernel::new().map_err(|error| {
            Failure::error(
                format!("cannot make an epoll instance: {error}"),
                "raise the limit of open files (ulimit -n)",
            )
        })?;
        if let Some(cc) = self.cc {
            let done = kernel.use_congestion(cc.name());
            done.map_err(|error| congestion_failure(cc.name(), error))?;
        }
        let addresses = self.given().map(|address| address.ip).collect();
        Ok(Link {
            backend: Backend::Kernel(kernel),
            addresses,
            networks: Vec::new(),
            label: "kernel".into(),
        })
    }

    fn open_stack(&self, spec: IoSpec, mut config: Config) -> anyhow::Result<Link> {
        check_link(&spec)?;
        self.apply(&spec, &mut config)?;
        let mode = match config.mode {
            mtcp::Mode::Paired => "paired",
            mtcp::Mode::Inline => "inline",
        };
        let label = match spec {
            IoSpec::Daemon(_) => spec.to_string(),
            _ => format!("{spec}, {mode}"),
        };
        let networks = config.addresses.clone();
        let addresses = networks.iter().map(|cidr| cidr.addr).collect();
        let pins = config.pin || !matches!(spec, IoSpec::Daemon(_));
        let stack = Mtcp::init(config).map_err(|error| anyhow::anyhow!("{error}"))?;
        // Where the stack runs is for the daemon to say.
        if pins {
            stack.pin(0).map_err(|error| anyhow::anyhow!("{error}"))?;
        }
        let context = stack
            .context(0)
            .map_err(|error| anyhow::anyhow!("{error}"))?;
        let sockets = Stack::new(context).map_err(|error| {
            Failure::error(
                format!("cannot make an epoll instance: {error}"),
                "raise max_concurrency",
            )
        })?;
        Ok(Link {
            backend: Backend::Stack(Box::new(sockets), Box::new(stack)),
            addresses,
            networks,
            label,
        })
    }

    /// The options over the settings file.
    fn apply(&self, spec: &IoSpec, config: &mut Config) -> anyhow::Result<()> {
        config.io = spec.clone();
        if let IoSpec::Daemon(_) = spec {
            return self.apply_to_daemon(config);
        }
        if !self.addr.is_empty() {
            config.addresses = self.cidrs()?;
            config.host = self.addr.contains(&Own::Host);
        }
        config.take_host().map_err(anyhow::Error::msg)?;
        if config.addresses.is_empty() {
            return Err(Failure::error(
                "no address for the stack",
                "give --addr, like --addr 10.0.0.2/24; on an AF_XDP interface it may be left out",
            ));
        }
        config.force_address |= self.force_address;
        config.ignore_firewall |= self.ignore_firewall;
        if !self.gateway.is_empty() {
            config.gateways.clone_from(&self.gateway);
        }
        config.neighbours.extend_from_slice(&self.neighbour);
        self.apply_core(config)?;
        match self.mode {
            Some(Mode::Paired) => config.mode = mtcp::Mode::Paired,
            Some(Mode::Inline) => config.mode = mtcp::Mode::Inline,
            None => {}
        }
        config.congestion = self.cc.unwrap_or(config.congestion);
        config.pcap = self.pcap.clone().or(config.pcap.take());
        config.fault = self.fault.clone().or(config.fault.take());
        Ok(())
    }

    /// What a daemon says in place of what was not to be given.
    fn apply_to_daemon(&self, config: &mut Config) -> anyhow::Result<()> {
        let of_stack = [
            (!self.addr.is_empty(), "--addr"),
            (self.force_address, "--force-address"),
            (self.ignore_firewall, "--ignore-firewall"),
            (!self.gateway.is_empty(), "--gateway"),
            (!self.neighbour.is_empty(), "--neighbour"),
            (self.mode.is_some(), "--mode"),
            (self.cc.is_some(), "--cc"),
            (self.pcap.is_some(), "--pcap"),
            (self.fault.is_some(), "--fault"),
        ];
        if let Some((_, option)) = of_stack.iter().find(|(given, _)| *given) {
            return Err(Failure::error(
                format!("{option} is about the stack, which the daemon has"),
                format!("give {option} to 'mtcp daemon'"),
            ));
        }
        self.apply_core(config)?;
        mtcp::take_daemon(config).map_err(|error| anyhow::anyhow!("{error}"))
    }

    fn apply_core(&self, config: &mut Config) -> anyhow::Result<()> {
        if let Some(core) = self.core {
            machine::check_core(core)?;
            config.core_list = vec![core];
            config.pin = true;
        }
        Ok(())
    }

    fn cidrs(&self) -> anyhow::Result<Vec<Cidr>> {
        let cidr = |address: &Address| {
            let prefix_len = address.prefix_len.ok_or_else(|| {
                let length = if address.ip.is_ipv4() { 24 } else { 64 };
                Failure::error(
                    format!("--addr {} lacks the length of its network", address.ip),
                    format!("write {}/{length}", address.ip),
                )
            })?;
            Ok(Cidr {
                addr: address.ip,
                prefix_len,
            })
        };
        self.given().map(cidr).collect()
    }

    /// The addresses that are named.
    fn given(&self) -> impl Iterator<Item = &Address> {
        self.addr.iter().filter_map(Own::address)
    }

    /// Where a server listens: at all of `addresses`, or everywhere.
    pub(crate) fn listen_addresses(&self, addresses: &[IpAddr], port: u16) -> Vec<SocketAddr> {
        let everywhere = [
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        ];
        let addresses = if addresses.is_empty() {
            &everywhere[..]
        } else {
            addresses
        };
        addresses
            .iter()
            .map(|ip| SocketAddr::new(*ip, port))
            .collect()
    }
}

/// What can be said about a link before it is opened, in the same words for all tools.
fn check_link(spec: &IoSpec) -> anyhow::Result<()> {
    match spec {
        IoSpec::Afxdp(name) => {
            check_interface(name)?;
            privileged(&format!("AF_XDP on '{name}'"), NET_ADMIN)
        }
        IoSpec::Packet(name) => {
            check_interface(name)?;
            privileged(&format!("AF_PACKET on '{name}'"), NET_RAW)
        }
        IoSpec::Tap(name) => privileged(&format!("the TAP device '{name}'"), NET_ADMIN),
        // What attaching fails for, it says itself.
        IoSpec::Loop(_) | IoSpec::Daemon(_) => Ok(()),
        IoSpec::Shm(path) => {
            let parent = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            match parent {
                Some(parent) if !parent.is_dir() => Err(Failure::error(
                    format!(
                        "there is no directory '{}' for the shared-memory link",
                        parent.display()
                    ),
                    "make it, or choose another shm:PATH",
                )),
                _ => Ok(()),
            }
        }
    }
}

fn check_interface(name: &str) -> anyhow::Result<()> {
    let found = mtcp::interfaces::find(name);
    found.map(drop).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Failure::error(
            format!("there is no interface '{name}' in this network namespace"),
            "see 'ip link' for those that exist",
        ),
        _ => Failure::error(error.to_string(), "see 'mtcp doctor'"),
    })
}

const NET_ADMIN: (CapabilitySet, &str) = (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN");
const NET_RAW: (CapabilitySet, &str) = (CapabilitySet::NET_RAW, "CAP_NET_RAW");

fn privileged(what: &str, (needed, name): (CapabilitySet, &str)) -> anyhow::Result<()> {
    if allows(own(), needed) {
        return Ok(());
    }
    Err(Failure::error(
        format!("{what} needs {name}"),
        "run it as root, or use --io shm:PATH",
    ))
}

/// The kernel does not take a congestion control for its sockets.
fn congestion_failure(name: &str, error: Errno) -> anyhow::Error {
    let remedy = match error {
        Errno::PERM => format!(
            "run this as root, or allow it as root (sysctl -w net.ipv4.tcp_allowed_congestion_control=\"reno {name}\"), or choose another"
        ),
        _ => format!("load it as root (modprobe tcp_{name}), or choose another"),
    };
    Failure::error(format!("the kernel cannot use {name}: {error}"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel has it and keeps it from ordinary users: loading it is no remedy.
    #[test]
    fn a_congestion_control_that_is_not_allowed_is_no_missing_one() {
        let text = |error| congestion_failure("cubic", error).to_string();
        assert!(
            text(Errno::PERM).contains("net.ipv4.tcp_allowed_congestion_control=\"reno cubic\"")
        );
        assert!(!text(Errno::PERM).contains("modprobe"));
        assert!(text(Errno::NOENT).contains("modprobe tcp_cubic"));
    }

    #[test]
    fn io_is_kernel_or_a_link() {
        assert_eq!("kernel".parse(), Ok(Io::Kernel));
        assert_eq!("tap:t0".parse(), Ok(Io::Mtcp(IoSpec::Tap("t0".into()))));
        let error = "bogus".parse::<Io>().unwrap_err();
        assert!(
            error.contains("kernel") && error.contains("afxdp:IFACE"),
            "{error}"
        );
    }
}
