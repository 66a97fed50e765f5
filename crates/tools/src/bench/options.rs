//! The options of `mtcp bench`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mtcp::CongestionControl;

use crate::fail::Failure;
use crate::link;
use crate::machine;

const EXAMPLES: &str = "Examples:
  mtcp bench short --pairs 7 --json
  mtcp bench short --messages 1,8,32,64,128
  mtcp bench short --concurrency 1,1000,100000 --mode paired
  mtcp bench short --mode service --concurrency 1000,256,16
  mtcp bench short --link afxdp --client mtcp
  mtcp bench cpu --link afxdp --steer
  mtcp bench latency --rate 20000
  mtcp bench bulk --kernel-congestion bbr
  mtcp bench memory --concurrency 100000
  mtcp bench --all";

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Connections per second, each with its messages, and what one costs the server's processor
    Short,
    /// Connections per second that the server accepts and resets
    Reset,
    /// Response times: one connection spinning and sleeping, a fixed rate, a closed loop
    Latency,
    /// Bytes per second, one flow and a hundred
    Bulk,
    /// What the server's processor does for one message: user, system, interrupts
    Cpu,
    /// Bytes per idle connection, and per one in TIME_WAIT
    Memory,
    /// How evenly 8,000 flows share the link
    Fairness,
}

impl What {
    /// Its name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}

/// Where mTCP's frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LinkKind {
    /// Shared memory between two processes; the kernel uses its loopback
    Shm,
    /// AF_XDP on a veth pair between two namespaces; the kernel uses a veth pair, too (root)
    Afxdp,
    /// A veth pair with packet sockets at mTCP's ends (AF_PACKET)
    Packet,
    /// A TAP device; the kernel uses a veth pair (root)
    Tap,
}

/// Who connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stack {
    /// The kernel
    Kernel,
    /// mTCP
    Mtcp,
}

impl LinkKind {
    /// Its name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}

impl Stack {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Mtcp => "mtcp",
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
    /// The server attaches to a daemon, a process of its own that has link and stack; mTCP's client
    /// runs inline
    Service,
}

impl Mode {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Paired => "paired",
            Self::Inline => "inline",
            Self::Service => "service",
        }
    }

    /// How a process runs that has a stack of its own.
    pub(crate) fn of_process(self) -> link::Mode {
        match self {
            Self::Paired => link::Mode::Paired,
            Self::Inline | Self::Service => link::Mode::Inline,
        }
    }
}

/// Measures the kernel and mTCP in turn, on the same two processors, with the same programs. Exits
/// with 1 if a run failed.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    /// What to measure
    #[arg(value_enum, required_unless_present = "all")]
    what: Option<What>,
    /// Measure everything that docs/performance.md has figures of, and put them there, as JSON and
    /// SVG in the directory beside it
    #[arg(long, conflicts_with_all = ["what", "json", "svg"])]
    pub(crate) all: bool,
    /// The page that --all puts its figures into
    #[arg(long, value_name = "FILE", default_value = "docs/performance.md")]
    pub(crate) into: PathBuf,
    /// Times to run each side, in turn
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) pairs: u32,
    /// Seconds of a run that count; 1 with --all
    #[arg(
        long,
        value_name = "S",
        default_value_t = 2.0,
        default_value_if("all", "true", "1")
    )]
    pub(crate) seconds: f64,
    /// Messages per connection (several allowed) [default: 1]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) messages: Vec<u32>,
    /// Bytes of a message (several allowed) [default: 64]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) size: Vec<u32>,
    /// Connections at a time (several allowed) [default: 1000; bulk: 1,100; latency, fairness:
    /// 8000; memory: 10000]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) concurrency: Vec<u32>,
    /// latency: connections per second of the fixed rate
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) rate: u32,
    /// latency: responses in the closed loop, of each side, so that the slowest is that of as many
    #[arg(long, value_name = "N", default_value_t = 400_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(crate) responses: u32,
    /// Where mTCP's frames go
    #[arg(long, value_enum, default_value_t = LinkKind::Shm)]
    pub(crate) link: LinkKind,
    /// Who connects to mTCP's server [default: mtcp over shm, kernel otherwise]
    #[arg(long, value_enum)]
    client: Option<Stack>,
    /// afxdp, packet: what comes for an end is received by that end's own processor, as between two
    /// machines (receive packet steering, for the kernel's pair alike); otherwise a veth pair has
    /// the sender's processor do it
    #[arg(long)]
    pub(crate) steer: bool,
    /// How mTCP runs; short and cpu measure paired and service beside inline as well
    #[arg(long, value_enum, default_value_t = Mode::Inline)]
    pub(crate) mode: Mode,
    /// Congestion control of the kernel's sockets: cubic, reno, bbr or dctcp
    #[arg(long, value_name = "NAME", default_value = CongestionControl::Cubic.name())]
    pub(crate) kernel_congestion: CongestionControl,
    /// Processors of the server and of the client [default: the first two], and with --mode
    /// service of the daemon [default: the server's]
    #[arg(long, value_name = "S,C[,D]", value_delimiter = ',', num_args = 1)]
    pub(crate) cores: Vec<usize>,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a plot of the first figure to this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) svg: Option<PathBuf>,
}

