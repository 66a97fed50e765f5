//! A response as it arrives: complete, incomplete or wrong.

use crate::chunked::Decoder;
use crate::{Framing, Refusal, response};

#[derive(Debug)]
enum Phase {
    /// In the head; what came of it if it did not come at once.
    Head(Vec<u8>),
    Length(u64),
    Chunked(Decoder),
    UntilClose,
    Done,
}

/// A response in progress.
#[derive(Debug)]
pub struct Reply {
    phase: Phase,
    /// Responses to HEAD have no body.
    bodiless: bool,
    /// The status; 0 before the head is there.
    pub status: u16,
    /// Whether the connection can be used again.
    pub keep_alive: bool,
    /// Whether any byte came.
    pub begun: bool,
}

/// Takes bytes of a body, with the status of its response.
pub type Sink<'a, E> = dyn FnMut(u16, &[u8]) -> Result<(), E> + 'a;

/// The connection ended before the response did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished;

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More must come.
    More,
    /// All is there; so many bytes of the input were not part of it.
    Done(usize),
}

impl Reply {
    /// The response to an HTTP request.
    pub fn http(bodiless: bool) -> Self {
        Self {
            phase: Phase::Head(Vec::new()),
            bodiless,
            status: 0,
            keep_alive: true,
            begun: false,
        }
    }

    /// `length` bytes without a head.
    pub fn raw(length: u64) -> Self {
        Self {
            phase: Phase::Length(length),
            bodiless: false,
            status: 200,
            keep_alive: true,
            begun: false,
        }
    }

    /// Takes what arrived; bytes of the body go to `sink`, with the status.
    ///
    /// # Errors
    /// It is no response, or `sink` failed.
    pub fn take<E: From<Refusal>>(
        &mut self,
        input: &[u8],
        sink: &mut Sink<'_, E>,
    ) -> Result<Progress, E> {
        self.begun |= !input.is_empty();
        let used = match &mut self.phase {
            Phase::Head(stash) if stash.is_empty() => self.head(input)?,
            Phase::Head(stash) => {
                let before = stash.len();
                let mut all = std::mem::take(stash);
                all.extend_from_slice(input);
                // Not all of it was there before, so that what is used now ends in the input.
                self.head(&all)?.saturating_sub(before)
            }
            _ => 0,
        };
        self.body(input.get(used..).unwrap_or_default(), sink)
    }

    /// Parses heads, interim ones (1xx) too; what is incomplete is kept. Returns the bytes that
    /// were head.
    fn head(&mut self, input: &[u8]) -> Result<usize, Refusal> {
        let mut used = 0;
        while matches!(self.phase, Phase::Head(_)) {
            let rest = input.get(used..).unwrap_or_default();
            match response::parse(rest)? {
                Some((head, length)) => {
                    used += length;
                    // What follows 101 is another protocol (RFC 9110 §15.2.2).
                    if head.status >= 200 || head.status == 101 {
                        self.begin_body(head);
                    }
                }
                None => {
                    self.phase = Phase::Head(rest.to_vec());
                    return Ok(input.len());
                }
            }
        }
        Ok(used)
    }

    fn begin_body(&mut self, head: response::Response) {
        self.status = head.status;
        self.keep_alive = head.keep_alive;
        self.phase = match head.framing {
            _ if self.bodiless => Phase::Done,
            Framing::Empty | Framing::Length(0) => Phase::Done,
            Framing::Length(length) => Phase::Length(length),
            Framing::Chunked => Phase::Chunked(Decoder::new()),
            Framing::UntilClose => Phase::UntilClose,
        };
    }

    fn body<E: From<Refusal>>(
        &mut self,
        input: &[u8],
        sink: &mut Sink<'_, E>,
    ) -> Result<Progress, E> {
        let mut used = 0;
        loop {
            let rest = input.get(used..).unwrap_or_default();
            let data = match &mut self.phase {
                Phase::Done => return Ok(Progress::Done(rest.len())),
                _ if rest.is_empty() => return Ok(Progress::More),
                Phase::Head(_) => return Ok(Progress::More),
                Phase::UntilClose => rest,
                Phase::Length(left) => {
                    let now =
                        usize::try_from(*left).map_or(rest.len(), |left| left.min(rest.len()));
                    *left -= now as u64;
                    if *left == 0 {
                        self.phase = Phase::Done;
                    }
                    rest.get(..now).unwrap_or_default()
                }
                Phase::Chunked(decoder) => {
                    let piece = decoder.step(rest)?;
                    used += piece.used - piece.data;
                    if decoder.done() {
                        self.phase = Phase::Done;
                    }
                    rest.get(piece.used - piece.data..piece.used)
                        .unwrap_or_default()
                }
            };
            used += data.len();
            if !data.is_empty() {
                sink(self.status, data)?;
            }
        }
    }

