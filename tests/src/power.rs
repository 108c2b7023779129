//! Power cuts: the contents of a disk after one, computed from the system calls of
//! the programs.
//!
//! [`trace`] records every change of files with `strace`. A [`Disk`] makes these
//! changes again in memory, as a journaling file system with delayed allocation
//! does (ext4 and XFS): any sync makes all names durable, a sync of a file makes
//! its content durable. Everything else is gone after a cut.

mod calls;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use calls::lost_name;
pub use calls::{Change, changes};

/// System calls that change files.
const CALLS: &str = "?open,?openat,?creat,?mkdir,?mkdirat,?link,?linkat,?rename,?renameat,\
?renameat2,?unlink,?unlinkat,?rmdir,?symlink,?symlinkat,?write,?pwrite64,?writev,?pwritev,\
?pwritev2,?ftruncate,?fallocate,?fsync,?fdatasync,?sync,?syncfs,?copy_file_range,?sendfile,\
?chmod,?fchmod,?fchmodat,?ioctl";

/// Runs a command with all its children under `strace`.
///
/// # Panics
/// When `strace` cannot be started.
pub fn trace(command: &Command, into: &Path) -> Child {
    let mut traced = Command::new("strace");
    traced
        .args(["-f", "-y", "--seccomp-bpf", "-s", "100000000", "-o"])
        .arg(into)
        .args(["-e", &format!("trace={CALLS}"), "-e", "signal=none"])
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear()
        .envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .stdin(Stdio::null());
    if let Some(folder) = command.get_current_dir() {
        traced.current_dir(folder);
    }
    traced
        .spawn()
        .expect("strace is installed: cargo xtask test")
}

/// The files below one folder, with their present state and the state after a
/// power cut.
#[derive(Clone, Debug)]
pub struct Disk {
    root: PathBuf,
    nodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    /// Files that may be open, by their removed name.
    lost_names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
}

#[derive(Clone, Debug)]
struct Inode {
    kind: InodeKind,
    mode: u32,
}

#[derive(Clone, Debug)]
enum InodeKind {
    Folder,
    Link(PathBuf),
    File {
        content: Arc<Vec<u8>>,
        durable: Arc<Vec<u8>>,
    },
}

impl Disk {
    /// An empty folder.
    pub fn new(root: &Path) -> Self {
        let mut disk = Self {
            root: root.to_path_buf(),
            nodes: Vec::new(),
            names: BTreeMap::new(),
            lost_names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
        };
        disk.name(root, InodeKind::Folder, 0o700);
        disk
    }

