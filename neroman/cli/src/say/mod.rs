//! Everything that reaches a terminal, a pipe or a file goes through here:
//! data to standard output, the rest to standard error, and nothing that a
//! job, a file or a daemon wrote can act on a terminal.

pub mod experiments;
pub mod overview;
pub mod page;
pub mod parquet;
pub mod progress;
pub mod screen;
pub mod table;

use std::io::{self, BufRead as _, Write as _};

use nero_model::plain::plain;
use nero_model::safe::Safe;
use nero_views::json;
use serde_json::Value;

use crate::fault::{Fault, Stop};

pub use screen::Screen;

/// The outputs of a verb.
#[derive(Clone, Copy, Debug)]
pub struct VerbOutput {
    /// The properties of the terminal.
    pub screen: Screen,
    /// Whether the verb was typed with `--json`.
    pub as_json: bool,
}

impl VerbOutput {
    /// Writes text that was made safe already.
    ///
    /// # Errors
    /// When the reader is gone, or the disk is full.
    pub fn text(&self, text: &str) -> Result<(), Stop> {
        self.bytes(text.as_bytes())
    }

    /// Writes a line that was made safe already.
    pub fn line(&self, line: &str) -> Result<(), Stop> {
        self.text(&format!("{line}\n"))
    }

    /// Writes text of others: as it is to a pipe, escaped to a terminal.
    pub fn raw(&self, text: &[u8]) -> Result<(), Stop> {
        if self.screen.tty {
            self.text(&Safe::lines(text).to_string())
        } else {
            self.bytes(text)
        }
    }

    /// Writes bytes as they are.
    pub fn bytes(&self, bytes: &[u8]) -> Result<(), Stop> {
        let mut stdout = io::stdout().lock();
        stdout
            .write_all(bytes)
            .and_then(|()| stdout.flush())
            .map_err(|error| stopped(&error))
    }

    /// Writes one JSON document on a line of its own.
    pub fn json(&self, value: &Value) -> Result<(), Stop> {
        self.line(&json::print(value))
    }

    /// Prints a reply: its fields as a document with `--json`, else its notes and its text.
    pub fn reply(
        &self,
        notes: &[String],
        fields: impl FnOnce() -> Value,
        text: impl FnOnce() -> String,
    ) -> Result<(), Stop> {
        if self.as_json {
            return self.json(&json::document(fields()));
        }
        self.notes(notes);
        self.text(&text())
    }

    /// Prints a note to standard error.
    pub fn note(&self, text: &str) {
        // A standard error that is gone has no reader.
        let text = plain(text);
        // In one piece: standard error has no buffer, and safe text comes by characters.
        let text = format!("{}\n", Safe::lines(text.as_bytes()));
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }

    /// Prints several notes to standard error.
    pub fn notes(&self, notes: &[String]) {
        for note in notes {
            let mut lines = note.lines().map(Safe::line);
            self.note(&format!("note: {}", lines.next().unwrap_or(Safe::line(""))));
            // A traceback.
            for line in lines {
                self.note(&format!("    {line}"));
            }
        }
    }

    /// Asks for a yes on the terminal. The answer is read by a thread, so that
    /// Ctrl-C ends the program while it waits.
    ///
    /// # Errors
    /// When the terminal cannot be read.
    pub async fn ask(&self, question: &str) -> Result<bool, Stop> {
        let mut stderr = io::stderr().lock();
        write!(stderr, "{} [y/N] ", Safe::line(question))
            .and_then(|()| stderr.flush())
            .map_err(|error| stopped(&error))?;
        drop(stderr);
        let read = tokio::task::spawn_blocking(|| {
            let mut answer = String::new();
            io::stdin()
                .lock()
                .read_line(&mut answer)
                .map(|_| is_yes(&answer))
        });
        let cannot = |error: &dyn std::error::Error| {
            Fault::usage("cannot read the answer")
                .because(error)
                .hint("--yes does not ask")
        };
        match read.await {
            Ok(Ok(yes)) => Ok(yes),
            Ok(Err(error)) => Err(cannot(&error).into()),
            Err(error) => Err(cannot(&error).into()),
        }
    }
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"]
        .iter()
        .any(|yes| answer.trim().eq_ignore_ascii_case(yes))
}

fn stopped(error: &io::Error) -> Stop {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Stop::PipeClosed
    } else {
        Fault::new(crate::fault::code::FAILED, "cannot write the output")
            .because(error)
            .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_y_or_yes_answers_a_question_with_yes() {
        for yes in ["y\n", "Y", " yes \n"] {
            assert!(is_yes(yes), "{yes}");
        }
        for no in ["", "\n", "n", "yy", "no"] {
            assert!(!is_yes(no), "{no}");
        }
    }
}
