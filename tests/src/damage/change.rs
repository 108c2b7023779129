//! One change to one stored file, drawn at random.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::stage::Stage;
use crate::chaos::random::Random;

/// Purpose of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FilePurpose {
    /// The facts: `state.db`.
    Facts,
    /// The write-ahead log of the facts.
    FactsLog,
    /// The points of metrics: `series.db`.
    Series,
    /// The write-ahead log of the points.
    SeriesLog,
    /// Another file beside the databases.
    Beside,
    /// A shim's segment.
    Claim,
    /// A segment of a watcher, a launcher or neromum in a run's folder.
    Segment,
    /// A segment of neromum's ledger.
    Ledger,
    /// The spec of a run.
    Spec,
    /// A cancel request or a set of rules.
    Control,
    /// Stored content of the node.
    NodeStore,
    /// Stored content of the home.
    HomeStore,
}

impl FilePurpose {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Facts => "state.db",
            Self::FactsLog => "state.db-wal",
            Self::Series => "series.db",
            Self::SeriesLog => "series.db-wal",
            Self::Beside => "beside databases",
            Self::Claim => "claim",
            Self::Segment => "segment",
            Self::Ledger => "ledger",
            Self::Spec => "spec",
            Self::Control => "control",
            Self::NodeStore => "node's store",
            Self::HomeStore => "home's store",
        }
    }

    /// Whether such files lie in folders of runs.
    fn is_in_a_run(self) -> bool {
        match self {
            Self::Claim | Self::Segment | Self::Spec | Self::Control => true,
            Self::Facts
            | Self::FactsLog
            | Self::Series
            | Self::SeriesLog
            | Self::Beside
            | Self::Ledger
            | Self::NodeStore
            | Self::HomeStore => false,
        }
    }

    /// The kind of a file, from its path below the home; `None` for files without a promise (our
    /// logs, locks, a job's own files and output).
    fn of(path: &Path) -> Option<Self> {
        let text = path.to_str()?;
        let name = path.file_name()?.to_str()?;
        let seg = name.ends_with(".seg");
        if text.contains("/work") || name.ends_with(".log") || name.ends_with("lock") {
            return None;
        }
        Some(match name {
            "state.db" => Self::Facts,
            "state.db-wal" => Self::FactsLog,
            "series.db" => Self::Series,
            "series.db-wal" => Self::SeriesLog,
            "claim" => Self::Claim,
            "spec" => Self::Spec,
            _ if text.starts_with("data/store/") => Self::HomeStore,
            _ if text.starts_with("data/") && name.contains(".db") => Self::Beside,
            _ if text.contains("/ledger/") => Self::Ledger,
            _ if text.contains("/control/") => Self::Control,
            _ if text.contains("/runs/") && seg => Self::Segment,
            _ if text.starts_with("node/") && text.contains("/store/") => Self::NodeStore,
            _ => return None,
        })
    }
}

/// Change of the file.
#[derive(Clone, Debug)]
enum How {
    /// One bit of one byte.
    Flip { at: u64, bit: u8 },
    /// The rest of the file from there on is cut off.
    Cut { at: u64 },
    /// So many bytes from there on are zero.
    Zero { at: u64, count: u64 },
    /// The file is deleted.
    Delete,
    /// A folder is in its place.
    Folder,
    /// The file and another of its kind change places.
    Swap { other: PathBuf },
    /// An older copy is in its place, without a write-ahead log.
    Older,
    /// The folder of the file has mode 000.
    Shut,
}

/// A change to a file.
#[derive(Clone, Debug)]
pub(super) struct Change {
    /// Path below the home.
    path: PathBuf,
    kind: FilePurpose,
    how: How,
}

