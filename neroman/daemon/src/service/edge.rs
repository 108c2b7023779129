//! The calls of the service, by what becomes of a client that leaves and of a request that is sent
//! again. Wire types end behind them.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;

use futures_util::FutureExt as _;
use nero_wire::{hello, v1};
use tokio::sync::mpsc;
use tokio::sync::watch::Receiver;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::service::change::ChangeRequest as _;
use crate::service::{Man, Sink};
use nero_home::failure::Failure;
use nero_home::ledger::author;

/// Messages of a stream that wait for a slow client; a full stream delays that
/// client alone.
const STREAM_MAILBOX: usize = 8;
/// Characters of the name of a view.
const AUTHOR_MAX: usize = 32;

type ReplyStream<T> = Pin<Box<dyn tokio_stream::Stream<Item = Result<T, Status>> + Send>>;

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

/// Each call is carried out by the method of `Man` with its name. It finds the configuration as
/// its file is now.
macro_rules! edge {
    (
        answers { $($answer:ident($answer_of:ident) -> $answer_reply:ident;)* }
        changes { $($change:ident($change_of:ident) -> $change_reply:ident;)* }
        actions { $($action:ident($action_of:ident) -> $action_reply:ident;)* }
        streams { $($stream:ident = $told:ident($told_of:ident) -> $told_reply:ident;)* }
        others { $($other:tt)* }
    ) => {
        #[tonic::async_trait]
        impl v1::man_server::Man for Man {
            $($other)*
            $(async fn $answer(
                &self,
                request: Request<v1::$answer_of>,
            ) -> Result<Response<v1::$answer_reply>, Status> {
                self.nodes.look_at_config();
                answer(self.$answer(request.into_inner()).await)
            })*
            $(async fn $change(
                &self,
                request: Request<v1::$change_of>,
            ) -> Result<Response<v1::$change_reply>, Status> {
                self.nodes.look_at_config();
                let (man, author) = (self.clone(), author_of(&request));
                let request = request.into_inner();
                let work = async move { man.once(&request.head(), man.$change(request)).await };
                carried_out(author, work).await
            })*
            $(async fn $action(
                &self,
                request: Request<v1::$action_of>,
            ) -> Result<Response<v1::$action_reply>, Status> {
                self.nodes.look_at_config();
                let (man, author) = (self.clone(), author_of(&request));
                carried_out(author, async move { man.$action(request.into_inner()).await }).await
            })*
            $(type $stream = ReplyStream<v1::$told_reply>;

            async fn $told(
                &self,
                request: Request<v1::$told_of>,
            ) -> Result<Response<Self::$stream>, Status> {
                self.nodes.look_at_config();
                let man = self.clone();
                Ok(streamed(self.leaving.clone(), |sink| async move {
                    man.$told(request.into_inner(), sink).await
                }))
            })*
        }
    };
}

edge! {
    // Answered from what is known, or by asking nodes: nothing changes.
    answers {
        list(ListRequest) -> ListReply;
        show(ShowRequest) -> ShowReply;
        metrics(MetricsRequest) -> MetricsReply;
        plots(PlotsRequest) -> PlotsReply;
        paths(PathsRequest) -> PathsReply;
        rule_list(RuleListRequest) -> RuleListReply;
        rule_backtest(RuleBacktestRequest) -> RuleBacktestReply;
        rule_why(RuleListRequest) -> RuleWhyReply;
        complete(CompleteRequest) -> CompleteReply;
        node_image(NodeImageRequest) -> NodeImageReply;
        node_login(NodeLoginRequest) -> NodeLoginReply;
        du(DuRequest) -> DuReply;
        locate(LocateRequest) -> LocateReply;
    }
    // Completed even if the client leaves; sent again, they get the answer of before.
    changes {
        abort(AbortRequest) -> AbortReply;
        remove(RemoveRequest) -> RemoveReply;
        annotate(AnnotateRequest) -> AnnotateReply;
        edit(EditRequest) -> EditReply;
        rule_add(RuleAddRequest) -> RuleChangeReply;
        rule_remove(RuleRemoveRequest) -> RuleChangeReply;
        mail_retry(MailRetryRequest) -> MailRetryReply;
        node_remove(NodeRemoveRequest) -> NodeRemoveReply;
        node_gone(NodeGoneRequest) -> NodeGoneReply;
        clean(CleanAskRequest) -> CleanAskReply;
    }
    // Completed, too; what they answer when they are sent again is their own matter.
    actions {
        add(AddRequest) -> AddReply;
        start(StartRequest) -> StartReply;
        pause(PauseRequest) -> PauseReply;
        adopt(AdoptRequest) -> AdoptReply;
        backup(BackupRequest) -> BackupReply;
    }
    // Messages until all is told or the client leaves.
    streams {
        ListPartsStream = list_parts(ListRequest) -> ListReply;
        WaitStream = wait(WaitRequest) -> WaitEvent;
        WatchStream = watch(WatchRequest) -> WatchEvent;
        LogsStream = logs(LogsRequest) -> LogChunk;
        CodeStream = code(CodeRequest) -> CodePart;
        NodeAddStream = node_add(NodeAddRequest) -> NodeEvent;
        NodeReadyStream = node_ready(NodeReadyRequest) -> NodeEvent;
        NodePutAwayStream = node_put_away(NodePutAwayRequest) -> NodeEvent;
        NodeDoctorStream = node_doctor(NodeDoctorRequest) -> NodeEvent;
        NodeConnectStream = node_connect(NodeConnectRequest) -> NodeEvent;
        NodeTakeOverStream = node_take_over(NodeTakeOverRequest) -> NodeEvent;
        FetchStream = fetch(FetchRequest) -> FetchEvent;
    }
    others {
        async fn greet(&self, request: Request<v1::Hello>) -> Result<Response<v1::Hello>, Status> {
            answer(self.greeted(request.get_ref()))
        }

        async fn nodes(
            &self,
            request: Request<v1::NodesRequest>,
        ) -> Result<Response<v1::NodesReply>, Status> {
            self.nodes.look_at_config();
            Ok(Response::new(self.ask_nodes(request.into_inner()).await))
        }

        async fn mail_list(
            &self,
            _: Request<v1::MailListRequest>,
        ) -> Result<Response<v1::MailListReply>, Status> {
            self.nodes.look_at_config();
            Ok(Response::new(self.mail_list()))
        }

        async fn daemon_status(
            &self,
            request: Request<v1::DaemonStatusRequest>,
        ) -> Result<Response<v1::DaemonStatusReply>, Status> {
            self.nodes.look_at_config();
            Ok(Response::new(self.daemon_status(request.get_ref())))
        }

        async fn daemon_stop(
            &self,
            _: Request<v1::DaemonStopRequest>,
        ) -> Result<Response<v1::DaemonStopReply>, Status> {
            self.stop.notify_one();
            Ok(Response::new(v1::DaemonStopReply {}))
        }
    }
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
