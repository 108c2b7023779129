//! `results` as a table for people, and as Markdown.

use nero_model::safe::Safe;
use nero_views::columns::telling;
use nero_views::results::{Groups, Rows, Runs, Stats};
use nero_views::{Column, Fact, text};

use crate::say::Screen;
use crate::say::experiments::cell;
use crate::say::table::{self, Cell};

/// For eyes: columns only where values differ.
pub fn text(screen: &Screen, found: &Rows) -> String {
    let (header, rows) = shown_rows(found);
    let (mut text, left_out) = table::print(screen, &header, &rows);
    text.push_str(&table::no_room(&left_out));
    text.push_str(&format!("{}\n", count(found)));
    text
}

/// A Markdown table.
pub fn md(found: &Rows) -> String {
    let (header, rows) = shown_rows(found);
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(header.iter().map(|name| for_md(name)).collect());
    let right = |at: usize| {
        rows.iter()
            .any(|row| row.get(at).is_some_and(Cell::is_right))
    };
    let rule = (0..header.len()).map(|at| if right(at) { "---:" } else { "---" }.to_owned());
    text.push_str(&line(rule.collect()));
    for row in &rows {
        text.push_str(&line(
            row.iter().map(|cell| for_md(cell.as_text())).collect(),
        ));
    }
    text
}

pub(super) fn shown_rows(found: &Rows) -> (Vec<String>, Vec<Vec<Cell>>) {
    match found {
        Rows::Runs(runs) => shown_runs(runs),
        Rows::Groups(groups) => shown_groups(groups),
    }
}

fn shown_runs(runs: &Runs) -> (Vec<String>, Vec<Vec<Cell>>) {
    let columns = runs.chosen.clone().unwrap_or_else(|| {
        let mut columns = telling(&runs.views);
        // A row is a run; an experiment may have several.
        if !columns.contains(&Column::Fact(Fact::Run)) {
            columns.insert(1, Column::Fact(Fact::Run));
        }
        columns
    });
    let header = columns.iter().map(|column| column.title(&columns));
    let mut header: Vec<String> = header.collect();
    // The best stands beside the name, where no narrow terminal cuts it off.
    let at = 3.min(header.len());
    if let Some(best) = &runs.best {
        header.insert(at, best.title());
    }
    let rows = runs.views.iter().map(|view| {
        let mut row: Vec<Cell> = columns.iter().map(|column| cell(column, view)).collect();
        if let Some(best) = &runs.best {
            let value = best.of(view).map(text::number).unwrap_or_default();
            row.insert(at, Cell::right(&value));
        }
        row
    });
    (header, rows.collect())
}

fn shown_groups(groups: &Groups) -> (Vec<String>, Vec<Vec<Cell>>) {
    let mut header = groups.by.clone();
    header.push("n".into());
    header.extend(groups.metrics.iter().map(|name| groups.title(name)));
    let all_finished = groups.rows.iter().all(|row| row.finished == row.ids.len());
    if !all_finished {
        header.push("finished".into());
    }
    let rows = groups.rows.iter().map(|group| {
        let mut row: Vec<Cell> = group
            .params
            .iter()
            .map(|param| Cell::text(param.as_ref().map_or("", |param| &param.text)))
            .collect();
        row.push(Cell::right(&group.ids.len().to_string()));
        let runs = group.ids.len();
        row.extend(
            group
                .stats
                .iter()
                .map(|stats| Cell::right(&spread(stats, runs))),
        );
        if !all_finished {
            row.push(Cell::whole(group.finished));
        }
        row
    });
    (header, rows.collect())
}

/// `0.31 ± 0.02`, or `0.31 ± 0.02 (n=2)` where some of the runs have no value.
fn spread(stats: &Stats, runs: usize) -> String {
    let few = format!(" (n={})", stats.count).repeat(usize::from(stats.count < runs));
    match (stats.mean, stats.deviation) {
        (None, _) => String::new(),
        (Some(mean), None) => text::number(mean) + &few,
        (Some(mean), Some(deviation)) => text::spread(mean, deviation) + &few,
    }
}

fn count(found: &Rows) -> String {
    match found {
        Rows::Runs(runs) => {
            let counts = text::count(runs.views.iter().map(|view| view.state.as_str()));
            let words = counts
                .iter()
                .map(|(count, word)| format!("{count} {}", Safe::line(word)));
            let runs = text::plural(runs.views.len(), "run");
            format!("{runs}: {}", text::join(words, " · "))
        }
        Rows::Groups(groups) => {
            let runs: usize = groups.rows.iter().map(|row| row.ids.len()).sum();
            let groups = text::plural(groups.rows.len(), "group");
            format!("{} in {groups}", text::plural(runs, "run"))
        }
    }
}

/// Text that neither ends a cell nor starts markup.
fn for_md(text: &str) -> String {
    let mut escaped = String::new();
    for c in Safe::line(text).to_string().chars() {
        if "|\\`*_<>[]".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_of_fewer_runs_than_its_group_has_their_number() {
        let stats = Stats {
            count: 2,
            mean: Some(0.31),
            deviation: Some(0.02),
            best: None,
        };
        assert_eq!(spread(&stats, 2), "0.310 ± 0.020");
        assert_eq!(spread(&stats, 3), "0.310 ± 0.020 (n=2)");
        assert_eq!(spread(&Stats::default(), 3), "");
    }
}
