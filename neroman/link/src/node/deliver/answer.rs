//! Tells nodes the ends of `local` steps, for which jobs wait.

use futures_util::StreamExt as _;
use nero_model::RunId;
use nero_wire::v1;
use tonic::Code;

use super::{Deliver, PATIENCE, RULES_AT_ONCE, ended_meanwhile};
use nero_home::failure::Failure;
use nero_home::spec::run_ref;
use nero_life::acts;
use nero_life::state::State;

impl Deliver {
    /// Sends the ends of steps of these runs, some at a time, and records their delivery together.
    pub(super) async fn answer(&mut self, state: &State, runs: &[RunId]) -> Result<(), Failure> {
        let mut sent = Vec::with_capacity(runs.len());
        for run in runs.iter().filter_map(|id| state.run(*id)) {
            let Some(stepped) = run.step_to_tell() else {
                continue;
            };
            let mut request = tonic::Request::new(v1::AnswerStepRequest {
                run: Some(run_ref(run)),
                incarnation: stepped.of.0,
                step: stepped.of.1,
                how: stepped.ran.how.clone(),
                output: stepped.ran.output.clone(),
            });
            request.set_timeout(PATIENCE);
            let (step, mut client) = ((run.made.id, stepped.of), self.peer.client.clone());
            sent.push(async move { (step, client.answer_step(request).await) });
        }
        let replies = futures_util::stream::iter(sent).buffer_unordered(RULES_AT_ONCE);
        let replies: Vec<_> = replies.collect().await;
        let (mut told, mut refused) = (Vec::new(), Vec::new());
        for (step, reply) in replies {
            match reply {
                Ok(_) => told.push(step),
                // The run ended meanwhile; its end is on its way.
                Err(status) if ended_meanwhile(&status) => told.push(step),
                Err(status) => refused.push(status),
            }
        }
        let note = move |state: &State, _| {
            let told = told.iter();
            told.filter_map(|(id, of)| acts::answered(state, *id, *of))
                .collect()
        };
        self.ledger.note(false, note).await?;
        for status in refused {
            if status.code() == Code::Unimplemented {
                // An agent of an earlier version is replaced once none of its runs needs it.
                self.later();
                continue;
            }
            let failure = Failure::node_does("does not take the ends of local steps");
            self.refused(failure.status(&status), &status)?;
        }
        Ok(())
    }
}
