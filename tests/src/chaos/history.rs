//! A log of a chaos, with times, for the person who has to understand a
//! failure.

use std::fmt::Display;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// A log that is written during the chaos.
#[derive(Debug)]
pub struct History {
    file: File,
    began: Instant,
}

impl History {
    /// Begins one.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn begin(path: &Path) -> std::io::Result<Self> {
        Ok(Self {
            file: File::create(path)?,
            began: Instant::now(),
        })
    }

    /// Adds a line.
    ///
    /// # Panics
    /// When the line cannot be written: a chaos without its log is useless.
    pub fn add(&mut self, what: impl Display) {
        let at = self.elapsed().as_secs_f64();
        writeln!(self.file, "{at:9.3} {what}").expect("the log of the chaos is writable");
    }

    /// Since it began.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}
