//! Pauses of runs.

use nero_model::RunToken;
use nero_node::agent::{PauseCall, PauseState};
use nero_wire::v1::pause_runs_reply::{One, Outcome};
use nero_wire::v1::{PauseRunsReply, PauseRunsRequest};
use tonic::Status;

use super::ServiceState;

/// Pauses runs, or lets them go on; the reply has them in the same order. A run
/// without a token of 16 bytes is unknown.
pub async fn pause(
    inner: &ServiceState,
    request: PauseRunsRequest,
) -> Result<PauseRunsReply, Status> {
    let tokens: Vec<Vec<u8>> = request.runs.into_iter().map(|run| run.token).collect();
    let known = |token: &Vec<u8>| RunToken::from_slice(token);
    let pausing = PauseCall {
        runs: tokens.iter().filter_map(known).collect(),
        wanted: if request.resume {
            PauseState::Resumed
        } else {
            PauseState::Paused
        },
        waiting: request.waiting,
        author: request.author,
    };
    let mut outcomes = inner.answer(inner.agent.pause(pausing)).await??.into_iter();
    let one = |token: Vec<u8>| One {
        outcome: match known(&token) {
            Some(_) => outcomes.next().unwrap_or(Outcome::Unspecified),
            None => Outcome::UnknownRun,
        }
        .into(),
        token,
    };
    let runs = tokens.into_iter().map(one).collect();
    Ok(PauseRunsReply { runs })
}
