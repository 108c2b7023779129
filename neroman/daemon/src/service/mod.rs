//! The gRPC edge: one file per call. Wire types end here.

mod abort;
mod add;
mod add_rows;
mod admin;
mod adopted;
mod annotate;
mod backtest;
mod backup;
mod clean;
mod clean_node;
mod code;
mod complete;
mod cost;
mod curve;
mod du;
mod edit;
mod examine;
mod fetch;
mod frozen;
mod hidden_gpus;
mod infra;
mod keep;
mod list;
mod logs;
mod mail;
mod metrics;
mod node_add;
mod node_change;
mod node_take_over;
mod node_way;
mod nodes;
mod numbers;
mod order;
pub(crate) mod paths;
mod pause;
mod per_node;
mod plots;
mod remove;
mod rules;
mod scheduler;
mod script;
mod select;
mod show;
mod sources;
mod start;
pub(crate) mod tables;
mod unschedulable;
mod unseen;
mod view;
mod wait;
mod watch;
mod why;
mod window;

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt as _;
use nero_model::{DeploymentId, Home};
use nero_wire::{hello, v1};
use tokio::sync::watch::Receiver;
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::cells::Books;
use crate::clock::Clock;
use crate::failure::Failure;
use crate::ledger::{Ledger, author};
use crate::node::Nodes;
use crate::outside::{Agents, Freezer};
use crate::processing::Modules;
pub(crate) use metrics::CurveCache;
use nero_life::now::Now;
pub(crate) use window::WalkRest;

/// The service of the daemon. Cheap to clone: every call has its own.
#[derive(Clone, Debug)]
pub(crate) struct Man {
    pub ledger: Ledger,
    pub nodes: Nodes,
    pub agents: Agents,
    pub books: Books,
    pub home: Home,
    pub deployment: DeploymentId,
    pub clock: Clock,
    pub freezer: Freezer,
    pub modules: Modules,
    /// Between the walks for windows.
    pub walks: WalkRest,
    /// Thinned curves of the last pictures that views asked for.
    pub curves: CurveCache,
    /// Held while rows are added to a file.
    pub rows: Arc<tokio::sync::Mutex<()>>,
    pub started_ms: i64,
    /// Rung by `DaemonStop`.
    pub stop: Arc<Notify>,
    /// True once the daemon is leaving: streams end then.
    pub leaving: Receiver<bool>,
}

/// Messages of a stream that wait for a slow client; a full stream delays that
/// client alone.
const STREAM_MAILBOX: usize = 8;
/// Characters of the name of a view.
const AUTHOR_MAX: usize = 32;

type ReplyStream<T> = Pin<Box<dyn tokio_stream::Stream<Item = Result<T, Status>> + Send>>;
/// Receives the messages of a streaming call.
pub(crate) type Sink<T> = mpsc::Sender<Result<T, Status>>;

/// Runs a streaming call in a task of its own; it ends when the client leaves.
fn streamed<T, F>(
    mut leaving: Receiver<bool>,
    make: impl FnOnce(Sink<T>) -> F,
) -> Response<ReplyStream<T>>
where
    T: Send + 'static,
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let (tx, rx) = mpsc::channel(STREAM_MAILBOX);
    let left = tx.clone();
    let work = make(tx);
    #[expect(
        clippy::disallowed_methods,
        reason = "its answers are its owner: a panic becomes the last of them"
    )]
    tokio::spawn(async move {
        let failed = left.clone();
        let gone = async move {
            // An error means that the sender is gone: the daemon is leaving,
            // too.
            drop(leaving.wait_for(|leaving| *leaving).await);
        };
        tokio::select! {
            // Without the answer to a panic, the client would take what it has for the whole.
            done = AssertUnwindSafe(work).catch_unwind() => {
                let done = done.unwrap_or_else(|_| Err(Failure::bug("this command ended early in the daemon")));
                if let Err(failure) = done {
                    // A client that left does not get the error.
                    let _ = failed.send(Err(failure.into())).await;
                }
            }
            () = left.closed() => {}
            () = gone => {
                let status = Failure::daemon("the daemon is leaving").into();
                let _ = failed.try_send(Err(status));
            }
        }
    });
    Response::new(Box::pin(ReceiverStream::new(rx)))
}