    /// Whether all of it came.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done)
    }

    /// Goes on behind bytes that are not to be had; whether that is possible, which it is where
    /// they are all of a body that has no structure.
    pub fn skip(&mut self, bytes: u64) -> bool {
        match &mut self.phase {
            Phase::Length(left) if bytes <= *left => {
                *left -= bytes;
                if *left == 0 {
                    self.phase = Phase::Done;
                }
                true
            }
            Phase::UntilClose => true,
            _ => false,
        }
    }

    /// The peer closed: whether the response is complete thereby.
    ///
    /// # Errors
    /// It is not.
    pub fn end(&self) -> Result<(), Unfinished> {
        match self.phase {
            Phase::Done | Phase::UntilClose => Ok(()),
            _ => Err(Unfinished),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `response` in pieces of `cut`; what came out last.
    fn feed(bodiless: bool, response: &[u8], cut: usize) -> Result<Progress, Refusal> {
        let mut reply = Reply::http(bodiless);
        let mut last = Ok(Progress::More);
        for piece in response.chunks(cut) {
            last = reply.take(piece, &mut |_, _| Ok::<(), Refusal>(()));
            if last != Ok(Progress::More) {
                break;
            }
        }
        last
    }

    #[test]
    fn every_cut_is_complete_at_the_end() {
        for (bodiless, response) in [
            (
                false,
                &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"[..],
            ),
            (
                false,
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            ),
            (
                false,
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
            ),
            (true, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
        ] {
            for cut in 1..=response.len() {
                assert_eq!(
                    feed(bodiless, response, cut),
                    Ok(Progress::Done(0)),
                    "{} cut {cut}",
                    response.escape_ascii()
                );
                if cut < response.len() {
                    assert_eq!(
                        feed(bodiless, &response[..cut], cut),
                        Ok(Progress::More),
                        "{} up to {cut}",
                        response.escape_ascii()
                    );
                }
            }
        }
    }

    #[test]
    fn bytes_after_the_response_are_counted() {
        assert_eq!(
            feed(
                false,
                b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc",
                99
            ),
            Ok(Progress::Done(1))
        );
        assert_eq!(
            feed(
                false,
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nx",
                99
            ),
            Ok(Progress::Done(1))
        );
    }

    #[test]
    fn the_end_of_the_connection() {
        let mut reply = Reply::http(false);
        assert_eq!(
            reply.take(
                b"HTTP/1.0 200 OK\r\n\r\nabc",
                &mut |_, _| Ok::<(), Refusal>(())
            ),
            Ok(Progress::More)
        );
        assert_eq!(reply.end(), Ok(()));
        let mut reply = Reply::http(false);
        assert_eq!(
            reply.take(
                b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nabc",
                &mut |_, _| Ok::<(), Refusal>(())
            ),
            Ok(Progress::More)
        );
        assert_eq!(reply.end(), Err(Unfinished));
        assert_eq!(Reply::raw(64).end(), Err(Unfinished));
    }

    #[test]
    fn another_protocol_is_not_read_as_this_one() {
        let response = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching\r\n\r\n\x81\x05";
        let mut reply = Reply::http(false);
        let taken = reply.take(response, &mut |_, _| Ok::<(), Refusal>(()));
        assert_eq!((taken, reply.status), (Ok(Progress::Done(2)), 101));
    }

    #[test]
    fn what_is_missing_of_a_body_is_skipped() {
        let mut reply = Reply::http(false);
        let mut sink = |_: u16, _: &[u8]| Ok::<(), Refusal>(());
        assert!(!reply.skip(1));
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(reply.take(head, &mut sink), Ok(Progress::More));
        assert!(!reply.skip(6));
        assert!(reply.skip(4));
        assert_eq!(reply.take(b"o", &mut sink), Ok(Progress::Done(0)));
        assert!(reply.is_done() && !reply.skip(1));
    }

    #[test]
    fn nonsense_is_a_bad_response() {
        assert_eq!(feed(false, b"SMTP ready\r\n\r\n", 99), Err(Refusal(400)));
    }
}
