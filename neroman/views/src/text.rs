//! Small pieces of text: times, durations, numbers, ranges, counts.

use std::fmt::Display;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use nero_model::safe::looks_secret;
use nero_wire::v1::EnvVar;

/// Names that are listed one by one.
const NAMED_MAX: usize = 8;

/// `collection/name`.
pub fn full_name(collection: &str, name: &str) -> String {
    if collection.is_empty() {
        name.to_owned()
    } else {
        format!("{collection}/{name}")
    }
}

/// A variable's value; what looks secret is masked once more.
pub fn variable(var: &EnvVar) -> &str {
    if looks_secret(&var.name) {
        "***"
    } else {
        &var.value
    }
}

/// Names in a sentence: the first few, and how many more there are.
pub fn some(names: &[String]) -> String {
    let named = names[..names.len().min(NAMED_MAX)].join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// A reason with the job's last line on standard error, if known. A reason that
/// only repeats the state beside it is empty.
pub fn why(state: &str, reason: &str, stderr_line: &str) -> String {
    match (reason == state, stderr_line) {
        (true, _) => String::new(),
        (false, "") => reason.to_owned(),
        (false, line) => format!("{reason}: {line}"),
    }
}

/// `2026-11-20 14:02:11` in the user's time zone; a dash for never.
pub fn local_time(ms: i64) -> String {
    local_time_in(ms, &TimeZone::system())
}

/// `14:02:11` in the user's time zone; a dash for never.
pub fn clock(ms: i64) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(at) if ms != 0 => at
            .to_zoned(TimeZone::system())
            .strftime("%H:%M:%S")
            .to_string(),
        _ => "-".into(),
    }
}

fn local_time_in(ms: i64, zone: &TimeZone) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(at) if ms != 0 => at
            .to_zoned(zone.clone())
            .strftime("%Y-%m-%d %H:%M:%S")
            .to_string(),
        _ => "-".into(),
    }
}

/// ISO 8601 in UTC; none for never.
pub fn iso_time(ms: i64) -> Option<String> {
    (ms != 0)
        .then(|| Timestamp::from_millisecond(ms).ok())
        .flatten()
        .map(|at| at.to_string())
}

/// A figure, in brackets when it is an old one.
pub fn marked(figure: &str, is_old: bool) -> String {
    if is_old && !figure.is_empty() {
        format!("({figure})")
    } else {
        figure.to_owned()
    }
}

/// The state of an experiment whose definition is newer than its run.
pub fn edited_since(state: &str) -> String {
    format!("{state}, edited since")
}

/// `0.25s`, `12.3s`, `4m05s`, `2h14m`, `3d04h`.
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "?".into();
    }
    if seconds < 9.995 {
        return format!("{seconds:.2}s");
    }
    if seconds < 59.95 {
        return format!("{seconds:.1}s");
    }
    let whole = seconds.round() as u64;
    let (minutes, hours, days) = (whole / 60, whole / 3600, whole / 86_400);
    if hours == 0 {
        format!("{minutes}m{:02}s", whole % 60)
    } else if days == 0 {
        format!("{hours}h{:02}m", minutes % 60)
    } else {
        format!("{days}d{:02}h", hours % 24)
    }
}

/// A share of a whole: `37%`; 100% is all of it.
pub fn percent(share: f64) -> String {
    // What was typed as 0.29 is a little less than 29 hundredths.
    format!("{:.0}%", (share * 100.0 + 1e-9).floor())
}

