//! Which step of a run may follow which: all that two nodes, a person and the
//! daemon's own death can do to a run, written down as a table (`snapshots/`), and
//! checked against the invariants of every step.
//!
//! The table serves people and another representation of a run: that one is right if
//! it prints the same. It lists each state with the inputs that change it, the states
//! that follow, and in brackets the requests to the node. Two worlds that print the
//! same are explored once. Time stands still; rules, files that cannot be read
//! (except a spec) and records that are folded anew are left out.

mod answers;
pub(super) mod node;
mod shown;
mod steps;
pub(super) mod world;

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::fmt::Write as _;
use std::hash::{Hash as _, Hasher as _};

use super::promises::{self, Observation, Presence};
use crate::step::needs;
use node::{Node, There};
use shown::effects;
use world::{Asked, NODES, Step, StoredRuns, World};

/// More worlds than there are kinds of them. The search ends by itself, and must not be
/// cut: a start on two nodes may need many returns.
const WORLDS_MAX: usize = 2_000_000;

/// State → input → states that follow.
type Table = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// The key of a world: the printed state of its runs, and the possible answers of its
/// nodes. One world stands for all with the same key.
fn key(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    let run = world.run();
    world.printed.hash(&mut hasher);
    for (node, name) in world.nodes.iter().zip(NODES) {
        let dispatch = &run.dispatch;
        let here = run.node() == Some(name);
        let named = |names: &[String]| names.iter().any(|other| other == name);
        (
            here,
            named(&dispatch.excluded),
            named(&dispatch.left_behind),
        )
            .hash(&mut hasher);
        dispatch
            .deferred
            .iter()
            .any(|one| one.node == name)
            .hash(&mut hasher);
        (node.there, node.records.last(), node.ran(), node.cancelled).hash(&mut hasher);
        node.held.hash(&mut hasher);
        let request = node.request;
        let comes = request.map(|one| (one.generation > node.fence, one.again, one.question));
        let late = node.late.map(|late| late > node.generation);
        let counts = |generation| generation >= dispatch.generation();
        (comes, late, node.gave_back.map(counts)).hash(&mut hasher);
        let fences = |generation| node.fence >= generation;
        (fences(dispatch.generation()), fences(node.generation)).hash(&mut hasher);
    }
    let ahead = |here: usize| world.nodes[here].records.len() > world.known;
    let behind = world.here().map(ahead);
    (behind, world.deceived, needs::of(run).rules).hash(&mut hasher);
    hasher.finish()
}

/// Notes a step, for each run that it changed or could have changed.
fn note(table: &mut Table, from: &World, step: &Step) {
    if !step.heard {
        return;
    }
    let label = &step.label;
    let line = |before, after, printed: &str| {
        let effects = effects(before, after);
        if effects.is_empty() {
            printed.to_owned()
        } else {
            format!("{printed}  ({})", effects.join(", "))
        }
    };
    let mut put = |before: &str, label: &str, after: String| {
        if !table.contains_key(before) {
            table.insert(before.to_owned(), BTreeMap::new());
        }
        let inputs = table.get_mut(before).unwrap();
        if !inputs.contains_key(label) {
            inputs.insert(label.to_owned(), BTreeSet::new());
        }
        inputs.get_mut(label).unwrap().insert(after);
    };
    let (before, after) = (from.run(), step.to.run());
    let (printed, next) = &*step.to.printed;
    put(&from.printed.0, label, line(before, after, printed));
    let (Some(after), Some(next)) = (step.to.next(), next) else {
        return;
    };
    match (from.next(), &from.printed.1) {
        (Some(before), Some(was)) if before.dispatch != after.dispatch => {
            let label = match after.dispatch.stage.verdict() {
                Some(_) => label,
                None => "the earlier run ended",
            };
            put(was, label, line(before, after, next));
        }
        (Some(_), _) => {}
        (None, _) => put("not made", label, next.clone()),
    }
}

