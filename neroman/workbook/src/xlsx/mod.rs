//! `.xlsx` and `.xlsm`: which parts a workbook has, and which of them a change concerns.

mod book;
mod scan;
mod styles;
mod text;
mod write;

use std::collections::BTreeMap;

use nero_table::book::BookCell;
use nero_table::{CellValue, Sheet};

use crate::builder::SheetBuilder;
use crate::dependents::{Cells, dependents};
use crate::error::WorkbookError;
use crate::formula::Sheets;
use crate::package::{ChangedParts, Package};
use crate::place::{Rect, Spot};
use crate::xml::{Elements, local, pieces};
use crate::{CellObstacle, EditResult, WantedCells};

use book::Book;
use scan::{CellContent, CellSources, Layout};

pub(crate) fn edit(bytes: &[u8], mut wanted: WantedCells<'_>) -> Result<EditResult, WorkbookError> {
    let mut package = Package::open(bytes)?;
    let book = Book::read(&mut package)?;
    if book.is_signed {
        return Err(WorkbookError::Signed);
    }
    let own = book.sheet(wanted.sheet.name)?;
    let part = &book.sheets[own].part;
    let xml = package.text(part)?;
    let xml = xml.ok_or(WorkbookError::Missing { what: "such sheet" })?;
    let (names, areas) = (book.names(), book.areas(&mut package)?);
    let sheets = |own| Sheets {
        names: &names,
        own: Some(own),
        areas: &areas,
    };
    // What we wrote is a number, whatever its cell shows.
    let sources = CellSources {
        formats: Vec::new(),
        ..book.sources(&mut package)?
    };
    let layout = Layout::scan(&xml, &wanted, &sheets(own), sources);
    let layout = layout.map_err(WorkbookError::part(part))?;
    let headers = book.table_headers(&mut package, own)?;
    let chosen = choose(&mut wanted, &layout, &headers, book.has_chain);
    let outcomes = wanted.outcomes;
    if chosen.is_empty() {
        return Ok(EditResult {
            bytes: None,
            outcomes,
        });
    }
    let mut changed_cells = Cells::default();
    for place in chosen.keys() {
        changed_cells.add(own, *place);
    }
    let mut splices = write::splices(&layout, &chosen);
    let mut formulas = layout.formulas;
    let mut with_formulas = Vec::new();
    for (sheet, one) in book.sheets.iter().enumerate() {
        if sheet == own {
            continue;
        }
        let Some(text) = package.text(&one.part)? else {
            continue;
        };
        let found = scan::formulas(&text, &sheets(sheet));
        let found = found.map_err(WorkbookError::part(&one.part))?;
        if !found.is_empty() {
            with_formulas.push(sheet);
            formulas.extend(found);
        }
    }
    let stale = dependents(changed_cells, formulas);
    let mut texts = BTreeMap::from([(part.clone(), xml)]);
    let mut changes = BTreeMap::new();
    if stale.touches(own) {
        let more = scan::without_values(&texts[part], own, &stale);
        splices.extend(more.map_err(WorkbookError::part(part))?);
    }
    changes.insert(part.clone(), splices);
    for sheet in with_formulas
        .into_iter()
        .filter(|sheet| stale.touches(*sheet))
    {
        let part = &book.sheets[sheet].part;
        let Some(text) = package.text(part)? else {
            continue;
        };
        let splices = scan::without_values(&text, sheet, &stale);
        changes.insert(part.clone(), splices.map_err(WorkbookError::part(part))?);
        texts.insert(part.clone(), text);
    }
    if !stale.is_empty() {
        let splice = book::full_calculation(&book.xml);
        let splice = splice.map_err(WorkbookError::part(&book.part))?;
        changes.insert(book.part.clone(), vec![splice]);
        texts.insert(book.part.clone(), book.xml);
    }
    let written: ChangedParts<'_> = changes
        .iter_mut()
        .map(|(part, splices)| (part.clone(), pieces(&texts[part], splices)))
        .collect();
    Ok(EditResult {
        bytes: Some(package.with(&written)?),
        outcomes,
    })
}

/// Reads a sheet.
pub(crate) fn read(bytes: &[u8], sheet: Option<&str>) -> Result<Sheet, WorkbookError> {
    let mut package = Package::open(bytes)?;
    let book = Book::read(&mut package)?;
    let own = book.sheet(sheet)?;
    let part = &book.sheets[own].part;
    let xml = package.text(part)?;
    let xml = xml.ok_or(WorkbookError::Missing { what: "such sheet" })?;
    let (names, areas) = (book.names(), book.areas(&mut package)?);
    let sheets = Sheets {
        names: &names,
        own: Some(own),
        areas: &areas,
    };
    let sources = book.sources(&mut package)?;
    let builder = SheetBuilder::new(Some(names[own].clone()), names.clone());
    scan::cells(&xml, &sheets, sources, builder).map_err(WorkbookError::part(part))
}

/// Whether a sheet has a table or a filter.
pub(crate) fn has_sorted_area(bytes: &[u8], sheet: Option<&str>) -> Result<bool, WorkbookError> {
    let mut package = Package::open(bytes)?;
    let book = Book::read(&mut package)?;
    let own = book.sheet(sheet)?;
    if book.has_tables(&mut package, own)? {
        return Ok(true);
    }
    let part = &book.sheets[own].part;
    let xml = package.text(part)?.unwrap_or_default();
    let mut elements = Elements::new(&xml);
    while let Some(tag) = elements.next_tag().map_err(WorkbookError::part(part))? {
        if local(tag.name) == "autoFilter" {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Decides about every wanted cell; returns those that are written.
fn choose<'a>(
    wanted: &mut WantedCells<'a>,
    layout: &Layout<'_>,
    headers: &[Rect],
    has_chain: bool,
) -> BTreeMap<Spot, &'a BookCell> {
    let mut guarded = BTreeMap::new();
    let mut guard = |areas: &[Rect], is_covered: fn(&Rect, Spot) -> bool, left: &CellObstacle| {
        for area in areas {
            let rows = (area.rows.0, 0)..=(area.rows.1, u32::MAX);
            for (place, _) in wanted.at.range(rows) {
                if area.has(*place) && is_covered(area, *place) {
                    guarded.insert(*place, left.clone());
                }
            }
        }
    };
    let all = |_: &Rect, _: Spot| true;
    // The first cell of a merged area is the one that is seen.
    let but_first = |area: &Rect, place: Spot| place != (area.rows.0, area.columns.0);
    guard(&layout.merged, but_first, &CellObstacle::Merged);
    guard(headers, all, &CellObstacle::Header);
    guard(&layout.filled, all, &CellObstacle::Formula);
    let mut chosen = BTreeMap::new();
    for (place, slot) in &layout.slots {
        let found = match &slot.content {
            CellContent::Formula => Err(CellObstacle::Formula),
            // The list of formulas stays as it is, so what it lists must stay a formula.
            CellContent::Constant(_) if has_chain => Err(CellObstacle::Formula),
            CellContent::Constant(value) => Ok(Some(CellValue::Bool(*value))),
            CellContent::Value(value) => Ok(value.clone()),
        };
        let found = match guarded.remove(place) {
            Some(left) => Err(left),
            None => found,
        };
        if let Some(value) = wanted.decide(
            *place,
            found.as_ref().map_err(CellObstacle::clone),
            text::alike,
            text::alike,
        ) {
            chosen.insert(*place, value);
        }
    }
    chosen
}
