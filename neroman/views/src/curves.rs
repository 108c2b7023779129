//! Curves of metrics: a picture of series, with the names of runs or groups and the thresholds of
//! rules. Drawn by `nero-plot`.

mod group;
mod rules;

use std::collections::HashSet;

use jiff::tz::TimeZone;
use nero_model::names::same_loosely;
use nero_model::sets::meant;
use nero_plot::{Curve, CurveName, CurvePoint, HorizontalAxis, Panel, Plot};
use nero_wire::v1::metrics_reply::Series;
use nero_wire::v1::{ExperimentView, RuleState};

use crate::json::run_id;
use crate::results::{self, NoRows, ResultGroup, Rows};
use crate::{columns, text};

/// Panels of a picture when no metric was named.
const PANELS_MAX: usize = 6;

/// What a person wants to see.
#[derive(Clone, Debug)]
pub struct WantedCurves {
    /// Metrics and expressions, each a panel; empty for all metrics.
    pub names: Vec<String>,
    /// The meaning of x.
    pub x: HorizontalAxis,
    /// One curve for all runs that share these parameters.
    pub by: Vec<String>,
    /// The band around the curve of a group.
    pub band: Spread,
    /// A logarithmic y axis.
    pub log: bool,
}

/// The band around the mean of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// The sample deviation on both sides.
    Deviation,
    /// From the smallest to the largest value.
    Range,
}

/// Makes the picture of these series.
///
/// # Errors
/// When no run has a parameter that groups.
pub fn plot(
    wanted: &WantedCurves,
    series: &[Series],
    views: &[ExperimentView],
    rules: &[RuleState],
) -> Result<Plot, NoRows> {
    let shown: Vec<&ExperimentView> = views
        .iter()
        .filter(|view| series.iter().any(|one| is_of(one, view)))
        .collect();
    let drawn: HashSet<u64> = series.iter().map(|one| one.experiment).collect();
    let groups = match results::rows(views, &wanted.by, None)? {
        // The legend counts no run and has no group without a point.
        Rows::Groups(groups) => Some(groups.rows).map(|mut groups| {
            for group in &mut groups {
                group.ids.retain(|id| drawn.contains(id));
            }
            groups.retain(|group| !group.ids.is_empty());
            groups
        }),
        Rows::Runs(_) => None,
    };
    let mut remarks = Vec::new();
    let titles = titles(&wanted.names, series, &mut remarks);
    let owners = match &groups {
        Some(groups) => Owners::Groups(groups),
        None => Owners::Runs(runs_of(series)),
    };
    let drawing = PanelSource {
        wanted,
        shown: &shown,
        rules,
        owners: &owners,
    };
    let lost = not_finite(&titles, series);
    let panels = titles.into_iter().map(|title| drawing.panel(title, series));
    let panels = panels.collect();
    if groups.is_some() {
        let band = match wanted.band {
            Spread::Deviation => "mean ± sample deviation",
            Spread::Range => "smallest to largest value",
        };
        remarks.push(format!("line: mean of the runs of a group; band: {band}"));
        if lost > 0 {
            let values = text::plural(lost, "value");
            remarks.push(format!("not in the means: {values} that are not finite"));
        }
    }
    let folded: u64 = runs_folded(series);
    if folded > 0 {
        remarks.push(format!("{folded} points were joined into coarser ones"));
    }
    Ok(Plot {
        x: wanted.x.clone(),
        log_across: false,
        log: wanted.log,
        names: owners.names(&shown, &wanted.by),
        panels,
        remarks,
    })
}

/// What panels are made of.
struct PanelSource<'a> {
    wanted: &'a WantedCurves,
    shown: &'a [&'a ExperimentView],
    rules: &'a [RuleState],
    owners: &'a Owners<'a>,
}

