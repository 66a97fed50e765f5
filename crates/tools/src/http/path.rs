//! From a request target to a relative path that cannot leave its directory.

use super::Refusal;

/// Decodes `target` (origin or absolute form, RFC 9112 §3.2) into `path`: percent-decoded, relative, without empty or `.` segments.
/// A trailing slash is kept; the root is the empty path.
///
/// # Errors
/// 400 for a target that is not a path, a bad escape, a NUL or a `..` segment however it is written.
pub(crate) fn decode(target: &[u8], path: &mut Vec<u8>) -> Result<(), Refusal> {
    path.clear();
    let mut raw = Vec::with_capacity(target.len());
    percent_decode(origin(target)?, &mut raw)?;
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

fn percent_decode(text: &[u8], decoded: &mut Vec<u8>) -> Result<(), Refusal> {
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        if *byte == b'%' {
            let high = bytes.next().copied().and_then(hex).ok_or(Refusal(400))?;
            let low = bytes.next().copied().and_then(hex).ok_or(Refusal(400))?;
            decoded.push(high << 4 | low);
        } else {
            decoded.push(*byte);
        }
    }
    Ok(())
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

/// Percent-encodes `path` for a URL: everything but unreserved characters and slashes.
pub(crate) fn encode(path: &[u8], url: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in path {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(byte) {
            url.push(*byte);
        } else {
            url.extend_from_slice(&[
                b'%',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]);
        }
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
