//! The overview of `status` when a table would be longer than the screen:
//! counts by state and node, what needs a person, what runs.

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
    let nodes = text::count(views.iter().map(|view| view.node.as_str()));
    if nodes.len() < 2 {
        return String::new();
    }
    let there: Vec<&str> = STATES
        .iter()
        .copied()
        .filter(|state| views.iter().any(|view| view.state == *state))
        .collect();
    let mut header = vec!["node".to_owned()];
    header.extend(there.iter().map(|state| (*state).to_owned()));
    let rows: Vec<Vec<Cell>> = nodes
        .iter()
        .map(|(_, node)| {
            let mut row = vec![Cell::text(if node.is_empty() { "-" } else { node })];
            row.extend(there.iter().map(|state| {
                let count = views
                    .iter()
                    .filter(|view| view.node == *node && view.state == *state)
                    .count();
                Cell::right(&if count == 0 {
                    String::new()
                } else {
                    count.to_string()
                })
            }));
            row
        })
        .collect();
    format!("\n{}", table::print(screen, &header, &rows).0)
}

/// Failures that need a person; equal ones are one line with a count.
fn needs(screen: &Screen, views: &[ExperimentView]) -> String {
    let mut groups: Vec<(&str, String, Vec<u64>)> = Vec::new();
    let mut note = |state, why: &str, id| match groups
        .iter_mut()
        .find(|(known, reason, _)| *known == state && reason == why)
    {
        Some((_, _, ids)) => ids.push(id),
        None => groups.push((state, why.to_owned(), vec![id])),
    };
    for view in views {
        if NEEDS.contains(&view.state.as_str()) {
            let why = text::why(&view.state, &view.reason, &view.stderr_line);
            note(view.state.as_str(), &why, view.id);
        }
        if !view.cancel.is_empty() {
            note("asked", &view.cancel, view.id);
        }
        for why in &view.not_built {
            note("not built", why, view.id);
        }
    }
    let mut lines: Vec<String> = groups
        .iter()
        .map(|(state, why, ids)| {
            let why = if why.is_empty() {
                String::new()
            } else {
                format!(" {}", Safe::line(why))
            };
            format!(
                "  {} {}{why}: {}",
                ids.len(),
                table::painted(screen, state),
                text::ids(ids)
            )
        })
        .collect();
    lines.extend(held(views).iter().map(|line| format!("  {line}")));
    lines.extend(warnings(views).iter().map(|(ids, warning)| {
        format!(
            "  {} warned {}: {}",
            ids.len(),
            Safe::line(warning),
            text::ids(ids)
        )
    }));
    lines.extend(
        hints(views)
            .iter()
            .map(|(ids, hint)| format!("  hint for {}: {}", text::ids(ids), Safe::line(hint))),
    );
    if lines.is_empty() {
        return String::new();
    }
    format!("\nneeds you\n{}\n", lines.join("\n"))
}

/// Reasons for which runs wait without a person being needed. Reasons that differ in
/// figures alone are one line, with the words of the first.
fn waits(views: &[ExperimentView]) -> String {
    let mut groups: Vec<(String, &str, Vec<u64>)> = Vec::new();
    let waiting = views
        .iter()
        .filter(|view| !view.waiting_for.is_empty() && view.held.is_empty())
        .filter(|view| view.state != "paused");
    for view in waiting {
        let is_figure = |c: char| c.is_ascii_digit() || c == '_';
        let kind = view.waiting_for.replace(is_figure, "");
        match groups.iter_mut().find(|(known, _, _)| *known == kind) {
            Some((_, _, ids)) => ids.push(view.id),
            None => groups.push((kind, &view.waiting_for, vec![view.id])),
        }
    }
    groups.sort_by_key(|(_, _, ids)| std::cmp::Reverse(ids.len()));
    let left_out = groups.len().saturating_sub(WAITS_MAX);
    let mut lines: Vec<String> = groups
        .iter()
        .take(WAITS_MAX)
        .map(|(_, why, ids)| format!("  {} {}: {}", ids.len(), Safe::line(why), text::ids(ids)))
        .collect();
    if left_out > 0 {
        lines.push(format!("  … and {left_out} more reasons"));
    }
    if lines.is_empty() {
        return String::new();
    }
    format!("\nwaiting\n{}\n", lines.join("\n"))
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
