//! `results` as a table, CSV, JSON and Markdown.

use nero_model::safe::Safe;
use nero_wire::v1::{ExperimentView, Param};
use serde_json::{Map, Value, json};

use super::rows::{Best, Found, Group, Groups, Runs, Stats};
use crate::say::columns::{Column, Fact, telling};
use crate::say::table::{self, Cell};
use crate::say::{Screen, csv, json, text};

/// For eyes: columns only where values differ.
pub fn text(screen: &Screen, found: &Found) -> String {
    let (header, rows) = shown(found);
    let cells: Vec<Vec<Cell>> = rows
        .iter()
        .map(|row| {
            row.iter()
                .map(|shown| match shown {
                    Shown::State(word) => Cell::state(word),
                    Shown::Number(text) => Cell::right(text),
                    Shown::Text(text) => Cell::text(text),
                })
                .collect()
        })
        .collect();
    let (mut text, left_out) = table::print(screen, &header, &cells);
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
            .any(|row| matches!(row.get(at), Some(Shown::Number(_))))
    };
    let rule = (0..header.len()).map(|at| if right(at) { "---:" } else { "---" }.to_owned());
    text.push_str(&line(rule.collect()));
    for row in &rows {
        text.push_str(&line(row.iter().map(|cell| for_md(cell.text())).collect()));
    }
    text
}

/// All columns, one header.
pub fn csv(found: &Found) -> Vec<u8> {
    match found {
        Found::Runs(runs) => {
            let columns = all_columns(runs);
            let mut header: Vec<String> = columns
                .iter()
                .map(|column| column.csv_name(&columns))
                .collect();
            header.extend(runs.best.iter().map(best_name));
            let rows: Vec<Vec<csv::Cell>> = runs
                .views
                .iter()
                .map(|view| {
                    let mut row: Vec<csv::Cell> =
                        columns.iter().map(|column| column.csv(view)).collect();
                    row.extend(runs.best.iter().map(|best| number(best.of(view))));
                    row
                })
                .collect();
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

/// A cell for eyes or Markdown.
enum Shown {
    State(String),
    Number(String),
    Text(String),
}

impl Shown {
    fn text(&self) -> &str {
        match self {
            Self::State(text) | Self::Number(text) | Self::Text(text) => text,
        }
    }
}

fn shown(found: &Found) -> (Vec<String>, Vec<Vec<Shown>>) {
    match found {
        Found::Runs(runs) => shown_runs(runs),
        Found::Groups(groups) => shown_groups(groups),
    }
}

fn shown_runs(runs: &Runs) -> (Vec<String>, Vec<Vec<Shown>>) {
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
        let mut row: Vec<Shown> = columns
            .iter()
            .map(|column| shown_cell(column, view))
            .collect();
        if let Some(best) = &runs.best {
            let value = best.of(view).map(text::number).unwrap_or_default();
            row.insert(at, Shown::Number(value));
        }
        row
    });
    (header, rows.collect())
}

fn shown_cell(column: &Column, view: &ExperimentView) -> Shown {
    let text = column.text(view);
    match (column, column.csv(view)) {
        (Column::Fact(Fact::State), _) => Shown::State(text),
        (_, csv::Cell::Number(_)) => Shown::Number(text),
        _ => Shown::Text(text),
    }
}

fn shown_groups(groups: &Groups) -> (Vec<String>, Vec<Vec<Shown>>) {
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
        let mut row: Vec<Shown> = group
            .params
            .iter()
            .map(|param| Shown::Text(param.as_ref().map(|p| p.text.clone()).unwrap_or_default()))
            .collect();
        row.push(Shown::Number(group.ids.len().to_string()));
        row.extend(group.stats.iter().map(|stats| Shown::Number(spread(stats))));
        if !all_finished {
            row.push(Shown::Number(group.finished.to_string()));
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
    let mut row: Vec<csv::Cell> = group.params.iter().map(csv_param).collect();
    row.push(csv::Cell::whole(group.ids.len()));
    row.push(csv::Cell::whole(group.finished));
    for stats in &group.stats {
        row.push(number(stats.mean));
        row.push(number(stats.deviation));
    }
    row
}

fn csv_param(param: &Option<Param>) -> csv::Cell {
    match param {
        Some(param) if json::parameter(param).is_number() => csv::Cell::Number(param.text.clone()),
        Some(param) => csv::Cell::text(&param.text),
        None => csv::Cell::Empty,
    }
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
