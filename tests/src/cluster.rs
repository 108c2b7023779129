//! Clusters with a real scheduler, each in a network of its own: one SLURM and one Grid
//! Engine for all tests of a run. The cluster ends, with every process in it, some
//! seconds after its last test, also when the tests are killed.
//!
//! The thread that asks for a cluster enters its network, and so does all that the
//! thread starts from then on: nothing else on the machine reaches its daemons.
//!
//! The scripts `tests/rig/{slurm,gridengine}.sh` do the work.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use nero_model::ProcessId;
use rustix::fs::{FlockOperation, flock};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::home::Home;
use crate::hosts::Hosts;

/// A scheduler that can be brought up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// SLURM with accounting.
    Slurm,
    /// SLURM without accounting.
    SlurmWithoutAccounting,
    /// Grid Engine.
    GridEngine,
}

impl Scheduler {
    fn script(self) -> &'static str {
        match self {
            Self::Slurm | Self::SlurmWithoutAccounting => "slurm.sh",
            Self::GridEngine => "gridengine.sh",
        }
    }

    fn accounting(self) -> &'static str {
        match self {
            Self::Slurm | Self::GridEngine => "1",
            Self::SlurmWithoutAccounting => "0",
        }
    }
}

/// A running cluster; it stays at least until this value is dropped.
#[derive(Debug)]
pub struct Cluster {
    scheduler: Scheduler,
    folder: PathBuf,
    kept_by: Use,
}

/// What keeps a cluster.
#[derive(Debug)]
enum Use {
    /// A shared lock on a file: the cluster ends when no test holds one.
    Shared {
        _lock: File,
        /// Where this test brought it up; it outlives the test.
        _holder: Option<Child>,
    },
    /// The standard input of the cluster that this test alone has.
    Alone {
        holder: Child,
        input: Option<ChildStdin>,
        _folder: tempfile::TempDir,
    },
}

impl Drop for Use {
    fn drop(&mut self) {
        if let Self::Alone { holder, input, .. } = self {
            drop(input.take());
            let _ = holder.wait();
        }
    }
}

impl Cluster {
    /// The cluster of this run of tests; brought up by the first test that asks.
    ///
    /// # Panics
    /// When it does not come up; without root the message names what is missing.
    #[track_caller]
    pub fn shared(scheduler: Scheduler) -> Self {
        let run = std::env::var("NEXTEST_RUN_ID")
            .map_or_else(|_| std::process::id().to_string(), |id| id[..8].to_owned());
        let base = PathBuf::from(format!("/tmp/nc-{scheduler:?}-{run}"));
        let folder = base.join("it");
        let _lock = locked(&base);
        let users = opened(&base, "users");
        flock(&users, FlockOperation::LockShared).expect("a lock");
        let mut holder = None;
        let ready = folder.join("ready");
        if !ready.exists() {
            let child = bring_up(scheduler, &folder, Some(&base), &[]);
            fs::write(&ready, child.id().to_string()).expect("a file");
            holder = Some(child);
        }
        let id = fs::read_to_string(&ready).expect("it is ready");
        enter_network(id.parse().expect("the holder's process id"));
        Self {
            scheduler,
            folder,
            kept_by: Use::Shared {
                _lock: users,
                _holder: holder,
            },
        }
    }

    /// A cluster for this test alone, to be broken.
    ///
    /// # Panics
    /// As [`shared`](Self::shared).
    #[track_caller]
    pub fn alone(scheduler: Scheduler) -> Self {
        Self::alone_with(scheduler, &[])
    }

    /// The same with variables that its script knows.
    ///
    /// # Panics
    /// As [`shared`](Self::shared).
    #[track_caller]
    pub fn alone_with(scheduler: Scheduler, env: &[(&str, &str)]) -> Self {
        let cluster = Self::alone_in(Path::new("/tmp"), scheduler, env);
        if let Use::Alone { holder, .. } = &cluster.kept_by {
            enter_network(holder.id());
        }
        cluster
    }

