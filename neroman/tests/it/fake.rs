//! A daemon that gives prepared answers and records its requests.

mod service;

use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use nero_model::Home;
use nero_model::paths::make_private;
use nero_wire::listen::OwnerOnly;
use nero_wire::v1::man_server::ManServer;
use nero_wire::v1::*;
use tokio::sync::oneshot;
use tokio_stream::StreamExt as _;
use tonic::Status;
use tonic::transport::Server;

use service::Service;

/// The prepared answers. A stream is sent message by message.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    pub hello: Option<Hello>,
    /// Every call but `Greet` fails with this.
    pub fails: Option<Status>,
    /// Selections that pick no experiment.
    pub no_such: Vec<String>,
    /// `start` and `abort` are accepted and never answered.
    pub silent: bool,
    /// Streams go on without end after their last message; `du` has no end.
    pub hangs: bool,
    /// The first stream of a log or of a fetch is cut after its first message.
    pub cuts: bool,
    /// So many calls lose the connection instead of being answered.
    pub loses: u32,
    pub add: AddReply,
    pub list: ListReply,
    pub show: ShowReply,
    pub start: StartReply,
    pub abort: AbortReply,
    pub hides: RemoveReply,
    pub annotated: AnnotateReply,
    pub edited: EditReply,
    pub wait: Vec<WaitEvent>,
    pub watch: Vec<WatchEvent>,
    pub logs: Vec<LogChunk>,
    /// What ends a log in the place of its last chunk.
    pub log_fails: Option<Status>,
    pub metrics: MetricsReply,
    pub plots: PlotsReply,
    pub paths: PathsReply,
    pub code: Vec<CodePart>,
    pub rules: RuleListReply,
    pub backtest: RuleBacktestReply,
    pub changed: RuleChangeReply,
    pub mail: MailListReply,
    pub nodes: NodesReply,
    pub node_events: Vec<NodeEvent>,
    pub image: NodeImageReply,
    pub removed: NodeRemoveReply,
    pub login: NodeLoginReply,
    pub gone: NodeGoneReply,
    pub fetch: Vec<FetchEvent>,
    pub clean: CleanAskReply,
    pub du: DuReply,
    pub place: LocateReply,
    pub why: RuleWhyReply,
    pub status: DaemonStatusReply,
    pub complete: CompleteReply,
}

/// The daemon with its home; it ends with the test.
pub struct Fake {
    folder: tempfile::TempDir,
    seen: Arc<Mutex<Seen>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    requests: Vec<String>,
    ids: Vec<Vec<u8>>,
    connections: Vec<OwnedFd>,
    lost: u32,
}

impl Seen {
    fn hang_up(&mut self) {
        for connection in std::mem::take(&mut self.connections) {
            // The connection may be closed already.
            let _ = rustix::net::shutdown(connection, rustix::net::Shutdown::Both);
        }
    }
}

/// What `clean` finds: runs 1 to 3 of a megabyte each on one node. A run is skipped for
/// the reason given, or deleted where that is empty. `store_bytes` of the node are used
/// by nothing else.
pub fn clean_reply(store_bytes: u64, skipped: [&str; 3]) -> CleanAskReply {
    let one = |(experiment, skipped): (u64, &str)| clean_ask_reply::One {
        experiment,
        run: 1,
        node: "alpha".into(),
        bytes: 1 << 20,
        skipped: skipped.into(),
        ..clean_ask_reply::One::default()
    };
    CleanAskReply {
        runs: (1..).zip(skipped).map(one).collect(),
        nodes: vec![clean_ask_reply::OnNode {
            node: "alpha".into(),
            freed_bytes: 2 << 20,
            store_bytes,
            ..clean_ask_reply::OnNode::default()
        }],
    }
}

/// The result of running the program.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Fake {
    pub fn new(answers: Answers) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("nc")
            .tempdir()
            .expect("a folder");
        let home = Home::below(&folder.path().join("home"));
        for part in [&home.data, &home.state, &home.sockets] {
            make_private(part).expect("a folder");
        }
        let seen = Arc::new(Mutex::new(Seen::default()));
        let service = Service {
            answers,
            seen: Arc::clone(&seen),
        };
        let (stop, stopped) = oneshot::channel();
        let (ready, listens) = std::sync::mpsc::channel();
        let connections = Arc::clone(&seen);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let socket = OwnerOnly::bind(&home.socket()).expect("a socket");
                ready.send(()).expect("the test waits");
                let incoming = socket.map(move |connection| {
                    let connection = connection?;
                    let twin = connection.as_fd().try_clone_to_owned()?;
                    connections.lock().expect("a lock").connections.push(twin);
                    Ok::<_, std::io::Error>(connection)
                });
                let served = Server::builder()
                    .add_service(ManServer::new(service))
                    .serve_with_incoming(incoming);
                tokio::select! {
                    served = served => served.expect("it serves"),
                    _ = stopped => {}
                }
            });
        });
        listens.recv().expect("it listens");
        Self {
            folder,
            seen,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// The program, ready to be run in this home.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_neroman"));
        command
            .args(words)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.folder.path())
            .env("NERONET_HOME", self.folder.path().join("home"))
            .env("TZ", "Pacific/Chatham")
            .env("TERM", "xterm")
            .env("USER", "ada")
            .env("CONDA_TOKEN", "hush")
            .env("CONDA_PREFIX", "/conda")
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs the program.
    pub fn run(&self, words: &[&str]) -> Ran {
        Ran::of(self.command(words).output().expect("the program is built"))
    }

    /// Standard output of a run that must exit 0.
    #[track_caller]
    pub fn ok(&self, words: &[&str]) -> String {
        let ran = self.run(words);
        assert_eq!(ran.code, Some(0), "{words:?}: {ran:#?}");
        ran.out
    }

    /// The requests in words, without request ids.
    pub fn requests(&self) -> Vec<String> {
        self.seen.lock().expect("a lock").requests.clone()
    }

    /// The request ids that came.
    pub fn request_ids(&self) -> Vec<Vec<u8>> {
        self.seen.lock().expect("a lock").ids.clone()
    }

    /// The folder in which the program runs.
    pub fn path(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Text of a file that the program wrote.
    pub fn file(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).expect(name)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        // The daemon may have ended by itself.
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Ran {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }
}
