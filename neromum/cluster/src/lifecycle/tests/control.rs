//! What cancels, holds and releases the jobs of a submission.

use super::*;

#[test]
fn an_aborted_run_that_waits_is_cancelled_and_once_more_while_it_is_listed() {
    let mut scene = Scene::new(&[1]);
    scene.lists(&[(None, waits())]);
    assert_eq!(scene.cancels(), NOTHING);
    scene.aborts(0);
    assert_eq!(scene.cancels(), (vec![None], 0, 0));
    scene.pass(14);
    assert_eq!(scene.cancels(), NOTHING, "it was cancelled lately");
    scene.pass(1);
    assert_eq!(scene.cancels(), (vec![None], 0, 0));
    scene.pass(15);
    scene.lists(&[(None, State::Ended(NOBODY))]);
    assert_eq!(scene.cancels(), NOTHING);
}

#[test]
fn a_task_that_began_since_it_was_aborted_is_rung_before_its_job_is_cancelled() {
    let mut scene = Scene::new(&[1]);
    scene.aborts(0);
    scene.lists(&[(None, State::Running)]);
    assert_eq!(scene.cancels(), (vec![], 1, 0));
    scene.pass(15);
    assert_eq!(scene.cancels(), (vec![None], 0, 0), "it did not answer");
}

#[test]
fn a_row_whose_tasks_all_end_is_cancelled_by_one_word_and_others_task_by_task() {
    let rows = [(Some("0-2"), waits())];
    let mut some = Scene::new(&[1, 1, 1]);
    some.lists(&rows);
    some.aborts(0);
    some.aborts(2);
    assert_eq!(some.cancels(), (vec![Some(0), Some(2)], 0, 0));
    let mut all = Scene::new(&[1, 1, 1]);
    all.lists(&rows);
    (0..3).for_each(|number| all.aborts(number));
    assert_eq!(all.cancels(), (vec![None], 0, 0));
    let mut last = Scene::new(&[1, 1, 1]);
    last.lists(&rows);
    last.one.tasks[0].over = true;
    last.aborts(1);
    last.aborts(2);
    assert_eq!(last.cancels(), (vec![None], 0, 0), "the first is over");
}

#[test]
fn each_job_is_cancelled_by_one_word_though_its_tasks_lie_between_those_of_a_copy() {
    let mut scene = Scene::new(&[1, 1, 1]);
    let rows = [(7, "0"), (9, "1"), (7, "2")];
    scene.one.rows = rows
        .map(|(job, task)| scene.row(job, Some(task), waits()))
        .into();
    (0..3).for_each(|number| scene.aborts(number));
    let found = scene.one.cancel(scene.now, &scene.runs);
    let named: Vec<u64> = found.rows.iter().map(|(row, _)| row.job.0).collect();
    assert_eq!(named, [7, 9]);
}

#[test]
fn a_pack_is_cancelled_when_no_run_of_it_goes_on() {
    let mut scene = Scene::new(&[2]);
    scene.lists(&[(None, waits())]);
    scene.aborts(0);
    assert_eq!(scene.cancels(), NOTHING, "the other run waits");
    scene.ends(1);
    assert_eq!(scene.cancels(), (vec![None], 0, 0));
}

#[test]
fn a_run_that_does_not_end_in_its_grace_is_escalated_once_and_its_job_cancelled_each_minute() {
    let mut scene = Scene::new(&[1]);
    scene.lists(&[(None, State::Running)]);
    scene.runs(0);
    let grace = |_: &TaskRun| Duration::from_secs(30);
    scene.one.note_overdue(scene.now, &scene.runs, grace);
    assert_eq!(scene.one.tasks[0].overdue_at, None, "it is to go on");
    scene.aborts(0);
    let asked = scene.now;
    for _ in 0..2 {
        scene.one.note_overdue(scene.now, &scene.runs, grace);
        assert_eq!(scene.cancels(), NOTHING);
        scene.pass(74);
    }
    scene.now = asked + Duration::from_secs(75);
    assert_eq!(scene.cancels(), (vec![None], 0, 1));
    scene.pass(59);
    assert_eq!(scene.cancels(), NOTHING);
    scene.pass(1);
    assert_eq!(scene.cancels(), (vec![None], 0, 0), "its folder tells it");
}

#[test]
fn an_adopted_job_has_no_grace_and_is_neither_rung_nor_escalated() {
    let mut scene = Scene::adopted();
    scene.runs(0);
    scene.aborts(0);
    scene.one.rows = vec![scene.row(7, None, State::Running)];
    let grace = |_: &TaskRun| Duration::from_secs(30);
    scene.one.note_overdue(scene.now, &scene.runs, grace);
    assert_eq!(scene.cancels(), (vec![None], 0, 0));
}

#[test]
fn a_submission_without_a_job_is_not_cancelled() {
    for standing in [SubmissionState::NEW, SubmissionState::recovered()] {
        let mut scene = Scene::new(&[1]);
        scene.one.standing = standing;
        scene.aborts(0);
        assert_eq!(scene.cancels(), NOTHING);
    }
}

#[test]
fn a_job_is_held_while_it_waits_and_released_while_it_is_held() {
    use PauseState::{Paused, Resumed};
    for (state, wanted, is_due) in [
        (waits(), Paused, true),
        (waits(), Resumed, false),
        (held(), Paused, false),
        (held(), Resumed, true),
        (State::Running, Paused, false),
        (State::Suspended, Resumed, false),
    ] {
        let mut scene = Scene::new(&[1]);
        scene.lists(&[(None, state.clone())]);
        scene.runs.set_paused(scene.run(0), wanted == Paused);
        let row = scene
            .one
            .row_to_hold(&scene.one.tasks[0], wanted, &scene.runs);
        assert_eq!(row.is_some(), is_due, "{state:?} {wanted:?}");
    }
}

#[test]
fn a_pack_is_held_when_each_run_of_it_is_paused_or_over() {
    let mut scene = Scene::new(&[3]);
    scene.lists(&[(None, waits())]);
    let is_held = |scene: &Scene| {
        let task = &scene.one.tasks[0];
        let row = scene.one.row_to_hold(task, PauseState::Paused, &scene.runs);
        row.is_some()
    };
    scene.runs.set_paused(scene.run(0), true);
    scene.ends(1);
    assert!(!is_held(&scene));
    scene.runs.set_paused(scene.run(2), true);
    assert!(is_held(&scene));
}

#[test]
fn a_hold_that_is_refused_is_asked_for_after_pauses_that_double_up_to_ten_minutes() {
    let mut now = Instant::now();
    let mut hold = Hold::new(PauseState::Paused, now);
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let begun = now;
        hold = hold.after_command(now);
        assert_eq!(hold.since, begun, "an older listing says nothing about it");
        while !hold.is_due(now) {
            now += Duration::from_secs(15);
            hold = if hold.is_due(now) {
                hold
            } else {
                hold.after_command(now)
            };
        }
        pauses.push((now - begun).as_secs());
    }
    assert_eq!(pauses, [15, 30, 60, 120, 240, 480, 600, 600]);
}
