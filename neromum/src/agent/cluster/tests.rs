//! An agent with submissions, over real files; the scheduler's words are given to
//! it, and no command is executed.

use nero_journal::v1::{
    Claimed, JobExited, JobStarted, RecordKind, StopAsked, StopCause, TreeGone,
};
use nero_journal::{Clocks, Segment, Writer};
use nero_model::paths::{make_private, run as names};
use nero_model::{DeploymentId, ExperimentId, RunId};
use nero_warden::{Ended, Kind, Settings};

use super::*;
use crate::agent::{Mailboxes, Setup};
use crate::core::capacity::Capacity;
use crate::core::decide::{Decision, Lives, Origin, Tracking, decide};
use crate::ledger::Ledger;
use crate::runs::{own, segments};
use crate::staging::environment::Base;
use crate::staging::store::Store;
use crate::submission::{Plan, Planned, StartId};
use crate::warden::bare::Launcher;
use crate::warden::orders::{Orders, Watcher};

/// A node with a scheduler, in a folder.
pub(super) struct Node {
    folder: tempfile::TempDir,
    deployment: DeploymentId,
    paths: nero_model::paths::NodePaths,
    /// Name of the last submission's job.
    name: std::cell::RefCell<String>,
}

impl Node {
    pub(super) fn new() -> Self {
        // Time is stopped for most: a disk that syncs slowly tells nothing more.
        let folder = match std::path::Path::new("/dev/shm").is_dir() {
            true => tempfile::tempdir_in("/dev/shm").unwrap(),
            false => tempfile::tempdir().unwrap(),
        };
        let deployment = DeploymentId::random();
        let paths = nero_model::paths::NodePaths::new(folder.path(), &deployment, "node");
        make_private(&paths.mum()).unwrap();
        Self {
            folder,
            deployment,
            paths,
            name: std::cell::RefCell::default(),
        }
    }

    pub(super) fn paths(&self) -> &nero_model::paths::NodePaths {
        &self.paths
    }

    /// A run that waits in neromum.
    fn wait(&self, run: &Planned) {
        self.wait_with(run, 0);
    }

    /// The same with a need of memory.
    pub(super) fn wait_with(&self, run: &Planned, memory_bytes: u64) {
        let (mut ledger, state) = self.ledger();
        ledger
            .accepted(run.token, run.id, state.next_order)
            .unwrap();
        make_private(&self.paths.run(run.id)).unwrap();
        let spec = nero_wire::v1::RunSpec {
            token: run.token.to_vec(),
            experiment: run.id.experiment.0,
            number: run.id.number,
            argv: vec!["true".into()],
            resources: Some(nero_wire::v1::Resources {
                memory_bytes,
                ..Default::default()
            }),
            ..nero_wire::v1::RunSpec::default()
        };
        let path = self.paths.run(run.id).join(names::SPEC);
        nero_journal::frame::create_synced(nero_journal::frame::FrameKind::Spec, &path, &spec)
            .unwrap();
    }

    /// A run that adopts job 7, submitted at this time.
    fn adopt(&self, run: &Planned, submitted_s: i64) {
        self.wait(run);
        let path = self.paths.run(run.id).join(names::SPEC);
        std::fs::remove_file(&path).unwrap();
        let spec = nero_wire::v1::RunSpec {
            token: run.token.to_vec(),
            adopted: Some(nero_wire::v1::AdoptedJob {
                job: 7,
                submitted_s,
                ..nero_wire::v1::AdoptedJob::default()
            }),
            ..nero_wire::v1::RunSpec::default()
        };
        nero_journal::frame::create_synced(nero_journal::frame::FrameKind::Spec, &path, &spec)
            .unwrap();
    }

