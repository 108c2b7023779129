//! Watching submissions: the news in their folders, which are names, and the queue, in
//! one question for all.

use nero_cluster::lifecycle::{APART_MS, Ms, SubmissionState};
use nero_cluster::submission::{Files, News, StartId};
use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::TaskStart;
use nero_model::{RunToken, SubmissionId};
use nero_node_core::Stage;
use nero_warden::{AdoptedJobState, JobId, Queue, Warden};
use tokio::time::Instant;

use super::results::SubmissionNews;
use super::submit::{in_doubt, needs_person};
use super::waiting::{RowText, row_text};
use super::{
    Agent, Cluster, ClusterResult, Driver, JobCounts, LIST_EVERY, LOOK_EVERY, Presence, Submission,
};

/// Pause before the second listing that has to miss a task.
const MISSED: std::time::Duration = std::time::Duration::from_millis(APART_MS);
/// Live runs whose folders are read at one look at the news.
const READ_MAX: usize = 64;

impl Cluster {
    /// Reads the names in each submission's folder when that is due.
    pub(super) fn look_at_news(agent: &mut Agent<Self>, now: Instant) {
        let cluster = &mut agent.driver;
        let is_due = cluster.look_at.is_some_and(|at| at <= now);
        if !is_due || cluster.is_looking || cluster.submissions.is_empty() {
            return;
        }
        cluster.is_looking = true;
        cluster.look_began = Some(now);
        let all = cluster.submissions.values();
        let all: Vec<(SubmissionId, Files)> = all.map(|one| (one.id, one.files.clone())).collect();
        cluster.listed += all.len() as u64;
        Self::copy_logs(agent, now);
        agent.off_reactor_for_driver(ClusterResult::News(Vec::new()), move || {
            ClusterResult::News(
                all.into_iter()
                    .map(|(id, files)| (id, files.news()))
                    .collect(),
            )
        });
    }

