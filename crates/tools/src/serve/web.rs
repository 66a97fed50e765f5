//! The static web server as a [`Protocol`]: reads, parses, answers, in the order that pipelining
//! demands.

use crate::sockets::{Errno, Handle, Ready, Sockets};
use http1::request::{self, Request};
use http1::{Refusal, response};

use super::access::{self, AccessLog, Answered};
use super::cache::Cache;
use super::conn::{After, Conn, Drained, Outbox};
use super::root::Root;
use super::server::{Now, Protocol, Step};

/// What the server is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Bounds on request heads.
    pub(crate) request: request::Limits,
    /// Until a request head must be complete, ms.
    pub(crate) header_timeout: u64,
    /// How long a connection may do nothing, ms.
    pub(crate) idle_timeout: u64,
    /// Largest body of a PUT, bytes.
    pub(crate) max_upload: u64,
    /// Memory for small files, bytes.
    pub(crate) cache_bytes: usize,
}

/// The protocol.
#[derive(Debug)]
pub(crate) struct Web {
    pub(crate) root: Root,
    pub(crate) uploads: Option<Root>,
    pub(crate) settings: Settings,
    pub(crate) cache: Cache,
    pub(crate) outbox: Outbox,
    pub(crate) access: Option<AccessLog>,
    /// A decoded path, reused.
    pub(crate) path: Vec<u8>,
    /// The Date field of the current second.
    pub(crate) date: (i64, String),
    pub(crate) stopping: bool,
    /// Numbers the uploads.
    pub(crate) uploads_begun: u64,
    /// Requests answered.
    pub(crate) served: u64,
    /// Of these, with an error status.
    pub(crate) refused: u64,
    input: Vec<u8>,
}

/// Responses collect up to this many bytes before they are written.
const HIGH: usize = 64 * 1024;
/// Bytes per read.
const READ: usize = 64 * 1024;
/// Rounds of parsing and writing per turn and connection.
const ROUNDS: usize = 16;

impl Web {
    /// A server of `root`, with uploads to `uploads` and answers noted in `access` if given.
    pub(crate) fn new(
        root: Root,
        uploads: Option<Root>,
        access: Option<AccessLog>,
        settings: Settings,
    ) -> Self {
        Self {
            root,
            uploads,
            settings,
            cache: Cache::new(settings.cache_bytes),
            outbox: Outbox::new(),
            access,
            path: Vec::new(),
            date: (i64::MIN, String::new()),
            stopping: false,
            uploads_begun: 0,
            served: 0,
            refused: 0,
            input: vec![0; READ],
        }
    }

