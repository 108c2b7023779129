//! Tasks that their scheduler has no more.

use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::{RunLeft, TaskLeft, TaskStart, run_left};

use super::*;
use crate::job::allocation::Allocation;

/// More than three beats.
pub(super) const LONG: Duration = Duration::from_secs(100);

/// Nothing changed this file since.
pub(super) fn stood_still(path: &std::path::Path, ago: Duration) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(std::time::SystemTime::now() - ago)
        .unwrap();
}

/// A run in a submission whose task no listing shows any more.
struct Lost {
    node: Node,
    run: TaskRun,
    files: Files,
    agent: Agent<Cluster>,
    _boxes: Mailboxes<ClusterResult>,
}

impl Lost {
    fn new() -> Self {
        let (node, run) = (Node::new(), planned(1));
        let files = node.submit(&[run], 7);
        std::thread::sleep(Duration::from_millis(5));
        let (mut agent, boxes) = node.agent();
        for submission in agent.driver.submissions.values_mut() {
            submission.tasks[0].seen = Presence::Gone(None);
            submission.tasks[0].over = true;
        }
        Self {
            node,
            run,
            files,
            agent,
            _boxes: boxes,
        }
    }

    /// A start whose beat stood still this long ago, with what it told.
    fn has_start(&self, ago: Duration, news: &[News]) {
        for one in news {
            self.files.note(*one, false).unwrap();
        }
        stood_still(&self.files.path(News::Began(FIRST)), ago);
    }

    /// The scheduler lost the host of its start, of which no beat is seen.
    fn is_over(&mut self) {
        let cluster = &mut self.agent.driver;
        for submission in cluster.submissions.values_mut() {
            submission.tasks[0].seen = Presence::Gone(Some(SchedulerEnd::HostFailure));
            submission.tasks[0].over = true;
        }
        self.agent.look_and_decide(self.run.token, 1);
        self.agent.carry_out();
    }

    /// The controller was started after the submission.
    fn controller_was_started(&mut self) {
        self.controller_is_up(Duration::ZERO);
    }

    fn controller_is_up(&mut self, up_max: Duration) {
        let cluster = &mut self.agent.driver;
        let ids: Vec<SubmissionId> = cluster.submissions.keys().copied().collect();
        Cluster::controller_is_up(&mut self.agent, &ids, Some(up_max));
        self.agent.carry_out();
    }

    /// A controller tells at 10:00:00 that it was started at this time.
    fn answers(&mut self, ask: Ask, started: &str) {
        let text = format!(
            "Configuration data as of 2026-11-24T10:00:00\n\
             BOOT_TIME = {started}\nMaxArraySize = 1001\n"
        );
        Cluster::answered(
            &mut self.agent,
            CommandAnswers {
                ask,
                said: vec![CallOutput {
                    end: End::Code(0),
                    out: text.into_bytes(),
                    err: Vec::new(),
                }],
                site: None,
                users: HashMap::new(),
            },
        );
    }

    fn claim(&self) -> PathBuf {
        segments::folder(&self.node.paths.run(self.run.id), 1).join(names::CLAIM)
    }
}

#[tokio::test]
async fn a_task_that_the_scheduler_lost_is_closed_before_its_run_is_submitted_again() {
    let mut lost = Lost::new();
    lost.controller_was_started();
    assert_eq!(Cluster::stage(&lost.agent, &lost.run), Stage::Waiting);
    assert!(lost.files.is_closed(0).unwrap());
    assert!(!lost.claim().exists(), "no start can make it");
}

#[tokio::test]
async fn a_task_that_a_person_cancelled_is_not_submitted_again_since_the_clock_was_set() {
    let mut lost = Lost::new();
    let cluster = &mut lost.agent.driver;
    for submission in cluster.submissions.values_mut() {
        submission.made_ms = 0;
    }
    lost.controller_is_up(Duration::from_hours(24));
    assert!(matches!(
        Cluster::stage(&lost.agent, &lost.run),
        Stage::Submitted { .. }
    ));
}

