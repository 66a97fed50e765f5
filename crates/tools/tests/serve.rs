//! The server on kernel sockets, as clients see it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use common::{Response, Server, finish, noise, read_all, www};

#[test]
fn files_directories_and_what_is_missing() {
    let www = www();
    let server = Server::kernel(www.path(), &[]);
    let hello = server.fetch("/hello.txt?query");
    assert_eq!((hello.status, hello.body.as_str()), (200, "hello, world\n"));
    assert_eq!(
        hello.field("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(hello.field("content-length"), Some("13"));
    assert_eq!(hello.field("connection"), Some("close"));
    assert!(
        hello
            .field("date")
            .is_some_and(|date| date.ends_with("GMT"))
    );
    let listing = server.fetch("/");
    assert!(
        listing.status == 200
            && listing.body.contains("hello.txt")
            && listing.body.contains("dir/"),
        "{listing:?}"
    );
    assert_eq!(server.fetch("/site/").body, "<p>index");
    let redirect = server.fetch("/dir");
    assert_eq!(
        (redirect.status, redirect.field("location")),
        (301, Some("/dir/"))
    );
    assert_eq!(server.fetch("/nothing").status, 404);
    assert_eq!(server.fetch("/hello.txt/").status, 404);
}

#[test]
fn nothing_outside_the_directory_is_served() {
    let outside = tempfile::tempdir().unwrap();
    let directory = outside.path().join("www");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(outside.path().join("secret"), "SECRET").unwrap();
    std::os::unix::fs::symlink("../secret", directory.join("relative")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), directory.join("absolute")).unwrap();
    std::os::unix::fs::symlink("..", directory.join("parent")).unwrap();
    let server = Server::kernel(&directory, &["--upload", directory.to_str().unwrap()]);
    for target in [
        "/../secret",
        "/%2e%2e/secret",
        "/..%2fsecret",
        "/%2e%2e%2fsecret",
        "/a/../../secret",
        "/./../secret",
        "//../secret",
        "/relative",
        "/absolute",
        "/parent/secret",
        "/relative%00.txt",
        "/..\\secret",
        "/%5c../secret",
        "http://x/../secret",
        "/.%2e/secret",
        "/%252e%252e/secret",
    ] {
        let response = server.fetch(target);
        assert!(
            matches!(response.status, 400 | 403 | 404),
            "{target}: {response:?}"
        );
        assert!(!response.body.contains("SECRET"), "{target}");
    }
    for target in [
        "/../new",
        "/parent/new",
        "/%2e%2e/new",
        "/absolute/new",
        "/",
        "/a/",
    ] {
        let response = server.put(target, "x");
        assert!(response.status >= 400, "{target}: {response:?}");
    }
    assert!(!outside.path().join("new").exists());
    // Replacing a link replaces the link, not what it points to.
    assert_eq!(server.put("/absolute", "mine").status, 204);
    assert_eq!(
        std::fs::read_to_string(outside.path().join("secret")).unwrap(),
        "SECRET"
    );
    assert_eq!(server.fetch("/absolute").body, "mine");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let www = www();
    let server = Server::kernel(www.path(), &[]);
    let one = "GET /hello.txt HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut request = one.repeat(500);
    request += "HEAD /hello.txt HTTP/1.1\r\nHost: x\r\n\r\nGET /big HTTP/1.1\r\nHost: x\r\nRange: bytes=5-9\r\n\r\n";
    request += "GET /dir/inside HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let mut stream = server.connect();
    // In odd pieces, so that heads are cut anywhere.
    for piece in request.as_bytes().chunks(777) {
        stream.write_all(piece).unwrap();
    }
    let text = read_all(&mut stream);
    assert_eq!(
        text.matches("HTTP/1.1 200 OK").count(),
        502,
        "{}",
        text.len()
    );
    assert_eq!(text.matches("hello, world\n").count(), 500);
    assert_eq!(text.matches("HTTP/1.1 206").count(), 1);
    assert!(text.ends_with("\r\n\r\ninside"));
}

#[test]
fn a_pipelining_client_that_does_not_read_costs_no_memory() {
    let www = www();
    let server = Server::kernel(www.path(), &[]);
    let mut stream = server.connect();
    let requests = 400;
    let writer = stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        let mut writer = writer;
        for request in 0..requests {
            let close = if request == requests - 1 {
                "Connection: close\r\n"
            } else {
                ""
            };
            writer
                .write_all(
                    format!("GET /big HTTP/1.1\r\nHost: x\r\nRange: bytes=0-999999\r\n{close}\r\n")
                        .as_bytes(),
                )
                .unwrap();
        }
    });
    writing.join().unwrap();
    // The server has all requests, and answers until nothing more fits what nobody reads.
    let mut head = vec![0; 1 << 16];
    while stream.peek(&mut head).unwrap() < head.len() {
        std::thread::yield_now();
    }
    let mut bytes = Vec::new();
    (&stream).take(200_000_000).read_to_end(&mut bytes).unwrap();
    // The most that it ever had, while nobody read and while somebody did.
    let most = common::status_kb(server.process(), "VmHWM:");
    assert!(most < 60_000, "{most} kB resident");
    stream.read_to_end(&mut bytes).unwrap();
    assert!(bytes.len() > requests * 1_000_000, "{} bytes", bytes.len());
}

