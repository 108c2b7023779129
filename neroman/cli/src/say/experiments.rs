//! Experiments for eyes: a table, what it warns of, and the counts.

use std::collections::HashMap;

use nero_model::safe::Safe;
use nero_views::columns::telling;
use nero_views::{Column, Value, text};
use nero_wire::v1::{BatchView, ExperimentView};

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
    for line in held(views) {
        text.push_str(&format!("{line}\n"));
    }
    let lines = [
        ("warning", warnings(views)),
        ("hint", hints(views)),
        ("run again", again(views)),
    ];
    for (word, told) in lines {
        for (ids, what) in told {
            let (ids, what) = (text::ids(&ids), Safe::line(&what));
            text.push_str(&format!("{word} {ids}: {what}\n"));
        }
    }
    text.push_str(&outlooks(batches));
    text.push_str(&format!("{}\n", counts(screen, views)));
    text
}

/// At most so many batches are shown, the newest.
const BATCHES_MAX: usize = 3;

/// How far batches have come, a line each.
pub fn outlooks(batches: &[BatchView]) -> String {
    let older = batches.len().saturating_sub(BATCHES_MAX);
    let lines = batches[older..].iter();
    let mut text: String = lines
        .map(|one| {
            format!(
                "batch {}: {}\n",
                Safe::line(&one.batch),
                Safe::line(&one.text)
            )
        })
        .collect();
    if older > 0 {
        let noun = if older == 1 { "batch" } else { "batches" };
        text.push_str(&format!("and {older} more {noun}\n"));
    }
    text
}

/// `3 running · 2 finished`.
pub fn counts(screen: &Screen, views: &[ExperimentView]) -> String {
    let counts = text::count(views.iter().map(|view| view.state.as_str()));
    let shown: Vec<String> = counts
        .iter()
        .map(|(count, word)| format!("{count} {}", table::painted(screen, word)))
        .collect();
    shown.join(" · ")
}

/// Why runs wait until a person acts, and what to type; a line for each reason.
pub fn held(views: &[ExperimentView]) -> Vec<String> {
    // What its node waits for is told as it is: `resume` changes nothing there.
    let kinds = [
        "resume {ids} goes on, start {ids} makes new runs, ",
        "start {ids} makes new runs, ",
        "resume {ids} goes on without, ",
    ];
    let kind = |view: &ExperimentView| match (view.held_by_need, view.waiting_for == view.held) {
        (true, _) => 2,
        (false, is_there) => usize::from(is_there),
    };
    let lines = kinds.iter().enumerate().flat_map(|(at, what)| {
        let of_kind = grouped(views, |view| {
            match view.held.is_empty() || kind(view) != at {
                true => Vec::new(),
                false if view.need_remedy.is_empty() => vec![view.held.clone()],
                false => vec![format!("{} · {}", view.held, view.need_remedy)],
            }
        });
        of_kind.into_iter().map(move |(ids, why)| {
            let (ids, why) = (text::ids(&ids), Safe::line(&why));
            let what = what.replace("{ids}", &ids);
            format!("held {ids}: {why} · neroman {what}abort {ids} takes them away")
        })
    });
    lines.collect()
}

/// Each warning once, with all experiments that have it.
pub fn warnings(views: &[ExperimentView]) -> Vec<(Vec<u64>, String)> {
    grouped(views, |view| view.warnings.clone())
}

/// The same for hints about reasons.
pub fn hints(views: &[ExperimentView]) -> Vec<(Vec<u64>, String)> {
    grouped(views, |view| view.hints.clone())
}

/// The same for runs that neroman made by itself and that have not finished.
fn again(views: &[ExperimentView]) -> Vec<(Vec<u64>, String)> {
    grouped(views, |view| {
        let follows = view.follows.iter();
        follows
            .filter(|_| view.state != "finished")
            .map(|one| one.text.clone())
            .collect()
    })
}

fn grouped(
    views: &[ExperimentView],
    lines: impl Fn(&ExperimentView) -> Vec<String>,
) -> Vec<(Vec<u64>, String)> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut grouped: Vec<(Vec<u64>, String)> = Vec::new();
    for view in views {
        for line in lines(view) {
            let place = *places.entry(line.clone()).or_insert(grouped.len());
            if place == grouped.len() {
                grouped.push((Vec::new(), line));
            }
            grouped[place].0.push(view.id);
        }
    }
    grouped
}

/// The experiments as a table, and below it the names of columns left out.
pub fn print(screen: &Screen, columns: &[Column], views: &[ExperimentView]) -> String {
    let header: Vec<String> = columns
        .iter()
        .map(|column| column.heading(columns))
        .collect();
    // Looking up a cell by name among thousands is slow: only what can be
    // shown.
    let shown = &columns[..columns.len().min(table::COLUMNS_MAX)];
    let rows: Vec<Vec<Cell>> = views
        .iter()
        .map(|view| shown.iter().map(|column| cell(column, view)).collect())
        .collect();
    let (text, left_out) = table::print(screen, &header, &rows);
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