fn answer<T>(result: Result<T, Failure>) -> Result<Response<T>, Status> {
    result.map(Response::new).map_err(Status::from)
}

/// Answers a call that changes something. The call runs in a task of its own,
/// so that it is completed even if its client leaves.
async fn carried_out<T: Send + 'static>(
    author: String,
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<Response<T>, Status> {
    #[expect(
        clippy::disallowed_methods,
        reason = "awaited at once, unless the client leaves"
    )]
    let done = tokio::spawn(author::scope(author, work)).await;
    let ended_early =
        |error| Err(Failure::bug("this command ended early in the daemon").caused_by(&error));
    answer(done.unwrap_or_else(ended_early))
}

/// The view that makes a call; empty: none named itself.
fn author_of<T>(request: &Request<T>) -> String {
    let named = request.metadata().get(hello::AUTHOR_FIELD);
    let named = named
        .and_then(|name| name.to_str().ok())
        .unwrap_or_default();
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-_".contains(*c);
    named.chars().filter(is_plain).take(AUTHOR_MAX).collect()
}

#[tonic::async_trait]
impl v1::man_server::Man for Man {
    async fn greet(&self, request: Request<v1::Hello>) -> Result<Response<v1::Hello>, Status> {
        let said = hello::check(request.get_ref(), v1::Role::Client, None);
        if said.is_ok() {
            self.bring_agent(&request.get_ref().ssh_auth_sock);
        }
        answer(said.map(|_| self.hello()).map_err(|error| {
            let failure = Failure::daemon("cannot speak to this client").caused_by(&error);
            failure.hint(
                "use the neroman that started the daemon, or end it with that one: \
                     `neroman daemon stop`",
            )
        }))
    }

    async fn add(
        &self,
        request: Request<v1::AddRequest>,
    ) -> Result<Response<v1::AddReply>, Status> {
        let man = self.clone();
        carried_out(author_of(&request), async move {
            man.add(request.into_inner()).await
        })
        .await
    }

    async fn list(
        &self,
        request: Request<v1::ListRequest>,
    ) -> Result<Response<v1::ListReply>, Status> {
        answer(self.list(request.into_inner()).await)
    }

    type ListPartsStream = ReplyStream<v1::ListReply>;

    async fn list_parts(
        &self,
        request: Request<v1::ListRequest>,
    ) -> Result<Response<Self::ListPartsStream>, Status> {
        let man = self.clone();
        Ok(streamed(self.leaving.clone(), |sink| async move {
            man.list_parts(request.into_inner(), sink).await
        }))
    }

    async fn show(
        &self,
        request: Request<v1::ShowRequest>,
    ) -> Result<Response<v1::ShowReply>, Status> {
        answer(self.show(request.into_inner()).await)
    }

    async fn start(
        &self,
        request: Request<v1::StartRequest>,
    ) -> Result<Response<v1::StartReply>, Status> {
        let man = self.clone();
        carried_out(author_of(&request), async move {
            man.start(request.into_inner()).await
        })
        .await
    }

    async fn abort(
        &self,
        request: Request<v1::AbortRequest>,
    ) -> Result<Response<v1::AbortReply>, Status> {
        let man = self.clone();
        carried_out(author_of(&request), async move {
            man.abort(request.into_inner()).await
        })
        .await
    }

    async fn pause(
        &self,
        request: Request<v1::PauseRequest>,
    ) -> Result<Response<v1::PauseReply>, Status> {
        let man = self.clone();
        carried_out(author_of(&request), async move {
            man.pause(request.into_inner()).await
        })
        .await
    }

    async fn adopt(
        &self,
        request: Request<v1::AdoptRequest>,
    ) -> Result<Response<v1::AdoptReply>, Status> {
        let man = self.clone();
        carried_out(author_of(&request), async move {
            man.adopt_jobs(request.into_inner()).await
        })
        .await
    }

