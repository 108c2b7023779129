//! Reads files of a job in parts, with a hash of each file's bytes as read here
//! and with whether it changed meanwhile. A file that cannot be read is named,
//! and the next one follows. Every step is short, so that one reader never
//! keeps a thread from others.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nero_model::part;
use nero_wire::v1::FilePart;
use nero_wire::v1::read_files_request::Want;

use super::{open_below, open_folder};
use crate::config;

/// Bytes read in one step of [`Reader::next`].
const STEP_BYTES: usize = 1024 * 1024;
/// Parts made in one step.
const STEP_PARTS: usize = 256;
/// Bytes read for one part without data.
const HASHED_BYTES: usize = 8 * 1024 * 1024;

/// One file, open.
#[derive(Debug)]
struct FileStream {
    folder: OwnedFd,
    path: String,
    file: File,
    before: Metadata,
    at: u64,
    end: u64,
    hasher: blake3::Hasher,
    begun: bool,
}

/// Many files of one folder, one after the other.
#[derive(Debug)]
pub struct Reader {
    folder: OwnedFd,
    /// Folder of the logs; opened when one is requested.
    logs: PathBuf,
    wants: VecDeque<Want>,
    current: Option<FileStream>,
    /// Whether only hashes are returned.
    hash_only: bool,
}

impl Reader {
    /// For files below `work`, and logs in `logs`, in this order.
    ///
    /// # Errors
    /// When the work folder cannot be opened.
    pub fn new(work: &Path, logs: &Path, wants: Vec<Want>) -> io::Result<Self> {
        Ok(Self {
            folder: open_folder(work)?,
            logs: logs.to_path_buf(),
            wants: wants.into(),
            current: None,
            hash_only: false,
        })
    }

    /// The same, returning hashes only.
    #[must_use]
    pub fn hashing(self, hash_only: bool) -> Self {
        Self { hash_only, ..self }
    }

    /// Opens the first file, so that its fault is an error of the whole call:
    /// for requests of a single file.
    ///
    /// # Errors
    /// When there is no such regular file.
    pub fn open_first(&mut self) -> io::Result<()> {
        if let Some(want) = self.wants.pop_front() {
            self.current = Some(self.open(want)?);
        }
        Ok(())
    }

    /// The next parts; empty when everything is read.
    pub fn next_parts(&mut self) -> Vec<FilePart> {
        let (mut parts, mut bytes) = (Vec::new(), 0);
        while bytes < STEP_BYTES && parts.len() < STEP_PARTS {
            let Some(part) = self.part() else { break };
            bytes += if self.hash_only {
                STEP_BYTES
            } else {
                part.data.len()
            };
            parts.push(part);
        }
        parts
    }

    fn open(&self, want: Want) -> io::Result<FileStream> {
        if want.log {
            FileStream::open(open_folder(&self.logs)?, want)
        } else {
            FileStream::open(self.folder.try_clone()?, want)
        }
    }

    fn part(&mut self) -> Option<FilePart> {
        let mut reading = match self.current.take() {
            Some(reading) => reading,
            None => {
                let want = self.wants.pop_front()?;
                let (path, offset) = (want.path.clone(), want.offset);
                let may_be_none = want.log && self.hash_only;
                match self.open(want) {
                    Ok(reading) => reading,
                    Err(error) if may_be_none && error.kind() == io::ErrorKind::NotFound => {
                        return Some(nothing_printed(path));
                    }
                    Err(error) => return Some(problem(path, offset, &error)),
                }
            }
        };
        let next = if self.hash_only {
            reading.next_hash()
        } else {
            reading.next()
        };
        match next {
            Ok(part) => {
                if !part.last {
                    self.current = Some(reading);
                }
                Some(part)
            }
            Err(error) => Some(problem(reading.path, reading.at, &error)),
        }
    }
}

