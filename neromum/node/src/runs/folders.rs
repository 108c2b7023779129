//! The run folders here, and the life of each run according to its folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::{LedgerExited, WatchEnded, ledger_exited};
use nero_model::paths::{NodePaths, run as names};
use nero_model::{ExperimentId, RunId, RunToken};
use nero_node_core::facts::Facts;
use nero_wire::v1::{RuleSet, RunFolder, SegmentPosition};

use super::{own, segments, spec};

/// Limit of damaged rule sets that are passed over in the search for the
/// newest.
const RULES_TRIED_MAX: usize = 100;

/// Folders of all runs, by name: `runs/<experiment>/<run>/`. Names other than
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

/// Describes a run folder for a take-over; `None` when its run was recalled,
/// so that another node may have it.
pub fn describe(run_dir: &Path) -> Option<RunFolder> {
    let mut folder = RunFolder {
        folder: run_dir.display().to_string(),
        ..RunFolder::default()
    };
    let mut problem = |text: String| {
        if folder.problem.is_empty() {
            folder.problem = text;
        }
    };
    match spec::of_folder(run_dir) {
        Ok(mut spec) => {
            match newest_rules(run_dir, spec.rules.take()) {
                Ok(rules) => spec.rules = rules,
                Err(error) => problem(format!("cannot read its rules: {error}")),
            }
            folder.spec = Some(spec);
        }
        Err(_) if spec::is_recalled(run_dir) => return None,
        Err(why) => problem(why),
    }
    let named = folder.spec.as_ref();
    let token = named
        .and_then(|spec| RunToken::from_slice(&spec.token))
        .or_else(|| {
            let claimed = segments::claimed_by(run_dir).ok().flatten();
            claimed.map(RunToken::from_bytes)
        });
    match token.map(|token| life(run_dir, token)) {
        Some(Ok(life)) => folder.segments = life.segments,
        Some(Err(error)) => problem(format!("cannot read its segments: {error}")),
        // Without a token the segments cannot be checked.
        None => problem("its spec names no run".to_owned()),
    }
    Some(folder)
}

/// The rule set in force: the newest readable one in the folder, or the spec's
/// own. It gets the highest version of all, so that the next neroman gives a
/// higher one.
///
/// # Errors
/// When the folder cannot be read.
fn newest_rules(run_dir: &Path, own: Option<RuleSet>) -> io::Result<Option<RuleSet>> {
    let control = run_dir.join(names::CONTROL);
    let entries = match fs::read_dir(&control) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(own),
        Err(error) => return Err(error),
    };
    let mut versions = Vec::new();
    for entry in entries {
        versions.extend(names::rules_version(&entry?.file_name()));
    }
    versions.sort_unstable_by(|left, right| right.cmp(left));
    let Some(highest) = versions.first().copied() else {
        return Ok(own);
    };
    let read = |version: &u64| {
        frame::read::<RuleSet>(FrameKind::Rules, &control.join(names::rules(*version))).ok()
    };
    let own_version = own.as_ref().map_or(0, |own| own.version);
    let newer = versions.iter().filter(|version| **version > own_version);
    let in_force = newer.take(RULES_TRIED_MAX).find_map(read).or(own);
    Ok(in_force.map(|set| RuleSet {
        version: highest.max(own_version),
        ..set
    }))
}

/// The life of a run according to its segments.
#[derive(Debug, Default)]
pub struct RunLife {
    /// Newest start that has a folder; 0: there was none.
    pub incarnation: u32,
    /// Facts of that start.
    pub facts: Facts,
    /// The records of its end.
    pub ends: Vec<ledger_exited::Copy>,
    /// All segments, at their beginning.
    pub segments: Vec<SegmentPosition>,
}

impl RunLife {
    /// Whether nothing of the run was ever started.
    pub fn never_began(&self) -> bool {
        self.incarnation <= 1 && !self.facts.claimed && !self.facts.ended()
    }

    /// The record to keep when the run's folder goes.
    pub fn end(&self, token: RunToken) -> LedgerExited {
        let mut records = self.ends.clone();
        if self.facts.watch_complete {
            let ended = WatchEnded {
                complete: true,
                ..WatchEnded::default()
            };
            records.push(ledger_exited::Copy::new(own::NO_TIME, &ended));
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
pub fn life(run_dir: &Path, token: RunToken) -> io::Result<RunLife> {
    let mut life = RunLife {
        incarnation: segments::newest(run_dir)?,
        ..RunLife::default()
    };
    let mut found = Vec::new();
    for incarnation in 1..=life.incarnation {
        let mut facts = Facts::default();
        let place = segments::StartFolder {
            run_dir,
            token,
            incarnation,
        };
        let look = segments::scan(place, &mut found, &mut facts)
            .map_err(|file| io::Error::other(file.to_string()))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use nero_wire::v1::{Rule, RunSpec};

    fn set(version: u64, text: &str) -> RuleSet {
        let rule = Rule {
            id: version,
            text: text.to_owned(),
            ..Rule::default()
        };
        RuleSet {
            version,
            rules: vec![rule],
            cohort: Vec::new(),
        }
    }

    #[test]
    fn the_rules_of_a_run_are_those_that_came_last() {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = folder.path();
        let spec = RunSpec {
            rules: Some(set(1, "loss > 1")),
            ..RunSpec::default()
        };
        frame::create(FrameKind::Spec, &run_dir.join(names::SPEC), &spec).unwrap();
        let told = || describe(run_dir).unwrap().spec.unwrap().rules.unwrap();
        assert_eq!(told(), set(1, "loss > 1"));

        let control = run_dir.join(names::CONTROL);
        fs::create_dir(&control).unwrap();
        assert_eq!(told(), set(1, "loss > 1"));
        for version in [2, 10] {
            let path = control.join(format!("rules.{version}"));
            let rules = set(version, &format!("loss > {version}"));
            frame::create(FrameKind::Rules, &path, &rules).unwrap();
        }
        assert_eq!(told(), set(10, "loss > 10"));

        // The next version must be free, even if this one is damaged.
        fs::write(control.join("rules.11"), b"half").unwrap();
        let told = told();
        assert_eq!(told.version, 11);
        assert_eq!(told.rules, set(10, "loss > 10").rules);
    }
}
