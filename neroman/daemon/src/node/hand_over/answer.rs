//! The node's reply about runs that were handed over.

use std::collections::BTreeMap;

use nero_model::{RunId, RunToken};
use nero_wire::v1;
use nero_wire::v1::hand_over_reply::Refusal as Said;

use crate::ledger::Late;
use nero_life::change::Change;
use nero_life::hand_over::Answer;
use nero_life::input::Input;
use nero_life::now::Tick;
use nero_life::state::State;

/// The changes from a node's reply.
pub(super) fn answered(
    state: &State,
    node: &str,
    reply: &v1::HandOverReply,
    versions: &BTreeMap<Vec<u8>, u64>,
    tick: &Tick,
    now_ms: i64,
) -> Vec<Change> {
    let accepted = reply.accepted.iter().map(|token| {
        let rules_version = versions.get(token).copied().unwrap_or(0);
        (token, Answer::Accepted { rules_version })
    });
    let (later, refused): (Vec<_>, Vec<_>) = reply.refused.iter().partition(|no| no.later);
    let refused = later.into_iter().chain(refused);
    let inputs: Vec<(RunId, Input)> = accepted
        .chain(refused.map(|no| (&no.token, said(no))))
        .filter_map(|(token, answer)| {
            let id = state.by_token(&RunToken::from_slice(token)?)?;
            let answered = Input::HandOver {
                node: node.to_owned(),
                answer,
                tick: tick.clone(),
            };
            Some((id, answered))
        })
        .collect();
    Late::Passes("a person gave the node up meanwhile").steps(state, &inputs, now_ms)
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
