//! Runs that a node does not get beside others.

use nero_format::{Dependency, DependsUntil, NodeChoice, Precedence, RunLock};

use super::*;
use crate::facts::reason::{NoNode, Obstacle, WaitReason};
use crate::place::fit::{Candidate, NodeAvailability};
use crate::place::locks::Locks;
use crate::step::placement::Choice;

fn locked(name: &str, everywhere: bool) -> Definition {
    let lock = RunLock {
        name: "env".to_owned(),
        everywhere,
    };
    Definition {
        precedence: Precedence {
            lock: Some(lock),
            ..Precedence::default()
        }
        .into(),
        ..definition(name, "1")
    }
}

fn settles(name: &str) -> Definition {
    Definition {
        precedence: Precedence {
            settle_ms: 10_000,
            ..Precedence::default()
        }
        .into(),
        ..definition(name, "1")
    }
}

fn placed(name: &str, place: NodeChoice) -> Definition {
    Definition {
        precedence: Precedence {
            place,
            ..Precedence::default()
        }
        .into(),
        ..definition(name, "1")
    }
}

fn same_as(name: &str, on: &str) -> Definition {
    let same_as = Some(Dependency {
        until: DependsUntil::Placed,
        on: on.to_owned(),
    });
    let place = NodeChoice {
        same_as,
        ..NodeChoice::default()
    };
    placed(name, place)
}

fn apart_from(name: &str, on: &str) -> Definition {
    let place = NodeChoice {
        apart_from: vec![on.to_owned()],
        ..NodeChoice::default()
    };
    placed(name, place)
}

/// Runs of these without a node.
fn unplaced(definitions: Vec<Definition>) -> Lab {
    let mut lab = Lab::default();
    let ids: Vec<u64> = (1..=definitions.len() as u64).collect();
    lab.add("/lab", definitions);
    lab.start_batch(&ids, false);
    for id in ids {
        lab.dispatch(run(id, 1), |dispatch| dispatch.stage = Stage::Unplaced);
    }
    lab
}

fn now(ms: i64) -> PresentTime {
    PresentTime::at(&moment(ms))
}

/// Whether a run that may have this node alone is told that it never gets one.
fn is_elsewhere(lab: &Lab, id: RunId, node: &str) -> bool {
    let only = Candidate {
        name: node.to_owned(),
        standing: NodeAvailability::Asked,
    };
    let locks = Locks::of(&lab.state, &now(9));
    let all = locks.without_taken(lab.state.run(id).unwrap(), &[only]);
    let taken = all.into_iter().filter_map(|one| match one.standing {
        NodeAvailability::Taken(obstacle) => Some((one.name, obstacle)),
        _ => None,
    });
    let taken: Vec<_> = taken.collect();
    !taken.is_empty() && NoNode::Each(taken).is_elsewhere()
}

/// Which nodes a run may get of two, and why not the others.
fn may_have(lab: &Lab, id: RunId, at_ms: i64) -> (Vec<String>, String) {
    let candidates = ["a", "b"].map(|name| Candidate {
        name: name.to_owned(),
        standing: NodeAvailability::Asked,
    });
    let locks = Locks::of(&lab.state, &now(at_ms));
    let run = lab.state.run(id).unwrap();
    let (mut free, mut taken) = (Vec::new(), Vec::new());
    for one in locks.without_taken(run, &candidates) {
        match one.standing {
            NodeAvailability::Taken(obstacle) => taken.push((one.name, obstacle)),
            _ => free.push(one.name),
        }
    }
    let mut told = lab.clone();
    let stored = WaitReason::NoNode(NoNode::Each(taken));
    told.dispatch(id, |dispatch| dispatch.why = stored);
    let run = told.state.run(id).unwrap();
    (free, locks.why(run).to_string())
}

fn goes_to(lab: &mut Lab, id: RunId, node: &str) {
    lab.happens(id, &Input::Choice(Choice::On(node.to_owned())));
}

#[test]
fn one_run_at_a_time_has_a_lock_on_each_node_until_its_end_is_evident() {
    let mut lab = unplaced(vec![locked("a", false), locked("b", false)]);
    goes_to(&mut lab, run(1, 1), "a");
    let waits = (vec!["b".to_owned()], "a: 1.1 holds the lock env".to_owned());
    assert_eq!(may_have(&lab, run(2, 1), 9), waits);
    lab.say(run(1, 1), running());
    assert_eq!(may_have(&lab, run(2, 1), 9), waits);
    let lost = Incarnation {
        lost: Some(Box::new(crate::facts::journal::Lost {
            key: Key::default(),
            reason: nero_journal::v1::lost::Reason::FolderGone.into(),
            detail: String::new(),
            at_ms: 7,
        })),
        ..running()
    };
    let mut silent = lab.clone();
    silent.say(run(1, 1), lost);
    assert!(silent.state.run(run(1, 1)).unwrap().in_doubt());
    let (free, why) = may_have(&silent, run(2, 1), 9);
    assert_eq!(free, ["b"]);
    let remedy = "1.1 holds the lock env and is lost: end it, then `neroman restart 1 --abandon`";
    assert!(why.contains(remedy), "{why}");
    let held = |is_lost| Obstacle::Locked {
        lock: "env".to_owned(),
        by: Some(run(1, 1)),
        is_lost,
    };
    for (other, is_told) in [(held(true), true), (held(false), false)] {
        let nodes = vec![("a".to_owned(), held(true)), ("b".to_owned(), other)];
        silent.dispatch(run(2, 1), |dispatch| {
            dispatch.why = WaitReason::NoNode(NoNode::Each(nodes))
        });
        let told = silent.state.run(run(2, 1)).unwrap().locked_by_lost();
        let is_needed = told.is_some_and(|told| told.contains(remedy));
        assert_eq!(is_needed, is_told, "another node gets free by itself");
    }
    silent.start(
        &[1],
        StartOptions {
            abandon: true,
            ..RESTART
        },
    );
    silent.dispatch(run(1, 2), |dispatch| dispatch.stage = Stage::Unplaced);
    assert_eq!(may_have(&silent, run(1, 2), 9).0, ["a", "b"], "begun anew");
    lab.say(run(1, 1), ended(1));
    assert_eq!(may_have(&lab, run(2, 1), 9).0, ["a", "b"]);
}

