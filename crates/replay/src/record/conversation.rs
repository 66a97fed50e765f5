//! What two ends of a connection say: requests, and their responses.

use std::collections::VecDeque;
use std::net::IpAddr;

use http1::Framing;
use http1::chunked::Decoder;
use http1::reply::{Progress, Reply};
use http1::request::{self, Limits, Method};

use crate::{Digest, Transaction};

use super::chunker::Chunker;
use super::order::{Order, Place};
use super::report::Recorded;

/// Requests that may wait for their responses.
const PIPELINED_MAX: usize = 1024;

/// A request head of a capture may be so long.
const LIMITS: Limits = Limits {
    target: 4096,
    head: 65_536,
};

/// A request whose response has not ended.
#[derive(Debug)]
struct Asked {
    place: Place,
    method: String,
    url: String,
    request_bytes: u64,
    keep_alive: bool,
    bodiless: bool,
    connects: bool,
}

/// Where a client is in what it says.
#[derive(Debug)]
enum Asking {
    Head,
    Body(u64),
    Chunks(Decoder),
}

/// Where a server is.
#[derive(Debug)]
struct Answering {
    reply: Reply,
    chunker: Chunker,
    /// The capture has not all of the body.
    has_gap: bool,
}

/// What all connections share.
pub(super) struct Shared {
    pub(super) order: Order,
    pub(super) report: Recorded,
    pub(super) digest: Digest,
}

/// A connection as HTTP/1.1.
#[derive(Debug)]
pub(super) struct Conversation {
    number: u64,
    client: IpAddr,
    asking: Asking,
    input: Vec<u8>,
    head_began_us: Option<u64>,
    asked: VecDeque<Asked>,
    answering: Option<Answering>,
    /// Nothing that comes is understood, or is meant to be.
    is_over: bool,
    transactions: u64,
}

impl Conversation {
    pub(super) fn new(number: u64, client: IpAddr) -> Self {
        Self {
            number,
            client,
            asking: Asking::Head,
            input: Vec::new(),
            head_began_us: None,
            asked: VecDeque::new(),
            answering: None,
            is_over: false,
            transactions: 0,
        }
    }

    /// Whether nothing that comes is looked at any more.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Ends it: what was asked for is left out.
    fn give_up(&mut self, shared: &mut Shared) {
        self.is_over = true;
        self.input = Vec::new();
        self.answering = None;
        for asked in self.asked.drain(..) {
            shared.order.leave_out(asked.place);
            shared.report.unfinished += 1;
        }
    }

    /// The client says this.
    pub(super) fn request(&mut self, mut bytes: &[u8], time_us: u64, shared: &mut Shared) {
        while !self.is_over && !bytes.is_empty() {
            let used = match &mut self.asking {
                Asking::Head => self.request_head(bytes, time_us, shared),
                Asking::Body(left) => {
                    let used = bytes
                        .len()
                        .min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= used as u64;
                    if *left == 0 {
                        self.asking = Asking::Head;
                    }
                    used
                }
                Asking::Chunks(_) => self.request_chunk(bytes, shared),
            };
            bytes = bytes.get(used..).unwrap_or_default();
        }
    }

    /// Takes the head of a request, or all there is of it; how much that was.
    fn request_head(&mut self, bytes: &[u8], time_us: u64, shared: &mut Shared) -> usize {
        let began_us = *self.head_began_us.get_or_insert(time_us);
        let before = self.input.len();
        self.input.extend_from_slice(bytes);
        let (asked, framing, length) = match request::parse(&self.input, &LIMITS) {
            Ok(None) => return bytes.len(),
            Ok(Some((request, length))) => {
                let asked = Asked {
                    place: shared.order.begin(began_us),
                    method: request.name.to_owned(),
                    url: url(&request),
                    request_bytes: match request.framing {
                        Framing::Length(bytes) => bytes,
                        _ => 0,
                    },
                    keep_alive: request.keep_alive,
                    bodiless: request.method == Method::Head,
                    connects: request.name == "CONNECT",
                };
                (asked, request.framing, length)
            }
            Err(_) => {
                if self.transactions == 0 && self.asked.is_empty() {
                    shared.report.not_http += 1;
                } else {
                    shared.report.not_understood += 1;
                }
                self.give_up(shared);
                return bytes.len();
            }
        };
        self.asked.push_back(asked);
        if self.asked.len() > PIPELINED_MAX {
            shared.report.not_understood += 1;
            self.give_up(shared);
            return bytes.len();
        }
        self.asking = match framing {
            Framing::Length(left) if left > 0 => Asking::Body(left),
            Framing::Chunked => Asking::Chunks(Decoder::new()),
            _ => Asking::Head,
        };
        self.input.clear();
        self.head_began_us = None;
        // The head was not complete before, so that it ends in these bytes.
        length.saturating_sub(before)
    }

