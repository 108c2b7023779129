//! Small books, and what differs between two.

use std::collections::BTreeMap;
use std::io::{Cursor, Read as _, Write as _};
use std::path::Path;

use calamine::{Ods, Reader as _, Xlsx};
use nero_table::CellValue;
use nero_workbook::{BookFormat, CellChange, CellOutcome, EditResult, TargetSheet, edit};
use zip::write::{SimpleFileOptions, ZipWriter};
use zip::{CompressionMethod, ZipArchive};

pub use BookFormat::{Csv, Ods as OdsBook, Tsv, Xlsx as XlsxBook};

const KIND: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";

pub fn golden(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    std::fs::read(folder.join(name)).unwrap()
}

pub fn text(text: &str) -> CellValue {
    CellValue::Text(text.to_owned())
}

pub fn number(number: f64) -> CellValue {
    CellValue::Number(number.to_string())
}

/// A cell that we never wrote.
pub fn cell(row: u32, column: u32, value: impl Into<Option<CellValue>>) -> CellChange {
    CellChange {
        row,
        column,
        value: value.into(),
        ours: Vec::new(),
    }
}

pub fn write(format: BookFormat, bytes: &[u8], first_row: u32, cells: &[CellChange]) -> EditResult {
    let sheet = TargetSheet {
        name: None,
        first_row,
    };
    edit(format, bytes, sheet, cells).unwrap()
}

/// The changed bytes of a book in which every cell was ours.
pub fn written(format: BookFormat, bytes: &[u8], first_row: u32, cells: &[CellChange]) -> Vec<u8> {
    let edited = write(format, bytes, first_row, cells);
    let all = edited
        .outcomes
        .iter()
        .all(|one| *one == CellOutcome::Written);
    assert!(all, "{:?}", edited.outcomes);
    edited.bytes.unwrap()
}