    async fn remove(
        &self,
        request: Request<v1::RemoveRequest>,
    ) -> Result<Response<v1::RemoveReply>, Status> {
        let man = self.clone();
        carried_out(author_of(&request), async move {
            man.remove(request.into_inner()).await
        })
        .await
    }

    async fn annotate(
        &self,
        request: Request<v1::AnnotateRequest>,
    ) -> Result<Response<v1::AnnotateReply>, Status> {
        let man = self.clone();
        carried_out(author_of(&request), async move {
            man.annotate(request.into_inner()).await
        })
        .await
    }

    async fn edit(
        &self,
        request: Request<v1::EditRequest>,
    ) -> Result<Response<v1::EditReply>, Status> {
        let man = self.clone();
        carried_out(author_of(&request), async move {
            man.edit(request.into_inner()).await
        })
        .await
    }

    type WaitStream = ReplyStream<v1::WaitEvent>;

    async fn wait(
        &self,
        request: Request<v1::WaitRequest>,
    ) -> Result<Response<Self::WaitStream>, Status> {
        let man = self.clone();
        Ok(streamed(self.leaving.clone(), |sink| async move {
            man.wait(request.into_inner(), sink).await
        }))
    }

    type WatchStream = ReplyStream<v1::WatchEvent>;

    async fn watch(
        &self,
        request: Request<v1::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let man = self.clone();
        let request = request.into_inner();
        Ok(streamed(self.leaving.clone(), |sink| async move {
            match request.window {
                Some(_) => man.watch_window(request, sink).await,
                None => man.watch(request, sink).await,
            }
        }))
    }

    type LogsStream = ReplyStream<v1::LogChunk>;

    async fn logs(
        &self,
        request: Request<v1::LogsRequest>,
    ) -> Result<Response<Self::LogsStream>, Status> {
        let man = self.clone();
        Ok(streamed(self.leaving.clone(), |sink| async move {
            man.logs(request.into_inner(), sink).await
        }))
    }

    async fn metrics(
        &self,
        request: Request<v1::MetricsRequest>,
    ) -> Result<Response<v1::MetricsReply>, Status> {
        answer(self.metrics(request.into_inner()).await)
    }

    async fn plots(
        &self,
        request: Request<v1::PlotsRequest>,
    ) -> Result<Response<v1::PlotsReply>, Status> {
        answer(self.plots(request.into_inner()).await)
    }

    async fn paths(
        &self,
        request: Request<v1::PathsRequest>,
    ) -> Result<Response<v1::PathsReply>, Status> {
        answer(self.paths(request.into_inner()).await)
    }

    type CodeStream = ReplyStream<v1::CodePart>;

    async fn code(
        &self,
        request: Request<v1::CodeRequest>,
    ) -> Result<Response<Self::CodeStream>, Status> {
        let man = self.clone();
        Ok(streamed(self.leaving.clone(), |sink| async move {
            man.code(request.into_inner(), sink).await
        }))
    }

    async fn rule_list(
        &self,
        request: Request<v1::RuleListRequest>,
    ) -> Result<Response<v1::RuleListReply>, Status> {
        answer(self.rule_list(request.into_inner()).await)
    }

    async fn rule_backtest(
        &self,
        request: Request<v1::RuleBacktestRequest>,
    ) -> Result<Response<v1::RuleBacktestReply>, Status> {
        answer(self.rule_backtest(request.into_inner()).await)
    }

    async fn rule_why(
        &self,
        request: Request<v1::RuleListRequest>,
    ) -> Result<Response<v1::RuleWhyReply>, Status> {
        answer(self.rule_why(request.into_inner()).await)
    }

    async fn rule_add(
        &self,
        request: Request<v1::RuleAddRequest>,
    ) -> Result<Response<v1::RuleChangeReply>, Status> {
        let man = self.clone();
        carried_out(author_of(&request), async move {
            man.rule_add(request.into_inner()).await
        })
        .await
    }

    async fn rule_remove(
        &self,
        request: Request<v1::RuleRemoveRequest>,
    ) -> Result<Response<v1::RuleChangeReply>, Status> {
        let man = self.clone();
        carried_out(author_of(&request), async move {
            man.rule_remove(request.into_inner()).await
        })
        .await
    }