impl Change {
    /// Draws a possible change; `None` when the drawn file has no place for it.
    pub(super) fn draw(stage: &Stage, random: &mut Random) -> Option<Self> {
        let base = stage.home.base();
        let all = files(&base);
        let mut kinds: Vec<FilePurpose> = all.iter().map(|(kind, _)| *kind).collect();
        kinds.sort();
        kinds.dedup();
        // Draws the kind first: a home has a hundred segments and one database.
        let kind = random.pick(&kinds)?;
        let of_kind: Vec<PathBuf> = all
            .into_iter()
            .filter(|(its, _)| *its == kind)
            .map(|(_, path)| path)
            .collect();
        let path = random.pick(&of_kind)?;
        let others: Vec<PathBuf> = of_kind.into_iter().filter(|other| *other != path).collect();
        let other = random.pick(&others);
        let length = fs::metadata(base.join(&path)).ok()?.len();
        let at = random.bits() % length.max(1);
        let bit = random.between(0, 7) as u8;
        let count = random.between(1, 600);
        let roll = random.between(1, 100);
        let how = match roll {
            1..=3 if kind == FilePurpose::Facts => How::Older,
            67..=81 if kind.is_in_a_run() => How::Shut,
            82..=86 => How::Cut { at },
            87..=90 => How::Zero { at, count },
            91..=94 => How::Delete,
            95..=96 => How::Folder,
            97..=100 => How::Swap { other: other? },
            _ => How::Flip { at, bit },
        };
        let needs_bytes = matches!(how, How::Flip { .. } | How::Cut { .. } | How::Zero { .. });
        if needs_bytes && length == 0 {
            return None;
        }
        Some(Self { path, kind, how })
    }

    /// Kind of the changed file.
    pub(super) fn kind(&self) -> FilePurpose {
        self.kind
    }

    /// Texts that count as naming the file when the user sees one of them.
    pub(super) fn names(&self) -> Vec<String> {
        if let (How::Shut, Some(folder)) = (&self.how, self.path.parent()) {
            // As the command that opens it again.
            return vec![format!("{}'", folder.display())];
        }
        let mut paths = vec![&self.path];
        if let How::Swap { other } = &self.how {
            paths.push(other);
        }
        let mut names: Vec<String> = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        for path in paths {
            // The short form, as `1/claim`, beside the run's own name.
            let parts: Vec<_> = path.iter().rev().take(2).collect();
            if let [name, folder] = parts[..] {
                names.push(Path::new(folder).join(name).display().to_string());
            }
            names.extend(
                path.file_name()
                    .and_then(|name| name.to_str())
                    .map(str::to_owned),
            );
        }
        names
    }

    /// Makes the change.
    pub(super) fn apply(&self, stage: &Stage) -> io::Result<()> {
        let base = stage.home.base();
        let path = base.join(&self.path);
        match &self.how {
            How::Flip { at, bit } => edit(&path, |bytes| bytes[*at as usize] ^= 1 << bit),
            How::Cut { at } => edit(&path, |bytes| bytes.truncate(*at as usize)),
            How::Zero { at, count } => edit(&path, |bytes| {
                let to = bytes.len().min((*at + *count) as usize);
                bytes[*at as usize..to].fill(0);
            }),
            How::Delete => fs::remove_file(&path),
            How::Folder => {
                fs::remove_file(&path)?;
                fs::create_dir(&path)
            }
            How::Swap { other } => {
                let (other, aside) = (base.join(other), path.with_extension("aside"));
                fs::rename(&path, &aside)?;
                fs::rename(&other, &path)?;
                fs::rename(&aside, &other)
            }
            How::Shut => {
                let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
                fs::set_permissions(folder, fs::Permissions::from_mode(0o000))
            }
            How::Older => {
                fs::copy(stage.older_facts(), &path)?;
                for log in ["state.db-wal", "state.db-shm"] {
                    fs::remove_file(path.with_file_name(log))?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.how {
            How::Flip { at, bit } => write!(f, "{path}: bit {bit} of byte {at} flipped"),
            How::Cut { at } => write!(f, "{path}: cut to {at} bytes"),
            How::Zero { at, count } => write!(f, "{path}: {count} bytes from {at} on zeroed"),
            How::Delete => write!(f, "{path}: deleted"),
            How::Folder => write!(f, "{path}: a folder in its place"),
            How::Swap { other } => write!(f, "{path}: swapped with {}", other.display()),
            How::Shut => write!(f, "{path}: nobody may use its folder"),
            How::Older => write!(f, "{path}: an older copy in its place, without a log"),
        }
    }
}

/// Every file of a known kind, by path below the home, in a fixed order.
fn files(base: &Path) -> Vec<(FilePurpose, PathBuf)> {
    let mut found = Vec::new();
    let mut folders = vec![base.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(path),
                Ok(kind) if kind.is_file() => {
                    let below = path.strip_prefix(base).unwrap_or(&path);
                    found.extend(FilePurpose::of(below).map(|kind| (kind, below.to_owned())));
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}

fn edit(path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
    let mut bytes = fs::read(path)?;
    change(&mut bytes);
    // Stored content is read-only, for its owner too.
    let mode = fs::metadata(path)?.permissions();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    fs::write(path, bytes)?;
    fs::set_permissions(path, mode)
}
