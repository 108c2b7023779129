//! Curves: the picture of `nero-plot`, and its points for the read-out below the pointer.

use axum::extract::{RawQuery, State};
use nero_plot::{
    BandPoint, Curve, CurvePoint, HorizontalAxis, Plot, Theme, plot_area, svg_of_width, thinned,
};
use nero_views::curves::{self, Spread, WantedCurves, clock_here};
use nero_views::{json, object};
use nero_wire::v1::{ListRequest, MetricsReply, MetricsRequest, RuleListRequest};
use serde_json::{Value, json};

use crate::call::{Refusal, ViewCall};
use crate::query::Query;
use crate::reply::{Reply, body, document, fault, refusal};
use crate::server::Site;

/// Pixels of a picture that names no width, and of the widest.
const WIDTH: u32 = 900;
const WIDTH_MAX: u32 = 4000;
/// Points over which a curve is smoothed.
const SMOOTH_MAX: usize = 1000;
/// Curves of one picture whose points are sent.
const SERIES_MAX: usize = 200;

/// A picture that a page asks for.
struct WantedPicture {
    selection: String,
    wanted: WantedCurves,
    /// The word of the axis.
    axis: String,
    width: u32,
    from: Option<f64>,
    to: Option<f64>,
    is_log_across: bool,
    /// Points of a moving mean.
    smooth: Option<usize>,
    theme: Theme,
}

impl WantedPicture {
    fn read(raw: Option<&str>) -> Result<Self, Refusal> {
        let fields = [
            "sel", "y", "x", "width", "from", "to", "logx", "logy", "smooth", "by", "dark", "v",
        ];
        let query = Query::read(raw, &fields, &[])?;
        let axis = match query.text_or_empty("x") {
            "" => "step",
            axis => axis,
        };
        let x = match axis {
            "step" => HorizontalAxis::Step,
            "time" => HorizontalAxis::Runtime,
            "clock" => clock_here(),
            other => {
                let text = format!("there is no axis `{other}`");
                return Err(fault(&text, "there are `step`, `time`, `clock`"));
            }
        };
        let name = query.text("y").filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| fault("no metric is named", "as `y=loss`"))?;
        let by = query.text_or_empty("by").split(',').map(str::trim);
        Ok(Self {
            selection: query.text_or_empty("sel").to_owned(),
            wanted: WantedCurves {
                names: vec![name.to_owned()],
                x,
                by: by
                    .filter(|name| !name.is_empty())
                    .map(str::to_owned)
                    .collect(),
                band: Spread::Deviation,
                log: query.is_set("logy")?,
            },
            axis: axis.to_owned(),
            width: query.number("width", 100..=WIDTH_MAX)?.unwrap_or(WIDTH),
            from: query.number("from", f64::MIN..=f64::MAX)?,
            to: query.number("to", f64::MIN..=f64::MAX)?,
            is_log_across: query.is_set("logx")?,
            smooth: query.number("smooth", 1..=SMOOTH_MAX)?,
            theme: if query.is_set("dark")? {
                Theme::Dark
            } else {
                Theme::Light
            },
        })
    }

    async fn plot(&self, site: &Site) -> Result<Plot, Refusal> {
        let picked = Some((site.caller.settings.select)(&self.selection));
        let reply = self.points(site).await?;
        let asked = ListRequest {
            selection: picked.clone(),
            ..ListRequest::default()
        };
        let listed = site
            .caller
            .ask(|answer| ViewCall::List(asked, answer))
            .await?;
        let asked = RuleListRequest { selection: picked };
        let rules = site
            .caller
            .ask(|answer| ViewCall::Rules(asked, answer))
            .await?;
        let plot = curves::plot(
            &self.wanted,
            &reply.series,
            &listed.experiments,
            &rules.rules,
        );
        let mut plot = plot.map_err(|error| fault(&error.to_string(), &error.hint()))?;
        plot.remarks.extend(reply.notes);
        plot.log_across = self.is_log_across;
        let curves = plot.panels.iter_mut().flat_map(|panel| &mut panel.curves);
        for curve in curves {
            if let Some(points) = self.smooth {
                smooth(curve, points);
            }
            self.cut(curve);
        }
        Ok(plot)
    }

    /// The points of the metric that the picture can show.
    async fn points(&self, site: &Site) -> Result<MetricsReply, Refusal> {
        let is_by_step = matches!(self.wanted.x, HorizontalAxis::Step);
        // A column of the picture is one of steps only where plain steps are across.
        let is_plain = is_by_step && !self.is_log_across && self.smooth.is_none();
        let width = if is_plain && self.wanted.by.is_empty() {
            self.width
        } else {
            WIDTH_MAX
        };
        let asked = MetricsRequest {
            selection: Some((site.caller.settings.select)(&self.selection)),
            names: self.wanted.names.clone(),
            width,
            from_step: self.from.filter(|_| is_by_step),
            to_step: self.to.filter(|_| is_by_step),
        };
        site.caller
            .ask(|answer| ViewCall::Metrics(asked, answer))
            .await
    }

    /// Leaves out what is outside the range.
    fn cut(&self, curve: &mut Curve) {
        let is_shown =
            |x: f64| self.from.is_none_or(|from| x >= from) && self.to.is_none_or(|to| x <= to);
        for part in &mut curve.parts {
            part.retain(|point| is_shown(point.x));
        }
        curve.band.retain(|point| is_shown(point.x));
        curve.firings.retain(|point| is_shown(point.x));
    }
}

