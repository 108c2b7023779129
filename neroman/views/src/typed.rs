//! Results and points as columns with types, for files that have them.

use std::collections::HashSet;

use nero_table::columns::ColumnCells;
use nero_wire::v1::metrics_reply::Series;
use nero_wire::v1::{ExperimentView, Param};

use crate::book::provenance;
use crate::columns::{Column, param};
use crate::json::{parameter, run_id};
use crate::results::{Groups, Rows, Runs, all_columns};
use crate::series::{SeriesPoint, points};
use crate::{Fact, Value};

/// Points that become one part of a file: its columns fit into memory beside the reply.
const PART_POINTS: usize = 1 << 20;
/// Up to here a double holds every whole number.
const EXACT_MAX: u64 = 1 << f64::MANTISSA_DIGITS;

/// A column; all columns of a part have equally many cells.
#[derive(Debug, PartialEq)]
pub struct TypedColumn<'a> {
    /// No other column of the table has it.
    pub name: String,
    /// The cells, one for each row.
    pub cells: ColumnCells<'a>,
}

impl Rows {
    /// The columns of all rows.
    pub fn columns(&self) -> Vec<TypedColumn<'_>> {
        match self {
            Self::Runs(runs) => of_runs(runs),
            Self::Groups(groups) => of_groups(groups),
        }
    }
}

/// The points of these series, some at a time, in columns; at least one part, which may be empty.
pub fn of_points(series: &[Series]) -> impl Iterator<Item = Vec<TypedColumn<'_>>> {
    let mut all = series
        .iter()
        .flat_map(|one| {
            let run = run_id(one.experiment, one.run).unwrap_or_default();
            points(one).map(move |point| (run.clone(), one.name.as_str(), point))
        })
        .peekable();
    let mut is_first = true;
    std::iter::from_fn(move || {
        (all.peek().is_some() || std::mem::take(&mut is_first)).then(|| {
            is_first = false;
            part(&all.by_ref().take(PART_POINTS).collect::<Vec<_>>())
        })
    })
}

fn part<'a>(rows: &[(String, &'a str, SeriesPoint)]) -> Vec<TypedColumn<'a>> {
    let points = || rows.iter().map(|(_, _, point)| point);
    let moment = |ms| (ms != 0).then_some(ms);
    let runs = rows.iter().map(|(run, ..)| Some(run.clone().into()));
    let names = rows.iter().map(|(_, name, _)| Some((*name).into()));
    let columns = [
        ("run", ColumnCells::Text(runs.collect())),
        ("metric", ColumnCells::Text(names.collect())),
        (
            "step",
            ColumnCells::Number(points().map(|point| point.step).collect()),
        ),
        (
            "value",
            ColumnCells::Number(points().map(|point| Some(point.value)).collect()),
        ),
        (
            "time",
            ColumnCells::Moment(points().map(|point| moment(point.time_ms)).collect()),
        ),
        (
            "segment",
            ColumnCells::Whole(points().map(|point| Some(point.segment.into())).collect()),
        ),
    ];
    let named = columns.map(|(name, cells)| (name.to_owned(), cells));
    distinct(named.into())
}

fn of_runs(runs: &Runs) -> Vec<TypedColumn<'_>> {
    let mut all = all_columns(runs);
    let others = provenance()
        .into_iter()
        .filter(|column| !all.contains(column));
    all.extend(others.collect::<Vec<_>>());
    let columns = all
        .iter()
        .map(|column| (column.csv_name(&all), cells(column, &runs.views)));
    let mut columns: Vec<_> = columns.collect();
    if let Some(best) = &runs.best {
        let values = runs.views.iter().map(|view| best.of(view));
        columns.push((best.title(), ColumnCells::Number(values.collect())));
    }
    distinct(columns)
}

fn of_groups(groups: &Groups) -> Vec<TypedColumn<'_>> {
    let rows = &groups.rows;
    let whole = |count: usize| Some(count as i64);
    let by = (0..groups.by.len())
        .map(|at| of_params(rows.iter().map(move |row| row.params[at].as_ref())));
    let counts = [
        ColumnCells::Whole(rows.iter().map(|row| whole(row.ids.len())).collect()),
        ColumnCells::Whole(rows.iter().map(|row| whole(row.finished)).collect()),
    ];
    let metrics = (0..groups.metrics.len()).flat_map(|at| {
        let stats = || rows.iter().map(move |row| row.stats[at]);
        [
            ColumnCells::Number(stats().map(|stats| stats.mean).collect()),
            ColumnCells::Number(stats().map(|stats| stats.deviation).collect()),
        ]
    });
    let all = by.chain(counts).chain(metrics);
    distinct(groups.header().into_iter().zip(all).collect())
}

