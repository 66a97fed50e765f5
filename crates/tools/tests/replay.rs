//! Logs: made, measured, replayed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::path::Path;
use std::process::Output;

use common::run;
use serde_json::Value;

/// What a log is like, as `mtcp replay stat --json` says.
fn stat(log: &Path) -> Value {
    let output = run(&["replay", "stat", log.to_str().unwrap(), "--json"]);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Makes a log.
fn make(log: &Path, arguments: &str) -> Output {
    let mut all = vec!["replay", "make", "--out", log.to_str().unwrap()];
    all.extend(arguments.split_whitespace());
    run(&all)
}

fn near(found: &Value, wanted: f64) {
    let found = found.as_f64().unwrap();
    assert!(
        (found / wanted - 1.0).abs() <= 0.02,
        "{found}, not {wanted}"
    );
}

#[test]
fn a_log_has_the_statistics_asked_for_in_both_formats() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["log.jsonl", "log.csv"] {
        let log = directory.path().join(name);
        let made = make(
            &log,
            "--requests 20000 --seconds 20 --median 2000 --mean 10000 --redundancy 0.3 --concurrency 40 --seed 7",
        );
        assert!(made.status.success(), "{made:?}");
        let found = stat(&log);
        assert_eq!(found["requests"], 20_000, "{name}");
        for (key, wanted) in [
            ("seconds", 20.0),
            ("median_bytes", 2000.0),
            ("mean_bytes", 10_000.0),
            ("redundancy", 0.3),
            ("concurrency", 40.0),
            ("connections", 10_000.0),
        ] {
            near(&found[key], wanted);
        }
    }
    let text = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    assert!(text("log.jsonl").starts_with("{\"connection\":0,"));
    assert!(text("log.csv").starts_with("connection,client,"));
}

#[test]
fn a_seed_makes_the_same_log() {
    let directory = tempfile::tempdir().unwrap();
    let made = |name: &str, seed: &str| {
        let log = directory.path().join(name);
        assert!(
            make(&log, &format!("--requests 1000 --seed {seed}"))
                .status
                .success()
        );
        std::fs::read(log).unwrap()
    };
    let first = made("a", "7");
    assert!(first == made("b", "7"));
    assert!(first != made("c", "8"));
}

#[test]
fn what_is_no_log_is_told_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log.jsonl");
    assert!(make(&log, "--requests 10").status.success());
    let mut text = std::fs::read_to_string(&log).unwrap();
    text.push_str("{\"connection\":1}\n");
    std::fs::write(&log, text).unwrap();
    let output = run(&["replay", "stat", log.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("log.jsonl:11: missing field `client`"),
        "{message}"
    );
    assert_eq!(message.lines().count(), 1);
}

/// A server of a log, which ends with its owner.
struct Server {
    child: std::process::Child,
    stdout: std::io::BufReader<std::process::ChildStdout>,
    start_line: String,
}

impl Server {
    fn start(log: &Path, arguments: &str) -> Self {
        use std::io::BufRead as _;
        let mut child = common::mtcp()
            .args(["replay", "server", log.to_str().unwrap()])
            .args(arguments.split_whitespace())
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut start_line = String::new();
        stdout.read_line(&mut start_line).unwrap();
        assert!(start_line.contains("listening on"), "{start_line}");
        Self {
            child,
            stdout,
            start_line,
        }
    }

    fn kernel(log: &Path) -> Self {
        Self::start(log, "--io kernel --addr 127.0.0.1 --port 0")
    }

    /// Its URL.
    fn url(&self) -> String {
        let mut words = self.start_line.split_whitespace();
        let address = words.find(|word| word.starts_with("127.")).unwrap();
        format!("http://{address}/")
    }

