//! The calls of neroman: one short function for each.

use futures_util::StreamExt as _;
use nero_model::RunToken;
use nero_node::agent::CallRefusal;
use nero_node::runs::segments;
use nero_node::{files, staging};
use nero_wire::hello;
use nero_wire::v1::mum_server::Mum;
use nero_wire::v1::read_files_request::Want;
use nero_wire::v1::{
    AnswerStepReply, AnswerStepRequest, BlobList, BlobPart, BringImageReply, BringImageRequest,
    CancelReply, CancelRequest, CleanReply, CleanRequest, DescribeRequest, DiskUsageReply,
    DiskUsageRequest, ExamineReply, ExamineRequest, FilePart, FindJobsReply, FindJobsRequest,
    FollowEvent, FollowRequest, HandOverReply, HandOverRequest, Hello, ListFilesReply,
    ListFilesRequest, LogPart, NodeDescription, PauseRunsReply, PauseRunsRequest, ProbeReply,
    ProbeRequest, PutBlobsReply, ReadFileRequest, ReadFilesRequest, ReadLogRequest, RelayClaims,
    RelayOrder, RespondReply, RespondRequest, Role, RunFolder, RunsRequest, ScriptReply,
    ScriptRequest, SetRulesReply, SetRulesRequest, Site, StopReply, StopRequest,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::answers::Answers;
use super::link::LinkInfo;
use super::{Service, io_status};
use crate::examine::Subject;

#[tonic::async_trait]
impl Mum for Service {
    async fn greet(&self, request: Request<Hello>) -> Result<Response<Hello>, Status> {
        let link = request.extensions().get::<LinkInfo>().cloned();
        let theirs = request.into_inner();
        let deployment = Some(self.inner.deployment);
        let as_watcher = theirs.role() == Role::Nerokid;
        let role = if as_watcher {
            Role::Nerokid
        } else {
            Role::Neroman
        };
        hello::check(&theirs, role, deployment).map_err(super::not_spoken_to)?;
        match link {
            Some(link) if as_watcher => link.greet(u64::MAX),
            Some(link) => {
                super::owner::greet(&self.inner, &theirs, &link).await?;
                let generations = hello::knows_generations(&theirs);
                self.inner.agent.greeted(generations);
            }
            None => {}
        }
        Ok(Response::new(Hello {
            capabilities: vec![hello::RECALL.to_owned(), self.inner.gives.clone()],
            ledger: self.inner.ledger.to_vec(),
            root: self.inner.placer.paths.root().display().to_string(),
            ..hello::own(Role::Neromum, &self.inner.build, deployment)
        }))
    }

    async fn describe(
        &self,
        request: Request<DescribeRequest>,
    ) -> Result<Response<NodeDescription>, Status> {
        self.greeted(&request)?;
        let busy = self.inner.answer(self.inner.agent.busy()).await?;
        let gpus = self.inner.gpus.snapshot().await;
        let site = match &self.inner.front {
            Some(front) => Some(Site {
                usage: busy.scheduler.clone().map(|counted| front.usage(counted)),
                ..front.describe().await
            }),
            None => None,
        };
        let inner = self.inner.clone();
        let described = self
            .inner
            .file_work(move || super::describe::describe(&inner, busy, &gpus, site))
            .await?;
        Ok(Response::new(described))
    }

    async fn missing_blobs(
        &self,
        request: Request<BlobList>,
    ) -> Result<Response<BlobList>, Status> {
        self.greeted(&request)?;
        let store = self.inner.store.clone();
        let hashes = request.into_inner().hashes;
        let work = move || super::blobs::missing(&store, hashes);
        Ok(Response::new(self.inner.file_work(work).await??))
    }

    async fn put_blobs(
        &self,
        request: Request<Streaming<BlobPart>>,
    ) -> Result<Response<PutBlobsReply>, Status> {
        self.greeted(&request)?;
        let reply = super::blobs::put(&self.inner, request.into_inner()).await?;
        Ok(Response::new(reply))
    }

    async fn hand_over(
        &self,
        request: Request<HandOverRequest>,
    ) -> Result<Response<HandOverReply>, Status> {
        self.greeted(&request)?;
        let link = request.extensions().get::<LinkInfo>();
        let tenure = link.map_or(0, LinkInfo::tenure);
        let reply = super::hand_over::hand_over(&self.inner, tenure, request.into_inner()).await?;
        Ok(Response::new(reply))
    }

    async fn cancel(
        &self,
        request: Request<CancelRequest>,
    ) -> Result<Response<CancelReply>, Status> {
        self.greeted(&request)?;
        let reply = super::end::end(&self.inner, request.into_inner()).await?;
        Ok(Response::new(reply))
    }

    async fn pause_runs(
        &self,
        request: Request<PauseRunsRequest>,
    ) -> Result<Response<PauseRunsReply>, Status> {
        self.greeted(&request)?;
        let reply = super::pause::pause(&self.inner, request.into_inner()).await?;
        Ok(Response::new(reply))
    }

    async fn set_rules(
        &self,
        request: Request<SetRulesRequest>,
    ) -> Result<Response<SetRulesReply>, Status> {
        self.greeted(&request)?;
        let request = request.into_inner();
        let rules = request
            .rules
            .ok_or_else(|| Status::invalid_argument("there is no rule set in the request"))?;
        let token = request.run.and_then(|run| RunToken::from_slice(&run.token));
        let token = token.ok_or(CallRefusal::UnknownRun)?;
        let answer = self.inner.agent.set_rules(token, rules);
        let version = self.inner.answer(answer).await??;
        Ok(Response::new(SetRulesReply { version }))
    }

    async fn respond(
        &self,
        request: Request<RespondRequest>,
    ) -> Result<Response<RespondReply>, Status> {
        self.greeted(&request)?;
        let request = request.into_inner();
        let (_, run_dir) = self.run_dir(request.run).await?;
        let (nerokid, incarnation) = (&self.inner.nerokid, request.incarnation.max(1));
        let reply = super::respond::respond(nerokid, &run_dir, incarnation, &request.command);
        let reply = reply.await;
        reply
            .map(Response::new)
            .map_err(|error| io_status("cannot run the command", &error))
    }

    async fn answer_step(
        &self,
        request: Request<AnswerStepRequest>,
    ) -> Result<Response<AnswerStepReply>, Status> {
        self.greeted(&request)?;
        let request = request.into_inner();
        let token = request.run.as_ref();
        let token = token.and_then(|run| RunToken::from_slice(&run.token));
        let token = token.ok_or(CallRefusal::UnknownRun)?;
        let answer = self.inner.agent.answer_step(token, request);
        self.inner.answer(answer).await??;
        Ok(Response::new(AnswerStepReply {}))
    }

    type FollowStream = Answers<FollowEvent>;

    async fn follow(
        &self,
        request: Request<Streaming<FollowRequest>>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        self.greeted(&request)?;
        let mut requests = request.into_inner();
        let first = requests
            .message()
            .await?
            .ok_or_else(|| Status::invalid_argument("positions come first"))?;
        let agent = self.inner.agent.clone();
        let stream = agent.follow(first).await?;
        let id = stream.id;
        // Ends with the connection; the end of the reply stream informs the agent.
        #[expect(clippy::disallowed_methods, reason = "`unheard` below awaits it")]
        let listening = tokio::spawn(async move {
            while let Ok(Some(more)) = requests.message().await {
                if agent.follow_more(id, more).await.is_err() {
                    return;
                }
            }
        });
        // A follower that is not heard any more begins anew.
        let unheard = async {
            if listening.await.is_ok() {
                std::future::pending().await
            }
        };
        Ok(Response::new(Box::pin(stream.take_until(unheard))))
    }

    type ReadLogStream = Answers<LogPart>;

    async fn read_log(
        &self,
        request: Request<ReadLogRequest>,
    ) -> Result<Response<Self::ReadLogStream>, Status> {
        self.greeted(&request)?;
        let request = request.into_inner();
        let (token, run_dir) = self.run_dir(request.run.clone()).await?;
        let (parts, answers) = mpsc::channel(files::log::PARTS_IN_FLIGHT);
        let inner = self.inner.clone();
        #[expect(
            clippy::disallowed_methods,
            reason = "the end of the answers tells its end"
        )]
        let reading = tokio::spawn(super::logs::read(inner, token, run_dir, request, parts));
        let answers = ReceiverStream::new(answers).chain(super::end_of(reading));
        Ok(Response::new(Box::pin(answers)))
    }

    async fn list_files(
        &self,
        request: Request<ListFilesRequest>,
    ) -> Result<Response<ListFilesReply>, Status> {
        self.greeted(&request)?;
        let request = request.into_inner();
        let (_, run_dir) = self.run_dir(request.run).await?;
        let work = work_of(&run_dir, request.incarnation);
        let inner = self.inner.clone();
        let list = move || {
            if !request.made {
                return files::list::list(&work, &request.globs);
            }
            let listing = files::list::walk(&work, &request.globs)?;
            let code = files::made::Code::of(&inner.placer.paths, &run_dir)?;
            files::made::complete(listing, &work, &code)
        };
        let listed = self.inner.file_work(list).await?;
        listed
            .map(Response::new)
            .map_err(|error| io_status("cannot list the run's files", &error))
    }

    type ReadFileStream = Answers<FilePart>;

    async fn read_file(
        &self,
        request: Request<ReadFileRequest>,
    ) -> Result<Response<Self::ReadFileStream>, Status> {
        self.greeted(&request)?;
        let request = request.into_inner();
        let (_, run_dir) = self.run_dir(request.run).await?;
        let work = work_of(&run_dir, request.incarnation);
        let want = Want {
            path: request.path,
            offset: request.offset,
            max_bytes: request.max_bytes,
            log: false,
        };
        let parts = super::fetch::read_file(self.inner.clone(), work, want).await?;
        Ok(Response::new(parts))
    }

    type ReadFilesStream = Answers<FilePart>;

    async fn read_files(
        &self,
        request: Request<ReadFilesRequest>,
    ) -> Result<Response<Self::ReadFilesStream>, Status> {
        self.greeted(&request)?;
        let request = request.into_inner();
        let (_, run_dir) = self.run_dir(request.run.clone()).await?;
        let work = work_of(&run_dir, request.incarnation);
        let logs = logs_of(&run_dir, request.incarnation);
        let parts = super::fetch::many(self.inner.clone(), work, logs, request).await?;
        Ok(Response::new(parts))
    }

    async fn bring_image(
        &self,
        request: Request<BringImageRequest>,
    ) -> Result<Response<BringImageReply>, Status> {
        self.greeted(&request)?;
        let container = request.into_inner().container.unwrap_or_default();
        let found = self.inner.containers.bring_one(&container).await;
        Ok(Response::new(match found {
            Ok(ready) => BringImageReply {
                ready: Some(ready.into_container(container)),
                ..BringImageReply::default()
            },
            Err(lack) => BringImageReply {
                ready: None,
                why: lack.why,
                hint: lack.hint.to_owned(),
                later: lack.may_pass,
            },
        }))
    }

    async fn stop(&self, request: Request<StopRequest>) -> Result<Response<StopReply>, Status> {
        self.greeted(&request)?;
        tracing::info!("told to stop");
        if request.into_inner().purge {
            let open = self.inner.answer(self.inner.agent.open_runs()).await?;
            if !open.is_empty() {
                return Err(Status::failed_precondition("runs are live here"));
            }
            crate::purge::order(&self.inner.placer.paths)
                .map_err(|error| io_status("cannot note that files go", &error))?;
        }
        self.inner.agent.stop().await?;
        Ok(Response::new(StopReply {}))
    }

    async fn examine(
        &self,
        request: Request<ExamineRequest>,
    ) -> Result<Response<ExamineReply>, Status> {
        self.greeted(&request)?;
        let busy = self.inner.answer(self.inner.agent.busy()).await?;
        let paths = &self.inner.placer.paths;
        let warden = self.inner.placer.warden.clone();
        let subject = Subject {
            root: paths.root().to_path_buf(),
            folder: paths.mum(),
            min_free: busy.min_free,
            gpus: self.inner.gpus.look_anew().await,
            programs: request.into_inner().programs,
            described: warden.filter(|warden| warden.kind() == nero_warden::Kind::Generic),
        };
        let findings = crate::examine::examine(subject).await;
        Ok(Response::new(ExamineReply { findings }))
    }

    async fn script(
        &self,
        request: Request<ScriptRequest>,
    ) -> Result<Response<ScriptReply>, Status> {
        self.greeted(&request)?;
        let reply = super::script::script(&self.inner, &request.into_inner()).await;
        Ok(Response::new(reply))
    }

    async fn probe(&self, request: Request<ProbeRequest>) -> Result<Response<ProbeReply>, Status> {
        self.greeted(&request)?;
        let command = request.into_inner().command;
        let reply = super::probe::probe(&self.inner, &command).await;
        Ok(Response::new(reply))
    }

    async fn find_jobs(
        &self,
        request: Request<FindJobsRequest>,
    ) -> Result<Response<FindJobsReply>, Status> {
        self.greeted(&request)?;
        let reply = super::find_jobs::find(&self.inner, request.into_inner()).await?;
        Ok(Response::new(reply))
    }

    async fn disk_usage(
        &self,
        request: Request<DiskUsageRequest>,
    ) -> Result<Response<DiskUsageReply>, Status> {
        self.greeted(&request)?;
        let each_run = request.into_inner().runs;
        let reply = super::clean::usage(&self.inner, each_run).await?;
        Ok(Response::new(reply))
    }

    async fn clean(&self, request: Request<CleanRequest>) -> Result<Response<CleanReply>, Status> {
        self.greeted(&request)?;
        let reply = super::clean::clean(&self.inner, request.into_inner()).await?;
        Ok(Response::new(reply))
    }

    async fn relay(&self, request: Request<RelayOrder>) -> Result<Response<RelayClaims>, Status> {
        self.greeted(&request)?;
        // A letter without an outcome is sent first, which may take a minute.
        let claims = self.inner.agent.letters(request.into_inner()).await??;
        Ok(Response::new(claims))
    }

    type RunsStream = Answers<RunFolder>;

    async fn runs(
        &self,
        request: Request<RunsRequest>,
    ) -> Result<Response<Self::RunsStream>, Status> {
        self.greeted(&request)?;
        Ok(Response::new(super::clean::folders(&self.inner).await?))
    }
}

/// The folder of an incarnation's logs; 0 means the newest that was claimed.
fn logs_of(run_dir: &std::path::Path, incarnation: u32) -> std::path::PathBuf {
    let newest = || segments::newest(run_dir).unwrap_or(1);
    let incarnation = if incarnation > 0 {
        incarnation
    } else {
        newest()
    };
    segments::folder(run_dir, incarnation.max(1))
}

/// The work folder of an incarnation; 0 means the newest that was built.
fn work_of(run_dir: &std::path::Path, incarnation: u32) -> std::path::PathBuf {
    if incarnation > 0 {
        return staging::work_folder(run_dir, incarnation);
    }
    staging::newest_work(run_dir)
}
