//! Lengths of time as SLURM prints them.

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

fn number(text: &str) -> Option<u64> {
    let digits = (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::seconds;

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
