//! Failures of the two files, with what to do about each.

use std::io;
use std::path::{Path, PathBuf};

use nero_journal::SegmentId;
use rusqlite::ErrorCode;

use crate::row::{At, RunKey};

/// What to do about a disk that fails.
const DISK: &str = "look at the kernel's log for that disk, then start neroman again";

/// Reason why the store cannot do its work. Nothing of the transaction
/// happened.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder is on a network file system, where databases are damaged.
    #[error("{path} lies on {kind}, where a database is not safe")]
    NetworkFileSystem {
        /// The folder.
        path: PathBuf,
        /// Kind of file system.
        kind: &'static str,
    },
    /// SQLite itself is too old: a build was linked with another library.
    #[error("SQLite {found} is older than {wanted}, the first without a known corruption")]
    OldSqlite {
        /// Linked version.
        found: &'static str,
        /// Lowest allowed one.
        wanted: &'static str,
    },
    /// A newer build has written it. The file was left untouched.
    #[error(
        "{path} has version {found}, this build knows up to version {known}; it was left untouched"
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Version of the file.
        found: i64,
        /// The newest version that this build knows.
        known: i64,
    },
    /// Something else than our database. The file was left untouched.
    #[error("{path} {what}; it was left untouched")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Description of the file.
        what: &'static str,
    },
    /// The file is damaged. It was left untouched.
    #[error("{path} is damaged: {what}; it was left untouched")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        what: String,
    },
    /// A row differs from the row that was written.
    #[error("{path} is damaged: row {row} of table `{table}` is not what was written")]
    DamagedRow {
        /// The file.
        path: PathBuf,
        /// The table.
        table: &'static str,
        /// The row's key.
        row: String,
    },
    /// Rows of a table vanished, or foreign rows appeared.
    #[error("{path} is damaged: table `{table}` does not hold the rows that were written")]
    DamagedTable {
        /// The file.
        path: PathBuf,
        /// The table.
        table: &'static str,
    },
    /// The file is gone while things that belong to it are there.
    #[error("{path} is missing while {beside} is there; nothing was made in its place")]
    Missing {
        /// The file.
        path: PathBuf,
        /// The file that belongs to it.
        beside: PathBuf,
    },
    /// The log lacks the last writes; it is left as it was.
    #[error(
        "{path} {what}; what was written last to {database} lay in it; both were left untouched"
    )]
    Log {
        /// The database.
        database: PathBuf,
        /// Log of the database.
        path: PathBuf,
        /// Fault of the log.
        what: String,
    },
    /// No room. Reading goes on, and writing when there is room again.
    #[error("no space left for {path}")]
    Full {
        /// The file.
        path: PathBuf,
        /// Error of SQLite.
        #[source]
        source: rusqlite::Error,
    },
    /// Reading or writing failed. Final: the store must be opened anew.
    #[error("the storage below {path} failed")]
    Broken {
        /// The file.
        path: PathBuf,
        /// Error of SQLite.
        #[source]
        source: rusqlite::Error,
    },
    /// An earlier failure was final.
    #[error("the storage below {path} failed before; the store must be opened anew")]
    BrokenBefore {
        /// The file.
        path: PathBuf,
    },
    /// Another process holds the database for longer than it should.
    #[error("{path} is in use by another process")]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// A file or folder beside the databases could not be used.
    #[error("cannot {what} {path}")]
    Io {
        /// The action that failed: "read", "make".
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// The fold does not begin where the last one ended.
    #[error(
        "segment {segment} of run {} stands at {stored} and not at {expected}", .run.0
    )]
    Position {
        /// The run.
        run: RunKey,
        /// The segment.
        segment: SegmentId,
        /// Position in the database; offset 0, chain 0 when there is none.
        stored: At,
        /// Position at which the fold began.
        expected: At,
    },
    /// The row is not there.
    #[error("table `{table}` has no row {row}")]
    NoSuchRow {
        /// The table.
        table: &'static str,
        /// The key.
        row: String,
    },
    /// The row is there already.
    #[error("table `{table}` already has row {row}")]
    Twice {
        /// The table.
        table: &'static str,
        /// The key.
        row: String,
    },
    /// An earlier step failed, and SQLite undid the whole transaction.
    #[error("SQLite rolled back the transaction on {path} after an earlier error")]
    Undone {
        /// The file.
        path: PathBuf,
    },
    /// A bug of this build: SQLite refused a statement.
    #[error("SQLite refused a request on {path}")]
    Sql {
        /// The file.
        path: PathBuf,
        /// Error of SQLite.
        #[source]
        source: rusqlite::Error,
    },
}

