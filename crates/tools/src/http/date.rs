//! Dates of HTTP (RFC 9110 §5.6.7): seconds since 1970 to text and back.

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Year, month 1-12 and day 1-31 of a number of days since 1970-01-01 (proleptic Gregorian calendar).
fn civil(days: i64) -> (i64, i64, i64) {
    // Eras of 400 years start on 1 March 0000, so that the leap day is the last of its year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Days since 1970-01-01 of a civil date: the inverse of [`civil`].
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The preferred format, `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(crate) fn format(seconds: i64) -> String {
    let days = seconds.div_euclid(86_400);
    let time = seconds.rem_euclid(86_400);
    let (year, month, day) = civil(days);
    let name = DAYS.get(days.rem_euclid(7) as usize).unwrap_or(&"");
    let month = MONTHS.get(month as usize - 1).unwrap_or(&"");
    format!(
        "{name}, {day:02} {month} {year:04} {:02}:{:02}:{:02} GMT",
        time / 3600,
        time / 60 % 60,
        time % 60
    )
}

/// As in the Common Log Format, `06/Nov/1994:08:49:37 +0000`.
pub(crate) fn common_log(seconds: i64) -> String {
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    let time = seconds.rem_euclid(86_400);
    let month = MONTHS.get(month as usize - 1).unwrap_or(&"");
    format!(
        "{day:02}/{month}/{year:04}:{:02}:{:02}:{:02} +0000",
        time / 3600,
        time / 60 % 60,
        time % 60
    )
}

/// Reads the preferred format and the two obsolete ones.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let text = text.trim();
    match text.split_once(", ") {
        Some((_, rest)) if rest.as_bytes().get(2) == Some(&b' ') => imf(rest),
        Some((_, rest)) => rfc850(rest),
        None => asctime(text),
    }
}

fn imf(rest: &str) -> Option<i64> {
    let mut words = rest.split(' ');
    let (day, month, year, time) = (words.next()?, words.next()?, words.next()?, words.next()?);
    seconds(
        number(year, 4)?,
        month,
        number(day, 2)?,
        time,
        words.next()?,
        words.next(),
    )
}

fn rfc850(rest: &str) -> Option<i64> {
    let mut words = rest.split(' ');
    let (date, time, zone) = (words.next()?, words.next()?, words.next()?);
    let mut parts = date.split('-');
    let (day, month, short) = (parts.next()?, parts.next()?, number(parts.next()?, 2)?);
    // Two digits more than 50 years ahead are in the past; from today's century that is the split at 70 that everyone uses.
    let year = if short < 70 {
        2000 + short
    } else {
        1900 + short
    };
    seconds(year, month, number(day, 2)?, time, zone, words.next())
}

fn asctime(text: &str) -> Option<i64> {
    let mut words = text.split_ascii_whitespace().skip(1);
    let (month, day, time, year) = (words.next()?, words.next()?, words.next()?, words.next()?);
    seconds(
        number(year, 4)?,
        month,
        day.parse().ok()?,
        time,
        "GMT",
        words.next(),
    )
}

fn number(text: &str, digits: usize) -> Option<i64> {
    (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())?
}

fn seconds(
    year: i64,
    month: &str,
    day: i64,
    time: &str,
    zone: &str,
    rest: Option<&str>,
) -> Option<i64> {
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let mut parts = time.split(':');
    let (hour, minute, second) = (
        number(parts.next()?, 2)?,
        number(parts.next()?, 2)?,
        number(parts.next()?, 2)?,
    );
    let valid = parts.next().is_none()
        && rest.is_none()
        && zone == "GMT"
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    valid.then(|| days_since_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
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
        for day in -40_000..80_000 {
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
