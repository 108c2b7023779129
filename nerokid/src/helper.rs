//! The helper of one host of a run. The run's launcher (`srun`, `mpirun`) makes processes
//! that are in no tree of ours, on this host and on others; they carry the run's marks in
//! their environment, and the number of the scheduler's job: what the run submits itself
//! has the marks, too. The helper measures them, tells the watcher by a file of the
//! incarnation's folder, and ends what is left of them when the run is over. Beside the
//! shim it has SLURM signal the step of `srun`, which would answer by ending the step.
//!
//! Its standard input is held by `neromum job`, and ends when the run is over or when
//! that process is dead. The records of the run tell which of the two.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use inotify::{Inotify, WatchMask};
use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::HostSample;
use nero_model::ProcessId;
use nero_model::paths::run as names;
use nero_model::process::ProcessHandle;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use crate::folder::life::Life;
use crate::folder::place::WatchedStart;
use crate::folder::segments;
use crate::processes::marked::MarkedProcesses;
use crate::processes::sample::Usage;

/// Pause before the first sample: the job begins meanwhile.
const FIRST: Duration = Duration::from_millis(500);
/// Time for the record of the run's end to come, after standard input ended.
const END_MAX: Duration = Duration::from_secs(3);
/// Time from the polite signal to the final one.
const GRACE: Duration = Duration::from_secs(3);
/// Pause between two looks at something that comes soon.
const LOOK: Duration = Duration::from_millis(50);
/// Time for `scancel` to send a signal.
const SCANCEL_MAX: Duration = Duration::from_secs(10);
/// Signals that the shim does not send to `srun`, which would end the step, and those
/// that `srun` keeps to itself.
const TO_STEP: [Signal; 6] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::STOP,
    Signal::CONT,
];

/// Does the work of a helper.
///
/// # Errors
/// When the run's folder cannot be used.
pub fn help(run_dir: &Path, incarnation: u32, name: Option<String>) -> Result<(), String> {
    // On SLURM only the helper beside the shim is told the name of its host.
    let is_beside = name.is_some();
    let name = match name.or_else(|| std::env::var("SLURMD_NODENAME").ok()) {
        Some(name) => name,
        None => return Err("the name of the host is missing".to_owned()),
    };
    let place = WatchedStart::open(run_dir, incarnation).map_err(|error| crate::chain(&error))?;
    let path = place.folder.join(format!("{}{name}", names::HOST_PREFIX));
    let mut marks = place.marks();
    marks.extend(job_mark());
    let mut helper = Helper {
        marked: MarkedProcesses::new(marks),
        file: open(&place.folder, &path)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?,
        number: 0,
        step: None,
        name,
        place,
    };
    let asks = helper.place.spec.scheduler.as_ref();
    let is_step = |asks: &nero_wire::v1::SchedulerRequest| match &*asks.launcher {
        "srun" => true,
        "torchrun" => asks.nodes > 1,
        _ => false,
    };
    if is_beside && asks.is_some_and(is_step) {
        helper.step = Some(SignalledStep {
            signalled: 0,
            changes: Inotify::init().ok(),
            is_watched: false,
        });
    }
    let interval = Duration::from_millis(helper.place.interval_ms());
    let mut pause = FIRST.min(interval);
    loop {
        let has_ended = helper
            .wait(pause)
            .map_err(|error| format!("standard input: {error}"))?;
        let over = helper.measure() || (has_ended && helper.is_over_soon());
        if over {
            helper.sweep();
            helper.measure();
        }
        if over || has_ended {
            return Ok(());
        }
        let step = helper.step.as_ref();
        pause = if step.is_some_and(|step| !step.is_watched) {
            FIRST.min(interval)
        } else {
            interval
        };
    }
}

/// The variable with the number of the scheduler's job, as all of its processes have it.
fn job_mark() -> Option<Vec<u8>> {
    let names = ["SLURM_JOB_ID", "JOB_ID"].iter();
    let mut set = names.filter_map(|name| Some(format!("{name}={}", std::env::var(name).ok()?)));
    set.next().map(String::into_bytes)
}

