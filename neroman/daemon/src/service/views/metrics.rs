//! `Metrics`: the points of series.

mod cache;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nero_expr::ParseContext;
use nero_model::names::same_loosely;
use nero_model::sets::meant;
use nero_model::{Home, RunId};
use nero_store::{Point, RunKey, Series, SeriesReader, StoreError};
use nero_wire::v1;

use super::curve::CurveExpr;
use crate::processing::series;
use crate::service::select;
use crate::service::{Man, blocking};
use cache::StepRange;
use nero_home::failure::Failure;
use nero_life::now::PresentTime;
use nero_life::run::Run;
use nero_life::scope::Sight;
use nero_life::state::State;
use nero_link::node::NodeNow;

pub(crate) use cache::CurveCache;

/// Points of one reply; a client asks for more in parts.
const POINTS_MAX: usize = 20_000_000;

impl Man {
    /// The series of the picked experiments.
    pub(crate) async fn metrics(
        &self,
        request: v1::MetricsRequest,
    ) -> Result<v1::MetricsReply, Failure> {
        let now = self.now();
        let given = request.selection.clone().unwrap_or_default();
        let context = ParseContext::new(now.ms, select::zone(&given.zone, given.utc_offset_s));
        let selection = self.selection(request.selection.clone(), "").await?;
        let (chosen, picked) = selection.choose_from(&self.ledger.state()).await?;
        self.settle(&chosen).await;
        let state = self.ledger.state();
        let runs = chosen.iter().filter_map(|one| one.run_in(&state));
        let runs: Vec<RunId> = runs.map(|run| run.made.id).collect();
        let ids = runs.clone();
        let keys = self.ledger.keys(runs).await?;
        let folded: Vec<(RunId, RunKey, u64)> = keys
            .into_iter()
            .map(|(id, key)| {
                let folded = state.run(id).map_or(0, |run| run.journal.folded_points);
                (id, key, folded)
            })
            .collect();
        self.ledger.durable().await?;
        let home = self.home.clone();
        let (wanted, unknown) = wanted(&state, &folded, request.names.clone(), &context)?;
        let (known, now) = (Arc::clone(&state), self.now());
        let (picture, cache) = (Picture::of(&request), self.curves.clone());
        let (series, held, unread) = blocking(move || {
            let reader = SeriesReader::open(&home).map_err(|error| unreadable(&error))?;
            let stores = Stores {
                reader: &reader,
                home: &home,
                cache: &cache,
                picture,
            };
            read(&stores, &folded, &wanted, &known, &now)
        })
        .await??;
        let mut notes = picked.notes;
        notes.extend(self.stale(&state, &ids));
        notes.extend(missing(&state, &ids));
        let lacks = held
            .into_iter()
            .filter_map(|(id, held)| Some((id, state.run(id)?.lacks_points(held)?)));
        notes.extend(once_for_all(lacks));
        notes.extend(unread);
        notes.extend(unknown);
        if series.is_empty() && notes.is_empty() {
            let try_it = match ids.first() {
                Some(id) => format!("; neroman metrics --try {id} shows what its logs give"),
                None => String::new(),
            };
            notes.push(format!("no metric was printed{try_it}"));
        }
        Ok(v1::MetricsReply { series, notes })
    }
}

impl Man {
    /// The note about missing points of a run; empty if all are here.
    pub(crate) async fn lacks_points(&self, run: &Run) -> Result<String, Failure> {
        let keys = self.ledger.keys(vec![run.made.id]).await?;
        let Some((_, key)) = keys.into_iter().next().filter(|_| run.points_told() > 0) else {
            return Ok(String::new());
        };
        let home = self.home.clone();
        let series = blocking(move || SeriesReader::open(&home)?.series(key)).await?;
        Ok(match series {
            Ok(series) => {
                let held = series.iter().map(|one| one.count).sum();
                run.lacks_points(held).unwrap_or_default()
            }
            Err(error) => unreadable(&error).to_string(),
        })
    }

