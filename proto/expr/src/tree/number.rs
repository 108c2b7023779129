//! Numbers with units, and dates, as they are typed.

use std::borrow::Cow;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{Offset, TimeZone};
use nero_model::units::{parse_duration_ms, size_unit_bytes, time_unit_ms};

/// A number, or the mistake in one, at the start of a text.
pub(crate) enum ScannedNumber {
    /// A number of so many bytes.
    Number { value: f64, len: usize },
    /// The text begins like a number and is none; the message, and a hint.
    Bad {
        len: usize,
        message: String,
        hint: String,
    },
}

/// Reads a number with its unit from the start of `text`; `None` when there is
/// no digit to begin with.
///
/// Units touch the number and are those of the format ([`nero_model::units`]):
/// `90min` and `2:00:00` are seconds, `4GB` bytes, `%` hundredths. Units of time
/// may be joined downwards: `1h30m`.
pub(crate) fn scan_number(text: &str) -> Option<ScannedNumber> {
    let plain_len = plain_number_len(text)?;
    let plain = &text[..plain_len];
    let rest = &text[plain_len..];
    if rest.starts_with('%') {
        return Some(finished(text, plain_len + 1, percent(plain)));
    }
    if rest.starts_with([':', '-'])
        && let Some(clock) = clock(text)
    {
        return Some(clock);
    }
    let value: f64 = plain.parse().unwrap_or(f64::INFINITY);
    let unit = unit_at(rest);
    if unit.is_empty() {
        return Some(finished(text, plain_len, value));
    }
    let unit_end = plain_len + unit.len();
    Some(match (time_unit_ms(unit), size_unit_bytes(unit)) {
        (Some(unit_ms), _) => {
            let (more, more_len) = joined_durations(&text[unit_end..], unit_ms);
            finished(text, unit_end + more_len, seconds(value, unit_ms) + more)
        }
        (None, Some(bytes)) => finished(text, unit_end, value * bytes as f64),
        (None, None) => bad_unit(text, plain_len),
    })
}

/// The letters at the start of `text`.
fn unit_at(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphabetic());
    &text[..end.unwrap_or(text.len())]
}

/// `2:00:00` and `1-12:00:00` in seconds; `None` for a text without two colons.
fn clock(text: &str) -> Option<ScannedNumber> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, ':' | '-')));
    let written = &text[..end.unwrap_or(text.len())];
    if !written.contains(':') {
        return None;
    }
    Some(match parse_duration_ms(written) {
        Ok(ms) => finished(text, written.len(), ms as f64 / 1000.0),
        Err(error) => ScannedNumber::Bad {
            len: written.len(),
            message: error.to_string(),
            hint: "such as `2:00:00` or `90m`; a moment is `2026-11-20T14:00`".to_owned(),
        },
    })
}

/// Reads `14:00` from the start of `text`: minutes since midnight, and the length.
pub(crate) fn scan_clock(text: &str) -> Option<(u16, usize)> {
    let end = text.find(|c: char| !(c.is_alphanumeric() || matches!(c, ':' | '.' | '_' | '-')));
    let written = &text[..end.unwrap_or(text.len())];
    let (hours, minutes) = written.split_once(':')?;
    let number = |part: &str, most: u16| {
        let digits = part.len() <= 2 && part.bytes().all(|b| b.is_ascii_digit());
        let number: u16 = part.parse().ok().filter(|_| digits)?;
        (number <= most).then_some(number)
    };
    let minutes = number(minutes, 59).filter(|_| minutes.len() == 2)?;
    Some((number(hours, 23)? * 60 + minutes, written.len()))
}

/// Length of digits, point, digits, exponent at the start of `text`.
fn plain_number_len(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        bytes[from..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count()
    };
    let mut len = digits(0);
    if bytes.get(len) == Some(&b'.') {
        let decimals = digits(len + 1);
        if len + decimals == 0 {
            return None;
        }
        if decimals > 0 {
            len += 1 + decimals;
        }
    }
    if len == 0 {
        return None;
    }
    if matches!(bytes.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
        let exponent = digits((len + 1 + sign).min(bytes.len()));
        if exponent > 0 {
            len += 1 + sign + exponent;
        }
    }
    Some(len)
}

/// The value of `40%`, exactly the number `0.40`.
fn percent(plain: &str) -> f64 {
    let exact = if plain.contains(['e', 'E']) {
        None
    } else {
        format!("{plain}e-2").parse().ok()
    };
    exact.unwrap_or_else(|| plain.parse::<f64>().unwrap_or(f64::INFINITY) / 100.0)
}

fn seconds(value: f64, unit_ms: u64) -> f64 {
    value * unit_ms as f64 / 1000.0
}

