//! A node that accepts everything and lets the test decide what happens.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Mutex;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use nero_journal::v1::{self as journal, RecordKind};
use nero_journal::{Encoder, HEADER_BYTES, SegmentId, Writer, encode_header};
use nero_wire::v1;
use nero_wire::v1::follow_event::Event;
use nero_wire::v1::mum_server::{Mum, MumServer};
use nero_wire::v1::run_state::Stage;
use tokio::sync::{mpsc, watch};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use super::files::Files;
use crate::failure::Failure;
use crate::node::{Connect, Heard, Link, Unconnected};

/// What is known of a run, and everything said of it so far.
struct Held {
    spec: v1::RunSpec,
    bytes: Vec<u8>,
    encoder: Encoder,
    segment: SegmentId,
    stage: Stage,
    log: Vec<u8>,
}

#[derive(Default)]
struct Inner {
    runs: BTreeMap<Vec<u8>, Held>,
    /// Runs that it does not know now.
    forgotten: BTreeMap<Vec<u8>, Held>,
    followers: Vec<mpsc::Sender<Result<v1::FollowEvent, Status>>>,
    hand_overs: usize,
    cancelled: Vec<Vec<u8>>,
    rules: Vec<v1::RuleSet>,
    closed: Vec<Vec<u8>>,
    positions: Vec<v1::RunPosition>,
    files: Files,
    away: bool,
    /// The next tries need a person.
    locked: bool,
    /// How often somebody tried to connect.
    tries: usize,
    /// How often its connections were ended.
    hung_up: usize,
    /// Runs that it does not know are being taken up.
    placing: bool,
    /// There is no room for rules.
    no_rules: bool,
    /// How often it refused rules.
    rules_refused: usize,
    /// There is no room for wishes.
    no_wishes: bool,
    /// How often it refused wishes.
    wishes_refused: usize,
    /// Runs are taken and the answer is lost with the connection.
    swallows: bool,
    /// Why it alone takes no runs; empty: it does.
    refuses: String,
    /// It takes no runs together with those of this experiment.
    chokes: Option<u64>,
    /// It never says what a close look finds.
    examines_never: bool,
    /// How often it was asked for that.
    examined: usize,
    /// It never says which files it lacks.
    ponders: bool,
    /// How often it was asked for them.
    asked_for_files: usize,
    about: v1::NodeDescription,
}

/// The node.
#[derive(Default)]
pub(super) struct FakeMum {
    inner: std::sync::Arc<Mutex<Inner>>,
    bell: std::sync::Arc<Bell>,
}

struct Bell(watch::Sender<u64>);

impl Default for Bell {
    fn default() -> Self {
        Self(watch::channel(0).0)
    }
}

#[derive(Clone)]
struct Service {
    inner: std::sync::Arc<Mutex<Inner>>,
    bell: std::sync::Arc<Bell>,
}

impl Connect for FakeMum {
    fn connect<'a>(&'a self, _: Heard<'a>) -> BoxFuture<'a, Result<Link, Unconnected>> {
        async move {
            {
                let mut inner = self.inner.lock().unwrap();
                inner.tries += 1;
                self.bell.0.send_modify(|count| *count += 1);
                if inner.locked {
                    return Err(Unconnected {
                        failure: Failure::node("a password has to be typed").hint("connect it"),
                        needs_person: true,
                    });
                }
                if inner.away {
                    return Err(Failure::node("away").into());
                }
            }
            let (near, far) = tokio::io::duplex(1 << 20);
            let service = Service {
                inner: self.inner.clone(),
                bell: self.bell.clone(),
            };
            tokio::spawn(
                Server::builder()
                    // As neromum: one that stalls leaves room for the others.
                    .initial_stream_window_size(2 * 1024 * 1024)
                    .initial_connection_window_size(4 * 1024 * 1024)
                    .add_service(MumServer::new(service))
                    .serve_with_incoming(tokio_stream::once(Ok::<_, std::io::Error>(far))),
            );
            let channel = nero_wire::dial_io(near)
                .await
                .map_err(|error| Failure::node("no link").caused_by(&error))?;
            Ok(Link {
                channel,
                hello: v1::Hello::default(),
                gone: std::future::pending().boxed(),
                host: None,
                facts: None,
            })
        }
        .boxed()
    }

