//! The numbers of series that were made of outputs: a file of our home for each call about a run,
//! written before the run's record names it and its series. It is derived from files that are here:
//! one that is missing is made anew when a person asks for plots.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nero_life::journal::{Key, Metric};
use nero_life::processed::ProcessedOutputs;
use nero_life::run::Run;
use nero_life::state::State;
use nero_model::ids::{hex, random};
use nero_model::{Home, RunId};
use nero_python::{NumbersReader, SERIES, SeriesMade};
use nero_store::Point;

use super::{ProcessedRun, replace};

/// Points of one run that are kept.
const POINTS_MAX: u64 = 2_000_000;

fn folder(home: &Home) -> PathBuf {
    home.data.join("processed")
}

/// The file of a run's numbers that its record names.
fn place(home: &Home, run: RunId, numbers: &str) -> PathBuf {
    match numbers {
        "" => folder(home).join(run.to_string()),
        name => folder(home).join(name),
    }
}

/// The run of a file of numbers.
fn run_of(name: &str) -> Option<RunId> {
    let run = name.split_once('-').map_or(name, |(run, _)| run);
    run.parse().ok()
}

/// Removes files of numbers that `is_kept` does not want. Blocks.
fn remove(home: &Home, is_kept: impl Fn(&str) -> bool) {
    let Ok(entries) = fs::read_dir(folder(home)) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| !is_kept(name)) {
            // What stays only takes space.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Removes the files of runs that are gone, and those that a death left behind. Called while nothing
/// is made. Blocks.
pub(super) fn sweep(home: &Home, state: &State) {
    remove(home, |name| {
        let Some(id) = run_of(name) else {
            return false;
        };
        let made = state.run(id).and_then(Run::processed);
        made.is_some_and(|made| place(home, id, &made.numbers).ends_with(name))
    });
}

/// Removes the older files of a run. Readers may still have the record before the newest. Blocks.
pub(super) fn remove_old(
    home: &Home,
    run: RunId,
    before: &ProcessedOutputs,
    now: &ProcessedOutputs,
) {
    let kept = [before, now].map(|made| place(home, run, &made.numbers));
    remove(home, |name| {
        run_of(name) != Some(run) || kept.iter().any(|kept| kept.ends_with(name))
    });
}

/// Keeps the numbers of a call, and returns their summaries and the name of the file. Blocks.
pub(super) fn keep(
    home: &Home,
    call: &Path,
    run: &ProcessedRun,
    series: &[SeriesMade],
) -> io::Result<(BTreeMap<String, Metric>, String)> {
    let name = format!("{}-{}", run.id, hex(&random::<8>()));
    if series.is_empty() {
        return Ok((BTreeMap::new(), name));
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
    nero_model::paths::make_private(&folder(home))?;
    replace(&made, &place(home, run.id, &name))?;
    Ok((metrics, name))
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
    made: &ProcessedOutputs,
    incarnation: u32,
) -> io::Result<Vec<(String, Vec<Point>)>> {
    /// As the fold of a journal numbers the points of a start.
    const GENERATION_BITS: u32 = 16;
    let first = incarnation
        .saturating_sub(1)
        .min(u32::MAX >> GENERATION_BITS)
        << GENERATION_BITS;
    let mut numbers = NumbersReader::open(&place(home, run, &made.numbers))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use nero_model::ExperimentId;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_stay_while_a_record_may_name_them() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::below(folder.path());
        let place = self::folder(&home);
        fs::create_dir_all(&place).unwrap();
        let there = || -> BTreeSet<String> {
            let entries = fs::read_dir(&place).unwrap().flatten();
            entries
                .map(|one| one.file_name().into_string().unwrap())
                .collect()
        };
        for name in ["1.1", "1.1-aa", "1.1-bb", "1.1-cc", "1.11-aa"] {
            fs::write(place.join(name), "").unwrap();
        }
        let record = |numbers: &str| ProcessedOutputs {
            numbers: numbers.to_owned(),
            ..ProcessedOutputs::default()
        };
        let run = RunId {
            experiment: ExperimentId(1),
            number: 1,
        };
        remove_old(&home, run, &record(""), &record("1.1-bb"));
        assert_eq!(
            there(),
            ["1.1", "1.1-bb", "1.11-aa"].map(str::to_owned).into()
        );
        remove_old(&home, run, &record("1.1-bb"), &record("1.1-dd"));
        assert_eq!(there(), ["1.1-bb", "1.11-aa"].map(str::to_owned).into());
        sweep(&home, &State::default());
        assert_eq!(there(), BTreeSet::new());
    }
}
