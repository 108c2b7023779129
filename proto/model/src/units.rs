//! Durations and sizes as people write them: `2h`, `1h 30m`, `4G`.
//!
//! Every tier reads limits (time, memory, grace) in these units and prints them
//! back in the same ones, so the words are a contract. A bare number is seconds,
//! or bytes; `K M G T P` are powers of 1024. Nothing here reads a clock.

use thiserror::Error;

/// Reason why a duration or a size cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnitError {
    /// There is nothing but blanks.
    #[error("no value is given")]
    Empty,
    /// A part does not begin with a number.
    #[error("`{part}` is not a number")]
    NotANumber {
        /// The part as it was written.
        part: String,
    },
    /// The word behind a number is no unit of this kind.
    #[error("`{unit}` is not a unit of {kind}")]
    UnknownUnit {
        /// The unit as it was written.
        unit: String,
        /// `time` or `size`.
        kind: &'static str,
    },
    /// Two parts have the same unit, or a smaller one comes first.
    #[error("the units of `{text}` do not descend")]
    UnitOrder {
        /// The whole text.
        text: String,
    },
    /// Only digits, colons and one dash fit `D-HH:MM:SS`.
    #[error("`{text}` is not of the form H:MM:SS or D-HH:MM:SS")]
    BadClock {
        /// The whole text.
        text: String,
    },
    /// More than 64 bits of milliseconds or bytes.
    #[error("`{text}` is too large")]
    TooLarge {
        /// The whole text.
        text: String,
    },
}

const MS_PER_SECOND: u64 = 1_000;
const MS_PER_MINUTE: u64 = 60 * MS_PER_SECOND;
const MS_PER_HOUR: u64 = 60 * MS_PER_MINUTE;
const MS_PER_DAY: u64 = 24 * MS_PER_HOUR;
const MS_PER_WEEK: u64 = 7 * MS_PER_DAY;

/// Time units from large to small, each with the words that name it.
const TIME_UNITS: &[(u64, &[&str])] = &[
    (MS_PER_WEEK, &["w", "week", "weeks"]),
    (MS_PER_DAY, &["d", "day", "days"]),
    (MS_PER_HOUR, &["h", "hour", "hours"]),
    (MS_PER_MINUTE, &["m", "min", "minute", "minutes"]),
    (MS_PER_SECOND, &["s", "sec", "second", "seconds"]),
    (1, &["ms"]),
];

/// Size units from large to small.
const SIZE_UNITS: &[(u64, char)] = &[
    (1 << 50, 'P'),
    (1 << 40, 'T'),
    (1 << 30, 'G'),
    (1 << 20, 'M'),
    (1 << 10, 'K'),
];

/// Reads a duration in milliseconds: `90`, `1.5h`, `1h30m`, `1h 30m`, `2:00:00`, `1-12:00:00`.
///
/// A bare number is seconds. Units descend and none comes twice. Fractions of a
/// millisecond are cut off.
pub fn parse_duration_ms(text: &str) -> Result<u64, UnitError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(UnitError::Empty);
    }
    if text.contains(':') {
        return parse_clock_ms(text);
    }
    let mut total: u64 = 0;
    let mut last_unit = u64::MAX;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, after) = split_number(rest)?;
        let after = after.trim_start();
        let word_end = after
            .find(|c: char| !c.is_alphabetic())
            .unwrap_or(after.len());
        let (word, tail) = after.split_at(word_end);
        let unit = match word {
            "" if last_unit == u64::MAX && tail.is_empty() => MS_PER_SECOND,
            "" => return Err(UnitError::NotANumber { part: text.into() }),
            word => time_unit_ms(word).ok_or_else(|| UnitError::UnknownUnit {
                unit: word.into(),
                kind: "time",
            })?,
        };
        if unit >= last_unit {
            return Err(UnitError::UnitOrder { text: text.into() });
        }
        last_unit = unit;
        total = scaled(number, unit)
            .and_then(|part| total.checked_add(part))
            .ok_or_else(|| UnitError::TooLarge { text: text.into() })?;
        rest = tail.trim_start();
    }
    Ok(total)
}

