//! One reading of the content: where wanted cells stand, what they hold, and which formulas
//! there are.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;

use nero_table::CellValue;
use nero_table::book::BookCell;

use crate::WantedCells;
use crate::builder::{SheetBuilder, trimmed};
use crate::dependents::Cells;
use crate::formula::constant;
use crate::place::{COLUMNS_MAX, ROWS_MAX, Rect, Spot};
use crate::value::{date, duration, parsed};
use crate::xml::{Elements, Splice, Tag, XmlError, XmlScanner, local, meaning, prefix};

use super::text::paragraph;

/// Attributes that hold what a cell shows.
const SHOWN: &[&str] = &[
    "value-type",
    "value",
    "string-value",
    "boolean-value",
    "date-value",
    "time-value",
    "currency",
];

/// What a change of a sheet needs to know of the content.
#[derive(Debug, Default)]
pub(super) struct Layout<'a> {
    /// Prefixes with their colons; that of `calcext` only where it is declared.
    pub office: String,
    pub text: String,
    pub calcext: Option<String>,
    /// The elements of rows with wanted cells, in their order.
    pub rows: Vec<RowElement<'a>>,
    /// The wanted cells.
    pub slots: BTreeMap<Spot, CellSlot>,
    /// What formulas of more than one cell fill.
    pub filled: Vec<Rect>,
    pub formulas: Vec<FormulaText>,
}

/// An element that stands for one row or more.
#[derive(Debug)]
pub(super) struct RowElement<'a> {
    pub tag: Tag<'a>,
    /// The whole element.
    pub at: Range<usize>,
    /// Where its end tag begins.
    pub end: usize,
    pub first: u32,
    pub count: u32,
    /// Columns that its cells reach.
    pub width: u32,
    /// Those with a wanted column.
    pub cells: Vec<CellElement<'a>>,
}

/// An element that stands for one cell or more of a row.
#[derive(Debug)]
pub(super) struct CellElement<'a> {
    pub tag: Tag<'a>,
    pub at: Range<usize>,
    pub first: u32,
    pub count: u32,
    pub shape: Shape,
    /// Comments and pictures.
    pub kept: Vec<Range<usize>>,
}

#[derive(Debug)]
pub(super) enum Shape {
    /// Under a merged cell.
    Covered,
    Formula,
    Value(BookCell),
}

/// Where a wanted cell stands.
#[derive(Debug)]
pub(super) struct CellSlot {
    /// Index of its row's element.
    pub row: usize,
    /// Index within the row; the row may end before.
    pub cell: Option<usize>,
    /// The style of the nearest data cell above.
    pub style: Option<String>,
}

#[derive(Debug)]
pub(super) struct FormulaText {
    pub sheet: usize,
    pub shows: Rect,
    pub text: String,
}

/// The names of the sheets, and the index of the first that is not hidden.
pub(super) fn names(xml: &str) -> Result<(Vec<String>, usize), XmlError> {
    let (mut names, mut first_seen) = (Vec::new(), None);
    let mut scanner = Scanner::new(xml);
    scanner.tables(|this, tag, sheet| {
        let style = tag.local_attribute("style-name")?.map(|style| style.raw);
        if style.is_none_or(|style| !this.hidden.contains(style)) {
            first_seen.get_or_insert(sheet);
        }
        names.push(tag.local_value("name")?.unwrap_or_default().into_owned());
        this.elements.skip(tag)
    })?;
    Ok((names, first_seen.unwrap_or_default()))
}

/// Reads all cells of a sheet; returns its formulas beside them.
pub(super) fn cells(
    xml: &str,
    own: usize,
    builder: SheetBuilder,
) -> Result<(SheetBuilder, Vec<FormulaText>), XmlError> {
    let mut scanner = Scanner::new(xml);
    scanner.builder = Some(builder);
    scanner.tables(|this, tag, sheet| {
        if sheet != own {
            return this.elements.skip(tag);
        }
        this.sheet = sheet;
        this.rows(tag)
    })?;
    Ok((scanner.builder.unwrap_or_default(), scanner.layout.formulas))
}

