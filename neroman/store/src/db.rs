//! Opening one file. Every property of it is checked, and a file that is not ours,
//! damaged or newer is left exactly as it was found.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use rustix::fs::Access;
use rustix::io::Errno;

use crate::error::StoreError;
use crate::mark::{self, Claim, Line};
use crate::migrate::{self, Schema};
use crate::place;

/// Time for which another process may hold the file before a call fails.
const BUSY: Duration = Duration::from_secs(10);
/// First bytes of every SQLite database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Up to this size a file is checked at once after an unclean end.
const CHECK_AT_ONCE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// No write of SQLite is larger than a page with its header.
const WRITTEN_LEAST: u64 = 64 * 1024 + 24;
/// Above this number of frames the log is moved into its file without waiting for a
/// quiet moment.
const FRAMES_MAX: u32 = 1000;

/// One open file.
#[derive(Debug)]
pub(crate) struct Db {
    pub(crate) conn: Connection,
    pub(crate) path: PathBuf,
    synced: Cell<Option<bool>>,
    broken: Cell<bool>,
    /// Line of the mark for this file's log; `None` for a reader.
    mark: Option<Line>,
}

/// Result of opening.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpenedFile {
    pub(crate) migrated_from: Option<i64>,
    /// The whole file should be checked, and is too large to check during the start.
    pub(crate) check_owed: bool,
}

