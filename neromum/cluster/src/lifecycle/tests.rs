//! Each state of a submission with each input that concerns it, and what follows.

use std::path::Path;
use std::time::Duration;

use nero_model::{DeploymentId, ExperimentId};
use nero_node_core::PauseState;
use nero_node_core::capacity::{Capacity, Needs};
use nero_node_core::decide::Decision;
use nero_warden::{JobRef, Queue, Reason, Record, SchedulerEnd, State, SubmissionResult, Tasks};

use super::*;
use crate::submission::{self, StartId};

const FIRST: StartId = StartId { task: 0, number: 1 };
const NOBODY: SchedulerEnd = SchedulerEnd::Cancelled { by: None };

/// A submission as job 7, and its runs.
struct Scene {
    one: Submission,
    runs: Core,
    now: Instant,
}

impl Scene {
    /// One task for each of these numbers of runs, all of them at the scheduler.
    fn new(tasks: &[u32]) -> Self {
        Self::of(tasks, None)
    }

    fn of(tasks: &[u32], adopted: Option<AdoptedJob>) -> Self {
        let mut runs = Core::new(Capacity::UNBOUNDED);
        let mut number = 0;
        let mut planned = || {
            number += 1;
            let run = TaskRun {
                token: RunToken::random(),
                id: RunId {
                    experiment: ExperimentId(1),
                    number,
                },
            };
            runs.restore_submitted(run.token, run.id, number.into(), Needs::default());
            run
        };
        let task = |(index, count): (u32, &u32)| submission::Task {
            index,
            runs: (0..*count).map(|_| planned()).collect(),
        };
        let plan = Plan {
            submission: SubmissionId::random(),
            deployment: DeploymentId::random(),
            node: "n".to_owned(),
            root: "/r".into(),
            beat: Duration::from_secs(15),
            tasks: (0..).zip(tasks).map(task).collect(),
            at_once: None,
            adopted,
        };
        let name = JobName::of("abcdefghijklmnopqrstuvwxyz").unwrap();
        let mut one = Submission::of(&plan, Files::at(Path::new("/nowhere")), name);
        one.standing = SubmissionState::Accepted(JobId(7));
        let now = Instant::now();
        Self { one, runs, now }
    }

    /// One task with one run, which a person submitted.
    fn adopted() -> Self {
        let job = JobRef {
            job: JobId(7),
            task: None,
        };
        let job = AdoptedJob {
            job,
            submitted_s: 1000,
            stdout: None,
            stderr: None,
        };
        Self::of(&[1], Some(job))
    }

    fn run(&self, number: usize) -> RunToken {
        self.one.runs().nth(number).unwrap().token
    }

    fn aborts(&mut self, number: usize) {
        self.runs.cancel(self.run(number));
    }

    fn runs(&mut self, number: usize) {
        self.runs.found(self.run(number), 1, Decision::Elsewhere);
    }

