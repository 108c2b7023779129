//! Experiments for eyes: a table, what it warns of, and the counts.

use std::collections::HashMap;

use nero_model::safe::Safe;
use nero_views::columns::telling;
use nero_views::{Column, Value, text, totals};
use nero_wire::v1::{BatchView, ExperimentView, Totals};

use super::Screen;
use super::table::{self, Cell};

/// One row per experiment, the outlook of what was started, and the counts.
pub fn as_table(
    screen: &Screen,
    views: &[ExperimentView],
    batches: &[BatchView],
    chosen: Option<Vec<Column>>,
) -> String {
    let columns = chosen.unwrap_or_else(|| telling(views));
    let mut text = print(screen, &columns, views);
    let totals = totals::of(views);
    for line in &totals.held {
        text.push_str(&format!("{line}\n"));
    }
    for (word, told) in [("warning", &totals.warnings), ("hint", &totals.hints)] {
        for group in told {
            let what = Safe::line(&group.text);
            text.push_str(&format!("{word} {}: {what}\n", group.ids));
        }
    }
    for (ids, why) in again(views) {
        let (ids, why) = (text::ids(&ids), Safe::line(&why));
        text.push_str(&format!("run again {ids}: {why}\n"));
    }
    text.push_str(&outlooks(batches));
    text.push_str(&format!("{}\n", counts(screen, &totals)));
    text
}

/// At most so many batches are shown, the newest.
const BATCHES_MAX: usize = 3;

/// How far batches have come, a line each.
pub fn outlooks(batches: &[BatchView]) -> String {
    let older = batches.len().saturating_sub(BATCHES_MAX);
    let lines = batches[older..].iter();
    let line = |one: &BatchView| {
        let (batch, text) = (Safe::line(&one.batch), Safe::line(&one.text));
        format!("batch {batch}: {text}\n")
    };
    let mut text: String = lines.map(line).collect();
    if older > 0 {
        let noun = if older == 1 { "batch" } else { "batches" };
        text.push_str(&format!("and {older} more {noun}\n"));
    }
    text
}

/// `3 running · 2 finished`.
pub fn counts(screen: &Screen, totals: &Totals) -> String {
    let states = totals.states.iter();
    let counts = states.map(|one| format!("{} {}", one.count, table::painted(screen, &one.state)));
    text::join(counts, " · ")
}

/// Why neroman made runs by itself that have not finished, with the experiments.
fn again(views: &[ExperimentView]) -> Vec<(Vec<u64>, String)> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut grouped: Vec<(Vec<u64>, String)> = Vec::new();
    for view in views.iter().filter(|view| view.state != "finished") {
        let Some(follows) = &view.follows else {
            continue;
        };
        let place = *places.entry(&follows.text).or_insert(grouped.len());
        if place == grouped.len() {
            grouped.push((Vec::new(), follows.text.clone()));
        }
        grouped[place].0.push(view.id);
    }
    grouped
}

/// The experiments as a table, and below it the names of columns left out.
pub fn print(screen: &Screen, columns: &[Column], views: &[ExperimentView]) -> String {
    let header = columns.iter().map(|column| column.heading(columns));
    let header: Vec<String> = header.collect();
    // Looking up a cell by name among thousands is slow: only what can be
    // shown.
    let shown = &columns[..columns.len().min(table::COLUMNS_MAX)];
    let row = |view| -> Vec<Cell> { shown.iter().map(|column| cell(column, view)).collect() };
    let (text, left_out) = table::print_rows(screen, &header, views.iter().map(row));
    text + &table::no_room(&left_out)
}

/// What a column shows of an experiment.
pub fn cell(column: &Column, view: &ExperimentView) -> Cell {
    match column.value(view) {
        Value::State(view) => Cell::state(&view.state).with_text(&column.text(view)),
        value if value.is_number() => Cell::right(&column.text(view)),
        _ => Cell::text(&column.text(view)),
    }
}
