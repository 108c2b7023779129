//! What one change of a workbook costs: `speed make FILE ROWS COLUMNS` makes a workbook,
//! `speed edit FILE ROWS COLUMNS` writes that many new cells behind its columns and prints the
//! milliseconds and the peak of memory in KiB. Run by `cargo xtask bench`.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use nero_table::CellValue;
use nero_workbook::{BookFile, BookFormat, CellChange, CellOutcome, TargetSheet, edit};
use zip::write::{SimpleFileOptions, ZipWriter};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, verb, path, rows, columns] = &arguments[..] else {
        return Err("speed make|edit FILE ROWS COLUMNS".into());
    };
    let size = (rows.parse()?, columns.parse()?);
    match verb.as_str() {
        "make" => make(Path::new(path), size),
        _ => change(Path::new(path), size),
    }
}

/// A sheet with a header of one row, numbers and texts.
fn make(path: &Path, (rows, columns): (u32, u32)) -> Result<(), Failure> {
    let kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let mut sheet = String::from("<worksheet><sheetData>");
    for row in 1..=rows + 1 {
        sheet.push_str(&format!("<row r=\"{row}\" spans=\"1:{columns}\">"));
        for column in 0..columns {
            let place = format!("{}{row}", column_name(column));
            sheet.push_str(&match (row, column % 6) {
                (1, _) | (_, 5) => {
                    format!("<c r=\"{place}\" t=\"s\"><v>{}</v></c>", row % 7)
                }
                _ => format!("<c r=\"{place}\" s=\"1\"><v>{}.{column}</v></c>", row * 3),
            });
        }
        sheet.push_str("</row>");
    }
    sheet.push_str("</sheetData></worksheet>");
    let parts = [
        (
            "_rels/.rels",
            format!(
                "<Relationships><Relationship Id='a' Type='{kind}/officeDocument' Target='xl/workbook.xml'/></Relationships>"
            ),
        ),
        (
            "xl/workbook.xml",
            format!(
                "<workbook xmlns:r='{kind}'><sheets><sheet name='One' sheetId='1' r:id='a'/></sheets></workbook>"
            ),
        ),
        (
            "xl/_rels/workbook.xml.rels",
            format!(
                "<Relationships><Relationship Id='a' Type='{kind}/worksheet' Target='worksheets/sheet1.xml'/></Relationships>"
            ),
        ),
        ("xl/worksheets/sheet1.xml", sheet),
    ];
    let mut writer = ZipWriter::new(fs::File::create(path)?);
    for (name, content) in parts {
        writer.start_file(name, SimpleFileOptions::default())?;
        writer.write_all(content.as_bytes())?;
    }
    writer.finish()?;
    Ok(())
}

fn column_name(column: u32) -> String {
    let letter = |number: u32| char::from(b'A' + (number % 26) as u8);
    match column / 26 {
        0 => letter(column).to_string(),
        first => format!("{}{}", letter(first - 1), letter(column)),
    }
}

fn change(path: &Path, (rows, columns): (u32, u32)) -> Result<(), Failure> {
    const FIRST_COLUMN: u32 = 60;
    let cells: Vec<CellChange> = (1..=rows)
        .flat_map(|row| (0..columns).map(move |column| (row, column)))
        .map(|(row, column)| CellChange {
            row,
            column: FIRST_COLUMN + column,
            value: Some(match column % 2 {
                0 => CellValue::Number((f64::from(row) / 7.0).to_string()),
                _ => CellValue::Text("finished".to_owned()),
            }),
            ours: Vec::new(),
        })
        .collect();
    let begin = Instant::now();
    let book = BookFile::read(path)?;
    let sheet = TargetSheet {
        name: None,
        first_row: 1,
    };
    let edited = edit(BookFormat::Xlsx, book.bytes(), sheet, &cells)?;
    if edited
        .outcomes
        .iter()
        .any(|one| *one != CellOutcome::Written)
    {
        return Err("a cell was not written".into());
    }
    book.replace(&edited.bytes.unwrap_or_default(), false)?;
    let took = begin.elapsed().as_secs_f64() * 1e3;
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.unwrap_or_default().trim().trim_end_matches(" kB");
    println!("{took:.2} {peak}");
    Ok(())
}
