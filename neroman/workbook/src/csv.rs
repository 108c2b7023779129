//! Tables in text files: only the bytes of changed fields differ, and new ones are written in the
//! dialect of the file.

mod read;
mod scan;

use std::ops::Range;

use nero_table::CellValue;
use nero_table::book::BookCell;

use crate::error::WorkbookError;
use crate::value::{display_text, number, plain};
use crate::{EditResult, WantedCells, value};
pub(crate) use read::read;
use scan::{CsvRecord, OpenQuote, content, records, separator, truth};

const MARK: &[u8] = b"\xef\xbb\xbf";
/// The relative error of a number with six digits.
const ROUNDING: f64 = 5e-6;

/// How a file separates fields and writes numbers.
#[derive(Debug, Clone, Copy)]
struct CsvDialect {
    separator: u8,
    has_decimal_comma: bool,
    /// Whether every field of the file stands in quotes.
    quotes_all: bool,
}

pub(crate) fn edit(
    bytes: &[u8],
    is_tsv: bool,
    mut wanted: WantedCells<'_>,
) -> Result<EditResult, WorkbookError> {
    let text = std::str::from_utf8(bytes).map_err(|_| WorkbookError::NotUtf8 {
        part: "the table".to_owned(),
    })?;
    let start = bytes.strip_prefix(MARK).map_or(0, |_| MARK.len());
    let text = &text[start..];
    let separator = separator(text, is_tsv);
    let records: Result<Vec<CsvRecord>, OpenQuote> = records(text, separator).collect();
    let records = records.map_err(|OpenQuote { line, .. }| WorkbookError::OpenQuote { line })?;
    let dialect = CsvDialect::of(text, &records, separator);
    let mut splices: Vec<(Range<usize>, String)> = Vec::new();
    for (row, record) in (0..).zip(&records) {
        let columns: Vec<u32> = wanted.columns(row).collect();
        let mut width = record.fields.len();
        for column in columns {
            let index = column as usize;
            let field = record.fields.get(index).cloned();
            let found = match &field {
                Some(at) => held(&text[at.clone()]),
                None => None,
            };
            let is_ours = |found: &BookCell, ours: Option<&CellValue>| {
                is_alike(found, ours) || is_rounded(found, ours)
            };
            let Some(value) = wanted.decide((row, column), Ok(&found), is_alike, is_ours) else {
                continue;
            };
            match field {
                Some(at) => {
                    let is_quoted = text[at.clone()].trim_start().starts_with('"');
                    splices.push((at, dialect.written(value, is_quoted)));
                }
                None => {
                    let end = record.fields.last().map_or(0, |field| field.end);
                    let separators = char::from(dialect.separator).to_string();
                    let mut added = separators.repeat(index + 1 - width);
                    added.push_str(&dialect.written(value, false));
                    splices.push((end..end, added));
                    width = index + 1;
                }
            }
        }
    }
    let outcomes = wanted.outcomes;
    if splices.is_empty() {
        return Ok(EditResult {
            bytes: None,
            outcomes,
        });
    }
    let mut written = Vec::with_capacity(bytes.len() + 16 * splices.len());
    written.extend_from_slice(&bytes[..start]);
    let mut from = 0;
    for (at, value) in splices {
        written.extend_from_slice(&text.as_bytes()[from..at.start]);
        written.extend_from_slice(value.as_bytes());
        from = at.end;
    }
    written.extend_from_slice(&text.as_bytes()[from..]);
    Ok(EditResult {
        bytes: Some(written),
        outcomes,
    })
}

impl CsvDialect {
    /// The dialect that the fields show.
    fn of(text: &str, records: &[CsvRecord], separator: u8) -> Self {
        let fields = records.iter().flat_map(|record| &record.fields);
        let fields = fields.map(|at| &text[at.clone()]);
        let fields = fields.filter(|field| !field.is_empty());
        let is_number = |field: &str, point: char| {
            let field = field.trim().trim_matches('"');
            let has_point = field.matches(point).count() == 1;
            let begins = field.trim_start_matches(['+', '-']);
            has_point
                && begins.starts_with(|c: char| c.is_ascii_digit() || c == point)
                && field.replace(point, ".").parse::<f64>().is_ok()
        };
        let has_decimal_comma = separator != b','
            && fields.clone().any(|field| is_number(field, ','))
            && !fields.clone().any(|field| is_number(field, '.'));
        let quotes_all =
            fields.clone().next().is_some() && fields.clone().all(|field| field.starts_with('"'));
        Self {
            separator,
            has_decimal_comma,
            quotes_all,
        }
    }

    fn written(&self, value: &BookCell, was_quoted: bool) -> String {
        let text = match &plain(value.as_ref(), harmless) {
            Some(CellValue::Number(number)) if self.has_decimal_comma => number.replace('.', ","),
            other => display_text(other).to_owned(),
        };
        let separator = char::from(self.separator);
        let is_special = |c| c == separator || matches!(c, '"' | '\n' | '\r');
        let is_quoted = was_quoted || (self.quotes_all && !text.is_empty());
        if is_quoted || text.contains(is_special) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text
        }
    }
}

/// The value of a field as it stands.
fn held(field: &str) -> BookCell {
    let text = content(field);
    (!text.is_empty()).then(|| CellValue::Text(text.into_owned()))
}

/// Whether a field holds what we write for `ours`; numbers may be written in other ways.
fn is_alike(found: &BookCell, ours: Option<&CellValue>) -> bool {
    // Blanks at the ends of a field belong to nobody.
    let ours = plain(ours, |text| harmless(text).trim().to_owned());
    match (&ours, number_of(found)) {
        (Some(CellValue::Number(_)), Some((found, _))) => {
            value::is_alike(&Some(number(found)), &ours)
        }
        (Some(CellValue::Bool(ours)), _) => truth(display_text(found)) == Some(*ours),
        (ours, _) => value::is_alike(found, ours),
    }
}

/// Whether a field holds the number `ours` with fewer digits. A program that saves a text
/// writes what each cell shows: LibreOffice 20 decimals, Excel down to six digits. Whole
/// numbers keep their digits.
fn is_rounded(found: &BookCell, ours: Option<&CellValue>) -> bool {
    match (number_of(found), ours) {
        (Some((found, false)), Some(CellValue::Number(ours))) => {
            let ours = ours.parse().unwrap_or(f64::NAN);
            (found - ours).abs() <= ROUNDING * ours.abs()
        }
        _ => false,
    }
}

/// The number that a field holds, in whatever country, and whether it is written as a whole one.
fn number_of(field: &BookCell) -> Option<(f64, bool)> {
    let text = display_text(field).trim().replace(',', ".");
    let number = text.parse().ok()?;
    Some((number, !text.contains(['.', 'e', 'E'])))
}

/// A text that a spreadsheet would run begins with an apostrophe.
fn harmless(text: &str) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{text}")
    } else {
        text.to_owned()
    }
}
