//! OpenDocument sheets, as LibreOffice writes them.
//!
//! `calamine` makes all sheets dense before it gives any; here the elements are read one
//! after the other. Rows and cells that are alike stand there once with a count, and the
//! counts reach to the end of the sheet, so that an empty cell is counted and never made.

use std::collections::HashSet;
use std::io::{BufReader, Cursor};

use crate::BookFormat;
use nero_table::{COLUMNS_MAX, CellValue, Sheet, UnreadableTable};
use quick_xml::Reader;
use quick_xml::escape::{resolve_xml_entity, unescape};
use quick_xml::events::{BytesRef, BytesStart, Event};
use zip::ZipArchive;

use crate::builder::{SheetBuilder, trimmed};
use crate::limits::{self, damaged};
use crate::value;

/// Elements whose texts are in no cell.
const NO_CELLS: &[&str] = &[
    "table:tracked-changes",
    "table:shapes",
    "office:annotation",
    "office:forms",
    "dr3d:scene",
];

/// Reads the sheet of this name, else the first that is not hidden.
pub(crate) fn read(bytes: &[u8], wanted: Option<&str>) -> Result<Sheet, UnreadableTable> {
    let mut zip = ZipArchive::new(Cursor::new(bytes)).map_err(|error| damaged(&error))?;
    limits::check(&mut zip)?;
    let found = in_content(&mut zip, wanted)?;
    let sheets = found.sheets;
    match (found.gather, sheets.first()) {
        (Some(mut gather), _) => {
            if found.has_formulas {
                let name = gather.sheet.name.clone();
                let facts = crate::sheet_facts(BookFormat::Ods, bytes, name.as_deref());
                gather.facts(&facts.unwrap_or_default());
            }
            let mut sheet = gather.finish();
            sheet.sheets = sheets;
            Ok(sheet)
        }
        // All sheets are hidden.
        (None, Some(first)) if wanted.is_none() => read(bytes, Some(first)),
        (None, _) => Err(UnreadableTable::NoSheet { sheets }),
    }
}

#[derive(Default)]
struct Content {
    sheets: Vec<String>,
    gather: Option<SheetBuilder>,
    has_formulas: bool,
}

/// A row that is being read.
#[derive(Default)]
struct OpenRow {
    repeated: u32,
    column: u32,
    cells: Vec<(u32, CellValue)>,
    /// Columns of merged cells, with their rows.
    spans: Vec<(u32, u32)>,
}

/// A cell that is being read.
#[derive(Default)]
struct OpenCell {
    repeated: u32,
    /// Rows that it is merged over.
    rows_spanned: u32,
    is_covered: bool,
    formula: Option<String>,
    kind: String,
    is_error: bool,
    value: Option<String>,
    text: Option<String>,
}

