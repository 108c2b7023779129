//! Adopted jobs: a person submitted them, and nothing of ours runs in them. The leader
//! writes their records in the place of a shim, from the scheduler's words, and copies
//! their logs. No call is ever made for them but a person's cancel.

pub(super) mod log;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nero_cluster::lifecycle::Adoption;
use nero_cluster::submission::{AdoptedJob, Files, Plan, TaskRun};
use nero_journal::Clocks;
use nero_journal::frame::{self, FrameKind};
use nero_journal::request::RequestKind;
use nero_journal::v1::{
    Claimed, Granted, JobExited, JobStarted, Lost, Notice, StopAsked, TaskOver, TreeGone,
    ledger_exited::Copy, lost, task_over,
};
use nero_model::paths::run as names;
use nero_model::{RunId, RunToken, SubmissionId};
use nero_node::agent::recover::remove_submission;
use nero_node::ledger::{Answer, Intent};
use nero_node::runs::control::newest_cancel;
use nero_node::runs::{own, segments, spec};
use nero_warden::{AdoptedJobRef, AdoptedJobState, SchedulerEnd};
use nero_wire::v1;
use tokio::process::Command;
use tokio::time::Instant;

use self::log::copied;
use super::over::of_ended;
use super::results::{ClusterResult, CopiedLogs};
use super::{Agent, Cluster, LOOK_EVERY, Presence, Submission, Task};
use crate::warden::runner::ends_with_neromum;

/// The only start of an adopted job's run: the scheduler alone knows of others.
const START: u32 = 1;
/// Watchers of adopted jobs: each is a process on the login node.
const WATCHERS_MAX: usize = 16;
/// Pause before a watcher that ended is started again.
const WATCHER_AGAIN: Duration = Duration::from_secs(30);

/// The logs of an adopted job, each with its copy.
fn log_copies(job: &AdoptedJob, run_dir: &Path) -> Vec<(PathBuf, PathBuf)> {
    let folder = segments::folder(run_dir, START);
    let each = [(&job.stdout, names::STDOUT), (&job.stderr, names::STDERR)];
    let each = each.into_iter();
    each.filter_map(|(from, name)| Some((from.clone()?, folder.join(name))))
        .collect()
}

