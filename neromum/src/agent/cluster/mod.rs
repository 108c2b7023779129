//! The runs of a node that a scheduler guards: they are submitted, watched and
//! ended from here, and start nowhere on this host. The records on the disk
//! decide; the scheduler's word is asked for in few commands for all runs
//! together, one at a time. See `docs/design/schedulers.md`.

mod adopted;
mod control;
mod make;
mod room;
mod submit;
mod task;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod twins;
mod vanished;
mod waiting;
mod watch;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nero_model::{RunId, RunToken, SubmissionId};
use nero_warden::standing::{Ms, Standing, Step};
use nero_warden::{Call, End, JobId, JobName, Known, Listed, Order, Said, Site, Warden};
use nero_wire::v1::SchedulerUse;
use tokio::time::Instant;

use super::off_reactor::Report;
use super::pause::Wanted;
use super::{Agent, Done};
use crate::core::decide::TaskWord;
use crate::core::{Run, Stage};
use crate::ledger::{Answer, Intent};
use crate::submission::{Files, News};
use crate::warden::front::Front;
pub(super) use adopted::CopiedLogs;
pub(super) use make::Made;
use task::{Seen, Task};
pub(super) use watch::Looked;

/// First and longest pause between two listings while nothing changes.
const LIST_EVERY: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(60));
/// Least time between two listings, whatever asks for them.
const LIST_APART: Duration = Duration::from_secs(1);
/// First and longest pause between two looks at the news.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// First and longest pause after a command that failed.
const PAUSES: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(120));
/// Age of a listing up to which its count of jobs serves a submission.
const COUNT_FRESH: Duration = Duration::from_secs(30);
/// Time after which the site is described anew.
const SITE_FRESH: Duration = Duration::from_secs(3600);

/// What a node with a scheduler is set up with.
#[derive(Clone, Debug)]
pub struct Scheduler {
    /// Which one, and how it is asked.
    pub front: Arc<Front>,
    /// Name of the node.
    pub node: String,
    /// The neromum that compute nodes execute.
    pub program: PathBuf,
}

/// Submissions, and what is known of them.
#[derive(Debug)]
pub(super) struct Cluster {
    warden: Arc<dyn Warden>,
    setup: Scheduler,
    site: Option<(Instant, Arc<Site>)>,
    submissions: BTreeMap<SubmissionId, Submission>,
    /// The submission and task of a run, the newest.
    of_run: HashMap<RunToken, (SubmissionId, u32)>,
    /// Jobs of a run that failed before it began, as far as this neromum saw them.
    failed_silently: HashMap<RunToken, u8>,
    /// Whether a command is being executed.
    is_asking: bool,
    /// Whether submissions are being made.
    is_making: bool,
    /// Whether the news are being read.
    is_looking: bool,
    /// Whether logs of adopted jobs are being copied.
    is_copying: bool,
    /// Answers of the listing that is asked for, those about adopted jobs not counted.
    queue_answers: usize,
    /// Whether that listing asks about adopted jobs, too.
    has_asked_adopted: bool,
    /// Launches of which no job was seen yet: each look reads their folders.
    launches: Vec<(SubmissionId, News)>,
    /// Live runs whose tasks are to look for cancel requests.
    rings: HashSet<RunToken>,
    /// Runs whose waiting jobs are to be held or released.
    holds: HashMap<RunToken, control::Hold>,
    /// Runs that did not end in time, whose jobs are cancelled by the next command.
    escalated: Vec<(RunToken, RunId)>,
    /// Zero of the times of listings.
    began: Instant,
    /// When the last whole listing was asked for, and its number of jobs.
    counted: Option<(Instant, Counted)>,
    /// When the jobs of all users were asked for last, and their number together with
    /// those that were submitted since.
    counted_all: Option<(Instant, u64)>,
    /// Whether the last count left no room: it is counted again with the next listing
    /// that is due.
    is_full: bool,
    /// Tasks that are submitted at once at most, since the scheduler took no more.
    at_most: Option<u64>,
    /// When the last listing was answered.
    answered: Option<Instant>,
    list_at: Option<Instant>,
    list_pause: Duration,
    look_at: Option<Instant>,
    /// When the last reading of the news began.
    look_began: Option<Instant>,
    look_pause: Duration,
    /// Folders of submissions that were listed, and run folders that were read.
    listed: u64,
    read: u64,
    /// Until then nothing is asked for, since a command failed.
    paused: Option<Instant>,
    pause: Duration,
}