    /// The same with these hosts as its login nodes: its nodes have their users and the
    /// home of the first, and a person who logs in finds its commands. The hosts reach
    /// it, and the test stays in the network from which it reaches the hosts.
    ///
    /// # Panics
    /// As [`shared`](Self::shared).
    #[track_caller]
    pub fn behind(hosts: &Hosts, scheduler: Scheduler, env: &[(&str, &str)]) -> Self {
        let folder = hosts.path().display().to_string();
        let of_hosts = [("HOSTS_DIR", &*folder)];
        let cluster = Self::alone_in(&hosts.common(), scheduler, &[&of_hosts, env].concat());
        let exports = cluster.env().into_iter();
        let exports = exports.map(|(name, value)| format!("export {name}='{value}'\n"));
        hosts.put("h1", ".bash_profile", &exports.collect::<String>(), 0o644);
        cluster
    }

    #[track_caller]
    fn alone_in(parent: &Path, scheduler: Scheduler, env: &[(&str, &str)]) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("nc")
            .tempdir_in(parent)
            .expect("a folder");
        let at = folder.path().join("it");
        let mut holder = bring_up(scheduler, &at, None, env);
        let input = holder.stdin.take();
        Self {
            scheduler,
            folder: at,
            kept_by: Use::Alone {
                holder,
                input,
                _folder: folder,
            },
        }
    }

    /// The folder with everything of this cluster.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// The variables with which its programs find it.
    pub fn env(&self) -> Vec<(String, String)> {
        match self.scheduler {
            Scheduler::Slurm | Scheduler::SlurmWithoutAccounting => {
                let config = self.folder.join("slurm.conf");
                vec![("SLURM_CONF".to_owned(), config.display().to_string())]
            }
            Scheduler::GridEngine => {
                let text = fs::read_to_string(self.folder.join("settings")).expect("its settings");
                let pairs = text.lines().filter_map(|line| line.split_once('='));
                pairs.map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
            }
        }
    }

    /// Makes this machine a login node of the cluster for later commands of `home`.
    pub fn log_in(&self, home: &mut Home) {
        for (name, value) in self.env() {
            home.set_env(&name, &value);
        }
    }

    /// Sends a signal, such as `STOP`, to a daemon of a cluster of one test. The daemon
    /// of a node, such as `execd`, is hit with every process of the node's jobs, where
    /// the signal is `KILL`.
    ///
    /// # Panics
    /// When the cluster is shared, or has no such daemon.
    #[track_caller]
    pub fn signal(&self, daemon: &str, signal: &str) {
        self.inside(&["kill", "-s", signal, &self.pid(daemon)]);
    }

    /// Sends a signal to the daemon of a node alone: its jobs do not notice.
    ///
    /// # Panics
    /// As [`signal`](Self::signal).
    #[track_caller]
    pub fn signal_node_daemon(&self, node: &str, signal: &str) {
        let kill = "kill -s $1 $(cat /proc/$2/task/$2/children)";
        self.inside(&["sh", "-c", kill, "sh", signal, &self.pid(node)]);
    }

    /// Starts a daemon again that was killed.
    ///
    /// # Panics
    /// As [`signal`](Self::signal).
    #[track_caller]
    pub fn start(&self, daemon: &str) {
        let script = script(self.scheduler).display().to_string();
        let folder = self.folder.display().to_string();
        self.inside(&[&script, "start", &folder, daemon]);
    }

    /// The process id of a daemon, in the name space of the cluster.
    fn pid(&self, daemon: &str) -> String {
        let record = self.folder.join("run").join(format!("{daemon}.pid"));
        let record = fs::read_to_string(record).expect("its process id");
        record.split(' ').next().unwrap_or_default().to_owned()
    }

    /// Runs a command in the name spaces of a cluster of one test.
    #[track_caller]
    fn inside(&self, command: &[&str]) {
        let Use::Alone { holder, .. } = &self.kept_by else {
            panic!("a shared cluster is not broken");
        };
        let id = holder.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let children = children.expect("it lives");
        let status = Command::new("nsenter")
            .args(["--target", children.trim(), "--pid", "--mount", "--net"])
            .args(command)
            .envs(self.env())
            .status();
        assert!(status.is_ok_and(|status| status.success()), "{command:?}");
    }

    /// Its daemons that live: `slurmctld`, and each `slurmd` by the name of its node. A node
    /// ends with its `slurmd`, as in a crash.
    pub fn daemons(&self) -> Vec<(String, ProcessId)> {
        let config = self.folder.join("slurm.conf");
        let config = config.as_os_str().as_encoded_bytes();
        let all = fs::read_dir("/proc").expect("/proc is there").flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let mut found: Vec<(String, ProcessId)> = pids
            .filter(|pid| {
                let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                let mut all = environment.split(|byte| *byte == 0);
                all.any(|one| one.strip_prefix(b"SLURM_CONF=") == Some(config))
            })
            .filter_map(|pid| Some((daemon_of(pid)?, ProcessId::of(pid).ok()?)))
            .collect();
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        found
    }

    /// Runs a command of the scheduler, as a person would.
    pub fn run(&self, program: &str, args: &[&str]) -> Output {
        Command::new(program)
            .args(args)
            .envs(self.env())
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| panic!("{program}: {error}"))
    }
}