    /// Ends it; its last line.
    fn stop(mut self) -> String {
        use std::io::BufRead as _;
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert!(self.child.wait().unwrap().success());
        line
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Replays a log; the object and the exit status.
fn replay(log: &Path, url: &str, arguments: &str) -> (Value, i32) {
    let mut all = vec!["replay", "client", log.to_str().unwrap(), url, "--json"];
    all.extend(arguments.split_whitespace());
    let output = run(&all);
    let object = serde_json::from_slice(&output.stdout);
    let object = object.unwrap_or_else(|_| panic!("{output:?}"));
    (object, output.status.code().unwrap())
}

const SMALL: &str = "--requests 1000 --seconds 2 --concurrency 30 --mean 20000 --seed 7";

#[test]
fn a_log_is_replayed_over_shared_memory_with_every_byte_compared() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log.jsonl");
    assert!(make(&log, SMALL).status.success());
    let link = format!("--io shm:{}", directory.path().join("link").display());
    let server = Server::start(&log, &format!("{link} --addr 10.0.0.1/24"));
    let svg = directory.path().join("delay.svg");
    let arguments = format!(
        "{link} --addr 10.0.0.2/24 --copies 3 --svg {}",
        svg.display()
    );
    let (found, status) = replay(&log, "http://10.0.0.1/", &arguments);
    assert_eq!((status, &found["errors"]), (0, &Value::from(0)), "{found}");
    assert_eq!(found["transactions"], 3000);
    check_delays(&log, &found, 3.0);
    assert!(
        std::fs::read_to_string(svg)
            .unwrap()
            .contains("extra delay")
    );
    assert!(server.stop().contains(": 3000 responses (0 refused)"));
}

#[test]
fn a_capture_of_a_replay_is_recorded_as_the_log_that_was_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let log = path("log.jsonl");
    assert!(make(&log, SMALL).status.success());
    let link = format!("--io shm:{}", path("link").display());
    let capture = path("capture.pcapng");
    let options = format!("{link} --addr 10.0.0.1/24 --pcap {}", capture.display());
    let server = Server::start(&log, &options);
    let (found, _) = replay(
        &log,
        "http://10.0.0.1/",
        &format!("{link} --addr 10.0.0.2/24"),
    );
    assert_eq!(found["succeeded"], 1000, "{found}");
    server.stop();
    let again = path("again.csv");
    let words = ["replay", "record", "--hash", "blake3", "--out"];
    let files = [again.to_str().unwrap(), capture.to_str().unwrap()];
    let output = run(&[&words[..], &files[..]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.starts_with("mtcp replay record: 1000 transactions on "),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    let (first, second) = (stat(&log), stat(&again));
    for key in [
        "requests",
        "connections",
        "response_bytes",
        "median_bytes",
        "redundancy",
    ] {
        assert_eq!(first[key], second[key], "{key}");
    }
}

/// The bytes are those of the log, a connection of the log is one of the replay, and every response
/// came after its time, of which figures and seconds tell the same.
fn check_delays(log: &Path, found: &Value, copies: f64) {
    let number = |value: &Value| value.as_f64().unwrap();
    let of_log = stat(log);
    let seconds = found["by_second"].as_array().unwrap();
    let sum = |key: &str| {
        seconds
            .iter()
            .map(|second| number(&second[key]))
            .sum::<f64>()
    };
    assert_eq!(sum("bytes"), copies * number(&of_log["response_bytes"]));
    assert_eq!(sum("answered"), number(&found["succeeded"]));
    let connections = number(&found["connections"]);
    assert_eq!(connections, copies * number(&of_log["connections"]));
    assert!(number(&found["seconds"]) >= number(&of_log["seconds"]));
    let weighted = |second: &Value| number(&second["mean_ms"]) * number(&second["answered"]);
    let mean = seconds.iter().map(weighted).sum::<f64>() / sum("answered");
    let told = number(&found["extra_delay_ms"]["mean"]);
    assert!((mean - told).abs() < 0.002, "{mean} {told}");
    let mut last = 0.0;
    for name in ["p50", "p90", "p99", "p999", "max"] {
        let value = number(&found["extra_delay_ms"][name]);
        assert!(value >= last, "{name}");
        last = value;
    }
}

#[test]
fn a_log_is_replayed_on_kernel_sockets_and_a_share_of_it_too() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log.csv");
    assert!(make(&log, SMALL).status.success());
    let server = Server::kernel(&log);
    let (found, status) = replay(&log, &server.url(), "--io kernel");
    assert_eq!((status, &found["errors"]), (0, &Value::from(0)), "{found}");
    assert_eq!(found["transactions"], 1000);
    check_delays(&log, &found, 1.0);
    let (share, status) = replay(&log, &server.url(), "--io kernel --scale 0.25 --at-once");
    assert_eq!(status, 0);
    let count = share["transactions"].as_u64().unwrap();
    assert!((150..350).contains(&count), "{count}");
    let (again, _) = replay(&log, &server.url(), "--io kernel --scale 0.25 --at-once");
    assert_eq!(again["transactions"], share["transactions"]);
    assert!(
        server
            .stop()
            .contains(&format!(": {} responses", 1000 + 2 * count))
    );
}

#[test]
fn content_that_is_not_that_of_the_log_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log.jsonl");
    assert!(
        make(&log, "--requests 100 --concurrency 1 --seconds 0.1")
            .status
            .success()
    );
    // One digit of the name of one chunk.
    let text = std::fs::read_to_string(&log).unwrap();
    let other = directory.path().join("other.jsonl");
    let at = text.find("\"chunks\":[\"").unwrap() + 11;
    let digit = if &text[at..=at] == "0" { "1" } else { "0" };
    std::fs::write(&other, format!("{}{digit}{}", &text[..at], &text[at + 1..])).unwrap();
    let server = Server::kernel(&other);
    let (found, status) = replay(&log, &server.url(), "--io kernel");
    assert_eq!(status, 1);
    assert_eq!(found["errors"], found["errors_by_kind"]["bad_content"]);
    assert!(found["errors"].as_u64().unwrap() >= 1, "{found}");
    assert!(found["succeeded"].as_u64().unwrap() > 80, "{found}");
}

