//! Each state of a submission with each input that concerns it, and what follows.

mod control;
mod ends;

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