    fn ends(&mut self, number: usize) {
        self.runs.found(self.run(number), 1, Decision::Ended);
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn row(&self, job: u64, tasks: Option<&str>, state: State) -> QueueRow {
        QueueRow {
            name: self.one.name.clone(),
            job: JobId(job),
            tasks: tasks.map(|tasks| Tasks::read(tasks).unwrap()),
            state,
            host: None,
            start_s: None,
        }
    }

    /// A listing shows these rows.
    fn lists(&mut self, rows: &[(Option<&str>, State)]) -> ListingChange {
        let rows = rows
            .iter()
            .map(|(tasks, state)| self.row(7, *tasks, state.clone()));
        let queue = Queue {
            ours: rows.collect(),
            ..Queue::default()
        };
        self.one.listed(&queue, &[], 0, None, &self.runs)
    }

    /// What a cancel asks for: tasks of rows, runs that are rung, runs that are escalated.
    fn cancels(&mut self) -> (Vec<Option<u32>>, usize, usize) {
        let found = self.one.cancel(self.now, &self.runs);
        let parts = found.rows.iter().map(|(_, part)| *part).collect();
        (parts, found.rings.len(), found.escalated.len())
    }
}

fn waits() -> State {
    State::Waiting(Reason::default())
}

fn held() -> State {
    State::Held(Reason::default())
}

const NOTHING: (Vec<Option<u32>>, usize, usize) = (Vec::new(), 0, 0);

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

#[test]
fn a_listing_tells_whether_a_submission_moved_and_whether_its_rows_are_new() {
    let mut scene = Scene::new(&[1]);
    scene
        .one
        .standing
        .answered(SubmissionResult::Accepted(JobId(7)));
    let change = |has_moved, has_new_rows| ListingChange {
        has_moved,
        has_new_rows,
    };
    assert_eq!(scene.lists(&[(None, waits())]), change(false, true));
    assert_eq!(scene.lists(&[(None, waits())]), change(false, false));
    scene.one.standing = SubmissionState::recovered();
    assert_eq!(scene.lists(&[(None, waits())]), change(true, false));
    assert_eq!(scene.one.job(), Some(JobId(7)));
}

#[test]
fn a_start_ends_a_doubt_and_a_row_that_cannot_be_read_changes_no_task() {
    let mut scene = Scene::new(&[1]);
    scene.one.standing = SubmissionState::recovered();
    let hidden = Queue {
        hidden: vec![scene.one.name.clone()],
        ..Queue::default()
    };
    let change = scene
        .one
        .listed(&hidden, &[], 0, Some(JobId(7)), &scene.runs);
    assert!(change.has_moved);
    assert_eq!(scene.one.tasks[0].seen, Presence::Listed(waits()));
    scene
        .one
        .listed(&Queue::default(), &[], 0, None, &scene.runs);
    assert_eq!(scene.one.tasks[0].seen, Presence::Missing { since_ms: 0 });
}

#[test]
fn a_doubt_that_no_listing_can_end_ends_when_each_run_of_it_was_aborted() {
    let nameless = Queue {
        is_nameless: true,
        ..Queue::default()
    };
    let mut scene = Scene::new(&[2]);
    scene.one.standing = SubmissionState::recovered();
    scene.aborts(0);
    scene.one.listed(&nameless, &[], 0, None, &scene.runs);
    assert!(scene.one.is_in_doubt());
    scene.aborts(1);
    scene.one.listed(&nameless, &[], 0, None, &scene.runs);
    assert!(scene.one.is_refused());
}

#[test]
fn a_submission_is_given_up_when_each_run_of_it_is_to_end_and_the_scheduler_does_not_have_it() {
    for (standing, is_free) in [
        (SubmissionState::NEW, true),
        (SubmissionState::recovered(), false),
        (SubmissionState::Accepted(JobId(7)), false),
    ] {
        let mut scene = Scene::new(&[2]);
        scene.one.standing = standing;
        scene.aborts(0);
        assert!(!scene.one.give_up(&scene.runs));
        scene.ends(1);
        assert_eq!(scene.one.give_up(&scene.runs), is_free);
        assert_eq!(scene.one.is_refused(), is_free);
    }
}

#[test]
fn a_submission_is_awaited_until_its_tasks_and_runs_are_over() {
    let is_awaited = |scene: &Scene| scene.one.is_awaited(&scene.runs);
    let mut scene = Scene::new(&[1]);
    for (standing, expected) in [
        (SubmissionState::NEW, true),
        (SubmissionState::recovered(), true),
        (SubmissionState::Refused(String::new()), false),
        (SubmissionState::NotNow(String::new()), false),
        (SubmissionState::Accepted(JobId(7)), true),
    ] {
        scene.one.standing = standing;
        assert_eq!(is_awaited(&scene), expected, "{:?}", scene.one.standing);
    }
    scene.ends(0);
    assert!(is_awaited(&scene), "its task is not over");
    scene.one.tasks[0].over = true;
    assert!(!is_awaited(&scene));
    let mut left = Scene::new(&[1]);
    left.ends(0);
    left.one.news = [News::Began(FIRST), News::Left(FIRST)].into();
    assert!(!is_awaited(&left), "its only start left");
}
