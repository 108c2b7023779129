//! Signals that rules send to the processes of a job.

use std::fs;

use nero_model::process::{ProcessHandle, ProcessId, Stat};
use rustix::process::Signal;

/// Processes of one job that get a signal.
const PROCESSES_MAX: usize = 4096;

/// Sends a signal to the job's main process and all below it; returns how many processes
/// it reached.
///
/// All of them are found before the first gets it, since a process that ends at it leaves
/// its children to another parent.
pub fn send(job: &ProcessId, number: u8) -> usize {
    let Some(signal) = Signal::from_named_raw(i32::from(number)) else {
        return 0;
    };
    let tree = tree(job);
    let reached = tree.iter().filter(|handle| handle.signal(signal).is_ok());
    reached.count()
}

/// Handles of the job's processes, its main process first. Each was a child of one before it
/// when its handle was there already, so none belongs to a later process with that number.
fn tree(job: &ProcessId) -> Vec<ProcessHandle> {
    let Some(main) = ProcessHandle::open(job) else {
        return Vec::new();
    };
    let (mut handles, mut pids) = (vec![main], vec![job.pid]);
    let mut next = 0;
    while let Some(&parent) = pids.get(next) {
        next += 1;
        for pid in children(parent) {
            if handles.len() == PROCESSES_MAX || pids.contains(&pid) {
                continue;
            }
            let child = ProcessId::of(pid).ok();
            let handle = child
                .and_then(|child| ProcessHandle::open(&child))
                .filter(|_| Stat::read(pid).is_ok_and(|stat| stat.ppid == parent));
            if let Some(handle) = handle {
                handles.push(handle);
                pids.push(pid);
            }
        }
    }
    handles
}

/// The children that the threads of a process made.
pub fn children(pid: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        // It has ended.
        return Vec::new();
    };
    let lists = threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let lists: Vec<String> = lists.collect();
    let words = lists.iter().flat_map(|list| list.split_whitespace());
    words.filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_signal_reaches_the_whole_tree_and_no_later_process_of_the_same_number() {
        // The inner shell ends at the signal by default; the outer one tells of both.
        let mut job = Command::new("sh")
            .args([
                "-c",
                "trap 'echo outer' USR1; sh -c 'echo ready; read x'; echo inner $?; exit 0",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = job.stdout.take().unwrap();
        let mut ready = [0; 6];
        output.read_exact(&mut ready).unwrap();
        let id = ProcessId::of(job.id() as i32).unwrap();
        let later = ProcessId {
            start_ticks: id.start_ticks + 1,
            ..id
        };
        assert_eq!(send(&later, 9), 0);
        assert_eq!(send(&id, 0), 0);
        assert_eq!(send(&id, 10), 2);
        let mut told = String::new();
        output.read_to_string(&mut told).unwrap();
        let lines: Vec<&str> = told.lines().collect();
        assert!(
            lines.contains(&"outer") && lines.contains(&"inner 138"),
            "{told}"
        );
        assert_eq!(job.wait().unwrap().into_raw(), 0);
        assert_eq!(send(&id, 9), 0, "it is gone");
    }
}