    /// A line for each node that may have more and is out of reach.
    fn stale(&self, state: &State, runs: &[RunId]) -> Vec<String> {
        let known = self.nodes.known();
        let away: BTreeSet<&str> = runs
            .iter()
            .filter_map(|id| state.run(*id))
            .filter(|run| run.open() && !super::view::settled(run) || run.phase().is_live())
            .filter_map(Run::node)
            .filter(|node| known.of(node).is_none_or(NodeNow::out_of_reach))
            .collect();
        away.into_iter()
            .map(|node| {
                let why = known.of(node).map(NodeNow::why_not).unwrap_or_default();
                format!("{node} is out of reach and may have more: {why}")
            })
            .collect()
    }
}

/// What is to be known of runs that may have lost points.
fn missing(state: &State, runs: &[RunId]) -> Vec<String> {
    let runs = runs.iter().filter_map(|id| state.run(*id));
    let lacking = runs.filter(|run| !run.missing().is_empty());
    once_for_all(lacking.map(|run| (run.made.id, run.missing().to_owned())))
}

/// A line for each text, in the order of the texts, behind the first run that it is about.
fn once_for_all(texts: impl Iterator<Item = (RunId, String)>) -> Vec<String> {
    let mut runs: BTreeMap<String, Vec<RunId>> = BTreeMap::new();
    for (run, text) in texts {
        runs.entry(text).or_default().push(run);
    }
    let line = |(text, runs): (String, Vec<RunId>)| match runs.as_slice() {
        [] => text,
        [run] => format!("{run}: {text}"),
        [run, others @ ..] => format!("{run} and {} more: {text}", others.len()),
    };
    runs.into_iter().map(line).collect()
}

/// What an answer contains of each run.
#[derive(Default)]
struct WantedSeries {
    /// Names of metrics.
    names: Vec<String>,
    expressions: Vec<CurveExpr>,
}

impl WantedSeries {
    fn has(&self, metric: &str) -> bool {
        self.names.is_empty() && self.expressions.is_empty()
            || self.names.iter().any(|name| is_name_of(name, metric))
    }
}

fn is_name_of(name: &str, metric: &str) -> bool {
    name == metric || same_loosely(name, metric)
}

/// Reads the asked names: a name that one of these runs printed is that metric, whatever signs
/// it has. Others are expressions, or get a line with the printed names.
fn wanted(
    state: &State,
    runs: &[(RunId, RunKey, u64)],
    names: Vec<String>,
    context: &ParseContext,
) -> Result<(WantedSeries, Vec<String>), Failure> {
    let printed: BTreeSet<&str> = runs
        .iter()
        .filter_map(|(id, ..)| state.run(*id))
        .flat_map(|run| run.metrics().map(|(name, _)| name.as_str()))
        .collect();
    let there = printed.iter().copied().collect::<Vec<_>>().join(", ");
    let (mut wanted, mut unknown) = (WantedSeries::default(), Vec::new());
    for name in names {
        let is_printed = printed.iter().any(|metric| is_name_of(&name, metric));
        let of_set = meant(&name, printed.iter().copied());
        let name = of_set.filter(|_| !is_printed).map_or(name, str::to_owned);
        let is_printed = of_set.is_some();
        match CurveExpr::read(&name, context) {
            _ if is_printed => wanted.names.push(name),
            Ok(Some(expression)) => wanted.expressions.push(expression),
            Err(failure) => return Err(failure),
            Ok(None) => {
                if !printed.is_empty() {
                    let line = format!("no metric `{name}` was printed; there are: {there}");
                    unknown.push(line);
                }
                wanted.names.push(name);
            }
        }
    }
    Ok((wanted, unknown))
}

fn unreadable(error: &StoreError) -> Failure {
    let failure = Failure::failed("the metrics cannot be read").caused_by(error);
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// The number of points of each run, whatever their names.
type PointCounts = Vec<(RunId, u64)>;

/// What a picture can show of a curve.
#[derive(Clone, Copy, Debug)]
struct Picture {
    columns: u32,
    range: StepRange,
}

impl Picture {
    /// `None` if all points are asked for.
    fn of(request: &v1::MetricsRequest) -> Option<Self> {
        let whole = StepRange::default();
        let range = StepRange {
            from: request.from_step.unwrap_or(whole.from),
            to: request.to_step.unwrap_or(whole.to),
        };
        let columns = request.width;
        (columns > 0).then_some(Self { columns, range })
    }

    fn points(self, mut points: Vec<Point>) -> Vec<Point> {
        points.retain(|point| self.range.has(point));
        cache::thinned(&points, self.columns)
    }
}

/// A series and its points.
type NamedPoints = (String, Vec<Point>);

/// Where points lie, and how many of them are wanted.
struct Stores<'a> {
    reader: &'a SeriesReader,
    home: &'a Home,
    cache: &'a CurveCache,
    picture: Option<Picture>,
}

