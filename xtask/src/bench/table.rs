//! A large workbook as a source.

use std::fmt::Write as _;
use std::io::{Cursor, Write as _};
use std::process::Stdio;
use std::time::Instant;

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::listing::peak_mib;
use super::programs::Programs;
use super::stage::BenchHome;
use super::{Row, median};

const ROWS: usize = 10_000;
const COLUMNS: usize = 30;

/// A workbook of 10 000 × 30 cells: read by the process that reads, and added.
pub fn table(programs: &Programs, rounds: usize, _: usize) -> Result<Vec<Row>, String> {
    let stage = BenchHome::new(programs, "table")?;
    let folder = stage.folder().join("plan");
    let at = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(&folder).map_err(at)?;
    let book = folder.join("plan.xlsx");
    std::fs::write(&book, workbook().map_err(|error| error.to_string())?).map_err(at)?;
    std::fs::write(folder.join("plan.yaml"), "command: /bin/true {c5}\n").map_err(at)?;
    let book = book.display().to_string();
    let (mut read, mut memory, mut added) = (vec![], vec![], vec![]);
    for _ in 0..rounds {
        let began = Instant::now();
        let child = stage
            .office(&["read-table", &book])
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        memory.push(peak_mib(child.id())?);
        read.push(began.elapsed().as_secs_f64());
    }
    stage.ok(&["status"])?;
    for _ in 0..rounds {
        let began = Instant::now();
        stage.ok(&["add", &book])?;
        added.push(began.elapsed().as_secs_f64());
    }
    Ok(vec![
        Row {
            what: "a workbook of 10 000 × 30 cells read",
            ours: format!("{:.2} s, {:.0} MiB at most", median(read), median(memory)),
            beside: "-".to_owned(),
            goal: "0.4 s",
        },
        Row {
            what: "`add` of it, again and nothing changed",
            ours: format!("{:.2} s", median(added)),
            beside: "-".to_owned(),
            goal: "-",
        },
    ])
}

/// Numbers and, in every third column, texts.
fn workbook() -> zip::result::ZipResult<Vec<u8>> {
    const HEAD: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#;
    const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
    const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    const RELS: &str = "http://schemas.openxmlformats.org/package/2006/relationships";
    let mut sheet = format!(r#"{HEAD}<worksheet xmlns="{MAIN}"><sheetData><row r="1">"#);
    for column in 0..COLUMNS {
        let name = if column == 0 {
            "nr".to_owned()
        } else {
            format!("c{column}")
        };
        let _ = write!(sheet, r#"<c t="inlineStr"><is><t>{name}</t></is></c>"#);
    }
    sheet.push_str("</row>");
    for row in 1..=ROWS {
        let _ = write!(sheet, r#"<row r="{}">"#, row + 1);
        for column in 0..COLUMNS {
            let _ = match column {
                0 => write!(sheet, "<c><v>{row}</v></c>"),
                column if column % 3 == 0 => {
                    write!(sheet, r#"<c t="s"><v>{}</v></c>"#, (row + column) % 1000)
                }
                column => write!(sheet, "<c><v>{}</v></c>", row as f64 / column as f64),
            };
        }
        sheet.push_str("</row>");
    }
    sheet.push_str("</sheetData></worksheet>");
    let mut strings = format!(r#"{HEAD}<sst xmlns="{MAIN}">"#);
    for text in 0..1000 {
        let _ = write!(strings, "<si><t>text number {text}</t></si>");
    }
    strings.push_str("</sst>");
    let rel = |id: &str, kind: &str, target: &str| {
        format!(r#"<Relationship Id="{id}" Type="{OFFICE}/{kind}" Target="{target}"/>"#)
    };
    let rels =
        |inner: String| format!(r#"{HEAD}<Relationships xmlns="{RELS}">{inner}</Relationships>"#);
    let parts = [
        (
            "[Content_Types].xml",
            format!(
                r#"{HEAD}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>"#
            ),
        ),
        (
            "_rels/.rels",
            rels(rel("rId1", "officeDocument", "xl/workbook.xml")),
        ),
        (
            "xl/workbook.xml",
            format!(
                r#"{HEAD}<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets><sheet name="Plan" sheetId="1" r:id="rId1"/></sheets></workbook>"#
            ),
        ),
        (
            "xl/_rels/workbook.xml.rels",
            rels(
                rel("rId1", "worksheet", "worksheets/sheet1.xml")
                    + &rel("rId2", "sharedStrings", "sharedStrings.xml"),
            ),
        ),
        ("xl/sharedStrings.xml", strings),
        ("xl/worksheets/sheet1.xml", sheet),
    ];
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in parts {
        zip.start_file(name, SimpleFileOptions::default())?;
        zip.write_all(text.as_bytes())?;
    }
    Ok(zip.finish()?.into_inner())
}
