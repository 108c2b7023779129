//! The curves of a digest. A process with limits draws them while other letters go on.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nero_life::run::Run;
use nero_life::state::State;
use nero_model::{Home, RunId};
use nero_notices::letter::CURVES_WIDTH;
use nero_notices::{DrawnCurves, MailPlan, longest, metric_names};
use nero_plot::{CurvePoint, HorizontalAxis, Theme, child, svg_of_width, thinned};
use nero_store::{Point, RunKey, SeriesReader};
use nero_views::curves::{self, Spread, WantedCurves};
use nero_wire::v1;
use nero_wire::v1::metrics_reply::Series;
use tokio::task::JoinSet;

use super::MailDesk;
use nero_home::spec;

/// Runs with a curve: so many colours differ well.
const RUNS_MAX: usize = 8;
/// A longer series has no curve: reading it would take too much memory.
const POINTS_MAX: u64 = 200_000;
/// A digest leaves without its curves after this long.
const DRAWING_MAX: Duration = Duration::from_secs(60);
/// More points are not seen.
const COLUMNS: u32 = 1300;
/// Pixels of a picture for each of its units: sharp on a screen with small pixels.
const FACTOR: f32 = 2.0;

/// The curves of the digest that is due.
#[derive(Debug, Default)]
pub(super) struct DigestCurves {
    drawing: JoinSet<DrawnCurves>,
    drawn: Option<DrawnCurves>,
}

impl DigestCurves {
    /// Takes a digest out of the plan until its curves are drawn.
    pub(super) fn hold_back(&mut self, plan: &mut MailPlan, desk: &MailDesk, state: &Arc<State>) {
        let Some(at) = plan.letters.iter().position(|letter| letter.is_digest) else {
            if self.drawn.is_some() || !self.drawing.is_empty() {
                *self = Self::default();
            }
            return;
        };
        if self.drawn.is_some() {
            return;
        }
        plan.letters.remove(at);
        if self.drawing.is_empty() {
            self.drawing
                .spawn(in_time(draw(desk.clone(), Arc::clone(state))));
        }
    }

    /// Waits until curves are drawn; forever if none are being drawn.
    pub(super) async fn drawn(&mut self) {
        let drawn = match self.drawing.join_next().await {
            None => return std::future::pending().await,
            Some(Ok(drawn)) => drawn,
            Some(Err(error)) => {
                tracing::error!(%error, "drawing ended; please report this mistake of neroman");
                Err("drawing ended by a mistake of neroman's own".to_owned())
            }
        };
        if let Err(why) = &drawn {
            tracing::warn!(why, "a digest has no curves");
        }
        self.drawn = Some(drawn);
    }

    /// The curves of the digest of the plan.
    pub(super) fn of_digest(&self) -> DrawnCurves {
        self.drawn.clone().unwrap_or(Ok(None))
    }
}

/// What is drawn, unless drawing takes too long.
async fn in_time(drawing: impl Future<Output = DrawnCurves>) -> DrawnCurves {
    match tokio::time::timeout(DRAWING_MAX, drawing).await {
        Ok(drawn) => drawn,
        Err(_) => Err(format!("it took longer than {} s", DRAWING_MAX.as_secs())),
    }
}

