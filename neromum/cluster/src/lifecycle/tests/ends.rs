//! Tasks that are over: what becomes of runs that began nothing, what the accounting is asked, and
//! the ends of adopted jobs.

use super::*;

/// A run of a task that is over by this word, with no other trace.
fn unbegun(how: Option<SchedulerEnd>) -> UnbegunRun {
    UnbegunRun {
        token: RunToken::random(),
        submission: SubmissionId::random(),
        task: 0,
        how,
        was_closed: false,
        is_alone: true,
        has_begun: false,
        has_copy: false,
        left_early: false,
        is_silent: false,
    }
}

/// How a task ended, what else is known of its run, and what becomes of it.
type UnbegunCase = (Option<SchedulerEnd>, fn(&mut UnbegunRun), UnbegunFate);

#[test]
fn a_run_that_began_nothing_goes_again_is_taken_away_or_is_refused_by_how_its_task_ended() {
    use UnbegunFate::{Cancellation, Rejection, Resubmission};
    let by_root = SchedulerEnd::Cancelled { by: Some(0) };
    let cases: [UnbegunCase; 14] = [
        (None, |_| {}, Resubmission),
        (Some(by_root), |_| {}, Cancellation(by_root)),
        (
            Some(NOBODY),
            |run| run.left_early = true,
            Cancellation(NOBODY),
        ),
        (
            Some(NOBODY),
            |run| run.has_copy = true,
            Cancellation(NOBODY),
        ),
        (Some(NOBODY), |run| run.was_closed = true, Resubmission),
        (
            Some(NOBODY),
            |run| (run.was_closed, run.is_alone) = (true, false),
            Cancellation(NOBODY),
        ),
        (
            Some(SchedulerEnd::Failed),
            |_| {},
            Rejection(SchedulerEnd::Failed),
        ),
        (
            Some(SchedulerEnd::Failed),
            |run| run.is_silent = true,
            Resubmission,
        ),
        (
            Some(SchedulerEnd::Failed),
            |run| run.left_early = true,
            Resubmission,
        ),
        (
            Some(SchedulerEnd::Failed),
            |run| run.has_copy = true,
            Resubmission,
        ),
        (
            Some(SchedulerEnd::Failed),
            |run| run.has_begun = true,
            Resubmission,
        ),
        (
            Some(SchedulerEnd::TimeLimit),
            |_| {},
            Rejection(SchedulerEnd::TimeLimit),
        ),
        (
            Some(SchedulerEnd::TimeLimit),
            |run| run.is_silent = true,
            Rejection(SchedulerEnd::TimeLimit),
        ),
        (
            Some(SchedulerEnd::Completed),
            |run| run.has_begun = true,
            Resubmission,
        ),
    ];
    for (how, change, fate) in cases {
        let mut run = unbegun(how);
        change(&mut run);
        assert_eq!(run.fate(&mut 0), fate, "{run:?}");
    }
}

#[test]
fn the_third_job_of_a_run_that_fails_without_a_word_refuses_it() {
    let mut run = unbegun(Some(SchedulerEnd::Failed));
    run.is_silent = true;
    let mut failed = 0;
    let fates = [0; 3].map(|_| run.fate(&mut failed));
    let again = UnbegunFate::Resubmission;
    assert_eq!(
        fates,
        [again, again, UnbegunFate::Rejection(SchedulerEnd::Failed)]
    );
}

#[test]
fn only_a_task_without_a_trace_has_to_wait_for_the_start_of_the_controller() {
    assert!(unbegun(None).lacks_a_trace());
    assert!(!unbegun(Some(SchedulerEnd::Failed)).lacks_a_trace());
    for change in [
        (|run| run.was_closed = true) as fn(&mut UnbegunRun),
        |run| run.left_early = true,
    ] {
        let mut run = unbegun(None);
        change(&mut run);
        assert!(!run.lacks_a_trace());
    }
}

