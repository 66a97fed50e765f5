//! epserver, epwget and echo, as people run them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use mtcp::{Config, Domain, Mtcp};

use crate::support::{DEADLINE, Lab, Running, compile, root, run};

/// Bytes that no other offset repeats soon.
fn noise(len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect()
}

/// A server of some files, and a client.
struct Web {
    lab: Lab,
    server: Running,
    epwget: std::path::PathBuf,
    mode: &'static str,
}

impl Web {
    fn start(mode: &'static str, cores: &str) -> Self {
        let lab = Lab::new();
        let (epserver, epwget) = (
            compile("examples/c/epserver.c", lab.dir.path()),
            compile("examples/c/epwget.c", lab.dir.path()),
        );
        let www = lab.dir.path().join("www");
        fs::create_dir(&www).unwrap();
        fs::write(www.join("index.html"), "<p>hello").unwrap();
        fs::write(www.join("small"), noise(64)).unwrap();
        fs::write(www.join("empty"), "").unwrap();
        // Too large for the cache.
        fs::write(www.join("large"), noise((16 << 20) + 12_345)).unwrap();
        fs::write(lab.dir.path().join("secret"), "not to be served").unwrap();
        let conf = lab.conf("server.conf", 2, mode);
        let mut command = lab.command(&epserver);
        command
            .args(["-p", "www", "-N", cores, "-b", "512", "-f"])
            .arg(conf);
        let mut server = Running::start(&mut command);
        let stdout = server.0.stdout.as_mut().unwrap();
        let mut lines = BufReader::with_capacity(1, stdout).lines();
        for _ in 0..cores.parse().unwrap() {
            let line = lines.next().expect("epserver ended").unwrap();
            assert!(line.ends_with("listening on port 80"), "{line}");
        }
        Self {
            lab,
            server,
            epwget,
            mode,
        }
    }

    /// What epwget prints at the end, without the number of the core, and whether it was content.
    fn fetch(&self, url: &str, arguments: &[&str]) -> (Vec<String>, bool) {
        let conf = self.lab.conf("client.conf", 3, self.mode);
        let mut command = self.lab.command(&self.epwget);
        let output = Running::start(command.arg(url).args(arguments).arg("-f").arg(conf)).finish();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            stderr
                .lines()
                .all(|line| line.starts_with("[ ALL ] connect: ")),
            "{stderr}"
        );
        let stdout = String::from_utf8(output.stdout).unwrap();
        (
            stdout.lines().map(str::to_owned).collect(),
            output.status.success(),
        )
    }

    fn file(&self, name: &str) -> Vec<u8> {
        fs::read(self.lab.dir.path().join(name)).unwrap_or_default()
    }

    /// Ends the server as Ctrl-C does. Returns what it printed last.
    fn stop(self) -> String {
        self.server.signal(libc::SIGINT);
        let output = self.server.finish();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }
}

fn fetches_files(mode: &'static str) {
    let web = Web::start(mode, "1");
    let (lines, content) = web.fetch("http://10.0.0.2/small", &["500", "-c", "50", "-o", "small"]);
    assert_eq!(
        lines,
        ["[CPU 0] Completed 500 connections, errors: 0 incompletes: 0"]
    );
    assert!(content);
    for flow in 0..500 {
        assert_eq!(web.file(&format!("small.{flow}")), noise(64), "{flow}");
    }
    let (lines, content) = web.fetch("[fd00::2]/large", &["3", "-c", "3", "-o", "large"]);
    assert_eq!(
        lines,
        ["[CPU 0] Completed 3 connections, errors: 0 incompletes: 0"]
    );
    assert!(content);
    for flow in 0..3 {
        assert!(
            web.file(&format!("large.{flow}")) == noise((16 << 20) + 12_345),
            "{flow}"
        );
    }
    assert!(web.fetch("10.0.0.2", &["1", "-o", "index"]).1);
    assert_eq!(web.file("index.0"), b"<p>hello");
    assert!(
        web.fetch("10.0.0.2:80/empty?query", &["1", "-o", "empty"])
            .1
    );
    assert_eq!(web.file("empty.0"), b"");
    for wrong in [
        "/missing",
        "/../secret",
        "/%2e%2e/secret",
        "//../secret",
        "/x/../../secret",
        "/%00",
        "/.",
    ] {
        let (lines, content) = web.fetch(&format!("10.0.0.2{wrong}"), &["2"]);
        assert_eq!(
            lines,
            ["[CPU 0] Completed 0 connections, errors: 2 incompletes: 0"],
            "{wrong}"
        );
        assert!(!content);
    }
    assert_eq!(web.stop(), "[CPU 0] served 519 requests\n");
}

#[test]
fn files_are_fetched_paired() {
    fetches_files("mode = paired");
}

#[test]
fn files_are_fetched_inline() {
    fetches_files("mode = inline");
}

#[test]
fn cores_share_the_work() {
    let web = Web::start("mode = paired", "2");
    let (lines, content) = web.fetch("10.0.0.2/small", &["401", "-N", "2", "-c", "20"]);
    assert_eq!(
        lines,
        [
            "[CPU 0] Completed 201 connections, errors: 0 incompletes: 0",
            "[CPU 1] Completed 200 connections, errors: 0 incompletes: 0",
        ]
    );
    assert!(content);
    let printed = web.stop();
    let served = printed.lines().map(|line| {
        line.split_whitespace()
            .nth(3)
            .unwrap()
            .parse::<u32>()
            .unwrap()
    });
    assert_eq!(served.sum::<u32>(), 401, "{printed}");
}