impl PanelSource<'_> {
    fn panel(&self, title: String, series: &[Series]) -> Panel {
        let of_panel = series.iter().filter(|one| is_of_panel(one, &title));
        let of_panel: Vec<&Series> = of_panel.collect();
        let axis = &self.wanted.x;
        let parts = of_panel
            .iter()
            .map(|one| parts(one, axis, began(one, self.shown)));
        let parts: Vec<Vec<Vec<CurvePoint>>> = parts.collect();
        let mut curves = match self.owners {
            Owners::Groups(groups) => group::curves(groups, &of_panel, &parts, self.wanted.band),
            Owners::Runs(_) => (of_panel.iter().zip(parts))
                .filter_map(|(one, parts)| {
                    Some(Curve {
                        name: self.owners.name_of(one)?,
                        parts,
                        ..Curve::default()
                    })
                })
                .collect(),
        };
        let found = rules::of_panel(&title, &of_panel, self.rules);
        for (one, at) in found
            .fired
            .into_iter()
            .map(|(place, at)| (of_panel[place], at))
        {
            let point = CurvePoint {
                x: across(one, at, axis, began(one, self.shown)),
                y: one.values[at],
            };
            let name = self.owners.name_of(one);
            if let Some(curve) = curves.iter_mut().find(|curve| Some(curve.name) == name) {
                curve.firings.push(point);
            }
        }
        Panel {
            title,
            curves,
            thresholds: found.thresholds,
        }
    }
}

/// What has a curve.
enum Owners<'a> {
    Runs(Vec<(u64, u32)>),
    Groups(&'a [ResultGroup]),
}

impl Owners<'_> {
    fn name_of(&self, series: &Series) -> Option<usize> {
        match self {
            Self::Runs(runs) => {
                (runs.iter()).position(|run| *run == (series.experiment, series.run))
            }
            Self::Groups(groups) => {
                (groups.iter()).position(|group| group.ids.contains(&series.experiment))
            }
        }
    }

    fn names(&self, shown: &[&ExperimentView], by: &[String]) -> Vec<CurveName> {
        match self {
            Self::Groups(groups) => groups
                .iter()
                .map(|group| name_of_group(group, by))
                .collect(),
            Self::Runs(runs) => {
                let differing = differing(shown);
                let name = |(experiment, run): &(u64, u32)| {
                    let view = (shown.iter())
                        .find(|view| view.id == *experiment && view.run == *run)
                        .or_else(|| shown.iter().find(|view| view.id == *experiment));
                    CurveName {
                        short: run_id(*experiment, *run).unwrap_or_else(|| experiment.to_string()),
                        long: view.map_or_else(String::new, |view| name_of_run(view, &differing)),
                    }
                };
                runs.iter().map(name).collect()
            }
        }
    }
}

fn name_of_group(group: &ResultGroup, by: &[String]) -> CurveName {
    let values = by.iter().zip(&group.params).map(|(name, param)| {
        let value = param.as_ref().map_or("none", |param| &param.text);
        format!("{name}={value}")
    });
    CurveName {
        short: values.collect::<Vec<_>>().join(" "),
        long: text::plural(group.ids.len(), "run"),
    }
}

/// Parameters in which the runs differ.
fn differing(shown: &[&ExperimentView]) -> Vec<String> {
    let views: Vec<ExperimentView> = shown.iter().map(|view| (*view).clone()).collect();
    let mut names = columns::params(&views);
    names.retain(|name| {
        let mut texts = shown
            .iter()
            .map(|view| columns::param(view, name).map(|param| &param.text));
        let first = texts.next().flatten();
        texts.any(|text| text != first)
    });
    names
}

fn name_of_run(view: &ExperimentView, differing: &[String]) -> String {
    let common = columns::common_group(differing.iter().map(String::as_str));
    let values = differing.iter().filter_map(|name| {
        let param = columns::param(view, name)?;
        Some(format!("{}={}", &name[common.len()..], param.text))
    });
    match values.collect::<Vec<_>>() {
        none if none.is_empty() => text::full_name(&view.collection, &view.name),
        values => values.join(" "),
    }
}

fn runs_of(series: &[Series]) -> Vec<(u64, u32)> {
    let mut runs: Vec<_> = series.iter().map(|one| (one.experiment, one.run)).collect();
    runs.sort_unstable();
    runs.dedup();
    runs
}

