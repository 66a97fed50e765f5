//! Logs of real traffic: recorded from what tcpdump captured, replayed, recorded again.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use interop::lab::{OURS, PEER, listening, report, url};
use interop::process::{self, Process};
use interop::{Gate, Kind, Lab, Namespace, baseline, files, programs};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(60);
/// Transactions of the capture.
const TRANSACTIONS: usize = 1000;
/// Sizes of files, bytes; some have chunks in common.
const SIZES: [u64; 8] = [0, 1, 500, 4095, 4096, 4097, 20_000, 200_000];

/// A capture of what goes over an interface, to this file, until it is stopped.
fn capture(namespace: &Namespace, interface: &str, file: &Path) -> Process {
    let mut command = namespace.command(programs::find("tcpdump").unwrap());
    // As root it would become another user, which cannot write here.
    command.args([
        "-i", interface, "-s", "0", "-B", "65536", "-U", "-Z", "root", "-w",
    ]);
    command.arg(file).args(["tcp", "port", "80"]);
    let mut tcpdump = Process::start(command);
    tcpdump.wait_for_warning("listening on", SOON);
    tcpdump
}

/// Ends a capture once all packets of the traffic are in it.
fn stop(tcpdump: Process, file: &Path) {
    let size = || std::fs::metadata(file).map_or(0, |file| file.len());
    let mut last = (size(), std::time::Instant::now());
    process::wait_until("the capture is complete", SOON, || {
        if size() != last.0 {
            last = (size(), std::time::Instant::now());
        }
        last.1.elapsed() > Duration::from_secs(1)
    });
    tcpdump.stop();
}

fn mtcp(words: &[&str]) -> Command {
    let mut command = Command::new(programs::mtcp());
    command.arg("replay").args(words);
    command
}

/// The log of a capture, in which nothing was lost.
fn record(capture: &Path, name: &str) -> PathBuf {
    let log = capture.with_file_name(name);
    let words = [
        "record",
        capture.to_str().unwrap(),
        "--out",
        log.to_str().unwrap(),
    ];
    let recorded = process::finish(mtcp(&words), SOON).must_succeed();
    let said = format!(": {TRANSACTIONS} transactions on ");
    assert!(recorded.stderr.contains(&said), "{recorded}");
    assert!(!recorded.stderr.contains("lost"), "{recorded}");
    log
}

/// Of each transaction, by its URL without the host, what a replay has to keep: method, sizes,
/// keep-alive, and which of all chunks are equal.
fn pattern(log: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(log).unwrap();
    let mut lines: Vec<(String, Value)> = text
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let url = line["url"].as_str().unwrap();
            let path = url.trim_start_matches("http://").split_once('/').unwrap().1;
            (path.to_owned(), line)
        })
        .collect();
    lines.sort_by(|(left, _), (right, _)| left.cmp(right));
    let mut names = HashMap::new();
    let mut number = |name: &Value| {
        let next = names.len();
        *names.entry(name.to_string()).or_insert(next)
    };
    let kept = lines.into_iter().map(|(path, line)| {
        let chunks: Vec<usize> = line["chunks"]
            .as_array()
            .unwrap()
            .iter()
            .map(&mut number)
            .collect();
        let kept =
            ["method", "request_bytes", "response_bytes", "keep_alive"].map(|key| &line[key]);
        (path, format!("{kept:?} {chunks:?}"))
    });
    kept.collect()
}

/// A thousand transactions of nginx and curl: downloads of several sizes, several on a connection.
fn real_traffic(lab: &Lab) {
    for (seed, size) in SIZES.iter().enumerate() {
        files::make(&lab.www().join(format!("file{size}")), seed as u64, *size);
    }
    // Two files with the same content have equal chunks.
    std::fs::copy(lab.www().join("file20000"), lab.www().join("copy20000")).unwrap();
    let names: Vec<String> = SIZES.iter().map(|size| format!("file{size}")).collect();
    let names: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .chain(["copy20000"])
        .collect();
    let per_connection = 10;
    for connection in 0..TRANSACTIONS / per_connection {
        let mut words = Vec::new();
        for request in 0..per_connection {
            let number = connection * per_connection + request;
            let name = names[number % names.len()];
            words.extend(["-o".into(), "/dev/null".into()]);
            words.push(format!("http://127.0.0.1/{name}?{number}"));
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        lab.curl(&words, SOON).must_succeed();
    }
}

fn nginx(lab: &Lab) -> Process {
    let settings = lab.files().join("nginx.conf");
    let text = format!(
        "daemon off; master_process off; pid {0}/nginx.pid; error_log stderr; user root;\n\
         events {{ }}\n\
         http {{ access_log off; client_body_temp_path {0}/t1; proxy_temp_path {0}/t2;\n\
         fastcgi_temp_path {0}/t3; uwsgi_temp_path {0}/t4; scgi_temp_path {0}/t5;\n\
         server {{ listen 80; root {1}; }} }}\n",
        lab.files().display(),
        lab.www().display(),
    );
    std::fs::write(&settings, text).unwrap();
    let mut command = lab.peer().command(programs::find("nginx").unwrap());
    command.arg("-c").arg(settings);
    let server = Process::start(command);
    process::wait_until("nginx listens", SOON, || {
        let found = lab.peer().run("ss", "-Hltn sport = :80");
        !found.trim().is_empty()
    });
    server
}

#[test]
fn recorded_traffic_replayed_is_recorded_as_it_was() {
    let Some(_gate) = Gate::alone().filter(|_| !baseline()) else {
        return;
    };
    programs::require(&["tcpdump", "nginx", "curl"]);
    let lab = Lab::new(Kind::Afxdp);
    let first = lab.files().join("first.pcap");
    let server = nginx(&lab);
    let tcpdump = capture(lab.peer(), "lo", &first);
    real_traffic(&lab);
    stop(tcpdump, &first);
    server.stop();
    let log = record(&first, "first.jsonl");
    let expected = pattern(&log);
    assert_eq!(expected.len(), TRANSACTIONS);
    let log_name = log.to_str().unwrap();

    // mTCP serves it over AF_XDP to a kernel client.
    let second = lab.files().join("second.pcap");
    let mut command = lab.ours().command(programs::mtcp());
    command
        .args(["replay", "server", log_name])
        .args(lab.link_args());
    let server = listening(command);
    lab.wait_peer_hears();
    let tcpdump = capture(lab.peer(), lab.peer_interface(), &second);
    let mut client = lab.peer().command(programs::mtcp());
    let ours = url(OURS.into(), "");
    client.args([
        "replay", "client", log_name, &ours, "--io", "kernel", "--json",
    ]);
    let found = report(&process::finish(client, SOON).must_succeed());
    assert_eq!(found["errors"], 0, "{found}");
    assert_eq!(found["succeeded"], TRANSACTIONS);
    stop(tcpdump, &second);
    server.stop();
    assert_eq!(pattern(&record(&second, "second.jsonl")), expected);

    // And the other way round: the kernel serves it to mTCP's client.
    let mut command = lab.peer().command(programs::mtcp());
    command.args(["replay", "server", log_name, "--io", "kernel"]);
    command.args(["--addr", &PEER.to_string()]);
    let server = listening(command);
    let mut client = lab.ours().command(programs::mtcp());
    client.args([
        "replay",
        "client",
        log_name,
        &url(PEER.into(), ""),
        "--json",
    ]);
    client.args(lab.link_args());
    let found = report(&process::finish(client, SOON).must_succeed());
    assert_eq!(found["succeeded"], TRANSACTIONS, "{found}");
    server.stop();
}
