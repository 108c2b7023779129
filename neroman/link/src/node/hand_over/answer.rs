//! The node's reply about runs that were handed over.

use std::collections::BTreeMap;

use nero_model::{RunId, RunToken};
use nero_wire::v1;
use nero_wire::v1::hand_over_reply::Refusal as Said;

use nero_home::ledger::LatePolicy;
use nero_life::change::Change;
use nero_life::hand_over::Answer;
use nero_life::input::{Input, Placement};
use nero_life::now::Tick;
use nero_life::state::State;

/// What was sent of each run, by its token.
pub(super) type SentRuns = BTreeMap<Vec<u8>, SentRun>;

/// The versions of what was sent of one run.
pub(super) struct SentRun {
    generation: u32,
    rules_version: u64,
}

/// What was sent of these runs.
pub(super) fn sent(specs: &[v1::RunSpec]) -> SentRuns {
    let one = |spec: &v1::RunSpec| SentRun {
        generation: spec.generation,
        rules_version: spec.rules.as_ref().map_or(0, |rules| rules.version),
    };
    let sent = specs.iter().map(|spec| (spec.token.clone(), one(spec)));
    sent.collect()
}

/// The changes from a node's reply.
pub(super) fn answered(
    state: &State,
    node: &str,
    reply: &v1::HandOverReply,
    sent: &SentRuns,
    tick: &Tick,
    now_ms: i64,
) -> Vec<Change> {
    let accepted = reply.accepted.iter().map(|token| {
        let rules_version = sent.get(token).map_or(0, |spec| spec.rules_version);
        (token, Answer::Accepted { rules_version })
    });
    let (later, refused): (Vec<_>, Vec<_>) = reply.refused.iter().partition(|no| no.later);
    let refused = later.into_iter().chain(refused);
    let answers = accepted.chain(refused.map(|no| (&no.token, said(no))));
    changes(state, (node, sent), answers, tick, now_ms)
}

/// The changes from a node's reply to the question which runs it has. `why`: the reason
/// why they can never be sent.
pub(super) fn answer_changes(
    state: &State,
    node: &str,
    reply: &v1::HandOverReply,
    (sent, why): (&SentRuns, &str),
    tick: &Tick,
    now_ms: i64,
) -> Vec<Change> {
    let (rules_version, why) = (0, why.to_owned());
    let has = reply.accepted.iter();
    let has = has.map(|token| (token, Answer::Accepted { rules_version }));
    let says = |no: &Said| match (no.unknown_run || no.only_here, no.later) {
        (true, _) => Answer::NotThere { why: why.clone() },
        (false, true) => Answer::CannotTell {
            why: format!(
                "{why}; node {node} is asked whether it has the run: {}",
                no.why
            ),
        },
        // To an earlier build the question is a run without a command.
        (false, false) => Answer::CannotTell {
            why: format!(
                "{why}; node {node} is asked whether it has the run, and its agent is of an \
                 earlier build and cannot tell; to replace the agent: neroman node connect {node}"
            ),
        },
    };
    let lacks = reply.refused.iter().map(|no| (&no.token, says(no)));
    changes(state, (node, sent), has.chain(lacks), tick, now_ms)
}

fn changes<'a>(
    state: &State,
    (node, sent): (&str, &SentRuns),
    answers: impl Iterator<Item = (&'a Vec<u8>, Answer)>,
    tick: &Tick,
    now_ms: i64,
) -> Vec<Change> {
    let inputs: Vec<(RunId, Input)> = answers
        .filter_map(|(token, answer)| {
            let id = state.by_token(&RunToken::from_slice(token)?)?;
            let answered = Input::HandOver {
                at: Placement {
                    node: node.to_owned(),
                    generation: sent.get(token)?.generation,
                },
                answer,
                tick: tick.clone(),
            };
            Some((id, answered))
        })
        .collect();
    LatePolicy::Passes("a person gave the node up meanwhile").steps(state, &inputs, now_ms)
}

/// A node's refusal.
fn said(no: &Said) -> Answer {
    let (why, hint) = (no.why.clone(), no.hint.clone());
    let lacks = Some(no.lacks.clone()).filter(|lacks| !lacks.is_empty());
    if no.unknown_run {
        Answer::Unknown
    } else if no.later {
        Answer::Later { why, lacks, hint }
    } else {
        Answer::Refused {
            why,
            lacks,
            hint,
            only_here: no.only_here,
        }
    }
}
