//! Why a folder cannot be frozen, and what to do about it.

use std::io;
use std::path::PathBuf;

use super::{BYTES_MAX, FILES_MAX};

/// Why a folder cannot be frozen.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The folder is no folder, or cannot be listed.
    #[error("cannot look through {path}")]
    Folder {
        path: PathBuf,
        #[source]
        source: ignore::Error,
    },
    /// A glob of `files` cannot be used.
    #[error("`files` holds `{glob}`, which is no glob")]
    Glob {
        glob: String,
        #[source]
        source: ignore::Error,
    },
    /// A file that travels cannot be read.
    #[error("cannot read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file was written whenever it was read.
    #[error("{path} keeps changing while it is read")]
    Changing { path: PathBuf },
    /// A name that cannot travel.
    #[error("the name of {} is not UTF-8", .path.display())]
    Name { path: PathBuf },
    /// A required file does not exist.
    #[error("{path} does not exist")]
    Missing { path: PathBuf },
    /// A required path is neither a file nor a folder.
    #[error("{path} is neither a file nor a folder")]
    Special { path: PathBuf },
    /// The folder is larger than what is taken without `big`.
    #[error(
        "{folder} holds {} in {files} files, more than the {} or {FILES_MAX} files that are taken unasked; most of it: {}",
        size(*.bytes), size(BYTES_MAX), .biggest.join(", ")
    )]
    TooMuch {
        folder: PathBuf,
        bytes: u64,
        files: u64,
        /// "data/ (3.1 GB in 12 files)", the biggest first.
        biggest: Vec<String>,
        /// The line for `.neroignore`.
        line: String,
    },
    /// The store cannot be written.
    #[error("cannot {what} {path} in the store of frozen files")]
    Store {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl SnapshotError {
    /// The next step for the person.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::TooMuch { folder, line, .. } => format!(
                "add the line `{line}` to {}, name what is needed with `files:`, or go on with --big",
                folder.join(".neroignore").display()
            ),
            Self::Changing { .. } => {
                "end what writes it, or put its name into .neroignore".to_owned()
            }
            Self::Read { .. } | Self::Name { .. } => {
                "put its name into .neroignore if no run needs it".to_owned()
            }
            Self::Store { .. } => "make room on the disk of neroman's data folder".to_owned(),
            Self::Missing { .. } => "correct its name in the experiment's file".to_owned(),
            Self::Folder { .. } | Self::Glob { .. } | Self::Special { .. } => return None,
        })
    }
}

/// A size to be read by people.
pub fn size(bytes: u64) -> String {
    let units = [("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)];
    match units.into_iter().find(|(_, unit)| bytes >= *unit) {
        None => format!("{bytes} bytes"),
        Some((name, unit)) if bytes < 10 * unit => {
            format!("{:.1} {name}", bytes as f64 / unit as f64)
        }
        Some((name, unit)) => format!("{} {name}", bytes / unit),
    }
}

impl From<nero_blobs::WriteRefused> for SnapshotError {
    fn from(nero_blobs::WriteRefused { path, source }: nero_blobs::WriteRefused) -> Self {
        Self::Store {
            what: "write",
            path,
            source,
        }
    }
}
