//! Turns a frozen tree into a work folder with private copies of its files.
//! Only files with `mode: link` in the experiment become links into one
//! read-only tree per code version, where they may be further names of the
//! stored files. The paths of a tree are checked before anything is made:
//! relative, within the tree, through no link of its own.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::num::NonZero;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::thread;

use nero_model::ids::hex;
use nero_wire::v1::{Tree, TreeEntry};
use prost::Message as _;

use super::store::{Look, Store};
use crate::config;

/// Reason why a tree cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// Its list is not in the store, or damaged.
    #[error("the list of the run's files cannot be read")]
    List(#[source] io::Error),
    /// The list cannot be decoded.
    #[error("the list of the run's files cannot be decoded")]
    Decode(#[source] prost::DecodeError),
    /// A name leads out of the tree, or two names are in each other's way.
    #[error("the run's files hold a path that cannot be used: {path:?} ({why})")]
    Path {
        /// As given.
        path: String,
        /// The fault of the path.
        why: &'static str,
    },
    /// The content of files is missing.
    #[error("{missing} of {files} files are not on the node yet")]
    Missing {
        /// Number of missing files.
        missing: usize,
        /// Number of all files.
        files: usize,
    },
    /// The stored content is gone, or differs from its hash.
    #[error("the stored content of {path} is damaged or gone")]
    Damaged {
        /// The file to be made from it.
        path: PathBuf,
    },
    /// A file cannot be made.
    #[error("cannot make {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's word.
        #[source]
        source: io::Error,
    },
}

impl TreeError {
    /// Whether the run can have its files once neroman sends the missing ones.
    pub fn is_lacking(&self) -> bool {
        match self {
            Self::Missing { .. } | Self::Damaged { .. } => true,
            Self::List(error) => is_no_content(error),
            Self::Decode(_) | Self::Path { .. } | Self::Io { .. } => false,
        }
    }
}

/// Whether a read failed because the content is missing, or another.
fn is_no_content(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::NotFound
    )
}

/// Reads and checks the list of a tree.
///
/// # Errors
/// When it is missing, damaged, or names a forbidden path.
pub fn load(look: &Look<'_>, hash: &[u8]) -> Result<Tree, TreeError> {
    let hash: &[u8; 32] = hash.try_into().map_err(|_| {
        let why = "the hash of the list is not 32 bytes";
        TreeError::List(io::Error::new(io::ErrorKind::InvalidInput, why))
    })?;
    let bytes = look.read(hash).map_err(TreeError::List)?;
    let tree = Tree::decode(&*bytes).map_err(TreeError::Decode)?;
    check(&tree)?;
    look.store().small().note(hash, &tree);
    Ok(tree)
}

/// Checks that the content of every file is here.
///
/// # Errors
/// When some contents are missing.
pub fn complete(store: &Store, tree: &Tree) -> Result<(), TreeError> {
    let files = tree.entries.iter().filter(|entry| entry.link.is_empty());
    for hash in files.clone().filter_map(|entry| content(entry).ok()) {
        store.reservations().add(hash);
    }
    let look = store.view();
    let is_here = |entry: &&TreeEntry| is_here(store, &look, entry);
    let missing = files.clone().filter(|entry| !is_here(entry)).count();
    match missing {
        0 => Ok(()),
        missing => Err(TreeError::Missing {
            missing,
            files: files.count(),
        }),
    }
}

/// Whether an entry's content is here. A power cut may have left a blob of
/// another size and content: that is removed, so that it is sent again.
fn is_here(store: &Store, look: &Look<'_>, entry: &TreeEntry) -> bool {
    let Ok(hash) = content(entry) else {
        return false;
    };
    match look.size(hash) {
        Some(size) if size == entry.size => true,
        Some(_) if look.read(hash).is_ok() => true,
        Some(_) => {
            store.drop_damaged(hash);
            false
        }
        None => false,
    }
}

fn check(tree: &Tree) -> Result<(), TreeError> {
    let mut leaves = HashSet::with_capacity(tree.entries.len());
    let refuse = |entry: &TreeEntry, why| TreeError::Path {
        path: entry.path.clone(),
        why,
    };
    for entry in &tree.entries {
        let plain = |part: &str| !matches!(part, "" | "." | "..");
        if entry.path.contains('\0') || entry.link.contains('\0') {
            return Err(refuse(entry, "it holds a zero byte"));
        }
        if !entry.path.split('/').all(plain) {
            return Err(refuse(entry, "it is not plainly relative"));
        }
        if entry.path.len() > 4000 {
            return Err(refuse(entry, "it is too long"));
        }
        if entry.link.is_empty() && entry.hash.len() != 32 {
            return Err(refuse(entry, "it has no content"));
        }
        if !leaves.insert(entry.path.as_str()) {
            return Err(refuse(entry, "it is named twice"));
        }
    }
    for entry in &tree.entries {
        let through = entry
            .path
            .match_indices('/')
            .any(|(at, _)| leaves.contains(&entry.path[..at]));
        if through {
            return Err(refuse(entry, "it lies below a file or link"));
        }
    }
    Ok(())
}

/// The entries of a tree that stay visible under an overlay.
pub fn under(tree: Tree, over: &Tree) -> Tree {
    let leaves: HashSet<&str> = over.entries.iter().map(|entry| &*entry.path).collect();
    let folders: HashSet<&str> = leaves.iter().flat_map(|path| above(path)).collect();
    let free = |path: &str| {
        let hidden = above(path).any(|folder| leaves.contains(folder));
        !(hidden || leaves.contains(path) || folders.contains(path))
    };
    let entries = tree.entries.into_iter();
    Tree {
        entries: entries.filter(|entry| free(&entry.path)).collect(),
    }
}