/// A conversation with the server, byte for byte.
#[test]
fn requests_in_pieces_and_in_a_row() {
    let web = Web::start("mode = inline", "1");
    let conf = web.lab.conf("client.conf", 3, "mode = inline");
    let mtcp = Mtcp::init(Config::load(&conf).unwrap()).unwrap();
    let mut context = mtcp.context(0).unwrap();
    let socket = context.socket(Domain::V4).unwrap();
    let server: SocketAddr = "10.0.0.2:80".parse().unwrap();
    context.connect(socket, server).unwrap();
    for piece in [
        "GET /small HT",
        "TP/1.1\r\nHost: x\r",
        "\n\r\nHEAD /large HTTP/1.1\r\n\r\nGET /none HTTP/1.1\r\n\r\n",
    ] {
        context.write(socket, piece.as_bytes()).unwrap();
        context.poll().unwrap();
    }
    context
        .write(socket, b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
        .unwrap();
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match context.read(socket, &mut buffer).unwrap() {
            0 => break,
            n => answer.extend_from_slice(&buffer[..n]),
        }
    }
    let header = |status: &str, len: usize, connection: &str| {
        format!("HTTP/1.1 {status}\r\nServer: epserver\r\nContent-Length: {len}\r\nConnection: {connection}\r\n\r\n").into_bytes()
    };
    let expected = [
        header("200 OK", 64, "keep-alive"),
        noise(64),
        header("200 OK", (16 << 20) + 12_345, "keep-alive"),
        header("404 Not Found", 0, "keep-alive"),
        header("200 OK", 8, "close"),
        b"<p>hello".to_vec(),
    ];
    assert_eq!(
        String::from_utf8_lossy(&answer),
        String::from_utf8_lossy(&expected.concat())
    );
    web.stop();
}

#[test]
fn mistakes_are_one_line() {
    let lab = Lab::new();
    let dir = lab.dir.path();
    let conf = lab.conf("client.conf", 3, "");
    let conf = conf.to_str().unwrap();
    let epserver = compile("examples/c/epserver.c", dir);
    let epwget = compile("examples/c/epwget.c", dir);
    let wrong: [(&Path, &[&str], &str); 7] = [
        (&epserver, &[], "usage: epserver"),
        (
            &epserver,
            &["-p", "/nonexistent", "-f", conf],
            "/nonexistent",
        ),
        (
            &epserver,
            &["-p", ".", "-f", "/nonexistent.conf"],
            "/nonexistent.conf",
        ),
        (&epserver, &["-p", ".", "-f", conf, "-N", "0"], "'0'"),
        (&epwget, &["10.0.0.2/x", "5"], "usage: epwget"),
        (&epwget, &["example.org/x", "5", "-f", conf], "example.org"),
        (&epwget, &["10.0.0.2/x", "many", "-f", conf], "many"),
    ];
    for (program, arguments, text) in wrong {
        let output = Running::start(lab.command(program).args(arguments)).finish();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(
            stderr.contains(text) && stderr.lines().count() == 1,
            "{arguments:?}: {stderr}"
        );
    }
    run(lab.command(&epserver).arg("-h"));
}

#[test]
fn echo_echoes() {
    let lab = Lab::new();
    let echo = compile("examples/c/echo.c", lab.dir.path());
    let server = Running::start(lab.command(&echo).arg(lab.conf("server.conf", 2, "")));
    let config = Config::load(&lab.conf("client.conf", 3, "mode = inline")).unwrap();
    let mtcp = Mtcp::init(config).unwrap();
    let mut context = mtcp.context(0).unwrap();
    let remote: SocketAddr = "10.0.0.2:7".parse().unwrap();
    let end = Instant::now() + DEADLINE;
    let socket = loop {
        let socket = context.socket(Domain::V4).unwrap();
        match context.connect(socket, remote) {
            Ok(()) => break socket,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        context.close(socket).unwrap();
    };
    let (sent, mut got) = (noise(100_000), vec![0; 100_000]);
    for (sent, got) in sent.chunks(10_000).zip(got.chunks_mut(10_000)) {
        assert_eq!(context.write(socket, sent), Ok(10_000));
        let mut filled = 0;
        while filled < got.len() {
            filled += context.read(socket, &mut got[filled..]).unwrap();
        }
    }
    assert!(sent == got);
    context.close(socket).unwrap();
    // The server may be ended before its last ACK.
    let _ = context.drain(Duration::from_secs(5));
    drop(server);
}

#[test]
fn the_sample_configurations_are_right() {
    for name in ["epserver", "epwget", "echo"] {
        let file = root().join("examples/conf").join(format!("{name}.conf"));
        let text = fs::read_to_string(&file).unwrap();
        let mut config = Config::default();
        config.read(&text, name).unwrap();
        config.check().unwrap();
        // What is commented out is right too.
        for line in text
            .lines()
            .filter_map(|line| line.strip_prefix('#'))
            .filter(|line| !line.starts_with(' '))
        {
            config.read(line, name).unwrap();
        }
    }
}
