//! A plot as SVG: lines, text and nothing else, so that any program and any mail shows it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use nero_model::safe::Safe;

use crate::palette::{self, FEW_MAX, Rgb};
use crate::scale::{self, Scale};
use crate::{Curve, CurveName, LINES_MAX, Panel, Plot, thin};

/// The ground of a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Dark on white.
    #[default]
    Light,
    /// Light on near black.
    Dark,
}

/// The width of a picture in a file.
const WIDTH: f64 = 900.0;
const EDGE: f64 = 16.0;
const TITLE: f64 = 34.0;
const LINE: f64 = 17.0;
/// Size of the text.
const TEXT: f64 = 12.0;
/// The longest text beside a curve and in the legend, in characters.
const SHORT_MAX: usize = 24;
const LONG_MAX: usize = 100;

/// Draws a plot.
pub fn svg(plot: &Plot, theme: Theme) -> String {
    svg_of_width(plot, theme, WIDTH)
}

/// Draws a plot so wide.
pub fn svg_of_width(plot: &Plot, theme: Theme, wide: f64) -> String {
    let PictureLayout {
        x,
        panels,
        left,
        right,
        below,
    } = PictureLayout::new(plot, wide);
    let mut picture = Picture {
        plot,
        theme,
        wide,
        left,
        right,
        text: String::new(),
    };
    for panel in &panels {
        picture.panel(panel);
    }
    let mut y = below;
    if let Some(x) = x {
        picture.axis(x, y);
        y += 40.0;
    }
    let end = picture.legend(y + 10.0, &panels) + EDGE;
    let colors = picture.colors();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide}\" height=\"{end:.0}\" viewBox=\"0 0 {wide} {end:.0}\" font-family=\"DejaVu Sans, Verdana, sans-serif\" font-size=\"{TEXT}\" fill=\"{}\">\n<rect width=\"100%\" height=\"100%\" fill=\"{}\"/>\n{}</svg>\n",
        colors.text, colors.ground, picture.text
    )
}

/// The place of the first panel in a picture of this width; `None` without a point.
pub fn plot_area(plot: &Plot, wide: f64) -> Option<PlotArea> {
    let layout = PictureLayout::new(plot, wide);
    let panel = layout.panels.first()?;
    Some(PlotArea {
        left: layout.left,
        right: layout.right,
        top: panel.top,
        bottom: panel.bottom,
        x: layout.x?.ends(),
        y: panel.y?.ends(),
    })
}

/// The place of curves in a picture, in its pixels, and the values at the ends of both axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlotArea {
    /// The left edge.
    pub left: f64,
    /// The right edge.
    pub right: f64,
    /// The upper edge.
    pub top: f64,
    /// The lower edge.
    pub bottom: f64,
    /// The values at the left and the right edge.
    pub x: (f64, f64),
    /// The values at the lower and the upper edge.
    pub y: (f64, f64),
}

/// Where the parts of a picture are.
struct PictureLayout<'a> {
    x: Option<Scale>,
    panels: Vec<Frame<'a>>,
    left: f64,
    right: f64,
    /// The upper edge of what is below the panels.
    below: f64,
}

impl<'a> PictureLayout<'a> {
    fn new(plot: &'a Plot, wide: f64) -> Self {
        let x = scale::across(plot);
        let height = match plot.panels.len() {
            0 | 1 => 400.0,
            2 => 270.0,
            _ => 210.0,
        };
        let panels: Vec<Frame<'a>> = (plot.panels.iter().enumerate())
            .map(|(at, panel)| Frame::new(plot, panel, x, EDGE + height * at as f64, height))
            .collect();
        let marks = panels.iter().map(Frame::width_of_marks);
        let left = marks.fold(24.0, f64::max) + EDGE + 8.0;
        let names = match plot.names.len() {
            0 | 1 => 0.0,
            _ => {
                let names = plot.names.iter();
                let widths = names.map(|name| width(&cut(&name.short, SHORT_MAX)));
                widths.fold(0.0, f64::max) + 6.0
            }
        };
        Self {
            x,
            left,
            right: wide - EDGE - names,
            below: EDGE + height * panels.len() as f64,
            panels,
        }
    }
}

