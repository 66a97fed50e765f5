//! The same transfers over the same path with the same faults, Linux and mTCP at either end: goodput side by side.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::path::PathBuf;
use std::time::Duration;

use interop::files::{self, make};
use interop::lab::{self, url};
use interop::path::{Path, Shape};
use interop::{Gate, Namespace, Process, process, programs, sized};
use tempfile::TempDir;

const NAME: &str = "path0";
const WITHIN: Duration = Duration::from_secs(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stack {
    Linux,
    Mtcp,
}

/// The stations at both ends of a path: each with a kernel address that ends in its number, and one for mTCP that ends in 10 more.
struct Ends {
    namespaces: [Namespace; 2],
    files: TempDir,
    _path: Path,
}

impl Ends {
    fn new(shape: Shape) -> Self {
        let namespaces = [Namespace::new(), Namespace::new()];
        let path = Path::between(&namespaces[0], &namespaces[1], NAME, shape);
        for (namespace, number) in namespaces.iter().zip(1..) {
            namespace.ip(&format!("address add 10.78.0.{number}/24 dev {NAME}"));
            namespace.ip(&format!("link set {NAME} up"));
            // The default of some kernels holds less than a long path does.
            for key in ["tcp_rmem", "tcp_wmem"] {
                namespace.set(&format!("net/ipv4/{key}"), "4096 131072 33554432");
            }
        }
        Self {
            namespaces,
            files: tempfile::tempdir().unwrap(),
            _path: path,
        }
    }

    fn address(stack: Stack, number: u8) -> String {
        match stack {
            Stack::Linux => format!("10.78.0.{number}"),
            Stack::Mtcp => format!("10.78.0.{}", number + 10),
        }
    }

    /// `mtcp` with `words` at the end `number` on `stack`.
    fn mtcp(&self, stack: Stack, number: u8, cc: &str, words: &[&str]) -> std::process::Command {
        let namespace = &self.namespaces[usize::from(number - 1)];
        let mut command = namespace.command(programs::mtcp());
        command.args(words);
        let address = Self::address(stack, number);
        match stack {
            Stack::Linux => {
                namespace.set("net/ipv4/tcp_congestion_control", cc);
                command.args(["--io", "kernel", "--addr", &address]);
            }
            Stack::Mtcp => {
                let io = format!("afxdp:{NAME}");
                command.args(["--io", &io, "--addr", &(address + "/24"), "--cc", cc]);
            }
        }
        command
    }

    fn serve(&self, stack: Stack, cc: &str) -> Process {
        let directory = self.files.path().to_str().unwrap();
        lab::listening(self.mtcp(stack, 1, cc, &["serve", directory]))
    }

    /// Fetches a file of so many bytes; bytes per second.
    fn fetch(&self, server: Stack, client: Stack, length: u64) -> f64 {
        let source = self.files.path().join("file");
        let target: PathBuf = self.files.path().join("copy");
        make(&source, length, length);
        let url = url(Self::address(server, 1).parse().unwrap(), "file");
        let words = ["load", "--json", &url, "-n", "1", "-c", "1", "-o"];
        let words = [&words[..], &[target.to_str().unwrap()]].concat();
        let mut command = self.mtcp(client, 2, "cubic", &words);
        if client == Stack::Linux {
            // A client of the kernel takes the address that the route says.
            command = self.namespaces[1].command(programs::mtcp());
            command.args(&words).args(["--io", "kernel"]);
        }
        let done = process::finish(command, WITHIN).must_succeed();
        assert_eq!(files::difference(&source, &target), None, "{done}");
        length as f64 / done.took.as_secs_f64()
    }
}

fn shape(megabits: u64, delay_ms: u64, faults: &str) -> Shape {
    let rate = megabits * 1_000_000;
    Shape {
        rate,
        delay: Duration::from_millis(delay_ms),
        // What the path itself holds in a round trip.
        queue: (rate * delay_ms * 2 / 8000) as usize,
        faults: faults.parse().unwrap(),
    }
}

/// All four pairings, a few seconds each. Returns the goodput of every pairing in bytes per second, servers first.
fn pairings(shape: Shape, cc: &str, length: u64) -> Vec<(Stack, Stack, f64)> {
    let mut found = Vec::new();
    for server in [Stack::Linux, Stack::Mtcp] {
        for client in [Stack::Linux, Stack::Mtcp] {
            let ends = Ends::new(shape);
            let running = ends.serve(server, cc);
            let speed = ends.fetch(server, client, length);
            running.stop();
            println!(
                "{cc}: {server:?} to {client:?}: {:.2} Mbit/s",
                speed * 8.0 / 1e6
            );
            found.push((server, client, speed));
        }
    }
    found
}

/// The goodput of mTCP sending, as a part of that of Linux sending, to either client.
fn ratios(found: &[(Stack, Stack, f64)]) -> Vec<f64> {
    let of = |server, client| {
        let row = found.iter().find(|row| (row.0, row.1) == (server, client));
        row.unwrap().2
    };
    [Stack::Linux, Stack::Mtcp]
        .map(|client| of(Stack::Mtcp, client) / of(Stack::Linux, client))
        .into()
}

fn compare(shape: Shape, cc: &str, length: u64, least: f64) {
    let Some(_gate) = Gate::alone() else { return };
    let ratios = ratios(&pairings(shape, cc, length));
    println!("{cc}: mTCP/Linux to Linux, to mTCP: {ratios:.2?}");
    assert!(ratios.iter().all(|ratio| *ratio >= least), "{ratios:?}");
}

#[test]
fn cubic_on_a_long_path_that_loses_frames() {
    let shape = shape(1000, 50, "loss=0.1%,seed=1");
    compare(shape, "cubic", sized(60_000_000, 6_000_000), 0.8);
}

#[test]
fn bbr_on_a_long_path_that_loses_frames() {
    let shape = shape(sized(1000, 200), 50, "loss=0.1%,seed=2");
    compare(shape, "bbr", sized(1_000_000_000, 60_000_000), 0.8);
}

#[test]
fn all_pairings_on_a_bad_path() {
    let faults = "loss=2%,reorder=1%,dup=1%,seed=3";
    compare(shape(100, 5, faults), "cubic", 3_000_000, 0.7);
}
