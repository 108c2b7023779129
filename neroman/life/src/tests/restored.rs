//! A home restored from a backup: nothing that waited starts before its nodes told what they know.

use crate::facts::nodes::RestoreState;
use crate::place::fit::Candidate;
use crate::place::locks::Locks;
use crate::place::restored::{self, OnNode};
use crate::step::report::{Report, ReportedStage, Stray, reported, stray};

use super::*;

/// Two experiments with runs placed on `local`, in a home that was just restored.
fn restored(nodes: &[&str], other_host: &str) -> Lab {
    let mut lab = Lab::default();
    lab.add("/lab", vec![definition("a", "1"), definition("b", "1")]);
    lab.start(&[1, 2], StartOptions::default());
    let changes = restored::begin(
        &lab.state,
        RestoreState {
            made_ms: 1,
            nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
            other_host: other_host.to_owned(),
        },
    );
    lab.take(changes);
    lab
}

fn there(lab: &Lab, id: RunId) -> OnNode {
    OnNode {
        token: lab.state.run(id).unwrap().made.token,
        generation: 3,
    }
}

/// Every word stands for both nodes.
fn both(_: &str) -> Vec<String> {
    ["local", "beta"].map(str::to_owned).to_vec()
}

fn goes_on(lab: &Lab, id: RunId) -> bool {
    let run = lab.state.run(id).unwrap();
    run.unplaced() || needs::of(run).hand_over
}

#[test]
fn waiting_runs_of_a_restored_home_start_after_each_node_that_may_have_them_answered() {
    let mut lab = restored(&["local", "beta"], "");
    assert!(!goes_on(&lab, run(1, 1)));
    lab.take(restored::reconcile(&lab.state, "local", &[], true));
    assert!(restored::release(&lab.state, both).is_empty());
    // What it cannot read may be the run.
    lab.take(restored::reconcile(&lab.state, "beta", &[], false));
    assert!(restored::release(&lab.state, both).is_empty());
    lab.take(restored::reconcile(&lab.state, "beta", &[], true));
    let changes = restored::release(&lab.state, both);
    lab.take(changes);
    assert!(goes_on(&lab, run(1, 1)) && goes_on(&lab, run(2, 1)));
}

#[test]
fn a_run_that_lies_on_another_node_is_that_nodes_and_is_not_ended_there() {
    let mut lab = restored(&["local", "beta"], "");
    let id = run(1, 1);
    let waiting = lab.state.run(id).unwrap();
    assert_eq!(stray(waiting, "beta", ReportedStage::Running), None);
    let found = [there(&lab, id)];
    lab.take(restored::reconcile(&lab.state, "beta", &found, true));
    lab.take(restored::reconcile(&lab.state, "local", &[], true));
    let changes = restored::release(&lab.state, both);
    lab.take(changes);
    let moved = lab.state.run(id).unwrap();
    assert_eq!(moved.node(), Some("beta"));
    assert_eq!(moved.generation(), 3);
    assert!(!goes_on(&lab, id), "it is there");
    assert_eq!(
        stray(moved, "local", ReportedStage::Running),
        Some(Stray::Live)
    );
}

#[test]
fn a_node_that_gave_a_run_away_does_not_end_it() {
    let mut lab = restored(&["local", "beta"], "");
    let id = run(1, 1);
    lab.dispatch(id, |dispatch| {
        dispatch.stage = Stage::Accepted {
            node: "local".to_owned(),
            queued: true,
        };
    });
    let report = Report {
        standing: ReportedStage::TakenAway,
        ..Report::unknown()
    };
    let changes = reported(lab.state.run(id).unwrap(), "local", &report, 5).unwrap();
    lab.take(changes);
    assert!(lab.phase(id).is_live());
}