/// Jobs of this user, those included that were submitted since they were counted.
#[derive(Clone, Copy, Debug)]
struct Counted {
    /// Jobs and tasks that did not end.
    queued: u64,
    /// Those and the ended ones that the scheduler still keeps.
    kept: u64,
}

/// One submission.
#[derive(Debug)]
pub(super) struct Submission {
    id: SubmissionId,
    name: JobName,
    files: Files,
    /// Its tasks, by their indexes.
    tasks: Vec<Task>,
    tokens: HashMap<RunId, RunToken>,
    standing: Standing,
    /// Whether the intent is synced.
    is_synced: bool,
    made_ms: i64,
    /// Tasks of it that may run at once.
    at_once: u32,
    /// Whether no job of this user was in the queue as it was made.
    is_alone: bool,
    /// Its place among all submissions of this neromum: later ones are higher.
    number: u64,
    /// What is submitted, until the scheduler has it.
    order: Option<Box<(Order, String)>>,
    news: BTreeSet<News>,
    /// Copies of it, which the scheduler has too.
    twins: Vec<JobId>,
    /// Whether a task of it vanished, and the start of the controller tells what is to
    /// be done.
    has_vanished: bool,
    /// When the accounting was asked for it last.
    accounted: Option<Instant>,
    rows: Vec<Listed>,
    /// Its job, if a person submitted it.
    hand: Option<adopted::Hand>,
}

/// What a command is asked for.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    /// The site.
    Site,
    /// To take a submission.
    Submit(SubmissionId),
    /// The queue, at this time.
    List(Instant),
    /// The number of jobs of all users, at this time.
    Count(Instant),
    /// The ends of these submissions.
    Ends(Vec<SubmissionId>),
    /// When the controller was started, since tasks of these vanished.
    Start(Vec<SubmissionId>),
    /// To cancel or to ring: the answer says nothing.
    Tell,
}

/// Answers to the commands of one question.
#[derive(Debug)]
pub(super) struct Answered {
    ask: Ask,
    said: Vec<Said>,
    site: Option<Result<Arc<Site>, String>>,
}

impl Cluster {
    /// Whether the accounting tells who cancelled a job.
    fn names_cancellers(&self) -> bool {
        self.warden.kind() == nero_warden::Kind::Slurm
    }

    pub fn new(setup: Scheduler) -> Self {
        Self {
            warden: setup.front.warden().clone(),
            setup,
            site: None,
            submissions: BTreeMap::new(),
            of_run: HashMap::new(),
            failed_silently: HashMap::new(),
            is_asking: false,
            is_making: false,
            is_looking: false,
            is_copying: false,
            queue_answers: 0,
            has_asked_adopted: false,
            launches: Vec::new(),
            rings: HashSet::new(),
            holds: HashMap::new(),
            escalated: Vec::new(),
            began: Instant::now(),
            counted: None,
            counted_all: None,
            is_full: false,
            at_most: None,
            answered: None,
            list_at: None,
            list_pause: LIST_EVERY.0,
            look_at: None,
            look_began: None,
            look_pause: LOOK_EVERY.0,
            listed: 0,
            read: 0,
            paused: None,
            pause: PAUSES.0,
        }
    }

    /// A run's folder is read.
    pub fn count_read(&mut self) {
        self.read += 1;
    }

    /// Whether a run is in a submission.
    pub fn has(&self, token: &RunToken) -> bool {
        self.of_run.contains_key(token)
    }

    /// Where the task of a run stands, and the host of its newest start; `None`:
    /// the run is in no submission.
    pub fn stands(&self, token: &RunToken) -> Option<(TaskWord, Option<String>)> {
        let (submission, task) = self.task(token)?;
        let host = submission.row(task).and_then(|row| row.host.as_ref());
        Some((task.word(), host.map(ToString::to_string)))
    }

    fn task(&self, token: &RunToken) -> Option<(&Submission, &Task)> {
        let (id, index) = self.of_run.get(token)?;
        let submission = self.submissions.get(id)?;
        Some((submission, submission.task(*index)?))
    }

    /// Something changed: the scheduler and the news are looked at soon.
    fn hurry(&mut self) {
        let now = Instant::now();
        self.list_pause = LIST_EVERY.0;
        self.list_soon(now + LIST_EVERY.0);
        self.look_pause = LOOK_EVERY.0;
        self.look_at = Some(self.look_at.unwrap_or(now).min(now + LOOK_EVERY.0));
    }

