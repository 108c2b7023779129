//! One reading of a sheet: where wanted cells stand or would stand, what they hold, and which
//! formulas there are.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use calamine::{ExcelDateTime, ExcelDateTimeType};
use nero_table::book::BookCell;
use nero_table::{CellValue, Sheet, UnreadableTable};

use crate::WantedCells;
use crate::builder::{SheetBuilder, outside};
use crate::dependents::{Cells, Formula};
use crate::excel::moment;
use crate::formula::{Reads, Sheets, constant};
use crate::place::{COLUMNS_MAX, ROWS_MAX, Rect, Spot, row, spot};
use crate::value::{date, parsed};
use crate::xml::{Elements, Splice, Tag, XmlError, XmlScanner, XmlStep, local, meaning, prefix};

use super::text::{decoded, runs};

/// What a change of a sheet needs to know of it.
#[derive(Debug, Default)]
pub(super) struct Layout<'a> {
    /// The prefix of its elements, with the colon.
    pub prefix: &'a str,
    /// A list of rows without content.
    pub empty_list: Option<Tag<'a>>,
    /// The rows with wanted cells.
    pub rows: BTreeMap<u32, RowPlace<'a>>,
    /// The wanted cells.
    pub slots: BTreeMap<Spot, CellSlot<'a>>,
    /// The area that the sheet says it uses, and where it says so.
    pub dimension: Option<(Range<usize>, Rect)>,
    pub merged: Vec<Rect>,
    /// What formulas of more than one cell fill.
    pub filled: Vec<Rect>,
    pub formulas: Vec<Formula>,
    /// The cells, where all are read.
    builder: Option<SheetBuilder>,
    /// What takes the shown values of stale formulas away.
    stripped: Vec<Splice>,
}

#[derive(Debug)]
pub(super) enum RowPlace<'a> {
    /// There is none; it would stand here.
    Missing(usize),
    /// `<row/>`
    Empty(Tag<'a>),
    Full(Tag<'a>),
}

/// Where a wanted cell stands, or would stand.
#[derive(Debug)]
pub(super) struct CellSlot<'a> {
    /// Its element; empty where there is none.
    pub at: Range<usize>,
    /// What stays of its tag behind the name.
    pub kept: String,
    pub content: CellContent,
    /// The style that a new cell takes.
    pub style: Option<&'a str>,
}

#[derive(Debug)]
pub(super) enum CellContent {
    Formula,
    /// `TRUE()`, into which LibreOffice makes every truth value.
    Constant(bool),
    Value(BookCell),
}

/// What the values of cells point to.
#[derive(Debug, Default)]
pub(super) struct CellSources {
    pub texts: Vec<String>,
    /// What formats of cells make of numbers; without them numbers stay numbers.
    pub formats: Vec<Option<ExcelDateTimeType>>,
    /// Whether days count from 1904.
    pub is_1904: bool,
}

impl<'a> Layout<'a> {
    pub fn scan(
        xml: &'a str,
        wanted: &WantedCells<'_>,
        sheets: &Sheets<'_>,
        sources: CellSources,
    ) -> Result<Self, XmlError> {
        let mut scanner = Scanner::new(xml, Some(sheets), None);
        scanner.sources = sources;
        scanner.want(wanted);
        scanner.read()
    }
}

/// Reads all cells of a sheet.
pub(super) fn cells(
    xml: &str,
    sheets: &Sheets<'_>,
    sources: CellSources,
    builder: SheetBuilder,
) -> Result<Sheet, XmlError> {
    let mut scanner = Scanner::new(xml, Some(sheets), None);
    scanner.sources = sources;
    scanner.layout.builder = Some(builder);
    let layout = scanner.read()?;
    let mut builder = layout.builder.unwrap_or_default();
    for area in &layout.merged {
        builder.merge(area);
    }
    builder.formulas(&layout.formulas);
    Ok(builder.finish())
}

