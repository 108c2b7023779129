//! The file on the disk: looked at, read, and replaced whole or not at all.
//!
//! Nothing of it is changed by any error. The order of a replacement: the locks of Excel and
//! LibreOffice are looked at, the new content is written beside the file and synced, a backup of
//! what was read is made, the locks and the stamp are looked at again, and the new file gets the
//! name. A kill between two of these leaves the old file or the new one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, XattrFlags, fgetxattr, flistxattr, flock, fsetxattr};

mod lock;

pub use lock::{Lock, LockProgram, lock_of};

/// Bytes of a file. No workbook of experiments is larger.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Why the file could not be read or replaced. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A program has it open and would write its old state over ours.
    #[error("{path} is open in {}", .lock.program)]
    Open {
        /// The file.
        path: PathBuf,
        /// Who has it open.
        lock: Lock,
    },
    /// Somebody wrote it since it was read.
    #[error("{path} was changed meanwhile")]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// Another process is at work in its folder.
    #[error("another process holds the folder of {path}")]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The name leads to no file that can be replaced.
    #[error("{path} cannot be replaced: {why}")]
    Unfit {
        /// The file.
        path: PathBuf,
        /// What is against it.
        why: &'static str,
    },
    /// The system refused.
    #[error("cannot {what} {path}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
}

impl FileError {
    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Open { lock, .. } if lock.is_left_behind == Some(true) => Some(format!(
                "no {} runs on this machine any more: delete {}",
                lock.program,
                lock.path.display()
            )),
            Self::Open { .. } => Some("close it there".to_owned()),
            Self::Changed { .. } | Self::Busy { .. } => Some("try again".to_owned()),
            Self::Unfit { .. } | Self::Io { .. } => None,
        }
    }
}

/// What tells two states of a file apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// A file as it was read.
#[derive(Debug)]
pub struct BookFile {
    /// As it was named.
    named: PathBuf,
    /// Behind all links.
    path: PathBuf,
    stamp: FileStamp,
    bytes: Vec<u8>,
}

/// What a later look at a file tells its states apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BookStamp {
    /// Time of its last change, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Its length.
    pub bytes: u64,
    /// Its number in the file system.
    pub inode: u64,
}

/// A replacement that is done.
#[derive(Debug)]
pub struct FileReplacement {
    /// The new file.
    pub stamp: BookStamp,
    /// Where the content that was read is kept.
    pub backup: Option<PathBuf>,
}