    fn list_soon(&mut self, at: Instant) {
        self.list_at = Some(self.list_at.map_or(at, |known| known.min(at)));
    }

    fn is_paused(&self, now: Instant) -> bool {
        self.paused.is_some_and(|until| until > now)
    }

    fn ms(&self, at: Instant) -> Ms {
        at.saturating_duration_since(self.began).as_millis() as Ms
    }

    fn names(&self) -> Vec<JobName> {
        let all = self.submissions.values();
        all.map(|one| one.name.clone()).collect()
    }

    /// The question for the queue.
    fn list(&mut self, now: Instant) -> (Ask, Vec<Call>) {
        self.see_calls_left_behind();
        let names = self.names();
        let names: Vec<&JobName> = names.iter().collect();
        let mut calls = self.warden.queue_calls(&names);
        self.queue_answers = calls.len();
        let adopted = self.adopted();
        let has_asked_adopted = !adopted.is_empty();
        if has_asked_adopted {
            calls.extend(self.warden.adopted_calls(&adopted));
        }
        self.has_asked_adopted = has_asked_adopted;
        (Ask::List(now), calls)
    }

    /// The intents, for a new ledger.
    pub fn intents(&self) -> Vec<Intent> {
        let mut all: Vec<&Submission> = self.submissions.values().collect();
        all.sort_by_key(|one| one.number);
        all.into_iter().map(Submission::intent).collect()
    }
}

impl Submission {
    fn intent(&self) -> Intent {
        Intent {
            submission: self.id,
            tokens: self.runs().map(|run| run.token).collect(),
            made_ms: self.made_ms,
            answer: match &self.standing {
                Standing::Intended { .. } | Standing::InDoubt(_) => Answer::InDoubt,
                Standing::Accepted(job) => Answer::Job(job.0),
                Standing::Refused(why) => Answer::Refused(why.clone()),
                Standing::NotNow(why) => Answer::NotNow(why.clone()),
            },
        }
    }

    fn known(&self) -> Known<'_> {
        Known {
            name: &self.name,
            job: self.job(),
        }
    }

    fn job(&self) -> Option<JobId> {
        match self.standing {
            Standing::Accepted(job) => Some(job),
            Standing::Intended { .. }
            | Standing::InDoubt(_)
            | Standing::Refused(_)
            | Standing::NotNow(_) => None,
        }
    }

    fn task(&self, index: u32) -> Option<&Task> {
        let at = self.tasks.binary_search_by_key(&index, |task| task.index);
        self.tasks.get(at.ok()?)
    }

    fn task_mut(&mut self, index: u32) -> Option<&mut Task> {
        let at = self.tasks.binary_search_by_key(&index, |task| task.index);
        self.tasks.get_mut(at.ok()?)
    }

    fn is_refused(&self) -> bool {
        matches!(self.standing, Standing::Refused(_) | Standing::NotNow(_))
    }

    fn row(&self, task: &Task) -> Option<&Listed> {
        let rows: Vec<&Listed> = self.rows.iter().collect();
        task.row(&rows, self.job()?)
    }
}

impl Agent {
    /// Whether this node has a scheduler, and the run is in a submission to it.
    pub(super) fn is_submitted(&self, token: &RunToken) -> bool {
        let cluster = self.cluster.as_ref();
        cluster.is_some_and(|cluster| cluster.has(token))
    }

    /// Whether the scheduler has every run that has not ended, and nothing is asked of
    /// it that waits for an answer. The runs go on without a neromum here; the next
    /// connection starts one, which reads the ledger and the folders.
    pub(super) fn is_all_submitted(&self) -> bool {
        let Some(cluster) = &self.cluster else {
            return false;
        };
        let is_there = |run: &Run| match run.stage {
            Stage::Waiting | Stage::Starting { .. } | Stage::Held { .. } => false,
            // Its job is to be cancelled, now or when the run does not end by itself.
            Stage::Submitted { .. } => !run.cancelled,
            Stage::Running { elsewhere, .. } => elsewhere && !run.cancelled,
            Stage::Ended { .. } | Stage::Settled { .. } | Stage::TakenAway | Stage::Refused => true,
        };
        let mut submissions = cluster.submissions.values();
        cluster.rings.is_empty()
            && cluster.holds.is_empty()
            && submissions.all(|one| one.job().is_some() || one.is_refused())
            && self.core.runs().all(|(_, run)| is_there(run))
    }

