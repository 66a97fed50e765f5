//! What an application is going to do.

use std::net::SocketAddr;
use std::time::Duration;

use mtcp_core::command::Options;
use mtcp_core::{Error, Token};
use wire::time::Instant;

/// What an application sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Its own [`crate::Pattern`], as many bytes as the plan says.
    Pattern,
    /// What it receives.
    Echo,
}

/// What an application makes of what it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The peer's pattern. Anything else is a failure of the run.
    Pattern,
    /// Its own pattern, from an echo.
    Echo,
    /// Whatever.
    Anything,
}

/// How an application ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// `Shutdown` when all is written; `Close` at the peer's end of file.
    HalfClose,
    /// `Close` when all is written and the peer's end of file was read.
    AfterEof,
    /// `Close` when all is written and this many bytes were read, whatever the peer does.
    AfterBytes(u64),
    /// `Abort` when this many bytes were read and written together, or all of them.
    Abort(u64),
    /// As `HalfClose`, this long after all is written.
    Hold(Duration),
}

/// What an application does with one connection. The default sends nothing and shuts down at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Fewest and most bytes to send.
    pub send: (u64, u64),
    /// What to send.
    pub content: Content,
    /// What to receive.
    pub expect: Expect,
    /// Fewest and most bytes of one write.
    pub write_size: (u32, u32),
    /// Fewest and most bytes of one read.
    pub read_size: (u32, u32),
    /// The end of some writes is urgent data. Readers take it in line, so that every byte counts.
    pub urgent: bool,
    /// Longest pause after a write; zero: writes until the stream is full.
    pub write_pause: Duration,
    /// Longest pause after a read; zero: reads until the stream is empty.
    pub read_pause: Duration,
    /// Pause before the first read.
    pub first_read: Duration,
    /// How it ends.
    pub ending: Ending,
    /// `Abort` so long after it was opened, in whatever state it is then.
    pub abort_after: Option<Duration>,
    /// Before `Close`, shut down and wait until the peer has acknowledged everything, as with
    /// SO_LINGER: nobody sends for an application that has closed for ever.
    pub linger: bool,
    /// Attempts to connect before the error counts.
    pub tries: u32,
    /// Socket options.
    pub options: Options,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            send: (0, 0),
            content: Content::Pattern,
            expect: Expect::Pattern,
            write_size: (1, 16 << 10),
            read_size: (1, 16 << 10),
            urgent: false,
            write_pause: Duration::ZERO,
            read_pause: Duration::ZERO,
            first_read: Duration::ZERO,
            ending: Ending::HalfClose,
            abort_after: None,
            linger: false,
            tries: 1,
            options: Options::default(),
        }
    }
}

impl Plan {
    /// Sends exactly `bytes`.
    #[must_use]
    pub fn sends(self, bytes: u64) -> Self {
        Self {
            send: (bytes, bytes),
            ..self
        }
    }

    /// Sends back what it receives and ends after the peer.
    #[must_use]
    pub fn echo() -> Self {
        Self {
            content: Content::Echo,
            ending: Ending::AfterEof,
            ..Self::default()
        }
    }

    /// Ends so.
    #[must_use]
    pub fn ends(self, ending: Ending) -> Self {
        Self { ending, ..self }
    }
}

/// What a listener does with those who come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ListenPlan {
    /// Where.
    pub local: SocketAddr,
    /// IPV6_V6ONLY.
    pub only_v6: bool,
    /// See `Command::Listen`.
    pub backlog: u32,
    /// Longest time until `Accept` is called.
    pub accept_delay: Duration,
    /// Connections out of 100 that are aborted instead of accepted.
    pub refuse_percent: u32,
    /// What is done with accepted ones.
    pub plan: Plan,
}

impl ListenPlan {
    /// Accepts everybody at once.
    pub fn new(local: SocketAddr, plan: Plan) -> Self {
        Self {
            local,
            only_v6: false,
            backlog: 1024,
            accept_delay: Duration::ZERO,
            refuse_percent: 0,
            plan,
        }
    }
}

/// Many connections to one place, some at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadPlan {
    /// Where to.
    pub remote: SocketAddr,
    /// Connections in all.
    pub total: u64,
    /// Connections at a time.
    pub concurrent: u64,
    /// Longest pause between the end of one and the start of the next.
    pub gap: Duration,
    /// What each does.
    pub plan: Plan,
}

/// What became of a connection, from the application's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Record {
    pub token: Token,
    /// It was opened by this side.
    pub active: bool,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub connected: bool,
    /// Bytes written to the stream.
    pub sent: u64,
    pub received: u64,
    /// The peer's end of file was read.
    pub eof: bool,
    /// We aborted it.
    pub aborted: bool,
    pub error: Option<Error>,
    /// Attempts to connect.
    pub tries: u32,
    pub opened_at: Instant,
    pub closed_at: Instant,
}

impl Record {
    /// It worked, and the peer's end of file was seen.
    pub fn is_clean(&self) -> bool {
        self.connected && self.eof && !self.aborted && self.error.is_none()
    }
}
