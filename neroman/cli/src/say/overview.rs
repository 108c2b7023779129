//! The overview of `status` when a table would be longer than the screen:
//! counts by state and node, what needs a person, what runs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use nero_model::safe::Safe;
use nero_views::columns::telling;
use nero_views::text;
use nero_wire::v1::{BatchView, ExperimentView};

use super::experiments::{counts, held, hints, warnings};
use super::table::{self, Cell};
use super::{Screen, experiments};

/// States in the order of a life, for the table of counts.
const STATES: &[&str] = &[
    "defined",
    "queued",
    "staging",
    "submitted",
    "pending",
    "paused",
    "running",
    "ending",
    "finished",
    "crashed",
    "timeout",
    "aborted",
    "lost",
];

/// States that a person should look at.
const NEEDS: &[&str] = &["crashed", "timeout", "lost"];

/// At least so many running experiments are shown, however small the screen.
const RUNNING_MIN: usize = 5;

/// At most so many kinds of failure are shown, the commonest first.
const NEEDS_MAX: usize = 10;

/// Ids that take more characters than this are cut.
const IDS_MAX: usize = 120;

/// At most so many reasons of waiting runs are shown, the commonest first.
const WAITS_MAX: usize = 5;

/// The whole overview.
pub fn as_text(screen: &Screen, views: &[ExperimentView], batches: &[BatchView]) -> String {
    let mut text = format!(
        "{}: {}\n",
        text::plural(views.len(), "experiment"),
        counts(screen, views)
    );
    text.push_str(&experiments::outlooks(batches));
    text.push_str(&by_node(screen, views));
    text.push_str(&needs(screen, views));
    text.push_str(&waits(views));
    let room = usize::from(screen.height)
        .saturating_sub(text.lines().count() + 5)
        .max(RUNNING_MIN);
    text.push_str(&runs(screen, views, room));
    text
}

fn by_node(screen: &Screen, views: &[ExperimentView]) -> String {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for view in views {
        *counts.entry((&view.node, &view.state)).or_default() += 1;
    }
    let nodes = text::count(views.iter().map(|view| view.node.as_str()));
    if nodes.len() < 2 {
        return String::new();
    }
    let is_there = |state: &&str| counts.keys().any(|(_, there)| there == state);
    let there: Vec<&str> = STATES.iter().copied().filter(is_there).collect();
    let mut header = vec!["node".to_owned()];
    header.extend(there.iter().map(|state| (*state).to_owned()));
    let rows: Vec<Vec<Cell>> = nodes
        .iter()
        .map(|(_, node)| {
            let mut row = vec![Cell::text(if node.is_empty() { "-" } else { node })];
            let cells = there
                .iter()
                .map(|state| counts.get(&(node.as_str(), *state)));
            row.extend(
                cells.map(|count| Cell::right(&count.map_or_else(String::new, usize::to_string))),
            );
            row
        })
        .collect();
    format!("\n{}", table::print(screen, &header, &rows).0)
}

/// Failures that need a person. Equal ones are one line with a count, also where what they
/// printed last differs in figures alone: it has the words of the first.
fn needs(screen: &Screen, views: &[ExperimentView]) -> String {
    let mut all = Vec::new();
    for view in views {
        if NEEDS.contains(&view.state.as_str()) {
            let kind = format!("{}\n{}", view.reason, without_figures(&view.stderr_line));
            let why = text::why(&view.state, &view.reason, &view.stderr_line);
            all.push(((view.state.as_str(), kind), why, view.id));
        }
        if !view.cancel.is_empty() {
            all.push((("asked", view.cancel.clone()), view.cancel.clone(), view.id));
        }
        for why in &view.not_built {
            all.push((("not built", why.clone()), why.clone(), view.id));
        }
    }
    let (groups, left_out) = commonest(grouped(all), NEEDS_MAX);
    let mut lines: Vec<String> = groups
        .iter()
        .map(|((state, _), why, ids)| {
            let why = if why.is_empty() {
                String::new()
            } else {
                format!(" {}", Safe::line(why))
            };
            format!(
                "  {} {}{why}: {}",
                ids.len(),
                table::painted(screen, state),
                first_ids(ids)
            )
        })
        .collect();
    if left_out > 0 {
        lines.push(format!(
            "  … and {left_out} more kinds of failure: neroman status failed"
        ));
    }
    lines.extend(held(views).iter().map(|line| format!("  {line}")));
    lines.extend(warnings(views).iter().map(|(ids, warning)| {
        format!(
            "  {} warned {}: {}",
            ids.len(),
            Safe::line(warning),
            first_ids(ids)
        )
    }));
    lines.extend(
        hints(views)
            .iter()
            .map(|(ids, hint)| format!("  hint for {}: {}", first_ids(ids), Safe::line(hint))),
    );
    if lines.is_empty() {
        return String::new();
    }
    format!("\nneeds you\n{}\n", lines.join("\n"))
}