/// The promise that a step breaks, if any.
fn broken(from: &World, step: &Step) -> Option<&'static str> {
    let (before, after) = (from.run(), step.to.run());
    let nodes = |counts: fn(&Node) -> bool| {
        let nodes = step.to.nodes.iter().filter(|node| counts(node));
        nodes.count()
    };
    let presence = |here: usize| {
        let (old, new) = (&from.nodes[here], &step.to.nodes[here]);
        let mut left_behind = after.dispatch.left_behind.iter();
        Presence {
            had: old.there != There::Nothing,
            could_start: old.may_run(),
            may_start: new.may_run(),
            is_same: old.there == new.there,
            is_new: (old.there, new.there) == (There::Nothing, There::Waiting),
            is_left_behind: left_behind.any(|name| name == NODES[here]),
        }
    };
    promises::broken(&Observation {
        before,
        after,
        label: &step.label,
        heard: step.heard,
        word: step.word,
        deceived: step.to.deceived,
        may_start: nodes(Node::may_run),
        ran: nodes(Node::ran),
        there: from.here().map(presence),
        is_held_there: step.to.here().is_some_and(|here| {
            let node = &step.to.nodes[here];
            node.held && node.there == There::Waiting
        }),
        ran_held: nodes(|node| node.held && node.ran()) > 0,
    })
}

/// Every step from every world that can come about, each kind of world once.
fn explore(asked: Asked) -> Table {
    let mut table = Table::new();
    let first = World::new(asked);
    let mut seen = HashSet::from([key(&first)]);
    // The origin of each world: the world before, and the input.
    let mut came: Vec<(usize, String)> = vec![(0, "it is made".to_owned())];
    let mut faults: BTreeMap<String, String> = BTreeMap::new();
    let mut open = VecDeque::from([(0, first)]);
    let mut stored = StoredRuns::default();
    while let Some((number, from)) = open.pop_front() {
        for step in from.steps(asked, &mut stored) {
            let how = || {
                let mut lines = vec![step.label.clone()];
                let mut at = number;
                while at > 0 {
                    lines.push(came[at].1.clone());
                    at = came[at].0;
                }
                lines.reverse();
                lines.join("\n")
            };
            if let Some(promise) = broken(&from, &step) {
                let line = format!("{promise}: {}", step.label);
                faults.entry(line).or_insert_with(how);
            }
            note(&mut table, &from, &step);
            if !step.to.explored && seen.insert(key(&step.to)) {
                open.push_back((came.len(), step.to));
                came.push((number, step.label));
            }
        }
        assert!(
            came.len() < WORLDS_MAX,
            "the search was cut: {}",
            open.len()
        );
    }
    assert!(
        faults.is_empty(),
        "promises that do not hold, with the way there: {faults:#?}"
    );
    println!("{} worlds", came.len());
    table
}

fn printed(table: &Table) -> String {
    let mut text = String::new();
    for (state, inputs) in table {
        let _ = writeln!(text, "\n{state}");
        let mut unchanged = Vec::new();
        for (input, states) in inputs {
            for after in states {
                if after == state {
                    unchanged.push(input.as_str());
                } else {
                    let _ = writeln!(text, "    {input} → {after}");
                }
            }
        }
        if !unchanged.is_empty() {
            let _ = writeln!(text, "    unchanged: {}", unchanged.join("; "));
        }
    }
    text
}

#[test]
fn the_steps_of_a_run_that_one_node_is_asked_for_are_those_of_the_table() {
    insta::assert_snapshot!("one_node", printed(&explore(Asked::OneNode)));
}

#[test]
fn every_promise_holds_for_a_run_that_its_batch_may_hold() {
    let table = explore(Asked::OneNodeHeld);
    let leads = |state: &str, input: &str, to: &str| table[state][input].contains(to);
    assert!(leads(
        "accepted: waits, held, [hold]",
        "the node holds it",
        "accepted: waits, held"
    ));
    assert!(leads(
        "accepted: waits, held",
        "a person resumes it",
        "accepted: waits, hold lifted, [let go]"
    ));
    assert!(leads(
        "accepted: waits, hold lifted, [let go]",
        "the node lets it go on",
        "accepted: waits"
    ));
}

#[test]
fn the_steps_of_a_run_that_a_group_is_asked_for_are_those_of_the_table() {
    insta::assert_snapshot!("group", printed(&explore(Asked::Group)));
}