/// A moving mean over so many points, in the band from the smallest to the largest of them. A value
/// that is not finite stays a gap.
fn smooth(curve: &mut Curve, points: usize) {
    let has_band = !curve.band.is_empty();
    for part in &mut curve.parts {
        let bands: Vec<BandPoint> = (0..part.len()).map(|at| spread(part, at, points)).collect();
        let means: Vec<f64> = (0..part.len()).map(|at| mean(part, at, points)).collect();
        for (point, mean) in part.iter_mut().zip(means) {
            if point.y.is_finite() {
                point.y = mean;
            }
        }
        if !has_band {
            curve
                .band
                .extend(bands.iter().filter(|one| one.low <= one.high));
        }
    }
    (curve.band).sort_by(|one, other| one.x.total_cmp(&other.x));
}

/// The finite values of the points around one.
fn around(part: &[CurvePoint], at: usize, points: usize) -> impl Iterator<Item = f64> {
    let end = part.len().min(at + points.div_ceil(2));
    let window = part[at.saturating_sub(points / 2)..end].iter();
    window.map(|point| point.y).filter(|y| y.is_finite())
}

fn mean(part: &[CurvePoint], at: usize, points: usize) -> f64 {
    let sum: f64 = around(part, at, points).sum();
    sum / around(part, at, points).count() as f64
}

fn spread(part: &[CurvePoint], at: usize, points: usize) -> BandPoint {
    BandPoint {
        x: part[at].x,
        low: around(part, at, points).fold(f64::INFINITY, f64::min),
        high: around(part, at, points).fold(f64::NEG_INFINITY, f64::max),
    }
}

/// `GET /plot.svg`.
pub(crate) async fn picture(State(site): State<Site>, RawQuery(raw): RawQuery) -> Reply {
    let drawn = async {
        let picture = WantedPicture::read(raw.as_deref())?;
        let plot = picture.plot(&site).await?;
        Ok(svg_of_width(&plot, picture.theme, f64::from(picture.width)))
    };
    match drawn.await {
        Ok(text) => body("image/svg+xml", text),
        Err(refused) => refusal(&refused),
    }
}

/// `GET /plot.json`: as many points as the picture can show, and where they are in it.
pub(crate) async fn points(State(site): State<Site>, RawQuery(raw): RawQuery) -> Reply {
    let read = async {
        let picture = WantedPicture::read(raw.as_deref())?;
        let plot = picture.plot(&site).await?;
        Ok(picture.document(&plot))
    };
    match read.await {
        Ok(value) => document(&value),
        Err(refused) => refusal(&refused),
    }
}

impl WantedPicture {
    fn document(&self, plot: &Plot) -> Value {
        let curves = plot.panels.first().map(|panel| panel.curves.as_slice());
        let curves = curves.unwrap_or_default();
        let series = curves.iter().take(SERIES_MAX).map(|curve| {
            let name = plot.names.get(curve.name);
            let points = curve
                .parts
                .iter()
                .flat_map(|part| thinned(part, self.width));
            let points: Vec<CurvePoint> = points.collect();
            let numbers = |of: fn(&CurvePoint) -> f64| -> Value {
                points.iter().map(|point| json::number(of(point))).collect()
            };
            json!({
                "run": name.map(|name| &name.short),
                "name": name.map(|name| format!("{} {}", name.short, name.long)),
                "x": numbers(|point| point.x),
                "y": numbers(|point| point.y),
            })
        });
        let area = plot_area(plot, f64::from(self.width)).map(|area| {
            object!(area =>
                left, right, top, bottom,
                x: [area.x.0, area.x.1],
                y: [area.y.0, area.y.1],
            )
        });
        json::document(json!({
            "series": series.collect::<Vec<_>>(),
            "more": curves.len().saturating_sub(SERIES_MAX),
            "x": self.axis,
            "area": area,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smoothed_curve_lies_in_the_band_of_its_points_and_keeps_gaps() {
        let ys = [1.0, 3.0, f64::NAN, 5.0, 7.0];
        let points = ys
            .iter()
            .enumerate()
            .map(|(x, y)| CurvePoint { x: x as f64, y: *y });
        let mut curve = Curve {
            parts: vec![points.collect()],
            ..Curve::default()
        };
        smooth(&mut curve, 3);
        let smoothed: Vec<f64> = curve.parts[0].iter().map(|point| point.y).collect();
        assert_eq!((smoothed[0], smoothed[1], smoothed[4]), (2.0, 2.0, 6.0));
        assert!(smoothed[2].is_nan());
        let band: Vec<(f64, f64)> = curve.band.iter().map(|one| (one.low, one.high)).collect();
        assert_eq!(
            band,
            [(1.0, 3.0), (1.0, 3.0), (3.0, 5.0), (5.0, 7.0), (5.0, 7.0)]
        );
    }
}
