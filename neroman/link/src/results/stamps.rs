//! The record of one run's transfers, in a small file: a line for each file
//! that was begun and for each that is complete, only ever appended. The open
//! file is locked: no two tasks fetch the same run's files at once.
//!
//! The record only saves work: a file without a line is judged by its size and
//! time, or fetched again.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nero_model::ids::hex;
use nero_wire::v1;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

/// After this many superfluous lines the file is rewritten.
const STALE_LINES_MAX: usize = 10_000;

/// Size, time and inode of the original file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    pub(super) size: u64,
    pub(super) modified_ms: i64,
    pub(super) inode: u64,
}

impl Stamp {
    /// The stamp in a node's list.
    pub(super) fn of(entry: &v1::FileEntry) -> Self {
        Self {
            size: entry.size,
            modified_ms: entry.modified_ms,
            inode: entry.inode,
        }
    }
}

/// One line. Lines of later builds that this one cannot read are passed over.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RecordLine {
    Begun {
        path: String,
        #[serde(flatten)]
        stamp: Stamp,
        /// The boot id: bytes of a partial file survive a kill, not a power
        /// cut.
        boot: String,
    },
    Kept {
        path: String,
        #[serde(flatten)]
        stamp: Stamp,
    },
    Dropped {
        path: String,
    },
}

/// The record of one run's files, and the lock.
#[derive(Debug)]
pub(super) struct FileStamps {
    place: PathBuf,
    file: File,
    boot: String,
    kept: HashMap<String, Stamp>,
    begun: HashMap<String, Stamp>,
}

impl FileStamps {
    /// Opens the records about a run. Blocks until no other task has them open.
    pub(super) fn open(place: &Path) -> io::Result<Self> {
        if let Some(folder) = place.parent() {
            nero_model::paths::make_private(folder)?;
        }
        let mut file = locked(place)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let mut known = Self {
            place: place.to_path_buf(),
            file,
            boot: hex(&nero_model::process::boot_id().unwrap_or_default()),
            kept: HashMap::new(),
            begun: HashMap::new(),
        };
        let mut lines = 0;
        for line in text.split(|byte| *byte == b'\n') {
            lines += 1;
            if let Ok(line) = serde_json::from_slice(line) {
                known.take(line);
            }
        }
        let needed = known.kept.len() + known.begun.len();
        if lines > needed + STALE_LINES_MAX {
            known.begin_anew()?;
        } else if !text.is_empty() && !text.ends_with(b"\n") {
            // A line that a kill cut short must not spoil the next one.
            known.file.write_all(b"\n")?;
        }
        Ok(known)
    }

    fn take(&mut self, line: RecordLine) {
        match line {
            RecordLine::Begun { path, stamp, boot } => {
                if boot == self.boot {
                    self.begun.insert(path, stamp);
                } else {
                    // Still begun, so that its partial file is removed.
                    self.begun.insert(path, Stamp::default());
                }
            }
            RecordLine::Kept { path, stamp } => {
                self.begun.remove(&path);
                self.kept.insert(path, stamp);
            }
            RecordLine::Dropped { path } => {
                self.begun.remove(&path);
            }
        }
    }

    fn begin_anew(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        let begun = self.begun.iter().map(|(path, stamp)| RecordLine::Begun {
            path: path.clone(),
            stamp: *stamp,
            boot: self.boot.clone(),
        });
        let kept = self.kept.iter().map(|(path, stamp)| RecordLine::Kept {
            path: path.clone(),
            stamp: *stamp,
        });
        let mut text = Vec::new();
        for line in begun.chain(kept) {
            text.extend(written(&line));
        }
        self.file.write_all(&text)
    }

    /// The stamp of the original when the file came home.
    pub(super) fn kept_as(&self, path: &str) -> Option<Stamp> {
        self.kept.get(path).copied()
    }

    /// The stamp of the original when its transfer began.
    pub(super) fn begun_as(&self, path: &str) -> Option<Stamp> {
        self.begun.get(path).copied()
    }

    /// Files that may have a partial copy.
    pub(super) fn halves(&self) -> Vec<String> {
        self.begun.keys().cloned().collect()
    }

