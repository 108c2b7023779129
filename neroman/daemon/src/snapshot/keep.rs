//! Putting files into the store: `<2 hex>/<64 hex>` by BLAKE3, each written
//! under a private name, synced, and renamed.
//!
//! Renames wait for [`Keeper::finish`], so that many files are synced together;
//! a name in the store therefore never holds anything but its content.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nero_model::ids::{hex, random};
use rustix::fs::OFlags;

use super::cache::{Cache, Stamp};
use super::error::SnapshotError;

/// Up to here a file is read into memory before it is written.
const SMALL_BYTES: u64 = 1024 * 1024;
/// Bytes read at once.
const PART_BYTES: usize = 256 * 1024;
/// How often a file that changes is read again.
const TRIES: usize = 8;
/// A file that is taken again gets a new time when its own is older.
const RENEWED_AFTER: Duration = Duration::from_secs(24 * 3600);
/// Up to so many new files each is synced by itself; more are synced together.
const SYNCED_ALONE: usize = 64;

/// A file in the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) hash: [u8; 32],
    pub(super) size: u64,
    pub(super) executable: bool,
}

/// One freeze's writing.
#[derive(Debug)]
pub(super) struct Keeper<'a> {
    store: &'a Path,
    /// Content → private name, until [`Keeper::finish`].
    new: HashMap<[u8; 32], PathBuf>,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(store: &'a Path) -> Result<Self, SnapshotError> {
        nero_model::paths::make_private(store).map_err(refused("make", store))?;
        Ok(Self {
            store,
            new: HashMap::new(),
        })
    }

    /// Keeps a file, or knows that it is kept.
    pub(super) fn keep(&mut self, path: &Path, cache: &mut Cache) -> Result<Kept, SnapshotError> {
        let unreadable = |source| SnapshotError::Read {
            path: path.to_path_buf(),
            source,
        };
        for _ in 0..TRIES {
            let found = path.symlink_metadata().map_err(unreadable)?;
            let stamp = Stamp::of(&found);
            let kept = |hash| Kept {
                hash,
                size: stamp.size,
                executable: found.mode() & 0o111 != 0,
            };
            if let Some(hash) = cache.hash(path, &stamp).filter(|hash| self.has(hash)) {
                return Ok(kept(hash));
            }
            // Never through a link that was put there meanwhile, and never
            // waiting for the other end of a fifo.
            let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
            let mut file = OpenOptions::new()
                .read(true)
                .custom_flags(flags)
                .open(path)
                .map_err(unreadable)?;
            let before = Stamp::of(&file.metadata().map_err(unreadable)?);
            if before != stamp {
                continue;
            }
            let hash = self.copy(&mut file, path, stamp.size)?;
            let after = Stamp::of(&file.metadata().map_err(unreadable)?);
            if let Some(hash) = hash.filter(|_| after == stamp) {
                cache.learn(path, stamp, hash);
                return Ok(kept(hash));
            }
        }
        Err(SnapshotError::Changing {
            path: path.to_path_buf(),
        })
    }

    /// Keeps bytes of our own making.
    pub(super) fn keep_bytes(&mut self, bytes: &[u8]) -> Result<[u8; 32], SnapshotError> {
        let hash = *blake3::hash(bytes).as_bytes();
        if !self.has(&hash) {
            let (private, mut file) = self.private()?;
            file.write_all(bytes).map_err(refused("write", &private))?;
            self.new.insert(hash, private);
        }
        Ok(hash)
    }

    /// Whether the content is there. What is taken again is made new: it is not
    /// swept before the run that names it is known.
    fn has(&self, hash: &[u8; 32]) -> bool {
        if self.new.contains_key(hash) {
            return true;
        }
        let path = self.path(hash);
        let Ok(found) = path.symlink_metadata() else {
            return false;
        };
        let old = found
            .modified()
            .ok()
            .and_then(|at| at.elapsed().ok())
            .is_some_and(|age| age > RENEWED_AFTER);
        !old || renew(&path)
    }

    fn path(&self, hash: &[u8; 32]) -> PathBuf {
        let name = hex(hash);
        self.store.join(&name[..2]).join(name)
    }

    fn private(&self) -> Result<(PathBuf, File), SnapshotError> {
        let path = self.store.join(format!(".{}", hex(&random::<12>())));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o400)
            .open(&path)
            .map_err(refused("make", &path))?;
        Ok((path, file))
    }

    /// Copies an open file; `None` when it has another size than it said.
    fn copy(
        &mut self,
        file: &mut File,
        path: &Path,
        size: u64,
    ) -> Result<Option<[u8; 32]>, SnapshotError> {
        let unreadable = |source| SnapshotError::Read {
            path: path.to_path_buf(),
            source,
        };
        if size <= SMALL_BYTES {
            let mut bytes = Vec::with_capacity(size as usize + 1);
            file.take(size + 1)
                .read_to_end(&mut bytes)
                .map_err(unreadable)?;
            return match bytes.len() as u64 == size {
                true => self.keep_bytes(&bytes).map(Some),
                false => Ok(None),
            };
        }
        let (private, mut copy) = self.private()?;
        let mut hasher = blake3::Hasher::new();
        let mut part = vec![0; PART_BYTES];
        // Where the file system can share blocks, the copy is of one moment.
        let shared = rustix::fs::ioctl_ficlone(&copy, &*file).is_ok();
        let mut read = 0;
        loop {
            let count = match shared {
                true => copy.read(&mut part),
                false => file.read(&mut part),
            }
            .map_err(unreadable)?;
            if count == 0 {
                break;
            }
            read += count as u64;
            hasher.update(&part[..count]);
            if !shared {
                copy.write_all(&part[..count])
                    .map_err(refused("write", &private))?;
            }
        }
        let hash = *hasher.finalize().as_bytes();
        if read != size || self.has(&hash) {
            fs::remove_file(&private).map_err(refused("remove", &private))?;
            return Ok((read == size).then_some(hash));
        }
        self.new.insert(hash, private);
        Ok(Some(hash))
    }

    /// Syncs what is new and gives it its names.
    pub(super) fn finish(mut self) -> Result<(), SnapshotError> {
        if self.new.is_empty() {
            return Ok(());
        }
        let store = open(self.store)?;
        let alone = self.new.len() <= SYNCED_ALONE;
        let sync_all = || rustix::fs::syncfs(&store).map_err(io::Error::from);
        if !alone {
            sync_all().map_err(refused("sync", self.store))?;
        }
        let mut folders = BTreeSet::new();
        for (hash, private) in std::mem::take(&mut self.new) {
            if alone {
                open(&private)?
                    .sync_all()
                    .map_err(refused("sync", &private))?;
            }
            let path = self.path(&hash);
            let folder = path.parent().unwrap_or(self.store).to_path_buf();
            match fs::create_dir(&folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(refused("make", &folder)(error));
                }
                _ => {}
            }
            fs::rename(&private, &path).map_err(refused("make", &path))?;
            folders.insert(folder);
        }
        if !alone {
            return sync_all().map_err(refused("sync", self.store));
        }
        for folder in folders {
            open(&folder)?
                .sync_all()
                .map_err(refused("sync", &folder))?;
        }
        store.sync_all().map_err(refused("sync", self.store))
    }
}

impl Drop for Keeper<'_> {
    /// Takes away what a freeze that failed left.
    fn drop(&mut self) {
        for private in self.new.values() {
            // A leftover takes space and harms nothing.
            let _ = fs::remove_file(private);
        }
    }
}

/// Gives a file the present time; false when it went away.
fn renew(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    let times = Timestamps {
        last_access: now,
        last_modification: now,
    };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

fn open(path: &Path) -> Result<File, SnapshotError> {
    File::open(path).map_err(refused("open", path))
}

fn refused(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SnapshotError {
    let path = path.to_path_buf();
    move |source| SnapshotError::Store { what, path, source }
}