fn in_content(
    zip: &mut ZipArchive<Cursor<&[u8]>>,
    wanted: Option<&str>,
) -> Result<Content, UnreadableTable> {
    let part = zip
        .by_name("content.xml")
        .map_err(|error| damaged(&error))?;
    let mut xml = Reader::from_reader(BufReader::new(part));
    xml.config_mut().expand_empty_elements = true;
    let (mut buffer, mut skipped) = (Vec::new(), Vec::new());
    let mut found = Content::default();
    let mut hidden: HashSet<String> = HashSet::new();
    let mut style = String::new();
    let mut row_number = 1_u32;
    let (mut row, mut cell) = (OpenRow::default(), OpenCell::default());
    loop {
        buffer.clear();
        let event = xml.read_event_into(&mut buffer);
        match event.map_err(|error| damaged(&error))? {
            Event::Start(start) => match start.name().as_ref() {
                "style:style" => style = attribute(&start, "style:name")?.unwrap_or_default(),
                "style:table-properties"
                    if attribute(&start, "table:display")?.as_deref() == Some("false") =>
                {
                    hidden.insert(style.clone());
                }
                "table:table" => {
                    let name = attribute(&start, "table:name")?.unwrap_or_default();
                    let style = attribute(&start, "table:style-name")?;
                    let is_seen = !style.is_some_and(|style| hidden.contains(&style));
                    if found.take_sheet(name, wanted, is_seen) {
                        row_number = 1;
                    } else {
                        let end = start.to_end().into_owned();
                        skip(&mut xml, &end, &mut skipped)?;
                    }
                }
                // Pictures, charts and text boxes stand in the cell that they are anchored to.
                name if NO_CELLS.contains(&name) || name.starts_with("draw:") => {
                    let end = start.to_end().into_owned();
                    skip(&mut xml, &end, &mut skipped)?;
                }
                "table:table-row" => {
                    row = OpenRow {
                        repeated: repeated(&start, "table:number-rows-repeated")?,
                        column: 1,
                        ..OpenRow::default()
                    };
                }
                name @ ("table:table-cell" | "table:covered-table-cell") => {
                    cell = opened(&start, name == "table:covered-table-cell")?;
                    found.has_formulas |= cell.formula.is_some();
                }
                "text:p" => match &mut cell.text {
                    Some(text) => text.push('\n'),
                    None => cell.text = Some(String::new()),
                },
                "text:s" => {
                    let count = repeated(&start, "text:c")?.min(1000) as usize;
                    cell.push(&" ".repeat(count));
                }
                "text:tab" => cell.push("\t"),
                "text:line-break" => cell.push("\n"),
                _ => {}
            },
            Event::Text(text) => cell.push(&text.xml10_content()),
            Event::CData(text) => cell.push(&text.xml10_content()),
            Event::GeneralRef(entity) => cell.push(&resolved(&entity)?),
            Event::End(end) => match end.name().as_ref() {
                "table:table-cell" | "table:covered-table-cell" => {
                    row.close(std::mem::take(&mut cell));
                }
                "table:table-row" => {
                    if let Some(gather) = &mut found.gather {
                        row_number = row.end(gather, row_number)?;
                    }
                    row = OpenRow::default();
                }
                _ => {}
            },
            Event::Eof => return Ok(found),
            Event::Empty(_)
            | Event::Comment(_)
            | Event::Decl(_)
            | Event::PI(_)
            | Event::DocType(_) => {}
        }
    }
}

impl Content {
    /// Notes a sheet, and begins to read it if it is the one that is wanted, else the first that is
    /// seen. Returns whether its cells are read.
    fn take_sheet(&mut self, name: String, wanted: Option<&str>, is_seen: bool) -> bool {
        self.sheets.push(name.clone());
        let is_it = wanted.map_or(is_seen, |wanted| wanted == name);
        let takes = is_it && self.gather.is_none();
        if takes {
            self.gather = Some(SheetBuilder::new(Some(name), Vec::new()));
        }
        takes
    }
}

impl OpenCell {
    fn push(&mut self, text: &str) {
        if let Some(to) = &mut self.text {
            to.push_str(text);
        }
    }

    /// What it holds. Text between the tags counts where no attribute has the value.
    fn cell(self) -> Option<CellValue> {
        if self.is_covered {
            return None;
        }
        let shown = self.text.as_deref().unwrap_or("");
        if self.is_error {
            return Some(CellValue::Error(shown.trim().to_owned()));
        }
        let of_value = self.value.as_deref();
        // LibreOffice writes a truth that it read from another format so.
        match self.formula.as_deref() {
            Some("of:=TRUE()") => return Some(CellValue::Bool(true)),
            Some("of:=FALSE()") => return Some(CellValue::Bool(false)),
            _ => {}
        }
        match self.kind.as_str() {
            "float" | "percentage" | "currency" => {
                let text = of_value?;
                value::parsed(text).or_else(|| Some(CellValue::Text(text.to_owned())))
            }
            "boolean" => Some(CellValue::Bool(of_value? == "true")),
            "date" => Some(value::date(of_value?)),
            "time" => Some(match seconds(of_value?) {
                Some(seconds) => value::duration(seconds),
                None => CellValue::Date(of_value?.to_owned()),
            }),
            "string" => Some(CellValue::Text(of_value.unwrap_or(shown).to_owned())),
            _ if self.formula.is_some() && shown.is_empty() => Some(CellValue::Uncomputed),
            _ => Some(CellValue::Text(shown.to_owned())),
        }
    }
}