    /// Where the task of a run stands, with the host of its start; `None`: it is in no
    /// submission.
    pub(super) fn stands_at_scheduler(
        &self,
        token: &RunToken,
    ) -> Option<(TaskWord, Option<String>)> {
        self.cluster.as_ref()?.stands(token)
    }

    /// What was counted of the scheduler, where the node has one.
    pub(super) fn counted_at_scheduler(&self) -> Option<SchedulerUse> {
        let cluster = self.cluster.as_ref()?;
        let site = cluster.site.as_ref().map(|(_, site)| site);
        let submissions = cluster.submissions.values();
        let runs = submissions
            .filter(|one| one.job().is_some())
            .flat_map(Submission::runs);
        let own = runs.filter(|run| !self.is_done(&run.token)).count() as u64;
        let answered = cluster.answered.map(|at| at.elapsed().as_secs_f64());
        Some(SchedulerUse {
            lists: cluster.listed,
            reads: cluster.read,
            answered_s: answered,
            own,
            queued: cluster.counted.map(|(_, counted)| counted.queued),
            all: cluster.counted_all.map(|(_, all)| all),
            site_max_own: site.and_then(|site| site.own_jobs_max),
            site_max_all: site.and_then(|site| site.jobs_max),
            site_max_array: site.and_then(|site| site.array_index_end),
            ..SchedulerUse::default()
        })
    }

    /// Does what is to be done next about the scheduler; called at the end of each
    /// turn.
    pub(super) fn see_to_cluster(&mut self) {
        if let Some((ask, calls)) = self.due_ask() {
            self.ask(ask, calls);
        }
        self.time_cluster();
    }

    /// Does what needs no command; returns the command that is due.
    fn due_ask(&mut self) -> Option<(Ask, Vec<Call>)> {
        let now = Instant::now();
        self.take_in_adopted();
        self.look_at_news(now);
        self.give_up_unwanted();
        self.make_submissions(now);
        self.note_overdue(now);
        let cluster = self.cluster.as_ref()?;
        if cluster.is_asking || cluster.is_paused(now) || self.leaving.is_some() {
            return None;
        }
        self.next_ask(now)
    }

    /// Sets the time of the next turn for the scheduler.
    fn time_cluster(&mut self) {
        let now = Instant::now();
        let overdue = self.next_overdue(now);
        let is_open = self.has_to_ask();
        let Some(cluster) = &self.cluster else { return };
        // A turn before that asks for nothing, and the next turn would follow at once.
        let may_list = cluster.counted.map_or(now, |(at, _)| at + LIST_APART);
        let list_at = cluster.list_at.map(|at| at.max(may_list));
        let mut due = [
            list_at.filter(|_| is_open && !cluster.is_asking),
            cluster
                .look_at
                .filter(|_| !cluster.submissions.is_empty() && !cluster.is_looking),
            overdue,
        ];
        if cluster.is_paused(now) {
            due[0] = cluster.paused;
        }
        self.timers.cluster = due.into_iter().flatten().min();
    }

    /// Whether the queue tells anything: runs wait, or may begin or end at the scheduler.
    fn has_to_ask(&self) -> bool {
        let is_open = |one: &Submission| match one.standing {
            Standing::Intended { .. } | Standing::InDoubt(_) => true,
            Standing::Refused(_) | Standing::NotNow(_) => false,
            Standing::Accepted(_) => {
                let mut tasks = one.tasks.iter();
                tasks.any(|task| !one.is_finished(task))
                    || one.runs().any(|run| !self.is_done(&run.token))
            }
        };
        let mut submissions = self.cluster.iter().flat_map(|one| one.submissions.values());
        self.core.waiting() > 0 || submissions.any(is_open)
    }

