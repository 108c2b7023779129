//! Why the daemon could not run.

use std::io;
use std::path::PathBuf;

/// Why the daemon could not run.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// A folder or file of ours cannot be used.
    #[error("cannot {what} {path}")]
    Io {
        /// The action that failed.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The databases refuse; nothing was changed.
    #[error("cannot start with what is stored in {path}")]
    Stored {
        /// The folder of the databases.
        path: PathBuf,
        /// The reason.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
        /// The step that a person can take.
        hint: Option<String>,
    },
    /// A restore ended before its database had a name.
    #[error("a backup was not restored to its end in {path}")]
    HalfRestored {
        /// The folder of the databases.
        path: PathBuf,
    },
    /// The runtime could not be made.
    #[error("cannot start the runtime")]
    Runtime(#[source] io::Error),
    /// A part of the daemon ended by itself: our mistake.
    #[error("the daemon's {part} ended unexpectedly")]
    Ended {
        /// The name of the part.
        part: &'static str,
    },
}

impl DaemonError {
    /// The step that a person can take.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Stored { hint, .. } => hint.as_deref(),
            Self::HalfRestored { .. } => {
                Some("type the same `neroman backup --restore FILE` again")
            }
            Self::Io { .. } | Self::Runtime(_) | Self::Ended { .. } => None,
        }
    }
}
