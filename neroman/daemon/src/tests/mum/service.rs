//! What the node answers.

use std::pin::Pin;

use nero_journal::HEADER_BYTES;
use nero_wire::v1;
use nero_wire::v1::follow_event::Event;
use nero_wire::v1::mum_server::Mum;
use nero_wire::v1::run_state::Stage;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::{Held, Service, state};

type Streamed<T> = Pin<Box<dyn tokio_stream::Stream<Item = Result<T, Status>> + Send>>;

/// Size of the parts of an endless log.
const PART_BYTES: u64 = 64 * 1024;

impl Service {
    /// A log from there on that never ends.
    fn endless(
        &self,
        offset: i64,
    ) -> impl tokio_stream::Stream<Item = Result<v1::LogPart, Status>> + use<> {
        let (service, from) = (self.clone(), offset.unsigned_abs());
        tokio_stream::iter(0_u64..).map(move |index| {
            service.inner(|inner| inner.files.log_parts += 1);
            Ok(v1::LogPart {
                offset: from + index * PART_BYTES,
                data: vec![b'x'; PART_BYTES as usize],
                truncated: false,
                end: false,
            })
        })
    }
}

/// Gives its word that it never starts a run, unless that began.
fn recalled(held: &mut Held, token: Vec<u8>) -> v1::cancel_reply::One {
    use v1::cancel_reply::Outcome;
    let outcome = match held.stage {
        Stage::Waiting | Stage::Refused | Stage::TakenAway => {
            held.stage = Stage::TakenAway;
            Outcome::NeverStarted
        }
        _ => Outcome::GoesOn,
    };
    v1::cancel_reply::One {
        token,
        outcome: outcome.into(),
    }
}

#[tonic::async_trait]
impl Mum for Service {
    async fn greet(&self, request: Request<v1::Hello>) -> Result<Response<v1::Hello>, Status> {
        Ok(Response::new(request.into_inner()))
    }

    async fn pause_runs(
        &self,
        _: Request<v1::PauseRunsRequest>,
    ) -> Result<Response<v1::PauseRunsReply>, Status> {
        Err(Status::unimplemented("pause_runs"))
    }

    async fn find_jobs(
        &self,
        _: Request<v1::FindJobsRequest>,
    ) -> Result<Response<v1::FindJobsReply>, Status> {
        Err(Status::unimplemented("find_jobs"))
    }

    async fn relay(
        &self,
        request: Request<v1::RelayOrder>,
    ) -> Result<Response<v1::RelayClaims>, Status> {
        let order = request.into_inner();
        let claims = self.inner(|inner| {
            let is_open = |claim: &v1::RelayClaim| !order.adopted.contains(&claim.id);
            inner.claims.retain(is_open);
            inner.orders.push(order.clone());
            inner.claims.clone()
        });
        Ok(Response::new(v1::RelayClaims { claims }))
    }

    async fn describe(
        &self,
        _: Request<v1::DescribeRequest>,
    ) -> Result<Response<v1::NodeDescription>, Status> {
        Ok(Response::new(self.inner(|inner| inner.about.clone())))
    }

    async fn missing_blobs(
        &self,
        request: Request<v1::BlobList>,
    ) -> Result<Response<v1::BlobList>, Status> {
        self.speaks("missing_blobs").await;
        let asked = request.into_inner().hashes;
        let mut bell = self.bell.0.subscribe();
        self.inner(|inner| inner.asked_for_files += 1);
        while self.inner.lock().unwrap().ponders {
            bell.changed().await.unwrap();
        }
        let list = self.inner(|inner| inner.files.missing(asked));
        Ok(Response::new(list))
    }

    async fn put_blobs(
        &self,
        request: Request<Streaming<v1::BlobPart>>,
    ) -> Result<Response<v1::PutBlobsReply>, Status> {
        let mut parts = request.into_inner();
        let mut bell = self.bell.0.subscribe();
        let mut taken = 0;
        let stalls = |taken: usize| {
            let files = &self.inner.lock().unwrap().files;
            files.stalled && taken >= files.stalls_after
        };
        while stalls(taken) {
            bell.changed().await.unwrap();
        }
        let refused = self.inner(|inner| {
            inner.files.tries += 1;
            inner.files.refused.clone()
        });
        if let Some(status) = refused {
            return Err(status);
        }
        let mut content: Vec<u8> = Vec::new();
        let mut hash = Vec::new();
        while let Some(part) = parts.next().await {
            while stalls(taken) {
                bell.changed().await.unwrap();
            }
            let part = part?;
            let more = part.data.len();
            taken += more;
            if !part.hash.is_empty() {
                hash = part.hash;
                content = self
                    .inner(|inner| inner.files.partial.remove(&hash))
                    .unwrap_or_default();
                assert_eq!(content.len() as u64, part.offset);
            }
            content.extend_from_slice(&part.data);
            let cut = self.inner(|inner| {
                inner.files.came += more;
                let cut = inner.files.cuts.first().copied();
                cut.filter(|cut| *cut < content.len())
            });
            if let Some(cut) = cut {
                content.truncate(cut);
                self.inner(|inner| {
                    inner.files.cuts.remove(0);
                    inner.files.partial.insert(hash, content);
                });
                return Err(Status::unavailable("cut"));
            }
            if part.last {
                assert_eq!(blake3::hash(&content).as_bytes().as_slice(), hash);
                let content = std::mem::take(&mut content);
                self.inner(|inner| inner.files.blobs.insert(hash.clone(), content));
            }
        }
        Ok(Response::new(v1::PutBlobsReply::default()))
    }

