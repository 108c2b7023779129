//! Workbooks of Excel that are no XML, by `calamine`: its stream of cells, never its dense range,
//! which one cell in the last corner makes larger than memory. (Its reader of `.xls` has no
//! other; there the process's limits hold.)

use std::io::Cursor;

use calamine::{
    Data, ExcelDateTime, Reader as _, Sheet as SheetMeta, SheetType, SheetVisible, Xls, XlsError,
    Xlsb,
};
use nero_table::{CellValue, Sheet, UnreadableTable};

use crate::builder::SheetBuilder;
use crate::error::{WorkbookError, damaged};
use crate::package::Package;
use crate::{find_sheet, value};

/// Reads `.xlsb`.
pub(crate) fn xlsb(bytes: &[u8], wanted: Option<&str>) -> Result<Sheet, UnreadableTable> {
    Package::open(bytes)?.check()?;
    let mut book: Xlsb<_> = Xlsb::new(Cursor::new(bytes)).map_err(|error| damaged(&error))?;
    let (name, sheets) = choose(book.sheets_metadata(), wanted)?;
    let mut builder = SheetBuilder::new(Some(name.clone()), sheets);
    let mut cells = book
        .worksheet_cells_reader(&name)
        .map_err(|error| damaged(&error))?;
    while let Some(found) = cells.next_cell().map_err(|error| damaged(&error))? {
        if let Some(cell) = cell(&found.get_value().clone().into()) {
            let (row, column) = found.get_position();
            builder.add(row + 1, column + 1, cell)?;
        }
    }
    Ok(builder.finish())
}

/// Reads `.xls`.
pub(crate) fn xls(bytes: &[u8], wanted: Option<&str>) -> Result<Sheet, UnreadableTable> {
    let error = |error: XlsError| match error {
        XlsError::Password => WorkbookError::Encrypted.into(),
        error => damaged(&error),
    };
    let mut book: Xls<_> = Xls::new(Cursor::new(bytes)).map_err(error)?;
    let (name, sheets) = choose(book.sheets_metadata(), wanted)?;
    let mut builder = SheetBuilder::new(Some(name.clone()), sheets);
    let range = book.worksheet_range(&name).map_err(error)?;
    let (top, left) = range.start().unwrap_or_default();
    for (row, column, data) in range.used_cells() {
        if let Some(cell) = cell(data) {
            builder.add(top + row as u32 + 1, left + column as u32 + 1, cell)?;
        }
    }
    Ok(builder.finish())
}

/// The wanted sheet, else the first that is seen; and the names of all.
fn choose(
    sheets: &[SheetMeta],
    wanted: Option<&str>,
) -> Result<(String, Vec<String>), UnreadableTable> {
    let tables = || sheets.iter().filter(|one| one.typ == SheetType::WorkSheet);
    let names: Vec<String> = tables().map(|one| one.name.clone()).collect();
    let first_seen = tables().position(|one| one.visible == SheetVisible::Visible);
    let own = find_sheet(&names, first_seen.unwrap_or_default(), wanted)?;
    Ok((names[own].clone(), names))
}

fn cell(data: &Data) -> Option<CellValue> {
    match data {
        Data::Empty => None,
        Data::Int(number) => Some(CellValue::Number(number.to_string())),
        Data::Float(number) => Some(value::number(*number)),
        Data::String(text) => Some(CellValue::Text(text.clone())),
        Data::Bool(truth) => Some(CellValue::Bool(*truth)),
        Data::DateTime(moment) => Some(self::moment(moment)),
        Data::DateTimeIso(text) | Data::DurationIso(text) => Some(value::date(text)),
        Data::Error(error) => Some(CellValue::Error(error.to_string())),
    }
}

/// A date, a time of day, or both. A number that is no date stays one, whatever its cell's format.
pub(crate) fn moment(moment: &ExcelDateTime) -> CellValue {
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
