//! Which ledger this is. Where a node's `root:` or `address:` leads to another folder, neroman sees
//! another identity, and hands over nothing there that the ledger before may have.

use std::fs::File;
use std::io;
use std::path::Path;

use nero_journal::frame::{self, FrameError, FrameKind};
use nero_journal::v1::LedgerIdentity;
use nero_model::LedgerId;

use super::LedgerError;

/// Name of the file in the ledger's folder.
const NAME: &str = "identity";

/// The identity of the ledger in this folder; the first start makes it, synced.
///
/// # Errors
/// When it cannot be read or made.
pub fn of(folder: &Path) -> Result<LedgerId, LedgerError> {
    let path = folder.join(NAME);
    let unusable = |source| LedgerError::Identity {
        path: path.clone(),
        source,
    };
    if !path.exists() {
        let id = LedgerId::random().to_vec();
        let made = frame::create_synced(FrameKind::LedgerIdentity, &path, &LedgerIdentity { id });
        // After a power cut the ledger is the same one, so the name is synced, too.
        match made.and_then(|()| File::open(folder)?.sync_all()) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(unusable(FrameError::Io(error)));
            }
            // A neromum of another host may have been faster: the file is read below.
            Ok(()) | Err(_) => {}
        }
    }
    let kept: LedgerIdentity = frame::read(FrameKind::LedgerIdentity, &path).map_err(unusable)?;
    LedgerId::from_slice(&kept.id).ok_or_else(|| unusable(FrameError::Damaged))
}
