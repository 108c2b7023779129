//! Batches: a pilot before the others, and first runs that crash alike.

use nero_format::RetryOn;

use super::*;
use crate::facts::hold::HoldCause;
use crate::facts::stage::Stage;
use crate::place::held::HoldReason;
use crate::step::recall::waits_freely;

/// A batch of these experiments, each with a run on its node.
fn started(experiments: u64, pilot: bool) -> Lab {
    let mut lab = Lab::default();
    let names = (1..=experiments).map(|n| definition(&format!("e{n}"), "1"));
    lab.add("/lab", names.collect());
    let ids: Vec<u64> = (1..=experiments).collect();
    lab.start_batch(&ids, pilot);
    lab
}

fn held(lab: &Lab) -> Vec<u64> {
    let runs = lab.state.experiments.iter().flat_map(|one| one.runs.iter());
    let held = runs.filter(|run| HoldReason::of(&lab.state, run).is_some());
    held.map(|run| run.made.id.experiment.0).collect()
}

fn why(lab: &Lab, id: RunId) -> String {
    let run = lab.state.run(id).unwrap();
    HoldReason::of(&lab.state, run).unwrap().to_string()
}

fn crashed(code: i32, line: &str, run_ms: u64) -> Incarnation {
    let mut ended = ended(code);
    let exit = ended.exit.as_mut().unwrap();
    line.clone_into(&mut exit.stderr_line);
    exit.run_ms = run_ms;
    ended
}

#[test]
fn the_others_wait_for_the_pilot_and_go_when_it_has_finished() {
    let mut lab = started(3, true);
    assert_eq!(held(&lab), [2, 3]);
    assert_eq!(why(&lab, run(2, 1)), "its pilot 1.1, which runs first");
    assert!(needs::of(lab.state.run(run(2, 1)).unwrap()).nothing());
    assert!(lab.state.run(run(2, 1)).unwrap().node().is_none());
    lab.say(run(1, 1), running());
    assert_eq!(held(&lab), [2, 3]);
    lab.say(run(1, 1), ended(0));
    assert_eq!(held(&lab), [0_u64; 0]);
    assert!(lab.state.run(run(2, 1)).unwrap().unplaced());
}

#[test]
fn the_others_stay_held_when_the_pilot_crashed_until_a_person_acts() {
    let mut lab = started(3, true);
    lab.say(run(1, 1), crashed(3, "No module named x", 1));
    assert_eq!(
        why(&lab, run(2, 1)),
        "its pilot 1.1 crashed: exit code 3, No module named x"
    );
    let two = lab.state.run(run(2, 1)).unwrap();
    assert!(HoldReason::of(&lab.state, two).unwrap().needs_person());
    lab.happens(run(2, 1), &Input::HoldLifted);
    assert_eq!(held(&lab), [3]);
    // A start makes runs anew of the crashed one and of the held one, which is taken away.
    let plans = lab.start(&[1, 2, 3], StartOptions::default());
    assert_eq!(skipped(&plans), ["queued"]);
    assert_eq!(lab.phase(run(3, 1)), Phase::Aborted);
    assert_eq!(lab.phase(run(3, 2)), Phase::Queued);
    assert_eq!(held(&lab), [0_u64; 0]);
}

#[test]
fn a_start_skips_what_waits_for_a_pilot_that_runs() {
    let mut lab = started(2, true);
    let plans = lab.start(&[1, 2], StartOptions::default());
    assert_eq!(skipped(&plans), ["queued", "queued"]);
}

#[test]
fn a_later_run_of_the_pilot_in_its_batch_lets_the_others_go() {
    let mut lab = started(2, true);
    lab.say(run(1, 1), ended(1));
    assert_eq!(held(&lab), [2]);
    lab.start_in_batch(&[1], Some(run(1, 1)));
    assert_eq!(why(&lab, run(2, 1)), "its pilot 1.2, which runs first");
    lab.say(run(1, 2), ended(0));
    assert_eq!(held(&lab), [0_u64; 0]);
}

#[test]
fn the_rest_is_held_when_the_first_five_crash_alike() {
    let mut lab = started(12, false);
    for id in [3, 1, 4, 5] {
        lab.say(run(id, 1), crashed(1, "no disk", 900));
    }
    lab.say(run(6, 1), running());
    assert_eq!(held(&lab), [0_u64; 0]);
    lab.say(run(2, 1), crashed(1, "no disk", 59_999));
    assert_eq!(held(&lab), [7, 8, 9, 10, 11, 12], "six runs");
    let said = why(&lab, run(9, 1));
    assert!(
        said.starts_with("the first 5 of its start crashed as "),
        "{said}"
    );
    assert!(said.ends_with(" did: exit code 1, no disk"), "{said}");
    assert!(!needs::of(lab.state.run(run(9, 1)).unwrap()).hand_over);
    // What a person let go on is not held again.
    lab.happens(run(9, 1), &Input::HoldLifted);
    lab.say(run(9, 1), crashed(1, "no disk", 900));
    lab.happens(run(10, 1), &Input::HoldLifted);
    assert_eq!(held(&lab), [7, 8, 11, 12]);
}