    async fn mail_list(
        &self,
        _: Request<v1::MailListRequest>,
    ) -> Result<Response<v1::MailListReply>, Status> {
        Ok(Response::new(self.mail_list()))
    }

    async fn mail_retry(
        &self,
        request: Request<v1::MailRetryRequest>,
    ) -> Result<Response<v1::MailRetryReply>, Status> {
        let man = self.clone();
        carried_out(author_of(&request), async move {
            man.mail_retry(request.into_inner()).await
        })
        .await
    }

    async fn nodes(
        &self,
        request: Request<v1::NodesRequest>,
    ) -> Result<Response<v1::NodesReply>, Status> {
        Ok(Response::new(self.ask_nodes(request.into_inner()).await))
    }

    async fn complete(
        &self,
        request: Request<v1::CompleteRequest>,
    ) -> Result<Response<v1::CompleteReply>, Status> {
        answer(self.complete(request.into_inner()).await)
    }

    async fn daemon_status(
        &self,
        request: Request<v1::DaemonStatusRequest>,
    ) -> Result<Response<v1::DaemonStatusReply>, Status> {
        Ok(Response::new(self.daemon_status(request.get_ref())))
    }

    async fn backup(
        &self,
        request: Request<v1::BackupRequest>,
    ) -> Result<Response<v1::BackupReply>, Status> {
        let man = self.clone();
        carried_out(author_of(&request), async move {
            man.backup(request.into_inner()).await
        })
        .await
    }

    async fn daemon_stop(
        &self,
        _: Request<v1::DaemonStopRequest>,
    ) -> Result<Response<v1::DaemonStopReply>, Status> {
        self.stop.notify_one();
        Ok(Response::new(v1::DaemonStopReply {}))
    }

    type NodeAddStream = ReplyStream<v1::NodeEvent>;

    async fn node_add(
        &self,
        request: Request<v1::NodeAddRequest>,
    ) -> Result<Response<Self::NodeAddStream>, Status> {
        let man = self.clone();
        Ok(streamed(self.leaving.clone(), |sink| async move {
            man.node_add(request.into_inner(), sink).await
        }))
    }

    async fn node_remove(
        &self,
        request: Request<v1::NodeRemoveRequest>,
    ) -> Result<Response<v1::NodeRemoveReply>, Status> {
        let man = self.clone();
        carried_out(author_of(&request), async move {
            man.node_remove(request.into_inner()).await
        })
        .await
    }

    type NodeReadyStream = ReplyStream<v1::NodeEvent>;

    async fn node_ready(
        &self,
        request: Request<v1::NodeReadyRequest>,
    ) -> Result<Response<Self::NodeReadyStream>, Status> {
        let man = self.clone();
        Ok(streamed(self.leaving.clone(), |sink| async move {
            man.node_ready(request.into_inner(), sink).await
        }))
    }

    type NodePutAwayStream = ReplyStream<v1::NodeEvent>;

    async fn node_put_away(
        &self,
        request: Request<v1::NodePutAwayRequest>,
    ) -> Result<Response<Self::NodePutAwayStream>, Status> {
        let man = self.clone();
        Ok(streamed(self.leaving.clone(), |sink| async move {
            man.node_put_away(request.into_inner(), sink).await
        }))
    }

    async fn node_image(
        &self,
        request: Request<v1::NodeImageRequest>,
    ) -> Result<Response<v1::NodeImageReply>, Status> {
        answer(self.node_image(request.into_inner()).await)
    }

    type NodeDoctorStream = ReplyStream<v1::NodeEvent>;

    async fn node_doctor(
        &self,
        request: Request<v1::NodeDoctorRequest>,
    ) -> Result<Response<Self::NodeDoctorStream>, Status> {
        let man = self.clone();
        Ok(streamed(self.leaving.clone(), |sink| async move {
            man.node_doctor(request.into_inner(), sink).await
        }))
    }

    async fn node_login(
        &self,
        request: Request<v1::NodeLoginRequest>,
    ) -> Result<Response<v1::NodeLoginReply>, Status> {
        answer(self.node_login(request.into_inner()).await)
    }

