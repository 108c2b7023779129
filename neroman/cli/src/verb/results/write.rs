//! `results` as a table, CSV, JSON and Markdown.

use nero_model::safe::Safe;
use nero_views::columns::{sheet, telling};
use nero_views::{Column, Fact, Value as Known, csv, json, text};
use serde_json::{Map, Value, json};

use super::rows::{Best, Found, Group, Groups, Runs, Stats};
use crate::say::Screen;
use crate::say::experiments::cell;
use crate::say::table::{self, Cell};

/// For eyes: columns only where values differ.
pub fn text(screen: &Screen, found: &Found) -> String {
    let (header, rows) = shown(found);
    let (mut text, left_out) = table::print(screen, &header, &rows);
    text.push_str(&table::no_room(&left_out));
    text.push_str(&format!("{}\n", count(found)));
    text
}

/// A Markdown table.
pub fn md(found: &Found) -> String {
    let (header, rows) = shown(found);
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(header.iter().map(|name| for_md(name)).collect());
    let right = |at: usize| {
        rows.iter()
            .any(|row| row.get(at).is_some_and(Cell::is_right))
    };
    let rule = (0..header.len()).map(|at| if right(at) { "---:" } else { "---" }.to_owned());
    text.push_str(&line(rule.collect()));
    for row in &rows {
        text.push_str(&line(
            row.iter().map(|cell| for_md(cell.as_text())).collect(),
        ));
    }
    text
}

/// All columns, one header.
pub fn csv(found: &Found) -> Vec<u8> {
    match found {
        Found::Runs(runs) => {
            let (mut header, mut rows) = sheet(&all_columns(runs), &runs.views);
            if let Some(best) = &runs.best {
                header.push(best_name(best));
                for (row, view) in rows.iter_mut().zip(&runs.views) {
                    row.push(number(best.of(view)));
                }
            }
            csv::print(&header, &rows)
        }
        Found::Groups(groups) => {
            let mut header = groups.by.clone();
            header.extend(["n".to_owned(), "finished".to_owned()]);
            for name in &groups.metrics {
                let name = stat_name(name, groups.best.as_ref());
                header.extend([format!("{name} mean"), format!("{name} deviation")]);
            }
            let rows: Vec<Vec<csv::Cell>> = groups.rows.iter().map(csv_group).collect();
            csv::print(&header, &rows)
        }
    }
}

/// One document.
pub fn json(found: &Found) -> String {
    let document = match found {
        Found::Runs(runs) => {
            let rows: Vec<Value> = runs
                .views
                .iter()
                .map(|view| {
                    let mut row = json::experiment(view);
                    row["best"] = runs
                        .best
                        .as_ref()
                        .and_then(|best| best.of(view))
                        .map_or(Value::Null, json::number);
                    row
                })
                .collect();
            json::document(json!({"best": best_json(runs.best.as_ref()), "runs": rows}))
        }
        Found::Groups(groups) => {
            let rows: Vec<Value> = groups
                .rows
                .iter()
                .map(|group| json_group(groups, group))
                .collect();
            json::document(json!({
                "best": best_json(groups.best.as_ref()),
                "by": groups.by,
                "groups": rows,
            }))
        }
    };
    format!("{}\n", json::print(&document))
}

fn shown(found: &Found) -> (Vec<String>, Vec<Vec<Cell>>) {
    match found {
        Found::Runs(runs) => shown_runs(runs),
        Found::Groups(groups) => shown_groups(groups),
    }
}

fn shown_runs(runs: &Runs) -> (Vec<String>, Vec<Vec<Cell>>) {
    let mut columns = telling(&runs.views);
    // A row is a run; an experiment may have several.
    if !columns.contains(&Column::Fact(Fact::Run)) {
        columns.insert(1, Column::Fact(Fact::Run));
    }
    let mut header: Vec<String> = columns
        .iter()
        .map(|column| column.title(&columns))
        .collect();
    // The best stands beside the name, where no narrow terminal cuts it off.
    let at = 3.min(header.len());
    if let Some(best) = &runs.best {
        header.insert(at, best_name(best));
    }
    let rows = runs.views.iter().map(|view| {
        let mut row: Vec<Cell> = columns.iter().map(|column| cell(column, view)).collect();
        if let Some(best) = &runs.best {
            let value = best.of(view).map(text::number).unwrap_or_default();
            row.insert(at, Cell::right(&value));
        }
        row
    });
    (header, rows.collect())
}

