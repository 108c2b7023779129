//! Ends the runs that were given up on a node, when the node answers again.

use std::time::Duration;

use nero_model::RunId;
use nero_wire::v1;
use nero_wire::v1::mum_client::MumClient;
use tokio::sync::mpsc;
use tonic::transport::Channel;

use nero_home::failure::{Failure, cannot_now};
use nero_home::ledger::{LatePolicy, Ledger};
use nero_home::spec::run_ref;
use nero_life::input::Input;
use nero_life::state::State;

/// Most runs of one `Cancel`.
const RUNS_MAX: usize = 10_000;
/// How long the node's reply may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether a node may still have runs that were given up there.
pub(super) fn any(node: &str, state: &State) -> bool {
    state.left_on(node).next().is_some()
}

/// Ends all of them, and records that. Returns false if the node answers that
/// it cannot do it now.
pub(super) async fn end(
    node: &str,
    state: &State,
    ledger: &Ledger,
    client: &mut MumClient<Channel>,
    closed: &mpsc::Sender<Vec<Vec<u8>>>,
) -> Result<bool, Failure> {
    let runs = state.left_on(node);
    let runs: Vec<(RunId, v1::RunRef)> = runs.map(|run| (run.made.id, run_ref(run))).collect();
    for part in runs.chunks(RUNS_MAX) {
        tracing::info!(node, runs = part.len(), "ending what was given up");
        let mut request = tonic::Request::new(v1::CancelRequest {
            request: nero_model::RequestId::random().to_vec(),
            runs: part.iter().map(|(_, run)| run.clone()).collect(),
            author: "node gone".to_owned(),
            ..v1::CancelRequest::default()
        });
        request.set_timeout(PATIENCE);
        if let Err(status) = client.cancel(request).await {
            let failure = Failure::node_does("does not end runs").status(&status);
            if !cannot_now(&status) {
                return Err(failure);
            }
            tracing::warn!(node, %failure, "what was given up is ended later");
            return Ok(false);
        }
        let tokens = part.iter().map(|(_, run)| run.token.clone()).collect();
        // Without a receiver the connection is over; the next one sends the
        // tokens again.
        if closed.send(tokens).await.is_err() {
            return Ok(true);
        }
        let ids: Vec<RunId> = part.iter().map(|(id, _)| *id).collect();
        let ended = Input::EndedThere {
            node: node.to_owned(),
        };
        let inputs = ids.into_iter().map(|id| (id, ended.clone())).collect();
        ledger.happened(false, inputs, LatePolicy::Never).await?;
    }
    Ok(true)
}
