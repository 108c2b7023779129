//! The messages of watchers.

use std::sync::atomic::{AtomicU64, Ordering};

use nero_model::RunToken;
use nero_node::agent::{AgentHandle, AppendedRecords, Room, WatcherNews};
use nero_wire::hello;
use nero_wire::v1::kids_server::Kids;
use nero_wire::v1::watcher_message::Message as WatcherSays;
use nero_wire::v1::{Appended, Role, WatcherCommand, WatcherHello, WatcherMessage};
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

/// Passes on what a watcher appends until it leaves.
async fn listen(agent: AgentHandle, watcher: WatcherLink, messages: Streaming<WatcherMessage>) {
    let messages = messages.map_while(Result::ok);
    // Output is read from the log itself; inotify reports its growth.
    let appended = messages.filter_map(|message| match message.message {
        Some(WatcherSays::Appended(appended)) => Some(appended),
        Some(WatcherSays::Hello(_) | WatcherSays::Output(_)) | None => None,
    });
    let tell = |room: Room<'_>, appended: Appended| {
        room.watcher(WatcherNews::Appended(AppendedRecords {
            id: watcher.id,
            token: watcher.token,
            incarnation: watcher.incarnation,
            segment: watcher.segment,
            offset: appended.offset,
            data: appended.data.into(),
        }));
    };
    pass_on(appended, || agent.room(), tell).await;
}

/// Tells each item; of those that come while there is no room the newest alone. What lacks before
/// it is read from the disk, so that a neromum which is behind keeps no output in memory.
async fn pass_on<T, Room, Gone, Awaited: Future<Output = Result<Room, Gone>>>(
    mut items: impl tokio_stream::Stream<Item = T> + Unpin,
    room: impl Fn() -> Awaited,
    tell: impl Fn(Room, T),
) {
    while let Some(mut newest) = items.next().await {
        // It keeps its place among those that wait.
        let mut awaited = std::pin::pin!(room());
        let room = loop {
            tokio::select! {
                biased;
                room = &mut awaited => break room,
                newer = items.next() => match newer {
                    Some(newer) => newest = newer,
                    // The agent looks at what a watcher that is gone left.
                    None => return,
                },
            }
        };
        match room {
            Ok(room) => tell(room, newest),
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn while_there_is_no_room_the_newest_alone_is_kept() {
        let (write, read) = mpsc::channel(8);
        let (room, mut told) = mpsc::channel(1);
        let tell = |room: mpsc::Permit<'_, u32>, item| room.send(item);
        let items = ReceiverStream::new(read);
        let mut passing = Box::pin(pass_on(items, || room.reserve(), tell));
        let mut come = async |items: &[u32]| {
            for item in items {
                write.send(*item).await.unwrap();
            }
            // It takes what there is.
            let taken = tokio::time::timeout(std::time::Duration::ZERO, &mut passing).await;
            assert!(taken.is_err(), "it waits for more");
        };
        come(&[1]).await;
        come(&[2]).await;
        come(&[3, 4, 5]).await;
        assert_eq!(told.recv().await, Some(1));
        come(&[]).await;
        assert_eq!(told.recv().await, Some(5));
        come(&[6]).await;
        assert_eq!(told.recv().await, Some(6));
    }
}
