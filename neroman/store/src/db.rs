//! Opening one file: nothing is taken for granted, and what is not ours,
//! damaged or newer is left exactly as it was found.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use rustix::fs::Access;

use crate::backup;
use crate::error::StoreError;
use crate::mark::{self, Claim, Line};
use crate::migrate::{self, Kind};
use crate::place;

/// How long another process may hold the file before a call fails.
const BUSY: Duration = Duration::from_secs(10);
/// First bytes of every SQLite database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Up to this size a file is checked at once after an unclean end.
const CHECK_AT_ONCE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// No write of SQLite is larger than a page with its header.
const WRITTEN_LEAST: u64 = 64 * 1024 + 24;
/// A log of more frames is moved into its file without waiting for a quiet moment.
const FRAMES_MAX: u32 = 1000;

/// One open file.
#[derive(Debug)]
pub(crate) struct Db {
    pub(crate) conn: Connection,
    pub(crate) path: PathBuf,
    synced: Cell<Option<bool>>,
    broken: Cell<bool>,
    /// Where the log's length is kept; none for a reader.
    mark: Option<Line>,
}

/// What opening found and did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    pub(crate) migrated_from: Option<i64>,
    /// The whole file should be checked, and is too large to wait for.
    pub(crate) check_owed: bool,
}

impl Db {
    /// Opens a file that exists. `unclean`: whoever had it last did not close it,
    /// and `log` is what its log must hold.
    pub(crate) fn open(
        path: &Path,
        kind: Kind,
        unclean: bool,
        log: Option<Claim>,
    ) -> Result<(Self, Found), StoreError> {
        look(path)?;
        look_beside(path)?;
        mark::check(path, log)?;
        let db = Self::attach(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let failed = |error| db.failed(error);
        // A start that is refused, for this file or another one, must not change it: SQLite would
        // move the log and remove it, and the mark would claim that it is there.
        db.conn
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .map_err(failed)?;
        let version = db.identify(kind)?;
        let mut found = Found {
            migrated_from: (version < kind.version()).then_some(version),
            ..Found::default()
        };
        if unclean {
            let length = fs::metadata(path).map_err(StoreError::io("read", path))?;
            found.check_owed = length.len() > CHECK_AT_ONCE_BYTES_MAX;
            if !found.check_owed {
                db.quick_check()?;
            }
        }
        if let Some(version) = found.migrated_from {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".before-v{}", version + 1));
            backup::copy(&db, Path::new(&name))?;
            kind.migrate(&db.conn, version).map_err(failed)?;
        }
        db.check_schema(kind)?;
        db.conn
            .pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))
            .map_err(failed)?;
        // A log that grew large gives its space back.
        db.conn
            .pragma_update_and_check(None, "journal_size_limit", 64 << 20, |_| Ok(()))
            .map_err(failed)?;
        Ok((db, found))
    }

    /// Has SQLite remove the log when the file is closed; called when it is empty and
    /// nothing claims it any more.
    pub(crate) fn remove_log_on_close(&self) {
        // Should SQLite refuse, the empty log stays, which the next start takes as sound.
        let _ = self
            .conn
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false);
    }

    /// Keeps the log's length in this line from now on, and lets SQLite move no
    /// frames by itself: the line has to say so before.
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

    /// Commits, and claims what the log holds now.
    pub(crate) fn finish(&self, open: Transaction<'_>) -> Result<(), StoreError> {
        open.commit().map_err(|error| self.failed(error))?;
        let Some(line) = &self.mark else {
            return Ok(());
        };
        // What was committed is committed, whatever becomes of the mark.
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
    pub(crate) fn open_to_read(path: &Path, kind: Kind) -> Result<Self, StoreError> {
        look(path)?;
        let db = Self::attach(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        if db.identify(kind)? < kind.version() {
            return Err(StoreError::Foreign {
                path: path.to_path_buf(),
                what: "has an older version",
            });
        }
        Ok(db)
    }

    /// Makes a new file, complete or not at all: under a private name first.
    pub(crate) fn create(
        path: &Path,
        kind: Kind,
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
        // In the header, so that every later open finds the log's mode set.
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

    /// Refuses what is not ours; returns the version.
    fn identify(&self, kind: Kind) -> Result<i64, StoreError> {
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
            return foreign("says no version");
        }
        Ok(version)
    }

    fn check_schema(&self, kind: Kind) -> Result<(), StoreError> {
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

    /// Moves the log into the file, so that the next transactions take the place
    /// that it has. What somebody is just reading stays.
    pub(crate) fn use_log_again(&self) -> Result<(), StoreError> {
        self.move_log("passive").map(drop)
    }

    /// Moves the log into the file and cuts it to nothing; false when somebody
    /// is reading in it.
    pub(crate) fn empty_log(&self) -> Result<bool, StoreError> {
        let failed = |error| self.failed(error);
        if self.frames()? == 0 {
            return Ok(true);
        }
        // A reader is not waited for: there is a next quiet moment.
        self.conn.busy_timeout(Duration::ZERO).map_err(failed)?;
        let moved = self.move_log("truncate");
        self.conn.busy_timeout(BUSY).map_err(failed)?;
        match moved {
            Err(StoreError::Busy { .. }) => Ok(false),
            moved => moved,
        }
    }

    /// Whether all of the log was moved.
    fn move_log(&self, how: &str) -> Result<bool, StoreError> {
        if let Some(line) = &self.mark {
            line.empties(&self.path, self.frames()?);
        }
        self.conn
            .pragma_update_and_check(None, "wal_checkpoint", how, |row| row.get::<_, i64>(0))
            .map(|busy| busy == 0)
            .map_err(|error| self.failed(error))
    }

    /// Begins a transaction whose commit is synced, or only ordered.
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

    /// Refuses a write that no transaction would undo: a full disk may have
    /// ended the one that the caller believes in.
    pub(crate) fn in_transaction(&self) -> Result<(), StoreError> {
        if self.conn.is_autocommit() {
            return Err(StoreError::Undone {
                path: self.path.clone(),
            });
        }
        Ok(())
    }

    /// Runs a statement of the current transaction; tells how many rows it changed.
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

    /// Whether a failure was final.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.get()
    }

    /// The folder that the file lies in.
    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Names the file in SQLite's error. A failure of the storage is remembered:
    /// after a failed fsync nobody knows what the disk has.
    pub(crate) fn failed(&self, error: rusqlite::Error) -> StoreError {
        let error = match StoreError::from_sql(&self.path, error) {
            // SQLite knows a full disk, but not a quota that is used up.
            StoreError::Broken { path, source }
                if is_write(&source) && !place::has_room(self.folder(), WRITTEN_LEAST) =>
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

/// Whether SQLite could not write what it undoes by itself then.
fn is_write(error: &rusqlite::Error) -> bool {
    /// `SQLITE_IOERR_WRITE`.
    const WRITE: i32 = 10 | (3 << 8);
    matches!(error, rusqlite::Error::SqliteFailure(failure, _) if failure.extended_code == WRITE)
}

/// What can be said of a file without SQLite.
fn look(path: &Path) -> Result<(), StoreError> {
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

/// Refuses what lies where SQLite puts its log and cannot be used: SQLite would
/// name the database. Nothing is opened, since closing it would release SQLite's
/// locks.
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

/// Gives a complete file its name, synced.
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

/// Removes a leftover of ours and what SQLite put beside it.
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
