//! Folding metrics into `series.db`: points at the end of one table, the
//! ranges of each series beside them.
//!
//! A point costs one append. The points of a series within a fold lie side by side.
//! One row of `span` contains their range and checksum; the series' row contains
//! their number, so that no point can vanish unseen.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{OptionalExtension as _, params_from_iter};

use crate::db::Db;
use crate::error::StoreError;
use crate::positions;
use crate::row::{Point, RunFold, RunKey, Series};
use crate::series::{self, Float, SAMPLE, SERIES, SPAN, Span};
use crate::table::cell;

/// Points written by one statement.
const ROWS: usize = 64;
/// Columns of a point.
const COLUMNS: usize = 6;

/// Position of the next point.
struct NextPoint {
    id: i64,
    /// Series of the last point before it.
    series: Option<i64>,
}

/// Folds everything, inside the caller's transaction.
pub(crate) fn fold(db: &Db, folds: &[RunFold]) -> Result<(), StoreError> {
    let mut end = end(db)?;
    for fold in folds {
        positions::advance(db, fold.run, &fold.advances)?;
        for (index, points) in by_series(fold) {
            append(db, fold.run, &fold.names[index], &points, &mut end)?;
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

fn end(db: &Db) -> Result<NextPoint, StoreError> {
    let last: Option<(i64, i64)> = db
        .conn
        .prepare_cached("SELECT id, series FROM point ORDER BY id DESC LIMIT 1")
        .and_then(|mut statement| {
            statement
                .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()
        })
        .map_err(|error| db.failed(error))?;
    Ok(NextPoint {
        id: last.map_or(1, |(id, _)| id + 1),
        series: last.map(|(_, series)| series),
    })
}

fn append(
    db: &Db,
    run: RunKey,
    name: &str,
    points: &[Point],
    end: &mut NextPoint,
) -> Result<(), StoreError> {
    // Of equal ones it is the last.
    let Some(last) = points.iter().max_by_key(|point| point.generation) else {
        return Ok(());
    };
    let mut series = find(db, run, name)?;
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
    put_span(db, &series, points, end)?;
    insert_points(db, series.id, end.id, points)?;
    end.id += points.len() as i64;
    end.series = Some(series.id);
    series::with_series(&series, |cells| SERIES.upsert(db, cells))
}

/// The series of this name, or an empty one with the next number.
fn find(db: &Db, run: RunKey, name: &str) -> Result<Series, StoreError> {
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
    let id = db
        .conn
        .prepare_cached("SELECT coalesce(max(id), 0) + 1 FROM series")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .map_err(|error| db.failed(error))?;
    Ok(Series {
        id,
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

/// Records the range of new points. Extends the series' last span when no other
/// point lies between.
fn put_span(db: &Db, series: &Series, points: &[Point], end: &NextPoint) -> Result<(), StoreError> {
    let before = if end.series == Some(series.id) {
        SPAN.some(
            db,
            "WHERE series = ? ORDER BY first DESC LIMIT 1",
            &[cell::int(series.id)],
            series::read_span,
        )?
        .pop()
        .filter(|span| span.last + 1 == end.id)
    } else {
        None
    };
    let mut span = before.unwrap_or(Span {
        first: end.id,
        last: end.id,
        content: 0,
    });
    span.last = end.id + points.len() as i64 - 1;
    for point in points {
        span.content = series::digest(
            span.content,
            point.step,
            point.time_ms,
            point.value,
            point.generation,
        );
    }
    SPAN.upsert(
        db,
        &[
            cell::int(series.id),
            cell::int(span.first),
            cell::int(span.last),
            cell::int(span.content),
        ],
    )
}

fn insert_points(db: &Db, series: i64, first: i64, points: &[Point]) -> Result<(), StoreError> {
    let mut id = first;
    for chunk in points.chunks(ROWS) {
        let floats: Vec<(Float, Float)> = chunk
            .iter()
            .map(|point| (Float::new(point.step), Float::new(point.value)))
            .collect();
        let mut cells: Vec<ValueRef<'_>> = Vec::with_capacity(chunk.len() * COLUMNS);
        for (point, (step, value)) in chunk.iter().zip(&floats) {
            cells.extend([
                cell::int(id),
                cell::int(series),
                step.cell(),
                cell::int(point.time_ms),
                value.cell(),
                cell::int(point.generation),
            ]);
            id += 1;
        }
        if chunk.len() == ROWS {
            write(db, many(), &cells)?;
        } else {
            for row in cells.chunks(COLUMNS) {
                write(db, "INSERT INTO point VALUES (?,?,?,?,?,?)", row)?;
            }
        }
    }
    Ok(())
}

/// The statement that writes [`ROWS`] points.
fn many() -> &'static str {
    static SQL: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    SQL.get_or_init(|| {
        let rows = vec!["(?,?,?,?,?,?)"; ROWS].join(",");
        format!("INSERT INTO point VALUES {rows}")
    })
}

fn write(db: &Db, sql: &str, cells: &[ValueRef<'_>]) -> Result<(), StoreError> {
    db.change(
        sql,
        params_from_iter(cells.iter().map(|cell| ToSqlOutput::Borrowed(*cell))),
    )
    .map(drop)
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
        "DELETE FROM span WHERE series IN (SELECT id FROM series WHERE run = ?)",
        "DELETE FROM series WHERE run = ?",
        "DELETE FROM sample WHERE run = ?",
    ] {
        db.change(sql, [run.0])?;
    }
    Ok(())
}
