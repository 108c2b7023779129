//! The run folders that lie here, and what one says of its run's life.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::{LedgerExited, RecordKind, ledger_exited};
use nero_model::paths::{NodePaths, run as names};
use nero_model::{ExperimentId, RunId, RunToken};
use nero_wire::v1::{RunFolder, RunSpec, SegmentPosition};

use crate::agent::segments;
use crate::core::facts::Facts;

/// Folders of all runs, by name: `runs/<experiment>/<run>/`. Names that are no
/// numbers are not ours.
///
/// # Errors
/// When `runs/` or an experiment's folder cannot be read.
pub fn all(paths: &NodePaths) -> io::Result<Vec<(RunId, PathBuf)>> {
    let mut found = Vec::new();
    for (experiment, folder) in numbered(&paths.deployment().join("runs"))? {
        for (number, folder) in numbered(&folder)? {
            let id = RunId {
                experiment: ExperimentId(experiment),
                number: u32::try_from(number).unwrap_or(0),
            };
            if id.number > 0 {
                found.push((id, folder));
            }
        }
    }
    found.sort_by_key(|(id, _)| (id.experiment.0, id.number));
    Ok(found)
}

fn numbered(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.parse::<u64>().ok());
        if let Some(number) = number
            && entry.file_type()?.is_dir()
        {
            found.push((number, entry.path()));
        }
    }
    Ok(found)
}

/// Reads the spec of a folder.
///
/// # Errors
/// In words, when it cannot be read or is damaged.
pub fn spec(run_dir: &Path) -> Result<RunSpec, String> {
    let path = run_dir.join(names::SPEC);
    frame::read(FrameKind::Spec, &path).map_err(|error| {
        let why = std::error::Error::source(&error)
            .map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
        format!("cannot use {}: {why}", path.display())
    })
}

/// A run folder as whoever takes the deployment over needs it.
pub fn describe(run_dir: &Path) -> RunFolder {
    let mut folder = RunFolder {
        folder: run_dir.display().to_string(),
        ..RunFolder::default()
    };
    let mut problem = |text: String| {
        if folder.problem.is_empty() {
            folder.problem = text;
        }
    };
    match spec(run_dir) {
        Ok(spec) => folder.spec = Some(spec),
        Err(why) => problem(why),
    }
    match life(run_dir) {
        Ok(life) => folder.segments = life.segments,
        Err(error) => problem(format!("cannot read its segments: {error}")),
    }
    folder
}

/// What the segments of a run say.
#[derive(Debug, Default)]
pub struct RunLife {
    /// Newest start that has a folder; 0: none.
    pub incarnation: u32,
    /// Of that start.
    pub facts: Facts,
    /// The records with which it ended.
    pub ends: Vec<ledger_exited::Copy>,
    /// All segments, at their beginning.
    pub segments: Vec<SegmentPosition>,
}

impl RunLife {
    /// Whether nothing of it was ever started.
    pub fn never_began(&self) -> bool {
        self.incarnation <= 1 && !self.facts.claimed && !self.facts.ended()
    }

    /// What is kept of it when its folder goes.
    pub fn end(&self, token: RunToken) -> LedgerExited {
        let mut records = self.ends.clone();
        if self.facts.watch_complete {
            records.push(ledger_exited::Copy {
                kind: RecordKind::WatchEnded as u32,
                payload: prost::Message::encode_to_vec(&nero_journal::v1::WatchEnded {
                    complete: true,
                    ..Default::default()
                }),
            });
        }
        LedgerExited {
            token: token.to_vec(),
            incarnation: self.incarnation.max(1),
            records,
        }
    }
}

/// Reads the segments of a run.
///
/// # Errors
/// When a folder or file cannot be read.
pub fn life(run_dir: &Path) -> io::Result<RunLife> {
    let mut life = RunLife {
        incarnation: segments::newest(run_dir)?,
        ..RunLife::default()
    };
    let mut found = Vec::new();
    for incarnation in 1..=life.incarnation {
        let mut facts = Facts::default();
        let look = segments::look(run_dir, incarnation, &mut found, &mut facts)?;
        life.facts = facts;
        life.ends = look.ends;
    }
    life.segments = found
        .iter()
        .map(|segment| SegmentPosition {
            incarnation: segment.incarnation,
            segment: segment.id.to_vec(),
            ..SegmentPosition::default()
        })
        .collect();
    Ok(life)
}
