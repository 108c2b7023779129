//! neromum's log: two files of bounded size, however much there is to log.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file that is set aside as `<name>.old` and begun anew when it would grow
/// beyond a size.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
}

impl Log {
    /// Continues at the file's end.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(path: PathBuf, bytes_max: u64) -> io::Result<Self> {
        let file = append(&path)?;
        Ok(Self {
            bytes: file.metadata()?.len(),
            path,
            file,
            bytes_max,
        })
    }

    /// Begins a new file. If that fails, the old file is continued, and the
    /// next try comes after as many bytes again.
    fn begin_anew(&mut self) {
        self.bytes = 0;
        let begun = match fs::rename(&self.path, self.path.with_extension("old")) {
            // It was renamed before, but the new one could not be made.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return,
            _ => append(&self.path),
        };
        if let Ok(file) = begun {
            self.file = file;
        }
    }
}

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.bytes > 0 && self.bytes.saturating_add(line.len() as u64) > self.bytes_max {
            self.begin_anew();
        }
        let written = self.file.write(line)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_written_for_ever_keeps_its_size_and_its_last_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = Log::open(path.clone(), 100).unwrap();
        for number in 0..1000 {
            writeln!(log, "line {number}").unwrap();
            // As after a new start.
            if number % 7 == 0 {
                log = Log::open(path.clone(), 100).unwrap();
            }
        }
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        let (old, new) = (read("log.old"), read("log"));
        assert!(old.len() <= 100 && new.len() <= 100, "{old}{new}");
        let both = format!("{old}{new}");
        let first = 1000 - both.lines().count();
        assert!(first < 990, "{both}");
        let expected: String = (first..1000)
            .map(|number| format!("line {number}\n"))
            .collect();
        assert_eq!(both, expected);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_log_that_cannot_be_set_aside_is_written_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::create_dir_all(folder.path().join("log.old/x")).unwrap();
        let mut log = Log::open(path.clone(), 10).unwrap();
        for _ in 0..5 {
            log.write_all(b"12345678\n").unwrap();
        }
        assert_eq!(fs::metadata(&path).unwrap().len(), 45);
    }

    #[test]
    fn a_log_that_could_not_be_begun_anew_is_begun_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = Log::open(path.clone(), 10).unwrap();
        log.write_all(b"12345678\n").unwrap();
        // The state that a lack of descriptors leaves.
        fs::rename(&path, path.with_extension("old")).unwrap();
        for _ in 0..5 {
            log.write_all(b"12345678\n").unwrap();
        }
        for name in ["log", "log.old"] {
            let found = fs::metadata(folder.path().join(name)).unwrap();
            assert_eq!(found.len(), 9, "{name}");
        }
    }
}
