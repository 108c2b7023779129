//! The changes from reading sources: experiments keep their numbers; those that are
//! no longer in their source are kept and marked.

mod copies;
mod known;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nero_format::{AppliedEdit, Definition, EditMistake, LoadedSource, Place};
use nero_model::ExperimentId;

pub(crate) use self::known::origin_of;
use self::known::{MatchedSource, across, recognised};
use super::differences::differences;
use super::edits::{self, EditedOnes};
use super::impossible::impossible;
use crate::facts::now::Moment;
use crate::fold::change::{Change, ExperimentRecord};
use crate::fold::experiment::{Experiment, Origin, PersonalMarks, Stamp};
use crate::fold::state::State;
use crate::fold::taken_over;
use crate::step::input::Input;
use crate::step::{fits, step};

/// Most new experiments whose names are printed before a start.
const NAMED_MAX: usize = 10;

/// A source that was read, with the stamp of its file.
#[derive(Clone, Debug)]
pub struct StampedSource {
    pub loaded: LoadedSource,
    pub stamp: Stamp,
    /// The stamp of the YAML file beside a table.
    pub companion: Stamp,
}

/// A row whose number another experiment has.
#[derive(Clone, Debug, PartialEq)]
pub struct Clash {
    pub number: u64,
    pub place: Place,
    /// The name of the other experiment, and the file of its source.
    pub holder: (String, PathBuf),
}

/// The change of one experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffKind {
    Added,
    Changed,
    Same,
    Gone,
    /// In its source, and hidden by `rm`.
    Hidden,
}

/// One experiment, with its changes.
#[derive(Clone, Debug, PartialEq)]
pub struct ExperimentDiff {
    pub id: ExperimentId,
    pub name: String,
    pub collection: String,
    pub what: DiffKind,
    /// `lr 0.01 → 0.003`.
    pub changes: Vec<String>,
    pub notes: Vec<String>,
}

/// The changes from reading these sources.
#[derive(Clone, Debug, Default)]
pub struct MergeOutcome {
    pub changes: Vec<Change>,
    pub seen: Vec<ExperimentDiff>,
    /// One line for each note on a whole source.
    pub notes: Vec<String>,
    /// With any of these nothing may be changed.
    pub clashes: Vec<Clash>,
    /// Overrides that were typed and cannot stand, and names that copies have, each with its
    /// experiment or place; nothing may be changed then.
    pub refused: Vec<(String, EditMistake)>,
    /// Whether a person changed experiments after their sources were read: these have to
    /// be read again.
    pub is_outdated: bool,
}

/// Compares sources with the state. Pure: the caller applies the changes. A source
/// that is `missing` from the disk may have moved: a similar new source takes its
/// place, with all its experiments.
pub fn merge(
    state: &State,
    sources: &[StampedSource],
    missing: &HashSet<u64>,
    now: &Moment,
) -> MergeOutcome {
    let mut merged = MergeOutcome::default();
    let mut known = recognised(state, sources, missing);
    across(state, &mut known, missing);
    merged.refuse_names_of_copies(state, &known);
    let numbers = sources.iter().flat_map(|read| &read.loaded.definitions);
    let numbers = numbers.filter_map(|definition| definition.number);
    let mut next_id = numbers.max().unwrap_or(0).max(state.highest) + 1;
    let mut given: HashMap<u64, &Definition> = HashMap::new();
    let copies = edits::copies(state);
    for one in &known {
        merged.record_origin(one, now.ms);
        let edited = EditedOnes::of(one.read);
        let definitions = one.read.loaded.definitions.iter();
        for (at, (definition, old)) in definitions.zip(&one.pairs).enumerate() {
            if let Some(old) = old {
                merged.again(old, definition, &edited, one.id, now);
                for copy in copies.get(&old.id).into_iter().flatten() {
                    merged.again(copy, definition, &edited, one.id, now);
                }
                for copy in edited.new_copies(at) {
                    if merged.copied(ExperimentId(next_id), old, copy, one.id, now) {
                        next_id += 1;
                    }
                }
            } else if let Some(number) = definition.number {
                match holder(state, &mut given, number, definition) {
                    Some(holder) => merged.clashes.push(Clash {
                        number,
                        place: (*definition.place).clone(),
                        holder,
                    }),
                    None => {
                        let by_hand = PersonalMarks::default();
                        merged.added(ExperimentId(number), definition, by_hand, one.id, now);
                    }
                }
            } else {
                let by_hand = PersonalMarks::default();
                merged.added(ExperimentId(next_id), definition, by_hand, one.id, now);
                next_id += 1;
            }
        }
        if one.before.is_none() {
            merged.note_missing(state, one, missing);
        }
    }
    merged.leave_unpaired(&known, &copies);
    let impossible = impossible(state, &merged.changes);
    merged.refused.extend(impossible);
    merged
}

