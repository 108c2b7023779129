//! Text with commas, semicolons or tabs.

use std::borrow::Cow;

use nero_table::{CellValue, Sheet, UnreadableTable};

use super::scan::{OpenQuote, content, has_separator_line, records, separator, truth};
use crate::builder::SheetBuilder;

/// A value that is not there, as programs in English and other languages save it.
const MISSING: &[&str] = &["#N/A", "#NV", "#N/D", "#N/D!", "#N/B", "#I/T", "#Н/Д"];
/// Errors, likewise.
const ERRORS: &[&str] = &[
    "#REF!",
    "#DIV/0!",
    "#VALUE!",
    "#NAME?",
    "#NUM!",
    "#NULL!",
    "#BEZUG!",
    "#WERT!",
    "#ZAHL!",
    "#VALEUR!",
    "#NOMBRE!",
    "#NOM?",
    "#NUL!",
    "#¡REF!",
    "#¡DIV/0!",
    "#¡VALOR!",
    "#¿NOMBRE?",
    "#¡NUM!",
    "#¡NULO!",
    "#RIF!",
    "#VALORE!",
    "#NOME?",
    "#NULLO!",
    "#VALOR!",
    "#NÚM!",
    "#NULO!",
    "#VERW!",
    "#DEEL/0!",
    "#WAARDE!",
    "#NAAM?",
    "#GETAL!",
    "#LEEG!",
    "#ADR!",
    "#ARG!",
    "#NAZWA?",
    "#LICZBA!",
    "#ССЫЛКА!",
    "#ДЕЛ/0!",
    "#ЗНАЧ!",
    "#ИМЯ?",
    "#ЧИСЛО!",
    "#ПУСТО!",
];

/// Reads a table of text.
pub(crate) fn read(
    bytes: &[u8],
    ending: &str,
    wanted: Option<&str>,
) -> Result<Sheet, UnreadableTable> {
    if wanted.is_some() {
        return Err(UnreadableTable::file(
            "is a text, which has no sheets",
            "leave `sheet` out of the YAML file beside it",
        ));
    }
    let text = decoded(bytes)?;
    let separator = separator(&text, ending == "tsv");
    let fields = fields(&text, separator)?;
    // With commas between the cells a number has none.
    let comma = (separator != b',')
        .then(|| decimal_comma(&fields))
        .flatten();
    let mut builder = SheetBuilder::new(None, Vec::new());
    for (row, column, field) in fields {
        let written = match &comma {
            Some(_) => with_point(&field),
            None => None,
        };
        let text = written.as_deref().unwrap_or(&field);
        let text = text.to_owned();
        let cell = match truth(&text) {
            _ if MISSING.contains(&&*text) => continue,
            _ if ERRORS.contains(&&*text) => CellValue::Error(text),
            _ if is_number(&text) => CellValue::Number(text),
            Some(truth) => CellValue::Bool(truth),
            None => CellValue::Text(text),
        };
        builder.add(row, column, cell)?;
    }
    let mut sheet = builder.finish();
    sheet.decimal_comma = comma;
    Ok(sheet)
}

fn decoded(bytes: &[u8]) -> Result<String, UnreadableTable> {
    for (mark, of) in [
        ([0xff, 0xfe], u16::from_le_bytes as fn([u8; 2]) -> u16),
        ([0xfe, 0xff], u16::from_be_bytes),
    ] {
        if let Some(rest) = bytes.strip_prefix(&mark) {
            let units = rest.chunks_exact(2).map(|pair| of([pair[0], pair[1]]));
            let text: Result<String, _> = char::decode_utf16(units).collect();
            return text.map_err(|_| {
                UnreadableTable::file(
                    "is no UTF-16, although it begins so",
                    "save it as CSV UTF-8",
                )
            });
        }
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let (row, column) = position(&bytes[..error.valid_up_to()]);
            return Err(UnreadableTable::At {
                sheet: None,
                row,
                column,
                why: format!("the byte 0x{:02x} is not UTF-8", bytes[error.valid_up_to()]),
                hint: "save the file as CSV UTF-8".to_owned(),
            });
        }
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.contains('\0') {
        return Err(UnreadableTable::file(
            "holds a NUL character",
            "save it as CSV UTF-8",
        ));
    }
    Ok(text.to_owned())
}

