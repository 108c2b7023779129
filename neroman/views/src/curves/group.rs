//! The mean and the spread of the runs of a group.

use nero_plot::{BandPoint, Curve, CurvePoint, thinned};
use nero_wire::v1::metrics_reply::Series;

use super::Spread;
use crate::results::ResultGroup;

/// Points of a run beyond which it is thinned before the mean: several times what any picture
/// has columns.
const POINTS_MAX: usize = 20_000;
const COLUMNS: u32 = 4000;

/// One curve for each group that has series.
pub(super) fn curves(
    groups: &[ResultGroup],
    series: &[&Series],
    parts: &[Vec<Vec<CurvePoint>>],
    band: Spread,
) -> Vec<Curve> {
    let of_group = |(name, group): (usize, &ResultGroup)| {
        let members = series
            .iter()
            .zip(parts)
            .filter(|(one, _)| group.ids.contains(&one.experiment));
        let members: Vec<Vec<CurvePoint>> = members.map(|(_, parts)| member(parts)).collect();
        (!members.is_empty()).then(|| mean(name, &members, band))
    };
    groups.iter().enumerate().filter_map(of_group).collect()
}

/// The points of a run by x; of two at one x the later: it was counted anew. What is not finite is left
/// out.
fn member(parts: &[Vec<CurvePoint>]) -> Vec<CurvePoint> {
    let mut points: Vec<CurvePoint> = Vec::new();
    let mut all: Vec<CurvePoint> = parts.concat();
    all.retain(|point| point.x.is_finite() && point.y.is_finite());
    all.sort_by(|one, other| one.x.total_cmp(&other.x));
    for point in all {
        match points.last_mut().filter(|last| last.x == point.x) {
            Some(last) => *last = point,
            None => points.push(point),
        }
    }
    if points.len() > POINTS_MAX {
        thinned(&points, COLUMNS)
    } else {
        points
    }
}

/// At each x that one of them has: the mean of those that have begun and not ended there, a
/// straight line between their points.
fn mean(name: usize, members: &[Vec<CurvePoint>], band: Spread) -> Curve {
    let mut across: Vec<f64> = members.iter().flatten().map(|point| point.x).collect();
    across.sort_by(f64::total_cmp);
    across.dedup();
    let mut next = vec![0; members.len()];
    let mut curve = Curve {
        name,
        parts: vec![Vec::new()],
        ..Curve::default()
    };
    let mut values = Vec::new();
    for x in across {
        values.clear();
        for (member, next) in members.iter().zip(&mut next) {
            while member.get(*next).is_some_and(|point| point.x < x) {
                *next += 1;
            }
            values.extend(between(member, *next, x));
        }
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        curve.parts[0].push(CurvePoint { x, y: mean });
        if values.len() > 1 {
            let (low, high) = ends(&values, mean, band);
            curve.band.push(BandPoint { x, low, high });
        }
    }
    curve
}

/// The value at `x`, which is not right of the point `next`.
fn between(member: &[CurvePoint], next: usize, x: f64) -> Option<f64> {
    let right = member.get(next)?;
    if right.x == x {
        return Some(right.y);
    }
    let left = member.get(next.checked_sub(1)?)?;
    let share = (x - left.x) / (right.x - left.x);
    Some(left.y * (1.0 - share) + right.y * share)
}

fn ends(values: &[f64], mean: f64, band: Spread) -> (f64, f64) {
    match band {
        Spread::Deviation => {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let deviation = (squares / (values.len() - 1) as f64).sqrt();
            let low = mean - deviation;
            // Losses, rates and times have none below 0.
            let is_negative = values.iter().any(|value| *value < 0.0);
            (
                if is_negative { low } else { low.max(0.0) },
                mean + deviation,
            )
        }
        Spread::Range => (
            values.iter().copied().fold(f64::INFINITY, f64::min),
            values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        ),
    }
}