impl<'a> Layout<'a> {
    pub fn scan(xml: &'a str, wanted: &WantedCells<'_>, own: usize) -> Result<Self, XmlError> {
        let mut scanner = Scanner::new(xml);
        scanner.tables(|this, tag, sheet| {
            if sheet == own {
                for place in wanted.at.keys() {
                    this.wanted_columns.insert(place.1);
                }
                this.first_row = wanted.sheet.first_row;
                this.wanted = Some(wanted.at.keys().copied().collect());
            }
            this.sheet = sheet;
            this.next_row = 0;
            this.rows(tag)?;
            this.wanted = None;
            Ok(())
        })?;
        Ok(scanner.layout)
    }
}

/// Takes away what stale formulas show.
pub(super) fn without_values(xml: &str, stale: &Cells) -> Result<Vec<Splice>, XmlError> {
    let mut scanner = Scanner::new(xml);
    scanner.stale = Some(stale);
    scanner.tables(|this, tag, sheet| {
        this.sheet = sheet;
        this.next_row = 0;
        this.rows(tag)
    })?;
    Ok(scanner.stripped)
}

struct Scanner<'a, 'b> {
    elements: Elements<'a>,
    sheet: usize,
    next_row: u32,
    /// The wanted cells, while the sheet with them is read.
    wanted: Option<BTreeSet<Spot>>,
    wanted_columns: BTreeSet<u32>,
    first_row: u32,
    /// The styles of the nearest data cells above, by column.
    above: HashMap<u32, Option<&'a str>>,
    stale: Option<&'b Cells>,
    stripped: Vec<Splice>,
    /// Styles of hidden sheets.
    hidden: HashSet<&'a str>,
    /// The cells, where all are read.
    builder: Option<SheetBuilder>,
    /// The elements with a content of the row that is read: first column, number, content.
    read: Vec<(u32, u32, CellValue)>,
    layout: Layout<'a>,
}

impl<'a> XmlScanner<'a> for Scanner<'a, '_> {
    fn elements(&mut self) -> &mut Elements<'a> {
        &mut self.elements
    }
}

impl<'a, 'b> Scanner<'a, 'b> {
    fn new(xml: &'a str) -> Self {
        Self {
            elements: Elements::new(xml),
            sheet: 0,
            next_row: 0,
            wanted: None,
            wanted_columns: BTreeSet::new(),
            first_row: 0,
            above: HashMap::new(),
            stale: None,
            stripped: Vec::new(),
            hidden: HashSet::new(),
            builder: None,
            read: Vec::new(),
            layout: Layout::default(),
        }
    }

