//! Request heads (RFC 9112 §2-§7), parsed strictly where leniency lets requests be smuggled.

use std::mem::MaybeUninit;

use super::conditional::Conditions;
use super::{Framing, Refusal, decimal, list_has};

/// Header fields per request.
const MAX_FIELDS: usize = 64;

/// The methods that we tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Get,
    /// HEAD.
    Head,
    /// PUT.
    Put,
    /// Known, and never allowed here (405).
    Other,
    /// Not known (501).
    Unknown,
}

/// One request head.
#[derive(Clone, Copy, Debug)]
pub struct Request<'b> {
    /// What to do.
    pub method: Method,
    /// The same, as it is written.
    pub name: &'b str,
    /// To what.
    pub target: &'b [u8],
    /// Whether the connection may be used again afterwards (RFC 9112 §9.3).
    pub keep_alive: bool,
    /// Whether the request said HTTP/1.1.
    pub http11: bool,
    /// How long the body is.
    pub framing: Framing,
    /// Whether the client waits for 100 before it sends the body.
    pub expect_continue: bool,
    /// Conditions and range.
    pub conditions: Conditions<'b>,
    /// Host.
    pub host: Option<&'b [u8]>,
}

/// Bounds on a request head, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The request line's target.
    pub target: usize,
    /// All of the head.
    pub head: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            target: 4096,
            head: 16_384,
        }
    }
}

/// Parses the head at the start of `input`: `None` while it is incomplete, otherwise the request
/// and its length in bytes.
///
/// # Errors
/// The status to refuse it with; the connection cannot be used afterwards.
pub fn parse<'b>(
    input: &'b [u8],
    limits: &Limits,
) -> Result<Option<(Request<'b>, usize)>, Refusal> {
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut head = httparse::Request::new(&mut []);
    match head.parse_with_uninit_headers(input, &mut fields) {
        Ok(httparse::Status::Complete(length)) => {
            let request = check(&head, length, limits)?;
            Ok(Some((request, length)))
        }
        Ok(httparse::Status::Partial) if input.len() > limits.head => Err(too_large(input, limits)),
        Ok(httparse::Status::Partial) => Ok(None),
        Err(error) => Err(refusal(error, input)),
    }
}

/// The value of the first field of this name in a head, the case of the name ignored; the head was
/// parsed before.
pub fn field<'b>(head: &'b [u8], name: &str) -> Option<&'b [u8]> {
    head.split(|byte| *byte == b'\n').skip(1).find_map(|line| {
        let (found, value) = line.split_at_checked(name.len())?;
        let value = value.strip_prefix(b":")?;
        found
            .eq_ignore_ascii_case(name.as_bytes())
            .then(|| value.trim_ascii())
    })
}

/// 414 when already the request line is too long, otherwise 431.
fn too_large(input: &[u8], limits: &Limits) -> Refusal {
    let line = input
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(input.len());
    Refusal(if line > limits.target { 414 } else { 431 })
}

fn refusal(error: httparse::Error, input: &[u8]) -> Refusal {
    match error {
        httparse::Error::TooManyHeaders => Refusal(431),
        httparse::Error::Version if version_is_well_formed(input) => Refusal(505),
        _ => Refusal(400),
    }
}

/// `HTTP/` digit `.` digit at the end of the request line: a version, just not one of ours.
fn version_is_well_formed(input: &[u8]) -> bool {
    let line = input
        .split(|byte| *byte == b'\n')
        .find(|line| !line.trim_ascii().is_empty())
        .unwrap_or_default();
    let version = line
        .trim_ascii_end()
        .rsplit(|byte| *byte == b' ')
        .next()
        .unwrap_or_default();
    matches!(version, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor] if major.is_ascii_digit() && minor.is_ascii_digit())
}

fn check<'b>(
    head: &httparse::Request<'_, 'b>,
    length: usize,
    limits: &Limits,
) -> Result<Request<'b>, Refusal> {
    let target = head.path.unwrap_or_default().as_bytes();
    if target.len() > limits.target {
        return Err(Refusal(414));
    }
    if length > limits.head {
        return Err(Refusal(431));
    }
    let http11 = head.version == Some(1);
    let mut fields = Fields::default();
    for field in head.headers.iter() {
        fields.take(field)?;
    }
    // RFC 9112 §3.2: an HTTP/1.1 request has exactly one Host.
    if http11 && fields.host.is_none() {
        return Err(Refusal(400));
    }
    Ok(Request {
        method: method(head.method.unwrap_or_default()),
        name: head.method.unwrap_or_default(),
        host: fields.host,
        target,
        keep_alive: if http11 {
            !fields.close
        } else {
            fields.keep_alive && !fields.close
        },
        http11,
        framing: fields.framing(http11)?,
        // RFC 9110 §10.1.1: HTTP/1.0 clients do not know it.
        expect_continue: fields.expect && http11,
        conditions: fields.conditions,
    })
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "PUT" => Method::Put,
        "POST" | "DELETE" | "OPTIONS" | "TRACE" | "CONNECT" | "PATCH" => Method::Other,
        _ => Method::Unknown,
    }
}