    /// Reads once. `None`: nothing came.
    fn read<'a, S: Sockets>(
        sockets: &mut S,
        socket: Handle,
        buffer: &'a mut [u8],
    ) -> Result<Option<&'a [u8]>, Errno> {
        match sockets.read(socket, buffer) {
            Ok(read) => Ok(buffer.get(..read)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Answers what `input` holds, in turns with writing; leaves the rest in `conn.input`.
    fn work<S: Sockets>(
        &mut self,
        sockets: &mut S,
        socket: Handle,
        conn: &mut Conn,
        input: &[u8],
        now: Now,
    ) -> Step {
        let mut rest = input;
        let mut step = None;
        for _ in 0..ROUNDS {
            let before = rest.len();
            rest = self.parse(conn, rest, now);
            let moved = rest.len() < before || !self.outbox.out.is_empty() || conn.has_output();
            match conn.drain(sockets, socket, &mut self.outbox) {
                Drained::All => {}
                Drained::Blocked | Drained::Yield => {
                    step = Some(self.wait_to_write(conn, now));
                    break;
                }
                Drained::Failed => return Step::Abort,
            }
            let leaving = self.stopping && rest.is_empty() && conn.receiving.is_none();
            if conn.after != After::KeepAlive || leaving {
                return if conn.after == After::Linger || !rest.is_empty() {
                    Step::Linger
                } else {
                    Step::Close
                };
            }
            if !moved || rest.is_empty() {
                if conn.receiving.as_ref().is_some_and(|body| body.ends_soon()) {
                    sockets.acknowledge(socket);
                }
                step = Some(self.wait_to_read(conn, !rest.is_empty(), now));
                break;
            }
        }
        conn.input.extend_from_slice(rest);
        // Out of rounds: OUT brings us back at once, after the others.
        step.unwrap_or_else(|| self.wait_to_write(conn, now))
    }

    fn wait_to_write(&self, conn: &mut Conn, now: Now) -> Step {
        conn.deadline = now.millis + self.settings.idle_timeout;
        Step::Wait {
            interest: Ready::OUT,
            deadline: conn.deadline,
        }
    }

    /// A head has one deadline from its first byte on, however slowly it comes; bodies and silence
    /// have one per wait.
    fn wait_to_read(&self, conn: &mut Conn, partial: bool, now: Now) -> Step {
        let in_head = partial && conn.receiving.is_none();
        if !(in_head && conn.begun) {
            let timeout = if in_head {
                self.settings.header_timeout
            } else {
                self.settings.idle_timeout
            };
            conn.deadline = now.millis + timeout;
        }
        conn.begun = in_head;
        Step::Wait {
            interest: Ready::IN,
            deadline: conn.deadline,
        }
    }

    /// Parses and answers until the responses are many, or one is a file, or input runs out.
    fn parse<'b>(&mut self, conn: &mut Conn, mut input: &'b [u8], now: Now) -> &'b [u8] {
        while conn.after == After::KeepAlive && conn.file.is_none() && self.outbox.out.len() < HIGH
        {
            let before = self.outbox.out.len();
            let used = match conn.receiving.take() {
                Some(receiving) => self.receive(conn, receiving, input, now),
                None => self.request(conn, input, now),
            };
            self.note(conn, before, now);
            if used == 0 {
                break;
            }
            input = input.get(used..).unwrap_or_default();
        }
        input
    }

    /// Notes the answer that has begun since the outbox held `before` bytes, if one has.
    fn note(&mut self, conn: &mut Conn, before: usize, now: Now) {
        let Some(log) = self.access.as_mut() else {
            return;
        };
        let out = self.outbox.out.get(before..).unwrap_or_default();
        let Some((status, bytes)) = access::last_response(out) else {
            return;
        };
        let request = std::mem::take(&mut conn.asked);
        log.note(&Answered {
            peer: conn.peer,
            request: &request,
            status,
            bytes: bytes + conn.file.as_ref().map_or(0, |file| file.left),
            unix: now.unix,
        });
    }

    /// Parses one request head and begins its answer; 0: it is not complete.
    fn request(&mut self, conn: &mut Conn, input: &[u8], now: Now) -> usize {
        let fresh = input.get(conn.scanned.saturating_sub(2)..).unwrap_or(input);
        let hopeless = conn.begun && !has_end(fresh) && input.len() <= self.settings.request.head;
        conn.scanned = input.len();
        if input.is_empty() || hopeless {
            return 0;
        }
        let parsed = request::parse(input, &self.settings.request);
        if self.access.is_some() && !matches!(parsed, Ok(None)) {
            conn.asked = access::first_line(input).to_vec();
        }
        match parsed {
            Ok(Some((request, used))) => {
                conn.begun = false;
                conn.scanned = 0;
                self.answer(conn, &request, now);
                used
            }
            Ok(None) => 0,
            Err(refusal) => {
                self.refuse(conn, refusal, now);
                input.len()
            }
        }
    }

    /// An answer after which nothing that the peer says can be understood.
    pub(crate) fn refuse(&mut self, conn: &mut Conn, refusal: Refusal, now: Now) {
        conn.receiving = None;
        conn.after = After::Linger;
        self.error(refusal.0, true, false, true, now);
    }

    /// Status line, Server, Date and Connection of a response whose other fields follow.
    pub(crate) fn begin(&mut self, status: u16, keep_alive: bool, http11: bool, now: Now) {
        self.served += 1;
        self.refused += u64::from(status >= 400);
        response::push_status(&mut self.outbox.out, status);
        push_connection(
            &mut self.outbox.out,
            &mut self.date,
            keep_alive,
            http11,
            now,
        );
    }

    /// A whole error response; without its body for HEAD.
    pub(crate) fn error(
        &mut self,
        status: u16,
        body: bool,
        keep_alive: bool,
        http11: bool,
        now: Now,
    ) {
        self.begin(status, keep_alive, http11, now);
        if status == 405 {
            let allow: &[u8] = if self.uploads.is_some() {
                b"GET, HEAD, PUT"
            } else {
                b"GET, HEAD"
            };
            response::push_field(&mut self.outbox.out, "Allow", allow);
        }
        let reason = http1::reason(status).as_bytes();
        let out = &mut self.outbox.out;
        response::push_field(out, "Content-Type", b"text/plain; charset=utf-8");
        response::push_length(out, reason.len() as u64 + 5);
        out.extend_from_slice(b"\r\n");
        if body {
            response::push_number(out, u64::from(status));
            out.push(b' ');
            out.extend_from_slice(reason);
            out.push(b'\n');
        }
    }

    /// Whether the connection goes on after the response to `request`.
    pub(crate) fn keeps(&self, request: &Request<'_>) -> bool {
        request.keep_alive && !self.stopping
    }
}

