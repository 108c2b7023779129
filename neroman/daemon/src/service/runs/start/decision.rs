//! The runs that a start makes, and what else it changes.

use std::sync::Arc;

use nero_life::abort;
use nero_life::change::{Change, NewRun};
use nero_life::experiment::Experiment;
use nero_life::rules::InapplicableRules;
use nero_life::run::{Dispatch, Line, RunRecord};
use nero_life::start::{self, Plan};
use nero_life::state::State;
use nero_model::{ExperimentId, RunId};
use nero_wire::v1;
use prost::Message as _;

use super::run_record::made;
use super::{FrozenSources, InStart, RequestedStart, order, planned, reply_entry, same_code};
use nero_home::failure::Failure;
use nero_home::ledger::{self, Decision};
use nero_home::spec;
use nero_link::outside::{FolderToFreeze, FrozenFolder};

/// What is decided so far.
struct NewRuns<'a> {
    asked: &'a RequestedStart,
    prepared: &'a FrozenSources,
    now_ms: i64,
    /// The state with the changes.
    work: State,
    changes: Vec<Change>,
    batch: Option<RunId>,
    started: Vec<ExperimentId>,
    /// Runs that go on at once.
    at_once: u32,
    off: InapplicableRules,
}

/// Makes the runs of the picked experiments.
///
/// # Errors
/// When the definitions changed since they were read; when a run can have no place.
pub(super) fn decide(
    state: &State,
    prepared: &FrozenSources,
    asked: &RequestedStart,
    now_ms: i64,
) -> Result<Decision<v1::StartReply>, Failure> {
    if !prepared.sources.reads.is_empty() && state.highest != prepared.highest {
        return Err(Failure::moved());
    }
    let (work, changes, plans) = planned(state, prepared, asked)?;
    let experiments = plans
        .iter()
        .filter_map(|plan| reply_entry(&work, plan))
        .collect();
    let batch = order::first_run(&work, asked.pilot, &plans);
    let mut new = NewRuns {
        asked,
        prepared,
        now_ms,
        work,
        changes,
        batch,
        started: Vec::new(),
        at_once: 0,
        off: InapplicableRules::default(),
    };
    for plan in &plans {
        if let Plan::Run { id, after } = plan {
            new.add(*id, *after)?;
        }
    }
    let mut notes = prepared.notes.clone();
    notes.extend(order::needed(&new.work, &new.started));
    notes.extend(new.off.notes());
    notes.extend(order::notes(&new.work, asked.pilot, asked.at_most, &plans));
    if !new.started.is_empty() {
        new.changes.push(ledger::last(new.started));
    }
    Ok(Decision {
        answer: v1::StartReply {
            experiments,
            notes,
            folders: prepared.folders.clone(),
            batch: batch.map(|id| id.to_string()).unwrap_or_default(),
            ..v1::StartReply::default()
        },
        changes: new.changes,
    })
}

