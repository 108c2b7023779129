//! Tasks that are over: by the scheduler's word, and because no start of them is alive.
//! How the scheduler ended them is recorded before their runs' ends are told.

use std::collections::BTreeSet;
use std::path::Path;

use nero_cluster::submission::{Files, News, StartId, began, launched_by};
use nero_journal::v1::{Lost, TaskOver, lost, task_over};
use nero_model::RunToken;
use nero_node::lease::BEAT;
use nero_node::lease::files::{modified, server_time, since};
use nero_node::runs::own;
use nero_node::staging::environment::local_user;
use nero_node_core::lease::OLD_BEATS;
use nero_warden::SchedulerEnd;
use tokio::time::Instant;

use super::{Agent, Cluster, Driver, Presence};

impl Cluster {
    /// What the scheduler calls gone is decided about by news that are read after its
    /// word: the names of its last start are there by then.
    pub(super) fn look_at_what_is_gone(agent: &mut Agent<Self>) {
        let cluster = &mut agent.driver;
        let now = Instant::now();
        let mut is_new = false;
        for task in cluster
            .submissions
            .values_mut()
            .flat_map(|one| &mut one.tasks)
        {
            task.note_gone(now.into_std());
            is_new |= task.gone.is_some() && !task.over;
        }
        if is_new {
            cluster.look_at = Some(now);
        }
    }

    /// Finds tasks that are over by the scheduler's word, and of which no start is
    /// alive; then decides about their runs.
    pub(super) fn see_what_is_over(agent: &mut Agent<Self>) {
        let cluster = &mut agent.driver;
        if cluster.is_looking {
            // Names that are being read count.
            return;
        }
        let looked = cluster.look_began.map(Instant::into_std);
        let accounts = cluster.accounts();
        let mut over = Vec::new();
        for submission in cluster.submissions.values_mut() {
            for index in submission.tasks_gone(looked, accounts, &agent.core) {
                // Their beats have to stand still first, or they leave.
                let lives = !living(&submission.files, &submission.news, index).is_empty();
                if let Some(task) = submission.task_mut(index).filter(|_| !lives) {
                    task.over = true;
                    over.extend(task.runs.iter().map(|run| run.token));
                }
            }
        }
        over.extend(Self::cancelled_and_over(agent));
        for token in over {
            if agent.core.is_done(&token) {
                continue;
            }
            let incarnation = agent
                .entries
                .get(&token)
                .map_or(1, |entry| entry.incarnation);
            agent.look_and_decide(token, incarnation.max(1));
        }
    }

    /// Records how the scheduler ended the task of a run, and that the run's records
    /// say no end.
    pub(super) fn say_task_over(agent: &mut Agent<Self>, token: RunToken, incarnation: u32) {
        if Self::end_adopted(agent, token) {
            return;
        }
        if !Self::is_launched_by_its_task(agent, &token, incarnation) {
            tracing::info!(%token, incarnation, "another submission's start has the run");
            return;
        }
        if Self::goes_on_after_all(agent, token, incarnation)
            || !Self::is_last(agent, token, incarnation)
        {
            return;
        }
        let record = Lost {
            reason: lost::Reason::TaskOver.into(),
            detail: String::new(),
        };
        Self::ask_starts_to_leave(agent, &token);
        Self::note_how_it_ended(agent, token, incarnation);
        agent.say(token, incarnation, &record);
    }

    /// Asks the starts of a run's task to leave that did not. The host of one that was cut
    /// off may come back, and the experiment's next run may have begun elsewhere by then.
    fn ask_starts_to_leave(agent: &Agent<Self>, token: &RunToken) {
        let Some((submission, task)) = agent.driver.task(token) else {
            return;
        };
        let has_left = |start: &StartId| submission.news.contains(&News::Left(*start));
        for start in began(&submission.news, task.index).filter(|start| !has_left(start)) {
            if let Err(error) = submission.files.note(News::Leave(start), true) {
                tracing::error!(%start, %error, "a start cannot be asked to leave");
            }
        }
    }

