//! The process that limits itself, has `python3` run the driver, and leaves no process behind.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, getpid, kill_process, pidfd_open,
    set_child_subreaper, setrlimit, waitpid,
};

use nero_child::ADDRESS_SPACE_MAX;

use crate::{DRIVER, FILE_BYTES_MAX, ModulesLimits};

/// Interval of looks at a process for which the kernel has no descriptor.
const LOOK: Duration = Duration::from_millis(20);

/// Runs the driver in the folder that the command line names behind the verb, before the limits,
/// and prints how it ended.
pub fn run_modules(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let folder = arguments.next();
    let mut number = || arguments.next()?.to_str()?.parse().ok();
    let (Some(folder), Some(cpu_seconds), Some(seconds)) = (folder, number(), number()) else {
        return ExitCode::from(2);
    };
    let limits = ModulesLimits {
        cpu_seconds,
        seconds,
    };
    match run(Path::new(&folder), limits) {
        Ok(ended) => {
            println!("{ended}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("not started: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(folder: &Path, limits: ModulesLimits) -> io::Result<String> {
    limit(limits)?;
    // What the modules start and leave behind becomes a child of this process.
    set_child_subreaper(Some(getpid()))?;
    let printed = || io::stderr().as_fd().try_clone_to_owned().map(Stdio::from);
    let mut python = Command::new("python3")
        .args(["-B", "-X", "utf8", DRIVER])
        .current_dir(folder)
        .env("MPLBACKEND", "Agg")
        .env("MPLCONFIGDIR", folder)
        // A library that starts a thread for each core reserves memory for each.
        .envs(
            ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"].map(|name| (name, "1")),
        )
        .stdin(Stdio::null())
        .stdout(printed()?)
        .stderr(printed()?)
        .spawn()?;
    let ended = wait(&mut python, limits);
    end_all();
    Ok(match ended? {
        None => "time".to_owned(),
        Some(status) => match (status.signal(), status.code()) {
            (Some(signal), _) if signal == Signal::XCPU.as_raw() => "cpu".to_owned(),
            (Some(signal), _) => format!("signal {signal}"),
            (None, Some(code)) => format!("exit {code}"),
            (None, None) => status.to_string(),
        },
    })
}

/// Limits this process and what it starts.
fn limit(limits: ModulesLimits) -> io::Result<()> {
    if !nero_model::limits::limit(ADDRESS_SPACE_MAX, limits.cpu_seconds) {
        return Err(io::Error::last_os_error());
    }
    let bytes = Some(FILE_BYTES_MAX);
    let limit = Rlimit {
        current: bytes,
        maximum: bytes,
    };
    Ok(setrlimit(Resource::Fsize, limit)?)
}

/// Waits for the process; `None`: its time was over.
fn wait(python: &mut Child, limits: ModulesLimits) -> io::Result<Option<ExitStatus>> {
    let pid = Pid::from_child(python);
    // Before Linux 5.3 there is no such descriptor.
    let ended = pidfd_open(pid, PidfdFlags::empty()).ok();
    let until = Instant::now() + Duration::from_secs(limits.seconds);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let Some(ended) = &ended else {
            match python.try_wait()? {
                None if left.is_zero() => return Ok(None),
                None => std::thread::sleep(left.min(LOOK)),
                ended => return Ok(ended),
            }
            continue;
        };
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(ended, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Ok(None),
            Ok(_) => return python.wait().map(Some),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Ends every process that is left. An ended one hands its children to this process: it goes on
/// until there are none.
fn end_all() {
    let mut tries = 0;
    while let Some(children) = children().filter(|found| !found.is_empty()) {
        for child in children {
            // A child that was not waited for keeps its number.
            let _ = kill_process(child, Signal::KILL);
            let _ = waitpid(Some(child), WaitOptions::empty());
        }
        tries += 1;
        if tries > ROUNDS_MAX {
            return;
        }
    }
}

/// A module that starts processes without end is not chased for longer.
const ROUNDS_MAX: u32 = 10_000;

/// The children of this process.
fn children() -> Option<Vec<Pid>> {
    let me = getpid().as_raw_nonzero();
    let text = std::fs::read_to_string(format!("/proc/self/task/{me}/children")).ok()?;
    let pids = text.split_ascii_whitespace();
    Some(
        pids.filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
            .collect(),
    )
}