/// The `30m` of `1h30m`: seconds and length. Units have to become smaller.
fn joined_durations(text: &str, mut above_ms: u64) -> (f64, usize) {
    let (mut sum, mut len) = (0.0, 0);
    while let Some(plain_len) = plain_number_len(&text[len..]) {
        let unit = unit_at(&text[len + plain_len..]);
        let (Some(unit_ms), Ok(value)) = (
            time_unit_ms(unit),
            text[len..len + plain_len].parse::<f64>(),
        ) else {
            break;
        };
        if unit_ms >= above_ms {
            break;
        }
        sum += seconds(value, unit_ms);
        above_ms = unit_ms;
        len += plain_len + unit.len();
    }
    (sum, len)
}

/// The number, unless a character touches its end that must not.
fn finished(text: &str, len: usize, value: f64) -> ScannedNumber {
    let touching = text[len..].chars().next();
    if touching.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '%')) {
        return bad_unit(text, len);
    }
    if !value.is_finite() {
        return ScannedNumber::Bad {
            len,
            message: format!("`{}` is too big for a number", &text[..len]),
            hint: "numbers go up to 1.7e308".to_owned(),
        };
    }
    ScannedNumber::Number { value, len }
}

fn bad_unit(text: &str, from: usize) -> ScannedNumber {
    let tail = text[from..]
        .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '%')))
        .unwrap_or(text.len() - from);
    let len = from + tail;
    let (plain, unit) = text[..len].split_at(plain_number_len(text).unwrap_or(from));
    let meant = match unit {
        "H" | "hr" | "hrs" | "Hours" => Some("h"),
        "D" => Some("d"),
        "W" => Some("w"),
        "mins" => Some("m"),
        "secs" => Some("s"),
        "%%" | "pct" | "percent" => Some("%"),
        "bytes" | "Bytes" | "." => Some(""),
        "kB" | "kb" | "KBytes" => Some("K"),
        "MBytes" => Some("M"),
        "GBytes" => Some("G"),
        _ => None,
    };
    let digits: String = text[..len].chars().filter(|c| *c != '_').collect();
    let is_grouped = unit.starts_with('_') && digits.bytes().all(|b| b.is_ascii_digit());
    let hint = match (meant, unit) {
        (Some(unit), _) => format!("write `{plain}{unit}`"),
        (None, _) if is_grouped => format!("write `{digits}`"),
        (None, "am" | "pm") => "a time of day is written `14:00`".to_owned(),
        (None, "mo") => "write `30d`".to_owned(),
        (None, "y" | "yr" | "year" | "years") => "write `365d`".to_owned(),
        _ => "units are ms s m h d w, K M G T P and %; put names that begin with a digit in \
              backticks, texts in quotes"
            .to_owned(),
    };
    ScannedNumber::Bad {
        len,
        message: format!("`{}` is not a number with a unit", &text[..len]),
        hint,
    }
}

/// Length of a text that begins like a date of another form, and what to write:
/// `2026-11-2`, `20.11.2026`, `11/20/2026`.
pub(crate) fn misshapen_date(text: &str) -> Option<(usize, String)> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '-' | '/' | '.')));
    let written = &text[..end.unwrap_or(text.len())];
    let sign = written.chars().find(|c| !c.is_ascii_digit())?;
    let parts: Vec<&str> = written.split(sign).collect();
    let [first, second, third] = parts[..] else {
        return None;
    };
    let is_short = |part: &str| matches!(part.len(), 1 | 2);
    let all_digits = parts
        .iter()
        .all(|part| part.bytes().all(|b| b.is_ascii_digit()));
    let year_first = first.len() == 4 && is_short(second) && is_short(third);
    let year_last = is_short(first) && is_short(second) && third.len() == 4;
    if !all_digits || !(year_first || year_last) {
        return None;
    }
    let hint = if year_first {
        format!("dates are written `{first}-{second:0>2}-{third:0>2}`")
    } else {
        // Whether the day or the month stands first is not known.
        format!("dates are written year, month, day: `{third}-11-20`")
    };
    Some((written.len(), hint))
}

/// The years that dates may have.
const YEARS: std::ops::RangeInclusive<i16> = 1970..=2999;

