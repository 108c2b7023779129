//! Content-addressed files of a deployment on this node: `store/<2>/<64>`,
//! mode 0400, named by BLAKE3. A name that exists holds what it says: content
//! is checked before it gets its name.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nero_model::ids::hex;
use nero_model::paths::NodePaths;

use super::incoming::Flights;
use super::wishes::Wishes;
use crate::config;

/// The store's folder.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    /// The node's name as a file name: several may have one store.
    node: PathBuf,
    flights: Flights,
    wishes: Wishes,
}

/// The content does not have the hash that it was announced with.
#[derive(Debug, thiserror::Error)]
#[error("the content of {} does not have this hash", hex(.hash))]
pub struct WrongHash {
    /// As announced.
    pub hash: [u8; 32],
}

impl Store {
    /// Of this deployment.
    pub fn new(paths: &NodePaths) -> Self {
        Self {
            folder: paths.store(),
            node: paths.mum().file_name().unwrap_or_default().into(),
            flights: Flights::default(),
            wishes: Wishes::default(),
        }
    }

    /// Where a blob lies or would lie.
    pub fn path(&self, hash: &[u8; 32]) -> PathBuf {
        let name = hex(hash);
        self.folder.join(&name[..2]).join(name)
    }

    /// Whether it is there. An empty file under another name than that of no
    /// content is what a power cut left.
    pub fn has(&self, hash: &[u8; 32]) -> bool {
        self.size(hash)
            .is_some_and(|bytes| bytes > 0 || blake3::hash(&[]).as_bytes() == hash)
    }

    /// Its size, when it is there.
    pub fn size(&self, hash: &[u8; 32]) -> Option<u64> {
        let found = self.path(hash).symlink_metadata().ok()?;
        Some(found.len())
    }

    /// The folder of all blobs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What broken transfers left, by hash: of this node alone. Another one
    /// with the same store has its own, so that no two processes write one file.
    pub fn partials(&self) -> PathBuf {
        self.partials_of_all().join(&self.node)
    }

    /// The folder of what broken transfers left of every node; earlier builds
    /// left files in it.
    pub fn partials_of_all(&self) -> PathBuf {
        self.folder.join("partial")
    }

    pub(super) fn partial_path(&self, hash: &[u8; 32]) -> PathBuf {
        self.partials().join(hex(hash))
    }

    /// A name that nobody else has, on the same file system.
    pub(super) fn private_path(&self) -> PathBuf {
        let name = hex(&nero_model::ids::random::<12>());
        self.folder.join(format!(".{name}"))
    }

    /// What somebody asked for lately.
    pub fn wishes(&self) -> &Wishes {
        &self.wishes
    }

    /// Blobs that are being written now.
    pub fn flights(&self) -> &Flights {
        &self.flights
    }

    /// Reads a blob whole and checks it.
    ///
    /// # Errors
    /// When it cannot be read, or a disk changed it.
    pub fn read(&self, hash: &[u8; 32]) -> io::Result<Vec<u8>> {
        let bytes = fs::read(self.path(hash))?;
        if blake3::hash(&bytes).as_bytes() != hash {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                WrongHash { hash: *hash },
            ));
        }
        Ok(bytes)
    }

    /// Removes what dead processes left half-written. Another neromum with the
    /// same store writes its private files within moments.
    pub fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        for entry in entries.flatten() {
            let private = entry.file_name().as_encoded_bytes().starts_with(b".");
            let is_left = |found: fs::Metadata| {
                let age = found
                    .modified()
                    .and_then(|at| at.elapsed().map_err(io::Error::other));
                found.is_file() && age.is_ok_and(|age| age > config::WISH_KEPT)
            };
            if private && entry.metadata().is_ok_and(is_left) {
                // Best effort: a leftover takes space and harms nothing.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Copies a stored file to `to`, sharing its blocks where the file system can.
///
/// # Errors
/// When either cannot be read or made.
pub fn copy(from: &Path, to: &Path, mode: u32) -> io::Result<u64> {
    let mut source = File::open(from)?;
    let mut target = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(to)?;
    if rustix::fs::ioctl_ficlone(&target, &source).is_ok() {
        return Ok(target.metadata()?.len());
    }
    io::copy(&mut source, &mut target)
}

/// Copies by sharing blocks alone; false where the file system cannot.
///
/// # Errors
/// When the source cannot be read or the target not be made.
pub fn clone(from: &Path, to: &Path, mode: u32) -> io::Result<bool> {
    let source = File::open(from)?;
    let target = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(to)?;
    if rustix::fs::ioctl_ficlone(&target, &source).is_ok() {
        return Ok(true);
    }
    fs::remove_file(to)?;
    Ok(false)
}
