//! Numbers, dates and times as text.

use std::borrow::Cow;

use arrow_schema::TimeUnit;
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};

/// More digits do not fit into 128 bits.
const MAX_DIGITS: usize = 38;
/// In nanoseconds.
const SECOND: u32 = 1_000_000_000;

/// The number times 10^`scale`; None if it is no number, has more digits, or would be rounded.
pub fn decimal(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let digits = mantissa.strip_prefix('-').unwrap_or(mantissa);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|each| each.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let all = format!("{whole}{fraction}");
    let significant = all.trim_start_matches('0');
    if significant.is_empty() {
        return Some(0);
    }
    let kept = significant.trim_end_matches('0');
    let zeros = (significant.len() - kept.len()) as i64;
    let shift = i64::from(exponent) - fraction.len() as i64 + zeros + i64::from(scale);
    if kept.len() > MAX_DIGITS || !(0..=MAX_DIGITS as i64).contains(&shift) {
        return None;
    }
    let number = kept.parse::<i128>().ok()?.checked_mul(10_i128.pow(shift as u32))?;
    let number = Some(number).filter(|each| *each < 10_i128.pow(u32::from(precision)))?;
    Some(if mantissa.starts_with('-') { -number } else { number })
}

/// Days since 1970 of a date in ISO 8601.
pub fn date(text: &str) -> Option<i32> {
    let date = full_date(text).parse::<NaiveDate>().ok()?;
    i32::try_from(date.signed_duration_since(NaiveDate::default()).num_days()).ok()
}

/// A time in ISO 8601; without an offset it is in UTC. None also if the unit cannot express it.
pub fn timestamp(text: &str, unit: TimeUnit) -> Option<i64> {
    let time = time(text).or_else(|| time(&full(text)?))?;
    let nanoseconds = time.timestamp_subsec_nanos(); // of a leap second, more than a second
    let (number, unit) = match unit {
        TimeUnit::Second => (time.timestamp() + i64::from(nanoseconds / SECOND), SECOND),
        TimeUnit::Millisecond => (time.timestamp_millis(), 1_000_000),
        TimeUnit::Microsecond => (time.timestamp_micros(), 1_000),
        TimeUnit::Nanosecond => (time.timestamp_nanos_opt()?, 1),
    };
    (nanoseconds % unit == 0).then_some(number)
}

fn time(text: &str) -> Option<DateTime<Utc>> {
    let time =
        DateTime::parse_from_rfc3339(text).map(|time| time.with_timezone(&Utc)).or_else(|_| {
            let naive = text.parse::<NaiveDateTime>().or_else(|_| {
                NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f").or_else(|_| {
                    full_date(text).parse::<NaiveDate>().map(|date| date.and_time(NaiveTime::MIN))
                })
            });
            naive.map(|naive| naive.and_utc())
        });
    time.ok()
}

/// A date of the basic form, 20260501, with hyphens; others as they are.
fn full_date(text: &str) -> Cow<'_, str> {
    match text.as_bytes() {
        digits if digits.len() == 8 && digits.iter().all(u8::is_ascii_digit) => {
            format!("{}-{}-{}", &text[..4], &text[4..6], &text[6..]).into()
        }
        _ => text.into(),
    }
}

/// What RFC 3339 has of a time that is in ISO 8601 otherwise: no seconds, no colons or hyphens, a
/// comma, an offset of hours.
fn full(text: &str) -> Option<String> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let (clock, offset) = rest.split_at(rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len()));
    let (clock, fraction) = match clock.split_once(['.', ',']) {
        Some((clock, fraction)) => (clock, format!(".{fraction}")),
        None => (clock, String::new()),
    };
    let has_seconds = clock.len() >= "HHMMSS".len();
    let clock = match (clock.len(), clock.is_ascii()) {
        (4, true) => format!("{}:{}:00", &clock[..2], &clock[2..]),
        (5, true) => format!("{clock}:00"),
        (6, true) => format!("{}:{}:{}", &clock[..2], &clock[2..4], &clock[4..]),
        _ => clock.to_owned(),
    };
    let offset = match (offset.len(), offset.is_ascii()) {
        (3, true) => format!("{offset}:00"),
        (5, true) => format!("{}:{}", &offset[..3], &offset[3..]),
        _ => offset.to_owned(),
    };
    let is_whole = has_seconds || fraction.is_empty(); // 12:00,5 would be half a minute
    is_whole.then(|| format!("{}T{clock}{fraction}{offset}", full_date(date)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        for (text, expected) in [
            ("1.25", Some(125)),
            ("-1.2500", Some(-125)),
            ("0.005", None),
            ("0.0050e1", Some(5)),
            ("12e-3", None),
            ("120e-3", Some(12)),
            ("-0", Some(0)),
            ("0e999999999", Some(0)),
            ("1e999999999", None),
            ("1e99999999999", None),
            ("99999999.99", Some(9_999_999_999)),
            ("100000000", None),
            ("1e7", Some(1_000_000_000)),
            ("00000000000000000000000000000000000000000000000001", Some(100)),
            ("", None),
            (".5", None),
            ("1.", None),
            ("+1", None),
            ("1.-5", None),
            ("NaN", None),
        ] {
            assert_eq!(decimal(text, 10, 2), expected, "{text}");
        }
        let largest = "99999999999999999999999999999999999999";
        assert_eq!(decimal(largest, 38, 0), Some(10_i128.pow(38) - 1));
        assert_eq!(decimal("1200", 10, -2), Some(12));
        assert_eq!(decimal("1250", 10, -2), None);
    }

    #[test]
    fn times_have_a_unit() {
        for text in
            ["1970-01-02T00:00:01.5Z", "1970-01-02T01:00:01.5+01:00", "1970-01-02 00:00:01.5"]
        {
            assert_eq!(timestamp(text, TimeUnit::Millisecond), Some(86_401_500), "{text}");
        }
        for text in [
            "1970-01-02T00:00Z",
            "1970-01-02 00:00",
            "19700102T0100+01",
            "19700102T000000,0z",
            "1970-01-01t20:00:00-0400",
            "19700102",
        ] {
            assert_eq!(timestamp(text, TimeUnit::Millisecond), Some(86_400_000), "{text}");
        }
        assert_eq!(timestamp("1970-01-02T00:00.5Z", TimeUnit::Millisecond), None);
        assert_eq!(date("19691231"), Some(-1));
        assert_eq!(timestamp("1970-01-02", TimeUnit::Second), Some(86_400));
        assert_eq!(timestamp("1970-01-02T00:00:01.5Z", TimeUnit::Second), None);
        assert_eq!(timestamp("1969-12-31T23:59:59.5Z", TimeUnit::Millisecond), Some(-500));
        assert_eq!(timestamp("1970-01-01T00:00:00.0001Z", TimeUnit::Millisecond), None);
        assert_eq!(timestamp("2016-12-31T23:59:60Z", TimeUnit::Second), Some(1_483_228_800));
        assert_eq!(timestamp("3000-01-01T00:00:00Z", TimeUnit::Nanosecond), None);
        assert_eq!(timestamp("yesterday", TimeUnit::Second), None);
        assert_eq!(date("1969-12-31"), Some(-1));
        assert_eq!(date("1969-12-32"), None);
    }
}
