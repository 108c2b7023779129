//! Ranges of axes, and the values that are written beside them.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::{HorizontalAxis, Panel, Plot};

/// The range of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    log: bool,
}

/// A mark of an axis with its text.
pub(crate) type Tick = (f64, String);

impl Scale {
    /// The range of these values; one that is not finite, or not above 0 on a logarithmic
    /// axis, has no place.
    fn around(values: impl Iterator<Item = f64>, log: bool) -> Option<Self> {
        let values = values.filter(|value| value.is_finite() && (!log || *value > 0.0));
        let range = values.fold(None, |range, value| match range {
            None => Some((value, value)),
            Some((low, high)) => Some((f64::min(low, value), f64::max(high, value))),
        });
        range.map(|(low, high)| Self { low, high, log })
    }

    /// Widens the range by this share on both sides; that of a single value to
    /// something that can be seen.
    fn padded(self, share: f64) -> Self {
        let (low, high) = (self.flat(self.low), self.flat(self.high));
        let by = match high - low {
            0.0 if self.log || low == 0.0 => 1.0,
            0.0 => low.abs() * 0.1,
            // Two halves, since the difference itself may be infinite.
            // Distances that are smaller cannot be written at marks.
            _ => (high * share - low * share)
                .max(low.abs().max(high.abs()) * 1e-9)
                .max(1e-290),
        };
        let (low, high) = (low - by, high + by);
        let back = |value: f64| {
            if self.log {
                10_f64.powf(value).clamp(f64::MIN_POSITIVE, f64::MAX)
            } else {
                value.clamp(f64::MIN, f64::MAX)
            }
        };
        Self {
            low: back(low),
            high: back(high),
            log: self.log,
        }
    }

    fn flat(self, value: f64) -> f64 {
        if self.log { value.log10() } else { value }
    }

    /// The lowest and the highest value.
    pub fn ends(self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Where a value lies: 0 at the low end, 1 at the high end.
    pub fn part(self, value: f64) -> Option<f64> {
        if !value.is_finite() || self.log && value <= 0.0 {
            return None;
        }
        let (low, high) = (self.flat(self.low) / 2.0, self.flat(self.high) / 2.0);
        let part = (self.flat(value) / 2.0 - low) / (high - low);
        part.is_finite().then_some(part)
    }

    /// Whether a value has a place in the picture.
    pub fn contains(self, value: f64) -> bool {
        self.part(value)
            .is_some_and(|part| (0.0..=1.0).contains(&part))
    }
}

/// The x axis of all panels; a plot without a point has none. Values that have no place in the
/// picture belong to it: a run did not end where it became NaN.
pub(crate) fn across(plot: &Plot) -> Option<Scale> {
    let range = range_across(plot)?;
    if range.low < range.high {
        return Some(range);
    }
    // Less than one step or second on both sides, or what a number of this size can tell apart.
    let by = (range.low.abs() * 1e-6).max(0.4);
    Some(Scale {
        low: range.low - by,
        high: range.high + by,
        log: range.log && range.low > by,
    })
}

/// Whether all points have the same x.
pub(crate) fn has_one_x(plot: &Plot) -> bool {
    range_across(plot).is_some_and(|range| range.low == range.high)
}

fn range_across(plot: &Plot) -> Option<Scale> {
    let curves = plot.panels.iter().flat_map(|panel| &panel.curves);
    let points = curves.flat_map(|curve| curve.parts.iter().flatten());
    let is_log = plot.log_across && !matches!(plot.x, HorizontalAxis::Clock(_));
    Scale::around(points.map(|point| point.x), is_log)
}

/// The y axis of a panel. Bands belong to it, but for ends near 0 of a logarithm; thresholds, too, unless they
/// would press the curves flat.
pub(crate) fn up(plot: &Plot, panel: &Panel) -> Option<Scale> {
    let points = || (panel.curves.iter()).flat_map(|curve| curve.parts.iter().flatten());
    let range = Scale::around(points().map(|point| point.y), plot.log)?;
    let with = |range: Scale, more: &mut dyn Iterator<Item = f64>| {
        Scale::around([range.low, range.high].into_iter().chain(more), plot.log)
    };
    let near = range.padded(0.5);
    let bands = || panel.curves.iter().flat_map(|curve| &curve.band);
    let ends = bands().flat_map(|point| [point.low, point.high]);
    let range = if plot.log {
        with(range, &mut ends.filter(|y| near.contains(*y)))?
    } else {
        with(range, &mut { ends })?
    };
    let near = range.padded(0.5);
    let thresholds = panel.thresholds.iter().map(|threshold| threshold.y);
    let all = with(range, &mut thresholds.filter(|y| near.contains(*y)))?;
    Some(all.padded(0.05))
}

/// At most about `most` marks at 1, 2 and 5 times powers of ten.
pub(crate) fn ticks(scale: Scale, most: usize) -> Vec<Tick> {
    let decades = scale.flat(scale.high) - scale.flat(scale.low);
    if !scale.log || decades < 1.0 {
        return even(scale, step(scale, most, &[1.0, 2.0, 5.0, 10.0]));
    }
    let (first, last) = (
        scale.low.log10().floor() as i32,
        scale.high.log10().ceil() as i32,
    );
    let each = ((last - first) as usize / most.max(1) + 1) as i32;
    let within: &[f64] = if decades * 3.0 <= most as f64 {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0]
    };
    (first..=last)
        .filter(|power| power.rem_euclid(each) == 0)
        .flat_map(|power| within.iter().map(move |factor| factor * 10_f64.powi(power)))
        .filter(|value| scale.contains(*value))
        .map(|value| (value, number(value, value)))
        .collect()
}