    pub(super) fn looked_at_news(agent: &mut Agent<Self>, looked: SubmissionNews) {
        let cluster = &mut agent.driver;
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
            Self::heard(agent, *id, *news);
        }
        Self::read_live(agent, is_new);
        Self::see_what_is_over(agent);
    }

    pub(super) fn heard(agent: &mut Agent<Self>, id: SubmissionId, news: News) {
        let (run, incarnation) = match news {
            News::Launches(run, incarnation, _)
            | News::Ended(run, incarnation)
            | News::Settled(run, incarnation) => (run, incarnation),
            News::Left(_) => {
                let cluster = &mut agent.driver;
                cluster.list_pause = LIST_EVERY.0;
                cluster.list_soon(Instant::now() + LIST_EVERY.0);
                return;
            }
            News::Began(_) | News::Leave(_) | News::Closed(_) => return,
        };
        let submission = agent.driver.submissions.get(&id);
        let Some(token) = submission.and_then(|one| one.tokens.get(&run).copied()) else {
            return;
        };
        agent.look_and_decide(token, incarnation);
        if matches!(news, News::Settled(..)) {
            agent.see_to_output(token);
        }
        if matches!(news, News::Launches(..))
            && !agent.core.is_done(&token)
            && !Self::has_begun(agent, &token, incarnation)
        {
            // A start makes this name before the claim and the job, and none after it.
            agent.driver.launches.push((id, news));
        }
    }

    /// Whether the job of this incarnation was seen to begin, or that it cannot, or a
    /// later incarnation.
    fn has_begun(agent: &Agent<Self>, token: &RunToken, incarnation: u32) -> bool {
        agent.entries.get(token).is_some_and(|entry| {
            let facts = &entry.facts;
            let is_told = facts.claimed && (facts.started || facts.gate_closed || facts.ended());
            entry.incarnation > incarnation || (entry.incarnation == incarnation && is_told)
        })
    }

    /// Reads on in the folders of some live runs, in turn, while a follower wants to
    /// know.
    fn read_live(agent: &mut Agent<Self>, all: bool) {
        if !agent.is_followed() {
            return;
        }
        let submitted = |token: &RunToken| agent.driver.has(token);
        let live = agent.core.runs().filter(|(token, run)| {
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
        let from = match agent.driver.read_next {
            _ if all && live.len() <= READ_MAX => 0,
            next => live.partition_point(|(token, _)| Some(*token) <= next),
        };
        let from = if from >= live.len() { 0 } else { from };
        for (token, incarnation) in live.into_iter().skip(from).take(READ_MAX) {
            agent.driver.read_next = Some(token);
            agent.look_and_decide(token, incarnation);
        }
    }

    /// Takes in the scheduler's queue.
    pub(super) fn listed(
        agent: &mut Agent<Self>,
        at: Instant,
        queue: &Queue,
        adopted: &[AdoptedJobState],
    ) {
        let cluster = &mut agent.driver;
        cluster.note_counts(at, queue);
        let warden = cluster.warden.clone();
        let (mut stands, mut refused) = (Vec::new(), Vec::new());
        let (mut texts, mut changed) = (Vec::new(), false);
        let asked_ms = cluster.ms(at);
        for submission in cluster.submissions.values_mut() {
            let began = job_that_began(submission);
            let change = submission.listed(queue, adopted, asked_ms, began, &agent.core);
            if change.has_moved {
                stands.push(submission.id);
                // An earlier call may still arrive.
                refused.extend(submission.is_refused().then_some(submission.id));
            }
            changed |= change.has_new_rows;
            let is_hidden = queue.hides(&submission.name);
            if let Some(why) = doubt_text(submission, &*warden, asked_ms, is_hidden) {
                texts.extend(submission.runs().map(|run| (run.token, why.clone())));
            }
            for task in &submission.tasks {
                let Some(row) = submission.row(task) else {
                    continue;
                };
                let why = row_text(&*warden, task, row);
                texts.extend(task.runs.iter().map(|run| {
                    let run_there = agent.core.run(&run.token);
                    let is_paused = run_there.is_some_and(|run| run.paused);
                    let why = why.clone().of_run(&*warden, task.index, row, is_paused);
                    (run.token, why)
                }));
            }
        }
        cluster.time_next_listing(changed, queue.is_nameless);
        texts.extend(cluster.order_again(&agent.setup.paths));
        for id in refused {
            Self::came_before_its_end(agent, id);
        }
        for id in stands {
            Self::note_standing(agent, id);
        }
        for (token, why) in &texts {
            Self::tell_why_it_waits(agent, *token, why);
        }
        Self::see_adopted(agent, adopted);
        Self::look_at_what_is_gone(agent);
    }

    fn tell_why_it_waits(agent: &mut Agent<Self>, token: RunToken, why: &RowText) {
        let waits_again = why.is_queued && Self::starts_are_over(agent, token);
        // The listing may be older than its start.
        let is_old = why.is_queued && !waits_again;
        let begun = if is_old { "" } else { &why.begun };
        agent.core.stands_still(token, begun, waits_again);
        if why.needs_person {
            agent.core.waits_for_a_person(token, &why.waiting);
        } else if !why.waiting.is_empty() {
            agent.core.waits_for(token, &why.waiting);
        }
    }

    fn note_counts(&mut self, at: Instant, queue: &Queue) {
        let queued = queue.not_ended();
        let kept = queued + queue.kept;
        self.counted = Some((at, JobCounts { queued, kept }));
        self.is_full = false;
        self.answered = Some(Instant::now());
        if queue.unreadable > 0 || !queue.hidden.is_empty() {
            let (rows, of_ours) = (queue.unreadable, queue.hidden.len());
            tracing::warn!(
                rows,
                of_ours,
                "rows of the scheduler's queue cannot be read"
            );
        }
    }

    fn time_next_listing(&mut self, changed: bool, is_nameless: bool) {
        self.list_pause = if changed {
            LIST_EVERY.0
        } else {
            (self.list_pause * 3 / 2).min(LIST_EVERY.1)
        };
        self.list_at = Some(Instant::now() + jittered(self.list_pause));
        let mut tasks = self.submissions.values().flat_map(|one| &one.tasks);
        if tasks.any(|task| matches!(task.seen, Presence::Missing { .. })) {
            self.list_soon(Instant::now() + MISSED);
        }
        if !is_nameless && self.submissions.values().any(Submission::is_in_doubt) {
            self.list_soon(Instant::now() + LIST_EVERY.0);
        }
    }
}

/// Why a submission is still in doubt after a listing that was asked for at `asked_ms`.
fn doubt_text(
    submission: &Submission,
    warden: &dyn Warden,
    asked_ms: Ms,
    is_hidden: bool,
) -> Option<RowText> {
    let SubmissionState::InDoubt(doubt) = &submission.standing else {
        return None;
    };
    let why = if is_hidden {
        let name = warden.name();
        format!("the row of its job in {name}'s queue cannot be read")
    } else {
        in_doubt(warden, doubt)
    };
    let missed_s = doubt.missed_ms.map(|at| asked_ms.saturating_sub(at) / 1000);
    tracing::info!(submission = %submission.id, missed_s, why, "still in doubt");
    Some(RowText {
        needs_person: !is_hidden && needs_person(warden, doubt),
        ..RowText::waiting(why)
    })
}

/// The job of a start that left its record, while the scheduler's answer is not
/// known. A short job may be gone from every listing by then.
pub(super) fn job_that_began(submission: &Submission) -> Option<JobId> {
    if submission.job().is_some() {
        return None;
    }
    let mut starts = submission.news.iter().filter_map(News::start_that_began);
    starts.find_map(|start| job_of(&submission.files, start))
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
