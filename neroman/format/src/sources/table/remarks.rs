//! What is remarked on a table and on its rows as a whole.

use std::collections::{HashMap, HashSet};

use nero_model::safe::quoted;
use nero_table::column_name;
use nero_yaml::Mark;

use super::layout::Role;
use super::rows::{ColumnMistake, SkippedRows, Table};
use crate::read::reader::Reader;
use crate::read::text::cell_mark;

/// Most columns that one remark names.
const NAMED_MAX: usize = 8;

/// A remark where a workbook has several sheets, and none was chosen.
fn on_other_sheets(reader: &mut Reader<'_>, table: &Table<'_>) {
    let sheet = table.sheet;
    if let (Some(name), None, true) = (&sheet.name, &table.layout.sheet, sheet.sheets.len() > 1) {
        let others = sheet.sheets.iter().filter(|one| *one != name);
        let others: Vec<String> = others.take(NAMED_MAX).map(|one| quoted(one)).collect();
        reader.note(
            None,
            format!(
                "the sheet {} is read, not {}; `table: {{sheet: …}}` in {} chooses another",
                quoted(name),
                others.join(", "),
                table.beside
            ),
        );
    }
}

/// Remarks on the table as a whole.
pub(super) fn on_table(reader: &mut Reader<'_>, table: &Table<'_>) {
    let sheet = table.sheet;
    on_other_sheets(reader, table);
    let first = table.header.rows.first().copied().unwrap_or(1);
    let above = sheet.rows.iter().map(|row| row.number);
    let above: Vec<u32> = above.filter(|row| *row < first).collect();
    if table.layout.header.is_none() && !above.is_empty() {
        reader.note(
            None,
            format!(
                "{} above the header in row {first} {} left out; `table: {{header: {}}}` in {} reads the header there",
                rows(&above),
                if above.len() == 1 { "is" } else { "are" },
                above[0],
                table.beside
            ),
        );
    }
    if let (None, [first, second]) = (table.layout.header_rows, table.header.rows.as_slice()) {
        reader.note(None, format!("rows {first} and {second} are the header; `table: {{header_rows: 1}}` in {} makes it one row", table.beside));
    }
    if let Some((written, read)) = &sheet.decimal_comma {
        reader.note(
            None,
            format!(
                "{} is read as {read}: the table has decimal commas",
                quoted(written)
            ),
        );
    }
    on_nameless(reader, table);
}

/// A remark on columns that have cells and no name.
fn on_nameless(reader: &mut Reader<'_>, table: &Table<'_>) {
    let named = table.header.columns.iter().map(|column| column.number);
    let mut known: HashSet<u32> = named.collect();
    let last = table.header.rows.last().copied().unwrap_or(0);
    let below = table.sheet.rows.iter().filter(|row| row.number > last);
    let cells = below.flat_map(|row| row.cells.iter().map(|(column, _)| (row.number, *column)));
    let nameless = cells.filter(|(_, column)| known.insert(*column));
    for (row, column) in nameless.take(NAMED_MAX) {
        let name = column_name(column);
        let note = format!("the column {name} has no name and is not read");
        reader.note(Some(cell_mark(row, column)), note);
    }
}

/// Tells of columns that are fields because of their names alone.
pub(super) fn on_fields(reader: &mut Reader<'_>, table: &Table<'_>, roles: &HashMap<u32, Role>) {
    let taken = table.layout.taken(table.header, roles);
    if taken.is_empty() {
        return;
    }
    let names: Vec<String> = taken.iter().map(|column| column.full()).collect();
    let shown: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    let (columns, are) = match names.len() {
        1 => ("column", "is a field of the format and no parameter"),
        _ => ("columns", "are fields of the format and no parameters"),
    };
    let note = format!(
        "the {columns} {} {are}; `table: {{parameters: [{}]}}` in {} makes parameters of them",
        shown.join(", "),
        crate::definition::problem::printable(&names.join(", ")),
        table.beside
    );
    reader.note(None, note);
}

/// Adds to each mistake in such a column that it may be meant as a parameter.
pub(super) fn on_mistakes(reader: &mut Reader<'_>, table: &Table<'_>, roles: &HashMap<u32, Role>) {
    let taken = table.layout.taken(table.header, roles);
    for mistake in reader.fields.mistakes_mut() {
        let is_in = |column: &&&nero_table::Column| {
            let place = cell_mark(mistake.place.line, column.number);
            place == mistake.place
        };
        let Some(column) = taken.iter().find(is_in) else {
            continue;
        };
        let name = crate::definition::problem::printable(&column.full());
        let hint = format!(
            "if it is a parameter: `table: {{parameters: [{name}]}}` in {}",
            table.beside
        );
        mistake.hint = match mistake.hint.as_str() {
            "" => hint,
            own => format!("{own}; {hint}"),
        };
    }
}