/// Each series tells it of its whole run.
fn runs_folded(series: &[Series]) -> u64 {
    let mut runs: Vec<_> = (series.iter())
        .map(|one| (one.experiment, one.run, one.folded))
        .collect();
    runs.sort_unstable();
    runs.dedup();
    runs.iter().map(|(.., folded)| folded).sum()
}

fn is_of(series: &Series, view: &ExperimentView) -> bool {
    series.experiment == view.id
}

fn is_of_panel(series: &Series, title: &str) -> bool {
    series.name == title || same_loosely(&series.name, title)
}

/// How many values of these panels are not finite.
fn not_finite(titles: &[String], series: &[Series]) -> usize {
    let is_shown = |one: &&Series| titles.iter().any(|title| is_of_panel(one, title));
    let values = series.iter().filter(is_shown).flat_map(|one| &one.values);
    values.filter(|value| !value.is_finite()).count()
}

/// A title for each panel: the asked names as the runs printed them.
fn titles(names: &[String], series: &[Series], remarks: &mut Vec<String>) -> Vec<String> {
    let mut titles: Vec<String> = Vec::new();
    let wanted: Vec<&String> = if names.is_empty() {
        // The metric that counts the steps is across already.
        (series.iter())
            .filter(|one| one.values != one.steps || series.len() == 1)
            .map(|one| &one.name)
            .collect()
    } else {
        names.iter().collect()
    };
    for name in wanted {
        let exact = series.iter().find(|one| one.name == *name);
        let loose = || series.iter().find(|one| is_of_panel(one, name));
        let of_set = || {
            let metric = meant(name, series.iter().map(|one| one.name.as_str()))?;
            series.iter().find(|one| one.name == metric)
        };
        let printed = exact.or_else(loose).or_else(of_set);
        let title = printed.map_or(name, |one| &one.name);
        if !titles.contains(title) {
            titles.push(title.clone());
        }
    }
    if names.is_empty() && titles.len() > PANELS_MAX {
        let left = titles.split_off(PANELS_MAX);
        remarks.push(format!("not shown, name them: {}", text::some(&left)));
    }
    titles
}

/// When the run of a series started.
fn began(series: &Series, shown: &[&ExperimentView]) -> i64 {
    let first = series.times_ms.first().copied().unwrap_or_default();
    let of_run = |view: &&&ExperimentView| is_of(series, view) && view.run == series.run;
    let began = shown.iter().find(of_run).map(|view| view.started_ms);
    // A clock that was set back has points before the start.
    began.filter(|at| *at > 0).map_or(first, |at| at.min(first))
}

/// The x of a point.
fn across(series: &Series, at: usize, axis: &HorizontalAxis, began: i64) -> f64 {
    let time = series.times_ms.get(at).copied().unwrap_or_default();
    match axis {
        HorizontalAxis::Step | HorizontalAxis::Values(_) => {
            series.steps.get(at).copied().unwrap_or(at as f64)
        }
        HorizontalAxis::Clock(_) => time as f64 / 1000.0,
        HorizontalAxis::Runtime => (time - began) as f64 / 1000.0,
    }
}

/// A part for each time that the run began to count anew.
fn parts(series: &Series, axis: &HorizontalAxis, began: i64) -> Vec<Vec<CurvePoint>> {
    let mut parts: Vec<Vec<CurvePoint>> = Vec::new();
    let mut last = None;
    for (at, y) in series.values.iter().enumerate() {
        let generation = series.generation.get(at).copied().unwrap_or(0);
        if last.replace(generation) != Some(generation) {
            parts.push(Vec::new());
        }
        let point = CurvePoint {
            x: across(series, at, axis, began),
            y: *y,
        };
        if let Some(part) = parts.last_mut() {
            part.push(point);
        }
    }
    parts
}

/// The zone of the person who looks.
pub fn clock_here() -> HorizontalAxis {
    HorizontalAxis::Clock(TimeZone::system())
}

#[cfg(test)]
mod tests {
    use nero_wire::v1::{Param, Rule};

    use super::*;

