//! Reading files and logs of jobs. A job's folder is hostile: it may hold links
//! that lead out, pipes that block, a million files, and it may change while it
//! is read. Only regular files below it are ever opened.

pub mod list;
pub mod log;
pub mod made;
pub mod read;

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

/// Opens a folder of ours.
///
/// # Errors
/// When it does not exist, or is a link.
pub fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?)
}

/// Opens a regular file below a folder for reading, without following links,
/// without leaving the folder and without waiting.
///
/// # Errors
/// When there is no such regular file below it.
pub fn open_below(folder: impl AsFd, path: &Path) -> io::Result<std::fs::File> {
    let plain = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if !plain || path.as_os_str().is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path must lead into the run's folder",
        ));
    }
    let flags =
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let opened = match openat2(&folder, path, flags, Mode::empty(), within) {
        // Kernels before 5.6, and sandboxes without the call.
        Err(Errno::NOSYS | Errno::PERM) => open_step_by_step(&folder, path, flags)?,
        other => other?,
    };
    let file = std::fs::File::from(opened);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    Ok(file)
}

/// The target of a link below a folder, as it is stored. No link is followed.
///
/// # Errors
/// When there is no such link below it.
pub fn link_below(folder: impl AsFd, path: &Path) -> io::Result<std::ffi::OsString> {
    use std::os::unix::ffi::OsStringExt as _;
    let refused = || io::Error::new(io::ErrorKind::InvalidInput, "the path must lead to a link");
    let name = path.file_name().ok_or_else(refused)?;
    let mut above = folder.as_fd().try_clone_to_owned()?;
    let through = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for part in path.parent().unwrap_or(Path::new("")).components() {
        let Component::Normal(part) = part else {
            return Err(refused());
        };
        above = openat(&above, part, through, Mode::empty())?;
    }
    let target = rustix::fs::readlinkat(&above, name, Vec::new())?;
    Ok(std::ffi::OsString::from_vec(target.into_bytes()))
}

fn open_step_by_step(folder: impl AsFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let through = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = folder.as_fd().try_clone_to_owned()?;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let flags = if parts.peek().is_some() {
            through
        } else {
            flags
        };
        at = openat(&at, part.as_os_str(), flags, Mode::empty())?;
    }
    Ok(at)
}

/// Whether a directory entry is the folder itself or its parent.
fn is_dots(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}