/// The row and about the column behind some bytes.
fn position(before: &[u8]) -> (u32, u32) {
    let line = before.iter().filter(|byte| **byte == b'\n').count();
    let last = before
        .rsplit(|byte| *byte == b'\n')
        .next()
        .unwrap_or(before);
    let separators = last
        .iter()
        .filter(|byte| matches!(byte, b',' | b';' | b'\t'));
    (line as u32 + 1, separators.count() as u32 + 1)
}

/// All fields with a content: row, column, text.
fn fields(text: &str, separator: u8) -> Result<Vec<(u32, u32, Cow<'_, str>)>, UnreadableTable> {
    let mut fields = Vec::new();
    let skipped = usize::from(has_separator_line(text));
    for (row, record) in (1..).zip(records(text, separator)).skip(skipped) {
        let record = record.map_err(open_quote)?;
        let cells = (1..).zip(record.fields).filter(|(_, at)| !at.is_empty());
        let cells = cells.map(|(column, at)| (row, column, content(&text[at])));
        fields.extend(cells.filter(|(.., field)| !field.is_empty()));
    }
    Ok(fields)
}

fn open_quote(OpenQuote { row, column, .. }: OpenQuote) -> UnreadableTable {
    UnreadableTable::At {
        sheet: None,
        row: row as u32,
        column: column as u32,
        why: "the quote at the beginning of this cell is not closed".to_owned(),
        hint: "end the cell with `\"`; a quote inside of it is written twice".to_owned(),
    }
}

/// Digits with at most one point, and an exponent.
fn is_number(text: &str) -> bool {
    let begins = text.trim_start_matches(['+', '-']);
    begins.starts_with(|c: char| c.is_ascii_digit() || c == '.') && text.parse::<f64>().is_ok()
}

/// `0,67` as `0.67`.
fn with_point(field: &str) -> Option<String> {
    let is_one = field.matches(',').count() == 1 && !field.contains('.');
    let behind = field.split(',').nth(1)?;
    let digits = behind.starts_with(|c: char| c.is_ascii_digit());
    let point = field.replace(',', ".");
    (is_one && digits && is_number(&point)).then_some(point)
}

