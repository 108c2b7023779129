//! Processes of this host that carry a run's marks in their environment, wherever they
//! are in the tree.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::Read as _;

use nero_model::ProcessId;
use nero_model::process::Stat;
use rustix::param::{clock_ticks_per_second, page_size};

use crate::processes::sample::{Usage, waited_ticks};

/// Limit of processes that are counted.
const PROCESSES_MAX: usize = 65_536;
/// Longest environment that is read.
const ENVIRONMENT_BYTES_MAX: u64 = 4 << 20;
/// The first number that SLURM keeps for steps of its own.
const STEPS_MAX: u32 = 0xffff_fff0;

/// Measures marked processes.
#[derive(Debug)]
pub struct MarkedProcesses {
    marks: Vec<Vec<u8>>,
    /// Those of the last look, by number and start time.
    known: HashMap<(i32, u64), MarkedProcess>,
    /// CPU time of those that ended and whose parent is not counted here.
    ended_ticks: u64,
    ended_read_bytes: u64,
    ended_written_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct MarkedProcess {
    ticks: u64,
    read_bytes: u64,
    written_bytes: u64,
    /// Its parent, which has its time after it ended.
    parent: i32,
}

impl MarkedProcesses {
    /// For processes whose environment has all of these, as `NAME=value`.
    pub fn new(marks: Vec<Vec<u8>>) -> Self {
        Self {
            marks,
            known: HashMap::new(),
            ended_ticks: 0,
            ended_read_bytes: 0,
            ended_written_bytes: 0,
        }
    }

    /// Whether a process carries the marks now.
    pub fn is_marked(&self, pid: i32) -> bool {
        let Some(bytes) = environment(pid) else {
            return false;
        };
        let has = |mark: &Vec<u8>| bytes.split(|byte| *byte == 0).any(|one| one == mark);
        !self.marks.is_empty() && self.marks.iter().all(has)
    }

    /// Steps of SLURM that marked processes here belong to, as `JOB.STEP`.
    pub fn steps(&self) -> BTreeSet<String> {
        let marked = stats().into_keys().filter(|pid| self.is_marked(*pid));
        marked.filter_map(step).collect()
    }

    /// All marked processes that live.
    pub fn processes(&self) -> Vec<ProcessId> {
        let marked = stats().into_iter().filter(|(pid, _)| self.is_marked(*pid));
        marked
            .filter_map(|(pid, _)| ProcessId::of(pid).ok())
            .collect()
    }

    /// Numbers of the processes that were measured last.
    pub fn measured(&self) -> impl Iterator<Item = i32> {
        self.known.keys().map(|(pid, _)| *pid)
    }

    /// Adds up marked processes that are not in the trees of `others`, whose processes are
    /// measured elsewhere. Sums never fall by the end of a process.
    pub fn measure(&mut self, others: &[ProcessId]) -> Usage {
        let all = stats();
        let is_others = |pid: i32| {
            let mut pid = pid;
            // A tree is never deeper than its processes are many.
            for _ in 0..all.len() {
                if others.iter().any(|other| other.pid == pid) {
                    return true;
                }
                match all.get(&pid) {
                    Some(stat) if stat.ppid > 1 => pid = stat.ppid,
                    Some(_) | None => return false,
                }
            }
            false
        };
        let mut marked: HashMap<i32, Stat> = HashMap::new();
        for (pid, stat) in &all {
            if marked.len() < PROCESSES_MAX && self.is_marked(*pid) && !is_others(*pid) {
                marked.insert(*pid, *stat);
            }
        }
        let mut usage = Usage::default();
        let mut known = HashMap::new();
        for (pid, stat) in &marked {
            let (read_bytes, written_bytes) = io_bytes(*pid);
            usage.processes += 1;
            usage.threads += stat.threads;
            usage.rss_bytes += stat.rss_pages * page_size() as u64;
            let waited = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
            let now = MarkedProcess {
                ticks: stat.user_ticks + stat.system_ticks + waited_ticks(&waited),
                read_bytes,
                written_bytes,
                parent: stat.ppid,
            };
            known.insert((*pid, stat.start_ticks), now);
        }
        let gone = self
            .known
            .iter()
            .filter(|(key, _)| !known.contains_key(key));
        for (_, gone) in gone.filter(|(_, gone)| !marked.contains_key(&gone.parent)) {
            self.ended_ticks += gone.ticks;
            self.ended_read_bytes += gone.read_bytes;
            self.ended_written_bytes += gone.written_bytes;
        }
        self.known = known;
        let ticks: u64 = self.known.values().map(|one| one.ticks).sum();
        let of = |bytes: fn(&MarkedProcess) -> u64| self.known.values().map(bytes).sum::<u64>();
        usage.cpu_ms = (ticks + self.ended_ticks) * 1000 / clock_ticks_per_second().max(1);
        usage.read_bytes = of(|one| one.read_bytes) + self.ended_read_bytes;
        usage.written_bytes = of(|one| one.written_bytes) + self.ended_written_bytes;
        usage
    }
}

/// What a process was started with, as far as it may be read.
fn environment(pid: i32) -> Option<Vec<u8>> {
    let file = fs::File::open(format!("/proc/{pid}/environ")).ok()?;
    let mut bytes = Vec::new();
    let read = file.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut bytes);
    read.is_ok().then_some(bytes)
}

