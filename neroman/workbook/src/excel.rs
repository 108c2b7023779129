//! Workbooks of Excel, by `calamine`: its stream of cells, never its dense range, which
//! one cell in the last corner makes larger than memory. (Its reader of `.xls` has no
//! other; there the process's limits hold.)

use std::io::Cursor;

use crate::BookFormat;
use calamine::{
    Data, DataRef, DataType as _, ExcelDateTime, Reader as _, Sheet as SheetMeta, SheetType,
    SheetVisible, Xls, XlsError, Xlsb, XlsbError, Xlsx, XlsxError,
};
use nero_table::{CellValue, Sheet, UnreadableTable};
use zip::ZipArchive;

use crate::builder::SheetBuilder;
use crate::{limits, value};

/// Reads `.xlsx` and `.xlsm`.
pub(crate) fn xlsx(bytes: &[u8], wanted: Option<&str>) -> Result<Sheet, UnreadableTable> {
    check(bytes)?;
    let mut book: Xlsx<_> = Xlsx::new(Cursor::new(bytes)).map_err(|error| xlsx_error(&error))?;
    let (name, sheets) = choose(book.sheets_metadata(), wanted)?;
    let mut gather = SheetBuilder::new(Some(name.clone()), sheets);
    let mut cells = book
        .worksheet_cells_reader(&name)
        .map_err(|error| xlsx_error(&error))?;
    // What our scanner cannot read, calamine may: then the sheet has no such facts.
    let facts = crate::sheet_facts(BookFormat::Xlsx, bytes, Some(&name));
    let facts = facts.unwrap_or_default();
    gather.facts(&facts);
    let mut last = (0, 0);
    loop {
        let next = cells.next_cell_with_formula_metadata();
        let next = next.map_err(|error| match error {
            XlsxError::Unexpected(what) if what.contains("shared strings") => UnreadableTable::At {
                sheet: Some(name.clone()),
                row: last.0 + 1,
                column: last.1 + 1,
                why: "a cell behind this one points to a text that the file does not have"
                    .to_owned(),
                hint: "open it in a spreadsheet program and save it anew".to_owned(),
            },
            error => xlsx_error(&error),
        })?;
        let Some(record) = next else {
            return Ok(gather.finish());
        };
        last = record.pos;
        let cell = match cell(&record.value) {
            Some(CellValue::Number(_)) if facts.whole.contains_key(&last) => {
                facts.whole.get(&last).cloned().map(CellValue::Number)
            }
            None if record.formula.is_some() && record.value == DataRef::Empty => {
                Some(CellValue::Uncomputed)
            }
            cell => cell,
        };
        if let Some(cell) = cell {
            gather.add(last.0 + 1, last.1 + 1, cell)?;
        }
    }
}

/// Reads `.xlsb`.
pub(crate) fn xlsb(bytes: &[u8], wanted: Option<&str>) -> Result<Sheet, UnreadableTable> {
    check(bytes)?;
    let mut book: Xlsb<_> = Xlsb::new(Cursor::new(bytes)).map_err(|error| xlsb_error(&error))?;
    let (name, sheets) = choose(book.sheets_metadata(), wanted)?;
    let mut gather = SheetBuilder::new(Some(name.clone()), sheets);
    let mut cells = book
        .worksheet_cells_reader(&name)
        .map_err(|error| xlsb_error(&error))?;
    while let Some(found) = cells.next_cell().map_err(|error| xlsb_error(&error))? {
        if let Some(cell) = cell(found.get_value()) {
            let (row, column) = found.get_position();
            gather.add(row + 1, column + 1, cell)?;
        }
    }
    Ok(gather.finish())
}

