//! What letters and calls tell of notices, from the state.

use std::collections::{BTreeMap, BTreeSet};

use nero_life::held::HoldReason;
use nero_life::notices::{Notice, NoticeKind};
use nero_life::now::PresentTime;
use nero_life::outlook::Outlook;
use nero_life::precedence::Precedents;
use nero_life::run::Run;
use nero_life::state::State;
use nero_model::{EndReason, Phase, RunId, TaskEnd};
use nero_views::results::is_goal;
use nero_views::text;

use crate::letter::{
    Account, BatchProgress, EventKind, HeldRuns, LetterCurves, LetterEvent, LetterTable,
};
use crate::plan::PlannedLetter;

/// Metrics of a finished run.
const METRICS_MAX: usize = 6;
/// Metrics of a digest: so many are shown in its text.
const DIGEST_METRICS_MAX: usize = 2;
/// Rows of a digest; the letter shows the first ones.
const ROWS_MAX: usize = 1000;

/// Whether a notice tells of a crash.
pub(crate) fn is_crash(notice: &Notice) -> bool {
    let phase = Phase::Crashed;
    matches!(notice.kind, NoticeKind::Ended { phase: ended, .. } if ended == phase)
}

/// What happened, of a notice. `stderr`: the end of what a crashed run printed there.
pub(crate) fn event(
    state: &State,
    notice: &Notice,
    stderr: Vec<u8>,
    now: &PresentTime,
) -> LetterEvent {
    let run = notice.kind.run().and_then(|run| state.run(run));
    let experiment = notice
        .kind
        .run()
        .and_then(|run| state.experiment(run.experiment));
    let definition = experiment.map(|one| &one.definition);
    let node = match &notice.kind {
        NoticeKind::NodeAway { node, .. } | NoticeKind::NodeBack { node, .. } => node.clone(),
        _ => run.map_or_else(String::new, |run| run.node_word().to_owned()),
    };
    LetterEvent {
        run: notice
            .kind
            .run()
            .map_or_else(String::new, |run| run.to_string()),
        name: definition.map_or_else(String::new, |one| one.name.clone()),
        collection: definition.map_or_else(String::new, |one| one.collection().to_owned()),
        node,
        at_ms: notice.at_ms,
        kind: kind(state, notice, run, stderr, now),
    }
}

fn kind(
    state: &State,
    notice: &Notice,
    run: Option<&Run>,
    stderr: Vec<u8>,
    now: &PresentTime,
) -> EventKind {
    match &notice.kind {
        NoticeKind::Started { .. } => EventKind::Started,
        NoticeKind::Ended { phase, .. } => ended(*phase, run, stderr, now),
        NoticeKind::Fired { rule, values, .. } => EventKind::Warned {
            rule: rule.clone(),
            values: pairs(values),
        },
        NoticeKind::Remark { text, .. } => EventKind::Remarked { text: text.clone() },
        NoticeKind::Stalled { silent_ms, .. } => EventKind::Stalled {
            silent_ms: *silent_ms,
        },
        NoticeKind::NodeAway { since_ms, why, .. } => EventKind::NodeAway {
            since_ms: *since_ms,
            why: why.clone(),
        },
        NoticeKind::NodeBack { since_ms, .. } => EventKind::NodeBack {
            away_ms: u64::try_from(notice.at_ms.saturating_sub(*since_ms)).unwrap_or(0),
        },
        NoticeKind::AllDone { batch } => all_done(state, *batch, notice.at_ms),
    }
}

fn ended(phase: Phase, run: Option<&Run>, stderr: Vec<u8>, now: &PresentTime) -> EventKind {
    // A loss may have given way to another end meanwhile.
    let run = run.filter(|run| run.phase() == phase);
    let runtime_ms = run.and_then(|run| run.runtime_s(now)).map(ms);
    let reason = run.and_then(Run::reason);
    let words = || reason.map_or_else(String::new, ToString::to_string);
    match (phase, reason) {
        (Phase::Finished, _) => EventKind::Finished {
            runtime_ms,
            values: run.map(metrics).unwrap_or_default(),
        },
        (Phase::Aborted, Some(EndReason::ByRule { text, values, .. })) => EventKind::Aborted {
            rule: text.clone(),
            values: pairs(values),
        },
        (Phase::Aborted, Some(EndReason::ByPerson { who } | EndReason::TakenAway { who })) => {
            EventKind::Cancelled { by: who.clone() }
        }
        (
            Phase::Aborted,
            Some(EndReason::ByScheduler {
                scheduler,
                how: TaskEnd::Cancelled,
            }),
        ) => EventKind::Cancelled {
            by: scheduler.clone(),
        },
        (Phase::Timeout, Some(EndReason::TimeLimit { limit_ms })) => EventKind::TimedOut {
            limit_ms: Some(*limit_ms),
        },
        (Phase::Timeout, _) => EventKind::TimedOut { limit_ms: None },
        (Phase::Lost, _) => EventKind::Lost { why: words() },
        (Phase::Aborted, _) => EventKind::Cancelled { by: words() },
        (_, _) => EventKind::Crashed {
            how: words(),
            runtime_ms,
            stderr,
        },
    }
}

