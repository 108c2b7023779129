//! The runs of a node that a scheduler guards: they are submitted, watched and
//! ended from here, and start nowhere on this host. The records on the disk
//! decide; the scheduler's word is asked for in few commands for all runs
//! together, one at a time. See `docs/design/schedulers.md`.

mod adopted;
mod asking;
mod control;
mod ends;
mod make;
mod over;
mod results;
mod room;
mod submit;
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

use nero_cluster::lifecycle::{Accounts, Hold, Ms, Presence, Submission, Task};
use nero_cluster::submission::News;
use nero_model::{RunId, RunToken, SubmissionId};
use nero_node::agent::driver::Rest;
use nero_node::agent::recover::remove_submission;
use nero_node::agent::{Agent, Driver, Entry, PauseState};
use nero_node::ledger::{Intent, LedgerRun, LedgerState};
use nero_node_core::capacity::Needs;
use nero_node_core::decide::Origin;
use nero_node_core::{Run, Stage};
use nero_warden::{AccountingAccess, JobId, Site, Warden};
use nero_wire::v1::SchedulerUse;
use tokio::process::Child;
use tokio::time::Instant;

use crate::warden::front::Front;
use results::{Ask, ClusterResult};

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
pub struct Cluster {
    warden: Arc<dyn Warden>,
    setup: Scheduler,
    site: Option<(Instant, Arc<Site>)>,
    submissions: BTreeMap<SubmissionId, Submission>,
    /// The submission and task of a run, the newest.
    of_run: HashMap<RunToken, (SubmissionId, u32)>,
    /// Jobs of a run that failed before it began, as far as this neromum saw them.
    failed_silently: HashMap<RunToken, u8>,
    /// Ids that the controller gave to two of our submissions, forgotten ones included.
    given_twice: BTreeSet<JobId>,
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
    /// Watchers of adopted jobs, and when each was started.
    watchers: HashMap<SubmissionId, (Child, Instant)>,
    /// Launches of which no job was seen yet: each look reads their folders.
    launches: Vec<(SubmissionId, News)>,
    /// Names of users that only a directory of the site has.
    users: HashMap<u32, String>,
    /// The submitted run that was read last, of those that are read in turn.
    read_next: Option<RunToken>,
    /// Live runs whose tasks are to look for cancel requests.
    rings: HashSet<RunToken>,
    /// Runs whose waiting jobs are to be held or released.
    holds: HashMap<RunToken, Hold>,
    /// Runs that did not end in time, whose jobs are cancelled by the next command.
    escalated: Vec<(RunToken, RunId)>,
    /// Zero of the times of listings.
    began: Instant,
    /// When the last whole listing was asked for, and its number of jobs.
    counted: Option<(Instant, JobCounts)>,
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
    /// Folders of submissions that were listed.
    listed: u64,
    /// Until then nothing is asked for, since a command failed.
    paused: Option<Instant>,
    pause: Duration,
}

/// Jobs of this user, those included that were submitted since they were counted.
#[derive(Clone, Copy, Debug)]
struct JobCounts {
    /// Jobs and tasks that did not end.
    queued: u64,
    /// Those and the ended ones that the scheduler still keeps.
    kept: u64,
}

impl Cluster {
    fn accounts(&self) -> Accounts {
        let site = self.site.as_ref();
        Accounts {
            may_exist: site.is_none_or(|(_, site)| site.accounting != AccountingAccess::Absent),
            names_cancellers: self.warden.kind() == nero_warden::Kind::Slurm,
        }
    }

    pub fn new(setup: Scheduler) -> Self {
        Self {
            warden: setup.front.warden().clone(),
            setup,
            site: None,
            submissions: BTreeMap::new(),
            of_run: HashMap::new(),
            failed_silently: HashMap::new(),
            given_twice: BTreeSet::new(),
            is_asking: false,
            is_making: false,
            is_looking: false,
            is_copying: false,
            queue_answers: 0,
            has_asked_adopted: false,
            watchers: HashMap::new(),
            launches: Vec::new(),
            users: HashMap::new(),
            read_next: None,
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
            paused: None,
            pause: PAUSES.0,
        }
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
}

impl Driver for Cluster {
    type Result = ClusterResult;

    const STARTS_HERE: bool = false;

    fn done(agent: &mut Agent<Self>, result: ClusterResult) {
        match result {
            ClusterResult::Made(made) => Self::made(agent, *made),
            ClusterResult::News(looked) => Self::looked_at_news(agent, looked),
            ClusterResult::Copied(copied) => Self::copied_logs(agent, copied),
            ClusterResult::Asked(answered) => Self::answered(agent, *answered),
        }
    }

    fn restore(agent: &mut Agent<Self>, state: &LedgerState) {
        let cluster = &mut agent.driver;
        for intent in &state.submissions {
            cluster.restore_submission(intent, &agent.setup.paths);
        }
        if !cluster.submissions.is_empty() {
            cluster.hurry();
        }
        if cluster.submissions.values().any(Submission::is_in_doubt) {
            cluster.list_soon(Instant::now());
        }
    }

