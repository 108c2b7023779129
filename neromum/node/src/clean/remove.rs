//! The trash: things to delete lie here under a random name until a thread has
//! deleted them. Deleting follows no link, enters no other file system, and
//! holds few descriptors however deep a tree is.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nero_model::ids::hex;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, chmod, fchmod, fstat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::measure::open_dir;

/// Depth of entered folders; a deeper one is moved up first.
const DEPTH_MAX: usize = 32;
/// Names read at a time.
const NAMES_MAX: usize = 1024;
/// Stack of the thread that deletes.
const STACK_BYTES: usize = 512 * 1024;

/// The folder of things to delete.
#[derive(Debug)]
pub struct Trash {
    folder: PathBuf,
    busy: AtomicBool,
    /// Whether something was added since the thread last looked.
    more: AtomicBool,
}

impl Trash {
    /// In this folder, which is made when it is needed.
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            busy: AtomicBool::new(false),
            more: AtomicBool::new(false),
        }
    }

    /// Path of the trash.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Moves a file or folder here.
    ///
    /// # Errors
    /// When it cannot be moved; it is still in place then.
    pub fn take(&self, path: &Path) -> io::Result<()> {
        nero_model::paths::make_private(&self.folder)?;
        std::fs::rename(path, self.folder.join(random_name()))
    }

    /// Starts to delete the contents in a thread. What is left when neromum
    /// ends waits for the next one.
    pub fn empty_behind(self: &Arc<Self>) {
        if !self.folder.exists() {
            return;
        }
        self.more.store(true, Ordering::SeqCst);
        if self.busy.swap(true, Ordering::SeqCst) {
            return;
        }
        let trash = self.clone();
        let thread = std::thread::Builder::new()
            .name("trash".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || trash.work(empty));
        if let Err(error) = thread {
            self.busy.store(false, Ordering::SeqCst);
            tracing::warn!(%error, "the trash is not emptied now");
        }
    }

    fn work(&self, empty: fn(&Path) -> io::Result<()>) {
        loop {
            let working = TrashGuard(&self.busy);
            while self.more.swap(false, Ordering::SeqCst) {
                if let Err(error) = empty(&self.folder) {
                    tracing::warn!(%error, "something stays in the trash");
                }
            }
            drop(working);
            // Added between the last look and the line before: ours again,
            // unless its adder has begun another thread.
            if !self.more.load(Ordering::SeqCst) || self.busy.swap(true, Ordering::SeqCst) {
                return;
            }
        }
    }
}

/// The trash's thread is at work until this is dropped. A panic of the thread drops it, too:
/// else no later thread would begin.
struct TrashGuard<'a>(&'a AtomicBool);

impl Drop for TrashGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

fn random_name() -> String {
    hex(&nero_model::ids::random::<12>())
}

/// Deletes everything in a folder; nothing to do when it is not there.
///
/// # Errors
/// The first entry that could not be deleted; all others are deleted.
pub fn empty(folder: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = match openat(rustix::fs::CWD, folder, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        opened => opened?,
    };
    let device = fstat(&top)?.st_dev;
    let mut remover = Remover {
        top: &top,
        device,
        kept: None,
    };
    // Folders that were too deep were moved up and come in the next round.
    while remover.inside(&top, 0)? {}
    remover.kept.map_or(Ok(()), Err)
}

struct Remover<'a> {
    top: &'a OwnedFd,
    device: u64,
    /// The first thing that cannot be deleted.
    kept: Option<io::Error>,
}

impl Remover<'_> {
    /// Deletes the contents of a folder; returns whether anything was deleted
    /// or moved.
    fn inside(&mut self, folder: &OwnedFd, depth: usize) -> io::Result<bool> {
        let mut progress = false;
        loop {
            let names = names(folder)?;
            let full = names.len() >= NAMES_MAX;
            let mut now = false;
            for (name, is_dir) in names {
                match self.remove_entry(folder, &name, is_dir, depth) {
                    Ok(done) => now |= done,
                    Err(Errno::NOENT) => {}
                    Err(error) => {
                        let text = format!("{}: {error}", name.to_string_lossy().escape_debug());
                        let kept = io::Error::new(io::Error::from(error).kind(), text);
                        self.kept.get_or_insert(kept);
                    }
                }
            }
            progress |= now;
            if !(now && full) {
                return Ok(progress);
            }
        }
    }

    fn remove_entry(
        &mut self,
        folder: &OwnedFd,
        name: &CStr,
        is_dir: bool,
        depth: usize,
    ) -> Result<bool, Errno> {
        if !is_dir {
            match unlinkat(folder, name, AtFlags::empty()) {
                Err(Errno::ISDIR | Errno::PERM) => {}
                done => return done.map(|()| true),
            }
        }
        if depth >= DEPTH_MAX {
            renameat(folder, name, self.top, random_name())?;
            return Ok(true);
        }
        let inner = open_any(folder, name)?;
        if fstat(&inner)?.st_dev != self.device {
            return Err(Errno::XDEV);
        }
        let progress = self
            .inside(&inner, depth + 1)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        match unlinkat(folder, name, AtFlags::REMOVEDIR) {
            // An entry stays in it, or is moved up in the next round.
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(progress),
            done => done.map(|()| true),
        }
    }
}