/// The cells of a column, whose type does not depend on what is known of these runs.
fn cells<'a>(column: &Column, views: &'a [ExperimentView]) -> ColumnCells<'a> {
    let values = views.iter().map(|view| column.value(view));
    match column {
        Column::Param(name) => of_params(views.iter().map(|view| param(view, name))),
        Column::Metric(_) | Column::Fact(Fact::Runtime | Fact::Progress) => {
            let number = |value| match value {
                Value::Number(number) | Value::Share(number) | Value::Seconds(number) => {
                    Some(number)
                }
                _ => None,
            };
            ColumnCells::Number(values.map(number).collect())
        }
        Column::Fact(Fact::Id | Fact::Exit | Fact::Signal) => {
            let whole = |value| match value {
                Value::Whole(number) => Some(number),
                Value::Signal(number) => Some(number.into()),
                _ => None,
            };
            ColumnCells::Whole(values.map(whole).collect())
        }
        Column::Fact(Fact::Created | Fact::Submitted | Fact::Started | Fact::Ended) => {
            let moment = |value| match value {
                Value::Time(ms) => Some(ms),
                _ => None,
            };
            ColumnCells::Moment(values.map(moment).collect())
        }
        Column::Fact(_) | Column::Asked(_) | Column::Expression(_) => {
            let text = |value: Value<'a>| match value {
                Value::Text(text) => Some(text),
                Value::State(view) => Some(view.state.as_str().into()),
                Value::Reason(view) => Some(view.reason.as_str().into()),
                Value::Unknown => None,
                other => Some(other.text().into()),
            };
            let texts = values.map(text);
            let known = texts.map(|text| text.filter(|text| !text.is_empty()));
            ColumnCells::Text(known.collect())
        }
    }
}

/// Values of a parameter: of the type that all of them fit, else the texts of its file.
fn of_params<'a>(params: impl Iterator<Item = Option<&'a Param>>) -> ColumnCells<'a> {
    let params: Vec<Option<&Param>> = params.collect();
    let values = params
        .iter()
        .map(|param| param.map(parameter).filter(|value| !value.is_null()));
    let values: Vec<Option<serde_json::Value>> = values.collect();
    let known = || values.iter().flatten();
    if known().next().is_some() && known().all(|value| value.is_i64()) {
        let whole = values.iter().map(|value| value.as_ref()?.as_i64());
        return ColumnCells::Whole(whole.collect());
    }
    let is_exact = |value: &serde_json::Value| {
        let small = |number: i64| number.unsigned_abs() <= EXACT_MAX;
        value.is_f64() || value.as_i64().is_some_and(small)
    };
    if known().next().is_some() && known().all(is_exact) {
        let number = values.iter().map(|value| value.as_ref()?.as_f64());
        return ColumnCells::Number(number.collect());
    }
    if known().next().is_some() && known().all(serde_json::Value::is_boolean) {
        let truth = values.iter().map(|value| value.as_ref()?.as_bool());
        return ColumnCells::Truth(truth.collect());
    }
    let text = |(param, value): (&Option<&'a Param>, &Option<_>)| {
        value.as_ref()?;
        param.map(|param| param.text.as_str().into())
    };
    ColumnCells::Text(params.iter().zip(&values).map(text).collect())
}

