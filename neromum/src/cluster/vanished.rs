//! Tasks that their scheduler has no more, and that began no user code: they are given
//! up, and their runs go into another submission, are refused, or wait for a person.
//!
//! A start may come late all the same: a copy of the job, or a process that was
//! frozen. So a task is *closed* first, by a name that each start looks for after it
//! made a name of its own: of two that make a name and then look, one at least sees
//! the other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nero_cluster::lifecycle::{SubmissionState, UnbegunFate, UnbegunRun};
use nero_cluster::submission::{Files, News, StartId, TaskRun, began, launched_by};
use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::{TaskLeft, run_left};
use nero_model::paths::{NodePaths, run as names};
use nero_model::{RunToken, SubmissionId};
use nero_node::lease::files::{modified, server_time, since};
use nero_node::runs::{own, segments, spec};
use nero_warden::SchedulerEnd;

use super::over::{has_left, living, stands_still};
use super::watch::{job_of, job_that_began};
use super::{Agent, Cluster, Presence, Submission, Task};
use crate::job::setup_output::SetupOutput;

impl Cluster {
    /// The tasks of these runs are over, and began no user code of them. All that are
    /// over at once are closed together: a person may cancel a whole array.
    pub(super) fn have_vanished(agent: &mut Agent<Self>, tokens: &[RunToken]) {
        let is_adopted = |token: &&RunToken| {
            let task = agent.driver.task(token);
            task.is_some_and(|(submission, _)| submission.adoption.is_some())
        };
        let (adopted, tokens): (Vec<&RunToken>, Vec<&RunToken>) =
            tokens.iter().partition(is_adopted);
        for token in adopted {
            Self::adopted_is_gone(agent, *token);
        }
        let found: Vec<UnbegunRun> = tokens
            .into_iter()
            .filter_map(|one| Self::gone(agent, *one))
            .collect();
        let mut to_close: BTreeMap<SubmissionId, BTreeSet<u32>> = BTreeMap::new();
        for one in &found {
            if one.lacks_a_trace() {
                // The start of the controller tells what became of it.
                if let Some(submission) = Self::submission(agent, one.submission) {
                    submission.has_vanished = true;
                }
            } else {
                let tasks = to_close.entry(one.submission).or_default();
                tasks.insert(one.task);
            }
        }
        for (id, tasks) in &mut to_close {
            let indexes: Vec<u32> = tasks.iter().copied().collect();
            for open in Self::close_tasks(agent, *id, &indexes) {
                tasks.remove(&open);
            }
        }
        for one in found {
            let closed = to_close.get(&one.submission);
            let is_closed = closed.is_some_and(|tasks| tasks.contains(&one.task));
            if is_closed && Self::can_begin_no_more(agent, one.token) {
                Self::did_vanish(agent, &one);
            }
        }
    }

    /// What is known of a run's task that is over, before it is closed.
    fn gone(agent: &Agent<Self>, token: RunToken) -> Option<UnbegunRun> {
        let (submission, task) = agent.driver.task(&token)?;
        let Presence::Gone(how) = task.seen else {
            return None;
        };
        let facts = |run: &TaskRun| agent.entries.get(&run.token).map(|entry| &entry.facts);
        let mut facts = task.runs.iter().filter_map(facts);
        // A task without a trace may have told itself why it began nothing.
        let how = how
            .or_else(|| setup_ended(&submission.files, task.index).then_some(SchedulerEnd::Failed));
        Some(UnbegunRun {
            token,
            submission: submission.id,
            task: task.index,
            how,
            was_closed: submission.news.contains(&News::Closed(task.index)),
            is_alone: task.runs.len() == 1,
            has_begun: facts.any(|facts| facts.claimed),
            has_copy: began(&submission.news, task.index)
                .any(|start| job_of(&submission.files, start) != submission.job()),
            left_early: began(&submission.news, task.index)
                .any(|start| left_unstarted(&submission.files, start, token)),
            is_silent: how == Some(SchedulerEnd::Failed)
                && said(&submission.files, task.index).is_empty(),
        })
    }

