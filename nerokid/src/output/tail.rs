//! Following one log by one descriptor.
//!
//! The job writes into this file, so its size decides; notifications only
//! trigger a look. When the file is shorter than the bytes read so far, the job
//! truncated it. A deleted file is read on as long as it is open; when another
//! file has its name, that one is read from 0 once the old one is exhausted.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::core::log::Log;

/// Bytes of the beginning that are compared.
const HEAD_BYTES: usize = 256;
/// Bytes before the offset that are compared.
const LAST_BYTES: usize = 64;

/// Result of a look at the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Number of bytes in the buffer.
    Bytes(usize),
    /// Nothing new.
    Nothing,
    /// The job truncated the file, or another file has its name: it is read
    /// from 0.
    NewPart,
}

/// One log.
#[derive(Debug)]
pub struct Tail {
    /// The followed log.
    pub log: Log,
    path: PathBuf,
    file: Option<OpenFile>,
    offset: u64,
    check_name: bool,
    deleted: DeletionState,
    /// What was read of a file that may be written anew.
    seen: Option<SeenBytes>,
}

/// Bytes of a file that are the same as long as it only grows.
#[derive(Debug, Default)]
struct SeenBytes {
    head: Vec<u8>,
    /// Those before the offset.
    last: Vec<u8>,
    /// The file's time of change when they were read or compared.
    changed: (i64, i64),
}

impl SeenBytes {
    fn take(&mut self, bytes: &[u8]) {
        let room = HEAD_BYTES - self.head.len();
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.last
            .extend_from_slice(&bytes[bytes.len().saturating_sub(LAST_BYTES)..]);
        let surplus = self.last.len().saturating_sub(LAST_BYTES);
        self.last.drain(..surplus);
    }

    /// Whether a file still has the bytes.
    fn fits(&self, file: &File, offset: u64) -> io::Result<bool> {
        let has = |bytes: &[u8], from: u64| {
            let mut found = [0; HEAD_BYTES];
            let found = &mut found[..bytes.len()];
            match file.read_exact_at(found, from) {
                Ok(()) => Ok(found == bytes),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
                Err(error) => Err(error),
            }
        };
        Ok(has(&self.head, 0)? && has(&self.last, offset - self.last.len() as u64)?)
    }
}

/// Whether the file has lost its name, and whether that was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeletionState {
    No,
    Found,
    Told,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    identity: (u64, u64),
}

impl Tail {
    /// Bytes that were read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Goes on at `offset` of the file at `path`, which need not exist yet.
    pub fn new(log: Log, path: PathBuf, offset: u64) -> Self {
        Self {
            log,
            path,
            file: None,
            offset,
            check_name: false,
            deleted: DeletionState::No,
            seen: None,
        }
    }

    /// Begins with a file that its program may write anew.
    pub fn of_rows(log: Log, path: PathBuf) -> Self {
        Self {
            seen: Some(SeenBytes::default()),
            ..Self::new(log, path, 0)
        }
    }

    /// Reads the next bytes.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn read_next(&mut self, buffer: &mut [u8]) -> io::Result<Look> {
        let offset = self.offset;
        let Some(open) = self.opened()? else {
            return Ok(Look::Nothing);
        };
        let found = open.file.metadata()?;
        let (size, changed) = (found.len(), (found.mtime(), found.mtime_nsec()));
        if size < offset {
            self.begin_part();
            return Ok(Look::NewPart);
        }
        if size > offset {
            let got = loop {
                match open.file.read_at(buffer, offset) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    other => break other?,
                }
            };
            if got > 0 {
                // The comparison comes after the read: the file was the same until then.
                if let (Some(seen), Some(open)) = (&self.seen, &self.file)
                    && !seen.fits(&open.file, offset)?
                {
                    self.begin_part();
                    return Ok(Look::NewPart);
                }
                if let Some(seen) = &mut self.seen {
                    seen.take(&buffer[..got]);
                    seen.changed = changed;
                }
                self.offset += got as u64;
                return Ok(Look::Bytes(got));
            }
        }
        if size > 0
            && size == offset
            && let (Some(seen), Some(open)) = (&mut self.seen, &self.file)
            && seen.changed != changed
        {
            // The file may have been written anew with the same length.
            if !seen.fits(&open.file, offset)? {
                self.begin_part();
                return Ok(Look::NewPart);
            }
            seen.changed = changed;
        }
        if std::mem::take(&mut self.check_name) && self.name_means_another()? {
            self.file = None;
            self.begin_part();
            return Ok(Look::NewPart);
        }
        Ok(Look::Nothing)
    }

    fn begin_part(&mut self) {
        self.offset = 0;
        if let Some(seen) = &mut self.seen {
            *seen = SeenBytes::default();
        }
    }

    /// Makes the next look check which file has the name.
    pub fn check_name(&mut self) {
        self.check_name = true;
    }

    /// Whether a check of the name is still to come.
    pub fn must_check_name(&self) -> bool {
        self.check_name
    }

    /// Whether the file lost its name; returns true once.
    pub fn was_deleted(&mut self) -> bool {
        let found = self.deleted == DeletionState::Found;
        if found {
            self.deleted = DeletionState::Told;
        }
        found
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the log's file was found.
    pub fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// The descriptor.
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref().map(|open| &open.file)
    }

    /// Bytes of the file that were read.
    pub fn bytes(&self) -> u64 {
        self.offset
    }

    fn opened(&mut self) -> io::Result<Option<&OpenFile>> {
        if self.file.is_none() {
            let file = match nero_journal::open(&self.path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            let found = file.metadata()?;
            if !found.is_file() {
                return Ok(None);
            }
            self.file = Some(OpenFile {
                file,
                identity: (found.dev(), found.ino()),
            });
        }
        Ok(self.file.as_ref())
    }

    /// Whether another file has the name now.
    fn name_means_another(&mut self) -> io::Result<bool> {
        let Some(open) = &self.file else {
            return Ok(false);
        };
        match fs::metadata(&self.path) {
            Ok(found) => Ok(found.is_file() && (found.dev(), found.ino()) != open.identity),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if self.deleted == DeletionState::No {
                    self.deleted = DeletionState::Found;
                }
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}