    /// Records that a file's transfer begins.
    pub(super) fn begin(&mut self, path: &str, stamp: Stamp) -> io::Result<()> {
        let boot = self.boot.clone();
        self.add(RecordLine::Begun {
            path: path.to_owned(),
            stamp,
            boot,
        })
    }

    /// Records that a file is complete.
    pub(super) fn keep(&mut self, path: &str, stamp: Stamp) -> io::Result<()> {
        self.add(RecordLine::Kept {
            path: path.to_owned(),
            stamp,
        })
    }

    /// Records that the partial copy of a file is gone.
    pub(super) fn drop_half(&mut self, path: &str) -> io::Result<()> {
        self.add(RecordLine::Dropped {
            path: path.to_owned(),
        })
    }

    fn add(&mut self, line: RecordLine) -> io::Result<()> {
        self.file.write_all(&written(&line))?;
        self.take(line);
        Ok(())
    }

    /// Closes the record; an empty one is removed.
    pub(super) fn close(self) {
        if self.kept.is_empty() && self.begun.is_empty() {
            self.forget();
        }
    }

    /// Removes the record: no more files come.
    pub(super) fn forget(self) {
        // A leftover record is compared before it is used.
        let _ = fs::remove_file(&self.place);
    }
}

fn written(line: &RecordLine) -> Vec<u8> {
    let mut text = serde_json::to_vec(line).expect("lines hold text and whole numbers only");
    text.push(b'\n');
    text
}

/// Opens and locks a file that another holder of the lock may remove.
fn locked(place: &Path) -> io::Result<File> {
    loop {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(place)?;
        flock(&file, FlockOperation::LockExclusive)?;
        let held = file.metadata()?;
        let same = fs::symlink_metadata(place).is_ok_and(|found| found.ino() == held.ino());
        if same {
            return Ok(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp {
        size: 5,
        modified_ms: 1,
        inode: 9,
    };

    #[test]
    fn written_entries_are_known_again_wherever_the_file_was_cut() {
        let base = tempfile::tempdir().unwrap();
        let place = base.path().join("fetched/1.1");
        let mut known = FileStamps::open(&place).unwrap();
        known.begin("a\n\"b", STAMP).unwrap();
        known.begin("c", STAMP).unwrap();
        known.keep("c", STAMP).unwrap();
        drop(known);
        let whole = fs::read(&place).unwrap();
        for cut in 0..whole.len() {
            fs::write(&place, &whole[..cut]).unwrap();
            let mut known = FileStamps::open(&place).unwrap();
            known.keep("later", STAMP).unwrap();
            drop(known);
            let known = FileStamps::open(&place).unwrap();
            assert_eq!(known.kept_as("later"), Some(STAMP), "cut at {cut}");
        }
        fs::write(&place, &whole).unwrap();
        let known = FileStamps::open(&place).unwrap();
        assert_eq!(known.begun_as("a\n\"b"), Some(STAMP));
        assert_eq!(
            (known.begun_as("c"), known.kept_as("c")),
            (None, Some(STAMP))
        );
        known.forget();
        assert!(!place.exists());
    }

    #[test]
    fn halves_of_another_boot_are_not_gone_on_with() {
        let base = tempfile::tempdir().unwrap();
        let place = base.path().join("f");
        let line = r#"{"begun":{"path":"x","size":5,"modified_ms":1,"inode":9,"boot":"00"}}"#;
        fs::write(&place, format!("{line}\n{{\"later\":1}}\n")).unwrap();
        let known = FileStamps::open(&place).unwrap();
        assert_eq!(known.begun_as("x"), Some(Stamp::default()));
        assert_eq!(known.halves(), ["x"]);
    }

    #[test]
    fn the_record_of_known_files_has_one_holder_at_a_time() {
        let base = tempfile::tempdir().unwrap();
        let place = base.path().join("f");
        let first = FileStamps::open(&place).unwrap();
        let (told, hear) = std::sync::mpsc::channel();
        let other = place.clone();
        let waiting = std::thread::spawn(move || {
            let known = FileStamps::open(&other).unwrap();
            told.send(known.kept_as("x")).unwrap();
        });
        assert!(hear.try_recv().is_err());
        let mut first = first;
        first.keep("x", STAMP).unwrap();
        drop(first);
        assert_eq!(hear.recv().unwrap(), Some(STAMP));
        waiting.join().unwrap();
    }
}
