//! The server's side of a connection: requests are answered with what the log says of them.

use replay::catalogue::{Catalogue, Response};
use replay::content;

use crate::serve::server::{Now, Protocol, Step};
use crate::sockets::{Errno, Handle, More, Ready, Sockets};
use http1::request::{self, Method, Request};
use http1::response::{push_field, push_length, push_status};
use http1::{Framing, Refusal};

/// The field of a request that names its transaction: its number, counted from 0, and `now` if the
/// response shall not wait until the logged one had ended.
pub(super) const FIELD: &str = "Replay-Transaction";

/// Bytes of a body per write.
const PIECE: usize = 64 * 1024;
/// Writes per turn and connection.
const WRITES: usize = 8;
/// Bytes per read.
const READ: usize = 64 * 1024;

/// What a connection is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It waits for a request, or for the rest of it.
    Head,
    /// So much of the request's body is still to come; then it is answered.
    Body(u64, Answer),
    /// The response begins at this time, microseconds of the server's clock.
    Held(u64, Answer),
    /// So much of the response is sent, head included.
    Sending(u64, Answer),
}

/// Which response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    /// 200, or what is wrong with the request.
    status: u16,
    /// Of the transaction, if the status is 200.
    number: u64,
    bodiless: bool,
    keep_alive: bool,
    at_once: bool,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Conn {
    /// Received and not yet parsed.
    input: Vec<u8>,
    phase: Phase,
}

/// The protocol.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) catalogue: Catalogue,
    idle_ms: u64,
    limits: request::Limits,
    input: Vec<u8>,
    output: Vec<u8>,
    stopping: bool,
    /// Responses of the log.
    pub(super) served: u64,
    /// Requests that the log does not have, or that are none.
    pub(super) refused: u64,
    /// Bytes sent.
    pub(super) bytes: u64,
}

/// How a step of a connection ended.
enum Did {
    /// It waits for this.
    Step(Step),
    /// There may be more to do.
    Something,
}

impl Answers {
    /// Answers out of `catalogue`.
    pub(super) fn new(catalogue: Catalogue, idle_ms: u64) -> Self {
        Self {
            catalogue,
            idle_ms,
            limits: request::Limits::default(),
            input: vec![0; READ],
            output: Vec::with_capacity(2 * PIECE),
            stopping: false,
            served: 0,
            refused: 0,
            bytes: 0,
        }
    }

    fn wait(&self, interest: Ready, now: Now) -> Did {
        Did::Step(Step::Wait {
            interest,
            deadline: now.millis + self.idle_ms,
        })
    }

    /// Takes what arrived; `None`: there was something.
    fn receive<S: Sockets>(
        &mut self,
        sockets: &mut S,
        socket: Handle,
        conn: &mut Conn,
    ) -> Option<Step> {
        match sockets.read(socket, &mut self.input) {
            Ok(0) => Some(Step::Close),
            Ok(read) => {
                conn.input.extend_from_slice(&self.input[..read]);
                None
            }
            Err(Errno::AGAIN | Errno::INTR) => None,
            Err(_) => Some(Step::Abort),
        }
    }

    /// Takes what arrives while a response is held back: more requests, or the end.
    fn receive_early<S: Sockets>(
        &mut self,
        sockets: &mut S,
        socket: Handle,
        conn: &mut Conn,
    ) -> Step {
        match sockets.read(socket, &mut self.input) {
            // The client may have said all and still listen.
            Ok(0) => until_delay(Ready::empty()),
            Ok(read) => {
                conn.input.extend_from_slice(&self.input[..read]);
                let has_room = conn.input.len() < READ;
                until_delay(if has_room { Ready::IN } else { Ready::empty() })
            }
            Err(Errno::AGAIN | Errno::INTR) => until_delay(Ready::IN),
            Err(_) => Step::Abort,
        }
    }

