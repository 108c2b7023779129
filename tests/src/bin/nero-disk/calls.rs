//! The calls of the kernel.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{
    FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown, symlink,
};
use std::path::Path;
use std::time::{Instant, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

use super::durable::Change;
use super::seen::Open;
use super::{AT_ONCE, Late};

/// Flags of an open that were seen to before the file is opened here.
const SEEN_TO: i32 = libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_NOFOLLOW;

fn entered(reply: ReplyEntry, entry: io::Result<FileAttr>) {
    match entry {
        Ok(attr) => reply.entry(&AT_ONCE, &attr, Generation(0)),
        Err(error) => reply.error(error.into()),
    }
}

fn shown(reply: ReplyAttr, attr: io::Result<FileAttr>) {
    match attr {
        Ok(attr) => reply.attr(&AT_ONCE, &attr),
        Err(error) => reply.error(error.into()),
    }
}

fn done(reply: ReplyEmpty, done: io::Result<()>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error.into()),
    }
}

fn data(reply: ReplyData, data: io::Result<Vec<u8>>) {
    match data {
        Ok(data) => reply.data(&data),
        Err(error) => reply.error(error.into()),
    }
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    let (tv_sec, tv_nsec) = match time {
        None => (0, UTIME_OMIT),
        Some(TimeOrNow::Now) => (0, UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => {
            let since = time.duration_since(SystemTime::UNIX_EPOCH);
            let since = since.unwrap_or_default();
            let whole_s = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
            (whole_s, since.subsec_nanos().into())
        }
    };
    Timespec { tv_sec, tv_nsec }
}

/// Appends are seen to by the folder behind; a page of such a file is never kept.
fn kept(flags: i32) -> FopenFlags {
    match flags & libc::O_APPEND {
        0 => FopenFlags::empty(),
        _ => FopenFlags::FOPEN_DIRECT_IO,
    }
}

fn opened(path: &Path, flags: i32, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    match flags & libc::O_ACCMODE {
        libc::O_RDONLY => options.read(true),
        libc::O_WRONLY => options.write(true),
        _ => options.read(true).write(true),
    };
    options.custom_flags(flags & !libc::O_ACCMODE).mode(mode);
    options.open(path)
}

impl Filesystem for Late {
    fn lookup(&self, _: &Request, folder: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let entry = self.with(|state| {
            let absent = state.node(folder.0)?.absent.get(name);
            if absent.is_some_and(|at| at.elapsed() < self.delay) {
                return Err(io::Error::from_raw_os_error(libc::ENOENT));
            }
            let entry = state.enter(folder.0, name, self.delay);
            if entry
                .as_ref()
                .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
            {
                let absent = &mut state.node(folder.0)?.absent;
                absent.insert(name.to_owned(), Instant::now());
            }
            entry
        });
        entered(reply, entry);
    }

    fn forget(&self, _: &Request, node: INodeNo, lookups: u64) {
        self.forgotten(node.0, lookups);
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        shown(reply, self.with(|state| state.attr(node.0, self.delay)));
    }

    fn setattr(
        &self,
        by: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let attr = self.with(|state| {
            let call = if size.is_some() {
                "truncate"
            } else {
                "setattr"
            };
            state.pass(by, call, node.0, None)?;
            let path = state.node(node.0)?.path();
            if let Some(mode) = mode {
                fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
            }
            if uid.is_some() || gid.is_some() {
                chown(&path, uid, gid)?;
            }
            if let Some(size) = size {
                OpenOptions::new().write(true).open(&path)?.set_len(size)?;
            }
            if accessed.is_some() || modified.is_some() {
                let times = Timestamps {
                    last_access: timespec(accessed),
                    last_modification: timespec(modified),
                };
                rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty())?;
            }
            state.changed(node.0);
            state.settled(by, Change::Wrote(node.0))?;
            state.attr(node.0, self.delay)
        });
        shown(reply, attr);
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        let target = self.with(|state| {
            let target = rustix::fs::readlinkat(&state.node(node.0)?.handle, "", Vec::new())?;
            Ok(target.into_bytes())
        });
        data(reply, target);
    }

    fn mknod(
        &self,
        by: &Request,
        folder: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let entry = self.with(|state| {
            state.pass(by, "mknod", folder.0, Some(name))?;
            self.room()?;
            let path = state.path(folder.0, name)?;
            let kind = rustix::fs::FileType::from_raw_mode(mode);
            let mode = Mode::from_raw_mode(mode);
            rustix::fs::mknodat(CWD, &path, kind, mode, device.into())?;
            state.made(folder.0, name, by)
        });
        entered(reply, entry);
    }

    fn mkdir(
        &self,
        by: &Request,
        folder: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let entry = self.with(|state| {
            state.pass(by, "mkdir", folder.0, Some(name))?;
            if let (Some(durable), INodeNo::ROOT) = (&mut state.durable, folder)
                && let Some(name) = name.to_str().filter(|name| name.starts_with("cut."))
            {
                durable.cut(name)?;
            }
            self.room()?;
            let path = state.path(folder.0, name)?;
            rustix::fs::mkdir(&path, Mode::from_raw_mode(mode))?;
            state.made(folder.0, name, by)
        });
        entered(reply, entry);
    }

    fn unlink(&self, by: &Request, folder: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.with(|state| {
            state.pass(by, "unlink", folder.0, Some(name))?;
            let path = state.path(folder.0, name)?;
            let number = path.symlink_metadata().map(|found| found.ino());
            fs::remove_file(&path)?;
            state.unnamed(by, (folder.0, name), None)?;
            state.changed(folder.0);
            number.map(|number| state.changed(number))
        });
        done(reply, removed);
    }

    fn rmdir(&self, by: &Request, folder: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.with(|state| {
            state.pass(by, "rmdir", folder.0, Some(name))?;
            fs::remove_dir(state.path(folder.0, name)?)?;
            state.unnamed(by, (folder.0, name), None)?;
            state.changed(folder.0);
            Ok(())
        });
        done(reply, removed);
    }

    fn symlink(
        &self,
        by: &Request,
        folder: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let entry = self.with(|state| {
            state.pass(by, "symlink", folder.0, Some(name))?;
            self.room()?;
            symlink(target, state.path(folder.0, name)?)?;
            state.made(folder.0, name, by)
        });
        entered(reply, entry);
    }

    fn rename(
        &self,
        by: &Request,
        folder: INodeNo,
        name: &OsStr,
        new_folder: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = self.with(|state| {
            state.pass(by, "rename", new_folder.0, Some(new_name))?;
            let from = state.path(folder.0, name)?;
            let to = state.path(new_folder.0, new_name)?;
            let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
            rustix::fs::renameat_with(CWD, &from, CWD, &to, flags)?;
            state.unnamed(by, (folder.0, name), Some((new_folder.0, new_name)))?;
            state.changed(folder.0);
            state.changed(new_folder.0);
            Ok(())
        });
        done(reply, renamed);
    }

    fn link(&self, by: &Request, node: INodeNo, folder: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let entry = self.with(|state| {
            state.pass(by, "link", folder.0, Some(name))?;
            let (from, to) = (state.node(node.0)?.path(), state.path(folder.0, name)?);
            rustix::fs::linkat(CWD, &from, CWD, &to, AtFlags::SYMLINK_FOLLOW)?;
            state.named(by, folder.0, name, false)?;
            state.changed(folder.0);
            state.changed(node.0);
            state.enter(folder.0, name, AT_ONCE)
        });
        entered(reply, entry);
    }

    fn open(&self, by: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let open = self.with(|state| {
            let is_read = flags.0 & libc::O_ACCMODE == libc::O_RDONLY;
            state.pass(by, if is_read { "read" } else { "open" }, node.0, None)?;
            let file = opened(&state.node(node.0)?.path(), flags.0 & !SEEN_TO, 0)?;
            state.changed(node.0);
            Ok(state.keep(Open::File(file)))
        });
        match open {
            Ok(handle) => reply.opened(handle, kept(flags.0)),
            Err(error) => reply.error(error.into()),
        }
    }

    fn create(
        &self,
        by: &Request,
        folder: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let made = self.with(|state| {
            state.pass(by, "create", folder.0, Some(name))?;
            let path = state.path(folder.0, name)?;
            if !path.exists() {
                self.room()?;
            }
            let file = opened(&path, flags | libc::O_CREAT, mode)?;
            let attr = state.made(folder.0, name, by)?;
            Ok((attr, state.keep(Open::File(file))))
        });
        match made {
            Ok((attr, handle)) => {
                reply.created(&AT_ONCE, &attr, Generation(0), handle, kept(flags));
            }
            Err(error) => reply.error(error.into()),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = self.with(|state| {
            let mut bytes = vec![0; size as usize];
            let mut filled = 0;
            while filled < bytes.len() {
                let at = offset + filled as u64;
                match state.file(handle)?.read_at(&mut bytes[filled..], at)? {
                    0 => break,
                    more => filled += more,
                }
            }
            bytes.truncate(filled);
            Ok(bytes)
        });
        data(reply, read);
    }

    fn write(
        &self,
        by: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.with(|state| {
            state.pass(by, "write", node.0, None)?;
            let file = state.file(handle)?;
            let found = file.metadata()?;
            let room = found.len().max(found.blocks() * 512);
            if offset + bytes.len() as u64 > room {
                self.room()?;
            }
            let written = file.write_at(bytes, offset)?;
            state.changed(node.0);
            state.settled(by, Change::Wrote(node.0))?;
            Ok(written)
        });
        match written {
            Ok(written) => reply.written(written as u32),
            Err(error) => reply.error(error.into()),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.close(handle);
        reply.ok();
    }

    fn fsync(&self, by: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let synced = self.with(|state| {
            state.pass(by, "sync", node.0, None)?;
            state.settled(by, Change::Synced(node.0))
        });
        done(reply, synced);
    }

    fn opendir(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let open = self.with(|state| {
            let names = state.names(node.0, self.delay)?.iter();
            let names = names.map(|(name, (number, kind))| (name.clone(), *number, *kind));
            let names = names.collect();
            Ok(state.keep(Open::Folder(names)))
        });
        match open {
            Ok(handle) => reply.opened(handle, FopenFlags::empty()),
            Err(error) => reply.error(error.into()),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let state = self.state.lock().expect("no call panics");
        let Some(Open::Folder(names)) = state.files.get(&handle.0) else {
            return reply.error(Errno::EBADF);
        };
        let rest = names.iter().zip(1..).skip(offset as usize);
        for ((name, number, kind), next) in rest {
            if reply.add(INodeNo(*number), next, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.close(handle);
        reply.ok();
    }

    fn fsyncdir(&self, by: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let synced = self.with(|state| {
            state.pass(by, "sync", node.0, None)?;
            state.settled(by, Change::Synced(node.0))
        });
        done(reply, synced);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let found = self.with(|state| {
            let root = state.node(INodeNo::ROOT.0)?;
            Ok(rustix::fs::statvfs(root.path())?)
        });
        match found {
            Ok(found) => reply.statfs(
                found.f_blocks,
                found.f_bfree,
                found.f_bavail,
                found.f_files,
                found.f_ffree,
                found.f_bsize as u32,
                found.f_namemax as u32,
                found.f_frsize as u32,
            ),
            Err(error) => reply.error(error.into()),
        }
    }

    fn fallocate(
        &self,
        by: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let made = self.with(|state| {
            state.pass(by, "fallocate", node.0, None)?;
            self.room()?;
            let mode = FallocateFlags::from_bits_retain(mode.cast_unsigned());
            rustix::fs::fallocate(state.file(handle)?, mode, offset, length)?;
            state.changed(node.0);
            state.settled(by, Change::Wrote(node.0))?;
            Ok(())
        });
        done(reply, made);
    }
}
