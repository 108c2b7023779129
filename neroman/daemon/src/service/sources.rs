//! Reads sources, again and for the first time. A source that is being written
//! is tried for a while; a mistake stops the command.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nero_format::{FormatErrors, SourceKind};
use nero_model::ExperimentId;
use nero_wire::v1;

use super::{Man, blocking};
use crate::failure::Failure;
use crate::ledger::Decided;
use nero_life::add::{self, Read};
use nero_life::experiment::{Origin, Stamp};
use nero_life::state::State;
use nero_life::taken_over;

/// How long to try a source that is being written.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two tries; no event reports that a file is complete.
const BETWEEN: Duration = Duration::from_millis(50);

/// The size and times of a file.
fn stamp(path: &Path) -> io::Result<Stamp> {
    let found = fs::metadata(path)?;
    Ok(Stamp {
        modified_ns: found
            .mtime()
            .saturating_mul(1_000_000_000)
            .saturating_add(found.mtime_nsec()),
        size: found.len(),
        inode: found.ino(),
    })
}

/// Reads one source; its file did not change meanwhile.
fn read(path: &Path) -> Result<Read, FormatErrors> {
    let began = Instant::now();
    loop {
        let before = watched(path);
        let loaded = nero_format::read_source(path);
        let after = watched(path);
        let quiet = before.is_some() && before == after;
        match loaded {
            Ok(loaded) if quiet => {
                return Ok(Read {
                    stamp: stamp(&loaded.source.file).unwrap_or_default(),
                    loaded,
                });
            }
            Err(errors) if quiet || before.is_none() => return Err(errors),
            Ok(_) | Err(_) if began.elapsed() > PATIENCE => {
                return Err(nero_format::Problem::of_file(
                    format!("{} is being written", path.display()),
                    "wait until it is whole, or leave it out with --as-added",
                )
                .into());
            }
            Ok(_) | Err(_) => std::thread::sleep(BETWEEN),
        }
    }
}

/// The stamp of the file that a path stands for.
fn watched(path: &Path) -> Option<(PathBuf, Stamp)> {
    let file = if path.is_dir() {
        ["neronet.yaml", "config.yaml"]
            .iter()
            .map(|name| path.join(name))
            .find(|file| file.exists())?
    } else {
        path.to_path_buf()
    };
    let stamp = stamp(&file).ok()?;
    Some((file, stamp))
}

/// Whether a source may have changed since it was read.
fn changed(origin: &Origin) -> bool {
    let path = match origin.source.kind {
        SourceKind::Folder => &origin.source.path,
        SourceKind::File => &origin.source.file,
    };
    watched(path) != Some((origin.source.file.clone(), origin.stamp))
}

/// Reads several sources, or reports every mistake of all of them.
///
/// # Errors
/// All mistakes at once; nothing may be changed then.
pub(super) fn read_paths(paths: &[PathBuf]) -> Result<Vec<Read>, Failure> {
    let mut found = Vec::new();
    let mut report = String::new();
    let mut wrong = 0;
    for path in paths {
        match read(path) {
            Ok(one) => found.push(one),
            Err(errors) => {
                wrong += errors.problems.len();
                if !report.is_empty() {
                    report.push('\n');
                }
                report.push_str(&errors.to_string());
            }
        }
    }
    if wrong == 0 {
        return Ok(found);
    }
    let what = match (wrong, paths) {
        (1, [path]) => format!("{} has a mistake", path.display()),
        (_, [path]) => format!("{} has {wrong} mistakes", path.display()),
        _ => format!("{wrong} mistakes in what is to be read"),
    };
    Err(Failure::usage(what).report(report))
}

/// Reads those of these sources again that may have changed.
pub(super) fn read_changed(origins: &[Arc<Origin>]) -> Result<Vec<Read>, Failure> {
    let mut paths: Vec<PathBuf> = origins
        .iter()
        .filter(|origin| changed(origin))
        .map(|origin| origin.source.path.clone())
        .collect();
    paths.sort();
    paths.dedup();
    let is_moved = paths.iter().any(|path| !path.exists());
    read_paths(&paths).map_err(|failure| {
        failure.hint(if is_moved {
            "if it was moved, `neroman add` its new place; the numbers stay"
        } else {
            "correct it, or go on with what was read before: --as-added"
        })
    })
}

/// The sources of these experiments; not the placeholders of a take-over.
pub(super) fn origins_of(state: &State, ids: &[ExperimentId]) -> Vec<Arc<Origin>> {
    let numbers: BTreeMap<u64, ()> = ids
        .iter()
        .filter_map(|id| Some((state.experiment(*id)?.source, ())))
        .collect();
    numbers
        .keys()
        .filter_map(|number| state.origins.get(number).cloned())
        .filter(|origin| !taken_over::stands_in(&origin.source))
        .collect()
}

/// Sources whose files do not exist any more.
pub(super) fn missing(state: &State) -> HashSet<u64> {
    state
        .origins
        .values()
        .filter(|origin| !origin.source.file.exists())
        .map(|origin| origin.id)
        .collect()
}

impl Man {
    /// Reads every changed source again; returns a line for each change.
    pub(super) async fn read_all_sources_again(&self) -> Result<Vec<String>, Failure> {
        let state = self.ledger.state();
        let origins: Vec<Arc<Origin>> = state.origins.values().cloned().collect();
        let (reads, missing) = blocking(move || {
            // A source that is gone has no news.
            let there: Vec<_> = origins
                .into_iter()
                .filter(|origin| origin.source.file.exists())
                .collect();
            Ok::<_, Failure>((read_changed(&there)?, missing(&state)))
        })
        .await??;
        if reads.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.clock.moment();
        let reply: v1::AddReply = self
            .ledger
            .ask(&[], move |state, _| {
                let merged = add::merge(state, &reads, &missing, &now);
                Ok(Decided {
                    answer: v1::AddReply {
                        notes: merged.lines(),
                        ..v1::AddReply::default()
                    },
                    changes: merged.changes,
                })
            })
            .await?;
        Ok(reply.notes)
    }
}
