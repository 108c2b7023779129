//! The calls of the prepared daemon: each records its request and returns the prepared answer.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use nero_wire::hello;
use nero_wire::v1::man_server::Man;
use nero_wire::v1::*;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status};

use super::{Answers, Seen};

pub(super) struct Service {
    pub(super) answers: Answers,
    pub(super) seen: Arc<Mutex<Seen>>,
}

impl Service {
    /// Whether this is the first cut.
    fn first_cut(&self) -> bool {
        let mut seen = self.seen.lock().expect("a lock");
        seen.lost += 1;
        seen.lost == 1
    }

    async fn unanswered(&self) {
        if self.answers.silent {
            std::future::pending::<()>().await;
        }
    }

    /// Whether a selection picks an experiment.
    fn known(&self, text: &str) -> Result<(), Status> {
        if self.answers.no_such.iter().any(|one| one == text) {
            Err(Status::invalid_argument(format!(
                "no experiment is called {text}"
            )))
        } else {
            Ok(())
        }
    }

    fn take(&self, call: &str, what: String, id: &[u8]) -> Result<(), Status> {
        let mut seen = self.seen.lock().expect("a lock");
        seen.requests.push(format!("{call} {what}"));
        if !id.is_empty() {
            seen.ids.push(id.to_vec());
        }
        if seen.lost < self.answers.loses {
            seen.lost += 1;
            seen.hang_up();
        }
        self.answers.fails.clone().map_or(Ok(()), Err)
    }
}

type Said<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Service {
    fn said<T: Clone + Send + 'static>(&self, messages: &[T]) -> Response<Said<T>> {
        let messages: Vec<Result<T, Status>> = messages.iter().cloned().map(Ok).collect();
        let messages = tokio_stream::iter(messages);
        Response::new(if self.answers.hangs {
            Box::pin(messages.chain(tokio_stream::pending()))
        } else {
            Box::pin(messages)
        })
    }
}

impl Service {
    /// All messages; with `cuts`, cut after the first one, once.
    fn said_or_cut<T: Clone + Send + 'static>(&self, messages: Vec<T>) -> Response<Said<T>> {
        if !self.answers.cuts || !self.first_cut() {
            return self.said(&messages);
        }
        let seen = Arc::clone(&self.seen);
        let first = tokio_stream::iter(messages.into_iter().take(1).map(Ok));
        // The first message goes out while this yields; a client that has not
        // got it asks for all of it again, which is right, too.
        let cut = tokio_stream::once(()).then(async |()| {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        });
        let cut = cut.filter_map(move |()| {
            seen.lock().expect("a lock").hang_up();
            None
        });
        let cut = cut.chain(tokio_stream::pending());
        Response::new(Box::pin(first.chain(cut)))
    }
}

fn picked(selection: Option<Selection>) -> String {
    selection.map_or_else(
        || "nothing".into(),
        |picked| format!("`{}` {}", picked.text, picked.zone),
    )
}

#[tonic::async_trait]
impl Man for Service {
    async fn greet(&self, _: Request<Hello>) -> Result<Response<Hello>, Status> {
        let own = Hello {
            capabilities: vec![
                hello::LIST_PARTS.to_owned(),
                hello::PLOTS.to_owned(),
                hello::ALL_RUNS.to_owned(),
                hello::EDITS.to_owned(),
            ],
            ..hello::own(Role::Neroman, "", None)
        };
        Ok(Response::new(self.answers.hello.clone().unwrap_or(own)))
    }

    async fn add(&self, request: Request<AddRequest>) -> Result<Response<AddReply>, Status> {
        let request = request.into_inner();
        let shell: Vec<String> = request
            .shell
            .iter()
            .map(|var| format!("{}={}", var.name, var.value))
            .collect();
        let what = format!("{:?} {shell:?} dry {}", request.paths, request.dry_run);
        self.take("add", what, &request.request)?;
        Ok(Response::new(self.answers.add.clone()))
    }

    async fn pause(&self, request: Request<PauseRequest>) -> Result<Response<PauseReply>, Status> {
        let request = request.into_inner();
        let picked = picked(request.selection);
        let what = format!("{picked} resume {} dry {}", request.resume, request.dry_run);
        self.take("pause", what, &[])?;
        Ok(Response::new(PauseReply::default()))
    }