impl StoreError {
    /// The next step for the user.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NetworkFileSystem { .. } => {
                "set NERONET_HOME or XDG_DATA_HOME to a folder on a local disk".to_owned()
            }
            Self::TooNew { .. } => {
                "use the newer neroman again; a copy `….before-v<N>` beside it, where there is one, is as it was before the upgrade"
                    .to_owned()
            }
            Self::Foreign { path, what: "is not a file" } => {
                format!("move {} away", path.display())
            }
            Self::Foreign { path, .. } | Self::Missing { path, .. }
                if is_series(path) => fold_again(path),
            Self::Damaged { path, .. }
            | Self::DamagedRow { path, .. }
            | Self::DamagedTable { path, .. }
                if is_series(path) => fold_again(path),
            Self::Log { database, .. } if is_series(database) => fold_again(database),
            Self::Log { database, path, .. } => format!(
                "put it back where it was left behind by a copy; else move {}, its -wal and its -shm away and put the newest \
                 good copy of `backups/` in its place, or, to go on with what {} holds without its last changes, move {} and {}.open away",
                database.display(),
                database.display(),
                path.display(),
                database.display(),
            ),
            Self::Io { what: "open", path, source } => match source.kind() {
                io::ErrorKind::PermissionDenied => {
                    format!("give yourself the right to use it: chmod u+rw '{}'", path.display())
                }
                _ if is_of_the_disk(source) => DISK.to_owned(),
                _ => return None,
            },
            Self::Io { source, .. } if is_of_the_disk(source) => DISK.to_owned(),
            Self::Damaged { .. }
            | Self::DamagedRow { .. }
            | Self::DamagedTable { .. }
            | Self::Foreign { .. }
            | Self::Missing { .. } => {
                "move it away with its -wal and -shm and put the newest good copy of `backups/` in its place"
                    .to_owned()
            }
            Self::Full { .. } => {
                "free some on that disk; the runs go on, and nothing was lost".to_owned()
            }
            Self::Broken { .. } | Self::BrokenBefore { .. } => DISK.to_owned(),
            Self::Busy { .. } => "end the other process that has it open".to_owned(),
            Self::OldSqlite { .. }
            | Self::Io { .. }
            | Self::Position { .. }
            | Self::NoSuchRow { .. }
            | Self::Twice { .. }
            | Self::Undone { .. }
            | Self::Sql { .. } => return None,
        })
    }

    pub(crate) fn from_sql(path: &Path, source: rusqlite::Error) -> Self {
        /// Growing the shared-memory file failed; SQLite has no error code of
        /// its own for a full disk there.
        const SQLITE_IOERR_SHMSIZE: i32 = 10 | (19 << 8);
        let path = path.to_path_buf();
        let rusqlite::Error::SqliteFailure(failure, _) = &source else {
            return match source {
                rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
                | rusqlite::Error::Utf8Error(..)
                | rusqlite::Error::InvalidColumnType(..) => Self::Damaged {
                    what: source.to_string(),
                    path,
                },
                source => Self::Sql { path, source },
            };
        };
        match failure.code {
            ErrorCode::DiskFull => Self::Full { path, source },
            ErrorCode::SystemIoFailure if failure.extended_code == SQLITE_IOERR_SHMSIZE => {
                Self::Full { path, source }
            }
            ErrorCode::SystemIoFailure => Self::Broken { path, source },
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Self::Damaged {
                what: source.to_string(),
                path,
            },
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::Busy { path },
            _ => Self::Sql { path, source },
        }
    }

    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { what, path, source }
    }
}

/// Whether the disk itself refuses, and not what asked it.
fn is_of_the_disk(error: &io::Error) -> bool {
    matches!(
        rustix::io::Errno::from_io_error(error),
        Some(rustix::io::Errno::IO | rustix::io::Errno::STALE)
    )
}

fn is_series(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "series.db")
}

fn fold_again(path: &Path) -> String {
    format!(
        "move {} away with its -wal and -shm; what the nodes still have is folded again",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_fails_is_named_as_the_thing_to_look_at() {
        for (errno, is_told) in [(5, true), (116, true), (28, false)] {
            let error = StoreError::Io {
                what: "open",
                path: PathBuf::from("/h/data/state.db"),
                source: io::Error::from_raw_os_error(errno),
            };
            assert_eq!(error.hint().as_deref() == Some(DISK), is_told, "{errno}");
        }
    }
}
