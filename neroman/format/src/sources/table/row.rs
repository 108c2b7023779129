//! The cells of a row as the block that they are.

use std::collections::HashMap;
use std::rc::Rc;

use nero_model::safe::quoted;
use nero_table::{CellValue, SheetRow};
use nero_yaml::{Entry, Kind, Mark, Node};

use super::layout::Role;
use super::rows::Table;
use crate::read::parse;
use crate::read::reader::Reader;
use crate::read::scalar::typed;
use crate::read::text::cell_mark;

/// A cell that has no value: its column and place, what is wrong, and what to do.
pub(super) type BrokenCell = (u32, Mark, String, String);

/// Whether a number is a whole one of which a program saved the first digits alone, as they do
/// with seeds: `1.234567890123457e18`.
fn is_cut(text: &str) -> bool {
    const DIGITS_SAVED: usize = 15;
    let Some((mantissa, exponent)) = text.split_once(['e', 'E']) else {
        return false;
    };
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    let exponent = exponent.strip_prefix('+').unwrap_or(exponent);
    let places = exponent.parse::<usize>().unwrap_or(0);
    digits >= DIGITS_SAVED && places >= digits
}

/// What is wrong with a cell that has no value, and what to do.
fn mistake(cell: &CellValue) -> Option<(String, &'static str)> {
    match cell {
        CellValue::Error(error) => Some((
            format!("the cell holds the error {}", quoted(error)),
            "correct the formula; `#N/A` stands for a value that is missing",
        )),
        CellValue::Uncomputed => Some((
            "the formula has no value in the file".to_owned(),
            "open the file in a spreadsheet program, which computes it, and save it",
        )),
        CellValue::Number(text) if is_cut(text) => Some((
            format!("the file has only the first digits of the whole number {text}"),
            "keep such a number as text: begin the cell with an apostrophe",
        )),
        CellValue::Text(_) | CellValue::Number(_) | CellValue::Bool(_) | CellValue::Date(_) => None,
    }
}

/// The block of a row, and its cells without a value.
pub(super) fn entries(
    reader: &mut Reader<'_>,
    table: &Table<'_>,
    roles: &HashMap<u32, Role>,
    row: &SheetRow,
) -> (Vec<Entry>, Vec<BrokenCell>) {
    let mut entries: Vec<Entry> = Vec::new();
    let mut broken = Vec::new();
    let mut params = Vec::new();
    let mut parts: Vec<(String, Mark, Vec<Entry>)> = Vec::new();
    for (column, cell) in &row.cells {
        let mark = cell_mark(row.number, *column);
        let role = match roles.get(column) {
            None | Some(Role::Other | Role::Number | Role::Name) => continue,
            Some(role) => role,
        };
        if let Some((what, hint)) = mistake(cell) {
            broken.push((*column, mark, what, hint.to_owned()));
            continue;
        }
        match role {
            Role::Param(name) => params.push(Entry::made(name, mark, param(cell, mark))),
            Role::Field(word) => {
                let value = value(reader, word, cell.text(), mark);
                entries.push(Entry::made(word, mark, value));
            }
            Role::Part(word, key) => {
                let value = Entry::made(key, mark, value(reader, key, cell.text(), mark));
                match parts.iter_mut().find(|(one, ..)| one == word) {
                    Some((_, _, entries)) => entries.push(value),
                    None => parts.push((word.clone(), mark, vec![value])),
                }
            }
            Role::Other | Role::Number | Role::Name => {}
        }
    }
    for (word, mark, own) in parts {
        let merged = merged(table.entries, &word, own);
        let value = Node::made(Kind::Map(merged), mark);
        entries.push(Entry::made(&word, mark, value));
    }
    if let Some(first) = params.first() {
        let mark = first.key_mark;
        let value = Node::made(Kind::Map(params), mark);
        entries.push(Entry::made("parameters", mark, value));
    }
    (entries, broken)
}

/// A row's part of a map over the same map for all rows.
fn merged(outer: &[Entry], word: &str, own: Vec<Entry>) -> Vec<Entry> {
    let outer = outer.iter().find(|entry| entry.key == word);
    let mut all = match outer.map(|entry| &entry.value.kind) {
        Some(Kind::Map(entries)) => entries.clone(),
        Some(Kind::Scalar { .. } | Kind::List(_)) | None => Vec::new(),
    };
    all.retain(|entry| own.iter().all(|one| one.key != entry.key));
    all.extend(own);
    all
}

/// The value of a parameter. A text cell is a text, whatever it looks like; but no program has
/// cells for infinities and NaN, which stand there as text.
fn param(cell: &CellValue, mark: Mark) -> Rc<Node> {
    let is_number = match cell {
        CellValue::Number(_) | CellValue::Bool(_) => true,
        CellValue::Text(text) => {
            let number = typed(text, true).number();
            let has_digits = text.contains(|c: char| c.is_ascii_digit());
            number.is_some_and(|number| !number.is_finite()) && !has_digits
        }
        CellValue::Date(_) | CellValue::Error(_) | CellValue::Uncomputed => false,
    };
    let kind = Kind::Scalar {
        text: cell.text().to_owned(),
        plain: is_number,
    };
    Rc::new(Node::made(kind, mark))
}

fn scalar(text: &str, mark: Mark) -> Rc<Node> {
    let kind = Kind::Scalar {
        text: text.to_owned(),
        plain: true,
    };
    Rc::new(Node::made(kind, mark))
}

/// The value of a field: brackets and braces are YAML, except in texts.
fn value(reader: &mut Reader<'_>, word: &str, text: &str, mark: Mark) -> Rc<Node> {
    let is_text = matches!(
        word,
        "command" | "run_command_prefix" | "parameters_format" | "parameter_format" | "custom_msg"
    );
    if is_text || !text.starts_with(['[', '{']) {
        return scalar(text, mark);
    }
    match parse::cell(text) {
        Ok(Some(node)) => moved(&node, mark),
        Ok(None) => scalar(text, mark),
        Err((message, hint)) => {
            reader.wrong(mark, message, hint);
            scalar("", mark)
        }
    }
}

/// The same value, with the cell as the place of all that is in it.
fn moved(node: &Node, mark: Mark) -> Rc<Node> {
    let kind = match &node.kind {
        Kind::Scalar { text, plain } => Kind::Scalar {
            text: text.clone(),
            plain: *plain,
        },
        Kind::List(items) => Kind::List(items.iter().map(|item| moved(item, mark)).collect()),
        Kind::Map(entries) => Kind::Map(
            entries
                .iter()
                .map(|one| Entry::made(&one.key, mark, moved(&one.value, mark)))
                .collect(),
        ),
    };
    Rc::new(Node::made(kind, mark))
}
