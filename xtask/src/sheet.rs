//! Reads the cells of a workbook's first sheet, for the demo that shows results in them.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use quick_xml::Reader;
use quick_xml::events::Event;
use zip::ZipArchive;

/// The cells of each row as text; an empty cell is an empty text.
///
/// # Errors
/// When the file is no workbook.
pub fn rows(path: &Path) -> Result<Vec<Vec<String>>, String> {
    let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let file = File::open(path).map_err(|error| failed(&error))?;
    let mut book = ZipArchive::new(file).map_err(|error| failed(&error))?;
    let mut part = |name: &str| -> Result<String, String> {
        let mut text = String::new();
        let mut part = book.by_name(name).map_err(|error| failed(&error))?;
        part.read_to_string(&mut text)
            .map_err(|error| failed(&error))?;
        Ok(text)
    };
    // A workbook may have no shared texts.
    let shared = part("xl/sharedStrings.xml").unwrap_or_default();
    let shared: Vec<String> = texts(&shared, "si").map_err(|error| failed(&error))?;
    let sheet = part("xl/worksheets/sheet1.xml")?;
    cells(&sheet, &shared).map_err(|error| failed(&error))
}

/// The text within each element of this name.
fn texts(xml: &str, element: &str) -> Result<Vec<String>, quick_xml::Error> {
    let mut reader = Reader::from_str(xml);
    let mut found: Vec<String> = Vec::new();
    loop {
        match reader.read_event()? {
            Event::Start(tag) if tag.name().as_ref() == element => found.push(String::new()),
            Event::Text(text) => {
                if let Some(last) = found.last_mut() {
                    last.push_str(&text);
                }
            }
            Event::Eof => return Ok(found),
            _ => {}
        }
    }
}

fn cells(xml: &str, shared: &[String]) -> Result<Vec<Vec<String>>, quick_xml::Error> {
    let mut reader = Reader::from_str(xml);
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut is_shared = false;
    loop {
        match reader.read_event()? {
            Event::Start(tag) | Event::Empty(tag) if tag.name().as_ref() == "row" => {
                rows.push(Vec::new());
            }
            Event::Start(tag) | Event::Empty(tag) if tag.name().as_ref() == "c" => {
                let value = |name| {
                    let found = tag.try_get_attribute(name).ok().flatten();
                    found.map_or_else(String::new, |found| found.value.to_string())
                };
                is_shared = value("t") == "s";
                let place = value("r");
                let letters = place.bytes().take_while(u8::is_ascii_uppercase);
                let column = letters.fold(0, |at, letter| at * 26 + usize::from(letter - b'A' + 1));
                if let Some(row) = rows.last_mut() {
                    row.resize(column.max(row.len() + 1), String::new());
                }
            }
            Event::Text(text) => {
                let shown = match text.parse::<usize>() {
                    Ok(at) if is_shared => shared.get(at).cloned().unwrap_or_default(),
                    _ => text.to_string(),
                };
                if let Some(cell) = rows.last_mut().and_then(|row| row.last_mut()) {
                    cell.push_str(&shown);
                }
            }
            Event::Eof => return Ok(rows),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{cells, texts};

    #[test]
    fn cells_lie_in_their_columns() {
        let shared = texts(
            "<sst><si><t>nr</t></si><si><r><t>a</t></r><r><t>b</t></r></si></sst>",
            "si",
        );
        let shared = shared.unwrap();
        assert_eq!(shared, ["nr", "ab"]);
        let sheet = r#"<sheetData><row r="1"><c r="A1" t="s"><v>0</v></c><c r="C1" t="s"><v>1</v></c></row>
<row r="2"><c r="B2"/><c r="C2" t="inlineStr"><is><t>done</t></is></c><c r="D2"><v>0.5</v></c></row></sheetData>"#;
        let read = cells(&sheet.replace('\n', ""), &shared).unwrap();
        assert_eq!(read, [vec!["nr", "", "ab"], vec!["", "", "done", "0.5"]]);
    }
}
