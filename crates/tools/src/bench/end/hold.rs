//! A client that fills the server with connections and holds still, so that what they cost in
//! memory can be read.

use std::io::{BufRead, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::sockets::{Errno, Handle, More, Ready, Sockets};

use super::work::{BUFFER, WorkArgs};

/// Connections made first, which fill what is made once and kept: buffers, the pages of the link.
pub(crate) const FIRST: u32 = 2048;
/// Connections that are being made at a time.
const AT_ONCE: u32 = 512;
/// Without progress for this long, it is over.
const HOLD_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Absent,
    Connecting,
    Asked,
    /// Answered, and the server keeps the connection.
    Kept,
    /// Answered, and the server is about to close.
    Closing,
}

/// The client. With one message per connection the server closes first and is left with a TIME_WAIT
/// for each; with more (or 0) they stay.
pub(crate) struct Holder<'a, S> {
    sockets: &'a mut S,
    work: WorkArgs,
    targets: &'a [SocketAddr],
    states: Vec<State>,
    begun: u32,
    /// Answered and kept, or answered and closed.
    done: u32,
    message: Vec<u8>,
    buffer: Vec<u8>,
}

impl<'a, S: Sockets> Holder<'a, S> {
    /// One that has done nothing yet.
    pub(crate) fn new(sockets: &'a mut S, work: WorkArgs, targets: &'a [SocketAddr]) -> Self {
        Self {
            sockets,
            work,
            targets,
            states: Vec::new(),
            begun: 0,
            done: 0,
            message: vec![b'q'; work.size as usize],
            buffer: vec![0; BUFFER],
        }
    }

    /// Makes the first connections, then, after a line of `input`, the others, and says how many
    /// there are each time; after one line more asks every kept one once more and returns how many
    /// answered.
    ///
    /// # Errors
    /// The link is gone, or nobody listens to what is said.
    pub(crate) fn run(mut self, input: impl BufRead) -> anyhow::Result<u32> {
        let mut lines = input.lines();
        for connections in [FIRST.min(self.work.concurrency), self.work.concurrency] {
            self.work_until(connections, true)?;
            writeln!(std::io::stdout().lock(), "{}", self.done)?;
            // The end of the input is an answer, too.
            let _ = lines.next();
        }
        Ok(self.ask_again()?)
    }

    fn ask_again(&mut self) -> Result<u32, Errno> {
        let kept: Vec<u32> = (0..)
            .zip(&self.states)
            .filter(|(_, state)| **state == State::Kept)
            .map(|(index, _)| index)
            .collect();
        self.done = 0;
        for piece in kept.chunks(AT_ONCE as usize) {
            let asked = piece
                .iter()
                .filter(|index| self.ask(Handle(**index)))
                .count();
            self.work_until(self.done + asked as u32, false)?;
        }
        Ok(self.done)
    }

    /// Works until `done` has reached `wanted`, or there is no progress.
    fn work_until(&mut self, wanted: u32, connect: bool) -> Result<(), Errno> {
        let mut events = Vec::with_capacity(1024);
        let mut progress = (self.done, Instant::now());
        while self.done < wanted && progress.1.elapsed() < HOLD_TIMEOUT {
            while connect && self.begun < wanted && self.begun - self.done < AT_ONCE {
                self.connect()?;
            }
            self.sockets
                .wait(&mut events, Some(Duration::from_millis(100)))?;
            for event in &events {
                self.ready(Handle(event.data as u32), event.ready);
            }
            if self.done != progress.0 {
                progress = (self.done, Instant::now());
            }
        }
        Ok(())
    }

    fn connect(&mut self) -> Result<(), Errno> {
        let index = self.begun as usize % self.targets.len().max(1);
        let target = *self.targets.get(index).ok_or(Errno::INVAL)?;
        let socket = self.sockets.connect(None, target, false)?;
        let interest = Ready::IN | Ready::OUT | Ready::RDHUP | Ready::ET;
        self.sockets.add(socket, interest, u64::from(socket.0))?;
        self.begun += 1;
        let index = socket.0 as usize;
        if index >= self.states.len() {
            self.states.resize(index + 1024, State::Absent);
        }
        self.put(socket, State::Connecting);
        Ok(())
    }

    fn put(&mut self, socket: Handle, state: State) {
        if let Some(slot) = self.states.get_mut(socket.0 as usize) {
            *slot = state;
        }
    }

    fn ask(&mut self, socket: Handle) -> bool {
        let sent = self.sockets.write(socket, &self.message, More::Follows);
        if sent == Ok(self.message.len()) {
            self.put(socket, State::Asked);
            return true;
        }
        self.give_up(socket);
        false
    }

    fn give_up(&mut self, socket: Handle) {
        self.put(socket, State::Absent);
        self.sockets.abort(socket);
    }

    fn ready(&mut self, socket: Handle, ready: Ready) {
        let state = self.states.get(socket.0 as usize).copied();
        let state = state.unwrap_or(State::Absent);
        if state == State::Absent {
            return;
        }
        if ready.intersects(Ready::ERR) {
            return self.give_up(socket);
        }
        if state == State::Connecting && ready.contains(Ready::OUT) {
            self.ask(socket);
        }
        if state == State::Asked && ready.contains(Ready::IN) {
            self.answered(socket);
        }
        let closing = self.states.get(socket.0 as usize) == Some(&State::Closing);
        if closing && ready.contains(Ready::RDHUP) {
            self.put(socket, State::Absent);
            self.done += 1;
            self.sockets.close(socket);
        }
    }

    fn answered(&mut self, socket: Handle) {
        match self.sockets.read(socket, &mut self.buffer) {
            Ok(read) if read == self.message.len() => {}
            Err(Errno::AGAIN | Errno::INTR) => return,
            // Messages here are too small to come in two pieces.
            Ok(_) | Err(_) => return self.give_up(socket),
        }
        if self.work.messages == 1 {
            self.put(socket, State::Closing);
        } else {
            self.put(socket, State::Kept);
            self.done += 1;
        }
    }
}
