//! A run folder whose "shim" and "job" are children of the test, and watchers
//! that are the real program. Everything ends when the rig is dropped.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::{self, RecordKind};
use nero_journal::{Clocks, Record, Segment, Writer};
use nero_model::ids::RunToken;
use nero_model::{DeploymentId, ProcessId};
use nero_wire::v1::RunSpec;
use nerokid::folder::segments;

/// Time after which a test gives up.
const DEADLINE: Duration = Duration::from_secs(60);

/// Waits until `look` returns a value; the panic message contains its last
/// error.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let began = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) if began.elapsed() > DEADLINE => panic!("no {what}; last seen: {seen}"),
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// A child that is killed when it is dropped.
pub struct Process(pub Child);

impl Process {
    pub fn id(&self) -> ProcessId {
        ProcessId::of(self.0.id() as i32).unwrap()
    }

    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Waits for its end.
    #[track_caller]
    pub fn ended(&mut self) -> ExitStatus {
        until("end of the process", || {
            self.0.try_wait().unwrap().ok_or_else(|| "alive".to_owned())
        })
    }
}

impl Process {
    /// The peak of its resident memory.
    pub fn peak_rss_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmHWM:"))
            .unwrap();
        let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kilobytes * 1024
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A process that waits for ever.
pub fn idle() -> Process {
    let mut command = Command::new("cat");
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    Process(command.spawn().unwrap())
}

/// A process that makes a file when it gets SIGUSR1, and goes on.
pub struct Doorbell {
    pub process: Process,
    pub rung: PathBuf,
    _folder: tempfile::TempDir,
}

/// A doorbell that can be rung by now.
pub fn doorbell() -> Doorbell {
    let folder = tempfile::tempdir().unwrap();
    let (ready, rung) = (folder.path().join("ready"), folder.path().join("rung"));
    let mut command = Command::new("/bin/sh");
    command
        .args([
            "-c",
            // A signal ends `read`; with another trap the loop goes on.
            "trap ': > \"$2\"' USR1; : > \"$1\"; while kill -0 \"$3\"; do read -r _; done",
            "sh",
        ])
        .args([&ready, &rung])
        .arg(std::process::id().to_string())
        .env_clear()
        .stdin(Stdio::piped());
    let process = Process(command.spawn().unwrap());
    until("a doorbell", || {
        ready
            .exists()
            .then_some(())
            .ok_or_else(|| "none".to_owned())
    });
    Doorbell {
        process,
        rung,
        _folder: folder,
    }
}

/// The claim of a run whose job was started.
fn claim(folder: &Path, token: &RunToken, shim: ProcessId, job: ProcessId) -> Segment {
    let path = folder.join("claim");
    let mut claim = Segment::create(&path, Writer::Shim, token.as_bytes(), 1).unwrap();
    let claimed = v1::Claimed {
        shim: Some(shim.into()),
        launcher: None,
        time_limit_ms: 0,
    };
    let clocks = Clocks::now();
    claim.append(RecordKind::Claimed, clocks, &claimed).unwrap();
    let started = v1::JobStarted {
        job: Some(job.into()),
    };
    claim
        .append(RecordKind::JobStarted, clocks, &started)
        .unwrap();
    claim
}

/// A run that is live as long as its shim is.
pub struct Rig {
    pub folder: tempfile::TempDir,
    pub spec: RunSpec,
    pub shim: Process,
    pub job: Process,
    pub claim: Segment,
    pub stdout: File,
}

impl Rig {
    /// A run with this spec (ids are filled in) and this job.
    pub fn new(spec: RunSpec) -> Self {
        Self::with_job(spec, idle())
    }

    pub fn with_job(spec: RunSpec, job: Process) -> Self {
        Self::made(spec, job, tempfile::tempdir().unwrap())
    }

    /// A run in a folder below `place`.
    pub fn within(spec: RunSpec, place: &Path) -> Self {
        Self::made(spec, idle(), tempfile::tempdir_in(place).unwrap())
    }

    fn made(spec: RunSpec, job: Process, folder: tempfile::TempDir) -> Self {
        let token = RunToken::random();
        let spec = RunSpec {
            token: token.to_vec(),
            deployment: DeploymentId::random().to_vec(),
            experiment: 144,
            number: 2,
            ..spec
        };
        let inc = folder.path().join("1");
        fs::create_dir_all(&inc).unwrap();
        fs::create_dir_all(folder.path().join("control")).unwrap();
        frame::create(FrameKind::Spec, &folder.path().join("spec"), &spec).unwrap();
        let open = |name: &str| {
            let mut options = OpenOptions::new();
            options
                .create(true)
                .append(true)
                .open(inc.join(name))
                .unwrap()
        };
        let stdout = open("stdout.log");
        open("stderr.log");
        let shim = idle();
        let claim = claim(&inc, &token, shim.id(), job.id());
        Self {
            folder,
            spec,
            shim,
            job,
            claim,
            stdout,
        }
    }