/// The first number with a decimal comma, where no number has a decimal point.
fn decimal_comma(fields: &[(u32, u32, Cow<'_, str>)]) -> Option<(String, String)> {
    let has_point = |field: &str| field.contains('.') && is_number(field);
    if fields.iter().any(|(_, _, field)| has_point(field)) {
        return None;
    }
    fields
        .iter()
        .find_map(|(_, _, field)| Some((field.clone().into_owned(), with_point(field)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cells(text: &str) -> Vec<(u32, u32, String)> {
        let sheet = read(text.as_bytes(), "csv", None).unwrap();
        let cells = sheet.rows.iter().flat_map(|row| {
            let cells = row.cells.iter();
            cells.map(|(column, cell)| (row.number, *column, format!("{cell:?}")))
        });
        cells.collect()
    }

    fn row(text: &str) -> Vec<String> {
        cells(text).into_iter().map(|(_, _, cell)| cell).collect()
    }

    #[test]
    fn each_dialect_is_read() {
        let want = [
            "Text(\"a\")",
            "Text(\"b c\")",
            "Number(\"0.5\")",
            "Number(\"7\")",
        ];
        let dialects = [
            "a,b c\n0.5,7\n",
            "\u{feff}a, b c\r\n0.5, 7\r\n",
            "a;b c\n0,5;7\n",
            "a\tb c\r0,5\t7",
            "sep=;\na;b c\n0,5;7",
            "\"a\";\"b c\"\n\"0,5\";\"7\"\n",
        ];
        for text in dialects {
            assert_eq!(row(text), want, "{text:?}");
        }
        let utf16: Vec<u8> = [0xff, 0xfe]
            .into_iter()
            .chain("a\tb c\n0.5\t7".encode_utf16().flat_map(u16::to_le_bytes))
            .collect();
        let sheet = read(&utf16, "csv", None).unwrap();
        assert_eq!(sheet.rows.len(), 2);
    }

    #[test]
    fn quotes_hold_separators_lines_and_quotes() {
        let found = cells("a,b\n\"x, \"\"y\"\"\nz\",2\n#N/A,true\n");
        assert_eq!(found[2], (2, 1, "Text(\"x, \\\"y\\\"\\nz\")".to_owned()));
        assert_eq!(found[3], (2, 2, "Number(\"2\")".to_owned()));
        assert_eq!(found[4], (3, 2, "Bool(true)".to_owned()));
        // A quote in the middle is a character.
        assert_eq!(row("a,b\n5\" disk,1")[2], "Text(\"5\\\" disk\")");
    }

    #[test]
    fn truths_and_errors_of_other_languages_are_what_they_are() {
        let found = row("a;b;c;d;e\nWAHR;FAUX;#NV;#BEZUG!;0,5\n")[5..].to_vec();
        let want = [
            "Bool(true)",
            "Bool(false)",
            "Error(\"#BEZUG!\")",
            "Number(\"0.5\")",
        ];
        assert_eq!(found, want);
        // Words of a plan.
        assert_eq!(
            row("a,b\nwahr,SAND\n")[2..],
            ["Text(\"wahr\")", "Text(\"SAND\")"]
        );
    }

    #[test]
    fn a_quote_that_is_not_closed_has_its_place() {
        for text in [b"a,b\n1,\"x\n2,3\n".as_slice(), b"a,b\n1,caf\xe9\n"] {
            let error = read(text, "csv", None).unwrap_err();
            let UnreadableTable::At { row, column, .. } = error else {
                panic!("{error:?}");
            };
            assert_eq!((row, column), (2, 2));
        }
    }

    #[test]
    fn a_comma_is_a_decimal_one_only_where_no_number_has_a_point() {
        let sheet = read(b"a;b\n0,5;64,32\n", "csv", None).unwrap();
        assert_eq!(
            sheet.decimal_comma,
            Some(("0,5".to_owned(), "0.5".to_owned()))
        );
        assert_eq!(row("a;b\n0.5;64,32\n")[3], "Text(\"64,32\")");
        assert_eq!(row("a;b\n1,2,3;x\n")[2], "Text(\"1,2,3\")");
    }

    proptest! {
        #[test]
        fn quoted_cells_of_a_csv_file_are_read_back(rows in proptest::collection::vec(
            proptest::collection::vec("[a-z\",;\t\n ]{0,6}x", 2..5), 1..5,
        )) {
            let mut text = String::new();
            for row in &rows {
                let cells: Vec<String> = row.iter().map(|cell| format!("\"{}\"", cell.replace('"', "\"\""))).collect();
                text.push_str(&cells.join(","));
                text.push_str("\r\n");
            }
            let sheet = read(text.as_bytes(), "csv", None).unwrap();
            let found: Vec<Vec<String>> = sheet.rows.iter().map(|row| {
                row.cells.iter().map(|(_, cell)| cell.text().to_owned()).collect()
            }).collect();
            let want: Vec<Vec<String>> = rows.iter().map(|row| {
                row.iter().map(|cell| cell.trim().to_owned()).collect()
            }).collect();
            prop_assert_eq!(found, want);
        }

        #[test]
        fn no_bytes_end_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = crate::read(&bytes, "csv", None);
            let _ = crate::read(&bytes, "xlsx", None);
        }
    }
}
