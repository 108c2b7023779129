//! Writing below one run's folder of results and nowhere else: held open, no
//! link in it followed, every file under a private name until it is whole.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use nero_model::ids::hex;
use nero_model::paths::file_name;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

/// Levels of folders below the results.
const DEPTH_MAX: usize = 64;

/// A folder of results.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    top: OwnedFd,
    /// The folder that was used last: files come sorted.
    last: Option<(PathBuf, OwnedFd)>,
}

/// A file that has not its name yet.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) file: File,
    /// Bytes that it holds from an earlier try.
    pub(super) there: u64,
}

impl Folder {
    /// Opens the folder, which must be one and no link.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_path_buf(),
            top: openat(CWD, path, through(), Mode::empty())?,
            last: None,
        })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that may still be written there.
    pub(super) fn free_bytes(&self) -> io::Result<u64> {
        let found = rustix::fs::fstatvfs(&self.top)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Size and time of a regular file that lies here under its name.
    pub(super) fn there(&mut self, path: &Path) -> Option<(u64, i64)> {
        let name = path.file_name()?.to_owned();
        let parent = self.parent(path, false).ok()?;
        let found = statat(parent, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return None;
        }
        let ms = found.st_mtime.checked_mul(1000)?
            + i64::try_from(found.st_mtime_nsec).ok()? / 1_000_000;
        Some((u64::try_from(found.st_size).ok()?, ms))
    }

    /// Bytes of a file that a cut left half taken.
    pub(super) fn part_bytes(&mut self, path: &Path) -> u64 {
        let Ok(parent) = self.parent(path, false) else {
            return 0;
        };
        statat(parent, part_name(path), AtFlags::SYMLINK_NOFOLLOW)
            .ok()
            .filter(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile)
            .and_then(|found| u64::try_from(found.st_size).ok())
            .unwrap_or(0)
    }

    /// Begins a file under a private name, or goes on with one.
    pub(super) fn begin(&mut self, path: &Path, go_on: bool) -> io::Result<Part> {
        let parent = self.parent(path, true)?;
        let name = part_name(path);
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        if go_on {
            let mut file = File::from(openat(parent, &name, flags, Mode::empty())?);
            let found = file.metadata()?;
            if !found.is_file() || found.nlink() != 1 {
                return Err(io::Error::other(
                    "the half of it that was there is no plain file",
                ));
            }
            let there = file.seek(SeekFrom::End(0))?;
            return Ok(Part { file, there });
        }
        match unlinkat(parent, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = flags | OFlags::CREATE | OFlags::EXCL;
        let file = File::from(openat(parent, &name, flags, Mode::from(0o600))?);
        Ok(Part { file, there: 0 })
    }

    /// Gives a file its name, and the time of the original.
    pub(super) fn finish(
        &mut self,
        path: &Path,
        file: File,
        modified_ms: Option<i64>,
    ) -> io::Result<()> {
        let at = modified_ms
            .and_then(|ms| u64::try_from(ms).ok())
            .and_then(|ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms)));
        if let Some(at) = at {
            file.set_modified(at)?;
        }
        drop(file);
        let name = path.file_name().ok_or_else(no_name)?.to_owned();
        let parent = self.parent(path, true)?;
        Ok(renameat(parent, part_name(path), parent, name.as_os_str())?)
    }

    /// Takes away what was begun of a file.
    pub(super) fn discard(&mut self, path: &Path) {
        if let Ok(parent) = self.parent(path, false) {
            // It takes room under a hidden name and harms nothing.
            let _ = unlinkat(parent, part_name(path), AtFlags::empty());
        }
    }

    /// The open folder in which a file is to lie, none of its parts a link.
    fn parent(&mut self, path: &Path, make: bool) -> io::Result<&OwnedFd> {
        let wanted = path.parent().unwrap_or(Path::new(""));
        if wanted.as_os_str().is_empty() {
            return Ok(&self.top);
        }
        let known = matches!(&self.last, Some((last, _)) if last == wanted);
        if !known {
            let mut at = None;
            for part in wanted.components() {
                let Component::Normal(name) = part else {
                    return Err(no_name());
                };
                let from = at.as_ref().unwrap_or(&self.top);
                if make {
                    match mkdirat(from, name, Mode::from(0o700)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                at = Some(openat(from, name, through(), Mode::empty())?);
            }
            self.last = at.map(|fd| (wanted.to_path_buf(), fd));
        }
        Ok(self.last.as_ref().map_or(&self.top, |(_, fd)| fd))
    }
}

fn through() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn no_name() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the path leads elsewhere")
}

