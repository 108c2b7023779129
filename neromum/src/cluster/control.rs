//! Ending what the scheduler has: a cancel request lies on the disk before, so that
//! whatever starts meanwhile ends by itself. A job is cancelled by its id after a
//! listing showed the id with our name.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use nero_cluster::submission::sync_folder;
use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::{TaskOver, task_over};
use nero_model::paths::run as names;
use nero_model::{RunId, RunToken, SubmissionId};
use nero_node::launch::orders::grace_ms;
use nero_node::runs::control::newest_cancel;
use nero_node::runs::{own, spec};
use nero_warden::{Call, Listed, State};
use nero_wire::v1;
use tokio::time::Instant;

use super::{Agent, Cluster, Driver, PauseState, Presence};

/// Pause before a task that is still listed is cancelled once more, and before a hold is
/// asked for once more.
const AGAIN: Duration = Duration::from_secs(15);
/// The longest pause of a hold that the scheduler refuses. Each pause is twice the last.
const AGAIN_MAX: Duration = Duration::from_secs(600);
/// Pause before the job of runs that did not end is cancelled once more.
const AGAIN_OVERDUE: Duration = Duration::from_secs(60);
/// Time that a run has beyond its grace, for its cancel request and its end to pass
/// over the disk.
const MARGIN: Duration = Duration::from_secs(45);

/// A request to hold or release the job of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    wanted: PauseState,
    /// Listings that were asked for before that time say nothing about it.
    since: Instant,
    /// When its command may be given, or given again.
    next: Instant,
    /// From then until the time after that.
    pause: Duration,
}

impl Hold {
    /// The same after its command was given, if that was due.
    fn told(self, now: Instant) -> Self {
        if self.next <= now {
            Self {
                since: now,
                next: now + self.pause,
                pause: (self.pause * 2).min(AGAIN_MAX),
                ..self
            }
        } else {
            Self {
                since: self.next,
                ..self
            }
        }
    }
}

impl Cluster {
    /// Tasks to cancel at the scheduler now: no run of them is to go on, at least one
    /// was aborted before it began or had its time to end by itself, and none was
    /// cancelled lately.
    pub(super) fn tasks_to_cancel(
        agent: &Agent<Self>,
        now: Instant,
    ) -> BTreeSet<(SubmissionId, u32)> {
        let mut found = BTreeSet::new();
        for submission in agent.driver.submissions.values() {
            if submission.job().is_none() {
                continue;
            }
            for task in &submission.tasks {
                let again = task.overdue_at.map_or(AGAIN, |_| AGAIN_OVERDUE);
                let is_due = task.cancelled.is_none_or(|at| now.into_std() >= at + again);
                if !is_due || matches!(task.seen, Presence::Gone(_)) {
                    continue;
                }
                let runs = || task.runs.iter().map(|run| &run.token);
                let is_overdue = task.is_overdue(now.into_std());
                let ends = |token: &RunToken| {
                    let runs_on = is_overdue && agent.core.runs_cancelled(token);
                    runs_on || agent.core.waits_cancelled(token)
                };
                if runs().all(|token| agent.core.is_done(token) || ends(token)) && runs().any(ends)
                {
                    found.insert((submission.id, task.index));
                }
            }
        }
        found
    }

    /// Notes until when tasks have time of which every run is to end and one still
    /// runs. A neromum that was started anew begins with the full time.
    pub(super) fn note_overdue(agent: &mut Agent<Self>, now: Instant) {
        let mut noted = Vec::new();
        for submission in agent.driver.submissions.values() {
            for task in &submission.tasks {
                let runs = || task.runs.iter().map(|run| run.token);
                let of_it = || runs().filter(|token| !agent.core.is_done(token));
                let is_wanted =
                    |token: &RunToken| agent.core.run(token).is_some_and(|run| run.cancelled);
                let is_new = task.overdue_at.is_none() && !matches!(task.seen, Presence::Gone(_));
                if is_new
                    && of_it().any(|token| agent.core.runs_cancelled(&token))
                    && of_it().all(|token| is_wanted(&token))
                {
                    let grace = of_it().map(|token| Self::grace_of(agent, &token)).max();
                    let at = match submission.adoption {
                        // Nothing but its scheduler can end it.
                        Some(_) => now,
                        None => now + grace.unwrap_or_default() + MARGIN,
                    };
                    noted.push((submission.id, task.index, at));
                }
            }
        }
        for (id, index, at) in noted {
            let submission = agent.driver.submissions.get_mut(&id);
            if let Some(task) = submission.and_then(|one| one.task_mut(index)) {
                task.overdue_at = Some(at.into_std());
            }
        }
    }

