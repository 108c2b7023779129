//! `Backup`: a copy of the whole home in one file, consistent while the daemon works.

use std::path::PathBuf;

use nero_wire::v1;

use crate::service::{Man, blocking};
use nero_home::backup;
use nero_home::failure::Failure;

impl Man {
    /// Writes the home into a file.
    pub(crate) async fn backup(
        &self,
        request: v1::BackupRequest,
    ) -> Result<v1::BackupReply, Failure> {
        let path = PathBuf::from(&request.file);
        if !path.is_absolute() {
            return Err(Failure::usage("the path of a backup is absolute"));
        }
        self.ledger.durable().await?;
        let (home, now_ms) = (self.home.clone(), self.clock.now_ms());
        blocking(move || backup::write(&home, &path, now_ms)).await?
    }
}
