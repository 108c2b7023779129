//! Runs that wait for other experiments.

use nero_format::{Dependency, DependsUntil, InStage, Precedence};

use super::*;
use crate::facts::hold::HoldCause;
use crate::fold::change::ExperimentRecord;
use crate::fold::experiment::PersonalMarks;
use crate::place::held::HoldReason;
use crate::place::precedence::Precedents;

fn needing(name: &str, until: DependsUntil, on: &[&str]) -> Definition {
    let need = |on: &&str| Dependency {
        until,
        on: (*on).to_owned(),
    };
    Definition {
        precedence: Precedence {
            needs: on.iter().map(need).collect(),
            ..Precedence::default()
        }
        .into(),
        ..definition(name, "1")
    }
}

fn in_stage(name: &str, stage: &str, before: &[&str]) -> Definition {
    Definition {
        precedence: Precedence {
            stage: Some(InStage {
                name: stage.to_owned(),
                before: before.iter().map(|stage| (*stage).to_owned()).collect(),
            }),
            ..Precedence::default()
        }
        .into(),
        ..definition(name, "1")
    }
}

fn lab(definitions: Vec<Definition>) -> Lab {
    let mut lab = Lab::default();
    lab.add("/lab", definitions);
    lab
}

fn chain() -> Lab {
    lab(vec![
        definition("init", "1"),
        needing("train", DependsUntil::Finished, &["init"]),
        needing("look", DependsUntil::Finished, &["tr*"]),
    ])
}

/// What a run waits for; empty if it does not.
fn why(lab: &Lab, id: RunId) -> String {
    let held = HoldReason::of(&lab.state, lab.state.run(id).unwrap());
    held.map_or_else(String::new, |held| held.to_string())
}

fn needs_person(lab: &Lab, id: RunId) -> bool {
    let held = HoldReason::of(&lab.state, lab.state.run(id).unwrap());
    held.is_some_and(|held| held.needs_person())
}

#[test]
fn a_chain_goes_on_link_by_link() {
    let mut lab = chain();
    lab.start_batch(&[1, 2, 3], false);
    assert_eq!(why(&lab, run(1, 1)), "");
    assert_eq!(why(&lab, run(2, 1)), "needs init, which waits");
    assert!(!needs_person(&lab, run(3, 1)));
    assert!(lab.state.run(run(2, 1)).unwrap().node().is_none());
    lab.say(run(1, 1), running());
    assert_eq!(why(&lab, run(2, 1)), "needs init, which runs");
    lab.say(run(1, 1), ended(0));
    assert_eq!(why(&lab, run(2, 1)), "");
    assert!(lab.state.run(run(2, 1)).unwrap().unplaced());
    assert_eq!(why(&lab, run(3, 1)), "needs train, which waits");
}

#[test]
fn a_crash_holds_the_rest_of_a_chain_until_a_restart_finishes() {
    let mut lab = chain();
    lab.start_batch(&[1, 2, 3], false);
    lab.say(run(1, 1), ended(1));
    assert_eq!(why(&lab, run(2, 1)), "needs init, which crashed");
    assert_eq!(why(&lab, run(3, 1)), "needs train, which is held");
    assert!(needs_person(&lab, run(2, 1)) && needs_person(&lab, run(3, 1)));
    lab.start(&[1], RESTART);
    assert_eq!(why(&lab, run(2, 1)), "needs init, which waits");
    assert!(!needs_person(&lab, run(3, 1)));
    lab.say(run(1, 2), ended(0));
    assert_eq!(why(&lab, run(2, 1)), "");
}

#[test]
fn a_run_whose_dependency_was_not_started_says_so_until_a_person_lets_it_go() {
    let mut lab = chain();
    lab.start_batch(&[2], false);
    assert_eq!(why(&lab, run(2, 1)), "needs init, which was not started");
    assert!(needs_person(&lab, run(2, 1)));
    lab.happens(run(2, 1), &Input::HoldLifted);
    assert_eq!(why(&lab, run(2, 1)), "");
    assert!(lab.state.run(run(2, 1)).unwrap().unplaced());
}

#[test]
fn a_dependency_that_finished_before_is_not_waited_for() {
    let mut lab = chain();
    lab.start_batch(&[1], false);
    lab.say(run(1, 1), ended(0));
    lab.start_batch(&[2], false);
    assert_eq!(why(&lab, run(2, 1)), "");
    // It runs anew: a run that is made now waits for that.
    lab.start(&[1], RESTART);
    lab.start(&[2], RESTART);
    assert_eq!(why(&lab, run(2, 2)), "needs init, which waits");
}

