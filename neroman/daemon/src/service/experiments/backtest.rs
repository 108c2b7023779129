//! `RuleBacktest`: what a rule would have done to past runs.

use std::sync::Arc;

use nero_expr::{Expr, ParseContext, PastPoint, RulePlace, more_is_better};
use nero_format::RuleAction;
use nero_life::backtest::{self, BestValue, FirstFiring, PastRun, PastSeries};
use nero_life::experiment::Experiment;
use nero_life::now::PresentTime;
use nero_life::run::Run;
use nero_life::scope::Sight;
use nero_life::state::State;
use nero_model::names::same_loosely;
use nero_model::sets::{is_of_set, meant};
use nero_model::{Home, RunId};
use nero_store::{RunKey, SeriesReader, StoreError};
use nero_wire::v1;
use nero_wire::v1::rule_backtest_reply as reply;

use crate::service::select::{self, ChosenRun};
use crate::service::{Man, blocking};
use nero_home::failure::Failure;

/// Runs whose points are in memory at a time, for each processor.
const RUNS_AT_ONCE: usize = 8;

/// The rule, and the metric by which runs are good.
struct Question {
    rule: Expr,
    best: String,
    more_is_better: bool,
}

/// What is known of one run after the replay.
struct ReplayResult {
    run: RunId,
    fired: Result<Option<FirstFiring>, String>,
    best: Option<BestValue>,
}

impl Man {
    /// Replays the past runs of the picked experiments.
    pub(crate) async fn rule_backtest(
        &self,
        request: v1::RuleBacktestRequest,
    ) -> Result<v1::RuleBacktestReply, Failure> {
        let now = self.now();
        let given = request.selection.clone().unwrap_or_default();
        let zone = select::zone(&given.zone, given.utc_offset_s);
        let context = ParseContext::new(now.ms, zone).standing();
        let question = Arc::new(question(&request, &context)?);
        let selection = self.selection(request.selection, "").await?;
        let (chosen, picked) = selection.choose_from(&self.ledger.state()).await?;
        self.settle(&chosen).await;
        let state = self.ledger.state();
        let is_cohort = !question.rule.cohorts().is_empty();
        let (runs, live) = past_runs(&state, &chosen, is_cohort);
        if runs.is_empty() {
            return Err(Failure::failed("none of it has run and ended"));
        }
        let mut notes = picked.notes;
        if live > 0 {
            notes.push(format!(
                "{live} of its runs have not ended and are left out"
            ));
        }
        let keys = self.ledger.keys(runs).await?;
        self.ledger.durable().await?;
        let home = self.home.clone();
        let (known, asked) = (Arc::clone(&state), Arc::clone(&question));
        let replayed = blocking(move || {
            let now = now;
            let replayed = if is_cohort {
                replay(&home, &known, &now, &keys, &asked)
            } else {
                replay_in_parts(&home, &known, &now, &keys, &asked)
            };
            replayed.map_err(|error| {
                Failure::failed(format!("cannot read the points of metrics: {error}"))
            })
        })
        .await??;
        let bests: Vec<Option<BestValue>> = replayed.iter().map(|one| one.best).collect();
        let good = backtest::good(&bests, question.more_is_better);
        let told = replayed.iter().zip(good);
        let ends = matches!(request.action.as_str(), "abort" | "restart" | "requeue");
        Ok(v1::RuleBacktestReply {
            runs: told
                .filter_map(|(one, good)| reply_run(&state, one, good))
                .collect(),
            text: question.rule.canonical(),
            ends,
            best: question.best.clone(),
            more_is_better: question.more_is_better,
            notes,
        })
    }
}