#[test]
fn tasks_that_vanished_go_again_from_a_controller_that_lost_them_or_by_a_persons_word() {
    for (is_lost, reruns, again) in [
        (true, false, [0, 3].as_slice()),
        (false, true, &[0, 3]),
        (false, false, &[]),
    ] {
        let mut scene = Scene::new(&[1, 1, 1, 2]);
        for (task, (seen, over)) in scene.one.tasks.iter_mut().zip([
            (Presence::Gone(None), true),
            (Presence::Gone(None), false),
            (Presence::Gone(Some(SchedulerEnd::Failed)), true),
            (Presence::Gone(None), true),
        ]) {
            (task.seen, task.over) = (seen, over);
        }
        scene.one.has_vanished = true;
        let (found, held) = scene.one.vanished_tasks(is_lost, |_| reruns);
        let indexes = |tasks: &[Task]| tasks.iter().map(|task| task.index).collect::<Vec<_>>();
        assert_eq!(indexes(&found), again);
        assert_eq!(held.len(), 2 - again.len(), "a person decides");
        assert!(!scene.one.has_vanished);
    }
}

#[test]
fn a_start_may_claim_that_made_its_launch_known_and_did_not_leave() {
    let mut scene = Scene::new(&[1]);
    let id = scene.one.runs().next().unwrap().id;
    let may = |scene: &Scene, incarnation| scene.one.may_be_claimed(id, incarnation);
    scene.one.news.insert(News::Began(FIRST));
    assert!(!may(&scene, 1));
    scene.one.news.insert(News::Launches(id, 1, FIRST));
    assert!(may(&scene, 1) && !may(&scene, 2));
    scene.one.news.insert(News::Left(FIRST));
    assert!(!may(&scene, 1));
}

const ACCOUNTS: Accounts = Accounts {
    may_exist: true,
    names_cancellers: true,
};

#[test]
fn a_task_is_over_when_its_folder_was_read_after_the_schedulers_word() {
    let mut scene = Scene::new(&[1, 1]);
    let later = scene.now + Duration::from_secs(1);
    scene.one.tasks[1].seen = Presence::Gone(Some(SchedulerEnd::Failed));
    let gone = scene.now;
    scene
        .one
        .tasks
        .iter_mut()
        .for_each(|task| task.note_gone(gone));
    let over = |scene: &Scene, looked| scene.one.tasks_gone(looked, ACCOUNTS, &scene.runs);
    assert!(over(&scene, None).is_empty());
    assert_eq!(over(&scene, Some(later)), [1]);
    scene.one.tasks[1].note_gone(later + Duration::from_secs(1));
    assert_eq!(over(&scene, Some(later)), [1], "it was gone before");
    scene.one.tasks[1].gone = Some(later + Duration::from_secs(1));
    assert!(over(&scene, Some(later)).is_empty());
    scene.one.tasks[1].gone = Some(gone);
    scene.one.tasks[1].over = true;
    assert!(over(&scene, Some(later)).is_empty(), "it was decided about");
}

#[test]
fn the_end_of_a_cancelled_task_waits_until_the_accounting_was_asked_who_did_it() {
    let none = Accounts {
        may_exist: false,
        ..ACCOUNTS
    };
    let oge = Accounts {
        names_cancellers: false,
        ..ACCOUNTS
    };
    let mut scene = Scene::new(&[1]);
    let now = scene.now;
    scene.one.tasks[0].seen = Presence::Gone(Some(NOBODY));
    scene.one.tasks[0].note_gone(now);
    let is_over = |scene: &Scene, accounts| {
        let gone = scene.one.tasks_gone(Some(scene.now), accounts, &scene.runs);
        gone == [0]
    };
    assert!(!is_over(&scene, ACCOUNTS));
    assert!(is_over(&scene, none) && is_over(&scene, oge));
    assert!(scene.one.wants_ends(now, ACCOUNTS, &scene.runs));
    scene.one.asks_for_ends(now);
    assert!(!scene.one.wants_ends(now, ACCOUNTS, &scene.runs));
    scene.one.ends_were_asked();
    assert!(is_over(&scene, ACCOUNTS));
    let mut ours = Scene::new(&[1]);
    ours.one.tasks[0].seen = Presence::Gone(Some(NOBODY));
    ours.one.tasks[0].note_gone(now);
    ours.one.tasks[0].cancelled = Some(now);
    assert!(is_over(&ours, ACCOUNTS), "we cancelled it");
}

#[test]
fn the_accounting_is_asked_four_times_once_after_each_listing_while_a_run_is_open() {
    let mut scene = Scene::new(&[1]);
    scene.lists(&[(None, waits())]);
    scene.pass(1);
    assert!(!scene.one.wants_ends(scene.now, ACCOUNTS, &scene.runs));
    scene.lists(&[]);
    for _ in 0..4 {
        assert!(scene.one.wants_ends(scene.now, ACCOUNTS, &scene.runs));
        scene.one.asks_for_ends(scene.now);
        assert!(!scene.one.wants_ends(scene.now, ACCOUNTS, &scene.runs));
        scene.pass(1);
    }
    assert!(!scene.one.wants_ends(scene.now, ACCOUNTS, &scene.runs));
    let mut ended = Scene::new(&[1]);
    ended.lists(&[]);
    ended.ends(0);
    assert!(!ended.one.wants_ends(ended.now, ACCOUNTS, &ended.runs));
}

