//! The load generator on kernel sockets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::io::{Read, Write};
use std::net::TcpListener;

use common::{Server, run, www};
use serde_json::Value;

/// Runs `mtcp load … --json`; the object and the exit status.
fn load(arguments: &[&str]) -> (Value, i32) {
    let mut all = vec!["load", "--io", "kernel", "--json"];
    all.extend_from_slice(arguments);
    let output = run(&all);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        text.lines().count(),
        1,
        "{text} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    (
        serde_json::from_str(&text).unwrap(),
        output.status.code().unwrap(),
    )
}

#[test]
fn the_object_is_complete() {
    let www = www();
    let server = Server::kernel(www.path(), &[]);
    for keep_alive in [false, true] {
        let url = server.url("/hello.txt");
        let mut arguments = vec![url.as_str(), "-c", "50", "-n", "2000"];
        if keep_alive {
            arguments.push("-k");
        }
        let (value, status) = load(&arguments);
        assert_eq!(status, 0);
        assert_eq!(value["requests"], 2000);
        assert_eq!(value["errors"], 0);
        assert_eq!(value["connections"], if keep_alive { 50 } else { 2000 });
        for name in [
            "seconds",
            "requests_per_s",
            "connections_per_s",
            "bytes_per_s",
        ] {
            assert!(value[name].as_f64().unwrap() > 0.0, "{name}");
        }
        let mut last = 0.0;
        for name in ["p50", "p90", "p99", "p999", "max"] {
            let value = value["latency_us"][name].as_f64().unwrap();
            assert!(value >= last, "{name}");
            last = value;
        }
        assert!(value["cpu"]["user"].is_number() && value["cpu"]["system"].is_number());
    }
}

#[test]
fn bodies_go_both_ways() {
    let www = www();
    let server = Server::kernel(www.path(), &["--upload", www.path().to_str().unwrap()]);
    let copy = www.path().join("copy");
    let big = www.path().join("big");
    let (value, _) = load(&[&server.url("/big"), "-n", "2", "-o", copy.to_str().unwrap()]);
    assert_eq!(value["errors"], 0);
    assert!(value["bytes_received"].as_u64().unwrap() > 40_000_000);
    assert!(std::fs::read(&copy).unwrap() == std::fs::read(&big).unwrap());
    let (value, _) = load(&[
        &server.url("/again"),
        "-n",
        "3",
        "-c",
        "3",
        "--method",
        "PUT",
        "--body",
        big.to_str().unwrap(),
    ]);
    assert_eq!(value["errors"], 0, "{value}");
    assert!(value["bytes_sent"].as_u64().unwrap() > 60_000_000);
    assert!(std::fs::read(www.path().join("again")).unwrap() == std::fs::read(&big).unwrap());
    let (value, _) = load(&[&server.url("/big"), "-n", "5", "-k", "--method", "HEAD"]);
    assert_eq!(
        (value["errors"].as_u64(), value["connections"].as_u64()),
        (Some(0), Some(1))
    );
}

#[test]
fn fixed_sizes() {
    for (keep_alive, messages, connections) in [(false, "500", 500), (true, "500", 20)] {
        let mut arguments = vec![
            "--raw",
            "64/300",
            "--io",
            "kernel",
            "--addr",
            "127.0.0.1",
            "--port",
            "0",
        ];
        if keep_alive {
            arguments.push("-k");
        }
        let server = Server::start(&arguments);
        let address = server.address().to_string();
        let mut arguments = vec![
            address.as_str(),
            "--raw",
            "64/300",
            "-c",
            "20",
            "-n",
            messages,
        ];
        arguments.push(if keep_alive { "-k" } else { "--reset" });
        let (value, status) = load(&arguments);
        assert_eq!(status, 0, "{value}");
        assert_eq!(value["connections"], connections);
        assert_eq!(value["bytes_received"], 150_000);
        assert_eq!(value["bytes_sent"], 32_000);
    }
}

#[test]
fn addresses_are_spread() {
    let server = Server::start(&[
        "--raw", "1/1", "--io", "kernel", "--addr", "0.0.0.0", "--port", "0",
    ]);
    let target = format!("127.0.0.1:{}", server.address().port());
    let (value, status) = load(&[
        &target,
        "--raw",
        "1/1",
        "--spread",
        "8",
        "--addr",
        "127.0.0.9",
        "--addr",
        "127.0.0.10",
        "-c",
        "16",
        "-n",
        "160",
    ]);
    assert_eq!((status, value["errors"].as_u64()), (0, Some(0)));
}

