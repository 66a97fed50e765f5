//! Response heads: written into a buffer, read from a peer.

use std::mem::MaybeUninit;

use super::{Framing, Refusal, decimal, list_has, reason};

/// Appends `number` in decimal.
pub fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends the status line and Server; the version is ours, not the request's (RFC 9110 §2.5).
pub fn push_status(out: &mut Vec<u8>, status: u16) {
    out.extend_from_slice(b"HTTP/1.1 ");
    push_number(out, u64::from(status));
    out.push(b' ');
    out.extend_from_slice(reason(status).as_bytes());
    out.extend_from_slice(b"\r\nServer: mtcp\r\n");
}

/// Appends one header field.
pub fn push_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends Content-Length.
pub fn push_length(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(b"Content-Length: ");
    push_number(out, length);
    out.extend_from_slice(b"\r\n");
}

/// A response head as a client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// Whether the connection may be used again afterwards.
    pub keep_alive: bool,
    /// How long the body is, were the request not a HEAD.
    pub framing: Framing,
}

/// Longest response head, bytes.
pub const MAX_HEAD: usize = 65_536;

/// Parses the head at the start of `input`: `None` while it is incomplete, otherwise the response
/// and its length in bytes.
///
/// # Errors
/// It is not a response of HTTP/1.
pub fn parse(input: &[u8]) -> Result<Option<(Response, usize)>, Refusal> {
    let mut fields = [const { MaybeUninit::uninit() }; 128];
    let mut head = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut head,
        input,
        &mut fields,
    );
    match parsed {
        Ok(httparse::Status::Complete(length)) => Ok(Some((check(&head)?, length))),
        Ok(httparse::Status::Partial) if input.len() <= MAX_HEAD => Ok(None),
        _ => Err(Refusal(400)),
    }
}

fn check(head: &httparse::Response<'_, '_>) -> Result<Response, Refusal> {
    let status = head.code.unwrap_or_default();
    let (mut length, mut chunked, mut close, mut keep) = (None, false, false, false);
    for field in head.headers.iter() {
        if field.name.eq_ignore_ascii_case("content-length") {
            length = Some(decimal(field.value.trim_ascii()).ok_or(Refusal(400))?);
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = list_has(field.value, "chunked");
        } else if field.name.eq_ignore_ascii_case("connection") {
            close |= list_has(field.value, "close");
            keep |= list_has(field.value, "keep-alive");
        }
    }
    let framing = match (status, chunked, length) {
        (100..200 | 204 | 304, ..) => Framing::Empty,
        (_, true, _) => Framing::Chunked,
        (_, false, Some(length)) => Framing::Length(length),
        (_, false, None) => Framing::UntilClose,
    };
    let keep_alive = !close && (head.version == Some(1) || keep) && framing != Framing::UntilClose;
    Ok(Response {
        status,
        keep_alive,
        framing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for number in [0, 7, 10, 4_294_967_296, u64::MAX] {
            let mut out = Vec::new();
            push_number(&mut out, number);
            assert_eq!(out, number.to_string().into_bytes());
        }
    }

    #[test]
    fn heads_that_we_write_are_read_back() {
        let mut out = Vec::new();
        push_status(&mut out, 206);
        push_length(&mut out, 42);
        push_field(&mut out, "Connection", b"close");
        out.extend_from_slice(b"\r\n");
        let response = Response {
            status: 206,
            keep_alive: false,
            framing: Framing::Length(42),
        };
        assert_eq!(parse(&out), Ok(Some((response, out.len()))));
        for cut in 0..out.len() {
            assert_eq!(parse(&out[..cut]), Ok(None), "cut {cut}");
        }
    }

    #[test]
    fn framing_of_responses() {
        let framing = |head: &str| {
            parse(head.as_bytes())
                .map(|parsed| parsed.map(|(response, _)| (response.framing, response.keep_alive)))
        };
        assert_eq!(
            framing("HTTP/1.1 200 OK\r\n\r\n"),
            Ok(Some((Framing::UntilClose, false)))
        );
        assert_eq!(
            framing("HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n"),
            Ok(Some((Framing::Length(3), false)))
        );
        assert_eq!(
            framing("HTTP/1.0 200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\n"),
            Ok(Some((Framing::Length(3), true)))
        );
        assert_eq!(
            framing("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
            Ok(Some((Framing::Chunked, true)))
        );
        assert_eq!(
            framing("HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n"),
            Ok(Some((Framing::Empty, true)))
        );
        assert_eq!(framing("SSH-2.0-x\r\n"), Err(Refusal(400)));
    }
}