    /// The next request of what has arrived.
    fn head(&mut self, conn: &mut Conn, now: Now) -> Did {
        match request::parse(&conn.input, &self.limits) {
            Ok(None) => return self.wait(Ready::IN, now),
            Ok(Some((request, length))) => {
                let head = &conn.input[..length];
                let answer = answer(&self.catalogue, &request, head);
                conn.phase = match request.framing {
                    Framing::Length(body) => Phase::Body(body, answer),
                    Framing::Empty => Phase::Body(0, answer),
                    // Clients of a log say how long a body is.
                    Framing::Chunked | Framing::UntilClose => Phase::Body(0, refusal(411)),
                };
                conn.input.drain(..length);
            }
            Err(Refusal(status)) => {
                conn.input.clear();
                conn.phase = Phase::Body(0, refusal(status));
            }
        }
        Did::Something
    }

    /// Throws away what has arrived of the request's body, and chooses when to answer.
    fn body(&mut self, conn: &mut Conn, left: u64, answer: Answer, now: Now) -> Did {
        let here = left.min(conn.input.len() as u64);
        conn.input.drain(..here as usize);
        if here < left {
            conn.phase = Phase::Body(left - here, answer);
            return self.wait(Ready::IN, now);
        }
        let delay = match self.response(answer) {
            Some(response) if !answer.at_once => response.duration_us,
            _ => 0,
        };
        if delay == 0 {
            conn.phase = Phase::Sending(0, answer);
            return Did::Something;
        }
        let until = now.micros + delay;
        conn.phase = Phase::Held(until, answer);
        Did::Step(Step::Delay { until })
    }

    fn response(&self, answer: Answer) -> Option<Response<'_>> {
        let found = self.catalogue.get(answer.number);
        found.filter(|_| answer.status == 200)
    }

    /// Sends what the socket takes.
    fn send<S: Sockets>(
        &mut self,
        sockets: &mut S,
        socket: Handle,
        conn: &mut Conn,
        answer: Answer,
        now: Now,
    ) -> Did {
        let Phase::Sending(mut sent, _) = conn.phase else {
            return Did::Something;
        };
        for _ in 0..WRITES {
            let (all, last) = self.prepare(sent, answer);
            if all {
                return self.done(conn, answer);
            }
            let closes = last && !answer.keep_alive && conn.input.is_empty();
            let more = if closes { More::Close } else { More::Follows };
            let wrote = match sockets.write(socket, &self.output, more) {
                Ok(wrote) => wrote,
                Err(Errno::AGAIN | Errno::INTR) => 0,
                Err(_) => return Did::Step(Step::Abort),
            };
            sent += wrote as u64;
            self.bytes += wrote as u64;
            conn.phase = Phase::Sending(sent, answer);
            if last && wrote == self.output.len() {
                return self.done(conn, answer);
            }
            if wrote < self.output.len() {
                break;
            }
        }
        self.wait(Ready::OUT, now)
    }

    /// Puts the next piece of a response of which `sent` bytes are out into `output`; whether there
    /// is none, and whether it is the last.
    fn prepare(&mut self, sent: u64, answer: Answer) -> (bool, bool) {
        let mut output = std::mem::take(&mut self.output);
        output.clear();
        let response = self.response(answer);
        let bytes = response.map_or(0, |response| response.bytes);
        let body = if answer.bodiless { 0 } else { bytes };
        head(&mut output, answer, bytes);
        let head = output.len() as u64;
        let offset = sent.saturating_sub(head);
        output.drain(..sent.min(head) as usize);
        if let Some(response) = response.filter(|_| !answer.bodiless) {
            content::append(response.seeds, body, offset, PIECE, &mut output);
        }
        self.output = output;
        let end = sent + self.output.len() as u64;
        (sent >= head + body, end >= head + body)
    }

    fn done(&mut self, conn: &mut Conn, answer: Answer) -> Did {
        if answer.status == 200 {
            self.served += 1;
        } else {
            self.refused += 1;
        }
        conn.phase = Phase::Head;
        if answer.keep_alive && !self.stopping {
            return Did::Something;
        }
        Did::Step(if conn.input.is_empty() && answer.status == 200 {
            Step::Close
        } else {
            Step::Linger
        })
    }
}

