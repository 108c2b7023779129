//! Lists a job's files by patterns: regular files, with limits on the entries
//! that are read and listed; any other matching entry is named with the reason
//! why it is left out.

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use nero_model::safe::Safe;
use nero_wire::v1::{self, FileEntry, ListFilesReply};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;

use super::{is_dots, open_folder};
use crate::config;
use nero_node_core::glob::{Glob, MatchState};

/// Depth of the deepest folder that is entered.
pub(super) const DEPTH_MAX: usize = 64;
/// Bytes of names in one answer, well below a message's limit.
pub(super) const REPLY_BYTES_MAX: usize = 3 * 1024 * 1024;

struct Walk<'a> {
    /// Each with its position among the requested patterns.
    globs: &'a [(u32, Glob)],
    reply: ListFilesReply,
    seen: usize,
    bytes: usize,
    full: bool,
    links: Vec<String>,
}

/// The matching entries, with links apart.
#[derive(Debug)]
pub struct Listing {
    /// Files, and what is left out besides links.
    pub reply: ListFilesReply,
    /// Links that match.
    pub links: Vec<String>,
    /// Whether there are more than the listed ones.
    pub full: bool,
}

/// Lists the matching entries below `work`.
///
/// # Errors
/// When the folder itself cannot be opened.
pub fn list(work: &Path, patterns: &[String]) -> io::Result<ListFilesReply> {
    let Listing {
        mut reply, links, ..
    } = walk(work, patterns)?;
    for path in &links {
        leave_out(&mut reply, path, &LeftOut::Link);
    }
    Ok(reply)
}

/// As [`list`], with the links that match apart.
///
/// # Errors
/// As [`list`].
pub fn walk(work: &Path, patterns: &[String]) -> io::Result<Listing> {
    let folder = open_folder(work)?;
    let mut reply = ListFilesReply {
        work: work.display().to_string(),
        ..ListFilesReply::default()
    };
    let mut globs = Vec::new();
    for (index, pattern) in (0..).zip(patterns) {
        match Glob::new(pattern) {
            Some(glob) => globs.push((index, glob)),
            None => leave_out(&mut reply, pattern, &LeftOut::NoPattern),
        }
    }
    let states: Vec<MatchState> = globs.iter().map(|(_, glob)| glob.start()).collect();
    let mut walk = Walk {
        globs: &globs,
        reply,
        seen: 0,
        bytes: 0,
        full: false,
        links: Vec::new(),
    };
    walk.folder(folder, "", &states, 0);
    let Walk {
        mut reply,
        full,
        links,
        ..
    } = walk;
    reply.files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(Listing { reply, links, full })
}

impl Walk<'_> {
    fn folder(&mut self, folder: OwnedFd, prefix: &str, states: &[MatchState], depth: usize) {
        let mut entries = match Dir::read_from(&folder) {
            Ok(entries) => entries,
            Err(error) => return self.leave_out(prefix, &LeftOut::Unreadable(error)),
        };
        while let Some(entry) = entries.read() {
            if self.full {
                return;
            }
            let Ok(entry) = entry else { continue };
            let name = entry.file_name();
            if is_dots(name) {
                continue;
            }
            self.seen += 1;
            if self.seen > config::LIST_ENTRIES_MAX {
                self.full = true;
                self.leave_out(prefix, &LeftOut::Entries);
                return;
            }
            self.entry(&folder, name, prefix, states, depth);
        }
    }

    fn entry(
        &mut self,
        folder: &OwnedFd,
        name: &CStr,
        prefix: &str,
        states: &[MatchState],
        depth: usize,
    ) {
        let bytes = name.to_bytes();
        let after: Vec<MatchState> = self
            .globs
            .iter()
            .zip(states)
            .map(|((_, glob), state)| glob.step(*state, bytes))
            .collect();
        let both = || self.globs.iter().zip(states.iter().zip(&after));
        let fits: Vec<u32> = both()
            .filter(|((_, glob), (before, after))| glob.is_file_match(**before, **after))
            .map(|((index, _), _)| *index)
            .collect();
        let matched = !fits.is_empty();
        let alive = both().any(|((_, glob), (_, after))| glob.is_alive(*after));
        if !matched && !alive {
            return;
        }
        let path = match name.to_str() {
            Ok(name) => format!("{prefix}{name}"),
            Err(_) => {
                let shown = format!("{prefix}{}", Safe::line(bytes));
                return self.leave_out(&shown, &LeftOut::Name);
            }
        };
        // It vanished after the listing: as if it had never existed.
        let Ok(found) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
            return;
        };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory if !alive => {}
            FileType::Directory if depth >= DEPTH_MAX => {
                self.leave_out(&path, &LeftOut::Depth);
            }
            FileType::Directory => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                match openat(folder, name, flags, Mode::empty()) {
                    Ok(below) => self.folder(below, &format!("{path}/"), &after, depth + 1),
                    Err(error) => self.leave_out(&path, &LeftOut::Unreadable(error)),
                }
            }
            FileType::RegularFile if matched => {
                self.file(path, &as_served(folder, name).unwrap_or(found), fits);
            }
            kind if matched => match LeftOut::of(kind) {
                LeftOut::Link => self.link(path),
                why => self.leave_out(&path, &why),
            },
            _ => {}
        }
    }

    fn file(&mut self, path: String, found: &Stat, globs: Vec<u32>) {
        self.bytes += path.len() + 40 + 2 * globs.len();
        if self.bytes > REPLY_BYTES_MAX {
            self.full = true;
            self.leave_out(&path, &LeftOut::Files);
            return;
        }
        self.reply.files.push(file_entry(path, found, globs));
    }

    fn link(&mut self, path: String) {
        self.bytes += path.len();
        if self.bytes > REPLY_BYTES_MAX {
            self.full = true;
            self.leave_out(&path, &LeftOut::Link);
        } else {
            self.links.push(path);
        }
    }

    fn leave_out(&mut self, path: &str, why: &LeftOut) {
        leave_out(&mut self.reply, path, why);
    }
}

