//! Starts real programs, speaks to neromum as neroman does, kills, waits for a
//! state with a deadline, and cleans up every process and socket.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use nero_journal::v1::{Claimed, JobStarted, RecordKind};
use nero_journal::{HEADER_BYTES, Header, Reader};
use nero_model::paths::NodePaths;
use nero_model::{DeploymentId, ExperimentId, RunId, RunToken};
use nero_wire::hello;
use nero_wire::v1::follow_event::Event;
use nero_wire::v1::mum_client::MumClient;
use nero_wire::v1::run_state::Stage;
use nero_wire::v1::{
    CancelReply, CancelRequest, FollowEvent, FollowRequest, HandOverReply, HandOverRequest,
    Resources, Role, RunPosition, RunRef, RunSpec, RunState, SegmentPosition,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

/// How long a condition may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A node in a folder that is removed with it.
pub struct Node {
    _folder: tempfile::TempDir,
    pub root: PathBuf,
    pub deployment: DeploymentId,
    pub paths: NodePaths,
    pub options: Vec<String>,
    /// What neroman can do, as it greets.
    pub capability: Option<&'static str>,
    mum: Option<Child>,
}

/// neromum itself: of this build, or of `NERO_PROGRAMS` for measurements.
pub fn mum() -> PathBuf {
    match std::env::var_os("NERO_PROGRAMS") {
        Some(folder) => PathBuf::from(folder).join("neromum"),
        None => PathBuf::from(env!("CARGO_BIN_EXE_neromum")),
    }
}

/// The programs beside neromum, built once for all tests.
pub fn programs() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let mum = mum();
        let folder = mum.parent().unwrap().to_path_buf();
        let names = ["nerokid", "nerokid-shim"];
        let mut programs = names.iter().map(|name| folder.join(name));
        let given = std::env::var_os("NERO_PROGRAMS").is_some();
        if !given && programs.any(|program| is_old(&program)) {
            let built = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
                .args(["build", "-p", "nerokid", "-p", "nerokid-shim"])
                .current_dir(env!("CARGO_MANIFEST_DIR"))
                .status()
                .expect("cargo builds the programs beside neromum");
            assert!(built.success(), "nerokid and nerokid-shim are built");
        }
        folder
    })
}

/// Whether a program is missing, or older than one of its sources: cargo lists
/// these beside it.
fn is_old(program: &Path) -> bool {
    let modified = |path: &Path| path.metadata()?.modified();
    let sources = std::fs::read_to_string(program.with_extension("d"));
    let (Ok(built), Ok(sources)) = (modified(program), sources) else {
        return true;
    };
    let (_, sources) = sources.split_once(": ").unwrap_or_default();
    let mut sources = sources.split_whitespace().map(Path::new);
    sources.any(|source| modified(source).is_ok_and(|changed| changed > built))
}

impl Node {
    /// A node with two CPUs for runs.
    pub fn new() -> Self {
        Self::with(&["--cpus", "2"])
    }

    /// A node with options of its own.
    pub fn with(options: &[&str]) -> Self {
        programs();
        let folder = tempfile::Builder::new().prefix("mum").tempdir().unwrap();
        let root = folder.path().join("root");
        let deployment = DeploymentId::random();
        let paths = NodePaths::new(&root, &deployment, "n");
        Self {
            _folder: folder,
            root,
            deployment,
            paths,
            options: options.iter().map(|&option| option.to_owned()).collect(),
            capability: Some(hello::GENERATIONS),
            mum: None,
        }
    }

