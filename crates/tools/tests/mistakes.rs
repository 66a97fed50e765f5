//! `docs/messages.md` has a table of mistakes, each with its command, what is said and the exit
//! status: every one is made here. `UPDATE_DOCS=1 cargo test -p tools --test mistakes` writes the
//! table anew.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::path::Path;
use std::process::Stdio;

use common::{mtcp, wait};

const INTRODUCTION: &str = "\
# Messages

What goes wrong before anything begins is one line on stderr, `mtcp: cause: remedy`, and exit status 2. A run that began and in which something
failed, such as a request of `mtcp load`, ends with 1. `cargo test -p tools --test mistakes` makes each of these mistakes; it runs them in a directory
with a file `mtcp.conf` whose second line is `adr = 10.0.0.2/24`.

| mistake | command | message | exit status |
|---|---|---|---|
";

/// What is wrong, and the words behind `mtcp`.
const MISTAKES: &[(&str, &str)] = &[
    ("no command", ""),
    ("a command misspelt", "sreve"),
    ("an option misspelt", "serve . --io kernel --prot 80"),
    ("nothing to serve", "serve --io kernel"),
    ("a directory that is not there", "serve absent --io kernel"),
    ("no sockets chosen", "serve ."),
    (
        "a link of the original mTCP",
        "serve . --io dpdk:0 --addr 10.0.0.2/24",
    ),
    (
        "a link that nobody has",
        "serve . --io eth:x --addr 10.0.0.2/24",
    ),
    (
        "an interface that is not there",
        "serve . --io afxdp:absent0 --addr 10.0.0.2/24",
    ),
    (
        "a directory for the link that is not there",
        "serve . --io shm:absent/link --addr 10.0.0.2/24",
    ),
    ("no address", "serve . --io shm:link"),
    (
        "an address without the length of its network",
        "serve . --io shm:link --addr 10.0.0.2",
    ),
    ("half an address", "serve . --io shm:link --addr 10.0.0/24"),
    (
        "a network longer than the address",
        "serve . --io shm:link --addr 10.0.0.2/33",
    ),
    (
        "the address of a network",
        "serve . --io shm:link --addr 10.0.0.0/24",
    ),
    (
        "a broadcast address",
        "serve . --io shm:link --addr 10.0.0.255/24",
    ),
    (
        "an address for everybody",
        "serve . --io shm:link --addr 0.0.0.0/0",
    ),
    (
        "the same address twice",
        "serve . --io shm:link --addr 10.0.0.2/24,10.0.0.2/24",
    ),
    (
        "a gateway on no network of ours",
        "serve . --io shm:link --addr 10.0.0.2/24 --gateway 10.9.0.1",
    ),
    (
        "two gateways",
        "serve . --io shm:link --addr 10.0.0.2/24 --gateway 10.0.0.1,10.0.0.3",
    ),
    (
        "congestion control that nobody has",
        "serve . --io shm:link --addr 10.0.0.2/24 --cc vegas",
    ),
    (
        "a fault that cannot be",
        "serve . --io shm:link --addr 10.0.0.2/24 --fault loss=200%",
    ),
    (
        "a capture of kernel sockets",
        "serve . --io kernel --pcap capture.pcapng",
    ),
    (
        "a settings file that is not there",
        "serve . --config absent.conf",
    ),
    ("a setting misspelt", "serve . --config mtcp.conf"),
    (
        "no number of requests",
        "load http://127.0.0.1/ --io kernel",
    ),
    ("https", "load https://127.0.0.1/ --io kernel -n 1"),
    (
        "a body that is not there",
        "load http://127.0.0.1/ --io kernel -n 1 --body absent",
    ),
    (
        "a server that does not listen",
        "load 127.0.0.1:1 --io kernel --raw 1/1 -n 1000",
    ),
    ("nothing to measure", "bench"),
    ("a figure that has no messages", "bench bulk --messages 2"),
    ("one processor for both ends", "bench short --cores 0,0"),
    (
        "the kernel at the end of shared memory",
        "bench short --client kernel",
    ),
    ("no program to run", "run --io shm:link --addr 10.0.0.2/24"),
    (
        "a program for a daemon that is not there",
        "run --io daemon:absent -- true",
    ),
    (
        "what the stack is to be, said to a program of a daemon",
        "serve . --io daemon --cc bbr",
    ),
    ("kernel sockets for a program", "run --io kernel -- true"),
    (
        "ports that are none",
        "run --io shm:link --addr 10.0.0.2/24 --only http -- true",
    ),
    ("a daemon that does not run", "sockets --daemon absent"),
    ("nothing to do with a log", "replay"),
    ("a log that is not there", "replay stat absent.jsonl"),
    ("what is no log", "replay stat mtcp.conf"),
    ("what is no capture", "replay record mtcp.conf"),
    ("a log that cannot be", "replay make --mean 100"),
    (
        "more of a log than there is",
        "replay client log.jsonl http://127.0.0.1/ --io kernel --scale 2",
    ),
    ("a daemon of no name", "sockets --daemon /run/mtcp/"),
];

#[test]
fn the_table_of_mistakes_is_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/messages.md");
    let directory = tempfile::tempdir().unwrap();
    let settings = directory.path().join("mtcp.conf");
    std::fs::write(settings, "io = tap:t0\nadr = 10.0.0.2/24\n").unwrap();
    let rows: String = MISTAKES
        .iter()
        .map(|(what, words)| row(directory.path(), what, words))
        .collect();
    let expected = format!("{INTRODUCTION}{rows}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/messages.md is out of date: UPDATE_DOCS=1 cargo test -p tools --test mistakes\n{expected}"
    );
}

/// Makes the mistake; its line of the table. Whatever it is, one line says what is wrong and what
/// to do.
fn row(directory: &Path, what: &str, words: &str) -> String {
    let child = mtcp()
        .args(words.split_whitespace())
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = wait(child);
    let message = String::from_utf8(output.stderr).unwrap();
    let status = output.status.code().unwrap();
    assert_ne!(status, 0, "{words}");
    assert_eq!(message.lines().count(), 1, "{words}: '{message}'");
    assert!(
        message.starts_with("mtcp: ") && message.matches(": ").count() >= 2,
        "cause and remedy in '{message}'"
    );
    let command = format!("mtcp {words}");
    let cell = |text: &str| text.trim().replace('|', "\\|");
    format!(
        "| {what} | `{}` | `{}` | {status} |\n",
        cell(&command),
        cell(&message)
    )
}