/// Why something is not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeftOut {
    Link,
    Pipe,
    Socket,
    Device,
    /// No regular file, and none of these.
    Irregular,
    /// A pattern that leads out of the folder.
    NoPattern,
    /// Its name is not UTF-8.
    Name,
    /// A folder deeper than any that is entered.
    Depth,
    /// The folder's further entries are too many.
    Entries,
    /// It and the further files are too many.
    Files,
    /// A folder that cannot be read.
    Unreadable(Errno),
}

impl LeftOut {
    /// Why an entry that is neither a file nor a folder is left out.
    fn of(kind: FileType) -> Self {
        match kind {
            FileType::Symlink => Self::Link,
            FileType::Fifo => Self::Pipe,
            FileType::Socket => Self::Socket,
            FileType::CharacterDevice | FileType::BlockDevice => Self::Device,
            _ => Self::Irregular,
        }
    }
}

impl From<LeftOut> for v1::LeftOut {
    fn from(why: LeftOut) -> Self {
        match why {
            LeftOut::Link => Self::Link,
            LeftOut::Pipe => Self::Pipe,
            LeftOut::Socket => Self::Socket,
            LeftOut::Device => Self::Device,
            LeftOut::Irregular => Self::Irregular,
            LeftOut::NoPattern => Self::NoPattern,
            LeftOut::Name => Self::Name,
            LeftOut::Depth => Self::Depth,
            LeftOut::Entries => Self::Entries,
            LeftOut::Files => Self::Files,
            LeftOut::Unreadable(_) => Self::Unreadable,
        }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Link => "a link",
            Self::Pipe => "a pipe",
            Self::Socket => "a socket",
            Self::Device => "a device",
            Self::Irregular => "not a regular file",
            Self::NoPattern => "not a pattern within the folder",
            Self::Name => "its name is not UTF-8",
            Self::Depth => "too deep",
            Self::Entries => "too many entries: the rest is not listed",
            Self::Files => "too many files: the rest is not listed",
            Self::Unreadable(error) => return io::Error::from(*error).fmt(f),
        })
    }
}

/// Size and time of a file as its file server has them. A file server may not tell for a
/// minute what another host appended, unless the file is opened.
pub(super) fn as_served(folder: &OwnedFd, name: &CStr) -> Option<Stat> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::empty()).ok()?;
    fstat(file).ok()
}

/// Names what is left out of a list, once.
pub(super) fn leave_out(reply: &mut ListFilesReply, path: &str, why: &LeftOut) {
    let path = path.strip_suffix('/').unwrap_or(path);
    let line = format!("{} ({why})", Safe::line(path));
    if reply.left_out.len() < config::LIST_LEFT_OUT_MAX && !reply.left_out.contains(&line) {
        reply.left_out.push(line);
        reply.left_out_as.push(v1::LeftOut::from(*why).into());
    }
}

/// The list entry of a file.
pub(super) fn file_entry(path: String, found: &Stat, globs: Vec<u32>) -> FileEntry {
    FileEntry {
        path,
        size: u64::try_from(found.st_size).unwrap_or(0),
        modified_ms: found
            .st_mtime
            .saturating_mul(1000)
            .saturating_add(i64::try_from(found.st_mtime_nsec).unwrap_or(0) / 1_000_000),
        inode: found.st_ino,
        globs,
        executable: Mode::from_raw_mode(found.st_mode).contains(Mode::XUSR),
        made: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    fn patterns(patterns: &[&str]) -> Vec<String> {
        patterns.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn a_hostile_folder_gives_its_regular_files_and_names_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path();
        fs::create_dir_all(work.join("a/b")).unwrap();
        fs::write(work.join("a/b/x.pt"), "12345").unwrap();
        fs::write(work.join("a/line\nfeed.pt"), "").unwrap();
        fs::write(work.join("y.txt"), "").unwrap();
        symlink("/etc/passwd", work.join("passwd.pt")).unwrap();
        symlink(".", work.join("a/loop")).unwrap();
        symlink("/", work.join("a/root")).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(work.join("pipe.pt"))
            .status()
            .unwrap();
        assert!(made.success());
        let _socket = std::os::unix::net::UnixListener::bind(work.join("s.pt")).unwrap();
        fs::write(work.join(std::ffi::OsStr::from_bytes(b"bad\xff.pt")), "").unwrap();
        let reply = list(work, &patterns(&["**/*.pt", "../*", "/etc/*"])).unwrap();
        let paths: Vec<&str> = reply.files.iter().map(|file| &*file.path).collect();
        assert_eq!(paths, ["a/b/x.pt", "a/line\nfeed.pt"]);
        assert_eq!(reply.files[0].size, 5);
        let mut left_out = reply.left_out;
        left_out.sort();
        assert_eq!(
            left_out,
            [
                "../* (not a pattern within the folder)",
                "/etc/* (not a pattern within the folder)",
                "bad\\xff.pt (its name is not UTF-8)",
                "passwd.pt (a link)",
                "pipe.pt (a pipe)",
                "s.pt (a socket)",
            ]
        );
    }

    #[test]
    fn depth_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("d/".repeat(100))).unwrap();
        fs::write(folder.path().join("top"), "").unwrap();
        let reply = list(folder.path(), &patterns(&["**"])).unwrap();
        assert_eq!(reply.files.len(), 1);
        assert!(reply.left_out[0].ends_with("(too deep)"));
    }
}
