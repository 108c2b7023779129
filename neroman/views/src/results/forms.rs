//! The forms of results for programs: CSV and JSON.

use serde_json::{Map, Value, json};

use super::{Groups, Objective, ResultGroup, Rows, Runs};
use crate::columns::{Column, sheet};
use crate::object;
use crate::{Fact, Value as Known, csv, json};

impl Rows {
    /// A sheet with all columns under one header.
    pub fn csv(&self) -> Vec<u8> {
        match self {
            Self::Runs(runs) => {
                let columns = runs.chosen.clone().unwrap_or_else(|| all_columns(runs));
                let (mut header, mut rows) = sheet(&columns, &runs.views);
                if let Some(best) = &runs.best {
                    header.push(best.title());
                    for (row, view) in rows.iter_mut().zip(&runs.views) {
                        row.push(number(best.of(view)));
                    }
                }
                csv::print(&header, &rows)
            }
            Self::Groups(groups) => {
                let rows: Vec<Vec<csv::Cell>> = groups.rows.iter().map(csv_group).collect();
                csv::print(&groups.header(), &rows)
            }
        }
    }

    /// One document, as text.
    pub fn json(&self) -> String {
        let rows = self.json_rows();
        let document = match self {
            Self::Runs(runs) => {
                json::document(json!({"best": best_json(runs.best.as_ref()), "runs": rows}))
            }
            Self::Groups(groups) => json::document(json!({
                "best": best_json(groups.best.as_ref()),
                "by": groups.by,
                "groups": rows,
            })),
        };
        format!("{}\n", json::print(&document))
    }

    /// The runs or groups of [`Rows::json`], a line each.
    pub fn json_lines(&self) -> String {
        let rows = self.json_rows().into_iter();
        rows.map(|row| format!("{}\n", json::print(&row))).collect()
    }

    fn json_rows(&self) -> Vec<Value> {
        match self {
            Self::Runs(runs) => runs
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
                .collect(),
            Self::Groups(groups) => {
                let rows = groups.rows.iter();
                rows.map(|group| json_group(groups, group)).collect()
            }
        }
    }
}

impl Groups {
    /// Titles of the columns: parameters, counts, and two of each metric.
    pub(crate) fn header(&self) -> Vec<String> {
        let mut header = self.by.clone();
        header.extend(["n".to_owned(), "finished".to_owned()]);
        for name in &self.metrics {
            let name = self.title(name);
            header.extend([format!("{name} mean"), format!("{name} deviation")]);
        }
        header
    }
}

pub(crate) fn all_columns(runs: &Runs) -> Vec<Column> {
    let tells_progress = runs.views.iter().any(|view| view.progress.is_some());
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
        .chain(tells_progress.then_some(Fact::Progress))
        .map(Column::Fact)
        .chain(runs.params.iter().cloned().map(Column::Param))
        .chain(runs.metrics.iter().cloned().map(Column::Metric))
        .collect()
}

fn csv_group(group: &ResultGroup) -> Vec<csv::Cell> {
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

fn json_group(groups: &Groups, group: &ResultGroup) -> Value {
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
    object!(group =>
        parameters: Value::Object(params.collect::<Map<_, _>>()),
        n: group.ids.len(),
        finished, ids,
        metrics: Value::Object(metrics.collect::<Map<_, _>>()),
    )
}

fn number(value: Option<f64>) -> csv::Cell {
    value.map_or(csv::Cell::Empty, csv::Cell::number)
}

fn best_json(best: Option<&Objective>) -> Value {
    best.map_or(
        Value::Null,
        |best| json!({"metric": best.name, "is": best.direction()}),
    )
}