impl BookFile {
    /// Reads the file; links are followed.
    ///
    /// # Errors
    /// When it cannot be read, or changes while it is read.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let named = path.to_path_buf();
        let path = fs::canonicalize(path).map_err(failed("find", path))?;
        let mut file = File::open(&path).map_err(failed("open", &path))?;
        let before = file.metadata().map_err(failed("read", &path))?;
        if !before.is_file() {
            let why = "it is no file";
            return Err(FileError::Unfit { path, why });
        }
        let stamp = FileStamp::of(&before);
        let mut bytes = Vec::new();
        let room = usize::try_from(before.len().min(FILE_BYTES_MAX)).unwrap_or_default();
        bytes.reserve_exact(room + 1);
        (&mut file)
            .take(FILE_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(failed("read", &path))?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            let why = "it is larger than any workbook should be";
            return Err(FileError::Unfit { path, why });
        }
        let book = Self {
            named,
            path,
            stamp,
            bytes,
        };
        book.check_unchanged()?;
        Ok(book)
    }

    /// The file that was read.
    pub fn stamp(&self) -> BookStamp {
        let (seconds, nanos) = self.stamp.modified;
        BookStamp {
            modified_ns: seconds.saturating_mul(1_000_000_000).saturating_add(nanos),
            bytes: self.stamp.bytes,
            inode: self.stamp.inode,
        }
    }

    /// What it holds.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Replaces the content. With `has_backup` what was read is kept beside it, in the place of
    /// an earlier backup: ask for it when the file as it was read is not what we wrote last, so
    /// that the backup is always the newest state that its owner saved.
    ///
    /// # Errors
    /// When a program has the file open, when it changed since it was read, or the system
    /// refuses.
    pub fn replace(&self, content: &[u8], has_backup: bool) -> Result<FileReplacement, FileError> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let held = File::open(folder).map_err(failed("open", folder))?;
        // One of us at a time has the files beside it. A file system without locks leaves the
        // comparison below, which sees all but the last instant.
        let lock = flock(&held, FlockOperation::NonBlockingLockExclusive);
        if lock == Err(rustix::io::Errno::WOULDBLOCK) {
            let path = self.named.clone();
            return Err(FileError::Busy { path });
        }
        self.check_closed()?;
        self.check_unchanged()?;
        let fresh = self.beside(".", ".neronet");
        let written = self.replace_with(&fresh, content, has_backup);
        if written.is_err() {
            // Nothing is lost when it stays: the next replacement removes it.
            let _ = fs::remove_file(&fresh);
        }
        let replaced = written?;
        // The content is safe without it; after a power cut the name could be the old one's.
        let _ = held.sync_all();
        Ok(replaced)
    }

    fn replace_with(
        &self,
        fresh: &Path,
        content: &[u8],
        has_backup: bool,
    ) -> Result<FileReplacement, FileError> {
        let old = File::open(&self.path).map_err(failed("open", &self.path))?;
        let meta = old.metadata().map_err(failed("read", &self.path))?;
        if meta.nlink() > 1 {
            return Err(FileError::Unfit {
                path: self.path.clone(),
                why: "it has another name, which would keep the old content",
            });
        }
        let stamp = self.write(fresh, content, &old, &meta)?;
        let mut backup = None;
        if has_backup {
            let path = self.backup_path();
            let private = self.beside(".", ".neronet-backup");
            let made = self.write(&private, &self.bytes, &old, &meta);
            let made =
                made.and_then(|_| fs::rename(&private, &path).map_err(failed("replace", &path)));
            if made.is_err() {
                let _ = fs::remove_file(&private);
            }
            made?;
            backup = Some(path);
        }
        self.check_closed()?;
        self.check_unchanged()?;
        fs::rename(fresh, &self.path).map_err(failed("replace", &self.path))?;
        Ok(FileReplacement { stamp, backup })
    }

    /// Writes a file with the rights of the old one, and syncs it.
    fn write(
        &self,
        path: &Path,
        content: &[u8],
        old: &File,
        meta: &fs::Metadata,
    ) -> Result<BookStamp, FileError> {
        // A killed process may have left one.
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("remove", path)(error));
            }
            _ => {}
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(failed("make", path))?;
        let fresh = file.metadata().map_err(failed("read", path))?;
        if (fresh.uid(), fresh.gid()) != (meta.uid(), meta.gid()) {
            let owned = std::os::unix::fs::fchown(&file, Some(meta.uid()), Some(meta.gid()));
            if owned.is_err() {
                return Err(FileError::Unfit {
                    path: self.path.clone(),
                    why: "it belongs to another user or group, and a new file would be ours",
                });
            }
        }
        file.write_all(content)
            .and_then(|()| copy_attributes(old, &file))
            .and_then(|()| file.set_permissions(fs::Permissions::from_mode(meta.mode() & 0o7777)))
            .and_then(|()| file.sync_all())
            .and_then(|()| file.metadata())
            // The name that it gets later changes none of these.
            .map(|meta| BookStamp {
                modified_ns: meta
                    .mtime()
                    .saturating_mul(1_000_000_000)
                    .saturating_add(meta.mtime_nsec()),
                bytes: meta.len(),
                inode: meta.ino(),
            })
            .map_err(failed("write", path))
    }

    fn check_closed(&self) -> Result<(), FileError> {
        for path in [&self.path, &self.named] {
            if let Some(lock) = lock_of(path) {
                let path = self.named.clone();
                return Err(FileError::Open { path, lock });
            }
        }
        Ok(())
    }

    fn check_unchanged(&self) -> Result<(), FileError> {
        let now = fs::metadata(&self.named).map_err(failed("read", &self.named))?;
        if FileStamp::of(&now) == self.stamp {
            Ok(())
        } else {
            Err(FileError::Changed {
                path: self.named.clone(),
            })
        }
    }

    /// `book.before-neronet.xlsx`: a name that nothing else has, and that its program opens.
    fn backup_path(&self) -> PathBuf {
        let stem = self.path.file_stem().unwrap_or_default();
        let mut name = stem.to_owned();
        name.push(".before-neronet");
        if let Some(ending) = self.path.extension() {
            name.push(".");
            name.push(ending);
        }
        self.path.with_file_name(name)
    }

    fn beside(&self, before: &str, behind: &str) -> PathBuf {
        let mut name = std::ffi::OsString::from(before);
        name.push(self.path.file_name().unwrap_or_default());
        name.push(behind);
        self.path.with_file_name(name)
    }
}

impl FileStamp {
    fn of(meta: &fs::Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            bytes: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// Makes a file that is not there: whole, or not at all.
///
/// # Errors
/// When the system refuses, or another program made it meanwhile.
pub fn create(path: &Path, content: &[u8]) -> Result<(), FileError> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".neronet{}", std::process::id()));
    let fresh = path.with_file_name(name);
    let made = File::create(&fresh).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    let named = made.map_err(failed("write", path)).and_then(|()| {
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(rustix::fs::CWD, &fresh, rustix::fs::CWD, path, flags) {
            Err(rustix::io::Errno::EXIST) => Err(FileError::Changed {
                path: path.to_path_buf(),
            }),
            // Some file systems know no such flag.
            Err(rustix::io::Errno::INVAL) => fs::rename(&fresh, path).map_err(failed("make", path)),
            renamed => renamed.map_err(|error| failed("make", path)(error.into())),
        }
    });
    if named.is_err() {
        // It may not have been made.
        let _ = fs::remove_file(&fresh);
    }
    named?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    // The content is safe without it; after a power cut the name could be missing.
    let _ = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
    Ok(())
}

/// Gives the new file the extended attributes of the old one, among them who may read it.
fn copy_attributes(old: &File, new: &File) -> io::Result<()> {
    let mut names = vec![0_u8; 64 << 10];
    let length = match flistxattr(old, &mut names[..]) {
        Ok(length) => length,
        // This file system has none.
        Err(rustix::io::Errno::NOTSUP) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let mut value = vec![0_u8; 64 << 10];
    for name in names[..length].split(|byte| *byte == 0) {
        // The system sets its own; those of the owner and the lists of rights are ours to keep.
        let is_kept = name.starts_with(b"user.") || name.starts_with(b"system.posix_acl");
        if !is_kept {
            continue;
        }
        let length = fgetxattr(old, name, &mut value[..])?;
        fsetxattr(new, name, &value[..length], XattrFlags::empty())?;
    }
    Ok(())
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    let path = path.to_path_buf();
    move |source| FileError::Io { what, path, source }
}