    /// Writes the claim again, for another shim.
    pub fn claim_anew(&mut self) {
        fs::remove_file(self.inc().join("claim")).unwrap();
        let token = RunToken::from_slice(&self.spec.token).unwrap();
        self.claim = claim(&self.inc(), &token, self.shim.id(), self.job.id());
    }

    /// A name in `control/`.
    pub fn control(&self, name: &str) -> PathBuf {
        self.folder.path().join("control").join(name)
    }

    pub fn inc(&self) -> PathBuf {
        self.folder.path().join("1")
    }

    /// The job prints.
    pub fn print(&mut self, text: &str) {
        self.stdout.write_all(text.as_bytes()).unwrap();
    }

    /// The run ends as it should: records, then the shim leaves.
    pub fn end(&mut self) {
        self.job.kill();
        let exited = v1::JobExited::default();
        let clocks = Clocks::now();
        self.claim
            .append(RecordKind::JobExited, clocks, &exited)
            .unwrap();
        let gone = v1::TreeGone::default();
        self.claim
            .append(RecordKind::TreeGone, clocks, &gone)
            .unwrap();
        self.shim.kill();
    }

    /// A watcher that another program starts.
    pub fn watcher_by(&self, words: &[&str]) -> Process {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(env!("CARGO_BIN_EXE_nerokid"));
        command.arg("watch").arg(self.folder.path()).arg("1");
        Process(command.env_clear().spawn().unwrap())
    }

    /// A watcher, with an empty environment.
    pub fn watcher(&self, socket: Option<&std::path::Path>) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nerokid"));
        if let Some(socket) = socket {
            command.arg("--socket").arg(socket);
        }
        command.arg("watch").arg(self.folder.path()).arg("1");
        Process(command.env_clear().spawn().unwrap())
    }

    /// Every record of the watchers, in order, one segment after another.
    pub fn records(&self) -> Vec<Vec<Written>> {
        let paths = segments::list(&self.inc(), "watch-").unwrap();
        paths
            .iter()
            .map(|path| {
                let mut records = Vec::new();
                segments::for_each(path, |record| records.push(Written::new(record))).unwrap();
                records
            })
            .collect()
    }

    /// All points of all watchers: name, step, generation, value.
    pub fn points(&self) -> Vec<(String, f64, u32, f64)> {
        let mut points = Vec::new();
        for segment in self.records() {
            let mut names = Vec::new();
            for metrics in segment.iter().filter_map(Written::metrics) {
                names.extend(metrics.names.iter().cloned());
                for (at, index) in metrics.series.iter().enumerate() {
                    points.push((
                        names[*index as usize].clone(),
                        metrics.steps[at],
                        metrics.generation.get(at).copied().unwrap_or(0),
                        metrics.values[at],
                    ));
                }
            }
        }
        points
    }

    /// Waits until there are `count` points.
    #[track_caller]
    pub fn points_are(&self, count: usize) -> Vec<(String, f64, u32, f64)> {
        until("points", || {
            let points = self.points();
            if points.len() == count {
                Ok(points)
            } else {
                Err(format!("{} of {count} points", points.len()))
            }
        })
    }

    /// The messages of one kind.
    pub fn all<M: prost::Message + Default>(&self, kind: RecordKind) -> Vec<M> {
        let records = self.records().into_iter().flatten();
        records
            .filter(|record| i32::from(record.kind) == kind as i32)
            .map(|record| M::decode(record.payload.as_slice()).unwrap())
            .collect()
    }

    /// Waits for the first message of one kind that fits.
    #[track_caller]
    pub fn wait_for<M: prost::Message + Default + std::fmt::Debug>(
        &self,
        kind: RecordKind,
        fits: impl Fn(&M) -> bool,
    ) -> M {
        until(kind.as_str_name(), || {
            let all = self.all::<M>(kind);
            let seen = format!("{all:?}");
            all.into_iter().find(|one| fits(one)).ok_or(seen)
        })
    }
}

/// A record, owned.
#[derive(Clone, Debug)]
pub struct Written {
    pub kind: u16,
    pub payload: Vec<u8>,
}

impl Written {
    fn new(record: &Record<'_>) -> Self {
        Self {
            kind: record.kind,
            payload: record.payload.to_vec(),
        }
    }

    pub fn metrics(&self) -> Option<v1::Metrics> {
        use prost::Message as _;
        (i32::from(self.kind) == RecordKind::Metrics as i32)
            .then(|| v1::Metrics::decode(self.payload.as_slice()).unwrap())
    }
}

/// A small file system of its own, unmounted when dropped.
pub struct Full(
    pub PathBuf,
    #[expect(dead_code, reason = "removed when dropped")] tempfile::TempDir,
);

impl Full {
    /// `None` where this user may not mount.
    pub fn mounted() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "none"])
            .arg(&path)
            .output();
        mounted
            .is_ok_and(|output| output.status.success())
            .then_some(Self(path, folder))
    }

    /// Leaves no block free.
    pub fn fill(&self) {
        let full = fs::write(self.0.join("ballast"), vec![1; 2 * 1024 * 1024]);
        assert!(full.is_err());
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}
