//! The command of one firing of a rule, or a `local` step: run once.
//!
//! The watcher of a run (`run`) and neroman's daemon (`run_local`, `local`) start `nerokid act FOLDER …`,
//! and start it again when they began anew meanwhile. The folder decides: a lock
//! lets one of several work while the others wait, [`act::BEGUN`] is made before the command and
//! only once, and [`act::END`] tells how the command ended. So a command is begun once, whatever
//! is killed, and the death of the watcher or the daemon does not end it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nero_model::paths::{self, act};
use nero_model::process::ProcessHandle;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, setsid, waitpid,
};

use crate::processes::marked::MarkedProcesses;

/// Most that a command may print.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Processes that a command may have at once.
const PROCESSES_MAX: usize = 256;
/// Interval of looks at a command, at first and at most: one may work for days.
const LOOK: Duration = Duration::from_millis(20);
const LOOK_MAX: Duration = Duration::from_millis(500);
/// Time between the polite signal and the final one.
const GRACE: Duration = Duration::from_secs(2);
/// Time in which killed processes are waited for, and what they left in the pipe is read.
const GONE: Duration = Duration::from_secs(2);
/// The variable by which processes of a command are known to the next supervisor.
const MARK: &str = "NERO_ACT";

/// A command to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// Folder of this firing or step.
    pub folder: PathBuf,
    /// Time after which the command of a rule is ended. `None`: the command of a step, which may
    /// take as long, print as much and have as many processes as it likes, and ends when its folder
    /// is removed.
    pub limit: Option<Duration>,
    /// Folder in which the command runs.
    pub work: PathBuf,
    /// Text for `sh -c`.
    pub command: OsString,
}

/// Runs the command, unless it was begun before; returns when its end is in the folder.
///
/// # Errors
/// When the folder cannot be used.
pub fn act(act: &Act) -> Result<(), String> {
    let ended = once(act);
    if let Err(why) = &ended {
        // The watcher or the daemon learns the reason from this file alone.
        let _ = end(&act.folder, &format!("not run: {why}"), b"");
    }
    let Some((_lock, how, output)) = ended? else {
        return Ok(());
    };
    // A full disk may have room for the words alone.
    let told = end(&act.folder, &how, &output).or_else(|_| end(&act.folder, &how, b""));
    told.map_err(|error| format!("cannot write in {}: {error}", act.folder.display()))
}

/// Runs the command or finds out what became of it: the lock of the folder, how it ended, and
/// what it printed. `None`: that is in the folder. An error: nothing was run.
fn once(act: &Act) -> Result<Option<(File, String, Vec<u8>)>, String> {
    let folder = &act.folder;
    let failed = |error: io::Error| format!("cannot use {}: {error}", folder.display());
    let mut options = OpenOptions::new();
    let lock = options.create(true).append(true);
    let lock = lock.open(folder.join(act::LOCK)).map_err(failed)?;
    flock(lock.as_fd(), FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
    if folder.join(act::END).exists() {
        return Ok(None);
    }
    let begun = folder.join(act::BEGUN);
    let made = File::create_new(&begun).and_then(|file| file.sync_all());
    let (how, output) = match made.and_then(|()| paths::sync_parents(&begun)) {
        Ok(()) => run(act),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            end_marked(folder);
            (
                "interrupted: its supervisor was killed".to_owned(),
                Vec::new(),
            )
        }
        Err(error) => return Err(failed(error)),
    };
    Ok(Some((lock, how, output)))
}

/// Leaves the end of a command for the watcher or the daemon: complete or absent.
fn end(folder: &Path, how: &str, kept: &[u8]) -> io::Result<()> {
    let draft = folder.join("end.new");
    let mut file = File::create(&draft)?;
    file.write_all(how.as_bytes())?;
    file.write_all(b"\n")?;
    file.write_all(kept)?;
    file.sync_all()?;
    fs::rename(draft, folder.join(act::END))
}

