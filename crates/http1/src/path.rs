//! From a request target to a relative path that cannot leave its directory.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

use super::Refusal;

/// Decodes `target` (origin or absolute form, RFC 9112 §3.2) into `path`: percent-decoded,
/// relative, without empty or `.` segments. A trailing slash is kept; the root is the empty path.
///
/// # Errors
/// 400 for a target that is not a path, a bad escape, a NUL or a `..` segment however it is
/// written.
pub fn decode(target: &[u8], path: &mut Vec<u8>) -> Result<(), Refusal> {
    path.clear();
    let raw = percent_decode(origin(target)?)?;
    if raw.contains(&0) {
        return Err(Refusal(400));
    }
    for segment in raw.split(|byte| *byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => return Err(Refusal(400)),
            name => {
                separate(path);
                path.extend_from_slice(name);
            }
        }
    }
    if is_directory_form(&raw) {
        separate(path);
    }
    Ok(())
}

fn separate(path: &mut Vec<u8>) {
    if !path.is_empty() && path.last() != Some(&b'/') {
        path.push(b'/');
    }
}

fn is_directory_form(raw: &[u8]) -> bool {
    raw.ends_with(b"/") || raw.ends_with(b"/.")
}

/// The path of a target, without query: `/a?b` and `http://host/a?b` are both `/a`.
fn origin(target: &[u8]) -> Result<&[u8], Refusal> {
    let target = target
        .split(|byte| matches!(byte, b'?' | b'#'))
        .next()
        .unwrap_or_default();
    if target.starts_with(b"/") {
        return Ok(target);
    }
    let scheme = b"http://";
    match target.get(..scheme.len()) {
        Some(start) if start.eq_ignore_ascii_case(scheme) => {
            let rest = target.get(scheme.len()..).unwrap_or_default();
            let slash = rest.iter().position(|byte| *byte == b'/');
            Ok(slash.and_then(|at| rest.get(at..)).unwrap_or(b"/"))
        }
        _ => Err(Refusal(400)),
    }
}

/// Decodes escapes.
///
/// # Errors
/// 400 for a `%` that two hexadecimal digits do not follow: the crate leaves it as it is, which
/// another server may read otherwise.
fn percent_decode(text: &[u8]) -> Result<Vec<u8>, Refusal> {
    let mut escapes = text.split(|byte| *byte == b'%').skip(1);
    let is_whole = |digits: &[u8; 2]| digits.iter().all(u8::is_ascii_hexdigit);
    if !escapes.all(|rest| rest.first_chunk().is_some_and(is_whole)) {
        return Err(Refusal(400));
    }
    Ok(percent_encoding::percent_decode(text).collect())
}

/// What is escaped in a URL: all but unreserved characters (RFC 3986 §2.3) and slashes.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

/// Percent-encodes `path` for a URL: everything but unreserved characters and slashes.
pub fn encode(path: &[u8], url: &mut Vec<u8>) {
    for piece in percent_encoding::percent_encode(path, ESCAPED) {
        url.extend_from_slice(piece.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(target: &str) -> Result<String, Refusal> {
        let mut path = Vec::new();
        decode(target.as_bytes(), &mut path).map(|()| String::from_utf8_lossy(&path).into_owned())
    }

    #[test]
    fn ordinary_targets_become_relative_paths() {
        for (target, path) in [
            ("/", ""),
            ("/a", "a"),
            ("/a/b.txt?x=1#y", "a/b.txt"),
            ("/a%20b", "a b"),
            ("//a///b/./c/", "a/b/c/"),
            ("/a/.", "a/"),
            ("/%2f%2fetc", "etc"),
            ("http://host/a", "a"),
            ("HTTP://host", ""),
            ("/...", "..."),
            ("/a..b", "a..b"),
        ] {
            assert_eq!(decoded(target).as_deref(), Ok(path), "{target}");
        }
    }

    #[test]
    fn attempts_to_leave_are_refused() {
        for target in [
            "/..",
            "/../etc/passwd",
            "/a/../../b",
            "/%2e%2e/etc",
            "/%2e./etc",
            "/a%2f..%2f..%2fetc",
            "/a/%00b",
            "/%",
            "/%4",
            "/%zz",
            "a",
            "*",
            "host:80",
            "",
            "https://host/a",
            "http://host/../a",
        ] {
            assert_eq!(decoded(target), Err(Refusal(400)), "{target}");
        }
    }

    #[test]
    fn double_encoding_is_decoded_once() {
        assert_eq!(decoded("/%252e%252e/etc").as_deref(), Ok("%2e%2e/etc"));
    }

    #[test]
    fn encode_is_the_inverse() {
        let name: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
        let mut url = vec![b'/'];
        encode(&name, &mut url);
        let mut path = Vec::new();
        assert_eq!(decode(&url, &mut path), Ok(()));
        assert_eq!(path, name);
    }
}
