//! What the kernel was shown of the folder behind, and when.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{
    DirEntryExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, chown,
};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use fuser::{FileAttr, FileHandle, FileType, INodeNo, Request};

use super::AT_ONCE;
use super::durable::{Change, Durable};
use super::points::Points;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) nodes: HashMap<u64, Node>,
    pub(super) files: HashMap<u64, Open>,
    pub(super) next: u64,
    pub(super) points: Option<Points>,
    pub(super) durable: Option<Durable>,
}

/// A file or folder that the kernel knows.
#[derive(Debug)]
pub(super) struct Node {
    /// Leads to it, whatever its name is.
    pub(super) handle: File,
    pub(super) lookups: u64,
    /// Time and length as they were shown last.
    pub(super) attr: Option<(FileAttr, Instant)>,
    /// Of a folder: the names that were listed last.
    pub(super) names: Option<(Names, Instant)>,
    /// Names that were looked for in it, and were not there.
    pub(super) absent: HashMap<OsString, Instant>,
}

pub(super) type Names = BTreeMap<OsString, (u64, FileType)>;

#[derive(Debug)]
pub(super) enum Open {
    File(File),
    Folder(Vec<(OsString, u64, FileType)>),
}

impl Node {
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.handle.as_raw_fd()))
    }
}

pub(super) fn opened_at(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    options.custom_flags(libc::O_PATH | libc::O_NOFOLLOW);
    options.open(path)
}

