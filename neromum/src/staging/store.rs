//! Content-addressed files of a deployment on this node: `store/<2>/<64>`,
//! mode 0400, named by BLAKE3. A name that exists holds what it says: content
//! is checked before it gets its name.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nero_model::ids::hex;
use nero_model::paths::NodePaths;

/// The store's folder.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// A blob on its way into the store.
#[derive(Debug)]
pub struct Incoming {
    hash: [u8; 32],
    hasher: blake3::Hasher,
    private: PathBuf,
    file: File,
    bytes: u64,
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
        }
    }

    /// Where a blob lies or would lie.
    pub fn path(&self, hash: &[u8; 32]) -> PathBuf {
        let name = hex(hash);
        self.folder.join(&name[..2]).join(name)
    }

    /// Whether it is there.
    pub fn has(&self, hash: &[u8; 32]) -> bool {
        self.path(hash).symlink_metadata().is_ok()
    }

    /// Begins to take a blob in.
    ///
    /// # Errors
    /// When its file cannot be made.
    pub fn begin(&self, hash: [u8; 32]) -> io::Result<Incoming> {
        nero_model::paths::make_private(&self.folder)?;
        let private = self
            .folder
            .join(format!(".{}", hex(&nero_model::ids::random::<12>())));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o400)
            .open(&private)?;
        Ok(Incoming {
            hash,
            hasher: blake3::Hasher::new(),
            private,
            file,
            bytes: 0,
        })
    }

    /// Gives a blob its name.
    ///
    /// # Errors
    /// When the disk refuses, or its content is another than announced.
    pub fn finish(&self, mut incoming: Incoming) -> io::Result<u64> {
        incoming.file.flush()?;
        if *incoming.hasher.finalize().as_bytes() != incoming.hash {
            let hash = incoming.hash;
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                WrongHash { hash },
            ));
        }
        let path = self.path(&incoming.hash);
        let folder = path.parent().unwrap_or(&self.folder);
        match super::private_folder(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        fs::rename(&incoming.private, &path)?;
        Ok(incoming.bytes)
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

    /// Removes what dead processes left half-written.
    pub fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        for entry in entries.flatten() {
            let private = entry.file_name().as_encoded_bytes().starts_with(b".");
            if private && entry.file_type().is_ok_and(|kind| kind.is_file()) {
                // Best effort: a leftover takes space and harms nothing.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

impl Incoming {
    /// Appends content.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn write(&mut self, data: &[u8]) -> io::Result<()> {
        self.hasher.update(data);
        self.bytes += data.len() as u64;
        self.file.write_all(data)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // After `finish` the private name is gone, and this finds nothing.
        let _ = fs::remove_file(&self.private);
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
