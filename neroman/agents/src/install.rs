//! Putting the three programs below a node's root: `bin/<build>/`, where the
//! build is the beginning of the hash of their contents.
//!
//! A small file records size and times of sources and copies when they were
//! last hashed, so that a start compares these and reads no program. The file
//! is a cache: when it is gone, damaged or does not fit, everything is hashed
//! again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nero_model::builds::{self, PROGRAMS};
use nero_model::ids::{hex, random};
use serde::{Deserialize, Serialize};

use super::AgentError;

/// Name of the cache in `bin/`.
const KNOWN: &str = ".known.json";

/// Attributes of a program's file that change when its content does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ProgramStamp {
    path: PathBuf,
    size: u64,
    inode: u64,
    modified_ns: i64,
    changed_ns: i64,
}

/// The files that were hashed last, with the result.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct HashedFiles {
    build: String,
    sources: Vec<ProgramStamp>,
    copies: Vec<ProgramStamp>,
    /// Name of neromum in greetings.
    #[serde(default)]
    mum: String,
}

/// The programs in `folder`.
///
/// # Errors
/// The missing programs, by name.
fn find(folder: &Path) -> Result<[PathBuf; 3], AgentError> {
    let paths = builds::inside(folder);
    let missing: Vec<_> = PROGRAMS
        .into_iter()
        .zip(&paths)
        .filter(|(_, path)| !path.is_file())
        .map(|(name, _)| name)
        .collect();
    if missing.is_empty() {
        Ok(paths)
    } else {
        Err(AgentError::Missing {
            names: missing,
            folder: folder.to_path_buf(),
        })
    }
}

/// Puts the programs of `from` below `bin`, or finds them there; returns their
/// folder. Blocks.
///
/// # Errors
/// When programs are missing, or cannot be read or written.
pub(crate) fn install(from: &Path, bin: &Path) -> Result<PathBuf, AgentError> {
    let sources = find(from)?;
    let seen = stamps(&sources)?;
    if let Some(known) = remembered(bin)
        && known.sources == seen
        && stamps(&builds::inside(&bin.join(&known.build)))
            .is_ok_and(|copies| copies == known.copies)
    {
        return Ok(bin.join(known.build));
    }
    nero_model::paths::make_private(bin).map_err(refused("make", bin))?;
    let build = build_of(&sources)?;
    let folder = bin.join(&build);
    if !builds::is_sound(&folder) {
        put(&sources, bin, &build)?;
    }
    let known = HashedFiles {
        mum: builds::program(&sources[0]).map_err(refused("read", &sources[0]))?,
        build,
        sources: seen,
        copies: stamps(&builds::inside(&folder))?,
    };
    // When this fails, the next start hashes again.
    let _ = remember(bin, &known);
    Ok(folder)
}

/// Name in greetings of the neromum in `from`; empty when the program cannot be
/// read. Blocks.
pub(crate) fn mum_of(from: &Path, bin: &Path) -> String {
    let Ok(sources) = find(from) else {
        return String::new();
    };
    match (remembered(bin), stamps(&sources)) {
        (Some(known), Ok(seen)) if known.sources == seen && !known.mum.is_empty() => known.mum,
        _ => builds::program(&sources[0]).unwrap_or_default(),
    }
}

/// The name of a build.
fn build_of(programs: &[PathBuf; 3]) -> Result<String, AgentError> {
    builds::name_of(programs).map_err(|(path, source)| refused("read", &path)(source))
}

/// Copies the programs into a private folder and gives it its name.
fn put(sources: &[PathBuf; 3], bin: &Path, build: &str) -> Result<(), AgentError> {
    let private = bin.join(format!(".{}", hex(&random::<8>())));
    nero_model::paths::make_private(&private).map_err(refused("make", &private))?;
    let placed = fill(sources, &private)
        .and_then(|()| builds::place(&private, bin, build).map_err(refused("install", bin)));
    // The folder still exists when another process came first, or a step
    // failed.
    let _ = fs::remove_dir_all(&private);
    placed
}

fn fill(sources: &[PathBuf; 3], private: &Path) -> Result<(), AgentError> {
    for (source, to) in sources.iter().zip(builds::inside(private)) {
        copy(source, &to).map_err(refused("copy", source))?;
    }
    File::open(private)
        .and_then(|folder| folder.sync_all())
        .map_err(refused("sync", private))
}

fn copy(source: &Path, to: &Path) -> io::Result<()> {
    let mut copied = builds::create(to)?;
    let mut file = File::open(source)?;
    if rustix::fs::ioctl_ficlone(&copied, &file).is_err() {
        io::copy(&mut file, &mut copied)?;
    }
    copied.sync_all()
}

fn stamps(programs: &[PathBuf]) -> Result<Vec<ProgramStamp>, AgentError> {
    let ns = |seconds: i64, rest: i64| seconds.wrapping_mul(1_000_000_000).wrapping_add(rest);
    programs
        .iter()
        .map(|path| {
            let found = fs::metadata(path).map_err(refused("look at", path))?;
            Ok(ProgramStamp {
                path: path.clone(),
                size: found.size(),
                inode: found.ino(),
                modified_ns: ns(found.mtime(), found.mtime_nsec()),
                changed_ns: ns(found.ctime(), found.ctime_nsec()),
            })
        })
        .collect()
}

/// Reads the cache; `None` when it is missing or damaged.
fn remembered(bin: &Path) -> Option<HashedFiles> {
    serde_json::from_slice(&fs::read(bin.join(KNOWN)).ok()?).ok()
}

fn remember(bin: &Path, known: &HashedFiles) -> io::Result<()> {
    let private = bin.join(format!(".{}", hex(&random::<8>())));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&private)?;
    file.write_all(&serde_json::to_vec(known)?)?;
    fs::rename(&private, bin.join(KNOWN))
}

pub(crate) fn refused(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AgentError {
    let path = path.to_path_buf();
    move |source| AgentError::Io { what, path, source }
}
