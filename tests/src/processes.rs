//! The processes that belong to a home, with their parts.

use std::fs;
use std::path::Path;
use std::process::Child;

use nero_model::process::{ProcessId, Stat};
use rustix::process::Pid;

/// A part that can be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// A command of a user that has not returned.
    Client,
    /// neroman's daemon.
    Daemon,
    /// A child of the daemon or of a command that reads or writes tables, or draws.
    Office,
    /// The agent of the node.
    Mum,
    /// The agent in an allocation of a scheduler.
    Allocation,
    /// The process from which shims are forked.
    Launcher,
    /// The supervisor of one run.
    Shim,
    /// Reads the output of a run.
    Watcher,
    /// A connection to another machine, or the master of one.
    Ssh,
    /// The other machine's end of the connection to its agent.
    Dial,
    /// Anything else: jobs and what they started.
    Job,
}

/// Waits for a child, whatever its end; the most memory that it had resident.
pub fn peak_bytes(child: &Child) -> u64 {
    let pid = Pid::from_child(child).as_raw_nonzero().get();
    // SAFETY: rusage is plain numbers; the call fills both places, which outlive it.
    let (ended, usage) = unsafe {
        let (mut status, mut usage): (_, libc::rusage) = (0, std::mem::zeroed());
        (libc::wait4(pid, &raw mut status, 0, &raw mut usage), usage)
    };
    assert_eq!(ended, pid, "the child is waited for");
    u64::try_from(usage.ru_maxrss).expect("a size") * 1024
}

/// The most memory that a live process had resident.
pub fn peak_bytes_now(process: &ProcessId) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.pid)).expect("it lives");
    let mut lines = status.lines();
    let peak = lines.find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    peak.expect("a size") * 1024
}

/// Every live process that belongs to the home at `base`, by part.
pub fn parts(base: &Path) -> Vec<(Part, ProcessId)> {
    let base = base.as_os_str().as_encoded_bytes();
    let all = fs::read_dir("/proc").expect("/proc is there").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    among(pids.filter(|pid| belongs(*pid, base)))
}

/// The parts of these live processes; a process that is no program of ours is a
/// job.
pub fn among(pids: impl Iterator<Item = i32>) -> Vec<(Part, ProcessId)> {
    let mut found: Vec<(Part, ProcessId)> = pids
        .filter_map(|pid| Some((part_of(pid)?, ProcessId::of(pid).ok()?)))
        .collect();
    found.sort_by_key(|(part, id)| (*part, id.start_ticks, id.pid));
    found
}

fn belongs(pid: i32, base: &[u8]) -> bool {
    let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    holds(&read("cmdline"), base) || holds(&read("environ"), base)
}

fn part_of(pid: i32) -> Option<Part> {
    let stat = Stat::read(pid).ok()?;
    if stat.state == b'Z' {
        return None;
    }
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<&[u8]> = command.split(|byte| *byte == 0).collect();
    let program = words
        .first()
        .and_then(|word| word.rsplit(|byte| *byte == b'/').next());
    let has = |word: &[u8]| words.contains(&word);
    Some(match program {
        Some(b"neroman") if has(b"daemon") && has(b"run") => Part::Daemon,
        Some(b"neroman") => Part::Client,
        Some(b"neroman-office") => Part::Office,
        Some(b"neromum") if has(b"dial") => Part::Dial,
        Some(b"neromum") if has(b"job") => Part::Allocation,
        Some(b"neromum") => Part::Mum,
        Some(b"nerokid-shim") if listens(pid) => Part::Launcher,
        Some(b"nerokid-shim") => Part::Shim,
        Some(b"nerokid") => Part::Watcher,
        Some(b"ssh") => Part::Ssh,
        _ => Part::Job,
    })
}

/// A shim is forked from the launcher and has the same command line; it has
/// closed every socket.
fn listens(pid: i32) -> bool {
    fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| {
            fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
        })
}

fn holds(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
