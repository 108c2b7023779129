//! Points of series.

use nero_wire::v1::metrics_reply::Series;

/// One point; a step that the series lacks is unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesPoint {
    /// The step.
    pub step: Option<f64>,
    /// The value.
    pub value: f64,
    /// When it was printed, in milliseconds since 1970; 0 is unknown.
    pub time_ms: i64,
    /// Counts how often the step fell back.
    pub segment: u32,
}

/// The points of a series as they came.
pub fn points(series: &Series) -> impl Iterator<Item = SeriesPoint> {
    let values = series.values.iter().enumerate();
    values.map(|(at, value)| SeriesPoint {
        step: series.steps.get(at).copied(),
        value: *value,
        time_ms: series.times_ms.get(at).copied().unwrap_or(0),
        segment: series.generation.get(at).copied().unwrap_or(0),
    })
}

/// Some of one run's points of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct ThinSeries {
    /// The experiment.
    pub experiment: u64,
    /// The run.
    pub run: u32,
    /// The metric.
    pub name: String,
    /// The points that are kept.
    pub points: Vec<SeriesPoint>,
    /// How many there were.
    pub count: usize,
}

impl ThinSeries {
    /// Keeps at most so many points of a series: of each part the smallest and the largest value,
    /// so that no spike is lost, and its ends.
    pub fn of(series: &Series, points_max: usize) -> Self {
        let all: Vec<SeriesPoint> = points(series).collect();
        let count = all.len();
        Self {
            experiment: series.experiment,
            run: series.run,
            name: series.name.clone(),
            points: thin(all, points_max),
            count,
        }
    }
}

fn thin(all: Vec<SeriesPoint>, points_max: usize) -> Vec<SeriesPoint> {
    if all.len() <= points_max {
        return all;
    }
    let (Some(first), Some(last)) = (all.first().copied(), all.last().copied()) else {
        return all;
    };
    let inner = &all[1..all.len() - 1];
    let parts = (points_max.saturating_sub(2) / 2).max(1);
    let mut kept = vec![first];
    for part in inner.chunks(inner.len().div_ceil(parts)) {
        let place = |wanted: &dyn Fn(f64, f64) -> bool| {
            (1..part.len()).fold(0, |best, at| {
                let (value, than) = (part[at].value, part[best].value);
                if wanted(value, than) || than.is_nan() {
                    at
                } else {
                    best
                }
            })
        };
        let ends = [
            place(&|one, other| one < other),
            place(&|one, other| one > other),
        ];
        kept.push(part[ends[0].min(ends[1])]);
        if ends[0] != ends[1] {
            kept.push(part[ends[0].max(ends[1])]);
        }
    }
    kept.push(last);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_spike_is_lost_and_both_ends_stay() {
        let mut series = Series {
            values: (0..100_000).map(|at| f64::from(at % 7)).collect(),
            ..Series::default()
        };
        series.values[41_234] = 1e6;
        series.values[77_001] = -1e6;
        series.values[500] = f64::NAN;
        let thin = ThinSeries::of(&series, 1000);
        assert!(thin.points.len() <= 1000, "{}", thin.points.len());
        assert_eq!(thin.count, 100_000);
        let values: Vec<f64> = thin.points.iter().map(|point| point.value).collect();
        assert!(values.contains(&1e6) && values.contains(&-1e6));
        assert_eq!(
            (values[0], values[values.len() - 1]),
            (0.0, f64::from(99_999 % 7))
        );
        let short = ThinSeries::of(&series, 100_000);
        assert_eq!(short.points.len(), 100_000);
    }
}
