//! Whether the node's disk has room, and the error when it has none.

use std::io;
use std::path::Path;

use nero_model::units::short_bytes;
use tonic::Status;

/// Refuses bytes that would use the reserve for running jobs' records.
pub fn check(folder: &Path, bytes: u64, kept_back: u64) -> Result<(), Status> {
    let Some(free) = free(folder) else {
        return Ok(());
    };
    if free >= bytes.saturating_add(kept_back) {
        return Ok(());
    }
    Err(Status::resource_exhausted(format!(
        "the node's disk is full: {} are free at {}, {} are kept back, {} more are to be written \
         (make room there, or: neroman clean); what came already is kept",
        short_bytes(free),
        folder.display(),
        short_bytes(kept_back),
        short_bytes(bytes)
    )))
}

/// Whether an error means that there is no room.
pub fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

/// The error for a full disk, or a used up quota.
pub fn full(folder: &Path, path: &Path, error: &io::Error, needed: u64) -> Status {
    let free = free(folder).map_or_else(|| "?".to_owned(), short_bytes);
    let what = match error.kind() {
        io::ErrorKind::QuotaExceeded => "your quota on the node is used up",
        _ => "the node's disk is full",
    };
    Status::resource_exhausted(format!(
        "{what} ({error}): {} or more are needed for {}, {free} are free \
         (make room there, or: neroman clean); what came already is kept",
        short_bytes(needed),
        path.display(),
    ))
}

/// Free space for this user; `None` when it cannot be read.
pub fn free(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check(folder.path(), 1, 0).is_ok());
        let refused = check(folder.path(), 1, u64::MAX - 1).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    }
}