#[test]
fn the_newest_record_of_a_task_counts_and_those_of_other_jobs_do_not() {
    let mut scene = Scene::new(&[1, 1]);
    scene
        .one
        .tasks
        .iter_mut()
        .for_each(|task| task.seen = Presence::Gone(None));
    let record = |job, task: &str, how| Record {
        name: scene.one.name.clone(),
        job: JobId(job),
        task: Some(Tasks::read(task).unwrap()),
        state: State::Ended(how),
        exit: None,
    };
    let records = [
        record(7, "0", SchedulerEnd::HostFailure),
        record(7, "0", SchedulerEnd::TimeLimit),
        record(8, "1", SchedulerEnd::Failed),
    ];
    scene.one.accounted(&records);
    let seen = scene.one.tasks.iter().map(|task| &task.seen);
    let expected = [
        &Presence::Gone(Some(SchedulerEnd::TimeLimit)),
        &Presence::Gone(None),
    ];
    assert!(seen.eq(expected));
}

/// What a listing or the accounting tells of an adopted job.
fn sighting(scene: &Scene, state: State, host: Option<&str>) -> AdoptedJobState {
    let mut row = scene.row(7, None, state);
    row.host = host.map(|host| nero_warden::Word::new(host).unwrap());
    AdoptedJobState {
        row,
        exit: None,
        ended_s: None,
    }
}

#[test]
fn an_adopted_run_is_claimed_when_its_job_began_or_is_gone_unless_it_was_aborted_before() {
    let gone = |how| Presence::Gone(how);
    let listed = Presence::Listed(waits());
    for (state, seen, aborted, claim) in [
        (waits(), listed.clone(), false, None),
        (State::Running, listed.clone(), false, Some(true)),
        (State::Running, listed, true, Some(true)),
        (waits(), gone(None), false, Some(false)),
        (waits(), gone(None), true, None),
        (waits(), gone(Some(NOBODY)), false, None),
        (State::Running, gone(Some(NOBODY)), false, Some(true)),
    ] {
        let mut scene = Scene::adopted();
        if aborted {
            scene.aborts(0);
        }
        let told = sighting(&scene, state.clone(), None);
        scene.one.tasks[0].seen = seen.clone();
        let found = scene.one.sighted(&[told], &scene.runs);
        let expected = claim.map(|began| (scene.run(0), began));
        assert_eq!(found, expected, "{state:?} {seen:?} {aborted}");
    }
    let mut other = Scene::new(&[1]);
    assert_eq!(other.one.sighted(&[], &other.runs), None);
}

#[test]
fn the_end_of_an_adopted_job_keeps_the_host_that_was_told_before() {
    let mut scene = Scene::adopted();
    let running = sighting(&scene, State::Running, Some("n1"));
    let ended = sighting(&scene, State::Ended(SchedulerEnd::Failed), None);
    scene.one.sighted(&[running], &scene.runs);
    scene.one.sighted(&[ended], &scene.runs);
    let told = scene.one.adoption.unwrap().sighting.unwrap();
    assert_eq!(told.row.state, State::Ended(SchedulerEnd::Failed));
    assert_eq!(told.row.host.unwrap().to_string(), "n1");
}

#[test]
fn an_adopted_job_that_failed_waits_for_its_code_and_for_its_logs() {
    let mut scene = Scene::adopted();
    let now = scene.now;
    scene.one.tasks[0].seen = Presence::Gone(Some(SchedulerEnd::Failed));
    scene.one.tasks[0].note_gone(now);
    let is_over = |scene: &Scene| {
        let gone = scene.one.tasks_gone(Some(now), ACCOUNTS, &scene.runs);
        gone == [0]
    };
    for asked in [3, 4] {
        scene.one.tasks[0].asked = asked;
        scene.one.adoption.as_mut().unwrap().copied = None;
        assert!(!is_over(&scene), "its logs are not copied");
        scene.one.adoption.as_mut().unwrap().copied = Some(now);
        assert_eq!(is_over(&scene), asked == 4);
    }
}
