//! Files that a job made or changed in its work folder: everything that differs
//! from the code as the folder was built.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nero_journal::frame::{self, FrameKind};
use nero_model::paths::{NodePaths, run as names};
use nero_model::safe::Safe;
use nero_wire::v1::{LinkEntry, ListFilesReply, RunSpec, Tree, TreeEntry};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, statat, utimensat};
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

use super::list::{
    DEPTH_MAX, LeftOut, Listing, REPLY_BYTES_MAX, as_served, file_entry, leave_out, list,
};
use super::{is_dots, link_below, open_below, open_folder};
use crate::config;
use crate::staging::{store::Store, tree};

/// Python makes these folders anew whenever they are missing.
const CACHE: &CStr = c"__pycache__";

/// Seconds and nanoseconds of a time that the file system gave.
type Time = (i64, i64);

/// Notes the time at which a work folder was complete, as the modification time
/// of the run's spec: the same file system gives the files of the folder their
/// times, and it takes no further file.
pub fn note_built(run_dir: &Path) {
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        },
    };
    let spec = run_dir.join(names::SPEC);
    // Without it, files of the code are compared by their content.
    if let Err(error) = utimensat(rustix::fs::CWD, &spec, &times, AtFlags::SYMLINK_NOFOLLOW) {
        tracing::info!(spec = %spec.display(), %error, "the time at which the folder was built is not noted");
    }
}