/// A panel and its place.
struct Frame<'a> {
    panel: &'a Panel,
    x: Option<Scale>,
    y: Option<Scale>,
    top: f64,
    bottom: f64,
    marks: Vec<scale::Tick>,
}

impl<'a> Frame<'a> {
    fn new(plot: &Plot, panel: &'a Panel, x: Option<Scale>, top: f64, height: f64) -> Self {
        let y = scale::up(plot, panel);
        let marks = y.map(|y| scale::ticks(y, (height / 40.0) as usize));
        Self {
            panel,
            x,
            y,
            top: top + TITLE,
            bottom: top + height,
            marks: marks.unwrap_or_default(),
        }
    }

    fn width_of_marks(&self) -> f64 {
        self.marks
            .iter()
            .map(|(_, text)| width(text))
            .fold(0.0, f64::max)
    }

    fn up(&self, y: f64) -> Option<f64> {
        let part = self.y?.part(y)?;
        Some(self.bottom - part.clamp(0.0, 1.0) * (self.bottom - self.top))
    }
}

/// The colours of what is no curve.
struct Colors {
    ground: &'static str,
    text: &'static str,
    faint: &'static str,
    grid: &'static str,
    rule: &'static str,
}

/// The picture so far.
struct Picture<'a> {
    plot: &'a Plot,
    theme: Theme,
    wide: f64,
    left: f64,
    right: f64,
    text: String,
}

