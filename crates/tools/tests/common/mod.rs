//! Helpers: servers as child processes that die with the test, raw HTTP over the kernel's sockets.

#![allow(
    dead_code,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

pub mod daemon;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Nothing in these tests takes this long unless it hangs.
pub const LONG: Duration = Duration::from_secs(60);

/// The program under test.
pub fn mtcp() -> Command {
    Command::new(env!("CARGO_BIN_EXE_mtcp"))
}

/// Runs the program to its end.
pub fn run(arguments: &[&str]) -> Output {
    let child = mtcp()
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait(child)
}

/// Waits for a child's output, for at most [`LONG`].
pub fn wait(child: Child) -> Output {
    let process = rustix::process::Pid::from_child(&child);
    let (done, finished) = mpsc::channel();
    std::thread::spawn(move || done.send(child.wait_with_output()));
    match finished.recv_timeout(LONG) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
            panic!("a child did not end within {LONG:?}");
        }
    }
}

/// What the kernel says of a process's memory, kB: `VmHWM:` the most that it had.
pub fn status_kb(process: rustix::process::Pid, what: &str) -> u64 {
    let file = format!("/proc/{}/status", process.as_raw_nonzero());
    let status = std::fs::read_to_string(file).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what));
    let number = line.unwrap().trim().trim_end_matches(" kB");
    number.parse().unwrap()
}

/// Processor time that the first thread of a process has had.
pub fn processor_time(process: rustix::process::Pid) -> Duration {
    let file = format!("/proc/{}/schedstat", process.as_raw_nonzero());
    let text = std::fs::read_to_string(file).unwrap();
    let nanos = text.split(' ').next().unwrap();
    Duration::from_nanos(nanos.parse().unwrap())
}

/// A server that ends with its owner.
pub struct Server {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    /// What it said when it was ready.
    pub start_line: String,
}

impl Server {
    /// Starts `mtcp serve` with these arguments and waits until it listens.
    pub fn start(arguments: &[&str]) -> Self {
        let mut child = mtcp()
            .arg("serve")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut start_line = String::new();
        stdout.read_line(&mut start_line).unwrap();
        assert!(
            start_line.contains("listening on"),
            "the server said '{start_line}'"
        );
        Self {
            child,
            stdout,
            start_line,
        }
    }

    /// A kernel server of `directory` on a free port of the loopback.
    pub fn kernel(directory: &Path, more: &[&str]) -> Self {
        let directory = directory.to_str().unwrap();
        let mut arguments = vec![
            directory,
            "--io",
            "kernel",
            "--addr",
            "127.0.0.1",
            "--port",
            "0",
        ];
        arguments.extend_from_slice(more);
        Self::start(&arguments)
    }

    /// Where it listens first.
    pub fn address(&self) -> SocketAddr {
        let after = self.start_line.split("listening on ").nth(1).unwrap();
        after.split(' ').next().unwrap().parse().unwrap()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address())
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// Sends `request`, reads until the server closes.
    pub fn exchange(&self, request: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(request).unwrap();
        read_all(&mut stream)
    }

    /// Sends a GET for `target` as it is, on a connection of its own.
    pub fn fetch(&self, target: &str) -> Response {
        Response::parse(&self.exchange(
            format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes(),
        ))
    }

    /// Sends a PUT on a connection of its own.
    pub fn put(&self, target: &str, body: &str) -> Response {
        let length = body.len();
        let request = format!(
            "PUT {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        Response::parse(&self.exchange(request.as_bytes()))
    }

    pub fn process(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// Asks it to stop; what it said last, and whether it ended well.
    pub fn stop(mut self) -> (String, bool) {
        rustix::process::kill_process(self.process(), rustix::process::Signal::TERM).unwrap();
        let deadline = Instant::now() + LONG;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "the server did not stop");
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (rest, status.success())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads to the end; a reset after the last bytes counts as the end.
pub fn read_all(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Shuts the sending side.
pub fn finish(stream: &TcpStream) {
    stream.shutdown(Shutdown::Write).unwrap();
}

/// A response whose body is text.
#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Response {
    pub fn parse(text: &str) -> Self {
        let (head, body) = text
            .split_once("\r\n\r\n")
            .unwrap_or_else(|| panic!("no response in '{text}'"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self {
            status,
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        let fields = self
            .head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(": "));
        fields
            .filter(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .next()
    }
}

/// Bytes that look random and are the same in every run.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// A directory with a few files.
pub fn www() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("hello.txt"), "hello, world\n").unwrap();
    std::fs::write(directory.path().join("big"), noise(20_000_000)).unwrap();
    std::fs::create_dir(directory.path().join("dir")).unwrap();
    std::fs::create_dir(directory.path().join("site")).unwrap();
    std::fs::write(directory.path().join("dir/inside"), "inside").unwrap();
    std::fs::write(directory.path().join("site/index.html"), "<p>index").unwrap();
    directory
}
