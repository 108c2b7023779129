//! What many experiments have in common: how many are in which state and on which node, what needs
//! a person, why runs wait. One experiment is counted after another, so that nobody holds all of
//! them.

use std::cmp::Reverse;
use std::collections::HashMap;

use nero_model::safe::Safe;
use nero_wire::v1::totals::{Node, State};
use nero_wire::v1::{ExperimentView, IdGroup, Totals};

use crate::text;

/// States that a person should look at.
const NEEDS: &[&str] = &["crashed", "timeout", "lost"];

/// At most so many kinds of failure are told, the commonest first.
const NEEDS_MAX: usize = 10;

/// At most so many reasons of waiting runs are told, the commonest first.
const WAITS_MAX: usize = 5;

/// What a person may do about runs that wait for one.
const HELD: [&str; 3] = [
    "resume {ids} goes on, start {ids} makes new runs, ",
    // What its node waits for is told as it is: `resume` changes nothing there.
    "start {ids} makes new runs, ",
    "resume {ids} goes on without, ",
];

/// Counts experiments.
#[derive(Debug, Default)]
pub struct TotalsCounter {
    experiments: u64,
    states: Counts,
    nodes: Vec<(String, Counts)>,
    node_places: HashMap<String, usize>,
    needs: Groups,
    held: [Groups; 3],
    warnings: Groups,
    hints: Groups,
    waits: Groups,
}

impl TotalsCounter {
    /// Counts an experiment. Of its view this reads the state, the node, and what keeps or ended
    /// its run.
    pub fn add(&mut self, view: &ExperimentView) {
        self.experiments += 1;
        self.states.add(&view.state);
        let place = match self.node_places.get(&view.node) {
            Some(place) => *place,
            None => {
                self.nodes.push((view.node.clone(), Counts::default()));
                let place = self.nodes.len() - 1;
                self.node_places.insert(view.node.clone(), place);
                place
            }
        };
        self.nodes[place].1.add(&view.state);
        let (id, state) = (view.id, view.state.as_str());
        if NEEDS.contains(&state) {
            // Equal failures are one, also where what they printed last differs in figures alone.
            let line = without_figures(&view.stderr_line);
            let kind = format!("{state}\n{}\n{line}", view.reason);
            let why = || text::why(state, &view.reason, &view.stderr_line);
            self.needs.add(kind, state, why, id);
        }
        if !view.cancel.is_empty() {
            let kind = format!("asked\n{}", view.cancel);
            self.needs.add(kind, "asked", || view.cancel.clone(), id);
        }
        for why in &view.not_built {
            let kind = format!("not built\n{why}");
            self.needs.add(kind, "not built", || why.clone(), id);
        }
        if !view.held.is_empty() {
            let kind = match (view.held_by_need, view.waiting_for == view.held) {
                (true, _) => 2,
                (false, is_there) => usize::from(is_there),
            };
            let why = match view.need_remedy.as_str() {
                "" => view.held.clone(),
                remedy => format!("{} · {remedy}", view.held),
            };
            self.held[kind].add(why.clone(), "", || why, id);
        } else if !view.waiting_for.is_empty() && state != "paused" {
            // Reasons that differ in figures alone are one, with the words of the first.
            let kind = without_figures(&view.waiting_for);
            self.waits.add(kind, "", || view.waiting_for.clone(), id);
        }
        for (groups, lines) in [
            (&mut self.warnings, &view.warnings),
            (&mut self.hints, &view.hints),
        ] {
            for line in lines {
                groups.add(line.clone(), "", || line.clone(), id);
            }
        }
    }

    /// What was counted.
    pub fn finish(self) -> Totals {
        let (needs, more_needs) = self.needs.commonest(NEEDS_MAX);
        let mut waits = self.waits;
        waits.groups.sort_by_key(|group| Reverse(group.ids.len()));
        let (waits, more_waits) = waits.commonest(WAITS_MAX);
        let nodes = self.nodes.into_iter().map(|(node, states)| Node {
            node,
            states: states.0,
        });
        let of_kinds = self.held.into_iter().zip(HELD);
        let held = of_kinds.flat_map(|(groups, remedy)| {
            let groups = groups.groups.into_iter();
            groups.map(move |group| held_line(&group, remedy))
        });
        Totals {
            experiments: self.experiments,
            states: self.states.0,
            nodes: nodes.collect(),
            needs,
            more_needs,
            held: held.collect(),
            warnings: self.warnings.all(),
            hints: self.hints.all(),
            waits,
            more_waits,
        }
    }
}

