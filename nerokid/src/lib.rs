//! The watcher of one run: reads its job's output, measures its usage,
//! evaluates its rules, and writes all of that into a segment of its own.
//!
//! It may be killed at any moment and is started again by the launcher; the
//! next one goes on exactly where the records of this one end. It never starts
//! or ends a job: a rule's `abort` is a cancel request in the run's `control/`
//! folder, which the shim carries out. Only signals that a rule names are sent,
//! and commands that it names are run, from here.

pub mod act;
pub mod args;
pub mod core;
pub mod events;
pub mod folder;
pub mod gpus;
pub mod helper;
pub mod host;
pub mod output;
pub mod processes;
pub mod settle;
pub mod watch;

/// An error with all its causes, on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