/// The formulas of a sheet that has no wanted cells.
pub(super) fn formulas(xml: &str, sheets: &Sheets<'_>) -> Result<Vec<Formula>, XmlError> {
    // Every formula that is written out ends so, under whatever prefix.
    if !xml.contains("f>") {
        return Ok(Vec::new());
    }
    Ok(Scanner::new(xml, Some(sheets), None).read()?.formulas)
}

/// Takes away what stale formulas show.
pub(super) fn without_values(
    xml: &str,
    own: usize,
    stale: &Cells,
) -> Result<Vec<Splice>, XmlError> {
    let scanner = Scanner::new(xml, None, Some((own, stale)));
    Ok(scanner.read()?.stripped)
}

struct Scanner<'a, 'b> {
    elements: Elements<'a>,
    /// For the meaning of formulas; without it they are not read.
    sheets: Option<&'b Sheets<'b>>,
    stale: Option<(usize, &'b Cells)>,
    wanted_rows: Vec<u32>,
    wanted: BTreeMap<u32, Vec<u32>>,
    wanted_columns: BTreeSet<u32>,
    first_row: u32,
    sources: CellSources,
    /// The styles of the nearest data cells above, by column.
    above: HashMap<u32, Option<&'a str>>,
    /// Styles of whole columns.
    columns: Vec<((u32, u32), &'a str)>,
    /// Formulas that others share, by their number.
    shared: HashMap<String, (Spot, Reads)>,
    layout: Layout<'a>,
}

impl<'a> XmlScanner<'a> for Scanner<'a, '_> {
    fn elements(&mut self) -> &mut Elements<'a> {
        &mut self.elements
    }
}

impl<'a, 'b> Scanner<'a, 'b> {
    fn new(
        xml: &'a str,
        sheets: Option<&'b Sheets<'b>>,
        stale: Option<(usize, &'b Cells)>,
    ) -> Self {
        Self {
            elements: Elements::new(xml),
            sheets,
            stale,
            wanted_rows: Vec::new(),
            wanted: BTreeMap::new(),
            wanted_columns: BTreeSet::new(),
            first_row: 0,
            sources: CellSources::default(),
            above: HashMap::new(),
            columns: Vec::new(),
            shared: HashMap::new(),
            layout: Layout::default(),
        }
    }

    fn want(&mut self, wanted: &WantedCells<'_>) {
        for (row, column) in wanted.at.keys() {
            self.wanted.entry(*row).or_default().push(*column);
            self.wanted_columns.insert(*column);
        }
        // Taken from the end.
        self.wanted_rows = self.wanted.keys().rev().copied().collect();
        self.first_row = wanted.sheet.first_row;
    }

    fn read(mut self) -> Result<Layout<'a>, XmlError> {
        let root = self.elements.next_tag()?;
        let root = root.ok_or_else(|| meaning("no element", 0))?;
        if local(root.name) != "worksheet" {
            return Err(meaning("no worksheet", root.at.start));
        }
        self.layout.prefix = prefix(root.name);
        let mut has_rows = false;
        loop {
            let tag = match self.elements.next()? {
                XmlStep::Open(tag) => tag,
                XmlStep::End => break,
                XmlStep::Close(..) | XmlStep::Text(_) => continue,
            };
            match self.own(&tag) {
                Some("dimension") => {
                    self.dimension(&tag)?;
                    self.elements.skip(&tag)?;
                }
                Some("cols") => self.column_styles(&tag)?,
                Some("sheetData") if !has_rows => {
                    has_rows = true;
                    self.rows(&tag)?;
                }
                Some("mergeCells") => self.merged(&tag)?,
                _ => self.elements.skip(&tag)?,
            }
        }
        if has_rows {
            Ok(self.layout)
        } else {
            Err(meaning("no list of rows", root.at.end))
        }
    }