/// The name that a file has until it is whole: always the same, so that a cut
/// transfer is found again.
fn part_name(path: &Path) -> String {
    let hash = blake3::hash(path.as_os_str().as_encoded_bytes());
    format!(".{}.part", hex(&hash.as_bytes()[..8]))
}

/// A path below the results, made of safe names; none when it leads elsewhere.
pub(super) fn safe_path(text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    if text.is_empty() || path.components().count() > DEPTH_MAX {
        return None;
    }
    path.components()
        .map(|part| match part {
            Component::Normal(name) => Some(file_name(name.to_str()?)),
            Component::Prefix(_)
            | Component::RootDir
            | Component::CurDir
            | Component::ParentDir => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_leads_out_of_the_folder() {
        for bad in ["", "/etc/passwd", "../x", "a/../../x", "./x"] {
            assert_eq!(safe_path(bad), None, "{bad}");
        }
        assert_eq!(safe_path("a/model.pt"), Some(PathBuf::from("a/model.pt")));
        let odd = safe_path("a b/\u{1b}[31m").unwrap();
        assert!(odd.to_str().unwrap().chars().all(|c| c.is_ascii_graphic()));
        assert_eq!(odd.components().count(), 2);
    }

    #[test]
    fn links_that_lie_in_the_way_are_not_followed() {
        let base = tempfile::tempdir().unwrap();
        let (own, other) = (base.path().join("own"), base.path().join("other"));
        fs::create_dir(&own).unwrap();
        fs::create_dir(&other).unwrap();
        symlink(&other, own.join("sub")).unwrap();
        symlink(other.join("goal"), own.join("file")).unwrap();
        symlink(other.join("goal"), own.join(part_name(Path::new("file")))).unwrap();
        assert!(Folder::open(&own.join("sub")).is_err());
        let mut folder = Folder::open(&own).unwrap();
        assert!(folder.begin(Path::new("sub/x"), false).is_err());
        assert!(folder.begin(Path::new("file"), true).is_err());
        let mut part = folder.begin(Path::new("file"), false).unwrap();
        part.file.write_all(b"mine").unwrap();
        folder
            .finish(Path::new("file"), part.file, Some(5000))
            .unwrap();
        assert_eq!(fs::read(own.join("file")).unwrap(), b"mine");
        assert!(!own.join("file").is_symlink());
        assert_eq!(folder.there(Path::new("file")), Some((4, 5000)));
        assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
    }

    #[test]
    fn a_half_is_gone_on_with_and_only_a_whole_gets_the_name() {
        let base = tempfile::tempdir().unwrap();
        let mut folder = Folder::open(base.path()).unwrap();
        let path = Path::new("a/b/f");
        assert_eq!(folder.part_bytes(path), 0);
        let mut part = folder.begin(path, false).unwrap();
        part.file.write_all(b"12").unwrap();
        drop(part);
        assert_eq!((folder.part_bytes(path), folder.there(path)), (2, None));
        let mut part = folder.begin(path, true).unwrap();
        assert_eq!(part.there, 2);
        part.file.write_all(b"345").unwrap();
        folder.finish(path, part.file, None).unwrap();
        assert_eq!(fs::read(base.path().join("a/b/f")).unwrap(), b"12345");
        assert_eq!(folder.part_bytes(path), 0);
    }
}
