//! A user's own reader of metrics: a program that gets the run's output, and whose lines
//! are read as a file of metrics is.
//!
//! A watcher that begins starts the program anew, with the output from its first byte: what
//! the program had in mind died with the former watcher. As many of its lines as gave points
//! before give none again, so it must print the same for the same output.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use nero_model::ProcessId;
use nero_model::ids::hex;
use nero_model::paths::run;
use nero_model::process::ProcessHandle;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, kill_process_group, prlimit, waitid,
};

use crate::folder::place::WatchedStart;

/// Limit of what a reader prints, and of what it says on standard error.
pub const OUTPUT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Characters of a reader's command that people are told.
const NAME_CHARS_MAX: usize = 80;
/// Bytes handed over at once.
const BLOCK_BYTES: usize = 64 * 1024;
/// Bytes at the end of standard error in which its last line is looked for.
const LAST_WORDS_BYTES: u64 = 512;

/// The file with what a reader of the run prints.
pub fn output(place: &WatchedStart, number: usize) -> PathBuf {
    file(place, number, "out")
}

fn file(place: &WatchedStart, number: usize, ending: &str) -> PathBuf {
    let name = format!("{}{number}.{ending}", run::READER_PREFIX);
    place.folder.join(name)
}

/// One reader, as it works for this watcher.
#[derive(Debug)]
pub struct OutputReader {
    name: String,
    process: Option<Child>,
    feed: Arc<Feed>,
    output: PathBuf,
    errors: PathBuf,
    /// Tells the next watcher which process to end.
    noted: PathBuf,
    /// What is to be told of it.
    problem: Option<String>,
}

/// What the watcher tells the thread that hands the output over.
#[derive(Debug, Default)]
struct Feed {
    state: Mutex<FeedState>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct FeedState {
    /// The output may have grown.
    has_grown: bool,
    /// The output does not grow any more.
    is_last: bool,
    /// Bytes handed over.
    fed: u64,
}

impl Feed {
    fn state(&self) -> std::sync::MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, is_last: bool) {
        let mut state = self.state();
        state.has_grown = true;
        state.is_last |= is_last;
        self.changed.notify_one();
    }

    /// Hands a log over as it grows. A reader that takes nothing stops this thread alone.
    fn hand_over(&self, log: &Path, mut to: ChildStdin) -> io::Result<()> {
        let mut block = vec![0; BLOCK_BYTES];
        let mut offset = 0;
        let mut file = None;
        loop {
            // The last look begins after it is known to be the last one.
            let is_last = {
                let waits = |state: &mut FeedState| !state.has_grown;
                let state = self.changed.wait_while(self.state(), waits);
                let mut state = state.unwrap_or_else(PoisonError::into_inner);
                state.has_grown = false;
                state.is_last
            };
            if file.is_none() {
                file = nero_journal::open(log).ok();
            }
            while let Some(file) = &file {
                let got = match file.read_at(&mut block, offset) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    got => got?,
                };
                if got == 0 {
                    // The job truncated its log: what it prints from then on follows.
                    if file.metadata()?.len() >= offset {
                        break;
                    }
                    offset = 0;
                    continue;
                }
                to.write_all(&block[..got])?;
                offset += got as u64;
                self.state().fed += got as u64;
            }
            if is_last {
                return Ok(());
            }
        }
    }
}

impl OutputReader {
    /// Starts a reader of the run's standard output, after the one of a former watcher was
    /// ended.
    pub fn start(place: &WatchedStart, number: usize, argv: &[String]) -> Self {
        let mut reader = Self {
            name: shortened(argv),
            process: None,
            feed: Arc::default(),
            output: output(place, number),
            errors: file(place, number, "err"),
            noted: file(place, number, "pid"),
            problem: None,
        };
        if let Err(error) = reader.spawn(place, argv) {
            reader.problem = Some(format!("cannot be started: {error}"));
        }
        reader
    }