    fn series(experiment: u64, name: &str, values: &[f64]) -> Series {
        let steps = (0..values.len()).map(|step| step as f64);
        Series {
            experiment,
            run: 1,
            name: name.into(),
            times_ms: steps
                .clone()
                .map(|step| 10_000 + step as i64 * 1000)
                .collect(),
            steps: steps.collect(),
            values: values.to_vec(),
            generation: vec![1; values.len()],
            folded: 0,
        }
    }

    fn view(id: u64, lr: &str) -> ExperimentView {
        ExperimentView {
            id,
            run: 1,
            name: format!("e{id}"),
            started_ms: 5000,
            params: vec![Param {
                name: "lr".into(),
                text: lr.into(),
                json: lr.into(),
            }],
            ..ExperimentView::default()
        }
    }

    fn wanted(names: &[&str], by: &[&str]) -> WantedCurves {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        WantedCurves {
            names: owned(names),
            x: HorizontalAxis::Step,
            by: owned(by),
            band: Spread::Deviation,
            log: false,
        }
    }

    fn ys(curve: &Curve) -> Vec<f64> {
        curve.parts.concat().iter().map(|point| point.y).collect()
    }

    #[test]
    fn each_metric_is_a_panel_and_each_run_a_curve_with_its_differing_parameters() {
        let all = [
            series(1, "loss", &[3.0, 2.0]),
            series(1, "val acc", &[0.1]),
            series(2, "loss", &[4.0]),
        ];
        let views = [view(1, "0.1"), view(2, "0.2")];
        let plot = plot(&wanted(&["Val_Acc", "loss"], &[]), &all, &views, &[]).unwrap();
        let titles: Vec<_> = plot
            .panels
            .iter()
            .map(|panel| panel.title.as_str())
            .collect();
        assert_eq!(titles, ["val acc", "loss"]);
        assert_eq!(plot.panels[1].curves.len(), 2);
        let names: Vec<_> = (plot.names.iter())
            .map(|name| (name.short.as_str(), name.long.as_str()))
            .collect();
        assert_eq!(names, [("1.1", "lr=0.1"), ("2.1", "lr=0.2")]);
    }

    #[test]
    fn what_has_no_point_is_not_in_the_legend() {
        let views = [view(1, "0.1"), view(2, "0.3"), view(3, "0.3")];
        let all = [series(3, "loss", &[3.0, 2.0])];
        let plot = plot(&wanted(&["loss"], &["lr"]), &all, &views, &[]).unwrap();
        let names: Vec<_> = (plot.names.iter())
            .map(|name| (name.short.as_str(), name.long.as_str()))
            .collect();
        assert_eq!(names, [("lr=0.3", "1 run")]);
        assert_eq!(ys(&plot.panels[0].curves[0]), [3.0, 2.0]);
    }

    #[test]
    fn a_run_that_counted_anew_has_two_parts() {
        let mut one = series(1, "loss", &[3.0, 2.0, 3.0]);
        one.generation = vec![1, 1, 2];
        one.steps = vec![1.0, 2.0, 1.0];
        let plot = plot(&wanted(&[], &[]), &[one], &[view(1, "0.1")], &[]).unwrap();
        let parts = &plot.panels[0].curves[0].parts;
        assert_eq!((parts[0].len(), parts[1].len()), (2, 1));
    }

    #[test]
    fn time_counts_from_the_start_of_the_run() {
        let time = WantedCurves {
            x: HorizontalAxis::Runtime,
            ..wanted(&[], &[])
        };
        let plot = plot(
            &time,
            &[series(1, "loss", &[3.0, 2.0])],
            &[view(1, "0.1")],
            &[],
        )
        .unwrap();
        let across = plot.panels[0].curves[0].parts.concat();
        assert_eq!([across[0].x, across[1].x], [5.0, 6.0]);
    }

