//! Ending what the scheduler has: a cancel request lies on the disk before, so that
//! whatever starts meanwhile ends by itself. A job is cancelled by its id after a
//! listing showed the id with our name.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use nero_cluster::lifecycle::{Hold, RowPart};
use nero_cluster::submission::{TaskRun, sync_folder};
use nero_journal::frame::{self, FrameKind};
use nero_journal::request::RequestKind;
use nero_journal::v1::{TaskOver, task_over};
use nero_model::paths::NodePaths;
use nero_model::{RunId, RunToken};
use nero_node::launch::orders::grace_ms;
use nero_node::runs::control::newest_cancel;
use nero_node::runs::{own, spec};
use nero_node_core::Core;
use nero_warden::{Call, QueueRow, State};
use nero_wire::v1;
use tokio::time::Instant;

use super::{Agent, Cluster, Driver, PauseState};

impl Cluster {
    /// Notes until when tasks have time of which every run is to end and one still
    /// runs. A neromum that was started anew begins with the full time.
    pub(super) fn note_overdue(agent: &mut Agent<Self>, now: Instant) {
        let grace = |run: &TaskRun| grace_of(&agent.setup.paths, run);
        for submission in agent.driver.submissions.values_mut() {
            submission.note_overdue(now.into_std(), &agent.core, grace);
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
            task.is_none_or(|(submission, task)| submission.shows(task))
                && listed.into_std() >= hold.since
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
        let open = open.map(|(token, hold)| (token, hold.after_command(now.into_std())));
        cluster.holds.extend(open);
        (!calls.is_empty()).then_some(calls)
    }

    /// The commands for these requests, and the runs that a listing does not show as
    /// they are to be.
    fn hold_calls(
        agent: &Agent<Self>,
        ready: &HashMap<RunToken, Hold>,
        now: Instant,
    ) -> (Vec<Call>, HashSet<RunToken>) {
        let cluster = &agent.driver;
        let (mut hold, mut release) = (Vec::new(), Vec::new());
        let mut open = HashSet::new();
        // The runs of a pack share a task.
        let mut listed = HashSet::new();
        for (token, asked) in ready {
            let task = cluster.task(token);
            let row = task.and_then(|(submission, task)| {
                submission.row_to_hold(task, asked.wanted, &agent.core)
            });
            let Some((row, index)) = row else {
                continue;
            };
            open.insert(*token);
            let is_hold = asked.wanted == PauseState::Paused;
            if !asked.is_due(now.into_std()) || is_hold && !Self::note_held(agent, token) {
                continue;
            }
            if listed.insert((row.job, index)) {
                let list = if is_hold { &mut hold } else { &mut release };
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

    /// Drops the requests about runs that are over: no listing that shows them done may come.
    pub(super) fn drop_requests_of_ended_runs(agent: &mut Agent<Self>) {
        let (cluster, runs) = (&mut agent.driver, &agent.core);
        cluster.rings.retain(|token| !runs.is_done(token));
        let over = cluster.holds.extract_if(|token, _| runs.is_done(token));
        let over: Vec<RunToken> = over.map(|(token, _)| token).collect();
        over.iter()
            .for_each(|token| Self::note_released(agent, token));
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
            cluster.list_soon(next.max(Instant::from_std(due)).max(now));
        }
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

/// Time from the polite signal to the final one, by the newest cancel request of
/// a run, else by its spec.
fn grace_of(paths: &NodePaths, run: &TaskRun) -> Duration {
    let run_dir = paths.run(run.id);
    let path = RequestKind::Cancel.path(&run_dir, newest_cancel(&run_dir));
    let asked = frame::read::<v1::Cancel>(FrameKind::Cancel, &path);
    let own = || grace_ms(&spec::read(paths, run.id, run.token).unwrap_or_default());
    let given = asked.map_or(0, |cancel| cancel.grace_ms);
    let ms = if given > 0 { given } else { own() };
    Duration::from_millis(ms.into())
}

/// Makes a name without content, which survives a power cut.
fn note_synced(path: &Path) -> std::io::Result<()> {
    std::fs::write(path, "")?;
    path.parent().map_or(Ok(()), sync_folder)
}

impl Cluster {
    /// A waiting run is to be held at its scheduler, or released.
    pub fn hold_at_scheduler(&mut self, token: RunToken, wanted: PauseState) {
        let hold = Hold::new(wanted, Instant::now().into_std());
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
        let mut seen: Vec<(&QueueRow, Option<u32>)> = Vec::new();
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

    /// The commands that cancel what is to end, none where it is over or runs by now;
    /// `None`: a listing has to show it first.
    pub(super) fn cancel(&mut self, runs: &Core, now: Instant) -> Option<Vec<Call>> {
        let listed = self.answered?;
        if now.duration_since(listed) > super::LIST_APART * 3 {
            return None;
        }
        let (mut seen, mut adopted) = (Vec::new(), Vec::new());
        // A job that was adopted twice belongs to two submissions.
        let mut named = HashSet::new();
        for submission in self.submissions.values_mut() {
            let is_adopted = submission.adoption.is_some();
            let found = submission.cancel(now.into_std(), runs);
            self.rings.extend(found.rings);
            self.escalated.extend(found.escalated);
            let rows = if is_adopted { &mut adopted } else { &mut seen };
            let is_new = |(row, task): &RowPart<'_>| named.insert((row.job, *task));
            rows.extend(found.rows.into_iter().filter(is_new));
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
