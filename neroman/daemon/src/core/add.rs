//! What reading sources changes: experiments keep their numbers, what is no
//! longer in its source is kept and marked.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

use nero_format::{Definition, Loaded, Value};
use nero_model::ExperimentId;

use super::change::{Change, Described};
use super::experiment::{Experiment, Origin, Stamp};
use super::state::State;

/// A source that was read, with what its file looked like.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub loaded: Loaded,
    pub stamp: Stamp,
}

/// What became of one experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Added,
    Changed,
    Same,
    Gone,
}

/// One experiment that was looked at.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub id: ExperimentId,
    pub name: String,
    pub collection: String,
    pub what: What,
    /// `lr 0.01 → 0.003`.
    pub changes: Vec<String>,
    pub notes: Vec<String>,
}

/// What reading these sources amounts to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Merged {
    pub changes: Vec<Change>,
    pub seen: Vec<Seen>,
    /// Names that other sources have; nothing may be changed then.
    pub clashes: Vec<String>,
    taken: HashSet<(String, String)>,
}

/// Compares sources with the state. Pure: apply the changes to make it so.
/// Experiments of sources that are `missing` from the disk may move to another
/// source.
pub(crate) fn merge(
    state: &State,
    sources: &[Read],
    missing: &HashSet<u64>,
    now_ms: i64,
) -> Merged {
    let mut merged = Merged::default();
    let mut next_id = state.highest + 1;
    let mut next_origin = state.origins.last_key_value().map_or(1, |(id, _)| id + 1);
    for read in sources {
        let known = known_origin(state, read);
        let origin = Arc::new(Origin {
            id: known.map_or(next_origin, |origin| origin.id),
            source: read.loaded.source.clone(),
            stamp: read.stamp,
        });
        if known.is_none() {
            next_origin += 1;
        }
        let unchanged = known.is_some_and(|known| **known == *origin);
        let mut present = present(state, origin.id, known.is_some());
        if !unchanged {
            merged.changes.push(Change::Origin(Arc::clone(&origin)));
        }
        for definition in &read.loaded.definitions {
            let key = (definition.collection().to_owned(), definition.name.clone());
            let elsewhere = namesake(state, &key).filter(|old| old.source != origin.id);
            if let Some(old) = present.remove(&key) {
                merged.again(old, definition, origin.id, now_ms);
            } else if !merged.taken.insert(key.clone()) {
                merged.clash(definition, "another source that is being added");
            } else if let Some(old) = elsewhere {
                if old.gone || missing.contains(&old.source) {
                    merged.again(old, definition, origin.id, now_ms);
                } else {
                    let whose = state
                        .origins
                        .get(&old.source)
                        .map(|origin| origin.source.file.display().to_string());
                    merged.clash(definition, whose.as_deref().unwrap_or("another source"));
                }
            } else {
                merged.added(ExperimentId(next_id), definition, origin.id, now_ms);
                next_id += 1;
            }
        }
        let mut gone: Vec<_> = present.into_values().filter(|old| !old.gone).collect();
        gone.sort_by_key(|old| old.id);
        for old in gone {
            merged.gone(old);
        }
    }
    merged
}

fn known_origin<'a>(state: &'a State, read: &Read) -> Option<&'a Arc<Origin>> {
    let source = &read.loaded.source;
    state.origin_at(&source.path).or_else(|| {
        state
            .origins
            .values()
            .find(|origin| origin.source.file == source.file)
    })
}

/// The experiment that has this name in this collection.
fn namesake<'a>(state: &'a State, key: &(String, String)) -> Option<&'a Arc<Experiment>> {
    state
        .named(&key.1)
        .iter()
        .filter_map(|id| state.experiment(*id))
        .find(|old| old.definition.collection() == key.0)
}

fn present(state: &State, origin: u64, known: bool) -> HashMap<(String, String), &Arc<Experiment>> {
    if !known {
        return HashMap::new();
    }
    state
        .of_origin(origin)
        .map(|old| {
            let definition = &old.definition;
            (
                (definition.collection().to_owned(), definition.name.clone()),
                old,
            )
        })
        .collect()
}

impl Merged {
    fn added(&mut self, id: ExperimentId, definition: &Definition, source: u64, now_ms: i64) {
        self.changes.push(Change::Experiment(Arc::new(Described {
            id,
            fingerprint: definition.fingerprint().into(),
            definition: Arc::new(definition.clone()),
            source,
            gone: false,
            created_ms: now_ms,
            modified_ms: now_ms,
            extra_rules: Arc::default(),
        })));
        let mut notes = notes(definition);
        notes.extend(odd_name(&definition.name));
        self.see(id, definition, What::Added, Vec::new(), notes);
    }

    fn again(&mut self, old: &Experiment, definition: &Definition, source: u64, now_ms: i64) {
        let fingerprint: Arc<str> = definition.fingerprint().into();
        let same = fingerprint == old.fingerprint && !old.gone;
        if !same || *old.definition != *definition || old.source != source {
            self.changes.push(Change::Experiment(Arc::new(Described {
                id: old.id,
                fingerprint,
                definition: Arc::new(definition.clone()),
                source,
                gone: false,
                created_ms: old.created_ms,
                modified_ms: if same { old.modified_ms } else { now_ms },
                extra_rules: Arc::clone(&old.extra_rules),
            })));
        }
        let (what, mut changes) = if same {
            (What::Same, Vec::new())
        } else {
            (What::Changed, differences(&old.definition, definition))
        };
        if old.gone {
            changes.insert(0, "is in its source again".to_owned());
        }
        if !changes.is_empty() {
            self.changes.push(Change::Event {
                experiment: old.id,
                run: None,
                at_ms: now_ms,
                text: format!("changed: {}", changes.join(", ")),
            });
        }
        self.see(old.id, definition, what, changes, notes(definition));
    }

