//! The container of a start: how its job ended, and its removal.
//!
//! With podman and docker the job is the runtime's client: the container may outlive it, and
//! its exit code is not the job's. `nerokid-shim container RUN_DIR INCARNATION VERB` asks the
//! runtime. It is a program of its own, which shims and launchers start as a child: it may wait
//! and allocate, it may die at any instruction, and it may be started again, also beside another
//! one. What it needs lies in a file of the run's folder, which neromum makes before the start.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nero_model::paths::run::{self as names, ContainerVerb};

use crate::sys;

/// Time that a runtime has for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Bytes of a runtime's complaint that are kept.
const COMPLAINT_BYTES_MAX: usize = 400;
/// Time for which a start waits until the container of an earlier one is gone.
const CLEAR_MAX: Duration = Duration::from_secs(60);
/// Time for which a daemon may go on to make a container whose client has ended.
const LATE: Duration = Duration::from_secs(3);
/// Pause between two tries of it.
const CLEAR_PAUSE: Duration = Duration::from_secs(2);
/// Exit code of a start that cannot begin. The runtimes have the same code for what they refuse.
const REFUSED: u8 = 125;
/// How the state of a container is asked for.
const FORMAT: &str = "{{.State.Status}} {{.State.ExitCode}} {{.State.OOMKilled}}";

/// A container, as its file describes it.
struct Container {
    program: PathBuf,
    name: String,
    environment: Vec<(OsString, OsString)>,
    folder: PathBuf,
}

/// Runs `container RUN_DIR INCARNATION VERB [WORDS]`; `None`: the arguments are wrong.
pub fn run(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    sys::block_child_signal();
    let run_dir = PathBuf::from(arguments.next()?);
    let incarnation = arguments.next()?.to_str()?.parse().ok()?;
    let verb = arguments.next()?;
    let code = match ContainerVerb::from_word(verb.to_str()?)? {
        ContainerVerb::Close => match close(&run_dir, incarnation) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                let path = names::container_fault(&run_dir, incarnation);
                // The fault is told again by the next try.
                let _ = fs::write(path, &why);
                ExitCode::FAILURE
            }
        },
        ContainerVerb::Pause => change(&run_dir, incarnation, "pause"),
        ContainerVerb::Resume => change(&run_dir, incarnation, "unpause"),
        ContainerVerb::Start => start(&run_dir, incarnation, arguments),
    };
    Some(code)
}

/// Notes how the job ended, then removes the container.
fn close(run_dir: &Path, incarnation: u32) -> Result<(), String> {
    let container = Container::read(run_dir, incarnation)
        .map_err(|error| format!("the description of its container cannot be read: {error}"))?;
    let report = names::container_end(run_dir, incarnation);
    if !report.exists() {
        let is_known = container.report(&report)?;
        if !is_known && container.is_remote() {
            // A daemon that stood still carries out what its client asked for before it died.
            std::thread::sleep(LATE);
        }
    }
    container.remove()
}

/// Stops or continues the processes of a container that are no descendants of its client.
fn change(run_dir: &Path, incarnation: u32, verb: &str) -> ExitCode {
    let Ok(container) = Container::read(run_dir, incarnation) else {
        return ExitCode::FAILURE;
    };
    if !container.is_remote() {
        return ExitCode::SUCCESS;
    }
    match container.ask(&[verb]) {
        Ok(answer) if answer.succeeded => ExitCode::SUCCESS,
        Ok(_) | Err(_) => ExitCode::FAILURE,
    }
}

/// Removes the containers of earlier starts, then becomes the job.
fn start(run_dir: &Path, incarnation: u32, words: impl Iterator<Item = OsString>) -> ExitCode {
    // What is to be seen inside must be there.
    let logged = run_dir.join(incarnation.to_string()).join(names::LOGGED);
    if let Err(error) = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&logged)
    {
        eprintln!("neronet: cannot make {}: {error}", logged.display());
        return ExitCode::from(REFUSED);
    }
    let until = Instant::now() + CLEAR_MAX;
    for earlier in 1..incarnation {
        if !names::container(run_dir, earlier).exists() {
            continue;
        }
        while let Err(why) = close(run_dir, earlier) {
            if Instant::now() >= until {
                eprintln!("neronet: the container of an earlier start may still run: {why}");
                return ExitCode::from(REFUSED);
            }
            std::thread::sleep(CLEAR_PAUSE);
        }
    }
    let words: Vec<OsString> = words.collect();
    let Some((program, rest)) = words.split_first() else {
        return ExitCode::from(REFUSED);
    };
    let error = Command::new(program).args(rest).exec();
    eprintln!("{}: {error}", program.display());
    ExitCode::from(127)
}

/// An answer of a runtime.
struct RuntimeAnswer {
    succeeded: bool,
    output: String,
    complaint: String,
}

