//! The messages of watchers.

use std::sync::atomic::{AtomicU64, Ordering};

use nero_model::RunToken;
use nero_node::agent::{AgentHandle, AppendedRecords, WatcherNews};
use nero_wire::hello;
use nero_wire::v1::kids_server::Kids;
use nero_wire::v1::watcher_message::Message as WatcherSays;
use nero_wire::v1::{Role, WatcherCommand, WatcherHello, WatcherMessage};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::Service;
use super::answers::Answers;

/// Limit of commands that wait for one watcher; one is enough to make it look.
const COMMANDS: usize = 8;

static NEXT: AtomicU64 = AtomicU64::new(1);

struct WatcherLink {
    id: u64,
    token: RunToken,
    incarnation: u32,
    segment: [u8; 8],
}

#[tonic::async_trait]
impl Kids for Service {
    type AttachStream = Answers<WatcherCommand>;

    async fn attach(
        &self,
        request: Request<Streaming<WatcherMessage>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let mut messages = request.into_inner();
        let watcher = match messages.message().await?.and_then(|first| first.message) {
            Some(WatcherSays::Hello(hello)) => self.checked(hello)?,
            _ => return Err(Status::invalid_argument("a hello comes first")),
        };
        let agent = self.inner.agent.clone();
        let (commands, queue) = mpsc::channel(COMMANDS);
        let attached = agent.attach(watcher.id, watcher.token, watcher.incarnation, commands);
        if !attached.await? {
            return Err(Status::not_found("the run is not known here"));
        }
        let gone = WatcherNews::Gone {
            id: watcher.id,
            token: watcher.token,
        };
        #[expect(clippy::disallowed_methods, reason = "the next task awaits it")]
        let listening = tokio::spawn(listen(agent.clone(), watcher, messages));
        #[expect(
            clippy::disallowed_methods,
            reason = "it tells the agent that the watcher is gone, whatever ended the listening"
        )]
        tokio::spawn(async move {
            if let Err(panic) = listening.await {
                tracing::error!(%panic, "a watcher is not heard any more");
            }
            // If the agent has left, it has no watchers to update.
            let _ = agent.watcher(gone).await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(queue).map(Ok))))
    }
}

impl Service {
    fn checked(&self, watcher: WatcherHello) -> Result<WatcherLink, Status> {
        let hello = watcher.hello.unwrap_or_default();
        hello::check(&hello, Role::Nerokid, Some(self.inner.deployment))
            .map_err(super::not_spoken_to)?;
        let token = RunToken::from_slice(&watcher.token);
        let segment = watcher.segment.as_slice().try_into().ok();
        let (Some(token), Some(segment)) = (token, segment) else {
            return Err(Status::invalid_argument(
                "a token has 16 bytes, a segment's id 8",
            ));
        };
        Ok(WatcherLink {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            token,
            incarnation: watcher.incarnation,
            segment,
        })
    }
}

/// Passes a watcher's messages on until it leaves.
async fn listen(agent: AgentHandle, watcher: WatcherLink, mut messages: Streaming<WatcherMessage>) {
    while let Ok(Some(message)) = messages.message().await {
        // Output is read from the log itself; inotify reports its growth.
        let Some(WatcherSays::Appended(appended)) = message.message else {
            continue;
        };
        let news = WatcherNews::Appended(AppendedRecords {
            id: watcher.id,
            token: watcher.token,
            incarnation: watcher.incarnation,
            segment: watcher.segment,
            offset: appended.offset,
            data: appended.data.into(),
        });
        if agent.watcher(news).await.is_err() {
            return;
        }
    }
}
