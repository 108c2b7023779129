//! The table of steps in `docs/design/placement.md`. It sums up the tables that the
//! explorer checks: each stage, each input, and the stages that follow.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

const TABLES: [&str; 2] = [
    include_str!("snapshots/nero_life__tests__reach__one_node.snap"),
    include_str!("snapshots/nero_life__tests__reach__group.snap"),
];
const STAGES: [&str; 8] = [
    "behind", "unplaced", "chosen", "offered", "accepted", "recalled", "begun", "over",
];
const FROM: &str = "<!-- steps: written by a test of nero-life -->\n";
const TO: &str = "<!-- end of steps -->\n";

/// The index of the stage that a printed state is in.
fn stage(state: &str) -> Option<usize> {
    STAGES.iter().position(|stage| state.starts_with(stage))
}

/// Input → stage → stages that follow.
fn steps() -> BTreeMap<&'static str, [BTreeSet<usize>; 8]> {
    let mut steps: BTreeMap<&str, [BTreeSet<usize>; 8]> = BTreeMap::new();
    for table in TABLES {
        let mut from = None;
        for line in table.lines() {
            let Some(step) = line.strip_prefix("    ") else {
                from = stage(line);
                continue;
            };
            let parts = step.split_once(" → ");
            if let (Some(from), Some((input, to))) = (from, parts) {
                let to = stage(to).expect("each state is in a stage");
                steps.entry(input).or_default()[from].insert(to);
            }
        }
    }
    steps
}

fn printed() -> String {
    let mut text = format!("| input | {} |\n", STAGES.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(STAGES.len()));
    for (input, cells) in steps() {
        let cell = |(from, to): (usize, &BTreeSet<usize>)| {
            let name = |next: &usize| if *next == from { "=" } else { STAGES[*next] };
            to.iter().map(name).collect::<Vec<_>>().join(", ")
        };
        let cells: Vec<String> = cells.iter().enumerate().map(cell).collect();
        let _ = writeln!(text, "| {input} | {} |", cells.join(" | "));
    }
    text
}

#[test]
fn the_page_on_placement_has_the_steps_that_runs_take() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/design/placement.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (head, rest) = text.split_once(FROM).expect("the page has the mark");
    let (kept, tail) = rest.split_once(TO).expect("the page has the second mark");
    let printed = format!("\n{}\n", printed());
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&page, format!("{head}{FROM}{printed}{TO}{tail}")).unwrap();
    } else {
        assert!(
            kept == printed,
            "the table of steps in {} is old: run this test with INSTA_UPDATE=always",
            page.display()
        );
    }
}
