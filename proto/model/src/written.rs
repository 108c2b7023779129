//! Files that neroman's `-o` wrote, each with the hash of its bytes. While a file is what was
//! written, it is no code of the experiments that it lies beside. The command line records, the
//! daemon reads; a line is a hash, a blank and a path.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::home::Home;
use crate::ids::hex;

/// Files that are remembered: enough for a picture a day in a year or two. The oldest are
/// forgotten, and are code from then on.
const FILES_MAX: usize = 1000;

/// A file as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFile {
    /// Without links.
    pub path: PathBuf,
    /// BLAKE3 of its bytes, in hexadecimal.
    pub hash: String,
}

/// Records a file as it is now.
///
/// # Errors
/// Errors of the file system; a path with a line feed.
pub fn record(home: &Home, file: &Path) -> io::Result<()> {
    let (path, hash) = named(file)?;
    if path.as_os_str().as_bytes().contains(&b'\n') {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let record = home.written_files();
    // Two of us at once wait for each other; without locks one record is lost, and its file is code.
    let folder = File::open(&home.data)?;
    let _ = flock(&folder, FlockOperation::LockExclusive);
    let mut files = match fs::read(&record) {
        Ok(text) => parse(&text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    files.retain(|one| one.path != path);
    files.push(WrittenFile { path, hash });
    let forgotten = files.len().saturating_sub(FILES_MAX);
    let mut text = Vec::new();
    for one in &files[forgotten..] {
        text.extend_from_slice(one.hash.as_bytes());
        text.push(b' ');
        text.extend_from_slice(one.path.as_os_str().as_bytes());
        text.push(b'\n');
    }
    let fresh = record.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&fresh)?;
    file.write_all(&text)?;
    file.sync_all()?;
    fs::rename(&fresh, &record)
}

/// Whether a file is as it was recorded.
///
/// # Errors
/// Errors of the file system.
pub fn is_recorded(home: &Home, file: &Path) -> io::Result<bool> {
    let (path, hash) = named(file)?;
    Ok(read(home).contains(&WrittenFile { path, hash }))
}

/// Its path without links, and the hash of its bytes.
fn named(file: &Path) -> io::Result<(PathBuf, String)> {
    let path = file.canonicalize()?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(&path)?)?;
    Ok((path, hex(hasher.finalize().as_bytes())))
}

/// All files that are recorded; none when the record cannot be read, so that all are code.
pub fn read(home: &Home) -> Vec<WrittenFile> {
    fs::read(home.written_files()).map_or_else(|_| Vec::new(), |text| parse(&text))
}

fn parse(text: &[u8]) -> Vec<WrittenFile> {
    let lines = text.split(|byte| *byte == b'\n');
    let files = lines.filter_map(|line| {
        let blank = line.iter().position(|byte| *byte == b' ')?;
        let (hash, path) = line.split_at(blank);
        Some(WrittenFile {
            path: PathBuf::from(OsStr::from_bytes(&path[1..])),
            hash: String::from_utf8(hash.to_vec()).ok()?,
        })
    });
    files.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, Home) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::below(&folder.path().join("home"));
        fs::create_dir_all(&home.data).unwrap();
        (folder, home)
    }

    #[test]
    fn a_file_that_is_written_again_has_one_record() {
        let (folder, home) = place();
        let one = folder.path().join("a b.csv");
        let link = folder.path().join("link.csv");
        std::os::unix::fs::symlink(&one, &link).unwrap();
        assert_eq!(read(&home), []);
        fs::write(&one, "1").unwrap();
        record(&home, &one).unwrap();
        fs::write(&one, "2").unwrap();
        record(&home, &link).unwrap();
        let path = one.canonicalize().unwrap();
        let hash = blake3::hash(b"2").to_hex().to_string();
        let stored = format!("{hash} {}\n", path.display());
        assert_eq!(fs::read_to_string(home.written_files()).unwrap(), stored);
        assert_eq!(read(&home), [WrittenFile { path, hash }]);
    }

    #[test]
    fn the_oldest_records_go_and_what_is_no_record_is_passed_over() {
        let (folder, home) = place();
        let mut text = String::from("no record\n\n");
        for number in 0..FILES_MAX {
            text.push_str(&format!("{number} /x/{number}\n"));
        }
        fs::write(home.written_files(), text).unwrap();
        let file = folder.path().join("new.csv");
        fs::write(&file, "").unwrap();
        record(&home, &file).unwrap();
        let files = read(&home);
        assert_eq!(files.len(), FILES_MAX);
        assert_eq!(files[0].hash, "1");
        assert_eq!(files[FILES_MAX - 1].path, file.canonicalize().unwrap());
    }

    #[test]
    fn records_of_commands_at_once_are_all_kept() {
        let (folder, home) = place();
        let files: Vec<PathBuf> = (0..8)
            .map(|number| folder.path().join(number.to_string()))
            .collect();
        std::thread::scope(|threads| {
            for file in &files {
                let home = &home;
                threads.spawn(move || {
                    fs::write(file, "x").unwrap();
                    record(home, file).unwrap();
                });
            }
        });
        assert_eq!(read(&home).len(), files.len());
    }
}
