//! `Edit`: overrides of parameters and fields, and copies of experiments. Their sources are
//! read for it, since an override is checked where its experiment is described.

use std::collections::HashSet;

use nero_wire::v1;
use nero_wire::v1::edit_reply::One;

use super::sources::{self, SourceReadings, SourceToRead};
use crate::service::change::ChangeRequest as _;
use crate::service::select::Selection;
use crate::service::{Man, blocking};
use nero_home::failure::Failure;
use nero_home::ledger::{self, Decision};
use nero_life::add::{self, MergeOutcome};
use nero_life::edits::PendingEdits;
use nero_life::state::State;
use nero_model::ExperimentId;
use nero_model::names::suggest;
use nero_model::safe::quoted;

/// Overrides of one command.
const SET_MAX: usize = 1000;
/// Keys that an error names.
const NAMED_MAX: usize = 12;
/// As in a file.
const NAME_BYTES_MAX: usize = 4096;

/// The sources of experiments, read with their edits.
struct EditedSources {
    ids: Vec<ExperimentId>,
    sources: SourceReadings,
    notes: Vec<String>,
}

impl Man {
    /// Sets overrides of the picked experiments, or makes a copy of one with them.
    pub(crate) async fn edit(&self, request: v1::EditRequest) -> Result<v1::EditReply, Failure> {
        check(&request)?;
        let selection = self.selection(request.selection.clone(), "").await?;
        let (state, at) = (self.ledger.state(), self.clock.moment());
        let mut pending = PendingEdits {
            of: HashSet::new(),
            set: assignments(&request.set),
            unset: request.unset.clone(),
            copy: Some(request.copy_as.clone()).filter(|name| !name.is_empty()),
        };
        let copy = pending.copy.clone();
        let config = self.home.config.clone();
        let prepared = blocking(move || {
            let (ids, picked) = selection.experiments(&state)?;
            pending.of = ids.iter().copied().collect();
            check_unset(&state, &pending)?;
            let sources = to_read(&state, &ids, pending.copy.is_some())?;
            let reads = sources::read_pending(&state, &sources, &config, &pending)?;
            if let Some(id) = pending.missed(&reads) {
                return Err(without_source(id));
            }
            Ok::<_, Failure>(EditedSources {
                ids,
                sources: SourceReadings::of(&state, reads, at),
                notes: picked.notes,
            })
        })
        .await??;
        self.decided(&request.head(), move |state, _| {
            if let Some(name) = &copy {
                is_free(state, &prepared.ids, name)?;
            }
            let (work, merged) = prepared.sources.prospect(state)?;
            let answer = reply(&work, &prepared, &merged, copy.is_some());
            let mut changes = merged.changes;
            if copy.is_some() {
                let new = answer.experiments.iter();
                changes.push(ledger::last(new.map(|one| ExperimentId(one.experiment))));
            }
            Ok(Decision { answer, changes })
        })
        .await
    }
}

/// Keys and values as they were typed.
pub(crate) fn assignments(set: &[v1::Assignment]) -> Vec<(String, String)> {
    let set = set.iter();
    set.map(|one| (one.key.clone(), one.text.clone())).collect()
}

/// The values that the picked experiments get before they are started.
pub(crate) fn pending(
    set: &[(String, String)],
    selection: &Selection,
    state: &State,
) -> Result<PendingEdits, Failure> {
    if set.is_empty() {
        return Ok(PendingEdits::default());
    }
    Ok(PendingEdits {
        of: selection.experiments(state)?.0.into_iter().collect(),
        set: set.to_vec(),
        ..PendingEdits::default()
    })
}

fn check(request: &v1::EditRequest) -> Result<(), Failure> {
    let name = &request.copy_as;
    if name.len() > NAME_BYTES_MAX || name.contains('\0') {
        return Err(Failure::usage(
            "the name of the copy is too long or holds a NUL",
        ));
    }
    if request.set.len() > SET_MAX {
        return Err(Failure::usage(format!("more than {SET_MAX} values")));
    }
    Ok(())
}