impl Picture<'_> {
    fn colors(&self) -> Colors {
        match self.theme {
            Theme::Light => Colors {
                ground: "#ffffff",
                text: "#222222",
                faint: "#666666",
                grid: "#e4e4e4",
                rule: "#b3001b",
            },
            Theme::Dark => Colors {
                ground: "#16181c",
                text: "#e6e6e6",
                faint: "#a0a0a0",
                grid: "#33373d",
                rule: "#ff7a85",
            },
        }
    }

    fn color(&self, name: usize) -> String {
        let [red, green, blue]: Rgb = palette::color(self.theme, name, self.plot.names.len());
        format!("#{red:02x}{green:02x}{blue:02x}")
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a `String` cannot fail.
        let _ = self.text.write_fmt(element);
        self.text.push('\n');
    }

    fn across(&self, frame: &Frame<'_>, x: f64) -> Option<f64> {
        let part = frame.x?.part(x)?;
        Some(self.left + part * (self.right - self.left))
    }

    fn panel(&mut self, frame: &Frame<'_>) {
        let Colors { faint, grid, .. } = self.colors();
        let (left, right, top, bottom) = (self.left, self.right, frame.top, frame.bottom);
        let base = top - 10.0;
        let title = escaped(&cut(&frame.panel.title, LONG_MAX));
        self.put(format_args!("<text x=\"{left:.1}\" y=\"{base:.1}\" font-size=\"14\" font-weight=\"bold\">{title}</text>"));
        let hidden = self.plot.hidden(frame.panel);
        if !hidden.is_empty() {
            self.put(format_args!("<text x=\"{right:.1}\" y=\"{base:.1}\" text-anchor=\"end\" fill=\"{faint}\">{}</text>", escaped(&hidden)));
        }
        if let Some(x) = frame.x {
            for (value, _) in scale::ticks_across(&self.plot.x, x, MARKS_ACROSS) {
                if let Some(at) = self.across(frame, value) {
                    self.put(format_args!(
                        "<path d=\"M{at:.1} {top:.1}V{bottom:.1}\" stroke=\"{grid}\"/>"
                    ));
                }
            }
        }
        for (value, text) in &frame.marks {
            let Some(at) = frame.up(*value) else { continue };
            self.put(format_args!(
                "<path d=\"M{left:.1} {at:.1}H{right:.1}\" stroke=\"{grid}\"/>"
            ));
            self.put(format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{faint}\">{}</text>",
                left - 8.0,
                at + 4.0,
                escaped(text)
            ));
        }
        self.put(format_args!("<path d=\"M{left:.1} {top:.1}V{bottom:.1}H{right:.1}\" stroke=\"{faint}\" fill=\"none\"/>"));
        if frame.y.is_none() {
            self.put(format_args!("<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{faint}\">no points</text>", f64::midpoint(left, right), f64::midpoint(top, bottom)));
            return;
        }
        for curve in &frame.panel.curves {
            self.band(frame, curve);
        }
        self.thresholds(frame);
        for curve in &frame.panel.curves {
            self.curve(frame, curve);
        }
        for curve in &frame.panel.curves {
            self.firings(frame, curve);
        }
        if self.plot.names.len() > 1 {
            self.ends(frame);
        }
    }

    fn band(&mut self, frame: &Frame<'_>, curve: &Curve) {
        let column = |x: f64| self.across(frame, x).map_or(-1, |x| x as i64);
        let points = thin::band(&curve.band, column);
        let at = |x: f64, y: f64| {
            // What a logarithm lacks lies below the picture.
            let up = frame.up(y).unwrap_or(frame.bottom);
            Some(format!("{:.1} {up:.1}", self.across(frame, x)?))
        };
        let upper = points.iter().filter_map(|point| at(point.x, point.high));
        let lower = points
            .iter()
            .rev()
            .filter_map(|point| at(point.x, point.low));
        let all: Vec<String> = upper.chain(lower).collect();
        if all.len() > 2 {
            let color = self.color(curve.name);
            self.put(format_args!(
                "<path d=\"M{}Z\" fill=\"{color}\" fill-opacity=\"0.18\"/>",
                all.join("L")
            ));
        }
    }

    fn curve(&mut self, frame: &Frame<'_>, curve: &Curve) {
        let color = self.color(curve.name);
        // Many thin curves show through one another.
        let (width, opacity) = if self.plot.names.len() <= FEW_MAX {
            (1.8, 1.0)
        } else {
            (1.2, 0.75)
        };
        let (mut lines, mut dots) = (String::new(), Vec::new());
        for part in &curve.parts {
            // A pixel of the picture at twice its size.
            let column = |x: f64| self.across(frame, x).map_or(-1, |x| (x * 2.0) as i64);
            for piece in thin::pieces(part, self.plot.log) {
                let points = thin::points(piece, column);
                let place = |point: &crate::CurvePoint| {
                    Some((self.across(frame, point.x)?, frame.up(point.y)?))
                };
                let places: Vec<_> = points.iter().filter_map(place).collect();
                if let [one] = places[..] {
                    dots.push(one);
                }
                for (index, (x, y)) in places.iter().enumerate().filter(|_| places.len() > 1) {
                    let sign = if index == 0 { 'M' } else { 'L' };
                    let _ = write!(lines, "{sign}{x:.1} {y:.1}");
                }
            }
        }
        if !lines.is_empty() {
            self.put(format_args!("<path d=\"{lines}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\" stroke-opacity=\"{opacity}\" stroke-linejoin=\"round\"/>"));
        }
        for (x, y) in dots {
            self.put(format_args!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{color}\"/>"
            ));
        }
        let lost = curve
            .parts
            .iter()
            .flatten()
            .filter(|point| !point.y.is_finite());
        let places: BTreeSet<i64> = lost
            .filter_map(|point| Some(self.across(frame, point.x)? as i64))
            .collect();
        for x in places {
            let (x, y) = (x as f64, frame.top + 4.0);
            self.put(format_args!(
                "<path d=\"M{:.1} {:.1}l6 6m0 -6l-6 6\" stroke=\"{color}\"/>",
                x - 3.0,
                y - 3.0
            ));
        }
    }

    fn thresholds(&mut self, frame: &Frame<'_>) {
        let rule = self.colors().rule;
        let seen: BTreeSet<i64> = (frame.panel.thresholds.iter())
            .filter(|threshold| frame.y.is_some_and(|y| y.contains(threshold.y)))
            .filter_map(|threshold| Some((frame.up(threshold.y)? * 10.0) as i64))
            .collect();
        for y in seen {
            let (left, right, y) = (self.left, self.right, y as f64 / 10.0);
            self.put(format_args!("<path d=\"M{left:.1} {y:.1}H{right:.1}\" stroke=\"{rule}\" stroke-dasharray=\"6 4\"/>"));
        }
    }

    fn firings(&mut self, frame: &Frame<'_>, curve: &Curve) {
        let Colors { rule, ground, .. } = self.colors();
        for firing in &curve.firings {
            let place = self.across(frame, firing.x).zip(frame.up(firing.y));
            let Some((x, y)) = place else { continue };
            self.put(format_args!(
                "<path d=\"M{x:.1} {:.1}l5 5l-5 5l-5 -5Z\" fill=\"{rule}\" stroke=\"{ground}\"/>",
                y - 5.0
            ));
        }
    }

    /// Names at the right of the curves, none above another; where there is no room for
    /// all, some.
    fn ends(&mut self, frame: &Frame<'_>) {
        let ends = frame.panel.curves.iter().filter_map(|curve| {
            let points = curve.parts.iter().rev().flat_map(|part| part.iter().rev());
            let last = points.filter_map(|point| frame.up(point.y)).next();
            Some((last?, curve.name))
        });
        let mut ends: Vec<(f64, usize)> = ends.collect();
        ends.sort_by(|one, other| one.0.total_cmp(&other.0));
        let room = frame.bottom - frame.top;
        let fits = ends.len() as f64 * (TEXT + 1.0) <= room;
        let mut next = f64::NEG_INFINITY;
        let mut placed = Vec::new();
        for (y, name) in ends {
            if y < next && !fits {
                continue;
            }
            let y = y.max(next).max(frame.top + TEXT / 2.0);
            next = y + TEXT + 1.0;
            placed.push((y, name));
        }
        // What was pushed below the panel goes up again.
        let mut limit = frame.bottom - 4.0;
        for (y, _) in placed.iter_mut().rev() {
            *y = y.min(limit);
            limit = *y - TEXT - 1.0;
        }
        for (y, name) in placed {
            let (x, color) = (self.right + 6.0, self.color(name));
            let short = escaped(&cut(&self.plot.names[name].short, SHORT_MAX));
            self.put(format_args!(
                "<text x=\"{x:.1}\" y=\"{:.1}\" fill=\"{color}\">{short}</text>",
                y + 4.0
            ));
        }
    }

    fn axis(&mut self, x: Scale, y: f64) {
        let faint = self.colors().faint;
        let (left, right) = (self.left, self.right);
        for (value, text) in scale::ticks_across(&self.plot.x, x, MARKS_ACROSS) {
            let Some(part) = x.part(value) else { continue };
            let at = left + part * (right - left);
            self.put(format_args!(
                "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{faint}\">{}</text>",
                y + 17.0,
                escaped(&text)
            ));
        }
        let title = escaped(&scale::title_across(&self.plot.x, x));
        self.put(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{title}</text>",
            f64::midpoint(left, right),
            y + 36.0
        ));
    }

    /// Names, rules and remarks below the picture; returns where they end.
    fn legend(&mut self, top: f64, panels: &[Frame<'_>]) -> f64 {
        let mut y = top;
        if self.plot.has_names() {
            let plot = self.plot;
            let drawn = plot.drawn();
            let short = |name: &CurveName| cut(&name.short, SHORT_MAX);
            let wide = drawn.iter().map(|(_, name)| width(&short(name)));
            let short_wide = wide.fold(0.0, f64::max);
            let room = self.wide - 2.0 * EDGE - 56.0 - short_wide;
            let long_max = ((room / width("x")) as usize).clamp(8, LONG_MAX);
            let mut names: Vec<(usize, String, String)> = (drawn.iter())
                .map(|(at, name)| (*at, short(name), cut(&name.long, long_max)))
                .collect();
            let long = names.iter().map(|name| width(&name.2)).fold(0.0, f64::max);
            let wide = 34.0 + short_wide + 8.0 + long + 14.0;
            let columns = (((self.wide - 2.0 * EDGE) / wide) as usize).max(1);
            names.truncate(columns * LINES_MAX);
            let more = plot.unlisted(names.len());
            let rows = names.len().div_ceil(columns).max(1);
            for (index, (at, name, words)) in names.iter().enumerate() {
                let x = EDGE + (index / rows) as f64 * wide;
                let y = y + (index % rows) as f64 * LINE + LINE;
                let (color, faint) = (self.color(*at), self.colors().faint);
                self.put(format_args!(
                    "<path d=\"M{x:.1} {:.1}h22\" stroke=\"{color}\" stroke-width=\"3\"/>",
                    y - 4.0
                ));
                self.put(format_args!(
                    "<text x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
                    x + 28.0,
                    escaped(name)
                ));
                self.put(format_args!(
                    "<text x=\"{:.1}\" y=\"{y:.1}\" fill=\"{faint}\">{}</text>",
                    x + 36.0 + short_wide,
                    escaped(words)
                ));
            }
            y += rows as f64 * LINE;
            if let Some(more) = more {
                y += LINE;
                self.put(format_args!(
                    "<text x=\"{EDGE}\" y=\"{y:.1}\">{more}</text>"
                ));
            }
        }
        let rule = self.colors().rule;
        for (words, dash) in rule_words(panels.iter().map(|frame| (frame.panel, frame.y))) {
            y += LINE;
            if dash {
                self.put(format_args!(
                    "<path d=\"M{EDGE} {:.1}h22\" stroke=\"{rule}\" stroke-dasharray=\"6 4\"/>",
                    y - 4.0
                ))
            } else {
                self.put(format_args!(
                    "<path d=\"M{} {:.1}l5 5l-5 5l-5 -5Z\" fill=\"{rule}\"/>",
                    EDGE + 11.0,
                    y - 9.0
                ))
            }
            self.put(format_args!(
                "<text x=\"{}\" y=\"{y:.1}\">{}</text>",
                EDGE + 28.0,
                escaped(&cut(&words, LONG_MAX))
            ));
        }
        let faint = self.colors().faint;
        for remark in &self.plot.remarks {
            y += LINE;
            self.put(format_args!(
                "<text x=\"{EDGE}\" y=\"{y:.1}\" fill=\"{faint}\">{}</text>",
                escaped(&cut(remark, LONG_MAX + 20))
            ));
        }
        y
    }
}