#[test]
fn a_run_by_time_ends_in_time() {
    let www = www();
    let server = Server::kernel(www.path(), &[]);
    let (value, status) = load(&[&server.url("/hello.txt"), "-c", "10", "-d", "0.5"]);
    assert_eq!(status, 0);
    let seconds = value["seconds"].as_f64().unwrap();
    assert!((0.5..5.0).contains(&seconds), "{seconds}");
    assert!(value["requests"].as_u64().unwrap() > 10);
}

/// A server that treats each connection as told.
fn peer(treat: impl Fn(std::net::TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            treat(stream.unwrap());
        }
    });
    url
}

fn answer(mut stream: std::net::TcpStream, text: &str) {
    let _ = stream.read(&mut [0; 4096]);
    let _ = stream.write_all(text.as_bytes());
}

#[test]
fn errors_have_kinds() {
    let kinds = |url: &str, more: &[&str]| {
        let mut arguments = vec![url, "-n", "3"];
        arguments.extend_from_slice(more);
        let (value, status) = load(&arguments);
        assert_eq!(
            (status, value["requests"].as_u64(), value["errors"].as_u64()),
            (1, Some(3), Some(3)),
            "{value}"
        );
        value["errors_by_kind"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    assert_eq!(kinds(&format!("http://{free}/"), &[]), ["connect_refused"]);
    let short = peer(|stream| answer(stream, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"));
    assert_eq!(kinds(&short, &[]), ["short_body"]);
    let failing = peer(|stream| answer(stream, "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"));
    assert_eq!(kinds(&failing, &[]), ["bad_status"]);
    let nonsense = peer(|stream| answer(stream, "220 ready\r\n\r\n"));
    assert_eq!(kinds(&nonsense, &[]), ["bad_response"]);
    // Closing with the request unread is a reset.
    let resetting = peer(|stream| {
        std::thread::sleep(std::time::Duration::from_millis(
            50 * u64::from(stream.peer_addr().is_ok()),
        ))
    });
    assert_eq!(kinds(&resetting, &[]), ["reset"]);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    assert_eq!(
        kinds(
            &format!("http://{}/", silent.local_addr().unwrap()),
            &["--timeout", "0.2"]
        ),
        ["timeout"]
    );
}

#[test]
fn responses_of_other_servers_are_understood() {
    let chunked = peer(|stream| {
        answer(
            stream,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        )
    });
    assert_eq!(load(&[&chunked, "-n", "3"]).1, 0);
    let until_close = peer(|stream| answer(stream, "HTTP/1.0 200 OK\r\n\r\nall of this"));
    assert_eq!(load(&[&until_close, "-n", "3", "-k"]).1, 0);
    // A server that closes kept connections: requests that it never looked at go out again.
    let closing = peer(|stream| answer(stream, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    let (value, status) = load(&[&closing, "-n", "20", "-k"]);
    assert_eq!(
        (status, value["succeeded"].as_u64()),
        (0, Some(20)),
        "{value}"
    );
}

/// As `ab` does: where nobody listens there is no use in a hundred thousand more attempts.
#[test]
fn a_dead_server_ends_the_run_unless_asked_otherwise() {
    // A port that was free a moment ago.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = listener.local_addr().unwrap().to_string();
    drop(listener);
    let mut arguments = vec![dead.as_str(), "--raw", "1/1", "-c", "4", "-n", "1000"];
    let (value, status) = load(&arguments);
    assert_eq!(status, 1, "{value}");
    let failed = value["errors_by_kind"]["connect_refused"].as_u64().unwrap();
    assert!((10..1000).contains(&failed), "{value}");
    let output = run(&[&["load", "--io", "kernel"], &arguments[..]].concat());
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
    let cause = format!("mtcp: no connection to {dead} (");
    assert!(
        line.starts_with(&cause) && line.contains("connect_refused): start the server"),
        "{line}"
    );
    arguments.push("--keep-going");
    let (value, status) = load(&arguments);
    assert_eq!(status, 1);
    assert_eq!(value["errors_by_kind"]["connect_refused"], 1000, "{value}");
}
