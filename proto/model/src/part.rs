//! Parts of files, as they travel.

use std::fs::File;
use std::io;

use rustix::buffer::spare_capacity;

/// Reads `bytes` bytes of a file from `offset` on, or fewer where the file
/// ends, into the buffer that is sent: nothing is copied.
///
/// # Errors
/// Errors of the file system.
pub fn read(file: &File, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut data = Vec::with_capacity(bytes);
    while data.len() < bytes {
        let at = offset + data.len() as u64;
        match rustix::io::pread(file, spare_capacity(&mut data), at) {
            Ok(0) => break,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // The allocator may have given more room than `bytes`.
    data.truncate(bytes);
    Ok(data)
}
