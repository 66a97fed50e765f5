//! A response as it arrives: complete, incomplete or wrong.

use crate::http::chunked::Decoder;
use crate::http::{Framing, response};

use super::stats::Kind;

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
pub(crate) struct Reply {
    phase: Phase,
    /// Responses to HEAD have no body.
    bodiless: bool,
    /// The status; 0 before the head is there.
    pub(crate) status: u16,
    /// Whether the connection can be used again.
    pub(crate) keep_alive: bool,
    /// Whether any byte came.
    pub(crate) begun: bool,
}

/// Takes bytes of a body, with the status of its response.
pub(crate) type Sink<'a> = dyn FnMut(u16, &[u8]) -> Result<(), Kind> + 'a;

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More must come.
    More,
    /// All is there; so many bytes of the input were not part of it.
    Done(usize),
}

impl Reply {
    /// The response to an HTTP request.
    pub(crate) fn http(bodiless: bool) -> Self {
        Self {
            phase: Phase::Head(Vec::new()),
            bodiless,
            status: 0,
            keep_alive: true,
            begun: false,
        }
    }

    /// `length` bytes without a head.
    pub(crate) fn raw(length: u64) -> Self {
        Self {
            phase: Phase::Length(length),
            bodiless: false,
            status: 200,
            keep_alive: true,
            begun: false,
        }
    }

    /// Takes what arrived; bytes of the body go to `sink`, with the status.
    pub(crate) fn take(&mut self, input: &[u8], sink: &mut Sink<'_>) -> Result<Progress, Kind> {
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
    fn head(&mut self, input: &[u8]) -> Result<usize, Kind> {
        let mut used = 0;
        while matches!(self.phase, Phase::Head(_)) {
            let rest = input.get(used..).unwrap_or_default();
            match response::parse(rest).map_err(|_| Kind::BadResponse)? {
                Some((head, length)) => {
                    used += length;
                    if head.status >= 200 {
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

    fn body(&mut self, input: &[u8], sink: &mut Sink<'_>) -> Result<Progress, Kind> {
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
                    let piece = decoder.step(rest).map_err(|_| Kind::BadResponse)?;
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

    /// The peer closed: whether the response is complete thereby.
    pub(crate) fn end(&mut self) -> Result<(), Kind> {
        match self.phase {
            Phase::Done | Phase::UntilClose => Ok(()),
            _ => Err(Kind::ShortBody),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `response` in pieces of `cut`; what came out last.
    fn feed(bodiless: bool, response: &[u8], cut: usize) -> Result<Progress, Kind> {
        let mut reply = Reply::http(bodiless);
        let mut last = Ok(Progress::More);
        for piece in response.chunks(cut) {
            last = reply.take(piece, &mut |_, _| Ok(()));
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
            reply.take(b"HTTP/1.0 200 OK\r\n\r\nabc", &mut |_, _| Ok(())),
            Ok(Progress::More)
        );
        assert_eq!(reply.end(), Ok(()));
        let mut reply = Reply::http(false);
        assert_eq!(
            reply.take(
                b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nabc",
                &mut |_, _| Ok(())
            ),
            Ok(Progress::More)
        );
        assert_eq!(reply.end(), Err(Kind::ShortBody));
        assert_eq!(Reply::raw(64).end(), Err(Kind::ShortBody));
    }

    #[test]
    fn nonsense_is_a_bad_response() {
        assert_eq!(
            feed(false, b"SMTP ready\r\n\r\n", 99),
            Err(Kind::BadResponse)
        );
    }
}
