//! Workbooks and tables: the wanted cells are changed, every other cell is the same.

use std::collections::BTreeMap;
use std::io::{Cursor, Read as _, Write as _};

use calamine::{Ods, Reader, Xlsx};
use nero_table::CellValue;
use nero_workbook::{BookFormat, CellChange, CellOutcome, TargetSheet, edit, read};
use zip::{ZipArchive, ZipWriter, write::SimpleFileOptions};

use crate::Choices;

/// The folder of sheets, and the part of an OpenDocument that has all of them.
const SHEETS: [&str; 2] = ["xl/worksheets/", "content.xml"];
/// Enough for the sheets of all seeds.
const SHARED_TEXTS: usize = 80;

/// Row and column, from 0.
type Place = (u32, u32);

pub fn law(bytes: &[u8]) {
    let (text, choices) = crate::parts(bytes);
    let mut choices = Choices(choices);
    let has = |word: &[u8]| text.windows(word.len()).take(2000).any(|part| part == word);
    let is_tsv = choices.byte() & 1 == 1;
    if has(b"office:document-content") {
        judge(BookFormat::Ods, "ods", &open_document(text), &mut choices);
    } else if has(b"worksheet") {
        judge(BookFormat::Xlsx, "xlsx", &book(text), &mut choices);
    } else if is_tsv {
        judge(BookFormat::Tsv, "tsv", text, &mut choices);
    } else {
        judge(BookFormat::Csv, "csv", text, &mut choices);
    }
}

fn judge(format: BookFormat, ending: &str, before: &[u8], choices: &mut Choices<'_>) {
    let target = TargetSheet {
        name: None,
        first_row: choices.below(3) as u32,
    };
    let cells = |bytes: &[u8]| Some(values(&read(bytes, ending, None).ok()?.rows));
    let was = cells(before);
    let mut wanted = changes(choices, was.as_ref());
    let edited = edit(format, before, target, &wanted);
    let (Ok(edited), Some(was)) = (edited, was) else { return };
    let places = wanted.iter().map(|cell| (cell.row, cell.column));
    let outcomes = places.zip(&edited.outcomes);
    let is_written = |outcome: &CellOutcome| *outcome == CellOutcome::Written;
    let written: Vec<Place> =
        outcomes.filter(|(_, outcome)| is_written(outcome)).map(|(place, _)| place).collect();
    let Some(after) = edited.bytes else {
        assert!(written.is_empty(), "written, and nothing is changed");
        return;
    };
    // A text file without its only cell is empty, and no table.
    let now = cells(&after).unwrap_or_default();
    // What a formula shows that reads a written cell is gone until it is computed. It may fill
    // cells beside its own.
    let is_filled = has_filling_formula(before);
    for place in was.keys().chain(now.keys()).filter(|place| !written.contains(place)) {
        let (old, new) = (was.get(place), now.get(place));
        let is_stale = new == Some(&CellValue::Uncomputed) || (is_filled && new.is_none());
        assert!(old == new || is_stale, "{place:?}: {old:?} became {new:?}");
    }
    for cell in wanted.iter_mut().filter(|cell| written.contains(&(cell.row, cell.column))) {
        // A text file has no types.
        let text = |value: Option<&CellValue>| value.map(|value| value.text().to_lowercase());
        let new = now.get(&(cell.row, cell.column));
        assert_eq!(text(new), text(cell.value.as_ref()), "a wanted value is not there");
        cell.ours.extend(cell.value.clone());
    }
    let again = edit(format, &after, target, &wanted).expect("the changed file is changed again");
    assert!(again.bytes.is_none(), "what is there already is written again");
    let beside: fn(&[u8]) -> Option<BTreeMap<Place, String>> = match format {
        BookFormat::Xlsx => |bytes| other_cells(Xlsx::new(Cursor::new(bytes)).ok()?),
        BookFormat::Ods => |bytes| other_cells(Ods::new(Cursor::new(bytes)).ok()?),
        BookFormat::Csv | BookFormat::Tsv => |_| None,
    };
    if let Some(old) = beside(before).filter(|_| !is_filled) {
        let new = beside(&after).expect("the other reader reads it, too");
        let mut places = old.keys().chain(new.keys()).filter(|place| !written.contains(place));
        let changed = places.find(|place| old.get(place) != new.get(place));
        assert_eq!(changed, None, "the other reader sees a change");
    }
}

