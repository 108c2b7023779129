//! Makes a block of each row.

use std::collections::{HashMap, HashSet};

use nero_model::safe::quoted;
use nero_table::{CellValue, Column, Header, Sheet, SheetRow};
use nero_yaml::{Entry, Mark};

use super::layout::{Layout, Role};
use super::number::{self, NumberColumn};
use super::places::CommandPlaces;
use super::remarks;
use super::row::entries;
use crate::edit;
use crate::read::block::{self, Scope};
use crate::read::fields::Field;
use crate::read::reader::Reader;
use crate::read::text::cell_mark;
use crate::read::{define, expand};
use crate::sources::walk::runs_something;

/// The highest number of a row; numbers stay readable, and nothing is sized by them.
pub const NUMBER_MAX: u64 = 9_999_999;

/// A table with everything that its rows are read with.
pub(super) struct Table<'a> {
    pub(super) sheet: &'a Sheet,
    pub(super) header: &'a Header,
    pub(super) layout: &'a Layout,
    /// The fields that hold for all rows.
    pub(super) entries: &'a [Entry],
    /// The table's name without its ending.
    pub(super) stem: &'a str,
    /// The name of the YAML file beside it.
    pub(super) beside: &'a str,
    pub(super) offset: u64,
}

/// A row that is an experiment.
struct ExperimentRow<'a> {
    row: &'a SheetRow,
    number: Option<u64>,
    scope: Scope,
    name: Option<(String, Mark)>,
}

/// Rows that are none, by why.
#[derive(Default)]
pub(super) struct SkippedRows {
    pub(super) without_command: Vec<u32>,
    pub(super) without_number: Vec<u32>,
    /// Rows with a number alone, where the command has a place for a column.
    pub(super) without_values: Vec<u32>,
    /// Cells without a value in columns that nothing uses, and what is wrong with them.
    pub(super) broken: Vec<(u32, Mark, String)>,
    /// Mistakes in cells that the command uses.
    pub(super) mistakes: Vec<ColumnMistake>,
}

/// One mistake in the cells of a column.
pub(super) struct ColumnMistake {
    pub(super) column: u32,
    pub(super) message: String,
    pub(super) hint: String,
    /// The rows that have it.
    pub(super) rows: Vec<u32>,
}

impl SkippedRows {
    /// Adds a mistake, which is told once for its column.
    fn wrong(&mut self, row: u32, column: u32, message: String, hint: String) {
        let mut known = self.mistakes.iter_mut();
        match known.find(|one| one.column == column && one.message == message) {
            Some(known) => known.rows.push(row),
            None => self.mistakes.push(ColumnMistake {
                column,
                message,
                hint,
                rows: vec![row],
            }),
        }
    }
}

/// The columns with the numbers of rows.
#[derive(Default)]
pub(super) struct NumbersRead {
    /// The column that has them.
    pub(super) number: Option<u32>,
    /// The column for numbers of rows without one.
    pub(super) to_number: Option<NumberColumn>,
}

/// Reads all rows into definitions.
pub(super) fn read(reader: &mut Reader<'_>, table: &Table<'_>) -> NumbersRead {
    let mut roles = table.layout.roles(reader, table.header);
    let base = reader.base();
    let (outer, _) = block::enter(reader, &base, table.entries);
    remarks::on_table(reader, table);
    remarks::on_fields(reader, table, &roles);
    leave_out_following(reader, table, &mut roles);
    reader.grouped = grouped(table.header, &roles);
    let last = table.header.rows.last().copied().unwrap_or(0);
    let below = table.sheet.rows.iter().filter(|row| row.number > last);
    let rows: Vec<&SheetRow> = below.filter(|row| counts(row, &roles)).collect();
    let number = number_column(reader, table, &mut roles, &rows);
    let is_ours = number.is_some_and(|column| number::is_ours(table.header, column));
    let context = RowContext {
        table,
        roles: &roles,
        outer: &outer,
    };
    let mut left_out = SkippedRows::default();
    let mut filled = Vec::new();
    let mut numbers: HashMap<u64, Mark> = HashMap::new();
    for row in rows {
        if reader.full() {
            return NumbersRead::default();
        }
        if !runs_something(&outer) && !has_command(row, &roles) {
            left_out.without_command.push(row.number);
            continue;
        }
        let given = number.map(|column| (column, row.cell(column)));
        if matches!(given, Some((_, None))) && !is_ours {
            left_out.without_number.push(row.number);
            continue;
        }
        let scope = context.read(reader, row, &mut left_out);
        let number = match given {
            Some((column, Some(cell))) => {
                let mark = cell_mark(row.number, column);
                own_number(reader, &mut numbers, mark, cell, table.offset)
            }
            _ => None,
        };
        // What follows from a cell without a value is noise.
        if let Some(scope) = scope {
            let name = name(row, &roles);
            filled.push(ExperimentRow {
                row,
                number,
                scope,
                name,
            });
        }
    }
    remarks::on_cells(reader, &left_out.mistakes);
    let is_numbered = number.is_some() && !is_ours;
    define(reader, table, &roles, filled, is_numbered);
    remarks::on_mistakes(reader, table, &roles);
    remarks::on_rows(reader, table, &left_out);
    let to_number = if is_numbered {
        None
    } else {
        column_to_add(reader, table, number)
    };
    NumbersRead { number, to_number }
}