    async fn adopt(&self, request: Request<AdoptRequest>) -> Result<Response<AdoptReply>, Status> {
        let request = request.into_inner();
        let what = format!("{} {:?} log {}", request.node, request.jobs, request.log);
        self.take("adopt", what, &[])?;
        Ok(Response::new(AdoptReply::default()))
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListReply>, Status> {
        let request = request.into_inner();
        let mut what = format!(
            "{} settle {}",
            picked(request.selection.clone()),
            request.settle
        );
        if !request.facts.is_empty() {
            what.push_str(&format!(" facts {}", request.facts.join(" ")));
        }
        self.take("list", what, &[])?;
        self.known(&request.selection.unwrap_or_default().text)?;
        Ok(Response::new(self.answers.list.clone()))
    }

    type ListPartsStream = Said<ListReply>;

    /// One experiment in each part.
    async fn list_parts(
        &self,
        request: Request<ListRequest>,
    ) -> Result<Response<Self::ListPartsStream>, Status> {
        let whole = self.list(request).await?.into_inner();
        let mut parts: Vec<ListReply> = whole
            .experiments
            .iter()
            .map(|view| ListReply {
                experiments: vec![view.clone()],
                ..ListReply::default()
            })
            .collect();
        if parts.is_empty() {
            parts.push(ListReply::default());
        }
        parts[0].notes = whole.notes;
        parts[0].nothing_set_up = whole.nothing_set_up;
        parts[0].workbooks = whole.workbooks;
        let parts = parts.into_iter().map(Ok);
        Ok(Response::new(Box::pin(tokio_stream::iter(parts))))
    }

    async fn show(&self, request: Request<ShowRequest>) -> Result<Response<ShowReply>, Status> {
        let what = request.into_inner().what;
        self.known(&what)?;
        self.take("show", what, &[])?;
        Ok(Response::new(self.answers.show.clone()))
    }

    async fn start(&self, request: Request<StartRequest>) -> Result<Response<StartReply>, Status> {
        let request = request.into_inner();
        let what = format!(
            "{} {:?} node {:?} restart {} dry {} as added {} abandon {} at most {}",
            picked(request.selection),
            request.paths,
            request.node,
            request.restart,
            request.dry_run,
            request.as_added,
            request.abandon,
            request.at_most
        );
        self.take("start", what, &request.request)?;
        self.unanswered().await;
        Ok(Response::new(self.answers.start.clone()))
    }

    async fn remove(
        &self,
        request: Request<RemoveRequest>,
    ) -> Result<Response<RemoveReply>, Status> {
        let request = request.into_inner();
        self.known(&request.selection.clone().unwrap_or_default().text)?;
        let what = format!(
            "{} undo {} dry {}",
            picked(request.selection),
            request.undo,
            request.dry_run
        );
        self.take("rm", what, &request.request)?;
        Ok(Response::new(self.answers.hides.clone()))
    }

    async fn annotate(
        &self,
        request: Request<AnnotateRequest>,
    ) -> Result<Response<AnnotateReply>, Status> {
        let request = request.into_inner();
        self.known(&request.selection.clone().unwrap_or_default().text)?;
        let what = format!(
            "{} note {:?} +{:?} -{:?} dry {}",
            picked(request.selection),
            request.note,
            request.add_tags,
            request.remove_tags,
            request.dry_run
        );
        self.take("annotate", what, &request.request)?;
        Ok(Response::new(self.answers.annotated.clone()))
    }

    async fn edit(&self, request: Request<EditRequest>) -> Result<Response<EditReply>, Status> {
        let request = request.into_inner();
        self.known(&request.selection.clone().unwrap_or_default().text)?;
        let what = format!(
            "{} set {:?} unset {:?} as {:?} dry {}",
            picked(request.selection),
            request.set,
            request.unset,
            request.copy_as,
            request.dry_run
        );
        self.take("edit", what, &request.request)?;
        Ok(Response::new(self.answers.edited.clone()))
    }

    async fn abort(&self, request: Request<AbortRequest>) -> Result<Response<AbortReply>, Status> {
        let request = request.into_inner();
        self.known(&request.selection.clone().unwrap_or_default().text)?;
        let what = format!(
            "{} grace {} signal {} dry {} by {}",
            picked(request.selection),
            request.grace_ms,
            request.signal,
            request.dry_run,
            request.author
        );
        self.take("abort", what, &request.request)?;
        self.unanswered().await;
        Ok(Response::new(self.answers.abort.clone()))
    }

    type WaitStream = Said<WaitEvent>;
    async fn wait(
        &self,
        request: Request<WaitRequest>,
    ) -> Result<Response<Self::WaitStream>, Status> {
        let selection = request.into_inner().selection;
        self.known(&selection.clone().unwrap_or_default().text)?;
        self.take("wait", picked(selection), &[])?;
        Ok(self.said(&self.answers.wait))
    }

    type WatchStream = Said<WatchEvent>;
    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        self.take("watch", picked(request.into_inner().selection), &[])?;
        Ok(self.said(&self.answers.watch))
    }