impl Db {
    /// Opens a file that exists. `unclean`: the last process that had it open did not
    /// close it; `log` is the claim of the mark about its log.
    pub(crate) fn open(
        path: &Path,
        kind: Schema,
        unclean: bool,
        log: Option<Claim>,
    ) -> Result<(Self, OpenedFile), StoreError> {
        check_header(path)?;
        look_beside(path)?;
        mark::check(path, log)?;
        let db = Self::attach(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let failed = |error| db.failed(error);
        // A start that is refused, for this file or another one, must not change it.
        // On close, SQLite would move the log and remove it, and the mark would still
        // claim it.
        db.conn
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .map_err(failed)?;
        let version = db.identify(kind)?;
        let mut found = OpenedFile {
            migrated_from: (version < kind.version()).then_some(version),
            ..OpenedFile::default()
        };
        let bytes = fs::metadata(path)
            .map_err(StoreError::io("read", path))?
            .len();
        if unclean {
            found.check_owed = bytes > CHECK_AT_ONCE_BYTES_MAX;
            if !found.check_owed {
                db.quick_check()?;
            }
        }
        if let Some(version) = found.migrated_from {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".before-v{}", version + 1));
            if bytes <= kind.copied_bytes_max {
                db.copy_to(Path::new(&name))?;
            }
            kind.migrate(&db.conn, version).map_err(failed)?;
        }
        db.check_schema(kind)?;
        db.conn
            .pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))
            .map_err(failed)?;
        // Shrinks the file of a log that has grown large.
        db.conn
            .pragma_update_and_check(None, "journal_size_limit", 64 << 20, |_| Ok(()))
            .map_err(failed)?;
        Ok((db, found))
    }

    /// Copies the database to `path`, complete, checked and synced, or not at all.
    pub(crate) fn copy_to(&self, path: &Path) -> Result<(), StoreError> {
        let mut private = path.as_os_str().to_owned();
        private.push(".new");
        let private = PathBuf::from(private);
        remove(&private)?;
        let copied = self.copy_as(&private);
        if copied.is_err() {
            // A part of a copy only takes the room that is missing.
            let _ = fs::remove_file(&private);
        }
        copied?;
        publish(&private, path)
    }

    fn copy_as(&self, private: &Path) -> Result<(), StoreError> {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(private)
            .map_err(StoreError::io("make", private))?;
        let failed = |error| StoreError::from_sql(private, error);
        let mut target = Connection::open(private).map_err(failed)?;
        let copying = Backup::new(&self.conn, &mut target).map_err(failed)?;
        // All pages in one step: commits of the writer do not make it begin again.
        match copying.step(-1).map_err(failed)? {
            StepResult::Done => {}
            _ => {
                return Err(StoreError::Busy {
                    path: self.path.clone(),
                });
            }
        }
        drop(copying);
        // The copy is a single file, without a log beside it.
        target
            .pragma_update_and_check(None, "journal_mode", "delete", |_| Ok(()))
            .map_err(failed)?;
        let word: String = target
            .pragma_query_value(None, "quick_check", |row| row.get(0))
            .map_err(failed)?;
        if word != "ok" {
            return Err(StoreError::Damaged {
                path: self.path.clone(),
                what: word,
            });
        }
        target.close().map_err(|(_, error)| failed(error))
    }

    /// Has SQLite remove the log when the file is closed. Called when the log is
    /// empty and no claim is left about it.
    pub(crate) fn remove_log_on_close(&self) {
        // If SQLite refuses, the empty log stays; the next start takes it as sound.
        let _ = self
            .conn
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false);
    }

    /// Records the log's length in this line from now on, and keeps SQLite from
    /// moving frames by itself: the line has to record `emptied` first.
    pub(crate) fn keep_mark(&mut self, line: Line) -> Result<(), StoreError> {
        self.conn
            .pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))
            .map_err(|error| self.failed(error))?;
        let frames = self.frames()?;
        line.wrote(&self.path, frames, false);
        self.mark = Some(line);
        Ok(())
    }

    /// Frames in the log.
    fn frames(&self) -> Result<u32, StoreError> {
        self.conn
            .pragma_update_and_check(None, "wal_checkpoint", "noop", |row| row.get::<_, i64>(1))
            .map(|frames| u32::try_from(frames).unwrap_or(0))
            .map_err(|error| self.failed(error))
    }

    /// Commits, and claims the present length of the log.
    pub(crate) fn finish(&self, open: Transaction<'_>) -> Result<(), StoreError> {
        open.commit().map_err(|error| self.failed(error))?;
        let Some(line) = &self.mark else {
            return Ok(());
        };
        // The commit is done; a failure of the mark does not undo it.
        let Ok(frames) = self.frames() else {
            return Ok(());
        };
        line.wrote(&self.path, frames, self.synced.get() == Some(true));
        if frames > FRAMES_MAX {
            let _ = self.use_log_again();
        }
        Ok(())
    }

    /// Opens a file for reading only.
    pub(crate) fn open_to_read(path: &Path, kind: Schema) -> Result<Self, StoreError> {
        check_header(path)?;
        let db = Self::attach(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        if db.identify(kind)? < kind.version() {
            return Err(StoreError::Foreign {
                path: path.to_path_buf(),
                what: "has an older version",
            });
        }
        Ok(db)
    }

    /// Makes a new file under a private name first, so that `path` is complete or
    /// absent.
    pub(crate) fn create(
        path: &Path,
        kind: Schema,
        fill: impl FnOnce(&Self) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut private = path.as_os_str().to_owned();
        private.push(".new");
        let private = PathBuf::from(private);
        remove(&private)?;
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&private)
            .map_err(StoreError::io("make", &private))?;
        let db = Self::attach(&private, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        kind.migrate(&db.conn, 0)
            .map_err(|error| db.failed(error))?;
        let filling = db.begin(true)?;
        fill(&db)?;
        filling.commit().map_err(|error| db.failed(error))?;
        // The mode is stored in the header, so every later open uses the log.
        db.conn
            .pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))
            .map_err(|error| db.failed(error))?;
        drop(db);
        publish(&private, path)
    }

    fn attach(path: &Path, flags: OpenFlags) -> Result<Self, StoreError> {
        let failed = |error| StoreError::from_sql(path, error);
        let conn = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .map_err(failed)?;
        let is_for_writing = flags.contains(OpenFlags::SQLITE_OPEN_READ_WRITE);
        if is_for_writing && conn.is_readonly("main").map_err(failed)? {
            // SQLite opens what it cannot open for writing to read it alone, and stays so.
            let again = OpenOptions::new().read(true).write(true).open(path);
            let source = again.err();
            let source = source.unwrap_or_else(|| io::Error::other("it could not be written"));
            return Err(StoreError::io("open", path)(source));
        }
        conn.busy_timeout(BUSY).map_err(failed)?;
        conn.set_prepared_statement_cache_capacity(128);
        for (option, value) in [
            (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
            (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
            (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
            (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
        ] {
            conn.set_db_config(option, value).map_err(failed)?;
        }
        conn.pragma_update(None, "cell_size_check", true)
            .map_err(failed)?;
        Ok(Self {
            conn,
            path: path.to_path_buf(),
            synced: Cell::new(None),
            broken: Cell::new(false),
            mark: None,
        })
    }

    /// Refuses a file that is not ours; returns its version.
    fn identify(&self, kind: Schema) -> Result<i64, StoreError> {
        let number = |name| {
            self.conn
                .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
                .map_err(|error| self.failed(error))
        };
        let application = number("application_id")?;
        let version = number("user_version")?;
        let foreign = |what| {
            Err(StoreError::Foreign {
                path: self.path.clone(),
                what,
            })
        };
        if application != i64::from(kind.application) {
            return foreign("is a database of something else");
        }
        if version > kind.version() {
            return Err(StoreError::TooNew {
                path: self.path.clone(),
                found: version,
                known: kind.version(),
            });
        }
        if version < 1 {
            return foreign("holds no version");
        }
        Ok(version)
    }

    fn check_schema(&self, kind: Schema) -> Result<(), StoreError> {
        let failed = |error| self.failed(error);
        let wanted = kind.schema().map_err(failed)?;
        if migrate::schema(&self.conn).map_err(failed)? == wanted {
            return Ok(());
        }
        Err(StoreError::Damaged {
            path: self.path.clone(),
            what: "its tables are not those that were made".to_owned(),
        })
    }

    /// Lets SQLite look at every page.
    pub(crate) fn quick_check(&self) -> Result<(), StoreError> {
        self.check_with("quick_check")
    }

    /// Lets SQLite compare indexes with tables, too.
    pub(crate) fn integrity_check(&self) -> Result<(), StoreError> {
        self.check_with("integrity_check")
    }

    fn check_with(&self, name: &str) -> Result<(), StoreError> {
        let word: String = self
            .conn
            .pragma_query_value(None, name, |row| row.get(0))
            .map_err(|error| self.failed(error))?;
        if word == "ok" {
            return Ok(());
        }
        Err(StoreError::Damaged {
            path: self.path.clone(),
            what: word,
        })
    }

    /// Moves the log into the file, so that the next transactions reuse its space.
    /// Frames that a reader still needs stay.
    pub(crate) fn use_log_again(&self) -> Result<(), StoreError> {
        self.move_log("passive").map(drop)
    }

    /// Moves the log into the file and truncates it; false when a reader still needs
    /// it.
    pub(crate) fn empty_log(&self) -> Result<bool, StoreError> {
        let failed = |error| self.failed(error);
        if self.frames()? == 0 {
            return Ok(true);
        }
        // Do not wait for a reader: there is a next quiet moment.
        self.conn.busy_timeout(Duration::ZERO).map_err(failed)?;
        let moved = self.move_log("truncate");
        self.conn.busy_timeout(BUSY).map_err(failed)?;
        match moved {
            Err(StoreError::Busy { .. }) => Ok(false),
            moved => moved,
        }
    }

    /// Whether the whole log was moved.
    fn move_log(&self, how: &str) -> Result<bool, StoreError> {
        if let Some(line) = &self.mark {
            line.empties(&self.path, self.frames()?);
        }
        self.conn
            .pragma_update_and_check(None, "wal_checkpoint", how, |row| row.get::<_, i64>(0))
            .map(|busy| busy == 0)
            .map_err(|error| self.failed(error))
    }

    /// Begins a transaction. Its commit is synced, or only ordered.
    pub(crate) fn begin(&self, synced: bool) -> Result<Transaction<'_>, StoreError> {
        if self.broken.get() {
            return Err(StoreError::BrokenBefore {
                path: self.path.clone(),
            });
        }
        if self.synced.get() != Some(synced) {
            let mode = if synced { "FULL" } else { "NORMAL" };
            self.conn
                .pragma_update(None, "synchronous", mode)
                .map_err(|error| self.failed(error))?;
            self.synced.set(Some(synced));
        }
        Transaction::new_unchecked(&self.conn, TransactionBehavior::Immediate)
            .map_err(|error| self.failed(error))
    }

    /// Refuses a write outside of a transaction: a full disk may have ended the
    /// transaction that the caller believes to be in.
    pub(crate) fn in_transaction(&self) -> Result<(), StoreError> {
        if self.conn.is_autocommit() {
            return Err(StoreError::Undone {
                path: self.path.clone(),
            });
        }
        Ok(())
    }

    /// Runs a statement of the current transaction; returns the number of changed
    /// rows.
    pub(crate) fn change(
        &self,
        sql: &str,
        parameters: impl rusqlite::Params,
    ) -> Result<usize, StoreError> {
        self.in_transaction()?;
        self.conn
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute(parameters))
            .map_err(|error| self.failed(error))
    }

    /// Whether an earlier failure was final.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.get()
    }

    /// The folder that the file lies in.
    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Whether the system call by which SQLite failed last found no room, or a quota used up.
    fn lacks_room(&self) -> bool {
        // SAFETY: the connection is open and used by this thread alone while it is borrowed here,
        // and SQLite only reads a number of it.
        let number = unsafe { rusqlite::ffi::sqlite3_system_errno(self.conn.handle()) };
        let full = [Errno::NOSPC, Errno::DQUOT].map(Errno::raw_os_error);
        // Another call of this thread may have failed since.
        full.contains(&number) || !place::has_room(self.folder(), WRITTEN_LEAST)
    }

    /// Names the file in SQLite's error. A failure of the storage is remembered:
    /// after a failed fsync, the contents of the disk are unknown.
    pub(crate) fn failed(&self, error: rusqlite::Error) -> StoreError {
        let error = match StoreError::from_sql(&self.path, error) {
            // SQLite knows a full disk, but not a quota that is used up.
            StoreError::Broken { path, source } | StoreError::Sql { path, source }
                if may_lack_room(&source) && self.lacks_room() =>
            {
                StoreError::Full { path, source }
            }
            error => error,
        };
        if matches!(error, StoreError::Broken { .. }) {
            self.broken.set(true);
        }
        error
    }
}