    /// The answer to a question, for a job of an array whose tasks wait.
    fn answer(&self, ask: &Ask, tasks: u32) -> Said {
        let out = match ask {
            Ask::List(_) => format!(
                r#"{{"jobs": [{{"name": "{}", "job_id": 7, "array_job_id": 7, "array_task_id": null,
                "array_task_string": "0-{}", "job_state": "PENDING", "state_reason": "Priority"}}]}}"#,
                self.name.borrow(),
                tasks - 1
            ),
            Ask::Count(_) => format!("0-{}\n", tasks - 1),
            Ask::Tell => return refused(),
            other => panic!("{other:?} changes something"),
        };
        Said {
            end: End::Code(0),
            out: out.into_bytes(),
            err: Vec::new(),
        }
    }

    fn ledger(&self) -> (Ledger, crate::ledger::LedgerState) {
        Ledger::open(&self.paths.mum().join("ledger"), self.deployment, true).unwrap()
    }

    /// Starts neromum's agent.
    pub(super) fn agent(&self) -> (Agent, Mailboxes) {
        self.agent_with(None)
    }

    /// The same with a limit of jobs in the queue.
    fn agent_with(&self, max_queued: Option<u64>) -> (Agent, Mailboxes) {
        let settings = Settings {
            kind: Kind::Slurm,
            max_queued,
            max_running: None,
            recipe: None,
        };
        let setup = self.setup(Some(&settings));
        let (ledger, state) = self.ledger();
        let (agent, _, boxes) = Agent::new(setup, Capacity::UNBOUNDED, ledger, state);
        (agent, boxes)
    }

    /// What an agent is set up with; without settings it is that of a start.
    pub(super) fn setup(&self, settings: Option<&Settings>) -> Setup {
        let base = Base::of([]);
        let program = self.folder.path().join("neromum");
        Setup {
            paths: self.paths.clone(),
            orders: Orders {
                paths: self.paths.clone(),
                store: Store::new(&self.paths),
                base: base.clone(),
                watcher: Watcher {
                    program: program.clone(),
                    socket: None,
                },
            },
            boot_id: [1; 16],
            min_free: 0,
            leave_after: Duration::from_secs(600),
            launcher: Launcher {
                socket: self.folder.path().join("socket"),
                program: None,
                log: self.folder.path().join("log"),
                build: String::new(),
                in_allocation: false,
            },
            first_since_boot: false,
            lease: None,
            scheduler: settings.map(|settings| Scheduler {
                front: Arc::new(Front::new(settings, base).unwrap()),
                node: "node".to_owned(),
                program,
            }),
        }
    }

    /// Submits runs, each as one task; the scheduler has them as this job.
    fn submit(&self, runs: &[Planned], job: u64) -> Files {
        let (mut ledger, state) = self.ledger();
        for (run, order) in runs.iter().zip(state.next_order..) {
            if !state.runs.contains_key(&run.token) {
                ledger.accepted(run.token, run.id, order).unwrap();
                make_private(&self.paths.run(run.id)).unwrap();
            }
        }
        let submission = SubmissionId::random();
        let task = |(index, run): (u32, &Planned)| crate::submission::Task {
            index,
            runs: vec![*run],
        };
        let plan = Plan {
            adopted: None,
            submission,
            deployment: self.deployment,
            node: "node".to_owned(),
            root: self.paths.root().to_path_buf(),
            beat: crate::lease::BEAT,
            tasks: (0..).zip(runs).map(task).collect(),
        };
        let name = nero_warden::JobName::of(&submission.to_string()).unwrap();
        *self.name.borrow_mut() = name.to_string();
        let files = Files::at(&self.paths.submission(&submission));
        files.make(&plan, "").unwrap();
        let intent = Intent {
            submission,
            tokens: runs.iter().map(|run| run.token).collect(),
            made_ms: Clocks::now().wall_ns / 1_000_000,
            answer: Answer::InDoubt,
        };
        ledger.submission(&intent).unwrap();
        ledger.submitted(submission, &Answer::Job(job)).unwrap();
        files
    }

    /// A start claims an incarnation of a run, whose job runs.
    fn claim(&self, run: &Planned, incarnation: u32) -> Segment {
        let mut segment = self.claim_only(run, incarnation);
        append(&mut segment, RecordKind::JobStarted, &JobStarted::default());
        segment
    }

    /// A start claims an incarnation of a run, and is about to start its job.
    fn claim_only(&self, run: &Planned, incarnation: u32) -> Segment {
        let folder = segments::folder(&self.paths.run(run.id), incarnation);
        make_private(&folder).unwrap();
        let path = folder.join(names::CLAIM);
        let token = run.token.as_bytes();
        let mut segment = Segment::create(&path, Writer::Shim, token, incarnation).unwrap();
        append(&mut segment, RecordKind::Claimed, &Claimed::default());
        segment
    }
}

/// Of a start that claimed, and whose job runs.
pub(super) fn begin_claim(segment: &mut Segment) {
    append(segment, RecordKind::Claimed, &Claimed::default());
    append(segment, RecordKind::JobStarted, &JobStarted::default());
}

pub(super) fn append(segment: &mut Segment, kind: RecordKind, record: &impl prost::Message) {
    segment.append(kind, Clocks::now(), record).unwrap();
}