    fn hang_up(&self) -> BoxFuture<'_, ()> {
        async {
            self.inner.lock().unwrap().hung_up += 1;
            self.bell.0.send_modify(|count| *count += 1);
        }
        .boxed()
    }
}

impl FakeMum {
    /// Waits until something is so.
    async fn until(&self, what: &str, so: impl Fn(&Inner) -> bool) {
        let mut bell = self.bell.0.subscribe();
        let done = tokio::time::timeout(super::DEADLINE, async {
            while !so(&self.inner.lock().unwrap()) {
                bell.changed().await.unwrap();
            }
        });
        assert!(done.await.is_ok(), "the node never {what}");
    }

    pub(super) fn hung_up(&self) -> usize {
        self.inner.lock().unwrap().hung_up
    }

    /// Waits until its connections were ended this often.
    pub(super) async fn until_hung_up(&self, count: usize) {
        self.until("was let go", |inner| inner.hung_up >= count)
            .await;
    }

    /// The token of a run, once it was handed over.
    pub(super) async fn token(&self, experiment: u64, number: u32) -> Vec<u8> {
        let of =
            move |held: &Held| held.spec.experiment == experiment && held.spec.number == number;
        self.until("got the run", |inner| inner.runs.values().any(of))
            .await;
        let inner = self.inner.lock().unwrap();
        let found = inner.runs.iter().find(|(_, held)| of(held));
        found.unwrap().0.clone()
    }

    pub(super) fn spec(&self, token: &[u8]) -> v1::RunSpec {
        self.inner.lock().unwrap().runs[token].spec.clone()
    }

    pub(super) fn hand_overs(&self) -> usize {
        self.inner.lock().unwrap().hand_overs
    }

    pub(super) fn has(&self, experiment: u64, number: u32) -> bool {
        self.inner
            .lock()
            .unwrap()
            .runs
            .values()
            .any(|held| held.spec.experiment == experiment && held.spec.number == number)
    }

    pub(super) async fn cancelled(&self, token: &[u8]) {
        let token = token.to_vec();
        self.until("was told to end it", |inner| {
            inner.cancelled.contains(&token)
        })
        .await;
    }

    pub(super) async fn closed(&self, token: &[u8]) {
        let token = token.to_vec();
        self.until("was told to forget it", |inner| {
            inner.closed.contains(&token)
        })
        .await;
    }

    pub(super) async fn rules(&self, count: usize) -> v1::RuleSet {
        self.until("got rules", |inner| inner.rules.len() >= count)
            .await;
        self.inner.lock().unwrap().rules[count - 1].clone()
    }

    /// Waits until the newest set that it took has so many rules.
    pub(super) async fn has_rules(&self, count: usize) {
        self.until("the newest rules", |inner| {
            inner
                .rules
                .last()
                .is_some_and(|set| set.rules.len() == count)
        })
        .await;
    }

    pub(super) fn file(&self, path: &str, content: &[u8]) {
        let mut inner = self.inner.lock().unwrap();
        inner.files.put(path, content);
    }

    /// Changes or tells what it holds beside its runs.
    pub(super) fn files<T>(&self, change: impl FnOnce(&mut Files) -> T) -> T {
        let done = change(&mut self.inner.lock().unwrap().files);
        self.bell.0.send_modify(|count| *count += 1);
        done
    }

    /// Waits until what it holds beside its runs is so.
    pub(super) async fn until_files(&self, what: &str, so: impl Fn(&Files) -> bool) {
        self.until(what, |inner| so(&inner.files)).await;
    }

    pub(super) fn positions(&self) -> Vec<v1::RunPosition> {
        self.inner.lock().unwrap().positions.clone()
    }

    /// Drops every connection; with `away` none comes about any more.
    pub(super) fn cut(&self, away: bool) {
        let mut inner = self.inner.lock().unwrap();
        inner.away = away;
        for follower in inner.followers.drain(..) {
            let _ = follower.try_send(Err(Status::unavailable("killed")));
        }
    }

