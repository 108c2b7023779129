//! Each kind and look of a cell, as other programs write it (`golden/kinds.py`), is read as an
//! independent reader reads it.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

use calamine::{Data, Ods, Reader as _, Xlsx};
use nero_table::{CellValue, Sheet};

use crate::rig::golden;

type Cells = BTreeMap<(u32, u32), String>;

/// Kind and text of every cell, by row and column from one.
fn ours(sheet: &Sheet) -> Cells {
    let rows = sheet.rows.iter();
    let cells = rows.flat_map(|row| {
        let cells = row.cells.iter();
        cells.map(|(column, cell)| ((row.number, *column), format!("{cell:?}")))
    });
    cells.collect()
}

/// The same by calamine.
fn theirs(range: &calamine::Range<Data>) -> Cells {
    let (top, left) = range.start().unwrap_or_default();
    let cells = range.used_cells().filter_map(|(row, column, data)| {
        let place = (top + row as u32 + 1, left + column as u32 + 1);
        Some((place, format!("{:?}", cell(data)?)))
    });
    cells.collect()
}

fn number(value: f64) -> CellValue {
    let size = value.abs();
    CellValue::Number(if value == 0.0 {
        "0".to_owned()
    } else if (1e-5..1e16).contains(&size) {
        value.to_string()
    } else {
        format!("{value:e}")
    })
}

fn cell(data: &Data) -> Option<CellValue> {
    Some(match data {
        Data::Empty => return None,
        Data::Int(value) => CellValue::Number(value.to_string()),
        Data::Float(value) => number(*value),
        Data::String(text) => match text.trim() {
            "" => return None,
            text => CellValue::Text(text.to_owned()),
        },
        Data::Bool(truth) => CellValue::Bool(*truth),
        Data::Error(error) => match error.to_string().as_str() {
            "#N/A" => return None,
            error => CellValue::Error(error.to_owned()),
        },
        Data::DateTime(moment) if moment.is_duration() => duration(moment.as_f64() * 86_400.0),
        Data::DateTime(moment) => {
            let days = moment.as_f64();
            if !(0.0..2_958_466.0).contains(&days) {
                return Some(number(days));
            }
            let (year, month, day, hour, minute, second, _) = moment.to_ymd_hms_milli();
            let time = format!("{hour:02}:{minute:02}:{second:02}");
            let text = format!("{year:04}-{month:02}-{day:02}T{time}");
            let text = text.strip_suffix("T00:00:00").unwrap_or(&text);
            CellValue::Date(if days < 1.0 { time } else { text.to_owned() })
        }
        Data::DateTimeIso(text) => {
            CellValue::Date(text.strip_suffix("T00:00:00").unwrap_or(text).to_owned())
        }
        Data::DurationIso(text) => {
            // LibreOffice writes moments so close to a minute as `PT3H0-1M59.9S`.
            seconds(text).map_or(CellValue::Date(text.clone()), duration)
        }
    })
}

fn duration(seconds: f64) -> CellValue {
    let whole = seconds.abs().round() as u64;
    let sign = if seconds < 0.0 { "-" } else { "" };
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    CellValue::Date(format!("{sign}{hours:02}:{minutes:02}:{seconds:02}"))
}

fn seconds(text: &str) -> Option<f64> {
    let (sign, text) = text
        .strip_prefix('-')
        .map_or((1.0, text), |rest| (-1.0, rest));
    let mut rest = text.strip_prefix("PT")?;
    let mut sum = 0.0;
    for (letter, factor) in [('H', 3600.0), ('M', 60.0), ('S', 1.0)] {
        if let Some((part, behind)) = rest.split_once(letter) {
            sum += part.parse::<f64>().ok()? * factor;
            rest = behind;
        }
    }
    Some(sign * sum)
}

/// calamine takes errors of `.ods` for texts, and LibreOffice's truths for numbers.
fn is_known(ours: Option<&String>, theirs: Option<&String>) -> bool {
    let theirs = theirs.map_or("", String::as_str);
    match ours.map(String::as_str) {
        None => theirs == "Text(\"#N/A\")",
        Some("Bool(true)") => theirs == "Number(\"1\")",
        Some("Bool(false)") => theirs == "Number(\"0\")",
        Some(ours) => ours.replace("Error(", "Text(") == theirs,
    }
}

/// Compares every sheet of a book; returns how many cells it has. The name tells its format.
pub fn compare(name: &str, bytes: &[u8]) -> usize {
    let mut xlsx = name
        .ends_with("xlsx")
        .then(|| Xlsx::new(Cursor::new(bytes)).unwrap());
    let mut ods = name
        .ends_with("ods")
        .then(|| Ods::new(Cursor::new(bytes)).unwrap());
    let ending = name.rsplit('.').next().unwrap();
    let names = nero_workbook::read(bytes, ending, None).unwrap().sheets;
    let mut count = 0;
    for sheet in &names {
        let range = match (&mut xlsx, &mut ods) {
            (Some(book), _) => book.worksheet_range(sheet).unwrap(),
            (_, Some(book)) => book.worksheet_range(sheet).unwrap(),
            _ => unreachable!(),
        };
        let read = nero_workbook::read(bytes, ending, Some(sheet)).unwrap();
        // calamine keeps no formula without a value.
        let (mut ours, theirs) = (ours(&read), theirs(&range));
        ours.retain(|place, cell| theirs.contains_key(place) || cell != "Uncomputed");
        for place in ours.keys().chain(theirs.keys()) {
            let (one, other) = (ours.get(place), theirs.get(place));
            let is_same = one == other || (ending == "ods" && is_known(one, other));
            assert!(
                is_same,
                "{name} {sheet} {place:?}: {one:?}, by calamine {other:?}"
            );
        }
        count += ours.len();
    }
    count
}

/// LibreOffice computes every formula, and a formula that shows nothing is an empty cell in its
/// files. openpyxl computes no formula, and the formulas of its files have no value.
#[test]
fn a_formula_that_shows_nothing_differs_from_one_without_a_value() {
    for (name, has_value) in [
        ("kinds-libreoffice-openpyxl.ods", true),
        ("kinds-libreoffice-openpyxl.xlsx", true),
        ("kinds-openpyxl.xlsx", false),
    ] {
        let ending = name.rsplit('.').next().unwrap();
        let sheet = nero_workbook::read(&golden(name), ending, Some("It's text")).unwrap();
        let row = sheet.rows.iter().find(|row| row.number == 4).unwrap();
        let empty = (!has_value).then_some(&CellValue::Uncomputed);
        assert_eq!(row.cell(2), empty, "{name}");
    }
}

#[test]
fn every_cell_of_every_program_is_read_as_calamine_reads_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".xlsx") || name.ends_with(".ods") {
            count += compare(&name, &golden(&name));
        }
    }
    assert!(count > 7000, "{count}");
}