/// The scheduler stops a start, whose job ends.
pub(super) fn stop(segment: &mut Segment) {
    let asked = StopAsked {
        cause: StopCause::Warden.into(),
        ..StopAsked::default()
    };
    append(segment, RecordKind::StopAsked, &asked);
    append(segment, RecordKind::JobExited, &JobExited::default());
    append(segment, RecordKind::TreeGone, &TreeGone::default());
}

pub(super) fn planned(number: u32) -> Planned {
    Planned {
        token: RunToken::random(),
        id: RunId {
            experiment: ExperimentId(1),
            number,
        },
    }
}

const FIRST: StartId = StartId { task: 0, number: 1 };
const SECOND: StartId = StartId { task: 0, number: 2 };

impl Agent {
    /// Takes in the names that lie in a submission's folder now, in this order.
    fn hears(&mut self, files: &Files, news: &[News]) {
        for one in news {
            files.note(*one, false).unwrap();
        }
        let cluster = self.cluster.as_ref().unwrap();
        let of = |one: &&Submission| one.files.folder() == files.folder();
        let id = cluster.submissions.values().find(of).unwrap().id;
        self.looked_at_news(vec![(id, Ok(news.to_vec()))]);
        self.carry_out();
    }

    pub(super) fn stage(&self, run: &Planned) -> Stage {
        self.core.run(&run.token).unwrap().stage.clone()
    }
}

const RUNS_2: Stage = Stage::Running {
    incarnation: 2,
    unsupervised: false,
    elsewhere: true,
};

#[tokio::test]
async fn what_an_earlier_start_tells_late_is_no_end_of_the_one_that_runs() {
    let (node, run) = (Node::new(), planned(1));
    let files = node.submit(&[run], 7);
    let (mut agent, _boxes) = node.agent();
    let mut first = node.claim(&run, 1);
    agent.hears(
        &files,
        &[News::Began(FIRST), News::Launches(run.id, 1, FIRST)],
    );
    stop(&mut first);
    let _second = node.claim(&run, 2);
    let late = [
        News::Launches(run.id, 2, SECOND),
        News::Ended(run.id, 1),
        News::Left(FIRST),
    ];
    agent.hears(&files, &late);
    assert_eq!(agent.stage(&run), RUNS_2);
    append(&mut first, RecordKind::TreeGone, &TreeGone::default());
    agent.hears(&files, &[News::Settled(run.id, 1)]);
    assert_eq!(agent.stage(&run), RUNS_2);
    let entry = &agent.entries[&run.token];
    assert!(!entry.facts.ended() && !entry.unsynced, "{entry:?}");
    let of_first = entry.segments.iter().find(|seg| seg.incarnation == 1);
    let of_first = of_first.unwrap();
    assert_eq!(
        of_first.visible,
        first.offset(),
        "it is passed on all the same"
    );
}

#[tokio::test]
async fn a_start_whose_claim_comes_after_the_name_of_its_launch_is_seen_at_the_next_look() {
    let (node, run) = (Node::new(), planned(1));
    let files = node.submit(&[run], 7);
    let (mut agent, _boxes) = node.agent();
    let launches = [News::Began(FIRST), News::Launches(run.id, 1, FIRST)];
    agent.hears(&files, &launches);
    assert!(matches!(agent.stage(&run), Stage::Submitted { .. }));
    let _claimed = node.claim(&run, 1);
    agent.hears(&files, &launches);
    assert!(matches!(agent.stage(&run), Stage::Running { .. }));
    assert!(agent.cluster.as_ref().unwrap().launches.is_empty());
}

#[tokio::test]
async fn a_job_that_begins_after_its_claim_was_read_is_seen_at_the_next_look() {
    let (node, run) = (Node::new(), planned(1));
    let files = node.submit(&[run], 7);
    let (mut agent, _boxes) = node.agent();
    let mut claim = node.claim_only(&run, 1);
    agent.hears(
        &files,
        &[News::Began(FIRST), News::Launches(run.id, 1, FIRST)],
    );
    assert!(!agent.entries[&run.token].facts.started);
    append(&mut claim, RecordKind::JobStarted, &JobStarted::default());
    agent.hears(&files, &[]);
    assert!(agent.entries[&run.token].facts.started);
    assert!(agent.cluster.as_ref().unwrap().launches.is_empty());
}

