//! Copies of the database of facts, made while it is in use.

use std::fs;
use std::path::{Path, PathBuf};

use nero_model::Home;

use crate::db::Db;
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
    source.copy_to(&path)?;
    forget_old(&folder)?;
    Ok(path)
}

/// Copies `series.db` to `path` while it is in use.
///
/// # Errors
/// As [`backup`].
pub fn copy_series(home: &Home, path: &Path) -> Result<(), StoreError> {
    Db::open_to_read(&home.series_db(), migrate::SERIES)?.copy_to(path)
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
