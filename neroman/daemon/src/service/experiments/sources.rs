//! Reads sources, again and for the first time. A source that is being written
//! is tried for a while; a mistake stops the command.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nero_format::{Defaults, Edits, FormatErrors, RowsOptions, Source, SourceKind, TableOptions};
use nero_model::ExperimentId;
use nero_wire::v1;

use super::tables;
use crate::service::{Man, blocking};
use nero_home::failure::Failure;
use nero_home::ledger::Decision;
use nero_life::add::{self, MergeOutcome, StampedSource};
use nero_life::edits::{self, PendingEdits};
use nero_life::experiment::{Origin, Stamp};
use nero_life::now::Moment;
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

/// A source that is to be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SourceToRead {
    pub(crate) path: PathBuf,
    /// The YAML file that is named for a table.
    pub(crate) with: Option<PathBuf>,
    /// Added to the numbers of its rows.
    pub(crate) offset: u64,
    /// How a file of rows is read.
    pub(crate) rows: RowsOptions,
}

impl SourceToRead {
    /// A path as it was read before, if it was.
    pub(crate) fn again(state: &State, path: PathBuf) -> Self {
        let known = state.origin_at(&path);
        let TableOptions { with, offset } = known
            .and_then(|origin| origin.source.table.clone())
            .unwrap_or_default();
        let rows = known.and_then(|origin| origin.source.rows.clone());
        Self {
            path,
            with,
            offset,
            rows: rows.unwrap_or_default(),
        }
    }

    fn of(source: &Source) -> Self {
        let TableOptions { with, offset } = source.table.clone().unwrap_or_default();
        Self {
            path: source.path.clone(),
            with,
            offset,
            rows: source.rows.clone().unwrap_or_default(),
        }
    }

    /// The same paths as they were read before.
    pub(crate) fn all_again(state: &State, paths: &[PathBuf]) -> Vec<Self> {
        let paths = paths.iter();
        paths.map(|path| Self::again(state, path.clone())).collect()
    }

    fn load(
        &self,
        defaults: &Defaults,
        edits: Edits,
    ) -> Result<nero_format::LoadedSource, FormatErrors> {
        if nero_format::is_rows(&self.path) {
            return nero_format::read_rows(&self.path, &self.rows, defaults, None, edits);
        }
        if !nero_format::is_table(&self.path) {
            return nero_format::read_source_edited(&self.path, defaults, edits);
        }
        let options = TableOptions {
            with: self.with.clone(),
            offset: self.offset,
        };
        nero_format::read_table_edited(&self.path, &options, defaults, &tables::read_sheet, edits)
    }
}

/// The files of a source, with their stamps; no stamp of a file that is not there.
#[derive(PartialEq)]
struct WatchedFiles {
    file: PathBuf,
    stamp: Stamp,
    companion: Stamp,
}

/// Reads one source with what people changed of its experiments; its files did not change
/// meanwhile.
fn read(
    wanted: &SourceToRead,
    defaults: &Defaults,
    changes: &ByHandChanges<'_>,
) -> Result<StampedSource, FormatErrors> {
    let first = read_with(wanted, defaults, Edits::new())?;
    let edits = changes.of(&first);
    if edits.is_empty() {
        return Ok(first);
    }
    // An edit is found by what the source describes, and applied where it does so.
    read_with(wanted, defaults, edits)
}

