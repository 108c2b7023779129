//! Hand-overs: the folders of their runs are made beside the agent, which accepts the runs then.

use std::sync::Arc;

use nero_node::{config, staging};
use nero_wire::v1::{HandOverReply, HandOverRequest, RunSpec};
use tonic::Status;

use super::ServiceState;

/// Number of run folders made in place; for more, the work moves off the
/// reactor.
const PLACED_AT_ONCE: usize = 8;

/// Takes runs in. Once their folders are being made, the agent accepts or removes them even if
/// the caller leaves: else a run that is elsewhere by then could lie here, too.
pub async fn hand_over(
    inner: &Arc<ServiceState>,
    tenure: u64,
    request: HandOverRequest,
) -> Result<HandOverReply, Status> {
    let HandOverRequest {
        runs, sent_again, ..
    } = request;
    if runs.len() > config::HAND_OVER_MAX {
        return Err(Status::invalid_argument("too many runs in one call"));
    }
    let inner = Arc::clone(inner);
    let store = &inner.store;
    let quick = runs
        .iter()
        .all(|run| staging::is_quick(store, run, 1) && run.data.is_empty() && !run.movable);
    let asks = |run: &RunSpec| run.scheduler.as_ref().is_some_and(|asks| asks.gpus > 0);
    let gpus = if inner.front.is_none() && runs.iter().any(asks) {
        Some(inner.gpus.look_anew().await)
    } else {
        None
    };
    let images = inner.containers.find_images(&runs).await;
    let permit = inner.owners.permit(tenure).await?;
    let in_place = runs.len() <= PLACED_AT_ONCE && quick;
    let taking_in = async move {
        let placer = Arc::clone(&inner);
        let place = move || {
            let ServiceState { placer, store, .. } = &*placer;
            placer.place(store, runs, &sent_again, gpus, images)
        };
        let placing = if in_place {
            place()
        } else {
            inner.file_work(place).await?
        };
        let reply = inner.answer(inner.agent.hand_over(placing)).await;
        drop(permit);
        reply
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "awaited at once, unless the caller leaves"
    )]
    let taking_in = tokio::spawn(taking_in);
    taking_in
        .await
        .map_err(|_| Status::internal("handing over failed"))?
}
