//! The file on the disk: replaced whole, or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::mistake::ConfigError;
use crate::owner;

/// Rights of a file that we make: addresses and notes are private.
const MODE: u32 = 0o600;

/// No honest configuration is larger; a bigger file is some other thing by mistake.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why the file could not be written. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Another process wrote it since it was read.
    #[error("{path} was changed by another process meanwhile")]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot {what} {path}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
}

impl WriteError {
    /// What to do next.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Changed { .. } => "try again",
            Self::Io { .. } => "the configuration is as it was; see to the right to write there",
        }
    }
}

/// The file as it was read.
#[derive(Debug)]
pub struct ConfigFile {
    /// Where it is, links followed.
    path: PathBuf,
    text: Option<String>,
}

impl ConfigFile {
    /// Reads the file; links are followed, also to a file that is not there yet.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn open(path: &Path) -> Result<Self, ConfigError> {
        let path = followed(path).map_err(|source| ConfigError::Read {
            path: path.to_path_buf(),
            source,
        })?;
        owner::check_folder(&path)?;
        let text = text_of(&path)?;
        Ok(Self { path, text })
    }

    /// What it held; empty when it is not there.
    pub fn text(&self) -> &str {
        self.text.as_deref().unwrap_or("")
    }

    /// Puts another text in its place, with the rights of the old one.
    ///
    /// # Errors
    /// When it changed since it was read, or cannot be written.
    pub fn write(&self, text: &str) -> Result<(), WriteError> {
        let path = &self.path;
        let folder = path.parent().unwrap_or(Path::new("/"));
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(failed("make", folder))?;
        let held = File::open(folder).map_err(failed("open", folder))?;
        // Two of us at once wait for each other. A file system without locks leaves
        // the comparison below, which sees all but the last instant.
        let _ = flock(&held, FlockOperation::LockExclusive);
        self.check_unchanged()?;
        let fresh = folder.join(format!(".config.yaml.{}", std::process::id()));
        let written = self.replace(&fresh, text);
        if written.is_err() {
            // Nothing is lost when it stays: its name tells its purpose.
            let _ = fs::remove_file(&fresh);
        }
        written?;
        // The text is safe without it; only the name could be the old one.
        let _ = held.sync_all();
        Ok(())
    }

    fn check_unchanged(&self) -> Result<(), WriteError> {
        let path = &self.path;
        let now = match fs::read(path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(failed("read", path)(source)),
        };
        if now.as_deref() == self.text.as_deref().map(str::as_bytes) {
            Ok(())
        } else {
            Err(WriteError::Changed { path: path.clone() })
        }
    }

    fn replace(&self, fresh: &Path, text: &str) -> Result<(), WriteError> {
        let mode = match fs::metadata(&self.path) {
            Ok(meta) => meta.permissions().mode() & 0o7777,
            Err(_) => MODE,
        };
        // A killed process of the same number may have left one.
        match fs::remove_file(fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("remove", fresh)(error));
            }
            _ => {}
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(MODE)
            .open(fresh)
            .map_err(failed("make", fresh))?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.set_permissions(fs::Permissions::from_mode(mode)))
            .and_then(|()| file.sync_all())
            .map_err(failed("write", fresh))?;
        fs::rename(fresh, &self.path).map_err(failed("replace", &self.path))
    }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WriteError {
    let path = path.to_path_buf();
    move |source| WriteError::Io { what, path, source }
}

/// The path behind all links. The last part need not be there.
pub(crate) fn followed(path: &Path) -> io::Result<PathBuf> {
    const LINKS_MAX: usize = 40;
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        let target = match fs::read_link(&path) {
            Ok(target) => target,
            Err(_) => return Ok(path),
        };
        let folder = path.parent().unwrap_or(Path::new("/"));
        path = folder.join(target);
    }
    Err(io::Error::from(io::ErrorKind::InvalidInput))
}

/// The text of the file, `None` when there is none.
pub(crate) fn text_of(path: &Path) -> Result<Option<String>, ConfigError> {
    let unreadable = |source| ConfigError::Read {
        path: path.to_path_buf(),
        source,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let found = file.metadata().map_err(unreadable)?;
    let behind_links = followed(path).map_err(unreadable)?;
    owner::check(&behind_links, &found)?;
    owner::check_folder(path)?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(ConfigError::TooLarge {
            path: path.to_path_buf(),
        });
    }
    Ok(Some(text))
}
