//! Values as a person typed them.

use nero_table::CellValue;

/// A number in its shortest form that reads back the same.
pub(crate) fn number(value: f64) -> CellValue {
    if !value.is_finite() {
        return CellValue::Error("#NUM!".to_owned());
    }
    let size = value.abs();
    let text = if value == 0.0 {
        "0".to_owned()
    } else if (1e-5..1e16).contains(&size) {
        value.to_string()
    } else {
        format!("{value:e}")
    };
    CellValue::Number(text)
}

/// A text without blanks at its ends; none if nothing is left.
pub(crate) fn text(text: &str) -> Option<CellValue> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    (!text.is_empty()).then(|| CellValue::Text(text.to_owned()))
}

/// An error; `#N/A` is a value that is not there.
pub(crate) fn error(text: &str) -> Option<CellValue> {
    (text != "#N/A").then(|| CellValue::Error(text.to_owned()))
}

/// A date, with the time of day where there is one.
pub(crate) fn date(moment: &str) -> CellValue {
    CellValue::Date(
        moment
            .strip_suffix("T00:00:00")
            .unwrap_or(moment)
            .to_owned(),
    )
}

/// `26:03:00`; a duration in seconds, written as a time of day where it is one.
pub(crate) fn duration(seconds: f64) -> CellValue {
    let whole = seconds.abs().round() as u64;
    let sign = if seconds < 0.0 { "-" } else { "" };
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    CellValue::Date(format!("{sign}{hours:02}:{minutes:02}:{seconds:02}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_a_person_typed() {
        // As files have them, noise included.
        let table = [
            ("0.67318100000000003", "0.673181"),
            ("5", "5"),
            ("-0.0", "0"),
            ("2.0000000000000001E-4", "0.0002"),
            ("1e-7", "1e-7"),
            ("0.30000000000000004", "0.30000000000000004"),
            ("1e15", "1000000000000000"),
            ("6.02e23", "6.02e23"),
            ("-1.5", "-1.5"),
        ];
        for (stored, text) in table {
            let value: f64 = stored.parse().unwrap();
            assert_eq!(number(value).text(), text);
            assert_eq!(text.parse::<f64>().unwrap(), value);
        }
        assert_eq!(duration(93_780.0).text(), "26:03:00");
        // As a workbook of Excel has the same time of day.
        assert_eq!(duration(32_700.0).text(), "09:05:00");
    }
}
