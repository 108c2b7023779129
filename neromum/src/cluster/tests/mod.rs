//! An agent with submissions, over real files; the scheduler's words are given to
//! it, and no command is executed.

mod commands;
mod table;
mod vanished;

use nero_cluster::lifecycle::SubmissionState;
use nero_cluster::submission::{Files, Plan, StartId, TaskRun};
use nero_journal::v1::{
    Claimed, JobExited, JobStarted, RecordKind, StopAsked, StopCause, TreeGone,
};
use nero_journal::{Clocks, Segment, Writer};
use nero_model::paths::{make_private, run as names};
use nero_model::{DeploymentId, ExperimentId, RunId};
use nero_node::agent::{Mailboxes, Setup};
use nero_node::launch::bare::Launcher;
use nero_node::launch::orders::{Orders, Watcher};
use nero_node::ledger::{Answer, Ledger};
use nero_node::runs::{own, segments};
use nero_node::staging::environment::Base;
use nero_node::staging::store::Store;
use nero_node_core::capacity::Capacity;
use nero_node_core::decide::{Decision, Origin, ProcessLives, TrackingState, decide};
use nero_warden::{Call, CallOutput, End, Kind, SchedulerEnd, Settings};

use super::results::CommandAnswers;
use super::*;

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
        let folder = if std::path::Path::new("/dev/shm").is_dir() {
            tempfile::tempdir_in("/dev/shm").unwrap()
        } else {
            tempfile::tempdir().unwrap()
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
    fn wait(&self, run: &TaskRun) {
        self.wait_with(run, 0);
    }

    /// The same with a need of memory.
    pub(super) fn wait_with(&self, run: &TaskRun, memory_bytes: u64) {
        self.wait_as(run, memory_bytes, 0);
    }

    /// The same in an array of which so many tasks may run at once.
    fn wait_as(&self, run: &TaskRun, memory_bytes: u64, at_once: u32) {
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
            scheduler: Some(nero_wire::v1::SchedulerRequest {
                at_once,
                ..Default::default()
            }),
            ..nero_wire::v1::RunSpec::default()
        };
        let path = self.paths.run(run.id).join(names::SPEC);
        nero_journal::frame::create_synced(nero_journal::frame::FrameKind::Spec, &path, &spec)
            .unwrap();
    }

    /// A run that adopts job 7, submitted at this time.
    fn adopt(&self, run: &TaskRun, submitted_s: i64) {
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
    fn answer(&self, ask: &Ask, tasks: u32) -> CallOutput {
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
        CallOutput {
            end: End::Code(0),
            out: out.into_bytes(),
            err: Vec::new(),
        }
    }

    fn ledger(&self) -> (Ledger, nero_node::ledger::LedgerState) {
        Ledger::open(&self.paths.mum().join("ledger"), self.deployment, true).unwrap()
    }

    /// Starts neromum's agent.
    pub(super) fn agent(&self) -> (Agent<Cluster>, Mailboxes<ClusterResult>) {
        self.agent_with(None)
    }

    /// The same with a limit of jobs in the queue.
    fn agent_with(&self, max_queued: Option<u64>) -> (Agent<Cluster>, Mailboxes<ClusterResult>) {
        self.agent_limited(max_queued, None)
    }

    /// The same with a limit of tasks that run at once, too.
    fn agent_limited(
        &self,
        max_queued: Option<u64>,
        max_running: Option<u32>,
    ) -> (Agent<Cluster>, Mailboxes<ClusterResult>) {
        let settings = Settings {
            kind: Kind::Slurm,
            max_queued,
            max_running,
            recipe: None,
        };
        let setup = self.setup();
        let scheduler = Scheduler {
            front: Arc::new(Front::new(&settings, setup.orders.base.clone()).unwrap()),
            node: "node".to_owned(),
            program: setup.orders.watcher.program.clone(),
        };
        let (ledger, state) = self.ledger();
        let (agent, _, boxes) = Agent::new(
            setup,
            Cluster::new(scheduler),
            Capacity::UNBOUNDED,
            ledger,
            state,
        );
        (agent, boxes)
    }

    /// What an agent is set up with.
    pub(super) fn setup(&self) -> Setup {
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
            cards: None,
        }
    }

    /// Submits runs, each as one task; the scheduler has them as this job.
    fn submit(&self, runs: &[TaskRun], job: u64) -> Files {
        self.submit_as(runs, &Answer::Job(job))
    }

    /// The same with another answer of the scheduler.
    fn submit_as(&self, runs: &[TaskRun], answer: &Answer) -> Files {
        let (mut ledger, state) = self.ledger();
        for (run, order) in runs.iter().zip(state.next_order..) {
            if !state.runs.contains_key(&run.token) {
                ledger.accepted(run.token, run.id, order).unwrap();
                make_private(&self.paths.run(run.id).join(names::CONTROL)).unwrap();
            }
        }
        let submission = SubmissionId::random();
        let task = |(index, run): (u32, &TaskRun)| nero_cluster::submission::Task {
            index,
            runs: vec![*run],
        };
        let plan = Plan {
            adopted: None,
            submission,
            deployment: self.deployment,
            node: "node".to_owned(),
            root: self.paths.root().to_path_buf(),
            beat: nero_node::lease::BEAT,
            tasks: (0..).zip(runs).map(task).collect(),
            at_once: None,
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
        if *answer != Answer::InDoubt {
            ledger.submitted(submission, answer).unwrap();
        }
        files
    }

    /// A start claims an incarnation of a run, whose job runs.
    fn claim(&self, run: &TaskRun, incarnation: u32) -> Segment {
        let mut segment = self.claim_only(run, incarnation);
        append(&mut segment, RecordKind::JobStarted, &JobStarted::default());
        segment
    }

    /// A start claims an incarnation of a run, and is about to start its job.
    fn claim_only(&self, run: &TaskRun, incarnation: u32) -> Segment {
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

pub(super) fn planned(number: u32) -> TaskRun {
    TaskRun {
        token: RunToken::random(),
        id: RunId {
            experiment: ExperimentId(1),
            number,
        },
    }
}

/// A scheduler that does not do what it is told.
fn refused() -> CallOutput {
    CallOutput {
        end: End::Code(1),
        out: Vec::new(),
        err: b"Access/permission denied".to_vec(),
    }
}

const FIRST: StartId = StartId { task: 0, number: 1 };
const SECOND: StartId = StartId { task: 0, number: 2 };

impl Cluster {
    /// Takes in the names that lie in a submission's folder now, in this order.
    fn hears(agent: &mut Agent<Self>, files: &Files, news: &[News]) {
        for one in news {
            files.note(*one, false).unwrap();
        }
        let cluster = &mut agent.driver;
        let of = |one: &&Submission| one.files.folder() == files.folder();
        let id = cluster.submissions.values().find(of).unwrap().id;
        Self::looked_at_news(agent, vec![(id, Ok(news.to_vec()))]);
        agent.carry_out();
    }

    pub(super) fn stage(agent: &Agent<Self>, run: &TaskRun) -> Stage {
        agent.core.run(&run.token).unwrap().stage.clone()
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
    Cluster::hears(
        &mut agent,
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
    Cluster::hears(&mut agent, &files, &late);
    assert_eq!(Cluster::stage(&agent, &run), RUNS_2);
    append(&mut first, RecordKind::TreeGone, &TreeGone::default());
    Cluster::hears(&mut agent, &files, &[News::Settled(run.id, 1)]);
    assert_eq!(Cluster::stage(&agent, &run), RUNS_2);
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
    Cluster::hears(&mut agent, &files, &launches);
    assert!(matches!(
        Cluster::stage(&agent, &run),
        Stage::Submitted { .. }
    ));
    let _claimed = node.claim(&run, 1);
    Cluster::hears(&mut agent, &files, &launches);
    assert!(matches!(
        Cluster::stage(&agent, &run),
        Stage::Running { .. }
    ));
    assert!(agent.driver.launches.is_empty());
}

#[tokio::test]
async fn a_job_that_begins_after_its_claim_was_read_is_seen_at_the_next_look() {
    let (node, run) = (Node::new(), planned(1));
    let files = node.submit(&[run], 7);
    let (mut agent, _boxes) = node.agent();
    let mut claim = node.claim_only(&run, 1);
    Cluster::hears(
        &mut agent,
        &files,
        &[News::Began(FIRST), News::Launches(run.id, 1, FIRST)],
    );
    assert!(!agent.entries[&run.token].facts.started);
    append(&mut claim, RecordKind::JobStarted, &JobStarted::default());
    Cluster::hears(&mut agent, &files, &[]);
    assert!(agent.entries[&run.token].facts.started);
    assert!(agent.driver.launches.is_empty());
}

#[tokio::test]
async fn an_end_that_is_held_back_is_none_after_a_compaction_and_a_restart() {
    let (node, run) = (Node::new(), planned(1));
    let files = node.submit(&[run], 7);
    let (mut agent, boxes) = node.agent();
    let mut first = node.claim(&run, 1);
    stop(&mut first);
    Cluster::hears(
        &mut agent,
        &files,
        &[News::Launches(run.id, 1, FIRST), News::Ended(run.id, 1)],
    );
    assert!(matches!(
        Cluster::stage(&agent, &run),
        Stage::Submitted { .. }
    ));
    agent.compact();
    drop((agent, boxes));
    let (agent, _boxes) = node.agent();
    assert!(
        matches!(Cluster::stage(&agent, &run), Stage::Submitted { .. }),
        "{:?}",
        Cluster::stage(&agent, &run)
    );
}

#[tokio::test]
async fn neromum_leaves_a_run_to_its_scheduler_unless_it_is_to_end() {
    let (node, run) = (Node::new(), planned(1));
    let files = node.submit(&[run], 7);
    let (mut agent, _boxes) = node.agent();
    let _first = node.claim(&run, 1);
    Cluster::hears(
        &mut agent,
        &files,
        &[News::Began(FIRST), News::Launches(run.id, 1, FIRST)],
    );
    assert!(
        Cluster::is_all_submitted(&agent),
        "{:?}",
        Cluster::stage(&agent, &run)
    );
    agent.core.cancel(run.token);
    assert!(
        !Cluster::is_all_submitted(&agent),
        "a job that does not end by itself is cancelled from here"
    );
}

#[tokio::test]
async fn a_request_about_a_run_that_is_over_keeps_neither_neromum_nor_the_mark_of_a_hold() {
    let (node, run) = (Node::new(), planned(1));
    node.submit_as(&[run], &Answer::InDoubt);
    let (mut agent, _boxes) = node.agent();
    let held = agent.held_by_us(&run.token).unwrap();
    std::fs::write(&held, "").unwrap();
    let cluster = &mut agent.driver;
    cluster.hold_at_scheduler(run.token, PauseState::Resumed);
    cluster.ring_at_scheduler(run.token);
    let submissions = cluster.submissions.values_mut();
    for one in submissions {
        one.standing = SubmissionState::Refused("no such partition".to_owned());
    }
    let ids: Vec<SubmissionId> = agent.driver.submissions.keys().copied().collect();
    ids.iter()
        .for_each(|id| Cluster::note_standing(&mut agent, *id));
    assert_eq!(Cluster::stage(&agent, &run), Stage::Refused);
    assert!(Cluster::next_ask(&mut agent, Instant::now()).is_none());
    assert!(Cluster::is_all_submitted(&agent), "it may leave");
    assert!(!held.exists(), "no job of it is held any more");
}

impl Cluster {
    /// SLURM lists job 7 in this state, submitted at this time.
    fn lists_job_7(agent: &mut Agent<Self>, state: &str, submitted_s: i64) {
        let out = format!(
            r#"{{"jobs": [{{"name": "by hand", "job_id": 7, "job_state": "{state}", "user_id": 0,
            "submit_time": {submitted_s}, "start_time": 2000, "batch_host": "n1"}}]}}"#
        );
        let said = vec![CallOutput {
            end: End::Code(0),
            out: out.into_bytes(),
            err: Vec::new(),
        }];
        let now = Instant::now();
        let (ask, _) = agent.driver.list(now);
        let site = None;
        Self::answered(
            agent,
            CommandAnswers {
                ask,
                said,
                site,
                users: HashMap::new(),
            },
        );
        agent.carry_out();
    }

    /// The words of the command that cancels, if that is the next.
    fn cancels(agent: &mut Agent<Self>) -> Option<String> {
        let now = Instant::now();
        Self::note_overdue(agent, now);
        let (_, calls) = Self::next_ask(agent, now)?;
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
        Cluster::turn_ends(&mut agent);
        assert!(matches!(
            Cluster::stage(&agent, &run),
            Stage::Submitted { .. }
        ));
        // It dies before the answer of the scheduler could be noted, and after.
        for _ in 0..2 {
            let (agent, _boxes) = node.agent();
            let cluster = &agent.driver;
            let one = cluster.submissions.values().next().unwrap();
            assert_eq!(one.standing, SubmissionState::Accepted(JobId(7)));
            assert!(matches!(
                Cluster::stage(&agent, &run),
                Stage::Submitted { .. }
            ));
        }
        Cluster::lists_job_7(&mut agent, "PENDING", 1000);
        assert!(matches!(
            Cluster::stage(&agent, &run),
            Stage::Submitted { .. }
        ));
        Cluster::lists_job_7(&mut agent, "RUNNING", 1000);
        assert!(
            Cluster::stage(&agent, &run).is_elsewhere(),
            "{:?}",
            Cluster::stage(&agent, &run)
        );
        drop((agent, boxes));
        let (mut agent, _boxes) = node.agent();
        assert!(
            Cluster::stage(&agent, &run).is_elsewhere(),
            "{:?}",
            Cluster::stage(&agent, &run)
        );
        agent.core.cancel(run.token);
        Cluster::lists_job_7(&mut agent, "RUNNING", listed_s);
        assert_eq!(Cluster::cancels(&mut agent).as_deref(), cancelled);
        assert!(agent.driver.rings.is_empty());
    }
}

#[tokio::test]
async fn a_job_that_was_adopted_twice_is_named_once_in_the_command_that_cancels_it() {
    let (node, runs) = (Node::new(), [planned(1), planned(2)]);
    runs.iter().for_each(|run| node.adopt(run, 1000));
    let (mut agent, _boxes) = node.agent();
    Cluster::turn_ends(&mut agent);
    for run in &runs {
        agent.core.cancel(run.token);
    }
    Cluster::lists_job_7(&mut agent, "PENDING", 1000);
    assert_eq!(Cluster::cancels(&mut agent).as_deref(), Some("7"));
}