    /// The command that serves this node.
    pub fn command(&self) -> Command {
        let mut command = Command::new(mum());
        command
            .arg("serve")
            .arg("--root")
            .arg(&self.root)
            .args(["--deployment", &self.deployment.to_string()])
            .args(["--node", "n"])
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    /// Starts neromum and connects.
    pub async fn start(&mut self) -> Mum {
        let command = self.command();
        self.start_as(command).await
    }

    /// Starts neromum with this environment alone.
    pub async fn start_with_env(&mut self, env: &[(&str, &str)]) -> Mum {
        let mut command = self.command();
        command.env_clear().envs(env.iter().copied());
        self.start_as(command).await
    }

    /// Starts neromum by a command of the test's own.
    pub async fn start_as(&mut self, mut command: Command) -> Mum {
        self.mum = Some(command.stdin(Stdio::null()).spawn().unwrap());
        self.connect().await
    }

    pub fn socket(&self) -> PathBuf {
        self.paths.sockets().join("mum.sock")
    }

    /// Connects as neroman.
    pub async fn connect(&mut self) -> Mum {
        let deadline = Instant::now() + PATIENCE;
        let socket = self.socket();
        loop {
            match nero_wire::dial(&socket).await {
                Ok(channel) => {
                    let mut client = MumClient::new(channel);
                    let mut own = hello::own(Role::Neroman, "test", Some(self.deployment));
                    own.capabilities.extend(self.capability.map(str::to_owned));
                    if client.greet(own).await.is_ok() {
                        return Mum { client };
                    }
                }
                Err(error) => {
                    let ended = self.mum.as_mut().and_then(|mum| mum.try_wait().unwrap());
                    assert!(ended.is_none(), "neromum ended: {ended:?}");
                    assert!(Instant::now() < deadline, "nobody answers: {error}");
                }
            }
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }

    /// Kills neromum and nothing else.
    pub fn kill_mum(&mut self) {
        if let Some(mut mum) = self.mum.take() {
            mum.kill().unwrap();
            mum.wait().unwrap();
        }
    }

    /// Waits until neromum has ended; returns its exit code.
    pub async fn ended(&mut self) -> Option<i32> {
        let mut mum = self.mum.take().unwrap();
        wait_for("neromum's end", || mum.try_wait().unwrap())
            .await
            .code()
    }

    pub fn mum_pid(&self) -> i32 {
        self.mum.as_ref().unwrap().id() as i32
    }

    /// A run with a command; the token is random.
    pub fn run(&self, experiment: u64, argv: &[&str]) -> RunSpec {
        RunSpec {
            token: RunToken::random().to_vec(),
            experiment,
            number: 1,
            deployment: self.deployment.to_vec(),
            name: format!("experiment {experiment}"),
            collection: "tests".to_owned(),
            argv: argv.iter().map(|&text| text.to_owned()).collect(),
            resources: Some(Resources {
                cpus: 1.0,
                ..Resources::default()
            }),
            attempt: 1,
            node: "n".to_owned(),
            ..RunSpec::default()
        }
    }

    /// A shell line as a run.
    pub fn sh(&self, experiment: u64, line: &str) -> RunSpec {
        self.run(experiment, &["sh", "-c", line])
    }

    pub fn run_dir(&self, spec: &RunSpec) -> PathBuf {
        self.paths.run(RunId {
            experiment: ExperimentId(spec.experiment),
            number: spec.number,
        })
    }

    /// The processes that the claim of a run's first incarnation names: shim and job.
    pub fn claim(&self, spec: &RunSpec) -> (i32, i32) {
        let bytes = std::fs::read(self.run_dir(spec).join("1/claim")).expect("a claim");
        let (_, records) = nero_journal::scan(&bytes).expect("a claim begins with its header");
        let (mut shim, mut job) = (0, 0);
        for record in records {
            if record.is(RecordKind::Claimed) {
                let claimed: Claimed = record.decode().expect("a sound record");
                shim = claimed.shim.expect("a shim").pid;
            } else if record.is(RecordKind::JobStarted) {
                let started: JobStarted = record.decode().expect("a sound record");
                job = started.job.expect("a job").pid;
            }
        }
        (shim, job)
    }

    /// Processes with this node's root in their environment or command line.
    pub fn processes(&self) -> Vec<(i32, String)> {
        let needle = self.root.as_os_str().as_encoded_bytes();
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            let of = |file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
            let line = of("cmdline");
            let names_us = [&line, &of("environ")]
                .iter()
                .any(|text| text.windows(needle.len()).any(|window| window == needle));
            if names_us && pid != std::process::id() as i32 {
                found.push((pid, String::from_utf8_lossy(&line).replace('\0', " ")));
            }
        }
        found
    }

    /// The launcher of this node, which its shims' command lines share: the
    /// oldest of these processes.
    pub async fn launcher(&self) -> i32 {
        wait_for("the launcher", || {
            let mut all: Vec<i32> = self
                .processes()
                .into_iter()
                .filter(|(_, line)| line.contains("nerokid-shim launcher"))
                .map(|(pid, _)| pid)
                .collect();
            all.sort_by_key(|pid| {
                nero_model::process::Stat::read(*pid).map_or(0, |stat| stat.start_ticks)
            });
            let launchers: Vec<i32> = all
                .iter()
                .copied()
                .filter(|pid| {
                    nero_model::process::Stat::read(*pid)
                        .is_ok_and(|stat| !all.contains(&stat.ppid) && stat.state != b'Z')
                })
                .collect();
            launchers.first().copied()
        })
        .await
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill_mum();
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        loop {
            let left = self.processes();
            if left.is_empty() {
                break;
            }
            for (pid, _) in &left {
                kill(*pid, rustix::process::Signal::KILL);
            }
            if std::time::Instant::now() > deadline {
                eprintln!("these processes would not go: {left:?}");
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        if !self.paths.sockets().starts_with(&self.root) {
            let _ = std::fs::remove_dir_all(self.paths.sockets());
        }
    }
}

pub fn kill(pid: i32, signal: rustix::process::Signal) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Asks repeatedly until there is an answer, at most for `PATIENCE`.
pub async fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Removes a folder in which programs still make files, as a person does who types `rm` twice.
pub async fn removed(folder: &std::path::Path) {
    wait_for("the folder to be empty", || {
        std::fs::remove_dir_all(folder).ok()
    })
    .await;
}

/// A connection to neromum.
#[derive(Clone)]
pub struct Mum {
    pub client: MumClient<Channel>,
}

impl Mum {
    pub async fn hand_over(&mut self, runs: Vec<RunSpec>) -> HandOverReply {
        let request = HandOverRequest {
            request: vec![7; 16],
            runs,
            ..HandOverRequest::default()
        };
        self.client.hand_over(request).await.unwrap().into_inner()
    }

    /// Sends the spec of a run again that the node asked for.
    pub async fn send_again(&mut self, run: &RunSpec) -> HandOverReply {
        let request = HandOverRequest {
            request: vec![7; 16],
            runs: vec![run.clone()],
            sent_again: vec![run.token.clone()],
        };
        self.client.hand_over(request).await.unwrap().into_inner()
    }

    /// Hands runs over; all of them must be accepted.
    pub async fn accept(&mut self, runs: &[&RunSpec]) {
        let reply = self
            .hand_over(runs.iter().map(|&run| run.clone()).collect())
            .await;
        assert_eq!(reply.refused, [], "all runs are accepted");
        assert_eq!(reply.accepted.len(), runs.len());
    }

    pub async fn cancel(&mut self, runs: &[&RunSpec]) -> CancelReply {
        let request = CancelRequest {
            request: RunToken::random().to_vec(),
            runs: runs.iter().map(|run| reference(run)).collect(),
            grace_ms: 2000,
            signal: 0,
            author: "test".to_owned(),
            ..CancelRequest::default()
        };
        self.client.cancel(request).await.unwrap().into_inner()
    }

    /// Begins to follow from the known positions.
    pub async fn follow(&mut self, known: Known) -> Follower {
        let (requests, queue) = mpsc::channel(16);
        let positions = known
            .runs
            .iter()
            .map(|(token, run)| RunPosition {
                run: Some(RunRef {
                    token: token.clone(),
                    experiment: run.experiment,
                    number: 1,
                }),
                generation: 0,
                segments: run
                    .segments
                    .iter()
                    .map(|((incarnation, id), bytes)| SegmentPosition {
                        incarnation: *incarnation,
                        segment: id.clone(),
                        offset: bytes.len() as u64,
                        chain: last_four(bytes),
                    })
                    .collect(),
            })
            .collect();
        let first = FollowRequest {
            positions,
            closed: Vec::new(),
        };
        requests.send(first).await.unwrap();
        let events = self
            .client
            .follow(ReceiverStream::new(queue))
            .await
            .unwrap()
            .into_inner();
        Follower {
            events,
            requests,
            known,
            parts: 0,
        }
    }
}

pub fn reference(spec: &RunSpec) -> RunRef {
    RunRef {
        token: spec.token.clone(),
        experiment: spec.experiment,
        number: spec.number,
    }
}

fn last_four(bytes: &[u8]) -> u32 {
    bytes
        .last_chunk::<4>()
        .map_or(0, |chain| u32::from_le_bytes(*chain))
}

/// The bytes that a follower has received: every byte of every segment, exactly
/// once.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub runs: HashMap<Vec<u8>, KnownRun>,
}

#[derive(Clone, Debug, Default)]
pub struct KnownRun {
    pub experiment: u64,
    pub segments: HashMap<(u32, Vec<u8>), Vec<u8>>,
    pub stages: Vec<Stage>,
    /// The hand-over that each report concerns.
    pub generations: Vec<u32>,
    pub why: String,
    pub unreadable: Vec<nero_wire::v1::Unreadable>,
    pub unsupervised: bool,
    pub made_checkpoint: Option<bool>,
    /// Segments that were sent anew from their beginning.
    pub anew: u32,
}

impl KnownRun {
    /// Kinds of all records, by segment.
    pub fn kinds(&self) -> Vec<RecordKind> {
        let mut kinds = Vec::new();
        let mut segments: Vec<_> = self.segments.iter().collect();
        segments.sort_by_key(|((incarnation, _), bytes)| {
            (
                *incarnation,
                Header::parse(bytes)
                    .map(|header| header.mono_ns)
                    .unwrap_or(0),
            )
        });
        for (_, bytes) in segments {
            let header = Header::parse(bytes).expect("a segment begins with its header");
            let mut reader = Reader::new(&bytes[HEADER_BYTES..], HEADER_BYTES as u64, header.chain);
            for record in reader.by_ref() {
                kinds.push(RecordKind::try_from(i32::from(record.kind)).unwrap_or_default());
            }
            assert_eq!(
                reader.offset(),
                bytes.len() as u64,
                "only whole good records are sent"
            );
        }
        kinds
    }

    pub fn count(&self, kind: RecordKind) -> usize {
        self.kinds().iter().filter(|one| **one == kind).count()
    }

    /// The payload of the first record of a kind.
    pub fn record<M: prost::Message + Default>(&self, kind: RecordKind) -> Option<M> {
        self.segments.values().find_map(|bytes| {
            let header = Header::parse(bytes).ok()?;
            Reader::new(&bytes[HEADER_BYTES..], HEADER_BYTES as u64, header.chain)
                .find(|record| record.is(kind))
                .map(|record| record.decode().unwrap())
        })
    }

    pub fn stage(&self) -> Stage {
        self.stages.last().copied().unwrap_or_default()
    }
}

/// One `Follow` stream with its events so far.
pub struct Follower {
    events: Streaming<FollowEvent>,
    requests: mpsc::Sender<FollowRequest>,
    pub known: Known,
    parts: usize,
}

impl Follower {
    /// Takes one event; checks that parts continue the known bytes.
    async fn next(&mut self, deadline: Instant) -> Option<Event> {
        let event = match timeout_at(deadline, self.events.message()).await {
            Err(_) => panic!("nothing came in time; known: {:?}", self.shown()),
            Ok(Err(_) | Ok(None)) => return None,
            Ok(Ok(Some(event))) => event.event?,
        };
        match &event {
            Event::Part(part) => {
                self.parts += 1;
                let run = self.known.runs.entry(part.token.clone()).or_default();
                let key = (part.incarnation, part.segment.clone());
                let bytes = run.segments.entry(key).or_default();
                if part.offset == 0 && !bytes.is_empty() {
                    bytes.clear();
                    run.anew += 1;
                }
                assert_eq!(part.offset, bytes.len() as u64, "parts continue each other");
                assert_eq!(part.chain, last_four(bytes), "and so do chain values");
                bytes.extend_from_slice(&part.data);
                assert!(part.data.len() <= 256 * 1024 || part.data.len() < 1024 * 1024 + 64);
            }
            Event::State(state) => self.known.take_state(state),
            Event::CaughtUp(_) => {}
        }
        Some(event)
    }

    pub fn of(&self, spec: &RunSpec) -> KnownRun {
        self.known
            .runs
            .get(&spec.token)
            .cloned()
            .unwrap_or_default()
    }

    fn shown(&self) -> Vec<String> {
        self.known
            .runs
            .values()
            .map(|run| format!("{:?} {:?} {:?}", run.stages, run.why, run.kinds()))
            .collect()
    }

    /// Takes events until the condition holds.
    pub async fn until(&mut self, holds: impl Fn(&Known) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(&self.known) {
            let event = self.next(deadline).await;
            assert!(
                event.is_some(),
                "the stream ended; known: {:?}",
                self.shown()
            );
        }
    }

    /// Events taken so far that brought bytes.
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// Takes events until so many brought bytes, the condition holds, or the
    /// stream ends.
    pub async fn until_parts(&mut self, parts: usize, holds: &dyn Fn(&Known) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while self.parts < parts && !holds(&self.known) {
            if self.next(deadline).await.is_none() {
                return;
            }
        }
    }

    /// Takes events until a run has come to a stage.
    pub async fn stage(&mut self, spec: &RunSpec, stage: Stage) {
        let token = spec.token.clone();
        self.until(|known| {
            known
                .runs
                .get(&token)
                .is_some_and(|run| run.stages.contains(&stage))
        })
        .await;
    }

    /// Takes events until all these runs are settled.
    pub async fn settled(&mut self, specs: &[&RunSpec]) {
        let tokens: Vec<_> = specs.iter().map(|spec| spec.token.clone()).collect();
        self.until(|known| {
            tokens.iter().all(|token| {
                known
                    .runs
                    .get(token)
                    .is_some_and(|run| run.stage() == Stage::Settled)
            })
        })
        .await;
    }

    /// Takes events until everything known at the beginning has come.
    pub async fn caught_up(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.next(deadline).await {
                Some(Event::CaughtUp(_)) => return,
                Some(_) => {}
                None => panic!("the stream ended; known: {:?}", self.shown()),
            }
        }
    }

    /// Closes these runs: everything of them is kept.
    pub async fn close(&mut self, specs: &[&RunSpec]) {
        let request = FollowRequest {
            positions: Vec::new(),
            closed: specs.iter().map(|spec| spec.token.clone()).collect(),
        };
        self.requests.send(request).await.unwrap();
    }
}

impl Known {
    fn take_state(&mut self, state: &RunState) {
        let run = self.runs.entry(state.token.clone()).or_default();
        run.stages.push(state.stage());
        run.generations.push(state.generation);
        run.why.clone_from(&state.why);
        run.unreadable.clone_from(&state.unreadable);
        run.unsupervised = state.unsupervised;
        run.made_checkpoint = state.made_checkpoint;
    }

    /// Names the experiments, so that positions can be sent later.
    pub fn name(&mut self, specs: &[&RunSpec]) {
        for spec in specs {
            self.runs.entry(spec.token.clone()).or_default().experiment = spec.experiment;
        }
    }
}

/// Waits until neromum has forgotten all runs: a new follower gets no closed
/// one.
pub async fn wait_until_forgotten(mum: &mut Mum) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut follower = mum.follow(Known::default()).await;
        follower.caught_up().await;
        if follower.known.runs.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "never forgotten");
    }
}
