//! Runs that neroman makes by itself when one ended: `retry`, `on_timeout: requeue`, and
//! the rule actions `restart` and `requeue`.
//!
//! The next run is decided in the transaction that has the end, so a crash of the daemon
//! leaves both or neither. It is made once, since only an experiment's newest run has a
//! next one. Whatever a person asked for before the end wins: a cancel request, a new run.

use std::sync::Arc;

use nero_format::{Retry, RetryOn, RuleAction};
use nero_model::units::short_bytes;
use nero_model::{EndReason, RunId, RunToken, TaskEnd};

use crate::facts::dispatch::Dispatch;
use crate::facts::follows::BY_RULES_MAX;
pub use crate::facts::follows::{Cause, Follows};
use crate::facts::journal::Exit;
use crate::facts::now::Moment;
use crate::facts::run_record::RunRecord;
use crate::fold::change::{Change, NewRun, dispatch_changed};
use crate::fold::errors::line_fits;
use crate::fold::experiment::Experiment;
use crate::fold::run::Run;
use crate::fold::state::State;

/// What follows the end of a run.
#[derive(Debug)]
pub enum Next {
    /// A new run. The caller makes its spec: a copy of the earlier run's with the new [`RunRecord`].
    Run { new: Box<NewRun>, event: Change },
    /// No run follows although one could: recorded with the reason.
    None(Vec<Change>),
}

/// What follows the end of a run by itself; `token` makes that of the new run. `None`:
/// nothing, or not yet.
pub fn next(
    state: &State,
    ended: RunId,
    token: impl FnOnce() -> RunToken,
    now: &Moment,
) -> Option<Next> {
    let experiment = state.experiment(ended.experiment)?;
    let run = experiment.newest().filter(|run| run.made.id == ended)?;
    let is_open = experiment.hidden_ms.is_none()
        && run.dispatch.cancel.is_none()
        && run.dispatch.no_retry.is_empty();
    // An adopted job has no command of ours that could be started again.
    let has_command = !experiment.definition.argv.is_empty();
    if !is_open || !has_command || !run.phase().is_end() || run.in_doubt() {
        return None;
    }
    match cause(state, run)? {
        Ok(cause) => Some(follow(experiment, run, cause, token(), now)),
        Err(why) => Some(Next::None(forgone(run, why, now.ms))),
    }
}

/// Records why no run follows this one, although one could.
pub fn forgone(run: &Run, why: String, now_ms: i64) -> Vec<Change> {
    let id = run.made.id;
    let event = Change::Event {
        experiment: id.experiment,
        run: Some(id.number),
        at_ms: now_ms,
        text: format!("{id}: {why}"),
    };
    let change = dispatch_changed(run, |dispatch| dispatch.no_retry = why);
    change.into_iter().chain([event]).collect()
}

/// Why a run follows this one, or why it does not although one could.
fn cause(state: &State, run: &Run) -> Option<Result<Cause, String>> {
    let reason = run.reason()?;
    if let EndReason::ByRule { rule, .. } = reason {
        return by_rule(state, run, *rule);
    }
    let on = counts_as(reason)?;
    let again = &run.made.again;
    let mut why = None;
    if on == RetryOn::Timeout && again.requeues_timeout {
        match run.dispatch.made_checkpoint {
            Some(true) => return Some(Ok(Cause::Timeout)),
            Some(false) => {
                why = Some("not requeued: it left no new checkpoint in its time".to_owned());
            }
            None => {
                why = Some("not requeued: its node tells of no checkpoint".to_owned());
            }
        }
    }
    let mut items = again.retries().enumerate();
    let found = items.find(|(_, retry)| counts(retry, on, run));
    let Some((item, &Retry { max, .. })) = found.filter(|(_, retry)| retry.max > 0) else {
        return why.map(Err);
    };
    let made = run.made.follows.as_ref().map_or(0, |one| one.by_item(item));
    if made < max {
        Some(Ok(Cause::Retry { on, max, item }))
    } else {
        Some(Err(format!("not run again: {max} of {max} retries failed")))
    }
}

