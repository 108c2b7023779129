//! Reads one file of a job, in parts, and says when it changed meanwhile.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use nero_wire::v1::FilePart;

use super::{open_below, open_folder};
use crate::config;

/// Reads a file below `work` and gives it part by part; `give` says whether
/// somebody still wants more. The last part says whether the file changed.
///
/// # Errors
/// When there is no such regular file, or it cannot be read.
pub fn read(
    work: &Path,
    path: &str,
    offset: u64,
    max_bytes: u64,
    mut give: impl FnMut(FilePart) -> bool,
) -> io::Result<()> {
    let file = open_below(open_folder(work)?, Path::new(path))?;
    let before = file.metadata()?;
    let end = match max_bytes {
        0 => before.len(),
        max => before.len().min(offset.saturating_add(max)),
    };
    let mut at = offset;
    loop {
        let wanted = end.saturating_sub(at).min(config::PART_BYTES_MAX as u64);
        let mut data = vec![0; wanted as usize];
        let length = fill(&file, &mut data, at)?;
        data.truncate(length);
        let last = length == 0 || at + length as u64 >= end;
        let part = FilePart {
            offset: at,
            data,
            changed: last && changed(&before, &file.metadata()?),
            ..FilePart::default()
        };
        at += length as u64;
        if !give(part) || last {
            return Ok(());
        }
    }
}

fn changed(before: &Metadata, after: &Metadata) -> bool {
    let of = |found: &Metadata| (found.len(), found.mtime(), found.mtime_nsec());
    of(before) != of(after)
}

fn fill(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn whole(work: &Path, path: &str, offset: u64, max: u64) -> io::Result<(Vec<u8>, bool)> {
        let (mut data, mut last) = (Vec::new(), false);
        read(work, path, offset, max, |part| {
            assert_eq!(part.offset, offset + data.len() as u64);
            data.extend_from_slice(&part.data);
            last = part.changed;
            true
        })?;
        Ok((data, last))
    }

    #[test]
    fn only_regular_files_below_the_folder_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        fs::create_dir_all(work.join("sub")).unwrap();
        fs::write(folder.path().join("secret"), "no").unwrap();
        fs::write(work.join("sub/f"), vec![7; 600_000]).unwrap();
        symlink("../secret", work.join("out")).unwrap();
        symlink("sub", work.join("link")).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(work.join("pipe"))
            .status()
            .unwrap();
        assert!(made.success());
        assert_eq!(whole(&work, "sub/f", 0, 0).unwrap().0.len(), 600_000);
        assert_eq!(whole(&work, "sub/f", 599_990, 0).unwrap().0.len(), 10);
        assert_eq!(whole(&work, "sub/f", 5, 3).unwrap().0.len(), 3);
        assert_eq!(whole(&work, "sub/f", 700_000, 0).unwrap().0.len(), 0);
        for wrong in [
            "out",
            "link/f",
            "../secret",
            "/etc/passwd",
            "",
            ".",
            "pipe",
            "sub",
            "nope",
        ] {
            assert!(whole(&work, wrong, 0, 0).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_that_changes_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, vec![1; 600_000]).unwrap();
        let mut told = false;
        read(folder.path(), "f", 0, 0, |part| {
            if part.offset == 0 {
                fs::write(&path, vec![2; 700_000]).unwrap();
            }
            told |= part.changed;
            true
        })
        .unwrap();
        assert!(told);
    }
}