fn open(folder: &Path, path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    match options.open(path) {
        // The shim of this start makes the folder soon.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            nero_model::paths::make_private(folder)?;
            options.open(path)
        }
        opened => opened,
    }
}

struct Helper {
    place: WatchedStart,
    name: String,
    marked: MarkedProcesses,
    file: File,
    number: u64,
    /// Of the helper beside the shim of `srun`.
    step: Option<SignalledStep>,
}

/// The step of `srun`, which gets its signals by `scancel`.
struct SignalledStep {
    /// Signals of the records that it got.
    signalled: usize,
    /// Tells of new records, where the kernel can tell.
    changes: Option<Inotify>,
    /// Whether it tells of those of the claim.
    is_watched: bool,
}

impl Helper {
    /// Waits for new records, or for the end of standard input; returns whether that came.
    fn wait(&mut self, pause: Duration) -> io::Result<bool> {
        let until = Instant::now() + pause;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let stdin = io::stdin();
            let mut polled = vec![PollFd::new(&stdin, PollFlags::IN)];
            let step = self.step.as_ref();
            let changes = step.and_then(|step| step.changes.as_ref());
            polled.extend(changes.map(|changes| PollFd::new(changes, PollFlags::IN)));
            let left = Timespec::try_from(left).unwrap_or_default();
            match poll(&mut polled, Some(&left)) {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let has_input = !polled[0].revents().is_empty();
            let step = self.step.as_mut().filter(|_| !has_input);
            if let Some(changes) = step.and_then(|step| step.changes.as_mut()) {
                let _ = changes.read_events(&mut [0; 4096]);
                return Ok(false);
            }
            // Nothing is ever sent; what came all the same is thrown away.
            let mut bytes = [0; 256];
            if rustix::io::read(&stdin, &mut bytes)? == 0 {
                return Ok(true);
            }
        }
    }

    /// Has SLURM send the step what the records ask for, on all hosts.
    fn signal_step(&mut self, life: &Life) {
        let Some(step) = self.step.as_mut().filter(|_| !life.here().is_empty()) else {
            return;
        };
        if let Some(changes) = &step.changes {
            let launchers = segments::list(&self.place.folder, "launcher-");
            let claim = self.place.folder.join(names::CLAIM);
            // Where it cannot be watched the next look is soon.
            let watch = |path: &Path| changes.watches().add(path, WatchMask::MODIFY).is_ok();
            step.is_watched = watch(&claim);
            for path in launchers.into_iter().flatten() {
                step.is_watched &= watch(&path);
            }
        }
        let new = life.signals.iter().skip(step.signalled);
        let signals = new.filter_map(|raw| TO_STEP.iter().find(|one| one.as_raw() == *raw));
        step.signalled = life.signals.len();
        for signal in signals {
            let steps = self.marked.steps();
            if !steps.is_empty() && scancel(&steps, *signal) {
                continue;
            }
            // It has started nothing, or nothing is left here, or SLURM does not answer.
            eprintln!("nerokid host {}: srun itself gets {signal:?}", self.name);
            if let Some(srun) = life.known.job {
                self.signal(srun, *signal);
            }
        }
    }

    /// Measures once and tells it; returns whether the run is over. While the records
    /// cannot be read nothing is measured: which processes the watcher measures itself
    /// is not known.
    fn measure(&mut self) -> bool {
        let life = match Life::read(&self.place.folder) {
            Ok(life) => life,
            // It is not claimed yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Life::default(),
            Err(error) => {
                eprintln!("nerokid host {}: {error}", self.name);
                return false;
            }
        };
        self.signal_step(&life);
        let usage = self.marked.measure(&life.here());
        self.number += 1;
        if let Err(error) = self.tell(usage) {
            eprintln!("nerokid host {}: {error}", self.name);
        }
        life.known.is_over()
    }

    /// Writes into the same file each time: clients of a file server see that as soon as
    /// they open it, and another file of the name only later.
    fn tell(&self, usage: Usage) -> io::Result<()> {
        let sample = HostSample {
            host: self.name.clone(),
            number: self.number,
            cpu_ms: usage.cpu_ms,
            rss_bytes: usage.rss_bytes,
            read_bytes: usage.read_bytes,
            written_bytes: usage.written_bytes,
            processes: usage.processes,
            threads: usage.threads,
        };
        let bytes = frame::encode(FrameKind::HostSample, &sample);
        self.file.write_all_at(&bytes, 0)?;
        self.file.set_len(bytes.len() as u64)
    }