fn built(run_dir: &Path) -> io::Result<Time> {
    let path = run_dir.join(names::SPEC);
    let found = statat(rustix::fs::CWD, &path, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok((found.st_mtime, found.st_mtime_nsec as i64))
}

/// A user cannot set the time of an inode's last change.
fn changed_at(found: &Stat) -> Time {
    (found.st_ctime, found.st_ctime_nsec as i64)
}

fn through() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// Whether a job left its work folder as it was built, of few files; false
/// where that cannot be found out.
pub fn is_nothing_made(paths: &NodePaths, run_dir: &Path, work: &Path, code: Tree) -> bool {
    let look = || {
        let folder = open_folder(work)?;
        Code::known(code.entries, paths, run_dir)?.is_all(&folder, &folder, "")
    };
    look().unwrap_or(false)
}

/// Whether a start left a checkpoint that is new or was written to since its work folder
/// was built; `None` where its experiment names none, or that cannot be found out.
pub fn left_checkpoint(run_dir: &Path, work: &Path) -> Option<bool> {
    let spec: RunSpec = frame::read(FrameKind::Spec, &run_dir.join(names::SPEC)).ok()?;
    if spec.checkpoint.is_empty() {
        return None;
    }
    let look = || {
        let built = built(run_dir)?;
        let folder = open_folder(work)?;
        let found = list(work, &spec.checkpoint)?;
        let is_new = |path: &str| {
            let found = statat(&folder, path, AtFlags::SYMLINK_NOFOLLOW);
            // What was carried over may be as new as the clock of the file system tells.
            found.is_ok_and(|found| changed_at(&found) > built)
        };
        io::Result::Ok(found.files.iter().any(|file| is_new(&file.path)))
    };
    look()
        .inspect_err(|error| tracing::info!(%error, "checkpoints cannot be looked for"))
        .ok()
}

/// Contents of a work folder when it was built.
#[derive(Debug)]
pub struct Code {
    entries: HashMap<String, TreeEntry>,
    /// Folder that our links lead to.
    own: PathBuf,
    /// A file whose inode did not change since then is as it was built.
    built: Time,
}

impl Code {
    /// The code of a run. If the list of its code is gone, the code counts as
    /// made: it comes home rather than being lost.
    ///
    /// # Errors
    /// When the run's folder cannot be read.
    pub fn of(paths: &NodePaths, run_dir: &Path) -> io::Result<Self> {
        let spec: RunSpec =
            frame::read(FrameKind::Spec, &run_dir.join(names::SPEC)).map_err(io::Error::other)?;
        let store = Store::new(paths);
        let look = store.view();
        let mut entries = Vec::new();
        // A file of the overlay replaces that of the code.
        for hash in [&spec.tree, &spec.overlay] {
            if hash.is_empty() {
                continue;
            }
            match tree::load(&look, hash) {
                Ok(tree) => entries.extend(tree.entries),
                Err(error) => {
                    tracing::info!(%error, "the code of a run cannot be told from what it made");
                }
            }
        }
        Self::known(entries, paths, run_dir)
    }

    fn known(entries: Vec<TreeEntry>, paths: &NodePaths, run_dir: &Path) -> io::Result<Self> {
        let entries = entries.into_iter();
        Ok(Self {
            entries: entries.map(|entry| (entry.path.clone(), entry)).collect(),
            own: paths.deployment().to_path_buf(),
            built: built(run_dir)?,
        })
    }

    /// Whether a folder holds nothing beside what was built there.
    fn is_all(&self, work: &OwnedFd, folder: &OwnedFd, prefix: &str) -> io::Result<bool> {
        let mut entries = Dir::read_from(folder)?;
        while let Some(entry) = entries.read() {
            let entry = entry?;
            let name = entry.file_name();
            if is_dots(name) || name == CACHE {
                continue;
            }
            let Ok(text) = name.to_str() else {
                return Ok(false);
            };
            let path = format!("{prefix}{text}");
            let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let is_code = match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory => {
                    let below = format!("{path}/");
                    // A folder that the job made ends the look, however deep.
                    self.entries.keys().any(|path| path.starts_with(&below))
                        && self.is_all(
                            work,
                            &openat(folder, name, through(), Mode::empty())?,
                            &below,
                        )?
                }
                FileType::RegularFile => self.has_file(work, &path, &found),
                FileType::Symlink => link_below(work, Path::new(&path))?
                    .to_str()
                    .is_some_and(|target| self.has_link(&path, target)),
                _ => false,
            };
            if !is_code {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn has_file(&self, work: &OwnedFd, path: &str, found: &Stat) -> bool {
        let Some(entry) = self.entries.get(path).filter(|entry| entry.link.is_empty()) else {
            return false;
        };
        if u64::try_from(found.st_size) != Ok(entry.size) {
            return false;
        }
        changed_at(found) < self.built
            || open_below(work, Path::new(path))
                .and_then(hash)
                .is_ok_and(|hash| hash.as_bytes().as_slice() == entry.hash)
    }

    fn has_link(&self, path: &str, target: &str) -> bool {
        self.entries.get(path).is_some_and(|entry| {
            // A large file of the code is a link into the store.
            (entry.link.is_empty() && Path::new(target).starts_with(&self.own))
                || entry.link == target
        })
    }
}

fn hash(mut file: std::fs::File) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; config::PART_BYTES_MAX];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize()),
            length => {
                hasher.update(&buffer[..length]);
            }
        }
    }
}

/// Completes a list by pattern with the files that the job made: such a file is
/// marked if it is listed, and added otherwise. Links come apart.
///
/// # Errors
/// When the work folder cannot be opened.
pub fn complete(listing: Listing, work: &Path, code: &Code) -> io::Result<ListFilesReply> {
    let Listing {
        mut reply,
        links,
        full: _,
    } = listing;
    let folder = open_folder(work)?;
    reply.made_told = true;
    let listed = reply.files.iter().enumerate();
    let listed = listed.map(|(at, entry)| (entry.path.clone(), at)).collect();
    let mut walk = Walk {
        work: folder.try_clone()?,
        code,
        listed,
        bytes: 0,
        seen: 0,
        reply,
    };
    for path in &links {
        walk.link(path, true);
    }
    walk.folder(folder, "", 0);
    let mut reply = walk.reply;
    reply.files.sort_by(|one, other| one.path.cmp(&other.path));
    reply.links.sort_by(|one, other| one.path.cmp(&other.path));
    reply.links.dedup_by(|one, other| one.path == other.path);
    Ok(reply)
}