/// Prints a duration so that [`parse_duration_ms`] reads the same back: `1h30m`, `250ms`, `0s`.
pub fn print_duration_ms(duration_ms: u64) -> String {
    if duration_ms == 0 {
        return "0s".into();
    }
    let mut text = String::new();
    let mut rest = duration_ms;
    // Weeks are read but not printed: `14d` is easier to compare with `15d` than `2w`.
    for (unit, words) in &TIME_UNITS[1..] {
        let count = rest / unit;
        if count > 0 {
            text.push_str(&format!("{count}{}", words[0]));
            rest %= unit;
        }
    }
    text
}

/// Reads a size in bytes: `4096`, `4G`, `1.5M`, `512MiB`, `20 gb`; powers of 1024.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(UnitError::Empty);
    }
    let (number, after) = split_number(text)?;
    let word = after.trim();
    let factor = size_unit_bytes(word).ok_or_else(|| UnitError::UnknownUnit {
        unit: word.into(),
        kind: "size",
    })?;
    scaled(number, factor).ok_or_else(|| UnitError::TooLarge { text: text.into() })
}

/// Prints a size so that [`parse_bytes`] reads the same back: `4G`, `1536M`, `4097`.
pub fn print_bytes(bytes: u64) -> String {
    for (factor, letter) in SIZE_UNITS {
        if bytes > 0 && bytes.is_multiple_of(*factor) {
            return format!("{}{letter}", bytes / factor);
        }
    }
    bytes.to_string()
}

/// Prints a size for eyes, in two or three digits: `3.2G`, `512K`, `0B`. Units are
/// the powers of 1024 that people type.
pub fn short_bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "K", "M", "G", "T"] {
        if value < 1024.0 {
            let places = usize::from(unit != "B" && value < 10.0);
            return format!("{value:.places$}{unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.0}P")
}

/// Prints that a size is less than another one for eyes, `24G < 500G`; sizes
/// that would look the same in full.
pub fn print_less_bytes(less: u64, more: u64) -> String {
    let (short, other) = (short_bytes(less), short_bytes(more));
    if short == other {
        format!("{} < {}", print_bytes(less), print_bytes(more))
    } else {
        format!("{short} < {other}")
    }
}

/// Milliseconds of the unit of time that `word` names: `m`, `min`, `hours`.
pub fn time_unit_ms(word: &str) -> Option<u64> {
    let unit = TIME_UNITS.iter().find(|(_, words)| words.contains(&word));
    unit.map(|(unit_ms, _)| *unit_ms)
}

/// Bytes of the unit of size that `word` names: `G`, `gb`, `MiB`, and none at all.
pub fn size_unit_bytes(word: &str) -> Option<u64> {
    let mut letters = word.chars();
    let Some(first) = letters.next() else {
        return Some(1);
    };
    let rest = letters.as_str();
    if first.eq_ignore_ascii_case(&'b') && rest.is_empty() {
        return Some(1);
    }
    if !["", "b", "ib"].iter().any(|r| rest.eq_ignore_ascii_case(r)) {
        return None;
    }
    SIZE_UNITS
        .iter()
        .find(|(_, letter)| first.eq_ignore_ascii_case(letter))
        .map(|(factor, _)| *factor)
}

/// A decimal number kept exactly: digits and how many of them are behind the point.
#[derive(Clone, Copy)]
struct Decimal {
    digits: u64,
    places: u32,
}

fn split_number(text: &str) -> Result<(Decimal, &str), UnitError> {
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let bad = || UnitError::NotANumber { part: text.into() };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(bad());
    }
    // Twelve places are finer than any unit here; more would only overflow.
    let fraction = &fraction[..fraction.len().min(12)];
    let too_large = |_| UnitError::TooLarge { text: text.into() };
    let digits = format!("0{whole}{fraction}").parse().map_err(too_large)?;
    let places = u32::try_from(fraction.len()).map_err(|_| bad())?;
    Ok((Decimal { digits, places }, rest))
}

fn scaled(number: Decimal, unit: u64) -> Option<u64> {
    let product = u128::from(number.digits).checked_mul(u128::from(unit))?;
    u64::try_from(product / 10u128.pow(number.places)).ok()
}

