//! Conditional requests (RFC 9110 §13) and single ranges (§14): what of a file to send.

use super::{date, decimal};

/// The request header fields that decide, as received.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions<'b> {
    /// Range.
    pub range: Option<&'b [u8]>,
    /// If-Range.
    pub if_range: Option<&'b [u8]>,
    /// If-Modified-Since.
    pub if_modified_since: Option<&'b [u8]>,
    /// If-Unmodified-Since.
    pub if_unmodified_since: Option<&'b [u8]>,
    /// If-None-Match.
    pub if_none_match: Option<&'b [u8]>,
    /// If-Match.
    pub if_match: Option<&'b [u8]>,
}

impl Conditions<'_> {
    /// Whether there are none, as in almost every request.
    pub fn is_empty(&self) -> bool {
        let Self {
            range,
            if_range: _,
            if_modified_since,
            if_unmodified_since,
            if_none_match,
            if_match,
        } = self;
        range.is_none()
            && if_modified_since.is_none()
            && if_unmodified_since.is_none()
            && if_none_match.is_none()
            && if_match.is_none()
    }
}

/// What identifies a version of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Last modification, seconds since 1970.
    pub modified: i64,
    /// Its strong entity tag, with quotes.
    pub etag: String,
    /// Bytes.
    pub length: u64,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// 200, all of it.
    Full,
    /// 206, bytes `first..=last`.
    Part {
        /// First byte.
        first: u64,
        /// Last byte.
        last: u64,
    },
    /// 304.
    NotModified,
    /// 412.
    Failed,
    /// 416.
    Unsatisfiable,
}

/// Evaluates the conditions of a GET (`ranges` allowed) or HEAD in the order of RFC 9110 §13.2.2.
pub fn select(conditions: &Conditions<'_>, version: &Version, ranges: bool) -> Selection {
    if precondition_failed(conditions, version) {
        return Selection::Failed;
    }
    if not_modified(conditions, version) {
        return Selection::NotModified;
    }
    match conditions.range {
        Some(range) if ranges && if_range_holds(conditions, version) => part(range, version.length),
        _ => Selection::Full,
    }
}

fn precondition_failed(conditions: &Conditions<'_>, version: &Version) -> bool {
    match (conditions.if_match, conditions.if_unmodified_since) {
        (Some(tags), _) => !matches(tags, &version.etag, false),
        (None, Some(date)) => instant(date).is_some_and(|date| version.modified > date),
        (None, None) => false,
    }
}

fn not_modified(conditions: &Conditions<'_>, version: &Version) -> bool {
    match (conditions.if_none_match, conditions.if_modified_since) {
        (Some(tags), _) => matches(tags, &version.etag, true),
        (None, Some(date)) => instant(date).is_some_and(|date| version.modified <= date),
        (None, None) => false,
    }
}

/// RFC 9110 §13.1.5: a strong tag or the exact date, otherwise the range is ignored.
fn if_range_holds(conditions: &Conditions<'_>, version: &Version) -> bool {
    match conditions.if_range {
        None => true,
        Some(tag) if tag.contains(&b'"') => tag.trim_ascii() == version.etag.as_bytes(),
        Some(date) => instant(date) == Some(version.modified),
    }
}

fn instant(value: &[u8]) -> Option<i64> {
    date::parse(std::str::from_utf8(value).ok()?)
}

/// Whether a list of entity tags or `*` has ours; `weak` comparison ignores `W/`
/// (RFC 9110 §8.8.3.2).
fn matches(tags: &[u8], etag: &str, weak: bool) -> bool {
    tags.split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .any(|tag| {
            let tag = if weak {
                tag.strip_prefix(b"W/").unwrap_or(tag)
            } else {
                tag
            };
            tag == b"*" || tag == etag.as_bytes()
        })
}

/// A single byte range; several ranges, other units and what does not parse are ignored, as
/// RFC 9110 §14.2 allows.
fn part(range: &[u8], length: u64) -> Selection {
    let Some(spec) = range.strip_prefix(b"bytes=") else {
        return Selection::Full;
    };
    let Some(dash) = spec.iter().position(|byte| *byte == b'-') else {
        return Selection::Full;
    };
    let (first, last) = (
        spec.get(..dash).unwrap_or_default().trim_ascii(),
        spec.get(dash + 1..).unwrap_or_default().trim_ascii(),
    );
    match (decimal(first), decimal(last)) {
        (None, Some(suffix)) if first.is_empty() => suffix_of(suffix, length),
        (Some(first), None) if last.is_empty() => bounded(first, u64::MAX, length),
        (Some(first), Some(last)) if first <= last => bounded(first, last, length),
        _ => Selection::Full,
    }
}

fn suffix_of(suffix: u64, length: u64) -> Selection {
    if suffix == 0 || length == 0 {
        return Selection::Unsatisfiable;
    }
    Selection::Part {
        first: length.saturating_sub(suffix),
        last: length - 1,
    }
}

