//! Cells of a workbook, and columns that fit them.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use nero_model::safe::Safe;
use nero_table::CellValue;
use nero_table::book::{BookCell, CELL_TEXT_MAX, NewColumn, NumberFormat};

use crate::{Value, csv};

/// Whole numbers with more digits are text: spreadsheets round them.
const DIGITS_MAX: usize = 15;
/// Widths of columns in characters.
const WIDTH: std::ops::RangeInclusive<usize> = 6..=48;
/// Room for the button that filters, in characters.
const BUTTON: usize = 3;
/// Decimals that are shown.
const DECIMALS_MAX: i32 = 6;

/// Makes cells, and counts what was cut.
#[derive(Debug)]
pub(super) struct BookCells {
    pub(super) zone: TimeZone,
    /// Texts longer than a cell.
    pub(super) cut: usize,
}

impl BookCells {
    pub(super) fn value(&mut self, value: &Value<'_>) -> BookCell {
        match value {
            Value::Time(ms) => self.moment(*ms),
            Value::Unknown
            | Value::Text(_)
            | Value::State(_)
            | Value::Reason(_)
            | Value::Whole(_)
            | Value::Signal(_)
            | Value::Number(_)
            | Value::Share(_)
            | Value::Seconds(_)
            | Value::Bytes(_)
            | Value::Param(_)
            | Value::Follows(..)
            | Value::Lines(_)
            | Value::Names(_)
            | Value::Json(_) => match value.csv() {
                csv::Cell::Empty => None,
                csv::Cell::Number(text) if is_number(&text) => Some(CellValue::Number(text)),
                csv::Cell::Number(text) | csv::Cell::Text(text) => self.text(&text),
            },
        }
    }

    pub(super) fn text(&mut self, text: &str) -> BookCell {
        let mut safe = Safe::lines(text).to_string();
        if safe.encode_utf16().count() > CELL_TEXT_MAX {
            self.cut += 1;
            let mut units = 1;
            let kept = safe.chars().take_while(|c| {
                units += c.len_utf16();
                units <= CELL_TEXT_MAX
            });
            safe = kept.collect();
            safe.push('…');
        }
        (!safe.is_empty()).then_some(CellValue::Text(safe))
    }

    /// A number; one that is not finite is text.
    pub(super) fn number(&mut self, value: Option<f64>) -> BookCell {
        self.value(&value.map_or(Value::Unknown, Value::Number))
    }

    /// Date and time of day in the zone; milliseconds are kept.
    pub(super) fn moment(&mut self, ms: i64) -> BookCell {
        let at = Timestamp::from_millisecond(ms).ok().filter(|_| ms != 0)?;
        let at = at.to_zoned(self.zone.clone()).datetime();
        Some(CellValue::Date(
            at.strftime("%Y-%m-%dT%H:%M:%S%.f").to_string(),
        ))
    }
}

