//! Ten thousand connections of a kernel at once, each with an answer of its own.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use crate::client;
use crate::files::Noise;

/// How many.
pub const CONNECTIONS: usize = 10_000;
/// Connections begun before any of them is waited for.
const TOGETHER: usize = 500;
const FILES: usize = 97;

/// Files of different lengths, from nothing to more than a few segments.
fn content(file: usize) -> Vec<u8> {
    Noise::bytes(file as u64 + 1, file * 83)
}

/// Writes what will be asked for.
pub fn publish(directory: &Path) {
    for file in 0..FILES {
        std::fs::write(directory.join(file.to_string()), content(file)).unwrap();
    }
}

/// All of them, from the calling thread's namespace.
pub fn open_all(to: SocketAddr) -> Vec<TcpStream> {
    let mut streams = Vec::with_capacity(CONNECTIONS);
    while streams.len() < CONNECTIONS {
        let wanted = TOGETHER.min(CONNECTIONS - streams.len());
        streams.extend(client::open_together(to, wanted));
    }
    streams
}

/// Asks on all before it reads from any; every connection asks for something else each time.
pub fn ask_all(streams: &mut [TcpStream], round: usize) {
    for (index, stream) in streams.iter_mut().enumerate() {
        client::ask(stream, &format!("/{}", (index + round) % FILES)).unwrap();
    }
    for (index, stream) in streams.iter_mut().enumerate() {
        let answer = client::answer(stream)
            .unwrap_or_else(|error| panic!("round {round}, connection {index}: {error}"));
        assert!(
            answer.head.starts_with("HTTP/1.1 200 "),
            "connection {index}: {}",
            answer.head
        );
        let expected = content((index + round) % FILES);
        assert!(
            answer.body == expected,
            "round {round}, connection {index}: a body of {} bytes, not the right {}",
            answer.body.len(),
            expected.len()
        );
    }
}
