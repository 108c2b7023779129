//! The controller of a world and its jobs, and the neromums that lead.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nero_cluster::lifecycle::SubmissionState;
use nero_cluster::submission::{Files, News, TaskRun};
use nero_model::paths::run as names;
use nero_model::{RunId, RunToken, SubmissionId};
use nero_node::agent::{Mailboxes, timers};
use nero_node::runs::segments;
use nero_warden::{AccountingAccess, Call, CallOutput, End, JobName, Site};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::super::results::CommandAnswers;
use super::super::tests::{Node, planned};
use super::super::{Agent, Ask, Cluster, ClusterResult};
use super::{Counts, Dice, Guard, RunSeen, start};

/// Longest time in which all runs of a world end.
const LONGEST: Duration = Duration::from_secs(8 * 3600);
/// Time for which a job stays in the queue after its end.
const KEPT: Duration = Duration::from_secs(100);
/// A job that is in the queue so soon after its call is never submitted again.
const SOON: Duration = Duration::from_secs(28);
/// Interval of looks for what is due.
const EVERY: Duration = Duration::from_secs(30);
/// Longest time from a run's own end until it is told.
const UNTOLD: Duration = Duration::from_secs(900);
/// The paused clock goes on while a busy machine writes a file: so long of the machine's own time
/// has to pass, too, before something is late.
const STALL: Duration = Duration::from_secs(3);
/// Longest time for which a copy waits beside its original while the scheduler answers.
const BESIDE: Duration = Duration::from_secs(600);

/// A job as the controller knows it.
#[derive(Debug)]
struct QueuedJob {
    name: JobName,
    run: RunId,
    /// Time from the answer to the call until it is in the queue.
    late: Duration,
    arrives: Instant,
    began: bool,
    over: Option<JobEnd>,
    is_forgotten: bool,
    /// Whether another job of its submission was called for before.
    is_copy: bool,
    beside: Duration,
}

/// The end of a job.
#[derive(Clone, Copy, Debug)]
struct JobEnd {
    at: Instant,
    state: &'static str,
}

impl QueuedJob {
    fn end(&mut self, state: &'static str) {
        let at = Instant::now();
        self.over.get_or_insert(JobEnd { at, state });
    }

    fn is_listed(&self) -> bool {
        let is_kept = self.over.is_none_or(|over| over.at.elapsed() <= KEPT);
        self.arrives <= Instant::now() && !self.is_forgotten && is_kept
    }
}

pub struct World {
    pub node: Node,
    pub runs: HashMap<RunToken, RunId>,
    pub dice: Dice,
    pub began: Instant,
    /// The file server's clock when the world began.
    pub epoch: SystemTime,
    pub without: Option<Guard>,
    /// Whether controller and hosts fail often.
    pub is_harsh: bool,
    pub counts: Cell<Counts>,
    /// What no run tells.
    pub wrong: RefCell<Vec<String>>,
    /// Claims that starts made.
    pub claims: RefCell<HashSet<PathBuf>>,
    up_since: Cell<Instant>,
    down_until: Cell<Instant>,
    jobs: RefCell<Vec<QueuedJob>>,
    /// When the scheduler was called first for a submission.
    called: RefCell<HashMap<SubmissionId, Instant>>,
    seen: RefCell<BTreeMap<RunId, RunSeen>>,
    /// What happened to a run, in order.
    story: RefCell<Vec<(Duration, RunId, String)>>,
}

impl World {
    pub fn new(seed: u64, runs: u32, without: Option<Guard>) -> (Rc<Self>, Vec<TaskRun>) {
        let node = Node::new();
        let runs: Vec<TaskRun> = (1..=runs).map(planned).collect();
        for run in &runs {
            // Each asks for something else, so that each is a submission of its own.
            node.wait_with(run, u64::from(run.id.number) << 20);
        }
        let now = Instant::now();
        let world = Self {
            node,
            runs: runs.iter().map(|run| (run.token, run.id)).collect(),
            dice: Dice(Cell::new(seed)),
            began: now,
            epoch: SystemTime::now(),
            without,
            // Each second one.
            is_harsh: seed % 2 == 1,
            counts: Cell::default(),
            wrong: RefCell::default(),
            claims: RefCell::default(),
            up_since: Cell::new(now),
            down_until: Cell::new(now),
            jobs: RefCell::default(),
            called: RefCell::default(),
            seen: RefCell::default(),
            story: RefCell::default(),
        };
        (Rc::new(world), runs)
    }

