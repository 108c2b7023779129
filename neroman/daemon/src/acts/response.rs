//! The command of a handler of `on_error`, on the node of its run.

use std::io;
use std::time::Duration;

use nero_life::run::Run;
use nero_model::paths::act;
use nero_wire::v1;
use tokio::sync::Semaphore;
use tonic::Code;

use crate::service::Man;
use nero_home::spec::run_ref;
use nero_link::connect::mum_client;

/// How long a connection is waited for, and the pause before a node is asked again.
const AGAIN: Duration = Duration::from_secs(20);
/// How long a reply may take: as long as the command, and a little more.
const PATIENCE: Duration = Duration::from_secs(act::LIMIT_S + 60);

/// Has the command run, unless it was begun before, and returns its end. Waits for its node as
/// long as there is one.
pub(super) async fn end(
    man: &Man,
    run: &Run,
    (incarnation, command): (u32, &str),
    room: &Semaphore,
) -> io::Result<Vec<u8>> {
    let name = run.node_word();
    loop {
        let node = man.nodes.node(name).filter(|node| !node.has_ended());
        let Some(node) = node else {
            if !man.nodes.usable_config().nodes.contains_key(name) {
                let why = format!("node {name} is not configured any more");
                return Err(io::Error::other(why));
            }
            // It is being configured anew, or this daemon leaves.
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        if let Ok(channel) = node.channel(AGAIN).await {
            // A call lasts as long as its command, and other calls share the connection.
            let _room = room.acquire().await;
            let state = man.ledger.state();
            let awaited = state.run(run.made.id).and_then(Run::awaited_response);
            if awaited.is_none_or(|(awaited, _)| awaited != incarnation) {
                return Err(io::Error::other("its run is over"));
            }
            let mut request = tonic::Request::new(v1::RespondRequest {
                run: Some(run_ref(run)),
                incarnation,
                command: command.to_owned(),
            });
            request.set_timeout(PATIENCE);
            match mum_client(channel).respond(request).await {
                Ok(reply) => {
                    let reply = reply.into_inner();
                    return Ok(format!("{}\n{}", reply.how, reply.output).into_bytes());
                }
                Err(status) if status.code() == Code::NotFound => {
                    return Err(io::Error::other(status.message().to_owned()));
                }
                Err(status) if status.code() == Code::Unimplemented => {
                    let why = "the agent of its node is an older one, which runs no responses";
                    return Err(io::Error::other(why));
                }
                Err(status) => {
                    let run = run.made.id.to_string();
                    tracing::warn!(run, %status, "its node does not answer its error yet");
                }
            }
        }
        // An error is the end of that time.
        let _ = tokio::time::timeout(AGAIN, node.news()).await;
    }
}
