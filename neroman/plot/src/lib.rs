//! Draws curves of runs. A [`Plot`] has panels one above the other with a common x axis;
//! [`svg()`] and [`braille()`] make a picture of it, for files and for terminals.
//!
//! Both keep the smallest and the largest value of every column of the picture, so that no spike
//! is lost, and write names at the ends of curves: no meaning rests on a colour alone. Both
//! are functions of the plot and the size: no clock, no file, no terminal.

mod braille;
pub mod child;
mod palette;
mod scale;
mod svg;
mod thin;

use std::collections::BTreeSet;

use jiff::tz::TimeZone;

pub use braille::{TerminalSize, braille};
pub use svg::{PlotArea, Theme, plot_area, svg, svg_of_width};
pub use thin::by_column;

/// What a picture shows.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The common axis.
    pub x: HorizontalAxis,
    /// A logarithmic x axis, unless x is a time of day.
    pub log_across: bool,
    /// A logarithmic y axis.
    pub log: bool,
    /// Names of the curves; [`Curve::name`] is an index into them.
    pub names: Vec<CurveName>,
    /// One for each metric.
    pub panels: Vec<Panel>,
    /// Remarks below the picture.
    pub remarks: Vec<String>,
}

/// The meaning of x.
#[derive(Clone, Debug)]
pub enum HorizontalAxis {
    /// The step that the job printed.
    Step,
    /// Seconds since the run started.
    Runtime,
    /// Unix seconds, shown in a zone.
    Clock(TimeZone),
    /// Values of another series, of this name.
    Values(String),
}

/// The name of a curve, short and long.
#[derive(Clone, Debug)]
pub struct CurveName {
    /// At the end of the curve: `144.2`.
    pub short: String,
    /// In the legend, behind the short name: `lr=0.1`.
    pub long: String,
}

/// Curves with a common y axis.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What y is.
    pub title: String,
    /// The curves.
    pub curves: Vec<Curve>,
    /// Thresholds of rules.
    pub thresholds: Vec<Threshold>,
}

/// One curve.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Which of [`Plot::names`].
    pub name: usize,
    /// Its parts: a run that began again has several. A value that is not finite
    /// makes a gap.
    pub parts: Vec<Vec<CurvePoint>>,
    /// The spread around it.
    pub band: Vec<BandPoint>,
    /// Where rules fired.
    pub firings: Vec<CurvePoint>,
}

/// A point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// Across.
    pub x: f64,
    /// Up.
    pub y: f64,
}

/// The spread at one x.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BandPoint {
    /// Across.
    pub x: f64,
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// A threshold of a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// Its value.
    pub y: f64,
    /// The rule.
    pub rule: String,
}

/// Names of which a legend finds its columns.
const NAMES_MAX: usize = 100;
/// Lines of a legend.
const LINES_MAX: usize = 12;

/// As many points as a picture of this many columns can show, all spikes among them.
pub fn thinned(points: &[CurvePoint], columns: u32) -> Vec<CurvePoint> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Vec::new();
    };
    let wide = (last.x - first.x) / f64::from(columns);
    thin::points(points, |x| ((x - first.x) / wide) as i64)
}

impl Plot {
    /// What a panel cannot show, in words; empty if it shows everything.
    fn hidden(&self, panel: &Panel) -> String {
        let points = || (panel.curves.iter()).flat_map(|curve| curve.parts.iter().flatten());
        let count = |is: fn(f64) -> bool| points().filter(|point| is(point.y)).count();
        let not_above = if self.log {
            count(|y| y <= 0.0 && y.is_finite())
        } else {
            0
        };
        let counts = [
            (count(f64::is_nan), "NaN"),
            (count(f64::is_infinite), "infinite"),
            (not_above, "not above 0"),
        ];
        let words: Vec<String> = (counts.into_iter())
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        if words.is_empty() {
            String::new()
        } else {
            format!("not drawn: {}", words.join(", "))
        }
    }

    /// The names of curves that have a point, with their places, as many as a legend looks at.
    fn drawn(&self) -> Vec<(usize, &CurveName)> {
        let curves = self.panels.iter().flat_map(|panel| &panel.curves);
        let with_points = curves.filter(|curve| curve.parts.iter().any(|part| !part.is_empty()));
        let drawn: BTreeSet<usize> = with_points.map(|curve| curve.name).collect();
        let names = self.names.iter().enumerate();
        names
            .filter(|(at, _)| drawn.contains(at))
            .take(NAMES_MAX)
            .collect()
    }

    /// The line about the names that a legend does not have; `listed` are those that it has.
    fn unlisted(&self, listed: usize) -> Option<String> {
        let more = self.names.len().saturating_sub(listed);
        (more > 0).then(|| format!("… and {more} more"))
    }

    /// Whether curves need names.
    fn has_names(&self) -> bool {
        self.names.len() > 1 || self.names.iter().any(|name| !name.long.is_empty())
    }
}

impl Panel {
    /// Rules whose thresholds lie outside the picture.
    fn outside<'a>(&'a self, y: &'a scale::Scale) -> impl Iterator<Item = &'a Threshold> {
        let is_outside = |threshold: &&Threshold| !y.contains(threshold.y);
        self.thresholds.iter().filter(is_outside)
    }
}