struct Walk<'a> {
    work: OwnedFd,
    code: &'a Code,
    /// Index in the reply of files that match patterns.
    listed: HashMap<String, usize>,
    bytes: usize,
    seen: usize,
    reply: ListFilesReply,
}

impl Walk<'_> {
    fn folder(&mut self, folder: OwnedFd, prefix: &str, depth: usize) {
        let mut entries = match Dir::read_from(&folder) {
            Ok(entries) => entries,
            Err(error) => return self.leave_out(prefix, &LeftOut::Unreadable(error)),
        };
        while let Some(entry) = entries.read() {
            if self.reply.made_cut {
                return;
            }
            let Ok(entry) = entry else { continue };
            let name = entry.file_name();
            if is_dots(name) || name == CACHE {
                continue;
            }
            self.seen += 1;
            if self.seen > config::MADE_ENTRIES_MAX {
                self.reply.made_cut = true;
                return;
            }
            let Ok(text) = name.to_str() else {
                let shown = format!("{prefix}{}", Safe::line(name.to_bytes()));
                self.leave_out(&shown, &LeftOut::Name);
                continue;
            };
            let path = format!("{prefix}{text}");
            // It vanished after the listing: as if it had never existed.
            let Ok(found) = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory if depth >= DEPTH_MAX => self.leave_out(&path, &LeftOut::Depth),
                FileType::Directory => match openat(&folder, name, through(), Mode::empty()) {
                    Ok(below) => self.folder(below, &format!("{path}/"), depth + 1),
                    Err(error) => self.leave_out(&path, &LeftOut::Unreadable(error)),
                },
                FileType::RegularFile if self.code.has_file(&self.work, &path, &found) => {}
                FileType::RegularFile => {
                    self.file(path, &as_served(&folder, name).unwrap_or(found));
                }
                FileType::Symlink => self.link(&path, false),
                // A pipe, socket or device has no content.
                _ => {}
            }
        }
    }

    fn file(&mut self, path: String, found: &Stat) {
        if let Some(at) = self.listed.get(&path) {
            self.reply.files[*at].made = true;
            return;
        }
        if self.takes(path.len() + 40) {
            let mut entry = file_entry(path, found, Vec::new());
            entry.made = true;
            self.reply.files.push(entry);
        }
    }

    fn link(&mut self, path: &str, fits: bool) {
        let Ok(target) = link_below(&self.work, Path::new(path)) else {
            return;
        };
        let Ok(target) = target.into_string() else {
            return self.leave_out(path, &LeftOut::Link);
        };
        if !self.code.has_link(path, &target) && self.takes(path.len() + target.len() + 40) {
            let path = path.to_owned();
            self.reply.links.push(LinkEntry { path, target, fits });
        }
    }

    /// Whether `bytes` more fit into the reply.
    fn takes(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        self.reply.made_cut |= self.bytes > REPLY_BYTES_MAX;
        !self.reply.made_cut
    }

    fn leave_out(&mut self, path: &str, why: &LeftOut) {
        leave_out(&mut self.reply, path, why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::list::walk;
    use nero_model::{DeploymentId, RunId};
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A run whose work folder was built of some files, in a node's folders.
    struct BuiltRun {
        _root: tempfile::TempDir,
        tree: Tree,
        paths: NodePaths,
        run_dir: PathBuf,
        work: PathBuf,
    }

    impl BuiltRun {
        fn new(files: &[(&str, &str)]) -> Self {
            let root = tempfile::tempdir().unwrap();
            let deployment = DeploymentId::random();
            let paths = NodePaths::new(root.path(), &deployment, "local");
            let id: RunId = "1.1".parse().unwrap();
            let run_dir = paths.run(id);
            let work = run_dir.join(names::WORK);
            fs::create_dir_all(&work).unwrap();
            let entries = files.iter().map(|(path, text)| TreeEntry {
                path: (*path).to_owned(),
                hash: blake3::hash(text.as_bytes()).as_bytes().to_vec(),
                size: text.len() as u64,
                ..TreeEntry::default()
            });
            let tree = Tree {
                entries: entries.collect(),
            };
            let encoded = prost::Message::encode_to_vec(&tree);
            let hash = blake3::hash(&encoded);
            let hex = nero_model::ids::hex(hash.as_bytes());
            let folder = paths.store().join(&hex[..2]);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(&hex), encoded).unwrap();
            let spec = RunSpec {
                tree: hash.as_bytes().to_vec(),
                ..RunSpec::default()
            };
            frame::create(FrameKind::Spec, &run_dir.join(names::SPEC), &spec).unwrap();
            for (path, text) in files {
                let path = work.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            // The clock of the file system may not have advanced since.
            let newest = || statat(rustix::fs::CWD, &work, AtFlags::empty()).unwrap();
            while built(&run_dir).unwrap() <= changed_at(&newest()) {
                note_built(&run_dir);
            }
            Self {
                _root: root,
                tree,
                paths,
                run_dir,
                work,
            }
        }

        fn is_nothing_made(&self) -> bool {
            is_nothing_made(&self.paths, &self.run_dir, &self.work, self.tree.clone())
        }

        fn made(&self, globs: &[&str]) -> (Vec<String>, ListFilesReply) {
            let globs: Vec<String> = globs.iter().map(|&text| text.to_owned()).collect();
            let code = Code::of(&self.paths, &self.run_dir).unwrap();
            let listing = walk(&self.work, &globs).unwrap();
            let reply = complete(listing, &self.work, &code).unwrap();
            let made = reply.files.iter().filter(|entry| entry.made);
            (made.map(|entry| entry.path.clone()).collect(), reply)
        }
    }

    #[test]
    fn new_and_changed_files_were_made_and_the_code_was_not() {
        let stage = BuiltRun::new(&[("main.py", "code"), ("data/a", "1234"), ("data/b", "5678")]);
        assert!(stage.is_nothing_made());
        assert_eq!(stage.made(&[]).0, Vec::<String>::new());
        // One file was changed in place with the same size; one was written
        // with the same content.
        fs::write(stage.work.join("data/a"), "4321").unwrap();
        fs::write(stage.work.join("data/b"), "5678").unwrap();
        assert!(!stage.is_nothing_made());
        fs::create_dir_all(stage.work.join("out/__pycache__")).unwrap();
        fs::write(stage.work.join("out/__pycache__/m.pyc"), "x").unwrap();
        fs::write(stage.work.join("out/model.pt"), "weights").unwrap();
        symlink("model.pt", stage.work.join("out/latest")).unwrap();
        let (made, reply) = stage.made(&["*.py", "out/*"]);
        assert_eq!(made, ["data/a", "out/model.pt"]);
        let all: Vec<&str> = reply.files.iter().map(|entry| &*entry.path).collect();
        assert_eq!(
            all,
            ["data/a", "main.py", "out/__pycache__/m.pyc", "out/model.pt"]
        );
        assert_eq!(reply.links.len(), 1);
        assert_eq!(reply.links[0].target, "model.pt");
        assert_eq!(reply.left_out, Vec::<String>::new());
        assert!(reply.made_told && !reply.made_cut);
    }

    #[test]
    fn without_a_note_of_when_it_was_built_contents_are_compared() {
        let stage = BuiltRun::new(&[("main.py", "code")]);
        let spec = fs::File::open(stage.run_dir.join(names::SPEC)).unwrap();
        spec.set_modified(std::time::UNIX_EPOCH).unwrap();
        assert!(stage.is_nothing_made());
        assert_eq!(stage.made(&[]).0, Vec::<String>::new());
    }
}
