//! Content-addressed files of a deployment on this node: `store/<2>/<64>`,
//! mode 0400, named by BLAKE3, and many small ones together in packs
//! (`nero_blobs`). Content is checked before it gets its name, and compared with
//! the name again when it is first used (see `verified`): a power cut, a disk or
//! a job may have changed it since.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use nero_blobs::{PackEntry, Packs};
use nero_model::ids::hex;
use nero_model::paths::NodePaths;
use rustix::io::Errno;

use super::flights::Flights;
use super::reservations::Reservations;
use super::small::SmallTrees;
use super::verified::{VerifiedFiles, WrongHash};
use crate::config;

/// Limit of the files that are copied through memory.
const SMALL_BYTES: u64 = 64 * 1024;

/// The store's folder.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    /// The node's name as a file name: several nodes may have one store.
    node: PathBuf,
    flights: Flights,
    reservations: Reservations,
    verified: VerifiedFiles,
    small: SmallTrees,
    /// Whether the file system was found to share no blocks between files.
    copies: Arc<AtomicBool>,
}

impl Store {
    /// The store of this deployment.
    pub fn new(paths: &NodePaths) -> Self {
        Self {
            folder: paths.store(),
            node: paths.mum().file_name().unwrap_or_default().into(),
            flights: Flights::default(),
            reservations: Reservations::default(),
            verified: VerifiedFiles::default(),
            small: SmallTrees::default(),
            copies: Arc::default(),
        }
    }

    /// Path of a blob, whether it exists or not.
    pub fn path(&self, hash: &[u8; 32]) -> PathBuf {
        nero_blobs::path(&self.folder, hash)
    }

    /// The store as it is at the first look, for many looks. Callers reserve
    /// files before they look: a sweep may remove files that this shows.
    pub fn view(&self) -> Look<'_> {
        Look {
            store: self,
            packs: OnceLock::new(),
        }
    }

    /// The folder of all blobs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Partial files of broken transfers, by hash, of this node alone. Another
    /// node with the same store has its own folder, so that no two processes
    /// write one file.
    pub fn partials(&self) -> PathBuf {
        self.partials_of_all().join(&self.node)
    }

    /// The folder of the partial files of every node; earlier builds left files
    /// in it.
    pub fn partials_of_all(&self) -> PathBuf {
        self.folder.join("partial")
    }

    pub(super) fn partial_path(&self, hash: &[u8; 32]) -> PathBuf {
        self.partials().join(hex(hash))
    }

    /// A new unique name on the same file system.
    pub(super) fn private_path(&self) -> PathBuf {
        nero_blobs::private(&self.folder)
    }

    /// Files that were asked for lately.
    pub fn reservations(&self) -> &Reservations {
        &self.reservations
    }

    /// Blobs that are being written now.
    pub fn flights(&self) -> &Flights {
        &self.flights
    }

    /// Files whose content was compared with their hash.
    pub fn verified(&self) -> &VerifiedFiles {
        &self.verified
    }

    /// The lists of small trees.
    pub fn small(&self) -> &SmallTrees {
        &self.small
    }

    /// Reads a blob whole and checks it.
    ///
    /// # Errors
    /// When the blob cannot be read, or a disk changed it.
    pub fn read(&self, hash: &[u8; 32]) -> io::Result<Vec<u8>> {
        self.view().read(hash)
    }

    /// The first bytes of a blob, unchecked.
    ///
    /// # Errors
    /// When the blob cannot be read.
    pub fn head(&self, hash: &[u8; 32], bytes: u64) -> io::Result<Vec<u8>> {
        match File::open(self.path(hash)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut whole = self.read(hash)?;
                whole.truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
                Ok(whole)
            }
            file => {
                let mut head = Vec::new();
                file?.take(bytes).read_to_end(&mut head)?;
                Ok(head)
            }
        }
    }

    /// Removes a blob that is not what its name promises, since the next check
    /// would fail again. Other contents of its pack stay where possible.
    pub fn drop_damaged(&self, hash: &[u8; 32]) {
        let packs = Packs::open(&self.folder).unwrap_or_default();
        let is_damaged = |place: &PackEntry<'_>| {
            let read = place.read();
            read.is_err_and(|error| error.kind() == io::ErrorKind::InvalidData)
        };
        let Some(damaged) = packs.find(hash).filter(is_damaged) else {
            let path = self.path(hash);
            // We never make a folder of this name.
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
            return;
        };
        if nero_blobs::heal(&self.folder, damaged.pack()).is_err() {
            // Without room, the other contents go with it, and are sent again.
            let _ = fs::remove_file(damaged.pack());
        }
    }

    /// Removes half-written files of dead processes. Another neromum with the
    /// same store writes its private files within moments.
    pub fn sweep(&self) {
        for (path, _) in nero_blobs::leftovers(&self.folder, config::RESERVED_FOR) {
            // Best effort: a leftover takes space and harms nothing.
            let _ = fs::remove_file(path);
        }
    }
}