    /// The first time from `now` on at which a task is overdue.
    pub(super) fn next_overdue(agent: &Agent<Self>, now: Instant) -> Option<Instant> {
        let submissions = agent.driver.submissions.values();
        let tasks = submissions.flat_map(|one| &one.tasks);
        tasks
            .filter_map(|task| task.overdue_at.map(Instant::from_std))
            .filter(|at| *at > now)
            .min()
    }

    /// The commands that hold or release the waiting jobs of runs that were paused or
    /// resumed; `None`: there are none, or a listing has to show the jobs first. A
    /// request stays until a listing shows it done, and its command is given again. What
    /// runs by now is stopped by its shim.
    pub(super) fn hold(agent: &mut Agent<Self>, now: Instant) -> Option<Vec<Call>> {
        let cluster = &mut agent.driver;
        let (listed, _) = cluster.counted?;
        if now.duration_since(cluster.answered?) > super::LIST_APART * 3 {
            return None;
        }
        let holds = std::mem::take(&mut cluster.holds);
        let is_seen = |(token, hold): &(RunToken, Hold)| {
            let task = cluster.task(token);
            let is_seen = task.is_none_or(|(submission, task)| {
                submission.row(task).is_some() || matches!(task.seen, Presence::Gone(_))
            });
            is_seen && listed >= hold.since
        };
        let (ready, later): (HashMap<_, _>, HashMap<_, _>) = holds.into_iter().partition(is_seen);
        let (calls, open) = Self::hold_calls(agent, &ready, now);
        for (token, hold) in &ready {
            if hold.wanted == PauseState::Resumed && !open.contains(token) {
                Self::note_released(agent, token);
            }
        }
        let cluster = &mut agent.driver;
        cluster.holds = later;
        let open = ready.into_iter().filter(|(token, _)| open.contains(token));
        let open = open.map(|(token, hold)| (token, hold.told(now)));
        cluster.holds.extend(open);
        (!calls.is_empty()).then_some(calls)
    }

    /// The commands for these requests, and the runs that a listing does not show as
    /// they are to be. A task is held when each of its runs is paused or over.
    fn hold_calls(
        agent: &Agent<Self>,
        ready: &HashMap<RunToken, Hold>,
        now: Instant,
    ) -> (Vec<Call>, HashSet<RunToken>) {
        let cluster = &agent.driver;
        let is_paused = |token: &RunToken| agent.core.run(token).is_some_and(|run| run.paused);
        let rests = |token: &RunToken| agent.core.is_done(token) || is_paused(token);
        let (mut hold, mut release) = (Vec::new(), Vec::new());
        let mut open = HashSet::new();
        // The runs of a pack share a task.
        let mut listed = HashSet::new();
        for (token, asked) in ready {
            let Some((submission, task)) = cluster.task(token) else {
                continue;
            };
            let Some(row) = submission.row(task) else {
                continue;
            };
            let list: &mut Vec<(&Listed, Option<u32>)> = match (&row.state, asked.wanted) {
                (State::Waiting(_), PauseState::Paused)
                    if task.runs.iter().all(|run| rests(&run.token)) =>
                {
                    &mut hold
                }
                (State::Held(_), PauseState::Resumed) => &mut release,
                _ => continue,
            };
            let index = row.tasks.as_ref().map(|_| task.index);
            open.insert(*token);
            let is_due = asked.next <= now;
            if is_due && asked.wanted == PauseState::Paused && !Self::note_held(agent, token) {
                continue;
            }
            if is_due && listed.insert((row.job, index)) {
                list.push((row, index));
            }
        }
        let mut calls = cluster.warden.hold_calls(&hold);
        calls.extend(cluster.warden.release_calls(&release));
        if calls.is_empty() && !(hold.is_empty() && release.is_empty()) {
            // This scheduler holds nothing.
            open.clear();
        }
        (calls, open)
    }