#[tokio::test]
async fn a_job_that_failed_without_a_word_is_submitted_again_and_one_with_words_is_refused() {
    for (said, stage) in [("", Stage::Waiting), ("no such module\n", Stage::Refused)] {
        let mut lost = Lost::new();
        std::fs::write(lost.files.folder().join("0.scheduler"), said).unwrap();
        let cluster = &mut lost.agent.driver;
        for submission in cluster.submissions.values_mut() {
            submission.tasks[0].seen = Presence::Gone(Some(SchedulerEnd::Failed));
        }
        Cluster::have_vanished(&mut lost.agent, &[lost.run.token]);
        lost.agent.carry_out();
        assert_eq!(Cluster::stage(&lost.agent, &lost.run), stage, "{said:?}");
    }
}

#[tokio::test]
async fn a_start_that_came_before_its_task_was_closed_keeps_its_run() {
    let mut lost = Lost::new();
    lost.has_start(Duration::ZERO, &[News::Began(FIRST)]);
    lost.controller_was_started();
    assert!(matches!(
        Cluster::stage(&lost.agent, &lost.run),
        Stage::Submitted { .. }
    ));
    // It saw the name and left: now nothing of the task is alive.
    lost.files.note(News::Left(FIRST), false).unwrap();
    Cluster::have_vanished(&mut lost.agent, &[lost.run.token]);
    assert_eq!(Cluster::stage(&lost.agent, &lost.run), Stage::Waiting);
}

#[tokio::test]
async fn a_start_whose_submission_the_leader_has_forgotten_launches_nothing() {
    let lost = Lost::new();
    let mut allocation = Allocation::new(lost.files.clone(), FIRST);
    assert!(allocation.launches(lost.run.id, 1).unwrap());
    std::fs::remove_dir_all(lost.files.folder()).unwrap();
    assert!(!allocation.launches(lost.run.id, 2).unwrap());
}

/// Three tasks that are over by this word of the scheduler, of which the second has a
/// start that lives.
fn three_of_which_one_lives(
    how: Option<SchedulerEnd>,
) -> (
    [TaskRun; 3],
    Agent<Cluster>,
    (Node, Mailboxes<ClusterResult>),
) {
    let (node, runs) = (Node::new(), [1, 2, 3].map(planned));
    let files = node.submit(&runs, 7);
    let (mut agent, boxes) = node.agent();
    let submissions = agent.driver.submissions.values_mut();
    for task in submissions.flat_map(|one| &mut one.tasks) {
        task.seen = Presence::Gone(how);
        task.over = true;
    }
    let lives = News::Began(StartId { task: 1, number: 1 });
    files.note(lives, false).unwrap();
    (runs, agent, (node, boxes))
}

#[tokio::test]
async fn tasks_cancelled_together_are_given_up_but_for_one_whose_start_lives() {
    let (runs, mut agent, _node) =
        three_of_which_one_lives(Some(SchedulerEnd::Cancelled { by: Some(0) }));
    Cluster::have_vanished(&mut agent, &runs.map(|run| run.token));
    agent.carry_out();
    assert_eq!(Cluster::stage(&agent, &runs[0]), Stage::TakenAway);
    let why = |agent: &Agent<Cluster>| agent.core.run(&runs[0].token).unwrap().why.clone();
    assert_eq!(why(&agent), "SLURM by root");
    assert!(matches!(
        Cluster::stage(&agent, &runs[1]),
        Stage::Submitted { .. }
    ));
    assert_eq!(Cluster::stage(&agent, &runs[2]), Stage::TakenAway);
}

#[tokio::test]
async fn the_accounting_is_asked_once_who_cancelled_a_job_before_its_end_is_told() {
    let by = |by| Some(SchedulerEnd::Cancelled { by });
    for (rows, told) in [
        (
            "7_0|7_0|CANCELLED by 4294967294|0:0|NAME\n",
            Some(4_294_967_294),
        ),
        ("", None),
    ] {
        let (_, mut agent, (node, _boxes)) = three_of_which_one_lives(by(None));
        let cluster = &mut agent.driver;
        for submission in cluster.submissions.values_mut() {
            submission.tasks[0].over = false;
        }
        cluster.counted = Some((Instant::now(), JobCounts { queued: 0, kept: 0 }));
        let task = |agent: &Agent<Cluster>| {
            let mut all = agent.driver.submissions.values();
            all.next().unwrap().tasks[0].clone()
        };
        assert!(task(&agent).lacks_its_canceller());
        let (Ask::Ends(ids), _) = Cluster::ends_to_ask(&mut agent).unwrap() else {
            panic!("no question about ends");
        };
        let said = CallOutput {
            end: End::Code(0),
            out: rows.replace("NAME", &node.name.borrow()).into_bytes(),
            err: Vec::new(),
        };
        Cluster::ends_answered(&mut agent, &ids, &[said]);
        assert_eq!(task(&agent).seen, Presence::Gone(by(told)));
        assert!(!task(&agent).lacks_its_canceller());
    }
}