/// The folders above a path.
fn above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

/// Makes the files of a tree in `target`; [`build_links`] makes its links.
///
/// # Errors
/// When a file cannot be made, or its content is missing.
pub fn build_files(
    store: &Store,
    look: &Look<'_>,
    trees: &Path,
    hash: &[u8],
    tree: &Tree,
    target: &Path,
) -> Result<(), TreeError> {
    make_folders(target, tree)?;
    let files = tree.entries.iter().filter(|entry| entry.link.is_empty());
    let files: Vec<&TreeEntry> = files.collect();
    let maker = &Maker {
        store,
        look,
        shared: trees.join(hex(hash)),
        target,
    };
    let makers = match files.len() {
        0..=config::FILES_MADE_ALONE => 1,
        // Asking costs twenty system calls: the standard library reads the cgroup's files.
        _ => thread::available_parallelism()
            .map_or(1, NonZero::get)
            .min(config::FILE_MAKERS_MAX),
    };
    // Neighbours go to one thread: two threads in one folder would wait for
    // each other.
    let parts = files.chunks(files.len().div_ceil(makers).max(1));
    let mut parts = parts.map(|part| move || part.iter().try_for_each(|entry| maker.make(entry)));
    thread::scope(|scope| {
        let mut here = Vec::from_iter(parts.next());
        let mut others = Vec::new();
        for part in parts {
            match thread::Builder::new().spawn_scoped(scope, part) {
                Ok(other) => others.push(other),
                // This user may have no more threads: this thread does that
                // part, too.
                Err(_) => here.push(part),
            }
        }
        let made = here.into_iter().try_for_each(|part| part());
        others.into_iter().fold(made, |made, other| {
            made.and(
                other
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            )
        })
    })
}

/// Makes the files of one tree.
struct Maker<'a> {
    store: &'a Store,
    look: &'a Look<'a>,
    /// The read-only tree of this code version.
    shared: PathBuf,
    target: &'a Path,
}

impl Maker<'_> {
    fn make(&self, entry: &TreeEntry) -> Result<(), TreeError> {
        let to = self.target.join(&entry.path);
        let hash = content(entry)?;
        let mode = if entry.executable { 0o700 } else { 0o600 };
        if entry.shared {
            return symlink(self.share(entry, hash)?, &to).map_err(at(&to));
        }
        let copied = self.look.copy(hash, &to, mode);
        copied.map_err(|error| self.failed(hash, &to, error))
    }

    /// The read-only file in the tree that all runs of this code version share.
    fn share(&self, entry: &TreeEntry, hash: &[u8; 32]) -> Result<PathBuf, TreeError> {
        let place = self.shared.join(&entry.path);
        if self.store.verified().open(&place, hash).is_ok() {
            return Ok(place);
        }
        let folder = place.parent().unwrap_or(&self.shared);
        nero_model::paths::make_private(folder).map_err(at(folder))?;
        let private = folder.join(format!(".{}", hex(&nero_model::ids::random::<8>())));
        let mode = if entry.executable { 0o500 } else { 0o400 };
        // A stored file is read-only as those of the tree are; a program needs
        // a copy that can be executed.
        let linked = !entry.executable && self.look.link(hash, &private);
        let made = if linked {
            Ok(())
        } else {
            self.look
                .copy(hash, &private, mode)
                .and_then(|()| fs::set_permissions(&private, fs::Permissions::from_mode(mode)))
        };
        let made = made.and_then(|()| fs::rename(&private, &place));
        // The name is still there after a failure, or when another run's thread
        // had named the same file before. It is ours, and a leftover only takes
        // space.
        let _ = fs::remove_file(&private);
        let verified = made.and_then(|()| self.store.verified().open(&place, hash));
        verified.map_err(|error| self.failed(hash, &place, error))?;
        Ok(place)
    }

    fn failed(&self, hash: &[u8; 32], to: &Path, error: io::Error) -> TreeError {
        if !is_no_content(&error) {
            return at(to)(error);
        }
        tracing::warn!(path = %to.display(), %error, "stored content cannot be used; it is asked for again");
        self.store.drop_damaged(hash);
        let path = to.strip_prefix(self.target);
        let path = path.or_else(|_| to.strip_prefix(&self.shared));
        TreeError::Damaged {
            path: path.unwrap_or(to).to_path_buf(),
        }
    }
}

/// Makes the links of a tree where there is nothing yet. They come last, so
/// that nothing is ever made through one.
///
/// # Errors
/// When a link cannot be made.
pub fn build_links(tree: &Tree, target: &Path) -> Result<(), TreeError> {
    for entry in tree.entries.iter().filter(|entry| !entry.link.is_empty()) {
        let to = target.join(&entry.path);
        match symlink(&entry.link, &to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(at(&to))?,
        }
    }
    Ok(())
}

fn content(entry: &TreeEntry) -> Result<&[u8; 32], TreeError> {
    let hash = entry.hash.as_slice();
    hash.try_into().map_err(|_| TreeError::Path {
        path: entry.path.clone(),
        why: "it has no content",
    })
}

fn make_folders(target: &Path, tree: &Tree) -> Result<(), TreeError> {
    let mut made = HashSet::new();
    let folders = tree.entries.iter().flat_map(|entry| above(&entry.path));
    for folder in folders {
        if made.insert(folder) {
            let path = target.join(folder);
            match super::private_folder(&path) {
                // The folder was made for the tree below.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                done => done.map_err(at(&path))?,
            }
        }
    }
    Ok(())
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> TreeError {
    let path = path.to_path_buf();
    move |source| TreeError::Io { path, source }
}
