//! The files of the store that this process has compared with their hash.
//!
//! Content is hashed once, when it is first used; afterwards a file counts as
//! unchanged while its size, inode and times of change are the same. The memory
//! ends with the process, so a restart of the machine always hashes again.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use nero_blobs::Stamp;
use nero_model::ids::hex;

/// The content does not have the hash that it was announced with.
#[derive(Debug, thiserror::Error)]
#[error("the content of {} does not have this hash", hex(.hash))]
pub struct WrongHash {
    /// The announced hash.
    pub hash: [u8; 32],
}

/// The files that were hashed. Clones share the memory.
#[derive(Clone, Debug, Default)]
pub struct VerifiedFiles(Arc<Mutex<HashMap<Inode, Slot>>>);

/// Device and inode number.
type Inode = (u64, u64);

/// Locked while the file is hashed: runs that start together hash it once.
type Slot = Arc<Mutex<Option<KnownHash>>>;

/// A file's hash, with its stamp at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KnownHash {
    hash: [u8; 32],
    stamp: Stamp,
}

/// An open file whose content was compared with its hash.
#[derive(Debug)]
pub struct VerifiedFile {
    /// Open for reading, at its beginning.
    pub file: File,
    hash: [u8; 32],
    stamp: Stamp,
}

impl VerifiedFile {
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.stamp.size
    }

    /// Checks that the file is still as verified; called after it was copied.
    ///
    /// # Errors
    /// `InvalidData` when it was written to since.
    pub fn unchanged(&self) -> io::Result<()> {
        if Stamp::of(&self.file.metadata()?) == self.stamp {
            Ok(())
        } else {
            Err(wrong(self.hash))
        }
    }
}

impl VerifiedFiles {
    /// Opens a file and compares its content with `hash`, unless its stamp is the
    /// same as at the last comparison.
    ///
    /// # Errors
    /// `InvalidData` when the content is another; otherwise as `open` and `read`.
    pub fn open(&self, path: &Path, hash: &[u8; 32]) -> io::Result<VerifiedFile> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(wrong(*hash));
        }
        let slot = self.slot((found.dev(), found.ino()));
        let mut known = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = Stamp::of(&found);
        if *known == Some(KnownHash { hash: *hash, stamp }) {
            return Ok(VerifiedFile {
                file,
                hash: *hash,
                stamp,
            });
        }
        let now = KnownHash {
            hash: *hash,
            // The file may have got a second name while this waited for the slot.
            stamp: Stamp::of(&file.metadata()?),
        };
        if *known != Some(now) {
            let mut hasher = blake3::Hasher::new();
            hasher.update_reader(&file)?;
            if hasher.finalize().as_bytes() != hash {
                return Err(wrong(*hash));
            }
            use io::Seek as _;
            (&file).rewind()?;
            *known = Some(now);
        }
        let verified = VerifiedFile {
            file,
            hash: *hash,
            stamp: now.stamp,
        };
        verified.unchanged()?;
        Ok(verified)
    }

    /// Notes that the content of `file` was hashed while it was written.
    pub fn note(&self, file: &File, hash: &[u8; 32]) {
        // Without a note the file is hashed once more.
        let Ok(found) = file.metadata() else { return };
        let slot = self.slot((found.dev(), found.ino()));
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(KnownHash {
            hash: *hash,
            stamp: Stamp::of(&found),
        });
    }

    fn slot(&self, inode: Inode) -> Slot {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(inode).or_default())
    }
}

fn wrong(hash: [u8; 32]) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, WrongHash { hash })
}