    fn is_over_soon(&self) -> bool {
        let until = Instant::now() + END_MAX;
        loop {
            if Life::read(&self.place.folder).is_ok_and(|life| life.known.is_over()) {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Ends what is left of a run that is over.
    fn sweep(&mut self) {
        if self.place.spec.monitor.is_some_and(|one| one.leave_strays) {
            return;
        }
        for (signal, patience) in [(Signal::TERM, GRACE), (Signal::KILL, GRACE)] {
            let left = self.marked.processes();
            if left.is_empty() {
                return;
            }
            eprintln!(
                "nerokid host {}: {} processes are left after the end, which get {signal:?}",
                self.name,
                left.len()
            );
            for process in left {
                self.signal(process, signal);
            }
            let until = Instant::now() + patience;
            while !self.marked.processes().is_empty() && Instant::now() < until {
                std::thread::sleep(LOOK);
            }
        }
    }

    /// Signals a process that still carries the marks.
    fn signal(&self, process: ProcessId, signal: Signal) {
        let handle = ProcessHandle::open(&process);
        if let Some(handle) = handle.filter(|_| self.marked.is_marked(process.pid)) {
            let _ = handle.signal(signal);
        }
    }
}

/// Has SLURM signal every process of some steps; returns whether it did.
fn scancel(steps: &BTreeSet<String>, signal: Signal) -> bool {
    let child = Command::new("scancel")
        .arg("--quiet")
        .arg(format!("--signal={}", signal.as_raw()))
        .args(steps)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            eprintln!("nerokid host: scancel: {error}");
            return false;
        }
    };
    let until = Instant::now() + SCANCEL_MAX;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if Instant::now() < until => std::thread::sleep(LOOK),
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
        }
    }
}

/// What helpers told of a run's hosts, for its watcher.
#[derive(Debug, Default)]
pub struct Hosts {
    all: Vec<HelpedHost>,
}

#[derive(Debug)]
struct HelpedHost {
    name: String,
    is_helped: bool,
    number: u64,
    /// When its newest sample came, or when it was expected first.
    seen_ms: u64,
    usage: Usage,
    /// Whether the run was told that this host has no helper that answers.
    told: bool,
}

/// Time for the first sample of a helper: its start, and a file server that shows new
/// names late.
const FIRST_MAX_MS: u64 = 90_000;
/// Shortest time without a sample after which a helper counts as gone.
const SILENT_MIN_MS: u64 = 10_000;

impl Hosts {
    /// Reads what is new; returns what the hosts use together. The names of hosts that
    /// whose helper does not answer any more are added to `unwatched`, each once.
    pub fn read_samples(
        &mut self,
        folder: &Path,
        hosts: &[(String, bool)],
        now_ms: u64,
        interval_ms: u64,
        unwatched: &mut Vec<String>,
    ) -> Usage {
        if self.all.len() != hosts.len() {
            let host = |(name, is_helped): &(String, bool)| HelpedHost {
                name: name.clone(),
                is_helped: *is_helped,
                number: 0,
                seen_ms: now_ms,
                usage: Usage::default(),
                told: false,
            };
            self.all = hosts.iter().map(host).collect();
        }
        let mut sum = Usage::default();
        for host in &mut self.all {
            host.read_sample(folder, now_ms);
            let silent_ms = match host.number {
                0 => FIRST_MAX_MS,
                _ => SILENT_MIN_MS.max(interval_ms.saturating_mul(3)),
            };
            let is_silent = now_ms.saturating_sub(host.seen_ms) > silent_ms || !host.is_helped;
            if is_silent && !host.told {
                host.told = true;
                unwatched.push(host.name.clone());
            }
            if is_silent {
                // Sums stay; whether the processes still live is not known.
                host.usage.rss_bytes = 0;
                host.usage.processes = 0;
                host.usage.threads = 0;
            }
            sum.add(&host.usage);
        }
        sum
    }
}

