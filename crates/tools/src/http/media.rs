//! Content-Type by file name extension.

/// Sorted by extension.
const TYPES: &[(&str, &str)] = &[
    ("avif", "image/avif"),
    ("bz2", "application/x-bzip2"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/vnd.microsoft.icon"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("ogg", "audio/ogg"),
    ("otf", "font/otf"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xml", "text/xml"),
    ("xz", "application/x-xz"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

/// The type of the file at `path`.
pub(crate) fn content_type(path: &[u8]) -> &'static str {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let extension = name
        .rsplitn(2, |byte| *byte == b'.')
        .next()
        .filter(|extension| extension.len() < name.len());
    let lower = extension.unwrap_or_default().to_ascii_lowercase();
    let found = TYPES.binary_search_by(|(known, _)| known.as_bytes().cmp(&lower));
    found
        .ok()
        .and_then(|index| TYPES.get(index))
        .map_or("application/octet-stream", |(_, media)| media)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(TYPES.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn the_last_extension_decides() {
        assert_eq!(content_type(b"a/b.HTML"), "text/html; charset=utf-8");
        assert_eq!(content_type(b"a.html/b.tar.gz"), "application/gzip");
        for path in [&b"html"[..], b"a.html/x", b"", b"x.", b"x.unknown"] {
            assert_eq!(content_type(path), "application/octet-stream");
        }
    }
}