    /// Whether a start of the run's task was about to launch this incarnation. The end
    /// of the task proves nothing about one that a start of another submission
    /// launched.
    fn is_launched_by_its_task(agent: &Agent<Self>, token: &RunToken, incarnation: u32) -> bool {
        let task = agent.driver.task(token);
        let (Some((submission, task)), Some(entry)) = (task, agent.entries.get(token)) else {
            return false;
        };
        launched_by(&submission.news, entry.id, incarnation).any(|by| by.task == task.index)
    }

    /// Records how the scheduler ended a task, before an end that it caused is told.
    pub(super) fn note_how_it_ended(agent: &mut Agent<Self>, token: RunToken, incarnation: u32) {
        let cluster = &agent.driver;
        if cluster.is_adopted(&token) {
            // It stands beside its end.
            return;
        }
        let (Some((_, task)), Some(entry)) = (cluster.task(&token), agent.entries.get(&token))
        else {
            return;
        };
        let how = match task.seen {
            Presence::Gone(how) => how,
            Presence::Listed(_) | Presence::Missing { .. } => None,
        };
        let record = TaskOver {
            how: how.map_or(task_over::How::Unspecified, of_ended).into(),
            scheduler: cluster.ended_at(how),
            escalated: false,
        };
        let run_dir = agent.run_dir(entry.id);
        if let Err(error) = own::write(&run_dir, token, incarnation, &record) {
            // The end is told without it.
            tracing::error!(run = %entry.id, %error, "cannot record how a task ended");
        }
        agent.read_segments(token, incarnation);
    }

    /// Whether a run began at its scheduler, and no start of its task may be alive.
    pub(super) fn starts_are_over(agent: &Agent<Self>, token: RunToken) -> bool {
        let has_begun = |run: &nero_node_core::Run| run.stage.is_elsewhere();
        if !agent.core.run(&token).is_some_and(has_begun) {
            return false;
        }
        let task = agent.driver.task(&token);
        task.is_some_and(|(submission, task)| {
            living(&submission.files, &submission.news, task.index).is_empty()
        })
    }
}

/// Starts of a task that may be alive: they did not leave, and their beats do not
/// stand still for long.
pub(super) fn living(files: &Files, news: &BTreeSet<News>, task: u32) -> Vec<StartId> {
    let is_still = |start: &StartId| stands_still(files, &files.path(News::Began(*start)));
    began(news, task)
        .filter(|start| !has_left(files, news, *start) && !is_still(start))
        .collect()
}

pub(super) fn has_left(files: &Files, news: &BTreeSet<News>, start: StartId) -> bool {
    news.contains(&News::Left(start)) || files.path(News::Left(start)).exists()
}

/// Whether a file that a start changes did not change for three beats.
pub(super) fn stands_still(files: &Files, path: &Path) -> bool {
    let age = modified(path).and_then(|then| Ok(since(then, server_time(&files.starts())?)));
    age.is_ok_and(|age| age >= BEAT * OLD_BEATS)
}

impl Cluster {
    /// The scheduler's name; of a task that was cancelled there with who did, as in
    /// "SLURM by root".
    pub(super) fn ended_at(&self, how: Option<SchedulerEnd>) -> String {
        let name = self.warden.name();
        let Some(SchedulerEnd::Cancelled { by: Some(uid) }) = how else {
            return name.into_owned();
        };
        let user = self.users.get(&uid).cloned().or_else(|| local_user(uid));
        match user {
            Some(user) => format!("{name} by {user}"),
            None => format!("{name} by uid {uid}"),
        }
    }
}

pub(super) fn of_ended(how: SchedulerEnd) -> task_over::How {
    match how {
        SchedulerEnd::Completed | SchedulerEnd::Requeued => task_over::How::Unspecified,
        SchedulerEnd::Failed => task_over::How::Failed,
        SchedulerEnd::Cancelled { .. } => task_over::How::Cancelled,
        SchedulerEnd::TimeLimit => task_over::How::TimeLimit,
        SchedulerEnd::OutOfMemory => task_over::How::OutOfMemory,
        SchedulerEnd::HostFailure => task_over::How::HostFailure,
        SchedulerEnd::Preempted => task_over::How::Preempted,
    }
}