/// Some wanted values; half of what stands there already is ours.
fn changes(
    choices: &mut Choices<'_>,
    was: Option<&BTreeMap<Place, CellValue>>,
) -> Vec<CellChange> {
    let mut changes = BTreeMap::new();
    for _ in 0..=choices.below(4) {
        let (row, column) = (choices.below(16) as u32, choices.below(10) as u32);
        let value = match choices.below(5) {
            0 => None,
            1 => Some(CellValue::Text("x <&> \"y\", z;'\u{e9}".to_owned())),
            2 => Some(CellValue::Number("1.5".to_owned())),
            3 => Some(CellValue::Bool(true)),
            _ => Some(CellValue::Text(format!("n{}", choices.byte()))),
        };
        let is_ours = choices.byte() & 1 == 0;
        let held = was.and_then(|was| was.get(&(row, column)));
        let ours = held.filter(|_| is_ours).cloned().into_iter().collect();
        changes.insert((row, column), CellChange { row, column, value, ours });
    }
    changes.into_values().collect()
}

fn values(rows: &[nero_table::SheetRow]) -> BTreeMap<Place, CellValue> {
    let cells = rows.iter().flat_map(|row| row.cells.iter().map(move |cell| (row.number, cell)));
    let placed = cells.map(|(row, (column, value))| ((row - 1, column - 1), value.clone()));
    placed.collect()
}

/// Formulas, and the values of other cells, as another reader sees them.
fn other_cells<'a, R: Reader<Cursor<&'a [u8]>>>(mut book: R) -> Option<BTreeMap<Place, String>> {
    let sheet = book.sheet_names().into_iter().next()?;
    let values = book.worksheet_range(&sheet).ok()?;
    let formulas = book.worksheet_formula(&sheet).ok()?;
    let at = |start: Option<Place>, row: usize, column: usize| {
        let (top, left) = start.unwrap_or_default();
        (top + row as u32, left + column as u32)
    };
    let value = |(row, column, value)| (at(values.start(), row, column), format!("{value:?}"));
    let formula = |(row, column, text)| (at(formulas.start(), row, column), format!("={text}"));
    let mut cells: BTreeMap<Place, String> = values.used_cells().map(value).collect();
    cells.extend(formulas.used_cells().map(formula).filter(|(_, formula)| formula != "="));
    Some(cells)
}

/// Whether a formula of the sheet may fill cells beside its own.
fn has_filling_formula(package: &[u8]) -> bool {
    let words: [&[u8]; 3] = [b"number-matrix-", b"array", b"dataTable"];
    let has = |word: &[u8]| package.windows(word.len()).any(|part| part == word);
    words.into_iter().any(has)
}

/// An OpenDocument with this content.
pub fn open_document(content: &[u8]) -> Vec<u8> {
    let kind = b"application/vnd.oasis.opendocument.spreadsheet";
    package(&[("mimetype", kind), (SHEETS[1], content)])
}

fn package(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, content) in parts {
        writer.start_file(*name, stored).expect("a part begins");
        writer.write_all(content).expect("a part is written");
    }
    writer.finish().expect("the package is written").into_inner()
}

fn book(sheet: &[u8]) -> Vec<u8> {
    let kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let relations = |of: &[(&str, &str)]| {
        let each = |(kind_of, to): &(&str, &str)| {
            format!("<Relationship Id='{kind_of}' Type='{kind}/{kind_of}' Target='{to}'/>")
        };
        let all: String = of.iter().map(each).collect();
        format!("<Relationships>{all}</Relationships>")
    };
    let top = relations(&[("officeDocument", "/xl/workbook.xml")]);
    let parts = relations(&[("worksheet", "worksheets/a.xml"), ("sharedStrings", "texts.xml")]);
    let main = format!(
        "<workbook xmlns:q='{kind}'><sheets><sheet name='One' sheetId='1' q:id='worksheet'/></sheets></workbook>"
    );
    let texts: String = (0..SHARED_TEXTS).map(|at| format!("<si><t>t{at}</t></si>")).collect();
    package(&[
        ("[Content_Types].xml", b"<Types/>"),
        ("_rels/.rels", top.as_bytes()),
        ("xl/workbook.xml", main.as_bytes()),
        ("xl/_rels/workbook.xml.rels", parts.as_bytes()),
        ("xl/worksheets/a.xml", sheet),
        ("xl/texts.xml", format!("<sst>{texts}</sst>").as_bytes()),
    ])
}

/// The sheets of a workbook of a program; another file is a seed itself.
pub fn sheets(file: Vec<u8>) -> Vec<Vec<u8>> {
    let Ok(mut archive) = ZipArchive::new(Cursor::new(&file[..])) else {
        return vec![file];
    };
    let mut sheets = Vec::new();
    for index in 0..archive.len() {
        let mut part = archive.by_index(index).expect("a part");
        let name = part.name().expect("a name").into_owned();
        if SHEETS.iter().any(|sheets| name.starts_with(sheets)) && name.ends_with(".xml") {
            sheets.push(Vec::new());
            part.read_to_end(sheets.last_mut().expect("the new one")).expect("it is read");
        }
    }
    sheets
}
