//! As many points as a picture has columns, without losing a spike.

use crate::{BandPoint, CurvePoint};

/// Keeps of each column the first, the lowest, the highest and the last point, in their
/// order. Columns are what `column` makes of x.
pub(crate) fn points(points: &[CurvePoint], column: impl Fn(f64) -> i64) -> Vec<CurvePoint> {
    by_column(points, |point| column(point.x), |point| point.y)
}

/// The same of points of any kind. Points that follow one another and have an equal `column` are
/// one column; `height` is what is lowest and highest.
pub fn by_column<P: Copy, C: PartialEq>(
    points: &[P],
    column: impl Fn(&P) -> C,
    height: impl Fn(&P) -> f64,
) -> Vec<P> {
    let mut kept = Vec::new();
    for group in points.chunk_by(|one, other| column(one) == column(other)) {
        let index = |order: fn(f64, f64) -> bool| {
            let mut best = 0;
            for (at, point) in group.iter().enumerate() {
                if order(height(point), height(&group[best])) {
                    best = at;
                }
            }
            best
        };
        let mut at = [
            0,
            index(|one, best| one < best),
            index(|one, best| one > best),
            group.len() - 1,
        ];
        at.sort_unstable();
        let mut last = None;
        for at in at {
            if last.replace(at) != Some(at) {
                kept.push(group[at]);
            }
        }
    }
    kept
}

/// The pieces of a part between values that have no place in the picture.
pub(crate) fn pieces(part: &[CurvePoint], log: bool) -> impl Iterator<Item = &[CurvePoint]> {
    let has_place = move |point: &CurvePoint| point.y.is_finite() && (!log || point.y > 0.0);
    let pieces = part.split(move |point| !has_place(point));
    pieces.filter(|piece| !piece.is_empty())
}

/// The same for a band: the lowest and the highest of each column.
pub(crate) fn band(band: &[BandPoint], column: impl Fn(f64) -> i64) -> Vec<BandPoint> {
    band.chunk_by(|one, other| column(one.x) == column(other.x))
        .map(|group| BandPoint {
            x: group[0].x,
            low: group
                .iter()
                .map(|point| point.low)
                .fold(f64::INFINITY, f64::min),
            high: (group.iter().map(|point| point.high)).fold(f64::NEG_INFINITY, f64::max),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spike_among_a_million_points_is_kept() {
        let mut all: Vec<CurvePoint> = (0..1_000_000)
            .map(|x| CurvePoint {
                x: f64::from(x),
                y: 1.0,
            })
            .collect();
        all[654_321].y = 9.0;
        all[123_456].y = -9.0;
        let kept = points(&all, |x| (x / 1000.0) as i64);
        assert!(kept.len() <= 4000, "{}", kept.len());
        for x in [654_321, 123_456, 0, 999_999] {
            assert!(kept.contains(&all[x]), "{x}");
        }
        assert!(kept.is_sorted_by(|one, other| one.x < other.x));
    }
}