#[test]
fn what_does_not_crash_alike_or_early_or_is_a_small_batch_holds_nothing() {
    let crash = |code, run_ms| crashed(code, "", run_ms);
    let stories: [(u64, [Incarnation; 5]); 4] = [
        (9, std::array::from_fn(|_| crash(1, 1))),
        (12, std::array::from_fn(|n| crash(1 + n as i32 / 4, 1))),
        (12, std::array::from_fn(|n| crash(1, 59_996 + n as u64))),
        (12, std::array::from_fn(|n| crash(i32::from(n != 2), 1))),
    ];
    for (runs, ends) in stories {
        let mut lab = started(runs, false);
        for (index, end) in ends.into_iter().enumerate() {
            lab.say(run(index as u64 + 1, 1), end);
        }
        assert_eq!(held(&lab), [0_u64; 0]);
        // Later crashes that are alike do not count either.
        for id in 6..=runs {
            lab.say(run(id, 1), crash(1, 1));
        }
    }
}

#[test]
fn a_live_run_that_reported_a_metric_when_the_crashed_ones_were_dead_keeps_the_rest_going() {
    for (reported_ms, held_then) in [(901, 0), (900, 6)] {
        let mut lab = started(12, false);
        lab.reports_after(run(6, 1), reported_ms);
        for id in 1..=5 {
            lab.say(run(id, 1), crashed(1, "no disk", 895 + id));
        }
        assert_eq!(held(&lab).len(), held_then, "{reported_ms} ms");
    }
}

#[test]
fn the_retries_of_one_experiment_hold_no_other() {
    let mut lab = Lab::default();
    let again = retries::retrying(&[RetryOn::Crashed], 9);
    let one = |n: u64| Definition {
        again: again.clone().into(),
        ..definition(&format!("e{n}"), "1")
    };
    lab.add("/lab", (1..=12).map(one).collect());
    lab.start_batch(&(1..=12).collect::<Vec<u64>>(), false);
    let mut id = run(1, 1);
    for _ in 0..7 {
        lab.say(id, crashed(1, "no disk", 900));
        id = lab.follow(id).unwrap();
        lab.place(id);
    }
    assert_eq!(held(&lab), [0_u64; 0]);
    for id in 2..=4 {
        lab.say(run(id, 1), crashed(1, "no disk", 900));
    }
    assert_eq!(held(&lab), [0_u64; 0]);
    lab.say(run(5, 1), crashed(1, "no disk", 900));
    assert_eq!(held(&lab), [6, 7, 8, 9, 10, 11, 12]);
}