    /// The name of an element of the sheet's own kind.
    fn own(&self, tag: &Tag<'a>) -> Option<&'a str> {
        let name = tag.name.strip_prefix(self.layout.prefix)?;
        (!name.contains(':')).then_some(name)
    }

    fn dimension(&mut self, tag: &Tag<'a>) -> Result<(), XmlError> {
        if let Some(attribute) = tag.attribute("ref")?
            && let Some(rect) = Rect::read(attribute.raw)
        {
            self.layout.dimension = Some((attribute.value_at, rect));
        }
        Ok(())
    }

    fn column_styles(&mut self, parent: &Tag<'a>) -> Result<(), XmlError> {
        self.children(parent, &mut |this, tag| {
            let number = |name| -> Result<Option<u32>, XmlError> {
                let value = tag.attribute(name)?;
                Ok(value.and_then(|value| value.raw.parse::<u32>().ok()))
            };
            if let (Some(from), Some(to), Some(style)) =
                (number("min")?, number("max")?, tag.attribute("style")?)
            {
                let columns = (from.saturating_sub(1), to.saturating_sub(1));
                this.columns.push((columns, style.raw));
            }
            this.elements.skip(tag)
        })?;
        Ok(())
    }

    fn merged(&mut self, parent: &Tag<'a>) -> Result<(), XmlError> {
        self.children(parent, &mut |this, tag| {
            let area = tag.attribute("ref")?.and_then(|area| Rect::read(area.raw));
            this.layout.merged.extend(area);
            this.elements.skip(tag)
        })?;
        Ok(())
    }

    fn rows(&mut self, list: &Tag<'a>) -> Result<(), XmlError> {
        if list.is_empty {
            self.layout.empty_list = Some(list.clone());
        }
        let mut next = 0;
        let end = self.children(list, &mut |this, tag| {
            if this.own(tag) != Some("row") {
                return this.elements.skip(tag);
            }
            let number = match tag.attribute("r")? {
                Some(number) => row(number.raw),
                None => (next < ROWS_MAX).then_some(next),
            };
            let number = number.ok_or_else(outside)?;
            // Programs read rows in any order; a change needs theirs.
            if number < next && this.layout.builder.is_none() {
                return Err(meaning("a row behind a later one", tag.at.start));
            }
            next = number + 1;
            this.missing_rows(number, tag.at.start);
            this.row(number, tag)
        })?;
        self.missing_rows(ROWS_MAX, end.start);
        Ok(())
    }

    /// Records the wanted rows before this one as missing.
    fn missing_rows(&mut self, before: u32, at: usize) {
        while let Some(row) = self.wanted_rows.pop_if(|row| *row < before) {
            self.layout.rows.insert(row, RowPlace::Missing(at));
            for column in self.wanted.remove(&row).unwrap_or_default() {
                self.missing_cell((row, column), at, None);
            }
        }
    }

    fn missing_cell(&mut self, place: Spot, at: usize, row_style: Option<&'a str>) {
        let style = match self.above.get(&place.1) {
            Some(style) => *style,
            None => row_style.or_else(|| {
                let mut columns = self.columns.iter();
                let is_here =
                    |((from, to), _): &&((u32, u32), &str)| (*from..=*to).contains(&place.1);
                columns.find(is_here).map(|(_, style)| *style)
            }),
        };
        let slot = CellSlot {
            at: at..at,
            kept: String::new(),
            content: CellContent::Value(None),
            style,
        };
        self.layout.slots.insert(place, slot);
    }

    fn row(&mut self, number: u32, tag: &Tag<'a>) -> Result<(), XmlError> {
        let wanted = match self.wanted_rows.pop_if(|row| *row == number) {
            Some(row) => self.wanted.remove(&row).unwrap_or_default(),
            None => Vec::new(),
        };
        let mut row_style = None;
        if !wanted.is_empty() {
            let place = if tag.is_empty {
                RowPlace::Empty(tag.clone())
            } else {
                RowPlace::Full(tag.clone())
            };
            self.layout.rows.insert(number, place);
            let is_custom = tag.attribute("customFormat")?;
            if is_custom.is_some_and(|custom| matches!(custom.raw, "1" | "true")) {
                row_style = tag.attribute("s")?.map(|style| style.raw);
            }
        }
        let mut wanted = wanted.into_iter().peekable();
        let mut next = 0;
        let end = self.children(tag, &mut |this, tag| {
            if this.own(tag) != Some("c") {
                return this.elements.skip(tag);
            }
            let place = match tag.attribute("r")? {
                Some(place) => spot(place.raw),
                None => (next < COLUMNS_MAX).then_some((number, next)),
            };
            let place = place.ok_or_else(outside)?;
            let is_next = place.0 == number && place.1 >= next;
            if !is_next && this.layout.builder.is_none() {
                let what = "a cell behind a later one, or in another row";
                return Err(meaning(what, tag.at.start));
            }
            next = place.1 + 1;
            while let Some(column) = wanted.next_if(|column| *column < place.1) {
                this.missing_cell((number, column), tag.at.start, row_style);
            }
            let is_wanted = wanted.next_if_eq(&place.1).is_some();
            this.cell(place, tag, is_wanted)
        })?;
        for column in wanted {
            self.missing_cell((number, column), end.start, row_style);
        }
        Ok(())
    }

    fn cell(&mut self, place: Spot, tag: &Tag<'a>, is_wanted: bool) -> Result<(), XmlError> {
        let (mut has_formula, mut has_content) = (false, false);
        let (mut text, mut constant) = (None, None);
        let mut kind = tag.attribute("t")?.map_or("n", |kind| kind.raw);
        let is_read = is_wanted || self.layout.builder.is_some();
        let is_stale = self
            .stale
            .is_some_and(|(sheet, stale)| stale.has(sheet, place));
        let end = self.children(tag, &mut |this, child| {
            match this.own(child) {
                Some("f") => {
                    (has_formula, has_content) = (true, true);
                    constant = this.formula(place, child)?;
                }
                Some("is") if is_read => {
                    (has_content, kind) = (true, "inlineStr");
                    text = Some(runs(&mut this.elements, child)?.0.into());
                }
                // Beside a text in the cell it tells nothing.
                Some("v") if is_read && kind != "inlineStr" => {
                    has_content = true;
                    text = Some(this.elements.text_of(child)?.0);
                }
                Some("v" | "is") => {
                    has_content = true;
                    if is_stale {
                        let end = this.elements.text_of(child)?.1.end;
                        let splice = Splice::new(child.at.start..end, "");
                        this.layout.stripped.push(splice);
                    } else {
                        this.elements.skip(child)?;
                    }
                }
                _ => this.elements.skip(child)?,
            }
            Ok(())
        })?;
        if is_stale && let Some(kind) = tag.attribute("t")? {
            self.layout.stripped.push(Splice::new(kind.at, ""));
        }
        if (has_content || is_wanted) && self.wanted_columns.contains(&place.1) {
            self.remember_style(place, tag)?;
        }
        if !is_read {
            return Ok(());
        }
        let is_computed = !has_formula || kind == "str";
        let value = match text {
            Some(text) => self.value(place, tag, kind, text)?,
            None => None,
        };
        if let Some(builder) = &mut self.layout.builder {
            let value = value.or((!is_computed).then_some(CellValue::Uncomputed));
            return match value {
                Some(value) => Ok(builder.add(place.0 + 1, place.1 + 1, value)?),
                None => Ok(()),
            };
        }
        let content = match (has_formula, constant) {
            (true, Some(value)) => CellContent::Constant(value),
            (true, None) => CellContent::Formula,
            (false, _) => CellContent::Value(value),
        };
        let slot = CellSlot {
            at: tag.at.start..end.end,
            kept: kept(tag)?,
            content,
            style: None,
        };
        self.layout.slots.insert(place, slot);
        Ok(())
    }

    /// Data cells lend their style to new cells below them.
    fn remember_style(&mut self, place: Spot, tag: &Tag<'a>) -> Result<(), XmlError> {
        if place.0 >= self.first_row {
            let style = tag.attribute("s")?.map(|style| style.raw);
            self.above.insert(place.1, style);
        }
        Ok(())
    }

    /// Returns the truth value that a formula without anything else is.
    fn formula(&mut self, place: Spot, tag: &Tag<'a>) -> Result<Option<bool>, XmlError> {
        let (text, _) = self.elements.text_of(tag)?;
        let Some(sheets) = self.sheets else {
            return Ok(None);
        };
        let kind = tag.attribute("t")?.map_or("", |kind| kind.raw);
        let area = tag.attribute("ref")?.and_then(|area| Rect::read(area.raw));
        let mut shows = Rect::single(place);
        let reads = match kind {
            "shared" => {
                let number = tag.value("si")?.unwrap_or_default().into_owned();
                if !text.is_empty() {
                    let reads = Reads::excel(&text, sheets);
                    self.shared.insert(number, (place, reads.clone()));
                    reads
                } else {
                    match self.shared.get(&number) {
                        Some((from, reads)) => reads.moved(*from, place),
                        None => Reads::Anything,
                    }
                }
            }
            "dataTable" => Reads::Anything,
            _ => Reads::excel(&text, sheets),
        };
        if let ("array" | "dataTable", Some(area)) = (kind, area) {
            shows = area.with(place);
            self.layout.filled.push(shows);
        }
        if let Some(sheet) = sheets.own {
            self.layout.formulas.push(Formula {
                sheet,
                shows,
                reads,
            });
        }
        Ok(constant(&text).filter(|_| kind.is_empty()))
    }

    /// What a cell of a kind holds or shows.
    fn value(
        &self,
        place: Spot,
        tag: &Tag<'a>,
        kind: &str,
        text: Cow<'_, str>,
    ) -> Result<BookCell, XmlError> {
        let inner = text.trim();
        let value = match kind {
            "inlineStr" => Some(CellValue::Text(text.into_owned())),
            "str" => Some(CellValue::Text(decoded(&text))),
            _ if inner.is_empty() => return Ok(None),
            "s" => {
                let index = inner.parse::<usize>().ok();
                let shared = index.and_then(|index| self.sources.texts.get(index));
                shared.map(|text| CellValue::Text(text.clone()))
            }
            "b" => match inner.to_ascii_lowercase().as_str() {
                "1" | "true" => Some(CellValue::Bool(true)),
                "0" | "false" => Some(CellValue::Bool(false)),
                _ => None,
            },
            "d" => Some(date(inner)),
            "e" => Some(CellValue::Error(inner.to_owned())),
            "n" => Some(self.number(tag, inner)?),
            _ => None,
        };
        let builder = self.layout.builder.as_ref();
        let unknown = || UnreadableTable::At {
            sheet: builder.and_then(|builder| builder.sheet.name.clone()),
            row: place.0 + 1,
            column: place.1 + 1,
            why: match kind {
                "s" => "this cell points to a text that the file does not have",
                _ => "this cell holds a value of an unknown kind",
            }
            .to_owned(),
            hint: "open it in a spreadsheet program and save it anew".to_owned(),
        };
        Ok(Some(value.ok_or_else(unknown)?))
    }

    /// The number, or the moment that its format shows.
    fn number(&self, tag: &Tag<'a>, text: &str) -> Result<CellValue, XmlError> {
        let style = tag.attribute("s")?;
        let format = style.and_then(|style| style.raw.parse::<usize>().ok());
        let format = format.and_then(|index| *self.sources.formats.get(index)?);
        Ok(match (format, text.parse()) {
            (Some(format), Ok(days)) => {
                moment(&ExcelDateTime::new(days, format, self.sources.is_1904))
            }
            _ => parsed(text).unwrap_or_else(|| CellValue::Text(text.to_owned())),
        })
    }
}

/// The attributes of a cell that hold for its place and look, whatever it holds.
fn kept(tag: &Tag<'_>) -> Result<String, XmlError> {
    let mut kept = String::new();
    for attribute in tag.attributes()? {
        if !matches!(attribute.name, "t" | "cm" | "vm") {
            kept.push_str(tag.raw(attribute.at));
        }
    }
    Ok(kept)
}