fn shown_groups(groups: &Groups) -> (Vec<String>, Vec<Vec<Cell>>) {
    let mut header = groups.by.clone();
    header.push("n".into());
    header.extend(
        groups
            .metrics
            .iter()
            .map(|name| stat_name(name, groups.best.as_ref())),
    );
    let all_finished = groups.rows.iter().all(|row| row.finished == row.ids.len());
    if !all_finished {
        header.push("finished".into());
    }
    let rows = groups.rows.iter().map(|group| {
        let mut row: Vec<Cell> = group
            .params
            .iter()
            .map(|param| Cell::text(param.as_ref().map_or("", |param| &param.text)))
            .collect();
        row.push(Cell::right(&group.ids.len().to_string()));
        row.extend(group.stats.iter().map(|stats| Cell::right(&spread(stats))));
        if !all_finished {
            row.push(Cell::right(&group.finished.to_string()));
        }
        row
    });
    (header, rows.collect())
}

/// `0.31 ± 0.02`.
fn spread(stats: &Stats) -> String {
    match (stats.mean, stats.deviation) {
        (None, _) => String::new(),
        (Some(mean), None) => text::number(mean),
        (Some(mean), Some(deviation)) => {
            format!("{} ± {}", text::number(mean), text::number(deviation))
        }
    }
}

fn count(found: &Found) -> String {
    match found {
        Found::Runs(runs) => {
            let counts = text::count(runs.views.iter().map(|view| view.state.as_str()));
            let words: Vec<String> = counts
                .iter()
                .map(|(count, word)| format!("{count} {}", Safe::line(word)))
                .collect();
            format!(
                "{}: {}",
                text::plural(runs.views.len(), "run"),
                words.join(" · ")
            )
        }
        Found::Groups(groups) => {
            let runs: usize = groups.rows.iter().map(|row| row.ids.len()).sum();
            format!(
                "{} in {}",
                text::plural(runs, "run"),
                text::plural(groups.rows.len(), "group")
            )
        }
    }
}

fn all_columns(runs: &Runs) -> Vec<Column> {
    let facts = [
        Fact::Id,
        Fact::Name,
        Fact::Collection,
        Fact::Run,
        Fact::State,
        Fact::Reason,
        Fact::Node,
        Fact::Runtime,
        Fact::Started,
        Fact::Ended,
    ];
    facts
        .into_iter()
        .map(Column::Fact)
        .chain(runs.params.iter().cloned().map(Column::Param))
        .chain(runs.metrics.iter().cloned().map(Column::Metric))
        .collect()
}

fn csv_group(group: &Group) -> Vec<csv::Cell> {
    let mut row: Vec<csv::Cell> = group
        .params
        .iter()
        .map(|param| {
            param
                .as_ref()
                .map_or(csv::Cell::Empty, |param| Known::Param(param).csv())
        })
        .collect();
    row.push(csv::Cell::whole(group.ids.len()));
    row.push(csv::Cell::whole(group.finished));
    for stats in &group.stats {
        row.push(number(stats.mean));
        row.push(number(stats.deviation));
    }
    row
}

fn json_group(groups: &Groups, group: &Group) -> Value {
    let params = groups.by.iter().zip(&group.params).map(|(name, param)| {
        let value = param.as_ref().map_or(Value::Null, json::parameter);
        (name.clone(), value)
    });
    let metrics = groups
        .metrics
        .iter()
        .zip(&group.stats)
        .map(|(name, stats)| {
            let value = json!({
                "n": stats.count,
                "mean": stats.mean.map(json::number),
                "deviation": stats.deviation.map(json::number),
            });
            (name.clone(), value)
        });
    json!({
        "parameters": Value::Object(params.collect::<Map<_, _>>()),
        "n": group.ids.len(),
        "finished": group.finished,
        "ids": group.ids,
        "metrics": Value::Object(metrics.collect::<Map<_, _>>()),
    })
}

fn number(value: Option<f64>) -> csv::Cell {
    value.map_or(csv::Cell::Empty, csv::Cell::number)
}

fn best_name(best: &Best) -> String {
    format!("{}({})", best.word(), best.name)
}

fn best_json(best: Option<&Best>) -> Value {
    best.map_or(
        Value::Null,
        |best| json!({"metric": best.name, "is": best.word()}),
    )
}

/// A metric's name in a table of means.
fn stat_name(name: &str, best: Option<&Best>) -> String {
    match best {
        Some(best) if best.name == name => best_name(best),
        _ => name.to_owned(),
    }
}

/// Text that neither ends a cell nor starts markup.
fn for_md(text: &str) -> String {
    let mut escaped = String::new();
    for c in Safe::line(text).to_string().chars() {
        if "|\\`*_<>[]".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