    fn restore_run(
        agent: &mut Agent<Self>,
        token: RunToken,
        kept: &LedgerRun,
        needs: Needs,
        newest: u32,
    ) -> bool {
        let is_submitted = agent.driver.has(&token);
        if is_submitted {
            Self::restore_submitted(agent, token, kept, needs, newest);
        }
        is_submitted
    }

    fn intents(&self) -> Vec<Intent> {
        let mut all: Vec<&Submission> = self.submissions.values().collect();
        all.sort_by_key(|one| one.number);
        all.into_iter().map(submit::intent).collect()
    }

    /// From now on the scheduler may be called.
    fn intended(&mut self, ids: &[SubmissionId]) {
        for id in ids {
            if let Some(submission) = self.submissions.get_mut(id) {
                submission.is_synced = true;
            }
        }
    }

    /// Forgets submissions of which every run is closed, and removes their folders.
    fn forgot(agent: &mut Agent<Self>) {
        let (cluster, entries) = (&mut agent.driver, &agent.entries);
        cluster.note_ids_given_twice();
        cluster
            .of_run
            .retain(|token, _| entries.contains_key(token));
        cluster
            .failed_silently
            .retain(|token, _| entries.contains_key(token));
        let mut gone = Vec::new();
        cluster.submissions.retain(|id, submission| {
            let mut runs = submission.runs();
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
        let submissions = &cluster.submissions;
        cluster
            .watchers
            .retain(|id, _| submissions.contains_key(id));
        if !gone.is_empty() {
            tokio::task::spawn_blocking(move || {
                gone.iter().for_each(|folder| remove_submission(folder));
            });
        }
    }

    fn turn_ends(agent: &mut Agent<Self>) {
        if let Some((ask, calls)) = Self::due_ask(agent) {
            Self::ask(agent, ask, calls);
        }
        Self::time_cluster(agent);
    }

    fn rest(agent: &Agent<Self>) -> Rest {
        agent.rest_when(agent.core.is_empty() || Self::is_all_submitted(agent))
    }

    fn counted(agent: &Agent<Self>) -> Option<SchedulerUse> {
        let cluster = &agent.driver;
        let site = cluster.site.as_ref().map(|(_, site)| site);
        let submissions = cluster.submissions.values();
        let runs = submissions
            .filter(|one| one.job().is_some())
            .flat_map(Submission::runs);
        let own = runs.filter(|run| !agent.core.is_done(&run.token)).count() as u64;
        let answered = cluster.answered.map(|at| at.elapsed().as_secs_f64());
        Some(SchedulerUse {
            lists: cluster.listed,
            reads: agent.reads,
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

    fn has(&self, token: &RunToken) -> bool {
        self.of_run.contains_key(token)
    }

    fn is_adopted(&self, token: &RunToken) -> bool {
        self.task(token)
            .is_some_and(|(one, _)| one.adoption.is_some())
    }

    /// Its task tells it, with the host of its newest start.
    fn origin(&self, token: &RunToken, _: &Entry) -> Option<(Origin, Option<String>)> {
        let (submission, task) = self.task(token)?;
        let host = submission.row(task).and_then(|row| row.host.as_ref());
        Some((Origin::Task(task.status()), host.map(ToString::to_string)))
    }

    fn ring_elsewhere(&mut self, token: RunToken) -> bool {
        let is_submitted = self.has(&token);
        if is_submitted {
            self.ring_at_scheduler(token);
        }
        is_submitted
    }

    fn hold_elsewhere(&mut self, token: RunToken, wanted: PauseState) {
        if self.has(&token) {
            self.hold_at_scheduler(token, wanted);
        }
    }

    fn ends(agent: &mut Agent<Self>, token: RunToken, incarnation: u32, may_go_on: bool) -> bool {
        let is_end = !may_go_on || Self::is_last(agent, token, incarnation);
        if is_end {
            Self::note_how_it_ended(agent, token, incarnation);
        }
        is_end
    }

    fn vanished(agent: &mut Agent<Self>, tokens: &[RunToken]) {
        Self::have_vanished(agent, tokens);
    }

    fn task_is_over(agent: &mut Agent<Self>, token: RunToken, incarnation: u32) {
        Self::say_task_over(agent, token, incarnation);
    }
}

impl Cluster {
    /// Whether the scheduler has every run that has not ended, and nothing is asked of
    /// it that waits for an answer. The runs go on without a neromum here; the next
    /// connection starts one, which reads the ledger and the folders.
    fn is_all_submitted(agent: &Agent<Self>) -> bool {
        let cluster = &agent.driver;
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
            && agent.core.runs().all(|(_, run)| is_there(run))
    }
}
