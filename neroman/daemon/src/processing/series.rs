//! The numbers of series that were made of outputs: a file of our home for each run, written
//! before the run's record names them. It is derived from files that are here: one that is missing
//! is made anew when a person asks for plots.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nero_life::journal::{Key, Metric};
use nero_life::processed::Processed;
use nero_life::run::Run;
use nero_model::{Home, RunId};
use nero_python::{NumbersReader, SERIES, SeriesMade};
use nero_store::Point;

use super::{ProcessedRun, replace};

/// Points of one run that are kept.
const POINTS_MAX: u64 = 2_000_000;

fn place(home: &Home, run: RunId) -> PathBuf {
    home.data.join("processed").join(run.to_string())
}

/// Keeps the numbers of a call, and returns their summaries. Blocks.
pub(super) fn keep(
    home: &Home,
    call: &Path,
    run: &ProcessedRun,
    series: &[SeriesMade],
) -> io::Result<BTreeMap<String, Metric>> {
    let place = place(home, run.id);
    if series.is_empty() {
        return match fs::remove_file(place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(BTreeMap::new()),
        };
    }
    let is_sorted = series.is_sorted_by(|one, other| one.name < other.name);
    if !is_sorted || series.iter().map(|one| one.count).sum::<u64>() > POINTS_MAX {
        return Err(io::Error::other(
            "the process did not keep to what was asked",
        ));
    }
    let made = call.join(SERIES);
    let mut numbers = NumbersReader::open(&made)?;
    let mut metrics = BTreeMap::new();
    for one in series {
        let (steps, values) = (numbers.column(one.count)?, numbers.column(one.count)?);
        let (Some(step), Some(last)) = (steps.last(), values.last()) else {
            continue;
        };
        // f64::min ignores NaN on either side.
        let metric = Metric {
            key: (0, Key::default()),
            last: *last,
            step: *step,
            min: values.iter().copied().fold(f64::NAN, f64::min),
            max: values.iter().copied().fold(f64::NAN, f64::max),
            count: one.count,
            at_ms: run.ended_ms,
        };
        metrics.insert(one.name.clone(), metric);
    }
    if let Some(folder) = place.parent() {
        nero_model::paths::make_private(folder)?;
    }
    replace(&made, &place)?;
    Ok(metrics)
}

/// The series that were made of a run's outputs, without those that the job printed by the same
/// names. Blocks.
pub(crate) fn made_of_outputs(home: &Home, run: &Run) -> io::Result<Vec<(String, Vec<Point>)>> {
    let Some(made) = run.processed().filter(|made| !made.metrics.is_empty()) else {
        return Ok(Vec::new());
    };
    let incarnation = run.journal.newest().map_or(1, |(number, _)| number);
    let mut all = read(home, run.made.id, made, incarnation)?;
    all.retain(|(name, _)| !run.journal.metrics.contains_key(name));
    Ok(all)
}

/// The points of a run's series, by name. Blocks.
fn read(
    home: &Home,
    run: RunId,
    made: &Processed,
    incarnation: u32,
) -> io::Result<Vec<(String, Vec<Point>)>> {
    /// As the fold of a journal numbers the points of a start.
    const GENERATION_BITS: u32 = 16;
    let first = incarnation
        .saturating_sub(1)
        .min(u32::MAX >> GENERATION_BITS)
        << GENERATION_BITS;
    let mut numbers = NumbersReader::open(&place(home, run))?;
    let mut series = Vec::new();
    for (name, metric) in &made.metrics {
        let (steps, values) = (numbers.column(metric.count)?, numbers.column(metric.count)?);
        let mut generation = first;
        let mut before = f64::NEG_INFINITY;
        let points = steps.iter().zip(&values).map(|(step, value)| {
            // A step that falls back begins a new segment.
            if *step < before && generation < first + (1 << GENERATION_BITS) - 1 {
                generation += 1;
            }
            before = *step;
            Point {
                step: *step,
                time_ms: metric.at_ms,
                value: *value,
                generation,
            }
        });
        series.push((name.clone(), points.collect()));
    }
    Ok(series)
}
