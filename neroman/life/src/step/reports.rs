//! Several reports of a node at once.

use std::collections::BTreeMap;

use nero_model::RunId;

use super::input::Input;
use super::late::LateInputError;
use super::report::Report;
use super::step;
use crate::fold::change::{Change, dispatch_changed};
use crate::fold::run::Run;
use crate::fold::state::State;

/// What reports of a node change, in their order. A run changes once, to what its
/// last report leaves: an end that only an earlier one brought was seen by no person,
/// and does not stay. `late` gets the reports of runs that
/// are elsewhere or over.
pub fn said(
    state: &State,
    node: &str,
    reports: impl IntoIterator<Item = (RunId, Report)>,
    now_ms: i64,
    mut late: impl FnMut(LateInputError),
) -> Vec<Change> {
    let mut runs: BTreeMap<RunId, Run> = BTreeMap::new();
    let mut events = Vec::new();
    for (id, report) in reports {
        let known = runs.get(&id).or_else(|| state.run(id));
        let Some(mut run) = known.cloned() else {
            continue;
        };
        let node = node.to_owned();
        let input = Input::Reported { node, report };
        let changes = step(&run, &input, now_ms).unwrap_or_else(|error| {
            late(error);
            Vec::new()
        });
        for change in changes {
            match change {
                Change::Dispatch { dispatch, .. } => run.dispatch = *dispatch,
                event => events.push(event),
            }
        }
        runs.insert(id, run);
    }
    let changed = |(id, run): (RunId, Run)| {
        dispatch_changed(state.run(id)?, |dispatch| *dispatch = run.dispatch)
    };
    let changes = runs.into_iter().filter_map(changed);
    changes.chain(events).collect()
}