#[tokio::test]
async fn an_end_that_is_held_back_is_none_after_a_compaction_and_a_restart() {
    let (node, run) = (Node::new(), planned(1));
    let files = node.submit(&[run], 7);
    let (mut agent, boxes) = node.agent();
    let mut first = node.claim(&run, 1);
    stop(&mut first);
    agent.hears(
        &files,
        &[News::Launches(run.id, 1, FIRST), News::Ended(run.id, 1)],
    );
    assert!(matches!(agent.stage(&run), Stage::Submitted { .. }));
    agent.compact();
    drop((agent, boxes));
    let (agent, _boxes) = node.agent();
    assert!(
        matches!(agent.stage(&run), Stage::Submitted { .. }),
        "{:?}",
        agent.stage(&run)
    );
}

/// More than three beats.
const LONG: Duration = Duration::from_secs(100);

/// Nothing changed this file since.
fn stood_still(path: &std::path::Path, ago: Duration) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(std::time::SystemTime::now() - ago)
        .unwrap();
}

/// A run in a submission whose task no listing shows any more.
struct Lost {
    node: Node,
    run: Planned,
    files: Files,
    agent: Agent,
    _boxes: Mailboxes,
}

impl Lost {
    fn new() -> Self {
        let (node, run) = (Node::new(), planned(1));
        let files = node.submit(&[run], 7);
        std::thread::sleep(Duration::from_millis(5));
        let (mut agent, boxes) = node.agent();
        for submission in agent.cluster.as_mut().unwrap().submissions.values_mut() {
            submission.tasks[0].seen = Seen::Gone(None);
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
        let cluster = self.agent.cluster.as_mut().unwrap();
        for submission in cluster.submissions.values_mut() {
            submission.tasks[0].seen = Seen::Gone(Some(Ended::HostFailure));
            submission.tasks[0].over = true;
        }
        self.agent.look_and_decide(self.run.token, 1);
        self.agent.carry_out();
    }

    /// The controller was started after the submission.
    fn controller_was_started(&mut self) {
        self.controller_is_up(0);
    }

    fn controller_is_up(&mut self, up_s: u64) {
        let cluster = self.agent.cluster.as_ref().unwrap();
        let ids: Vec<SubmissionId> = cluster.submissions.keys().copied().collect();
        self.agent.controller_is_up(&ids, Some(up_s));
        self.agent.carry_out();
    }

    fn claim(&self) -> PathBuf {
        segments::folder(&self.node.paths.run(self.run.id), 1).join(names::CLAIM)
    }
}

#[tokio::test]
async fn a_task_that_the_scheduler_lost_is_closed_before_its_run_is_submitted_again() {
    let mut lost = Lost::new();
    lost.controller_was_started();
    assert_eq!(lost.agent.stage(&lost.run), Stage::Waiting);
    assert!(lost.files.is_closed(0).unwrap());
    assert!(!lost.claim().exists(), "no start can make it");
}

#[tokio::test]
async fn a_task_that_a_person_cancelled_is_not_submitted_again_since_the_clock_was_set() {
    let mut lost = Lost::new();
    let cluster = lost.agent.cluster.as_mut().unwrap();
    for submission in cluster.submissions.values_mut() {
        submission.made_ms = 0;
    }
    lost.controller_is_up(24 * 3600);
    assert!(matches!(
        lost.agent.stage(&lost.run),
        Stage::Submitted { .. }
    ));
}

#[tokio::test]
async fn a_job_that_failed_without_a_word_is_submitted_again_and_one_with_words_is_refused() {
    for (said, stage) in [("", Stage::Waiting), ("no such module\n", Stage::Refused)] {
        let mut lost = Lost::new();
        std::fs::write(lost.files.folder().join("0.scheduler"), said).unwrap();
        let cluster = lost.agent.cluster.as_mut().unwrap();
        for submission in cluster.submissions.values_mut() {
            submission.tasks[0].seen = Seen::Gone(Some(Ended::Failed));
        }
        lost.agent.vanished(&[lost.run.token]);
        lost.agent.carry_out();
        assert_eq!(lost.agent.stage(&lost.run), stage, "{said:?}");
    }
}

#[tokio::test]
async fn a_start_that_came_before_its_task_was_closed_keeps_its_run() {
    let mut lost = Lost::new();
    lost.has_start(Duration::ZERO, &[News::Began(FIRST)]);
    lost.controller_was_started();
    assert!(matches!(
        lost.agent.stage(&lost.run),
        Stage::Submitted { .. }
    ));
    // It saw the name and left: now nothing of the task is alive.
    lost.files.note(News::Left(FIRST), false).unwrap();
    lost.agent.vanished(&[lost.run.token]);
    assert_eq!(lost.agent.stage(&lost.run), Stage::Waiting);
}

/// Three tasks that are over by this word of the scheduler, of which the second has a
/// start that lives.
fn three_of_which_one_lives(how: Option<Ended>) -> ([Planned; 3], Agent, (Node, Mailboxes)) {
    let (node, runs) = (Node::new(), [1, 2, 3].map(planned));
    let files = node.submit(&runs, 7);
    let (mut agent, boxes) = node.agent();
    let submissions = agent.cluster.as_mut().unwrap().submissions.values_mut();
    for task in submissions.flat_map(|one| &mut one.tasks) {
        task.seen = Seen::Gone(how);
        task.over = true;
    }
    let lives = News::Began(StartId { task: 1, number: 1 });
    files.note(lives, false).unwrap();
    (runs, agent, (node, boxes))
}

#[tokio::test]
async fn tasks_cancelled_together_are_given_up_but_for_one_whose_start_lives() {
    let (runs, mut agent, _node) = three_of_which_one_lives(Some(Ended::Cancelled { by: Some(0) }));
    agent.vanished(&runs.map(|run| run.token));
    agent.carry_out();
    assert_eq!(agent.stage(&runs[0]), Stage::TakenAway);
    let why = |agent: &Agent| agent.core.run(&runs[0].token).unwrap().why.clone();
    assert_eq!(why(&agent), "SLURM by root");
    assert!(matches!(agent.stage(&runs[1]), Stage::Submitted { .. }));
    assert_eq!(agent.stage(&runs[2]), Stage::TakenAway);
}

#[tokio::test]
async fn the_accounting_is_asked_once_who_cancelled_a_job_before_its_end_is_told() {
    let by = |by| Some(Ended::Cancelled { by });
    for (rows, told) in [
        (
            "7_0|7_0|CANCELLED by 4294967294|0:0|NAME\n",
            Some(4_294_967_294),
        ),
        ("", None),
    ] {
        let (_, mut agent, (node, _boxes)) = three_of_which_one_lives(by(None));
        let cluster = agent.cluster.as_mut().unwrap();
        for submission in cluster.submissions.values_mut() {
            submission.tasks[0].over = false;
        }
        cluster.counted = Some((Instant::now(), Counted { queued: 0, kept: 0 }));
        let task = |agent: &Agent| {
            let mut all = agent.cluster.as_ref().unwrap().submissions.values();
            all.next().unwrap().tasks[0].clone()
        };
        assert!(task(&agent).lacks_its_canceller());
        let (Ask::Ends(ids), _) = agent.ends_to_ask().unwrap() else {
            panic!("no question about ends");
        };
        let said = Said {
            end: End::Code(0),
            out: rows.replace("NAME", &node.name.borrow()).into_bytes(),
            err: Vec::new(),
        };
        agent.ends_answered(&ids, &[said]);
        assert_eq!(task(&agent).seen, Seen::Gone(by(told)));
        assert!(!task(&agent).lacks_its_canceller());
    }
}

#[tokio::test]
async fn a_task_whose_start_lives_keeps_no_other_from_being_submitted_again() {
    let (runs, mut agent, _node) = three_of_which_one_lives(None);
    std::thread::sleep(Duration::from_millis(5));
    let cluster = agent.cluster.as_ref().unwrap();
    let ids: Vec<SubmissionId> = cluster.submissions.keys().copied().collect();
    agent.controller_is_up(&ids, Some(0));
    agent.carry_out();
    assert_eq!(agent.stage(&runs[0]), Stage::Waiting);
    assert!(matches!(agent.stage(&runs[1]), Stage::Submitted { .. }));
    assert_eq!(agent.stage(&runs[2]), Stage::Waiting);
}

#[tokio::test]
async fn a_claim_is_withheld_from_a_frozen_start_that_was_about_to_launch() {
    let mut lost = Lost::new();
    let news = [News::Began(FIRST), News::Launches(lost.run.id, 1, FIRST)];
    lost.has_start(LONG, &news);
    lost.controller_was_started();
    assert_eq!(lost.agent.stage(&lost.run), Stage::Waiting);
    assert!(lost.claim().exists());
    let run_dir = lost.node.paths.run(lost.run.id);
    let again = own::withhold_claim(&run_dir, lost.run.token, 1).unwrap();
    assert!(!again, "whoever comes later loses");
    // A start of the next submission makes the next incarnation.
    let facts = lost.agent.entries[&lost.run.token].facts;
    let decision = decide(&facts, Lives::UNKNOWN, Tracking::Nobody, Origin::Elsewhere);
    assert_eq!(decision, Decision::LaunchNext);
}

#[tokio::test]
async fn a_claim_that_a_frozen_start_made_is_no_run_that_vanished() {
    let mut lost = Lost::new();
    let news = [News::Began(FIRST), News::Launches(lost.run.id, 1, FIRST)];
    lost.has_start(LONG, &news);
    let _segment = lost.node.claim(&lost.run, 1);
    lost.controller_was_started();
    assert!(!matches!(lost.agent.stage(&lost.run), Stage::Waiting));
}

#[tokio::test]
async fn a_run_that_is_called_lost_is_not_begun_once_more_by_a_late_start_of_its_task() {
    for (ago, is_lost) in [(LONG, true), (Duration::ZERO, false)] {
        let mut lost = Lost::new();
        let news = [News::Began(FIRST), News::Launches(lost.run.id, 1, FIRST)];
        lost.has_start(ago, &news);
        lost.agent.hears(&lost.files, &news);
        let _segment = lost.node.claim(&lost.run, 1);
        stood_still(&lost.claim(), ago);
        lost.agent.look_and_decide(lost.run.token, 1);
        lost.agent.carry_out();
        let stage = lost.agent.stage(&lost.run);
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
        lost.controller_is_up(1000);
        let stage = lost.agent.stage(&lost.run);
        assert_eq!(stage == Stage::Waiting, reruns_lost, "{stage:?}");
        assert_eq!(lost.files.is_closed(0).unwrap(), reruns_lost);
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
    lost.agent.hears(&lost.files, &news);
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
        lost.agent.hears(&lost.files, &news);
        let stage = lost.agent.stage(&lost.run);
        assert!(matches!(stage, Stage::Running { .. }), "{stage:?}");
        assert!(!lost.files.path(News::Leave(FIRST)).exists());
        // Its beat stands still again.
        stood_still(&lost.claim(), LONG);
        stood_still(&lost.files.path(News::Began(FIRST)), LONG);
        lost.is_over();
        assert!(lost.agent.entries[&lost.run.token].facts.lost);
    }
}

/// Commands of each minute, from the third on, while 200 tasks wait and nothing
/// changes.
async fn commands_a_minute(node: &Node, mut agent: Agent) -> Vec<usize> {
    let limits = Site {
        jobs_max: Some(2000),
        ..Site::default()
    };
    let cluster = agent.cluster.as_mut().unwrap();
    cluster.site = Some((Instant::now(), Arc::new(limits)));
    let begin = Instant::now();
    let mut commands = vec![0; 20];
    while begin.elapsed() < Duration::from_secs(1200) {
        let now = Instant::now();
        agent.make_submissions(now);
        if let Some((ask, calls)) = agent.next_ask(now) {
            commands[begin.elapsed().as_secs() as usize / 60] += calls.len();
            let said = vec![node.answer(&ask, 200)];
            agent.answered(Answered {
                ask,
                said,
                site: None,
            });
        } else {
            tokio::time::advance(Duration::from_millis(500)).await;
        }
    }
    commands.split_off(2)
}

#[tokio::test(start_paused = true)]
async fn two_hundred_waiting_runs_cost_two_commands_a_minute_at_most() {
    let node = Node::new();
    let runs: Vec<Planned> = (1..=200).map(planned).collect();
    node.submit(&runs, 7);
    let (agent, _boxes) = node.agent();
    let commands = commands_a_minute(&node, agent).await;
    assert!(
        commands.iter().all(|count| (0..=2).contains(count)),
        "{commands:?}"
    );
    assert!(
        commands.iter().sum::<usize>() >= 10,
        "it is asked: {commands:?}"
    );
}

/// A scheduler that does not do what it is told.
fn refused() -> Said {
    Said {
        end: End::Code(1),
        out: Vec::new(),
        err: b"Access/permission denied".to_vec(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_the_scheduler_refuses_is_asked_for_ever_more_seldom() {
    let node = Node::new();
    let runs: Vec<Planned> = (1..=3).map(planned).collect();
    node.submit(&runs, 7);
    let (mut agent, _boxes) = node.agent();
    agent.core.set_paused(runs[0].token, true);
    let cluster = agent.cluster.as_mut().unwrap();
    cluster.hold_at_scheduler(runs[0].token, Wanted::Paused);
    let commands = commands_a_minute(&node, agent).await;
    let later: usize = commands[8..].iter().sum();
    assert!((10..=25).contains(&later), "{commands:?}");
}

#[tokio::test(start_paused = true)]
async fn runs_that_wait_for_room_cost_two_commands_a_minute_at_most() {
    let node = Node::new();
    let runs: Vec<Planned> = (1..=200).map(planned).collect();
    node.submit(&runs, 7);
    let more: Vec<Planned> = (201..=260).map(planned).collect();
    more.iter().for_each(|run| node.wait(run));
    let (agent, _boxes) = node.agent_with(Some(200));
    assert_eq!(agent.core.waiting(), 60);
    let commands = commands_a_minute(&node, agent).await;
    assert!(
        commands.iter().all(|count| (0..=2).contains(count)),
        "{commands:?}"
    );
}

/// A listing that is wanted at once, a moment after the last one.
#[tokio::test(start_paused = true)]
async fn the_agent_rests_until_it_may_list_again() {
    let node = Node::new();
    node.submit(&[planned(1)], 7);
    let (mut agent, _boxes) = node.agent();
    let now = Instant::now();
    let cluster = agent.cluster.as_mut().unwrap();
    cluster.site = Some((now, Arc::new(Site::default())));
    cluster.list_soon(now);
    while let Some((ask, _)) = agent.next_ask(now) {
        let said = vec![node.answer(&ask, 1)];
        agent.answered(Answered {
            ask,
            said,
            site: None,
        });
    }
    let cluster = agent.cluster.as_mut().unwrap();
    assert!(cluster.counted.is_some());
    cluster.look_at = None;
    cluster.list_soon(now);
    agent.see_to_cluster();
    assert_eq!(agent.timers.cluster, Some(now + LIST_APART));
}

/// A scheduler that takes so many tasks of this user, none of which ends, and no array
/// that is larger: the sizes of the calls until the time is over, and what it took.
async fn sizes_of_calls(agent: &mut Agent, boxes: &mut Mailboxes, limit: u64) -> (Vec<u64>, u64) {
    let full = "sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed: \
                Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n";
    let said = |code, out: String, err: &str| Said {
        end: End::Code(code),
        out: out.into_bytes(),
        err: err.as_bytes().to_vec(),
    };
    let (mut sizes, mut taken, mut rows) = (Vec::new(), 0, Vec::new());
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(600) {
        let now = Instant::now();
        agent.make_submissions(now);
        while agent.cluster.as_ref().unwrap().is_making {
            let message = boxes.done.recv().await.expect("the maker answers");
            agent.handle(message);
        }
        let ids: Vec<SubmissionId> = agent
            .cluster
            .as_ref()
            .unwrap()
            .submissions
            .keys()
            .copied()
            .collect();
        agent.intended(&ids);
        let Some((ask, _)) = agent.next_ask(now) else {
            tokio::time::advance(Duration::from_millis(500)).await;
            continue;
        };
        let said = match &ask {
            Ask::Submit(id) => {
                let submission = &agent.cluster.as_ref().unwrap().submissions[id];
                let tasks = submission.tasks.len() as u64;
                sizes.push(tasks);
                if taken + tasks > limit {
                    said(1, String::new(), full)
                } else {
                    taken += tasks;
                    let job = sizes.len();
                    let task = match tasks {
                        1 => String::new(),
                        tasks => format!(r#", "array_task_string": "0-{}""#, tasks - 1),
                    };
                    rows.push(format!(
                        r#"{{"name": "{}", "job_id": {job}, "array_job_id": {job}, "array_task_id": null,
                        "job_state": "PENDING", "state_reason": "Priority"{task}}}"#,
                        submission.name
                    ));
                    said(0, format!("{job}\n"), "")
                }
            }
            Ask::List(_) => said(0, format!(r#"{{"jobs": [{}]}}"#, rows.join(",")), ""),
            other => panic!("{other:?}"),
        };
        agent.answered(Answered {
            ask,
            said: vec![said],
            site: None,
        });
    }
    (sizes, taken)
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_submitted_jobs_is_learnt_and_filled_and_never_a_doubt() {
    let node = Node::new();
    let runs: Vec<Planned> = (1..=50).map(planned).collect();
    runs.iter().for_each(|run| node.wait(run));
    let (mut agent, mut boxes) = node.agent();
    let limits = Site {
        array_index_end: Some(1001),
        ..Site::default()
    };
    agent.cluster.as_mut().unwrap().site = Some((Instant::now(), Arc::new(limits)));
    let (sizes, taken) = sizes_of_calls(&mut agent, &mut boxes, 20).await;
    assert_eq!(taken, 20, "{sizes:?}");
    assert_eq!(sizes[..3], [50, 25, 12], "{sizes:?}");
    assert!(sizes.len() < 40, "once a minute when it is full: {sizes:?}");
    assert_eq!(agent.core.waiting(), 30);
    let waits = agent.core.queue().next().unwrap();
    let why = &agent.core.run(&waits).unwrap().why;
    assert!(
        why.contains("AssocMaxSubmitJobLimit") && why.contains("`max_queued:`"),
        "{why}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_that_an_empty_queue_does_not_take_waits_for_a_person_and_is_tried_again() {
    let (node, run) = (Node::new(), planned(1));
    node.wait(&run);
    let (mut agent, mut boxes) = node.agent();
    let cluster = agent.cluster.as_mut().unwrap();
    cluster.site = Some((Instant::now(), Arc::new(Site::default())));
    let (sizes, _) = sizes_of_calls(&mut agent, &mut boxes, 0).await;
    assert!(
        sizes.len() > 1 && sizes.iter().all(|size| *size == 1),
        "{sizes:?}"
    );
    assert_eq!(agent.stage(&run), Stage::Waiting);
    assert!(agent.core.run(&run.token).unwrap().needs_person);
}

#[tokio::test]
async fn neromum_leaves_a_run_to_its_scheduler_unless_it_is_to_end() {
    let (node, run) = (Node::new(), planned(1));
    let files = node.submit(&[run], 7);
    let (mut agent, _boxes) = node.agent();
    let _first = node.claim(&run, 1);
    agent.hears(
        &files,
        &[News::Began(FIRST), News::Launches(run.id, 1, FIRST)],
    );
    assert!(agent.is_all_submitted(), "{:?}", agent.stage(&run));
    agent.core.cancel(run.token);
    assert!(
        !agent.is_all_submitted(),
        "a job that does not end by itself is cancelled from here"
    );
}

impl Agent {
    /// SLURM lists job 7 in this state, submitted at this time.
    fn lists_job_7(&mut self, state: &str, submitted_s: i64) {
        let out = format!(
            r#"{{"jobs": [{{"name": "by hand", "job_id": 7, "job_state": "{state}", "user_id": 0,
            "submit_time": {submitted_s}, "start_time": 2000, "batch_host": "n1"}}]}}"#
        );
        let said = vec![Said {
            end: End::Code(0),
            out: out.into_bytes(),
            err: Vec::new(),
        }];
        let now = Instant::now();
        let (ask, _) = self.cluster.as_mut().unwrap().list(now);
        let site = None;
        self.answered(Answered { ask, said, site });
        self.carry_out();
    }

    /// The words of the command that cancels, if that is the next.
    fn cancels(&mut self) -> Option<String> {
        let now = Instant::now();
        self.note_overdue(now);
        let (_, calls) = self.next_ask(now)?;
        let call = calls.into_iter().find(|call| call.program == "scancel")?;
        Some(call.words.join(" "))
    }
}

#[tokio::test]
async fn an_adopted_job_is_cancelled_and_a_later_job_of_its_number_is_not() {
    for (listed_s, cancelled) in [(1000, Some("7")), (1001, None)] {
        let (node, run) = (Node::new(), planned(1));
        node.adopt(&run, 1000);
        let (mut agent, boxes) = node.agent();
        agent.see_to_cluster();
        assert!(matches!(agent.stage(&run), Stage::Submitted { .. }));
        // It dies before the answer of the scheduler could be noted, and after.
        for _ in 0..2 {
            let (agent, _boxes) = node.agent();
            let cluster = agent.cluster.as_ref().unwrap();
            let one = cluster.submissions.values().next().unwrap();
            assert_eq!(one.standing, Standing::Accepted(JobId(7)));
            assert!(matches!(agent.stage(&run), Stage::Submitted { .. }));
        }
        agent.lists_job_7("PENDING", 1000);
        assert!(matches!(agent.stage(&run), Stage::Submitted { .. }));
        agent.lists_job_7("RUNNING", 1000);
        assert!(agent.stage(&run).is_elsewhere(), "{:?}", agent.stage(&run));
        drop((agent, boxes));
        let (mut agent, _boxes) = node.agent();
        assert!(agent.stage(&run).is_elsewhere(), "{:?}", agent.stage(&run));
        agent.core.cancel(run.token);
        agent.lists_job_7("RUNNING", listed_s);
        assert_eq!(agent.cancels().as_deref(), cancelled);
        assert!(agent.cluster.as_ref().unwrap().rings.is_empty());
    }
}
