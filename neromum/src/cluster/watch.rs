//! Watching submissions: the news in their folders, which are names, and the queue, in
//! one question for all.

use std::io;

use nero_cluster::submission::{Files, News, StartId, began};
use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::TaskStart;
use nero_model::{RunToken, SubmissionId};
use nero_warden::standing::{Standing, Step};
use nero_warden::{JobId, Listed, Queue, Sighting, State};
use tokio::time::Instant;

use super::submit::{in_doubt, needs_person};
use super::waiting::{RowText, shown};
use super::{
    Agent, Cluster, ClusterResult, Driver, JobCounts, LIST_EVERY, LOOK_EVERY, Seen, Submission,
    Task,
};
use crate::core::Stage;

/// Pause before the second listing that has to miss a task.
const MISSED: std::time::Duration =
    std::time::Duration::from_millis(nero_warden::standing::APART_MS);
/// Live runs whose folders are read at one look at the news.
const READ_MAX: usize = 64;

/// The news of each submission.
pub type SubmissionNews = Vec<(SubmissionId, io::Result<Vec<News>>)>;

impl Agent<Cluster> {
    /// Reads the names in each submission's folder when that is due.
    pub(super) fn look_at_news(&mut self, now: Instant) {
        let cluster = &mut self.driver;
        let is_due = cluster.look_at.is_some_and(|at| at <= now);
        if !is_due || cluster.is_looking || cluster.submissions.is_empty() {
            return;
        }
        cluster.is_looking = true;
        cluster.look_began = Some(now);
        let all = cluster.submissions.values();
        let all: Vec<(SubmissionId, Files)> = all.map(|one| (one.id, one.files.clone())).collect();
        cluster.listed += all.len() as u64;
        self.copy_logs(now);
        self.off_reactor_for_driver(ClusterResult::News(Vec::new()), move || {
            ClusterResult::News(
                all.into_iter()
                    .map(|(id, files)| (id, files.news()))
                    .collect(),
            )
        });
    }

    pub(super) fn looked_at_news(&mut self, looked: SubmissionNews) {
        let cluster = &mut self.driver;
        cluster.is_looking = false;
        let mut fresh = Vec::new();
        for (id, news) in looked {
            let Some(submission) = cluster.submissions.get_mut(&id) else {
                continue;
            };
            match news {
                Ok(news) => {
                    let new = news.into_iter().filter(|one| submission.news.insert(*one));
                    fresh.extend(new.map(|news| (id, news)));
                }
                Err(error) => tracing::warn!(submission = %id, %error, "its news cannot be read"),
            }
        }
        let now = Instant::now();
        cluster.look_pause = if fresh.is_empty() {
            (cluster.look_pause * 2).min(LOOK_EVERY.1)
        } else {
            LOOK_EVERY.0
        };
        cluster.look_at = Some(now + cluster.look_pause);
        let is_new = !fresh.is_empty();
        fresh.append(&mut cluster.launches);
        // One look finds the news of several starts of a run, in any order.
        fresh.sort_by_key(|(_, news)| news.incarnation());
        for (id, news) in &fresh {
            self.heard(*id, *news);
        }
        self.read_live(is_new);
        self.see_what_is_over();
    }

    pub(super) fn heard(&mut self, id: SubmissionId, news: News) {
        let (run, incarnation) = match news {
            News::Launches(run, incarnation, _)
            | News::Ended(run, incarnation)
            | News::Settled(run, incarnation) => (run, incarnation),
            News::Left(_) => {
                let cluster = &mut self.driver;
                cluster.list_pause = LIST_EVERY.0;
                cluster.list_soon(Instant::now() + LIST_EVERY.0);
                return;
            }
            News::Began(_) | News::Leave(_) | News::Closed(_) => return,
        };
        let submission = self.driver.submissions.get(&id);
        let Some(token) = submission.and_then(|one| one.tokens.get(&run).copied()) else {
            return;
        };
        self.look_and_decide(token, incarnation);
        if matches!(news, News::Settled(..)) {
            self.see_to_output(token);
        }
        if matches!(news, News::Launches(..))
            && !self.is_done(&token)
            && !self.has_begun(&token, incarnation)
        {
            // A start makes this name before the claim and the job, and none after it.
            self.driver.launches.push((id, news));
        }
    }