fn ms(seconds: f64) -> u64 {
    (seconds * 1000.0).max(0.0) as u64
}

/// The last values of the metrics that tell how good a run is, then of those with more points.
fn metrics(run: &Run) -> Vec<(String, String)> {
    let mut metrics: Vec<_> = run.metrics().collect();
    metrics.sort_by_key(|(name, metric)| std::cmp::Reverse((is_goal(name), metric.count)));
    metrics.truncate(METRICS_MAX);
    let shown = |(name, metric): (&String, &nero_life::journal::Metric)| {
        (name.clone(), text::number(metric.last))
    };
    metrics.into_iter().map(shown).collect()
}

/// `loss = 3, runtime = 1h` as names and values.
fn pairs(values: &str) -> Vec<(String, String)> {
    let one = |text: &str| match text.split_once(" = ") {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => (String::new(), text.to_owned()),
    };
    let parts = values.split(", ").filter(|part| !part.is_empty());
    parts.map(one).collect()
}

fn all_done(state: &State, batch: RunId, ended_ms: i64) -> EventKind {
    let (mut finished, mut failed) = (0, 0);
    let mut began_ms = ended_ms;
    for run in state.batch_runs(batch) {
        began_ms = began_ms.min(run.made.created_ms);
        match run.phase() {
            Phase::Finished => finished += 1,
            // The run that neroman made in the place of this one is counted instead.
            _ if is_followed(state, run) => {}
            _ => failed += 1,
        }
    }
    EventKind::AllDone {
        finished,
        failed,
        took_ms: u64::try_from(ended_ms.saturating_sub(began_ms)).ok(),
    }
}

fn is_followed(state: &State, run: &Run) -> bool {
    let follows = |other: &Run| {
        let follows = other.made.follows.as_ref();
        follows.is_some_and(|follows| follows.run == run.made.id.number)
    };
    let experiment = state.experiment(run.made.id.experiment);
    experiment.is_some_and(|one| one.runs.iter().any(follows))
}

/// What one letter tells.
pub(crate) fn account(
    state: &State,
    planned: &PlannedLetter,
    events: Vec<LetterEvent>,
    curves: LetterCurves,
    now: &PresentTime,
) -> Account {
    let held = held(state, planned.collection.as_deref());
    Account {
        collection: planned.collection.as_deref().map(str::to_owned),
        events,
        progress: progress(state, planned, now),
        table: planned.is_digest.then(|| table(state, &held, now)),
        held,
        curves,
        is_digest: planned.is_digest,
    }
}

/// The runs that wait until a person acts, of one collection if the letter is about one.
fn held(state: &State, collection: Option<&str>) -> Vec<HeldRuns> {
    let precedents = Precedents::of(state);
    let mut reasons: BTreeMap<(String, bool), Vec<u64>> = BTreeMap::new();
    for run in state.live_runs() {
        let experiment = state.experiment(run.made.id.experiment);
        let own = experiment.map(|one| one.definition.collection());
        if collection.is_some_and(|collection| own != Some(collection)) {
            continue;
        }
        let held = HoldReason::among(&precedents, state, run).filter(HoldReason::needs_person);
        let reason = match (held, run.needs_person()) {
            (Some(held), _) => (held.to_string(), true),
            (None, Some(why)) => (why.to_owned(), false),
            (None, None) => continue,
        };
        reasons
            .entry(reason)
            .or_default()
            .push(run.made.id.experiment.0);
    }
    let mut held: Vec<HeldRuns> = reasons
        .into_iter()
        .map(|((why, can_resume), experiments)| HeldRuns {
            experiments,
            why,
            can_resume,
        })
        .collect();
    held.sort_by_key(|runs| std::cmp::Reverse(runs.experiments.len()));
    held
}

