//! A connection of the web server: what was received and not yet understood, what is still to be
//! sent.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use crate::sockets::{Errno, Handle, More, Sockets};

use super::receive::Receiving;

/// Bytes of a file per write.
const CHUNK: usize = 128 * 1024;
/// Response heads up to this many bytes go out in one write with the first bytes of their file.
const HEAD: usize = 16 * 1024;
/// Writes per turn and connection, so that one fast reader does not starve the others.
const WRITES: usize = 8;
/// Buffers above this are given back when they are empty, bytes.
const KEEP: usize = 8 * 1024;

/// What is left to send of a file.
#[derive(Debug)]
pub(crate) struct Streaming {
    pub(crate) file: OwnedFd,
    pub(crate) offset: u64,
    pub(crate) left: u64,
}

/// What comes after the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The next request.
    KeepAlive,
    /// The end.
    Close,
    /// The end, but the peer may still be sending.
    Linger,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Conn {
    /// Received and not yet parsed.
    pub(crate) input: Vec<u8>,
    /// The request body that is arriving.
    pub(crate) receiving: Option<Box<Receiving>>,
    /// The rest of a short write.
    output: Vec<u8>,
    sent: usize,
    /// Follows `output`.
    pub(crate) file: Option<Streaming>,
    /// What comes when all is sent.
    pub(crate) after: After,
    /// When the current wait ends, ms.
    pub(crate) deadline: u64,
    /// With an access log: who asks, and the first line of the request that is not answered yet.
    pub(crate) peer: Option<IpAddr>,
    pub(crate) asked: Vec<u8>,
    /// Whether a request head has begun to arrive, and how many of its bytes were looked at.
    pub(crate) begun: bool,
    pub(crate) scanned: usize,
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drained {
    /// All is sent.
    All,
    /// The socket takes no more for now.
    Blocked,
    /// The socket would take more, but others want a turn.
    Yield,
    /// The connection failed, or the file did.
    Failed,
}

/// What all connections share to send with.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// Heads and small bodies of the turn.
    pub(crate) out: Vec<u8>,
    /// Where file bytes pass through; as long as it ever gets, so that nothing is cleared per read.
    chunk: Vec<u8>,
    /// Bytes sent over all connections.
    pub(crate) total: u64,
}

impl Outbox {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self {
            out: Vec::with_capacity(HEAD),
            chunk: vec![0; HEAD + CHUNK],
            total: 0,
        }
    }
}

impl Conn {
    /// A connection that waits for its first request until `deadline`.
    pub(crate) fn new(deadline: u64) -> Self {
        Self {
            input: Vec::new(),
            receiving: None,
            output: Vec::new(),
            sent: 0,
            file: None,
            after: After::KeepAlive,
            deadline,
            peer: None,
            asked: Vec::new(),
            begun: false,
            scanned: 0,
        }
    }

    /// Whether something waits to be sent.
    pub(crate) fn has_output(&self) -> bool {
        !self.output.is_empty() || self.file.is_some()
    }

    /// Sends the rest of the last write, then what is in `outbox` (which is left empty), then the
    /// file.
    pub(crate) fn drain<S: Sockets>(
        &mut self,
        sockets: &mut S,
        socket: Handle,
        outbox: &mut Outbox,
    ) -> Drained {
        if !self.output.is_empty() {
            match self.send_rest(sockets, socket, outbox) {
                Drained::All => {}
                other => return other,
            }
        }
        for _ in 0..WRITES {
            let sent = match (&self.file, outbox.out.len()) {
                (None, 0) => return Drained::All,
                (Some(_), head) if head <= HEAD => self.send_with_file(sockets, socket, outbox),
                _ => self.send_out(sockets, socket, outbox),
            };
            match sent {
                Drained::All => {}
                other => return other,
            }
        }
        if self.file.is_some() {
            Drained::Yield
        } else {
            Drained::All
        }
    }