    /// Notes, synced before the call, that a run's job is held by us: a later neromum
    /// releases no job that a person holds. False when the disk refuses.
    fn note_held(agent: &Agent<Self>, token: &RunToken) -> bool {
        let Some(path) = agent.held_by_us(token) else {
            return false;
        };
        match note_synced(&path) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "a job is not held: that cannot be noted");
                false
            }
        }
    }

    fn note_released(agent: &Agent<Self>, token: &RunToken) {
        if let Some(path) = agent.held_by_us(token) {
            // Most jobs were never held. The name of one that was must not come back with a
            // power cut: a later neromum would release what a person holds.
            let is_removed = std::fs::remove_file(&path).is_ok();
            if let Some(folder) = path.parent().filter(|_| is_removed)
                && let Err(error) = sync_folder(folder)
            {
                tracing::warn!(%error, path = %path.display(), "a release is not synced");
            }
        }
    }

    /// Asks for a listing when jobs are to be held or released.
    pub(super) fn list_for_holds(agent: &mut Agent<Self>, now: Instant) {
        let cluster = &mut agent.driver;
        let listed = cluster.counted.map(|(at, _)| at);
        // Of what is in doubt no row can be expected.
        let has_job = |token: &RunToken| {
            let task = cluster.task(token);
            task.is_none_or(|(submission, _)| submission.job().is_some())
        };
        let due = cluster.holds.iter().filter(|(token, _)| has_job(token));
        if let Some(due) = due.map(|(_, hold)| hold.since).min() {
            let next = listed.map_or(now, |at| at + super::LIST_APART * 2);
            cluster.list_soon(next.max(due).max(now));
        }
    }

    /// Time from the polite signal to the final one, by the newest cancel request of
    /// a run, else by its spec.
    fn grace_of(agent: &Agent<Self>, token: &RunToken) -> Duration {
        let Some(entry) = agent.entries.get(token) else {
            return Duration::ZERO;
        };
        let run_dir = agent.run_dir(entry.id);
        let name = format!("cancel.{}", newest_cancel(&run_dir));
        let path = run_dir.join(names::CONTROL).join(name);
        let asked = frame::read::<v1::Cancel>(FrameKind::Cancel, &path);
        let own = || {
            let spec = spec::read(&agent.setup.paths, entry.id, *token);
            grace_ms(&spec.unwrap_or_default())
        };
        let given = asked.map_or(0, |cancel| cancel.grace_ms);
        let ms = if given > 0 { given } else { own() };
        Duration::from_millis(ms.into())
    }

    /// Records, before the scheduler is called, that the jobs of these runs are
    /// cancelled there because the runs did not end in time.
    pub(super) fn tell_escalated(agent: &Agent<Self>, runs: &[(RunToken, RunId)]) {
        for (token, id) in runs {
            let Some(entry) = agent.entries.get(token) else {
                continue;
            };
            tracing::warn!(run = %id, "it did not end in time: its job is cancelled at the scheduler");
            let record = TaskOver {
                how: task_over::How::Cancelled.into(),
                scheduler: agent.driver.warden.name().into_owned(),
                escalated: true,
            };
            let start = entry.incarnation.max(1);
            if let Err(error) = own::write(&agent.run_dir(*id), *token, start, &record) {
                // Its end is told without it.
                tracing::error!(run = %id, %error, "cannot record that its job is cancelled");
            }
        }
    }

    /// Runs that are to end, and of which the scheduler has nothing any more.
    pub(super) fn cancelled_and_over(agent: &Agent<Self>) -> Vec<RunToken> {
        let submissions = agent.driver.submissions.values();
        let tasks = submissions.flat_map(|one| &one.tasks);
        let runs = tasks.filter(|task| task.over).flat_map(|task| &task.runs);
        runs.map(|run| run.token)
            .filter(|token| agent.core.waits_cancelled(token))
            .collect()
    }
}

/// Makes a name without content, which survives a power cut.
fn note_synced(path: &Path) -> std::io::Result<()> {
    std::fs::write(path, "")?;
    path.parent().map_or(Ok(()), sync_folder)
}

impl Cluster {
    /// A waiting run is to be held at its scheduler, or released.
    pub fn hold_at_scheduler(&mut self, token: RunToken, wanted: PauseState) {
        let now = Instant::now();
        let hold = Hold {
            wanted,
            since: now,
            next: now,
            pause: AGAIN,
        };
        self.holds.insert(token, hold);
        self.hurry();
    }

    /// A live run is to look for the requests in its folder.
    pub fn ring_at_scheduler(&mut self, token: RunToken) {
        if self.is_adopted(&token) {
            // A signal would hit the person's own script.
            self.list_soon(Instant::now());
            return;
        }
        self.rings.insert(token);
        // A later request may give less time than the one before.
        let Some((id, index)) = self.of_run.get(&token) else {
            return;
        };
        let submission = self.submissions.get_mut(id);
        if let Some(task) = submission.and_then(|one| one.task_mut(*index)) {
            task.overdue_at = None;
        }
    }