    fn request_chunk(&mut self, bytes: &[u8], shared: &mut Shared) -> usize {
        let Asking::Chunks(decoder) = &mut self.asking else {
            return bytes.len();
        };
        let Ok(piece) = decoder.step(bytes) else {
            shared.report.not_understood += 1;
            self.give_up(shared);
            return bytes.len();
        };
        if let Some(asked) = self.asked.back_mut() {
            asked.request_bytes += piece.data as u64;
        }
        if decoder.done() {
            self.asking = Asking::Head;
        }
        piece.used
    }

    /// The capture lacks so much of what the client says.
    pub(super) fn request_lost(&mut self, lost: u64, shared: &mut Shared) {
        if self.is_over {
            return;
        }
        shared.report.lost(lost);
        match &mut self.asking {
            // Nobody looks at it.
            Asking::Body(left) if lost <= *left => {
                *left -= lost;
                if *left == 0 {
                    self.asking = Asking::Head;
                }
            }
            _ => {
                shared.report.not_followed += 1;
                self.give_up(shared);
            }
        }
    }

    /// The server says this.
    pub(super) fn response(&mut self, mut bytes: &[u8], time_us: u64, shared: &mut Shared) {
        while !self.is_over && !bytes.is_empty() {
            let Some(asked) = self.asked.front() else {
                // An answer to nobody: what was asked for is not in the capture.
                if self.transactions == 0 {
                    shared.report.not_http += 1;
                } else {
                    shared.report.not_understood += 1;
                }
                self.give_up(shared);
                return;
            };
            let (bodiless, connects) = (asked.bodiless, asked.connects);
            let answering = self.answering.get_or_insert_with(|| Answering {
                reply: Reply::http(bodiless),
                chunker: Chunker::default(),
                has_gap: false,
            });
            let (chunker, digest) = (&mut answering.chunker, shared.digest);
            let taken = answering.reply.take(bytes, &mut |_, data| {
                chunker.take(data, digest);
                Ok::<(), http1::Refusal>(())
            });
            if answering.reply.status == 101 || (connects && answering.reply.status / 100 == 2) {
                // From here on it is another protocol.
                shared.report.other_protocol += 1;
                self.give_up(shared);
                return;
            }
            match taken {
                Ok(Progress::More) => return,
                Ok(Progress::Done(rest)) => {
                    bytes = bytes.get(bytes.len() - rest..).unwrap_or_default();
                    self.finish_response(time_us, shared);
                }
                Err(_) => {
                    shared.report.not_understood += 1;
                    self.give_up(shared);
                }
            }
        }
    }

    /// The capture lacks so much of what the server says.
    pub(super) fn response_lost(&mut self, lost: u64, time_us: u64, shared: &mut Shared) {
        if self.is_over {
            return;
        }
        shared.report.lost(lost);
        let skipped = self.answering.as_mut().is_some_and(|answering| {
            answering.has_gap = true;
            answering.reply.skip(lost)
        });
        if !skipped {
            shared.report.not_followed += 1;
            self.give_up(shared);
        } else if self
            .answering
            .as_ref()
            .is_some_and(|now| now.reply.is_done())
        {
            self.finish_response(time_us, shared);
        }
    }

    /// A response is complete.
    fn finish_response(&mut self, time_us: u64, shared: &mut Shared) {
        let (Some(asked), Some(answering)) = (self.asked.pop_front(), self.answering.take()) else {
            return;
        };
        self.transactions += 1;
        if answering.has_gap {
            shared.order.leave_out(asked.place);
            shared.report.incomplete += 1;
            return;
        }
        let transaction = Transaction {
            connection: self.number,
            client: self.client,
            start_us: asked.place.0,
            end_us: time_us.max(asked.place.0),
            method: asked.method,
            url: asked.url,
            request_bytes: asked.request_bytes,
            response_bytes: answering.chunker.bytes,
            keep_alive: asked.keep_alive && answering.reply.keep_alive,
            chunks: answering.chunker.finish(shared.digest),
        };
        shared.order.end(asked.place, transaction);
    }

    /// The connection ends.
    pub(super) fn end(&mut self, time_us: u64, shared: &mut Shared) {
        if self.is_over {
            return;
        }
        if self
            .answering
            .as_ref()
            .is_some_and(|now| now.reply.end().is_ok())
        {
            self.finish_response(time_us, shared);
        }
        self.give_up(shared);
    }
}

/// Whether these bytes begin with a whole request line, so that a connection can be followed from
/// here.
pub(super) fn begins_a_request(bytes: &[u8]) -> bool {
    let line = bytes
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let line = line.trim_ascii_end();
    let versions = [&b" HTTP/1.1"[..], b" HTTP/1.0"];
    let has_end = line.len() < bytes.len();
    has_end && versions.iter().any(|version| line.ends_with(version))
}

/// What a request asks for, with its host.
fn url(request: &request::Request<'_>) -> String {
    let target = String::from_utf8_lossy(request.target);
    if target.starts_with("http://") {
        return target.into_owned();
    }
    let slash = if target.starts_with('/') { "" } else { "/" };
    let host = request.host.and_then(|host| std::str::from_utf8(host).ok());
    match host.filter(|host| {
        !host.is_empty()
            && host
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'/')
    }) {
        Some(host) => format!("http://{host}{slash}{target}"),
        None => format!("{slash}{target}"),
    }
}