impl Cluster {
    /// Questions about all adopted jobs.
    pub(super) fn adopted(&self) -> Vec<AdoptedJobRef<'_>> {
        self.submissions
            .values()
            .filter_map(Submission::adopted)
            .collect()
    }

    /// Makes the submissions of adopted jobs that wait here. Their scheduler has them
    /// already: they need no room there, and no call.
    pub(super) fn take_in_adopted(agent: &mut Agent<Self>) {
        if agent.core.waiting() == 0 {
            return;
        }
        let waits = |token: &RunToken| agent.entries.get(token).is_some_and(|one| one.adopted);
        let waiting: Vec<RunToken> = agent.core.queue().filter(waits).collect();
        if waiting.is_empty() || agent.must_wait().is_some() || agent.core.held().is_some() {
            return;
        }
        for token in waiting {
            if let Err(error) = Self::note_adopted(agent, token) {
                tracing::error!(%token, %error, "an adopted job cannot be noted");
                agent.hold_starts(&format!("the disk does not take an adopted job: {error}"));
                return;
            }
        }
    }

    fn note_adopted(agent: &mut Agent<Self>, token: RunToken) -> io::Result<()> {
        let Some(entry) = agent.entries.get(&token) else {
            return Ok(());
        };
        let id = entry.id;
        let spec = spec::read(&agent.setup.paths, id, token)
            .map_err(|error| io::Error::other(error.file.to_string()))?;
        let Some(job) = spec.adopted.as_ref().and_then(AdoptedJob::read) else {
            agent
                .core
                .turn_down(token, "the job that it adopts is not named");
            return Ok(());
        };
        let submission = SubmissionId::random();
        let name = nero_warden::JobName::of(&submission.to_string());
        let name = name.ok_or_else(|| io::Error::other("its id is no name of a job"))?;
        let plan = Plan {
            submission,
            deployment: agent.ledger.deployment(),
            node: agent.driver.setup.node.clone(),
            root: agent.setup.paths.root().to_path_buf(),
            beat: nero_node::lease::BEAT,
            tasks: vec![nero_cluster::submission::Task {
                index: job.job.task.unwrap_or(0),
                runs: vec![TaskRun { token, id }],
            }],
            at_once: None,
            adopted: Some(job),
        };
        let files = Files::at(&agent.setup.paths.submission(&submission));
        if let Err(error) = files.make(&plan, "") {
            remove_submission(files.folder());
            return Err(error);
        }
        let intent = Intent {
            submission,
            tokens: vec![token],
            made_ms: Clocks::now().wall_ns / 1_000_000,
            answer: Answer::InDoubt,
        };
        if let Err(error) = agent.ledger.submission(&intent) {
            remove_submission(files.folder());
            return Err(io::Error::other(error.to_string()));
        }
        agent.core.submit(token);
        let mut made = Submission::of(&plan, files, name);
        made.made_ms = intent.made_ms;
        made.is_synced = true;
        let cluster = &mut agent.driver;
        cluster.add(made);
        cluster.hurry();
        cluster.list_soon(Instant::now());
        Self::note_standing(agent, submission);
        Ok(())
    }

    /// Takes in what a listing or the accounting tells of adopted jobs.
    pub(super) fn see_adopted(agent: &mut Agent<Self>, sightings: &[AdoptedJobState]) {
        let submissions = agent.driver.submissions.values_mut();
        let begin: Vec<(RunToken, bool)> = submissions
            .filter_map(|one| one.sighted(sightings, &agent.core))
            .collect();
        for (token, began) in begin {
            Self::begin_adopted(agent, token, began);
        }
    }

    /// Writes the claim of an adopted job's run, which tells where and since when its job
    /// runs. `began`: the scheduler told that it does, or did.
    fn begin_adopted(agent: &mut Agent<Self>, token: RunToken, began: bool) {
        let cluster = &agent.driver;
        let Some(entry) = agent.entries.get(&token) else {
            return;
        };
        let Some((submission, task)) = cluster.task(&token) else {
            return;
        };
        let Some(adoption) = &submission.adoption else {
            return;
        };
        let row = adoption.sighting.as_ref().map(|one| &one.row);
        let host = row
            .and_then(|row| row.host.as_ref())
            .map(ToString::to_string);
        let granted = Granted {
            scheduler: cluster.warden.name().into_owned(),
            job: job_text(&*cluster.warden, submission, task),
            host: host.unwrap_or_default(),
            ..Granted::default()
        };
        let started = row
            .and_then(|row| row.start_s)
            .map_or_else(Clocks::now, clocks_of);
        let mut records = vec![
            Copy::new(started, &Claimed::default()),
            Copy::new(started, &granted),
        ];
        if began {
            records.push(Copy::new(started, &JobStarted::default()));
        }
        let (id, run_dir) = (entry.id, agent.run_dir(entry.id));
        if let Err(error) = own::claim(&run_dir, token, START, &records) {
            // Tried again at the next listing.
            tracing::error!(run = %id, %error, "the start of an adopted job cannot be recorded");
            return;
        }
        tracing::info!(run = %id, began, "an adopted job runs, or did");
        let cluster = &mut agent.driver;
        cluster.look_pause = LOOK_EVERY.0;
        cluster.look_at = Some(Instant::now());
        agent.look_and_decide(token, START);
    }

    /// Copies what is new in the logs of adopted jobs that run, and notes the time of the
    /// look for all of them.
    pub(super) fn copy_logs(agent: &mut Agent<Self>, now: Instant) {
        let cluster = &agent.driver;
        if cluster.is_copying {
            return;
        }
        let mut logs = Vec::new();
        for (id, adoption, run) in cluster.adoptions() {
            let of_it = if Self::is_live(agent, &run.token) {
                log_copies(&adoption.job, &agent.run_dir(run.id))
            } else {
                Vec::new()
            };
            logs.push((id, of_it));
        }
        if logs.is_empty() {
            return;
        }
        agent.driver.is_copying = true;
        agent.off_reactor_for_driver(ClusterResult::Copied((now, Vec::new())), move || {
            let each = logs.into_iter().map(|(id, logs)| (id, copied(&logs)));
            ClusterResult::Copied((now, each.collect()))
        });
    }

    /// Whether an adopted job began, and its end is not recorded.
    fn is_live(agent: &Agent<Self>, token: &RunToken) -> bool {
        let run = agent.core.run(token);
        run.is_some_and(|run| run.stage.is_elsewhere())
    }

    /// The logs were copied.
    pub(super) fn copied_logs(agent: &mut Agent<Self>, (began, all): CopiedLogs) {
        let cluster = &mut agent.driver;
        cluster.is_copying = false;
        let mut notes = Vec::new();
        for (id, copied) in all {
            let Some(submission) = cluster.submissions.get_mut(&id) else {
                continue;
            };
            let run = submission.runs().next().copied();
            let Some(adoption) = &mut submission.adoption else {
                continue;
            };
            if !copied.has_more {
                adoption.copied = Some(began.into_std());
            }
            if copied.grew || copied.has_more {
                cluster.look_pause = LOOK_EVERY.0;
                cluster.look_at = Some(Instant::now() + LOOK_EVERY.0);
            }
            if let (Some(problem), false, Some(run)) = (copied.problem, adoption.is_noted, run) {
                adoption.is_noted = true;
                notes.push((run, problem));
            }
        }
        for (run, text) in notes {
            Self::note_about(agent, run.token, run.id, text);
        }
        Self::start_watchers(agent);
        Self::see_cancels_of_rules(agent);
        Self::see_what_is_over(agent);
    }

    fn note_about(agent: &Agent<Self>, token: RunToken, id: RunId, text: String) {
        let run_dir = agent.run_dir(id);
        if let Err(error) = own::write(&run_dir, token, START, &Notice::of(text)) {
            tracing::warn!(run = %id, %error, "a notice cannot be written");
        }
    }

    /// Starts a watcher for each live adopted job with a log: it reads the copy for
    /// metrics and rules. It ends with this neromum; the next one starts another.
    fn start_watchers(agent: &mut Agent<Self>) {
        let watcher = agent.setup.orders.watcher.clone();
        let live: Vec<(SubmissionId, PathBuf)> = agent
            .driver
            .adoptions()
            .filter(|(_, one, run)| one.job.stdout.is_some() && Self::is_live(agent, &run.token))
            .map(|(id, _, run)| (id, agent.run_dir(run.id)))
            .collect();
        let watchers = &mut agent.driver.watchers;
        for (id, run_dir) in live.into_iter().take(WATCHERS_MAX) {
            if let Some((child, since)) = watchers.get_mut(&id) {
                let has_ended = !matches!(child.try_wait(), Ok(None));
                if !has_ended || since.elapsed() < WATCHER_AGAIN {
                    continue;
                }
            }
            let mut command = Command::new(&watcher.program);
            if let Some(socket) = &watcher.socket {
                command.arg("--socket").arg(socket);
            }
            command
                .arg("watch")
                .arg(&run_dir)
                .arg(START.to_string())
                .current_dir("/")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .kill_on_drop(true);
            ends_with_neromum(&mut command);
            match command.spawn() {
                Ok(child) => drop(watchers.insert(id, (child, Instant::now()))),
                Err(error) => {
                    tracing::error!(%error, program = %watcher.program.display(), "no watcher of an adopted job");
                    return;
                }
            }
        }
    }

    /// Finds cancel requests that rules of a watcher made.
    fn see_cancels_of_rules(agent: &mut Agent<Self>) {
        let adoptions = agent.driver.adoptions();
        let live: Vec<TaskRun> = adoptions
            .map(|(_, _, run)| run)
            .filter(|run| Self::is_live(agent, &run.token))
            .collect();
        for run in live {
            let is_new = agent.core.run(&run.token).is_some_and(|run| !run.cancelled);
            let newest = newest_cancel(&agent.run_dir(run.id));
            if is_new && newest > 0 {
                agent.core.cancel(run.token);
                if let Some(entry) = agent.entries.get_mut(&run.token) {
                    entry.cancels = entry.cancels.max(newest);
                }
                agent.driver.list_soon(Instant::now());
            }
        }
    }

    /// An adopted job is gone, and no claim tells that it began: it was cancelled there, or
    /// the claim is written now.
    pub(super) fn adopted_is_gone(agent: &mut Agent<Self>, token: RunToken) {
        let Some((submission, task)) = agent.driver.task(&token) else {
            return;
        };
        let began = submission.adoption.as_ref().is_some_and(Adoption::began);
        if let Presence::Gone(Some(how @ SchedulerEnd::Cancelled { .. })) = task.seen
            && !began
        {
            let at = agent.driver.ended_at(Some(how));
            agent.core.cancelled_elsewhere(token, &at);
            return;
        }
        Self::begin_adopted(agent, token, began);
    }

    /// Records the end of an adopted job, as its scheduler tells it; false when the run's
    /// job is none.
    pub(super) fn end_adopted(agent: &mut Agent<Self>, token: RunToken) -> bool {
        let cluster = &agent.driver;
        let Some(entry) = agent.entries.get(&token) else {
            return false;
        };
        let Some((submission, task)) = cluster.task(&token) else {
            return false;
        };
        let Some(adoption) = &submission.adoption else {
            return false;
        };
        let how = match &task.seen {
            Presence::Gone(how) => *how,
            Presence::Listed(_) | Presence::Missing { .. } => None,
        };
        let run_dir = agent.run_dir(entry.id);
        let end = End {
            how,
            told: adoption.sighting.as_ref(),
            asked: asked(&run_dir).filter(|_| how != Some(SchedulerEnd::Completed)),
            output: [names::STDOUT, names::STDERR].map(|name| {
                let path = segments::folder(&run_dir, START).join(name);
                path.symlink_metadata().map_or(0, |found| found.len())
            }),
            scheduler: cluster.ended_at(how),
            job: job_text(&*cluster.warden, submission, task),
        };
        let written = own::write_copies(&run_dir, token, START, &end.records());
        if let Err(error) = written {
            tracing::error!(run = %entry.id, %error, "the end of an adopted job cannot be recorded");
            agent
                .timers
                .look_later(token, START, nero_node_core::decide::TrackingState::Nobody);
            return true;
        }
        agent.look_and_decide(token, START);
        true
    }

    /// The adopted jobs with their runs.
    fn adoptions(&self) -> impl Iterator<Item = (SubmissionId, &Adoption, TaskRun)> {
        self.submissions.values().filter_map(|one| {
            let run = one.runs().next()?;
            Some((one.id, one.adoption.as_ref()?, *run))
        })
    }
}

