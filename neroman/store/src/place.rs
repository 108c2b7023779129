//! Whether a folder lies where a database is safe.
//!
//! SQLite's write-ahead log needs shared memory and locks that network file
//! systems do not provide; databases there are damaged sooner or later.

use std::path::Path;

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, open};
use rustix::io::Errno;

use crate::error::StoreError;

/// Judgement of a file system by its magic number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A local disk, or a file system without known faults.
    Fine,
    /// It may be a network file system behind FUSE.
    Doubtful(&'static str),
    /// A network file system.
    Refused(&'static str),
}

/// Judges a file system by the magic number that `statfs` gives.
pub fn verdict(magic: u32) -> Verdict {
    const REFUSED: [(u32, &str); 14] = [
        (0x6969, "NFS"),
        (0xff53_4d42, "a Windows share (CIFS)"),
        (0xfe53_4d42, "a Windows share (SMB2)"),
        (0x517b, "a Windows share (SMB)"),
        (0x0bd0_0bd0, "Lustre"),
        (0x4750_4653, "GPFS"),
        (0x5346_414f, "AFS"),
        (0x6b41_4653, "AFS"),
        (0x0102_1997, "a 9p share"),
        (0x00c3_6400, "Ceph"),
        (0x1983_0326, "BeeGFS"),
        (0x7375_7245, "Coda"),
        (0xaad7_aaea, "PanFS"),
        (0x7461_636f, "OCFS2"),
    ];
    const FUSE: u32 = 0x6573_5546;
    if magic == FUSE {
        return Verdict::Doubtful("a FUSE file system");
    }
    REFUSED
        .iter()
        .find(|(refused, _)| *refused == magic)
        .map_or(Verdict::Fine, |(_, name)| Verdict::Refused(name))
}

/// Judges the file system of a folder.
fn verdict_of(folder: &Path) -> Result<Verdict, Errno> {
    // The type is signed, and of different width on different machines;
    // the magic number is its low 32 bits.
    rustix::fs::statfs(folder).map(|found| verdict(found.f_type as u32))
}

/// Refuses a folder on a network file system.
pub(crate) fn check(folder: &Path) -> Result<(), StoreError> {
    let found = verdict_of(folder)
        .map_err(|errno| StoreError::io("look at the file system of", folder)(errno.into()))?;
    match found {
        Verdict::Fine | Verdict::Doubtful(_) => Ok(()),
        Verdict::Refused(kind) => Err(StoreError::NetworkFileSystem {
            path: folder.to_path_buf(),
            kind,
        }),
    }
}

/// The doubt about a folder on a file system that may be one of a network; `None` if there is none.
pub fn doubt(folder: &Path) -> Option<String> {
    match verdict_of(folder) {
        Ok(Verdict::Doubtful(kind)) => Some(format!(
            "{} lies on {kind}, where a database is not safe if it is one of a network: set \
             NERONET_HOME to a folder on a local disk",
            folder.display()
        )),
        Ok(Verdict::Fine | Verdict::Refused(_)) | Err(_) => None,
    }
}

/// Whether the folder's file system can allocate this many more bytes; they are
/// freed at once. A file system that cannot allocate ahead counts as having
/// room.
pub(crate) fn has_room(folder: &Path, bytes: u64) -> bool {
    // The file has no name, so nothing is left of it if we are killed.
    let taken = open(
        folder,
        OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::RUSR | Mode::WUSR,
    )
    .and_then(|file| fallocate(file, FallocateFlags::empty(), 0, bytes));
    !matches!(taken, Err(Errno::NOSPC | Errno::DQUOT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_refused_and_disks_are_not() {
        let (ext4, xfs, btrfs, tmpfs, overlay) =
            (0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630);
        for magic in [ext4, xfs, btrfs, tmpfs, overlay, 0x2fc1_2fc1] {
            assert_eq!(verdict(magic), Verdict::Fine, "{magic:x}");
        }
        for (magic, name) in [
            (0x6969, "NFS"),
            (0x0bd0_0bd0, "Lustre"),
            (0xfe53_4d42, "a Windows share (SMB2)"),
            (0x1983_0326, "BeeGFS"),
        ] {
            assert_eq!(verdict(magic), Verdict::Refused(name));
        }
        assert!(matches!(verdict(0x6573_5546), Verdict::Doubtful(_)));
    }

    #[test]
    fn a_temporary_folder_is_fine() {
        let folder = tempfile::tempdir().unwrap();
        check(folder.path()).unwrap();
        assert_eq!(doubt(folder.path()), None);
    }

    #[test]
    fn room_is_what_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let free = rustix::fs::statvfs(folder.path()).unwrap();
        assert!(has_room(folder.path(), 4096));
        assert!(!has_room(
            folder.path(),
            free.f_blocks * free.f_frsize + 4096
        ));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
