//! The connection to neromum: dialled again and again, never waited for.
//!
//! The watcher works the same without it. Once a connection is up the watcher
//! gets the sending end. Bytes that do not fit are not sent, since neromum
//! reads missing bytes from the disk.

use std::path::PathBuf;
use std::time::Duration;

use nero_model::DeploymentId;
use nero_wire::hello;
use nero_wire::v1::kids_client::KidsClient;
use nero_wire::v1::mum_client::MumClient;
use nero_wire::v1::watcher_message::Message;
use nero_wire::v1::{Hello, Role, WatcherHello, WatcherMessage};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

/// Messages between watcher and connection: a few seconds of a busy run, and
/// less than 1 MiB except for very long records.
const QUEUE: usize = 32;
/// Longest pause before the first try to dial again.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
/// Longest pause before any try.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Time for neromum to greet.
const GREET_MAX: Duration = Duration::from_secs(10);

/// An event for the watcher.
#[derive(Debug)]
pub enum LinkEvent {
    /// A connection is up: send here.
    Up(mpsc::Sender<WatcherMessage>),
    /// The connection is down.
    Down,
    /// A newer rule set is on disk; neromum reported it.
    Rules,
}

/// The watcher that dials.
#[derive(Clone, Debug)]
pub struct Caller {
    /// neromum's socket.
    pub socket: PathBuf,
    /// Deployment of the run.
    pub deployment: Option<DeploymentId>,
    /// Token of the run.
    pub token: Vec<u8>,
    /// Number of the job's start.
    pub incarnation: u32,
    /// The watcher's segment.
    pub segment: Vec<u8>,
}

/// The task that keeps the connection.
#[derive(Debug)]
pub struct Link {
    task: JoinHandle<()>,
    events: mpsc::Receiver<LinkEvent>,
}

impl Link {
    /// Begins to dial.
    pub fn start(caller: Caller) -> Self {
        let (to_watcher, events) = mpsc::channel(QUEUE);
        #[expect(
            clippy::disallowed_methods,
            reason = "`Link` awaits it; its channel tells the end"
        )]
        let task = tokio::spawn(keep(caller, to_watcher));
        Self { task, events }
    }

    /// The next event; `None` when the task has ended, which it does only at
    /// the end.
    pub async fn event(&mut self) -> Option<LinkEvent> {
        self.events.recv().await
    }

    /// Waits until neromum has taken the sent bytes, at most `patience`. The
    /// sending end must be dropped before.
    pub async fn finish(mut self, patience: Duration) {
        // `Down` means that neromum answered the end of the stream by ending
        // its own.
        let down = async {
            while let Some(event) = self.events.recv().await {
                if matches!(event, LinkEvent::Down) {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(patience, down).await;
        self.task.abort();
    }
}

/// Dials until the watcher has gone.
async fn keep(caller: Caller, watcher: mpsc::Sender<LinkEvent>) {
    let mut pause_max = PAUSE_FIRST;
    loop {
        // However a connection ends, dial again.
        if line(&caller, &watcher).await {
            pause_max = PAUSE_FIRST;
        }
        if watcher.is_closed() {
            return;
        }
        tokio::time::sleep(jittered(pause_max)).await;
        pause_max = (pause_max * 2).min(PAUSE_MAX);
    }
}

/// A random part of a pause, so that a thousand watchers do not return at once.
fn jittered(pause: Duration) -> Duration {
    let random = u32::from_le_bytes(nero_model::ids::random());
    pause.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// One connection, from dialling to its end. Returns whether neromum took it.
async fn line(caller: &Caller, watcher: &mpsc::Sender<LinkEvent>) -> bool {
    let own = hello::own(Role::Nerokid, "", caller.deployment);
    let Some(channel) = greet(caller, own.clone()).await else {
        return false;
    };
    let (sender, outgoing) = mpsc::channel(QUEUE);
    let first = WatcherMessage {
        message: Some(Message::Hello(WatcherHello {
            hello: Some(own),
            token: caller.token.clone(),
            incarnation: caller.incarnation,
            segment: caller.segment.clone(),
        })),
    };
    // The queue is empty and its receiver is here: this cannot fail.
    let _ = sender.try_send(first);
    let mut kids = KidsClient::new(channel);
    let attached = kids.attach(ReceiverStream::new(outgoing));
    // The answer's head may arrive only with its first message, so the watcher
    // gets the sending end before.
    if watcher.send(LinkEvent::Up(sender)).await.is_err() {
        return true;
    }
    let is_taken = commands(attached, watcher).await;
    let _ = watcher.send(LinkEvent::Down).await;
    is_taken
}

/// A connection to our neromum; `None`: it cannot be dialled, is slow, or is another's.
async fn greet(caller: &Caller, own: Hello) -> Option<Channel> {
    let channel = nero_wire::dial(&caller.socket).await.ok()?;
    let mut mum = MumClient::new(channel.clone());
    let greeting = tokio::time::timeout(GREET_MAX, mum.greet(own));
    let theirs = greeting.await.ok()?.ok()?.into_inner();
    hello::check(&theirs, Role::Neromum, caller.deployment).ok()?;
    Some(channel)
}

/// Passes commands on until the connection ends. Returns whether neromum took it.
async fn commands(
    attached: impl Future<
        Output = Result<
            tonic::Response<tonic::Streaming<nero_wire::v1::WatcherCommand>>,
            tonic::Status,
        >,
    >,
    watcher: &mpsc::Sender<LinkEvent>,
) -> bool {
    let Ok(attached) = attached.await else {
        return false;
    };
    let mut commands = attached.into_inner();
    while let Ok(Some(command)) = commands.message().await {
        if command.rules_version > 0 {
            // The watcher reads the disk anyway; a full queue loses nothing.
            let _ = watcher.try_send(LinkEvent::Rules);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_neromum_that_was_away_for_a_day_is_dialled_within_half_a_minute() {
        let folder = tempfile::tempdir().unwrap();
        let caller = Caller {
            socket: folder.path().join("socket"),
            deployment: None,
            token: Vec::new(),
            incarnation: 1,
            segment: Vec::new(),
        };
        let _link = Link::start(caller.clone());
        tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
        let neromum = UnixListener::bind(&caller.socket).unwrap();
        let back = Instant::now();
        neromum.accept().await.unwrap();
        assert!(back.elapsed() <= PAUSE_MAX, "{:?}", back.elapsed());
    }
}