    /// Whether the job of this incarnation was seen to begin, or that it cannot, or a
    /// later incarnation.
    fn has_begun(&self, token: &RunToken, incarnation: u32) -> bool {
        self.entries.get(token).is_some_and(|entry| {
            let facts = &entry.facts;
            let is_told = facts.claimed && (facts.started || facts.gate_closed || facts.ended());
            entry.incarnation > incarnation || (entry.incarnation == incarnation && is_told)
        })
    }

    /// Reads on in the folders of some live runs, in turn, while a follower wants to
    /// know.
    fn read_live(&mut self, all: bool) {
        if self.followers.is_empty() {
            return;
        }
        let submitted = |token: &RunToken| self.driver.has(token);
        let live = self.core.runs().filter(|(token, run)| {
            matches!(
                run.stage,
                Stage::Running {
                    elsewhere: true,
                    ..
                }
            ) && submitted(token)
        });
        let mut live: Vec<(RunToken, u32)> = live
            .map(|(token, run)| (*token, run.stage.incarnation()))
            .collect();
        live.sort_unstable();
        let from = match self.driver.read_next {
            _ if all && live.len() <= READ_MAX => 0,
            next => live.partition_point(|(token, _)| Some(*token) <= next),
        };
        let from = if from >= live.len() { 0 } else { from };
        for (token, incarnation) in live.into_iter().skip(from).take(READ_MAX) {
            self.driver.read_next = Some(token);
            self.look_and_decide(token, incarnation);
        }
    }

    /// Takes in the scheduler's queue.
    pub(super) fn listed(&mut self, at: Instant, queue: &Queue, adopted: &[Sighting]) {
        let cluster = &mut self.driver;
        let asked_ms = cluster.ms(at);
        let queued = queue.not_ended();
        let kept = queued + queue.kept;
        cluster.counted = Some((at, JobCounts { queued, kept }));
        cluster.is_full = false;
        cluster.answered = Some(Instant::now());
        let (mut stands, mut refused) = (Vec::new(), Vec::new());
        let (mut texts, mut changed) = (Vec::new(), false);
        let name = cluster.warden.name();
        if queue.unreadable > 0 || !queue.hidden.is_empty() {
            let (rows, of_ours) = (queue.unreadable, queue.hidden.len());
            tracing::warn!(
                rows,
                of_ours,
                "rows of the scheduler's queue cannot be read"
            );
        }
        for submission in cluster.submissions.values_mut() {
            let before = submission.standing.clone();
            if let Some(job) = submission.job_that_began() {
                submission.standing.began(job);
            }
            let mut runs = submission.tasks.iter().flat_map(|task| &task.runs);
            let ends = |token: &RunToken| self.core.run(token).is_none_or(|run| run.cancelled);
            if queue.is_nameless && runs.all(|run| ends(&run.token)) {
                // A start that comes late finds the cancel requests, or no plan.
                submission.standing.abandon();
            }
            let step = submission
                .standing
                .listed(asked_ms, queue, &submission.name);
            submission.twins = match step {
                Step::CancelTwins(twins) => twins,
                Step::Submit | Step::List | Step::Rest => Vec::new(),
            };
            if submission.standing != before {
                stands.push(submission.id);
                // An earlier call may still arrive.
                refused.extend(submission.is_refused().then_some(submission.id));
            }
            let of_it = |one: &&Sighting| one.row.name == submission.name;
            let rows = match submission.hand {
                Some(_) => adopted
                    .iter()
                    .filter(of_it)
                    .map(|one| one.row.clone())
                    .collect(),
                None => queue.of(&submission.name).cloned().collect(),
            };
            changed |= submission.rows != rows;
            submission.rows = rows;
            let is_hidden = queue.hides(&submission.name);
            if let Standing::InDoubt(doubt) = &submission.standing {
                let why = if is_hidden {
                    format!("the row of its job in {name}'s queue cannot be read")
                } else {
                    in_doubt(&*cluster.warden, doubt)
                };
                let needs_person = !is_hidden && needs_person(&*cluster.warden, doubt);
                let missed_s = doubt.missed_ms.map(|at| asked_ms.saturating_sub(at) / 1000);
                tracing::info!(submission = %submission.id, missed_s, why, "still in doubt");
                let why = RowText {
                    needs_person,
                    ..RowText::waiting(why)
                };
                texts.extend(submission.runs().map(|run| (run.token, why.clone())));
            }
            let Some(job) = submission.job() else {
                continue;
            };
            let rows: Vec<&Listed> = submission.rows.iter().collect();
            for task in &mut submission.tasks {
                let row = task.row(&rows, job);
                if row.is_some() || !is_hidden {
                    task.listed(row, asked_ms);
                }
                let Some(row) = row else { continue };
                let why = shown(&*cluster.warden, task, row);
                let index = row.tasks.as_ref().map(|_| task.index);
                let is_unheld = matches!(row.state, State::Waiting(_))
                    && cluster.warden.hold_calls(&[(row, index)]).is_empty();
                texts.extend(task.runs.iter().map(|run| {
                    let run_there = self.core.run(&run.token);
                    let mut why = why.clone();
                    let is_paused = run_there.is_some_and(|run| run.paused);
                    if is_paused && matches!(row.state, State::Starting | State::Running) {
                        why.waiting = format!(
                            "{name}'s job {} goes on without it, and keeps nothing for it",
                            row.job
                        );
                    }
                    if is_unheld && is_paused {
                        why.waiting.push_str(&format!(
                            "; {name} holds no jobs: when its turn comes the job leaves, \
                             and the run is submitted anew after a resume"
                        ));
                    }
                    (run.token, why)
                }));
            }
        }
        cluster.list_pause = if changed {
            LIST_EVERY.0
        } else {
            (cluster.list_pause * 3 / 2).min(LIST_EVERY.1)
        };
        let pause = jittered(cluster.list_pause);
        cluster.list_at = Some(Instant::now() + pause);
        let tasks = || cluster.submissions.values().flat_map(|one| &one.tasks);
        if tasks().any(|task| matches!(task.seen, Seen::Missing { .. })) {
            cluster.list_soon(Instant::now() + MISSED);
        }
        if !queue.is_nameless && cluster.submissions.values().any(Submission::is_in_doubt) {
            cluster.list_soon(Instant::now() + LIST_EVERY.0);
        }
        let unordered = cluster.order_again(&self.setup.paths);
        for (id, why) in unordered {
            let why = format!("{name} does not have it, and it cannot be submitted again: {why}");
            tracing::warn!(submission = %id, why, "stays here");
            let submission = cluster.submissions.get(&id);
            let runs = submission.into_iter().flat_map(Submission::runs);
            let why = RowText::waiting(why);
            texts.extend(runs.map(|run| (run.token, why.clone())));
        }
        for id in refused {
            self.came_before_its_end(id);
        }
        for id in stands {
            self.note_standing(id);
        }
        for (token, why) in texts {
            let waits_again = why.is_queued && self.starts_are_over(token);
            match why.is_queued && !waits_again {
                // The listing may be older than its start.
                true => self.core.stands_still(token, "", false),
                false => self.core.stands_still(token, &why.begun, waits_again),
            }
            match why.needs_person {
                true => self.core.waits_for_a_person(token, &why.waiting),
                false if why.waiting.is_empty() => {}
                false => self.core.waits_for(token, &why.waiting),
            }
        }
        self.see_adopted(adopted);
        self.look_at_what_is_gone();
    }
}

