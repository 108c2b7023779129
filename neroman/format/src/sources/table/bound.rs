//! The columns into which neronet writes results and states.

use nero_expr::{ErrorKind, Expr, ExprError};
use nero_model::safe::quoted;
use nero_yaml::Entry;

use super::layout;
use super::number::NUMBERS_HEADER;
use super::rows::{NumbersRead, Table};
use crate::definition::{BoundColumn, BoundTable, ShownValue};
use crate::read::doubts::Params;
use crate::read::reader::Reader;

/// Reads the columns of `results` and `table.status`; a mistake in an expression is reported at
/// its place. A column that the table does not have is reported with the roles of all columns.
pub(super) fn read(
    reader: &mut Reader<'_>,
    table: &Table<'_>,
    numbers: &NumbersRead,
) -> Option<BoundTable> {
    let (layout, columns) = (table.layout, &table.header.columns);
    let mut bound: Vec<BoundColumn> = Vec::new();
    if let Some((name, _)) = &layout.status
        && let Ok(column) = layout::find(columns, name)
    {
        bound.push(BoundColumn {
            heading: column.full(),
            shows: ShownValue::State,
            over: layout.status_over.clone(),
        });
    }
    for entry in &layout.results {
        let shows = expression(reader, entry);
        if let Some(shows) = &shows {
            check_names(reader, entry, shows);
        }
        if let (Some(shows), Ok(column)) = (shows, layout::find(columns, &entry.key)) {
            let heading = column.full();
            if bound.iter().any(|one| one.heading == heading) {
                reader.wrong(
                    entry.key_mark,
                    format!("the column {} shows something already", quoted(&heading)),
                    "give each value a column of its own",
                );
                continue;
            }
            bound.push(BoundColumn {
                heading,
                shows,
                over: Vec::new(),
            });
        }
    }
    if bound.is_empty() {
        return None;
    }
    let there = numbers.number;
    let there = there.and_then(|number| columns.iter().find(|one| one.number == number));
    let number = match (there, &numbers.to_number) {
        (Some(number), _) => number.full(),
        // The column is added behind this reading, or its lack is told until it is there.
        (None, Some(_)) => NUMBERS_HEADER.to_owned(),
        (None, None) => {
            let note = "results and states are written into rows with numbers only";
            reader.note(None, note);
            return None;
        }
    };
    Some(BoundTable {
        sheet: table.sheet.name.clone(),
        header: layout.header,
        header_rows: u8::try_from(table.header.rows.len()).unwrap_or(1),
        number,
        columns: bound,
    })
}

/// Reports names that mean nothing and comparisons that hold for no row. What a job prints is
/// not known yet: any other name may be a metric.
fn check_names(reader: &mut Reader<'_>, entry: &Entry, shows: &ShownValue) {
    let ShownValue::Expression(_) = shows else {
        return;
    };
    let text = entry.value.scalar().unwrap_or_default();
    let context = reader.context.clone();
    let Ok(expr) = Expr::parse_value(text, &context) else {
        return;
    };
    let definitions = std::mem::take(&mut reader.definitions);
    let mut never: Vec<(ExprError, usize)> = Vec::new();
    let mut doubts: Vec<ExprError> = Vec::new();
    for definition in &definitions {
        let scope = Params(&definition.params);
        let Ok(bindings) = expr.bind(&scope) else {
            continue;
        };
        let mut errors = expr.incomparable(&bindings, &scope);
        errors.extend(expr.joined_names(&bindings, &scope));
        for error in errors {
            match never.iter_mut().find(|(known, _)| known.span == error.span) {
                Some((_, times)) => *times += 1,
                None => never.push((error, 1)),
            }
        }
        for error in expr.slips(&bindings) {
            if doubts.iter().all(|known| known.span != error.span) {
                doubts.push(error);
            }
        }
    }
    for (error, times) in never {
        let mark = reader.text.mark_inside(&entry.value, error.span.start);
        if times == definitions.len() {
            reader.wrong(mark, error.message, error.hint.unwrap_or_default())
        } else {
            reader.note(
                Some(mark),
                format!("{} in {times} of {} rows", error.message, definitions.len()),
            )
        }
    }
    for error in doubts {
        let mark = reader.text.mark_inside(&entry.value, error.span.start);
        let hint = error
            .hint
            .map_or_else(String::new, |hint| format!(" ({hint})"));
        reader.note(Some(mark), format!("{}{hint}", error.message));
    }
    reader.definitions = definitions;
}

/// The expression of a column. The daemon evaluates it over everything that selectors know.
fn expression(reader: &mut Reader<'_>, entry: &Entry) -> Option<ShownValue> {
    let text = entry.value.scalar()?;
    let mut context = reader.context.clone();
    context.standing = false;
    match Expr::parse_value(text, &context) {
        Ok(expr) => Some(ShownValue::Expression(expr.canonical())),
        Err(error) => {
            let mark = reader.text.mark_inside(&entry.value, error.span.start);
            if error.kind == ErrorKind::NotBuilt {
                let note = format!("{}: the column stays as it is", error.message);
                reader.note(Some(mark), note);
            } else {
                reader.wrong(mark, error.message, error.hint.unwrap_or_default());
            }
            None
        }
    }
}
