//! Measuring the whole tree of a job from `/proc`.
//!
//! CPU time is the sum over all living processes, with the time of the children
//! that each has waited for (`cutime`). The shim's is included, since the
//! kernel hands the time of an orphan to it: so the sum contains the time of
//! ended processes that we never saw. The same holds for I/O. Sums never fall,
//! even when a process that ignored its children ends.

use std::fs;
use std::os::fd::OwnedFd;

use nero_journal::v1::Sample;
use nero_model::ProcessId;
use nero_model::process::Stat;
use rustix::buffer::spare_capacity;
use rustix::fs::{Mode, OFlags};
use rustix::param::{clock_ticks_per_second, page_size};

/// Limit of processes in one sample.
const PROCESSES_MAX: usize = 4096;
/// Number of processes whose files are held open.
const HELD_MAX: usize = 8;
/// Room for a file of `/proc`; most are far smaller.
const TEXT_BYTES: usize = 4096;

/// Resources that the tree of a job uses at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time so far.
    pub cpu_ms: u64,
    /// Resident memory now.
    pub rss_bytes: u64,
    /// Bytes read from storage so far.
    pub read_bytes: u64,
    /// Bytes written to storage so far.
    pub written_bytes: u64,
    /// Living processes.
    pub processes: u32,
    /// Their threads.
    pub threads: u32,
}

impl Usage {
    /// Adds what is used elsewhere. A job may have written it, so no number is too large.
    pub fn add(&mut self, other: &Self) {
        let add = |sum: &mut u64, more| *sum = sum.saturating_add(more);
        add(&mut self.cpu_ms, other.cpu_ms);
        add(&mut self.rss_bytes, other.rss_bytes);
        add(&mut self.read_bytes, other.read_bytes);
        add(&mut self.written_bytes, other.written_bytes);
        self.processes = self.processes.saturating_add(other.processes);
        self.threads = self.threads.saturating_add(other.threads);
    }
}

/// Measures trees; `/proc` in life, a table in tests.
pub trait Measure {
    /// Adds up the tree of `job` and the processes below `supervisor`; of the
    /// supervisor itself only the time of its ended children counts. A process
    /// with the same pid and another start time is not counted.
    fn measure(&mut self, supervisor: Option<ProcessId>, job: Option<ProcessId>) -> Usage;
}

/// Reads `/proc`. The files of a few processes are held open from sample to
/// sample, since opening costs more than reading. An open file belongs to the
/// process that it was opened for, and cannot be read when that process is
/// gone.
#[derive(Debug, Default)]
pub struct Procfs {
    held: Vec<OpenFiles>,
    text: Vec<u8>,
    todo: Vec<i32>,
    seen: Vec<i32>,
}

/// A process's open files.
#[derive(Debug)]
struct OpenFiles {
    pid: i32,
    stat: OwnedFd,
    children: OwnedFd,
    /// `None` when the kernel was built without this file, or the process is
    /// not ours.
    io: Option<OwnedFd>,
}

impl OpenFiles {
    fn open(pid: i32) -> rustix::io::Result<Self> {
        let open =
            |path: String| rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        Ok(Self {
            pid,
            stat: open(format!("/proc/{pid}/stat"))?,
            children: open(format!("/proc/{pid}/task/{pid}/children"))?,
            io: open(format!("/proc/{pid}/io")).ok(),
        })
    }
}

