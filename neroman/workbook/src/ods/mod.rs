//! `.ods`: all sheets stand in one part, and equal cells and rows are written once with a number.

mod read;
mod scan;
mod text;
mod write;

use std::collections::BTreeMap;

use nero_table::book::BookCell;

use crate::dependents::{Cells, Formula, dependents};
use crate::error::WorkbookError;
use crate::formula::{NamedAreas, Reads, Sheets};
use crate::package::{Changed, Package};
use crate::xml::{Elements, XmlError, local, pieces, unescaped};
use crate::{CellObstacle, Edited, SheetFacts, TargetSheet, WantedCells, find_sheet};

pub(crate) use read::read;
use scan::{Layout, Shape};

const CONTENT: &str = "content.xml";
const KIND: &str = "application/vnd.oasis.opendocument.spreadsheet";

pub(crate) fn edit(bytes: &[u8], mut wanted: WantedCells<'_>) -> Result<Edited, WorkbookError> {
    let mut package = Package::open(bytes)?;
    check_kind(&mut package)?;
    let xml = package.text(CONTENT)?;
    let xml = xml.ok_or(WorkbookError::Missing {
        what: "content.xml",
    })?;
    let damaged = || WorkbookError::part(CONTENT);
    let names = scan::names(&xml).map_err(damaged())?;
    if names.is_empty() {
        return Err(WorkbookError::Missing { what: "sheet" });
    }
    let own = find_sheet(&names, wanted.sheet.name)?;
    let layout = Layout::scan(&xml, &wanted, own).map_err(damaged())?;
    let chosen = choose(&mut wanted, &layout);
    let outcomes = wanted.outcomes;
    if chosen.is_empty() {
        return Ok(Edited {
            bytes: None,
            outcomes,
        });
    }
    let mut changed_cells = Cells::default();
    for place in chosen.keys() {
        changed_cells.add(own, *place);
    }
    let areas = areas(&xml, &names).map_err(damaged())?;
    let stale = dependents(changed_cells, meanings(&layout, &names, &areas));
    let mut splices = write::splices(&layout, &chosen);
    let mut written = pieces(&xml, &mut splices).concat();
    if !stale.is_empty() {
        // Read anew: what is stale may stand in rows that were split just now.
        let mut splices = scan::without_values(&written, &stale).map_err(damaged())?;
        written = pieces(&written, &mut splices).concat();
    }
    let changed = Changed::from([(CONTENT.to_owned(), vec![written.as_str()])]);
    Ok(Edited {
        bytes: Some(package.with(&changed)?),
        outcomes,
    })
}

/// What readers of cells do not tell of a sheet.
pub(crate) fn facts(bytes: &[u8], sheet: Option<&str>) -> Result<SheetFacts, WorkbookError> {
    let mut package = Package::open(bytes)?;
    check_kind(&mut package)?;
    let xml = package.text(CONTENT)?.unwrap_or_default();
    let damaged = || WorkbookError::part(CONTENT);
    let names = scan::names(&xml).map_err(damaged())?;
    let own = find_sheet(&names, sheet)?;
    let target = TargetSheet {
        name: sheet,
        first_row: 0,
    };
    let none = WantedCells::new(target, &[])?;
    let layout = Layout::scan(&xml, &none, own).map_err(damaged())?;
    let areas = areas(&xml, &names).map_err(damaged())?;
    Ok(SheetFacts::new(
        own,
        &[],
        &meanings(&layout, &names, &areas),
    ))
}

/// What the formulas read.
fn meanings(layout: &Layout<'_>, names: &[String], areas: &NamedAreas) -> Vec<Formula> {
    let formulas = layout.formulas.iter().map(|one| Formula {
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
        let value = |name| -> Result<String, XmlError> {
            let value = tag.local_attribute(name)?;
            let value = value.map(|value| unescaped(value.raw, value.at.start));
            Ok(value.transpose()?.unwrap_or_default().into_owned())
        };
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
    check_kind(&mut package)?;
    let xml = package.text(CONTENT)?.unwrap_or_default();
    let damaged = || WorkbookError::part(CONTENT);
    let names = scan::names(&xml).map_err(damaged())?;
    let own = &names[find_sheet(&names, sheet)?];
    let mut elements = Elements::new(&xml);
    while let Some(tag) = elements.next_tag().map_err(damaged())? {
        if local(tag.name) != "database-range" {
            continue;
        }
        let mut attributes = tag.attributes().map_err(damaged())?.into_iter();
        let area = attributes.find(|one| local(one.name) == "target-range-address");
        let area = area.and_then(|area| tag.value(area.name).transpose());
        let area = area.transpose().map_err(damaged())?.unwrap_or_default();
        if area.replace("''", "'").contains(own.as_str()) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn check_kind(package: &mut Package<'_>) -> Result<(), WorkbookError> {
    const WANTED: &str = "a workbook of the format .ods";
    if package.has(|name| name == "encrypted-package") {
        return Err(WorkbookError::Encrypted);
    }
    if package.has(|name| name == "META-INF/documentsignatures.xml") {
        return Err(WorkbookError::Signed);
    }
    let manifest = package.text("META-INF/manifest.xml")?;
    if manifest.is_some_and(|manifest| manifest.contains("encryption-data")) {
        return Err(WorkbookError::Encrypted);
    }
    match package.text("mimetype")? {
        Some(kind) if kind.starts_with(KIND) => Ok(()),
        Some(_) => Err(WorkbookError::Other {
            found: "another OpenDocument file",
            wanted: WANTED,
        }),
        None => Err(WorkbookError::Other {
            found: "another package",
            wanted: WANTED,
        }),
    }
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