    pub fn lacks(&self, guard: Guard) -> bool {
        self.without == Some(guard)
    }

    pub fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    pub fn seen(&self, run: RunId) -> RunSeen {
        self.seen.borrow().get(&run).copied().unwrap_or_default()
    }

    /// Notes what became of a run.
    pub fn note(&self, run: RunId, what: impl Into<String>, change: impl FnOnce(&mut RunSeen)) {
        change(self.seen.borrow_mut().entry(run).or_default());
        let what = what.into();
        self.story
            .borrow_mut()
            .push((self.began.elapsed(), run, what));
    }

    pub fn story(&self, of: RunId) -> String {
        let story = self.story.borrow();
        let of_it = story.iter().filter(|(_, run, _)| *run == of);
        let lines = of_it.map(|(at, _, what)| format!("  {:.1} s: {what}\n", at.as_secs_f64()));
        lines.collect()
    }

    /// The controller stops at random, and forgets some of what it had.
    pub async fn controller(self: Rc<Self>) {
        let (up, forgets) = if self.is_harsh { (400, 2) } else { (900, 4) };
        loop {
            sleep(Duration::from_secs(120) + self.dice.seconds(up)).await;
            self.down_until.set(Instant::now() + self.dice.seconds(120));
            sleep_until(self.down_until.get()).await;
            if self.dice.one_in(2) && self.began.elapsed() < LONGEST / 4 {
                self.up_since.set(Instant::now());
                for job in self.jobs.borrow_mut().iter_mut() {
                    job.is_forgotten |= self.dice.one_in(forgets);
                }
            }
        }
    }

    /// Looks for what is due: runs that are told, and copies that are cancelled, whenever
    /// the scheduler answers.
    pub async fn see_what_is_due(self: Rc<Self>) {
        loop {
            sleep(EVERY).await;
            self.see_untold();
            if self.is_down() {
                continue;
            }
            let mut jobs = self.jobs.borrow_mut();
            for index in 0..jobs.len() {
                let job = &jobs[index];
                let waits = job.is_copy && job.is_listed() && !job.began && job.over.is_none();
                let is_it = |other: &QueuedJob| other.name == job.name && other.is_listed();
                let is_beside = waits
                    && !self.seen(job.run).is_told
                    && jobs.iter().filter(|other| is_it(other)).count() > 1;
                let job = &mut jobs[index];
                if !is_beside {
                    job.beside = Duration::ZERO;
                    continue;
                }
                job.beside += EVERY;
                if job.beside == BESIDE {
                    let what = format!("a copy waits beside its original: {job:?}");
                    self.wrong.borrow_mut().push(what);
                }
            }
        }
    }

    fn is_down(&self) -> bool {
        self.down_until.get() > Instant::now()
    }

