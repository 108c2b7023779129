//! What moves a submission: each input in each state, and what becomes of submission, task
//! and run. The table lies beside, in `table.txt`; `INSTA_UPDATE=always` writes it anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::TaskStart;

use super::vanished::{LONG, stood_still};
use super::*;

/// A submission of one run, and what was told about it so far.
struct Scene {
    node: Node,
    run: TaskRun,
    agent: Agent<Cluster>,
    boxes: Mailboxes<ClusterResult>,
    claim: Option<Segment>,
}

/// What happens.
#[derive(Clone, Copy)]
enum Event {
    /// It is taken in at once.
    Now(fn(&mut Scene)),
    /// Time passes.
    Pass(Duration),
    /// The names in the submission's folder are read.
    Look,
}

type Named = (&'static str, Event);

const NAME: &str = "NAME";
/// A pause after which a task that is not listed is gone, and longer than any between listings.
const APART: Duration = Duration::from_secs(90);

/// The queue, with `NAME` for the name of the submission's job.
macro_rules! queue {
    ($name:literal, $($row:literal),*) => {
        ($name, Event::Now(|scene| scene.lists(concat!($($row),*))))
    };
}

const NOT_LISTED: Named = queue!("lists nothing", "");
const WAITS: Named = queue!(
    "lists 7 PENDING",
    r#"{"name": "NAME", "job_id": 7, "job_state": "PENDING", "state_reason": "Priority"}"#
);
const RUNS: Named = queue!(
    "lists 7 RUNNING",
    r#"{"name": "NAME", "job_id": 7, "job_state": "RUNNING", "state_reason": "None"}"#
);
const FAILED: Named = queue!(
    "lists 7 FAILED",
    r#"{"name": "NAME", "job_id": 7, "job_state": "FAILED", "state_reason": "None"}"#
);
const CANCELLED: Named = queue!(
    "lists 7 CANCELLED",
    r#"{"name": "NAME", "job_id": 7, "job_state": "CANCELLED", "state_reason": "None"}"#
);
const BEGINS: Named = (
    "a start claims",
    Event::Now(|scene| {
        if !scene.claim_path().exists() {
            scene.claim = Some(scene.node.claim(&scene.run, 1));
        }
        let id = scene.run.id;
        scene.hears(&[News::Began(FIRST), News::Launches(id, 1, FIRST)]);
    }),
);
const STARTS: Named = (
    "a start of job 7 begins",
    Event::Now(|scene| {
        let path = scene.files().path(News::Began(FIRST));
        let start = TaskStart {
            job: "7".to_owned(),
            ..TaskStart::default()
        };
        if !path.exists() {
            frame::create(FrameKind::TaskStart, &path, &start).unwrap();
        }
        scene.hears(&[News::Began(FIRST)]);
    }),
);
const PASSES: Named = ("90 s pass", Event::Pass(APART));
const IS_LOOKED_AT: Named = ("the names are read", Event::Look);
const STANDS_STILL: Named = (
    "its beat stands still",
    Event::Now(|scene| {
        let files = scene.files();
        for path in [files.path(News::Began(FIRST)), scene.claim_path()] {
            if path.exists() {
                stood_still(&path, LONG);
            }
        }
    }),
);
const IS_CALLED: Named = (
    "the call is made",
    Event::Now(|scene| {
        let asked = Cluster::due_ask(&mut scene.agent);
        assert!(matches!(asked, Some((Ask::Submit(_), _))), "{asked:?}");
    }),
);
const IS_UNSURE: Named = (
    "answers: timed out",
    Event::Now(|scene| {
        let words = "sbatch: error: Batch job submission failed: Socket timed out on send/recv \
                     operation";
        scene.answers_the_call(1, "", words);
    }),
);
const IS_ABORTED: Named = (
    "a person aborts the run",
    Event::Now(|scene| {
        scene.agent.core.cancel(scene.run.token);
        let cluster = &mut scene.agent.driver;
        cluster.ring_at_scheduler(scene.run.token);
    }),
);
const IS_PAUSED: Named = (
    "a person pauses the run",
    Event::Now(|scene| {
        let token = scene.run.token;
        scene.agent.core.set_paused(token, true);
        let cluster = &mut scene.agent.driver;
        cluster.hold_at_scheduler(token, PauseState::Paused);
    }),
);

const IS_ASKED: Named = (
    "the next question is asked",
    Event::Now(|scene| drop(Cluster::due_ask(&mut scene.agent))),
);

/// How a submission comes to be there.
#[derive(Clone)]
enum Beginning {
    /// It is made of a run that waits.
    Made,
    /// An earlier neromum left it with this answer of the scheduler.
    Left(Answer),
}

/// States, by what led to them.
fn states() -> Vec<(&'static str, Beginning, Vec<Named>)> {
    let made = Beginning::Made;
    let job = Beginning::Left(Answer::Job(7));
    let missed = [NOT_LISTED, PASSES, NOT_LISTED];
    let after = |events: &[&[Named]]| events.concat();
    vec![
        ("intended", made.clone(), vec![]),
        ("called", made.clone(), vec![IS_CALLED]),
        ("in doubt", made.clone(), vec![IS_CALLED, IS_UNSURE]),
        (
            "in doubt, missed once",
            made.clone(),
            vec![IS_CALLED, IS_UNSURE, NOT_LISTED],
        ),
        (
            "in doubt, a start began",
            made.clone(),
            vec![IS_CALLED, IS_UNSURE, STARTS],
        ),
        (
            "called twice",
            made.clone(),
            after(&[&[IS_CALLED, IS_UNSURE], &missed, &[IS_CALLED]]),
        ),
        ("intended, aborted", made, vec![IS_ABORTED]),
        ("left in doubt", Beginning::Left(Answer::InDoubt), vec![]),
        (
            "refused",
            Beginning::Left(Answer::Refused("no such partition".to_owned())),
            vec![],
        ),
        ("has job 7", job.clone(), vec![]),
        ("waits", job.clone(), vec![WAITS]),
        ("waits, aborted", job.clone(), vec![WAITS, IS_ABORTED]),
        ("waits, paused", job.clone(), vec![WAITS, IS_PAUSED]),
        ("missing", job.clone(), vec![WAITS, NOT_LISTED]),
        ("gone", job.clone(), after(&[&[WAITS], &missed])),
        (
            "gone, over",
            job.clone(),
            after(&[&[WAITS], &missed, &[IS_LOOKED_AT]]),
        ),
        ("failed", job.clone(), vec![FAILED]),
        ("cancelled", job.clone(), vec![WAITS, CANCELLED]),
        ("runs", job.clone(), vec![BEGINS, RUNS]),
        ("runs, aborted", job.clone(), vec![BEGINS, RUNS, IS_ABORTED]),
        (
            "runs, aborted long ago",
            job.clone(),
            vec![BEGINS, RUNS, IS_ABORTED, IS_ASKED, PASSES, RUNS],
        ),
        ("runs, missing", job.clone(), vec![BEGINS, RUNS, NOT_LISTED]),
        (
            "runs, gone",
            job.clone(),
            after(&[&[BEGINS, RUNS], &missed, &[STANDS_STILL]]),
        ),
        (
            "runs, cancelled there",
            job,
            vec![BEGINS, RUNS, CANCELLED, STANDS_STILL],
        ),
    ]
}

fn now(name: &'static str, event: fn(&mut Scene)) -> Named {
    (name, Event::Now(event))
}

/// Everything that can happen.
fn events() -> Vec<Named> {
    vec![
        NOT_LISTED,
        WAITS,
        RUNS,
        FAILED,
        CANCELLED,
        queue!(
            "lists 7 that never starts",
            r#"{"name": "NAME", "job_id": 7, "job_state": "PENDING", "#,
            r#""state_reason": "PartitionTimeLimit"}"#
        ),
        queue!(
            "lists 7 held",
            r#"{"name": "NAME", "job_id": 7, "job_state": "PENDING", "state_reason": "JobHeldUser"}"#
        ),
        queue!(
            "lists 7 SUSPENDED",
            r#"{"name": "NAME", "job_id": 7, "job_state": "SUSPENDED", "state_reason": "None"}"#
        ),
        queue!(
            "lists 7 COMPLETING",
            r#"{"name": "NAME", "job_id": 7, "job_state": "COMPLETING", "state_reason": "None"}"#
        ),
        queue!(
            "lists 7 NODE_FAIL",
            r#"{"name": "NAME", "job_id": 7, "job_state": "NODE_FAIL", "state_reason": "None"}"#
        ),
        queue!(
            "lists 7 NOVEL",
            r#"{"name": "NAME", "job_id": 7, "job_state": "NOVEL", "state_reason": "None"}"#
        ),
        queue!(
            "lists 7 and 9, both PENDING",
            r#"{"name": "NAME", "job_id": 7, "job_state": "PENDING", "state_reason": "None"},"#,
            r#"{"name": "NAME", "job_id": 9, "job_state": "PENDING", "state_reason": "None"}"#
        ),
        queue!(
            "lists 7 PENDING and 9 RUNNING",
            r#"{"name": "NAME", "job_id": 7, "job_state": "PENDING", "state_reason": "None"},"#,
            r#"{"name": "NAME", "job_id": 9, "job_state": "RUNNING", "state_reason": "None"}"#
        ),
        queue!(
            "lists a row that cannot be read",
            r#"{"name": "NAME", "job_id": "?", "job_state": "PENDING", "state_reason": "None"}"#
        ),
        BEGINS,
        STARTS,
        now("a start ends", |scene| {
            if let Some(claim) = &mut scene.claim {
                append(claim, RecordKind::JobExited, &JobExited::default());
                append(claim, RecordKind::TreeGone, &TreeGone::default());
            }
            scene.hears(&[News::Ended(scene.run.id, 1)]);
        }),
        now("the scheduler stops a start", |scene| {
            if let Some(claim) = &mut scene.claim {
                stop(claim);
            }
            scene.hears(&[News::Ended(scene.run.id, 1)]);
        }),
        now("a start leaves", |scene| {
            scene.hears(&[News::Began(FIRST), News::Left(FIRST)]);
        }),
        IS_LOOKED_AT,
        PASSES,
        IS_ABORTED,
        IS_PAUSED,
        now("the accounting tells 7 TIMEOUT", |scene| {
            scene.accounting_tells("7|7|TIMEOUT|0:0|NAME\n");
        }),
        now("the accounting tells 7 COMPLETED", |scene| {
            scene.accounting_tells("7|7|COMPLETED|0:0|NAME\n");
        }),
        now("the accounting tells nothing", |scene| {
            scene.accounting_tells("");
        }),
        now("the controller was started since", |scene| {
            scene.controller_is_up(Duration::ZERO);
        }),
        now("the controller was started before", |scene| {
            scene.controller_is_up(Duration::MAX);
        }),
    ]
}

/// Answers to the call of the submission.
fn answers() -> Vec<Named> {
    vec![
        IS_UNSURE,
        now("answers: job 7", |scene| {
            scene.answers_the_call(0, "7\n", "");
        }),
        now("answers: refused", |scene| {
            let words = "sbatch: error: invalid partition specified: x\nsbatch: error: Batch job \
                         submission failed: Invalid partition name specified";
            scene.answers_the_call(1, "", words);
        }),
        now("answers: full", |scene| {
            let words = "sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job \
                         submission failed: Job violates accounting/QOS policy (job submit limit, \
                         user's size and/or time limits)";
            scene.answers_the_call(1, "", words);
        }),
        now("answers: no fork", |scene| {
            let id = scene.submission().id;
            let said = CallOutput {
                end: End::NotExecuted("no fork".to_owned()),
                out: Vec::new(),
                err: Vec::new(),
            };
            Cluster::submit_answered(&mut scene.agent, id, Some(&said));
        }),
    ]
}

impl Scene {
    async fn new(beginning: Beginning) -> Self {
        let (node, run) = (Node::new(), planned(1));
        let is_made = match beginning {
            Beginning::Made => {
                node.wait(&run);
                true
            }
            Beginning::Left(answer) => {
                node.submit_as(&[run], &answer);
                false
            }
        };
        make_private(&node.paths().run(run.id).join(names::CONTROL)).unwrap();
        let (agent, boxes) = node.agent();
        let mut scene = Self {
            node,
            run,
            agent,
            boxes,
            claim: None,
        };
        let cluster = &mut scene.agent.driver;
        cluster.site = Some((Instant::now(), Arc::new(Site::default())));
        if is_made {
            scene.lists("");
            Cluster::make_submissions(&mut scene.agent, Instant::now());
            scene.takes_in().await;
            let id = scene.submission().id;
            scene.agent.driver.intended(&[id]);
        }
        scene
    }

    async fn takes_in(&mut self) {
        let done = self.boxes.done.recv().await.expect("the agent has an end");
        self.agent.done(done);
        self.agent.carry_out();
    }

    async fn see(&mut self, event: Event) {
        match event {
            Event::Now(event) => event(self),
            Event::Pass(time) => tokio::time::advance(time).await,
            Event::Look => {
                let now = Instant::now();
                self.agent.driver.look_at = Some(now);
                Cluster::look_at_news(&mut self.agent, now);
                self.takes_in().await;
            }
        }
        self.agent.carry_out();
    }

    fn submission(&self) -> &Submission {
        let submissions = &self.agent.driver.submissions;
        submissions.values().next().expect("it is not forgotten")
    }

    fn files(&self) -> Files {
        self.submission().files.clone()
    }

    fn claim_path(&self) -> PathBuf {
        segments::folder(&self.node.paths().run(self.run.id), 1).join(names::CLAIM)
    }

    fn hears(&mut self, news: &[News]) {
        let files = self.files();
        Cluster::hears(&mut self.agent, &files, news);
    }

    fn lists(&mut self, rows: &str) {
        let submissions = &self.agent.driver.submissions;
        let name = submissions.values().next().map(|one| one.name.to_string());
        let rows = rows.replace(NAME, &name.unwrap_or_default());
        let (ask, _) = self.agent.driver.list(Instant::now());
        Cluster::answered(
            &mut self.agent,
            CommandAnswers {
                ask,
                said: vec![said(0, &format!(r#"{{"jobs": [{rows}]}}"#), "")],
                site: None,
                users: HashMap::new(),
            },
        );
    }

    fn answers_the_call(&mut self, code: i32, out: &str, err: &str) {
        let id = self.submission().id;
        Cluster::submit_answered(&mut self.agent, id, Some(&said(code, out, err)));
    }

    fn accounting_tells(&mut self, rows: &str) {
        let (id, name) = (self.submission().id, self.submission().name.to_string());
        let rows = rows.replace(NAME, &name);
        Cluster::ends_answered(&mut self.agent, &[id], &[said(0, &rows, "")]);
    }

    fn controller_is_up(&mut self, up_max: Duration) {
        let id = self.submission().id;
        Cluster::controller_is_up(&mut self.agent, &[id], Some(up_max));
    }

    /// Submission, task and run, in one line.
    fn shown(&self) -> String {
        let mut text = String::new();
        let submissions = &self.agent.driver.submissions;
        if let Some(one) = submissions.values().next() {
            let task = &one.tasks[0];
            let standing = match &one.standing {
                SubmissionState::InDoubt(doubt) => format!(
                    "in doubt, {} calls, {}, {:?}",
                    doubt.calls,
                    doubt.missed_ms.map_or("not missed", |_| "missed"),
                    doubt.refused
                ),
                other => format!("{other:?}"),
            };
            let seen = match &task.seen {
                Presence::Missing { .. } => "missing".to_owned(),
                other => format!("{other:?}"),
            };
            let _ = write!(text, "{standing} · {seen}");
            for (name, is_so) in [
                (" over", task.over),
                (" accounted", task.is_accounted),
                (" vanished", one.has_vanished),
                (" refused", one.is_refused()),
                (" finished", one.is_finished(task)),
            ] {
                text.push_str(if is_so { name } else { "" });
            }
            if !one.twins.is_empty() {
                let _ = write!(text, " twins {:?}", one.twins);
            }
        } else {
            text.push_str("forgotten");
        }
        match self.agent.core.run(&self.run.token) {
            Some(run) => {
                let person = if run.needs_person { " (person)" } else { "" };
                let _ = write!(text, " · {:?}{person} {:?}", run.stage, run.why);
            }
            None => text.push_str(" · no run"),
        }
        self.without_chance(&text)
    }

    /// The text without folders and names of this time, and shorter.
    fn without_chance(&self, text: &str) -> String {
        let folder = self.node.paths().mum().display().to_string();
        let submissions = &self.agent.driver.submissions;
        let ids = submissions.keys().map(ToString::to_string);
        let mut text = text.replace(&folder, "MUM");
        for id in ids {
            text = text.replace(&id, "ID");
        }
        for (long, short) in [
            ("Reason { word: \"\", never_passes: false }", ""),
            (", never_passes: false", ""),
            (", unsupervised: false, elsewhere: true", ""),
            ("incarnation: ", ""),
        ] {
            text = text.replace(long, short);
        }
        text
    }

    /// The next question for the scheduler, and when the queue is asked for.
    fn asks(&mut self) -> String {
        let now = Instant::now();
        let list_at = self.agent.driver.list_at;
        let list = match list_at.map(|at| at.saturating_duration_since(now).as_secs()) {
            None => "no listing".to_owned(),
            Some(at @ 0..10) => format!("listing in {at} s"),
            // Pauses are longer by chance.
            Some(_) => "listing later".to_owned(),
        };
        let Some((ask, calls)) = Cluster::due_ask(&mut self.agent) else {
            return list;
        };
        let ask = match ask {
            Ask::Site => "site".to_owned(),
            Ask::Submit(_) => "submit".to_owned(),
            Ask::List(_) => "list".to_owned(),
            Ask::Count(_) => "count".to_owned(),
            Ask::Ends(_) => "ends".to_owned(),
            Ask::Start(..) => "start of the controller".to_owned(),
            Ask::Tell => {
                let each = calls.iter().map(|call| {
                    let words = call.words.iter().map(ToString::to_string);
                    format!("{} {}", call.program, words.collect::<Vec<_>>().join(" "))
                });
                each.collect::<Vec<_>>().join("; ")
            }
        };
        self.without_chance(&format!("{list}, asks: {ask}"))
    }
}

fn said(code: i32, out: &str, err: &str) -> CallOutput {
    CallOutput {
        end: End::Code(code),
        out: out.as_bytes().to_vec(),
        err: err.as_bytes().to_vec(),
    }
}

#[tokio::test(start_paused = true)]
async fn the_table_of_what_moves_a_submission_is_as_it_is_written() {
    let mut table = String::new();
    for (name, beginning, before) in states() {
        let mut events = events();
        if name.starts_with("called") {
            events.extend(answers());
        }
        let mut of_state: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        let mut first = String::new();
        for (event_name, event) in &events {
            let mut scene = Scene::new(beginning.clone()).await;
            for (_, event) in &before {
                scene.see(*event).await;
            }
            first = scene.shown();
            scene.see(*event).await;
            let then = scene.shown();
            let then = if then == first { "=" } else { &*then };
            let then = format!("{then} · {}", scene.asks());
            of_state.entry(then).or_default().push(event_name);
        }
        let _ = writeln!(table, "{name}: {first}");
        let mut rows: Vec<_> = of_state.into_iter().collect();
        let place = |(_, of): &(String, Vec<&str>)| events.iter().position(|one| one.0 == of[0]);
        rows.sort_by_key(place);
        for (then, of) in rows {
            let _ = writeln!(table, "  {}\n    {then}", of.join(", "));
        }
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cluster/tests/table.txt");
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&path, &table).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    for (kept, now) in kept.lines().zip(table.lines()) {
        assert_eq!(kept, now, "INSTA_UPDATE=always writes the table anew");
    }
    assert_eq!(kept.lines().count(), table.lines().count());
}