/// The marks of the x axis.
pub(crate) fn ticks_across(axis: &HorizontalAxis, scale: Scale, most: usize) -> Vec<Tick> {
    match axis {
        HorizontalAxis::Step | HorizontalAxis::Runtime if scale.log => ticks(scale, most),
        // Steps are whole numbers.
        HorizontalAxis::Step => even(scale, step(scale, most, &[1.0, 2.0, 5.0, 10.0]).max(1.0)),
        HorizontalAxis::Values(_) => ticks(scale, most),
        HorizontalAxis::Runtime => {
            let step = step_of_time(scale, most);
            let values = multiples(scale, step, 0.0);
            values.map(|value| (value, duration(value, step))).collect()
        }
        HorizontalAxis::Clock(zone) => {
            // The clock shows no parts of seconds.
            let step = step_of_time(scale, most).max(1.0);
            let offset = moment(scale.low, zone).map_or(0, |zoned| zoned.offset().seconds());
            let values = multiples(scale, step, f64::from(offset));
            values
                .filter_map(|value| Some((value, clock(value, step, zone)?)))
                .collect()
        }
    }
}

/// What x is, in words.
pub(crate) fn title_across(axis: &HorizontalAxis, scale: Scale) -> String {
    match axis {
        HorizontalAxis::Step => "step".into(),
        HorizontalAxis::Values(name) => name.clone(),
        HorizontalAxis::Runtime => "time since the start".into(),
        HorizontalAxis::Clock(zone) => {
            let day = |at| moment(at, zone).map(|at| at.strftime("%Y-%m-%d").to_string());
            match (day(scale.low), day(scale.high)) {
                (Some(first), Some(last)) if first == last => first,
                (Some(first), Some(last)) => format!("{first} to {last}"),
                _ => "clock".into(),
            }
        }
    }
}

fn moment(seconds: f64, zone: &TimeZone) -> Option<jiff::Zoned> {
    let at = Timestamp::from_second(seconds.floor() as i64).ok()?;
    Some(at.to_zoned(zone.clone()))
}

/// The distance of marks: the smallest of these, times a power of ten, that makes few enough.
fn step(scale: Scale, most: usize, of: &[f64]) -> f64 {
    let rough = scale.high / most.max(1) as f64 - scale.low / most.max(1) as f64;
    let power = 10_f64.powi(rough.log10().floor() as i32);
    let fits = |factor: &&f64| **factor * power >= rough * 0.999;
    of.iter()
        .find(fits)
        .map_or(10.0 * power, |factor| factor * power)
}

fn step_of_time(scale: Scale, most: usize) -> f64 {
    const STEPS: [f64; 18] = [
        1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0,
        10800.0, 21600.0, 43200.0, 86400.0,
    ];
    let rough = (scale.high - scale.low) / most.max(1) as f64;
    let days = |scale: Scale| Scale {
        low: scale.low / 86400.0,
        high: scale.high / 86400.0,
        log: false,
    };
    match STEPS.into_iter().find(|step| *step >= rough) {
        Some(1.0) => step(scale, most, &[1.0, 2.0, 5.0, 10.0]),
        Some(step) => step,
        None => 86400.0 * step(days(scale), most, &[1.0, 2.0, 5.0, 10.0]),
    }
}

fn multiples(scale: Scale, step: f64, offset: f64) -> impl Iterator<Item = f64> {
    let first = ((scale.low + offset) / step).ceil();
    let last = ((scale.high + offset) / step).floor();
    // No axis has room for more.
    let count = (last - first).clamp(-1.0, 200.0) as i64 + 1;
    (0..count).map(move |at| (first + at as f64) * step - offset)
}

fn even(scale: Scale, step: f64) -> Vec<Tick> {
    multiples(scale, step, 0.0)
        // `-0` is 0.
        .map(|value| (value + 0.0, number(value + 0.0, step)))
        .collect()
}

/// A number with as many digits as a distance needs.
fn number(value: f64, step: f64) -> String {
    let size = value.abs().max(step.abs());
    if value == 0.0 {
        return "0".into();
    }
    if !(1e-4..1e6).contains(&size) {
        let digits = (value.abs().log10().floor() - step.abs().log10().floor()).max(0.0);
        let text = format!("{value:.*e}", digits as usize);
        return match text.split_once('e') {
            // Like 1.50e7.
            Some((front, power)) if front.contains('.') => {
                format!(
                    "{}e{power}",
                    front.trim_end_matches('0').trim_end_matches('.')
                )
            }
            _ => text,
        };
    }
    let decimals = (-step.abs().log10().floor()).clamp(0.0, 12.0) as usize;
    format!("{value:.decimals$}")
}

