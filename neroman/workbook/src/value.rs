//! Values of cells: as a person typed them, as programs write them, and which are alike.

use nero_table::CellValue;
use nero_table::book::BookCell;

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

/// The number that a text is. Digits alone stay, however many they are.
pub(crate) fn parsed(text: &str) -> Option<CellValue> {
    let value: f64 = text.parse().ok()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_whole = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    Some(if is_whole {
        CellValue::Number(text.to_owned())
    } else {
        number(value)
    })
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

/// Whether the cell is empty, or holds a text without a character.
pub(crate) fn is_nothing(cell: &BookCell) -> bool {
    cell.as_ref().is_none_or(|cell| match cell {
        CellValue::Text(text) => text.is_empty(),
        CellValue::Number(_)
        | CellValue::Bool(_)
        | CellValue::Date(_)
        | CellValue::Error(_)
        | CellValue::Uncomputed => false,
    })
}

/// What a program shows of a cell.
pub(crate) fn display_text(cell: &BookCell) -> &str {
    match cell {
        None => "",
        Some(CellValue::Bool(true)) => "TRUE",
        Some(CellValue::Bool(false)) => "FALSE",
        Some(cell) => cell.text(),
    }
}

/// The value as a format writes it: a number, a truth, or a text, which is what `text` makes
/// of it. A number without a finite value is a text.
pub(crate) fn plain(cell: Option<&CellValue>, text: impl Fn(&str) -> String) -> BookCell {
    Some(match cell? {
        CellValue::Bool(truth) => CellValue::Bool(*truth),
        CellValue::Number(digits) => match digits.parse::<f64>() {
            Ok(value) if value.is_finite() => return parsed(digits),
            _ => CellValue::Text(digits.clone()),
        },
        cell if cell.text().is_empty() => return None,
        cell => CellValue::Text(text(cell.text())),
    })
}

/// Whether both are the same. Programs write numbers with 15 digits.
pub(crate) fn is_alike(one: &BookCell, other: &BookCell) -> bool {
    if let (Some(CellValue::Number(one)), Some(CellValue::Number(other))) = (one, other)
        && let (Ok(one), Ok(other)) = (one.parse::<f64>(), other.parse::<f64>())
    {
        return one == other || (one - other).abs() <= 1e-14 * one.abs().max(other.abs());
    }
    one == other || (is_nothing(one) && is_nothing(other))
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
