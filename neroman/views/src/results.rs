//! Results: one row per run, or one per group of runs that share parameters, with
//! mean and deviation.

mod forms;

pub(crate) use forms::all_columns;

use std::collections::HashMap;

use nero_model::sets::meant;
use nero_wire::v1::{ExperimentView, MetricSummary, Param};

use serde_json::json;

use crate::columns::{Column, metric, metrics, param, params};
use crate::json::parameter;
use crate::text::some;

/// Why there are no rows.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRows {
    /// A metric that no run has.
    #[error("no run has a metric `{name}`")]
    Metric {
        /// The name as a person wrote it.
        name: String,
        /// All metrics of the runs.
        there: Vec<String>,
    },
    /// A parameter that no run has.
    #[error("no run has a parameter `{name}`")]
    Param {
        /// The name as a person wrote it.
        name: String,
        /// All parameters of the runs.
        there: Vec<String>,
    },
    /// A metric whose best value its name does not tell.
    #[error("whether high or low `{0}` is good, its name does not tell")]
    Direction(String),
}

impl NoRows {
    /// What to do.
    pub fn hint(&self) -> String {
        match self {
            Self::Metric { there, .. } if there.is_empty() => {
                "these runs printed no metric at all".to_owned()
            }
            Self::Metric { there, .. } | Self::Param { there, .. } => {
                format!("there are: {}", some(there))
            }
            Self::Direction(name) => {
                format!("write `--best max:{name}` or `--best min:{name}`")
            }
        }
    }
}

/// Which value of a metric is the best.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objective {
    /// The metric.
    pub name: String,
    /// The largest; else the smallest.
    pub largest: bool,
}

/// All rows.
#[derive(Debug)]
pub enum Rows {
    /// One row per run.
    Runs(Runs),
    /// One row per group.
    Groups(Groups),
}

/// Every run.
#[derive(Debug)]
pub struct Runs {
    /// The runs, best first when that was asked for.
    pub views: Vec<ExperimentView>,
    /// All parameters.
    pub params: Vec<String>,
    /// All metrics.
    pub metrics: Vec<String>,
    /// The metric that was asked to be best.
    pub best: Option<Objective>,
    /// The columns of a table, where they were named.
    pub chosen: Option<Vec<Column>>,
}

impl Runs {
    /// A row for each of these.
    pub fn of(views: &[ExperimentView], best: Option<&Objective>) -> Self {
        let mut sorted = views.to_vec();
        if let Some(best) = best {
            sorted.sort_by(|one, other| best.order(best.of(one), best.of(other)));
        }
        Self {
            params: params(views),
            metrics: metrics(views),
            views: sorted,
            best: best.cloned(),
            chosen: None,
        }
    }
}

/// Runs that share parameters.
#[derive(Debug)]
pub struct Groups {
    /// The parameters that they share.
    pub by: Vec<String>,
    /// The metrics whose means are shown.
    pub metrics: Vec<String>,
    /// The metric that was asked to be best.
    pub best: Option<Objective>,
    /// The groups.
    pub rows: Vec<ResultGroup>,
}

impl Groups {
    /// Title of a metric's column: its name, or that of the best value.
    pub fn title(&self, name: &str) -> String {
        match &self.best {
            Some(best) if best.name == name => best.title(),
            Some(_) | None => name.to_owned(),
        }
    }
}

/// One group.
#[derive(Debug)]
pub struct ResultGroup {
    /// Its parameters; `None` where its runs have no such parameter.
    pub params: Vec<Option<Param>>,
    /// Its runs.
    pub ids: Vec<u64>,
    /// How many of them finished.
    pub finished: usize,
    /// Mean and deviation per metric.
    pub stats: Vec<Stats>,
}

/// Statistics of several numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// How many there were.
    pub count: usize,
    /// Their mean.
    pub mean: Option<f64>,
    /// Their sample deviation; needs two.
    pub deviation: Option<f64>,
    /// The best value that one of the runs ever had, where it is known whether high or low is
    /// good.
    pub best: Option<f64>,
}

impl Objective {
    /// Reads `loss`, `min:loss`, `max:loss`.
    ///
    /// # Errors
    /// When no run has such a metric, or its name does not tell whether high or
    /// low is good.
    pub fn read(text: &str, views: &[ExperimentView]) -> Result<Self, NoRows> {
        let (given, wanted) = match text.split_once(':') {
            Some(("min", name)) => (Some(false), name),
            Some(("max", name)) => (Some(true), name),
            _ => (None, text),
        };
        let all = metrics(views);
        let name = match meant(wanted, all.iter().map(String::as_str)) {
            Some(name) => name.to_owned(),
            None if views.is_empty() => wanted.to_owned(),
            None => {
                return Err(NoRows::Metric {
                    name: wanted.to_owned(),
                    there: all,
                });
            }
        };
        let Some(largest) = given.or_else(|| nero_expr::more_is_better(&name)) else {
            return Err(NoRows::Direction(name));
        };
        Ok(Self { name, largest })
    }

    /// How a metric is best: as `asked`, else as its name tells.
    pub(crate) fn known(name: &str, asked: Option<&Self>) -> Option<Self> {
        match asked.filter(|asked| asked.name == name) {
            Some(asked) => Some(asked.clone()),
            None => nero_expr::more_is_better(name).map(|largest| Self {
                name: name.to_owned(),
                largest,
            }),
        }
    }

    /// The best value of any of these runs.
    fn among(&self, those: &[&ExperimentView]) -> Option<f64> {
        let values = those.iter().filter_map(|view| self.of(view));
        let best = values.min_by(|one, other| self.order(Some(*one), Some(*other)));
        best.filter(|best| !best.is_nan())
    }

