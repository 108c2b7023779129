//! Opening files of a run's folder, where a job can put anything.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens a file of a run for reading. If the file is a pipe, this does not wait
/// for a process at its other end.
///
/// # Errors
/// Errors of the file system.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    File::options().read(true).custom_flags(flags).open(path)
}

/// Whether the file's own mode or owner keeps us from reading it. Unlike other
/// refusals of a file server, this one lasts until a person changes it.
pub fn is_shut(path: &Path, error: &io::Error) -> bool {
    let ours = rustix::process::geteuid().as_raw();
    error.kind() == io::ErrorKind::PermissionDenied
        && fs::symlink_metadata(path).is_ok_and(|found| {
            found.is_file() && (found.uid() != ours || found.mode() & 0o400 == 0)
        })
}
