//! The access log: one line of the Common Log Format per answer.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::fail::Failure;
use http1::date;

/// Lines are written at the end of a turn, or when there are this many bytes of them.
const HIGH: usize = 64 * 1024;
/// Bytes of a request line that are kept.
const LONGEST: usize = 2_048;

/// A log file, appended to.
#[derive(Debug)]
pub(crate) struct AccessLog {
    path: PathBuf,
    /// `None`: it could not be written any more.
    file: Option<File>,
    lines: Vec<u8>,
    /// The time of the current second.
    date: (i64, String),
}

/// What was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered<'b> {
    pub(crate) peer: Option<IpAddr>,
    /// The request's first line, as it came.
    pub(crate) request: &'b [u8],
    pub(crate) status: u16,
    /// Of the body, as promised.
    pub(crate) bytes: u64,
    /// Seconds since 1970.
    pub(crate) unix: i64,
}

impl AccessLog {
    /// Opens the file; it belongs to this user and may be read by its group.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o640)
            .open(path)
            .map_err(|error| {
                Failure::error(
                    format!("cannot open the access log '{}': {error}", path.display()),
                    "name a file that this user may write",
                )
            })?;
        Ok(Self {
            path: path.to_owned(),
            file: Some(file),
            lines: Vec::new(),
            date: (i64::MIN, String::new()),
        })
    }

    /// Notes an answer.
    pub(crate) fn note(&mut self, answered: &Answered<'_>) {
        if self.file.is_none() {
            return;
        }
        if self.date.0 != answered.unix {
            self.date = (answered.unix, date::common_log(answered.unix));
        }
        push_line(&mut self.lines, answered, &self.date.1);
        if self.lines.len() >= HIGH {
            self.flush();
        }
    }

    /// Writes what was noted.
    pub(crate) fn flush(&mut self) {
        let Some(file) = self.file.as_mut().filter(|_| !self.lines.is_empty()) else {
            return;
        };
        if let Err(error) = file.write_all(&self.lines) {
            let path = self.path.display();
            log::warn!("access log {path}: {error}: nothing is noted there any more");
            self.file = None;
        }
        self.lines.clear();
    }
}

fn push_line(out: &mut Vec<u8>, answered: &Answered<'_>, date: &str) {
    // Writing to memory cannot fail.
    let _ = match answered.peer {
        Some(peer) => write!(out, "{} - - [{date}] \"", peer.to_canonical()),
        None => write!(out, "- - - [{date}] \""),
    };
    push_escaped(out, answered.request);
    let _ = writeln!(out, "\" {} {}", answered.status, answered.bytes);
}

/// Whatever a peer sends stays within its quotes and its line.
fn push_escaped(out: &mut Vec<u8>, request: &[u8]) {
    if request.is_empty() {
        out.push(b'-');
    }
    for byte in request.iter().take(LONGEST) {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b' '..=b'~' => out.push(*byte),
            _ => {
                // As above.
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
}

/// The first line of `input`: of a request, however bad it is.
pub(crate) fn first_line(input: &[u8]) -> &[u8] {
    let begin = input.iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
    let input = input
        .get(begin.unwrap_or(input.len())..)
        .unwrap_or_default();
    let end = input
        .iter()
        .take(LONGEST)
        .position(|byte| matches!(byte, b'\r' | b'\n'));
    input
        .get(..end.unwrap_or(input.len().min(LONGEST)))
        .unwrap_or_default()
}

/// Status, and bytes of the body that follow the head, of the last response in `out`, if there is a
/// final one.
pub(crate) fn last_response(out: &[u8]) -> Option<(u16, u64)> {
    let mut rest = out;
    loop {
        let status = std::str::from_utf8(rest.get(9..12)?).ok()?.parse().ok()?;
        let end = rest.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        rest = rest.get(end..)?;
        // RFC 9110 §15.2: interim responses have no body.
        if status >= 200 {
            return Some((status, rest.len() as u64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(request: &[u8]) -> String {
        let mut out = Vec::new();
        let answered = Answered {
            peer: Some("::ffff:10.0.0.2".parse().unwrap()),
            request,
            status: 200,
            bytes: 5,
            unix: 0,
        };
        push_line(&mut out, &answered, &date::common_log(0));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_is_that_of_the_common_log_format() {
        assert_eq!(
            line(b"GET / HTTP/1.1"),
            "10.0.0.2 - - [01/Jan/1970:00:00:00 +0000] \"GET / HTTP/1.1\" 200 5\n"
        );
    }

    #[test]
    fn a_peer_cannot_forge_lines() {
        let forged = line(b"GET /\" 200 1\n\x1b[2J\xff\\");
        assert!(
            forged.ends_with("\"GET /\\\" 200 1\\x0a\\x1b[2J\\xff\\\\\" 200 5\n"),
            "{forged}"
        );
        assert!(line(b"").contains(" \"-\" "));
        assert!(line(&[b'a'; 100_000]).len() < LONGEST + 100);
    }

    #[test]
    fn the_first_line_and_the_last_response_are_found() {
        assert_eq!(
            first_line(b"\r\n\nGET / HTTP/1.1\r\nHost: a\r\n"),
            b"GET / HTTP/1.1"
        );
        assert_eq!(first_line(b"\x16\x03\x01"), b"\x16\x03\x01");
        let out = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nA: b\r\n\r\nxyz";
        assert_eq!(last_response(out), Some((201, 3)));
        assert_eq!(last_response(b"HTTP/1.1 100 Continue\r\n\r\n"), None);
        assert_eq!(last_response(b""), None);
    }
}