#[test]
fn head_and_errors_have_the_right_lengths() {
    let www = www();
    let server = Server::kernel(www.path(), &[]);
    let ask = |request: &str| Response::parse(&server.exchange(request.as_bytes()));
    let head = ask("HEAD /big HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!(
        (
            head.status,
            head.field("content-length"),
            head.body.as_str()
        ),
        (200, Some("20000000"), "")
    );
    let missing = ask("HEAD /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!((missing.status, missing.body.as_str()), (404, ""));
    for (request, status) in [
        ("GARBAGE\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/3.0\r\nHost: x\r\n\r\n", 505),
        (
            "BREW / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            501,
        ),
        (
            "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc",
            405,
        ),
        (
            "PUT /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc",
            405,
        ),
        ("GET / HTTP/1.1\r\nHost: x\r\nExpect: more\r\n\r\n", 417),
        (
            "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
            400,
        ),
    ] {
        let response = ask(request);
        assert_eq!(response.status, status, "{request}");
        assert_eq!(
            response.field("content-length"),
            Some(response.body.len().to_string().as_str()),
            "{request}"
        );
    }
    assert_eq!(
        ask("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").field("allow"),
        Some("GET, HEAD")
    );
    let long = "a".repeat(70_000);
    assert_eq!(
        ask(&format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n")).status,
        414
    );
    assert_eq!(
        ask(&format!("GET / HTTP/1.1\r\nHost: x\r\nX: {long}\r\n\r\n")).status,
        431
    );
}

#[test]
fn keep_alive_of_both_versions() {
    let www = www();
    let server = Server::kernel(www.path(), &[]);
    // HTTP/1.0 closes by itself, unless asked not to.
    let text = server.exchange(b"GET /hello.txt HTTP/1.0\r\n\r\nGET /hello.txt HTTP/1.0\r\n\r\n");
    assert_eq!(text.matches("hello, world").count(), 1);
    let text = server.exchange(
        b"GET /hello.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /hello.txt HTTP/1.0\r\n\r\n",
    );
    assert_eq!(text.matches("hello, world").count(), 2);
    assert_eq!(text.matches("Connection: keep-alive").count(), 1);
    // A client that has shut its side still gets its answer.
    let mut stream = server.connect();
    stream
        .write_all(b"GET /hello.txt HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    finish(&stream);
    assert!(read_all(&mut stream).ends_with("hello, world\n"));
}

/// A GET with more fields; the head, and the body as bytes.
fn get_with(server: &Server, target: &str, fields: &str) -> (Response, Vec<u8>) {
    let mut stream = server.connect();
    let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap()
        + 4;
    let head = Response::parse(&String::from_utf8_lossy(&bytes[..end]));
    (head, bytes.split_off(end))
}

#[test]
fn ranges() {
    let www = www();
    let big = std::fs::read(www.path().join("big")).unwrap();
    let server = Server::kernel(www.path(), &[]);
    let ask = |target: &str, fields: &str| get_with(&server, target, fields);
    for (range, first, last) in [
        ("0-0", 0, 0),
        ("19999990-", 19_999_990, 19_999_999),
        ("-10", 19_999_990, 19_999_999),
        ("1000-9999999", 1000, 9_999_999),
    ] {
        let (response, body) = ask("/big", &format!("Range: bytes={range}\r\n"));
        assert_eq!(response.status, 206);
        assert_eq!(
            response.field("content-range"),
            Some(format!("bytes {first}-{last}/20000000").as_str())
        );
        assert!(body == big[first..=last], "{range}");
    }
    let (response, _) = ask("/big", "Range: bytes=20000000-\r\n");
    assert_eq!(
        (response.status, response.field("content-range")),
        (416, Some("bytes */20000000"))
    );
    let (whole, body) = ask("/big", "Range: bytes=0-1,5-6\r\n");
    assert!(whole.status == 200 && body == big);
}

#[test]
fn conditions() {
    let www = www();
    let server = Server::kernel(www.path(), &[]);
    let ask = |target: &str, fields: &str| get_with(&server, target, fields);
    let (plain, _) = ask("/hello.txt", "");
    let (modified, etag) = (
        plain.field("last-modified").unwrap(),
        plain.field("etag").unwrap(),
    );
    for fields in [
        format!("If-Modified-Since: {modified}\r\n"),
        format!("If-None-Match: {etag}\r\n"),
    ] {
        let (response, body) = ask("/hello.txt", &fields);
        assert!(response.status == 304 && body.is_empty(), "{response:?}");
    }
    assert_eq!(
        ask(
            "/hello.txt",
            "If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
        )
        .0
        .status,
        200
    );
    assert_eq!(ask("/hello.txt", "If-Match: \"other\"\r\n").0.status, 412);
    assert_eq!(
        ask(
            "/hello.txt",
            &format!("Range: bytes=0-4\r\nIf-Range: {etag}\r\n")
        )
        .1,
        b"hello"
    );
    assert_eq!(
        ask("/hello.txt", "Range: bytes=0-4\r\nIf-Range: \"other\"\r\n")
            .1
            .len(),
        13
    );
}

#[test]
fn a_changed_file_is_served_as_it_is() {
    let www = www();
    let server = Server::kernel(www.path(), &[]);
    assert_eq!(server.fetch("/hello.txt").body, "hello, world\n");
    std::fs::write(www.path().join("hello.txt"), "changed").unwrap();
    let deadline = Instant::now() + common::LONG;
    while server.fetch("/hello.txt").body != "changed" {
        assert!(Instant::now() < deadline, "the cache never noticed");
        std::thread::sleep(Duration::from_millis(50));
    }
    std::fs::remove_file(www.path().join("hello.txt")).unwrap();
    while server.fetch("/hello.txt").status != 404 {
        assert!(Instant::now() < deadline, "the cache never noticed");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn slow_and_silent_clients_are_shown_the_door() {
    let www = www();
    let server = Server::kernel(
        www.path(),
        &["--header-timeout", "0.3", "--idle-timeout", "0.6"],
    );
    let begin = Instant::now();
    // A byte every 50 ms never finishes the head, and does not buy time.
    let mut slow = server.connect();
    let mut trickle = slow.try_clone().unwrap();
    let trickling = std::thread::spawn(move || {
        for byte in
            b"GET / HTTP/1.1\r\nHost: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                .iter()
                .cycle()
        {
            if trickle.write_all(&[*byte]).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let text = read_all(&mut slow);
    assert!(text.starts_with("HTTP/1.1 408"), "{text}");
    let mut silent = server.connect();
    assert_eq!(read_all(&mut silent), "");
    // A kept connection may be silent for the idle time-out.
    let mut kept = server.connect();
    kept.write_all(b"GET /hello.txt HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    assert!(read_all(&mut kept).ends_with("hello, world\n"));
    assert!(begin.elapsed() < common::LONG / 2);
    drop(slow);
    trickling.join().unwrap();
}

#[test]
fn a_full_table_serves_the_next_when_one_goes() {
    let www = www();
    let server = Server::kernel(www.path(), &["--max-connections", "2"]);
    // Two silent connections use the table up; the third is served once one of them goes.
    let first = server.connect();
    let second = server.connect();
    let mut third = server.connect();
    third
        .write_all(b"GET /hello.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .unwrap();
    third
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    assert!(third.read(&mut [0; 10]).is_err());
    drop(first);
    third.set_read_timeout(Some(common::LONG)).unwrap();
    assert!(read_all(&mut third).ends_with("hello, world\n"));
    drop(second);
}

#[test]
fn a_stop_lets_a_download_finish() {
    let www = www();
    let server = Server::kernel(www.path(), &[]);
    let mut stream = server.connect();
    stream
        .write_all(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    let mut first = [0; 1000];
    stream.read_exact(&mut first).unwrap();
    let idle = server.connect();
    rustix::process::kill_process(server.process(), rustix::process::Signal::INT).unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    let mut whole = first.to_vec();
    whole.extend_from_slice(&rest);
    assert!(whole.ends_with(&noise(20_000_000)[19_000_000..]));
    drop(idle);
}

#[test]
fn the_last_line_sums_up() {
    let www = www();
    let server = Server::kernel(www.path(), &[]);
    server.fetch("/hello.txt");
    server.fetch("/nothing");
    let (last, success) = server.stop();
    assert!(success);
    assert!(
        last.contains("2 requests (1 errors), 2 connections"),
        "{last}"
    );
}

#[test]
fn curl_agrees() {
    let www = www();
    let server = Server::kernel(www.path(), &["--upload", www.path().to_str().unwrap()]);
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("copy");
    let curl = |arguments: &[&str]| {
        std::process::Command::new("curl")
            .args(["-sS", "--max-time", "60"])
            .args(arguments)
            .output()
    };
    let Ok(output) = curl(&["-o", copy.to_str().unwrap(), &server.url("/big")]) else {
        eprintln!("curl is not installed");
        return;
    };
    assert!(output.status.success(), "{output:?}");
    assert!(std::fs::read(&copy).unwrap() == noise(20_000_000));
    let upload = curl(&[
        "-T",
        copy.to_str().unwrap(),
        &server.url("/uploaded"),
        "-w",
        "%{http_code}",
    ])
    .unwrap();
    assert_eq!(String::from_utf8_lossy(&upload.stdout), "201");
    let chunked = curl(&[
        "-T",
        copy.to_str().unwrap(),
        "-H",
        "Transfer-Encoding: chunked",
        &server.url("/uploaded"),
        "-w",
        "%{http_code}",
    ])
    .unwrap();
    assert_eq!(String::from_utf8_lossy(&chunked.stdout), "204");
    assert!(std::fs::read(www.path().join("uploaded")).unwrap() == noise(20_000_000));
    let resumed = curl(&["-r", "100-199", &server.url("/big"), "-w", "%{http_code}"]).unwrap();
    assert!(resumed.stdout.ends_with(b"206"));
    assert_eq!(resumed.stdout[..100], noise(200)[100..]);
}