impl NewRuns<'_> {
    fn take(&mut self, change: Change) {
        self.work.apply(&change);
        self.changes.push(change);
    }

    /// Makes one run, behind the one with the number `after`.
    fn add(&mut self, id: RunId, after: Option<u32>) -> Result<(), Failure> {
        let rank = u32::try_from(self.started.len()).unwrap_or(u32::MAX);
        self.started.push(id.experiment);
        let Some(experiment) = self.work.experiment(id.experiment).cloned() else {
            return Ok(());
        };
        if after.is_some() {
            for change in abort::for_restart(&experiment, "restart", self.now_ms) {
                self.take(change);
            }
        }
        let mut fresh = Vec::new();
        let rules = start::rules(&self.work, &experiment, &mut fresh);
        for rule in fresh {
            self.take(Change::Rule(Arc::new(rule)));
        }
        for rule in rules.iter().filter_map(|id| self.work.rules.get(id)) {
            self.off
                .check(rule.id, &rule.text, &rule.origin, &experiment);
        }
        let asked = self.asked;
        let place = InStart {
            batch: self.batch,
            rank: asked.order.as_ref().map_or(0, |_| rank),
            line: (asked.at_most.zip(self.batch)).map(|(at_most, of)| Line { of, at_most }),
            priority: asked.priority,
        };
        let (mut made, node, spec) = if asked.wanted.same_code {
            same_code::run(asked, self.prepared, &experiment, id, &place, self.now_ms)?
        } else {
            self.anew(&experiment, id, &place)?
        };
        let before = self.changes.iter().rev().find_map(|change| match change {
            Change::Run(before) => Some(before),
            _ => None,
        });
        if let Some(before) = before {
            made.share(&before.made);
        }
        let dispatch = self.dispatch(&made, node, after);
        self.take(Change::Run(Arc::new(NewRun {
            made: Arc::new(made),
            dispatch,
            rules: rules.into(),
            spec: spec.into(),
        })));
        Ok(())
    }

    /// A run of the present code: its constant part, its node if that is decided, its spec.
    fn anew(
        &self,
        experiment: &Experiment,
        id: RunId,
        place: &InStart,
    ) -> Result<(RunRecord, Option<String>, Vec<u8>), Failure> {
        let frozen = FolderToFreeze::of(&experiment.definition);
        let frozen = self.prepared.frozen.get(&frozen);
        let frozen = frozen.ok_or_else(Failure::moved)?;
        let (mut made, node) = placed_run(self.asked, experiment, id, frozen, self.now_ms)?;
        place.put(&mut made);
        let spec = spec::build(
            &experiment.definition,
            &made,
            &frozen.tree,
            self.asked.deployment.as_bytes(),
            &self.asked.shell,
            self.asked.places.results_max_bytes(experiment),
        );
        Ok((made, node, spec.encode_to_vec()))
    }

    /// What the run waits for.
    fn dispatch(&mut self, made: &RunRecord, node: Option<String>, after: Option<u32>) -> Dispatch {
        let needs_others = made.precedence.waits_for_others();
        // A run that waits for others takes its place in the line when they have ended.
        let is_turn_later = |at_most| needs_others || self.at_once >= at_most;
        let waits_in_line = self.asked.at_most.is_some_and(is_turn_later);
        self.at_once += u32::from(!needs_others);
        let node = node.filter(|_| !made.precedence.looks_at_others());
        let after = after.filter(|number| still_live(&self.work, made.id, *number));
        let mut dispatch = if self.asked.pilot && self.batch != Some(made.id) {
            Dispatch::behind_pilot(after)
        } else {
            Dispatch::planned(node, after)
        };
        if waits_in_line {
            dispatch = dispatch.in_line();
        }
        if needs_others {
            dispatch = dispatch.behind_others();
        }
        dispatch
    }
}

/// The constant part of a run, and its node if that is decided. A run that resumes prefers the node
/// of the run before it.
fn placed_run(
    asked: &RequestedStart,
    experiment: &Experiment,
    id: RunId,
    frozen: &FrozenFolder,
    now_ms: i64,
) -> Result<(RunRecord, Option<String>), Failure> {
    let mut placed = asked.places.of(experiment)?;
    placed.resume(asked, experiment);
    let node = placed.node.clone();
    let results_max_bytes = asked.places.results_max_bytes(experiment);
    let made = RunRecord {
        created: Some(asked.at.tick.clone()),
        priority: experiment.definition.priority,
        ..made(experiment, id, frozen, placed, now_ms, results_max_bytes)
    };
    Ok((made, node))
}

/// Whether a run up to this number is live. Cancelling a run that queued behind
/// another ends it at once; the new run then queues behind that other one.
fn still_live(state: &State, id: RunId, number: u32) -> bool {
    state.experiment(id.experiment).is_some_and(|experiment| {
        experiment
            .runs
            .iter()
            .any(|run| run.made.id.number <= number && run.phase().is_live())
    })
}
