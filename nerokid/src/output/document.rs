//! A file of metrics that its program replaces as a whole: one JSON value.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nero_metrics::file::{DOCUMENT_BYTES_MAX, document_lines};

/// One document.
#[derive(Debug)]
pub struct Document {
    path: PathBuf,
    seen: Option<Version>,
    problem: Option<DocumentProblem>,
}

/// What changes when a file is written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    file: (u64, u64),
    size: u64,
    changed: (i64, i64),
}

/// Why the newest version gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentProblem {
    TooLarge,
    NotJson,
}

impl Document {
    /// The document at `path`, which need not exist yet.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            seen: None,
            problem: None,
        }
    }

    /// The document's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is wrong with the newest version.
    pub fn problem(&self) -> Option<DocumentProblem> {
        self.problem
    }

    /// Makes the next look read the file whether it changed or not: a file system may
    /// give two versions the same time.
    pub fn forget(&mut self) {
        self.seen = None;
    }

    /// The lines of a new version. A version that is being written is no whole JSON; the
    /// next change shows the rest of it.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn read_version(&mut self) -> io::Result<Option<Vec<u8>>> {
        // Most looks find nothing new, and open nothing.
        let found = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        if !found.is_file() || self.seen == Some(version(&found)) {
            return Ok(None);
        }
        let file = match nero_journal::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let found = file.metadata()?;
        if !found.is_file() {
            return Ok(None);
        }
        self.seen = Some(version(&found));
        let (problem, lines) = match read(&file)? {
            None => (Some(DocumentProblem::TooLarge), None),
            Some(text) => match document_lines(&text) {
                None => (Some(DocumentProblem::NotJson), None),
                lines => (None, lines),
            },
        };
        self.problem = problem;
        Ok(lines)
    }
}

/// The text of a file; `None` when it is too large.
fn read(file: &File) -> io::Result<Option<Vec<u8>>> {
    let mut text = Vec::new();
    file.take(DOCUMENT_BYTES_MAX + 1).read_to_end(&mut text)?;
    Ok((text.len() as u64 <= DOCUMENT_BYTES_MAX).then_some(text))
}

fn version(found: &fs::Metadata) -> Version {
    Version {
        file: (found.dev(), found.ino()),
        size: found.len(),
        changed: (found.mtime(), found.mtime_nsec()),
    }
}
