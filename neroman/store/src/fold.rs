//! Folding metrics into `series.db`: the new points of each series as a block, and how many
//! it has.
//!
//! The series' row contains the number of its points, so that no point can vanish unseen.

use crate::block;
use crate::db::Db;
use crate::error::StoreError;
use crate::positions;
use crate::row::{Point, RunFold, RunKey, Series};
use crate::series::{self, SAMPLE, SERIES};
use crate::table::cell;

/// The highest number of a series, 0 without any.
pub(crate) fn highest(db: &Db) -> Result<i64, StoreError> {
    db.conn
        .query_row("SELECT coalesce(max(id), 0) FROM series", [], |row| {
            row.get(0)
        })
        .map_err(|error| db.failed(error))
}

/// Folds everything, inside the caller's transaction. `numbered` is the highest number that a
/// series had since the file was opened: who remembers a series by its number is not misled by
/// another one.
pub(crate) fn fold(db: &Db, numbered: &mut i64, folds: &[RunFold]) -> Result<(), StoreError> {
    for fold in folds {
        positions::advance(db, fold.run, &fold.advances)?;
        for (index, points) in by_series(fold) {
            let name = &fold.names[index];
            append(db, numbered, fold.run, name, &points)?;
        }
        for sample in &fold.samples {
            series::with_sample(fold.run, sample, |cells| SAMPLE.upsert(db, cells))?;
        }
    }
    Ok(())
}

/// The points of each series, in the order in which series first appear.
fn by_series(fold: &RunFold) -> Vec<(usize, Vec<Point>)> {
    let mut places = vec![None; fold.names.len()];
    let mut found: Vec<(usize, Vec<Point>)> = Vec::new();
    for (index, point) in &fold.points {
        let index = *index as usize;
        let place = *places[index].get_or_insert_with(|| {
            found.push((index, Vec::new()));
            found.len() - 1
        });
        found[place].1.push(*point);
    }
    found
}

fn append(
    db: &Db,
    numbered: &mut i64,
    run: RunKey,
    name: &str,
    points: &[Point],
) -> Result<(), StoreError> {
    // Of equal ones it is the last.
    let Some(last) = points.iter().max_by_key(|point| point.generation) else {
        return Ok(());
    };
    let mut series = find(db, numbered, run, name)?;
    block::append(db, &series, points)?;
    for point in points {
        // `min` and `max` of floats ignore NaN.
        series.min = series.min.min(point.value);
        series.max = series.max.max(point.value);
    }
    series.count += points.len() as u64;
    if last.generation >= series.generation {
        series.last = last.value;
        series.last_step = last.step;
        series.last_ms = last.time_ms;
        series.generation = last.generation;
    }
    series::with_series(&series, |cells| SERIES.upsert(db, cells))
}

/// The series of this name, or an empty one with the next number.
fn find(db: &Db, numbered: &mut i64, run: RunKey, name: &str) -> Result<Series, StoreError> {
    let found = SERIES
        .some(
            db,
            "WHERE run = ? AND name = ?",
            &[cell::int(run.0), cell::text(name)],
            series::read_series,
        )?
        .pop();
    if let Some(series) = found {
        return Ok(series);
    }
    *numbered += 1;
    Ok(Series {
        id: *numbered,
        run,
        name: name.to_owned(),
        count: 0,
        last: f64::NAN,
        last_step: f64::NAN,
        last_ms: 0,
        generation: 0,
        min: f64::NAN,
        max: f64::NAN,
    })
}

/// Forgets everything of a run, inside the caller's transaction.
pub(crate) fn forget(db: &Db, run: RunKey) -> Result<(), StoreError> {
    positions::forget(db, run)?;
    for sql in [
        "DELETE FROM point WHERE id IN (
            SELECT point.id FROM series
            JOIN span ON span.series = series.id
            JOIN point ON point.id BETWEEN span.first AND span.last
            WHERE series.run = ?)",
        "DELETE FROM block WHERE series IN (SELECT id FROM series WHERE run = ?)",
        "DELETE FROM span WHERE series IN (SELECT id FROM series WHERE run = ?)",
        "DELETE FROM series WHERE run = ?",
        "DELETE FROM sample WHERE run = ?",
    ] {
        db.change(sql, [run.0])?;
    }
    Ok(())
}