    /// The answers to what the leader asks.
    async fn answer(
        self: &Rc<Self>,
        ask: &Ask,
        calls: &[Call],
        name: Option<JobName>,
    ) -> Vec<CallOutput> {
        sleep(self.dice.seconds(2)).await;
        if self.is_down() {
            let why = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)";
            return vec![said(1, "", why)];
        }
        match ask {
            Ask::List(_) => vec![said(0, &self.queue(), "")],
            Ask::Count(_) => vec![said(0, "", "")],
            Ask::Submit(id) => vec![self.call(*id, name.unwrap())],
            Ask::Tell => {
                self.cancel(calls);
                vec![said(0, "", ""); calls.len()]
            }
            Ask::Ends(_) => vec![said(1, "", "Slurm accounting storage is disabled")],
            Ask::Site | Ask::Start(..) => unreachable!("{ask:?}"),
        }
    }

    /// A call: accepted and told, accepted and not told, on its way for long, or lost.
    fn call(self: &Rc<Self>, id: SubmissionId, name: JobName) -> CallOutput {
        let way = self.dice.next() % 10;
        let late = match way {
            0..=2 => self.dice.seconds(400),
            3 => self.dice.seconds(30),
            _ => Duration::ZERO,
        };
        self.called.borrow_mut().entry(id).or_insert(Instant::now());
        // Of some late ones a process of the call lives on, and keeps its lock.
        let files = Files::at(&self.node.paths().submission(&id));
        let lock = self
            .dice
            .one_in(2)
            .then(|| files.lock_for_a_call().unwrap());
        let job = self.jobs.borrow().len() as u64 + 1;
        let run = files.read_plan().expect("its plan is synced").tasks[0].runs[0].id;
        let what = format!("call {id}: way {way}, late {late:?}, job {job}");
        self.note(run, what, |_| {});
        if way < 6 {
            let mut jobs = self.jobs.borrow_mut();
            let mut others = jobs.iter().filter(|one| one.name == name);
            let is_copy = others.clone().next().is_some();
            if let Some(first) = others.find(|one| one.is_listed() && one.late <= SOON) {
                let what = format!("{id} is submitted again although it is there: {first:?}");
                self.wrong.borrow_mut().push(what);
            }
            jobs.push(QueuedJob {
                name,
                run,
                late,
                arrives: Instant::now() + late,
                began: false,
                over: None,
                is_forgotten: false,
                is_copy,
                beside: Duration::ZERO,
            });
            let world = self.clone();
            spawn_local(async move {
                sleep(late).await;
                drop(lock);
                world.count(|counts| counts.copies += u32::from(is_copy));
                world.job(job, files).await;
            });
        }
        if way == 5 {
            return said(0, &format!("{job}\n"), "");
        }
        self.count(|counts| counts.doubts += 1);
        let why =
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation";
        said(1, "", why)
    }

    fn queue(&self) -> String {
        let jobs = self.jobs.borrow();
        let rows = jobs.iter().zip(1..).filter_map(|(job, id)| {
            let state = match (job.over, job.began) {
                (Some(over), _) => over.state,
                (None, true) => "RUNNING",
                (None, false) => "PENDING",
            };
            let row = format!(
                r#"{{"name": "{}", "job_id": {id}, "job_state": "{state}", "state_reason": "None"}}"#,
                job.name.as_str()
            );
            job.is_listed().then_some(row)
        });
        format!(r#"{{"jobs": [{}]}}"#, rows.collect::<Vec<_>>().join(", "))
    }

    /// Cancels what waits. Nobody aborts a run here, so nothing else is asked for.
    fn cancel(&self, calls: &[Call]) {
        if self.lacks(Guard::CancelledCopies) {
            return;
        }
        for call in calls {
            assert!(call.words.contains(&"--state=PENDING".into()), "{call:?}");
            for id in call
                .words
                .iter()
                .filter_map(|word| word.parse::<usize>().ok())
            {
                let job = &mut self.jobs.borrow_mut()[id - 1];
                if !job.began {
                    job.end("CANCELLED");
                }
            }
        }
    }

    /// A job, from its arrival to its end.
    async fn job(self: Rc<Self>, id: u64, files: Files) {
        let index = id as usize - 1;
        let waits = if self.dice.one_in(3) { 3000 } else { 300 };
        sleep(self.dice.seconds(waits)).await;
        loop {
            {
                let job = &mut self.jobs.borrow_mut()[index];
                if job.over.is_some() || job.is_forgotten && self.dice.one_in(2) {
                    job.end("FAILED");
                    return;
                }
                job.began = true;
                self.count(|counts| {
                    counts.begun_copies += u32::from(job.is_copy);
                    counts.starts += 1;
                });
            }
            let start = spawn_local(start::start(self.clone(), files.clone(), id));
            // A host whose daemon does not answer: the job starts once more elsewhere.
            let patience = Duration::from_secs(600) + self.dice.seconds(600);
            if let Ok(has_run) = timeout(patience, start).await {
                let state = if has_run.unwrap() {
                    "COMPLETED"
                } else {
                    "FAILED"
                };
                self.jobs.borrow_mut()[index].end(state);
                return;
            }
            self.jobs.borrow_mut()[index].began = false;
            sleep(self.dice.seconds(300)).await;
        }
    }
}