impl HelpedHost {
    /// A file that is just written, or not there, says nothing new.
    fn read_sample(&mut self, folder: &Path, now_ms: u64) {
        let path = folder.join(format!("{}{}", names::HOST_PREFIX, self.name));
        let read: Result<HostSample, _> = frame::read(FrameKind::HostSample, &path);
        let Ok(sample) = read else { return };
        if sample.number == self.number || sample.host != self.name {
            return;
        }
        self.number = sample.number;
        self.seen_ms = now_ms;
        self.told = false;
        self.usage = Usage {
            cpu_ms: sample.cpu_ms.max(self.usage.cpu_ms),
            rss_bytes: sample.rss_bytes,
            read_bytes: sample.read_bytes.max(self.usage.read_bytes),
            written_bytes: sample.written_bytes.max(self.usage.written_bytes),
            processes: sample.processes,
            threads: sample.threads,
        };
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tell(folder: &Path, host: &str, number: u64, cpu_ms: u64, rss_bytes: u64) {
        let sample = HostSample {
            host: host.to_owned(),
            number,
            cpu_ms,
            rss_bytes,
            processes: 1,
            ..HostSample::default()
        };
        let bytes = frame::encode(FrameKind::HostSample, &sample);
        fs::write(folder.join(format!("host.{host}")), bytes).unwrap();
    }

    #[test]
    fn hosts_are_summed_and_those_that_nobody_watches_are_named_once() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let all = [("a", true), ("b", true), ("c", false)];
        let all = all.map(|(name, is_helped)| (name.to_owned(), is_helped));
        let mut hosts = Hosts::default();
        let mut look = |now_ms| {
            let mut unwatched = Vec::new();
            let usage = hosts.read_samples(folder, &all, now_ms, 1000, &mut unwatched);
            (usage.cpu_ms, usage.rss_bytes, unwatched.join(" "))
        };
        tell(folder, "a", 1, 100, 10);
        assert_eq!(look(0), (100, 10, "c".to_owned()));
        tell(folder, "b", 1, 200, 20);
        tell(folder, "a", 2, 150, 10);
        assert_eq!(look(1000), (350, 30, String::new()));
        tell(folder, "a", 3, 160, 15);
        let text = fs::read(folder.join("host.b")).unwrap();
        fs::write(folder.join("host.b"), &text[..text.len() - 1]).unwrap();
        assert_eq!(look(9000), (360, 35, String::new()), "b is half written");
        assert_eq!(look(12_000), (360, 15, "b".to_owned()));
        assert_eq!(look(13_000), (360, 15, String::new()));
        // Another helper begins to count anew; sums never fall.
        tell(folder, "b", 1, 40, 4);
        assert_eq!(look(14_000).2, "", "the same number says nothing");
        tell(folder, "b", 2, 50, 5);
        assert_eq!(look(15_000), (360, 20, String::new()));
    }

    #[test]
    fn what_a_job_forges_ends_no_watcher() {
        let folder = tempfile::tempdir().unwrap();
        let all = [("a".to_owned(), true), ("b".to_owned(), true)];
        for (host, _) in &all {
            tell(folder.path(), host, 1, u64::MAX, u64::MAX);
        }
        let usage = Hosts::default().read_samples(folder.path(), &all, 0, 1000, &mut Vec::new());
        assert_eq!((usage.cpu_ms, usage.rss_bytes), (u64::MAX, u64::MAX));
    }

    #[test]
    fn a_helper_that_never_reports_is_waited_for_longer() {
        let folder = tempfile::tempdir().unwrap();
        let all = [("a".to_owned(), true)];
        let mut hosts = Hosts::default();
        let mut unwatched = Vec::new();
        for now_ms in [0, FIRST_MAX_MS] {
            hosts.read_samples(folder.path(), &all, now_ms, 1000, &mut unwatched);
            assert!(unwatched.is_empty());
        }
        hosts.read_samples(folder.path(), &all, FIRST_MAX_MS + 1, 1000, &mut unwatched);
        assert_eq!(unwatched, ["a"]);
    }
}