/// Refuses to unset what no picked experiment has set.
fn check_unset(state: &State, pending: &PendingEdits) -> Result<(), Failure> {
    if pending.of.is_empty() {
        return Ok(());
    }
    let Some((key, stored)) = pending.unset_in_vain(state) else {
        return Ok(());
    };
    let short = |key| str::strip_prefix(key, "resources.").unwrap_or(key);
    let stored: Vec<&str> = stored.into_iter().map(short).collect();
    let hint = match suggest(key, &stored) {
        Some(near) => format!("did you mean `{near}`?"),
        None if stored.is_empty() => {
            "nothing is set there: all values are those of the source".to_owned()
        }
        None => {
            let shown = &stored[..stored.len().min(NAMED_MAX)];
            format!("what is set there is {}", shown.join(", "))
        }
    };
    let what = match pending.of.iter().collect::<Vec<_>>()[..] {
        [id] => format!("{} is not set in {id}", quoted(key)),
        _ => format!("{} is set in none of these experiments", quoted(key)),
    };
    Err(Failure::usage(what).hint(hint))
}

/// The sources of the picked experiments.
fn to_read(
    state: &State,
    ids: &[ExperimentId],
    is_copy: bool,
) -> Result<Vec<SourceToRead>, Failure> {
    if is_copy && ids.len() != 1 {
        let what = format!("{} experiments are picked, and one is copied", ids.len());
        return Err(Failure::usage(what).hint("name one: `neroman copy 144 NAME`"));
    }
    let origins = sources::origins_of(state, ids);
    let known: HashSet<u64> = origins.iter().map(|origin| origin.id).collect();
    let lost = ids.iter().find(|id| {
        let source = state.experiment(**id).map(|one| one.source);
        source.is_none_or(|source| !known.contains(&source))
    });
    if let Some(id) = lost {
        return Err(without_source(*id));
    }
    let paths: Vec<_> = origins.iter().map(|one| one.source.path.clone()).collect();
    Ok(SourceToRead::all_again(state, &paths))
}

/// The error for an experiment that no source describes.
pub(crate) fn without_source(id: ExperimentId) -> Failure {
    Failure::usage(format!("{id} is not in its source any more"))
        .hint("values are set over those of a source: first `neroman add` it again")
}

/// Refuses a name that another experiment of the collection has.
fn is_free(state: &State, ids: &[ExperimentId], name: &str) -> Result<(), Failure> {
    let collection = ids.first().and_then(|id| state.experiment(*id));
    let collection = collection.map_or("", |one| one.definition.collection());
    match state
        .named(name)
        .find(|one| one.definition.collection() == collection)
    {
        None => Ok(()),
        Some(other) => {
            let id = other.id;
            let what = format!("{} is the name of {id} already", quoted(name));
            Err(Failure::usage(what).hint("take another name for the copy"))
        }
    }
}

fn reply(
    state: &State,
    prepared: &EditedSources,
    merged: &MergeOutcome,
    is_copy: bool,
) -> v1::EditReply {
    let is_asked = |id: ExperimentId| {
        if is_copy {
            let one = state.experiment(id);
            let of = one.and_then(|one| one.by_hand.copy_of);
            of.is_some()
                && merged
                    .seen
                    .iter()
                    .any(|seen| seen.id == id && seen.what == add::DiffKind::Added)
        } else {
            prepared.ids.contains(&id)
        }
    };
    let mut notes = prepared.notes.clone();
    let others = MergeOutcome {
        seen: merged
            .seen
            .iter()
            .filter(|seen| !is_asked(seen.id))
            .cloned()
            .collect(),
        notes: merged.notes.clone(),
        ..MergeOutcome::default()
    };
    notes.extend(others.lines());
    let experiments = merged.seen.iter().filter(|seen| is_asked(seen.id));
    let one = |seen: &add::ExperimentDiff| One {
        experiment: seen.id.0,
        name: seen.name.clone(),
        changes: seen.changes.clone(),
        overrides: state
            .experiment(seen.id)
            .map(|one| crate::service::views::view::overrides(one))
            .unwrap_or_default(),
    };
    v1::EditReply {
        experiments: experiments.map(one).collect(),
        notes,
    }
}
