//! What the lines of `setup` printed before `neromum job` began, in a file of the submission.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nero_model::paths::make_private;
use nero_warden::SETUP_ENDED;

/// Most that is kept: a `module load` prints some lines.
const BYTES_MAX: u64 = 1 << 20;

/// The output of `setup`.
#[derive(Debug, Default)]
pub struct SetupOutput {
    bytes: Vec<u8>,
}

impl SetupOutput {
    /// Reads the file; one that cannot be read is empty.
    pub fn read(path: Option<&Path>) -> Self {
        let mut bytes = Vec::new();
        if let Some(path) = path {
            let read = std::fs::File::open(path)
                .and_then(|file| file.take(BYTES_MAX).read_to_end(&mut bytes));
            if let Err(error) = read {
                tracing::warn!(path = %path.display(), %error, "cannot read what setup printed");
            }
        }
        Self { bytes }
    }

    /// Whether it printed nothing.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether the lines ended the script.
    pub fn ended(&self) -> bool {
        let text = String::from_utf8_lossy(&self.bytes);
        text.lines()
            .last()
            .is_some_and(|line| line.starts_with(SETUP_ENDED))
    }

    /// Puts it before what a job prints there, where its watcher finds the commands that failed.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn print_into(&self, log: &Path) -> io::Result<()> {
        if let Some(folder) = log.parent() {
            make_private(folder)?;
        }
        let mut options = OpenOptions::new();
        let options = options.append(true).create_new(true).mode(0o600);
        match options.open(log) {
            // A start that is tried again has it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            file => file?.write_all(&self.bytes),
        }
    }
}