fn script(scheduler: Scheduler) -> PathBuf {
    let rig = Path::new(env!("CARGO_MANIFEST_DIR")).join("rig");
    rig.join(scheduler.script())
}

/// Moves this thread, and what it starts from now on, into the network of a process.
#[track_caller]
fn enter_network(process: u32) {
    let network = File::open(format!("/proc/{process}/ns/net")).expect("its holder lives");
    let moved = move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network));
    moved.expect("root enters any network");
}

/// The name of the daemon that this process is.
fn daemon_of(pid: i32) -> Option<String> {
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<&[u8]> = command.split(|byte| *byte == 0).collect();
    match words[..] {
        [b"slurmctld", ..] => Some("slurmctld".to_owned()),
        [b"slurmd", b"-D", b"-N", node, ..] => Some(String::from_utf8_lossy(node).into_owned()),
        _ => None,
    }
}

/// The lock under which a shared cluster begins and ends. The ending one removes the
/// folder, and with it a lock that a test may wait for.
fn locked(base: &Path) -> File {
    loop {
        fs::create_dir_all(base).expect("a folder");
        let lock = opened(base, "lock");
        flock(&lock, FlockOperation::LockExclusive).expect("a lock");
        let ours = lock.metadata().expect("it is open").ino();
        if fs::metadata(base.join("lock")).is_ok_and(|found| found.ino() == ours) {
            return lock;
        }
    }
}

fn opened(base: &Path, name: &str) -> File {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    options.open(base.join(name)).expect("a file of ours")
}

/// Starts the script that holds the cluster; returns when all its nodes are ready.
#[track_caller]
fn bring_up(
    scheduler: Scheduler,
    folder: &Path,
    shared: Option<&Path>,
    env: &[(&str, &str)],
) -> Child {
    let script = script(scheduler);
    fs::create_dir_all(folder).expect("a folder");
    let said = folder.with_file_name("said");
    let mut command = Command::new(&script);
    command
        .arg("hold")
        .arg(folder)
        .env("ACCOUNTING", scheduler.accounting())
        .envs(env.iter().copied())
        .stdout(Stdio::piped())
        .stderr(File::create(&said).expect("a file"))
        // A signal to the test's process group must not hit the cluster.
        .process_group(0);
    match shared {
        Some(base) => command
            .env("USERS", base.join("users"))
            .env("LOCK", base.join("lock"))
            .stdin(Stdio::null()),
        None => command.stdin(Stdio::piped()),
    };
    let mut holder = command.spawn().expect("bash is installed");
    let mut line = String::new();
    let mut out = BufReader::new(holder.stdout.take().expect("piped"));
    let read = out.read_line(&mut line);
    if line.trim_end() != "ready" {
        drop(holder.stdin.take());
        let _ = holder.wait();
        let said = fs::read_to_string(&said).unwrap_or_default();
        panic!("the cluster did not come up ({read:?}): {said}");
    }
    holder
}