    type LogsStream = Said<LogChunk>;
    async fn logs(
        &self,
        request: Request<LogsRequest>,
    ) -> Result<Response<Self::LogsStream>, Status> {
        let request = request.into_inner();
        self.known(&request.what)?;
        self.take("logs", format!("{request:?}"), &[])?;
        let from = u64::try_from(request.offset).unwrap_or(0);
        let rest: Vec<LogChunk> = self
            .answers
            .logs
            .iter()
            .filter(|chunk| !request.use_offset || chunk.offset >= from || chunk.end)
            .cloned()
            .collect();
        if let Some(status) = self.answers.log_fails.clone() {
            let rest = rest.into_iter().map(Ok).chain([Err(status)]);
            let rest: Vec<_> = rest.collect();
            return Ok(Response::new(Box::pin(tokio_stream::iter(rest))));
        }
        Ok(self.said_or_cut(rest))
    }

    async fn metrics(
        &self,
        request: Request<MetricsRequest>,
    ) -> Result<Response<MetricsReply>, Status> {
        let request = request.into_inner();
        let what = format!("{} {:?}", picked(request.selection), request.names);
        self.take("metrics", what, &[])?;
        Ok(Response::new(self.answers.metrics.clone()))
    }

    async fn plots(&self, request: Request<PlotsRequest>) -> Result<Response<PlotsReply>, Status> {
        self.take("plots", picked(request.into_inner().selection), &[])?;
        Ok(Response::new(self.answers.plots.clone()))
    }

    async fn paths(&self, request: Request<PathsRequest>) -> Result<Response<PathsReply>, Status> {
        let request = request.into_inner();
        let what = format!("{} work {}", picked(request.selection), request.work);
        self.take("paths", what, &[])?;
        Ok(Response::new(self.answers.paths.clone()))
    }

    type CodeStream = Said<CodePart>;

    async fn code(
        &self,
        request: Request<CodeRequest>,
    ) -> Result<Response<Self::CodeStream>, Status> {
        let asked = request.into_inner();
        self.take(
            "code",
            format!("{:?} differing {}", asked.runs, asked.differing),
            &[],
        )?;
        Ok(self.said(&self.answers.code))
    }

    async fn rule_list(
        &self,
        request: Request<RuleListRequest>,
    ) -> Result<Response<RuleListReply>, Status> {
        self.take("rule list", picked(request.into_inner().selection), &[])?;
        Ok(Response::new(self.answers.rules.clone()))
    }

    async fn rule_add(
        &self,
        request: Request<RuleAddRequest>,
    ) -> Result<Response<RuleChangeReply>, Status> {
        let request = request.into_inner();
        let what = format!(
            "{} {} | {} by {}",
            picked(request.selection),
            request.action,
            request.text,
            request.author
        );
        self.take("rule add", what, &request.request)?;
        Ok(Response::new(self.answers.changed.clone()))
    }

    async fn rule_backtest(
        &self,
        request: Request<RuleBacktestRequest>,
    ) -> Result<Response<RuleBacktestReply>, Status> {
        let request = request.into_inner();
        let what = format!(
            "{} {} | {} best {}",
            picked(request.selection),
            request.action,
            request.text,
            request.best
        );
        self.take("rule backtest", what, &[])?;
        Ok(Response::new(self.answers.backtest.clone()))
    }

