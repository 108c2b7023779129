//! The files that travel with runs, the files that stay behind, and whether the
//! code differs from that of the newest runs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use nero_format::Definition;
use nero_model::ExperimentId;
use nero_wire::v1;

use nero_life::add;
use nero_life::experiment::Experiment;
use nero_life::state::State;
use nero_link::outside::{FolderToFreeze, Freezer};
use nero_link::snapshot::{self, Survey};

/// The experiments whose code differs from that of their newest run. One look
/// per folder: files with an unchanged `stat` are not read. A folder that cannot
/// be read does not count. Blocks.
pub(crate) fn changed(state: &State, freezer: &Freezer) -> HashSet<ExperimentId> {
    let mut of_files: HashMap<FolderToFreeze, Vec<(ExperimentId, &str)>> = HashMap::new();
    let present = |one: &&std::sync::Arc<Experiment>| one.hidden_ms.is_none() && !one.is_gone();
    for one in state.experiments.iter().filter(present) {
        let tree = one.newest().map_or("", |run| run.made.tree.as_str());
        if !tree.is_empty() && !one.changed() {
            let those = of_files
                .entry(FolderToFreeze::of(&one.definition))
                .or_default();
            those.push((one.id, tree));
        }
    }
    let mut changed = HashSet::new();
    for (wanted, those) in of_files {
        let Some(now) = freezer.tree_hash(&wanted) else {
            continue;
        };
        let other = those.into_iter().filter(|(_, tree)| *tree != now);
        changed.extend(other.map(|(id, _)| id));
    }
    changed
}

/// One line for each folder whose code differs from that of the newest runs of
/// these experiments.
pub(crate) fn changes(
    state: &State,
    picked: &[ExperimentId],
    changed: &HashSet<ExperimentId>,
) -> Vec<String> {
    let mut of_folder: BTreeMap<&PathBuf, Vec<ExperimentId>> = BTreeMap::new();
    let those = picked.iter().filter(|id| changed.contains(id));
    for one in those.filter_map(|id| state.experiment(*id)) {
        let those = of_folder.entry(&one.definition.folder).or_default();
        those.push(one.id);
    }
    of_folder
        .into_iter()
        .map(|(folder, ids)| {
            let ids = add::ranges(ids.into_iter());
            format!(
                "{ids}: files of {} changed since the newest run",
                folder.display()
            )
        })
        .collect()
}

/// The files that travel from each folder of these experiments, if the folder
/// can be read. Blocks.
pub(crate) fn survey<'a>(
    definitions: impl Iterator<Item = &'a Definition>,
) -> Vec<v1::FolderTaken> {
    let mut seen: HashSet<FolderToFreeze> = HashSet::new();
    let mut folders = Vec::new();
    for definition in definitions {
        let wanted = FolderToFreeze::of(definition);
        if seen.contains(&wanted) {
            continue;
        }
        if let Ok(survey) = snapshot::survey(&wanted.folder, &wanted.what) {
            folders.push(taken(&wanted, &survey));
        }
        seen.insert(wanted);
    }
    folders
}

/// The survey of a folder as clients get it.
pub(crate) fn taken(wanted: &FolderToFreeze, survey: &Survey) -> v1::FolderTaken {
    v1::FolderTaken {
        folder: wanted.folder.display().to_string(),
        files: survey.files,
        bytes: survey.bytes,
        left_out: snapshot::in_words(&survey.left_out),
    }
}
