//! A plain client: the kernel's blocking sockets with time limits, and just enough HTTP.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

/// Longest that one step of an exchange may take.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Connects; every later read and write has a time limit.
pub fn open(to: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, DEADLINE)?;
    limit(&stream);
    Ok(stream)
}

fn limit(stream: &TcpStream) {
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    stream.set_nodelay(true).unwrap();
}

/// Opens `count` connections, all begun before any is waited for.
pub fn open_together(to: SocketAddr, count: usize) -> Vec<TcpStream> {
    let sockets: Vec<_> = (0..count).map(|_| begin(to)).collect();
    let end = Instant::now() + DEADLINE;
    let finish = |socket: OwnedFd| {
        wait_connected(&socket, end);
        let stream = TcpStream::from(socket);
        stream.set_nonblocking(false).unwrap();
        limit(&stream);
        stream
    };
    sockets.into_iter().map(finish).collect()
}

fn begin(to: SocketAddr) -> OwnedFd {
    let family = if to.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None).unwrap();
    match connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => socket,
        Err(error) => panic!("cannot connect to {to}: {error}"),
    }
}

fn wait_connected(socket: &OwnedFd, end: Instant) {
    let left = end.saturating_duration_since(Instant::now());
    let timeout = Timespec::try_from(left).unwrap();
    let ready = poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&timeout)).unwrap();
    assert_eq!(ready, 1, "a connection was not established in {DEADLINE:?}");
    sockopt::socket_error(socket)
        .unwrap()
        .unwrap_or_else(|error| panic!("cannot connect: {error}"));
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status line and the header fields.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

/// Asks for a path on a connection that stays open.
pub fn ask(stream: &mut TcpStream, path: &str) -> io::Result<()> {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: interop\r\n\r\n").as_bytes())
}

/// Reads one answer with a Content-Length.
pub fn answer(stream: &mut TcpStream) -> io::Result<Answer> {
    let mut bytes = Vec::new();
    let head_length = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        read_some(stream, &mut bytes)?;
    };
    let head = String::from_utf8_lossy(&bytes[..head_length]).into_owned();
    let wanted = head_length + content_length(&head)?;
    while bytes.len() < wanted {
        read_some(stream, &mut bytes)?;
    }
    let body = bytes.split_off(head_length);
    Ok(Answer { head, body })
}

fn read_some(stream: &mut TcpStream, into: &mut Vec<u8>) -> io::Result<()> {
    let mut chunk = [0; 16 * 1024];
    match stream.read(&mut chunk)? {
        0 => Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("closed after {} bytes of an answer", into.len()),
        )),
        read => {
            into.extend_from_slice(&chunk[..read]);
            Ok(())
        }
    }
}

fn content_length(head: &str) -> io::Result<usize> {
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = fields.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = lengths
        .next()
        .and_then(|(_, value)| value.trim().parse().ok());
    length.ok_or_else(|| io::Error::other(format!("no Content-Length in {head:?}")))
}

/// One exchange on a fresh connection, closed by the server: how long it took.
pub fn fresh_exchange(
    to: SocketAddr,
    request: &[u8],
    response_length: usize,
) -> io::Result<Duration> {
    let start = Instant::now();
    let mut stream = open(to)?;
    stream.write_all(request)?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response)?;
    let took = start.elapsed();
    if response.len() == response_length {
        Ok(took)
    } else {
        Err(io::Error::other(format!(
            "{} of {response_length} bytes",
            response.len()
        )))
    }
}
