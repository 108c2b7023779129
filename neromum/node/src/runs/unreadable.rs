//! A file of a run that is there, or was, and cannot be used. Nothing follows
//! from its missing content: its run is held, neither started nor called ended
//! or lost, until the file can be read again or a person gives the run up.

use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nero_journal::HeaderError;
use nero_wire::v1;

/// One unusable file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The file, or the folder that hides it.
    pub path: PathBuf,
    /// Its fault.
    pub what: FileFault,
}

/// Fault of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileFault {
    /// The system does not deliver it now; the error's text.
    Refused(String),
    /// It is missing, but a file beside it was made after it.
    Missing {
        /// Name of the younger file.
        beside: String,
    },
    /// It was read before, and is not there any more.
    Gone,
    /// A claim without the record of its job, which passed the gate.
    JobMissing,
    /// A segment whose bytes were changed from this offset on.
    DamagedAt(u64),
    /// A segment without a good header.
    Header(HeaderError),
    /// It belongs to another run, or to another start of the run.
    Foreign,
    /// A run's spec, with the error of its reader.
    Spec(String),
    /// A run's spec, with the refusal of the one that neroman sent in its place.
    SpecRefused {
        /// Reason of the refusal.
        why: String,
        /// The remedy for it.
        hint: String,
    },
    /// A part of the ledger, with the error of its reader.
    Ledger(String),
}

impl Unreadable {
    pub fn new(path: &Path, what: FileFault) -> Self {
        Self {
            path: path.to_path_buf(),
            what,
        }
    }

    pub fn refused(path: &Path, error: &std::io::Error) -> Self {
        Self::new(path, FileFault::Refused(error.to_string()))
    }

    /// Whether it was cut before its first record, as a power cut leaves an
    /// unsynced file.
    pub fn is_cut_off(&self) -> bool {
        self.what == FileFault::Header(HeaderError::Short)
    }

    /// The remedy for a person. `run_dir`: the run's folder.
    pub fn hint(&self, run_dir: &Path) -> String {
        match &self.what {
            FileFault::Refused(_) => match shut(&self.path, run_dir) {
                Some(shut) => format!(
                    "give yourself the right to read it: chmod u+rwX '{}'; it is tried every 2 s",
                    shut.display()
                ),
                None => "let it be read again: it is tried every 2 s".to_owned(),
            },
            FileFault::Ledger(_) => "put its content back, or remove it; a run whose end cannot be told without it is held, all others go on".to_owned(),
            FileFault::Spec(_) => "it is sent again by neroman, if it has it".to_owned(),
            FileFault::SpecRefused { hint, .. } => hint.clone(),
            FileFault::Missing { .. }
            | FileFault::Gone
            | FileFault::JobMissing
            | FileFault::DamagedAt(_)
            | FileFault::Header(_)
            | FileFault::Foreign => {
                let is_watchers = self
                    .path
                    .file_name()
                    .is_some_and(|name| name.as_encoded_bytes().starts_with(b"watch-"));
                if is_watchers {
                    "what was measured there is missing; metrics are read from the logs again"
                        .to_owned()
                } else {
                    format!(
                        "put its content back; or end what is alive of the run and remove {}: the run is lost then",
                        run_dir.display()
                    )
                }
            }
        }
    }

    /// The fault as neroman gets it.
    pub fn to_wire(&self, run_dir: &Path) -> v1::Unreadable {
        v1::Unreadable {
            path: self.path.display().to_string(),
            why: self.what.to_string(),
            hint: self.hint(run_dir),
            send_spec: matches!(
                self.what,
                FileFault::Spec(_) | FileFault::SpecRefused { .. }
            ),
        }
    }
}

/// The first of the run's folder, the folders below it and the file itself whose
/// mode keeps its owner from reading.
fn shut<'a>(path: &'a Path, run_dir: &Path) -> Option<&'a Path> {
    let is_shut = |path: &&Path| {
        let Ok(found) = std::fs::symlink_metadata(path) else {
            return false;
        };
        let wanted = if found.is_dir() { 0o500 } else { 0o400 };
        found.mode() & wanted != wanted
    };
    let mut from_above: Vec<&Path> = path.ancestors().collect();
    from_above.reverse();
    let mut within = from_above
        .into_iter()
        .filter(|one| one.starts_with(run_dir));
    within.find(is_shut)
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path.display(), self.what)
    }
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => write!(f, "cannot be read: {why}"),
            Self::Missing { beside } => write!(f, "is missing, though {beside} is there"),
            Self::Gone => f.write_str("was removed while its run goes on"),
            Self::JobMissing => f.write_str("ends before the record of its job, which had begun"),
            Self::DamagedAt(offset) => write!(f, "is damaged at byte {offset}"),
            Self::Header(HeaderError::Short) => f.write_str("is empty or cut"),
            Self::Header(error) => write!(f, "is damaged: {error}"),
            Self::Foreign => f.write_str("belongs to another run"),
            Self::Ledger(why) => f.write_str(why),
            Self::Spec(why) => write!(f, "cannot be used: {why}"),
            Self::SpecRefused { why, .. } => {
                write!(
                    f,
                    "cannot be used, and was refused when it was sent again: {why}"
                )
            }
        }
    }
}