/// What each row is read with.
struct RowContext<'a> {
    table: &'a Table<'a>,
    roles: &'a HashMap<u32, Role>,
    /// The fields that hold for all rows.
    outer: &'a Scope,
}

impl RowContext<'_> {
    /// Reads a row below the fields that hold for all. `None`: a cell has no value that its command
    /// needs, or a mistake.
    fn read(
        &self,
        reader: &mut Reader<'_>,
        row: &SheetRow,
        left_out: &mut SkippedRows,
    ) -> Option<Scope> {
        let before = reader.count();
        let mut is_filled = true;
        let (entries, broken) = entries(reader, self.table, self.roles, row);
        let (scope, _) = block::enter(reader, self.outer, &entries);
        let places = CommandPlaces::of(&scope);
        for (column, mark, message, hint) in broken {
            let named = self
                .table
                .header
                .columns
                .iter()
                .find(|one| one.number == column);
            let is_used = match (named, self.roles.get(&column)) {
                (Some(named), Some(Role::Param(name))) => {
                    places.hands_over() || self.is_used(reader, named, name, &places)
                }
                _ => true,
            };
            if is_used {
                is_filled = false;
                left_out.wrong(row.number, column, message, hint);
            } else {
                left_out.broken.push((column, mark, message))
            }
        }
        let blanks = self.blanks(reader, row, &scope, &places);
        // People number rows before they fill them.
        is_filled &= blanks.is_empty();
        if blanks.is_empty() || holds_more(row, self.roles) {
            for (column, message, hint) in blanks {
                left_out.wrong(row.number, column, message, hint);
            }
        } else {
            left_out.without_values.push(row.number);
        }
        (is_filled && reader.count() == before).then_some(scope)
    }

    /// Cells without a value that the command of their row has a place for, as mistakes.
    fn blanks(
        &self,
        reader: &Reader<'_>,
        row: &SheetRow,
        scope: &Scope,
        places: &CommandPlaces,
    ) -> Vec<(u32, String, String)> {
        let mut blanks = Vec::new();
        for column in &self.table.header.columns {
            let Some(Role::Param(name)) = self.roles.get(&column.number) else {
                continue;
            };
            let is_given = |name: &str| scope.params.iter().any(|param| param.name == name);
            if row.cell(column.number).is_some() || !self.is_used(reader, column, name, places) {
                continue;
            }
            if is_given(name) || reader.grouped.contains(name) && is_given(&column.name) {
                continue;
            }
            blanks.push((
                column.number,
                format!(
                    "the command has a place for {}, and this cell is empty",
                    quoted(name)
                ),
                format!(
                    "fill it, or give a value for all such rows in {}: `parameters: {{{name}: …}}`",
                    self.table.beside
                ),
            ));
        }
        blanks
    }

    /// Whether the command of a row has a place for a column.
    fn is_used(
        &self,
        reader: &Reader<'_>,
        column: &Column,
        name: &str,
        places: &CommandPlaces,
    ) -> bool {
        let is_known = |written: &str| {
            let mut roles = self.roles.values();
            roles.any(|role| matches!(role, Role::Param(name) if name == written))
        };
        places.has(name, is_known)
            || reader.grouped.contains(name) && places.has(&column.name, is_known)
    }
}