    type NodeConnectStream = ReplyStream<v1::NodeEvent>;

    async fn node_connect(
        &self,
        request: Request<v1::NodeConnectRequest>,
    ) -> Result<Response<Self::NodeConnectStream>, Status> {
        let man = self.clone();
        Ok(streamed(self.leaving.clone(), |sink| async move {
            man.node_connect(request.into_inner(), sink).await
        }))
    }

    async fn node_gone(
        &self,
        request: Request<v1::NodeGoneRequest>,
    ) -> Result<Response<v1::NodeGoneReply>, Status> {
        let man = self.clone();
        carried_out(author_of(&request), async move {
            man.node_gone(request.into_inner()).await
        })
        .await
    }

    type NodeTakeOverStream = ReplyStream<v1::NodeEvent>;

    async fn node_take_over(
        &self,
        request: Request<v1::NodeTakeOverRequest>,
    ) -> Result<Response<Self::NodeTakeOverStream>, Status> {
        let man = self.clone();
        Ok(streamed(self.leaving.clone(), |sink| async move {
            man.node_take_over(request.into_inner(), sink).await
        }))
    }

    type FetchStream = ReplyStream<v1::FetchEvent>;

    async fn fetch(
        &self,
        request: Request<v1::FetchRequest>,
    ) -> Result<Response<Self::FetchStream>, Status> {
        let man = self.clone();
        Ok(streamed(self.leaving.clone(), |sink| async move {
            man.fetch(request.into_inner(), sink).await
        }))
    }

    async fn clean(
        &self,
        request: Request<v1::CleanAskRequest>,
    ) -> Result<Response<v1::CleanAskReply>, Status> {
        let man = self.clone();
        carried_out(author_of(&request), async move {
            man.clean(request.into_inner()).await
        })
        .await
    }

    async fn du(&self, request: Request<v1::DuRequest>) -> Result<Response<v1::DuReply>, Status> {
        answer(self.du(request.into_inner()).await)
    }

    async fn locate(
        &self,
        request: Request<v1::LocateRequest>,
    ) -> Result<Response<v1::LocateReply>, Status> {
        answer(self.locate(request.into_inner()).await)
    }
}

impl Man {
    /// Remembers a client's ssh agent; nodes that wait for an agent are tried
    /// again.
    fn bring_agent(&self, sock: &str) {
        if !sock.is_empty() && self.agents.socks.bring(std::path::Path::new(sock)) {
            self.nodes.agent_came();
        }
    }

    /// The present moment on all known clocks.
    fn now(&self) -> Now {
        self.nodes.known().now(self.clock)
    }

    fn hello(&self) -> v1::Hello {
        // Clients compare this with their own `ssh` command, and report a
        // difference.
        let ssh = std::env::var_os(nero_ssh::SSH_VARIABLE).unwrap_or_default();
        v1::Hello {
            capabilities: vec![
                format!("ssh={}", ssh.to_string_lossy()),
                hello::LIST_PARTS.to_owned(),
                hello::PLOTS.to_owned(),
                hello::ALL_RUNS.to_owned(),
                hello::EDITS.to_owned(),
            ],
            ..hello::own(v1::Role::Neroman, "", Some(self.deployment))
        }
    }
}

/// `1 run`, `2 runs`.
pub(crate) fn counted(count: u64, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

/// Runs work that takes a while and never waits: reading files, looking at many
/// experiments.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Failure::bug("a step of this command ended early").caused_by(&error))
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;
    use tokio_stream::StreamExt as _;

    use super::*;

    #[tokio::test]
    async fn a_list_that_breaks_off_by_a_mistake_of_ours_ends_with_an_error() {
        let (_leave, leaving) = watch::channel(false);
        let mut answers = streamed(leaving, |sink| async move {
            sink.send(Ok(1)).await.unwrap();
            panic!("a mistake");
        })
        .into_inner();
        assert_eq!(answers.next().await.unwrap().unwrap(), 1);
        let last = answers.next().await.expect("an error, no end").unwrap_err();
        assert!(last.message().contains("ended early"), "{last}");
    }
}