/// Marks of the x axis.
const MARKS_ACROSS: usize = 8;

/// What the legend has of rules: their lines, whether dashed or the sign of a firing.
pub(crate) fn rule_words<'a>(
    panels: impl Iterator<Item = (&'a Panel, Option<Scale>)>,
) -> Vec<(String, bool)> {
    let (mut words, mut fired): (Vec<(String, bool)>, bool) = (Vec::new(), false);
    for (panel, y) in panels {
        let outside: Vec<_> = y.iter().flat_map(|y| panel.outside(y)).collect();
        for threshold in &panel.thresholds {
            let place = if outside.contains(&threshold) {
                " (outside the picture)"
            } else {
                ""
            };
            let line = (format!("{}{place}", threshold.rule), true);
            if !words.contains(&line) {
                words.push(line);
            }
        }
        fired |= panel.curves.iter().any(|curve| !curve.firings.is_empty());
    }
    words.extend(fired.then(|| ("firing of a rule".to_owned(), false)));
    words
}

/// About how wide a text is.
fn width(text: &str) -> f64 {
    text.chars().count() as f64 * TEXT * 0.62
}

/// The beginning of a long text.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most - 1).chain(['…']).collect(),
    }
}

/// Text that is neither markup nor a character that XML lacks.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in Safe::line(text).to_string().chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