    /// Whether only a person can open the way.
    pub(super) fn lock(&self, locked: bool) {
        self.inner.lock().unwrap().locked = locked;
    }

    /// How often somebody tried to connect.
    pub(super) fn tries(&self) -> usize {
        self.inner.lock().unwrap().tries
    }

    /// Waits until somebody tried that often.
    pub(super) async fn tried(&self, times: usize) {
        self.until("was tried", |inner| inner.tries >= times).await;
    }

    /// Says that a run goes on on another host of the node.
    pub(super) fn goes_on_at(&self, token: &[u8], host: &str) {
        let state = v1::RunState {
            host: host.to_owned(),
            via_disk: true,
            ..state(token, Stage::Running)
        };
        self.inner.lock().unwrap().tell(Event::State(state));
    }

    /// Whether it has runs that it does not know yet.
    pub(super) fn place(&self, placing: bool) {
        self.inner.lock().unwrap().placing = placing;
    }

    /// Whether it has no room for rules.
    pub(super) fn take_no_rules(&self, no_rules: bool) {
        self.inner.lock().unwrap().no_rules = no_rules;
    }

    /// Whether it has no room for wishes.
    pub(super) fn take_no_wishes(&self, no_wishes: bool) {
        self.inner.lock().unwrap().no_wishes = no_wishes;
    }

    /// Waits until it refused wishes.
    pub(super) async fn refused_wishes(&self) {
        self.until("refused wishes", |inner| inner.wishes_refused > 0)
            .await;
    }

    /// Waits until it refused rules.
    pub(super) async fn refused_rules(&self) {
        self.until("refused rules", |inner| inner.rules_refused > 0)
            .await;
    }

    /// Whether it answers when it is looked at closely.
    pub(super) fn examines(&self, examines: bool) {
        self.inner.lock().unwrap().examines_never = !examines;
    }

    /// Waits until somebody looks at it closely.
    pub(super) async fn examined(&self) {
        self.until("was looked at", |inner| inner.examined > 0)
            .await;
    }

    /// Takes the next runs, and is away before it says so.
    pub(super) fn swallow(&self, swallows: bool) {
        self.inner.lock().unwrap().swallows = swallows;
    }

    /// Refuses the next runs, as only this node does; empty: takes them.
    pub(super) fn refuse(&self, why: &str) {
        self.inner.lock().unwrap().refuses = why.to_owned();
    }

    /// Takes no runs together with those of this experiment.
    pub(super) fn choke(&self, experiment: Option<u64>) {
        self.inner.lock().unwrap().chokes = experiment;
    }

    /// Whether it keeps silent about the files that it lacks.
    pub(super) fn ponder(&self, ponders: bool) {
        self.inner.lock().unwrap().ponders = ponders;
        self.bell.0.send_modify(|count| *count += 1);
    }

    /// Waits until somebody asked for the files that it lacks.
    pub(super) async fn asked_for_files(&self) {
        self.until("was asked for files", |inner| inner.asked_for_files > 0)
            .await;
    }

    /// What it says that it has.
    pub(super) fn has_cpus(&self, cpus: f64) {
        let mut inner = self.inner.lock().unwrap();
        inner.about = v1::NodeDescription {
            cpus,
            memory_bytes: 16 << 30,
            disk_free_bytes: 1 << 40,
            boot_id: "b".to_owned(),
            ..v1::NodeDescription::default()
        };
    }

    /// How much of its disk is free, in bytes.
    pub(super) fn has_disk(&self, free: u64, total: u64) {
        let mut inner = self.inner.lock().unwrap();
        inner.about.disk_free_bytes = free;
        inner.about.disk_total_bytes = total;
    }

    /// Forgets a run, as a node that lost its disk would.
    pub(super) fn forget(&self, token: &[u8]) {
        let mut inner = self.inner.lock().unwrap();
        let held = inner.runs.remove(token).unwrap();
        inner.forgotten.insert(token.to_vec(), held);
    }