fn by_rule(state: &State, run: &Run, rule: u64) -> Option<Result<Cause, String>> {
    let rule = state.rules.get(&rule)?;
    let anywhere = match rule.action.as_str() {
        restart if restart == RuleAction::Restart.as_str() => false,
        requeue if requeue == RuleAction::Requeue.as_str() => true,
        _ => return None,
    };
    let made = run.made.follows.as_ref().map_or(0, |one| one.by_rules);
    if made >= BY_RULES_MAX {
        let why = format!("not run again: rules did so {BY_RULES_MAX} times in a row");
        return Some(Err(why));
    }
    // The record of its firing may not be home yet.
    let text = rule.text.clone();
    Some(Ok(Cause::Rule { text, anywhere }))
}

/// Whether an item is for this end. A failure for want of memory counts, too, where any crash
/// does.
fn counts(retry: &Retry, on: RetryOn, run: &Run) -> bool {
    if retry.is_handler && !matches!(run.reason(), Some(EndReason::Exited { .. })) {
        return false;
    }
    let crash = on == RetryOn::OutOfMemory && retry.on.contains(&RetryOn::Crashed);
    if !crash && !retry.on.contains(&on) {
        return false;
    }
    let is_code = |exit: &Exit| exit.signal == 0 && retry.exit.contains(&exit.code);
    let code_fits = retry.exit.is_empty() || run.exit().is_some_and(is_code);
    let line_fits = |pattern: &String| line_fits(pattern, run.stderr_line());
    code_fits && retry.stderr.as_ref().is_none_or(line_fits)
}

/// The word of `retry.on` for a reason.
fn counts_as(reason: &EndReason) -> Option<RetryOn> {
    match reason {
        EndReason::Rebooted => Some(RetryOn::NodeFailure),
        EndReason::OutOfMemory { .. } => Some(RetryOn::OutOfMemory),
        EndReason::TimeLimit { .. } => Some(RetryOn::Timeout),
        EndReason::ByScheduler { how, .. } => match how {
            TaskEnd::HostFailure => Some(RetryOn::NodeFailure),
            TaskEnd::OutOfMemory => Some(RetryOn::OutOfMemory),
            TaskEnd::TimeLimit => Some(RetryOn::Timeout),
            TaskEnd::Preempted => Some(RetryOn::Preempted),
            TaskEnd::Cancelled | TaskEnd::Escalated | TaskEnd::Failed | TaskEnd::Untold => None,
        },
        EndReason::Exited { .. } | EndReason::Signalled { .. } | EndReason::DiskFull { .. } => {
            Some(RetryOn::Crashed)
        }
        EndReason::NotStarted { .. }
        | EndReason::ByPerson { .. }
        | EndReason::ByRule { .. }
        | EndReason::TakenAway { .. }
        | EndReason::CodeUnknown
        | EndReason::NodeGone { .. }
        | EndReason::Other { .. } => None,
    }
}