    async fn hand_over(
        &self,
        request: Request<v1::HandOverRequest>,
    ) -> Result<Response<v1::HandOverReply>, Status> {
        self.speaks("hand_over").await;
        let mut reply = v1::HandOverReply::default();
        let v1::HandOverRequest {
            runs, sent_again, ..
        } = request.into_inner();
        let chokes = self.inner(|inner| {
            let chokes = |spec: &v1::RunSpec| inner.chokes == Some(spec.experiment);
            runs.iter().any(chokes)
        });
        if chokes {
            return Err(Status::internal("a task of the node panicked"));
        }
        let lost = self.inner(|inner| {
            inner.hand_overs += 1;
            inner.sent_again.extend(sent_again.clone());
            for spec in runs {
                let token = spec.token.clone();
                if sent_again.contains(&token) && !inner.runs.contains_key(&token) {
                    reply.refused.push(v1::hand_over_reply::Refusal {
                        token,
                        unknown_run: true,
                        ..v1::hand_over_reply::Refusal::default()
                    });
                    continue;
                }
                if !inner.refuses.is_empty() {
                    reply.refused.push(v1::hand_over_reply::Refusal {
                        token,
                        why: format!("node {}: {}", spec.node, inner.refuses),
                        lacks: inner.refuses.clone(),
                        hint: "put it there".to_owned(),
                        only_here: true,
                        ..v1::hand_over_reply::Refusal::default()
                    });
                    continue;
                }
                if !inner.puts_off.is_empty() {
                    if inner.has_it {
                        let held = Held::new(spec);
                        inner.runs.entry(token.clone()).or_insert(held);
                    }
                    reply.refused.push(v1::hand_over_reply::Refusal {
                        token,
                        why: inner.puts_off.clone(),
                        later: true,
                        ..v1::hand_over_reply::Refusal::default()
                    });
                    continue;
                }
                reply.accepted.push(token.clone());
                inner.runs.entry(token).or_insert_with(|| Held::new(spec));
            }
            inner.away |= inner.swallows;
            inner.swallows
        });
        if lost {
            return Err(Status::unavailable("cut"));
        }
        let mut bell = self.bell.0.subscribe();
        while self.inner.lock().unwrap().answers_late {
            bell.changed().await.unwrap();
        }
        Ok(Response::new(reply))
    }

    async fn cancel(
        &self,
        request: Request<v1::CancelRequest>,
    ) -> Result<Response<v1::CancelReply>, Status> {
        self.speaks("cancel").await;
        use v1::cancel_reply::{One, Outcome};
        // A call that was on its way when the node went away fails, too.
        if self.inner(|inner| inner.away) {
            return Err(Status::unavailable("away"));
        }
        let refuses = self.inner(|inner| {
            inner.cancels_refused += usize::from(inner.no_cancels);
            inner.no_cancels
        });
        if refuses {
            return Err(Status::resource_exhausted("no room in /node"));
        }
        let request = request.into_inner();
        let recalls = request.recall > 0;
        let runs = self.inner(|inner| {
            request
                .runs
                .into_iter()
                .map(|run| {
                    if recalls {
                        inner.recalled.push(run.token.clone());
                    }
                    let held = inner.runs.get_mut(&run.token);
                    if let Some(held) = held.filter(|_| recalls) {
                        return recalled(held, run.token);
                    }
                    let outcome = match inner.runs.get(&run.token).map(|held| held.stage) {
                        None if inner.placing => Outcome::Ended,
                        None => Outcome::UnknownRun,
                        Some(Stage::Waiting) => Outcome::NeverStarted,
                        Some(_) => Outcome::Asked,
                    };
                    inner.cancelled.push(run.token.clone());
                    One {
                        token: run.token,
                        outcome: outcome.into(),
                    }
                })
                .collect()
        });
        let lost = self.inner(|inner| {
            inner.away |= inner.swallows;
            inner.swallows
        });
        if lost {
            return Err(Status::unavailable("cut"));
        }
        Ok(Response::new(v1::CancelReply { runs }))
    }

