//! Three login nodes with one home, driven as neroman drives them: `neromum
//! dial` over `ssh`, gRPC over its standard streams.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::Lease;
use nero_model::paths::NodePaths;
use nero_model::process::{ProcessId, Stat};
use nero_model::{DeploymentId, ExperimentId, RunId, RunToken};
use nero_tests::Hosts;
use nero_tests::hosts::Plan;
use nero_wire::hello;
use nero_wire::v1::follow_event::Event;
use nero_wire::v1::mum_client::MumClient;
use nero_wire::v1::run_state::Stage;
use nero_wire::v1::{
    CancelRequest, DescribeRequest, FollowRequest, HandOverRequest, Resources, Role, RunRef,
    RunSpec, RunState,
};
use rustix::process::Pid;
use tokio::process::{Child, Command};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

/// Time for anything on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Interval of beats: short, and long enough for a busy machine.
pub const BEAT_S: f64 = 2.0;
const NODE: &str = "login";

/// Login nodes `h1`, `h2` and `h3`.
pub struct Logins {
    pub hosts: Hosts,
    deployment: DeploymentId,
    options: Vec<String>,
    /// The user's home as the hosts see it.
    home: String,
}

impl Logins {
    /// Brings them up; `None` where hosts cannot have name spaces.
    pub fn up(options: &[&str]) -> Option<Self> {
        if !nero_tests::hosts::isolates() {
            eprintln!("skipped: needs root for hosts with boot ids and networks of their own");
            return None;
        }
        let hosts = Plan::new(3).shared_home(&["h1", "h2", "h3"]).up();
        for program in ["neromum", "nerokid", "nerokid-shim"] {
            hosts.program(program);
        }
        let said = hosts.ssh("h1", "echo $HOME").stdout;
        let home = String::from_utf8_lossy(&said).trim().to_owned();
        Some(Self {
            hosts,
            deployment: DeploymentId::random(),
            options: options.iter().map(|&option| option.to_owned()).collect(),
            home,
        })
    }

    /// The node's folders, seen from this machine.
    pub fn paths(&self) -> NodePaths {
        let root = self.hosts.home("h1").join(".neronet");
        NodePaths::new(&root, &self.deployment, NODE)
    }

    /// The newest lease.
    pub fn lease(&self) -> Option<Lease> {
        let folder = self.paths().lease();
        let numbers = std::fs::read_dir(&folder).ok()?.flatten();
        let newest = numbers
            .filter_map(|entry| {
                let name = entry.file_name();
                name.to_str()?.strip_prefix("epoch.")?.parse::<u64>().ok()
            })
            .max()?;
        frame::read(FrameKind::Lease, &folder.join(format!("epoch.{newest}"))).ok()
    }

    /// Number and host of the newest lease.
    pub fn leader(&self) -> (u64, String) {
        let lease = self.lease().unwrap_or_default();
        (lease.epoch, lease.host)
    }

    /// Whether the leader of an epoch recorded that it left.
    pub fn left(&self, epoch: u64) -> bool {
        self.paths().lease().join(format!("left.{epoch}")).exists()
    }

    /// Serving neromums of a host, as this machine numbers them.
    pub fn mums(&self, host: &str) -> Vec<i32> {
        self.programs(host, "neromum", "serve")
    }

    /// The only neromum that serves on a host.
    pub fn mum(&self, host: &str) -> Pid {
        let mums = self.mums(host);
        assert_eq!(mums.len(), 1, "one serves on {host}");
        Pid::from_raw(mums[0]).expect("a number")
    }

    /// `kill -9` to the serving neromums of a host; returns when they are dead.
    pub fn kill_mums(&self, host: &str) {
        let mums = self.mums(host);
        assert!(!mums.is_empty(), "somebody serves on {host}");
        for pid in mums {
            nero_tests::home::end(&[ProcessId::of(pid).expect("it serves")]);
        }
    }

    /// Waits until no neromum serves on a host.
    pub async fn nobody_serves(&self, host: &str) {
        until("the neromum of a host to leave", || match self.mums(host) {
            mums if mums.is_empty() => Ok(()),
            mums => Err(format!("{host}: {mums:?}")),
        })
        .await;
    }

    /// The launcher of a host: the oldest of its kind, since shims look the same.
    pub fn launcher(&self, host: &str) -> Pid {
        let all = self.programs(host, "nerokid-shim", "launcher");
        let age = |pid: &i32| Stat::read(*pid).map_or(u64::MAX, |stat| stat.start_ticks);
        let oldest = all.into_iter().min_by_key(age);
        Pid::from_raw(oldest.expect("a launcher")).expect("a number")
    }