impl Submission {
    pub(super) fn is_in_doubt(&self) -> bool {
        matches!(self.standing, Standing::InDoubt(_))
    }

    /// The job of a start that left its record, while the scheduler's answer is not
    /// known. A short job may be gone from every listing by then.
    pub(super) fn job_that_began(&self) -> Option<JobId> {
        if self.job().is_some() {
            return None;
        }
        let mut starts = self.news.iter().filter_map(News::start_that_began);
        starts.find_map(|start| job_of(&self.files, start))
    }

    /// Whether nothing of a task can come any more.
    pub(super) fn is_finished(&self, task: &Task) -> bool {
        let mut began = began(&self.news, task.index);
        let has_left = |start| self.news.contains(&News::Left(start));
        task.over || self.is_refused() || began.clone().next().is_some() && began.all(has_left)
    }
}

/// The scheduler's job of a start, by its record.
pub(super) fn job_of(files: &Files, start: StartId) -> Option<JobId> {
    let path = files.path(News::Began(start));
    let start: TaskStart = frame::read(FrameKind::TaskStart, &path).ok()?;
    JobId::read(&start.job)
}

/// A pause that is up to two fifths longer, so that many neromums do not ask at once.
fn jittered(pause: std::time::Duration) -> std::time::Duration {
    let random = u32::from(nero_model::RunToken::random().as_bytes()[0]);
    pause * (512 + random * 204 / 255) / 512
}