    /// `min` or `max`.
    pub fn direction(&self) -> &'static str {
        if self.largest { "max" } else { "min" }
    }

    /// Title of its column: `min(loss)`.
    pub fn title(&self) -> String {
        format!("{}({})", self.direction(), self.name)
    }

    /// The best value of a run.
    pub fn of(&self, view: &ExperimentView) -> Option<f64> {
        metric(view, &self.name).map(|metric| self.pick(metric))
    }

    fn pick(&self, metric: &MetricSummary) -> f64 {
        if self.largest { metric.max } else { metric.min }
    }

    /// Best first; runs without a value or with NaN last.
    fn order(&self, one: Option<f64>, other: Option<f64>) -> std::cmp::Ordering {
        let key = |value: Option<f64>| value.filter(|value| !value.is_nan());
        match (key(one), key(other)) {
            (Some(one), Some(other)) if self.largest => other.total_cmp(&one),
            (Some(one), Some(other)) => one.total_cmp(&other),
            (one, other) => other.is_some().cmp(&one.is_some()),
        }
    }
}

/// Whether a metric tells how good a run is, by names in common use.
pub fn is_goal(name: &str) -> bool {
    nero_expr::more_is_better(name).is_some()
}

/// Makes the rows: one per run, or one per group of runs with the same values of the
/// parameters `by`.
///
/// # Errors
/// When no run has a parameter that was named.
pub fn rows(
    views: &[ExperimentView],
    by: &[String],
    best: Option<&Objective>,
) -> Result<Rows, NoRows> {
    if by.is_empty() {
        return Ok(Rows::Runs(Runs::of(views, best)));
    }
    groups(views, by, best).map(Rows::Groups)
}

pub(crate) fn groups(
    views: &[ExperimentView],
    by: &[String],
    best: Option<&Objective>,
) -> Result<Groups, NoRows> {
    let known = params(views);
    for name in by {
        if !known.contains(name) && !views.is_empty() {
            return Err(NoRows::Param {
                name: name.clone(),
                there: known,
            });
        }
    }
    let names = metrics(views);
    let mut parts: Vec<(Vec<Option<Param>>, Vec<&ExperimentView>)> = Vec::new();
    let mut places = HashMap::new();
    for view in views {
        let place = *places.entry(group_key(view, by)).or_insert(parts.len());
        if place == parts.len() {
            let params = by.iter().map(|name| param(view, name).cloned());
            parts.push((params.collect(), Vec::new()));
        }
        parts[place].1.push(view);
    }
    let mut rows: Vec<ResultGroup> = parts
        .into_iter()
        .map(|(params, those)| ResultGroup {
            params,
            ids: those.iter().map(|view| view.id).collect(),
            finished: those.iter().filter(|view| view.state == "finished").count(),
            stats: names
                .iter()
                .map(|name| Stats {
                    best: Objective::known(name, best).and_then(|best| best.among(&those)),
                    ..stats(values(&those, name, best))
                })
                .collect(),
        })
        .collect();
    if let Some(best) = best
        && let Some(at) = names.iter().position(|name| *name == best.name)
    {
        rows.sort_by(|one, other| best.order(one.stats[at].mean, other.stats[at].mean));
    }
    Ok(Groups {
        by: by.to_vec(),
        metrics: names,
        best: best.cloned(),
        rows,
    })
}

/// Equal for equal values: `0.10` and `0.1` are one group.
pub(crate) fn group_key(view: &ExperimentView, by: &[String]) -> String {
    let values = by.iter().map(|name| param(view, name).map(parameter));
    json!(values.collect::<Vec<_>>()).to_string()
}

/// The latest values; for the metric of `best`, the best ones.
fn values(those: &[&ExperimentView], name: &str, best: Option<&Objective>) -> Vec<f64> {
    those
        .iter()
        .filter_map(|view| match best {
            Some(best) if best.name == name => best.of(view),
            _ => metric(view, name).map(|metric| metric.last),
        })
        .collect()
}

fn stats(values: Vec<f64>) -> Stats {
    let count = values.len();
    if count == 0 {
        return Stats::default();
    }
    // Distances from the first are summed, so that equal numbers have their own
    // number as mean and a deviation of exactly 0. An infinity has no
    // distances.
    let first = values[0];
    let mean = if values.iter().all(|value| value.is_finite()) {
        first + values.iter().map(|value| value - first).sum::<f64>() / count as f64
    } else {
        values.iter().sum::<f64>() / count as f64
    };
    let deviation = (count > 1).then(|| {
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (squares / (count - 1) as f64).sqrt()
    });
    Stats {
        count,
        mean: Some(mean),
        deviation,
        best: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviation_is_that_of_a_sample() {
        let found = stats(vec![1.0, 2.0, 3.0, 4.0]);
        assert_eq!((found.count, found.mean), (4, Some(2.5)));
        assert!((found.deviation.expect("four") - 1.290_994).abs() < 1e-6);
        assert_eq!(stats(vec![7.0]).deviation, None);
        assert_eq!(stats(Vec::new()).mean, None);
        let equal = stats(vec![0.18; 3]);
        assert_eq!((equal.mean, equal.deviation), (Some(0.18), Some(0.0)));
        assert_eq!(stats(vec![f64::INFINITY, 1.0]).mean, Some(f64::INFINITY));
    }

    #[test]
    fn missing_values_and_nan_come_last() {
        let best = Objective {
            name: "x".into(),
            largest: true,
        };
        let mut values = [None, Some(1.0), Some(f64::NAN), Some(3.0)];
        values.sort_by(|one, other| best.order(*one, *other));
        assert_eq!(values[..2], [Some(3.0), Some(1.0)]);
    }
}