fn bounded(first: u64, last: u64, length: u64) -> Selection {
    if first >= length {
        return Selection::Unsatisfiable;
    }
    Selection::Part {
        first,
        last: last.min(length - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version() -> Version {
        Version {
            modified: 784_111_777,
            etag: "\"abc\"".into(),
            length: 1000,
        }
    }

    fn ranged(range: &str) -> Selection {
        select(
            &Conditions {
                range: Some(range.as_bytes()),
                ..Default::default()
            },
            &version(),
            true,
        )
    }

    // RFC 9110 §14.1.2 examples, for 1000 bytes.
    #[test]
    fn single_ranges() {
        assert_eq!(
            ranged("bytes=0-499"),
            Selection::Part {
                first: 0,
                last: 499
            }
        );
        assert_eq!(
            ranged("bytes=500-999"),
            Selection::Part {
                first: 500,
                last: 999
            }
        );
        assert_eq!(
            ranged("bytes=500-"),
            Selection::Part {
                first: 500,
                last: 999
            }
        );
        assert_eq!(
            ranged("bytes=-1"),
            Selection::Part {
                first: 999,
                last: 999
            }
        );
        assert_eq!(
            ranged("bytes=-5000"),
            Selection::Part {
                first: 0,
                last: 999
            }
        );
        assert_eq!(
            ranged("bytes=900-5000"),
            Selection::Part {
                first: 900,
                last: 999
            }
        );
    }

    #[test]
    fn ranges_outside_are_unsatisfiable() {
        for range in ["bytes=1000-", "bytes=1000-1001", "bytes=-0"] {
            assert_eq!(ranged(range), Selection::Unsatisfiable, "{range}");
        }
    }

    #[test]
    fn what_is_not_a_single_byte_range_is_ignored() {
        for range in [
            "bytes=0-1,3-4",
            "lines=1-2",
            "bytes=",
            "bytes=-",
            "bytes=5-2",
            "bytes=a-b",
            "bytes=99999999999999999999-",
            "5-6",
        ] {
            assert_eq!(ranged(range), Selection::Full, "{range}");
        }
    }

    #[test]
    fn an_empty_file_satisfies_no_range() {
        let empty = Version {
            length: 0,
            ..version()
        };
        for range in [&b"bytes=0-"[..], b"bytes=-1"] {
            assert_eq!(
                select(
                    &Conditions {
                        range: Some(range),
                        ..Default::default()
                    },
                    &empty,
                    true
                ),
                Selection::Unsatisfiable
            );
        }
    }

    #[test]
    fn if_range_guards_the_range() {
        let with = |if_range: &'static str| {
            select(
                &Conditions {
                    range: Some(b"bytes=0-0"),
                    if_range: Some(if_range.as_bytes()),
                    ..Default::default()
                },
                &version(),
                true,
            )
        };
        assert_eq!(with("\"abc\""), Selection::Part { first: 0, last: 0 });
        assert_eq!(
            with("Sun, 06 Nov 1994 08:49:37 GMT"),
            Selection::Part { first: 0, last: 0 }
        );
        assert_eq!(with("W/\"abc\""), Selection::Full);
        assert_eq!(with("\"other\""), Selection::Full);
        assert_eq!(with("Sun, 06 Nov 1994 08:49:38 GMT"), Selection::Full);
    }

    #[test]
    fn dates_and_tags_decide_about_304() {
        let since = |date: &'static str| {
            select(
                &Conditions {
                    if_modified_since: Some(date.as_bytes()),
                    ..Default::default()
                },
                &version(),
                true,
            )
        };
        assert_eq!(
            since("Sun, 06 Nov 1994 08:49:37 GMT"),
            Selection::NotModified
        );
        assert_eq!(since("Sun, 06 Nov 1994 08:49:36 GMT"), Selection::Full);
        assert_eq!(since("rubbish"), Selection::Full);
        let tagged = |tags: &'static str| {
            let date = Some(&b"Sun, 06 Nov 1994 08:49:37 GMT"[..]);
            select(
                &Conditions {
                    if_none_match: Some(tags.as_bytes()),
                    if_modified_since: date,
                    ..Default::default()
                },
                &version(),
                true,
            )
        };
        assert_eq!(tagged("W/\"abc\""), Selection::NotModified);
        assert_eq!(tagged("\"x\", \"abc\""), Selection::NotModified);
        assert_eq!(tagged("*"), Selection::NotModified);
        assert_eq!(tagged("\"x\""), Selection::Full);
    }

    #[test]
    fn preconditions_fail_with_412() {
        let failed = |conditions: Conditions<'static>| {
            select(&conditions, &version(), true) == Selection::Failed
        };
        assert!(failed(Conditions {
            if_match: Some(b"\"x\""),
            ..Default::default()
        }));
        assert!(!failed(Conditions {
            if_match: Some(b"*"),
            ..Default::default()
        }));
        assert!(failed(Conditions {
            if_unmodified_since: Some(b"Sun, 06 Nov 1994 08:49:36 GMT"),
            ..Default::default()
        }));
        assert!(!failed(Conditions {
            if_unmodified_since: Some(b"Sun, 06 Nov 1994 08:49:37 GMT"),
            ..Default::default()
        }));
    }
}