/// Whether SQLite failed to write or to make a file. SQLite undoes such a write by itself.
fn may_lack_room(error: &rusqlite::Error) -> bool {
    /// `SQLITE_IOERR_WRITE`.
    const WRITE: i32 = 10 | (3 << 8);
    matches!(
        error,
        rusqlite::Error::SqliteFailure(failure, _)
            if failure.extended_code == WRITE || failure.code == rusqlite::ErrorCode::CannotOpen
    )
}

/// Checks a file as far as that is possible without SQLite.
fn check_header(path: &Path) -> Result<(), StoreError> {
    let foreign = |what| {
        Err(StoreError::Foreign {
            path: path.to_path_buf(),
            what,
        })
    };
    let mut head = [0; 100];
    let mut file = File::open(path).map_err(StoreError::io("read", path))?;
    let found = file.metadata().map_err(StoreError::io("read", path))?;
    if !found.is_file() {
        return foreign("is not a file");
    }
    if found.len() == 0 {
        return foreign("is empty");
    }
    match file.read_exact(&mut head) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return foreign("is cut short");
        }
        read => read.map_err(StoreError::io("read", path))?,
    }
    if &head[..16] != MAGIC {
        return foreign("is not a database");
    }
    Ok(())
}

/// Refuses files beside the database that SQLite would use as its log and cannot:
/// SQLite's own error would blame the database. Opens nothing, since closing a file
/// would release SQLite's locks.
fn look_beside(path: &Path) -> Result<(), StoreError> {
    for suffix in ["-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let name = PathBuf::from(name);
        match fs::metadata(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Ok(found) if !found.is_file() => {
                return Err(StoreError::Foreign {
                    path: name,
                    what: "is not a file",
                });
            }
            found => found.map_err(StoreError::io("open", &name))?,
        };
        rustix::fs::access(&name, Access::READ_OK | Access::WRITE_OK)
            .map_err(|errno| StoreError::io("open", &name)(errno.into()))?;
    }
    Ok(())
}

/// Syncs a complete file and gives it its name.
pub(crate) fn publish(private: &Path, path: &Path) -> Result<(), StoreError> {
    File::open(private)
        .and_then(|file| file.sync_all())
        .map_err(StoreError::io("sync", private))?;
    fs::rename(private, path).map_err(StoreError::io("make", path))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(StoreError::io("sync", folder))
}

/// Removes a leftover of ours and the files that SQLite put beside it.
pub(crate) fn remove(path: &Path) -> Result<(), StoreError> {
    for suffix in ["", "-journal", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match fs::remove_file(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::io("remove", Path::new(&name))(error));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
