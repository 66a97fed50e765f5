//! Content-Type by file name extension.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use mime_guess::mime;

/// The type of the file at `path`. What is text is said to be UTF-8.
pub fn content_type(path: &[u8]) -> String {
    let guess = mime_guess::from_path(Path::new(OsStr::from_bytes(path))).first_or_octet_stream();
    if guess.type_() == mime::TEXT && guess.get_param(mime::CHARSET).is_none() {
        return format!("{guess}; charset=utf-8");
    }
    guess.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_extension_decides() {
        assert_eq!(content_type(b"a/b.HTML"), "text/html; charset=utf-8");
        assert_eq!(content_type(b"a.html/b.tar.gz"), "application/gzip");
        for path in [
            &b"html"[..],
            b"a.html/x",
            b"",
            b"x.",
            b"x.unknown",
            b"\xff.\xff",
        ] {
            assert_eq!(content_type(path), "application/octet-stream");
        }
    }

    #[test]
    fn what_a_page_needs_is_known() {
        for (name, media) in [
            ("a.css", "text/css; charset=utf-8"),
            ("a.js", "text/javascript; charset=utf-8"),
            ("a.json", "application/json"),
            ("a.png", "image/png"),
            ("a.svg", "image/svg+xml"),
            ("a.txt", "text/plain; charset=utf-8"),
            ("a.wasm", "application/wasm"),
            ("a.woff2", "font/woff2"),
        ] {
            assert_eq!(content_type(name.as_bytes()), media);
        }
    }
}