    #[test]
    fn a_group_has_the_mean_of_the_runs_that_live_there_with_their_spread() {
        let all = [
            series(1, "loss", &[1.0, 2.0, 3.0]),
            series(2, "loss", &[3.0, 4.0]),
            series(3, "loss", &[9.0]),
        ];
        let views = [view(1, "0.10"), view(2, "0.1"), view(3, "0.2")];
        let views = [
            views[0].clone(),
            {
                let mut same = views[1].clone();
                same.params[0].json = "0.10".into();
                same
            },
            views[2].clone(),
        ];
        let groups = plot(&wanted(&["loss"], &["lr"]), &all, &views, &[]).unwrap();
        let curves = &groups.panels[0].curves;
        assert_eq!(
            (ys(&curves[0]), ys(&curves[1])),
            (vec![2.0, 3.0, 3.0], vec![9.0])
        );
        assert_eq!(
            (
                groups.names[0].short.as_str(),
                groups.names[0].long.as_str()
            ),
            ("lr=0.10", "2 runs")
        );
        // One run alone has no deviation.
        assert_eq!((curves[0].band.len(), curves[1].band.len()), (2, 0));
        assert!((curves[0].band[0].high - 2.0 - 2_f64.sqrt()).abs() < 1e-12);
        let range = WantedCurves {
            band: Spread::Range,
            ..wanted(&["loss"], &["lr"])
        };
        let ranges = plot(&range, &all, &views, &[]).unwrap();
        let band = &ranges.panels[0].curves[0].band[0];
        assert_eq!((band.low, band.high), (1.0, 3.0));
    }

    #[test]
    fn values_that_are_in_no_mean_are_counted() {
        let all = [
            series(1, "loss", &[1.0, f64::NAN, f64::INFINITY]),
            series(2, "loss", &[3.0, 4.0, 5.0]),
            series(2, "acc", &[f64::NAN]),
        ];
        let views = [view(1, "1"), view(2, "1")];
        let plot = plot(&wanted(&["loss"], &["lr"]), &all, &views, &[]).unwrap();
        assert_eq!(ys(&plot.panels[0].curves[0]), [2.0, 4.0, 5.0]);
        assert_eq!(
            plot.remarks[1],
            "not in the means: 2 values that are not finite"
        );
    }

    #[test]
    fn between_the_steps_of_a_run_lies_a_straight_line() {
        let mut sparse = series(2, "loss", &[10.0, 30.0]);
        sparse.steps = vec![0.0, 2.0];
        let all = [series(1, "loss", &[0.0, 0.0, 0.0]), sparse];
        let views = [view(1, "1"), view(2, "1")];
        let plot = plot(&wanted(&[], &["lr"]), &all, &views, &[]).unwrap();
        assert_eq!(ys(&plot.panels[0].curves[0]), [5.0, 10.0, 15.0]);
    }

    #[test]
    fn a_rule_has_its_threshold_and_marks_the_point_at_which_it_fired() {
        let rule = |text: &str, fired: u32| RuleState {
            experiment: 1,
            fired,
            last_fired_ms: 11_200,
            rule: Some(Rule {
                action: "warn".into(),
                text: text.into(),
                ..Rule::default()
            }),
            ..RuleState::default()
        };
        let rules = [
            rule("(Loss > 2.5) && (runtime > 3600)", 2),
            rule("acc < 0.1", 1),
            rule("loss > 1 for 10m", 1),
        ];
        let all = [series(1, "loss", &[1.0, 3.0, 2.0])];
        let plot = plot(&wanted(&[], &[]), &all, &[view(1, "1")], &rules).unwrap();
        let thresholds: Vec<f64> = plot.panels[0].thresholds.iter().map(|one| one.y).collect();
        assert_eq!(thresholds, [2.5, 1.0]);
        // Two of the rules fired there.
        let fired = CurvePoint { x: 1.0, y: 3.0 };
        assert_eq!(plot.panels[0].curves[0].firings, [fired, fired]);
        let twice = RuleState {
            fired_ms: vec![10_100, 14_200],
            ..rule("loss > 2.5", 2)
        };
        let longer = [series(1, "loss", &[3.0, 1.0, 1.0, 1.0, 4.0])];
        let plot = self::plot(&wanted(&[], &[]), &longer, &[view(1, "1")], &[twice]).unwrap();
        let firings = &plot.panels[0].curves[0].firings;
        let across: Vec<f64> = firings.iter().map(|point| point.x).collect();
        assert_eq!(across, [0.0, 4.0]);
    }
}
