//! Deaths at a chosen system call, by `strace`.

use std::fs;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use crate::until;

/// Words for `strace` before a command: the command dies before its first thread makes the call
/// number `step` of these calls. What it starts is left alone.
pub fn dies_before(calls: &str, step: u64) -> Vec<String> {
    let dies = format!(
        "inject={calls}:signal={}:when={step}",
        Signal::KILL.as_raw()
    );
    let trace = format!("trace={calls}");
    let words = ["-qq", "-o", "/dev/null", "-e", &trace, "-e", &dies];
    words.map(str::to_owned).to_vec()
}

/// Kills a process before one of its threads makes the call number `step` from now on, of
/// these calls (`fsync,fdatasync`), and returns when that is sure to happen. The tracer ends
/// with the process.
///
/// # Panics
/// When `strace` cannot be started.
pub fn kill_before(pid: i32, calls: &str, step: u32) -> Child {
    let signal = Signal::KILL.as_raw();
    attach(pid, calls, &format!("signal={signal}:when={step}"))
}

/// Lets all of these calls of a process fail with an error (`EDQUOT`) from now on, until the tracer
/// is told to end by `SIGTERM`.
///
/// # Panics
/// When `strace` cannot be started.
pub fn fail(pid: i32, calls: &str, error: &str) -> Child {
    attach(pid, calls, &format!("error={error}"))
}

fn attach(pid: i32, calls: &str, what: &str) -> Child {
    let tracer = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-p", &pid.to_string()])
        .args(["-e", &format!("trace={calls}")])
        .args(["-e", &format!("inject={calls}:{what}")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("strace is installed: cargo xtask test");
    until("every thread of the process to be traced", || {
        let tasks = fs::read_dir(format!("/proc/{pid}/task"));
        let tasks = tasks.expect("it is alive").flatten();
        let status = |task: fs::DirEntry| fs::read_to_string(task.path().join("status"));
        let all: Vec<String> = tasks.filter_map(|task| status(task).ok()).collect();
        let untraced = all.iter().filter(|one| one.contains("TracerPid:\t0\n"));
        match untraced.count() {
            0 if !all.is_empty() => Ok(()),
            number => Err(number),
        }
    });
    tracer
}
