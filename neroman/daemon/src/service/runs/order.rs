//! The order of the runs of one start: `--order`, `--pilot`, `--at-most`.

use std::collections::HashMap;

use nero_expr::{Expr, ParseContext, Scope as _};
use nero_life::add::ranges;
use nero_life::now::PresentTime;
use nero_life::pasts;
use nero_life::precedence::{AwaitedExperiment, Precedents};
use nero_life::run::{Line, RunRecord};
use nero_life::scope::Sight;
use nero_life::start::{self, Plan, StartOptions};
use nero_life::state::State;
use nero_model::{ExperimentId, RunId};

use crate::service::views::curve::bad;
use crate::service::views::list::rank::{Rank, SortOrder};
use crate::service::{Man, counted};
use nero_home::failure::Failure;

/// An expression that was read, and the points that it asks for.
pub(crate) struct Order {
    text: String,
    expr: Expr,
    now: PresentTime,
}

impl Man {
    /// Reads an order; an empty text is none.
    pub(crate) async fn order(&self, text: &str) -> Result<Option<Order>, Failure> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        let mut now = self.now();
        let expr = Expr::parse_value(text, &ParseContext::utc(now.ms));
        let expr = expr.map_err(|error| bad(text, &error))?;
        let state = self.ledger.state();
        let runs = state.experiments.iter().filter_map(|one| one.current());
        let wanted = pasts::wanted(expr.named_pasts(), runs);
        now.pasts = crate::pasts::read(&self.ledger, &self.home, &state, wanted).await?;
        Ok(Some(Order {
            text: text.to_owned(),
            expr,
            now,
        }))
    }
}

impl Order {
    /// Sorts plans by their value, the smallest first; plans without a value come last.
    ///
    /// # Errors
    /// When a name of the expression exists in none of the experiments.
    fn sort(&self, state: &State, plans: &mut [Plan]) -> Result<(), Failure> {
        let experiment = |plan: &Plan| {
            state.experiment(match plan {
                Plan::Run { id, .. } => id.experiment,
                Plan::Skip { id, .. } => *id,
            })
        };
        let ranking = SortOrder::new(&self.expr, false, |visit| {
            for experiment in plans.iter().filter_map(experiment) {
                Sight::current(experiment, &self.now).visit_names(visit);
            }
        });
        let ranking = ranking.map_err(|error| bad(&self.text, &error))?;
        // Equal ones stay in the order of their numbers.
        plans.sort_by_cached_key(|plan| {
            let sight = experiment(plan).map(|one| Sight::current(one, &self.now));
            sight.map_or(Rank::Missing, |sight| ranking.rank(&sight))
        });
        Ok(())
    }
}

/// The decisions about the picked experiments, in the order of their starts.
pub(crate) fn planned(
    state: &State,
    picked: &[ExperimentId],
    wanted: StartOptions,
    order: Option<&Order>,
) -> Result<Vec<Plan>, Failure> {
    let mut plans = start::plan(state, picked, wanted);
    if let Some(order) = order {
        order.sort(state, &mut plans)?;
    }
    Ok(plans)
}

/// A run's place among those of its start.
pub(crate) struct InStart {
    pub batch: Option<RunId>,
    pub rank: u32,
    pub line: Option<Line>,
    /// Where the person asked for one.
    pub priority: Option<i32>,
}

impl InStart {
    pub(crate) fn put(&self, made: &mut RunRecord) {
        made.batch = self.batch;
        made.rank = self.rank;
        made.line = self.line;
        made.priority = self.priority.unwrap_or(made.priority);
    }
}

/// The first run, which names the batch. A pilot is the first that needs nothing now and none of the
/// others, which would wait for it.
pub(crate) fn first_run(state: &State, pilot: bool, plans: &[Plan]) -> Option<RunId> {
    let ready = pilot.then(|| ready_run(state, plans)).flatten();
    ready.or_else(|| runs_of(plans).next())
}

fn ready_run(state: &State, plans: &[Plan]) -> Option<RunId> {
    let starting: Vec<ExperimentId> = runs_of(plans).map(|id| id.experiment).collect();
    let ready = Precedents::first_ready(state, &starting)?;
    runs_of(plans).find(|id| id.experiment == ready)
}

fn runs_of(plans: &[Plan]) -> impl Iterator<Item = RunId> {
    plans.iter().filter_map(|plan| match plan {
        Plan::Run { id, .. } => Some(*id),
        Plan::Skip { .. } => None,
    })
}

/// What the new runs of these experiments wait for until a person acts: a line for each.
pub(crate) fn needed(state: &State, started: &[ExperimentId]) -> Vec<String> {
    let precedents = Precedents::of(state);
    let mut order: Vec<String> = Vec::new();
    let mut alike: HashMap<String, Vec<ExperimentId>> = HashMap::new();
    for id in started {
        let run = state.experiment(*id).and_then(|one| one.newest());
        let awaited = run.filter(|run| run.waits_for_others());
        let awaited = awaited.and_then(|run| precedents.awaited(run));
        let Some(awaited) = awaited.filter(AwaitedExperiment::needs_person) else {
            continue;
        };
        let why = match awaited.remedy() {
            Some(remedy) => format!("{awaited}: `{remedy}`"),
            None => awaited.to_string(),
        };
        let those = alike.entry(why.clone()).or_default();
        if those.is_empty() {
            order.push(why);
        }
        those.push(*id);
    }
    let line = |why: String| format!("{}: {why}", ranges(alike[&why].iter().copied()));
    order.into_iter().map(line).collect()
}

/// What `--pilot` and `--at-most` mean for these runs.
pub(crate) fn notes(
    state: &State,
    pilot: bool,
    at_most: Option<u32>,
    plans: &[Plan],
) -> Vec<String> {
    let runs = plans.iter().filter(|plan| matches!(plan, Plan::Run { .. }));
    let runs = runs.count();
    let at_most = at_most.filter(|at_most| runs > *at_most as usize);
    let at_most = at_most.map(|at_most| {
        let first = counted(u64::from(at_most), "run");
        format!("at most {first} of these at once: the next starts when one has ended")
    });
    pilot_note(state, pilot, plans)
        .into_iter()
        .chain(at_most)
        .collect()
}

/// Refuses a pilot that would wait for the runs that wait for it.
pub(crate) fn check_pilot(state: &State, plans: &[Plan]) -> Result<(), Failure> {
    if runs_of(plans).count() > 1 && ready_run(state, plans).is_none() {
        Err(Failure::usage(
            "--pilot: each of these waits for others (`depends_on`, `stage`), so none can run first",
        )
        .hint("pick what they need, too, or leave out --pilot"))
    } else {
        Ok(())
    }
}

/// What `--pilot` means for these runs.
fn pilot_note(state: &State, pilot: bool, plans: &[Plan]) -> Option<String> {
    let pilot = first_run(state, pilot, plans).filter(|_| pilot)?;
    let runs = plans.iter().filter(|plan| matches!(plan, Plan::Run { .. }));
    let others = runs.count() - 1;
    Some(match others {
        0 => format!("--pilot: {pilot} is the only run"),
        _ => {
            let others = counted(others as u64, "other");
            format!("{pilot} is the pilot: the {others} start when it has finished")
        }
    })
}
