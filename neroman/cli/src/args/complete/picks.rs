//! Words that pick experiments. The daemon is asked for them where one runs;
//! none is started, and one that does not answer soon is not waited for.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::time::Duration;

use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};
use nero_expr::{State, is_name_char};
use nero_model::Home;
use nero_wire::v1::{
    ExperimentView, ListReply, ListRequest, RemoveReply, RemoveRequest, Selection,
};

use super::{Explained, fitting};
use crate::connect::{Client, Program};
use crate::session::request;

/// A person who pressed a key waits no longer.
const PATIENCE: Duration = Duration::from_millis(800);
/// More experiments than this are not looked at for one key.
const LOOKED_AT_MAX: usize = 5000;
/// More than this are no help.
const WORDS_MAX: usize = 200;

/// Completes a selector.
pub fn picked() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| last_element(begun, Vec::new()))
}

/// Completes a selector of `rm`, after `--undo` what was removed.
pub fn picked_or_removed() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let is_undo = std::env::args().any(|word| word == "--undo");
        last_of(begun, Vec::new(), is_undo)
    })
}

/// Completes a selector or a path.
pub fn picked_or_path() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let picked = last_element(begun, Vec::new());
        match picked.is_empty() {
            true => PathCompleter::any().complete(begun),
            false => picked,
        }
    })
}

/// Completes the last of the elements that commas join; `others` are words
/// that stand alone.
pub fn last_element(begun: &OsStr, others: Vec<Explained>) -> Vec<CompletionCandidate> {
    last_of(begun, others, false)
}

fn last_of(begun: &OsStr, others: Vec<Explained>, removed: bool) -> Vec<CompletionCandidate> {
    let Some(text) = begun.to_str() else {
        return Vec::new();
    };
    let (before, last) = match text.rsplit_once(',') {
        Some((before, last)) => (format!("{before},"), last),
        None => (String::new(), text),
    };
    let alone = others.into_iter().filter(|_| before.is_empty());
    let states = State::words()
        .chain(["all", "last"])
        .map(|word| (word.to_owned(), String::new()));
    let words: Vec<Explained> = alone
        .chain(states)
        .chain(experiments(last, removed))
        .collect();
    let words = words.into_iter().filter(|(word, _)| word.starts_with(last));
    let whole = words.take(WORDS_MAX);
    fitting(
        begun,
        whole.map(|(word, about)| (format!("{before}{word}"), about)),
    )
}

/// Numbers, names and collections of the experiments that this may begin; of removed
/// ones with `removed`.
fn experiments(begun: &str, removed: bool) -> Vec<Explained> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        return Vec::new();
    };
    let asking = async { tokio::time::timeout(PATIENCE, ask(begun, removed)).await };
    let views = runtime.block_on(asking).ok().flatten().unwrap_or_default();
    words(begun, &views)
}

/// None where no daemon runs, or it does not answer.
async fn ask(begun: &str, removed: bool) -> Option<Vec<ExperimentView>> {
    let (home, program) = (Home::find().ok()?, Program::own().ok()?);
    let mut client = Client::connect_only(&home, &program).await.ok()??;
    if removed {
        return ask_removed(&mut client).await;
    }
    if !client.lists_in_parts() {
        return None;
    }
    let is_name = begun.starts_with(char::is_alphabetic) && begun.chars().all(is_name_char);
    // Only those are sent that begin so; where none does, a collection may.
    let texts = match is_name {
        true => [format!("{begun}*"), "all".to_owned()].to_vec(),
        false => vec!["all".to_owned()],
    };
    let mut views = Vec::new();
    for text in texts {
        let asked = ListRequest {
            selection: Some(Selection {
                text,
                ..Selection::default()
            }),
            ..ListRequest::default()
        };
        // Asked once: a daemon that ends meanwhile is not started again.
        let parts = client.once(asked, async |man, request| man.list_parts(request).await);
        // A glob that fits nothing is refused.
        let Ok(Some(mut parts)) = parts.await else {
            continue;
        };
        while let Ok(Some(ListReply { experiments, .. })) = parts.message().await {
            views.extend(experiments);
            if views.len() > LOOKED_AT_MAX {
                break;
            }
        }
    }
    Some(views)
}

async fn ask_removed(client: &mut Client) -> Option<Vec<ExperimentView>> {
    let asked = RemoveRequest {
        request: request(),
        selection: Some(Selection {
            text: "all".to_owned(),
            ..Selection::default()
        }),
        undo: true,
        dry_run: true,
    };
    let reply = client.once(asked, async |man, request| man.remove(request).await);
    let reply: RemoveReply = reply.await.ok()??;
    let removed = reply.experiments.into_iter().map(|one| ExperimentView {
        id: one.experiment,
        name: one.name,
        state: "removed".to_owned(),
        ..ExperimentView::default()
    });
    Some(removed.collect())
}

fn words(begun: &str, views: &[ExperimentView]) -> Vec<Explained> {
    let mut words = Vec::new();
    let mut seen = BTreeSet::new();
    let mut say = |word: String, about: String| {
        if seen.insert(word.clone()) {
            words.push((word, about));
        }
    };
    for view in views {
        let collection = &view.collection;
        if !collection.is_empty() && is_plain(collection) {
            say(format!("{collection}/"), "a collection".to_owned());
        }
        // `2.` asks for the runs of 2.
        if begun.strip_prefix(&format!("{}.", view.id)).is_some() {
            let run = |run| (format!("{}.{run}", view.id), view.name.clone());
            (1..=view.run)
                .map(run)
                .for_each(|(word, about)| say(word, about));
            continue;
        }
        // Numbers are many: shown once one is begun.
        if begun.starts_with(|c: char| c.is_ascii_digit()) {
            say(
                view.id.to_string(),
                format!("{}, {}", view.name, view.state),
            );
        }
        if is_plain(&view.name) {
            let about = format!("{}, {}", view.id, view.state);
            match begun.contains('/') {
                true => say(format!("{collection}/{}", view.name), about),
                false => say(view.name.clone(), about),
            }
        }
    }
    words
}

/// Whether it means itself, without backticks.
fn is_plain(name: &str) -> bool {
    name.chars().all(is_name_char)
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && State::from_word(name).is_none()
        && !["all", "last"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_numbers_and_collections_are_completed() {
        let view = |id, name: &str| ExperimentView {
            id,
            name: name.into(),
            collection: "lab".into(),
            state: "crashed".into(),
            run: 2,
            ..ExperimentView::default()
        };
        let views = [view(14, "fit_a"), view(15, "odd name"), view(16, "crashed")];
        let shown = |begun: &str| -> Vec<String> {
            let words = words(begun, &views).into_iter();
            let fitting = words.filter(|(word, _)| word.starts_with(begun));
            fitting.map(|(word, _)| word).collect()
        };
        assert_eq!(shown(""), ["lab/", "fit_a"]);
        assert_eq!(shown("1"), ["14", "15", "16"]);
        assert_eq!(shown("lab/f"), ["lab/fit_a"]);
        assert_eq!(shown("14."), ["14.1", "14.2"]);
    }
}
