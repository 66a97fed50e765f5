//! The calls of `calls.rs` without root: both ends are programs of `mtcp run` that share memory,
//! and are compared with both on the kernel's loopback. What has to ask the peer's kernel
//! (`effects`), and children with a stack of their own (`processes`), need root.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use applications::site::WITHIN;
use applications::{Process, calls, process};
use interop::process::PROMPT;
use interop::programs;

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| calls::compile(concat!(env!("CARGO_TARGET_TMPDIR"), "/rootless")))
}

/// An end at this address: on the kernel, or on the stack at an end of a link.
fn end(address: &str, link: Option<&Path>) -> Command {
    let Some(link) = link else {
        return Command::new(program());
    };
    let mut command = Command::new(programs::mtcp());
    command.args(["run", "--io", &format!("shm:{}", link.display())]);
    command.args(["--addr", &format!("{address}/24"), "--"]);
    command.arg(program());
    command
}

/// What a group prints, with these addresses.
fn run(
    (group, skipped): (&str, &[&str]),
    [ours, theirs]: [&str; 2],
    link: Option<&Path>,
) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("control");
    let mut peer = end(theirs, link);
    peer.arg("peer").arg(&socket).args([theirs, ours]);
    let mut peer = Process::start(peer);
    peer.wait_for("ready", PROMPT);
    let mut command = end(ours, link);
    command.arg("run").arg(&socket).args([ours, theirs, group]);
    command.args(skipped);
    calls::lines(&process::finish(command, WITHIN))
}

/// `skipped`: cases of hosts that are not there, of addresses that are no host's and of segments of
/// the loopback; of a peer that takes no more, which one on the stack does a little later; of many
/// connections, which take long; and of what the kernel lets root do.
fn compare(group: &str, number: u8, skipped: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = [1, 2].map(|end| format!("127.77.{number}.{end}"));
    let kernel = run((group, skipped), [&one, &other], None);
    let link = folder.path().join("link");
    let ours = run((group, skipped), ["10.77.0.1", "10.77.0.2"], Some(&link));
    let differences: Vec<_> = calls::differences(&kernel, &ours).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

macro_rules! groups {
    ($($name:ident $number:literal but $skipped:expr;)*) => {
        $(#[test]
        fn $name() {
            compare(stringify!($name), $number, &$skipped);
        })*
    };
}

groups! {
    connecting 1 but ["unanswered", "given up", "limited", "interrupted", "binding"];
    accepting 2 but ["shared port"];
    data 3 but ["full"];
    messages 4 but [];
    closing 5 but [];
    descriptors 6 but [];
    waiting 8 but [];
    epolling 9 but [];
    options 10 but ["structures", "congestion"];
    threads 11 but ["connect ended by shutdown"];
    rings 12 but [];
    urgent 13 but [];
    jumping 14 but [];
}
