//! The overview of `status` when a table would be longer than the screen:
//! counts by state and node, what needs a person, what runs.

use nero_model::safe::Safe;
use nero_views::columns::telling;
use nero_views::text;
use nero_views::totals::count;
use nero_wire::v1::{BatchView, ExperimentView, IdGroup, Totals};

use super::experiments::counts;
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

/// States of what is shown as running.
const RUNNING: &[&str] = &["running", "ending"];

/// The order of a list that begins with what runs.
pub const RUNNING_FIRST: &str = "-(state == 'running' || state == 'ending')";

/// At least so many running experiments are shown, however small the screen.
const RUNNING_MIN: usize = 5;

/// Ids that take more characters than this are cut.
const IDS_MAX: usize = 120;

/// The whole overview. Of `views` those that run are shown.
pub fn as_text(
    screen: &Screen,
    totals: &Totals,
    batches: &[BatchView],
    views: &[ExperimentView],
) -> String {
    let experiments = text::plural(totals.experiments, "experiment");
    let mut text = format!("{experiments}: {}\n", counts(screen, totals));
    text.push_str(&experiments::outlooks(batches));
    text.push_str(&by_node(screen, totals));
    text.push_str(&needs(screen, totals));
    text.push_str(&waits(totals));
    let room = usize::from(screen.height)
        .saturating_sub(text.lines().count() + 5)
        .max(RUNNING_MIN);
    text.push_str(&runs(screen, totals, views, room));
    text
}

fn by_node(screen: &Screen, totals: &Totals) -> String {
    if totals.nodes.len() < 2 {
        return String::new();
    }
    let is_there = |state: &&str| count(totals, &[*state]) > 0;
    let there: Vec<&str> = STATES.iter().copied().filter(is_there).collect();
    let mut header = vec!["node".to_owned()];
    header.extend(there.iter().map(|state| (*state).to_owned()));
    let row = |node: &nero_wire::v1::totals::Node| {
        let name = if node.node.is_empty() {
            "-"
        } else {
            &node.node
        };
        let mut row = vec![Cell::text(name)];
        row.extend(there.iter().map(|state| {
            let count = node.states.iter().find(|one| one.state == *state);
            Cell::right(&count.map_or_else(String::new, |one| one.count.to_string()))
        }));
        row
    };
    let rows: Vec<Vec<Cell>> = totals.nodes.iter().map(row).collect();
    format!("\n{}", table::print(screen, &header, &rows).0)
}

/// What needs a person, a line for each kind.
fn needs(screen: &Screen, totals: &Totals) -> String {
    let mut lines: Vec<String> = Vec::new();
    for group in &totals.needs {
        let why = match group.text.as_str() {
            "" => String::new(),
            why => format!(" {}", Safe::line(why)),
        };
        let (count, ids) = (group.count, first_ids(group));
        let state = table::painted(screen, &group.state);
        lines.push(format!("{count} {state}{why}: {ids}"));
    }
    if totals.more_needs > 0 {
        let more = totals.more_needs;
        lines.push(format!(
            "… and {more} more kinds of failure: neroman status failed"
        ));
    }
    lines.extend(totals.held.iter().map(|line| Safe::line(line).to_string()));
    lines.extend(totals.warnings.iter().map(|group| {
        let what = Safe::line(&group.text);
        format!("{} warned {what}: {}", group.count, first_ids(group))
    }));
    lines.extend(totals.hints.iter().map(|group| {
        let hint = Safe::line(&group.text);
        format!("hint for {}: {hint}", first_ids(group))
    }));
    section("needs you", &lines)
}

/// Why runs wait, a line for each reason.
fn waits(totals: &Totals) -> String {
    let line = |group: &IdGroup| {
        let why = Safe::line(&group.text);
        format!("{} {why}: {}", group.count, first_ids(group))
    };
    let mut lines: Vec<String> = totals.waits.iter().map(line).collect();
    if totals.more_waits > 0 {
        lines.push(format!("… and {} more reasons", totals.more_waits));
    }
    section("waiting", &lines)
}

fn section(title: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    format!("\n{title}\n  {}\n", lines.join("\n  "))
}

/// Ids as they are typed; the first of those that would fill several lines.
fn first_ids(group: &IdGroup) -> String {
    let all = &group.ids;
    match all.char_indices().nth(IDS_MAX) {
        Some((at, _)) => {
            let first = all[..at].rfind(',').map_or("", |comma| &all[..comma]);
            format!("{first} …")
        }
        None => all.clone(),
    }
}

fn runs(screen: &Screen, totals: &Totals, views: &[ExperimentView], room: usize) -> String {
    let running = views
        .iter()
        .filter(|view| RUNNING.contains(&view.state.as_str()));
    let shown: Vec<ExperimentView> = running.take(room).cloned().collect();
    if shown.is_empty() {
        return String::new();
    }
    let chosen = telling(&shown);
    let mut text = format!("\nrunning\n{}", experiments::print(screen, &chosen, &shown));
    let left_out = count(totals, RUNNING).saturating_sub(shown.len() as u64);
    if left_out > 0 {
        text.push_str(&format!("… and {left_out} more: neroman status running\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use nero_views::totals;

    use super::*;

    #[test]
    fn equal_failures_are_one_line_and_many_kinds_are_cut() {
        let screen = Screen::terminal(80, 24, false);
        let crashed = |id: u64, line: String| ExperimentView {
            id,
            state: "crashed".into(),
            reason: "exit code 1".into(),
            stderr_line: line,
            ..ExperimentView::default()
        };
        let views = (1..=200).map(|id| crashed(id, format!("OOM: tried to allocate {id} GiB")));
        let views: Vec<ExperimentView> = views.collect();
        assert_eq!(
            needs(&screen, &totals::of(&views)),
            "\nneeds you\n  200 crashed exit code 1: OOM: tried to allocate 1 GiB: 1-200\n"
        );
        let views = (1..=2000).map(|id| crashed(id, "x".repeat(1 + id as usize / 2 % 40)));
        let views: Vec<ExperimentView> = views.collect();
        let shown = needs(&screen, &totals::of(&views));
        assert_eq!(shown.lines().count(), 13, "{shown}");
        assert!(shown.contains("  … and 30 more kinds of failure: neroman status failed\n"));
        assert!(shown.lines().all(|line| line.len() < 250), "{shown}");
    }
}