/// A job that printed nothing has no log: the hash is that of an empty file.
fn nothing_printed(path: String) -> FilePart {
    FilePart {
        path,
        last: true,
        hash: blake3::hash(b"").as_bytes().to_vec(),
        ..FilePart::default()
    }
}

fn problem(path: String, offset: u64, error: &io::Error) -> FilePart {
    FilePart {
        offset,
        path,
        last: true,
        problem: error.to_string(),
        ..FilePart::default()
    }
}

impl FileStream {
    fn open(folder: OwnedFd, want: Want) -> io::Result<Self> {
        let file = open_below(&folder, Path::new(&want.path))?;
        let before = file.metadata()?;
        let end = match want.max_bytes {
            0 => before.len(),
            max => before.len().min(want.offset.saturating_add(max)),
        };
        Ok(Self {
            folder,
            path: want.path,
            file,
            before,
            at: want.offset,
            end,
            hasher: blake3::Hasher::new(),
            begun: false,
        })
    }

    /// A part without data: its bytes are read, hashed and dropped.
    fn next_hash(&mut self) -> io::Result<FilePart> {
        let mut read = 0;
        loop {
            let mut part = self.next()?;
            read += part.data.len();
            if part.last || read >= HASHED_BYTES {
                part.offset = self.at;
                part.path.clone_from(&self.path);
                part.data.clear();
                return Ok(part);
            }
        }
    }

    fn next(&mut self) -> io::Result<FilePart> {
        let wanted = self.end.saturating_sub(self.at);
        let wanted = wanted.min(config::PART_BYTES_MAX as u64) as usize;
        let data = part::read(&self.file, self.at, wanted)?;
        let length = data.len();
        let cut = length < wanted;
        self.hasher.update(&data);
        let offset = self.at;
        self.at += length as u64;
        let last = cut || self.at >= self.end;
        let mut part = FilePart {
            offset,
            data,
            last,
            ..FilePart::default()
        };
        if !self.begun {
            self.begun = true;
            part.path.clone_from(&self.path);
        }
        if last {
            part.changed = cut || self.changed()?;
            part.hash = self.hasher.finalize().as_bytes().to_vec();
        }
        Ok(part)
    }

    /// Whether the file was changed since reading began, or its path leads to
    /// another one now.
    fn changed(&self) -> io::Result<bool> {
        if stamp(&self.before) != stamp(&self.file.metadata()?) {
            return Ok(true);
        }
        Ok(match open_below(&self.folder, Path::new(&self.path)) {
            Ok(now) => stamp(&self.before) != stamp(&now.metadata()?),
            Err(_) => true,
        })
    }
}

