//! `Metrics`: the points of series.

use std::collections::BTreeSet;

use nero_model::RunId;
use nero_store::{RunKey, SeriesReader};
use nero_wire::v1;
use nero_wire::v1::metrics_reply::Series;

use super::select;
use super::{Man, blocking};
use crate::failure::Failure;
use crate::node::NodeNow;
use nero_life::run::Run;
use nero_life::state::State;

/// Points of one reply; a client asks for more in parts.
const POINTS_MAX: usize = 20_000_000;

impl Man {
    /// The series of the picked experiments.
    pub(crate) async fn metrics(
        &self,
        request: v1::MetricsRequest,
    ) -> Result<v1::MetricsReply, Failure> {
        let selection = select::read(request.selection, "", self.now())?;
        let (chosen, picked) = selection.choose_from(&self.ledger.state()).await?;
        self.settle(&chosen).await;
        let state = self.ledger.state();
        let runs: Vec<RunId> = chosen
            .iter()
            .filter_map(|chosen| chosen.of(state.experiment(chosen.id)?))
            .map(|run| run.made.id)
            .collect();
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
        let (home, names) = (self.home.clone(), request.names);
        let unknown = unknown(&state, &folded, &names);
        let (series, held) = blocking(move || {
            let reader = SeriesReader::open(&home).map_err(|error| unreadable(&error))?;
            read(&reader, &folded, &names)
        })
        .await??;
        let mut notes = picked.notes;
        notes.extend(self.stale(&state, &ids));
        notes.extend(missing(&state, &ids));
        notes.extend(held.into_iter().filter_map(|(id, held)| {
            let lacks = state.run(id)?.lacks_points(held)?;
            Some(format!("{id}: {lacks}"))
        }));
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
    pub(super) async fn lacks_points(&self, run: &Run) -> Result<String, Failure> {
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

/// A line for each run that may have lost points.
fn missing(state: &State, runs: &[RunId]) -> Vec<String> {
    let runs = runs.iter().filter_map(|id| state.run(*id));
    runs.filter(|run| !run.missing().is_empty())
        .map(|run| format!("{}: {}", run.made.id, run.missing()))
        .collect()
}

/// A line for each name that none of these runs printed, with the printed
/// names.
fn unknown(state: &State, runs: &[(RunId, RunKey, u64)], names: &[String]) -> Vec<String> {
    let printed: BTreeSet<&str> = runs
        .iter()
        .filter_map(|(id, ..)| state.run(*id))
        .flat_map(|run| run.journal.metrics.keys())
        .map(String::as_str)
        .collect();
    if printed.is_empty() {
        return Vec::new();
    }
    let there = printed.iter().copied().collect::<Vec<_>>().join(", ");
    names
        .iter()
        .filter(|name| {
            !printed.iter().any(|exact| {
                *exact == name.as_str() || nero_model::names::same_loosely(name, exact)
            })
        })
        .map(|name| format!("no metric `{name}` was printed; there are: {there}"))
        .collect()
}

fn unreadable(error: &nero_store::StoreError) -> Failure {
    let failure = Failure::failed("the metrics cannot be read").caused_by(error);
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// The number of points of each run, whatever their names.
type PointCounts = Vec<(RunId, u64)>;

/// The series, and the number of points of each run.
fn read(
    reader: &SeriesReader,
    runs: &[(RunId, RunKey, u64)],
    names: &[String],
) -> Result<(Vec<Series>, PointCounts), Failure> {
    let mut found = Vec::new();
    let mut held = Vec::new();
    let mut count = 0;
    for (id, key, folded) in runs {
        let all = reader.read(*key).map_err(|error| unreadable(&error))?;
        held.push((*id, all.iter().map(|(series, _)| series.count).sum()));
        for (series, points) in all {
            let wanted = names.is_empty()
                || names.iter().any(|name| {
                    *name == series.name || nero_model::names::same_loosely(name, &series.name)
                });
            if !wanted {
                continue;
            }
            count += points.len();
            if count > POINTS_MAX {
                return Err(Failure::usage("these are too many points for one answer")
                    .hint("select fewer runs, or name the metrics"));
            }
            found.push(Series {
                experiment: id.experiment.0,
                run: id.number,
                name: series.name,
                steps: points.iter().map(|point| point.step).collect(),
                values: points.iter().map(|point| point.value).collect(),
                times_ms: points.iter().map(|point| point.time_ms).collect(),
                generation: points.iter().map(|point| point.generation).collect(),
                folded: *folded,
            });
        }
    }
    Ok((found, held))
}