    fn did_vanish(agent: &mut Agent<Self>, vanished: &UnbegunRun) {
        let token = vanished.token;
        let failed = agent.driver.failed_silently.entry(token).or_default();
        match vanished.fate(failed) {
            UnbegunFate::Resubmission => Self::submit_again(agent, token),
            UnbegunFate::Cancellation(how) => {
                tracing::info!(%token, "cancelled at the scheduler before it began");
                let at = agent.driver.ended_at(Some(how));
                agent.core.cancelled_elsewhere(token, &at);
            }
            UnbegunFate::Rejection(how) => {
                let why = Self::why_over(agent, &token, how);
                if let Err(error) = agent.ledger.refused(token, &why) {
                    // Without the record it is decided about anew after a restart.
                    tracing::warn!(?error, "the ledger does not take a refusal");
                }
                agent.core.turn_down(token, &why);
            }
        }
    }

    fn why_over(agent: &Agent<Self>, token: &RunToken, how: SchedulerEnd) -> String {
        let name = agent.driver.warden.name();
        let Some((submission, task)) = agent.driver.task(token) else {
            return String::new();
        };
        let mut said = said(&submission.files, task.index);
        if said.is_empty() && how == SchedulerEnd::Failed {
            let folder = submission.files.folder().display();
            said = format!(
                " and said nothing, as those before it: look whether its host reaches {folder}, and \
                 whether there is room, then start the run again"
            );
        }
        let how = words(how);
        format!(
            "{name}'s job {} {how} before the run began{said}",
            submission.job_text()
        )
    }

    /// Decides about tasks that vanished without a trace. A controller may have lost tasks if it
    /// was started after they were submitted, or if it gave their job's id twice.
    /// `up_max`: it has been up for no longer.
    pub(super) fn controller_is_up(
        agent: &mut Agent<Self>,
        ids: &[SubmissionId],
        up_max: Option<Duration>,
    ) {
        agent.driver.note_ids_given_twice();
        for id in ids {
            let cluster = &mut agent.driver;
            let Some(submission) = cluster.submissions.get_mut(id) else {
                continue;
            };
            let is_given_twice = submission
                .job()
                .is_some_and(|job| cluster.given_twice.contains(&job));
            let is_lost =
                is_given_twice || up_max.is_some_and(|up| is_older_than(&submission.files, up));
            let job = submission.job_text();
            let reruns_lost = |run: &TaskRun| Self::reruns_lost(&agent.setup.paths, run);
            let (again, held) = submission.vanished_tasks(is_lost, reruns_lost);
            if !again.is_empty() {
                tracing::warn!(
                    job,
                    is_lost,
                    tasks = again.len(),
                    "tasks are gone: submitted again"
                );
                Self::submit_tasks_again(agent, *id, &again);
            }
            let name = agent.driver.warden.name();
            let why = format!(
                "{name}'s job {job} is gone and began nothing; it may have been cancelled there: \
                 abort the run, then start it again if you want it (`on_lost: rerun` does so)"
            );
            for run in held.iter().flat_map(|task| &task.runs) {
                agent.core.waits_for_a_person(run.token, &why);
            }
        }
    }

    /// Whether the experiment of a run says that it is submitted again.
    fn reruns_lost(paths: &NodePaths, run: &TaskRun) -> bool {
        let spec = spec::read(paths, run.id, run.token).ok();
        let asks = spec.and_then(|spec| spec.scheduler);
        asks.is_some_and(|asks| asks.reruns_lost)
    }

    /// Submits the runs of these tasks again, unless a start of them can begin.
    fn submit_tasks_again(agent: &mut Agent<Self>, id: SubmissionId, tasks: &[Task]) {
        let indexes: Vec<u32> = tasks.iter().map(|task| task.index).collect();
        let open = Self::close_tasks(agent, id, &indexes);
        let closed = tasks.iter().filter(|task| !open.contains(&task.index));
        for run in closed.flat_map(|task| &task.runs) {
            if Self::can_begin_no_more(agent, run.token) {
                Self::submit_again(agent, run.token);
            }
        }
    }

    fn submit_again(agent: &mut Agent<Self>, token: RunToken) {
        tracing::warn!(%token, "its task was given up: submitted again");
        agent.driver.of_run.remove(&token);
        agent.core.submit_again(token);
    }

