//! What the disk would hold after a power cut: names and contents that were synced.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use fuser::Request;

use super::points::process_of;

/// A change of names or contents that was made.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change<'a> {
    /// A file, folder or link has this name now; `true`: it is new.
    Named(&'a Path, bool),
    /// A name became another.
    Renamed(&'a Path, &'a Path),
    /// A name is gone.
    Removed(&'a Path),
    /// The file with this number was written.
    Wrote(u64),
    /// The file or folder with this number was synced.
    Synced(u64),
}

/// One of so many syncs has a cut in front of it.
const SYNCS_PER_CUT: u32 = 8;

type Names = BTreeMap<PathBuf, u64>;

/// The names of a disk, and what is durable of it.
#[derive(Debug)]
pub(super) struct Durable {
    behind: PathBuf,
    /// Has contents, and a folder for each cut.
    folder: PathBuf,
    /// Lines of `strace`: the kernel tells a file system in a process nothing of `syncfs`.
    traced: File,
    now: Names,
    /// Names after a cut where any sync keeps all names (ext4, XFS).
    all: Names,
    /// Names after a cut where a sync keeps the file's own names, and a folder's its entries
    /// (Btrfs).
    own: Names,
    /// What has this number of an inode now; numbers are given again.
    holders: HashMap<u64, u64>,
    inodes: HashMap<u64, Inode>,
    syncs: u32,
    /// The number of the sync in front of which there is a cut.
    next_cut: u32,
}

/// A file, folder or link.
#[derive(Debug)]
struct Inode {
    /// The first letter of its kind.
    kind: char,
    mode: u32,
    /// How often its content was synced.
    synced: u32,
    /// Whether a cut has the content that was synced last.
    is_in_cut: bool,
    is_dirty: bool,
}

impl Durable {
    /// Of an empty disk; `line` has the folder and the first sync in front of which there is a
    /// cut.
    pub(super) fn of(behind: &Path, line: &str) -> io::Result<Self> {
        let (folder, first) = line.rsplit_once(' ').unwrap_or((line, "0"));
        let folder = Path::new(folder);
        let traced = folder.join("traced");
        File::create(&traced)?;
        Ok(Self {
            behind: behind.canonicalize()?,
            folder: folder.to_owned(),
            traced: File::open(traced)?,
            now: Names::new(),
            all: Names::new(),
            own: Names::new(),
            holders: HashMap::new(),
            inodes: HashMap::new(),
            syncs: 0,
            next_cut: first.parse().map_err(io::Error::other)?,
        })
    }

    /// Takes up what was traced until now: call it before each change.
    pub(super) fn take_up(&mut self) -> io::Result<()> {
        let mut lines = String::new();
        self.traced.read_to_string(&mut lines)?;
        if lines.contains("= 0") {
            let dirty = self.inodes.iter().filter(|(_, inode)| inode.is_dirty);
            let dirty: Vec<u64> = dirty.map(|(id, _)| *id).collect();
            for id in dirty {
                self.sync_content(id)?;
            }
            self.all.clone_from(&self.now);
            self.own.clone_from(&self.now);
        }
        Ok(())
    }

    /// A program made this change.
    pub(super) fn apply(&mut self, change: Change<'_>, by: &Request) -> io::Result<()> {
        // What the test itself writes is a person's, and lies there since yesterday.
        let test = rustix::process::getppid();
        let is_old = test.is_some() && process_of(by.pid().cast_signed()) == test;
        if matches!(change, Change::Synced(_)) {
            if self.syncs == self.next_cut {
                self.cut(&format!("sync.{}", self.syncs))?;
                self.next_cut += SYNCS_PER_CUT;
            }
            self.syncs += 1;
        }
        match change {
            Change::Named(path, is_new) => {
                let path = self.below(path);
                let id = self.id_of(&path, is_new)?;
                self.now.insert(path, id);
                if is_old {
                    self.sync(id)?;
                }
            }
            Change::Renamed(from, to) => {
                let (from, to) = (self.below(from), self.below(to));
                let is_moved = |path: &&PathBuf| path.starts_with(&from);
                let moved: Vec<PathBuf> = self.now.keys().filter(is_moved).cloned().collect();
                let mut ids = Vec::new();
                for path in moved {
                    let id = self.now.remove(&path).expect("it was listed");
                    let rest = path.strip_prefix(&from).expect("it begins so");
                    let place = to.components().chain(rest.components()).collect();
                    self.now.insert(place, id);
                    ids.push(id);
                }
                // A file is read by any of its names, so that all of them are right before.
                for id in ids.into_iter().filter(|_| is_old) {
                    self.sync(id)?;
                }
            }
            Change::Removed(path) => {
                let path = self.below(path);
                self.now.remove(&path);
                if is_old {
                    self.all.remove(&path);
                    self.own.remove(&path);
                }
            }
            Change::Wrote(number) | Change::Synced(number) => {
                let Some(id) = self.holders.get(&number).copied() else {
                    return Ok(());
                };
                let is_synced = matches!(change, Change::Synced(_));
                if let Some(inode) = self.inodes.get_mut(&id) {
                    inode.is_dirty |= !is_synced;
                }
                if is_synced || is_old {
                    self.sync(id)?;
                }
                if is_synced {
                    self.all.clone_from(&self.now);
                }
            }
        }
        Ok(())
    }

    /// The path on the disk of a path behind it.
    fn below(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.behind).unwrap_or(path).to_owned()
    }

    fn id_of(&mut self, path: &Path, is_new: bool) -> io::Result<u64> {
        let found = self.behind.join(path).symlink_metadata()?;
        let known = self.holders.get(&found.ino()).copied();
        if let Some(id) = known.filter(|_| !is_new) {
            return Ok(id);
        }
        let id = self.inodes.len() as u64;
        let kind = match found.file_type() {
            kind if kind.is_dir() => 'd',
            kind if kind.is_symlink() => 'l',
            kind if kind.is_file() => 'f',
            _ => 's',
        };
        self.holders.insert(found.ino(), id);
        self.inodes.insert(
            id,
            Inode {
                kind,
                mode: found.permissions().mode() & 0o7777,
                synced: 0,
                is_in_cut: false,
                is_dirty: kind == 'f',
            },
        );
        Ok(id)
    }

    /// What a sync of this file or folder alone keeps: its content, its names, the folders above
    /// them, and the entries of a folder.
    fn sync(&mut self, id: u64) -> io::Result<()> {
        self.sync_content(id)?;
        let has = |path: &Path, names: &Names| names.get(path) == Some(&id);
        let named: Vec<PathBuf> = self
            .now
            .keys()
            .filter(|path| has(path, &self.now))
            .cloned()
            .collect();
        let is_folder = self.inodes.get(&id).is_some_and(|inode| inode.kind == 'd');
        for durable in [&mut self.all, &mut self.own] {
            durable.retain(|path, its| *its != id || named.contains(path));
            for path in &named {
                for above in path.ancestors() {
                    if let Some(id) = self.now.get(above) {
                        durable.insert(above.to_owned(), *id);
                    }
                }
                if is_folder {
                    let is_entry = |entry: &Path| entry.parent() == Some(path);
                    durable.retain(|entry, _| !is_entry(entry));
                    let entries = self.now.iter().filter(|(entry, _)| is_entry(entry));
                    durable.extend(entries.map(|(entry, id)| (entry.clone(), *id)));
                }
            }
        }
        Ok(())
    }

    fn sync_content(&mut self, id: u64) -> io::Result<()> {
        let path = self.now.iter().find(|(_, its)| **its == id);
        let path = path.map(|(path, _)| self.behind.join(path));
        let (Some(inode), Some(path)) = (self.inodes.get_mut(&id), path) else {
            return Ok(());
        };
        if inode.kind == 'f' && inode.is_dirty {
            if inode.synced > 0 && !inode.is_in_cut {
                fs::remove_file(self.folder.join(format!("{id}.{}", inode.synced)))?;
            }
            inode.synced += 1;
            (inode.is_in_cut, inode.is_dirty) = (false, false);
            inode.mode = path.metadata()?.permissions().mode() & 0o7777;
            fs::copy(path, self.folder.join(format!("{id}.{}", inode.synced)))?;
        }
        Ok(())
    }

    /// Writes down what is there now, and what would be there after a cut: a file `now`, `all`,
    /// `own` below `name`, with a line for each name: kind, mode, number, the files with its durable
    /// and its present content, or `-`, and the path.
    pub(super) fn cut(&mut self, name: &str) -> io::Result<()> {
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder)?;
        for (file, names) in [("own", &self.own), ("all", &self.all), ("now", &self.now)] {
            let mut lines = String::new();
            for (path, id) in names {
                let Some(inode) = self.inodes.get_mut(id) else {
                    continue;
                };
                let there = self.behind.join(path);
                let durable = match inode.synced {
                    0 => "-".to_owned(),
                    times => format!("{id}.{times}"),
                };
                let mut now = durable.clone();
                inode.is_in_cut = true;
                if inode.kind == 'l'
                    && let Ok(target) = fs::read_link(&there)
                {
                    now = format!("{id}.link");
                    fs::write(
                        self.folder.join(&now),
                        target.as_os_str().as_encoded_bytes(),
                    )?;
                } else if inode.kind == 'f' && inode.is_dirty && file == "now" {
                    now = format!("{name}/{id}");
                    fs::copy(&there, self.folder.join(&now))?;
                }
                let (kind, mode) = (inode.kind, inode.mode);
                let path = path.display();
                writeln!(lines, "{kind} {mode:o} {id} {durable} {now} {path}")
                    .map_err(io::Error::other)?;
            }
            fs::write(folder.join(file), lines)?;
        }
        Ok(())
    }
}
