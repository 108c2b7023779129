//! What a node says of runs that were handed over to it.

use std::collections::BTreeMap;

use nero_model::RunToken;
use nero_wire::v1;
use nero_wire::v1::hand_over_reply::Refusal as Said;

use crate::core::change::{Change, desk_change};
use crate::core::later;
use crate::core::refusal::{self, Refusal};
use crate::core::run::{Desk, Handing};
use crate::core::state::State;
use crate::core::text::bounded;

/// What a node's answer changes: of a run that was placed elsewhere meanwhile,
/// nothing counts that an earlier node says.
pub(super) fn answered(
    state: &State,
    node: &str,
    reply: &v1::HandOverReply,
    versions: &BTreeMap<Vec<u8>, u64>,
    now_ms: i64,
) -> Vec<Change> {
    let run = |token: &[u8]| {
        let id = state.by_token(&RunToken::from_slice(token)?)?;
        state.run(id).filter(|run| run.node() == Some(node))
    };
    let accepted = reply.accepted.iter().filter_map(|token| {
        let version = versions.get(token).copied().unwrap_or(0);
        desk_change(state, run(token)?.made.id, |desk| {
            desk.handing = desk.handing.max(Handing::Submitted);
            desk.rules_delivered = desk.rules_delivered.max(version);
            desk.send_spec = false;
            later::taken(desk, node);
        })
    });
    let (later, refused): (Vec<_>, Vec<_>) = reply.refused.iter().partition(|no| no.later);
    let later = later.into_iter().filter_map(|no| {
        desk_change(state, run(&no.token)?.made.id, |desk| {
            desk.handing = desk.handing.max(Handing::Staging);
            desk.why = bounded(&refusal::with_hint(&no.why, &no.hint));
            later::said(desk, node, &bounded(&no.why), now_ms);
        })
    });
    let refused = refused.into_iter().filter_map(|no| {
        let run = run(&no.token)?;
        if run.desk.send_spec {
            // Its node has it; what it needs to go on is said there.
            let forgo = |desk: &mut Desk| desk.send_spec = false;
            return Some(desk_change(state, run.made.id, forgo).into_iter().collect());
        }
        Some(refusal::refused(run, said(node, no, now_ms), no.only_here))
    });
    let refused = refused.flatten();
    accepted.chain(later).chain(refused).collect()
}

/// A node's refusal.
fn said(node: &str, no: &Said, now_ms: i64) -> Refusal {
    Refusal {
        node: node.to_owned(),
        why: bounded(&no.why),
        hint: bounded(&no.hint),
        at_ms: now_ms,
    }
}