fn duration(seconds: f64, step: f64) -> String {
    let with = |unit: f64, name: &str| format!("{} {name}", number(seconds / unit, step / unit));
    if seconds == 0.0 {
        "0".into()
    } else if step % 86400.0 == 0.0 {
        with(86400.0, "d")
    } else if step % 3600.0 == 0.0 {
        with(3600.0, "h")
    } else if step % 60.0 == 0.0 {
        if seconds.abs() >= 3600.0 {
            format!(
                "{}:{:02} h",
                (seconds / 3600.0) as i64,
                (seconds / 60.0) as i64 % 60
            )
        } else {
            with(60.0, "min")
        }
    } else if seconds.abs() >= 60.0 && step >= 1.0 {
        format!("{}:{:02} min", (seconds / 60.0) as i64, seconds as i64 % 60)
    } else {
        with(1.0, "s")
    }
}

fn clock(seconds: f64, step: f64, zone: &TimeZone) -> Option<String> {
    let at = moment(seconds + 1e-6, zone)?;
    let is_midnight = at.hour() == 0 && at.minute() == 0 && at.second() == 0;
    let form = match (step, is_midnight) {
        (86400.0.., _) | (60.0.., true) => "%b %-d",
        (60.0.., false) => "%H:%M",
        _ => "%H:%M:%S",
    };
    Some(at.strftime(form).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(low: f64, high: f64, log: bool, most: usize) -> Vec<String> {
        let scale = Scale { low, high, log };
        ticks(scale, most).into_iter().map(|tick| tick.1).collect()
    }

    #[test]
    fn marks_stand_at_1_2_and_5() {
        assert_eq!(
            texts(0.0, 1.0, false, 5),
            ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"].map(|text| if text == "0.0" {
                "0"
            } else {
                text
            })
        );
        assert_eq!(texts(-3.0, 7.0, false, 4), ["0", "5"]);
        assert_eq!(
            texts(0.0, 5e7, false, 5),
            ["0", "1e7", "2e7", "3e7", "4e7", "5e7"]
        );
        assert_eq!(texts(1e-9, 2e-9, false, 2), ["1e-9", "1.5e-9", "2e-9"]);
    }

    #[test]
    fn a_logarithmic_axis_has_marks_at_powers_of_ten() {
        assert_eq!(
            texts(0.01, 100.0, true, 6),
            ["0.01", "0.1", "1", "10", "100"]
        );
        assert_eq!(texts(0.9, 12.0, true, 6), ["1", "2", "5", "10"]);
        assert_eq!(texts(1e-12, 1e12, true, 5).len(), 5);
        assert!(texts(2.0, 3.0, true, 5).len() > 2);
    }

    #[test]
    fn any_range_has_few_marks_inside() {
        for (low, high) in [
            (f64::MIN, f64::MAX),
            (1e300, 1.1e300),
            (5e-324, 1e-323),
            (1.0, 1.0 + f64::EPSILON),
            (-1e-300, 1e300),
        ] {
            let scale = Scale {
                low,
                high,
                log: false,
            }
            .padded(0.05);
            for (value, text) in ticks(scale, 6) {
                assert!(
                    scale.contains(value) && text.len() < 24,
                    "{low} {high}: {text}"
                );
            }
        }
    }

    #[test]
    fn time_has_marks_of_minutes_and_hours() {
        let of = |high: f64| {
            let scale = Scale {
                low: 0.0,
                high,
                log: false,
            };
            let ticks = ticks_across(&HorizontalAxis::Runtime, scale, 5);
            ticks.into_iter().map(|tick| tick.1).collect::<Vec<_>>()
        };
        assert_eq!(of(50.0), ["0", "10 s", "20 s", "30 s", "40 s", "50 s"]);
        assert_eq!(of(90.0), ["0", "30 s", "1:00 min", "1:30 min"]);
        assert_eq!(of(5400.0), ["0", "30 min", "1:00 h", "1:30 h"]);
        assert_eq!(of(40.0 * 3600.0), ["0", "12 h", "24 h", "36 h"]);
        assert_eq!(of(0.5), ["0", "0.1 s", "0.2 s", "0.3 s", "0.4 s", "0.5 s"]);
    }

    #[test]
    fn the_clock_has_marks_in_its_zone() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let noon = 1_795_521_600.0;
        let scale = Scale {
            low: noon,
            high: noon + 20.0 * 3600.0,
            log: false,
        };
        let ticks = ticks_across(&HorizontalAxis::Clock(zone), scale, 4);
        let texts: Vec<_> = ticks.into_iter().map(|tick| tick.1).collect();
        assert_eq!(texts, ["18:00", "Nov 25", "06:00"]);
    }
}
