//! `splice`: bytes between a connection and a pipe, without the program seeing them.

use std::time::Duration;

use super::constants::{EINVAL, SPLICE_F_NONBLOCK};
use super::descriptors::File;
use super::pipe::CAPACITY;
use super::{Outcome, Process, fail};

impl Process {
    /// Moves at most `len` bytes; one of the two descriptors is a pipe, the other is not.
    pub(super) fn splice(&mut self, from: i32, to: i32, len: usize) -> Option<Outcome> {
        let is_pipe = |fd| Ok(matches!(self.table.file(fd)?, File::Pipe(_)));
        match (is_pipe(from), is_pipe(to)) {
            (Err(error), _) | (_, Err(error)) => Some(Err(error)),
            (Ok(false), Ok(true)) => self.splice_in(from, to, len),
            (Ok(true), Ok(false)) => self.splice_out(from, to, len),
            _ => Some(fail(EINVAL)),
        }
    }

    /// From a connection, as much as the pipe has room for.
    fn splice_in(&mut self, from: i32, pipe: i32, len: usize) -> Option<Outcome> {
        let room = CAPACITY - self.pipe_len(pipe);
        if room == 0 && len > 0 {
            return None;
        }
        let outcome = self.recv(from, len.min(room), 0)?;
        if let Ok(reply) = &outcome
            && !reply.data.is_empty()
        {
            return self.write_file(pipe, &reply.data);
        }
        Some(outcome)
    }

    /// To a connection; what it does not take stays in the pipe.
    fn splice_out(&mut self, pipe: i32, to: i32, len: usize) -> Option<Outcome> {
        let len = len.min(self.pipe_len(pipe));
        if len == 0 {
            // An end of file, or nothing yet.
            return self.read_file(pipe, 1);
        }
        let bytes = self.pipe_front(pipe, len);
        let mut written = 0;
        let outcome = self.send(to, &bytes, 0, &mut written);
        if written == 0 {
            return outcome;
        }
        self.read_file(pipe, written)
    }

    /// How long `splice` may wait.
    pub(super) fn splice_limit(&self, from: i32, flags: i32) -> Option<Duration> {
        if flags & SPLICE_F_NONBLOCK != 0 {
            return Some(Duration::ZERO);
        }
        self.wait_limit(from, 0, true)
    }
}