#[test]
fn a_lock_of_all_nodes_waits_for_the_word_of_each() {
    let mut lab = Lab::default();
    let lock = |everywhere| {
        let name = "env".to_owned();
        Some(nero_format::RunLock { name, everywhere })
    };
    let locked = |name: &str, everywhere| {
        let mut one = definition(name, "1");
        one.precedence.lock = lock(everywhere);
        one
    };
    lab.add("/lab", vec![locked("a", true), locked("b", false)]);
    lab.start(&[1, 2], StartOptions::default());
    let restored = RestoreState {
        made_ms: 1,
        nodes: ["local", "beta"].map(str::to_owned).into(),
        ..RestoreState::default()
    };
    lab.take(restored::begin(&lab.state, restored));
    let local = |_: &str| vec!["local".to_owned()];
    lab.take(restored::reconcile(&lab.state, "local", &[], true));
    let changes = restored::release(&lab.state, local);
    lab.take(changes);
    let waits = |lab: &Lab, id| lab.state.run(id).unwrap().awaits_nodes();
    // On `beta` a run may have got it since the backup.
    assert!(waits(&lab, run(1, 1)) && !waits(&lab, run(2, 1)));
    let mut other = locked("c", true);
    other.precedence.lock.as_mut().unwrap().name = "other".to_owned();
    lab.add("/other", vec![other]);
    lab.start(&[3], StartOptions::default());
    let kept = |lab: &Lab| {
        let all = Locks::of(&lab.state, &crate::facts::now::PresentTime::default());
        let candidate = Candidate {
            name: "local".to_owned(),
            standing: crate::place::fit::NodeAvailability::Asked,
        };
        let free = all.without_taken(lab.state.run(run(3, 1)).unwrap(), &[candidate]);
        matches!(
            free[0].standing,
            crate::place::fit::NodeAvailability::Taken(_)
        )
    };
    assert!(kept(&lab), "what is started now is no exception");
    // A person gave the node up.
    let (_, changes) = crate::place::gone::decide(&lab.state, "beta", "me", 9, &|_| true);
    lab.take(changes);
    assert!(!kept(&lab));
    let changes = restored::release(&lab.state, local);
    lab.take(changes);
    assert!(!waits(&lab, run(1, 1)));
}

#[test]
fn what_may_have_been_on_another_machine_waits_for_a_person() {
    let mut lab = restored(&["beta"], "desk");
    lab.take(restored::reconcile(&lab.state, "beta", &[], true));
    assert!(restored::release(&lab.state, both).is_empty());
    let why = restored::awaited(&lab.state, lab.state.run(run(1, 1)).unwrap());
    assert!(why.unwrap().contains("neroman resume 1"));
    lab.happens(run(1, 1), &Input::HoldLifted);
    assert!(goes_on(&lab, run(1, 1)) && !goes_on(&lab, run(2, 1)));
}

#[test]
fn a_run_is_not_closed_before_its_points_came_again() {
    let mut lab = Lab::default();
    lab.add("/lab", vec![definition("a", "1")]);
    lab.start(&[1], StartOptions::default());
    lab.say(run(1, 1), ended(0));
    let settled = Input::Reported {
        node: "local".to_owned(),
        report: Report {
            standing: ReportedStage::Settled,
            made_nothing: true,
            ..Report::unknown()
        },
    };
    lab.happens(run(1, 1), &settled);
    let mut one = lab.state.run(run(1, 1)).unwrap().clone();
    let mut journal = (*one.journal).clone();
    let key = journal.incarnations[&1].exit.as_ref().unwrap().key;
    let metric = crate::facts::journal::Metric {
        key: (0, key),
        last: 1.0,
        step: 3.0,
        min: 1.0,
        max: 1.0,
        count: 3,
        at_ms: 5,
    };
    journal.metrics.insert("loss".to_owned(), metric);
    one.journal = std::sync::Arc::new(journal);
    assert!(needs::of(&crate::with_points(one.clone(), 3)).close);
    // The daemon ended before it closed the run, and the database of series was lost meanwhile.
    let mut one = crate::with_points(one, 0);
    assert!(one.asks_for_points() && !needs::of(&one).close);
    for change in crate::step(&one.clone(), &settled, 1).unwrap() {
        one.take(&change);
    }
    assert!(!one.asks_for_points() && needs::of(&one).close);
}