fn is_number(text: &str) -> bool {
    let digits = text.chars().filter(char::is_ascii_digit).count();
    let is_whole = text.chars().all(|c| c.is_ascii_digit() || c == '-');
    let fits = !is_whole || digits <= DIGITS_MAX;
    fits && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// A column of a table, as wide as its cells and the words of its title.
pub(super) fn column(
    title: String,
    cells: impl Iterator<Item = BookCell> + Clone,
    is_measured: bool,
) -> NewColumn {
    let format = if is_measured {
        format_of(cells.clone())
    } else {
        NumberFormat::General
    };
    let longest = cells
        .clone()
        .map(|cell| display_width(&cell, format))
        .max()
        .unwrap_or(0);
    let words = title.split(' ').map(|word| word.chars().count());
    let width = longest.max(words.max().unwrap_or(0) + BUTTON) + 2;
    let is_figures = |cell| matches!(cell, Some(CellValue::Number(_) | CellValue::Date(_)));
    NewColumn {
        title,
        width: width.clamp(*WIDTH.start(), *WIDTH.end()) as u16,
        format,
        is_figures: cells.clone().any(is_figures),
    }
}

/// How many characters a cell shows.
fn display_width(cell: &BookCell, format: NumberFormat) -> usize {
    match cell {
        None => 0,
        Some(CellValue::Number(text)) => match format {
            NumberFormat::General => text.len().min(12),
            NumberFormat::Decimals(places) => {
                let whole = text.split(['.', 'e']).next().unwrap_or_default();
                whole.len() + usize::from(places) + 1
            }
            NumberFormat::Scientific => 10,
            NumberFormat::Moment => 19,
        },
        Some(CellValue::Date(_)) => 19,
        Some(other) => {
            let lines = other.text().split('\n');
            lines.map(|line| line.chars().count()).max().unwrap_or(0)
        }
    }
}

/// Decimals that show four digits of the largest number and two of the smallest, but none that
/// all numbers lack.
fn format_of(cells: impl Iterator<Item = BookCell>) -> NumberFormat {
    let mut sizes: Option<(i32, i32)> = None;
    let mut places = 0;
    for cell in cells {
        let Some(CellValue::Number(text)) = cell else {
            continue;
        };
        let value: f64 = text.parse().unwrap_or(0.0);
        if value == 0.0 {
            continue;
        }
        let size = value.abs().log10().floor() as i32;
        let (least, most) = sizes.unwrap_or((size, size));
        sizes = Some((least.min(size), most.max(size)));
        let behind = format!("{value}");
        let behind = behind.split_once('.').map_or(0, |(_, behind)| behind.len());
        places = places.max(i32::try_from(behind).unwrap_or(i32::MAX));
    }
    let Some((least, most)) = sizes else {
        return NumberFormat::General;
    };
    let wanted = (3 - most).max(1 - least);
    if most > 8 || wanted > DECIMALS_MAX && places > DECIMALS_MAX {
        return match places {
            0 if most < 15 => NumberFormat::Decimals(0),
            _ => NumberFormat::Scientific,
        };
    }
    let decimals = wanted.min(places).clamp(0, DECIMALS_MAX);
    NumberFormat::Decimals(u8::try_from(decimals).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells() -> BookCells {
        BookCells {
            zone: TimeZone::UTC,
            cut: 0,
        }
    }

    #[test]
    fn a_text_longer_than_a_cell_is_cut_and_counted() {
        let mut cells = cells();
        // Two UTF-16 units each.
        let long = "𝛼".repeat(CELL_TEXT_MAX);
        let Some(CellValue::Text(text)) = cells.text(&long) else {
            panic!("a text")
        };
        assert!(text.encode_utf16().count() <= CELL_TEXT_MAX && text.ends_with('…'));
        assert_eq!(cells.cut, 1);
        let fits = "a".repeat(CELL_TEXT_MAX);
        assert_eq!(cells.text(&fits), Some(CellValue::Text(fits)));
        assert_eq!(cells.cut, 1);
    }

    #[test]
    fn what_a_spreadsheet_would_round_or_run_is_text() {
        let mut cells = cells();
        let text = |text: &str| Some(CellValue::Text(text.to_owned()));
        assert_eq!(
            cells.value(&Value::Whole(20_260_520_000_000_001)),
            text("20260520000000001")
        );
        assert_eq!(cells.number(Some(f64::NAN)), text("NaN"));
        assert_eq!(cells.number(Some(f64::NEG_INFINITY)), text("-inf"));
        assert_eq!(cells.text("a\u{1b}[31m"), text("a\\u{1b}[31m"));
        assert_eq!(
            cells.number(Some(0.1 + 0.2)),
            Some(CellValue::Number("0.30000000000000004".to_owned()))
        );
    }

    #[test]
    fn decimals_fit_the_numbers_of_a_column() {
        let of = |values: &[f64]| {
            let cells = values
                .iter()
                .map(|value| Some(CellValue::Number(value.to_string())));
            format_of(cells.collect::<Vec<_>>().into_iter())
        };
        assert_eq!(of(&[2.345_678, 0.312_345]), NumberFormat::Decimals(3));
        assert_eq!(of(&[0.25, 0.5]), NumberFormat::Decimals(2));
        assert_eq!(of(&[100.0, 20.0]), NumberFormat::Decimals(0));
        assert_eq!(of(&[1e-9, 0.123]), NumberFormat::Scientific);
        assert_eq!(of(&[3.5e12, 1.25]), NumberFormat::Scientific);
        assert_eq!(of(&[0.0]), NumberFormat::General);
    }
}
