//! Measures a folder: its space and entries, without following links or
//! entering other file systems.

use std::ffi::CStr;
use std::io;
use std::ops::AddAssign;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};

/// Depth below which folders are not measured.
const DEPTH_MAX: usize = 128;

/// Size of a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Space taken, without holes.
    pub bytes: u64,
    /// Number of files, without folders.
    pub files: u64,
}

impl AddAssign for Size {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.files += other.files;
    }
}

impl Size {
    /// Size of one file.
    pub fn of(found: &Stat) -> Self {
        Self {
            bytes: u64::try_from(found.st_blocks)
                .unwrap_or(0)
                .saturating_mul(512),
            files: 1,
        }
    }

    /// Size of one file; no space when it has another name.
    pub fn alone(found: &Stat) -> Self {
        match found.st_nlink {
            0 | 1 => Self::of(found),
            _ => Self { bytes: 0, files: 1 },
        }
    }
}

/// Opens a folder below another one, without following links.
///
/// # Errors
/// As `openat`.
pub fn open_dir(folder: &OwnedFd, name: &CStr) -> rustix::io::Result<OwnedFd> {
    openat(folder, name, dir_flags(), Mode::empty())
}

fn dir_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// Size of everything below `path`; zero when it does not exist.
///
/// # Errors
/// When the folder itself cannot be read; entries below it that cannot be read
/// are not counted.
pub fn measure(path: &Path) -> io::Result<Size> {
    all(path, Size::of)
}

/// The same without the space of files that have another name elsewhere:
/// removing this name does not free it.
///
/// # Errors
/// As [`measure`].
pub fn measure_alone(path: &Path) -> io::Result<Size> {
    all(path, Size::alone)
}

fn all(path: &Path, of: fn(&Stat) -> Size) -> io::Result<Size> {
    match openat(rustix::fs::CWD, path, dir_flags(), Mode::empty()) {
        Ok(folder) => {
            let device = fstat(&folder)?.st_dev;
            let mut size = Size::default();
            below(&folder, device, 0, of, &mut size);
            Ok(size)
        }
        Err(rustix::io::Errno::NOENT) => Ok(Size::default()),
        Err(error) => Err(error.into()),
    }
}

fn below(folder: &OwnedFd, device: u64, depth: usize, of: fn(&Stat) -> Size, size: &mut Size) {
    let Ok(mut entries) = Dir::read_from(folder) else {
        return;
    };
    while let Some(entry) = entries.read() {
        let Ok(entry) = entry else { continue };
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let Ok(found) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
            *size += of(&found);
        } else if found.st_dev == device && depth < DEPTH_MAX {
            size.bytes += Size::of(&found).bytes;
            if let Ok(inner) = open_dir(folder, name) {
                below(&inner, device, depth + 1, of, size);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_are_counted_and_links_are_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("f");
        assert_eq!(measure(&folder).unwrap(), Size::default());
        fs::create_dir_all(folder.join("a/b")).unwrap();
        fs::write(folder.join("a/b/x"), vec![1; 100_000]).unwrap();
        fs::write(place.path().join("outside"), vec![1; 900_000]).unwrap();
        std::os::unix::fs::symlink("../outside", folder.join("l")).unwrap();
        std::os::unix::fs::symlink(place.path(), folder.join("a/up")).unwrap();
        let size = measure(&folder).unwrap();
        assert_eq!(size.files, 3);
        assert!((100_000..400_000).contains(&size.bytes), "{size:?}");
        assert!(measure(&folder.join("l")).is_err());
    }
}
