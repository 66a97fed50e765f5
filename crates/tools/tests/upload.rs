//! Uploads to the server on kernel sockets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use common::{Response, Server, finish, read_all, www};

fn names(directory: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn uploads() {
    let www = www();
    let incoming = tempfile::tempdir().unwrap();
    let server = Server::kernel(
        www.path(),
        &[
            "--upload",
            incoming.path().to_str().unwrap(),
            "--max-upload",
            "1000",
        ],
    );
    assert_eq!(server.put("/a%20b", "first").status, 201);
    assert_eq!(server.put("/a%20b", "second").status, 204);
    assert_eq!(
        std::fs::read_to_string(incoming.path().join("a b")).unwrap(),
        "second"
    );
    let chunked = "PUT /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nT: u\r\n\r\n";
    let text = server.exchange(
        format!("{chunked}GET /hello.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .as_bytes(),
    );
    assert!(
        text.starts_with("HTTP/1.1 201") && text.ends_with("hello, world\n"),
        "{text}"
    );
    assert_eq!(
        std::fs::read_to_string(incoming.path().join("c")).unwrap(),
        "abcdefg"
    );
    assert_eq!(server.put("/empty", "").status, 201);
    // A broken connection leaves nothing behind.
    let mut stream = server.connect();
    let half = b"PUT /half HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc";
    stream.write_all(half).unwrap();
    finish(&stream);
    read_all(&mut stream);
    let deadline = Instant::now() + common::LONG;
    while names(incoming.path()) != ["a b", "c", "empty"] {
        assert!(Instant::now() < deadline, "{:?}", names(incoming.path()));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn uploads_that_are_refused() {
    let www = www();
    let incoming = tempfile::tempdir().unwrap();
    let directory = incoming.path().to_str().unwrap();
    let server = Server::kernel(www.path(), &["--upload", directory, "--max-upload", "1000"]);
    let ask = |request: &str| Response::parse(&server.exchange(request.as_bytes()));
    assert_eq!(server.put("/c", "").status, 201);
    assert_eq!(
        ask("PUT /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").status,
        411
    );
    assert_eq!(
        ask("PUT /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1001\r\n\r\n")
            .status,
        413
    );
    let large = format!(
        "PUT /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n{}\r\n0\r\n\r\n",
        "a".repeat(1001)
    );
    assert_eq!(ask(&large).status, 413);
    assert_eq!(
        ask("PUT /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n").status,
        400
    );
    assert_eq!(
        ask("PUT /x/y HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1\r\n\r\na")
            .status,
        409
    );
    assert_eq!(ask("PUT /c HTTP/1.1\r\nHost: x\r\nConnection: close\r\nIf-None-Match: *\r\nContent-Length: 1\r\n\r\na").status, 412);
    assert_eq!(names(incoming.path()), ["c"]);
}

#[test]
fn one_hundred_continue() {
    let www = www();
    let incoming = tempfile::tempdir().unwrap();
    let server = Server::kernel(www.path(), &["--upload", incoming.path().to_str().unwrap()]);
    let mut stream = server.connect();
    stream.write_all(b"PUT /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n").unwrap();
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"body").unwrap();
    assert!(read_all(&mut stream).starts_with("HTTP/1.1 201"));
    // Who is refused hears that instead.
    let text = server.exchange(
        b"PUT /a/b/c HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n",
    );
    assert!(text.starts_with("HTTP/1.1 409"), "{text}");
}
