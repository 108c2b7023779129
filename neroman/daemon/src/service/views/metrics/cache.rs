//! A memory of thinned curves. When a view asks for a curve again, the daemon reads only the points
//! that were appended since its last picture.

use std::sync::{Arc, Mutex, PoisonError};

use nero_plot::by_column;
use nero_store::{Point, RunKey, Series, SeriesCursor, SeriesReader, StoreError};

/// The most curves in memory. A further curve takes the place of the one whose last picture is oldest.
const CURVES_MAX: usize = 256;

/// Columns for which a curve is kept: what the widest picture has.
const COLUMNS_MAX: u32 = 1024;

/// Points of a curve in memory, four of each column and as many that were appended.
const POINTS_MAX: usize = 8 * COLUMNS_MAX as usize;

/// Steps of a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StepRange {
    /// The first.
    pub from: f64,
    /// The last.
    pub to: f64,
}

impl StepRange {
    pub(super) fn has(&self, point: &Point) -> bool {
        (self.from..=self.to).contains(&point.step)
            || point.step.is_nan() && *self == Self::default()
    }
}

impl Default for StepRange {
    fn default() -> Self {
        Self {
            from: f64::NEG_INFINITY,
            to: f64::INFINITY,
        }
    }
}

/// The curves in memory, in the order of their last pictures.
#[derive(Clone, Debug, Default)]
pub(crate) struct CurveCache {
    curves: Arc<Mutex<Vec<(CurveKey, SharedCurve)>>>,
}

/// One reader reads a curve on; a second one at the same time waits for its points.
type SharedCurve = Arc<Mutex<CachedCurve>>;

/// A part of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CurveKey {
    run: RunKey,
    series: i64,
    range: StepRange,
}

/// A curve in memory.
#[derive(Debug, Default)]
struct CachedCurve {
    cursor: SeriesCursor,
    /// In the order of generations.
    points: Vec<Point>,
}

impl CurveCache {
    /// The points of a series that a picture of `columns` shows of these steps.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(super) fn points(
        &self,
        reader: &SeriesReader,
        series: &Series,
        range: StepRange,
        columns: u32,
    ) -> Result<Vec<Point>, StoreError> {
        let curve = self.curve(CurveKey {
            run: series.run,
            series: series.id,
            range,
        });
        let mut curve = curve.lock().unwrap_or_else(PoisonError::into_inner);
        // A cursor that failed half-way is not gone on from.
        let mut read = std::mem::take(&mut *curve);
        let added = reader.read_on(series, &mut read.cursor)?;
        read.append(range, added);
        *curve = read;
        Ok(thinned(&curve.points, columns.min(COLUMNS_MAX)))
    }

    /// The curve of this key, which becomes the newest.
    fn curve(&self, key: CurveKey) -> SharedCurve {
        let mut curves = self.curves.lock().unwrap_or_else(PoisonError::into_inner);
        let found = curves.iter().position(|(other, _)| *other == key);
        let (_, curve) = found.map_or_else(|| (key, Arc::default()), |at| curves.remove(at));
        curves.push((key, Arc::clone(&curve)));
        let more = curves.len().saturating_sub(CURVES_MAX);
        curves.drain(..more);
        curve
    }
}

impl CachedCurve {
    fn append(&mut self, range: StepRange, added: Vec<Point>) {
        self.points
            .extend(added.into_iter().filter(|point| range.has(point)));
        if !self.points.is_sorted_by_key(|point| point.generation) {
            self.points.sort_by_key(|point| point.generation);
        }
        if self.points.len() > POINTS_MAX {
            self.points = thinned(&self.points, COLUMNS_MAX);
            self.points.shrink_to_fit();
        }
    }
}