/// The experiment that has a number: a known one, or one of the same reading.
fn holder<'a>(
    state: &State,
    given: &mut HashMap<u64, &'a Definition>,
    number: u64,
    definition: &'a Definition,
) -> Option<(String, PathBuf)> {
    if let Some(known) = state.experiment(ExperimentId(number)) {
        let source = state.origins.get(&known.source);
        let file = source.map_or_else(PathBuf::new, |origin| origin.source.file.clone());
        return Some((known.definition.name.clone(), file));
    }
    let other = given.insert(number, definition)?;
    Some((other.name.clone(), PathBuf::from(&other.place.file)))
}

/// The present path of a path in a folder that was moved.
fn moved_path(path: &Path, from: &Path, to: &Path) -> Option<PathBuf> {
    let below = path.strip_prefix(from).ok()?;
    // Joining nothing would end the path with a slash.
    Some(if below.as_os_str().is_empty() {
        to.to_path_buf()
    } else {
        to.join(below)
    })
}

/// A definition with a name. A row without one is called after its experiment's number when
/// it is new, and as it is called then.
fn named(definition: &Definition, name: impl FnOnce() -> String) -> Cow<'_, Definition> {
    if definition.name.is_empty() {
        Cow::Owned(Definition {
            name: name(),
            ..definition.clone()
        })
    } else {
        Cow::Borrowed(definition)
    }
}

impl MergeOutcome {
    fn added(
        &mut self,
        id: ExperimentId,
        definition: &Definition,
        by_hand: PersonalMarks,
        source: u64,
        now: &Moment,
    ) {
        let definition = &*named(definition, || format!("{}_{id}", definition.block));
        self.changes
            .push(Change::Experiment(Arc::new(ExperimentRecord {
                modified: Some(now.tick.clone()),
                by_hand: by_hand.held(),
                ..ExperimentRecord::new(id, definition.clone(), source, now.ms)
            })));
        let mut notes = (*definition.notes).clone();
        notes.extend(odd_name(&definition.name));
        self.see(id, definition, DiffKind::Added, Vec::new(), notes);
    }

    /// Makes a copy of an experiment; returns whether it did.
    fn copied(
        &mut self,
        id: ExperimentId,
        old: &Experiment,
        copy: &AppliedEdit,
        source: u64,
        now: &Moment,
    ) -> bool {
        match &copy.outcome {
            Err(mistake) => {
                self.refused.push((old.id.to_string(), mistake.clone()));
                false
            }
            Ok(effective) => {
                let by_hand = PersonalMarks {
                    overrides: effective.overrides.clone(),
                    copy_of: Some(old.id),
                    ..PersonalMarks::default()
                };
                self.added(id, &effective.definition, by_hand, source, now);
                true
            }
        }
    }