/// The newest cancel request of a run.
fn asked(run_dir: &Path) -> Option<(u32, v1::Cancel)> {
    let number = newest_cancel(run_dir);
    let path = RequestKind::Cancel.path(run_dir, number);
    // One that cannot be read is a request, too.
    let cancel = frame::read(FrameKind::Cancel, &path).unwrap_or_default();
    (number > 0).then_some((number, cancel))
}

/// The end of an adopted job.
struct End<'a> {
    how: Option<SchedulerEnd>,
    told: Option<&'a AdoptedJobState>,
    /// The request that it ended by.
    asked: Option<(u32, v1::Cancel)>,
    /// Bytes of its logs.
    output: [u64; 2],
    scheduler: String,
    job: String,
}

impl End<'_> {
    fn records(&self) -> Vec<Copy> {
        let at = self.told.and_then(|told| told.ended_s);
        let at = at.map_or_else(Clocks::now, clocks_of);
        let how = self.how.map_or(task_over::How::Unspecified, of_ended);
        let mut records = vec![Copy::new(
            at,
            &TaskOver {
                how: how.into(),
                scheduler: self.scheduler.clone(),
                escalated: false,
            },
        )];
        if let Some((number, cancel)) = &self.asked {
            let asked = StopAsked {
                cause: i32::try_from(cancel.cause).unwrap_or(0),
                cancel: *number,
                grace_ms: cancel.grace_ms,
                signal: cancel.signal,
                rule: cancel.rule,
            };
            records.push(Copy::new(at, &asked));
        }
        let gone = TreeGone {
            stdout_bytes: self.output[0],
            stderr_bytes: self.output[1],
            ..TreeGone::default()
        };
        if let Some(exited) = self.exited() {
            records.push(Copy::new(at, &exited));
            records.push(Copy::new(at, &gone));
            return records;
        }
        if self.how.is_none() {
            let text = self.unknown();
            records.push(Copy::new(at, &Notice::of(text)));
        } else {
            records.push(Copy::new(at, &gone));
        }
        let lost = Lost {
            reason: lost::Reason::TaskOver.into(),
            detail: String::new(),
        };
        records.push(Copy::new(at, &lost));
        records
    }

    /// The end of its main process, where that tells the run's end; the scheduler's own
    /// reasons stand in `TaskOver`.
    fn exited(&self) -> Option<JobExited> {
        let exit = self.told.and_then(|told| told.exit);
        let (code, signal, is_unknown) = match (self.how, exit) {
            (Some(SchedulerEnd::Completed), _) => (0, 0, false),
            (Some(SchedulerEnd::Failed), Some((code, signal))) => (code, signal, false),
            (_, Some((code, signal))) if self.asked.is_some() => (code, signal, false),
            (_, None) if self.asked.is_some() => (0, 0, true),
            (_, _) => return None,
        };
        let started_s = self.told.and_then(|told| told.row.start_s);
        let ended_s = self.told.and_then(|told| told.ended_s);
        let ran_s = ended_s.zip(started_s).map_or(0, |(end, start)| end - start);
        Some(JobExited {
            code: code.cast_signed(),
            signal: signal.cast_signed(),
            code_unknown: is_unknown,
            run_ms: u64::try_from(ran_s).unwrap_or(0) * 1000,
            ..JobExited::default()
        })
    }

    /// Why nothing is known of the end.
    fn unknown(&self) -> String {
        let (name, job) = (&self.scheduler, &self.job);
        format!(
            "{name} has no job {job} of that time any more, and no accounting tells how it ended; a \
             job that was put back into the queue may count as a new one: adopt it again if it is \
             there"
        )
    }
}

/// The job as its scheduler's commands take it.
fn job_text(warden: &dyn nero_warden::Warden, submission: &Submission, task: &Task) -> String {
    let Some(job) = submission.job() else {
        return String::new();
    };
    let is_task = submission
        .adoption
        .as_ref()
        .is_some_and(|one| one.job.job.task.is_some());
    if is_task {
        warden.task_name(job, task.index)
    } else {
        job.to_string()
    }
}

/// The clocks of this host at a time of the scheduler.
fn clocks_of(seconds: i64) -> Clocks {
    let now = Clocks::now();
    let wall_ns = seconds.saturating_mul(1_000_000_000).min(now.wall_ns);
    let age_ns = u64::try_from(now.wall_ns - wall_ns).unwrap_or(0);
    Clocks {
        wall_ns,
        mono_ns: now.mono_ns.saturating_sub(age_ns),
    }
}