/// As many points as a picture of this many columns can show, all spikes among them.
pub(super) fn thinned(points: &[Point], columns: u32) -> Vec<Point> {
    let most = 4 * columns as usize;
    if points.len() <= most {
        return points.to_vec();
    }
    let steps = || points.iter().map(|point| point.step);
    let first = steps().fold(f64::INFINITY, f64::min);
    let wide = (steps().fold(f64::NEG_INFINITY, f64::max) - first) / f64::from(columns);
    let column = |point: &Point| {
        let column = ((point.step - first) / wide) as i64;
        (point.generation, column, point.value.is_finite())
    };
    let kept = by_column(points, column, |point| point.value);
    if kept.len() <= 2 * most {
        return kept;
    }
    // Steps that fall back all the time make more generations than a picture has columns.
    let each = kept.len().div_ceil(columns as usize);
    let blocks: Vec<(usize, Point)> = kept.into_iter().enumerate().collect();
    let block = |(at, _): &(usize, Point)| at / each;
    let kept = by_column(&blocks, block, |(_, point)| point.value);
    kept.into_iter().map(|(_, point)| point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(step: f64, value: f64, generation: u32) -> Point {
        Point {
            step,
            time_ms: step as i64,
            value,
            generation,
        }
    }

    #[test]
    fn a_curve_in_parts_keeps_every_spike_and_both_ends_and_stays_small() {
        let mut curve = CachedCurve::default();
        for block in 0..600 {
            let steps = block * 1000..(block + 1) * 1000;
            let value = |step: i64| match step {
                123_456 => 9.0,
                599_000 => -9.0,
                step => (step % 7) as f64 / 7.0,
            };
            curve.append(
                StepRange::default(),
                steps
                    .map(|step| point(step as f64, value(step), 0))
                    .collect(),
            );
            assert!(curve.points.len() <= POINTS_MAX);
        }
        for columns in [64, 800, 1024] {
            let shown = thinned(&curve.points, columns);
            assert!(shown.len() <= 8 * columns as usize, "{}", shown.len());
            let steps: Vec<f64> = shown.iter().map(|point| point.step).collect();
            for step in [0.0, 123_456.0, 599_000.0, 599_999.0] {
                assert!(steps.contains(&step), "{step} of {columns}");
            }
            assert!(steps.is_sorted());
        }
    }

    #[test]
    fn a_cached_curve_is_bounded_keeps_nan_and_puts_late_points_before_the_next_start() {
        let mut curve = CachedCurve::default();
        let late = (0..100_000_u32).map(|at| point(f64::from(at % 2), f64::from(at), at / 2));
        curve.append(StepRange::default(), late.collect());
        assert!(curve.points.len() <= POINTS_MAX, "{}", curve.points.len());
        let mut curve = CachedCurve::default();
        let value = |at: u32| if at == 70_000 { f64::NAN } else { 1.0 };
        curve.append(
            StepRange::default(),
            (0..100_000)
                .map(|at| point(f64::from(at), value(at), 0))
                .collect(),
        );
        assert!(
            thinned(&curve.points, 100)
                .iter()
                .any(|point| point.value.is_nan())
        );
        // Points of an earlier start that come late are before those of the next.
        curve.append(
            StepRange::default(),
            vec![point(5.0, 1.0, 1), point(100_001.0, 1.0, 0)],
        );
        assert!(curve.points.is_sorted_by_key(|point| point.generation));
    }

    #[test]
    fn a_range_has_its_own_curve_and_the_oldest_goes() {
        let cache = CurveCache::default();
        let key = |series| CurveKey {
            run: RunKey(1),
            series,
            range: StepRange::default(),
        };
        let first = cache.curve(key(0));
        assert!(Arc::ptr_eq(&first, &cache.curve(key(0))));
        for series in 0..300 {
            cache.curve(key(series));
        }
        let curves = cache.curves.lock().unwrap();
        assert_eq!(curves.len(), CURVES_MAX);
        assert_eq!(curves[0].0, key(44));
        drop(curves);
        assert!(!Arc::ptr_eq(&first, &cache.curve(key(0))));
        let range = StepRange {
            from: 10.0,
            to: 20.0,
        };
        let mut curve = CachedCurve::default();
        curve.append(
            range,
            (0..100).map(|at| point(f64::from(at), 1.0, 0)).collect(),
        );
        assert_eq!(curve.points.len(), 11);
    }
}
