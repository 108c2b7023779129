//! Following one log by one descriptor.
//!
//! The file is what the job writes into, so its size decides; notifications
//! only say when to look. A file that is shorter than what was read was cut by
//! its job. One that is deleted is read on as long as it is open; when another
//! lies under its name, that one is read from 0 once the old one is exhausted.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::core::intake::Log;

/// What a look at the log gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// So many bytes lie in the buffer.
    Bytes(usize),
    /// Nothing new.
    Nothing,
    /// The job cut the file, or another lies under its name: it is read from 0.
    NewPart,
}

/// One log.
#[derive(Debug)]
pub struct Tail {
    /// Which one.
    pub log: Log,
    path: PathBuf,
    file: Option<Open>,
    offset: u64,
    check_name: bool,
    deleted: Deleted,
}

/// Whether the file has lost its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deleted {
    No,
    Found,
    Told,
}

#[derive(Debug)]
struct Open {
    file: File,
    identity: (u64, u64),
}

impl Tail {
    /// Goes on at `offset` of the file at `path`, which need not exist yet.
    pub fn new(log: Log, path: PathBuf, offset: u64) -> Self {
        Self {
            log,
            path,
            file: None,
            offset,
            check_name: false,
            deleted: Deleted::No,
        }
    }

    /// Reads what is next.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn look(&mut self, buffer: &mut [u8]) -> io::Result<Look> {
        let offset = self.offset;
        let Some(open) = self.opened()? else {
            return Ok(Look::Nothing);
        };
        let size = open.file.metadata()?.len();
        if size < offset {
            self.offset = 0;
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
                self.offset += got as u64;
                return Ok(Look::Bytes(got));
            }
        }
        if std::mem::take(&mut self.check_name) && self.name_means_another()? {
            self.file = None;
            self.offset = 0;
            return Ok(Look::NewPart);
        }
        Ok(Look::Nothing)
    }

    /// The next look also asks which file lies under the name.
    pub fn check_name(&mut self) {
        self.check_name = true;
    }

    /// Whether the file lost its name; true once.
    pub fn was_deleted(&mut self) -> bool {
        let found = self.deleted == Deleted::Found;
        if found {
            self.deleted = Deleted::Told;
        }
        found
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a file was found.
    pub fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// The descriptor.
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref().map(|open| &open.file)
    }

    /// Bytes of the file, by what was read.
    pub fn bytes(&self) -> u64 {
        self.offset
    }

    fn opened(&mut self) -> io::Result<Option<&Open>> {
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
            self.file = Some(Open {
                file,
                identity: (found.dev(), found.ino()),
            });
        }
        Ok(self.file.as_ref())
    }

    /// Whether another file lies under the name.
    fn name_means_another(&mut self) -> io::Result<bool> {
        let Some(open) = &self.file else {
            return Ok(false);
        };
        match fs::metadata(&self.path) {
            Ok(found) => Ok(found.is_file() && (found.dev(), found.ino()) != open.identity),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if self.deleted == Deleted::No {
                    self.deleted = Deleted::Found;
                }
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}
