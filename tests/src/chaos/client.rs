//! Commands of users, which run at the same time while faults happen.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A running command.
#[derive(Debug)]
pub struct Client<Why> {
    /// Words of the command.
    pub words: Vec<String>,
    /// Purpose of the command.
    pub why: Why,
    child: Child,
    out: std::path::PathBuf,
    began: Instant,
    patience: Duration,
}

/// Result of a command.
#[derive(Debug)]
pub struct Answer<Why> {
    /// Words of the command.
    pub words: Vec<String>,
    /// Purpose of the command.
    pub why: Why,
    /// Exit code; `None` when a signal ended the command.
    pub code: Option<i32>,
    /// Standard output.
    pub out: Vec<u8>,
    /// Standard error.
    pub err: String,
    /// How long it took.
    pub took: Duration,
}

impl<Why> Client<Why> {
    /// Starts the command, which has to return within `patience`; its output goes to files
    /// below `folder`.
    ///
    /// # Errors
    /// When the command cannot be started.
    pub fn start(
        mut command: Command,
        folder: &Path,
        number: usize,
        words: Vec<String>,
        why: Why,
        patience: Duration,
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
            patience,
        })
    }

    /// Returns the answer of a command that has ended, else the command itself.
    ///
    /// # Errors
    /// When it takes longer than it may; it is killed then.
    pub fn look(mut self) -> Result<Result<Answer<Why>, Self>, String> {
        let status = self.child.try_wait().map_err(|error| error.to_string())?;
        let Some(status) = status else {
            if self.began.elapsed() > self.patience {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return Err(format!(
                    "neroman {} did not return within {:?}",
                    self.words.join(" "),
                    self.patience
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

    /// `kill -9`, as when the user closes the lid.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
    }
}

impl<Why> Answer<Why> {
    /// The output as JSON; null when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.out).unwrap_or(Value::Null)
    }
}
