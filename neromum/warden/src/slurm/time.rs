//! Times as SLURM prints them.

/// Seconds of `minutes`, `minutes:seconds`, `hours:minutes:seconds` or
/// `days-hours[:minutes[:seconds]]`; `None` for anything else, also for words
/// such as `UNLIMITED`.
pub fn seconds(text: &str) -> Option<u64> {
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(number(days)?), rest),
        None => (None, text),
    };
    let parts: Vec<u64> = rest.split(':').map(number).collect::<Option<_>>()?;
    let (hours, minutes, seconds) = match (days, &parts[..]) {
        (None, [minutes]) => (0, *minutes, 0),
        (None, [minutes, seconds]) => (0, *minutes, *seconds),
        (Some(_), [hours]) => (*hours, 0, 0),
        (Some(_), [hours, minutes]) => (*hours, *minutes, 0),
        (_, [hours, minutes, seconds]) => (*hours, *minutes, *seconds),
        _ => return None,
    };
    Some(((days.unwrap_or(0) * 24 + hours) * 60 + minutes) * 60 + seconds)
}

/// Seconds since 1970 of `2026-11-23T15:10:57`, in UTC.
pub fn moment(text: &str) -> Option<i64> {
    let (date, time) = text.split_once('T')?;
    let parts = |text: &str, by: char| -> Option<Vec<i64>> {
        let parts = text.split(by).map(|part| number(part)?.try_into().ok());
        parts.collect()
    };
    let [year, month, day] = parts(date, '-')?[..] else {
        return None;
    };
    let [hours, minutes, seconds] = parts(time, ':')?[..] else {
        return None;
    };
    if !(1..=12).contains(&month) || !(1970..=9999).contains(&year) {
        return None;
    }
    // Years that begin with March end with the leap day.
    let (year, month) = match month {
        1 | 2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days = year * 365 + leap_days + (month * 153 + 2) / 5 + day - 719_469;
    Some(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
}

fn number(text: &str) -> Option<u64> {
    let digits = (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::{moment, seconds};

    #[test]
    fn moments_are_read_as_seconds_since_1970() {
        for (text, expected) in [
            ("1970-01-01T00:00:00", Some(0)),
            ("2000-02-29T12:00:01", Some(951_825_601)),
            ("2026-11-23T15:10:57", Some(1_795_446_657)),
            ("Unknown", None),
            ("2026-13-01T00:00:00", None),
        ] {
            assert_eq!(moment(text), expected, "{text}");
        }
    }

    #[test]
    fn lengths_of_time_are_read_in_every_documented_form() {
        for (text, expected) in [
            ("30:00", Some(1800)),
            ("00:30:00", Some(1800)),
            ("1-00:00:00", Some(86_400)),
            ("2-12", Some(216_000)),
            ("1-01:01", Some(90_060)),
            ("60", Some(3600)),
            ("infinite", None),
            ("UNLIMITED", None),
            ("", None),
            ("-1", None),
            ("1:2:3:4", None),
            ("1:+2", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