/// The name that a row has in a cell.
fn name(row: &SheetRow, roles: &HashMap<u32, Role>) -> Option<(String, Mark)> {
    let (column, _) = roles.iter().find(|(_, role)| **role == Role::Name)?;
    let cell = row.cell(*column)?;
    Some((cell.text().to_owned(), cell_mark(row.number, *column)))
}

/// The column for numbers of rows that have none.
fn column_to_add(
    reader: &mut Reader<'_>,
    table: &Table<'_>,
    number: Option<u32>,
) -> Option<NumberColumn> {
    if reader.definitions.is_empty() {
        return None;
    }
    let column = number::column(table, number, &reader.definitions);
    column
        .map_err(|why| {
            reader.note(None, format!("the table has no column of numbers, and neronet adds none: {why}; until then a row is known again by its name, else by its parameters"));
        })
        .ok()
}

/// Whether a row is more than a spacer: it has a cell that neronet reads.
fn counts(row: &SheetRow, roles: &HashMap<u32, Role>) -> bool {
    let mut columns = row.cells.iter().filter_map(|(column, _)| roles.get(column));
    columns.any(|role| !matches!(role, Role::Other | Role::Name))
}

/// Whether a row has a cell besides its number.
fn holds_more(row: &SheetRow, roles: &HashMap<u32, Role>) -> bool {
    let mut columns = row.cells.iter().filter_map(|(column, _)| roles.get(column));
    columns.any(|role| !matches!(role, Role::Other | Role::Number))
}

/// The parameters with a group that no other parameter of the table shares its name with: a
/// command has a place for `Params/lr` in `{lr}`, too.
fn grouped(header: &Header, roles: &HashMap<u32, Role>) -> HashSet<String> {
    let params = header
        .columns
        .iter()
        .filter(|column| matches!(roles.get(&column.number), Some(Role::Param(_))));
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for column in params.clone() {
        *counts.entry(&column.name).or_default() += 1;
    }
    let own = params.filter(|column| column.group.is_some() && counts[&*column.name] == 1);
    own.map(Column::full).collect()
}

fn has_command(row: &SheetRow, roles: &HashMap<u32, Role>) -> bool {
    let mut columns = row.cells.iter().filter_map(|(column, _)| roles.get(column));
    columns.any(|role| match role {
        Role::Field(word) => {
            matches!(
                crate::read::fields::field(word),
                Some(Field::Command | Field::RunCommandPrefix | Field::MainCodeFile)
            )
        }
        _ => false,
    })
}

/// The column of the numbers. One that is only called like one, and holds no number at
/// all, is a parameter.
fn number_column(
    reader: &mut Reader<'_>,
    table: &Table<'_>,
    roles: &mut HashMap<u32, Role>,
    rows: &[&SheetRow],
) -> Option<u32> {
    let (&number, _) = roles.iter().find(|(_, role)| **role == Role::Number)?;
    let holds_one = rows.iter().any(|row| {
        row.cell(number).is_some_and(|cell| {
            cell.text().parse::<f64>().is_ok()
                || matches!(cell, CellValue::Error(_) | CellValue::Uncomputed)
        })
    });
    let is_blank = || rows.iter().all(|row| row.cell(number).is_none());
    if holds_one || number::is_ours(table.header, number) && is_blank() {
        return Some(number);
    }
    let mut column = table.header.columns.iter();
    let column = column.find(|column| column.number == number)?;
    let mark = cell_mark(column.row, column.number);
    reader.note(
        Some(mark),
        format!(
            "the column {} holds no number and is read as a parameter",
            quoted(&column.full())
        ),
    );
    roles.insert(number, Role::Param(column.full()));
    None
}

/// The number of a row, which no row before it has.
fn own_number(
    reader: &mut Reader<'_>,
    numbers: &mut HashMap<u64, Mark>,
    mark: Mark,
    cell: &CellValue,
    offset: u64,
) -> Option<u64> {
    let number = whole(reader, mark, cell, offset)?;
    let Some(first) = numbers.insert(number, mark) else {
        return Some(number);
    };
    let message = format!("the number {} comes twice", quoted(cell.text()));
    let hint = format!(
        "it stands in {} as well; each row has its own",
        reader.text.beside(first)
    );
    reader.wrong(mark, message, hint);
    None
}