fn question(
    request: &v1::RuleBacktestRequest,
    context: &ParseContext,
) -> Result<Question, Failure> {
    let known = RuleAction::ALL.map(RuleAction::as_str);
    let (action, _) = super::rules::action_of(&request.action);
    if !known.contains(&action) {
        let failure = Failure::usage(format!("not built yet: the action `{action}`"));
        return Err(failure.hint(known.join(", ")));
    }
    let rule = Expr::parse(&request.text, context)
        .map_err(|error| crate::service::views::curve::bad(&request.text, &error))?;
    if let Some(fact) = backtest::unknown_fact(&rule) {
        let word = fact.as_str();
        let failure = Failure::usage(format!("`{word}` of past runs is not known"));
        return Err(failure
            .hint("a back-test replays metrics, parameters and the time that a run had run for"));
    }
    if rule.rule_place() == RulePlace::Daemon {
        let failure = Failure::usage("this rule is evaluated by neroman, not beside the job");
        return Err(failure
            .hint("a back-test replays metrics, parameters and the time that a run had run for"));
    }
    let named = rule.unbound_names().iter().map(|name| &*name.text);
    let (best, more_is_better) = match request.best.split_once(':') {
        _ if request.best.is_empty() => {
            let mut goals = named.filter_map(|name| Some((name, more_is_better(name)?)));
            goals.next().map_or_else(
                || (String::new(), false),
                |(name, more)| (name.to_owned(), more),
            )
        }
        Some(("max", name)) => (name.to_owned(), true),
        Some(("min", name)) => (name.to_owned(), false),
        _ => match more_is_better(&request.best) {
            Some(more) => (request.best.clone(), more),
            None => {
                let name = &request.best;
                let failure = Failure::usage(format!(
                    "`{name}` does not tell whether high or low is good"
                ));
                return Err(failure.hint(format!("write `max:{name}` or `min:{name}`")));
            }
        },
    };
    Ok(Question {
        rule,
        best,
        more_is_better,
    })
}

/// The runs that have ended, and the number of those that have not. For a rule over
/// peers only the newest of each experiment counts, as it does for its peers.
fn past_runs(state: &State, chosen: &[ChosenRun], is_cohort: bool) -> (Vec<RunId>, usize) {
    let mut runs = Vec::new();
    let mut live = 0;
    for chosen in chosen {
        let Some(experiment) = state.experiment(chosen.id) else {
            continue;
        };
        let picked: Vec<&Run> = match chosen.run {
            Some(number) => experiment.run(number).into_iter().collect(),
            None => experiment.runs.iter().collect(),
        };
        live += picked.iter().filter(|run| run.phase().is_live()).count();
        let ended = picked
            .into_iter()
            .filter(|run| run.phase().is_end() && run.started_ms().is_some());
        let mut ended = ended.map(|run| run.made.id);
        if is_cohort {
            runs.extend(ended.next_back())
        } else {
            runs.extend(ended)
        }
    }
    (runs, live)
}

/// Replays each run by itself, on all processors.
fn replay_in_parts(
    home: &Home,
    state: &State,
    now: &PresentTime,
    keys: &[(RunId, RunKey)],
    question: &Question,
) -> Result<Vec<ReplayResult>, StoreError> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let share = keys.len().div_ceil(processors).max(1);
    let parts = std::thread::scope(|scope| {
        let of = |keys: &[(RunId, RunKey)]| {
            let mut replayed = Vec::with_capacity(keys.len());
            for part in keys.chunks(RUNS_AT_ONCE) {
                replayed.extend(replay(home, state, now, part, question)?);
            }
            Ok(replayed)
        };
        let threads = keys.chunks(share).map(|part| scope.spawn(move || of(part)));
        let threads: Vec<_> = threads.collect();
        let ends = threads.into_iter().map(|thread| thread.join());
        ends.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<Vec<Vec<ReplayResult>>, StoreError>>()
    })?;
    Ok(parts.into_iter().flatten().collect())
}