    fn programs(&self, host: &str, name: &str, verb: &str) -> Vec<i32> {
        let is = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            let named = words
                .first()
                .is_some_and(|word| word.ends_with(name.as_bytes()));
            named && words.get(1) == Some(&verb.as_bytes())
        };
        let all = self.hosts.processes(host).into_iter();
        all.filter(is).collect()
    }

    /// Dials on a host, once, and sends a hello.
    pub async fn dial(&self, host: &str) -> Result<Mum, String> {
        self.dial_with(host, &[]).await
    }

    /// As [`Logins::dial`], with more options behind the usual ones.
    pub async fn dial_with(&self, host: &str, options: &[&str]) -> Result<Mum, String> {
        let program = self.hosts.common().join("bin/neromum");
        let line = [
            format!("{} dial --root {}/.neronet", program.display(), self.home),
            format!("--deployment {} --node {NODE}", self.deployment),
            format!("--shared yes --beat {BEAT_S}"),
            self.options.join(" "),
            options.join(" "),
        ]
        .join(" ");
        let mut child = Command::new("ssh")
            .arg("-F")
            .arg(self.hosts.ssh_config())
            .args([host, &line])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("ssh is installed");
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let greeted = async {
            let channel = nero_wire::dial_io(tokio::io::join(stdout, stdin))
                .await
                .map_err(|error| format!("{error:?}"))?;
            let mut client = MumClient::new(channel);
            let own = hello::own(Role::Neroman, "test", Some(self.deployment));
            let said = client.greet(own).await;
            said.map(|_| client).map_err(|status| status.to_string())
        };
        match tokio::time::timeout(PATIENCE, greeted).await {
            Ok(Ok(client)) => Ok(Mum::new(client, child).await),
            Ok(Err(error)) => {
                let mut said = String::new();
                if let Some(mut stderr) = child.stderr.take() {
                    let read = tokio::io::AsyncReadExt::read_to_string(&mut stderr, &mut said);
                    let _ = tokio::time::timeout(Duration::from_secs(5), read).await;
                }
                Err(format!("{host}: {error}: {said}"))
            }
            Err(_) => Err(format!("{host}: nothing in {PATIENCE:?}")),
        }
    }

    /// Dials as neroman does: again when the connection breaks.
    pub async fn reach(&self, host: &str) -> Mum {
        let mut last = String::new();
        for _ in 0..5 {
            match self.dial(host).await {
                Ok(mum) => return mum,
                Err(error) => last = error,
            }
        }
        panic!("{last}\n{}", self.log());
    }

    /// A run of `/bin/sh`: notes its name and host first, then does the rest.
    pub fn run(&self, experiment: u64, rest: &str) -> RunSpec {
        let notes = self.notes(experiment);
        let line = format!("hostname >> {}; {rest}", notes.display());
        let argv = ["/bin/sh", "-c", &line];
        RunSpec {
            token: RunToken::random().to_vec(),
            experiment,
            number: 1,
            deployment: self.deployment.to_vec(),
            argv: argv.iter().map(|&word| word.to_owned()).collect(),
            resources: Some(Resources {
                cpus: 1.0,
                ..Resources::default()
            }),
            attempt: 1,
            node: NODE.to_owned(),
            ..RunSpec::default()
        }
    }

    /// Line of `sh` that waits until the gate of this name exists.
    pub fn gate(&self, name: &str) -> String {
        let gate = self.hosts.common().join(name);
        format!("while ! [ -e {} ]; do sleep 0.05; done", gate.display())
    }

    /// Makes a gate, which opens it.
    pub fn open(&self, name: &str) {
        std::fs::write(self.hosts.common().join(name), "").unwrap();
    }

    fn notes(&self, experiment: u64) -> PathBuf {
        self.hosts.common().join(format!("notes.{experiment}"))
    }

    /// The hosts on which a run's job was started, one entry for each start.
    pub fn started(&self, experiment: u64) -> Vec<String> {
        let text = std::fs::read_to_string(self.notes(experiment)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Incarnations of a run that have a claim.
    pub fn claims(&self, experiment: u64) -> usize {
        let folder = self.paths().run(RunId {
            experiment: ExperimentId(experiment),
            number: 1,
        });
        (1..10)
            .filter(|number| folder.join(format!("{number}/claim")).exists())
            .count()
    }

    /// The logs of the neromums.
    pub fn log(&self) -> String {
        let mum = self.paths().mum();
        let read = |name: &str| std::fs::read_to_string(mum.join(name)).unwrap_or_default();
        format!("{}{}", read("log"), read("stderr"))
    }

    /// Cuts the network between two hosts: `how` is `unreachable` (an error at
    /// once) or `blackhole` (silence).
    pub fn cut_between(&self, one: &str, other: &str, how: &str) {
        for (from, to) in [(one, other), (other, one)] {
            let address = self.address(to);
            self.hosts
                .enter(from, &["ip", "route", "add", how, &address]);
        }
    }

    fn address(&self, host: &str) -> String {
        let said = self
            .hosts
            .enter(host, &["ip", "-4", "-o", "addr", "show", "dev", "eth0"]);
        let address = said.split_whitespace().nth(3).expect("an address");
        address.split('/').next().unwrap().to_owned()
    }

    /// The TCP sockets that listen on a host.
    pub fn listening(&self, host: &str) -> Vec<String> {
        let said = self.hosts.enter(host, &["ss", "-Hltn"]);
        let mut sockets: Vec<String> = said
            .lines()
            .filter_map(|line| line.split_whitespace().nth(3))
            .map(str::to_owned)
            .collect();
        sockets.sort();
        sockets
    }
}

/// A connection to the leading neromum, which follows all runs.
pub struct Mum {
    client: MumClient<Channel>,
    states: Arc<Mutex<HashMap<Vec<u8>, RunState>>>,
    following: tokio::task::JoinHandle<()>,
    _child: Child,
}

impl Mum {
    async fn new(client: MumClient<Channel>, child: Child) -> Self {
        let states = Arc::new(Mutex::new(HashMap::new()));
        let (requests, queue) = tokio::sync::mpsc::channel(4);
        let sent = requests.send(FollowRequest::default()).await;
        sent.expect("the queue is ours");
        let kept = states.clone();
        let mut follower = client.clone();
        let following = tokio::spawn(async move {
            let Ok(events) = follower.follow(ReceiverStream::new(queue)).await else {
                return;
            };
            let mut events = events.into_inner();
            while let Ok(Some(event)) = events.message().await {
                if let Some(Event::State(state)) = event.event {
                    kept.lock().unwrap().insert(state.token.clone(), state);
                }
            }
            drop(requests);
        });
        Self {
            client,
            states,
            following,
            _child: child,
        }
    }

    /// The host of the neromum that answers.
    pub async fn host(&mut self) -> String {
        let described = self.client.describe(DescribeRequest {}).await;
        described.expect("a description").into_inner().host
    }

    /// Hands runs over; all of them must be accepted.
    pub async fn accept(&mut self, runs: &[&RunSpec]) {
        let request = HandOverRequest {
            request: RunToken::random().to_vec(),
            runs: runs.iter().map(|&run| run.clone()).collect(),
            ..HandOverRequest::default()
        };
        let reply = self.client.hand_over(request).await.unwrap().into_inner();
        assert_eq!((reply.refused.len(), reply.accepted.len()), (0, runs.len()));
    }

    pub async fn cancel(&mut self, run: &RunSpec) {
        let request = CancelRequest {
            request: RunToken::random().to_vec(),
            runs: vec![RunRef {
                token: run.token.clone(),
                experiment: run.experiment,
                number: 1,
            }],
            author: "test".to_owned(),
            ..CancelRequest::default()
        };
        self.client.cancel(request).await.unwrap();
    }

    /// Whether the connection still brings news.
    pub fn is_connected(&self) -> bool {
        !self.following.is_finished()
    }

    pub fn state(&self, run: &RunSpec) -> RunState {
        let states = self.states.lock().unwrap();
        states.get(&run.token).cloned().unwrap_or_default()
    }

    /// Waits until a run's state fits.
    pub async fn until(&self, run: &RunSpec, what: &str, is: impl Fn(&RunState) -> bool) {
        until(what, || {
            let state = self.state(run);
            let (stage, connected) = (state.stage(), self.is_connected());
            is(&state).then_some(()).ok_or_else(|| {
                format!(
                    "{stage:?} {:?} on {:?}, connected {connected}",
                    state.why, state.host
                )
            })
        })
        .await;
    }

    /// Waits until a run's job lives.
    pub async fn running(&self, run: &RunSpec) {
        self.until(run, "a run to run", |state| state.stage() == Stage::Running)
            .await;
    }

    /// Waits until a run is settled.
    pub async fn settled(&self, run: &RunSpec) {
        self.until(run, "a run to be settled", |state| {
            state.stage() == Stage::Settled
        })
        .await;
    }
}

/// Waits until `look` returns a value; the panic message contains its last error.
pub async fn until<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) if tokio::time::Instant::now() > deadline => {
                panic!("waited in vain for {what}; last seen: {seen}")
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// The number of times of each item.
pub fn counted<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counted = BTreeMap::new();
    for item in items {
        *counted.entry(item).or_default() += 1;
    }
    counted
}