/// The header fields that matter, while they are collected.
#[derive(Default)]
struct Fields<'b> {
    host: Option<&'b [u8]>,
    close: bool,
    keep_alive: bool,
    expect: bool,
    length: Option<u64>,
    transfer_encoding: Option<&'b [u8]>,
    conditions: Conditions<'b>,
}

/// 400 for a field that may come once and came before.
fn once(before: bool) -> Result<(), Refusal> {
    if before { Err(Refusal(400)) } else { Ok(()) }
}

impl<'b> Fields<'b> {
    fn take(&mut self, field: &httparse::Header<'b>) -> Result<(), Refusal> {
        let (name, value) = (field.name, field.value);
        // The first letter and the length tell most fields apart without comparing.
        match name.len() {
            4 if name.eq_ignore_ascii_case("host") => once(self.host.replace(value).is_some())?,
            5 if name.eq_ignore_ascii_case("range") => self.conditions.range = Some(value),
            6 if name.eq_ignore_ascii_case("expect") => self.expectation(value)?,
            8 if name.eq_ignore_ascii_case("if-range") => self.conditions.if_range = Some(value),
            8 if name.eq_ignore_ascii_case("if-match") => self.conditions.if_match = Some(value),
            10 if name.eq_ignore_ascii_case("connection") => self.connection(value),
            13 if name.eq_ignore_ascii_case("if-none-match") => {
                self.conditions.if_none_match = Some(value)
            }
            14 if name.eq_ignore_ascii_case("content-length") => self.content_length(value)?,
            17 if name.eq_ignore_ascii_case("if-modified-since") => {
                self.conditions.if_modified_since = Some(value)
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                once(self.transfer_encoding.replace(value).is_some())?
            }
            19 if name.eq_ignore_ascii_case("if-unmodified-since") => {
                self.conditions.if_unmodified_since = Some(value)
            }
            _ => {}
        }
        Ok(())
    }

    fn expectation(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if !value.trim_ascii().eq_ignore_ascii_case(b"100-continue") {
            return Err(Refusal(417));
        }
        self.expect = true;
        Ok(())
    }

    fn connection(&mut self, value: &[u8]) {
        self.close |= list_has(value, "close");
        self.keep_alive |= list_has(value, "keep-alive");
    }

    /// RFC 9112 §6.3: different lengths are an attack.
    fn content_length(&mut self, value: &[u8]) -> Result<(), Refusal> {
        let length = decimal(value.trim_ascii()).ok_or(Refusal(400))?;
        if self
            .length
            .replace(length)
            .is_some_and(|other| other != length)
        {
            return Err(Refusal(400));
        }
        Ok(())
    }

    fn framing(&self, http11: bool) -> Result<Framing, Refusal> {
        match (self.transfer_encoding, self.length) {
            // RFC 9112 §6.1: both, or Transfer-Encoding in HTTP/1.0, is how requests are smuggled.
            (Some(_), Some(_)) => Err(Refusal(400)),
            (Some(_), None) if !http11 => Err(Refusal(400)),
            (Some(coding), None) if coding.trim_ascii().eq_ignore_ascii_case(b"chunked") => {
                Ok(Framing::Chunked)
            }
            (Some(_), None) => Err(Refusal(501)),
            (None, Some(length)) => Ok(Framing::Length(length)),
            (None, None) => Ok(Framing::Empty),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(head: &str) -> Result<(Method, bool, Framing, bool), u16> {
        match parse(head.as_bytes(), &Limits::default()) {
            Ok(Some((request, length))) => {
                assert_eq!(length, head.len());
                Ok((
                    request.method,
                    request.keep_alive,
                    request.framing,
                    request.expect_continue,
                ))
            }
            Ok(None) => Err(0),
            Err(Refusal(status)) => Err(status),
        }
    }

    #[test]
    fn keep_alive_follows_version_and_connection() {
        for (head, keep_alive) in [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
                false,
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n",
                false,
            ),
            ("GET / HTTP/1.0\r\n\r\n", false),
            ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true),
            (
                "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n",
                false,
            ),
        ] {
            assert_eq!(
                parsed(head),
                Ok((Method::Get, keep_alive, Framing::Empty, false)),
                "{head}"
            );
        }
    }