/// See [`Store::view`].
#[derive(Debug)]
pub struct Look<'a> {
    store: &'a Store,
    /// Opened at the first use: many runs need no pack.
    packs: OnceLock<Packs>,
}

impl Look<'_> {
    /// The store that is looked at.
    pub fn store(&self) -> &Store {
        self.store
    }

    fn packs(&self) -> &Packs {
        self.packs.get_or_init(|| {
            let folder = &self.store.folder;
            Packs::open(folder).unwrap_or_else(|error| {
                // Their contents are sent again.
                tracing::warn!(store = %folder.display(), %error, "packs cannot be read");
                Packs::default()
            })
        })
    }

    /// Reads a blob whole and checks it.
    ///
    /// # Errors
    /// When the blob cannot be read, or a disk changed it.
    pub fn read(&self, hash: &[u8; 32]) -> io::Result<Vec<u8>> {
        let bytes = match fs::read(self.store.path(hash)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let place = self.packs().find(hash);
                return place.map_or(Err(error), |place| place.read());
            }
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => Vec::new(),
            read => read?,
        };
        if blake3::hash(&bytes).as_bytes() != hash {
            let wrong = WrongHash { hash: *hash };
            return Err(io::Error::new(io::ErrorKind::InvalidData, wrong));
        }
        Ok(bytes)
    }

    /// Whether a blob exists. A power cut leaves empty files, so an empty file
    /// counts only as the blob of no content.
    pub fn has(&self, hash: &[u8; 32]) -> bool {
        self.packs().find(hash).is_some()
            || self
                .alone(hash)
                .is_some_and(|bytes| bytes > 0 || blake3::hash(&[]).as_bytes() == hash)
    }

    /// Size of a blob, when it exists.
    pub fn size(&self, hash: &[u8; 32]) -> Option<u64> {
        let packed = self.packs().find(hash);
        packed
            .map(|place| place.size())
            .or_else(|| self.alone(hash))
    }

    fn alone(&self, hash: &[u8; 32]) -> Option<u64> {
        let found = self.store.path(hash).symlink_metadata().ok()?;
        Some(found.len())
    }

    /// Copies a blob to the new file `to`; one of more than 64 KiB shares its blocks
    /// where the file system can. The copied content has this hash.
    ///
    /// # Errors
    /// When either cannot be read or made; `InvalidData` when the content has
    /// another hash, and `NotFound` when the blob does not exist.
    pub fn copy(&self, hash: &[u8; 32], to: &Path, mode: u32) -> io::Result<()> {
        if let Some(place) = self.packs().find(hash) {
            return unpack(&place, to, mode);
        }
        let path = self.store.path(hash);
        let mut source = self.store.verified.open(&path, hash)?;
        let mut target = new_file(to, mode)?;
        if source.len() <= SMALL_BYTES {
            // One read and one write: every other way takes more calls.
            let mut bytes = Vec::with_capacity(source.len() as usize);
            (&source.file).take(source.len()).read_to_end(&mut bytes)?;
            target.write_all(&bytes)?;
        } else if !self.shares_blocks(&target, &source.file) {
            // The kernel copies (`copy_file_range`), where it can.
            io::copy(&mut source.file, &mut target)?;
        }
        source.unchanged()
    }

    /// Makes `target` from the blocks of `source`; false when the file system
    /// cannot, which is asked once.
    fn shares_blocks(&self, target: &File, source: &File) -> bool {
        if self.store.copies.load(Ordering::Relaxed) {
            return false;
        }
        let shared = rustix::fs::ioctl_ficlone(target, source);
        if matches!(shared, Err(Errno::OPNOTSUPP | Errno::NOTTY)) {
            self.store.copies.store(true, Ordering::Relaxed);
        }
        shared.is_ok()
    }

    /// Gives a blob a second name; false where that is impossible, or where its
    /// mode would not protect it (for root).
    pub fn link(&self, hash: &[u8; 32], to: &Path) -> bool {
        !rustix::process::geteuid().is_root()
            && self.packs().find(hash).is_none()
            && fs::hard_link(self.store.path(hash), to).is_ok()
    }
}

fn unpack(place: &PackEntry<'_>, to: &Path, mode: u32) -> io::Result<()> {
    let content = place.read()?;
    new_file(to, mode)?.write_all(&content)
}

fn new_file(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
}