    /// The next command, in the order in which things must not wait.
    fn next_ask(&mut self, now: Instant) -> Option<(Ask, Vec<Call>)> {
        let (waits, has_open) = (self.core.waiting() > 0, self.has_to_ask());
        let to_cancel = self.tasks_to_cancel(now);
        let cluster = self.cluster.as_mut()?;
        let twins = cluster.cancel_twins();
        if !twins.is_empty() {
            tracing::warn!(?twins, "the scheduler has submissions more than once");
            return Some((Ask::Tell, twins));
        }
        let listed = cluster.counted.map(|(at, _)| at);
        let may_list = listed.is_none_or(|at| now.duration_since(at) >= LIST_APART);
        if !to_cancel.is_empty() {
            match cluster.cancel(&to_cancel, now) {
                Some(calls) if !calls.is_empty() => {
                    cluster.list_soon(now + LIST_APART);
                    let escalated = std::mem::take(&mut cluster.escalated);
                    self.tell_escalated(&escalated);
                    return Some((Ask::Tell, calls));
                }
                None if may_list => return Some(cluster.list(now)),
                Some(_) | None => {
                    cluster.list_soon(listed.map_or(now, |at| at + LIST_APART));
                }
            }
        }
        let open = || cluster.submissions.values();
        let can = |one: &&Submission| one.is_synced && one.order.is_some();
        let intended = open()
            .filter(can)
            .find(|one| one.standing.next() == Step::Submit);
        if let Some(id) = intended.map(|one| one.id) {
            return cluster.submit(id);
        }
        let cluster = self.cluster.as_mut()?;
        let is_old = |at: &Instant| now.duration_since(*at) >= SITE_FRESH;
        if waits && cluster.site.as_ref().is_none_or(|(at, _)| is_old(at)) {
            return Some((Ask::Site, Vec::new()));
        }
        if !cluster.rings.is_empty() {
            if let Some(calls) = cluster.ring(now) {
                if let Some(call) = calls {
                    return Some((Ask::Tell, vec![call]));
                }
            } else {
                cluster.list_soon(listed.map_or(now, |at| at + LIST_APART));
            }
        }
        if !cluster.holds.is_empty() {
            if let Some(calls) = self.hold(now) {
                return Some((Ask::Tell, calls));
            }
            self.list_for_holds(now);
        }
        let cluster = self.cluster.as_mut()?;
        let open = cluster.submissions.values();
        let vanished: Vec<SubmissionId> = open
            .filter(|one| one.has_vanished)
            .map(|one| one.id)
            .collect();
        if !vanished.is_empty() {
            return Some((Ask::Start(vanished), cluster.warden.site_calls()));
        }
        let is_due = cluster.list_at.is_some_and(|at| at <= now);
        let may_submit = waits && self.core.held().is_none();
        if may_submit && cluster.wants_all(self.core.waiting(), now) {
            return Some((Ask::Count(now), cluster.warden.count_calls()));
        }
        let is_counted = cluster.is_counted(now) || cluster.is_full;
        let count = waits && !is_counted && !cluster.is_making;
        if may_list && (count || is_due && has_open) {
            return Some(cluster.list(now));
        }
        self.ends_to_ask()
    }

