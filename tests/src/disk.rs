//! Full disks.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

/// So often others may take what was free a moment ago.
const TRIES: usize = 20;

/// Makes `filler`, which takes all that is free on its file system.
///
/// # Errors
/// When it cannot be made, or others are always faster.
pub fn fill(filler: &Path) -> io::Result<()> {
    let file = File::create(filler)?;
    let mut tries = 0;
    loop {
        let about = statvfs(filler)?;
        let free = about.f_bavail * about.f_frsize;
        if free == 0 {
            return Ok(());
        }
        match fallocate(&file, FallocateFlags::empty(), 0, free) {
            Ok(()) => return Ok(()),
            Err(Errno::NOSPC) if tries < TRIES => tries += 1,
            Err(error) => return Err(error.into()),
        }
    }
}