/// Date, and Connection where it is not the default of the client's version. `date` is the field of
/// the last second it was asked for.
pub(crate) fn push_connection(
    out: &mut Vec<u8>,
    date: &mut (i64, String),
    keep_alive: bool,
    http11: bool,
    now: Now,
) {
    if date.0 != now.unix {
        *date = (now.unix, http1::date::format(now.unix));
    }
    response::push_field(out, "Date", date.1.as_bytes());
    match (keep_alive, http11) {
        (true, true) => {}
        (true, false) => response::push_field(out, "Connection", b"keep-alive"),
        (false, _) => response::push_field(out, "Connection", b"close"),
    }
}

/// Whether a head may end in `input`: what is not worth parsing again does not.
fn has_end(input: &[u8]) -> bool {
    input.windows(2).any(|pair| pair == b"\n\n")
        || input.windows(3).any(|triple| triple == b"\n\r\n")
}

impl Protocol for Web {
    type Conn = Conn;

    fn accepted<S: Sockets>(&mut self, sockets: &S, socket: Handle, now: Now) -> (Conn, u64) {
        let deadline = now.millis + self.settings.header_timeout;
        let mut conn = Conn::new(deadline);
        if self.access.is_some() {
            conn.peer = sockets.peer_addr(socket).ok().map(|peer| peer.ip());
        }
        (conn, deadline)
    }

    fn ready<S: Sockets>(
        &mut self,
        sockets: &mut S,
        socket: Handle,
        conn: &mut Conn,
        ready: Ready,
        now: Now,
    ) -> Step {
        self.outbox.out.clear();
        if conn.has_output() || !ready.readable() {
            let input = std::mem::take(&mut conn.input);
            return self.work(sockets, socket, conn, &input, now);
        }
        let mut buffer = std::mem::take(&mut self.input);
        let step = match Self::read(sockets, socket, &mut buffer) {
            Ok(Some([])) => Step::Close,
            Ok(None) => Step::Wait {
                interest: Ready::IN,
                deadline: conn.deadline,
            },
            Err(_) => Step::Abort,
            Ok(Some(fresh)) if conn.input.is_empty() => {
                self.work(sockets, socket, conn, fresh, now)
            }
            Ok(Some(fresh)) => {
                let mut input = std::mem::take(&mut conn.input);
                input.extend_from_slice(fresh);
                self.work(sockets, socket, conn, &input, now)
            }
        };
        self.input = buffer;
        step
    }

    fn expired<S: Sockets>(
        &mut self,
        sockets: &mut S,
        socket: Handle,
        conn: &mut Conn,
        now: Now,
    ) -> Step {
        if conn.has_output() {
            return Step::Abort;
        }
        if !conn.begun && conn.receiving.is_none() {
            return Step::Close;
        }
        self.outbox.out.clear();
        self.refuse(conn, Refusal(408), now);
        self.note(conn, 0, now);
        match conn.drain(sockets, socket, &mut self.outbox) {
            Drained::All => Step::Linger,
            _ => Step::Abort,
        }
    }

    fn stop(&mut self, conn: &mut Conn) -> bool {
        self.stopping = true;
        !conn.begun && !conn.has_output() && conn.receiving.is_none()
    }

    fn turned(&mut self) {
        if let Some(log) = self.access.as_mut() {
            log.flush();
        }
    }
}