    #[test]
    fn body_framing() {
        let put = |fields: &str| {
            parsed(&format!("PUT /x HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).map(|request| request.2)
        };
        assert_eq!(put("Content-Length: 5\r\n"), Ok(Framing::Length(5)));
        assert_eq!(
            put("Content-Length: 5\r\nContent-Length: 5\r\n"),
            Ok(Framing::Length(5))
        );
        assert_eq!(put("Transfer-Encoding: Chunked\r\n"), Ok(Framing::Chunked));
        assert_eq!(put(""), Ok(Framing::Empty));
        for (fields, status) in [
            ("Content-Length: 5\r\nContent-Length: 6\r\n", 400),
            ("Content-Length: +5\r\n", 400),
            ("Content-Length: 5, 5\r\n", 400),
            ("Content-Length: 99999999999999999999\r\n", 400),
            ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400),
            (
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                400,
            ),
            ("Transfer-Encoding: gzip, chunked\r\n", 501),
            ("Expect: miracles\r\n", 417),
            ("Host: b\r\n", 400),
            ("Bad name: b\r\n", 400),
            ("No-Colon\r\n", 400),
        ] {
            assert_eq!(put(fields), Err(status), "{fields}");
        }
        assert_eq!(
            parsed("PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
            Err(400)
        );
    }

    #[test]
    fn malformed_request_lines() {
        for (head, status) in [
            ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
            ("GET / HTTP/1.7\r\nHost: a\r\n\r\n", 505),
            ("GET / HTCPCP/1.0\r\n\r\n", 400),
            ("GET /\r\n\r\n", 400),
            ("G@T{} / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\n", 0),
            ("", 0),
        ] {
            assert_eq!(parsed(head), Err(status), "{head}");
        }
        assert_eq!(
            parsed("BREW / HTTP/1.1\r\nHost: a\r\n\r\n").map(|request| request.0),
            Ok(Method::Unknown)
        );
        assert_eq!(
            parsed("POST / HTTP/1.1\r\nHost: a\r\n\r\n").map(|request| request.0),
            Ok(Method::Other)
        );
    }

    #[test]
    fn bounds() {
        let long = "a".repeat(5000);
        assert_eq!(
            parsed(&format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n")),
            Err(414)
        );
        assert_eq!(parsed(&format!("GET /{}", "a".repeat(20_000))), Err(414));
        assert_eq!(
            parsed(&format!(
                "GET / HTTP/1.1\r\nHost: a\r\nX: {}",
                "a".repeat(20_000)
            )),
            Err(431)
        );
        assert_eq!(
            parsed(&format!(
                "GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n",
                "a".repeat(20_000)
            )),
            Err(431)
        );
        let many: String = (0..70).map(|field| format!("X{field}: y\r\n")).collect();
        assert_eq!(
            parsed(&format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n")),
            Err(431)
        );
    }

    #[test]
    fn a_field_is_found_by_its_name() {
        let head = b"GET /X: y HTTP/1.1\r\nX-Y: no\r\nx: \t7 now\r\nX: 8\r\n\r\n";
        assert_eq!(field(head, "X"), Some(&b"7 now"[..]));
        assert_eq!(field(head, "Y"), None);
        assert_eq!(field(b"GET / HTTP/1.1\r\nX", "X"), None);
    }

    #[test]
    fn conditions_are_collected() {
        let head = b"GET /a?b HTTP/1.1\r\nHOST: a\r\nrange: bytes=0-1\r\nIf-None-Match: \"x\"\r\nIf-Modified-Since: y\r\nIf-Range: z\r\n\r\nrest";
        let (request, length) = parse(head, &Limits::default()).unwrap().unwrap();
        assert_eq!(length, head.len() - 4);
        assert_eq!(request.target, b"/a?b");
        assert_eq!(request.conditions.range, Some(&b"bytes=0-1"[..]));
        assert_eq!(request.conditions.if_none_match, Some(&b"\"x\""[..]));
        assert_eq!(request.conditions.if_modified_since, Some(&b"y"[..]));
        assert_eq!(request.conditions.if_range, Some(&b"z"[..]));
        assert!(!request.conditions.is_empty());
    }
}