    /// Closes tasks. Names that are there by then are taken in. Returns those that stay
    /// open, since a start of them may be alive or the disk refuses: they are decided
    /// about anew after the next look at the news.
    fn close_tasks(agent: &mut Agent<Self>, id: SubmissionId, tasks: &[u32]) -> Vec<u32> {
        let Some(submission) = Self::submission(agent, id) else {
            return tasks.to_vec();
        };
        let is_open = |task: &&u32| !submission.news.contains(&News::Closed(**task));
        let open: Vec<u32> = tasks.iter().filter(is_open).copied().collect();
        let news = if open.is_empty() {
            Ok(Vec::new())
        } else {
            submission.files.close(&open)
        };
        match news {
            Ok(news) => {
                let news = news.into_iter();
                let fresh: Vec<News> = news.filter(|one| submission.news.insert(*one)).collect();
                for one in fresh {
                    Self::heard(agent, id, one);
                }
            }
            Err(error) => {
                tracing::error!(submission = %id, %error, "tasks cannot be given up");
                Self::decide_anew(agent, id, tasks);
                return tasks.to_vec();
            }
        }
        let Some(submission) = Self::submission(agent, id) else {
            return tasks.to_vec();
        };
        let lives = |task: &&u32| !living(&submission.files, &submission.news, **task).is_empty();
        let alive: Vec<u32> = tasks.iter().filter(lives).copied().collect();
        Self::decide_anew(agent, id, &alive);
        alive
    }

    fn submission(agent: &mut Agent<Self>, id: SubmissionId) -> Option<&mut Submission> {
        agent.driver.submissions.get_mut(&id)
    }

    /// Has the next look at the news find these tasks over once more.
    fn decide_anew(agent: &mut Agent<Self>, id: SubmissionId, tasks: &[u32]) {
        let Some(submission) = Self::submission(agent, id) else {
            return;
        };
        for index in tasks {
            if let Some(task) = submission.task_mut(*index) {
                task.over = false;
            }
        }
    }

    /// Whether nothing can make the run's claim any more, now that its task is closed.
    /// A start that made its launch known before, and neither left nor claimed, may
    /// be frozen: the claim is taken away from it.
    fn can_begin_no_more(agent: &mut Agent<Self>, token: RunToken) -> bool {
        let Some(entry) = agent.entries.get(&token) else {
            return false;
        };
        let (id, incarnation) = (entry.id, entry.incarnation.max(1));
        if entry.facts.claimed {
            return entry.facts.gate_closed;
        }
        let Some((submission, _)) = agent.driver.task(&token) else {
            return false;
        };
        if !submission.may_be_claimed(id, incarnation) {
            return true;
        }
        let submission = submission.id;
        match own::withhold_claim(&agent.run_dir(id), token, incarnation) {
            Ok(is_ours) => {
                tracing::warn!(run = %id, incarnation, is_ours, "a claim is withheld from a start that may be frozen");
                agent.look_and_decide(token, incarnation);
            }
            Err(error) => {
                tracing::error!(run = %id, %error, "a claim cannot be withheld");
                let index = agent.driver.task(&token).map(|(_, task)| task.index);
                Self::decide_anew(agent, submission, index.as_slice());
            }
        }
        false
    }

    /// Whether a start that had stood still when its task was found over has this
    /// incarnation and goes on. The task is decided about anew then.
    pub(super) fn goes_on_after_all(
        agent: &mut Agent<Self>,
        token: RunToken,
        incarnation: u32,
    ) -> bool {
        let task = agent.driver.task(&token);
        let (Some((submission, task)), Some(entry)) = (task, agent.entries.get(&token)) else {
            return false;
        };
        let (files, news) = (&submission.files, &submission.news);
        let claim = segments::folder(&agent.run_dir(entry.id), incarnation).join(names::CLAIM);
        // It may have claimed before it renewed its beat.
        let has_claimed_now = launched_by(news, entry.id, incarnation)
            .any(|start| !has_left(files, news, start) && !stands_still(files, &claim));
        if !has_claimed_now && living(files, news, task.index).is_empty() {
            return false;
        }
        let (id, index) = (submission.id, task.index);
        tracing::info!(%token, incarnation, "a start goes on whose beat had stood still");
        Self::decide_anew(agent, id, &[index]);
        agent.look_and_decide(token, incarnation);
        true
    }