/// Reads `.xls`.
pub(crate) fn xls(bytes: &[u8], wanted: Option<&str>) -> Result<Sheet, UnreadableTable> {
    let error = |error: XlsError| match error {
        XlsError::Password => UnreadableTable::file(
            "is encrypted with a password",
            "save a copy without a password",
        ),
        error => limits::damaged(&error),
    };
    let mut book: Xls<_> = Xls::new(Cursor::new(bytes)).map_err(error)?;
    let (name, sheets) = choose(book.sheets_metadata(), wanted)?;
    let mut gather = SheetBuilder::new(Some(name.clone()), sheets);
    let range = book.worksheet_range(&name).map_err(error)?;
    let (top, left) = range.start().unwrap_or_default();
    for (row, column, data) in range.used_cells() {
        if let Some(cell) = of_data(data) {
            gather.add(top + row as u32 + 1, left + column as u32 + 1, cell)?;
        }
    }
    Ok(gather.finish())
}

fn check(bytes: &[u8]) -> Result<(), UnreadableTable> {
    let zip = ZipArchive::new(Cursor::new(bytes));
    limits::check(&mut zip.map_err(|error| limits::damaged(&error))?)
}

/// The wanted sheet, else the first that is seen; and the names of all.
fn choose(
    sheets: &[SheetMeta],
    wanted: Option<&str>,
) -> Result<(String, Vec<String>), UnreadableTable> {
    let tables = || sheets.iter().filter(|one| one.typ == SheetType::WorkSheet);
    let names: Vec<String> = tables().map(|one| one.name.clone()).collect();
    let found = match wanted {
        Some(name) => tables().find(|one| one.name == name),
        None => tables()
            .find(|one| one.visible == SheetVisible::Visible)
            .or_else(|| tables().next()),
    };
    match found {
        Some(found) => Ok((found.name.clone(), names)),
        None => Err(UnreadableTable::NoSheet { sheets: names }),
    }
}

fn xlsx_error(error: &XlsxError) -> UnreadableTable {
    match error {
        XlsxError::Password => UnreadableTable::file(
            "is encrypted with a password",
            "save a copy without a password (for reading, not only for changing)",
        ),
        error => limits::damaged(error),
    }
}

fn xlsb_error(error: &XlsbError) -> UnreadableTable {
    limits::damaged(error)
}

fn cell(data: &DataRef<'_>) -> Option<CellValue> {
    match data {
        DataRef::Empty => None,
        DataRef::Int(number) => Some(CellValue::Number(number.to_string())),
        DataRef::Float(number) => Some(value::number(*number)),
        DataRef::String(text) => Some(CellValue::Text(text.clone())),
        DataRef::SharedString(text) => Some(CellValue::Text((*text).to_owned())),
        DataRef::Bool(truth) => Some(CellValue::Bool(*truth)),
        DataRef::DateTime(moment) => Some(date(moment)),
        DataRef::DateTimeIso(text) | DataRef::DurationIso(text) => Some(value::date(text)),
        DataRef::Error(error) => Some(CellValue::Error(error.to_string())),
    }
}

fn of_data(data: &Data) -> Option<CellValue> {
    match data {
        Data::Int(number) => Some(CellValue::Number(number.to_string())),
        Data::Float(number) => Some(value::number(*number)),
        Data::Bool(truth) => Some(CellValue::Bool(*truth)),
        Data::DateTime(moment) => Some(date(moment)),
        Data::DateTimeIso(text) | Data::DurationIso(text) => Some(value::date(text)),
        Data::Error(error) => Some(CellValue::Error(error.to_string())),
        data => data
            .get_string()
            .map(|text| CellValue::Text(text.to_owned())),
    }
}

/// A date, a time of day, or both. A number that is no date stays one, whatever its cell's format.
fn date(moment: &ExcelDateTime) -> CellValue {
    const DAY_S: f64 = 86_400.0;
    // The day behind 9999-12-31.
    const DAYS_END: f64 = 2_958_466.0;
    let days = moment.as_f64();
    if moment.is_duration() {
        return value::duration(days * DAY_S);
    }
    if !(0.0..DAYS_END).contains(&days) {
        return value::number(days);
    }
    let (year, month, day, hour, minute, second, _) = moment.to_ymd_hms_milli();
    let time = format!("{hour:02}:{minute:02}:{second:02}");
    if days < 1.0 {
        CellValue::Date(time)
    } else {
        value::date(&format!("{year:04}-{month:02}-{day:02}T{time}"))
    }
}