/// The step of SLURM that a process is in.
fn step(pid: i32) -> Option<String> {
    let bytes = environment(pid)?;
    let number = |name: &str| {
        let mut each = bytes.split(|byte| *byte == 0);
        let value = each.find_map(|one| one.strip_prefix(name.as_bytes()))?;
        str::from_utf8(value).ok()?.parse::<u32>().ok()
    };
    let (job, step) = (number("SLURM_JOB_ID=")?, number("SLURM_STEP_ID=")?);
    // The batch script has a step, too, with a number that is none.
    (step < STEPS_MAX).then(|| format!("{job}.{step}"))
}

/// Every process that lives here.
fn stats() -> HashMap<i32, Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let stats = pids.filter_map(|pid| Some((pid, Stat::read(pid).ok()?)));
    stats
        .filter(|(_, stat)| !matches!(stat.state, b'Z' | b'X' | b'x'))
        .collect()
}

/// Bytes that a process read from and wrote to storage.
fn io_bytes(pid: i32) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let of = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.parse().ok())
    };
    let (read, written) = (of("read_bytes: "), of("write_bytes: "));
    (read.unwrap_or(0), written.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn marked_processes_are_found_wherever_they_are_and_their_time_stays() {
        let value = format!("marked-{}", std::process::id());
        let mark = format!("NERO_TEST={value}").into_bytes();
        // The inner shell works until it has used some time, and ends.
        let lines = "sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; read x' & read y";
        let mut child = Command::new("sh")
            .args([
                "-c",
                &format!("exec 3<&0; {}", lines.replace("read x", "read x <&3")),
            ])
            .env("NERO_TEST", &value)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut marked = MarkedProcesses::new(vec![mark]);
        let until = Instant::now() + Duration::from_secs(20);
        let mut usage = Usage::default();
        while (usage.processes < 2 || usage.cpu_ms == 0) && Instant::now() < until {
            usage = marked.measure(&[]);
        }
        assert_eq!(usage.processes, 2);
        assert!(usage.cpu_ms > 0 && usage.rss_bytes > 100_000);
        assert_eq!(marked.processes().len(), 2);
        let own = ProcessId::of(child.id() as i32).unwrap();
        assert_eq!(
            MarkedProcesses::new(marked.marks.clone())
                .measure(&[own])
                .processes,
            0
        );
        assert!(MarkedProcesses::new(Vec::new()).processes().is_empty());
        drop(child.stdin.take());
        child.wait().unwrap();
        let mut after = marked.measure(&[]);
        while after.processes > 0 && Instant::now() < until {
            after = marked.measure(&[]);
        }
        assert_eq!((after.processes, after.rss_bytes), (0, 0));
        assert!(after.cpu_ms >= usage.cpu_ms, "{after:?} {usage:?}");
    }
}