    fn clash(&mut self, definition: &Definition, whose: &str) {
        self.clashes.push(format!(
            "{}: the collection `{}` already has an experiment `{}`, of {whose}",
            definition.place,
            definition.collection(),
            definition.name
        ));
    }

    fn gone(&mut self, old: &Experiment) {
        self.changes.push(Change::Experiment(Arc::new(Described {
            id: old.id,
            fingerprint: Arc::clone(&old.fingerprint),
            definition: Arc::clone(&old.definition),
            source: old.source,
            gone: true,
            created_ms: old.created_ms,
            modified_ms: old.modified_ms,
            extra_rules: Arc::clone(&old.extra_rules),
        })));
        let note = "no longer in its source; kept".to_owned();
        self.see(old.id, &old.definition, What::Gone, Vec::new(), vec![note]);
    }

    fn see(
        &mut self,
        id: ExperimentId,
        definition: &Definition,
        what: What,
        changes: Vec<String>,
        notes: Vec<String>,
    ) {
        self.seen.push(Seen {
            id,
            name: definition.name.clone(),
            collection: definition.collection().to_owned(),
            what,
            changes,
            notes,
        });
    }

    /// The experiments to type next, `124-186`; those that are gone left out.
    pub(crate) fn range(&self) -> String {
        ranges(
            self.seen
                .iter()
                .filter(|seen| seen.what != What::Gone)
                .map(|seen| seen.id),
        )
    }

    /// One line for each change, as said before `start`: `147: lr 0.01 → 0.003`;
    /// what changed alike in several is one line.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut order: Vec<String> = Vec::new();
        let mut alike: HashMap<String, Vec<ExperimentId>> = HashMap::new();
        for seen in &self.seen {
            let what = match seen.what {
                What::Same => continue,
                What::Added => format!("new in its source: {}", seen.name),
                What::Gone => "no longer in its source; kept".to_owned(),
                What::Changed => seen.changes.join(", "),
            };
            let those = alike.entry(what.clone()).or_default();
            if those.is_empty() {
                order.push(what);
            }
            those.push(seen.id);
        }
        order
            .iter()
            .map(|what| format!("{}: {what}", ranges(alike[what].iter().copied())))
            .collect()
    }

    /// The experiments that are in these sources now.
    pub(crate) fn present(&self) -> Vec<ExperimentId> {
        self.seen
            .iter()
            .filter(|seen| seen.what != What::Gone)
            .map(|seen| seen.id)
            .collect()
    }
}

/// Numbers as a selector: `1-3,7`.
pub(crate) fn ranges(ids: impl Iterator<Item = ExperimentId>) -> String {
    let mut ids: Vec<u64> = ids.map(|id| id.0).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut text = String::new();
    let mut rest = ids.as_slice();
    while let Some(&first) = rest.first() {
        let run = rest
            .iter()
            .zip(first..)
            .take_while(|(id, expected)| **id == *expected)
            .count();
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

fn notes(definition: &Definition) -> Vec<String> {
    let mut notes = definition.notes.clone();
    notes.extend(
        definition
            .not_built
            .iter()
            .map(|word| format!("not built yet: {} ({})", word.word, word.place)),
    );
    notes
}

/// Says when a name reads like something else in a selector.
fn odd_name(name: &str) -> Option<String> {
    let means = nero_selector::reads_as(name)?;
    Some(format!(
        "the name `{name}` reads like {means}: select it in backticks"
    ))
}

/// What is different, one phrase each.
fn differences(old: &Definition, new: &Definition) -> Vec<String> {
    let mut phrases = params(old, new);
    let mut say = |differs: bool, what: &str| {
        if differs {
            phrases.push(what.to_owned());
        }
    };
    // The command follows the parameters; it is said when it changed otherwise.
    let filled_alike = old.params == new.params || old.argv.len() != new.argv.len();
    say(filled_alike && old.argv != new.argv, "command changed");
    say(old.folder != new.folder, "folder changed");
    say(old.collections != new.collections, "collections changed");
    say(old.env != new.env, "env changed");
    say(old.resources != new.resources, "resources changed");
    say(
        old.files != new.files
            || old.linked_files != new.linked_files
            || old.required_files != new.required_files,
        "files changed",
    );
    say(old.outputs != new.outputs, "outputs changed");
    let rules = |definition: &Definition| -> Vec<_> {
        definition
            .rules
            .iter()
            .map(|rule| (rule.action, rule.text.clone()))
            .collect()
    };
    say(rules(old) != rules(new), "rules changed");
    say(
        old.metric_patterns != new.metric_patterns,
        "metrics changed",
    );
    say(old.monitor != new.monitor, "monitor changed");
    say(old.buffering != new.buffering, "buffering changed");
    say(old.results_dir != new.results_dir, "results_dir changed");
    if phrases.is_empty() && old.fingerprint() != new.fingerprint() {
        phrases.push("definition changed".to_owned());
    }
    phrases
}

fn params(old: &Definition, new: &Definition) -> Vec<String> {
    let before: BTreeMap<&str, (&str, &Value)> = old
        .params
        .iter()
        .map(|param| (param.name.as_str(), (param.text.as_str(), &param.value)))
        .collect();
    let mut phrases = Vec::new();
    for param in &new.params {
        match before.get(param.name.as_str()) {
            Some((text, value)) if *text == param.text && **value == param.value => {}
            Some((text, _)) => phrases.push(format!("{} {text} → {}", param.name, param.text)),
            None => phrases.push(format!("{} {} (new)", param.name, param.text)),
        }
    }
    for param in &old.params {
        if !new.params.iter().any(|other| other.name == param.name) {
            phrases.push(format!("{} removed", param.name));
        }
    }
    phrases
}