/// The neromums.
impl World {
    /// One neromum after the other leads, until every run has ended.
    pub async fn lead(self: Rc<Self>, runs: &[TaskRun]) {
        let ledger = self.node.paths().mum().join("ledger");
        loop {
            self.count(|counts| counts.leaders += 1);
            let unsynced = self
                .lacks(Guard::SyncedLedger)
                .then(|| SavedFolder::of(&ledger));
            let (mut agent, mut boxes) = self.node.agent();
            let was_killed = self.leads(&mut agent, &mut boxes, runs).await;
            if !was_killed {
                return;
            }
            drop((agent, boxes));
            if let Some(saved) = unsynced {
                saved.restore(&ledger);
            }
        }
    }

    /// Returns true when the neromum was killed.
    async fn leads(
        self: &Rc<Self>,
        agent: &mut Agent<Cluster>,
        boxes: &mut Mailboxes<ClusterResult>,
        runs: &[TaskRun],
    ) -> bool {
        while self.began.elapsed() < LONGEST && !self.are_told(agent, runs) {
            if self.was_cut_short() {
                return false;
            }
            agent.carry_out();
            let due = Cluster::due_ask(agent);
            agent.carry_out();
            agent.start_sync();
            self.take_guards_away(agent);
            if let Some((ask, calls)) = due {
                if self.dice.one_in(60) {
                    return true;
                }
                let answered = self.asked(agent, ask, calls).await;
                if self.dice.one_in(60) {
                    return true;
                }
                if let Some(answered) = answered {
                    Cluster::answered(agent, answered);
                }
                continue;
            }
            Cluster::time_cluster(agent);
            let deadline = agent.next_deadline();
            tokio::select! {
                done = boxes.done.recv() => agent.done(done.unwrap()),
                () = timers::until(deadline) => agent.timers_due(),
                // A leader that lost its runs has no deadline.
                () = sleep_until(self.began + LONGEST) => {}
            }
        }
        false
    }

    /// Notes the ends that the leader tells; whether that are all.
    fn are_told(&self, agent: &Agent<Cluster>, runs: &[TaskRun]) -> bool {
        let mut are_all = true;
        for run in runs {
            let seen = self.seen(run.id);
            let is_done = agent.core.is_done(&run.token);
            are_all &= is_done;
            if is_done && !seen.is_told {
                let facts = agent.entries.get(&run.token).map(|entry| entry.facts);
                let by_itself = facts.is_some_and(|facts| facts.exited_by_itself());
                let what = format!(
                    "told: {:?}, by itself: {by_itself}",
                    Cluster::stage(agent, run)
                );
                self.note(run.id, what, |seen| {
                    seen.is_told = true;
                    seen.is_told_wrong = !seen.has_ended() || by_itself != (seen.ends == 1);
                });
            }
        }
        are_all
    }

    /// Whether enough went wrong without a guard.
    pub fn was_cut_short(&self) -> bool {
        let seen = self.seen.borrow();
        let is_wrong = !self.wrong.borrow().is_empty() || seen.values().any(|seen| seen.is_wrong());
        self.without.is_some() && is_wrong
    }

    /// Tells of runs that ended by themselves long ago, and were not told.
    fn see_untold(&self) {
        for (run, seen) in self.seen.borrow_mut().iter_mut() {
            let is_late = |(at, really): (Instant, std::time::Instant)| {
                at.elapsed() > UNTOLD && really.elapsed() > STALL
            };
            if !seen.is_told && !seen.is_late && seen.ended.is_some_and(is_late) {
                seen.is_late = true;
                let what = format!("run {run} is not told: {seen:?}");
                self.wrong.borrow_mut().push(what);
            }
        }
    }