/// `H:MM:SS` and `D-HH:MM:SS`, as schedulers print limits. `MM:SS` is refused:
/// some read it as minutes and seconds, others as hours and minutes.
fn parse_clock_ms(text: &str) -> Result<u64, UnitError> {
    let bad = || UnitError::BadClock { text: text.into() };
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (clock_field(days).ok_or_else(bad)?, clock),
        None => (0, text),
    };
    let fields: Vec<u64> = clock
        .split(':')
        .map(clock_field)
        .collect::<Option<_>>()
        .ok_or_else(bad)?;
    let [hours, minutes, seconds] = fields[..] else {
        return Err(bad());
    };
    if minutes > 59 || seconds > 59 {
        return Err(bad());
    }
    [
        (days, MS_PER_DAY),
        (hours, MS_PER_HOUR),
        (minutes, MS_PER_MINUTE),
        (seconds, MS_PER_SECOND),
    ]
    .into_iter()
    .try_fold(0u64, |sum, (count, unit)| {
        count.checked_mul(unit).and_then(|ms| sum.checked_add(ms))
    })
    .ok_or_else(|| UnitError::TooLarge { text: text.into() })
}

fn clock_field(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        let table = [
            ("90", 90_000),
            ("0", 0),
            ("2h", 7_200_000),
            ("10m", 600_000),
            ("1h 30m", 5_400_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            (".5s", 500),
            ("250ms", 250),
            ("3 days", 259_200_000),
            ("1w", 604_800_000),
            (" 2 min ", 120_000),
            ("2:00:00", 7_200_000),
            ("1-23:59:59", 172_799_000),
            ("100:00:00", 360_000_000),
        ];
        for (text, want) in table {
            assert_eq!(parse_duration_ms(text), Ok(want), "{text}");
        }
    }

    #[test]
    fn bad_durations_are_refused() {
        let table = [
            ("", "no value is given"),
            ("  ", "no value is given"),
            ("h", "`h` is not a number"),
            ("-5s", "`-5s` is not a number"),
            ("1.2.3s", "`1.2.3s` is not a number"),
            ("5 parsecs", "`parsecs` is not a unit of time"),
            ("4G", "`G` is not a unit of time"),
            ("30m 1h", "the units of `30m 1h` do not descend"),
            ("1h 1h", "the units of `1h 1h` do not descend"),
            ("1h 30", "`1h 30` is not a number"),
            ("59:59", "`59:59` is not of the form H:MM:SS or D-HH:MM:SS"),
            (
                "1:60:00",
                "`1:60:00` is not of the form H:MM:SS or D-HH:MM:SS",
            ),
            ("99999999999999999w", "`99999999999999999w` is too large"),
        ];
        for (text, want) in table {
            let error = parse_duration_ms(text).expect_err(text);
            assert_eq!(error.to_string(), want, "{text}");
        }
    }

    #[test]
    fn sizes_are_read() {
        let table = [
            ("0", 0),
            ("4096", 4096),
            ("4G", 4 << 30),
            ("4GB", 4 << 30),
            ("4GiB", 4 << 30),
            ("4 g", 4 << 30),
            ("1.5M", 1_572_864),
            ("512k", 524_288),
            ("2T", 2 << 40),
            ("1P", 1 << 50),
            ("10B", 10),
        ];
        for (text, want) in table {
            assert_eq!(parse_bytes(text), Ok(want), "{text}");
        }
    }

    #[test]
    fn bad_sizes_are_refused() {
        for text in ["", "G", "-1G", "4X", "4Gx", "4 G 5 M", "99999999P", "1e3"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn printed_units_read_back() {
        let durations = [0, 1, 999, 1000, 61_000, 5_400_000, MS_PER_WEEK, u64::MAX];
        for ms in durations {
            assert_eq!(parse_duration_ms(&print_duration_ms(ms)), Ok(ms));
        }
        assert_eq!(print_duration_ms(5_400_000), "1h30m");
        for bytes in [0, 1, 1023, 1024, 4 << 30, 1_572_864, u64::MAX] {
            assert_eq!(parse_bytes(&print_bytes(bytes)), Ok(bytes));
        }
        assert_eq!(print_bytes(1_572_864), "1536K");
    }
}