/// Runs the command to its end; returns how it ended, for people, and what it printed.
fn run(act: &Act) -> (String, Vec<u8>) {
    // Fails only for a leader of a process group, which has no terminal of another then.
    let _ = setsid();
    // What the command leaves behind becomes a child of this process, which ends it.
    let _ = set_child_subreaper(Some(getpid()));
    let spawned = io::pipe().and_then(|(reader, writer)| {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(&act.command)
            .env(MARK, &act.folder)
            .current_dir(&act.work)
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .process_group(0);
        Ok((command.spawn()?, reader))
    });
    let (mut child, reader) = match spawned {
        Ok(spawned) => spawned,
        Err(error) => {
            let work = act.work.display();
            return (format!("not started in {work}: {error}"), Vec::new());
        }
    };
    let (send, ended) = mpsc::channel();
    let printed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&printed);
    thread::spawn(move || {
        // What prints too much is ended for that, and not by a pipe without a reader.
        let _ = send.send(tail_of(reader, &count));
    });
    let began = Instant::now();
    let how = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status_text(status),
            Ok(None) => {}
            Err(error) => break format!("its end is not known: {error}"),
        }
        let printed = printed.load(Ordering::Relaxed);
        let Some(limit) = over_limit(act, began.elapsed(), printed) else {
            thread::sleep((began.elapsed() / 50).clamp(LOOK, LOOK_MAX));
            continue;
        };
        signal(&descendants(), Signal::TERM);
        let until = Instant::now() + GRACE;
        while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
            thread::sleep(LOOK);
        }
        break limit;
    };
    end_all();
    (how, ended.recv_timeout(GONE).unwrap_or_default())
}

/// Why a command is ended, if it is.
fn over_limit(act: &Act, ran: Duration, printed: usize) -> Option<String> {
    let Some(limit) = act.limit else {
        // A file server that does not answer says nothing.
        let is_wanted = act.folder.join(act::BEGUN).try_exists().unwrap_or(true);
        return (!is_wanted).then(|| "ended: its run is over".to_owned());
    };
    if ran >= limit {
        Some(format!("ended by its limit of {} s", limit.as_secs()))
    } else if printed > OUTPUT_BYTES_MAX {
        let most = OUTPUT_BYTES_MAX >> 20;
        Some(format!("ended: it printed more than {most} MiB"))
    } else if descendants().len() > PROCESSES_MAX {
        Some(format!("ended: it had more than {PROCESSES_MAX} processes"))
    } else {
        None
    }
}

/// Reads an output to its end and returns what is kept of it; `count` has the bytes so far.
fn tail_of(mut from: impl Read, count: &AtomicUsize) -> Vec<u8> {
    let mut tail = Vec::new();
    let mut block = [0; 8192];
    loop {
        match from.read(&mut block) {
            Ok(0) => return tail,
            Ok(read) => {
                tail.extend_from_slice(&block[..read]);
                tail.drain(..tail.len().saturating_sub(act::KEPT_BYTES));
                count.fetch_add(read, Ordering::Relaxed);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // An output that cannot be read any more has ended.
            Err(_) => return tail,
        }
    }
}

fn status_text(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, signal) => format!("signal {}", signal.unwrap_or(0)),
    }
}

/// All processes below this one.
fn descendants() -> Vec<Pid> {
    let mut found: Vec<Pid> = Vec::new();
    let mut todo = vec![getpid()];
    while let Some(pid) = todo.pop() {
        let children = crate::processes::signals::children(pid.as_raw_nonzero().get());
        let children = children.into_iter().filter_map(Pid::from_raw);
        for child in children {
            found.push(child);
            todo.push(child);
        }
    }
    found
}

fn signal(processes: &[Pid], signal: Signal) {
    for pid in processes {
        // It was below this process a moment ago, which waits for its children in between.
        let _ = kill_process(*pid, signal);
    }
}

/// Ends what is left of a command whose supervisor was killed.
fn end_marked(folder: &Path) {
    let mark = [MARK.as_bytes(), b"=", folder.as_os_str().as_encoded_bytes()].concat();
    let marked = MarkedProcesses::new(vec![mark]);
    let until = Instant::now() + GONE;
    loop {
        let left = marked.processes();
        if left.is_empty() || Instant::now() >= until {
            return;
        }
        for process in left.iter().filter_map(ProcessHandle::open) {
            let _ = process.signal(Signal::KILL);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Ends everything below this process.
fn end_all() {
    let until = Instant::now() + GONE;
    loop {
        while let Ok(Some(_)) = waitpid(None, WaitOptions::NOHANG) {}
        let left = descendants();
        if left.is_empty() || Instant::now() >= until {
            return;
        }
        signal(&left, Signal::KILL);
        thread::sleep(Duration::from_millis(5));
    }
}