impl Measure for Procfs {
    fn measure(&mut self, supervisor: Option<ProcessId>, job: Option<ProcessId>) -> Usage {
        let mut usage = Usage::default();
        let mut ticks = 0;
        self.todo.clear();
        self.seen.clear();
        if let Some(supervisor) = supervisor
            && let Some((held, _)) = self.stat(supervisor.pid, Some(supervisor))
        {
            ticks += waited_ticks(&self.text);
            self.add_children(&held.children);
            self.hold(held);
        }
        self.todo.extend(job.map(|job| job.pid));
        while let Some(pid) = self.todo.pop() {
            if self.seen.contains(&pid) || self.seen.len() >= PROCESSES_MAX {
                continue;
            }
            let meant = job.filter(|job| job.pid == pid);
            let Some((held, stat)) = self.stat(pid, meant) else {
                continue;
            };
            ticks += stat.user_ticks + stat.system_ticks + waited_ticks(&self.text);
            if !matches!(stat.state, b'Z' | b'X' | b'x') {
                usage.processes += 1;
                usage.threads += stat.threads;
                usage.rss_bytes += stat.rss_pages * page_size() as u64;
                self.add_io(&held, &mut usage);
                self.add_children(&held.children);
                if stat.threads > 1 {
                    self.add_children_of_threads(pid);
                }
            }
            self.hold(held);
        }
        let seen = &self.seen;
        self.held.retain(|held| seen.contains(&held.pid));
        usage.cpu_ms = ticks * 1000 / clock_ticks_per_second().max(1);
        usage
    }
}

impl Procfs {
    /// The state of a process and its open files, if its start time is that of
    /// `meant`; leaves its line in `text`.
    fn stat(&mut self, pid: i32, meant: Option<ProcessId>) -> Option<(OpenFiles, Stat)> {
        let held = match self.held.iter().position(|held| held.pid == pid) {
            Some(at) => self.held.swap_remove(at),
            None => OpenFiles::open(pid).ok()?,
        };
        self.read(&held.stat, false).ok()?;
        let stat = Stat::parse(&self.text)?;
        if meant.is_some_and(|meant| meant.start_ticks != stat.start_ticks) {
            return None;
        }
        self.seen.push(pid);
        Some((held, stat))
    }

    /// The processes of the last measured tree.
    pub fn tree(&self) -> &[i32] {
        &self.seen
    }

    /// Holds the files of a process for the next sample, if there is room.
    fn hold(&mut self, held: OpenFiles) {
        if self.held.len() < HELD_MAX {
            self.held.push(held);
        }
    }

    /// Reads a file of `/proc` into `text`: its first block, which is all of
    /// most files, or everything, which takes one call more.
    fn read(&mut self, file: &OwnedFd, whole: bool) -> rustix::io::Result<()> {
        self.text.clear();
        loop {
            self.text.reserve(TEXT_BYTES);
            let offset = self.text.len() as u64;
            let more = rustix::io::pread(file, spare_capacity(&mut self.text), offset)?;
            if more == 0 || !whole {
                return Ok(());
            }
        }
    }

    fn add_children(&mut self, children: &OwnedFd) {
        if self.read(children, true).is_err() {
            return;
        }
        let pids = self.text.split(|byte| *byte == b' ');
        self.todo
            .extend(pids.filter_map(|pid| std::str::from_utf8(pid).ok()?.parse::<i32>().ok()));
    }

    /// Adds children made by other threads than the first.
    fn add_children_of_threads(&mut self, pid: i32) {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
            return;
        };
        for task in tasks.flatten() {
            let path = task.path().join("children");
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            if let Ok(children) = rustix::fs::open(path, flags, Mode::empty()) {
                self.add_children(&children);
            }
        }
    }

    fn add_io(&mut self, held: &OpenFiles, usage: &mut Usage) {
        let Some(io) = &held.io else {
            return;
        };
        if self.read(io, false).is_err() {
            return;
        }
        for line in self.text.split(|byte| *byte == b'\n') {
            let count = |rest: &[u8]| std::str::from_utf8(rest).ok()?.parse::<u64>().ok();
            if let Some(rest) = line.strip_prefix(b"read_bytes: ") {
                usage.read_bytes += count(rest).unwrap_or(0);
            } else if let Some(rest) = line.strip_prefix(b"write_bytes: ") {
                usage.written_bytes += count(rest).unwrap_or(0);
            }
        }
    }
}

