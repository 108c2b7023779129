//! The connection to neromum: bytes arrive as they are written, and nothing
//! depends on it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use nero_journal::Reader;
use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::{RecordKind, RulesApplied};
use nero_model::DeploymentId;
use nero_wire::hello;
use nero_wire::listen::OwnerOnly;
use nero_wire::v1::kids_server::{Kids, KidsServer};
use nero_wire::v1::watcher_message::Message;
use nero_wire::v1::{Hello, Role, RuleSet, RunSpec, WatcherCommand, WatcherHello, WatcherMessage};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::rig::{Rig, until};

/// Messages that neromum received.
#[derive(Default)]
struct Heard {
    hello: Option<WatcherHello>,
    /// Offset, chain, data.
    appended: Vec<(u64, u32, Vec<u8>)>,
    commands: Option<tokio::sync::mpsc::Sender<Result<WatcherCommand, Status>>>,
    connections: usize,
}

/// A neromum that only listens, on a thread of its own.
struct FakeMum {
    folder: tempfile::TempDir,
    heard: Arc<Mutex<Heard>>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl FakeMum {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            heard: Arc::default(),
            stop: None,
            thread: None,
        }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("mum.sock")
    }

    fn start(&mut self, deployment: DeploymentId) {
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let service = Service {
            heard: Arc::clone(&self.heard),
            deployment,
        };
        let socket = self.socket();
        self.stop = Some(stop);
        self.thread = Some(std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(serve(&socket, service, stopped));
        }));
    }

    fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    fn heard(&self) -> std::sync::MutexGuard<'_, Heard> {
        self.heard.lock().unwrap()
    }
}

impl Drop for FakeMum {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn serve(socket: &Path, service: Service, stopped: tokio::sync::oneshot::Receiver<()>) {
    let greeter = greeter::Greeter(service.deployment);
    let server = tonic::transport::Server::builder()
        .add_service(KidsServer::new(service))
        .add_service(greeter)
        .serve_with_incoming(OwnerOnly::bind(socket).unwrap());
    tokio::select! {
        served = server => served.unwrap(),
        _ = stopped => {}
    }
}

struct Service {
    heard: Arc<Mutex<Heard>>,
    deployment: DeploymentId,
}

#[tonic::async_trait]
impl Kids for Service {
    type AttachStream = ReceiverStream<Result<WatcherCommand, Status>>;

    async fn attach(
        &self,
        request: Request<Streaming<WatcherMessage>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let mut messages = request.into_inner();
        let (commands, to_kid) = tokio::sync::mpsc::channel(4);
        let heard = Arc::clone(&self.heard);
        heard.lock().unwrap().commands = Some(commands);
        heard.lock().unwrap().connections += 1;
        tokio::spawn(async move {
            while let Ok(Some(message)) = messages.message().await {
                let mut heard = heard.lock().unwrap();
                match message.message {
                    Some(Message::Hello(hello)) => heard.hello = Some(hello),
                    Some(Message::Appended(one)) => {
                        heard.appended.push((one.offset, one.chain, one.data));
                    }
                    Some(Message::Output(_)) | None => {}
                }
            }
            heard.lock().unwrap().commands = None;
        });
        Ok(Response::new(ReceiverStream::new(to_kid)))
    }
}

/// `Mum.Greet` alone: the other calls are none of a watcher's.
mod greeter {
    use super::*;
    use std::convert::Infallible;
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use tonic::codegen::{Service, http};

    #[derive(Clone)]
    pub struct Greeter(pub DeploymentId);

    impl tonic::server::NamedService for Greeter {
        const NAME: &'static str = "nero.v1.Mum";
    }

    impl Service<http::Request<tonic::body::Body>> for Greeter {
        type Response = http::Response<tonic::body::Body>;
        type Error = Infallible;
        type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
            let deployment = self.0;
            Box::pin(async move {
                let codec = tonic_prost::ProstCodec::<Hello, Hello>::default();
                let mut grpc = tonic::server::Grpc::new(codec);
                Ok(grpc.unary(Greet(deployment), request).await)
            })
        }
    }

    struct Greet(DeploymentId);

    impl tonic::server::UnaryService<Hello> for Greet {
        type Response = Hello;
        type Future = Pin<Box<dyn Future<Output = Result<Response<Hello>, Status>> + Send>>;

