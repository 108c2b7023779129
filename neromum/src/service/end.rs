//! Requests for the end of runs.

use nero_model::{ExperimentId, RequestId, RunId, RunToken};
use nero_node::agent::{Cancel, EndRequest, Target};
use nero_wire::v1::cancel_reply::{One, Outcome};
use nero_wire::v1::{CancelReply, CancelRequest};
use tonic::Status;

use super::ServiceState;

/// Requests the end of runs; the reply has them in the same order. A run
/// without a token of 16 bytes is unknown.
pub async fn end(inner: &ServiceState, request: CancelRequest) -> Result<CancelReply, Status> {
    let runs: Vec<(Vec<u8>, Option<Target>)> = request
        .runs
        .into_iter()
        .map(|run| {
            let id = RunId {
                experiment: ExperimentId(run.experiment),
                number: run.number,
            };
            let token = RunToken::from_slice(&run.token);
            (run.token, token.map(|token| Target { token, id }))
        })
        .collect();
    let ending = EndRequest {
        request: RequestId::from_slice(&request.request),
        runs: runs.iter().filter_map(|(_, target)| *target).collect(),
        cancel: Cancel {
            grace_ms: request.grace_ms,
            signal: request.signal,
            author: request.author,
            request: request.request,
        },
        recall: request.recall,
    };
    let mut outcomes = inner.answer(inner.agent.end(ending)).await??.into_iter();
    let one = |(token, target): (Vec<u8>, Option<Target>)| One {
        token,
        outcome: match target {
            Some(_) => outcomes.next().map_or(Outcome::Unspecified, Outcome::from),
            None => Outcome::UnknownRun,
        }
        .into(),
    };
    let runs = runs.into_iter().map(one).collect();
    Ok(CancelReply { runs })
}