#[test]
fn a_hold_is_stored_and_a_run_of_an_earlier_build_has_none() {
    let lab = started(2, true);
    let two = lab.state.run(run(2, 1)).unwrap();
    let stored = serde_json::to_string(&crate::fold::row::DispatchRow::of(two)).unwrap();
    assert!(
        stored.contains(r#""hold":{"on":{"cause":"pilot","told":false}}"#),
        "{stored}"
    );
    let read = |row: &str, made: &RunRecord| {
        let kept: crate::fold::row::DispatchRow = serde_json::from_str(row).unwrap();
        kept.run(made.clone(), Arc::default(), Arc::default())
    };
    let again = read(&stored, &two.made);
    assert_eq!(again.hold_cause(), Some(HoldCause::Pilot));
    let made = serde_json::to_string(&*two.made).unwrap();
    assert!(made.contains(r#""batch":"#), "{made}");
    let one = lab.state.run(run(1, 1)).unwrap();
    let stored = serde_json::to_string(&crate::fold::row::DispatchRow::of(one)).unwrap();
    assert!(!stored.contains("hold"), "{stored}");
}

#[test]
fn a_run_that_is_held_while_its_files_go_to_its_node_is_not_offered() {
    let mut lab = started(12, false);
    let id = run(9, 1);
    lab.dispatch(id, |dispatch| {
        dispatch.stage = Stage::Chosen {
            node: "n1".to_owned(),
            sending: true,
        };
    });
    for crashing in 1..=5 {
        lab.say(run(crashing, 1), crashed(1, "no disk", 900));
    }
    assert!(held(&lab).contains(&9));
    let node = "n1".to_owned();
    let held = lab.state.run(id).unwrap();
    assert!(held.movable(), "{held:?}");
    assert!(crate::step(held, &Input::Offer { node }, lab.now_ms).is_err());
}

#[test]
fn a_paused_run_that_waits_on_its_node_is_moved_to_no_other() {
    let mut lab = started(1, false);
    let id = run(1, 1);
    lab.dispatch(id, |dispatch| {
        dispatch.stage = Stage::Chosen {
            node: "alpha".to_owned(),
            sending: false,
        };
    });
    assert!(waits_freely(lab.state.run(id).unwrap()));
    lab.dispatch(id, |dispatch| dispatch.paused = true);
    assert!(!waits_freely(lab.state.run(id).unwrap()));
}

/// A batch of which so many runs go on at once.
fn in_line(experiments: u64, at_most: u32, pilot: bool) -> Lab {
    let mut lab = Lab {
        at_most: Some(at_most),
        ..Lab::default()
    };
    let names = (1..=experiments).map(|n| definition(&format!("e{n}"), "1"));
    lab.add("/lab", names.collect());
    let ids: Vec<u64> = (1..=experiments).collect();
    lab.start_batch(&ids, pilot);
    lab
}

#[test]
fn the_next_of_a_start_goes_on_when_one_has_ended_whatever_its_end() {
    let mut lab = in_line(5, 2, false);
    assert_eq!(held(&lab), [3, 4, 5]);
    let why = why(&lab, run(4, 1));
    assert_eq!(why, "its turn: at most 2 of its start run at once");
    let three = lab.state.run(run(3, 1)).unwrap();
    assert!(!HoldReason::of(&lab.state, three).unwrap().needs_person());
    assert!(three.node().is_none() && !three.unplaced());
    lab.say(run(2, 1), running());
    assert_eq!(held(&lab), [3, 4, 5]);
    lab.say(run(2, 1), crashed(1, "no disk", 5));
    assert_eq!(held(&lab), [4, 5]);
    assert!(lab.state.run(run(3, 1)).unwrap().unplaced());
    lab.say(run(1, 1), ended(0));
    assert_eq!(held(&lab), [5]);
    lab.say(run(4, 1), ended(0));
    assert_eq!(held(&lab), [0_u64; 0]);
}

#[test]
fn a_pilot_goes_alone_and_the_others_take_turns_when_it_has_finished() {
    let mut lab = in_line(5, 2, true);
    assert_eq!(held(&lab), [2, 3, 4, 5]);
    assert_eq!(why(&lab, run(2, 1)), "its pilot 1.1, which runs first");
    lab.say(run(1, 1), ended(0));
    assert_eq!(held(&lab), [4, 5]);
    let why = why(&lab, run(5, 1));
    assert_eq!(why, "its turn: at most 2 of its start run at once");
    lab.say(run(3, 1), ended(1));
    assert_eq!(held(&lab), [5]);
}

#[test]
fn a_run_in_line_is_stored_as_earlier_programs_read_it_and_comes_back_in_line() {
    let lab = in_line(2, 1, false);
    let two = lab.state.run(run(2, 1)).unwrap();
    let stored = serde_json::to_value(crate::fold::row::DispatchRow::of(two)).unwrap();
    assert_eq!(stored["in_line"], true);
    assert!(stored["hold"].is_null(), "no cause that they do not know");
    let kept: crate::fold::row::DispatchRow = serde_json::from_value(stored).unwrap();
    let again = kept.run((*two.made).clone(), Arc::default(), Arc::default());
    assert_eq!(again.hold_cause(), Some(HoldCause::AtMost));
    let made = serde_json::to_value(&*two.made).unwrap();
    assert_eq!(made["line"]["at_most"], 1);
    let mut earlier = made.clone();
    for word in ["line", "priority", "rank"] {
        earlier.as_object_mut().unwrap().remove(word);
    }
    let earlier: RunRecord = serde_json::from_value(earlier).unwrap();
    assert_eq!((earlier.line, earlier.priority, earlier.rank), (None, 0, 0));
}

#[test]
fn equal_crashes_hold_the_runs_in_line_too_and_they_take_turns_after_a_resume() {
    let mut lab = in_line(12, 2, false);
    for id in 1..=5 {
        lab.say(run(id, 1), crashed(1, "no disk", 900));
    }
    assert_eq!(held(&lab), [6, 7, 8, 9, 10, 11, 12]);
    assert!(why(&lab, run(9, 1)).starts_with("the first 5 of its start crashed as "));
    for id in 6..=12 {
        lab.happens(run(id, 1), &Input::HoldLifted);
    }
    let in_line = (6..=12).filter(|id| {
        let run = lab.state.run(run(*id, 1)).unwrap();
        run.hold_cause() == Some(HoldCause::AtMost)
    });
    assert_eq!(in_line.count(), 5);
}