    /// Knows a run again that it forgot, or gets it late.
    pub(super) fn recall(&self, token: &[u8]) {
        let mut inner = self.inner.lock().unwrap();
        let held = inner.forgotten.remove(token).unwrap();
        inner.runs.insert(token.to_vec(), held);
    }

    /// Does not know that it may forget a run.
    pub(super) fn unclose(&self, token: &[u8]) {
        self.inner.lock().unwrap().closed.retain(|one| one != token);
    }

    /// Waits until it was told so often to end a run.
    pub(super) async fn cancelled_times(&self, token: &[u8], times: usize) {
        self.until("was told again to end it", |inner| {
            inner.cancelled.iter().filter(|one| *one == token).count() >= times
        })
        .await;
    }

    /// Appends a record to a run's journal and tells it.
    pub(super) fn record(&self, token: &[u8], kind: RecordKind, message: &impl prost::Message) {
        let mut inner = self.inner.lock().unwrap();
        let held = inner.runs.get_mut(token).unwrap();
        let mut out = vec![0; message.encoded_len() + 64];
        let (offset, chain) = (held.bytes.len(), held.encoder.chain);
        let length = held
            .encoder
            .record(&mut out, kind as i32, 1_700_000_000_000_000_000, 5, message)
            .unwrap();
        held.bytes.extend_from_slice(&out[..length]);
        let part = if offset == HEADER_BYTES {
            held.part(0, 0)
        } else {
            held.part(offset, chain)
        };
        inner.tell(Event::Part(part));
    }

    /// Says how far a run has come.
    pub(super) fn stage(&self, token: &[u8], stage: Stage) {
        let mut inner = self.inner.lock().unwrap();
        inner.runs.get_mut(token).unwrap().stage = stage;
        inner.tell(Event::State(state(token, stage)));
    }

    pub(super) fn begin(&self, token: &[u8]) {
        self.record(token, RecordKind::Claimed, &journal::Claimed::default());
        self.record(
            token,
            RecordKind::JobStarted,
            &journal::JobStarted::default(),
        );
        self.stage(token, Stage::Running);
    }

    pub(super) fn end(&self, token: &[u8], code: i32, log: &[u8]) {
        let exited = journal::JobExited {
            code,
            run_ms: 7,
            ..journal::JobExited::default()
        };
        let gone = journal::TreeGone {
            stdout_bytes: log.len() as u64,
            ..journal::TreeGone::default()
        };
        self.inner.lock().unwrap().runs.get_mut(token).unwrap().log = log.to_vec();
        self.record(token, RecordKind::JobExited, &exited);
        self.record(token, RecordKind::TreeGone, &gone);
        self.stage(token, Stage::Ended);
        self.stage(token, Stage::Settled);
    }
}

impl Held {
    fn new(spec: v1::RunSpec) -> Self {
        let mut head = [0; HEADER_BYTES];
        let segment = SegmentId::random();
        let token = spec.token.as_slice().try_into().unwrap();
        // A watcher's, so that it may hold metrics, too.
        let encoder = encode_header(
            &mut head,
            Writer::Watcher,
            segment,
            &token,
            1,
            &[1; 16],
            1_700_000_000_000_000_000,
            1,
        );
        Self {
            spec,
            bytes: head.to_vec(),
            encoder,
            segment,
            stage: Stage::Waiting,
            log: Vec::new(),
        }
    }

    fn part(&self, offset: usize, chain: u32) -> v1::SegmentPart {
        v1::SegmentPart {
            token: self.spec.token.clone(),
            incarnation: 1,
            segment: self.segment.0.to_vec(),
            offset: offset as u64,
            data: self.bytes[offset..].to_vec(),
            chain,
        }
    }
}

fn state(token: &[u8], stage: Stage) -> v1::RunState {
    v1::RunState {
        token: token.to_vec(),
        stage: stage.into(),
        ..v1::RunState::default()
    }
}

impl Inner {
    fn tell(&mut self, event: Event) {
        let event = v1::FollowEvent { event: Some(event) };
        self.followers
            .retain(|follower| follower.try_send(Ok(event.clone())).is_ok());
    }
}