/// A package of these parts; the first is stored, the others are packed.
pub fn package(parts: &[(&str, &str)]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (index, (name, content)) in parts.iter().enumerate() {
        let method = match index {
            0 => CompressionMethod::Stored,
            _ => CompressionMethod::Deflated,
        };
        let options = SimpleFileOptions::default().compression_method(method);
        writer.start_file(*name, options).unwrap();
        writer.write_all(content.as_bytes()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// A workbook with this one sheet; more parts may follow.
pub fn book(sheet: &str, more: &[(&str, &str)]) -> Vec<u8> {
    with_names(sheet, "", more)
}

/// A workbook with this one sheet and these defined names; more parts may follow.
pub fn with_names(sheet: &str, names: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let relations = format!(
        "<Relationships><Relationship Id='a' Type='{KIND}/worksheet' Target='worksheets/one.xml'/>\
         <Relationship Id='b' Type='{KIND}/worksheet' Target='worksheets/two.xml'/>\
         <Relationship Id='c' Type='{KIND}/sharedStrings' Target='sharedStrings.xml'/></Relationships>"
    );
    assembled(sheet, &relations, names, more)
}

/// A workbook with this one sheet and these relations of its main part.
pub fn with_relations(sheet: &str, relations: &str) -> Vec<u8> {
    assembled(sheet, relations, "", &[])
}

fn assembled(sheet: &str, relations: &str, names: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let top = format!(
        "<Relationships><Relationship Id='r1' Type='{KIND}/officeDocument' Target='/xl/workbook.xml'/></Relationships>"
    );
    let sheets = if more.iter().any(|(name, _)| name.ends_with("two.xml")) {
        "<sheet name='One' sheetId='1' q:id='a'/><sheet name='Two &amp; x' sheetId='2' q:id='b'/>"
    } else {
        "<sheet name='One' sheetId='1' q:id='a'/>"
    };
    let workbook = format!(
        "<workbook xmlns:q='{KIND}'><sheets>{sheets}</sheets>{names}<extLst><a/></extLst></workbook>"
    );
    let mut parts = vec![
        ("_rels/.rels", top.as_str()),
        ("xl/workbook.xml", &workbook),
        ("xl/_rels/workbook.xml.rels", relations),
        ("xl/worksheets/one.xml", sheet),
    ];
    parts.extend(more);
    package(&parts)
}

/// An OpenDocument workbook with this content of its sheets.
pub fn open_document(tables: &str) -> Vec<u8> {
    let content = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<office:document-content \
         xmlns:office=\"urn:oasis:names:tc:opendocument:xmlns:office:1.0\" \
         xmlns:table=\"urn:oasis:names:tc:opendocument:xmlns:table:1.0\" \
         xmlns:text=\"urn:oasis:names:tc:opendocument:xmlns:text:1.0\">\
         <office:body><office:spreadsheet>{tables}</office:spreadsheet></office:body>\
         </office:document-content>"
    );
    package(&[
        ("mimetype", "application/vnd.oasis.opendocument.spreadsheet"),
        ("META-INF/manifest.xml", "<manifest/>"),
        ("content.xml", &content),
        ("styles.xml", "<styles/>"),
    ])
}

/// The unpacked text of a part.
pub fn part(bytes: &[u8], name: &str) -> String {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).unwrap();
    let mut content = String::new();
    let mut part = archive.by_name(name).unwrap();
    part.read_to_string(&mut content).unwrap();
    content
}

/// The names of the parts that are not the same compressed bytes, with the same method, time and
/// checksum, at the same place of the order.
pub fn different_parts(before: &[u8], after: &[u8]) -> Vec<String> {
    type Part = (String, Vec<u8>, String);
    let read = |bytes: &[u8]| -> Vec<Part> {
        let mut archive = ZipArchive::new(Cursor::new(bytes)).unwrap();
        let mut parts = Vec::new();
        for index in 0..archive.len() {
            let mut part = archive.by_index_raw(index).unwrap();
            let name = part.name().unwrap().into_owned();
            let facts = format!(
                "{:?} {:?} {} {}",
                part.compression(),
                part.last_modified(),
                part.crc32(),
                part.external_attributes()
            );
            let mut content = Vec::new();
            part.read_to_end(&mut content).unwrap();
            parts.push((name, content, facts));
        }
        parts
    };
    let (before, after) = (read(before), read(after));
    let names =
        |parts: &[Part]| -> Vec<String> { parts.iter().map(|part| part.0.clone()).collect() };
    assert_eq!(names(&before), names(&after));
    let both = before.into_iter().zip(after);
    let different = both.filter(|(a, b)| a != b);
    different.map(|(a, _)| a.0).collect()
}

/// What each cell of all sheets holds: value and formula.
pub fn cells(format: BookFormat, bytes: &[u8]) -> BTreeMap<(String, u32, u32), String> {
    match format {
        BookFormat::Xlsx => of_sheets(Xlsx::new(Cursor::new(bytes)).unwrap()),
        BookFormat::Ods => of_sheets(Ods::new(Cursor::new(bytes)).unwrap()),
        BookFormat::Csv | BookFormat::Tsv => panic!("a text has no sheets"),
    }
}

fn of_sheets<'a, R>(mut book: R) -> BTreeMap<(String, u32, u32), String>
where
    R: calamine::Reader<Cursor<&'a [u8]>>,
    R::Error: std::fmt::Debug,
{
    let mut cells = BTreeMap::new();
    for sheet in book.sheet_names() {
        let range = book.worksheet_range(&sheet).unwrap();
        let (top, left) = range.start().unwrap_or_default();
        for (row, column, value) in range.used_cells() {
            let place = (sheet.clone(), top + row as u32, left + column as u32);
            cells.insert(place, format!("{value:?}"));
        }
        let formulas = book.worksheet_formula(&sheet).unwrap();
        let (top, left) = formulas.start().unwrap_or_default();
        for (row, column, formula) in formulas.used_cells() {
            let place = (sheet.clone(), top + row as u32, left + column as u32);
            cells
                .entry(place)
                .or_default()
                .push_str(&format!(" ={formula}"));
        }
    }
    cells
}

/// The places whose cells differ.
pub fn different_cells(format: BookFormat, before: &[u8], after: &[u8]) -> Vec<(String, u32, u32)> {
    let (before, after) = (cells(format, before), cells(format, after));
    let places: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let different = places
        .into_iter()
        .filter(|place| before.get(*place) != after.get(*place));
    different.cloned().collect()
}
