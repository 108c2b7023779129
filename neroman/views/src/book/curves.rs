//! Points as rows, and a chart per metric over them.

use std::collections::{HashMap, HashSet};

use nero_table::book::{BookCell, ChartKind, ChartSeries, NewChart};
use nero_wire::v1::ExperimentView;

use super::{BookBuilder, NoBook, is_step, repeats_parameter, text};
use crate::Value;
use crate::json::run_id;
use crate::results::Runs;
use crate::series::ThinSeries;

/// Charts of a workbook, and curves of a chart.
const CHARTS_MAX: usize = 12;
const CURVES_MAX: usize = 20;
/// Characters of a curve's name beside the chart.
const NAME_MAX: usize = 20;
/// Columns of step and value.
const STEP: u16 = 3;
const VALUE: u16 = 4;

/// A series with the places of its metric and its run.
type PlacedSeries<'s> = (usize, usize, &'s ThinSeries);

/// First and last row of a series.
type SeriesRows = (u32, u32);

/// Adds the sheet of points and its charts, if there are any.
pub(super) fn add(
    making: &mut BookBuilder,
    runs: &Runs,
    series: &[ThinSeries],
) -> Result<(), NoBook> {
    let place: HashMap<(u64, u32), usize> = (runs.views.iter().enumerate())
        .map(|(at, view)| ((view.id, view.run), at))
        .collect();
    let metric = |one: &ThinSeries| runs.metrics.iter().position(|name| *name == one.name);
    let mut ordered: Vec<PlacedSeries<'_>> = (series.iter())
        .filter(|one| !one.points.is_empty())
        .filter_map(|one| Some((metric(one)?, *place.get(&(one.experiment, one.run))?, one)))
        .collect();
    if ordered.is_empty() {
        return Ok(());
    }
    ordered.sort_by_key(|(metric, run, _)| (*metric, *run));
    note_thinned(making, runs, &ordered);
    let (sheet, places) = points(making, runs, &ordered)?;
    let with_places: Vec<_> = ordered.into_iter().zip(places).collect();
    charts(making, runs, sheet, &with_places);
    Ok(())
}

/// Adds the sheet of points.
fn points(
    making: &mut BookBuilder,
    runs: &Runs,
    ordered: &[PlacedSeries<'_>],
) -> Result<(usize, Vec<SeriesRows>), NoBook> {
    let points = || ordered.iter().flat_map(|(_, _, one)| &one.points);
    let has_segments = points().any(|point| point.segment > 0);
    let has_other = points().any(|point| !point.value.is_finite());
    let mut rows: Vec<Vec<BookCell>> = Vec::new();
    let mut places = Vec::new();
    for (_, run, one) in ordered {
        let first = rows.len() as u32;
        let view = &runs.views[*run];
        let id = making
            .cells
            .text(&run_id(one.experiment, one.run).unwrap_or_default());
        let (name, metric) = (making.cells.text(&view.name), making.cells.text(&one.name));
        for (count, point) in (1_i64..).zip(&one.points) {
            let cells = &mut making.cells;
            let step = match point.step {
                Some(step) => cells.number(Some(step)),
                None => cells.value(&Value::Whole(count)),
            };
            let is_finite = point.value.is_finite();
            let mut row = vec![
                id.clone(),
                name.clone(),
                metric.clone(),
                step,
                // A chart would draw a text as zero.
                cells.number(Some(point.value).filter(|_| is_finite)),
                cells.moment(point.time_ms),
            ];
            if has_segments {
                row.push(cells.value(&Value::Whole(point.segment.into())));
            }
            if has_other {
                row.push(cells.number(Some(point.value).filter(|_| !is_finite)));
            }
            rows.push(row);
        }
        places.push((first, rows.len() as u32 - 1));
    }
    let mut titles = ["run", "name", "metric", "step", "value"]
        .map(str::to_owned)
        .to_vec();
    titles.push(making.with_zone("time"));
    titles.extend(has_segments.then(|| "segment".to_owned()));
    titles.extend(has_other.then(|| "not finite".to_owned()));
    let titles = titles.into_iter().map(|title| (title, false));
    let sheet = making.sheet("Series", titles.collect(), rows)?;
    Ok((sheet, places))
}

/// Tells how many series have fewer points here than were reported.
fn note_thinned(making: &mut BookBuilder, runs: &Runs, ordered: &[PlacedSeries<'_>]) {
    let thinned = ordered
        .iter()
        .filter(|(_, _, one)| one.points.len() < one.count);
    let thinned = thinned.count();
    if thinned > 0 {
        making.made.notes.push(format!(
            "{} to at most {} points, each spike kept: `neroman metrics SEL --csv` has all",
            match thinned {
                1 => "1 series is thinned".to_owned(),
                thinned => format!("{thinned} series are thinned"),
            },
            super::points_max(&runs.views)
        ));
    }
}

/// Adds a chart for each of the first metrics.
fn charts(
    making: &mut BookBuilder,
    runs: &Runs,
    sheet: usize,
    with_places: &[(PlacedSeries<'_>, SeriesRows)],
) {
    let metrics: Vec<&String> = runs
        .metrics
        .iter()
        .filter(|name| is_drawn(name, runs))
        .collect();
    let mut left_out = 0;
    for name in metrics {
        let curves = with_places
            .iter()
            .filter(|((_, _, one), _)| one.name == **name);
        // One point is no curve.
        let curves = curves.filter(|((_, _, one), _)| one.points.len() > 1);
        let curves: Vec<_> = curves
            .map(|((_, run, _), rows)| (&runs.views[*run], *rows))
            .collect();
        if curves.is_empty() {
            continue;
        }
        if making.made.book.charts.len() == CHARTS_MAX {
            left_out += 1;
            continue;
        }
        let chart = chart(name, sheet, &curves);
        making.made.book.charts.push(chart);
    }
    if left_out > 0 {
        making.made.notes.push(format!(
            "charts show the first metrics; without one: {}",
            text::plural(left_out, "metric")
        ));
    }
}

fn is_drawn(name: &str, runs: &Runs) -> bool {
    !is_step(name) && !repeats_parameter(name, &runs.views)
}

fn chart(name: &str, sheet: usize, curves: &[(&ExperimentView, (u32, u32))]) -> NewChart {
    let shown = &curves[..curves.len().min(CURVES_MAX)];
    let names: HashSet<&str> = shown.iter().map(|(view, _)| view.name.as_str()).collect();
    let is_told_by_name = names.len() == shown.len()
        && names
            .iter()
            .all(|name| !name.is_empty() && name.chars().count() <= NAME_MAX);
    let series = shown.iter().map(|(view, rows)| ChartSeries {
        name: if is_told_by_name {
            view.name.clone()
        } else {
            run_id(view.id, view.run).unwrap_or_default()
        },
        x: STEP,
        y: VALUE,
        rows: *rows,
    });
    let title = if curves.len() > CURVES_MAX {
        format!("{name}: the first {CURVES_MAX} of {} runs", curves.len())
    } else {
        format!("{name} by step")
    };
    NewChart {
        title,
        x_title: "step".to_owned(),
        y_title: name.to_owned(),
        sheet,
        kind: ChartKind::Lines,
        series: series.collect(),
    }
}