/// `cutime` and `cstime` of a line of `/proc/PID/stat`, fields 16 and 17.
pub(crate) fn waited_ticks(line: &[u8]) -> u64 {
    let Some(close) = line.iter().rposition(|byte| *byte == b')') else {
        return 0;
    };
    line[close..]
        .split(|byte| *byte == b' ')
        .skip(14)
        .take(2)
        .filter_map(|field| std::str::from_utf8(field).ok()?.parse::<u64>().ok())
        .sum()
}

/// Makes samples from measurements: rates, peaks, sums that never fall.
#[derive(Debug, Default)]
pub struct Sampler {
    last: Option<(u64, Sample)>,
}

impl Sampler {
    /// Goes on from an earlier watcher's last sample.
    pub fn new(last: Option<(u64, Sample)>) -> Self {
        Self { last }
    }

    /// The sample of this moment. `since_ms` is the time of the job's start.
    pub fn sample(&mut self, usage: Usage, now_ms: u64, since_ms: u64) -> Sample {
        let before = self.last.as_ref();
        let last = before.map_or_else(Sample::default, |(_, sample)| *sample);
        let cpu_ms = usage.cpu_ms.max(last.cpu_ms);
        let elapsed = now_ms.saturating_sub(before.map_or(since_ms, |(then, _)| *then));
        let sample = Sample {
            cpu_cores: if elapsed == 0 {
                0.0
            } else {
                (cpu_ms - last.cpu_ms) as f64 / elapsed as f64
            },
            cpu_ms,
            rss_bytes: usage.rss_bytes,
            peak_rss_bytes: usage.rss_bytes.max(last.peak_rss_bytes),
            read_bytes: usage.read_bytes.max(last.read_bytes),
            written_bytes: usage.written_bytes.max(last.written_bytes),
            processes: usage.processes,
            threads: usage.threads,
            ..Sample::default()
        };
        self.last = Some((now_ms, sample));
        sample
    }

    /// The last sample.
    pub fn last(&self) -> Option<&Sample> {
        self.last.as_ref().map(|(_, sample)| sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn rates_are_between_samples_and_sums_never_fall() {
        let mut sampler = Sampler::default();
        let usage = |cpu_ms, rss_bytes| Usage {
            cpu_ms,
            rss_bytes,
            ..Usage::default()
        };
        let first = sampler.sample(usage(500, 10), 2000, 1000);
        assert_eq!((first.cpu_cores, first.cpu_ms), (0.5, 500));
        let second = sampler.sample(usage(2500, 30), 3000, 1000);
        assert_eq!((second.cpu_cores, second.peak_rss_bytes), (2.0, 30));
        let third = sampler.sample(usage(1000, 20), 4000, 1000);
        assert_eq!((third.cpu_cores, third.cpu_ms), (0.0, 2500));
        assert_eq!((third.rss_bytes, third.peak_rss_bytes), (20, 30));
    }

    #[test]
    fn a_real_tree_is_measured() {
        let mut child = Command::new("sh")
            .args(["-c", "exec 3<&0; cat <&3 & cat"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut procfs = Procfs::default();
        let job = ProcessId::of(child.id() as i32).ok();
        let mut usage = Usage::default();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while usage.processes != 3 && std::time::Instant::now() < deadline {
            usage = procfs.measure(None, job);
        }
        assert_eq!((usage.processes, usage.threads), (3, 3));
        assert!(usage.rss_bytes > 100_000);
        let other = job.map(|job| ProcessId {
            start_ticks: job.start_ticks + 1,
            ..job
        });
        assert_eq!(procfs.measure(None, other).processes, 0, "only its number");
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(procfs.measure(None, job).processes, 0);
    }

    #[test]
    fn waited_time_is_read_behind_odd_names() {
        let line = b"12 (a) b (c) S 1 12 13 0 -1 4194560 1 2 3 4 50 60 7 8 20 0 7 0 987 1000 42 18";
        assert_eq!(waited_ticks(line), 15);
        assert_eq!(waited_ticks(b""), 0);
    }
}
