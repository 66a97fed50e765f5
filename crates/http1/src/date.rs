//! Dates of HTTP (RFC 9110 §5.6.7): seconds since 1970 to text and back.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use httpdate::{fmt_http_date, parse_http_date};

/// The last second of the year 9999: later dates have no such format, nor have those before 1970.
const LATEST: u64 = 253_402_300_799;

/// The preferred format, `Sun, 06 Nov 1994 08:49:37 GMT`; the first or the last date that there is
/// for one outside.
pub fn format(seconds: i64) -> String {
    fmt_http_date(time(seconds))
}

fn time(seconds: i64) -> SystemTime {
    let seconds = u64::try_from(seconds).unwrap_or(0).min(LATEST);
    UNIX_EPOCH + Duration::from_secs(seconds)
}

/// As in the Common Log Format, `06/Nov/1994:08:49:37 +0000`.
pub fn common_log(seconds: i64) -> String {
    let date = format(seconds);
    let mut words = date.split(' ').skip(1);
    let [day, month, year, time] = std::array::from_fn(|_| words.next().unwrap_or_default());
    format!("{day}/{month}/{year}:{time} +0000")
}

/// Reads the preferred format and the two obsolete ones.
pub fn parse(text: &str) -> Option<i64> {
    let since = parse_http_date(text.trim())
        .ok()?
        .duration_since(UNIX_EPOCH)
        .ok()?;
    i64::try_from(since.as_secs()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 9110 §5.6.7: the same instant in its three formats.
    #[test]
    fn the_three_formats_of_the_rfc_are_one_instant() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse(text), Some(784_111_777), "{text}");
        }
        assert_eq!(format(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn every_day_comes_back() {
        for day in 0..80_000 {
            let seconds = day * 86_400 + 3_723;
            assert_eq!(parse(&format(seconds)), Some(seconds));
        }
    }

    #[test]
    fn leap_days_are_where_they_belong() {
        assert_eq!(format(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(format(0), "Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    fn times_of_files_that_no_date_names_are_the_nearest() {
        assert_eq!(format(-1), format(0));
        assert_eq!(format(i64::MIN), format(0));
        assert_eq!(format(i64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn a_line_of_a_log_has_its_own_order() {
        assert_eq!(common_log(784_111_777), "06/Nov/1994:08:49:37 +0000");
    }

    #[test]
    fn nonsense_is_not_a_date() {
        for text in [
            "",
            "yesterday",
            "Sun, 06 Nov 1994",
            "Sun, 06 Nov 1994 25:00:00 GMT",
            "Sun, 99 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 CET",
            ", , ,",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