    /// Applies one change.
    ///
    /// # Panics
    /// When the change does not fit the changes before it.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Opened {
                path,
                mode,
                truncated,
            } => {
                if self.holds(path) {
                    if !self.names.contains_key(path) {
                        let empty = Arc::new(Vec::new());
                        let file = InodeKind::File {
                            content: empty.clone(),
                            durable: empty,
                        };
                        self.name(path, file, *mode);
                    } else if *truncated && let Some(content) = self.content(path) {
                        content.clear();
                    }
                }
            }
            Change::Wrote { path, at, data } => {
                if let Some(content) = self.content(path) {
                    let at = at.map_or(content.len(), |at| at as usize);
                    let end = at + data.len();
                    content.resize(content.len().max(end), 0);
                    content[at..end].copy_from_slice(data);
                }
            }
            Change::Copied { from, to, bytes } => {
                let source = match self.node(from).map(|node| &node.kind) {
                    Some(InodeKind::File { content, .. }) => content.to_vec(),
                    _ => fs::read(from).unwrap_or_default(),
                };
                if let Some(content) = self.content(to) {
                    let begin = content.len();
                    let end = source.len().min(begin.saturating_add(*bytes as usize));
                    content.extend_from_slice(&source[begin..end]);
                }
            }
            Change::Length { path, bytes, grows } => {
                if let Some(content) = self.content(path) {
                    let bytes = *bytes as usize;
                    if !*grows || bytes > content.len() {
                        content.resize(bytes, 0);
                    }
                }
            }
            Change::Mode { path, mode } => {
                if let Some(number) = self.number(path) {
                    self.nodes[number].mode = *mode;
                }
            }
            Change::Folder { path, mode } => self.name(path, InodeKind::Folder, *mode),
            Change::Link { path, target } => {
                self.name(path, InodeKind::Link(target.clone()), 0o777)
            }
            Change::Linked { from, to } => {
                if let Some(number) = self.names.get(from).copied()
                    && self.holds(to)
                {
                    self.names.insert(to.clone(), number);
                }
            }
            Change::Renamed { from, to } => self.rename(from, to),
            Change::Removed { path } => self.lose(path),
            Change::Synced { path } => {
                if let Some(number) = self.number(path)
                    && let InodeKind::File { content, durable } = &mut self.nodes[number].kind
                {
                    *durable = content.clone();
                }
                self.durable_names = self.names.clone();
            }
        }
    }

    fn holds(&self, path: &Path) -> bool {
        path.starts_with(&self.root)
    }

    fn name(&mut self, path: &Path, kind: InodeKind, mode: u32) {
        if self.holds(path) {
            self.names.insert(path.to_path_buf(), self.nodes.len());
            self.nodes.push(Inode { kind, mode });
        }
    }

    fn number(&self, path: &Path) -> Option<usize> {
        let number = self.names.get(path).or_else(|| self.lost_names.get(path));
        number.copied()
    }

    fn lose(&mut self, path: &Path) {
        if let Some(number) = self.names.remove(path) {
            self.lost_names.insert(lost_name(path), number);
        }
    }

    fn node(&self, path: &Path) -> Option<&Inode> {
        Some(&self.nodes[self.number(path)?])
    }

    fn content(&mut self, path: &Path) -> Option<&mut Vec<u8>> {
        let number = self.number(path)?;
        match &mut self.nodes[number].kind {
            InodeKind::File { content, .. } => Some(Arc::make_mut(content)),
            InodeKind::Folder | InodeKind::Link(_) => None,
        }
    }

    fn rename(&mut self, from: &Path, to: &Path) {
        self.lose(to);
        let moved: Vec<(PathBuf, usize)> = self
            .names
            .iter()
            .filter(|(path, _)| path.starts_with(from))
            .map(|(path, number)| (path.clone(), *number))
            .collect();
        for (path, number) in moved {
            self.names.remove(&path);
            let rest = path.strip_prefix(from).expect("it begins so");
            let place = if rest.as_os_str().is_empty() {
                to.to_path_buf()
            } else {
                to.join(rest)
            };
            if self.holds(&place) {
                self.names.insert(place, number);
            }
        }
    }

    /// Whether a path existed before the cut.
    pub fn is_there(&self, path: &Path) -> bool {
        self.names.contains_key(path)
    }

    /// Content of a file before the cut.
    pub fn read(&self, path: &Path) -> Option<&[u8]> {
        match &self.node(path)?.kind {
            InodeKind::File { content, .. } => Some(content),
            InodeKind::Folder | InodeKind::Link(_) => None,
        }
    }

    /// Files below `folder` that differ from the real disk. Files that processes
    /// write without a system call (`-shm`) are not compared.
    pub fn differences(&self, folder: &Path) -> Vec<String> {
        let below = |path: &Path| path.starts_with(folder);
        let mut found = Vec::new();
        for (path, number) in self.names.iter().filter(|(path, _)| below(path)) {
            let InodeKind::File { content, .. } = &self.nodes[*number].kind else {
                continue;
            };
            if path.to_string_lossy().ends_with("-shm") {
                continue;
            }
            match fs::read(path) {
                Ok(real) if real == **content => {}
                Ok(real) => found.push(format!(
                    "{} has {} bytes, replayed {}",
                    path.display(),
                    real.len(),
                    content.len()
                )),
                Err(error) => found.push(format!("{}: {error}", path.display())),
            }
        }
        let mut folders = vec![folder.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let (path, kind) = (entry.path(), entry.file_type().expect("it is there"));
                if kind.is_dir() {
                    folders.push(path);
                } else if kind.is_file() && !self.names.contains_key(&path) {
                    found.push(format!("{} was not replayed", path.display()));
                }
            }
        }
        found
    }

    /// Replaces `folder` with the state after a power cut at this point.
    ///
    /// # Errors
    /// When the real disk refuses.
    pub fn cut(&self, folder: &Path) -> io::Result<()> {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Folders come before the files in them.
        for (path, number) in &self.durable_names {
            if !path.starts_with(folder) {
                continue;
            }
            let node = &self.nodes[*number];
            match &node.kind {
                InodeKind::Folder => fs::create_dir(path)?,
                InodeKind::Link(target) => symlink(target, path)?,
                InodeKind::File { durable, .. } => fs::write(path, &**durable)?,
            }
            if !matches!(node.kind, InodeKind::Link(_)) {
                fs::set_permissions(path, fs::Permissions::from_mode(node.mode))?;
            }
        }
        Ok(())
    }
}