impl BenchArgs {
    /// What to measure; short connections where only everything was asked for.
    pub(crate) fn what(&self) -> What {
        self.what.unwrap_or(What::Short)
    }

    /// The command that measures everything as these options ask for it.
    pub(crate) fn command(&self) -> String {
        format!(
            "mtcp bench --all --pairs {} --seconds {}{}",
            self.pairs,
            self.seconds,
            match self.kernel_congestion {
                CongestionControl::Cubic => String::new(),
                other => format!(" --kernel-congestion {}", other.name()),
            }
        )
    }

    /// Who connects to mTCP's server.
    pub(crate) fn client(&self) -> Stack {
        self.client.unwrap_or(match self.link {
            LinkKind::Shm => Stack::Mtcp,
            LinkKind::Afxdp | LinkKind::Packet | LinkKind::Tap => Stack::Kernel,
        })
    }

    /// Processors of the server and of the client.
    pub(crate) fn processors(&self) -> anyhow::Result<[usize; 2]> {
        let chosen = match self.cores[..] {
            [] => {
                let (server, client) = machine::two_cores();
                [server, client]
            }
            [server, client] => [server, client],
            [server, client, daemon] if self.mode == Mode::Service => {
                machine::check_core(daemon)?;
                [server, client]
            }
            [_, _, _] => {
                return Err(Failure::error(
                    "--cores names a processor for a daemon, and there is none",
                    "name two, or use --mode service",
                ));
            }
            _ => {
                return Err(Failure::error(
                    "--cores names two processors",
                    "write --cores 0,1",
                ));
            }
        };
        for core in chosen {
            machine::check_core(core)?;
        }
        if chosen[0] == chosen[1] && !self.cores.is_empty() {
            return Err(Failure::error(
                format!("--cores names processor {} for both ends", chosen[0]),
                "write two that differ, such as --cores 0,1",
            ));
        }
        if chosen[0] == chosen[1] {
            return Err(Failure::error(
                "server and client need a processor each, and this process may use but one",
                "run it where there are two",
            ));
        }
        Ok(chosen)
    }

    /// The processor of the daemon, where `server` and client run on these.
    pub(crate) fn daemon_core(&self, [server, _]: [usize; 2]) -> usize {
        self.cores.get(2).copied().unwrap_or(server)
    }
}

/// `given`, or `default` if nothing was.
pub(crate) fn or(given: &[u32], default: u32) -> Vec<u32> {
    if given.is_empty() {
        vec![default]
    } else {
        given.to_vec()
    }
}