#[tokio::test]
async fn a_task_whose_start_lives_keeps_no_other_from_being_submitted_again() {
    let (runs, mut agent, _node) = three_of_which_one_lives(None);
    std::thread::sleep(Duration::from_millis(5));
    let cluster = &mut agent.driver;
    let ids: Vec<SubmissionId> = cluster.submissions.keys().copied().collect();
    Cluster::controller_is_up(&mut agent, &ids, Some(Duration::ZERO));
    agent.carry_out();
    assert_eq!(Cluster::stage(&agent, &runs[0]), Stage::Waiting);
    assert!(matches!(
        Cluster::stage(&agent, &runs[1]),
        Stage::Submitted { .. }
    ));
    assert_eq!(Cluster::stage(&agent, &runs[2]), Stage::Waiting);
}

#[tokio::test]
async fn a_claim_is_withheld_from_a_frozen_start_that_was_about_to_launch() {
    let mut lost = Lost::new();
    let news = [News::Began(FIRST), News::Launches(lost.run.id, 1, FIRST)];
    lost.has_start(LONG, &news);
    lost.controller_was_started();
    assert_eq!(Cluster::stage(&lost.agent, &lost.run), Stage::Waiting);
    assert!(lost.claim().exists());
    let run_dir = lost.node.paths.run(lost.run.id);
    let again = own::withhold_claim(&run_dir, lost.run.token, 1).unwrap();
    assert!(!again, "whoever comes later loses");
    // A start of the next submission makes the next incarnation.
    let facts = lost.agent.entries[&lost.run.token].facts;
    let decision = decide(
        &facts,
        ProcessLives::UNKNOWN,
        TrackingState::Nobody,
        Origin::Elsewhere,
    );
    assert_eq!(decision, Decision::LaunchNext);
}

#[tokio::test]
async fn a_claim_that_a_frozen_start_made_is_no_run_that_vanished() {
    let mut lost = Lost::new();
    let news = [News::Began(FIRST), News::Launches(lost.run.id, 1, FIRST)];
    lost.has_start(LONG, &news);
    let _segment = lost.node.claim(&lost.run, 1);
    lost.controller_was_started();
    assert!(!matches!(
        Cluster::stage(&lost.agent, &lost.run),
        Stage::Waiting
    ));
}

#[tokio::test]
async fn a_run_that_is_called_lost_is_not_begun_once_more_by_a_late_start_of_its_task() {
    for (ago, is_lost) in [(LONG, true), (Duration::ZERO, false)] {
        let mut lost = Lost::new();
        let news = [News::Began(FIRST), News::Launches(lost.run.id, 1, FIRST)];
        lost.has_start(ago, &news);
        Cluster::hears(&mut lost.agent, &lost.files, &news);
        let _segment = lost.node.claim(&lost.run, 1);
        stood_still(&lost.claim(), ago);
        lost.agent.look_and_decide(lost.run.token, 1);
        lost.agent.carry_out();
        let stage = Cluster::stage(&lost.agent, &lost.run);
        let is_over = matches!(stage, Stage::Ended { .. } | Stage::Settled { .. });
        assert_eq!(is_over, is_lost, "{stage:?}");
        assert_eq!(lost.files.is_closed(0).unwrap(), is_lost);
    }
}

#[tokio::test]
async fn a_task_that_a_person_may_have_cancelled_is_submitted_again_only_when_that_was_said() {
    for reruns_lost in [false, true] {
        let mut lost = Lost::new();
        let run = &lost.run;
        let spec = nero_wire::v1::RunSpec {
            token: run.token.to_vec(),
            experiment: run.id.experiment.0,
            number: run.id.number,
            scheduler: Some(nero_wire::v1::SchedulerRequest {
                reruns_lost,
                ..Default::default()
            }),
            ..Default::default()
        };
        let path = lost.node.paths.run(run.id).join(names::SPEC);
        nero_journal::frame::create(nero_journal::frame::FrameKind::Spec, &path, &spec).unwrap();
        lost.controller_is_up(Duration::from_secs(1000));
        let stage = Cluster::stage(&lost.agent, &lost.run);
        assert_eq!(stage == Stage::Waiting, reruns_lost, "{stage:?}");
        assert_eq!(lost.files.is_closed(0).unwrap(), reruns_lost);
    }
}