/// The number of a row, offset included.
fn whole(reader: &mut Reader<'_>, mark: Mark, cell: &CellValue, offset: u64) -> Option<u64> {
    let text = cell.text();
    let Some(number) = cell.row_number() else {
        let message = match cell {
            CellValue::Uncomputed => "the formula has no value in the file".to_owned(),
            _ => format!("{} is no number of an experiment", quoted(text)),
        };
        reader.wrong(mark, message, "numbers are whole, from 1");
        return None;
    };
    let sum = number.checked_add(offset).filter(|sum| *sum <= NUMBER_MAX);
    if sum.is_none() {
        let message = match offset {
            0 => format!("the number {number} is larger than {NUMBER_MAX}"),
            _ => {
                format!("the number {number} with the offset {offset} is larger than {NUMBER_MAX}")
            }
        };
        reader.wrong(mark, message, "number the rows 1, 2, 3 …");
    }
    sum
}

/// A formula over results is no parameter: results change.
fn leave_out_following(reader: &mut Reader<'_>, table: &Table<'_>, roles: &mut HashMap<u32, Role>) {
    let written = table.layout.written(table.header);
    for number in table.sheet.following(written) {
        let mut columns = table.header.columns.iter();
        let column = columns.find(|column| column.number == number);
        if let (Some(column), Some(role @ Role::Param(_))) = (column, roles.get_mut(&number)) {
            *role = Role::Other;
            let name = quoted(&column.full());
            let note =
                format!("the column {name} follows from results by a formula and is no parameter");
            reader.note(Some(cell_mark(column.row, number)), note);
        }
    }
}

/// Makes the experiments of the rows.
fn define(
    reader: &mut Reader<'_>,
    table: &Table<'_>,
    roles: &HashMap<u32, Role>,
    filled: Vec<ExperimentRow<'_>>,
    is_numbered: bool,
) {
    let varied = varied(table, roles, &filled);
    for ExperimentRow {
        row,
        number,
        scope,
        name,
    } in filled
    {
        if reader.full() {
            return;
        }
        let at = Mark {
            column: row.cells.first().map_or(1, |(column, _)| *column),
            ..cell_mark(row.number, 1)
        };
        let mut has_name = true;
        let (name, mark) = match (name, number) {
            (Some((name, mark)), _) => (name, mark),
            (None, Some(number)) if is_numbered => (format!("{}_{number}", table.stem), at),
            // Its number is a mistake, its name shall be none.
            (None, None) if is_numbered => (format!("{}_row-{}", table.stem, row.number), at),
            (None, _) => {
                has_name = false;
                (format!("{}_row-{}", table.stem, row.number), at)
            }
        };
        let before = (reader.count(), reader.definitions.len());
        let draft = define::draft(reader, &scope, &name, mark);
        if reader.count() == before.0 {
            expand::expand(reader, &draft, &name, mark);
        }
        for definition in &mut reader.definitions[before.1..] {
            definition.number = number;
            // Its experiment is called after the number that it gets, once for all.
            if !has_name {
                definition.name.clear();
            }
            table.stem.clone_into(&mut definition.block);
            if !is_numbered {
                definition.varied = varied
                    .iter()
                    .filter_map(|column| match roles.get(column) {
                        Some(Role::Param(name)) => Some(name.clone()),
                        _ => None,
                    })
                    .collect();
            }
        }
        edit::apply(reader, &scope, &name, mark, before.1);
    }
}

/// The columns of parameters whose values differ, by their names.
fn varied(table: &Table<'_>, roles: &HashMap<u32, Role>, filled: &[ExperimentRow<'_>]) -> Vec<u32> {
    let mut columns: Vec<(&str, u32)> = Vec::new();
    for column in &table.header.columns {
        let Some(Role::Param(name)) = roles.get(&column.number) else {
            continue;
        };
        let mut values = filled
            .iter()
            .map(|one| one.row.cell(column.number).map(CellValue::text));
        let first = values.next();
        if values.any(|value| Some(value) != first) {
            columns.push((name, column.number));
        }
    }
    columns.sort_unstable();
    columns.into_iter().map(|(_, column)| column).collect()
}