/// Reads a date from the start of `text`; `None` when the digits have another
/// shape. `2026-11-20`, `2026-11-20T14:00`, `…:30`, `….250`, each with `Z` for
/// UTC, a time also with an offset (`+02:00`), else in `zone`. A time that a clock change skips or repeats is the
/// later or the first of the two, as `jiff` has it ("compatible").
///
/// Returns the moment, or the error, and the length.
pub(crate) fn scan_date(
    text: &str,
    zone: &TimeZone,
) -> Option<(Result<DateLiteral, String>, usize)> {
    let bytes = text.as_bytes();
    if !shaped(bytes, b"dddd-dd-dd") {
        return None;
    }
    let mut len = 10;
    for part in [&b"Tdd:dd"[..], b":dd", b".ddd"] {
        if !shaped(&bytes[len..], part) {
            break;
        }
        len += part.len();
    }
    let written = &text[..len];
    let has_time = len > 10;
    let mut zone = zone.clone();
    if bytes.get(len) == Some(&b'Z') {
        zone = TimeZone::UTC;
        len += 1;
    } else if has_time && let Some(offset) = offset_at(&text[len..]) {
        zone = TimeZone::fixed(offset);
        len += "+02:00".len();
    }
    let touching = text[len..].chars().next();
    if touching.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | ':' | '.')) {
        let tail = text[len..]
            .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | ':' | '.')))
            .unwrap_or(text.len() - len);
        let why = format!("`{}` is not a date", &text[..len + tail]);
        return Some((Err(why), len + tail));
    }
    let instant = resolve(written, &zone).map(|ms| DateLiteral {
        ms,
        offset_s: offset_at_ms(&zone, ms),
    });
    Some((
        instant.ok_or_else(|| format!("there is no date `{written}`")),
        len,
    ))
}

/// The instant of a text that is a date and nothing else, as parameters have it: a blank may
/// stand for the `T`.
pub(crate) fn date_of(text: &str, zone: &TimeZone) -> Option<i64> {
    if !shaped(text.as_bytes(), b"dddd-dd-dd") {
        return None;
    }
    let text = match text.as_bytes().get(10) {
        Some(b' ') => Cow::Owned(text.replacen(' ', "T", 1)),
        _ => Cow::Borrowed(text),
    };
    match scan_date(&text, zone) {
        Some((Ok(moment), len)) if len == text.len() => Some(moment.ms),
        Some(_) | None => None,
    }
}

/// Seconds that the clocks of a zone are ahead of UTC at an instant.
pub(crate) fn offset_at_ms(zone: &TimeZone, ms: i64) -> i32 {
    let at = jiff::Timestamp::from_millisecond(ms);
    at.map_or(0, |at| zone.to_offset(at).seconds())
}

/// The offset from UTC at the start of `text`: `+02:00`.
fn offset_at(text: &str) -> Option<Offset> {
    let is_east = text.starts_with('+');
    if !(is_east || text.starts_with('-')) || !shaped(&text.as_bytes()[1..], b"dd:dd") {
        return None;
    }
    let part = |from: usize| text.get(from..from + 2)?.parse::<i32>().ok();
    let (hours, minutes) = (part(1)?, part(4).filter(|minutes| *minutes < 60)?);
    let seconds = hours * 3600 + minutes * 60;
    Offset::from_seconds(if is_east { seconds } else { -seconds }).ok()
}

/// Whether `bytes` begin with `shape`, in which `d` is a digit.
fn shaped(bytes: &[u8], shape: &[u8]) -> bool {
    bytes.len() >= shape.len()
        && shape.iter().zip(bytes).all(|(s, b)| match s {
            b'd' => b.is_ascii_digit(),
            other => other == b,
        })
}

fn resolve(written: &str, zone: &TimeZone) -> Option<i64> {
    let field = |from: usize, to: usize| written.get(from..to).map_or(Some(0), |s| s.parse().ok());
    let year: i16 = field(0, 4)?;
    let small = |from, to| field(from, to).and_then(|n: i16| i8::try_from(n).ok());
    let date = Date::new(year, small(5, 7)?, small(8, 10)?).ok()?;
    let milliseconds = i32::from(field(20, 23)?);
    let nanoseconds = milliseconds * 1_000_000;
    let time = Time::new(small(11, 13)?, small(14, 16)?, small(17, 19)?, nanoseconds).ok()?;
    instant(DateTime::from_parts(date, time), zone).filter(|_| YEARS.contains(&year))
}

/// Unix milliseconds of a local time.
pub(crate) fn instant(local: DateTime, zone: &TimeZone) -> Option<i64> {
    let timestamp = zone.to_ambiguous_timestamp(local).compatible().ok()?;
    Some(timestamp.as_millisecond())
}

/// A moment by the clocks of its writer: `2026-11-20T00:00:00+02:00`.
pub(crate) fn print_local(moment: DateLiteral) -> String {
    let at = jiff::Timestamp::from_millisecond(moment.ms);
    let offset = Offset::from_seconds(moment.offset_s);
    // An offset of seconds, as of the 19th century, has no form here.
    let whole_minutes = moment.offset_s % 60 == 0 && moment.offset_s != 0;
    match (at, offset, whole_minutes) {
        (Ok(at), Ok(offset), true) if moment.ms % 1000 == 0 => {
            at.display_with_offset(offset).to_string()
        }
        (Ok(at), Ok(offset), true) => format!("{:.3}", at.display_with_offset(offset)),
        _ => print_instant(moment.ms),
    }
}