fn stamp(found: &Metadata) -> (u64, u64, u64, i64, i64) {
    (
        found.dev(),
        found.ino(),
        found.len(),
        found.mtime(),
        found.mtime_nsec(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn want(path: &str, offset: u64, max_bytes: u64) -> Want {
        Want {
            path: path.to_owned(),
            offset,
            max_bytes,
            log: false,
        }
    }

    fn all(reader: &mut Reader) -> Vec<FilePart> {
        std::iter::from_fn(|| Some(reader.next_parts()).filter(|parts| !parts.is_empty()))
            .flatten()
            .collect()
    }

    fn whole(work: &Path, path: &str, offset: u64, max: u64) -> Result<Vec<u8>, String> {
        let mut reader = Reader::new(work, work, vec![want(path, offset, max)]).unwrap();
        let parts = all(&mut reader);
        assert_eq!(parts[0].path, path);
        let last = parts.last().unwrap();
        if !last.problem.is_empty() {
            return Err(last.problem.clone());
        }
        let mut data = Vec::new();
        for part in &parts {
            assert_eq!(part.offset, offset + data.len() as u64);
            data.extend_from_slice(&part.data);
        }
        assert_eq!(last.hash, blake3::hash(&data).as_bytes());
        assert!(last.last && parts.iter().filter(|part| part.last).count() == 1);
        Ok(data)
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
        assert_eq!(whole(&work, "sub/f", 0, 0).unwrap().len(), 600_000);
        assert_eq!(whole(&work, "sub/f", 599_990, 0).unwrap().len(), 10);
        assert_eq!(whole(&work, "sub/f", 5, 3).unwrap().len(), 3);
        assert_eq!(whole(&work, "sub/f", 700_000, 0).unwrap().len(), 0);
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
    fn an_unreadable_file_does_not_stop_the_next() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "one").unwrap();
        fs::write(folder.path().join("b"), "").unwrap();
        let wants = ["a", "../x", "b", "a"].map(|path| want(path, 0, 0));
        let parts = all(&mut Reader::new(folder.path(), folder.path(), wants.to_vec()).unwrap());
        let shown: Vec<_> = parts
            .iter()
            .map(|part| (&*part.path, &*part.data, part.problem.is_empty()))
            .collect();
        let expected: [(&str, &[u8], bool); 4] = [
            ("a", b"one", true),
            ("../x", b"", false),
            ("b", b"", true),
            ("a", b"one", true),
        ];
        assert_eq!(shown, expected);
    }

    fn changes(meanwhile: impl FnOnce(&Path)) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, vec![1; 2_500_000]).unwrap();
        let mut reader = Reader::new(folder.path(), folder.path(), vec![want("f", 0, 0)]).unwrap();
        let first = reader.next_parts();
        assert!(!first.iter().any(|part| part.last));
        meanwhile(&path);
        all(&mut reader).last().unwrap().changed
    }

    #[test]
    fn a_file_that_changes_is_told() {
        assert!(!changes(|_| ()));
        assert!(changes(|path| fs::write(path, vec![2; 2_600_000]).unwrap()));
        assert!(changes(|path| fs::write(path, "short").unwrap()));
        assert!(changes(|path| fs::remove_file(path).unwrap()));
        assert!(changes(|path| {
            let other = path.with_extension("new");
            fs::write(&other, vec![1; 2_500_000]).unwrap();
            fs::rename(other, path).unwrap();
        }));
    }

    #[test]
    fn the_hash_of_a_file_or_log_is_told_without_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let (work, logs) = (folder.path().join("work"), folder.path().join("1"));
        fs::create_dir(&work).unwrap();
        fs::create_dir(&logs).unwrap();
        let long = vec![3; 2 * HASHED_BYTES + 5];
        fs::write(work.join("f"), &long).unwrap();
        fs::write(logs.join("stdout.log"), "printed").unwrap();
        let log = Want {
            log: true,
            ..want("stdout.log", 0, 4)
        };
        let reader = Reader::new(&work, &logs, vec![want("f", 0, 0), log]).unwrap();
        let parts = all(&mut reader.hashing(true));
        assert!(parts.iter().all(|part| part.data.is_empty()));
        let last: Vec<_> = parts.iter().filter(|part| part.last).collect();
        assert_eq!((last[0].offset, last[1].offset), (long.len() as u64, 4));
        assert_eq!(last[0].hash, blake3::hash(&long).as_bytes());
        assert_eq!(last[1].hash, blake3::hash(b"prin").as_bytes());
    }

    #[test]
    fn a_log_that_was_never_made_is_empty_and_one_that_cannot_be_read_is_a_problem() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("stderr.log")).unwrap();
        let log = |name: &str| Want {
            log: true,
            ..want(name, 0, 0)
        };
        let wants = vec![log("stdout.log"), log("stderr.log"), want("f", 0, 0)];
        let reader = Reader::new(folder.path(), folder.path(), wants).unwrap();
        let parts = all(&mut reader.hashing(true));
        let problems: Vec<bool> = parts.iter().map(|part| !part.problem.is_empty()).collect();
        assert_eq!(problems, [false, true, true]);
        assert_eq!(parts[0].hash, blake3::hash(b"").as_bytes());
    }
}
