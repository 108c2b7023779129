//! Asks a node to keep runs from starting, and to let them go on.

use std::collections::BTreeMap;

use nero_model::{RunId, RunToken};
use nero_wire::v1;
use nero_wire::v1::pause_runs_reply::Outcome;
use tonic::Code;

use super::{Deliver, PATIENCE};
use nero_home::failure::Failure;
use nero_home::ledger::LatePolicy;
use nero_home::spec::run_ref;
use nero_life::input::{Input, Placement};
use nero_life::state::State;

/// Runs of one request: each costs the node a file.
pub(super) const RUNS_MAX: usize = 256;

impl Deliver {
    /// Has the node hold runs that have not begun, or with `resume` let held ones go on.
    pub(super) async fn hold(
        &mut self,
        state: &State,
        runs: &[RunId],
        resume: bool,
    ) -> Result<(), Failure> {
        let asked = runs.iter().filter_map(|id| {
            let run = state.run(*id)?;
            Some(((*id, run.placement()?), run_ref(run)))
        });
        let (asked, refs): (Vec<(RunId, Placement)>, Vec<v1::RunRef>) = asked.unzip();
        let mut request = tonic::Request::new(v1::PauseRunsRequest {
            runs: refs,
            resume,
            author: "neroman: the first runs of its start".to_owned(),
            waiting: !resume,
        });
        request.set_timeout(PATIENCE);
        let failure = Failure::node_does("does not hold runs");
        let answers: BTreeMap<RunId, Outcome> = match self.peer.client.pause_runs(request).await {
            Ok(reply) => {
                let answer = |one: &v1::pause_runs_reply::One| {
                    let token = RunToken::from_slice(&one.token)?;
                    Some((state.by_token(&token)?, one.outcome()))
                };
                reply.into_inner().runs.iter().filter_map(answer).collect()
            }
            // An agent of an earlier version starts them all the same.
            Err(status) if status.code() == Code::Unimplemented => {
                let node = &self.settings.name;
                tracing::warn!(node, "its agent is of an earlier version and holds no runs");
                BTreeMap::new()
            }
            Err(status) => return self.refused(failure.status(&status), &status),
        };
        // A node that does not know the run reports that itself, and the hold stays.
        let known = |id: &RunId| resume || answers.get(id) != Some(&Outcome::UnknownRun);
        let answered = |(id, at)| {
            let outcome = answers.get(&id).copied();
            let holds = !resume && outcome.is_some_and(holds);
            (id, Input::HoldAnswered { at, holds })
        };
        let asked = asked.into_iter().filter(|(id, _)| known(id));
        let inputs = asked.map(answered).collect();
        let late = LatePolicy::Passes("it left its node meanwhile");
        self.ledger.happened(false, inputs, late).await
    }
}

/// Whether a node that answered so keeps the run from starting.
fn holds(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Held | Outcome::Same | Outcome::Asked => true,
        Outcome::Unspecified
        | Outcome::Ended
        | Outcome::UnknownRun
        | Outcome::Begun
        | Outcome::Adopted => false,
    }
}