    async fn set_rules(
        &self,
        request: Request<v1::SetRulesRequest>,
    ) -> Result<Response<v1::SetRulesReply>, Status> {
        self.speaks("set_rules").await;
        let rules = request.into_inner().rules.unwrap_or_default();
        let version = rules.version;
        let refuses = self.inner(|inner| {
            inner.rules_refused += usize::from(inner.no_rules);
            inner.no_rules
        });
        if refuses {
            return Err(Status::resource_exhausted("no room in /node"));
        }
        self.inner(|inner| inner.rules.push(rules));
        Ok(Response::new(v1::SetRulesReply { version }))
    }

    async fn respond(
        &self,
        _: Request<v1::RespondRequest>,
    ) -> Result<Response<v1::RespondReply>, Status> {
        Ok(Response::new(v1::RespondReply {
            how: "exit code 0".to_owned(),
            output: String::new(),
        }))
    }

    async fn answer_step(
        &self,
        _: Request<v1::AnswerStepRequest>,
    ) -> Result<Response<v1::AnswerStepReply>, Status> {
        Ok(Response::new(v1::AnswerStepReply {}))
    }

    type FollowStream = ReceiverStream<Result<v1::FollowEvent, Status>>;

    async fn follow(
        &self,
        request: Request<Streaming<v1::FollowRequest>>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        if self.inner(|inner| inner.away) {
            return Err(Status::unavailable("away"));
        }
        let mut requests = request.into_inner();
        let (tx, rx) = mpsc::channel(1000);
        let first = requests.message().await?.unwrap_or_default();
        self.inner(|inner| {
            for position in &first.positions {
                let token = &position.run.as_ref().unwrap().token;
                // What it forgot and still has is taken up again.
                inner.closed.retain(|one| one != token);
                if !inner.runs.contains_key(token) {
                    let event = Event::State(state(token, Stage::UnknownRun));
                    let _ = tx.try_send(Ok(v1::FollowEvent { event: Some(event) }));
                }
            }
            for (token, held) in &inner.runs {
                if inner.closed.contains(token) {
                    continue;
                }
                if held.bytes.len() > HEADER_BYTES {
                    let event = Event::Part(held.part(0, 0));
                    let _ = tx.try_send(Ok(v1::FollowEvent { event: Some(event) }));
                }
                let event = Event::State(state(token, held.stage));
                let _ = tx.try_send(Ok(v1::FollowEvent { event: Some(event) }));
            }
            inner.positions = first.positions;
            inner.followers.push(tx);
        });
        let service = self.clone();
        tokio::spawn(async move {
            while let Ok(Some(more)) = requests.message().await {
                service.inner(|inner| inner.closed.extend(more.closed));
            }
        });
        Ok(Response::new(ReceiverStream::new(rx)))
    }

    type ReadLogStream = Streamed<v1::LogPart>;

    async fn read_log(
        &self,
        request: Request<v1::ReadLogRequest>,
    ) -> Result<Response<Self::ReadLogStream>, Status> {
        self.speaks("read_log").await;
        let request = request.into_inner();
        let token = request.run.unwrap_or_default().token;
        let log = self.inner(|inner| inner.runs.get(&token).map(|held| held.log.clone()));
        let mut log = log.ok_or_else(|| Status::not_found("no such run"))?;
        if self.inner(|inner| inner.files.endless_logs) {
            return Ok(Response::new(Box::pin(self.endless(request.offset))));
        }
        if self.inner(|inner| inner.files.logs_gone) {
            log.clear();
        }
        let from = match usize::try_from(request.offset) {
            Ok(offset) => offset.min(log.len()),
            Err(_) => log
                .len()
                .saturating_sub(request.offset.unsigned_abs() as usize),
        };
        let part = v1::LogPart {
            offset: from as u64,
            data: if request.stderr {
                Vec::new()
            } else {
                log[from..].to_vec()
            },
            truncated: false,
            end: true,
        };
        Ok(Response::new(Box::pin(tokio_stream::once(Ok(part)))))
    }

    async fn list_files(
        &self,
        request: Request<v1::ListFilesRequest>,
    ) -> Result<Response<v1::ListFilesReply>, Status> {
        self.speaks("list_files").await;
        let globs = request.into_inner().globs;
        let list = self.inner(|inner| inner.files.list(&globs));
        Ok(Response::new(list))
    }

    type ReadFileStream = Streamed<v1::FilePart>;

    async fn read_file(
        &self,
        request: Request<v1::ReadFileRequest>,
    ) -> Result<Response<Self::ReadFileStream>, Status> {
        let path = request.into_inner().path;
        Err(Status::not_found(format!("{path} is read with others")))
    }