    fn ask(&mut self, ask: Ask, calls: Vec<Call>) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        cluster.is_asking = true;
        let front = cluster.setup.front.clone();
        let of_call = match &ask {
            Ask::Submit(id) => cluster.submissions.get(id).map(|one| one.files.clone()),
            Ask::Site | Ask::List(_) | Ask::Count(_) | Ask::Ends(_) | Ask::Start(_) | Ask::Tell => {
                None
            }
        };
        let lost = Done::Asked(Box::new(Answered {
            ask: ask.clone(),
            said: Vec::new(),
            site: None,
        }));
        let report = Report::new(self.done.clone(), lost);
        #[expect(
            clippy::disallowed_methods,
            reason = "the drop of `report` tells the agent its end, whatever ended it"
        )]
        tokio::spawn(async move {
            let mut said = Vec::with_capacity(calls.len());
            let mut site = None;
            if matches!(ask, Ask::Site) {
                site = Some(front.site().await);
            }
            for call in &calls {
                let lock = of_call.as_ref().map(Files::lock_for_a_call).transpose();
                let lock = lock.map_err(|error| format!("its script: {error}"));
                said.push(match (front.runner().await, lock) {
                    (Ok(runner), Ok(Some(lock))) => runner.submit(call, lock).await,
                    (Ok(runner), Ok(None)) => runner.run(call).await,
                    (Err(why), _) | (_, Err(why)) => Said {
                        end: End::NotExecuted(why),
                        out: Vec::new(),
                        err: Vec::new(),
                    },
                });
                if said.last().is_some_and(|last| last.end == End::TimedOut) {
                    // Each of the others would hold up everything for as long.
                    break;
                }
            }
            report.end(Done::Asked(Box::new(Answered { ask, said, site })));
        });
    }

    pub(super) fn answered(&mut self, answered: Answered) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        cluster.is_asking = false;
        let Answered { ask, said, site } = answered;
        let heard = match ask {
            Ask::Site => match site {
                Some(Ok(site)) => {
                    if let Some(warden) = cluster.warden.knowing(&site) {
                        cluster.warden = warden;
                    }
                    cluster.site = Some((Instant::now(), site));
                    Ok(())
                }
                Some(Err(why)) => Err(why),
                None => Err("its task panicked".to_owned()),
            },
            Ask::Submit(id) => {
                self.submit_answered(id, said.first());
                return;
            }
            Ask::List(at) => {
                let known: Vec<Known<'_>> = cluster
                    .submissions
                    .values()
                    .map(Submission::known)
                    .collect();
                let (said, more) = said.split_at(cluster.queue_answers.min(said.len()));
                let queue = cluster.warden.read_queue(said, &known);
                let adopted = cluster.adopted();
                let sightings = match cluster.has_asked_adopted {
                    false => Ok(Vec::new()),
                    true => cluster.warden.read_adopted(said, more, &adopted),
                };
                if queue.is_err()
                    && let Some(plain) = cluster.warden.without_json(said)
                {
                    tracing::info!("the scheduler is built without JSON: asked for plain rows");
                    cluster.warden = plain;
                }
                let heard = queue.and_then(|queue| Ok((queue, sightings?)));
                let heard = heard.map(|(queue, seen)| self.listed(at, &queue, &seen));
                heard.map_err(|error| error.to_string())
            }
            Ask::Count(at) => {
                let count = cluster.warden.read_count(&said);
                let heard = count.map(|count| cluster.counted_all = Some((at, count)));
                heard.map_err(|error| error.to_string())
            }
            Ask::Ends(ids) => {
                self.ends_answered(&ids, &said);
                return;
            }
            Ask::Start(ids) => {
                let site = cluster.warden.read_site(&said);
                let heard = site.map(|site| self.controller_is_up(&ids, site.up_s));
                heard.map_err(|error| error.to_string())
            }
            Ask::Tell => return,
        };
        match heard {
            Ok(()) => self.scheduler_answers(),
            Err(why) => self.scheduler_fails(&why),
        }
    }

    fn scheduler_answers(&mut self) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        cluster.pause = PAUSES.0;
        if cluster.paused.take().is_some() {
            self.core.release();
        }
    }

    /// Pauses the whole cluster: a scheduler that does not answer is no fault of
    /// any run.
    fn scheduler_fails(&mut self, why: &str) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        tracing::warn!(why, "the scheduler does not answer");
        cluster.paused = Some(Instant::now() + cluster.pause);
        cluster.pause = (cluster.pause * 2).min(PAUSES.1);
        let why = format!("{} does not answer: {why}", cluster.warden.name());
        self.core.hold(&why);
    }

    /// Forgets submissions of which every run is closed, and removes their folders:
    /// what starts late finds no plan, and begins nothing.
    pub(super) fn forget_submissions(&mut self) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        let entries = &self.entries;
        cluster
            .of_run
            .retain(|token, _| entries.contains_key(token));
        cluster
            .failed_silently
            .retain(|token, _| entries.contains_key(token));
        let mut gone = Vec::new();
        cluster.submissions.retain(|id, submission| {
            let mut runs = submission.tasks.iter().flat_map(|task| &task.runs);
            let of_run = &cluster.of_run;
            let is_open = runs.any(|run| of_run.get(&run.token).is_some_and(|(of, _)| of == id))
                || !submission
                    .tasks
                    .iter()
                    .all(|task| submission.is_finished(task));
            if !is_open {
                gone.push(submission.files.folder().to_path_buf());
            }
            is_open
        });
        if !gone.is_empty() {
            tokio::task::spawn_blocking(move || {
                for folder in gone {
                    if let Err(error) = std::fs::remove_dir_all(&folder) {
                        tracing::warn!(folder = %folder.display(), %error, "the folder of a submission stays");
                    }
                }
            });
        }
    }

    /// Whether nothing of a run can come any more at its scheduler.
    fn is_done(&self, token: &RunToken) -> bool {
        self.core
            .run(token)
            .is_none_or(|run| run.stage.is_final() || matches!(run.stage, Stage::Ended { .. }))
    }
}