/// The picture of the runs that have run longest.
async fn draw(desk: MailDesk, state: Arc<State>) -> DrawnCurves {
    let now = desk.nodes.known().now(desk.clock);
    let mut runs = longest(&state, &now);
    runs.truncate(RUNS_MAX);
    // A curve has two points.
    let names = metric_names(&runs, 2);
    if names.is_empty() {
        return Ok(None);
    }
    let views: Vec<v1::ExperimentView> = runs.iter().map(|run| view(&state, run)).collect();
    let folded: BTreeMap<RunId, u64> = runs
        .iter()
        .map(|run| (run.made.id, run.journal.folded_points))
        .collect();
    drop(state);
    let keys = desk.ledger.keys(folded.keys().copied().collect()).await;
    let keys = keys.map_err(|failure| failure.to_string())?;
    // A power cut takes nothing back that a mail has.
    let durable = desk.ledger.durable().await;
    durable.map_err(|failure| failure.to_string())?;
    let (home, wanted) = (desk.home, names.clone());
    let svg = tokio::task::spawn_blocking(move || {
        let series = read(&home, &keys, &wanted, &folded)?;
        let wanted = WantedCurves {
            names: wanted,
            x: HorizontalAxis::Step,
            by: Vec::new(),
            band: Spread::Deviation,
            log: false,
        };
        let plot =
            curves::plot(&wanted, &series, &views, &[]).map_err(|error| error.to_string())?;
        let is_empty = plot.panels.iter().all(|panel| panel.curves.is_empty());
        Ok::<_, String>((!is_empty).then(|| svg_of_width(&plot, Theme::Light, CURVES_WIDTH.into())))
    });
    let Some(svg) = svg.await.map_err(|error| error.to_string())?? else {
        return Ok(None);
    };
    let png = child::png(&svg, FACTOR).await;
    let png = png.map_err(|error| error.to_string())?;
    Ok(Some((png.into(), names.join(" and "))))
}

/// What a legend has of a run.
fn view(state: &State, run: &Run) -> v1::ExperimentView {
    let experiment = state.experiment(run.made.id.experiment);
    let definition = experiment.map(|one| &one.definition);
    v1::ExperimentView {
        id: run.made.id.experiment.0,
        run: run.made.id.number,
        name: definition.map_or_else(String::new, |one| one.name.clone()),
        params: definition.map(|one| spec::params(one)).unwrap_or_default(),
        ..v1::ExperimentView::default()
    }
}

fn read(
    home: &Home,
    runs: &[(RunId, RunKey)],
    names: &[String],
    folded: &BTreeMap<RunId, u64>,
) -> Result<Vec<Series>, String> {
    let failed = |error: nero_store::StoreError| format!("the metrics cannot be read: {error}");
    let reader = SeriesReader::open(home).map_err(failed)?;
    let is_too_long = Cell::new(false);
    let mut found = Vec::new();
    for (id, key) in runs {
        for name in names {
            let wanted = |series: &nero_store::Series| {
                let is_named = series.name == *name;
                is_too_long.set(is_too_long.get() || is_named && series.count > POINTS_MAX);
                is_named && series.count <= POINTS_MAX
            };
            for (series, points) in reader.read_some(*key, wanted).map_err(failed)? {
                found.push(of_points(
                    *id,
                    series.name,
                    &points,
                    folded.get(id).copied(),
                ));
            }
        }
    }
    if found.is_empty() && is_too_long.get() {
        Err(format!("each series has more than {POINTS_MAX} points"))
    } else {
        Ok(found)
    }
}

/// A series with as many points as are seen.
fn of_points(id: RunId, name: String, points: &[Point], folded: Option<u64>) -> Series {
    let mut series = Series {
        experiment: id.experiment.0,
        run: id.number,
        name,
        folded: folded.unwrap_or(0),
        ..Series::default()
    };
    for part in points.chunk_by(|one, other| one.generation == other.generation) {
        let curve: Vec<CurvePoint> = part
            .iter()
            .map(|point| CurvePoint {
                x: point.step,
                y: point.value,
            })
            .collect();
        let seen = if curve.len() > COLUMNS as usize {
            thinned(&curve, COLUMNS)
        } else {
            curve
        };
        for point in seen {
            series.steps.push(point.x);
            series.values.push(point.y);
            series.times_ms.push(part[0].time_ms);
            series.generation.push(part[0].generation);
        }
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn curves_that_are_never_drawn_hold_a_digest_back_for_a_minute() {
        let mut curves = DigestCurves::default();
        curves.drawing.spawn(in_time(std::future::pending()));
        let began = tokio::time::Instant::now();
        curves.drawn().await;
        assert_eq!(began.elapsed(), DRAWING_MAX);
        let why = "it took longer than 60 s".to_owned();
        assert_eq!(curves.of_digest(), Err(why));
    }
}