/// A line of a log.
fn line(number: u32, method: &str, url: &str, request: u32, bytes: u32, chunks: &str) -> String {
    format!(
        "{{\"connection\":{number},\"client\":\"10.0.0.7\",\"start_us\":0,\"end_us\":1000,\"method\":\"{method}\",\"url\":\"{url}\",\"request_bytes\":{request},\"response_bytes\":{bytes},\"keep_alive\":false,\"chunks\":[{chunks}]}}\n"
    )
}

/// Says this to a server; all that it answers until it closes.
fn ask(address: &str, request: &str) -> Vec<u8> {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(common::LONG)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

#[test]
fn requests_of_other_clients_are_answered_by_their_url() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log.jsonl");
    let chunk = "\"aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d\"";
    let text = [
        line(
            1,
            "GET",
            "http://a.example/x?y",
            0,
            5000,
            &format!("{chunk},{chunk}"),
        ),
        line(2, "POST", "/form", 100_000, 10, chunk),
        line(3, "HEAD", "/x", 0, 0, ""),
    ];
    std::fs::write(&log, text.concat()).unwrap();
    let server = Server::kernel(&log);
    let address = server.url()[7..].trim_end_matches('/').to_owned();
    let answer = ask(
        &address,
        "GET /x?y HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    let body = answer.len() - 5000;
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
    assert!(answer[body..body + 904] == answer[body + 4096..]);
    for (request, status) in [
        (
            "GET /absent HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "404",
        ),
        (
            "GET /x HTTP/1.1\r\nHost: a\r\nReplay-Transaction: x\r\nConnection: close\r\n\r\n",
            "404",
        ),
        (
            "GET /x HTTP/1.1\r\nHost: a\r\nReplay-Transaction: 99\r\nConnection: close\r\n\r\n",
            "404",
        ),
        ("GET /x HTTP/1.1\r\n\r\n", "400"),
        (
            "POST /form HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
            "411",
        ),
        ("nonsense\r\n\r\n", "400"),
    ] {
        let answer = String::from_utf8(ask(&address, request)).unwrap();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request}: {answer}"
        );
    }
    let (found, status) = replay(&log, &server.url(), "--io kernel");
    assert_eq!(
        (status, &found["succeeded"]),
        (0, &Value::from(3)),
        "{found}"
    );
    assert!(found["bytes_sent"].as_u64().unwrap() > 100_000);
}

#[test]
fn an_interrupt_ends_a_replay_with_its_figures() {
    use std::io::BufRead as _;
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log.jsonl");
    assert!(
        make(&log, "--requests 20000 --seconds 600 --concurrency 5")
            .status
            .success()
    );
    let server = Server::kernel(&log);
    let mut child = common::mtcp()
        .args(["replay", "client", log.to_str().unwrap(), &server.url()])
        .args(["--io", "kernel", "--json"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // It has begun once the server has connections: their sockets are in its table.
    let process = rustix::process::Pid::from_child(&server.child);
    let sockets = || {
        let files = format!("/proc/{}/fd", process.as_raw_nonzero());
        std::fs::read_dir(files).unwrap().count()
    };
    let before = sockets();
    let deadline = std::time::Instant::now() + common::LONG;
    while sockets() <= before && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let client = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(client, rustix::process::Signal::INT).unwrap();
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    let found: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(found["stopped"], true);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_server_that_is_not_there_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log.jsonl");
    assert!(make(&log, "--requests 100 --seconds 0.1").status.success());
    let output = run(&[
        "replay",
        "client",
        log.to_str().unwrap(),
        "http://127.0.0.1:1/",
        "--io",
        "kernel",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("no connection to 127.0.0.1:1"),
        "{message}"
    );
    assert!(
        message.contains("connect_refused): start the server"),
        "{message}"
    );
}

#[test]
fn what_comes_while_a_response_is_held_back_is_answered_after_it() {
    use std::io::{Read as _, Write as _};
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log.jsonl");
    let chunk = "\"aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d\"";
    // Half a second each, so that the second request and the end come while the first is held.
    let slow = line(1, "GET", "/x", 0, 3, chunk).replace("\"end_us\":1000", "\"end_us\":500000");
    std::fs::write(&log, format!("{slow}{slow}")).unwrap();
    let server = Server::kernel(&log);
    let address = server.url()[7..].trim_end_matches('/').to_owned();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(common::LONG)).unwrap();
    let begin = std::time::Instant::now();
    for number in [0, 1] {
        let request = format!("GET /x HTTP/1.1\r\nHost: a\r\nReplay-Transaction: {number}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(begin.elapsed() >= std::time::Duration::from_secs(1));
    let text = String::from_utf8_lossy(&answer);
    assert_eq!(text.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{text}");
    // It waited without work.
    let process = rustix::process::Pid::from_child(&server.child);
    let spent = common::processor_time(process);
    assert!(spent < std::time::Duration::from_millis(300), "{spent:?}");
}
