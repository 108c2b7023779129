//! `Annotate`: what a person says of experiments: a note, tags. Runs are not touched.

use std::collections::BTreeSet;
use std::sync::Arc;

use nero_expr::is_tag;
use nero_wire::v1;
use nero_wire::v1::annotate_reply::One;

use crate::failure::Failure;
use crate::ledger::Decision;
use crate::service::Man;
use crate::service::change::ChangeRequest as _;
use nero_life::change::{Change, Described};
use nero_life::experiment::{Experiment, PersonalMarks, tags_text};
use nero_life::state::State;
use nero_model::ExperimentId;

/// A longer note belongs into a file.
const NOTE_BYTES_MAX: usize = 16 << 10;
/// More tags of one experiment than this are a mistake in a script.
const TAGS_MAX: usize = 100;

impl Man {
    /// Sets the note of the picked experiments, or changes their tags.
    pub(crate) async fn annotate(
        &self,
        request: v1::AnnotateRequest,
    ) -> Result<v1::AnnotateReply, Failure> {
        check(&request)?;
        let (ids, picked) = self.picked(request.selection.clone(), "").await?;
        self.decided(&request.head(), move |state, now_ms| {
            let (experiments, changes) = annotated(state, &ids, &request, now_ms)?;
            Ok(Decision {
                answer: v1::AnnotateReply {
                    experiments,
                    notes: picked.notes,
                },
                changes,
            })
        })
        .await
    }
}

/// Refuses notes and tags that selectors cannot name or pages cannot show.
fn check(request: &v1::AnnotateRequest) -> Result<(), Failure> {
    if let Some(note) = &request.note
        && note.len() > NOTE_BYTES_MAX
    {
        let what = format!("the note has {} bytes", note.len());
        return Err(Failure::usage(what).hint(format!("at most {NOTE_BYTES_MAX} are kept")));
    }
    for tag in request.add_tags.iter().chain(&request.remove_tags) {
        if !is_tag(tag) {
            let what = format!("{} is no tag", nero_model::safe::quoted(tag));
            return Err(Failure::usage(what)
                .hint("a tag has letters, digits and `_ - . /`: `neroman tag 144 +baseline`"));
        }
        if request.add_tags.contains(tag) && request.remove_tags.contains(tag) {
            let what = format!("the tag `{tag}` is added and taken away");
            return Err(Failure::usage(what).hint("name it once"));
        }
    }
    Ok(())
}

fn annotated(
    state: &State,
    ids: &[ExperimentId],
    request: &v1::AnnotateRequest,
    now_ms: i64,
) -> Result<(Vec<One>, Vec<Change>), Failure> {
    let mut ones = Vec::new();
    let mut changes = Vec::new();
    for experiment in ids.iter().filter_map(|id| state.experiment(*id)) {
        let by_hand = with(experiment, request)?;
        let said = differences(&experiment.by_hand, &by_hand);
        let tags = tags_text(&experiment.definition, &by_hand);
        ones.push(One {
            experiment: experiment.id.0,
            name: experiment.definition.name.clone(),
            note: by_hand.note.clone(),
            tags: tags.split_whitespace().map(str::to_owned).collect(),
            changed: !said.is_empty(),
        });
        if said.is_empty() {
            continue;
        }
        changes.push(Change::Experiment(Arc::new(Described {
            by_hand: Arc::new(by_hand),
            ..Described::of(experiment)
        })));
        changes.push(Change::Event {
            experiment: experiment.id,
            run: None,
            at_ms: now_ms,
            text: said.join(", "),
        });
    }
    Ok((ones, changes))
}

/// What a person will have typed about an experiment.
fn with(experiment: &Experiment, request: &v1::AnnotateRequest) -> Result<PersonalMarks, Failure> {
    let mut by_hand = (*experiment.by_hand).clone();
    if let Some(note) = &request.note {
        note.trim().clone_into(&mut by_hand.note);
    }
    let of_file = &experiment.definition.tags;
    if let Some(tag) = request.remove_tags.iter().find(|tag| of_file.contains(tag)) {
        let what = format!("the tag `{tag}` of {} stands in its file", experiment.id);
        let place = &experiment.definition.place;
        return Err(Failure::usage(what).hint(format!("take it out of `tags:` in {place}")));
    }
    let mut tags: BTreeSet<String> = by_hand.tags.drain(..).collect();
    let added = request.add_tags.iter().filter(|tag| !of_file.contains(tag));
    tags.extend(added.cloned());
    tags.retain(|tag| !request.remove_tags.contains(tag));
    if tags.len() > TAGS_MAX {
        let what = format!("{} would have {} tags", experiment.id, tags.len());
        return Err(Failure::usage(what).hint(format!("at most {TAGS_MAX} are kept")));
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
