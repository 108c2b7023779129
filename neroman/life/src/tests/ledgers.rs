//! A node that answers with another ledger than the one that got its runs.

use std::collections::HashSet;

use nero_model::LedgerId;

use crate::facts::nodes::NodeLedger;
use crate::place::ledgers;
use crate::step::hand_over;
use crate::step::report::Report;

use super::*;

fn ledger(number: u8) -> NodeLedger {
    NodeLedger {
        id: LedgerId::from_bytes([number; 16]),
        root: format!("/root{number}"),
    }
}

/// Its node answers with this ledger; `sent`: runs of which no answer came.
fn greeted(lab: &mut Lab, number: u8, sent: &[RunId]) {
    let token = |id: &RunId| lab.state.run(*id).unwrap().made.token;
    let sent: HashSet<_> = sent.iter().map(token).collect();
    let changes = ledgers::greeted(&lab.state, "local", &ledger(number), &sent);
    lab.take(changes);
}

fn report(lab: &mut Lab, id: RunId, report: Report) {
    let node = "local".to_owned();
    lab.happens(id, &Input::Reported { node, report });
}

fn accepted(lab: &mut Lab, id: RunId) {
    let run = lab.state.run(id).unwrap();
    let at = run.placement().unwrap();
    let answer = hand_over::Answer::Accepted { rules_version: 1 };
    let tick = moment(1).tick;
    lab.happens(id, &Input::HandOver { at, answer, tick });
}

/// Three runs: accepted, sent without an answer, and not sent yet.
fn lab() -> Lab {
    let mut lab = Lab::default();
    let all = ["a", "b", "c"].map(|name| definition(name, "1"));
    lab.add("/lab", all.to_vec());
    greeted(&mut lab, 1, &[]);
    lab.start(&[1, 2, 3], StartOptions::default());
    accepted(&mut lab, run(1, 1));
    lab
}

fn due(lab: &Lab, id: RunId) -> bool {
    hand_over::is_due(lab.state.run(id).unwrap(), "local")
}

#[test]
fn a_run_is_handed_over_again_only_to_the_ledger_that_may_have_it() {
    let mut lab = lab();
    greeted(&mut lab, 2, &[run(2, 1)]);
    // The ledger that answers now knows none of them.
    for number in 1..=2 {
        let id = run(number, 1);
        let at = lab.state.run(id).unwrap().clone();
        let unknown = Input::Reported {
            node: "local".to_owned(),
            report: Report::unknown(),
        };
        assert!(crate::step(&at, &unknown, 1).is_err());
        assert!(!due(&lab, id), "{id}");
        let why = at.needs_person().unwrap();
        assert!(
            why.contains("/root2, and this run waits in /root1"),
            "{why}"
        );
    }
    assert!(due(&lab, run(3, 1)));
    accepted(&mut lab, run(3, 1));
    // The first root is back: its runs go on, and the one of the second root stays there.
    greeted(&mut lab, 1, &[]);
    assert!(due(&lab, run(2, 1)) && !due(&lab, run(3, 1)));
    assert_eq!(lab.state.run(run(1, 1)).unwrap().needs_person(), None);
    assert!(lab.state.run(run(3, 1)).unwrap().elsewhere().is_some());
    report(&mut lab, run(1, 1), Report::unknown());
    assert!(due(&lab, run(1, 1)), "its own ledger lost it");
}

#[test]
fn a_run_in_another_root_is_given_up_by_a_person_alone() {
    let mut lab = lab();
    greeted(&mut lab, 2, &[]);
    lab.start(
        &[1],
        StartOptions {
            restart: true,
            ..StartOptions::default()
        },
    );
    let behind = lab.state.run(run(1, 2)).unwrap();
    assert_eq!(behind.after(), Some(1));
    assert_eq!(lab.cancel(run(1, 1)), CancelOutcome::GivenUp);
    assert_eq!(lab.phase(run(1, 1)), Phase::Lost);
    let (next, changes) = abort::released(&lab.state, run(1, 1), 1).unwrap();
    assert_eq!(next, run(1, 2));
    lab.take(changes);
    assert!(due(&lab, run(1, 2)));
}

#[test]
fn the_same_ledger_changes_nothing() {
    let mut lab = lab();
    let same = NodeLedger {
        root: "/mounted/elsewhere".to_owned(),
        ..ledger(1)
    };
    assert!(ledgers::greeted(&lab.state, "local", &same, &HashSet::new()).is_empty());
    greeted(&mut lab, 1, &[run(2, 1)]);
    assert!(lab.state.run(run(2, 1)).unwrap().elsewhere().is_none());
}
