//! The journal of a flow: the result of each effect, a line each, on disk before the next effect.
//!
//! The course of a flow follows from its spec and these results. So a flow goes on by being driven
//! from its start, with results from the journal in place of effects for as long as it has any.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::fault::Fault;

/// A journal, held by this process alone.
#[derive(Debug)]
pub struct FlowJournal {
    path: PathBuf,
    file: File,
    past: VecDeque<(String, Value)>,
    has_written: bool,
}

impl FlowJournal {
    /// Opens it, or makes an empty one.
    ///
    /// # Errors
    /// Another process drives the flow, or the file cannot be read.
    pub fn open(path: &Path) -> Result<Self, Fault> {
        let failed = |error: &dyn std::error::Error| {
            Fault::failed(format!("cannot use {}", path.display())).because(error)
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600);
        let mut file = options.open(path).map_err(|error| failed(&error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let fault = Fault::failed("another process follows this flow");
                return Err(fault.hint("its end ends the flow; or end that process first"));
            }
            Err(TryLockError::Error(error)) => return Err(failed(&error)),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)
            .map_err(|error| failed(&error))?;
        // A line without an end was being written when the machine or the process ended.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n');
        let whole = whole.map_or(0, |at| at + 1);
        let mut past = VecDeque::new();
        for line in bytes[..whole].split_inclusive(|byte| *byte == b'\n') {
            let record = serde_json::from_slice::<Value>(line).ok();
            let record = record.and_then(|record| match record {
                Value::Object(record) => record.into_iter().next(),
                _ => None,
            });
            past.push_back(record.ok_or_else(|| broken(path))?);
        }
        file.set_len(whole as u64).map_err(|error| failed(&error))?;
        file.seek(SeekFrom::End(0))
            .map_err(|error| failed(&error))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            past,
            has_written: false,
        })
    }

    /// What a flow with this journal does; `None`: it has finished.
    pub fn state(path: &Path) -> Option<&'static str> {
        let Ok(mut file) = File::open(path) else {
            // It was interrupted before its first step.
            return Some("stopped");
        };
        if let Err(TryLockError::WouldBlock) = file.try_lock_shared() {
            return Some("runs");
        }
        let mut bytes = Vec::new();
        // What cannot be read is told when it is resumed.
        let _ = file.read_to_end(&mut bytes);
        let is_finished = bytes.ends_with(b"{\"finished\":null}\n");
        (!is_finished).then_some("stopped")
    }

    /// Whether every result that it holds was taken.
    pub fn is_at_end(&self) -> bool {
        self.past.is_empty()
    }

    /// Whether this process wrote a result.
    pub fn has_written(&self) -> bool {
        self.has_written
    }

    /// Takes the next result that it holds, of this kind.
    ///
    /// # Errors
    /// It is of another kind: the spec's copy, the journal, or this program is not the same.
    pub fn past(&mut self, kind: &str) -> Result<Option<Value>, Fault> {
        match self.past.pop_front() {
            None => Ok(None),
            Some((known, value)) if known == kind => Ok(Some(value)),
            Some(_) => Err(broken(&self.path)),
        }
    }

    /// Takes the next result that it holds when it is of this kind.
    pub fn past_if(&mut self, kind: &str) -> Option<Value> {
        let (_, value) = self.past.pop_front_if(|(known, _)| known == kind)?;
        Some(value)
    }

    /// Writes a result; it is on disk when this returns.
    ///
    /// # Errors
    /// The disk is full or gone.
    pub fn write(&mut self, kind: &str, value: &Value) -> Result<(), Fault> {
        self.has_written = true;
        let line = format!("{}\n", json!({ kind: value }));
        let written = self.file.write_all(line.as_bytes());
        let written = written.and_then(|()| self.file.sync_data());
        written.map_err(|error| Fault::cannot("write", &self.path).because(&error))
    }
}

fn broken(path: &Path) -> Fault {
    let fault = Fault::failed(format!("{} does not fit its flow", path.display()));
    fault
        .cause("it was changed, or written by another version of this program")
        .hint("start the flow anew; what it has deployed, its status file says")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Opens a journal that nobody holds any more: a process that another test is starting has
    /// this one's files until it executes its program.
    fn reopened(path: &Path) -> FlowJournal {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match FlowJournal::open(path) {
                Err(_) if Instant::now() < deadline => std::thread::yield_now(),
                opened => return opened.unwrap(),
            }
        }
    }

    #[test]
    fn results_are_read_back_in_order_and_a_torn_line_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        assert_eq!(FlowJournal::state(&path), Some("stopped"));
        let mut journal = FlowJournal::open(&path).unwrap();
        journal.write("waited", &Value::Null).unwrap();
        journal.write("text", &json!("a\nb")).unwrap();
        assert!(FlowJournal::open(&path).is_err(), "one process at a time");
        assert_eq!(FlowJournal::state(&path), Some("runs"));
        drop(journal);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"ended\":{\"co").unwrap();
        let mut journal = reopened(&path);
        assert_eq!(journal.past("waited").unwrap(), Some(Value::Null));
        assert!(journal.past("waited").is_err(), "it is of another kind");
        drop(journal);
        let mut journal = reopened(&path);
        journal.past("waited").unwrap();
        assert_eq!(journal.past("text").unwrap(), Some(json!("a\nb")));
        assert!(journal.is_at_end());
        journal.write("finished", &Value::Null).unwrap();
        drop(journal);
        assert_ne!(
            FlowJournal::state(&path),
            Some("stopped"),
            "it has finished"
        );
    }
}
