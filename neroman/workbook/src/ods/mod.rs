//! `.ods`: all sheets stand in one part, and equal cells and rows are written once with a number.

mod scan;
mod text;
mod write;

use std::collections::BTreeMap;

use nero_table::Sheet;
use nero_table::book::BookCell;

use crate::builder::SheetBuilder;
use crate::dependents::{Cells, Formula, dependents};
use crate::error::WorkbookError;
use crate::formula::{NamedAreas, Reads, Sheets};
use crate::package::{ChangedParts, Package};
use crate::xml::{Elements, XmlError, local, pieces};
use crate::{CellObstacle, EditResult, WantedCells, find_sheet};

use scan::{FormulaText, Layout, Shape};
pub use text::paragraphs;

const CONTENT: &str = "content.xml";

pub(crate) fn edit(bytes: &[u8], mut wanted: WantedCells<'_>) -> Result<EditResult, WorkbookError> {
    let mut package = Package::open(bytes)?;
    if package.has(|name| name == "META-INF/documentsignatures.xml") {
        return Err(WorkbookError::Signed);
    }
    let (xml, names, own) = content(&mut package, wanted.sheet.name)?;
    let damaged = || WorkbookError::part(CONTENT);
    let layout = Layout::scan(&xml, &wanted, own).map_err(damaged())?;
    let chosen = choose(&mut wanted, &layout);
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
    let areas = areas(&xml, &names).map_err(damaged())?;
    let stale = dependents(changed_cells, meanings(&layout.formulas, &names, &areas));
    let mut splices = write::splices(&layout, &chosen);
    let mut written = pieces(&xml, &mut splices).concat();
    if !stale.is_empty() {
        // Read anew: what is stale may stand in rows that were split just now.
        let mut splices = scan::without_values(&written, &stale).map_err(damaged())?;
        written = pieces(&written, &mut splices).concat();
    }
    let changed = ChangedParts::from([(CONTENT.to_owned(), vec![written.as_str()])]);
    Ok(EditResult {
        bytes: Some(package.with(&changed)?),
        outcomes,
    })
}

/// Reads a sheet.
pub(crate) fn read(bytes: &[u8], sheet: Option<&str>) -> Result<Sheet, WorkbookError> {
    let mut package = Package::open(bytes)?;
    let (xml, names, own) = content(&mut package, sheet)?;
    let damaged = || WorkbookError::part(CONTENT);
    let builder = SheetBuilder::new(Some(names[own].clone()), names.clone());
    let (mut builder, formulas) = scan::cells(&xml, own, builder).map_err(damaged())?;
    let areas = areas(&xml, &names).map_err(damaged())?;
    builder.formulas(&meanings(&formulas, &names, &areas));
    Ok(builder.finish())
}

/// The part with the sheets, their names, and the index of the sheet of this name.
fn content(
    package: &mut Package<'_>,
    sheet: Option<&str>,
) -> Result<(String, Vec<String>, usize), WorkbookError> {
    let xml = package.text(CONTENT)?;
    let xml = xml.ok_or(WorkbookError::Missing {
        what: "content.xml",
    })?;
    let (names, first_seen) = scan::names(&xml).map_err(WorkbookError::part(CONTENT))?;
    let own = find_sheet(&names, first_seen, sheet)?;
    Ok((xml, names, own))
}

/// What the formulas read.
fn meanings(formulas: &[FormulaText], names: &[String], areas: &NamedAreas) -> Vec<Formula> {
    let formulas = formulas.iter().map(|one| Formula {
        sheet: one.sheet,
        shows: one.shows,
        reads: Reads::open_document(
            &one.text,
            &Sheets {
                names,
                own: Some(one.sheet),
                areas,
            },
        ),
    });
    formulas.collect()
}

/// What the names in formulas stand for.
fn areas(xml: &str, names: &[String]) -> Result<NamedAreas, XmlError> {
    let mut areas = NamedAreas::default();
    if !xml.contains("named-range") {
        return Ok(areas);
    }
    let mut elements = Elements::new(xml);
    while let Some(tag) = elements.next_tag()? {
        let is_range = match local(tag.name) {
            "named-range" => true,
            "named-expression" => false,
            _ => continue,
        };
        let value = |name| tag.local_value(name).map(Option::unwrap_or_default);
        let text = format!("of:=[{}]", value("cell-range-address")?);
        let outside = Sheets {
            names,
            own: None,
            areas: &NamedAreas::default(),
        };
        let reads = if is_range {
            Reads::open_document(&text, &outside)
        } else {
            Reads::Anything
        };
        areas.name(&value("name")?, reads);
    }
    Ok(areas)
}

/// Whether a database range, which is what a filter makes, lies on a sheet.
pub(crate) fn has_sorted_area(bytes: &[u8], sheet: Option<&str>) -> Result<bool, WorkbookError> {
    let mut package = Package::open(bytes)?;
    let (xml, names, own) = content(&mut package, sheet)?;
    let own = &names[own];
    let damaged = || WorkbookError::part(CONTENT);
    let mut elements = Elements::new(&xml);
    while let Some(tag) = elements.next_tag().map_err(damaged())? {
        if local(tag.name) != "database-range" {
            continue;
        }
        let area = tag.local_value("target-range-address");
        let area = area.map_err(damaged())?.unwrap_or_default();
        if area.replace("''", "'").contains(own.as_str()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Decides about every wanted cell; returns those that are written.
fn choose<'a>(
    wanted: &mut WantedCells<'a>,
    layout: &Layout<'_>,
) -> BTreeMap<crate::place::Spot, &'a BookCell> {
    let mut chosen = BTreeMap::new();
    for (place, slot) in &layout.slots {
        let cell = slot.cell.map(|cell| &layout.rows[slot.row].cells[cell]);
        let is_filled = || layout.filled.iter().any(|area| area.has(*place));
        let found = match cell.map(|cell| &cell.shape) {
            _ if is_filled() => Err(CellObstacle::Formula),
            None => Ok(&None),
            Some(Shape::Covered) => Err(CellObstacle::Merged),
            Some(Shape::Formula) => Err(CellObstacle::Formula),
            Some(Shape::Value(value)) => Ok(value),
        };
        if let Some(value) = wanted.decide(*place, found, text::alike, text::alike) {
            chosen.insert(*place, value);
        }
    }
    chosen
}