impl Stores<'_> {
    /// The wanted series that a run printed, and how many points all its series have. Expressions
    /// are made of all points of all series.
    fn printed(
        &self,
        run: RunKey,
        wanted: &WantedSeries,
    ) -> Result<(Vec<NamedPoints>, u64), StoreError> {
        let Some(picture) = self.picture.filter(|_| wanted.expressions.is_empty()) else {
            let printed = self.reader.read(run)?;
            let held = printed.iter().map(|(series, _)| series.count).sum();
            let named = |(series, points): (Series, _)| (series.name, points);
            return Ok((printed.into_iter().map(named).collect(), held));
        };
        let all = self.reader.series(run)?;
        let held = all.iter().map(|series| series.count).sum();
        let shown = all.into_iter().filter(|series| wanted.has(&series.name));
        let thinned = shown.map(|series| {
            let points =
                (self.cache).points(self.reader, &series, picture.range, picture.columns)?;
            Ok((series.name, points))
        });
        Ok((thinned.collect::<Result<_, _>>()?, held))
    }
}

/// The series, the number of points of each run, and a line for each run with series that cannot be
/// read.
fn read(
    stores: &Stores<'_>,
    runs: &[(RunId, RunKey, u64)],
    wanted: &WantedSeries,
    state: &State,
    now: &PresentTime,
) -> Result<(Vec<v1::metrics_reply::Series>, PointCounts, Vec<String>), Failure> {
    let mut found = Vec::new();
    let mut held = Vec::new();
    let mut unread = Vec::new();
    let mut count = 0;
    // Of each expression why it has no points in a run.
    let mut lacking: Vec<Option<Failure>> = Vec::new();
    lacking.resize_with(wanted.expressions.len(), || None);
    for (id, key, folded) in runs {
        let (mut all, count_of_run) = stores
            .printed(*key, wanted)
            .map_err(|error| unreadable(&error))?;
        held.push((*id, count_of_run));
        match state.run(*id).map(|run| series::made_of_outputs(stores.home, run)) {
            Some(Ok(made)) => all.extend(made),
            Some(Err(error)) => unread.push(format!(
                "{id}: the series made of its outputs cannot be read ({error}); `neroman plot {id}` makes them anew"
            )),
            None => {}
        }
        let mut curves = Vec::new();
        let known: Vec<(&str, &[Point])> = all
            .iter()
            .map(|(name, points)| (name.as_str(), points.as_slice()))
            .collect();
        let experiment = state.experiment(id.experiment);
        for (expression, lacking) in wanted.expressions.iter().zip(&mut lacking) {
            let Some(experiment) = experiment else {
                continue;
            };
            let sight = Sight {
                experiment,
                run: experiment.run(id.number),
                now,
            };
            match expression.points(sight, &known) {
                Ok(points) => curves.push((expression.text.clone(), points)),
                Err(failure) => *lacking = Some(failure),
            }
        }
        let plain = all.into_iter().filter(|(name, _)| wanted.has(name));
        for (name, points) in plain.chain(curves) {
            let points = match stores.picture {
                Some(picture) => picture.points(points),
                None => points,
            };
            count += points.len();
            if count > POINTS_MAX {
                return Err(Failure::usage("these are too many points for one answer")
                    .hint("select fewer runs, or name the metrics"));
            }
            found.push(v1::metrics_reply::Series {
                experiment: id.experiment.0,
                run: id.number,
                name,
                steps: points.iter().map(|point| point.step).collect(),
                values: points.iter().map(|point| point.value).collect(),
                times_ms: points.iter().map(|point| point.time_ms).collect(),
                generation: points.iter().map(|point| point.generation).collect(),
                folded: *folded,
            });
        }
    }
    let is_found = |text: &str| found.iter().any(|series| series.name == text);
    let named = wanted.expressions.iter().zip(lacking);
    let nowhere = named.filter(|(expression, _)| !is_found(&expression.text));
    match nowhere.filter_map(|(_, failure)| failure).next() {
        Some(failure) => Err(failure),
        None => Ok((found, held, unread)),
    }
}