/// Tells of cells without a value in columns that nothing uses, one note for each column.
fn on_broken(reader: &mut Reader<'_>, table: &Table<'_>, broken: &[(u32, Mark, String)]) {
    let mut told: HashSet<u32> = HashSet::new();
    for (column, mark, what) in broken {
        if !told.insert(*column) {
            continue;
        }
        let count = broken.iter().filter(|(one, ..)| one == column).count();
        let more = match count {
            1 => String::new(),
            _ => format!(", and so in {} more", count - 1),
        };
        let mut columns = table.header.columns.iter();
        let name = columns.find(|one| one.number == *column);
        let name = name.map_or_else(String::new, |one| quoted(&one.full()));
        let note = format!(
            "{what}{more}: the row has no parameter {name}, which its command does not use"
        );
        reader.note(Some(*mark), note);
    }
}

/// Reports each mistake in the cells of a column once, at the first of them.
pub(super) fn on_cells(reader: &mut Reader<'_>, mistakes: &[ColumnMistake]) {
    for mistake in mistakes {
        let [first, more @ ..] = mistake.rows.as_slice() else {
            continue;
        };
        let message = match more {
            [] => mistake.message.clone(),
            more => format!("{}; the same in {}", mistake.message, rows(more)),
        };
        reader.wrong(
            cell_mark(*first, mistake.column),
            message,
            mistake.hint.clone(),
        );
    }
}

/// Reports the rows that are no experiments, and columns that the command leaves alone.
pub(super) fn on_rows(reader: &mut Reader<'_>, table: &Table<'_>, left_out: &SkippedRows) {
    let SkippedRows {
        without_command,
        without_number,
        without_values,
        broken,
        // Told by `on_cells` before the rows are defined.
        mistakes: _,
    } = left_out;
    on_broken(reader, table, broken);
    if reader.definitions.is_empty() && reader.count() == 0 {
        on_no_rows(reader, table, left_out);
        return;
    }
    if !without_command.is_empty() {
        reader.note(
            None,
            format!("left out, without a command: {}", rows(without_command)),
        );
    }
    if !without_number.is_empty() {
        reader.note(
            None,
            format!("left out, without a number: {}", rows(without_number)),
        );
    }
    if !without_values.is_empty() {
        let rows = rows(without_values);
        reader.note(None, format!("left out, with a number alone: {rows}"));
    }
    on_unused(reader);
}

/// Reports why no row is an experiment.
fn on_no_rows(reader: &mut Reader<'_>, table: &Table<'_>, left_out: &SkippedRows) {
    let first = table.header.columns.first();
    let mark = first.map_or(cell_mark(1, 1), |column| {
        cell_mark(column.row, column.number)
    });
    if let Some(first) = left_out.without_values.first() {
        let why = "no row has a value for the command";
        let hint = format!("fill the columns beside the numbers, from row {first} on");
        reader.wrong(mark, why, hint);
        return;
    }
    match (left_out.without_command.is_empty(), left_out.without_number.is_empty()) {
        (false, _) => reader.wrong(
            mark,
            "no row has a command",
            format!(
                "name a column `command`, or write `command: python3 main.py {{lr}}` into {}, or there \
                 which column has it: `table: {{command: COLUMN}}`",
                table.beside
            ),
        ),
        (true, false) => reader.wrong(
            mark,
            "no row with a command has a number",
            "number the rows 1, 2, 3 …",
        ),
        (true, true) => reader.wrong(
            mark,
            "the table has no rows below its header",
            "each row is an experiment",
        ),
    }
}

/// A remark on parameters that the command has no place for.
fn on_unused(reader: &mut Reader<'_>) {
    let unused = std::mem::take(&mut reader.unused);
    if unused.is_empty() {
        return;
    }
    let names = unused.iter().take(NAMED_MAX).map(|name| quoted(name));
    let mut names: Vec<String> = names.collect();
    if unused.len() > NAMED_MAX {
        names.push(format!("{} more", unused.len() - NAMED_MAX));
    }
    reader.note(
        None,
        format!(
            "the command does not use {}; the job sees them in its environment only",
            names.join(", ")
        ),
    );
}

/// `rows 16-17, 19`.
fn rows(numbers: &[u32]) -> String {
    let mut text = String::from(if numbers.len() == 1 { "row " } else { "rows " });
    let mut rest = numbers;
    while let Some(&first) = rest.first() {
        let run = rest
            .iter()
            .zip(first..)
            .take_while(|(number, wanted)| **number == *wanted)
            .count();
        if rest.len() < numbers.len() {
            text.push_str(", ");
        }
        text.push_str(&first.to_string());
        if run > 1 {
            text.push_str(&format!("-{}", rest[run - 1]));
        }
        rest = &rest[run..];
    }
    text
}
