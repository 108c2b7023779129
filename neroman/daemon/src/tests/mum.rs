//! A node that accepts everything and lets the test decide what happens.

mod control;
mod service;

use std::collections::BTreeMap;
use std::sync::Mutex;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use nero_journal::v1::RecordKind;
use nero_journal::{Encoder, HEADER_BYTES, SegmentId, Writer, encode_header};
use nero_wire::hello::RECALL;
use nero_wire::v1;
use nero_wire::v1::follow_event::Event;
use nero_wire::v1::mum_server::MumServer;
use nero_wire::v1::run_state::Stage;
use tokio::sync::{mpsc, watch};
use tonic::Status;
use tonic::transport::Server;

use super::files::Files;
use nero_home::failure::Failure;
use nero_link::connect::{Connect, ConnectFailure, Link, OnProgress};

/// What is known of a run, and everything said of it so far.
#[derive(Clone)]
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
    /// Runs whose spec alone was sent again.
    sent_again: Vec<Vec<u8>>,
    cancelled: Vec<Vec<u8>>,
    /// Runs that were recalled from it.
    recalled: Vec<Vec<u8>>,
    rules: Vec<v1::RuleSet>,
    closed: Vec<Vec<u8>>,
    positions: Vec<v1::RunPosition>,
    files: Files,
    away: bool,
    /// The next tries to connect panic: a mistake of ours that no real node brings about.
    panics: usize,
    /// No try to connect comes to an end.
    stalls: bool,
    /// The bytes that it reports as freed by cleaning.
    freed_bytes: u64,
    /// The next tries need a person.
    locked: bool,
    /// Number of tries to connect.
    tries: usize,
    /// How often its connections were ended.
    hung_up: usize,
    /// Runs that it does not know are being taken up.
    placing: bool,
    /// There is no room for rules.
    no_rules: bool,
    /// How often it refused rules.
    rules_refused: usize,
    /// There is no room for cancel requests.
    no_cancels: bool,
    /// How often it refused cancel requests.
    cancels_refused: usize,
    /// Runs are taken and the answer is lost with the connection.
    swallows: bool,
    /// Runs are taken, and the answer waits.
    answers_late: bool,
    /// Why it alone takes no runs; empty: it does.
    refuses: String,
    /// Why it takes no runs for now; empty: it does.
    puts_off: String,
    /// It puts off what an earlier request of ours had taken in.
    has_it: bool,
    /// It is of a build that knows no recall.
    is_old: bool,
    /// It takes no runs together with those of this experiment.
    chokes: Option<u64>,
    /// It never reports what a close look finds.
    examines_never: bool,
    /// How often it was asked for that.
    examined: usize,
    /// It never reports which files it lacks.
    ponders: bool,
    /// How often it was asked for them.
    asked_for_files: usize,
    /// The call that it never answers.
    silent: Option<&'static str>,
    /// How many such calls wait for an answer.
    unanswered: usize,
    /// How many of them their caller has given up.
    given_up: usize,
    /// Its answers to probes; it never answers others.
    answers: BTreeMap<String, v1::ProbeReply>,
    /// The probes that it was asked.
    probed: Vec<String>,
    /// Letters that it sent while neroman was away.
    claims: Vec<v1::RelayClaim>,
    /// The orders of letters that it got.
    orders: Vec<v1::RelayOrder>,
    about: v1::NodeDescription,
    /// Its answers to requests for an image; it goes on with the last one.
    images: std::collections::VecDeque<v1::BringImageReply>,
    /// The images that it was asked for.
    brought: Vec<v1::Container>,
    /// What a close look finds; empty: it cannot look.
    findings: Vec<v1::Finding>,
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
    fn connect<'a>(&'a self, _: OnProgress<'a>) -> BoxFuture<'a, Result<Link, ConnectFailure>> {
        async move {
            self.until("stopped stalling", |inner| !inner.stalls).await;
            {
                let mut inner = self.inner.lock().unwrap();
                inner.tries += 1;
                if inner.panics > 0 {
                    inner.panics -= 1;
                    drop(inner);
                    panic!("a driver met what it did not expect");
                }
                self.bell.0.send_modify(|count| *count += 1);
                if inner.locked {
                    return Err(ConnectFailure {
                        failure: Failure::node("a password has to be typed").hint("connect it"),
                        needs_person: true,
                    });
                }
                if inner.away {
                    return Err(Failure::node("away").into());
                }
            }
            let mut hello = v1::Hello::default();
            if !self.inner.lock().unwrap().is_old {
                hello.capabilities.push(RECALL.to_owned());
            }
            let (near, far) = tokio::io::duplex(1 << 20);
            let service = Service {
                inner: self.inner.clone(),
                bell: self.bell.clone(),
            };
            tokio::spawn(
                Server::builder()
                    // As in neromum: a stalled stream leaves room for the others.
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
                hello,
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

impl Held {
    fn new(spec: v1::RunSpec) -> Self {
        // A watcher's, so that it may hold metrics, too.
        Self::of(spec, Writer::Watcher)
    }

    fn of(spec: v1::RunSpec, writer: Writer) -> Self {
        let mut head = [0; HEADER_BYTES];
        let segment = SegmentId::random();
        let token = spec.token.as_slice().try_into().unwrap();
        let encoder = encode_header(
            &mut head,
            writer,
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

    /// Appends a record; where it begins, and the chain value there.
    fn append(&mut self, kind: RecordKind, message: &impl prost::Message) -> (usize, u32) {
        self.append_at(kind, message, 5)
    }

    fn append_at(
        &mut self,
        kind: RecordKind,
        message: &impl prost::Message,
        mono_ns: u64,
    ) -> (usize, u32) {
        let mut out = vec![0; message.encoded_len() + 64];
        let place = (self.bytes.len(), self.encoder.chain);
        let wall_ns = 1_700_000_000_000_000_000;
        let length = self
            .encoder
            .record(&mut out, kind as i32, wall_ns, mono_ns, message)
            .unwrap();
        self.bytes.extend_from_slice(&out[..length]);
        place
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
        made_nothing: true,
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

/// A call without an answer. Dropped when its caller gives it up.
struct Unanswered<'a>(&'a Service);

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.0.inner(|inner| {
            inner.unanswered -= 1;
            inner.given_up += 1;
        });
    }
}

impl Service {
    /// Waits while the node is silent about such calls.
    async fn speaks(&self, call: &'static str) {
        let mut bell = self.bell.0.subscribe();
        let is_silent = || self.inner.lock().unwrap().silent == Some(call);
        if is_silent() {
            self.inner(|inner| inner.unanswered += 1);
            let waiting = Unanswered(self);
            while is_silent() {
                bell.changed().await.unwrap();
            }
            self.inner(|inner| inner.unanswered -= 1);
            std::mem::forget(waiting);
        }
    }

    fn inner<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let done = change(&mut self.inner.lock().unwrap());
        self.bell.0.send_modify(|count| *count += 1);
        done
    }
}
