//! The node's reply about runs that were handed over.

use std::collections::BTreeMap;

use nero_model::RunToken;
use nero_wire::v1;
use nero_wire::v1::hand_over_reply::Refusal as Said;

use nero_life::change::Change;
use nero_life::hand_over::{self, Answer};
use nero_life::now::Moment;
use nero_life::state::State;

/// The changes from a node's reply.
pub(super) fn answered(
    state: &State,
    node: &str,
    reply: &v1::HandOverReply,
    versions: &BTreeMap<Vec<u8>, u64>,
    now: &Moment,
) -> Vec<Change> {
    let accepted = reply.accepted.iter().map(|token| {
        let rules_version = versions.get(token).copied().unwrap_or(0);
        (token, Answer::Accepted { rules_version })
    });
    let (later, refused): (Vec<_>, Vec<_>) = reply.refused.iter().partition(|no| no.later);
    let refused = later.into_iter().chain(refused);
    accepted
        .chain(refused.map(|no| (&no.token, said(no))))
        .filter_map(|(token, answer)| {
            let run = state.run(state.by_token(&RunToken::from_slice(token)?)?)?;
            Some(hand_over::answered(run, node, &answer, now))
        })
        .flatten()
        .collect()
}

/// A node's refusal.
fn said(no: &Said) -> Answer {
    let (why, hint) = (no.why.clone(), no.hint.clone());
    match no.later {
        true => Answer::Later { why, hint },
        false => Answer::Refused {
            why,
            hint,
            only_here: no.only_here,
        },
    }
}
