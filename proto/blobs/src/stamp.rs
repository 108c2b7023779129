//! What a file looks like from outside.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

/// What changes when another file has the name, or the file is written to. The
/// time of change cannot be set back by the file's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Device and inode number.
    pub inode: (u64, u64),
    /// Length in bytes.
    pub size: u64,
    /// Time of the last write, in nanoseconds since 1970.
    pub modified_ns: i128,
    /// Time of the last change of content or attributes, likewise.
    pub changed_ns: i128,
}

impl Stamp {
    /// Of a file that was looked at.
    pub fn of(found: &Metadata) -> Self {
        let ns = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Self {
            inode: (found.dev(), found.ino()),
            size: found.size(),
            modified_ns: ns(found.mtime(), found.mtime_nsec()),
            changed_ns: ns(found.ctime(), found.ctime_nsec()),
        }
    }
}
