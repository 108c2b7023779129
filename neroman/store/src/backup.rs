//! Copies of the database of facts, made while it is in use.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nero_model::Home;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::db::{self, Db};
use crate::error::StoreError;
use crate::migrate;

/// How many hourly copies are kept.
const KEPT: usize = 7;

/// The folder of the copies.
pub fn folder(home: &Home) -> PathBuf {
    home.data.join("backups")
}

/// Copies `state.db` into [`folder`], verifies the copy by opening it, and
/// removes all but the newest seven. Runs on its own connection, so any thread
/// may call it while the writer goes on.
///
/// # Errors
/// When it cannot be copied, or the copy is damaged; older copies stay then.
pub fn backup(home: &Home, now_ms: i64) -> Result<PathBuf, StoreError> {
    let folder = folder(home);
    nero_model::paths::make_private(&folder).map_err(StoreError::io("make", &folder))?;
    let source = Db::open_to_read(&home.state_db(), migrate::STATE)?;
    let path = folder.join(format!("state-{}.db", stamp(now_ms)));
    copy(&source, &path)?;
    forget_old(&folder)?;
    Ok(path)
}

/// Copies a database to `path`, complete, checked and synced, or not at all.
pub(crate) fn copy(source: &Db, path: &Path) -> Result<(), StoreError> {
    let mut private = path.as_os_str().to_owned();
    private.push(".new");
    let private = PathBuf::from(private);
    db::remove(&private)?;
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&private)
        .map_err(StoreError::io("make", &private))?;
    let failed = |error| StoreError::from_sql(&private, error);
    let mut target = Connection::open(&private).map_err(failed)?;
    let copying = Backup::new(&source.conn, &mut target).map_err(failed)?;
    // All pages in one step: commits of the writer do not make it begin again.
    match copying.step(-1).map_err(failed)? {
        StepResult::Done => {}
        _ => {
            return Err(StoreError::Busy {
                path: source.path.clone(),
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
            path: source.path.clone(),
            what: word,
        });
    }
    target.close().map_err(|(_, error)| failed(error))?;
    db::publish(&private, path)
}

/// A time that sorts as a name: `20261121T024512Z`.
fn stamp(now_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(now_ms).map_or_else(
        |_| format!("{now_ms:020}"),
        |time| time.strftime("%Y%m%dT%H%M%SZ").to_string(),
    )
}

fn forget_old(folder: &Path) -> Result<(), StoreError> {
    let list = || -> std::io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?
            .map(|entry| Ok(entry?.path()))
            .collect()
    };
    let mut copies = list().map_err(StoreError::io("list", folder))?;
    copies.retain(|path| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with("state-") && name.ends_with(".db"))
    });
    copies.sort();
    let old = copies.len().saturating_sub(KEPT);
    for path in &copies[..old] {
        fs::remove_file(path).map_err(StoreError::io("remove", path))?;
    }
    Ok(())
}