#[tokio::test]
async fn a_task_vanishes_whose_jobs_id_the_controller_gave_twice_and_is_submitted_again() {
    for (other_job, is_forgotten) in [(7, false), (7, true), (8, false), (8, true)] {
        let (node, run, other) = (Node::new(), planned(1), planned(2));
        node.submit(&[run], 7);
        node.submit(&[other], other_job);
        let (mut agent, _boxes) = node.agent();
        let submissions = &mut agent.driver.submissions;
        let ids: Vec<SubmissionId> = submissions.keys().copied().collect();
        for task in submissions.values_mut().flat_map(|one| &mut one.tasks) {
            task.seen = Presence::Gone(None);
            task.over = true;
        }
        if is_forgotten {
            // The other one ended, and its run is closed.
            agent.entries.remove(&other.token);
            Cluster::forgot(&mut agent);
            assert_eq!(agent.driver.submissions.len(), 1);
        }
        // The controller was not started since.
        Cluster::controller_is_up(&mut agent, &ids, Some(Duration::from_secs(1000)));
        agent.carry_out();
        let is_waiting = Cluster::stage(&agent, &run) == Stage::Waiting;
        assert_eq!(is_waiting, other_job == 7);
    }
}

#[tokio::test]
async fn a_start_that_comes_back_after_its_run_was_called_lost_is_asked_to_leave() {
    let mut lost = Lost::new();
    let news = [
        News::Began(FIRST),
        News::Left(FIRST),
        News::Began(SECOND),
        News::Launches(lost.run.id, 1, SECOND),
    ];
    let _segment = lost.node.claim(&lost.run, 1);
    Cluster::hears(&mut lost.agent, &lost.files, &news);
    stood_still(&lost.files.path(News::Began(SECOND)), LONG);
    stood_still(&lost.claim(), LONG);
    lost.is_over();
    assert!(lost.agent.entries[&lost.run.token].facts.lost);
    let is_asked = |start| lost.files.path(News::Leave(start)).exists();
    assert!(is_asked(SECOND) && !is_asked(FIRST));
}

#[tokio::test]
async fn a_start_that_claims_after_its_task_was_found_over_keeps_its_run() {
    for is_claim_new in [false, true] {
        let mut lost = Lost::new();
        let news = [News::Began(FIRST), News::Launches(lost.run.id, 1, FIRST)];
        lost.has_start(LONG, &news);
        let _segment = lost.node.claim(&lost.run, 1);
        match is_claim_new {
            true => {}
            // The leader looked long after the claim; the beat goes on.
            false => {
                stood_still(&lost.claim(), LONG);
                stood_still(&lost.files.path(News::Began(FIRST)), Duration::ZERO);
            }
        }
        Cluster::hears(&mut lost.agent, &lost.files, &news);
        let stage = Cluster::stage(&lost.agent, &lost.run);
        assert!(matches!(stage, Stage::Running { .. }), "{stage:?}");
        assert!(!lost.files.path(News::Leave(FIRST)).exists());
        // Its beat stands still again.
        stood_still(&lost.claim(), LONG);
        stood_still(&lost.files.path(News::Began(FIRST)), LONG);
        lost.is_over();
        assert!(lost.agent.entries[&lost.run.token].facts.lost);
    }
}