fn follow(experiment: &Experiment, run: &Run, cause: Cause, token: RunToken, now: &Moment) -> Next {
    let before = run.made.follows.as_ref();
    let mut follows = Follows {
        run: run.made.id.number,
        retries: before.map_or(0, |one| one.retries)
            + u32::from(matches!(cause, Cause::Retry { .. })),
        by_items: by_items(run, &cause),
        by_rules: match cause {
            Cause::Rule { .. } => before.map_or(0, |one| one.by_rules) + 1,
            Cause::Retry { .. } | Cause::Timeout => 0,
        },
        asked_node: None,
        cause,
    };
    let mut made = (*run.made).clone();
    if let Some(asked) = before.and_then(|one| one.asked_node.as_ref()) {
        made.node.clone_from(asked);
    }
    made.id.number = run.made.id.number.saturating_add(1);
    made.token = token;
    made.placing = true;
    // A pilot may finish by its retry; else the crashes of one experiment are no sign of a
    // cause that all runs of its start share.
    let own = made.id.experiment;
    made.batch = made.batch.filter(|batch| batch.experiment == own);
    made.created_ms = now.ms;
    made.created = Some(now.tick.clone());
    let more = grow(&mut made, &follows.cause, run.node().unwrap_or_default());
    let earlier = Some(experiment)
        .filter(|_| made.checkpoint)
        .and_then(Experiment::newest_started);
    if let Some(earlier) = earlier {
        made.resume = Some(earlier.made.id.number);
        earlier.node_word().clone_into(&mut made.takes.prefer);
    }
    let there = match &follows.cause {
        Cause::Rule {
            anywhere: false, ..
        } => run.node().map(str::to_owned),
        Cause::Rule { .. } | Cause::Retry { .. } | Cause::Timeout => None,
    };
    if let Some(node) = &there {
        follows.asked_node = Some(std::mem::replace(&mut made.node, node.clone()));
    }
    let from = match made.resume {
        Some(number) => format!(", from the checkpoints of {}.{number}", made.id.experiment),
        None => String::new(),
    };
    let event = Change::Event {
        experiment: made.id.experiment,
        run: Some(made.id.number),
        at_ms: now.ms,
        text: format!("{}: {follows}{more}{from}", made.id),
    };
    made.follows = Some(follows);
    let live = experiment.live().next().map(|live| live.made.id.number);
    let there = there.filter(|_| !made.precedence.looks_at_others());
    // What it needs was there, or a person waived it, when the run before started: it is not
    // asked for again.
    let dispatch = Dispatch::planned(there, live);
    let new = Box::new(NewRun {
        made: Arc::new(made),
        dispatch,
        rules: Arc::clone(&run.rules),
        spec: Arc::default(),
    });
    Next::Run { new, event }
}

/// The runs in a row that each item of a list made; empty without a list.
fn by_items(run: &Run, cause: &Cause) -> Vec<u32> {
    let items = run.made.again.retries().count();
    if items < 2 {
        return Vec::new();
    }
    let before = run.made.follows.as_ref();
    let count = |item| {
        let own = matches!(cause, Cause::Retry { item: by, .. } if *by == item);
        before.map_or(0, |one| one.by_item(item)) + u32::from(own)
    };
    (0..items).map(count).collect()
}

/// Gives a retry the factors of its `retry`; returns the words about them. `node`: that of
/// the run before.
fn grow(made: &mut RunRecord, cause: &Cause, node: &str) -> String {
    let Cause::Retry { on, item, .. } = cause else {
        return String::new();
    };
    let Some(retry) = made.again.retries().nth(*item).cloned() else {
        return String::new();
    };
    let times = |number: u64, factor: f64| (number as f64 * factor).ceil() as u64;
    match on {
        RetryOn::OutOfMemory if retry.memory > 1.0 => {
            let takes = &mut made.takes;
            takes.memory_bytes = times(takes.memory_bytes, retry.memory);
            let own = &mut takes.on_nodes.memory_bytes;
            *own = own.each(|bytes| times(*bytes, retry.memory));
            takes.grown = true;
            format!(", with {} memory", short_bytes(takes.on(node).memory_bytes))
        }
        RetryOn::Timeout if retry.time > 1.0 => {
            let longer_ms = times(made.time_ms, retry.time);
            // The margin in which our own limit ends the run stays.
            let more_s = longer_ms.saturating_sub(made.time_ms).div_ceil(1000);
            made.time_ms = longer_ms;
            let takes = &mut made.takes;
            takes.limit_s = takes.limit_s.saturating_add(more_s);
            let own = &mut takes.on_nodes.time_ms;
            *own = own.each(|ms| times(*ms, retry.time));
            takes.grown = true;
            let time = nero_model::units::print_duration_ms(made.time_ms_on(Some(node)));
            format!(", with a time limit of {time}")
        }
        RetryOn::OutOfMemory
        | RetryOn::Timeout
        | RetryOn::NodeFailure
        | RetryOn::Preempted
        | RetryOn::Crashed => String::new(),
    }
}