/// A number in at most six significant digits.
pub fn number(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    if value == 0.0 {
        return "0".into();
    }
    let size = value.abs().log10().floor() as i32;
    if !(-5..9).contains(&size) {
        return format!("{value:.4e}");
    }
    let places = usize::try_from(5 - size).unwrap_or(0);
    let text = format!("{value:.places$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// `0.310 ± 0.021`: the deviation with two digits, the mean to the same place.
pub fn spread(mean: f64, deviation: f64) -> String {
    // After rounding: 0.0996 is 0.10.
    let digits = format!("{deviation:.1e}");
    let size = digits
        .rsplit_once('e')
        .and_then(|(_, size)| size.parse::<i32>().ok());
    let places = size.map(|size| 1 - size);
    let fits = deviation > 0.0 && mean.is_finite() && mean.abs() < 1e9;
    match places.filter(|places| fits && (-8..10).contains(places)) {
        Some(places) if places >= 0 => {
            let places = places.unsigned_abs() as usize;
            format!("{mean:.places$} ± {deviation:.places$}")
        }
        Some(places) => {
            let unit = 10_f64.powi(-places);
            let rounded = |value: f64| (value / unit).round() * unit;
            format!("{:.0} ± {:.0}", rounded(mean), rounded(deviation))
        }
        None => format!("{} ± {}", number(mean), number(deviation)),
    }
}

/// `3.2G`, `512K`.
pub fn bytes(count: u64) -> String {
    nero_model::units::short_bytes(count)
}

/// First and last of each row of ids without a gap, ascending.
pub fn ranges(list: &[u64]) -> Vec<(u64, u64)> {
    let mut sorted = list.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for id in sorted {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == id => *last = id,
            _ => ranges.push((id, id)),
        }
    }
    ranges
}

/// Ids as they are typed: `17,44-46`.
pub fn ids(list: &[u64]) -> String {
    let shown = ranges(list)
        .into_iter()
        .map(|(first, last)| match last - first {
            0 => first.to_string(),
            1 => format!("{first},{last}"),
            _ => format!("{first}-{last}"),
        });
    join(shown, ",")
}

/// Counts words in the order in which they first come.
pub fn count<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<(usize, String)> {
    let groups = grouped(words.into_iter().map(|word| (word, ()))).into_iter();
    groups
        .map(|(word, those)| (those.len(), word.to_owned()))
        .collect()
}

/// The items of each key, in the order in which the keys first come.
pub fn grouped<K: PartialEq, T>(items: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, item) in items {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, those)) => those.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

/// The words in a row, with `between` between two of them.
pub fn join<W: AsRef<str>>(words: impl IntoIterator<Item = W>, between: &str) -> String {
    let mut text = String::new();
    for (at, word) in words.into_iter().enumerate() {
        text.push_str(if at > 0 { between } else { "" });
        text.push_str(word.as_ref());
    }
    text
}

/// `3 running, 2 finished`.
pub fn counted(counts: &[(usize, String)]) -> String {
    join(
        counts.iter().map(|(count, word)| format!("{count} {word}")),
        ", ",
    )
}

/// `1 run`, `2 runs`.
pub fn plural<N: Display + PartialEq + From<u8>>(count: N, word: &str) -> String {
    let end = if count == N::from(1) { "" } else { "s" };
    format!("{count} {word}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_has_the_digits_that_its_deviation_lets_count() {
        for (mean, deviation, text) in [
            (0.0000333333, 0.000057735, "0.000033 ± 0.000058"),
            (0.102633, 0.00149778, "0.1026 ± 0.0015"),
            (0.31, 0.0996, "0.31 ± 0.10"),
            (12.345, 1.0, "12.3 ± 1.0"),
            (123_456.0, 1234.0, "123500 ± 1200"),
            (100.0, 0.0, "100 ± 0"),
            (0.5, 1e-12, "0.5 ± 1.0000e-12"),
            (f64::NAN, f64::NAN, "NaN ± NaN"),
            (1.0, f64::INFINITY, "1 ± inf"),
        ] {
            assert_eq!(spread(mean, deviation), text);
        }
    }

    #[test]
    fn times_are_said_where_the_reader_is() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(
            local_time_in(1_700_000_000_000, &zone),
            "2023-11-15 00:13:20"
        );
        assert_eq!(local_time_in(0, &zone), "-");
        assert_eq!(
            iso_time(1_700_000_000_123).as_deref(),
            Some("2023-11-14T22:13:20.123Z")
        );
        assert_eq!(iso_time(0), None);
    }

    #[test]
    fn durations_have_two_parts() {
        let table = [
            (0.0, "0.00s"),
            (0.25, "0.25s"),
            (12.34, "12.3s"),
            (59.97, "1m00s"),
            (245.0, "4m05s"),
            (8040.0, "2h14m"),
            (273_600.0, "3d04h"),
            (f64::NAN, "?"),
        ];
        for (seconds, want) in table {
            assert_eq!(duration(seconds), want, "{seconds}");
        }
    }

    #[test]
    fn numbers_are_short() {
        let table = [
            (0.31, "0.31"),
            (1.0 / 3.0, "0.333333"),
            (50.0, "50"),
            (123_456.7, "123457"),
            (1e-7, "1.0000e-7"),
            (-0.5, "-0.5"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (value, want) in table {
            assert_eq!(number(value), want);
        }
    }

    #[test]
    fn ids_are_typed_back() {
        assert_eq!(ids(&[46, 17, 44, 45, 17]), "17,44-46");
        assert_eq!(ids(&[1, 2, 9]), "1,2,9");
        assert_eq!(ids(&[]), "");
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(bytes(512), "512B");
        assert_eq!(bytes(1536), "1.5K");
        assert_eq!(bytes(4 << 30), "4.0G");
    }
}
