//! What is changed in the text of a sheet.

use std::collections::BTreeMap;

use nero_table::CellValue;
use nero_table::book::BookCell;

use crate::place::{Rect, Spot, name};
use crate::value::plain;
use crate::xml::{Splice, Tag, escaped};

use super::scan::{CellSlot, Layout, RowPlace};
use super::text::{cut, encoded};

/// The changes that write these cells.
pub(super) fn splices(layout: &Layout<'_>, chosen: &BTreeMap<Spot, &BookCell>) -> Vec<Splice> {
    let mut splices = Vec::with_capacity(chosen.len() + 8);
    let mut new_rows = String::new();
    for (row, place) in &layout.rows {
        let cells = chosen.range((*row, 0)..=(*row, u32::MAX));
        let cells: Vec<(Spot, String)> = cells
            .map(|(place, value)| (*place, cell(layout, *place, value)))
            .collect();
        if cells.is_empty() {
            continue;
        }
        match place {
            RowPlace::Missing(at) => {
                let prefix = layout.prefix;
                let content = joined(&cells);
                let text = format!("<{prefix}row r=\"{}\">{content}</{prefix}row>", row + 1);
                match layout.empty_list {
                    Some(_) => new_rows.push_str(&text),
                    None => splices.push(Splice::new(*at..*at, text)),
                }
            }
            RowPlace::Empty(tag) => {
                let text = joined(&cells);
                splices.push(opened(tag, &text));
                splices.extend(spans(tag, &cells));
            }
            RowPlace::Full(tag) => {
                splices.extend(spans(tag, &cells));
                for (place, text) in cells {
                    let at = layout.slots[&place].at.clone();
                    splices.push(Splice::new(at, text));
                }
            }
        }
    }
    if let (Some(tag), false) = (&layout.empty_list, new_rows.is_empty()) {
        splices.push(opened(tag, &new_rows));
    }
    splices.extend(dimension(layout, chosen));
    splices
}

fn joined(cells: &[(Spot, String)]) -> String {
    cells.iter().map(|(_, text)| text.as_str()).collect()
}

/// The element without content gets one: its `/>` becomes the rest.
fn opened(tag: &Tag<'_>, content: &str) -> Splice {
    let at = tag.at.end - "/>".len()..tag.at.end;
    Splice::new(at, format!(">{content}</{}>", tag.name))
}

/// A cell's element with its new value.
fn cell(layout: &Layout<'_>, place: Spot, value: &BookCell) -> String {
    let prefix = layout.prefix;
    let slot = &layout.slots[&place];
    let kept = attributes(place, slot);
    let open = format!("<{prefix}c{kept}");
    let close = format!("</{prefix}c>");
    match plain(value.as_ref(), cut) {
        None => format!("{open}/>"),
        Some(CellValue::Number(value)) => format!("{open}><{prefix}v>{value}</{prefix}v>{close}"),
        Some(CellValue::Bool(value)) => {
            let value = u8::from(value);
            format!("{open} t=\"b\"><{prefix}v>{value}</{prefix}v>{close}")
        }
        Some(text) => {
            let text = encoded(text.text());
            let text = escaped(&text);
            format!(
                "{open} t=\"inlineStr\"><{prefix}is><{prefix}t xml:space=\"preserve\">{text}</{prefix}t></{prefix}is>{close}"
            )
        }
    }
}

fn attributes(place: Spot, slot: &CellSlot<'_>) -> String {
    if !slot.at.is_empty() {
        return slot.kept.clone();
    }
    let style = slot.style.map(|style| format!(" s=\"{style}\""));
    format!(" r=\"{}\"{}", name(place), style.unwrap_or_default())
}

/// The columns that a row says it uses, when they grow.
fn spans(tag: &Tag<'_>, cells: &[(Spot, String)]) -> Option<Splice> {
    let attribute = tag.attribute("spans").ok().flatten()?;
    let (from, to) = attribute.raw.split_once(':')?;
    let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
    let columns = || cells.iter().map(|((_, column), _)| column + 1);
    let grown = (columns().fold(from, u32::min), columns().fold(to, u32::max));
    let text = format!("{}:{}", grown.0, grown.1);
    (grown != (from, to)).then(|| Splice::new(attribute.value_at, text))
}

/// The area that the sheet says it uses, when it grows.
fn dimension(layout: &Layout<'_>, chosen: &BTreeMap<Spot, &BookCell>) -> Option<Splice> {
    let (at, area) = layout.dimension.clone()?;
    let grown = chosen
        .keys()
        .fold(area, |area: Rect, place| area.with(*place));
    (grown != area).then(|| Splice::new(at, grown.text()))
}
