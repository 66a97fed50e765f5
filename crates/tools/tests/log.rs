//! What the command says beside its output: warnings on stderr, answers in the access log.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, Stdio};

use common::{Server, mtcp, www};

/// A server whose access log is a device without space.
struct WithoutSpace {
    child: Child,
    stderr: BufReader<ChildStderr>,
    address: String,
    _www: tempfile::TempDir,
}

fn without_space(more: &[&str]) -> WithoutSpace {
    let www = www();
    let directory = www.path().to_str().unwrap();
    let mut child = mtcp()
        .args(["serve", directory, "--io", "kernel", "--addr", "127.0.0.1"])
        .args(["--port", "0", "--access-log", "/dev/full"])
        .args(more)
        .env_remove("RUST_LOG")
        .env_remove("MTCP_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    WithoutSpace {
        address: line.split(' ').nth(4).unwrap().to_owned(),
        stderr: BufReader::new(child.stderr.take().unwrap()),
        child,
        _www: www,
    }
}

fn ask(address: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(common::LONG)).unwrap();
    stream
        .write_all(b"GET /hello.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .unwrap();
    common::read_all(&mut stream)
}

/// All that a server says once it is stopped.
fn rest(mut server: WithoutSpace) -> String {
    let process = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    let mut said = String::new();
    server.stderr.read_to_string(&mut said).unwrap();
    server.child.wait().unwrap();
    said
}

#[test]
fn a_warning_goes_to_stderr_once_with_its_level() {
    let mut server = without_space(&[]);
    assert!(ask(&server.address).contains("200 OK"));
    let mut line = String::new();
    server.stderr.read_line(&mut line).unwrap();
    assert!(
        line.starts_with("mtcp: warning: access log /dev/full: No space left"),
        "{line}"
    );
    let again = ask(&server.address);
    assert!(again.contains("200 OK"), "it serves all the same");
    assert_eq!(rest(server), "");
}

#[test]
fn the_log_level_chooses() {
    let server = without_space(&["--log-level", "error"]);
    assert!(ask(&server.address).contains("200 OK"));
    assert_eq!(rest(server), "");
}

#[test]
fn each_answer_is_in_the_access_log() {
    let www = www();
    let log = www.path().join("access.log");
    let uploads = www.path().to_str().unwrap();
    let server = Server::kernel(
        www.path(),
        &["--upload", uploads, "--access-log", log.to_str().unwrap()],
    );
    server.exchange(
        b"GET /hello.txt HTTP/1.1\r\nHost: x\r\n\r\nHEAD /big HTTP/1.1\r\nHost: x\r\n\r\n\
          GET /big HTTP/1.1\r\nHost: x\r\nRange: bytes=5-9\r\nConnection: close\r\n\r\n",
    );
    server.fetch("/no\"thing");
    server.put("/new", "12345");
    server.exchange(b"\x16\x03\x01 rubbish\r\n\r\n");
    assert!(server.stop().1);
    let noted = std::fs::read_to_string(&log).unwrap();
    let ends = [
        "] \"GET /hello.txt HTTP/1.1\" 200 13",
        "] \"HEAD /big HTTP/1.1\" 200 0",
        "] \"GET /big HTTP/1.1\" 206 5",
        "] \"GET /no\\\"thing HTTP/1.1\" 404 14",
        "] \"PUT /new HTTP/1.1\" 201 0",
        "] \"\\x16\\x03\\x01 rubbish\" 400 16",
    ];
    assert_eq!(noted.lines().count(), ends.len(), "{noted}");
    for (line, end) in noted.lines().zip(ends) {
        assert!(
            line.starts_with("127.0.0.1 - - [") && line.ends_with(end),
            "{line} ends with {end}"
        );
    }
}
