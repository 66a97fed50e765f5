//! Who sends faster over the same path with the same loss, mTCP or Linux, measured in turn.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::time::Duration;

use interop::files::make;
use interop::lab::{listening, report, url};
use interop::path::{NAME, Path, TAP, mtcp};
use interop::{Gate, Process, baseline, process, programs, sized};
use rustix::net::{AddressFamily, SocketType, socket, sockopt};
use tempfile::TempDir;

const WITHIN: Duration = Duration::from_secs(300);
/// Noise of the machine is no fault of the stack.
const TRIES: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stack {
    Linux,
    Mtcp,
}

/// So many flows, of `length` bytes each, over so many Mbit/s and so long there and back.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    cc: &'static str,
    megabits: u32,
    rtt_ms: u32,
    flows: u32,
    length: u64,
}

impl Stack {
    /// At the station, beside the other.
    fn address(self) -> &'static str {
        match self {
            Self::Linux => "10.78.0.1",
            Self::Mtcp => "10.78.0.11",
        }
    }
}

/// A path with a queue of one bandwidth-delay product.
struct Lab {
    path: Path,
    files: TempDir,
    transfer: Transfer,
}

impl Lab {
    fn new(transfer: Transfer) -> Self {
        let lab = Self {
            path: Path::new(transfer.megabits, transfer.megabits * 125 * transfer.rtt_ms),
            files: tempfile::tempdir().unwrap(),
            transfer,
        };
        lab.path.choose(transfer.cc);
        make(&lab.files.path().join("file"), 1, transfer.length);
        lab
    }

    fn serve(&self, stack: Stack) -> Process {
        let folder = self.files.path().to_str().unwrap();
        let mut command = mtcp(&self.path.station, &["serve", folder]);
        let interface = format!("afxdp:{NAME}");
        let address = stack.address();
        match stack {
            Stack::Linux => command.args(["--io", "kernel", "--addr", address]),
            Stack::Mtcp => {
                let address = format!("{address}/24");
                command.args([
                    "--io",
                    &interface,
                    "--addr",
                    &address,
                    "--cc",
                    self.transfer.cc,
                ])
            }
        };
        listening(command)
    }

    /// Bytes per second of all flows together. Which frames of the path are lost is the same each
    /// time.
    fn speed(&self, server: Stack) -> f64 {
        let _server = self.serve(server);
        let Transfer { cc, flows, .. } = self.transfer;
        let url = url(server.address().parse().unwrap(), "file");
        let flows = flows.to_string();
        let words = ["load", "--json", &url, "-n", &flows, "-c", &flows];
        let mut command = mtcp(&self.path.far, &words);
        command.args(["--io", &format!("tap:{TAP}"), "--addr", "10.78.0.12/24"]);
        let delay = self.transfer.rtt_ms / 2;
        let fault = format!("rx:loss=0.1%,delay={delay}ms,seed=1;tx:delay={delay}ms");
        command.args(["--fault", &fault, "--timeout", "250"]);
        let done = process::finish(command, WITHIN).must_succeed();
        let speed = report(&done)["bytes_per_s"].as_f64().unwrap();
        println!("{cc} from {server:?}: {:.2} Mbit/s", speed * 8.0 / 1e6);
        speed
    }
}

/// Whether it does, or loads it when it is asked.
fn kernel_has(cc: &str) -> bool {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_tcp_congestion(&socket, cc).is_ok()
}

/// The speed of mTCP over that of Linux, in the best of a few rounds.
fn compare(transfer: Transfer, least: f64) {
    if baseline() {
        interop::skipped("the kernel cannot stand in for the end that loses and delays");
        return;
    }
    let Some(_gate) = Gate::alone() else { return };
    programs::require(&["tc", "ethtool"]);
    if !kernel_has(transfer.cc) {
        interop::skipped(&format!(
            "this kernel has no congestion control '{}'",
            transfer.cc
        ));
        return;
    }
    let lab = Lab::new(transfer);
    let mut best = 0.0_f64;
    for _ in 0..TRIES {
        let linux = lab.speed(Stack::Linux);
        best = best.max(lab.speed(Stack::Mtcp) / linux);
        if best >= least {
            return;
        }
    }
    panic!("{best:.2} times as fast as Linux, not {least}: {transfer:?}");
}

/// The loss, not the rate, is what holds these back.
#[test]
fn cubic_is_as_fast_as_linux_where_one_segment_of_a_thousand_is_lost() {
    let transfer = Transfer {
        cc: "cubic",
        megabits: sized(1000, 100),
        rtt_ms: sized(100, 40),
        flows: 4,
        length: sized(30_000_000, 3_000_000),
    };
    compare(transfer, sized(1.0, 0.85));
}

#[test]
fn bbr_is_as_fast_as_linux_where_one_segment_of_a_thousand_is_lost() {
    let transfer = Transfer {
        cc: "bbr",
        megabits: sized(1000, 100),
        rtt_ms: sized(100, 40),
        flows: 1,
        length: sized(1_000_000_000, 20_000_000),
    };
    compare(transfer, sized(0.95, 0.85));
}
