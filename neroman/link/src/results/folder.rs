//! Writes below one run's folder of results only: the folder is held open, no link
//! in it is followed, every file has a private name until it is complete.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use nero_model::ids::{base32, hex};
use nero_model::paths::file_name;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, mkdirat, openat, readlinkat, renameat, statat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;

/// Suffix of a file's private name.
const PART_SUFFIX: &str = ".part";
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

/// A file that does not have its name yet.
#[derive(Debug)]
pub(super) struct PartialFile {
    pub(super) file: File,
    /// Bytes from an earlier try.
    pub(super) there: u64,
}

impl Folder {
    /// Opens the folder, which must be a folder and no link.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_path_buf(),
            top: openat(CWD, path, through(), Mode::empty())?,
            last: None,
        })
    }

    /// The path of the folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Free bytes of its file system.
    pub(super) fn free_bytes(&self) -> io::Result<u64> {
        let found = rustix::fs::fstatvfs(&self.top)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Size and time of a regular file with this name.
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

    /// Bytes of a file from an interrupted try.
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

    /// Begins a file under a private name, or continues it.
    pub(super) fn begin(&mut self, path: &Path, go_on: bool) -> io::Result<PartialFile> {
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
            return Ok(PartialFile { file, there });
        }
        match unlinkat(parent, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = flags | OFlags::CREATE | OFlags::EXCL;
        let file = File::from(openat(parent, &name, flags, Mode::from(0o600))?);
        Ok(PartialFile { file, there: 0 })
    }

    /// Gives a file its name, and the time of the original.
    pub(super) fn finish(
        &mut self,
        path: &Path,
        file: File,
        modified_ms: Option<i64>,
        executable: bool,
    ) -> io::Result<()> {
        let at = modified_ms
            .and_then(|ms| u64::try_from(ms).ok())
            .and_then(|ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms)));
        if let Some(at) = at {
            file.set_modified(at)?;
        }
        if executable {
            rustix::fs::fchmod(&file, Mode::from(0o700))?;
        }
        drop(file);
        let name = path.file_name().ok_or_else(no_name)?.to_owned();
        let parent = self.parent(path, true)?;
        Ok(renameat(parent, part_name(path), parent, name.as_os_str())?)
    }

    /// Gives a file that came home under another name its own.
    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (Some(from_name), Some(to_name)) = (from.file_name(), to.file_name()) else {
            return Err(no_name());
        };
        let from_parent = self.parent(from, false)?.try_clone()?;
        let to_parent = self.parent(to, true)?;
        Ok(renameat(from_parent, from_name, to_parent, to_name)?)
    }

    /// Makes a link, in place of another link or of nothing. Returns whether it
    /// exists now.
    pub(super) fn link(&mut self, path: &Path, target: &Path) -> io::Result<bool> {
        let name = path.file_name().ok_or_else(no_name)?;
        let part = part_name(path);
        let parent = self.parent(path, true)?;
        match readlinkat(parent, name, Vec::new()) {
            Ok(there) if there.to_bytes() == target.as_os_str().as_encoded_bytes() => {
                return Ok(true);
            }
            Ok(_) | Err(Errno::NOENT) => {}
            Err(Errno::INVAL) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        match unlinkat(parent, &part, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        symlinkat(target, parent, &part)?;
        renameat(parent, &part, parent, name)?;
        Ok(true)
    }

    /// Whether this file system treats names that differ in case alone as one.
    pub(super) fn ignores_case(&self) -> bool {
        let name = format!(".{}-case", hex(&nero_model::ids::random::<8>()));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let made = openat(&self.top, &name, flags, Mode::from(0o600)).is_ok();
        let other = statat(&self.top, name.to_uppercase(), AtFlags::SYMLINK_NOFOLLOW);
        // A leftover probe takes no room.
        let _ = unlinkat(&self.top, &name, AtFlags::empty());
        made && other.is_ok()
    }

    /// Opens a file for reading.
    pub(super) fn open_file(&mut self, path: &Path) -> io::Result<File> {
        let name = path.file_name().ok_or_else(no_name)?.to_owned();
        let parent = self.parent(path, false)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(File::from(openat(parent, name, flags, Mode::empty())?))
    }

    /// Removes the private file of a path.
    pub(super) fn discard(&mut self, path: &Path) {
        if let Ok(parent) = self.parent(path, false) {
            // A leftover takes room under a hidden name and does no harm.
            let _ = unlinkat(parent, part_name(path), AtFlags::empty());
        }
    }

    /// The open folder of a file, none of its parents a link.
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

/// A file's private name: always the same, so that an interrupted transfer is
/// found again.
fn part_name(path: &Path) -> String {
    let hash = blake3::hash(path.as_os_str().as_encoded_bytes());
    format!(".{}{PART_SUFFIX}", hex(&hash.as_bytes()[..8]))
}

/// A path below the results: the node's own names, except those that would harm a
/// terminal or this folder. `None` if it leads elsewhere.
pub(super) fn safe_path(text: &str) -> Option<PathBuf> {
    named(text, kept)
}

/// The path of a file by an earlier build, which changed all but plain names.
pub(super) fn earlier_path(text: &str) -> Option<PathBuf> {
    named(text, file_name)
}

fn named(text: &str, name_of: fn(&str) -> String) -> Option<PathBuf> {
    let path = Path::new(text);
    if text.is_empty() || path.components().count() > DEPTH_MAX {
        return None;
    }
    path.components()
        .map(|part| match part {
            Component::Normal(name) => Some(name_of(name.to_str()?)),
            Component::Prefix(_)
            | Component::RootDir
            | Component::CurDir
            | Component::ParentDir => None,
        })
        .collect()
}

/// Longest file name on any file system of Linux.
const NAME_BYTES_MAX: usize = 255;

/// The name itself, unless it has control characters, is longer than any file
/// system takes, or is a private name.
fn kept(name: &str) -> String {
    let is_part = name.starts_with('.') && name.ends_with(PART_SUFFIX);
    let is_harmless = !name.chars().any(char::is_control) && name.len() <= NAME_BYTES_MAX;
    if is_harmless && !is_part {
        name.to_owned()
    } else {
        distinct(name)
    }
}

/// A readable, distinct name with the same extension.
pub(super) fn distinct(name: &str) -> String {
    const EXTENSION_BYTES_MAX: usize = 32;
    let hash = base32(&blake3::hash(name.as_bytes()).as_bytes()[..5]);
    let plain = |c: char| if c.is_control() { '_' } else { c };
    let name: String = name.chars().map(plain).collect();
    let (stem, extension) = match name.rsplit_once('.') {
        Some((stem, extension))
            if !stem.is_empty()
                && extension.len() <= EXTENSION_BYTES_MAX
                && extension != "part" =>
        {
            (stem, format!(".{extension}"))
        }
        Some(_) | None => (name.as_str(), String::new()),
    };
    let room = NAME_BYTES_MAX - extension.len() - hash.len() - 1;
    let stem = &stem[..stem.floor_char_boundary(room)];
    format!("{stem}~{hash}{extension}")
}

/// The target of a node's link as it is written here; `None` if it leads out of
/// the run's folder, or to a name that is changed here. Parents come first in such
/// a target, so that no other link takes it further up.
pub(super) fn link_target(path: &Path, target: &str, work: &str) -> Option<PathBuf> {
    let depth = path.components().count().checked_sub(1)?;
    let from_top = Path::new(target).strip_prefix(work).ok();
    let (mut ups, rest) = match from_top.filter(|_| !work.is_empty()) {
        Some(rest) => (depth, rest),
        None => (0, Path::new(target)),
    };
    let mut names = PathBuf::new();
    for part in rest.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if names.as_os_str().is_empty() => ups += 1,
            Component::Normal(name) if *kept(name.to_str()?) == *name => names.push(name),
            Component::Normal(_)
            | Component::ParentDir
            | Component::RootDir
            | Component::Prefix(_) => return None,
        }
    }
    let ups_and_names: PathBuf = std::iter::repeat_n("..", ups).collect();
    let target = ups_and_names.join(names);
    (ups <= depth && !target.as_os_str().is_empty()).then_some(target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_path_leads_out_of_the_folder() {
        for bad in ["", "/etc/passwd", "../x", "a/../../x", "./x"] {
            assert_eq!(safe_path(bad), None, "{bad}");
        }
    }

    #[test]
    fn harmless_names_stay_and_others_keep_their_extension() {
        let long = format!("{}.csv", "ü".repeat(125));
        for name in [
            "a/model.pt",
            "a b.txt",
            "ünï.txt",
            "日本/語.txt",
            ".hidden",
            "-rf",
            &long,
        ] {
            assert_eq!(safe_path(name), Some(PathBuf::from(name)));
        }
        let too_long = format!("{}.csv", "x".repeat(300));
        let odd = [
            "a\u{1b}[31m.csv",
            "b\n.csv",
            &too_long,
            ".0011223344556677.part",
        ];
        for name in odd {
            let changed = safe_path(name).unwrap().to_str().unwrap().to_owned();
            assert!(!changed.chars().any(char::is_control), "{changed}");
            assert!(changed.len() <= 255 && changed.contains('~'), "{changed}");
            assert!(
                changed.ends_with(".csv") || name.ends_with(".part"),
                "{changed}"
            );
            assert!(!changed.ends_with(".part"), "{changed}");
        }
        assert_ne!(safe_path("a\u{1}"), safe_path("a\u{2}"));
    }

    #[test]
    fn a_link_leads_within_the_results_or_is_none() {
        let target = |path: &str, target: &str| {
            let found = link_target(Path::new(path), target, "/node/work");
            found.map(|found| found.to_str().unwrap().to_owned())
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(target("latest.pt", "ckpt_9.pt"), some("ckpt_9.pt"));
        assert_eq!(target("a/b/l", "../../c/./d"), some("../../c/d"));
        assert_eq!(target("a/l", "/node/work/c/d"), some("../c/d"));
        for out in [
            "../x",
            "/etc/passwd",
            "a/../..",
            "/node/work/../x",
            "d/..",
            "",
            "a\nb",
        ] {
            assert_eq!(target("l", out), None, "{out}");
        }
    }

    #[test]
    fn a_link_takes_the_place_of_a_link_and_never_of_a_file() {
        let base = tempfile::tempdir().unwrap();
        let mut folder = Folder::open(base.path()).unwrap();
        fs::write(base.path().join("file"), "mine").unwrap();
        assert!(!folder.link(Path::new("file"), Path::new("x")).unwrap());
        for goal in ["one", "two", "two"] {
            assert!(folder.link(Path::new("d/l"), Path::new(goal)).unwrap());
            let link = base.path().join("d/l");
            assert_eq!(fs::read_link(link).unwrap(), Path::new(goal));
        }
        assert_eq!(fs::read_dir(base.path().join("d")).unwrap().count(), 1);
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
            .finish(Path::new("file"), part.file, Some(5000), false)
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
        folder.finish(path, part.file, None, true).unwrap();
        let mode = fs::metadata(base.path().join("a/b/f")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert_eq!(fs::read(base.path().join("a/b/f")).unwrap(), b"12345");
        assert_eq!(folder.part_bytes(path), 0);
    }
}