impl OpenRow {
    fn close(&mut self, cell: OpenCell) {
        let repeated = cell.repeated;
        if cell.rows_spanned > 1 {
            self.spans.push((self.column, cell.rows_spanned));
        }
        if let Some(cell) = cell.cell().and_then(trimmed) {
            let end = self.column.saturating_add(repeated).min(COLUMNS_MAX + 1);
            self.cells
                .extend((self.column..end).map(|column| (column, cell.clone())));
        }
        self.column = self.column.saturating_add(repeated);
    }

    /// Gathers its cells; returns the number of the next row.
    fn end(&self, gather: &mut SheetBuilder, number: u32) -> Result<u32, UnreadableTable> {
        if !self.cells.is_empty() {
            for number in (number..).take(self.repeated as usize) {
                for (column, cell) in &self.cells {
                    gather.add(number, *column, cell.clone())?;
                }
            }
        }
        for (column, rows) in &self.spans {
            let last = number.saturating_add(rows - 1);
            gather.merge((number, last), *column);
        }
        Ok(number.saturating_add(self.repeated))
    }
}

fn opened(start: &BytesStart<'_>, is_covered: bool) -> Result<OpenCell, UnreadableTable> {
    let mut cell = OpenCell {
        repeated: repeated(start, "table:number-columns-repeated")?,
        rows_spanned: repeated(start, "table:number-rows-spanned")?,
        is_covered,
        ..OpenCell::default()
    };
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| damaged(&error))?;
        let value = || unescape(&attribute.value).map_err(|error| damaged(&error));
        match attribute.key.as_ref() {
            "office:value-type" => cell.kind = value()?.into_owned(),
            "calcext:value-type" => cell.is_error = value()? == "error",
            "office:value"
            | "office:date-value"
            | "office:time-value"
            | "office:boolean-value"
            | "office:string-value" => cell.value = Some(value()?.into_owned()),
            "table:formula" => cell.formula = Some(value()?.into_owned()),
            _ => {}
        }
    }
    Ok(cell)
}

fn attribute(start: &BytesStart<'_>, name: &str) -> Result<Option<String>, UnreadableTable> {
    let found = start
        .try_get_attribute(name)
        .map_err(|error| damaged(&error))?;
    match found {
        Some(found) => match unescape(&found.value) {
            Ok(value) => Ok(Some(value.into_owned())),
            Err(error) => Err(damaged(&error)),
        },
        None => Ok(None),
    }
}

/// A count of at least one.
fn repeated(start: &BytesStart<'_>, name: &str) -> Result<u32, UnreadableTable> {
    let count = attribute(start, name)?.and_then(|count| count.parse().ok());
    Ok(count.unwrap_or(1).max(1))
}

fn skip<R: std::io::BufRead>(
    xml: &mut Reader<R>,
    end: &quick_xml::events::BytesEnd<'_>,
    buffer: &mut Vec<u8>,
) -> Result<(), UnreadableTable> {
    buffer.clear();
    let skipped = xml.read_to_end_into(end.name(), buffer);
    skipped.map(drop).map_err(|error| damaged(&error))
}

fn resolved(entity: &BytesRef<'_>) -> Result<String, UnreadableTable> {
    if let Some(text) = resolve_xml_entity(entity.as_ref()) {
        return Ok(text.to_owned());
    }
    let character = entity.resolve_char_ref().map_err(|error| damaged(&error))?;
    Ok(character.map_or_else(String::new, String::from))
}

/// The seconds of `PT26H03M00S`.
fn seconds(text: &str) -> Option<f64> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text),
    };
    let mut rest = rest.strip_prefix("PT")?;
    let mut sum = 0.0;
    for (letter, factor) in [('H', 3600.0), ('M', 60.0), ('S', 1.0)] {
        if let Some((number, behind)) = rest.split_once(letter) {
            sum += number.parse::<f64>().ok()? * factor;
            rest = behind;
        }
    }
    rest.is_empty().then_some(sign * sum)
}