    async fn rule_remove(
        &self,
        request: Request<RuleRemoveRequest>,
    ) -> Result<Response<RuleChangeReply>, Status> {
        let request = request.into_inner();
        let what = format!("{} {}", picked(request.selection), request.rule);
        self.take("rule remove", what, &request.request)?;
        Ok(Response::new(self.answers.changed.clone()))
    }

    async fn mail_list(
        &self,
        _: Request<MailListRequest>,
    ) -> Result<Response<MailListReply>, Status> {
        self.take("mail list", String::new(), &[])?;
        Ok(Response::new(self.answers.mail.clone()))
    }

    async fn mail_retry(
        &self,
        request: Request<MailRetryRequest>,
    ) -> Result<Response<MailRetryReply>, Status> {
        self.take("mail retry", String::new(), &request.get_ref().request)?;
        let deliveries = self.answers.mail.deliveries.len() as u64;
        Ok(Response::new(MailRetryReply { deliveries }))
    }

    async fn nodes(&self, _: Request<NodesRequest>) -> Result<Response<NodesReply>, Status> {
        self.take("nodes", String::new(), &[])?;
        Ok(Response::new(self.answers.nodes.clone()))
    }

    async fn complete(
        &self,
        request: Request<CompleteRequest>,
    ) -> Result<Response<CompleteReply>, Status> {
        let request = request.into_inner();
        let kinds: Vec<_> = request.kinds().collect();
        self.take("complete", format!("`{}` {kinds:?}", request.begun), &[])?;
        Ok(Response::new(self.answers.complete.clone()))
    }

    async fn daemon_status(
        &self,
        _: Request<DaemonStatusRequest>,
    ) -> Result<Response<DaemonStatusReply>, Status> {
        self.take("daemon status", String::new(), &[])?;
        Ok(Response::new(self.answers.status.clone()))
    }

    async fn backup(
        &self,
        request: Request<BackupRequest>,
    ) -> Result<Response<BackupReply>, Status> {
        self.take("backup", request.into_inner().file, &[])?;
        Ok(Response::new(BackupReply::default()))
    }

    async fn daemon_stop(
        &self,
        _: Request<DaemonStopRequest>,
    ) -> Result<Response<DaemonStopReply>, Status> {
        self.take("daemon stop", String::new(), &[])?;
        Ok(Response::new(DaemonStopReply {}))
    }

    type NodeAddStream = Said<NodeEvent>;

    async fn node_add(
        &self,
        request: Request<NodeAddRequest>,
    ) -> Result<Response<Self::NodeAddStream>, Status> {
        let asked = request.into_inner();
        let what = format!(
            "{} {} root `{}` cpus {} memory {} shared `{}` dry {} untested {}",
            asked.name,
            asked.address,
            asked.root,
            asked.cpus,
            asked.memory_bytes,
            asked.shared,
            asked.dry_run,
            asked.without_test
        );
        self.take("node_add", what, &asked.request)?;
        Ok(self.said(&self.answers.node_events))
    }

    async fn node_remove(
        &self,
        request: Request<NodeRemoveRequest>,
    ) -> Result<Response<NodeRemoveReply>, Status> {
        let asked = request.into_inner();
        let what = format!("{} dry {}", asked.name, asked.dry_run);
        self.take("node_remove", what, &asked.request)?;
        Ok(Response::new(self.answers.removed.clone()))
    }

    type NodeReadyStream = Said<NodeEvent>;

    async fn node_ready(
        &self,
        request: Request<NodeReadyRequest>,
    ) -> Result<Response<Self::NodeReadyStream>, Status> {
        let asked = request.into_inner();
        let node = asked.node.unwrap_or_default();
        let what = format!(
            "{} `{}` in {} root `{}` key `{}` image `{}` pull `{}` idle {}",
            node.name,
            node.address,
            node.group,
            node.root,
            node.key,
            node.container,
            asked.pull,
            asked.idle_only
        );
        self.take("node_ready", what, &node.request)?;
        Ok(self.said(&self.answers.node_events))
    }

    type NodePutAwayStream = Said<NodeEvent>;

    async fn node_put_away(
        &self,
        request: Request<NodePutAwayRequest>,
    ) -> Result<Response<Self::NodePutAwayStream>, Status> {
        let asked = request.into_inner();
        let what = format!("{} of {} purge {}", asked.name, asked.group, asked.purge);
        self.take("node_put_away", what, &[])?;
        Ok(self.said(&self.answers.node_events))
    }

