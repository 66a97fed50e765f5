//! One request and its response on a connection: what is left to send, and whether what arrives is
//! what the log says.

use replay::content;

use crate::load::stats::Kind;
use crate::sockets::{Errno, Handle, More, Sockets};
use http1::reply::{Progress, Reply};

use super::schedule::Job;

/// Bytes of a request's body per write.
const PIECE: usize = 16 * 1024;
/// A request's body.
static BODY: [u8; PIECE] = [b'q'; PIECE];
/// Writes per turn.
const ROUNDS: usize = 16;

/// A transaction on its way.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) job: Job,
    /// Bytes of the request that are out.
    sent: u64,
    reply: Reply,
    /// Bytes of the body that came, all of them right.
    received: u64,
}

/// How sending ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// All of it, or as much as the socket takes.
    Enough(u64),
    /// It would take more, but others want a turn.
    More(u64),
    Failed(Kind),
}

impl Exchange {
    pub(super) fn new(job: Job) -> Self {
        let reply = Reply::http(job.task.bodiless);
        Self {
            job,
            sent: 0,
            reply,
            received: 0,
        }
    }

    /// Whether nothing of a response came yet.
    pub(super) fn is_unanswered(&self) -> bool {
        !self.reply.begun
    }

    fn request_bytes(&self) -> u64 {
        self.job.task.head.len() as u64 + self.job.task.request_bytes
    }

    /// Whether the connection may be used again, by what the log and what the server says.
    pub(super) fn keeps(&self) -> bool {
        let all_sent = self.sent >= self.request_bytes();
        self.job.task.keep_alive && self.reply.keep_alive && all_sent
    }

    /// Sends what is left of the request.
    pub(super) fn send<S: Sockets>(&mut self, sockets: &mut S, socket: Handle) -> Sent {
        let before = self.sent;
        for _ in 0..ROUNDS {
            let left = self.request_bytes() - self.sent;
            if left == 0 {
                return Sent::Enough(self.sent - before);
            }
            let head = self.job.task.head.get(self.sent as usize..);
            let piece = match head.filter(|head| !head.is_empty()) {
                Some(head) => head,
                None => &BODY[..left.min(PIECE as u64) as usize],
            };
            match sockets.write(socket, piece, More::Follows) {
                Ok(sent) => self.sent += sent as u64,
                // The server may have answered and closed before it read all: what it said decides.
                Err(Errno::AGAIN | Errno::PIPE | Errno::CONNRESET) => {
                    return Sent::Enough(self.sent - before);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Sent::Failed(Kind::of(error, true, false)),
            }
        }
        Sent::More(self.sent - before)
    }

    /// Takes what arrived; whether the response is complete.
    ///
    /// # Errors
    /// It is none, or not the one that the log has.
    pub(super) fn take(&mut self, input: &[u8], scratch: &mut [u8]) -> Result<bool, Kind> {
        let (task, received) = (&self.job.task, &mut self.received);
        let mut check = |piece: &[u8]| {
            let fits = *received + piece.len() as u64 <= task.response_bytes;
            let differs = content::compare(&task.seeds, *received, piece, scratch);
            if !fits || differs.is_some() {
                return Err(Kind::BadContent);
            }
            *received += piece.len() as u64;
            Ok(())
        };
        // What a response of an error has is not in the log.
        let progress = self.reply.take(input, &mut |status, piece| match status {
            200 => check(piece),
            _ => Ok(()),
        })?;
        match progress {
            Progress::More => Ok(false),
            Progress::Done(0) => self.check_end().map(|()| true),
            // Nothing was asked for that these bytes could answer.
            Progress::Done(_) => Err(Kind::BadResponse),
        }
    }

    /// The connection ended: whether the response is complete thereby.
    pub(super) fn end(&mut self) -> Result<(), Kind> {
        self.reply.end()?;
        self.check_end()
    }

    fn check_end(&self) -> Result<(), Kind> {
        let task = &self.job.task;
        let expected = if task.bodiless {
            0
        } else {
            task.response_bytes
        };
        match (self.reply.status, self.received == expected) {
            (200, true) => Ok(()),
            (200, false) => Err(Kind::BadContent),
            _ => Err(Kind::BadStatus),
        }
    }
}