        fn call(&mut self, request: Request<Hello>) -> Self::Future {
            let deployment = self.0;
            Box::pin(async move {
                let theirs = hello::check(request.get_ref(), Role::Nerokid, Some(deployment));
                theirs.map_err(|error| Status::failed_precondition(error.to_string()))?;
                Ok(Response::new(hello::own(
                    Role::Neromum,
                    "",
                    Some(deployment),
                )))
            })
        }
    }
}

fn deployment(rig: &Rig) -> DeploymentId {
    DeploymentId::from_slice(&rig.spec.deployment).unwrap()
}

#[test]
fn appended_bytes_arrive_as_they_lie_on_disk() {
    let mut rig = Rig::new(RunSpec::default());
    let mut mum = FakeMum::new();
    mum.start(deployment(&rig));
    let mut watcher = rig.watcher(Some(&mum.socket()));
    until("a hello", || {
        let known = mum.heard().hello.is_some();
        known.then_some(()).ok_or_else(|| "none".to_owned())
    });
    for number in 0..100 {
        rig.print(&format!("loss={number}\n"));
    }
    rig.points_are(100);
    rig.end();
    assert!(watcher.ended().success());

    let heard = mum.heard();
    let hello = heard.hello.as_ref().unwrap();
    assert_eq!(
        (hello.token == rig.spec.token, hello.incarnation),
        (true, 1)
    );
    assert_eq!(hello.hello.as_ref().unwrap().role(), Role::Nerokid);
    let path = nerokid::folder::segments::list(&rig.inc(), "watch-")
        .unwrap()
        .remove(0);
    let file = std::fs::read(path).unwrap();
    assert_eq!(hello.segment, file[16..24]);
    let mut next = None;
    for (offset, chain, data) in &heard.appended {
        assert!(next.is_none_or(|next| next == *offset), "no gap");
        let from = *offset as usize;
        assert_eq!(file[from..from + data.len()], data[..]);
        let mut reader = Reader::new(data, *offset, *chain);
        assert!(
            reader.by_ref().count() > 0,
            "the chain value is the one before"
        );
        assert_eq!(reader.offset(), offset + data.len() as u64);
        next = Some(reader.offset());
    }
    assert_eq!(
        next,
        Some(file.len() as u64),
        "the last byte was taken, too"
    );
}

#[test]
fn a_neromum_that_comes_late_or_goes_is_found_again() {
    let mut rig = Rig::new(RunSpec::default());
    let mut mum = FakeMum::new();
    let mut watcher = rig.watcher(Some(&mum.socket()));
    rig.print("loss=1\n");
    rig.points_are(1);
    for connections in 1..=2 {
        mum.start(deployment(&rig));
        until("a connection", || {
            let count = mum.heard().connections;
            if count >= connections {
                Ok(())
            } else {
                Err(count.to_string())
            }
        });
        mum.stop();
    }
    rig.print("loss=2\n");
    rig.points_are(2);
    rig.end();
    assert!(watcher.ended().success());
}

#[test]
fn a_neromum_of_another_deployment_gets_nothing() {
    let mut rig = Rig::new(RunSpec::default());
    let mut mum = FakeMum::new();
    mum.start(DeploymentId::random());
    let mut watcher = rig.watcher(Some(&mum.socket()));
    rig.print("loss=1\n");
    rig.points_are(1);
    rig.end();
    assert!(watcher.ended().success());
    assert_eq!(mum.heard().connections, 0);
}

#[test]
fn a_command_makes_the_watcher_look_for_rules() {
    let mut rig = Rig::new(RunSpec::default());
    let mut mum = FakeMum::new();
    mum.start(deployment(&rig));
    // Without the folder the kernel has nothing to report.
    std::fs::remove_dir(rig.control("")).unwrap();
    let _watcher = rig.watcher(Some(&mum.socket()));
    let commands = until("a connection", || {
        let commands = mum.heard().commands.clone();
        commands.ok_or_else(|| "none".to_owned())
    });
    std::fs::create_dir(rig.control("")).unwrap();
    let set = RuleSet {
        version: 5,
        rules: Vec::new(),
        cohort: Vec::new(),
    };
    frame::create(FrameKind::Rules, &rig.control("rules.5"), &set).unwrap();
    let command = WatcherCommand { rules_version: 5 };
    commands.blocking_send(Ok(command)).unwrap();
    rig.wait_for::<RulesApplied>(RecordKind::RulesApplied, |one| one.version == 5);
    rig.end();
}
