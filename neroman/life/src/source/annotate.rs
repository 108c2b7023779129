//! What a person says of experiments: a note, tags. Runs are not touched.

use std::collections::BTreeSet;
use std::sync::Arc;

use nero_expr::is_tag;
use nero_format::EditMistake;
use nero_model::ExperimentId;
use nero_model::safe::quoted;

use crate::fold::change::{Change, ExperimentRecord};
use crate::fold::experiment::{Experiment, PersonalMarks, tags_text};
use crate::fold::state::State;

/// A longer note belongs into a file.
const NOTE_BYTES_MAX: usize = 16 << 10;
/// More tags of one experiment than this are a mistake in a script.
const TAGS_MAX: usize = 100;

/// What is to be said of experiments.
#[derive(Clone, Debug, Default)]
pub struct Annotation {
    /// None: the note stays; empty: it is taken away.
    pub note: Option<String>,
    pub add_tags: Vec<String>,
    pub remove_tags: Vec<String>,
}

/// An experiment, as it is annotated then.
#[derive(Clone, Debug)]
pub struct AnnotatedExperiment {
    pub experiment: ExperimentId,
    pub name: String,
    pub note: String,
    /// Separated by blanks.
    pub tags: String,
    pub is_changed: bool,
}

/// Refuses notes and tags that selectors cannot name or pages cannot show.
///
/// # Errors
/// What is wrong, and what to type.
pub fn check(annotation: &Annotation) -> Result<(), EditMistake> {
    if let Some(note) = &annotation.note
        && note.len() > NOTE_BYTES_MAX
    {
        let message = format!("the note has {} bytes", note.len());
        let hint = format!("at most {NOTE_BYTES_MAX} are kept");
        return Err(EditMistake { message, hint });
    }
    for tag in annotation.add_tags.iter().chain(&annotation.remove_tags) {
        if !is_tag(tag) {
            let message = format!("{} is no tag", quoted(tag));
            let hint = "a tag has letters, digits and `_ - . /`: `neroman tag 144 +baseline`";
            return Err(EditMistake::new(message, hint));
        }
        if annotation.add_tags.contains(tag) && annotation.remove_tags.contains(tag) {
            let message = format!("the tag `{tag}` is added and taken away");
            return Err(EditMistake::new(message, "name it once"));
        }
    }
    Ok(())
}

/// Sets the note of the experiments, or changes their tags. Returns how each stands then.
///
/// # Errors
/// A tag stands in a file, or there are too many.
pub fn annotate(
    state: &State,
    ids: &[ExperimentId],
    annotation: &Annotation,
    now_ms: i64,
) -> Result<(Vec<AnnotatedExperiment>, Vec<Change>), EditMistake> {
    let mut annotated = Vec::new();
    let mut changes = Vec::new();
    for experiment in ids.iter().filter_map(|id| state.experiment(*id)) {
        let by_hand = with(experiment, annotation)?;
        let said = differences(&experiment.by_hand, &by_hand);
        let tags = tags_text(&experiment.definition, &by_hand);
        annotated.push(AnnotatedExperiment {
            experiment: experiment.id,
            name: experiment.definition.name.clone(),
            note: by_hand.note.clone(),
            tags: tags.to_string(),
            is_changed: !said.is_empty(),
        });
        if said.is_empty() {
            continue;
        }
        changes.push(Change::Experiment(Arc::new(ExperimentRecord {
            by_hand: Arc::new(by_hand),
            ..ExperimentRecord::of(experiment)
        })));
        changes.push(Change::Event {
            experiment: experiment.id,
            run: None,
            at_ms: now_ms,
            text: said.join(", "),
        });
    }
    Ok((annotated, changes))
}

/// What a person will have typed about an experiment.
fn with(experiment: &Experiment, annotation: &Annotation) -> Result<PersonalMarks, EditMistake> {
    let mut by_hand = (*experiment.by_hand).clone();
    if let Some(note) = &annotation.note {
        note.trim().clone_into(&mut by_hand.note);
    }
    let of_file = &experiment.definition.tags;
    let mut removed = annotation.remove_tags.iter();
    if let Some(tag) = removed.find(|tag| of_file.contains(tag)) {
        let message = format!("the tag `{tag}` of {} stands in its file", experiment.id);
        let place = &experiment.definition.place;
        let hint = format!("take it out of `tags:` in {place}");
        return Err(EditMistake { message, hint });
    }
    let mut tags: BTreeSet<String> = by_hand.tags.drain(..).collect();
    let added = annotation.add_tags.iter();
    let added = added.filter(|tag| !of_file.contains(tag));
    tags.extend(added.cloned());
    tags.retain(|tag| !annotation.remove_tags.contains(tag));
    if tags.len() > TAGS_MAX {
        let message = format!("{} would have {} tags", experiment.id, tags.len());
        let hint = format!("at most {TAGS_MAX} are kept");
        return Err(EditMistake { message, hint });
    }
    by_hand.tags = tags.into_iter().collect();
    Ok(by_hand)
}

/// The changes as the history has them.
fn differences(old: &PersonalMarks, new: &PersonalMarks) -> Vec<String> {
    let mut said = Vec::new();
    if old.note != new.note {
        said.push(match new.note.as_str() {
            "" => "note removed".to_owned(),
            note => format!("note: {note}"),
        });
    }
    let gained = new.tags.iter().filter(|tag| !old.tags.contains(tag));
    let lost = old.tags.iter().filter(|tag| !new.tags.contains(tag));
    let gained = gained.map(|tag| format!("+{tag}"));
    let signed: Vec<String> = gained.chain(lost.map(|tag| format!("-{tag}"))).collect();
    if !signed.is_empty() {
        said.push(format!("tags {}", signed.join(" ")));
    }
    said
}
