//! Who asked for a change. A view that types command lines names itself in its calls; the history
//! tells it.

use std::collections::BTreeSet;

use nero_life::change::Change;
use nero_model::ExperimentId;

tokio::task_local! {
    static AUTHOR: String;
}

/// Does work that this author asked for; empty: a person at a command line.
pub fn scope<W: Future>(author: String, work: W) -> impl Future<Output = W::Output> {
    AUTHOR.scope(author, work)
}

/// The author of the present task's work.
pub(super) fn current() -> String {
    AUTHOR.try_with(Clone::clone).unwrap_or_default()
}

/// Adds the author to the lines of history that these changes make, or such lines.
pub(super) fn credit(changes: &mut Vec<Change>, author: &str, at_ms: i64) {
    if author.is_empty() {
        return;
    }
    let mut credited: BTreeSet<ExperimentId> = BTreeSet::new();
    for change in changes.iter_mut() {
        if let Change::Event {
            experiment, text, ..
        } = change
        {
            text.push_str(&format!(" by {author}"));
            credited.insert(*experiment);
        }
    }
    let mut lines = Vec::new();
    for change in &*changes {
        let (experiment, run, what) = if let Change::Run(new) = change {
            let id = new.made.id;
            (id.experiment, Some(id.number), format!("{id}: asked for"))
        } else if let Change::Experiment(described) = change
            && credited.insert(described.id)
        {
            (described.id, None, "asked for".to_owned())
        } else {
            continue;
        };
        lines.push(Change::Event {
            experiment,
            run,
            at_ms,
            text: format!("{what} by {author}"),
        });
    }
    changes.extend(lines);
}