#[test]
fn an_experiment_that_left_its_source_is_waited_for_and_named() {
    let mut lab = chain();
    lab.start_batch(&[2], false);
    let train = || needing("train", DependsUntil::Finished, &["init"]);
    lab.add("/lab", vec![train()]);
    assert_eq!(why(&lab, run(2, 1)), "needs init, which was removed");
    assert!(needs_person(&lab, run(2, 1)));
}

#[test]
fn ended_and_started_are_enough_where_that_is_asked() {
    let mut lab = lab(vec![
        definition("a", "1"),
        needing("begun", DependsUntil::Started, &["1"]),
        needing("over", DependsUntil::Ended, &["*"]),
    ]);
    lab.start_batch(&[1, 2, 3], false);
    assert_eq!(why(&lab, run(2, 1)), "needs a, which has not started");
    lab.say(run(1, 1), running());
    assert_eq!(why(&lab, run(2, 1)), "");
    assert_eq!(why(&lab, run(3, 1)), "needs a, which runs, and 1 other");
    lab.say(run(1, 1), ended(3));
    assert_eq!(why(&lab, run(3, 1)), "needs begun, which waits");
    lab.say(run(2, 1), ended(0));
    assert_eq!(why(&lab, run(3, 1)), "");
}

#[test]
fn a_dependency_of_a_stage_before_is_counted_once() {
    let mut after = in_stage("train", "main", &["prepare"]);
    after.precedence.needs = needing("", DependsUntil::Finished, &["init"])
        .precedence
        .needs
        .clone();
    let mut lab = lab(vec![in_stage("init", "prepare", &[]), after]);
    lab.start_batch(&[1, 2], false);
    lab.say(run(1, 1), running());
    assert_eq!(why(&lab, run(2, 1)), "needs init, which runs");
}

#[test]
fn a_stage_waits_for_all_of_the_stages_before_it() {
    let mut lab = lab(vec![
        in_stage("p1", "prepare", &[]),
        in_stage("p2", "prepare", &[]),
        in_stage("m", "main", &["prepare"]),
        in_stage("c", "cleanup", &["prepare", "main"]),
        definition("free", "1"),
    ]);
    lab.start_batch(&[1, 2, 3, 4, 5], false);
    assert_eq!(why(&lab, run(5, 1)), "");
    lab.say(run(1, 1), ended(0));
    assert_eq!(
        why(&lab, run(3, 1)),
        "needs p2 of stage prepare, which waits"
    );
    lab.say(run(2, 1), ended(1));
    assert_eq!(
        why(&lab, run(3, 1)),
        "needs p2 of stage prepare, which crashed"
    );
    lab.start(&[2], RESTART);
    lab.say(run(2, 2), ended(0));
    assert_eq!(why(&lab, run(3, 1)), "");
    assert_eq!(why(&lab, run(4, 1)), "needs m of stage main, which waits");
}

#[test]
fn runs_that_need_others_take_no_turn_while_they_wait() {
    let mut lab = Lab {
        at_most: Some(1),
        ..chain()
    };
    // The first one needs the second, which is behind it in line.
    lab.start_batch(&[2, 1, 3], false);
    assert_eq!(why(&lab, run(1, 1)), "");
    assert_eq!(why(&lab, run(2, 1)), "needs init, which waits");
    lab.say(run(1, 1), ended(0));
    assert_eq!(why(&lab, run(2, 1)), "");
    assert_eq!(why(&lab, run(3, 1)), "needs train, which waits");
}

#[test]
fn a_waiting_run_comes_back_waiting() {
    let mut lab = chain();
    lab.start_batch(&[1, 2], false);
    let two = lab.state.run(run(2, 1)).unwrap();
    let stored = serde_json::to_value(crate::fold::row::DispatchRow::of(two)).unwrap();
    assert_eq!(stored["needs"], true);
    let kept: crate::fold::row::DispatchRow = serde_json::from_value(stored).unwrap();
    let made = serde_json::to_value(&*two.made).unwrap();
    assert_eq!(made["precedence"]["needs"][0]["on"], "init");
    let made: RunRecord = serde_json::from_value(made).unwrap();
    let again = kept.run(made, Arc::default(), Arc::default());
    assert_eq!(again.hold_cause(), Some(HoldCause::Others));
    assert_eq!(again.made.precedence, two.made.precedence);
}

#[test]
fn numbers_of_nothing_and_circles_over_sources_are_refused() {
    let until = DependsUntil::Finished;
    let refused = |merged: &add::MergeOutcome| merged.refused[0].1.message.clone();
    let merged = Lab::default().add("/lab", vec![needing("a", until, &["9"])]);
    assert!(refused(&merged).contains("experiment 9, which does not exist"));
    let mut lab = self::lab(vec![definition("a", "1"), definition("b", "1")]);
    let merged = lab.add(
        "/lab",
        vec![needing("a", until, &["1"]), definition("b", "1")],
    );
    assert!(refused(&merged).contains("depends on itself"));
    let both = vec![needing("a", until, &["2"]), needing("b", until, &["a"])];
    let merged = lab.add("/lab", both);
    assert!(refused(&merged).contains("`a` depends on `b`, which waits for it"));
}