fn head(out: &mut Vec<u8>, answer: Answer, bytes: u64) {
    push_status(out, answer.status);
    push_length(out, bytes);
    if !answer.keep_alive {
        push_field(out, "Connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
}

/// What a request is answered with.
fn answer(catalogue: &Catalogue, request: &Request<'_>, head: &[u8]) -> Answer {
    let named = request::field(head, FIELD).map(number);
    let (number, at_once) = match named {
        Some(Some(named)) => named,
        // It is no number.
        Some(None) => (u64::MAX, true),
        // Not of a log: there is no time to keep.
        None => (catalogue.find(request.target).unwrap_or(u64::MAX), true),
    };
    let known = catalogue.get(number).is_some();
    Answer {
        status: if known { 200 } else { 404 },
        number,
        bodiless: request.method == Method::Head,
        keep_alive: request.keep_alive,
        at_once,
    }
}

/// Waits on for the end of a delay that is set.
fn until_delay(interest: Ready) -> Step {
    let deadline = u64::MAX;
    Step::Wait { interest, deadline }
}

/// What the field says.
fn number(value: &[u8]) -> Option<(u64, bool)> {
    let text = std::str::from_utf8(value).ok()?;
    let (number, at_once) = match text.trim().split_once(' ') {
        Some((number, "now")) => (number, true),
        Some(_) => return None,
        None => (text.trim(), false),
    };
    number.parse().ok().map(|number| (number, at_once))
}

/// An answer to what cannot be understood; nothing comes after it.
fn refusal(status: u16) -> Answer {
    Answer {
        status,
        number: u64::MAX,
        bodiless: false,
        keep_alive: false,
        at_once: true,
    }
}

impl Protocol for Answers {
    type Conn = Conn;

    fn accepted<S: Sockets>(&mut self, _: &S, _: Handle, now: Now) -> (Conn, u64) {
        let conn = Conn {
            input: Vec::new(),
            phase: Phase::Head,
        };
        (conn, now.millis + self.idle_ms)
    }

    fn ready<S: Sockets>(
        &mut self,
        sockets: &mut S,
        socket: Handle,
        conn: &mut Conn,
        ready: Ready,
        now: Now,
    ) -> Step {
        if let (Phase::Held(..), true) = (conn.phase, ready.contains(Ready::IN)) {
            return self.receive_early(sockets, socket, conn);
        }
        let receives = matches!(conn.phase, Phase::Head | Phase::Body(..));
        if receives && ready.readable() {
            if let Some(step) = self.receive(sockets, socket, conn) {
                return step;
            }
        } else if ready.contains(Ready::HUP) || ready.contains(Ready::ERR) {
            return Step::Abort;
        }
        loop {
            let did = match conn.phase {
                Phase::Head => self.head(conn, now),
                Phase::Body(left, answer) => self.body(conn, left, answer, now),
                Phase::Held(until, _) if now.micros < until => Did::Step(until_delay(Ready::IN)),
                Phase::Held(_, answer) => {
                    conn.phase = Phase::Sending(0, answer);
                    Did::Something
                }
                Phase::Sending(_, answer) => self.send(sockets, socket, conn, answer, now),
            };
            if let Did::Step(step) = did {
                return step;
            }
        }
    }

    fn expired<S: Sockets>(&mut self, _: &mut S, _: Handle, conn: &mut Conn, _: Now) -> Step {
        match conn.phase {
            Phase::Head if conn.input.is_empty() => Step::Close,
            _ => Step::Abort,
        }
    }

    fn stop(&mut self, conn: &mut Conn) -> bool {
        self.stopping = true;
        conn.phase == Phase::Head && conn.input.is_empty()
    }
}