    fn spawn(&mut self, place: &WatchedStart, argv: &[String]) -> io::Result<()> {
        end_noted(&self.noted);
        let output = create_anew(&self.output)?;
        let errors = create_anew(&self.errors)?;
        let Some((program, arguments)) = argv.split_first() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let work = run::work_folder(&place.run, place.incarnation);
        // A path is one in the work folder; a name is looked for on the `PATH`.
        let program = if program.contains('/') {
            work.join(program)
        } else {
            PathBuf::from(program)
        };
        let mut command = Command::new(program);
        match fs::read(run::reader_environment(&place.run, place.incarnation)) {
            Ok(kept) => {
                command.env_clear().envs(variables(&kept));
            }
            // A neromum of an earlier version keeps no environment: the reader has the watcher's.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut child = command
            .args(arguments)
            .current_dir(&work)
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .spawn()?;
        let limit = Rlimit {
            current: Some(OUTPUT_BYTES_MAX),
            maximum: Some(OUTPUT_BYTES_MAX),
        };
        // What it started before this has no limit; the size is looked at, too.
        let _ = prlimit(Some(Pid::from_child(&child)), Resource::Fsize, limit);
        if let Ok(process) = ProcessId::of(child.id().cast_signed()) {
            let _ = fs::write(&self.noted, note(&process));
        }
        let stdin = child.stdin.take();
        self.process = Some(child);
        let stdin = stdin.ok_or(io::ErrorKind::BrokenPipe)?;
        let (feed, log) = (Arc::clone(&self.feed), place.folder.join(run::STDOUT));
        std::thread::Builder::new()
            .name("reader".to_owned())
            .stack_size(64 * 1024)
            .spawn(move || {
                // A reader that ends early takes no more; its end is told.
                let _ = feed.hand_over(&log, stdin);
            })?;
        Ok(())
    }

    /// What people are told that it is.
    pub fn title(&self) -> String {
        format!("the reader `{}`", self.name)
    }

    /// What it prints.
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// Hands over what is new, and checks how the process does.
    pub fn check(&mut self) {
        self.feed.tell(false);
        let Some(child) = &mut self.process else {
            return;
        };
        let size = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
        let is_full = [&self.output, &self.errors]
            .into_iter()
            .any(|path| size(path) >= OUTPUT_BYTES_MAX);
        let pid = Pid::from_child(child);
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let has_ended = !matches!(waitid(WaitId::Pid(pid), options), Ok(None));
        if !has_ended && !is_full {
            return;
        }
        // Its number is its own until it is waited for.
        let _ = kill_process_group(pid, Signal::KILL);
        let status = child.try_wait().ok().flatten();
        self.process = None;
        let is_last = self.feed.state().is_last;
        self.problem = match status {
            _ if is_full => Some(format!(
                "was ended: it wrote more than {} MiB",
                OUTPUT_BYTES_MAX >> 20
            )),
            Some(status) if is_last && status.success() => None,
            Some(status) => {
                let before = if is_last {
                    ""
                } else {
                    " before the output did"
                };
                let words =
                    last_line(&self.errors).map_or(String::new(), |line| format!(": {line}"));
                Some(format!("ended{before} with {}{words}", status_text(status)))
            }
            None => Some("ended".to_owned()),
        };
    }

    /// The output does not grow any more: the reader is to end.
    pub fn is_last(&self) {
        self.feed.tell(true);
    }

    /// Bytes that it took and printed; `None` when it is not there any more.
    pub fn work(&self) -> Option<u64> {
        self.process.as_ref()?;
        let printed = fs::metadata(&self.output).map_or(0, |found| found.len());
        Some(printed + self.feed.state().fed)
    }

    /// Ends it.
    pub fn end(&mut self, why: String) {
        if let Some(child) = self.process.take() {
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
            self.problem = Some(why);
        }
    }

    /// What is to be told of it, once.
    pub fn news(&mut self) -> Option<String> {
        let problem = self.problem.take()?;
        Some(format!("{} {problem}", self.title()))
    }

    /// Removes its files: all that they say is recorded.
    pub fn sweep(&self) {
        for path in [&self.output, &self.errors, &self.noted] {
            let _ = fs::remove_file(path);
        }
    }
}

/// The variables of an environment with a NUL behind each.
pub fn variables(kept: &[u8]) -> impl Iterator<Item = (&OsStr, &OsStr)> {
    let each = kept.split(|byte| *byte == 0);
    each.filter_map(|var| {
        let at = var.iter().position(|byte| *byte == b'=')?;
        let os = |bytes| OsStr::from_bytes(bytes);
        Some((os(&var[..at]), os(&var[at + 1..])))
    })
}

/// A command as people recognise it.
fn shortened(argv: &[String]) -> String {
    let line = argv.join(" ");
    match line.char_indices().nth(NAME_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn status_text(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, signal) => format!("signal {}", signal.unwrap_or(0)),
    }
}

/// A file that no former reader writes to.
fn create_anew(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    // Appending: also what it starts writes at the end.
    let mut options = OpenOptions::new();
    options.append(true).create_new(true).mode(0o600).open(path)
}

/// A process as a file names it.
fn note(process: &ProcessId) -> String {
    let ProcessId {
        boot_id,
        pid_namespace,
        pid,
        start_ticks,
    } = process;
    format!("{} {pid_namespace} {pid} {start_ticks}\n", hex(boot_id))
}

/// Ends the process that a file names, with its process group. A reader whose watcher was killed
/// may not care for the end of its input.
fn end_noted(path: &Path) {
    let Ok(text) = fs::read_to_string(path) else {
        return;
    };
    let pid = text.split(' ').nth(2).and_then(|pid| pid.parse().ok());
    let process = pid.and_then(|pid| ProcessId::of(pid).ok());
    let Some(process) = process.filter(|process| note(process) == text) else {
        return;
    };
    let held = ProcessHandle::open(&process).zip(Pid::from_raw(process.pid));
    if let Some((_held, leader)) = held {
        let _ = kill_process_group(leader, Signal::KILL);
    }
}

/// The last line that a reader wrote to standard error.
fn last_line(path: &Path) -> Option<String> {
    let file = File::open(path).ok()?;
    let from = file.metadata().ok()?.len().saturating_sub(LAST_WORDS_BYTES);
    let mut bytes = vec![0; LAST_WORDS_BYTES as usize];
    let length = file.read_at(&mut bytes, from).ok()?;
    let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    line.map(|line| line.chars().filter(|c| !c.is_control()).collect())
}
