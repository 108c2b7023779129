//! The daemon's log: one file of bounded size, with the one before it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// A log that reaches this is renamed to `….1` and begun anew.
const LOG_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Sends what the daemon traces to its log.
///
/// # Errors
/// When the file cannot be opened.
pub(crate) fn begin(path: &Path) -> io::Result<()> {
    let log = Bounded::open(path)?;
    let filter = EnvFilter::try_from_env("NERONET_LOG")
        .unwrap_or_else(|_| EnvFilter::new("info,h2=warn,hyper=warn,tonic=warn"));
    // A second daemon of one process (a test) keeps the log of the first.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_target(false)
        .with_writer(log)
        // Told on standard error, which is this file too, a full disk would
        // be a panic of whoever had something to say.
        .log_internal_errors(false)
        .try_init();
    Ok(())
}

#[derive(Debug)]
struct Bounded {
    path: PathBuf,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    file: File,
    written: u64,
    /// The disk had no room for the end of the last event.
    cut: bool,
}

impl Bounded {
    fn open(path: &Path) -> io::Result<Self> {
        let file = append_to(path)?;
        let written = file.metadata()?.len();
        Ok(Self {
            path: path.to_path_buf(),
            held: Mutex::new(Held {
                file,
                written,
                cut: false,
            }),
        })
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

/// Writes one event. One for which there is no room is lost.
#[derive(Debug)]
pub(crate) struct Line<'a>(&'a Bounded);

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut held = self
            .0
            .held
            .lock()
            .map_err(|_| io::Error::other("a writer of the log panicked"))?;
        if held.written + bytes.len() as u64 > LOG_BYTES_MAX {
            let mut older = self.0.path.clone().into_os_string();
            older.push(".1");
            std::fs::rename(&self.0.path, older)?;
            held.file = append_to(&self.0.path)?;
            held.written = 0;
        }
        if held.cut {
            held.file.write_all(b"\n")?;
        }
        let written = held.file.write_all(bytes);
        held.cut = written.is_err();
        held.written += bytes.len() as u64;
        written.map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Bounded {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_never_grows_beyond_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.log");
        let log = Bounded::open(&path).unwrap();
        let line = vec![b'x'; 1024 * 1024];
        for _ in 0..20 {
            log.make_writer().write_all(&line).unwrap();
        }
        assert!(path.metadata().unwrap().len() <= LOG_BYTES_MAX);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