/// Readers refuse two columns of one name: the later gets a number, `loss_2`.
fn distinct(columns: Vec<(String, ColumnCells<'_>)>) -> Vec<TypedColumn<'_>> {
    let given: HashSet<String> = columns.iter().map(|(name, _)| name.clone()).collect();
    let mut taken = HashSet::new();
    let named = columns.into_iter().map(|(title, cells)| {
        let mut others = (2..).map(|number| format!("{title}_{number}"));
        let name = if taken.contains(&title) {
            others
                .find(|name| !given.contains(name) && !taken.contains(name))
                .unwrap_or(title.clone())
        } else {
            title
        };
        taken.insert(name.clone());
        TypedColumn { name, cells }
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use nero_wire::v1::MetricSummary;

    use super::*;

    fn params(values: &[(&str, &str)]) -> Vec<Param> {
        let param = |(text, json): &(&str, &str)| Param {
            name: "p".into(),
            text: (*text).to_owned(),
            json: (*json).to_owned(),
        };
        values.iter().map(param).collect()
    }

    #[test]
    fn the_type_of_a_parameter_is_the_one_that_all_its_values_have() {
        let text = |text: &'static str| Some(Cow::from(text));
        let table = [
            (
                vec![("1", "1"), ("20260520001", "20260520001")],
                ColumnCells::Whole(vec![Some(1), Some(20_260_520_001)]),
            ),
            (
                vec![("1", "1"), ("0.10", "0.1")],
                ColumnCells::Number(vec![Some(1.0), Some(0.1)]),
            ),
            (
                vec![("yes", "true"), ("", "null")],
                ColumnCells::Truth(vec![Some(true), None]),
            ),
            (
                vec![("0.10", "0.1"), ("adam", "\"adam\"")],
                ColumnCells::Text(vec![text("0.10"), text("adam")]),
            ),
            // A double would round the first.
            (
                vec![("9007199254740993", "9007199254740993"), ("0.5", "0.5")],
                ColumnCells::Text(vec![text("9007199254740993"), text("0.5")]),
            ),
            (vec![("", "null")], ColumnCells::Text(vec![None])),
        ];
        for (values, want) in table {
            let values = params(&values);
            assert_eq!(of_params(values.iter().map(Some)), want);
        }
    }

    #[test]
    fn every_column_keeps_its_type_without_values_and_no_two_share_a_name() {
        let metric = |name: &str| MetricSummary {
            name: name.into(),
            last: f64::NAN,
            ..MetricSummary::default()
        };
        let known = ExperimentView {
            id: 7,
            name: "a".into(),
            run: 1,
            state: "crashed".into(),
            reason: "exit code 1".into(),
            stderr_line: "no such file".into(),
            node: "local".into(),
            hosts: vec!["a".into(), "b".into()],
            runtime_s: Some(1.5),
            started_ms: 1_700_000_000_123,
            exit_code: Some(1),
            metrics: vec![metric("runtime_s"), metric("loss"), metric("runtime_s_2")],
            ..ExperimentView::default()
        };
        let unknown = ExperimentView {
            run: 1,
            ..ExperimentView::default()
        };
        let views = [known, unknown];
        let both = Rows::Runs(Runs::of(&views, None));
        let one = Rows::Runs(Runs::of(&views[1..], None));
        let kind = |cells: &ColumnCells<'_>| {
            let shown = format!("{cells:?}");
            shown.split('(').next().map(str::to_owned)
        };
        for column in one.columns() {
            let columns = both.columns();
            let same = columns.iter().find(|other| other.name == column.name);
            let same = same.map(|other| kind(&other.cells));
            assert_eq!(same, Some(kind(&column.cells)), "{}", column.name);
        }
        let columns = both.columns();
        let cells = |name: &str| {
            let found = columns.iter().find(|column| column.name == name);
            format!("{:?}", found.expect(name).cells)
        };
        assert_eq!(cells("id"), "Whole([Some(7), Some(0)])");
        assert_eq!(cells("reason"), "Text([Some(\"exit code 1\"), None])");
        assert_eq!(cells("hosts"), "Text([Some(\"a b\"), None])");
        assert_eq!(cells("runtime_s"), "Number([Some(1.5), None])");
        assert_eq!(cells("runtime_s_3"), "Number([Some(NaN), None])");
        assert_eq!(cells("started_at"), "Moment([Some(1700000000123), None])");
        assert_eq!(cells("exit_code"), "Whole([Some(1), None])");
        let names: HashSet<&str> = columns.iter().map(|column| &*column.name).collect();
        assert_eq!(names.len(), columns.len());
    }

    #[test]
    fn points_come_in_parts_and_none_are_one_empty_part() {
        let series = |count: usize| Series {
            experiment: 1,
            run: 2,
            name: "loss".into(),
            values: vec![0.5; count],
            ..Series::default()
        };
        let sizes = |series: &[Series]| {
            let parts = of_points(series).map(|part| match &part[3].cells {
                ColumnCells::Number(values) => values.len(),
                other => panic!("{other:?}"),
            });
            parts.collect::<Vec<_>>()
        };
        assert_eq!(sizes(&[]), [0]);
        assert_eq!(sizes(&[series(3), series(2)]), [5]);
        assert_eq!(sizes(&[series(PART_POINTS), series(1)]), [PART_POINTS, 1]);
        let few = [series(1)];
        let part = of_points(&few).next().expect("one");
        let names: Vec<&str> = part.iter().map(|column| &*column.name).collect();
        assert_eq!(names, ["run", "metric", "step", "value", "time", "segment"]);
        assert_eq!(part[0].cells, ColumnCells::Text(vec![Some("1.2".into())]));
        assert_eq!(part[2].cells, ColumnCells::Number(vec![None]));
        assert_eq!(part[4].cells, ColumnCells::Moment(vec![None]));
    }
}