#[tokio::test]
async fn a_run_whose_job_failed_before_it_began_stays_refused_after_a_restart() {
    for is_compacted in [false, true] {
        let (runs, mut agent, (node, boxes)) = three_of_which_one_lives(Some(SchedulerEnd::Failed));
        for submission in agent.driver.submissions.values() {
            // Without a word of them, jobs are made again.
            for log in ["0.scheduler", "1.scheduler", "2.scheduler"] {
                std::fs::write(submission.files.folder().join(log), "no such module").unwrap();
            }
        }
        Cluster::have_vanished(&mut agent, &runs.map(|run| run.token));
        agent.carry_out();
        let seen = |agent: &Agent<Cluster>| {
            let run = agent.core.run(&runs[0].token).unwrap();
            (run.stage.clone(), run.why.clone())
        };
        let before = seen(&agent);
        assert_eq!(before.0, Stage::Refused, "{}", before.1);
        assert!(before.1.contains("failed before the run began"));
        if is_compacted {
            agent.compact();
        }
        drop((agent, boxes));
        let (agent, _boxes) = node.agent();
        assert_eq!(seen(&agent), before);
        assert!(matches!(
            Cluster::stage(&agent, &runs[1]),
            Stage::Submitted { .. }
        ));
    }
}

#[tokio::test]
async fn a_run_that_its_task_left_paused_waits_here_and_goes_again_after_a_resume() {
    for how in [Some(SchedulerEnd::Failed), None] {
        let mut lost = Lost::new();
        let token = lost.run.token;
        lost.agent.core.set_paused(token, true);
        let left = TaskLeft {
            runs: vec![RunLeft {
                token: token.to_vec(),
                how: run_left::How::Paused.into(),
                ..RunLeft::default()
            }],
            ..TaskLeft::default()
        };
        let start = TaskStart {
            job: "7".to_owned(),
            ..TaskStart::default()
        };
        let path = |news| lost.files.path(news);
        frame::create(FrameKind::TaskStart, &path(News::Began(FIRST)), &start).unwrap();
        frame::create(FrameKind::TaskLeft, &path(News::Left(FIRST)), &left).unwrap();
        let news = [News::Began(FIRST), News::Left(FIRST)];
        Cluster::hears(&mut lost.agent, &lost.files, &news);
        let cluster = &mut lost.agent.driver;
        for submission in cluster.submissions.values_mut() {
            submission.tasks[0].seen = Presence::Gone(how);
        }
        Cluster::have_vanished(&mut lost.agent, &[token]);
        assert_eq!(Cluster::stage(&lost.agent, &lost.run), Stage::Waiting);
        assert_eq!(lost.agent.core.waiting(), 0);
        lost.agent.core.set_paused(token, false);
        assert_eq!(lost.agent.core.waiting(), 1);
    }
}

#[tokio::test]
async fn a_vanished_task_is_explained_by_the_start_time_of_the_controller() {
    let mut lost = Lost::new();
    stood_still(&lost.files.plan(), Duration::from_secs(2));
    Cluster::have_vanished(&mut lost.agent, &[lost.run.token]);
    let (ask, calls) = Cluster::next_ask(&mut lost.agent, Instant::now()).unwrap();
    let Ask::Start(..) = &ask else {
        panic!("{ask:?}");
    };
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].program, "scontrol");
    lost.answers(ask, "2026-11-24T10:00:00");
    assert_eq!(Cluster::stage(&lost.agent, &lost.run), Stage::Waiting);
}

#[tokio::test]
async fn a_task_that_may_have_been_cancelled_while_the_answer_took_long_waits_for_a_person() {
    let mut lost = Lost::new();
    stood_still(&lost.files.plan(), Duration::from_secs(10));
    Cluster::have_vanished(&mut lost.agent, &[lost.run.token]);
    let asked = Instant::now() - Duration::from_secs(5);
    let (ask, _) = Cluster::next_ask(&mut lost.agent, asked).unwrap();
    lost.answers(ask, "2026-11-24T09:59:52");
    assert!(matches!(
        Cluster::stage(&lost.agent, &lost.run),
        Stage::Submitted { .. }
    ));
}

#[tokio::test]
async fn a_user_of_a_directory_who_cancelled_a_job_is_named() {
    let by = Some(SchedulerEnd::Cancelled {
        by: Some(4_000_000),
    });
    let (_, mut agent, _node) = three_of_which_one_lives(by);
    let at = |agent: &Agent<Cluster>| agent.driver.ended_at(by);
    assert_eq!(at(&agent), "SLURM by uid 4000000");
    let users = HashMap::from([(4_000_000, "ada".to_owned())]);
    Cluster::answered(
        &mut agent,
        CommandAnswers {
            ask: Ask::Ends(Vec::new()),
            said: Vec::new(),
            site: None,
            users,
        },
    );
    assert_eq!(at(&agent), "SLURM by ada");
}