/// Reasons for which runs wait without a person being needed. Reasons that differ in
/// figures alone are one line, with the words of the first.
fn waits(views: &[ExperimentView]) -> String {
    let waiting = views
        .iter()
        .filter(|view| !view.waiting_for.is_empty() && view.held.is_empty())
        .filter(|view| view.state != "paused");
    let all = waiting.map(|view| {
        let why = view.waiting_for.as_str();
        (without_figures(why), why, view.id)
    });
    let mut groups = grouped(all);
    groups.sort_by_key(|(_, _, ids)| Reverse(ids.len()));
    let (groups, left_out) = commonest(groups, WAITS_MAX);
    let mut lines: Vec<String> = groups
        .iter()
        .map(|(_, why, ids)| format!("  {} {}: {}", ids.len(), Safe::line(why), first_ids(ids)))
        .collect();
    if left_out > 0 {
        lines.push(format!("  … and {left_out} more reasons"));
    }
    if lines.is_empty() {
        return String::new();
    }
    format!("\nwaiting\n{}\n", lines.join("\n"))
}

fn without_figures(text: &str) -> String {
    text.replace(|c: char| c.is_ascii_digit() || c == '_', "")
}

/// Experiments of the same key, with the words of the first; keys in the order in which they
/// first come.
fn grouped<K: Clone + Eq + Hash, W>(
    all: impl IntoIterator<Item = (K, W, u64)>,
) -> Vec<(K, W, Vec<u64>)> {
    let (mut places, mut groups) = (HashMap::new(), Vec::new());
    for (key, words, id) in all {
        let place = *places.entry(key.clone()).or_insert(groups.len());
        if place == groups.len() {
            groups.push((key, words, Vec::new()));
        }
        groups[place].2.push(id);
    }
    groups
}

/// All groups, if they are few; else the largest, and how many are left out.
fn commonest<K, W>(
    mut groups: Vec<(K, W, Vec<u64>)>,
    most: usize,
) -> (Vec<(K, W, Vec<u64>)>, usize) {
    let left_out = groups.len().saturating_sub(most);
    if left_out > 0 {
        groups.sort_by_key(|(_, _, ids)| Reverse(ids.len()));
        groups.truncate(most);
    }
    (groups, left_out)
}

/// Ids as they are typed; the first of those that would fill several lines.
fn first_ids(ids: &[u64]) -> String {
    let all = text::ids(ids);
    match all.char_indices().nth(IDS_MAX) {
        Some((at, _)) => {
            let first = all[..at].rfind(',').map_or("", |comma| &all[..comma]);
            format!("{first} …")
        }
        None => all,
    }
}

fn runs(screen: &Screen, views: &[ExperimentView], room: usize) -> String {
    let running: Vec<ExperimentView> = views
        .iter()
        .filter(|view| ["running", "ending"].contains(&view.state.as_str()))
        .cloned()
        .collect();
    if running.is_empty() {
        return String::new();
    }
    let shown = &running[..running.len().min(room)];
    let chosen = telling(shown);
    let mut text = format!("\nrunning\n{}", experiments::print(screen, &chosen, shown));
    if running.len() > shown.len() {
        text.push_str(&format!(
            "… and {} more: neroman status running\n",
            running.len() - shown.len()
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crashed(id: u64, line: &str) -> ExperimentView {
        ExperimentView {
            id,
            name: format!("e{id}"),
            state: "crashed".into(),
            reason: "exit code 1".into(),
            stderr_line: line.into(),
            ..ExperimentView::default()
        }
    }

    #[test]
    fn failures_that_differ_in_figures_alone_are_one_line_and_many_kinds_are_cut() {
        let screen = Screen::terminal(80, 24, false);
        let views: Vec<ExperimentView> = (1..=200)
            .map(|id| crashed(id, &format!("OOM: tried to allocate {id} GiB")))
            .collect();
        assert_eq!(
            needs(&screen, &views),
            "\nneeds you\n  200 crashed exit code 1: OOM: tried to allocate 1 GiB: 1-200\n"
        );
        let kind = |id: u64| "x".repeat(1 + id as usize / 2 % 40);
        let views: Vec<ExperimentView> = (1..=2000).map(|id| crashed(id, &kind(id))).collect();
        let shown = needs(&screen, &views);
        assert_eq!(shown.lines().count(), 13, "{shown}");
        assert!(shown.contains("  … and 30 more kinds of failure: neroman status failed\n"));
        assert!(shown.lines().all(|line| line.len() < 250), "{shown}");
    }

    #[test]
    fn a_hundred_thousand_different_failures_are_told_at_once() {
        let screen = Screen::terminal(80, 24, false);
        let views: Vec<ExperimentView> = (1..=100_000)
            .map(|id| {
                let letters: String = id.to_string().bytes().map(|b| char::from(b + 50)).collect();
                crashed(id, &letters)
            })
            .collect();
        // A look at every kind for every experiment would take minutes.
        let shown = as_text(&screen, &views, &[]);
        assert!(shown.contains("and 99990 more kinds of failure"), "{shown}");
    }
}
