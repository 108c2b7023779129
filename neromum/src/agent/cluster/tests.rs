//! An agent with submissions, over real files; the scheduler's words are given to
//! it, and no command is executed.

use nero_journal::v1::{
    Claimed, JobExited, JobStarted, RecordKind, StopAsked, StopCause, TreeGone,
};
use nero_journal::{Clocks, Segment, Writer};
use nero_model::paths::{make_private, run as names};
use nero_model::{DeploymentId, ExperimentId, RunId};
use nero_warden::{Kind, Settings};

use super::*;
use crate::agent::{Mailboxes, Setup};
use crate::core::capacity::Capacity;
use crate::ledger::Ledger;
use crate::runs::segments;
use crate::staging::environment::Base;
use crate::staging::store::Store;
use crate::submission::{Plan, Planned, StartId};
use crate::warden::bare::Launcher;
use crate::warden::orders::{Orders, Watcher};

/// A node with a scheduler, in a folder.
struct Node {
    folder: tempfile::TempDir,
    deployment: DeploymentId,
    paths: nero_model::paths::NodePaths,
}

impl Node {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let deployment = DeploymentId::random();
        let paths = nero_model::paths::NodePaths::new(folder.path(), &deployment, "node");
        make_private(&paths.mum()).unwrap();
        Self {
            folder,
            deployment,
            paths,
        }
    }

    fn ledger(&self) -> (Ledger, crate::ledger::LedgerState) {
        Ledger::open(&self.paths.mum().join("ledger"), self.deployment, true).unwrap()
    }

    /// Starts neromum's agent.
    fn agent(&self) -> (Agent, Mailboxes) {
        let settings = Settings {
            kind: Kind::Slurm,
            max_queued: None,
            max_running: None,
        };
        let base = Base::of([]);
        let program = self.folder.path().join("neromum");
        let setup = Setup {
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
            scheduler: Some(Scheduler {
                front: Arc::new(Front::new(&settings, base).unwrap()),
                node: "node".to_owned(),
                program,
            }),
        };
        let (ledger, state) = self.ledger();
        let (agent, _, boxes) = Agent::new(setup, Capacity::UNBOUNDED, ledger, state);
        (agent, boxes)
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
            submission,
            deployment: self.deployment,
            node: "node".to_owned(),
            root: self.paths.root().to_path_buf(),
            beat: crate::lease::BEAT,
            tasks: (0..).zip(runs).map(task).collect(),
        };
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
        let folder = segments::folder(&self.paths.run(run.id), incarnation);
        make_private(&folder).unwrap();
        let path = folder.join(names::CLAIM);
        let token = run.token.as_bytes();
        let mut segment = Segment::create(&path, Writer::Shim, token, incarnation).unwrap();
        append(&mut segment, RecordKind::Claimed, &Claimed::default());
        append(&mut segment, RecordKind::JobStarted, &JobStarted::default());
        segment
    }
}

fn append(segment: &mut Segment, kind: RecordKind, record: &impl prost::Message) {
    segment.append(kind, Clocks::now(), record).unwrap();
}

/// The scheduler stops a start, whose job ends.
fn stop(segment: &mut Segment) {
    let asked = StopAsked {
        cause: StopCause::Warden.into(),
        ..StopAsked::default()
    };
    append(segment, RecordKind::StopAsked, &asked);
    append(segment, RecordKind::JobExited, &JobExited::default());
    append(segment, RecordKind::TreeGone, &TreeGone::default());
}

fn planned(number: u32) -> Planned {
    Planned {
        token: RunToken::random(),
        id: RunId {
            experiment: ExperimentId(1),
            number,
        },
        closed: 0,
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

    fn stage(&self, run: &Planned) -> Stage {
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
