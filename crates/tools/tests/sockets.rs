//! `mtcp sockets`: what a daemon says of its sockets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use common::daemon::{Daemon, LINK, command, directory, text, until};
use common::{mtcp, wait};
use mtcp::{Config, Context, Domain, IoSpec, Mtcp};
use rustix::process::geteuid;
use serde_json::Value;

/// A program on the stack of the daemon with its socket in `directory`.
fn attach(directory: &Path) -> Context {
    let name = directory.join("default").display().to_string();
    let config = Config {
        io: IoSpec::Daemon(name),
        ..Config::default()
    };
    Mtcp::init(config).unwrap().context(0).unwrap()
}

/// Until a call has an answer.
fn finish<T>(what: &str, mut call: impl FnMut() -> mtcp::Result<T>) -> T {
    let mut answer = None;
    until(what, || {
        answer = match call() {
            Err(mtcp::Errno::EAGAIN) => None,
            answer => Some(answer.unwrap()),
        };
        answer.is_some()
    });
    answer.unwrap()
}

/// What `mtcp sockets` says of the daemon with its socket below `directory`.
fn listed(directory: &Path, words: &[&str], out: Stdio) -> Output {
    let daemon = directory.join("run/default");
    let mut command = mtcp();
    command
        .args(["sockets", "--daemon"])
        .arg(daemon)
        .args(words);
    command.stdin(Stdio::null()).stdout(out);
    wait(command.stderr(Stdio::piped()).spawn().unwrap())
}

/// The sockets of JSON that are in a state: queues, local and peer's address.
fn in_state(directory: &Path, state: &str) -> Vec<(u64, u64, Value, Value)> {
    let output = listed(directory, &["--json"], Stdio::piped());
    assert!(output.status.success(), "{output:?}");
    let all: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let own = |row: &&Value| row["state"] == state && row["uid"] == geteuid().as_raw();
    let queue = |row: &Value, name: &str| row[name].as_u64().unwrap();
    all.iter()
        .filter(own)
        .map(|row| {
            let [local, peer] = ["local", "peer"].map(|name| row[name].clone());
            (queue(row, "recv_q"), queue(row, "send_q"), local, peer)
        })
        .collect()
}

#[test]
fn its_sockets_are_listed() {
    let base = directory();
    let _daemon = Daemon::start(command(base.path(), &LINK));
    let mut program = attach(&base.path().join("run"));
    let address = "10.0.0.2:8080";
    let at = address.parse().unwrap();
    let listener = program.socket(Domain::V4).unwrap();
    program.bind(listener, at).unwrap();
    program.listen(listener, 16).unwrap();
    let client = program.socket(Domain::V4).unwrap();
    program.connect(client, at).unwrap();
    until("it waits to be accepted", || {
        let _ = program.poll();
        in_state(base.path(), "LISTEN") == [(1, 16, address.into(), Value::Null)]
    });
    let (server, from) = program.accept(listener).unwrap();
    until("it is accepted", || {
        let _ = program.poll();
        in_state(base.path(), "LISTEN")[0].0 == 0
    });
    let from = Value::from(from.to_string());
    assert_eq!(program.write(client, &[1; 100]), Ok(100));
    let mut ends = [
        (0, 0, from.clone(), address.into()),
        (100, 0, address.into(), from.clone()),
    ];
    until("what was written waits", || {
        let _ = program.poll();
        let mut found = in_state(base.path(), "ESTAB");
        found.sort_by_key(|row| row.0);
        found == ends
    });
    program.set_nonblocking(server, true).unwrap();
    let read = finish("it is read", || program.read(server, &mut [0; 60]));
    assert_eq!(read, 60);
    // Though nothing is said of it.
    ends[1].0 = 40;
    let mut found = in_state(base.path(), "ESTAB");
    found.sort_by_key(|row| row.0);
    assert_eq!(found, ends);

    let output = listed(base.path(), &["-l"], Stdio::piped());
    let (own, uid) = (std::process::id(), geteuid().as_raw());
    let name = fs::read_to_string("/proc/self/comm").unwrap();
    let process = format!("users:((\"{}\",pid={own})) uid:{uid}", name.trim_end());
    let lines = [
        "Netid State  Recv-Q Send-Q Local Address:Port Peer Address:Port Process",
        &format!("tcp   LISTEN      0     16 10.0.0.2:8080      0.0.0.0:*         {process}"),
    ];
    let printed = text(&output.stdout);
    assert_eq!(printed.lines().collect::<Vec<_>>(), lines);

    // Nobody reads any more: that is no mistake.
    let (read, write) = std::io::pipe().unwrap();
    drop(read);
    let output = listed(base.path(), &[], write.into());
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = listed(base.path(), &[], full.into());
    assert_eq!(output.status.code(), Some(2));
    let line = "mtcp: cannot write: No space left on device (os error 28): make room where the output goes\n";
    assert_eq!(text(&output.stderr), line);
}