fn kind_of(kind: fs::FileType) -> FileType {
    match kind {
        _ if kind.is_dir() => FileType::Directory,
        _ if kind.is_symlink() => FileType::Symlink,
        _ if kind.is_fifo() => FileType::NamedPipe,
        _ if kind.is_socket() => FileType::Socket,
        _ if kind.is_char_device() => FileType::CharDevice,
        _ if kind.is_block_device() => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

fn attr_of(node: u64, handle: &File) -> io::Result<FileAttr> {
    let found = handle.metadata()?;
    let changed_s = u64::try_from(found.ctime()).unwrap_or(0);
    let changed_ns = u32::try_from(found.ctime_nsec()).unwrap_or(0);
    Ok(FileAttr {
        ino: INodeNo(node),
        size: found.len(),
        blocks: found.blocks(),
        atime: found.accessed()?,
        mtime: found.modified()?,
        ctime: SystemTime::UNIX_EPOCH + Duration::new(changed_s, changed_ns),
        crtime: SystemTime::UNIX_EPOCH,
        kind: kind_of(found.file_type()),
        perm: (found.mode() & 0o7777) as u16,
        nlink: found.nlink() as u32,
        uid: found.uid(),
        gid: found.gid(),
        rdev: found.rdev() as u32,
        blksize: found.blksize() as u32,
        flags: 0,
    })
}

impl State {
    pub(super) fn node(&mut self, number: u64) -> io::Result<&mut Node> {
        let gone = || io::Error::from_raw_os_error(libc::ESTALE);
        self.nodes.get_mut(&number).ok_or_else(gone)
    }

    pub(super) fn path(&mut self, folder: u64, name: &OsStr) -> io::Result<PathBuf> {
        Ok(self.node(folder)?.path().join(name))
    }

    /// The path behind of a file, or of a name in a folder.
    fn real(&mut self, node: u64, name: Option<&OsStr>) -> io::Result<PathBuf> {
        let path = fs::read_link(self.node(node)?.path())?;
        Ok(name.map_or_else(|| path.clone(), |name| path.join(name)))
    }

    /// A program is about to do this to a file, or to a name in a folder.
    pub(super) fn pass(
        &mut self,
        by: &Request,
        call: &str,
        node: u64,
        name: Option<&OsStr>,
    ) -> io::Result<()> {
        if let Some(durable) = &mut self.durable {
            durable.take_up()?;
        }
        if self.points.is_none() {
            return Ok(());
        }
        let path = self.real(node, name)?;
        match &mut self.points {
            Some(points) => points.pass(by, call, &path),
            None => Ok(()),
        }
    }

    /// A program has named something in a folder; `true`: it is new.
    pub(super) fn named(
        &mut self,
        by: &Request,
        folder: u64,
        name: &OsStr,
        is_new: bool,
    ) -> io::Result<()> {
        if self.durable.is_none() {
            return Ok(());
        }
        let path = self.real(folder, Some(name))?;
        self.settled(by, Change::Named(&path, is_new))
    }

    /// A program has removed a name, or made another of it.
    pub(super) fn unnamed(
        &mut self,
        by: &Request,
        name: (u64, &OsStr),
        to: Option<(u64, &OsStr)>,
    ) -> io::Result<()> {
        if self.durable.is_none() {
            return Ok(());
        }
        let from = self.real(name.0, Some(name.1))?;
        match to {
            Some((folder, name)) => {
                let to = self.real(folder, Some(name))?;
                self.settled(by, Change::Renamed(&from, &to))
            }
            None => self.settled(by, Change::Removed(&from)),
        }
    }

    /// A program has made this change.
    pub(super) fn settled(&mut self, by: &Request, change: Change<'_>) -> io::Result<()> {
        match &mut self.durable {
            Some(durable) => durable.apply(change, by),
            None => Ok(()),
        }
    }

    /// The names in a folder, as they are shown now.
    pub(super) fn names(&mut self, folder: u64, delay: Duration) -> io::Result<&Names> {
        let node = self.node(folder)?;
        if node
            .names
            .as_ref()
            .is_none_or(|(_, at)| at.elapsed() >= delay)
        {
            let at = Instant::now();
            let mut names = Names::new();
            for entry in fs::read_dir(node.path())? {
                let entry = entry?;
                let kind = kind_of(entry.file_type()?);
                names.insert(entry.file_name(), (entry.ino(), kind));
            }
            node.names = Some((names, at));
        }
        Ok(&node.names.as_ref().expect("they were read").0)
    }

    /// Time and length of a file, as they are shown now.
    pub(super) fn attr(&mut self, number: u64, delay: Duration) -> io::Result<FileAttr> {
        let node = self.node(number)?;
        if let Some((attr, at)) = node.attr
            && at.elapsed() < delay
        {
            return Ok(attr);
        }
        let attr = attr_of(number, &node.handle)?;
        node.attr = Some((attr, Instant::now()));
        Ok(attr)
    }

    /// This mount changed a file: the next look shows it.
    pub(super) fn changed(&mut self, number: u64) {
        if let Some(node) = self.nodes.get_mut(&number) {
            (node.attr, node.names) = (None, None);
            node.absent.clear();
        }
    }

    /// Makes the kernel know what has this name behind.
    pub(super) fn enter(
        &mut self,
        folder: u64,
        name: &OsStr,
        delay: Duration,
    ) -> io::Result<FileAttr> {
        let handle = opened_at(&self.path(folder, name)?)?;
        let number = handle.metadata()?.ino();
        let node = self.nodes.entry(number).or_insert_with(|| Node {
            handle,
            lookups: 0,
            attr: None,
            names: None,
            absent: HashMap::new(),
        });
        node.lookups += 1;
        self.attr(number, delay)
    }

    /// The same of a name that this mount made just now, for this user.
    pub(super) fn made(&mut self, folder: u64, name: &OsStr, by: &Request) -> io::Result<FileAttr> {
        self.changed(folder);
        self.named(by, folder, name, true)?;
        let attr = self.enter(folder, name, AT_ONCE)?;
        self.give(attr.ino.0, by)
    }

    pub(super) fn give(&mut self, number: u64, to: &Request) -> io::Result<FileAttr> {
        if to.uid() != 0 {
            chown(self.node(number)?.path(), Some(to.uid()), Some(to.gid()))?;
        }
        self.attr(number, AT_ONCE)
    }

    pub(super) fn keep(&mut self, open: Open) -> FileHandle {
        self.next += 1;
        self.files.insert(self.next, open);
        FileHandle(self.next)
    }

    pub(super) fn file(&self, handle: FileHandle) -> io::Result<&File> {
        match self.files.get(&handle.0) {
            Some(Open::File(file)) => Ok(file),
            Some(Open::Folder(_)) | None => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }
}