    /// Whether no start of a run's task begins a later incarnation than this one, whose
    /// end is about to be told and is final then. So the task is closed: a start that
    /// stands still may wake up, and a scheduler that forgot the job may begin it once
    /// more, after a crash of its controller, for one.
    pub(super) fn is_last(agent: &mut Agent<Self>, token: RunToken, incarnation: u32) -> bool {
        let Some((submission, task)) = agent.driver.task(&token) else {
            return true;
        };
        let (id, index) = (submission.id, task.index);
        if submission.adoption.is_some() {
            return true;
        }
        let is_closed = Self::close_tasks(agent, id, &[index]).is_empty();
        // A launch whose name came meanwhile was looked at.
        let entry = agent.entries.get(&token);
        is_closed && entry.is_some_and(|entry| entry.incarnation.max(1) == incarnation)
    }

    /// The scheduler refused a submission of which an earlier call may arrive, or that
    /// is wanted no more. True when a start of it came before it was closed: then the
    /// scheduler has it after all.
    pub(super) fn came_before_its_end(agent: &mut Agent<Self>, id: SubmissionId) -> bool {
        let Some(submission) = Self::submission(agent, id) else {
            return false;
        };
        let tasks: Vec<u32> = submission.tasks.iter().map(|task| task.index).collect();
        Self::close_tasks(agent, id, &tasks);
        let Some(submission) = Self::submission(agent, id) else {
            return false;
        };
        let job = job_that_began(submission);
        if let Some(job) = job {
            submission.standing = SubmissionState::Accepted(job);
        }
        job.is_some()
    }

    /// Notes the ids that two of our submissions have. A controller that came back with an
    /// older state gave them anew, and what a host still tells about the first job ends tasks
    /// of the second without a trace.
    pub(super) fn note_ids_given_twice(&mut self) {
        let mut given = BTreeSet::new();
        let jobs = self.submissions.values().filter_map(Submission::job);
        self.given_twice
            .extend(jobs.filter(|job| !given.insert(*job)));
    }
}

/// Whether a submission was made this time ago, or before. The clock is the file server's: that
/// of this host differs from others, and may have been set since. Without room on the disk no age
/// is known.
fn is_older_than(files: &Files, least: Duration) -> bool {
    let made = modified(&files.plan());
    let age = made.and_then(|made| Ok(since(made, server_time(&files.starts())?)));
    age.is_ok_and(|age| age >= least)
}

/// Whether a start left since this run was paused before its turn, or the disk had no room for it.
fn left_unstarted(files: &Files, start: StartId, token: RunToken) -> bool {
    let left = frame::read::<TaskLeft>(FrameKind::TaskLeft, &files.path(News::Left(start)));
    let mut runs = left.into_iter().flat_map(|left| left.runs);
    let unstarted = [run_left::How::Paused, run_left::How::NoRoom];
    runs.any(|run| run.token == *token.as_bytes() && unstarted.contains(&run.how()))
}

/// Whether lines of `setup` ended the newest start of a task before any run began.
fn setup_ended(files: &Files, task: u32) -> bool {
    let printed = files.folder().join(format!("{task}.setup"));
    printed.exists() && SetupOutput::read(Some(&printed)).ended()
}

/// The last words about a task in its files, as " (…)"; empty: none.
fn said(files: &Files, task: u32) -> String {
    let remarks = files.folder().join(format!("{task}.scheduler"));
    let last = |path: &std::path::Path| {
        let bytes = std::fs::read(path).ok()?;
        let tail = &bytes[bytes.len().saturating_sub(4096)..];
        let text = String::from_utf8_lossy(tail);
        let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
        Some(line.trim().chars().take(300).collect::<String>())
    };
    last(&remarks).map_or(String::new(), |line| format!(" (it said: {line})"))
}

fn words(how: SchedulerEnd) -> &'static str {
    match how {
        SchedulerEnd::Completed => "ended",
        SchedulerEnd::Failed => "failed",
        SchedulerEnd::Cancelled { .. } => "was cancelled",
        SchedulerEnd::TimeLimit => "reached its time limit",
        SchedulerEnd::OutOfMemory => "ran out of memory",
        SchedulerEnd::HostFailure => "could not be started on its host",
        SchedulerEnd::Preempted => "made room for other jobs",
        SchedulerEnd::Requeued => "was put back into the queue",
    }
}