    /// Calls `each` with every sheet and its number.
    fn tables(
        &mut self,
        mut each: impl FnMut(&mut Self, &Tag<'a>, usize) -> Result<(), XmlError>,
    ) -> Result<(), XmlError> {
        let root = self.elements.next_tag()?;
        let root = root.ok_or_else(|| meaning("no element", 0))?;
        self.prefixes(&root)?;
        let mut sheet = 0;
        self.children(&root, &mut |this, body| {
            match local(body.name) {
                "body" => {}
                "automatic-styles" => return this.styles(body),
                _ => return this.elements.skip(body),
            }
            this.children(body, &mut |this, inner| {
                if local(inner.name) != "spreadsheet" {
                    return this.elements.skip(inner);
                }
                this.children(inner, &mut |this, table| {
                    if local(table.name) != "table" {
                        return this.elements.skip(table);
                    }
                    sheet += 1;
                    each(this, table, sheet - 1)
                })?;
                Ok(())
            })?;
            Ok(())
        })?;
        Ok(())
    }

    fn styles(&mut self, parent: &Tag<'a>) -> Result<(), XmlError> {
        self.children(parent, &mut |this, style| {
            let name = style.local_attribute("name")?;
            this.children(style, &mut |this, look| {
                let display = look.local_attribute("display")?;
                if local(look.name) == "table-properties"
                    && display.is_some_and(|display| display.raw == "false")
                {
                    this.hidden.extend(name.as_ref().map(|name| name.raw));
                }
                this.elements.skip(look)
            })?;
            Ok(())
        })?;
        Ok(())
    }

    fn prefixes(&mut self, root: &Tag<'a>) -> Result<(), XmlError> {
        let layout = &mut self.layout;
        (layout.office, layout.text) = ("office:".to_owned(), "text:".to_owned());
        for attribute in root.attributes()? {
            let Some(name) = attribute.name.strip_prefix("xmlns:") else {
                continue;
            };
            let name = format!("{name}:");
            match attribute.raw {
                "urn:oasis:names:tc:opendocument:xmlns:office:1.0" => layout.office = name,
                "urn:oasis:names:tc:opendocument:xmlns:text:1.0" => layout.text = name,
                "urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0" => {
                    layout.calcext = Some(name);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Rows stand in the sheet or in groups of it.
    fn rows(&mut self, parent: &Tag<'a>) -> Result<(), XmlError> {
        self.children(parent, &mut |this, tag| match local(tag.name) {
            "table-row" => this.row(tag),
            "table-header-rows" | "table-row-group" | "table-rows" => this.rows(tag),
            _ => this.elements.skip(tag),
        })?;
        Ok(())
    }

    fn row(&mut self, tag: &Tag<'a>) -> Result<(), XmlError> {
        let first = self.next_row;
        let max = ROWS_MAX - first.min(ROWS_MAX);
        let count = self.repeats(tag, "number-rows-repeated", max)?;
        self.next_row = first + count;
        let wanted: Vec<Spot> = match &self.wanted {
            Some(wanted) => wanted
                .range((first, 0)..(first + count, 0))
                .copied()
                .collect(),
            None => Vec::new(),
        };
        let columns: BTreeSet<u32> = wanted.iter().map(|(_, column)| *column).collect();
        let mut cells: Vec<CellElement<'a>> = Vec::new();
        let mut width = 0;
        // Styles are looked up before this row's own cells count.
        let above = |this: &Self, column: u32| this.above.get(&column).copied().flatten();
        let styles: BTreeMap<u32, Option<String>> = columns
            .iter()
            .map(|column| (*column, above(self, *column).map(str::to_owned)))
            .collect();
        let end = self.children(tag, &mut |this, tag| {
            if !matches!(local(tag.name), "table-cell" | "covered-table-cell") {
                return this.elements.skip(tag);
            }
            let max = COLUMNS_MAX - width.min(COLUMNS_MAX);
            let count = this.repeats(tag, "number-columns-repeated", max)?;
            let is_wanted = columns.range(width..width + count).next().is_some();
            let cell = this.cell(tag, (first, width), count, is_wanted)?;
            cells.extend(cell.filter(|_| is_wanted));
            width += count;
            Ok(())
        })?;
        if let Some(builder) = &mut self.builder {
            let cells = std::mem::take(&mut self.read);
            let rows = if cells.is_empty() { 0 } else { count };
            for row in first..first + rows {
                for (column, count, cell) in &cells {
                    for column in *column..*column + count {
                        builder.add(row + 1, column + 1, cell.clone())?;
                    }
                }
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let row = self.layout.rows.len();
        for (number, column) in wanted {
            let is_here =
                |cell: &CellElement<'_>| (cell.first..cell.first + cell.count).contains(&column);
            let slot = CellSlot {
                row,
                cell: cells.iter().position(is_here),
                style: styles[&column].clone(),
            };
            self.layout.slots.insert((number, column), slot);
        }
        self.layout.rows.push(RowElement {
            at: tag.at.start..end.end,
            end: end.start,
            tag: tag.clone(),
            first,
            count,
            width,
            cells,
        });
        Ok(())
    }

    fn cell(
        &mut self,
        tag: &Tag<'a>,
        place: Spot,
        count: u32,
        is_wanted: bool,
    ) -> Result<Option<CellElement<'a>>, XmlError> {
        let formula = tag.local_attribute("formula")?;
        if let Some(formula) = &formula {
            self.formula(tag, place, count, formula.raw)?;
        }
        // Only what shows something can be stale; the end of a row stands for thousands.
        let shows = !tag.is_empty || formula.is_some();
        let is_stale = self.stale.filter(|_| shows).is_some_and(|stale| {
            let mut columns = place.1..place.1 + count;
            columns.any(|column| stale.has(self.sheet, (place.0, column)))
        });
        let is_read = self.builder.is_some();
        let mut lines: Vec<String> = Vec::new();
        let (mut kept, mut has_text) = (Vec::new(), false);
        let end = self.children(tag, &mut |this, child| {
            if local(child.name) != "p" {
                this.elements.skip(child)?;
                kept.push(child.at.start..this.elements.position());
                return Ok(());
            }
            has_text = true;
            if is_wanted || is_stale || is_read {
                let (line, end) = paragraph(&mut this.elements, child)?;
                if is_stale {
                    this.stripped.push(Splice::new(child.at.start..end, ""));
                }
                lines.push(line);
                Ok(())
            } else {
                this.elements.skip(child)
            }
        })?;
        if is_stale {
            for attribute in tag.attributes()? {
                if SHOWN.contains(&local(attribute.name)) {
                    self.stripped.push(Splice::new(attribute.at, ""));
                }
            }
        }
        let has_content =
            has_text || formula.is_some() || tag.local_attribute("value-type")?.is_some();
        self.remember_style(tag, place, count, has_content)?;
        if is_read {
            self.read_cell(tag, place, count, &lines)?;
        }
        if !is_wanted {
            return Ok(None);
        }
        let shape = match local(tag.name) {
            "covered-table-cell" => Shape::Covered,
            _ => match &formula {
                Some(formula) => match constant(formula.raw) {
                    Some(value) => Shape::Value(Some(CellValue::Bool(value))),
                    None => Shape::Formula,
                },
                None => Shape::Value(value(tag, &lines)?),
            },
        };
        Ok(Some(CellElement {
            tag: tag.clone(),
            at: tag.at.start..end.end,
            first: place.1,
            count,
            shape,
            kept,
        }))
    }

    fn read_cell(
        &mut self,
        tag: &Tag<'a>,
        place: Spot,
        count: u32,
        lines: &[String],
    ) -> Result<(), XmlError> {
        if local(tag.name) == "covered-table-cell" {
            return Ok(());
        }
        let rows = tag.local_attribute("number-rows-spanned")?;
        let rows = rows.and_then(|rows| rows.raw.parse().ok()).unwrap_or(1_u32);
        if let Some(builder) = &mut self.builder {
            builder.merge(&Rect {
                rows: (place.0, place.0.saturating_add(rows.max(1) - 1)),
                columns: (place.1, place.1),
            });
        }
        let formula = tag.local_attribute("formula")?;
        let value = match (
            value(tag, lines)?,
            formula.as_ref().and_then(|one| constant(one.raw)),
        ) {
            (_, Some(truth)) => Some(CellValue::Bool(truth)),
            (None, None) if formula.is_some() && value_type(tag)?.is_none() => {
                Some(CellValue::Uncomputed)
            }
            (value, None) => value,
        };
        let value = value.and_then(trimmed);
        self.read
            .extend(value.map(|value| (place.1, count.max(1), value)));
        Ok(())
    }

    /// How many rows or cells an element stands for. Programs read every number; a change needs
    /// an honest one.
    fn repeats(&self, tag: &Tag<'_>, name: &str, max: u32) -> Result<u32, XmlError> {
        let count = tag.local_attribute(name)?;
        let count = count.map_or(Some(1), |count| count.raw.parse::<u32>().ok());
        match count {
            // A content behind the last row or column is read, so that it is refused.
            Some(count) if count > 0 && self.builder.is_some() => Ok(count.min(max + 1)),
            _ if self.builder.is_some() => Ok(1),
            Some(count) if count > 0 && max > 0 => Ok(count.min(max)),
            _ => Err(meaning(
                "a number of rows or cells that cannot be",
                tag.at.start,
            )),
        }
    }

    /// Data cells lend their style to new cells below them.
    fn remember_style(
        &mut self,
        tag: &Tag<'a>,
        place: Spot,
        count: u32,
        has_content: bool,
    ) -> Result<(), XmlError> {
        let Some(wanted) = self.wanted.as_ref().filter(|_| place.0 >= self.first_row) else {
            return Ok(());
        };
        for column in self.wanted_columns.range(place.1..place.1 + count) {
            let style = tag.local_attribute("style-name")?.map(|style| style.raw);
            // A cell that will be written counts where it has a look of its own.
            if has_content || (style.is_some() && wanted.contains(&(place.0, *column))) {
                self.above.insert(*column, style);
            }
        }
        Ok(())
    }

    fn formula(
        &mut self,
        tag: &Tag<'a>,
        place: Spot,
        count: u32,
        raw: &str,
    ) -> Result<(), XmlError> {
        let span = |name| -> Result<Option<u32>, XmlError> {
            let span = tag.local_attribute(name)?;
            Ok(span.and_then(|span| span.raw.parse::<u32>().ok()))
        };
        let rows = span("number-matrix-rows-spanned")?;
        let columns = span("number-matrix-columns-spanned")?;
        let far = |from: u32, by: u32, max: u32| from.saturating_add(by.max(1) - 1).min(max - 1);
        let shows = Rect {
            rows: (place.0, far(place.0, rows.unwrap_or(1), ROWS_MAX)),
            columns: (place.1, far(place.1, columns.unwrap_or(count), COLUMNS_MAX)),
        };
        if self.wanted.is_some() && rows.is_some() {
            self.layout.filled.push(shows);
        }
        if self.stale.is_none() {
            self.layout.formulas.push(FormulaText {
                sheet: self.sheet,
                shows,
                text: crate::xml::unescaped(raw, tag.at.start)?.into_owned(),
            });
        }
        Ok(())
    }
}

/// What a cell holds or its formula shows.
fn value(tag: &Tag<'_>, lines: &[String]) -> Result<BookCell, XmlError> {
    let text = || (!lines.is_empty()).then(|| CellValue::Text(lines.join("\n")));
    let of = |name| tag.local_value(name);
    Ok(match value_type(tag)? {
        Some("error") => Some(CellValue::Error(lines.join("\n").trim().to_owned())),
        Some("float" | "percentage" | "currency") => of("value")?
            .and_then(|number| parsed(&number))
            .or_else(text),
        Some("boolean") => Some(CellValue::Bool(
            of("boolean-value")?.is_some_and(|it| it == "true"),
        )),
        Some("date") => of("date-value")?.map(|moment| date(&moment)).or_else(text),
        Some("time") => of("time-value")?.map(|time| match seconds(&time) {
            Some(seconds) => duration(seconds),
            None => CellValue::Date(time.into_owned()),
        }),
        Some("string") => match of("string-value")? {
            Some(value) => Some(CellValue::Text(value.into_owned())),
            None => text(),
        },
        _ => text(),
    })
}

/// The kind of a cell's value. LibreOffice tells of an error in a second attribute, beside a text.
fn value_type<'a>(tag: &Tag<'a>) -> Result<Option<&'a str>, XmlError> {
    let attributes = tag.attributes()?.into_iter();
    let kinds = attributes
        .filter(|one| local(one.name) == "value-type")
        .map(|one| one.raw);
    let kinds: Vec<&str> = kinds.collect();
    let error = kinds.iter().find(|kind| **kind == "error");
    Ok(error.or(kinds.first()).copied())
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

/// Whether the attribute stays when a cell gets another value.
pub(super) fn is_kept(name: &str) -> bool {
    let name = local(name);
    !matches!(name, "number-columns-repeated" | "formula") && !SHOWN.contains(&name)
}

/// The prefix of an element, with its colon.
pub(super) fn prefix_of<'a>(tag: &Tag<'a>) -> &'a str {
    prefix(tag.name)
}
