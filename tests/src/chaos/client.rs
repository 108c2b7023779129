//! Commands of users, run beside one another while everything goes wrong.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// No command may take longer, whatever is broken: a loaded machine included.
pub const PATIENCE: Duration = Duration::from_secs(150);

/// A running command.
#[derive(Debug)]
pub struct Client<Why> {
    /// Its words.
    pub words: Vec<String>,
    /// What it was run for.
    pub why: Why,
    child: Child,
    out: std::path::PathBuf,
    began: Instant,
}

/// What became of a command.
#[derive(Debug)]
pub struct Answer<Why> {
    /// Its words.
    pub words: Vec<String>,
    /// What it was run for.
    pub why: Why,
    /// Its exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub out: Vec<u8>,
    /// What it said beside that.
    pub err: String,
    /// How long it took.
    pub took: Duration,
}

impl<Why> Client<Why> {
    /// Starts it; what it prints goes to files below `folder`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        mut command: Command,
        folder: &Path,
        number: usize,
        words: Vec<String>,
        why: Why,
    ) -> std::io::Result<Self> {
        let out = folder.join(number.to_string());
        let child = command
            .stdin(Stdio::null())
            .stdout(File::create(&out)?)
            .stderr(File::create(out.with_extension("err"))?)
            .process_group(0)
            .spawn()?;
        Ok(Self {
            words,
            why,
            child,
            out,
            began: Instant::now(),
        })
    }

    /// Its answer when it has ended; itself when not.
    ///
    /// # Errors
    /// When it takes longer than [`PATIENCE`]; it is ended then.
    pub fn look(mut self) -> Result<Result<Answer<Why>, Self>, String> {
        let status = self.child.try_wait().map_err(|error| error.to_string())?;
        let Some(status) = status else {
            if self.began.elapsed() > PATIENCE {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return Err(format!(
                    "neroman {} did not return within {PATIENCE:?}",
                    self.words.join(" ")
                ));
            }
            return Ok(Err(self));
        };
        Ok(Ok(Answer {
            code: status.code(),
            out: fs::read(&self.out).unwrap_or_default(),
            err: fs::read_to_string(self.out.with_extension("err")).unwrap_or_default(),
            took: self.began.elapsed(),
            words: self.words,
            why: self.why,
        }))
    }

    /// `kill -9`, as a user does who closes the lid.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
    }
}

impl<Why> Answer<Why> {
    /// What it printed, as JSON; null when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.out).unwrap_or(Value::Null)
    }
}