    /// The command that rings, when there is one; `None`: a listing has to show the
    /// jobs first.
    pub(super) fn ring(&mut self, now: Instant) -> Option<Option<Call>> {
        let listed = self.answered?;
        if now.duration_since(listed) > super::LIST_APART * 3 {
            return None;
        }
        let rings = std::mem::take(&mut self.rings);
        let mut seen: Vec<(&Listed, Option<u32>)> = Vec::new();
        // The runs of a pack share a task.
        let mut rung = HashSet::new();
        for token in &rings {
            let Some((submission, task)) = self.task(token) else {
                continue;
            };
            let row = submission.row(task);
            if let Some(row) = row.filter(|row| row.state == State::Running) {
                let index = row.tasks.as_ref().map(|_| task.index);
                if rung.insert((row.job, index)) {
                    seen.push((row, index));
                }
            }
        }
        Some(self.warden.ring_call(&seen))
    }

    /// The commands that cancel copies of submissions, which the last listing showed
    /// as waiting.
    pub(super) fn cancel_twins(&mut self) -> Vec<Call> {
        let warden = self.warden.clone();
        let mut seen = Vec::new();
        for submission in self.submissions.values_mut() {
            for twin in std::mem::take(&mut submission.twins) {
                seen.extend(submission.rows.iter().find(|row| row.job == twin));
            }
        }
        warden.cancel_waiting_calls(&seen)
    }

    /// The commands that cancel these tasks, none where they are over or run by now;
    /// `None`: a listing has to show them first.
    pub(super) fn cancel(
        &mut self,
        tasks: &BTreeSet<(SubmissionId, u32)>,
        now: Instant,
    ) -> Option<Vec<Call>> {
        let listed = self.answered?;
        if now.duration_since(listed) > super::LIST_APART * 3 {
            return None;
        }
        let mut seen: Vec<(&Listed, Option<u32>)> = Vec::new();
        let mut adopted = Vec::new();
        for (id, submission) in &mut self.submissions {
            let Some(job) = submission.job() else {
                continue;
            };
            let is_adopted = submission.adoption.is_some();
            let rows: Vec<&Listed> = submission.rows.iter().collect();
            // A task that began since is rung first; our own steps end it, if it answers.
            let begins = |task: &super::Task| {
                let is_first =
                    task.cancelled.is_none() && !task.is_overdue(now.into_std()) && !is_adopted;
                let row = task.row(&rows, job);
                is_first && row.is_some_and(|row| row.state == State::Running)
            };
            let mut rung = Vec::new();
            for task in &mut submission.tasks {
                if tasks.contains(&(*id, task.index)) && begins(task) {
                    task.cancelled = Some(now.into_std());
                    self.rings.extend(task.runs.iter().map(|run| run.token));
                    rung.push(task.index);
                }
            }
            let wanted = |index: u32| tasks.contains(&(*id, index)) && !rung.contains(&index);
            // The last of a row takes the whole row with it, in one command.
            let all = submission
                .tasks
                .iter()
                .all(|task| wanted(task.index) || task.over)
                // Other tasks of its array are not ours.
                && !is_adopted;
            for task in submission
                .tasks
                .iter_mut()
                .filter(|task| wanted(task.index))
            {
                let is_overdue = task.is_overdue(now.into_std());
                task.cancelled = Some(now.into_std());
                let row = task.row(&rows, job);
                let Some(row) = row.filter(|row| !matches!(row.state, State::Ended(_))) else {
                    continue;
                };
                if is_overdue && !is_adopted && !std::mem::replace(&mut task.is_told, true) {
                    let runs = task.runs.iter().map(|run| (run.token, run.id));
                    self.escalated.extend(runs);
                }
                let one = row.tasks.as_ref().map(|_| task.index).filter(|_| !all);
                if is_adopted {
                    adopted.push((row, one));
                    continue;
                }
                // All tasks of an array may be one row, and one word.
                let last = seen.last().map(|(row, task)| (row.job, *task));
                if last != Some((row.job, one)) {
                    seen.push((row, one));
                }
            }
        }
        let mut calls = if seen.is_empty() {
            Vec::new()
        } else {
            self.warden.cancel_calls(&seen)
        };
        calls.extend(self.warden.cancel_adopted_calls(&adopted));
        Some(calls)
    }
}