    fn take_guards_away(&self, agent: &mut Agent<Cluster>) {
        let submissions = agent.driver.submissions.values_mut();
        match self.without {
            Some(Guard::Closed) => {
                for submission in submissions {
                    let _ = std::fs::remove_file(submission.files.path(News::Closed(0)));
                }
            }
            Some(Guard::TwoListings) => {
                for submission in submissions {
                    if let SubmissionState::InDoubt(doubt) = &mut submission.standing {
                        doubt.apart_ms = 0;
                    }
                }
            }
            Some(Guard::WithheldClaim) => {
                for run in self.runs.values() {
                    let folder = self.node.paths().run(*run);
                    for incarnation in 1..4 {
                        let claim = segments::folder(&folder, incarnation).join(names::CLAIM);
                        if !self.claims.borrow().contains(&claim) {
                            let _ = std::fs::remove_file(claim);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    async fn asked(
        self: &Rc<Self>,
        agent: &mut Agent<Cluster>,
        ask: Ask,
        calls: Vec<Call>,
    ) -> Option<CommandAnswers> {
        let cluster = &mut agent.driver;
        cluster.is_asking = true;
        let of = |id: &SubmissionId| cluster.submissions.get(id).map(|one| one.name.clone());
        let mut site = None;
        let said = match &ask {
            Ask::Site => {
                let absent = Site {
                    accounting: AccountingAccess::Absent,
                    ..Site::default()
                };
                site = Some(Ok(Arc::new(absent)));
                Vec::new()
            }
            Ask::Start(ids, _) => {
                // Names come meanwhile: the leader may stand still, too.
                sleep(self.dice.seconds(60)).await;
                self.tell_start(agent, ids);
                return None;
            }
            Ask::Submit(id) => self.answer(&ask, &calls, of(id)).await,
            Ask::List(_) | Ask::Count(_) | Ask::Ends(_) | Ask::Tell => {
                self.answer(&ask, &calls, None).await
            }
        };
        Some(CommandAnswers {
            ask,
            said,
            site,
            users: HashMap::new(),
        })
    }

    /// Tells when the controller was started: after a call, or before it. Then a person
    /// decides, which is here that the controller is started anew.
    fn tell_start(&self, agent: &mut Agent<Cluster>, ids: &[SubmissionId]) {
        agent.driver.is_asking = false;
        let up_since = self.up_since.get();
        let called = self.called.borrow();
        let is_lost = |id: &SubmissionId| called.get(id).is_some_and(|at| *at < up_since);
        let (lost, kept): (Vec<_>, Vec<_>) = ids.iter().copied().partition(is_lost);
        Cluster::controller_is_up(agent, &lost, Some(Duration::ZERO));
        Cluster::controller_is_up(agent, &kept, Some(Duration::MAX));
        if !kept.is_empty() {
            self.up_since.set(Instant::now());
        }
    }
}

/// The files of a folder.
struct SavedFolder(Vec<(PathBuf, Vec<u8>)>);

impl SavedFolder {
    fn of(folder: &std::path::Path) -> Self {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let files = files.map(|file| file.path());
        Self(
            files
                .map(|path| (path.clone(), std::fs::read(path).unwrap()))
                .collect(),
        )
    }

    fn restore(self, folder: &std::path::Path) {
        std::fs::remove_dir_all(folder).unwrap();
        std::fs::create_dir(folder).unwrap();
        for (path, bytes) in self.0 {
            std::fs::write(path, bytes).unwrap();
        }
    }
}

fn said(code: i32, out: &str, err: &str) -> CallOutput {
    CallOutput {
        end: End::Code(code),
        out: out.as_bytes().to_vec(),
        err: err.as_bytes().to_vec(),
    }
}
