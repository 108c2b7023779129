//! Reading metrics, every range verified.

use std::collections::HashMap;

use nero_model::Home;

use crate::block::{self, damaged};
use crate::db::Db;
use crate::error::StoreError;
use crate::migrate;
use crate::row::{Point, RunKey, Sample, Series};
use crate::series::{self, SAMPLE, SERIES, SPAN};
use crate::table::cell;

/// Reads metrics on a connection of its own, while the writer goes on.
#[derive(Debug)]
pub struct SeriesReader {
    db: Db,
}

/// A place in a series: what is before it was read and verified.
#[derive(Clone, Copy, Debug, Default)]
pub struct SeriesCursor {
    /// How many points are before it.
    pub count: u64,
}

impl SeriesReader {
    /// Opens `series.db` for reading.
    ///
    /// # Errors
    /// When it is missing, not ours or damaged.
    pub fn open(home: &Home) -> Result<Self, StoreError> {
        Ok(Self {
            db: Db::open_to_read(&home.series_db(), migrate::SERIES)?,
        })
    }

    /// The series of one run, by name.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn series(&self, run: RunKey) -> Result<Vec<Series>, StoreError> {
        series(&self.db, run)
    }

    /// The series of one run with their points, of one moment.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn read(&self, run: RunKey) -> Result<Vec<(Series, Vec<Point>)>, StoreError> {
        self.read_some(run, |_| true)
    }

    /// The same of some of its series.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn read_some(
        &self,
        run: RunKey,
        wanted: impl Fn(&Series) -> bool,
    ) -> Result<Vec<(Series, Vec<Point>)>, StoreError> {
        let moment = rusqlite::Transaction::new_unchecked(
            &self.db.conn,
            rusqlite::TransactionBehavior::Deferred,
        )
        .map_err(|error| self.db.failed(error))?;
        let read = series(&self.db, run)?
            .into_iter()
            .filter(wanted)
            .map(|series| {
                let points = points(&self.db, &series)?;
                Ok((series, points))
            })
            .collect();
        moment.finish().map_err(|error| self.db.failed(error))?;
        read
    }

    /// What was added to a series behind a place in it, in the order of adding; the place is then
    /// the series' end. All of it at first; a default place is the beginning.
    ///
    /// # Errors
    /// See [`StoreError`]. The place is then no more to be used.
    pub fn read_on(
        &self,
        series: &Series,
        cursor: &mut SeriesCursor,
    ) -> Result<Vec<Point>, StoreError> {
        read_on(&self.db, series, cursor)
    }

    /// The measurements of a run's processes, by time.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn samples(&self, run: RunKey) -> Result<Vec<Sample>, StoreError> {
        samples(&self.db, run)
    }
}

pub(crate) fn points_of_runs(db: &Db) -> Result<HashMap<RunKey, u64>, StoreError> {
    let failed = |error| db.failed(error);
    let mut statement = db
        .conn
        .prepare("SELECT run, sum(points) FROM series GROUP BY run")
        .map_err(failed)?;
    let rows = statement
        .query_map([], |row| Ok((RunKey(row.get(0)?), row.get::<_, i64>(1)?)))
        .map_err(failed)?;
    rows.map(|row| row.map(|(run, points)| (run, points.cast_unsigned())))
        .collect::<Result<_, _>>()
        .map_err(failed)
}

pub(crate) fn all_series(db: &Db) -> Result<Vec<Series>, StoreError> {
    SERIES.all(db, series::read_series)
}

pub(crate) fn series(db: &Db, run: RunKey) -> Result<Vec<Series>, StoreError> {
    SERIES.some(
        db,
        "WHERE run = ? ORDER BY name",
        &[cell::int(run.0)],
        series::read_series,
    )
}

pub(crate) fn samples(db: &Db, run: RunKey) -> Result<Vec<Sample>, StoreError> {
    SAMPLE.some(
        db,
        "WHERE run = ? ORDER BY time_ms, incarnation",
        &[cell::int(run.0)],
        series::read_sample,
    )
}

/// The points that a series' row counts. Points added since the row was read are
/// left out.
pub(crate) fn points(db: &Db, series: &Series) -> Result<Vec<Point>, StoreError> {
    let mut points = read_on(db, series, &mut SeriesCursor::default())?;
    points.truncate(usize::try_from(series.count).unwrap_or(usize::MAX));
    if points
        .windows(2)
        .any(|two| two[0].generation > two[1].generation)
    {
        points.sort_by_key(|point| point.generation);
    }
    Ok(points)
}

/// The points of a series behind a place in it, in the order in which they were added, with those
/// that were added since the row was read; the place is then behind them.
fn read_on(db: &Db, series: &Series, cursor: &mut SeriesCursor) -> Result<Vec<Point>, StoreError> {
    let wanted = series.count.saturating_sub(cursor.count);
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let mut points = Vec::with_capacity(wanted.min(1 << 24));
    if cursor.count == 0 {
        read_spans(db, series, &mut points)?;
        cursor.count = points.len() as u64;
    }
    let before = points.len();
    block::read_on(db, series, cursor.count, &mut points)?;
    cursor.count += (points.len() - before) as u64;
    if points.len() < wanted {
        return Err(damaged(db, series));
    }
    Ok(points)
}

/// The points that a series had in version 1. They lie before its blocks, and none are added.
fn read_spans(db: &Db, series: &Series, points: &mut Vec<Point>) -> Result<(), StoreError> {
    let spans = SPAN.some(
        db,
        "WHERE series = ? ORDER BY first",
        &[cell::int(series.id)],
        series::read_span,
    )?;
    let failed = |error| db.failed(error);
    let mut statement = db
        .conn
        .prepare_cached(
            "SELECT id, series, step, time_ms, value, generation FROM point
             WHERE id BETWEEN ? AND ? ORDER BY id",
        )
        .map_err(failed)?;
    for span in spans {
        let (mut next, mut content) = (span.first, 0);
        let mut rows = statement.query([span.first, span.last]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let point = (|| {
                let int = |index| row.get_ref(index).ok()?.as_i64().ok();
                let sound = int(0)? == next && int(1)? == series.id;
                sound.then_some(Point {
                    step: series::float(row.get_ref(2).ok()?)?,
                    time_ms: int(3)?,
                    value: series::float(row.get_ref(4).ok()?)?,
                    generation: int(5)?.try_into().ok()?,
                })
            })()
            .ok_or_else(|| damaged(db, series))?;
            content = series::digest(content, &point);
            next += 1;
            points.push(point);
        }
        if next != span.last + 1 || content != span.content {
            return Err(damaged(db, series));
        }
    }
    Ok(())
}
