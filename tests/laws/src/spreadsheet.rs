//! Workbooks that we make have the cells that were sent; of a sheet no more is read than a plan
//! may have.

use nero_model::safe::Safe;
use nero_spreadsheet::{make_book, read};
use nero_table::book::{BookCell, NewBook, NewColumn, NewSheet, NumberFormat};
use nero_table::{COLUMNS_MAX, CellValue, FILLED_ROWS_MAX, ROWS_MAX, Sheet};
use nero_workbook::BookFormat;

use crate::{Choices, workbook};

const COLUMNS: u32 = 3;
/// How often a row or a cell comes, near the limits of sheets and plans.
const ROWS: [u32; 6] = [1, 2, 100_099, 100_101, ROWS_MAX, u32::MAX];
const CELLS: [u32; 4] = [1, COLUMNS_MAX - 1, COLUMNS_MAX, COLUMNS_MAX + 1];

pub fn law(bytes: &[u8]) {
    let (text, choices) = crate::parts(bytes);
    made(&mut Choices(text));
    let mut choices = Choices(choices);
    // Many rows take long.
    if choices.below(8) == 1 {
        repeated(&mut choices);
    }
}

/// A workbook of any cells is read as it was sent.
fn made(choices: &mut Choices<'_>) {
    let row_count = choices.below(6) as u32;
    let formats = [NumberFormat::General, NumberFormat::Decimals(3), NumberFormat::Scientific];
    let column = |format| NewColumn {
        title: format!("{format:?}"),
        width: 9,
        format,
        is_figures: format != NumberFormat::General,
    };
    let sheet = NewSheet {
        name: "A & B".to_owned(),
        columns: formats.map(column).to_vec(),
        has_filter: choices.byte() & 1 == 0,
        row_count,
    };
    let book = NewBook { sheets: vec![sheet], charts: Vec::new() };
    let mut row = |_| -> Vec<BookCell> { (0..COLUMNS).map(|_| cell(choices)).collect() };
    let rows: Vec<Vec<BookCell>> = (0..row_count).map(&mut row).collect();
    let mut input = serde_json::to_string(&book).expect("it is JSON");
    for row in &rows {
        input.push('\n');
        input.push_str(&serde_json::to_string(row).expect("it is JSON"));
    }
    for (format, ending) in [(BookFormat::Xlsx, "xlsx"), (BookFormat::Ods, "ods")] {
        let bytes = make_book(format, input.as_bytes()).expect("the workbook is made");
        let sheet = read(&bytes, ending, Some("A & B")).expect("it is read");
        let stored = serde_json::to_string(&sheet).expect("it is stored");
        let again: Sheet = serde_json::from_str(&stored).expect("it is read again");
        assert!(again == sheet, "stored and read again, it differs");
        let there = |number: usize| sheet.rows.iter().find(|row| row.number as usize == number);
        for (at, sent) in rows.iter().enumerate() {
            for (column, sent) in (1..).zip(sent) {
                let found = there(at + 2).and_then(|row| row.cell(column));
                assert_eq!(found.map(shown), sent.as_ref().map(shown), "{ending}");
            }
        }
    }
}

fn cell(choices: &mut Choices<'_>) -> BookCell {
    match choices.below(5) {
        0 => None,
        1 => Some(CellValue::Bool(choices.byte() & 1 == 0)),
        2 => {
            let bits: [u8; 8] = std::array::from_fn(|_| choices.byte());
            let number = Some(f64::from_le_bytes(bits)).filter(|number| number.is_normal());
            Some(CellValue::Number(number.unwrap_or(0.5).to_string()))
        }
        3 => {
            let [month, day, hour] = [12, 28, 24].map(|limit| choices.below(limit));
            let date = format!("2026-{:02}-{:02}T{hour:02}:30:05", month + 1, day + 1);
            Some(CellValue::Date(date))
        }
        _ => {
            let text = Safe::lines(choices.bytes(60)).to_string();
            let text = text.replace(|c: char| c == '\t' || c.is_ascii_digit(), " ");
            Some(text.trim())
                .filter(|text| !text.is_empty())
                .map(|text| CellValue::Text(text.to_owned()))
        }
    }
}

/// Numbers are equal however they are written.
fn shown(cell: &CellValue) -> String {
    match cell {
        CellValue::Number(number) => format!("{:?}", number.parse::<f64>()),
        cell => format!("{cell:?}"),
    }
}

/// A sheet whose rows and cells are written once and come often is read if a plan may be so large.
fn repeated(choices: &mut Choices<'_>) {
    let mut content = String::from(
        "<office:document-content xmlns:office='o' xmlns:table='t' xmlns:text='x'><office:body><office:spreadsheet><table:table table:name='a'>",
    );
    let (mut last, mut filled, mut is_plan) = (0_u64, 0_u64, true);
    for _ in 0..choices.below(4) {
        let rows = ROWS[choices.below(ROWS.len())];
        let cells = if rows < 3 { CELLS[choices.below(CELLS.len())] } else { 1 };
        let is_filled = choices.byte() & 1 == 0;
        let value = if is_filled { "office:value-type='float' office:value='1'" } else { "" };
        content.push_str(&format!("<table:table-row table:number-rows-repeated='{rows}'><table:table-cell table:number-columns-repeated='{cells}' {value}/></table:table-row>"));
        last += u64::from(rows);
        if is_filled {
            filled += u64::from(rows);
            is_plan &= last <= u64::from(ROWS_MAX) && cells <= COLUMNS_MAX;
        }
    }
    is_plan &= filled <= FILLED_ROWS_MAX as u64;
    content.push_str("</table:table></office:spreadsheet></office:body></office:document-content>");
    let read = read(&workbook::open_document(content.as_bytes()), "ods", None);
    assert_eq!(read.is_ok(), is_plan, "{filled} rows up to {last}: {:?}", read.err());
}