    /// The definition of an experiment with what a person changed of it, what stands of
    /// that, and a line for each override that does not.
    fn effective<'d>(
        &mut self,
        old: &Experiment,
        definition: &'d Definition,
        edited: &EditedOnes<'d>,
        source: u64,
    ) -> (&'d Definition, PersonalMarks, Vec<String>) {
        let by_hand = (*old.by_hand).clone();
        let is_edited = !by_hand.overrides.is_empty() || by_hand.copy_of.is_some();
        match edited.of_experiment(old.id) {
            None if !is_edited => (definition, by_hand, Vec::new()),
            Some(one) if one.edit.before == by_hand.overrides => match &one.outcome {
                Ok(effective) => {
                    let overrides = effective.overrides.clone();
                    let dropped = effective.dropped.clone();
                    let by_hand = PersonalMarks {
                        overrides,
                        ..by_hand
                    };
                    (&effective.definition, by_hand, dropped)
                }
                Err(mistake) => {
                    self.refused.push((old.id.to_string(), mistake.clone()));
                    (definition, by_hand, Vec::new())
                }
            },
            // It came from another source, whose values they were in place of.
            None if old.source != source && by_hand.copy_of.is_none() => {
                let dropped = "its overrides, which were for another source".to_owned();
                let overrides = Vec::new();
                (
                    definition,
                    PersonalMarks {
                        overrides,
                        ..by_hand
                    },
                    vec![dropped],
                )
            }
            Some(_) | None => {
                self.is_outdated = true;
                (definition, by_hand, Vec::new())
            }
        }
    }

    fn again<'d>(
        &mut self,
        old: &Experiment,
        definition: &'d Definition,
        edited: &EditedOnes<'d>,
        source: u64,
        now: &Moment,
    ) {
        let (definition, by_hand, dropped) = self.effective(old, definition, edited, source);
        let definition = &*named(definition, || old.definition.name.clone());
        let is_by_hand = by_hand != *old.by_hand;
        let equal = *old.definition == *definition;
        let says_same = equal || old.definition.fingerprint() == definition.fingerprint();
        let same = says_same && !old.gone;
        if !same || !equal || is_by_hand || old.source != source {
            self.changes
                .push(Change::Experiment(Arc::new(ExperimentRecord {
                    // Runs were made from this definition, however an earlier version
                    // read it.
                    fingerprint: if says_same {
                        Arc::clone(&old.fingerprint)
                    } else {
                        definition.fingerprint().into()
                    },
                    definition: Arc::new(definition.clone()),
                    by_hand: Arc::new(by_hand),
                    source,
                    gone: false,
                    modified_ms: if same { old.modified_ms } else { now.ms },
                    modified: if same {
                        old.modified.clone()
                    } else {
                        Some(now.tick.clone())
                    },
                    ..ExperimentRecord::of(old)
                })));
        }
        let (what, mut changes) = if same && dropped.is_empty() {
            (DiffKind::Same, Vec::new())
        } else {
            (DiffKind::Changed, differences(&old.definition, definition))
        };
        if old.gone || taken_over::without_source(&old.definition) {
            changes.insert(0, "is in its source again".to_owned());
        }
        changes.extend(dropped);
        if !changes.is_empty() {
            self.changes.push(Change::Event {
                experiment: old.id,
                run: None,
                at_ms: now.ms,
                text: format!("changed: {}", changes.join(", ")),
            });
        }
        let mut notes = (*definition.notes).clone();
        let what = match old.hidden_ms {
            Some(_) => {
                notes.push(format!(
                    "removed; `neroman rm --undo {}` brings it back",
                    old.id
                ));
                DiffKind::Hidden
            }
            None => what,
        };
        self.see(old.id, definition, what, changes, notes);
    }

    /// Records the origin of a source, and where it moved.
    fn record_origin(&mut self, one: &MatchedSource<'_>, now_ms: i64) {
        let origin = Origin {
            id: one.id,
            source: one.read.loaded.source.clone(),
            stamp: one.read.stamp,
            companion: one.read.companion,
            written: one.before.map(|before| before.written).unwrap_or_default(),
        };
        let to = &one.read.loaded.source.folder;
        if one.before.is_none_or(|before| **before != origin) {
            self.changes.push(Change::Origin(Arc::new(origin)));
        }
        if let Some(before) = one.before.filter(|before| before.source.folder != *to) {
            self.moved((&before.source.folder, to), &one.old, now_ms);
        }
    }

    /// Keeps the experiments that their sources have no more, and their copies.
    fn leave_unpaired(
        &mut self,
        known: &[MatchedSource<'_>],
        copies: &HashMap<ExperimentId, Vec<&Experiment>>,
    ) {
        let paired: HashSet<ExperimentId> = known
            .iter()
            .flat_map(|one| one.pairs.iter().flatten().map(|old| old.id))
            .collect();
        for one in known {
            let folder = &one.read.loaded.source.folder;
            for old in one.old.iter().filter(|old| !paired.contains(&old.id)) {
                let before = one.before.map(|before| &*before.source.folder);
                self.left(old, before, folder);
                for copy in copies.get(&old.id).into_iter().flatten() {
                    self.left(copy, before, folder);
                }
            }
        }
    }

    /// Keeps an experiment that left its source, or had left it before; its paths
    /// follow the folder.
    fn left(&mut self, old: &Experiment, from: Option<&Path>, to: &Path) {
        let folder = from
            .filter(|from| *from != to)
            .and_then(|from| moved_path(&old.definition.folder, from, to));
        if old.gone && folder.is_none() {
            return;
        }
        let definition = match folder {
            None => Arc::clone(&old.definition),
            Some(folder) => Arc::new(Definition {
                folder: folder.into(),
                ..(*old.definition).clone()
            }),
        };
        self.changes
            .push(Change::Experiment(Arc::new(ExperimentRecord {
                definition,
                gone: true,
                ..ExperimentRecord::of(old)
            })));
        if !old.gone && old.hidden_ms.is_none() {
            let note = "no longer in its source; kept".to_owned();
            self.see(
                old.id,
                &old.definition,
                DiffKind::Gone,
                Vec::new(),
                vec![note],
            );
        }
    }

    /// Notes that a folder moved, and its results with it.
    fn moved(&mut self, (from, to): (&Path, &Path), experiments: &[&Experiment], now_ms: i64) {
        self.notes.push(format!(
            "moved from {} to {}; numbers and results stay with their experiments",
            from.display(),
            to.display()
        ));
        for run in experiments.iter().flat_map(|old| &old.runs) {
            let folder = Path::new(run.dispatch.results.folder());
            let Some(folder) = moved_path(folder, from, to) else {
                continue;
            };
            let folder = folder.display().to_string();
            let moved = fits(step(run, &Input::ResultsMoved { folder }, now_ms));
            self.changes.extend(moved);
        }
    }

    /// Notes that another source, which this one may have been, is missing.
    fn note_missing(&mut self, state: &State, new: &MatchedSource<'_>, missing: &HashSet<u64>) {
        let folder = &new.read.loaded.source.folder;
        let may_be = |origin: &&Arc<Origin>| {
            let before = &origin.source.folder;
            missing.contains(&origin.id)
                && !taken_over::stands_in(&origin.source)
                && (before.file_name() == folder.file_name() || before.parent() == folder.parent())
        };
        for origin in state.origins.values().filter(may_be) {
            let those = state.of_origin(origin.id);
            let those = those.filter(|old| !old.gone && old.hidden_ms.is_none());
            let those = ranges(those.map(|old| old.id));
            if !those.is_empty() {
                self.notes.push(format!(
                    "{}, from which {those} came, is not there any more; if it became {}, it could not be recognised: its experiments are new",
                    origin.source.file.display(),
                    folder.display()
                ));
            }
        }
    }

    fn see(
        &mut self,
        id: ExperimentId,
        definition: &Definition,
        what: DiffKind,
        changes: Vec<String>,
        notes: Vec<String>,
    ) {
        self.seen.push(ExperimentDiff {
            id,
            name: definition.name.clone(),
            collection: definition.collection().to_owned(),
            what,
            changes,
            notes,
        });
    }

    /// Brings back those of these experiments that were removed: they were asked for again.
    pub fn bring_back(&mut self, state: &State, ids: &[ExperimentId], now_ms: i64) {
        for id in ids {
            let old = state.experiment(*id);
            let Some(old) = old.filter(|old| old.hidden_ms.is_some()) else {
                continue;
            };
            let given = self.changes.iter_mut().find_map(|change| {
                if let Change::Experiment(new) = change
                    && new.id == *id
                {
                    return Some(new);
                }
                None
            });
            match given {
                Some(new) => Arc::make_mut(new).hidden_ms = None,
                None => self
                    .changes
                    .push(Change::Experiment(Arc::new(ExperimentRecord {
                        hidden_ms: None,
                        ..ExperimentRecord::of(old)
                    }))),
            }
            let back = "brought back".to_owned();
            self.changes.push(Change::Event {
                experiment: *id,
                run: None,
                at_ms: now_ms,
                text: back.clone(),
            });
            for seen in self.seen.iter_mut().filter(|seen| seen.id == *id) {
                seen.what = DiffKind::Changed;
                seen.changes.push(back.clone());
                // How to bring it back.
                seen.notes.pop();
            }
        }
    }

    /// The experiments to type next, as `124-186`; without those that are gone.
    pub fn range(&self) -> String {
        ranges(
            self.seen
                .iter()
                .filter(|seen| !matches!(seen.what, DiffKind::Gone | DiffKind::Hidden))
                .map(|seen| seen.id),
        )
    }

    /// One line for each change, as printed before `start`: `147: lr 0.01 → 0.003`;
    /// equal changes of several experiments share a line.
    pub fn lines(&self) -> Vec<String> {
        let mut order: Vec<String> = Vec::new();
        let mut alike: HashMap<String, Vec<ExperimentId>> = HashMap::new();
        let added = self.seen.iter().filter(|seen| seen.what == DiffKind::Added);
        let names_added = added.count() <= NAMED_MAX;
        for seen in &self.seen {
            let what = match seen.what {
                DiffKind::Same | DiffKind::Hidden => continue,
                DiffKind::Added if names_added => format!("new in its source: {}", seen.name),
                DiffKind::Added => "new in its source".to_owned(),
                DiffKind::Gone => "no longer in its source; kept".to_owned(),
                DiffKind::Changed => seen.changes.join(", "),
            };
            let those = alike.entry(what.clone()).or_default();
            if those.is_empty() {
                order.push(what);
            }
            those.push(seen.id);
        }
        let alike = |what| format!("{}: {what}", ranges(alike[what].iter().copied()));
        let notes = self.notes.iter().cloned();
        notes.chain(order.iter().map(alike)).collect()
    }

    /// The experiments that are in these sources now.
    pub fn present(&self) -> Vec<ExperimentId> {
        self.seen
            .iter()
            .filter(|seen| !matches!(seen.what, DiffKind::Gone | DiffKind::Hidden))
            .map(|seen| seen.id)
            .collect()
    }
}

/// Numbers as a selector: `1-3,7`.
pub fn ranges(ids: impl Iterator<Item = ExperimentId>) -> String {
    let mut ids: Vec<u64> = ids.map(|id| id.0).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut text = String::new();
    let mut rest = ids.as_slice();
    while let Some(&first) = rest.first() {
        let run = rest.iter().zip(first..);
        let run = run.take_while(|(id, expected)| **id == *expected).count();
        if !text.is_empty() {
            text.push(',');
        }
        let _ = match run {
            1 => write!(text, "{first}"),
            _ => write!(text, "{first}-{}", rest[run - 1]),
        };
        rest = &rest[run..];
    }
    text
}

/// A note if a selector reads the name as something else.
fn odd_name(name: &str) -> Option<String> {
    if let Some(means) = nero_selector::reads_as(name) {
        return Some(format!(
            "the name `{name}` reads like {means}: select it in backticks"
        ));
    }
    // Marks that join with the letter before them: `é` in two characters.
    let joined = name.chars().any(|c| ('\u{300}'..='\u{36f}').contains(&c));
    joined.then(|| {
        format!("the name `{name}` has letters in two characters, which no key types: select it by its number")
    })
}