impl Service {
    fn inner<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let done = change(&mut self.inner.lock().unwrap());
        self.bell.0.send_modify(|count| *count += 1);
        done
    }
}

type Streamed<T> = Pin<Box<dyn tokio_stream::Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Mum for Service {
    async fn greet(&self, request: Request<v1::Hello>) -> Result<Response<v1::Hello>, Status> {
        Ok(Response::new(request.into_inner()))
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
        if self.inner(|inner| inner.files.full) {
            return Err(Status::resource_exhausted("no room in /node"));
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
        let mut reply = v1::HandOverReply::default();
        let runs = request.into_inner().runs;
        let chokes = self.inner(|inner| {
            let chokes = |spec: &v1::RunSpec| inner.chokes == Some(spec.experiment);
            runs.iter().any(chokes)
        });
        if chokes {
            return Err(Status::internal("a task of the node panicked"));
        }
        let lost = self.inner(|inner| {
            inner.hand_overs += 1;
            for spec in runs {
                let token = spec.token.clone();
                if !inner.refuses.is_empty() {
                    reply.refused.push(v1::hand_over_reply::Refusal {
                        token,
                        why: inner.refuses.clone(),
                        hint: "put it there".to_owned(),
                        only_here: true,
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
        Ok(Response::new(reply))
    }

    async fn cancel(
        &self,
        request: Request<v1::CancelRequest>,
    ) -> Result<Response<v1::CancelReply>, Status> {
        use v1::cancel_reply::{One, Outcome};
        // A call that was on its way when the node went finds nobody, either.
        if self.inner(|inner| inner.away) {
            return Err(Status::unavailable("away"));
        }
        let refuses = self.inner(|inner| {
            inner.wishes_refused += usize::from(inner.no_wishes);
            inner.no_wishes
        });
        if refuses {
            return Err(Status::resource_exhausted("no room in /node"));
        }
        let runs = self.inner(|inner| {
            request
                .into_inner()
                .runs
                .into_iter()
                .map(|run| {
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
        Ok(Response::new(v1::CancelReply { runs }))
    }

    async fn set_rules(
        &self,
        request: Request<v1::SetRulesRequest>,
    ) -> Result<Response<v1::SetRulesReply>, Status> {
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
        let request = request.into_inner();
        let token = request.run.unwrap_or_default().token;
        let log = self.inner(|inner| inner.runs.get(&token).map(|held| held.log.clone()));
        let mut log = log.ok_or_else(|| Status::not_found("no such run"))?;
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

    async fn stop(&self, _: Request<v1::StopRequest>) -> Result<Response<v1::StopReply>, Status> {
        Ok(Response::new(v1::StopReply {}))
    }

    async fn examine(
        &self,
        _: tonic::Request<v1::ExamineRequest>,
    ) -> Result<tonic::Response<v1::ExamineReply>, tonic::Status> {
        let silent = self.inner(|inner| {
            inner.examined += 1;
            inner.examines_never
        });
        if silent {
            std::future::pending::<()>().await;
        }
        Err(Status::unimplemented("the fake has none"))
    }

    type ReadFilesStream = Streamed<v1::FilePart>;

    async fn read_files(
        &self,
        request: tonic::Request<v1::ReadFilesRequest>,
    ) -> Result<tonic::Response<Self::ReadFilesStream>, tonic::Status> {
        let wants = request.into_inner().files;
        let answer = self.inner(|inner| inner.files.read(&wants));
        Ok(Response::new(Box::pin(tokio_stream::iter(answer))))
    }

    async fn disk_usage(
        &self,
        _: tonic::Request<v1::DiskUsageRequest>,
    ) -> Result<tonic::Response<v1::DiskUsageReply>, tonic::Status> {
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
        let reply = self.inner(|inner| {
            let live = |held: &&Held| held.stage != Stage::Settled;
            let keep: Vec<Vec<u8>> = inner
                .runs
                .values()
                .filter(live)
                .map(|held| held.spec.token.clone())
                .collect();
            inner.files.clean(request.into_inner(), &keep)
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