/// Replays these runs together.
fn replay(
    home: &Home,
    state: &State,
    now: &PresentTime,
    keys: &[(RunId, RunKey)],
    question: &Question,
) -> Result<Vec<ReplayResult>, StoreError> {
    let reader = SeriesReader::open(home)?;
    let mut read = Vec::with_capacity(keys.len());
    for (id, key) in keys {
        let Some(experiment) = state.experiment(id.experiment) else {
            continue;
        };
        let Some(run) = experiment.run(id.number) else {
            continue;
        };
        let is_wanted =
            |name: &str| backtest::needs(&question.rule, name) || question.is_best(name);
        let series = reader.read_some(*key, |series| is_wanted(&series.name))?;
        let series = series.into_iter().map(|(series, points)| {
            let points = points.into_iter().map(|point| {
                let past = PastPoint {
                    value: point.value,
                    step: point.step,
                    generation: point.generation,
                    at_ms: 0,
                };
                (past, point.time_ms)
            });
            (series.name, backtest::points(run, points))
        });
        read.push((&**experiment, run, series.collect::<Vec<_>>()));
    }
    let best = |series: &[(String, backtest::Points)]| {
        let names = series.iter().map(|(name, _)| name.as_str());
        let best = meant(&question.best, names).filter(|_| !question.best.is_empty())?;
        let (_, points) = series.iter().find(|(name, _)| name == best)?;
        backtest::best(&points.since_start, question.more_is_better)
    };
    let bests: Vec<Option<BestValue>> = read.iter().map(|(_, _, series)| best(series)).collect();
    let runs: Vec<PastRun<'_>> = read
        .iter()
        .map(|(experiment, run, series)| past_run(experiment, run, series, now, question))
        .collect();
    let fired = backtest::replay(&question.rule, &runs);
    let ids = read.iter().map(|(_, run, _)| run.made.id);
    let told = ids.zip(fired).zip(bests);
    Ok(told
        .map(|((run, fired), best)| ReplayResult {
            run,
            fired: fired.map_err(|error| error.to_string()),
            best,
        })
        .collect())
}

fn past_run<'a>(
    experiment: &'a Experiment,
    run: &'a Run,
    series: &'a [(String, backtest::Points)],
    now: &'a PresentTime,
    question: &Question,
) -> PastRun<'a> {
    let needed = series
        .iter()
        .filter(|(name, _)| backtest::needs(&question.rule, name));
    PastRun {
        sight: Sight {
            experiment,
            run: Some(run),
            now,
        },
        started_ms: run.newest_started_ms(),
        ran_ms: (run.runtime_s(now).unwrap_or(0.0) * 1000.0) as u64,
        limit_ms: run.made.time_ms_on(run.node()),
        sample_ms: experiment.definition.monitor.interval_ms,
        series: needed
            .map(|(name, points)| PastSeries { name, points })
            .collect(),
    }
}

impl Question {
    fn is_best(&self, metric: &str) -> bool {
        let is_of = || same_loosely(&self.best, metric) || is_of_set(&self.best, metric);
        !self.best.is_empty() && is_of()
    }
}

fn reply_run(state: &State, one: &ReplayResult, good: bool) -> Option<reply::Run> {
    let experiment = state.experiment(one.run.experiment)?;
    let run = experiment.run(one.run.number)?;
    let fired = one.fired.as_ref().ok().and_then(Option::as_ref);
    let ran_ms = (run.runtime_s(&PresentTime::default()).unwrap_or(0.0) * 1000.0) as u64;
    Some(reply::Run {
        experiment: one.run.experiment.0,
        number: one.run.number,
        name: experiment.definition.name.clone(),
        state: run.state_word().as_str().to_owned(),
        ran_ms,
        fired_ms: fired.map(|fired| fired.ran_ms),
        step: fired.and_then(|fired| fired.step),
        values: fired.map(|fired| fired.values.clone()).unwrap_or_default(),
        best: one.best.map(|best| best.value),
        good,
        // What came before the rule would have fired is not lost.
        lost: good
            && fired
                .zip(one.best)
                .is_some_and(|(fired, best)| best.at_ms > fired.ran_ms),
        problem: one.fired.as_ref().err().cloned().unwrap_or_default(),
    })
}
