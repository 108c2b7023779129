//! What is changed in the content: cells and rows that stand for many are split.

use std::collections::BTreeMap;

use nero_table::CellValue;
use nero_table::book::BookCell;

use crate::place::Spot;
use crate::value;
use crate::xml::{Splice, Tag, pieces, quoted};

use super::scan::{CellElement, Layout, RowElement, is_kept, prefix_of};
use super::text::{plain, prefixed_paragraphs};

/// The changes that write these cells.
pub(super) fn splices(layout: &Layout<'_>, chosen: &BTreeMap<Spot, &BookCell>) -> Vec<Splice> {
    let mut splices = Vec::new();
    for row in &layout.rows {
        let last = row.first + row.count;
        let cells: Vec<(&Spot, &&BookCell)> = chosen.range((row.first, 0)..(last, 0)).collect();
        if cells.is_empty() {
            continue;
        }
        let mut text = String::new();
        let mut next = row.first;
        for cells in cells.chunk_by(|a, b| a.0.0 == b.0.0) {
            let number = cells[0].0.0;
            text.push_str(&copies(row, number - next, Vec::new()));
            text.push_str(&copies(row, 1, changed_cells(layout, row, cells)));
            next = number + 1;
        }
        text.push_str(&copies(row, last - next, Vec::new()));
        splices.push(Splice::new(row.at.clone(), text));
    }
    splices
}

/// The row for this many rows, with these changes.
fn copies(row: &RowElement<'_>, count: u32, mut splices: Vec<Splice>) -> String {
    if count == 0 {
        return String::new();
    }
    if count != row.count {
        splices.extend(repeated(&row.tag, "number-rows-repeated", count));
    }
    let start = row.at.start;
    for splice in &mut splices {
        splice.at = splice.at.start - start..splice.at.end - start;
    }
    pieces(row.tag.raw(row.at.clone()), &mut splices).concat()
}

/// Sets the number of rows or cells that an element stands for, where it has one.
fn repeated(tag: &Tag<'_>, name: &str, count: u32) -> Option<Splice> {
    let attribute = tag.local_attribute(name).ok().flatten()?;
    Some(match count {
        1 => Splice::new(attribute.at, ""),
        count => Splice::new(attribute.value_at, count.to_string()),
    })
}

fn changed_cells(
    layout: &Layout<'_>,
    row: &RowElement<'_>,
    cells: &[(&Spot, &&BookCell)],
) -> Vec<Splice> {
    let mut splices = Vec::new();
    for element in &row.cells {
        let columns = element.first..element.first + element.count;
        let inside = cells.iter().filter(|(place, _)| columns.contains(&place.1));
        let mut text = String::new();
        let mut next = element.first;
        for (place, value) in inside {
            text.push_str(&split(element, place.1 - next));
            text.push_str(&written(layout, row, Some(element), **place, value));
            next = place.1 + 1;
        }
        if next > element.first {
            text.push_str(&split(element, columns.end - next));
            splices.push(Splice::new(element.at.clone(), text));
        }
    }
    let mut next = row.width;
    let mut behind = String::new();
    for (place, value) in cells.iter().filter(|(place, _)| place.1 >= row.width) {
        behind.push_str(&filler(row, place.1 - next));
        behind.push_str(&written(layout, row, None, **place, value));
        next = place.1 + 1;
    }
    match (behind.is_empty(), row.tag.is_empty) {
        (true, _) => {}
        (false, false) => splices.push(Splice::new(row.end..row.end, behind)),
        (false, true) => {
            let at = row.at.end - "/>".len()..row.at.end;
            splices.push(Splice::new(at, format!(">{behind}</{}>", row.tag.name)));
        }
    }
    splices
}

/// This many of the cells that an element stands for.
fn split(cell: &CellElement<'_>, count: u32) -> String {
    if count == 0 {
        return String::new();
    }
    let mut splices: Vec<Splice> = repeated(&cell.tag, "number-columns-repeated", count)
        .into_iter()
        .collect();
    for splice in &mut splices {
        let start = cell.at.start;
        splice.at = splice.at.start - start..splice.at.end - start;
    }
    pieces(cell.tag.raw(cell.at.clone()), &mut splices).concat()
}

/// Empty cells before one that stands behind the end of its row.
fn filler(row: &RowElement<'_>, count: u32) -> String {
    let prefix = prefix_of(&row.tag);
    match count {
        0 => String::new(),
        count => {
            format!("<{prefix}table-cell {prefix}number-columns-repeated=\"{count}\"/>")
        }
    }
}

/// A cell's element with its new value.
fn written(
    layout: &Layout<'_>,
    row: &RowElement<'_>,
    cell: Option<&CellElement<'_>>,
    place: Spot,
    value: &BookCell,
) -> String {
    let prefix = prefix_of(&row.tag);
    let attributes = cell.and_then(|cell| cell.tag.attributes().ok());
    let attributes = attributes.unwrap_or_default();
    let kept = attributes.iter().filter(|one| is_kept(one.name));
    let mut kept: String = kept.map(|one| row.tag.raw(one.at.clone())).collect();
    let has_style = attributes
        .iter()
        .any(|one| one.name.ends_with(":style-name"));
    if let (Some(style), false) = (&layout.slots[&place].style, has_style) {
        kept.push_str(&format!(" {prefix}style-name=\"{style}\""));
    }
    let (shown, text) = attributes_and_text(layout, value);
    let children = cell.map(|cell| cell.kept.as_slice()).unwrap_or_default();
    let children: String = children.iter().map(|at| row.tag.raw(at.clone())).collect();
    format!("<{prefix}table-cell{kept}{shown}>{children}{text}</{prefix}table-cell>")
}

/// The attributes with a value, and its text.
fn attributes_and_text(layout: &Layout<'_>, value: &BookCell) -> (String, String) {
    let office = &layout.office;
    let typed = |kind: &str, value: String| {
        let again = layout.calcext.as_ref();
        let again = again.map(|calcext| format!(" {calcext}value-type=\"{kind}\""));
        let again = again.unwrap_or_default();
        format!(" {office}value-type=\"{kind}\"{value}{again}")
    };
    let of = |name: &str, value: &str| format!(" {office}{name}=\"{}\"", quoted(value));
    let value = value::plain(value.as_ref(), plain);
    let kind = match &value {
        None => return (String::new(), String::new()),
        Some(CellValue::Number(number)) => typed("float", of("value", number)),
        Some(CellValue::Bool(truth)) => typed("boolean", of("boolean-value", &truth.to_string())),
        Some(_) => typed("string", String::new()),
    };
    (
        kind,
        prefixed_paragraphs(value::display_text(&value), &layout.text),
    )
}
