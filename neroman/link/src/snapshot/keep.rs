//! Puts files into the store: `<2 hex>/<64 hex>` by BLAKE3, each written under
//! a private name, synced, and renamed; many small ones together in a pack
//! (`nero_blobs`).
//!
//! Renames wait for [`Keeper::finish`], so that many files are synced together;
//! a name in the store therefore never has wrong content.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use nero_blobs::{CONTENT_BYTES_MAX, Gather, Packs, Stamp};
use rustix::fs::OFlags;

use super::cache::Cache;
use super::error::SnapshotError;

/// Up to this size a file is read into memory before it is written.
const SMALL_BYTES: u64 = 1024 * 1024;
/// Bytes read at once.
const PART_BYTES: usize = 256 * 1024;
/// How often a file that changes is read again.
const TRIES: usize = 8;
/// Bytes of a long file that are copied before they are hashed and written back.
const COPIED_BYTES: u64 = 8 * 1024 * 1024;
/// A file that is kept again gets a new time if its own is older.
const RENEWED_AFTER: Duration = Duration::from_secs(24 * 3600);
/// Up to this many new files are synced one by one; more are synced together.
const SYNCED_ALONE: usize = 64;

/// A file in the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredFile {
    pub(super) hash: [u8; 32],
    pub(super) size: u64,
    pub(super) executable: bool,
}

/// The writer of one freeze.
#[derive(Debug)]
pub(super) struct Keeper<'a> {
    store: &'a Path,
    /// The packs of the store, and those of them whose time was renewed.
    packs: Packs,
    renewed: HashSet<PathBuf>,
    /// Content → private name, until [`Keeper::finish`].
    new: HashMap<[u8; 32], PathBuf>,
    /// Small contents without a name so far.
    small: Gather,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(store: &'a Path) -> Result<Self, SnapshotError> {
        nero_model::paths::make_private(store).map_err(refused("make", store))?;
        let packs = Packs::open(store);
        Ok(Self {
            store,
            packs: packs.map_err(refused("read packs of", store))?,
            renewed: HashSet::new(),
            new: HashMap::new(),
            small: Gather::new(store, true),
        })
    }

    /// Puts a file into the store, unless it is there.
    pub(super) fn keep(
        &mut self,
        path: &Path,
        cache: &mut Cache,
    ) -> Result<StoredFile, SnapshotError> {
        hashed(path, cache, Some(self))
    }

    /// Puts bytes of our own into the store, as a file of their own.
    pub(super) fn keep_bytes(&mut self, bytes: &[u8]) -> Result<[u8; 32], SnapshotError> {
        let hash = *blake3::hash(bytes).as_bytes();
        if !self.has_alone(&hash) {
            let (private, mut file) = self.private()?;
            file.write_all(bytes).map_err(refused("write", &private))?;
            self.new.insert(hash, private);
        }
        Ok(hash)
    }

    /// Keeps the content of a small file.
    fn keep_small(&mut self, bytes: Vec<u8>) -> Result<[u8; 32], SnapshotError> {
        let hash = *blake3::hash(&bytes).as_bytes();
        if !self.has(&hash) {
            self.small.add(hash, bytes)?;
        }
        Ok(hash)
    }

    /// Whether the content is there. Its time is renewed: it is not swept
    /// before the run that names it is known.
    fn has(&mut self, hash: &[u8; 32]) -> bool {
        if self.small.has(hash) {
            return true;
        }
        match self.packs.find(hash) {
            Some(place) if self.renewed.contains(place.pack()) => true,
            Some(place) => {
                let there = is_kept(place.pack());
                if there {
                    self.renewed.insert(place.pack().to_path_buf());
                }
                there
            }
            None => self.has_alone(hash),
        }
    }

    /// The same for a content that is a file of its own.
    fn has_alone(&self, hash: &[u8; 32]) -> bool {
        self.new.contains_key(hash) || is_kept(&nero_blobs::path(self.store, hash))
    }

    fn private(&self) -> Result<(PathBuf, File), SnapshotError> {
        let path = nero_blobs::private(self.store);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o400)
            .open(&path)
            .map_err(refused("make", &path))?;
        Ok((path, file))
    }

    /// Copies an open file; `None` if its size is not `size`.
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
            return match bytes.len() {
                read if read as u64 != size => Ok(None),
                0..=CONTENT_BYTES_MAX => self.keep_small(bytes).map(Some),
                _ => self.keep_bytes(&bytes).map(Some),
            };
        }
        let (private, copy) = self.private()?;
        let copied = copy_long(file, &copy, size);
        let (read, hash) = match copied {
            Err(CopyError::Read(error)) => Err(unreadable(error)),
            Err(CopyError::Write(error)) => Err(refused("write", &private)(error)),
            Ok(copied) => Ok(copied),
        }
        .inspect_err(|_| {
            // A leftover takes space and does no harm.
            let _ = fs::remove_file(&private);
        })?;
        if read != size || self.has(&hash) {
            fs::remove_file(&private).map_err(refused("remove", &private))?;
            return Ok((read == size).then_some(hash));
        }
        self.new.insert(hash, private);
        Ok(Some(hash))
    }

    /// Syncs the new files and gives them their names.
    pub(super) fn finish(mut self) -> Result<(), SnapshotError> {
        for bytes in self.small.name()?.into_values() {
            self.keep_bytes(&bytes)?;
        }
        if let Err(error) = self.small.merge(|_| true) {
            tracing::warn!(store = %self.store.display(), %error, "packs stay many");
        }
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
            let path = nero_blobs::path(self.store, &hash);
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
    /// Removes the private files of a freeze that failed.
    fn drop(&mut self) {
        for private in self.new.values() {
            // A leftover takes space and does no harm.
            let _ = fs::remove_file(private);
        }
    }
}

enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

/// Copies a large file; returns its length and hash. If the file grows beyond
/// `size`, stops soon after that. The hash is that of the copy, computed by a
/// thread that follows close behind.
fn copy_long(file: &File, copy: &File, size: u64) -> Result<(u64, [u8; 32]), CopyError> {
    // If the file system can share blocks, the copy is of one moment.
    let shared = rustix::fs::ioctl_ficlone(copy, file).is_ok();
    if shared {
        let length = copy.metadata().map_err(CopyError::Read)?.len();
        let hash = hash_to(copy, std::iter::once(length));
        return Ok((length, hash.map_err(CopyError::Read)?));
    }
    thread::scope(|scope| {
        let (tx, rx) = mpsc::channel();
        let hasher = thread::Builder::new().spawn_scoped(scope, move || hash_to(copy, rx.iter()));
        let mut copied = 0;
        while copied <= size {
            let count = io::copy(&mut file.take(COPIED_BYTES), &mut &*copy);
            let count = count.map_err(|error| match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    CopyError::Write(error)
                }
                _ => CopyError::Read(error),
            })?;
            if count == 0 {
                break;
            }
            write_back(copy, copied, count);
            copied += count;
            // A hasher that failed gets nothing; see below.
            let _ = tx.send(copied);
        }
        drop(tx);
        let hash = match hasher {
            Ok(hasher) => hasher
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // A user may have no more threads; this one has time.
            Err(_) => hash_to(copy, std::iter::once(copied)),
        };
        Ok((copied, hash.map_err(CopyError::Write)?))
    })
}

/// Has the kernel begin to write a part to the disk, so that the sync at the
/// end is short. Unwritten parts stay in memory.
fn write_back(file: &File, from: u64, length: u64) {
    let length = NonZeroU64::new(length);
    // Without this the sync takes longer, no more.
    let _ = rustix::fs::fadvise(file, from, length, rustix::fs::Advice::DontNeed);
}

/// Hashes a file from its beginning, each time up to the next value of
/// `reached`.
fn hash_to(file: &File, reached: impl Iterator<Item = u64>) -> io::Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    let mut part = vec![0; PART_BYTES];
    let mut at = 0;
    for end in reached {
        while at < end {
            let room = usize::try_from(end - at).map_or(PART_BYTES, |left| left.min(PART_BYTES));
            let part = &mut part[..room];
            file.read_exact_at(part, at)?;
            hasher.update(part);
            at += room as u64;
        }
    }
    Ok(*hasher.finalize().as_bytes())
}

/// The result of keeping a file, without keeping it.
pub(super) fn preview(path: &Path, cache: &mut Cache) -> Result<StoredFile, SnapshotError> {
    hashed(path, cache, None)
}

/// The content of a file that does not change meanwhile, put into the store that is given.
fn hashed(
    path: &Path,
    cache: &mut Cache,
    mut store: Option<&mut Keeper<'_>>,
) -> Result<StoredFile, SnapshotError> {
    let unreadable = |source| SnapshotError::Read {
        path: path.to_path_buf(),
        source,
    };
    for _ in 0..TRIES {
        let began = SystemTime::now();
        let found = path.symlink_metadata().map_err(unreadable)?;
        let stamp = Stamp::of(&found);
        let kept = |hash| StoredFile {
            hash,
            size: stamp.size,
            executable: found.mode() & 0o111 != 0,
        };
        let is_there = |hash: &[u8; 32]| store.as_mut().is_none_or(|store| store.has(hash));
        if let Some(hash) = cache.hash(path, &stamp).filter(is_there) {
            return Ok(kept(hash));
        }
        // Do not follow a link that was put there meanwhile, and do not
        // wait for the other end of a fifo.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(path)
            .map_err(unreadable)?;
        if Stamp::of(&file.metadata().map_err(unreadable)?) != stamp {
            continue;
        }
        let read = |file: &File| hash_to(file, std::iter::once(stamp.size));
        let hash = match &mut store {
            // An error: it is shorter now.
            None => read(&file).ok(),
            Some(store) => {
                let guess = cache
                    .guess(path, stamp.size)
                    .filter(|guess| stamp.size > SMALL_BYTES && store.has(guess));
                // Reading costs less than copying in vain. The copy reports a file
                // that cannot be read or is shorter now.
                match guess.filter(|guess| read(&file).is_ok_and(|hash| hash == *guess)) {
                    None => store.copy(&mut file, path, stamp.size)?,
                    kept => kept,
                }
            }
        };
        let after = Stamp::of(&file.metadata().map_err(unreadable)?);
        if let Some(hash) = hash.filter(|_| after == stamp) {
            cache.learn(path, stamp, hash, began);
            return Ok(kept(hash));
        }
    }
    Err(SnapshotError::Changing {
        path: path.to_path_buf(),
    })
}

/// Whether a file of the store is there; an old one gets the present time.
fn is_kept(path: &Path) -> bool {
    let Ok(found) = path.symlink_metadata() else {
        return false;
    };
    let old = found.modified().ok().and_then(|at| at.elapsed().ok());
    let old = old.is_some_and(|age| age > RENEWED_AFTER);
    !old || renew(path)
}

/// Gives a file the present time; false if it is gone.
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