/// A moment as this crate prints and reads it: UTC, with milliseconds if there
/// are any.
pub(crate) fn print_instant(ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(ms) {
        Ok(moment) if ms % 1000 == 0 => moment.to_string(),
        Ok(moment) => format!("{moment:.3}"),
        Err(_) => format!("{ms} ms"),
    }
}

/// A date of an expression. Equal when the instant is: of the offset depends only how dates
/// without a zone compare, which parameters are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DateLiteral {
    /// Unix milliseconds.
    pub ms: i64,
    /// Seconds that the clocks of its writer are ahead of UTC.
    pub offset_s: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Option<f64> {
        match scan_number(text) {
            Some(ScannedNumber::Number { value, len }) => {
                assert_eq!(len, text.len(), "{text}");
                Some(value)
            }
            Some(ScannedNumber::Bad { .. }) | None => None,
        }
    }

    #[test]
    fn units_belong_to_the_number_they_touch() {
        for (text, value) in [
            ("7200", 7200.0),
            ("1e-3", 0.001),
            ("1E+3", 1000.0),
            (".5", 0.5),
            ("90s", 90.0),
            ("10m", 600.0),
            ("1.5h", 5400.0),
            ("2d", 172_800.0),
            ("1w", 604_800.0),
            ("1h30m", 5400.0),
            ("1d2h3m4s", 93_784.0),
            ("1K", 1024.0),
            ("2M", 2_097_152.0),
            ("20G", 21_474_836_480.0),
            ("1T", 1_099_511_627_776.0),
            ("1e3s", 1000.0),
            ("4GB", 4_294_967_296.0),
            ("1.5gib", 1_610_612_736.0),
            ("4k", 4096.0),
            ("90min", 5400.0),
            ("2hours", 7200.0),
            ("1h30min", 5400.0),
            ("50ms", 0.05),
            ("142.5ms", 0.1425),
            ("2:00:00", 7200.0),
            ("1-12:00:00", 129_600.0),
        ] {
            assert_eq!(number(text), Some(value), "{text}");
        }
    }

    #[test]
    fn per_cent_is_exactly_the_decimal_number() {
        for (text, value) in [("40%", 0.4), ("0.1%", 0.001), ("35%", 0.35), ("7%", 0.07)] {
            assert_eq!(number(text), Some(value), "{text}");
        }
    }

    #[test]
    fn an_unknown_unit_is_refused_with_the_text_to_write() {
        for (text, wanted) in [
            ("5hrs", "write `5h`"),
            ("14:00", "2026-11-20T14:00"),
            ("1:99:00", "2:00:00"),
            ("10ep", "backticks"),
            ("1.2.3", "backticks"),
            ("30m1h", "backticks"),
            ("1e999", "1.7e308"),
        ] {
            match scan_number(text) {
                Some(ScannedNumber::Bad { hint, len, .. }) => {
                    assert!(hint.contains(wanted), "{text}: {hint}");
                    assert_eq!(len, text.len(), "{text}");
                }
                _ => panic!("{text} was taken"),
            }
        }
    }

    fn date(text: &str, zone: &str) -> Option<Result<i64, String>> {
        let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
        scan_date(text, &zone).map(|(moment, _)| moment.map(|moment| moment.ms))
    }

    #[test]
    fn dates_are_local_unless_they_say_utc() {
        let helsinki = TimeZone::fixed(jiff::tz::offset(2));
        let (local, len) = scan_date("2026-11-20T14:00 ", &helsinki).unwrap();
        assert_eq!(print_instant(local.unwrap().ms), "2026-11-20T12:00:00Z");
        assert_eq!(len, 16);
        for (text, utc) in [
            ("2026-11-20", "2026-11-20T00:00:00Z"),
            ("2026-11-20T14:00:30", "2026-11-20T14:00:30Z"),
            ("2026-11-20T14:00:30.250Z", "2026-11-20T14:00:30.250Z"),
        ] {
            assert_eq!(print_instant(date(text, "UTC").unwrap().unwrap()), utc);
        }
    }

    #[test]
    fn days_that_do_not_exist_are_refused() {
        for text in [
            "2026-13-01",
            "2026-02-30",
            "2026-11-20T25:00",
            "0001-01-01",
            "2026-11-20x",
        ] {
            assert!(matches!(date(text, "UTC"), Some(Err(_))), "{text}");
        }
        assert_eq!(date("124-186", "UTC"), None);
    }
}
