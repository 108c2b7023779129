//! Asks a node to promise that it never starts runs which another node may
//! have. The question is recorded durably first, so that a later report that
//! such a run was taken away is not taken for a person's abort.

use std::collections::BTreeMap;

use nero_model::{RunId, RunToken};
use nero_wire::v1;
use nero_wire::v1::cancel_reply::Outcome;

use super::{Deliver, PATIENCE};
use nero_home::failure::Failure;
use nero_home::ledger::LatePolicy;
use nero_home::spec::run_ref;
use nero_life::change::Change;
use nero_life::input::{Input, Placement};
use nero_life::now::Tick;
use nero_life::recall::{self, RecallAnswer};
use nero_life::run::Run;
use nero_life::state::State;

/// Runs of one request: each costs the node a file.
pub(super) const RUNS_MAX: usize = 256;

impl Deliver {
    /// Recalls runs from the node; a node that does not know recalls
    /// keeps them.
    pub(super) async fn recall(&mut self, runs: &[RunId]) -> Result<(), Failure> {
        if !self.peer.supports_recall {
            return self.keep(runs).await;
        }
        // A run that is being handed over arrives before, or is not sent any
        // more.
        let gate = self.gate.clone();
        let held = gate.lock().await;
        let asked = |at| Input::RecallAsked { at };
        let late = LatePolicy::Passes("it was cancelled or started meanwhile");
        let inputs = self.each(runs, asked);
        self.ledger.happened(true, inputs, late).await?;
        let state = self.ledger.state();
        let mut generations: BTreeMap<u32, Vec<v1::RunRef>> = BTreeMap::new();
        for id in runs {
            let Some(run) = leaving(&state, &self.settings.name, *id) else {
                continue;
            };
            generations
                .entry(run.generation())
                .or_default()
                .push(run_ref(run));
        }
        let mut all_over: Vec<Vec<u8>> = Vec::new();
        for (generation, runs) in generations {
            let mut request = tonic::Request::new(v1::CancelRequest {
                request: nero_model::RequestId::random().to_vec(),
                runs,
                author: "another node may have it".to_owned(),
                recall: generation,
                ..v1::CancelRequest::default()
            });
            request.set_timeout(PATIENCE);
            let failure = Failure::node_does("did not recall runs");
            let reply = match self.peer.client.cancel(request).await {
                Ok(reply) => reply.into_inner(),
                Err(status) => {
                    self.refused(failure.status(&status), &status)?;
                    continue;
                }
            };
            let unsure = |one: &v1::cancel_reply::One| one.outcome() == Outcome::Unspecified;
            if reply.runs.iter().any(unsure) {
                self.later();
            }
            // A node without anything of a run has nothing to forget, and may get it
            // again.
            let over = |one: &&v1::cancel_reply::One| said(one) == Some(RecallAnswer::Never);
            let over = reply.runs.iter().filter(over);
            all_over.extend(over.map(|one| one.token.clone()));
            let node = self.settings.name.clone();
            let tick = self.settings.clock.moment().tick;
            self.ledger
                .note(false, move |state, now_ms| {
                    answered(state, (&node, generation), &reply, &tick, now_ms)
                })
                .await?;
        }
        // The receiver may wait for the gate.
        drop(held);
        if !all_over.is_empty() {
            // Without a receiver the connection is over; the node reports its
            // runs again then, and is told again.
            let _ = self.closed.send(all_over).await;
        }
        Ok(())
    }

    /// Keeps these runs on the node.
    async fn keep(&self, runs: &[RunId]) -> Result<(), Failure> {
        let cannot = |at| Input::RecallUnsupported { at };
        let late = LatePolicy::Passes("it was cancelled or started meanwhile");
        let inputs = self.each(runs, cannot);
        self.ledger.happened(false, inputs, late).await
    }

    /// The input for the present hand-over of each of these runs that are to leave.
    fn each(&self, runs: &[RunId], input: impl Fn(Placement) -> Input) -> Vec<(RunId, Input)> {
        let state = self.ledger.state();
        let leaving = |id: &RunId| leaving(&state, &self.settings.name, *id)?.placement();
        let runs = runs.iter().filter_map(|id| Some((*id, leaving(id)?)));
        runs.map(|(id, at)| (id, input(at))).collect()
    }
}

/// The run, if it is to leave this node.
fn leaving<'a>(state: &'a State, node: &str, id: RunId) -> Option<&'a Run> {
    let run = state.run(id)?;
    recall::is_leaving(run, node).then_some(run)
}

fn answered(
    state: &State,
    (node, generation): (&str, u32),
    reply: &v1::CancelReply,
    tick: &Tick,
    now_ms: i64,
) -> Vec<Change> {
    let inputs = reply.runs.iter().filter_map(|one| {
        let said = said(one)?;
        let id = state.by_token(&RunToken::from_slice(&one.token)?)?;
        let answered = Input::RecallAnswered {
            at: Placement {
                node: node.to_owned(),
                generation,
            },
            said,
            tick: tick.clone(),
        };
        Some((id, answered))
    });
    let inputs: Vec<(RunId, Input)> = inputs.collect();
    let late = LatePolicy::Passes("a report ended the recall before, or a person gave the node up");
    late.steps(state, &inputs, now_ms)
}

/// The node's answer; `None` if the run's records will tell.
fn said(one: &v1::cancel_reply::One) -> Option<RecallAnswer> {
    match one.outcome() {
        Outcome::NeverStarted => Some(RecallAnswer::Never),
        Outcome::UnknownRun => Some(RecallAnswer::Nothing),
        Outcome::GoesOn | Outcome::Asked => Some(RecallAnswer::Begun),
        Outcome::Ended | Outcome::Unspecified => None,
    }
}
