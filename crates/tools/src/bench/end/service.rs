//! What a server does with a connection.

use crate::sockets::{Errno, Handle, More, Ready, Sockets};

use super::work::BUFFER;

/// Writes of a stream per turn and connection.
const WRITES: usize = 4;

/// The application on the server.
pub(crate) trait Service {
    /// A connection was accepted and is not watched yet.
    fn accepted<S: Sockets>(&mut self, sockets: &mut S, socket: Handle);
    /// A watched connection is ready.
    fn ready<S: Sockets>(&mut self, sockets: &mut S, socket: Handle, ready: Ready);
}

/// Watches `socket`; without that it is of no use.
fn watch<S: Sockets>(sockets: &mut S, socket: Handle, interest: Ready) {
    if sockets.add(socket, interest, u64::from(socket.0)).is_err() {
        sockets.abort(socket);
    }
}

/// Answers every message with one of the same size.
pub(crate) struct Exchange {
    size: usize,
    messages: u32,
    tuned: bool,
    /// By handle: handles are small numbers.
    counts: Vec<Count>,
    input: Vec<u8>,
    response: Vec<u8>,
}

#[derive(Clone, Copy, Default)]
struct Count {
    /// Bytes of a message that is not complete.
    received: u32,
    messages: u32,
}

impl Exchange {
    /// Closes after `messages` (0: never). `tuned`: connections are announced with their first
    /// bytes, so it reads at once; and it says with the last bytes that the end follows.
    pub(crate) fn new(size: u32, messages: u32, tuned: bool) -> Self {
        Self {
            size: size as usize,
            messages,
            tuned,
            counts: Vec::new(),
            input: vec![0; BUFFER],
            response: vec![b'x'; size as usize],
        }
    }

    /// Reads once and answers what is complete; whether the connection is still there.
    fn serve<S: Sockets>(&mut self, sockets: &mut S, socket: Handle) -> bool {
        let read = match sockets.read(socket, &mut self.input) {
            Ok(read) if read > 0 => read,
            Err(Errno::AGAIN | Errno::INTR) => return true,
            Ok(_) | Err(_) => {
                sockets.close(socket);
                return false;
            }
        };
        let Some(count) = self.counts.get_mut(socket.0 as usize) else {
            return true;
        };
        let received = count.received as usize + read;
        count.received = (received % self.size) as u32;
        for _ in 0..received / self.size {
            count.messages += 1;
            let last = count.messages == self.messages;
            let more = if last && self.tuned {
                More::Close
            } else {
                More::Follows
            };
            // One message is less than any socket takes at once; a connection where it is not would
            // count for less than it is.
            if sockets.write(socket, &self.response, more) != Ok(self.size) {
                sockets.abort(socket);
                return false;
            }
            if last {
                sockets.close(socket);
                return false;
            }
        }
        true
    }
}

impl Service for Exchange {
    fn accepted<S: Sockets>(&mut self, sockets: &mut S, socket: Handle) {
        let index = socket.0 as usize;
        if index >= self.counts.len() {
            self.counts.resize(index + 1024, Count::default());
        }
        if let Some(count) = self.counts.get_mut(index) {
            *count = Count::default();
        }
        if !self.tuned || self.serve(sockets, socket) {
            watch(sockets, socket, Ready::IN);
        }
    }

    fn ready<S: Sockets>(&mut self, sockets: &mut S, socket: Handle, _ready: Ready) {
        self.serve(sockets, socket);
    }
}

/// Resets what it accepts.
pub(crate) struct Reset;

impl Service for Reset {
    fn accepted<S: Sockets>(&mut self, sockets: &mut S, socket: Handle) {
        sockets.abort(socket);
    }

    fn ready<S: Sockets>(&mut self, _sockets: &mut S, _socket: Handle, _ready: Ready) {}
}

/// Sends without end.
pub(crate) struct Stream {
    output: Vec<u8>,
}

impl Stream {
    /// A source of zeros.
    pub(crate) fn new() -> Self {
        Self {
            output: vec![0; BUFFER],
        }
    }
}

impl Service for Stream {
    fn accepted<S: Sockets>(&mut self, sockets: &mut S, socket: Handle) {
        watch(sockets, socket, Ready::OUT);
    }

    fn ready<S: Sockets>(&mut self, sockets: &mut S, socket: Handle, _ready: Ready) {
        for _ in 0..WRITES {
            match sockets.write(socket, &self.output, More::Follows) {
                Ok(written) if written == self.output.len() => {}
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => return sockets.close(socket),
            }
        }
    }
}