    async fn script(
        &self,
        _: Request<v1::ScriptRequest>,
    ) -> Result<Response<v1::ScriptReply>, Status> {
        Err(Status::unimplemented("the fake has no scheduler"))
    }

    async fn probe(
        &self,
        request: Request<v1::ProbeRequest>,
    ) -> Result<Response<v1::ProbeReply>, Status> {
        self.speaks("probe").await;
        // The first line names the node.
        let command = request.into_inner().command;
        let (_, command) = command.split_once('\n').expect("two lines");
        let command = command.to_owned();
        let answer = self.inner(|inner| {
            inner.probed.push(command.clone());
            inner.answers.get(&command).cloned()
        });
        match answer {
            Some(reply) => Ok(Response::new(reply)),
            // It hangs.
            None => std::future::pending().await,
        }
    }

    async fn bring_image(
        &self,
        request: Request<v1::BringImageRequest>,
    ) -> Result<Response<v1::BringImageReply>, Status> {
        self.speaks("bring_image").await;
        let container = request.into_inner().container.unwrap_or_default();
        let answer = self.inner(|inner| {
            inner.brought.push(container);
            let last = inner.images.len() <= 1;
            if last {
                inner.images.front().cloned()
            } else {
                inner.images.pop_front()
            }
        });
        answer
            .map(Response::new)
            .ok_or_else(|| Status::unimplemented("the fake has none"))
    }

    async fn stop(&self, _: Request<v1::StopRequest>) -> Result<Response<v1::StopReply>, Status> {
        Ok(Response::new(v1::StopReply {}))
    }

    async fn examine(
        &self,
        _: tonic::Request<v1::ExamineRequest>,
    ) -> Result<tonic::Response<v1::ExamineReply>, tonic::Status> {
        let (silent, findings) = self.inner(|inner| {
            inner.examined += 1;
            (inner.examines_never, inner.findings.clone())
        });
        if silent {
            std::future::pending::<()>().await;
        }
        if !findings.is_empty() {
            return Ok(Response::new(v1::ExamineReply { findings }));
        }
        Err(Status::unimplemented("the fake has none"))
    }

    type ReadFilesStream = Streamed<v1::FilePart>;

    async fn read_files(
        &self,
        request: tonic::Request<v1::ReadFilesRequest>,
    ) -> Result<tonic::Response<Self::ReadFilesStream>, tonic::Status> {
        self.speaks("read_files").await;
        let request = request.into_inner();
        let token = request.run.unwrap_or_default().token;
        let answer = self.inner(|inner| {
            let log = inner.runs.get(&token).map(|held| held.log.clone());
            inner.files.read(&request.files, &log.unwrap_or_default())
        });
        Ok(Response::new(Box::pin(tokio_stream::iter(answer))))
    }

    async fn disk_usage(
        &self,
        _: tonic::Request<v1::DiskUsageRequest>,
    ) -> Result<tonic::Response<v1::DiskUsageReply>, tonic::Status> {
        self.speaks("disk_usage").await;
        let runs = self.inner(|inner| {
            let run = |held: &Held| v1::disk_usage_reply::Run {
                run: Some(v1::RunRef {
                    token: held.spec.token.clone(),
                    experiment: held.spec.experiment,
                    number: held.spec.number,
                }),
                bytes: 1000,
                ..v1::disk_usage_reply::Run::default()
            };
            inner.runs.values().map(run).collect()
        });
        Ok(Response::new(v1::DiskUsageReply {
            runs,
            runs_bytes: 77,
            ..v1::DiskUsageReply::default()
        }))
    }

    async fn clean(
        &self,
        request: tonic::Request<v1::CleanRequest>,
    ) -> Result<tonic::Response<v1::CleanReply>, tonic::Status> {
        self.speaks("clean").await;
        let reply = self.inner(|inner| {
            let live = |held: &&Held| held.stage != Stage::Settled;
            let keep: Vec<Vec<u8>> = inner
                .runs
                .values()
                .filter(live)
                .map(|held| held.spec.token.clone())
                .collect();
            let mut reply = inner.files.clean(request.into_inner(), &keep);
            reply.freed_bytes = reply.freed_bytes.max(inner.freed_bytes);
            reply
        });
        let mut bell = self.bell.0.subscribe();
        while self.inner.lock().unwrap().files.stalled {
            bell.changed().await.unwrap();
        }
        Ok(Response::new(reply))
    }

    type RunsStream = Streamed<v1::RunFolder>;

    async fn runs(
        &self,
        _: tonic::Request<v1::RunsRequest>,
    ) -> Result<tonic::Response<Self::RunsStream>, tonic::Status> {
        Err(Status::unimplemented("the fake has none"))
    }
}