/// The totals of these experiments.
pub fn of<'v>(views: impl IntoIterator<Item = &'v ExperimentView>) -> Totals {
    let mut counter = TotalsCounter::default();
    for view in views {
        counter.add(view);
    }
    counter.finish()
}

/// How many experiments are in one of these states.
pub fn count(totals: &Totals, states: &[&str]) -> u64 {
    let counts = totals.states.iter();
    let counts = counts.filter(|one| states.contains(&one.state.as_str()));
    counts.map(|one| one.count).sum()
}

/// Why runs wait until a person acts, and what to type.
fn held_line(group: &EqualTexts, remedy: &str) -> String {
    let (ids, why) = (text::ids(&group.ids), Safe::line(&group.text));
    let remedy = remedy.replace("{ids}", &ids);
    format!("held {ids}: {why} · neroman {remedy}abort {ids} takes them away")
}

fn without_figures(text: &str) -> String {
    text.replace(|c: char| c.is_ascii_digit() || c == '_', "")
}

/// How many experiments are in each state, in the order in which the states first come.
#[derive(Debug, Default)]
struct Counts(Vec<State>);

impl Counts {
    fn add(&mut self, state: &str) {
        match self.0.iter_mut().find(|known| known.state == state) {
            Some(known) => known.count += 1,
            None => self.0.push(State {
                state: state.to_owned(),
                count: 1,
            }),
        }
    }
}

/// Experiments by what is told of them, in the order in which that first comes.
#[derive(Debug, Default)]
struct Groups {
    places: HashMap<String, usize>,
    groups: Vec<EqualTexts>,
}

#[derive(Debug)]
struct EqualTexts {
    state: String,
    text: String,
    ids: Vec<u64>,
}

impl Groups {
    /// Adds an experiment; `words` are those of the first one of its kind.
    fn add(&mut self, kind: String, state: &str, words: impl FnOnce() -> String, id: u64) {
        let place = *self.places.entry(kind).or_insert(self.groups.len());
        if place == self.groups.len() {
            self.groups.push(EqualTexts {
                state: state.to_owned(),
                text: words(),
                ids: Vec::new(),
            });
        }
        self.groups[place].ids.push(id);
    }

    /// All groups, if they are few; else the largest, and how many are left out.
    fn commonest(mut self, most: usize) -> (Vec<IdGroup>, u64) {
        let left_out = self.groups.len().saturating_sub(most);
        if left_out > 0 {
            self.groups.sort_by_key(|group| Reverse(group.ids.len()));
            self.groups.truncate(most);
        }
        (self.all(), left_out as u64)
    }

    fn all(self) -> Vec<IdGroup> {
        let groups = self.groups.into_iter().map(|group| IdGroup {
            state: group.state,
            text: group.text,
            count: group.ids.len() as u64,
            ids: text::ids(&group.ids),
        });
        groups.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crashed(id: u64, line: &str) -> ExperimentView {
        ExperimentView {
            id,
            state: "crashed".into(),
            reason: "exit code 1".into(),
            stderr_line: line.into(),
            ..ExperimentView::default()
        }
    }

    #[test]
    fn failures_that_differ_in_figures_alone_are_one_and_many_kinds_are_cut() {
        let line = |id| format!("OOM: tried to allocate {id} GiB");
        let views: Vec<_> = (1..=200).map(|id| crashed(id, &line(id))).collect();
        let totals = of(&views);
        let [only] = totals.needs.as_slice() else {
            panic!("{totals:?}");
        };
        assert_eq!((only.count, only.ids.as_str()), (200, "1-200"));
        assert_eq!(only.text, "exit code 1: OOM: tried to allocate 1 GiB");
        let kind = |id: u64| "x".repeat(1 + id as usize / 2 % 40);
        let views: Vec<_> = (1..=2000).map(|id| crashed(id, &kind(id))).collect();
        let totals = of(&views);
        assert_eq!((totals.needs.len(), totals.more_needs), (10, 30));
    }

    #[test]
    fn a_hundred_thousand_different_failures_are_told_at_once() {
        let views: Vec<_> = (1..=100_000)
            .map(|id: u64| {
                let letters: String = id.to_string().bytes().map(|b| char::from(b + 50)).collect();
                crashed(id, &letters)
            })
            .collect();
        // A look at every kind for every experiment would take minutes.
        assert_eq!(of(&views).more_needs, 99_990);
    }
}