    fn send_rest<S: Sockets>(
        &mut self,
        sockets: &mut S,
        socket: Handle,
        outbox: &mut Outbox,
    ) -> Drained {
        let rest = self.output.get(self.sent..).unwrap_or_default();
        let Ok(sent) = write(sockets, socket, rest, self.more(true)) else {
            return Drained::Failed;
        };
        outbox.total += sent as u64;
        self.sent += sent;
        if self.sent < self.output.len() {
            return Drained::Blocked;
        }
        self.sent = 0;
        if self.output.capacity() > KEEP {
            self.output = Vec::new();
        } else {
            self.output.clear();
        }
        Drained::All
    }

    fn send_out<S: Sockets>(
        &mut self,
        sockets: &mut S,
        socket: Handle,
        outbox: &mut Outbox,
    ) -> Drained {
        let Ok(sent) = write(sockets, socket, &outbox.out, self.more(self.file.is_none())) else {
            return Drained::Failed;
        };
        outbox.total += sent as u64;
        let rest = outbox.out.get(sent..).unwrap_or_default();
        self.output.extend_from_slice(rest);
        let blocked = !rest.is_empty();
        outbox.out.clear();
        if blocked {
            Drained::Blocked
        } else {
            Drained::All
        }
    }

    /// The head in `outbox`, if there is one, and the next piece of the file in one write.
    fn send_with_file<S: Sockets>(
        &mut self,
        sockets: &mut S,
        socket: Handle,
        outbox: &mut Outbox,
    ) -> Drained {
        let Some(streaming) = self.file.as_mut() else {
            return Drained::All;
        };
        let head = outbox.out.len();
        let want = usize::try_from(streaming.left).map_or(CHUNK, |left| left.min(CHUNK));
        let Some(chunk) = outbox.chunk.get_mut(..head + want) else {
            return Drained::Failed;
        };
        let (first, rest) = chunk.split_at_mut(head);
        first.copy_from_slice(&outbox.out);
        // Shorter than it was when its length was promised: nothing but the end of the connection
        // can say so.
        if read_exactly(&streaming.file, rest, streaming.offset).is_err() {
            return Drained::Failed;
        }
        let last = want as u64 == streaming.left;
        let more = if last && self.after == After::Close {
            More::Close
        } else {
            More::Follows
        };
        let Ok(sent) = write(sockets, socket, chunk, more) else {
            return Drained::Failed;
        };
        outbox.total += sent as u64;
        let of_file = sent.saturating_sub(head) as u64;
        streaming.offset += of_file;
        streaming.left -= of_file;
        if streaming.left == 0 {
            self.file = None;
        }
        self.output
            .extend_from_slice(outbox.out.get(sent..).unwrap_or_default());
        outbox.out.clear();
        if sent < head + want {
            Drained::Blocked
        } else {
            Drained::All
        }
    }

    fn more(&self, last: bool) -> More {
        if last && self.file.is_none() && self.after == After::Close {
            More::Close
        } else {
            More::Follows
        }
    }
}

/// Writes; a socket without room takes 0 bytes.
fn write<S: Sockets>(
    sockets: &mut S,
    socket: Handle,
    bytes: &[u8],
    more: More,
) -> Result<usize, Errno> {
    match sockets.write(socket, bytes, more) {
        Ok(sent) => Ok(sent.min(bytes.len())),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(error) => Err(error),
    }
}

/// Fills `buffer` from `file` at `offset`.
pub(crate) fn read_exactly(
    file: &OwnedFd,
    mut buffer: &mut [u8],
    mut offset: u64,
) -> Result<(), Errno> {
    while !buffer.is_empty() {
        match rustix::io::pread(file, &mut *buffer, offset) {
            Ok(0) => return Err(Errno::IO),
            Ok(read) => {
                offset += read as u64;
                buffer = buffer.get_mut(read..).unwrap_or_default();
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