impl RuntimeAnswer {
    /// Whether the runtime knows no container of this name. "no such file" is what a client says
    /// of its daemon's socket, and tells nothing of the container.
    fn is_missing(&self) -> bool {
        let complaint = self.complaint.to_lowercase();
        ["no such container", "no such object"]
            .iter()
            .any(|words| complaint.contains(words))
    }
}

impl Container {
    /// Reads the file that neromum made: program, name, then variables, with a NUL behind each.
    fn read(run_dir: &Path, incarnation: u32) -> io::Result<Self> {
        let bytes = fs::read(names::container(run_dir, incarnation))?;
        let mut fields = bytes
            .split(|byte| *byte == 0)
            .map(|field| OsString::from_vec(field.to_vec()));
        let (Some(program), Some(name)) = (fields.next(), fields.next()) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let name = name.into_string().unwrap_or_default();
        if name.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let environment = fields.filter_map(|field| {
            let at = field.as_bytes().iter().position(|byte| *byte == b'=')?;
            let (variable, value) = field.as_bytes().split_at(at);
            let of = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
            Some((of(variable), of(&value[1..])))
        });
        Ok(Self {
            program: program.into(),
            name,
            environment: environment.collect(),
            folder: run_dir.join(incarnation.to_string()),
        })
    }

    /// Whether the container's processes belong to a daemon, and to no tree of ours.
    fn is_remote(&self) -> bool {
        self.runtime() == "docker"
    }

    fn runtime(&self) -> String {
        let name = self.program.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Writes down the exit code, if the container has one, and returns whether the runtime knows
    /// the container. The first report stays: another process may have removed the container since.
    fn report(&self, path: &Path) -> Result<bool, String> {
        let answer = self.ask(&["inspect", "--type", "container", "--format", FORMAT])?;
        let is_known = answer.succeeded;
        let text = if is_known {
            answer.output
        } else if answer.is_missing() {
            String::new()
        } else {
            return Err(self.fault(&answer));
        };
        let private = self
            .folder
            .join(format!(".container-{}", std::process::id()));
        let written = fs::write(&private, text).and_then(|()| fs::hard_link(&private, path));
        // A file that stays goes with the run's folder.
        let _ = fs::remove_file(&private);
        match written {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(format!("cannot write {}: {error}", path.display()))
            }
            Ok(()) | Err(_) => Ok(is_known),
        }
    }

    /// Ends and removes the container. A container that does not exist counts as removed.
    fn remove(&self) -> Result<(), String> {
        let options: &[&str] = if self.is_remote() {
            &["rm", "-f"]
        } else {
            &["rm", "-f", "-t", "0", "--ignore"]
        };
        let answer = self.ask(options)?;
        if answer.succeeded || answer.is_missing() {
            Ok(())
        } else {
            Err(self.fault(&answer))
        }
    }

    fn fault(&self, answer: &RuntimeAnswer) -> String {
        let line = answer
            .complaint
            .lines()
            .find(|line| !line.trim().is_empty());
        format!(
            "{} does not answer: {}; the container {} may still run, and the run ends when it is removed",
            self.runtime(),
            line.unwrap_or("no reason was given"),
            self.name
        )
    }

    /// Asks the runtime about the container, whose name is the last word.
    fn ask(&self, words: &[&str]) -> Result<RuntimeAnswer, String> {
        let unable =
            |error: io::Error| format!("{} cannot be executed: {error}", self.program.display());
        let mut child = Command::new(&self.program)
            .args(words)
            .arg(&self.name)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(unable)?;
        if !ended_in_time(&mut child).map_err(unable)? {
            // It is reaped by our own end.
            let _ = child.kill();
            return Err(format!(
                "{} does not answer; the container {} may still run, and the run ends when it is removed",
                self.runtime(),
                self.name
            ));
        }
        let succeeded = child.wait().map_err(unable)?.success();
        let mut answer = RuntimeAnswer {
            succeeded,
            output: String::new(),
            complaint: String::new(),
        };
        let read = |stream: Option<&mut dyn io::Read>, text: &mut String| {
            // A pipe holds such answers whole.
            let mut bytes = Vec::new();
            if let Some(stream) = stream {
                let _ = stream
                    .take(COMPLAINT_BYTES_MAX as u64)
                    .read_to_end(&mut bytes);
            }
            *text = String::from_utf8_lossy(&bytes).into_owned();
        };
        read(
            child.stdout.as_mut().map(|stream| stream as _),
            &mut answer.output,
        );
        read(
            child.stderr.as_mut().map(|stream| stream as _),
            &mut answer.complaint,
        );
        Ok(answer)
    }
}

/// Waits for a child's end; false when it takes too long. The signal of its end is blocked, so
/// that none is missed.
fn ended_in_time(child: &mut Child) -> io::Result<bool> {
    let until = Instant::now() + ANSWER_MAX;
    loop {
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        sys::wait_for_signal(Some(left));
    }
}