    async fn node_image(
        &self,
        request: Request<NodeImageRequest>,
    ) -> Result<Response<NodeImageReply>, Status> {
        self.take("node_image", request.into_inner().name, &[])?;
        Ok(Response::new(self.answers.image.clone()))
    }

    type NodeDoctorStream = Said<NodeEvent>;

    async fn node_doctor(
        &self,
        request: Request<NodeDoctorRequest>,
    ) -> Result<Response<Self::NodeDoctorStream>, Status> {
        self.take("node_doctor", request.into_inner().name, &[])?;
        Ok(self.said(&self.answers.node_events))
    }

    async fn node_login(
        &self,
        request: Request<NodeLoginRequest>,
    ) -> Result<Response<NodeLoginReply>, Status> {
        self.take("node_login", request.into_inner().name, &[])?;
        Ok(Response::new(self.answers.login.clone()))
    }

    type NodeConnectStream = Said<NodeEvent>;

    async fn node_connect(
        &self,
        request: Request<NodeConnectRequest>,
    ) -> Result<Response<Self::NodeConnectStream>, Status> {
        self.take("node_connect", request.into_inner().name, &[])?;
        Ok(self.said(&self.answers.node_events))
    }

    async fn node_gone(
        &self,
        request: Request<NodeGoneRequest>,
    ) -> Result<Response<NodeGoneReply>, Status> {
        let asked = request.into_inner();
        let what = format!("{} dry {} by {}", asked.name, asked.dry_run, asked.author);
        self.take("node_gone", what, &asked.request)?;
        Ok(Response::new(self.answers.gone.clone()))
    }

    type NodeTakeOverStream = Said<NodeEvent>;

    async fn node_take_over(
        &self,
        request: Request<NodeTakeOverRequest>,
    ) -> Result<Response<Self::NodeTakeOverStream>, Status> {
        let asked = request.into_inner();
        let what = format!(
            "{} `{}` dry {}",
            asked.name, asked.deployment, asked.dry_run
        );
        self.take("node_take_over", what, &asked.request)?;
        Ok(self.said(&self.answers.node_events))
    }

    type FetchStream = Said<FetchEvent>;

    async fn fetch(
        &self,
        request: Request<FetchRequest>,
    ) -> Result<Response<Self::FetchStream>, Status> {
        let asked = request.into_inner();
        let what = format!(
            "{} {:?} dry {}",
            picked(asked.selection),
            asked.include,
            asked.dry_run
        );
        self.take("fetch", what, &[])?;
        Ok(self.said_or_cut(self.answers.fetch.clone()))
    }

    async fn clean(
        &self,
        request: Request<CleanAskRequest>,
    ) -> Result<Response<CleanAskReply>, Status> {
        let asked = request.into_inner();
        let what = format!(
            "{} on `{}` unfetched {} dry {}",
            picked(asked.selection),
            asked.node,
            asked.unfetched,
            asked.dry_run
        );
        self.take("clean", what, &asked.request)?;
        Ok(Response::new(self.answers.clean.clone()))
    }

    async fn du(&self, request: Request<DuRequest>) -> Result<Response<DuReply>, Status> {
        let asked = request.into_inner();
        self.take("du", format!("`{}` runs {}", asked.node, asked.runs), &[])?;
        if self.answers.hangs {
            std::future::pending::<()>().await;
        }
        Ok(Response::new(self.answers.du.clone()))
    }

    async fn locate(
        &self,
        request: Request<LocateRequest>,
    ) -> Result<Response<LocateReply>, Status> {
        let asked = request.into_inner();
        let what = format!("{} terminal {}", asked.what, asked.terminal);
        self.take("locate", what, &[])?;
        Ok(Response::new(self.answers.place.clone()))
    }

    async fn rule_why(
        &self,
        request: Request<RuleListRequest>,
    ) -> Result<Response<RuleWhyReply>, Status> {
        let picked = request.into_inner().selection;
        self.take("rule why", picked.unwrap_or_default().text, &[])?;
        Ok(Response::new(self.answers.why.clone()))
    }
}