#[test]
fn a_lock_of_all_nodes_keeps_every_node_from_the_others() {
    let mut lab = unplaced(vec![
        locked("a", true),
        locked("b", false),
        locked("c", true),
    ]);
    goes_to(&mut lab, run(2, 1), "b");
    assert!(may_have(&lab, run(1, 1), 9).0.is_empty());
    lab.say(run(2, 1), ended(0));
    goes_to(&mut lab, run(1, 1), "a");
    assert!(may_have(&lab, run(3, 1), 9).0.is_empty());
}

#[test]
fn a_run_that_has_to_be_where_another_one_is_waits_until_that_has_a_node() {
    let mut lab = Lab::default();
    lab.add(
        "/lab",
        vec![definition("init", "1"), same_as("train", "init")],
    );
    let waits = |lab: &Lab| lab.state.run(run(2, 1)).unwrap().waits_for_others();
    lab.start_batch(&[2], false);
    assert!(waits(&lab), "the other one was not started");
    lab.start_batch(&[1], false);
    assert!(!waits(&lab), "it has a node");
    for id in [1, 2] {
        lab.dispatch(run(id, 1), |dispatch| dispatch.stage = Stage::Unplaced);
    }
    goes_to(&mut lab, run(1, 1), "b");
    let (free, why) = may_have(&lab, run(2, 1), 9);
    assert_eq!(free, ["b"]);
    assert_eq!(why, "a: it has to be where 1.1 is: on b");
    lab.say(run(1, 1), running());
    lab.say(run(1, 1), ended(1));
    assert_eq!(may_have(&lab, run(2, 1), 9).0, ["b"], "it was there");
    assert!(is_elsewhere(&lab, run(2, 1), "a") && !is_elsewhere(&lab, run(2, 1), "b"));
    // Begun anew, it may come to another one.
    lab.start_batch(&[1], false);
    lab.dispatch(run(1, 2), |dispatch| dispatch.stage = Stage::Unplaced);
    let (free, why) = may_have(&lab, run(2, 1), 9);
    assert!(free.is_empty());
    let waits = "it has to be where 1.2 will be, which has no node yet";
    assert_eq!(why, format!("a, b: {waits}"));
    assert!(!is_elsewhere(&lab, run(2, 1), "a"), "it may come there");
    lab.cancel(run(1, 2));
    assert_eq!(may_have(&lab, run(2, 1), 9).0, ["a", "b"], "let go on");
}

#[test]
fn runs_of_a_block_that_are_kept_apart_share_no_node() {
    let mut lab = unplaced(vec![apart_from("a", "*"), apart_from("b", "*")]);
    assert_eq!(lab.state.apart, 2);
    let candidates = ["a", "b"].map(|name| Candidate {
        name: name.to_owned(),
        standing: NodeAvailability::Asked,
    });
    let mut locks = Locks::of(&lab.state, &now(9));
    let other = lab.state.run(run(2, 1)).unwrap();
    // In one look of the placer, too.
    locks.take(lab.state.run(run(1, 1)).unwrap(), "a", &now(9));
    let free = locks.without_taken(other, &candidates);
    assert!(
        matches!(free[0].standing, NodeAvailability::Taken(_)),
        "{free:?}"
    );
    goes_to(&mut lab, run(1, 1), "a");
    assert_eq!(lab.state.apart, 1);
    let (free, why) = may_have(&lab, run(2, 1), 9);
    assert_eq!(free, ["b"]);
    assert_eq!(why, "a: 1.1 is there, from which it is kept apart");
    lab.say(run(1, 1), running());
    lab.say(run(1, 1), ended(1));
    assert_eq!(may_have(&lab, run(2, 1), 9).0, ["a", "b"]);
}

#[test]
fn a_node_gets_the_next_run_when_the_last_one_has_settled() {
    let mut lab = unplaced(vec![settles("a"), settles("b"), definition("c", "1")]);
    goes_to(&mut lab, run(1, 1), "a");
    let (free, why) = may_have(&lab, run(2, 1), 9);
    assert_eq!(free, ["b"]);
    assert_eq!(why, "a: 1.1 has not started yet, and settles first");
    lab.say(run(1, 1), running());
    let (free, why) = may_have(&lab, run(2, 1), 9_000);
    assert_eq!(free, ["b"]);
    assert_eq!(why, "a: 1.1 has just started, and settles");
    let locks = Locks::of(&lab.state, &now(9_000));
    assert!(
        locks
            .settled_in_ms()
            .is_some_and(|ms| (1..=1_005).contains(&ms))
    );
    assert_eq!(may_have(&lab, run(3, 1), 9_000).0, ["a", "b"]);
    assert_eq!(may_have(&lab, run(2, 1), 10_006).0, ["a", "b"]);
}