fn read_with(
    wanted: &SourceToRead,
    defaults: &Defaults,
    edits: Edits,
) -> Result<StampedSource, FormatErrors> {
    let path = &wanted.path;
    let began = Instant::now();
    loop {
        let before = watched(path, wanted.with.as_deref());
        let loaded = wanted.load(defaults, edits.clone());
        let after = watched(path, wanted.with.as_deref());
        let quiet = before.is_some() && before == after;
        match loaded {
            Ok(loaded) if quiet => {
                return Ok(StampedSource {
                    stamp: stamp(&loaded.source.file).unwrap_or_default(),
                    companion: after.map(|after| after.companion).unwrap_or_default(),
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

/// The files that a path stands for.
fn watched(path: &Path, with: Option<&Path>) -> Option<WatchedFiles> {
    let file = if path.is_dir() {
        ["neronet.yaml", "config.yaml"]
            .iter()
            .map(|name| path.join(name))
            .find(|file| file.exists())?
    } else {
        path.to_path_buf()
    };
    let has_one = nero_format::is_table(&file) || nero_format::is_rows(&file);
    let beside = has_one.then(|| nero_format::companion(&file, with));
    Some(WatchedFiles {
        stamp: stamp(&file).ok()?,
        companion: match beside.flatten() {
            Some(beside) => stamp(&beside).unwrap_or_default(),
            None => Stamp::default(),
        },
        file,
    })
}

/// Whether a source may have changed since it was read.
fn changed(origin: &Origin, defaults: &Defaults) -> bool {
    if origin.source.is_changed_beneath(defaults) {
        return true;
    }
    let path = match origin.source.kind {
        SourceKind::Folder => &origin.source.path,
        SourceKind::File => &origin.source.file,
    };
    let table = origin.source.table.as_ref();
    let with = table.and_then(|table| table.with.as_deref());
    watched(path, with)
        != Some(WatchedFiles {
            file: origin.source.file.clone(),
            stamp: origin.stamp,
            companion: origin.companion,
        })
}

/// What people changed of experiments, stored and typed.
struct ByHandChanges<'a> {
    state: &'a State,
    pending: &'a PendingEdits,
    /// Numbers of sources that are missing; `None` where no experiment was changed by hand.
    missing: Option<HashSet<u64>>,
}

impl<'a> ByHandChanges<'a> {
    fn new(state: &'a State, pending: &'a PendingEdits) -> Self {
        Self {
            state,
            pending,
            missing: edits::any(state, pending).then(|| missing(state)),
        }
    }

    fn of(&self, read: &StampedSource) -> Edits {
        let missing = self.missing.as_ref();
        missing.map_or_else(Edits::new, |missing| {
            edits::edits(self.state, read, missing, self.pending)
        })
    }
}

/// Reads several sources, or reports every mistake of all of them.
///
/// # Errors
/// All mistakes at once; nothing may be changed then.
pub(crate) fn read_paths(
    state: &State,
    sources: &[SourceToRead],
    config: &Path,
) -> Result<Vec<StampedSource>, Failure> {
    read_pending(state, sources, config, &PendingEdits::default())
}

/// The `defaults` of the configuration.
pub(crate) fn defaults(config: &Path) -> Result<Defaults, Failure> {
    Defaults::read(config).map_err(|errors| {
        Failure::usage("the configuration cannot be read").report(errors.to_string())
    })
}

/// Reads several sources with what a person typed of their experiments.
///
/// # Errors
/// All mistakes at once; nothing may be changed then.
pub(crate) fn read_pending(
    state: &State,
    sources: &[SourceToRead],
    config: &Path,
    pending: &PendingEdits,
) -> Result<Vec<StampedSource>, Failure> {
    read_each(state, sources, &defaults(config)?, pending)
}

fn read_each(
    state: &State,
    sources: &[SourceToRead],
    defaults: &Defaults,
    pending: &PendingEdits,
) -> Result<Vec<StampedSource>, Failure> {
    let changes = ByHandChanges::new(state, pending);
    let mut found = Vec::new();
    let mut report = String::new();
    let mut wrong = 0;
    for wanted in sources {
        match read(wanted, defaults, &changes) {
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
    let what = match (wrong, sources) {
        (1, [_]) => "nothing was changed, because of this mistake".to_owned(),
        (_, [one]) => format!(
            "nothing was changed: {} has {wrong} mistakes",
            one.path.display()
        ),
        _ => format!("nothing was changed: {wrong} mistakes in what is to be read"),
    };
    Err(Failure::usage(what).report(report))
}

/// Reads those of these sources again that may have changed.
pub(crate) fn read_changed(
    state: &State,
    origins: &[Arc<Origin>],
    config: &Path,
    pending: &PendingEdits,
) -> Result<Vec<StampedSource>, Failure> {
    let defaults = defaults(config)?;
    let is_asked: HashSet<u64> = pending
        .of
        .iter()
        .filter_map(|id| Some(state.experiment(*id)?.source))
        .collect();
    let mut sources: Vec<SourceToRead> = origins
        .iter()
        .filter(|origin| is_asked.contains(&origin.id) || changed(origin, &defaults))
        .map(|origin| SourceToRead::of(&origin.source))
        .collect();
    sources.sort();
    sources.dedup();
    let is_moved = sources.iter().any(|one| !one.path.exists());
    read_each(state, &sources, &defaults, pending).map_err(|failure| {
        failure.hint(if is_moved {
            "if it was moved, `neroman add` its new place; the numbers stay"
        } else {
            "correct it, or go on with what was read before: --as-added"
        })
    })
}

/// Sources that were read, to be compared with what is known.
pub(crate) struct SourceReadings {
    pub reads: Vec<StampedSource>,
    /// Sources whose files do not exist any more.
    missing: HashSet<u64>,
    at: Moment,
}

impl SourceReadings {
    /// Looks for sources that are gone, unless nothing was read. Blocks.
    pub(crate) fn of(state: &State, reads: Vec<StampedSource>, at: Moment) -> Self {
        let missing = if reads.is_empty() {
            HashSet::new()
        } else {
            missing(state)
        };
        Self { reads, missing, at }
    }

    /// What they change, unless rows have numbers of other experiments.
    ///
    /// # Errors
    /// All such rows at once.
    pub(crate) fn merged(&self, state: &State) -> Result<MergeOutcome, Failure> {
        accepted(
            state,
            add::merge(state, &self.reads, &self.missing, &self.at),
        )
    }

    /// The state with what they change.
    ///
    /// # Errors
    /// See [`SourceReadings::merged`].
    pub(crate) fn prospect(&self, state: &State) -> Result<(State, MergeOutcome), Failure> {
        let merged = self.merged(state)?;
        let mut prospect = state.clone();
        for change in &merged.changes {
            prospect.apply(change);
        }
        Ok((prospect, merged))
    }
}

fn accepted(state: &State, merged: MergeOutcome) -> Result<MergeOutcome, Failure> {
    /// More rows than a person reads.
    const SHOWN_MAX: usize = 100;
    /// An offset is a round number.
    const ROUND: u64 = 1000;
    if let Some((id, mistake)) = merged.refused.first() {
        let more = match merged.refused.len() - 1 {
            0 => String::new(),
            more => format!(", and so for {more} more"),
        };
        let what = format!("{id}: {}{more}", mistake.message);
        let failure = Failure::usage(what);
        return Err(match mistake.hint.as_str() {
            "" => failure,
            hint => failure.hint(hint.to_owned()),
        });
    }
    if merged.is_outdated {
        return Err(Failure::moved());
    }
    let clashes = &merged.clashes;
    let Some(first) = clashes.first() else {
        return Ok(merged);
    };
    let what = match clashes.len() {
        1 => "a number in the table belongs to another experiment".to_owned(),
        count => format!("{count} numbers in the table belong to other experiments"),
    };
    let mut report = String::new();
    for clash in clashes.iter().take(SHOWN_MAX) {
        let (name, file) = &clash.holder;
        report.push_str(&format!(
            "{}: {} is {} of {}\n",
            clash.place,
            clash.number,
            nero_model::safe::quoted(name),
            nero_model::safe::Safe::line(&file.display().to_string()),
        ));
    }
    if clashes.len() > SHOWN_MAX {
        report.push_str(&format!("and {} more\n", clashes.len() - SHOWN_MAX));
    }
    let offset = state.highest.div_ceil(ROUND).max(1) * ROUND;
    Err(Failure::usage(what).report(report).hint(format!(
        "`neroman add {} --offset {offset}` makes {} of row number 1",
        nero_model::safe::Safe::line(&first.place.file),
        offset + 1,
    )))
}

/// The sources of these experiments; not the placeholders of a take-over.
pub(crate) fn origins_of(state: &State, ids: &[ExperimentId]) -> Vec<Arc<Origin>> {
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
pub(crate) fn missing(state: &State) -> HashSet<u64> {
    state
        .origins
        .values()
        .filter(|origin| !origin.source.file.exists())
        .map(|origin| origin.id)
        .collect()
}

impl Man {
    /// Reads every changed source again; returns a line for each change.
    pub(crate) async fn read_all_sources_again(&self) -> Result<Vec<String>, Failure> {
        let (state, at) = (self.ledger.state(), self.clock.moment());
        let origins: Vec<Arc<Origin>> = state.origins.values().cloned().collect();
        let config = self.home.config.clone();
        let sources = blocking(move || {
            // A source that is gone has no news.
            let there = origins.into_iter();
            let there: Vec<_> = there.filter(|origin| origin.source.file.exists()).collect();
            let reads = read_changed(&state, &there, &config, &PendingEdits::default())?;
            Ok::<_, Failure>(SourceReadings::of(&state, reads, at))
        })
        .await??;
        if sources.reads.is_empty() {
            return Ok(Vec::new());
        }
        self.merge(sources).await
    }

    /// Applies the changes of sources that were read; returns a line for each change.
    pub(crate) async fn merge(&self, sources: SourceReadings) -> Result<Vec<String>, Failure> {
        let reply: v1::AddReply = self
            .ledger
            .ask(&[], move |state, _| {
                let merged = sources.merged(state)?;
                let mut notes = merged.lines();
                notes.extend(super::add::notes(&sources.reads, &merged));
                Ok(Decision {
                    answer: v1::AddReply {
                        notes,
                        ..v1::AddReply::default()
                    },
                    changes: merged.changes,
                })
            })
            .await?;
        Ok(reply.notes)
    }
}