/// How far the batches are that the letter is about.
fn progress(state: &State, planned: &PlannedLetter, now: &PresentTime) -> Option<BatchProgress> {
    let notices = planned.notices.iter();
    let runs = notices.filter_map(|id| state.post.notices.get(id)?.kind.run());
    let of_notices = runs.filter_map(|run| state.run(run)?.made.batch);
    let batches: BTreeSet<RunId> = if planned.is_digest {
        state.live_runs().filter_map(|run| run.made.batch).collect()
    } else {
        of_notices.collect()
    };
    let batches: BTreeSet<RunId> = batches
        .into_iter()
        .filter(|batch| state.batch(*batch).runs > 1)
        .collect();
    let outlooks = batches.iter().map(|batch| Outlook::of(state, *batch, now));
    let outlooks: Vec<Outlook> = outlooks.collect();
    let open = outlooks
        .iter()
        .filter(|outlook| outlook.ended < outlook.runs);
    // One batch of which too little is known leaves the end of all unknown.
    let left: Option<Vec<u64>> = open.map(|outlook| outlook.left_ms).collect();
    let left_ms = left.and_then(|left| left.into_iter().max());
    let sum = |count: fn(&Outlook) -> u32| outlooks.iter().map(|one| u64::from(count(one))).sum();
    let mut progress = BatchProgress {
        done: sum(|one| one.ended),
        of: sum(|one| one.runs),
        failed: 0,
        left_ms,
        ends_at_ms: left_ms.map(|left| now.ms.saturating_add_unsigned(left)),
    };
    for run in batches.iter().flat_map(|batch| state.batch_runs(*batch)) {
        if is_followed(state, run) {
            continue;
        }
        progress.failed += u64::from(run.phase().is_end() && run.phase() != Phase::Finished);
    }
    (progress.of > 0).then_some(progress)
}

/// The live runs, the longest first.
pub fn longest<'a>(state: &'a State, now: &PresentTime) -> Vec<&'a Run> {
    let mut runs: Vec<&Run> = state.live_runs().collect();
    runs.sort_by(|one, other| {
        let ran = |run: &Run| run.runtime_s(now).unwrap_or(-1.0);
        ran(other)
            .total_cmp(&ran(one))
            .then(one.made.id.cmp(&other.made.id))
    });
    runs
}

/// The metrics that a digest shows: those that tell how good a run is, and others where none does;
/// of these the ones that most runs have. Each has so many points in a run.
pub fn metric_names(runs: &[&Run], points_min: u64) -> Vec<String> {
    let mut known: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    for (name, metric) in runs.iter().flat_map(|run| &run.journal.metrics) {
        if metric.count >= points_min && name != "progress" {
            let (runs, points) = known.entry(name).or_default();
            *runs += 1;
            *points += metric.count;
        }
    }
    let has_goal = known.keys().any(|name| is_goal(name));
    let mut names: Vec<_> = known
        .into_iter()
        .filter(|(name, _)| !has_goal || is_goal(name))
        .collect();
    names.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let names = names.into_iter().map(|(name, _)| name.to_owned());
    names.take(DIGEST_METRICS_MAX).collect()
}

/// The live runs of a digest.
fn table(state: &State, held: &[HeldRuns], now: &PresentTime) -> LetterTable {
    let held: BTreeSet<u64> = held
        .iter()
        .flat_map(|runs| runs.experiments.iter().copied())
        .collect();
    let mut runs = longest(state, now);
    runs.truncate(ROWS_MAX);
    let metrics = metric_names(&runs, 1);
    let row = |run: &&Run| {
        let experiment = state.experiment(run.made.id.experiment);
        let name = experiment.map_or("", |one| &one.definition.name);
        let mut row = vec![
            run.made.id.to_string(),
            name.to_owned(),
            if held.contains(&run.made.id.experiment.0) {
                "held".to_owned()
            } else {
                run.phase().as_str().to_owned()
            },
            run.runtime_s(now).map_or_else(String::new, text::duration),
        ];
        row.extend(metrics.iter().map(|name| {
            let metric = run.journal.metrics.get(name);
            metric.map_or_else(String::new, |metric| text::number(metric.last))
        }));
        row
    };
    let header = ["run", "name", "state", "runtime"].map(str::to_owned);
    LetterTable {
        header: header.into_iter().chain(metrics.clone()).collect(),
        rows: runs.iter().map(row).collect(),
    }
}