/// Opens a folder even if its owner has closed it, and makes it writable.
fn open_any(folder: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let opened = match open_dir(folder, name) {
        Err(Errno::ACCESS) => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let place = openat(folder, name, flags, Mode::empty())?;
            // By descriptor, since the name could have become a link meanwhile.
            chmod(format!("/proc/self/fd/{}", place.as_raw_fd()), Mode::RWXU)?;
            open_dir(folder, name)?
        }
        opened => opened?,
    };
    if fstat(&opened)?.st_mode & 0o700 != 0o700 {
        fchmod(&opened, Mode::RWXU)?;
    }
    Ok(opened)
}

/// Some of the names in a folder, with whether each is a folder.
fn names(folder: &OwnedFd) -> io::Result<Vec<(CString, bool)>> {
    let mut found = Vec::new();
    let mut entries = Dir::read_from(folder)?;
    while let Some(entry) = entries.read() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let is_dir = match entry.file_type() {
            FileType::Directory => true,
            FileType::Unknown => statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory),
            _ => false,
        };
        found.push((name.to_owned(), is_dir));
        if found.len() >= NAMES_MAX {
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn hostile_trees_go_and_nothing_outside_does() {
        let place = tempfile::tempdir().unwrap();
        let precious = place.path().join("precious");
        fs::create_dir_all(precious.join("sub")).unwrap();
        fs::write(precious.join("sub/file"), "keep").unwrap();
        let trash = Trash::new(place.path().join("trash"));
        let work = place.path().join("run");
        fs::create_dir_all(work.join("closed/inner")).unwrap();
        fs::write(work.join("closed/inner/x"), "").unwrap();
        symlink(&precious, work.join("link")).unwrap();
        symlink("../../precious", work.join("closed/link")).unwrap();
        symlink("/", work.join("root")).unwrap();
        fs::write(work.join("line\nfeed\u{1b}[31m"), "").unwrap();
        let status = std::process::Command::new("mkfifo")
            .arg(work.join("pipe"))
            .status();
        assert!(status.unwrap().success());
        let mut deep = work.clone();
        for _ in 0..300 {
            deep.push("d");
            fs::create_dir(&deep).unwrap();
        }
        fs::write(deep.join("bottom"), "").unwrap();
        for index in 0..3000 {
            fs::write(work.join(format!("many{index}")), "").unwrap();
        }
        let closed = fs::Permissions::from_mode(0o000);
        fs::set_permissions(work.join("closed/inner"), closed.clone()).unwrap();
        fs::set_permissions(work.join("closed"), closed).unwrap();
        trash.take(&work).unwrap();
        assert!(!work.exists());
        empty(trash.folder()).unwrap();
        assert_eq!(fs::read_dir(trash.folder()).unwrap().count(), 0);
        assert_eq!(fs::read(precious.join("sub/file")).unwrap(), b"keep");
        empty(&place.path().join("not there")).unwrap();
    }

    #[test]
    fn the_trash_is_emptied_after_its_thread_has_panicked() {
        let place = tempfile::tempdir().unwrap();
        let trash = Arc::new(Trash::new(place.path().join("trash")));
        fs::write(place.path().join("file"), "").unwrap();
        trash.take(&place.path().join("file")).unwrap();
        trash.more.store(true, Ordering::SeqCst);
        trash.busy.store(true, Ordering::SeqCst);
        let failing = trash.clone();
        let thread = std::thread::spawn(move || {
            failing.work(|_| panic!("this panic belongs to the test"));
        });
        assert!(thread.join().is_err());
        trash.empty_behind();
        let began = std::time::Instant::now();
        while fs::read_dir(trash.folder()).unwrap().next().is_some() {
            assert!(
                began.elapsed().as_secs() < 60,
                "nothing is deleted any more"
            );
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_trash_that_is_a_link_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("other")).unwrap();
        fs::write(place.path().join("other/file"), "keep").unwrap();
        symlink("other", place.path().join("trash")).unwrap();
        assert!(empty(&place.path().join("trash")).is_err());
        assert!(place.path().join("other/file").exists());
    }
}
