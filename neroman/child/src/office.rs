//! `neroman-office`, the program beside neroman that reads and writes files of people: tables,
//! workbooks, pictures, Parquet, Python modules.
//!
//! It is opened once and executed by its descriptor: a daemon keeps the one it began with when an
//! upgrade replaces the file. What the two say to each other may change with each build, so that
//! each call begins with [`BUILD`], and a program of another build refuses it.

use std::ffi::OsStr;
use std::io::{self, BufRead};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::process::Command;

use crate::{BUILD, ChildError, ChildLimits, EndedChild, KeptOutput, run};

/// The name of the program.
pub const OFFICE: &str = "neroman-office";
/// Its exit code when the caller is of another build.
pub const OTHER_BUILD: u8 = 87;

/// The longest wait on a busy machine, its disk included.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest answer.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// What is kept of the reasons that it prints.
const WHY_BYTES_MAX: usize = 4096;

/// The opened program.
#[derive(Debug)]
pub struct Office {
    program: OwnedFd,
    folder: PathBuf,
}

static OWN: OnceLock<Office> = OnceLock::new();

impl Office {
    /// The limits of a call whose answer is read whole.
    pub const LIMITS: ChildLimits = ChildLimits {
        out: KeptOutput::Whole(ANSWER_BYTES_MAX),
        err: WHY_BYTES_MAX,
        patience: PATIENCE,
        is_killed: true,
    };

    /// The program beside this one, as it was when it was first asked for.
    ///
    /// # Errors
    /// When it is not there.
    pub fn own() -> Result<&'static Self, ChildError> {
        if let Some(own) = OWN.get() {
            return Ok(own);
        }
        let own = std::env::current_exe().map_err(ChildError::system("find", OFFICE))?;
        let opened = Self::open(&own.with_file_name(OFFICE))?;
        Ok(OWN.get_or_init(|| opened))
    }

    /// Opens this file as the program.
    ///
    /// # Errors
    /// When it is not there.
    pub fn open(path: &Path) -> Result<Self, ChildError> {
        let folder = path.parent().unwrap_or(path).to_path_buf();
        match open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Ok(program) => Ok(Self { program, folder }),
            Err(rustix::io::Errno::NOENT) => Err(ChildError::Absent(folder)),
            Err(error) => Err(ChildError::system("open", OFFICE)(error.into())),
        }
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A call of this kind of work, without variables of this process. Words may follow.
    pub fn call(&self, verb: &str) -> Command {
        let program = format!("/proc/self/fd/{}", self.program.as_raw_fd());
        let mut command = Command::new(program);
        command.arg0(OFFICE).arg(BUILD).arg(verb).env_clear();
        command
    }

    /// Runs a call to its end.
    ///
    /// # Errors
    /// As of [`run()`]; when the program is of another build.
    pub async fn run(
        &self,
        call: Command,
        input: impl IntoIterator<Item = io::Result<Vec<u8>>>,
        limits: ChildLimits,
    ) -> Result<EndedChild, ChildError> {
        let ended = run(OFFICE, call, input, limits).await?;
        if ended.status.code() == Some(OTHER_BUILD.into()) {
            return Err(ChildError::OtherBuild(self.folder.clone()));
        }
        Ok(ended)
    }

    /// Runs a call with [`Self::LIMITS`]; returns what it prints.
    ///
    /// # Errors
    /// As of [`Self::ask_within`].
    pub async fn ask(
        &self,
        call: Command,
        input: impl IntoIterator<Item = io::Result<Vec<u8>>>,
    ) -> Result<Vec<u8>, ChildError> {
        self.ask_within(call, input, Self::LIMITS).await
    }

    /// Runs a call with these limits; returns what it prints.
    ///
    /// # Errors
    /// As of [`Self::run`]; when it met a limit of its own, or failed.
    pub async fn ask_within(
        &self,
        call: Command,
        input: impl IntoIterator<Item = io::Result<Vec<u8>>>,
        limits: ChildLimits,
    ) -> Result<Vec<u8>, ChildError> {
        let ended = self.run(call, input, limits).await?;
        if ended.status.success() {
            return Ok(ended.out);
        }
        Err(ChildError::of_end(ended.status, ended.last_words()))
    }

    /// As [`Self::ask`], of an answer in JSON.
    ///
    /// # Errors
    /// As of [`Self::ask`]; when the answer is none.
    pub async fn ask_json<T: DeserializeOwned>(
        &self,
        verb: &str,
        words: impl IntoIterator<Item = impl AsRef<OsStr>>,
        input: impl IntoIterator<Item = io::Result<Vec<u8>>>,
    ) -> Result<T, ChildError> {
        let mut call = self.call(verb);
        call.args(words);
        let answer = self.ask(call, input).await?;
        serde_json::from_slice(&answer)
            .map_err(|error| ChildError::Failed(format!("{OFFICE} gave no answer: {error}")))
    }
}

/// A line of input.
///
/// # Errors
/// When the value cannot be one, as a map whose keys are no texts.
pub fn json_line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// The value of the next line of input; `None` behind the last.
///
/// # Errors
/// When it cannot be read.
pub fn next_line<T: DeserializeOwned>(input: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    match input.read_until(b'\n', &mut line)? {
        0 => Ok(None),
        _ => Ok(Some(serde_json::from_slice(&line)?)),
    }
}

/// Waits for a call on a thread that runs no tasks.
///
/// # Errors
/// As the call; when the system refuses what waiting needs.
pub fn blocking<T>(call: impl Future<Output = Result<T, ChildError>>) -> Result<T, ChildError> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build();
    runtime
        .map_err(ChildError::system("wait for", OFFICE))?
        .block_on(call)
}