#[test]
fn a_name_that_closes_a_circle_over_sources_is_refused() {
    let until = DependsUntil::Finished;
    let mut lab = self::lab(vec![definition("x", "1"), definition("y", "1")]);
    lab.add("/other", vec![needing("z", until, &["1"])]);
    let by_number = vec![definition("x", "1"), needing("y", until, &["3"])];
    assert_eq!(lab.add("/lab", by_number).refused.len(), 0);
    let closed = vec![needing("x", until, &["y"]), needing("y", until, &["3"])];
    let refused = lab.add("/lab", closed).refused;
    assert!(refused[0].1.message.contains("which waits for it"));
}

#[test]
fn a_pilot_needs_nothing_now_and_none_that_start_with_it() {
    let needing = |name, on| needing(name, DependsUntil::Finished, on);
    let mut lab = lab(vec![
        definition("init", "1"),
        needing("a", &["b"]),
        needing("b", &["init"]),
        needing("c", &["a"]),
    ]);
    let first = |lab: &Lab, ids: &[u64]| {
        let ids: Vec<ExperimentId> = ids.iter().copied().map(ExperimentId).collect();
        Precedents::first_ready(&lab.state, &ids).map(|id| id.0)
    };
    assert_eq!(first(&lab, &[2, 3]), None, "init was not started");
    assert_eq!(first(&lab, &[2, 3, 1]), Some(1));
    lab.start_batch(&[1], false);
    lab.say(run(1, 1), ended(0));
    assert_eq!(first(&lab, &[2, 3]), Some(3), "a would wait for b");
    assert_eq!(first(&lab, &[2, 4]), None);
}

/// What a person changed of an experiment.
fn by_hand(lab: &mut Lab, id: u64, change: impl FnOnce(&mut ExperimentRecord)) -> Vec<String> {
    let mut described = ExperimentRecord::of(lab.state.experiment(ExperimentId(id)).unwrap());
    change(&mut described);
    let changes = vec![Change::Experiment(Arc::new(described))];
    let refused = crate::source::impossible::impossible(&lab.state, &changes);
    lab.take(changes);
    refused.into_iter().map(|(_, one)| one.message).collect()
}

#[test]
fn a_copy_is_waited_for_by_its_own_name_alone() {
    let mut lab = lab(vec![
        in_stage("p", "prepare", &[]),
        in_stage("p_copy", "prepare", &[]),
        in_stage("m", "main", &["prepare"]),
        needing("all", DependsUntil::Ended, &["p*"]),
        needing("block", DependsUntil::Finished, &["p"]),
        needing("copy", DependsUntil::Finished, &["p_copy"]),
    ]);
    let refused = by_hand(&mut lab, 2, |copy| {
        let by_hand = PersonalMarks {
            copy_of: Some(ExperimentId(1)),
            ..PersonalMarks::default()
        };
        copy.by_hand = Arc::new(by_hand);
        Arc::make_mut(&mut copy.definition).block = "p".to_owned().into();
    });
    assert!(refused.is_empty(), "{refused:?}");
    lab.start_batch(&[1, 3, 4, 5, 6], false);
    assert_eq!(why(&lab, run(5, 1)), "needs p, which waits");
    lab.say(run(1, 1), ended(0));
    for id in [3, 4, 5] {
        assert_eq!(why(&lab, run(id, 1)), "");
    }
    assert_eq!(why(&lab, run(6, 1)), "needs p_copy, which was not started");
}

#[test]
fn a_value_that_names_an_experiment_which_nobody_defines_is_refused_where_it_is_set() {
    let mut lab = chain();
    let mut set = |text: &str| {
        by_hand(&mut lab, 2, |one| {
            let by_hand = PersonalMarks {
                overrides: vec![nero_format::Override::typed("of", text)],
                ..PersonalMarks::default()
            };
            one.by_hand = Arc::new(by_hand);
            let needs = &mut Arc::make_mut(&mut one.definition).precedence.needs;
            text.clone_into(&mut needs[0].on);
        })
    };
    let unknown = "`train` depends on `inti`, which is no experiment of its source";
    assert_eq!(set("inti"), [unknown]);
    // It stands, and is told as long as it is new.
    assert!(set("inti").is_empty());
    assert!(set("init").is_empty());
    let circle = "`train` depends on `look`, which waits for it";
    assert_eq!(set("look"), [circle]);
}
