//! Watching submissions: the news in their folders, which are names; the queue, in
//! one question for all; the accounting of what left the queue.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::Path;

use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::{Lost, RecordKind, TaskOver, TaskStart, lost, task_over};
use nero_model::{RunToken, SubmissionId};
use nero_warden::standing::{Standing, Step};
use nero_warden::{
    Accounting, Adopted, Call, Ended, JobId, JobName, Listed, Queue, Said, Sighting, State, Warden,
};
use tokio::time::Instant;

use super::submit::{in_doubt, needs_person};
use super::{Agent, Ask, Counted, Done, LIST_EVERY, LOOK_EVERY, Seen, Submission, Task};
use crate::core::Stage;
use crate::lease::BEAT;
use crate::lease::decide::OLD_BEATS;
use crate::lease::files::{modified, server_time, since};
use crate::runs::own;
use crate::staging::environment::user_name;
use crate::submission::{Files, News, StartId, began, launched_by};

/// Pause before the second listing that has to miss a task.
const MISSED: std::time::Duration =
    std::time::Duration::from_millis(nero_warden::standing::APART_MS);
/// Number of times that the accounting is asked for a task that left the queue.
pub(super) const ACCOUNTED_MAX: u8 = 4;
/// Live runs whose folders are read at one look at the news.
const READ_MAX: usize = 64;

/// The news of each submission.
pub(in crate::agent) type Looked = Vec<(SubmissionId, io::Result<Vec<News>>)>;

impl Agent {
    /// Reads the names in each submission's folder when that is due.
    pub(super) fn look_at_news(&mut self, now: Instant) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
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
        self.off_reactor(Done::News(Vec::new()), move || {
            Done::News(
                all.into_iter()
                    .map(|(id, files)| (id, files.news()))
                    .collect(),
            )
        });
    }

    pub(in crate::agent) fn looked_at_news(&mut self, looked: Looked) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
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
        cluster.look_pause = match fresh.is_empty() {
            true => (cluster.look_pause * 2).min(LOOK_EVERY.1),
            false => LOOK_EVERY.0,
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
                if let Some(cluster) = &mut self.cluster {
                    cluster.list_pause = LIST_EVERY.0;
                    cluster.list_soon(Instant::now() + LIST_EVERY.0);
                }
                return;
            }
            News::Began(_) | News::Leave(_) | News::Closed(_) => return,
        };
        let token = self.cluster.as_ref().and_then(|cluster| {
            let submission = cluster.submissions.get(&id)?;
            submission.tokens.get(&run).copied()
        });
        let Some(token) = token else { return };
        self.look_and_decide(token, incarnation);
        if matches!(news, News::Settled(..)) {
            self.see_to_output(token);
        }
        if matches!(news, News::Launches(..))
            && !self.is_done(&token)
            && !self.has_begun(&token, incarnation)
            && let Some(cluster) = &mut self.cluster
        {
            // A start makes this name before the claim and the job, and none after it.
            cluster.launches.push((id, news));
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
        let submitted = |token: &RunToken| self.is_submitted(token);
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
        let from = match self.read_next {
            _ if all && live.len() <= READ_MAX => 0,
            next => live.partition_point(|(token, _)| Some(*token) <= next),
        };
        let from = if from >= live.len() { 0 } else { from };
        for (token, incarnation) in live.into_iter().skip(from).take(READ_MAX) {
            self.read_next = Some(token);
            self.look_and_decide(token, incarnation);
        }
    }

    /// Takes in the scheduler's queue.
    pub(super) fn listed(&mut self, at: Instant, queue: &Queue, adopted: &[Sighting]) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        let asked_ms = cluster.ms(at);
        let queued = queue.not_ended();
        let kept = queued + queue.kept;
        cluster.counted = Some((at, Counted { queued, kept }));
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
                let why = match is_hidden {
                    true => format!("the row of its job in {name}'s queue cannot be read"),
                    false => in_doubt(&*cluster.warden, doubt),
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
                    if is_unheld && run_there.is_some_and(|run| run.paused) {
                        why.waiting.push_str(&format!(
                            "; {name} holds no jobs: when its turn comes the job \
                             starts stopped, and keeps its allocation until a resume or an abort"
                        ));
                    }
                    (run.token, why)
                }));
            }
        }
        cluster.list_pause = match changed {
            true => LIST_EVERY.0,
            false => (cluster.list_pause * 3 / 2).min(LIST_EVERY.1),
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
            self.core.stands_still(token, &why.begun);
            match why.needs_person {
                true => self.core.waits_for_a_person(token, &why.waiting),
                false if why.waiting.is_empty() => {}
                false => self.core.waits_for(token, &why.waiting),
            }
        }
        self.see_adopted(adopted);
        self.look_at_what_is_gone();
    }

    /// Asks the accounting for tasks that left the queue while runs of them are
    /// open.
    pub(super) fn ends_to_ask(&mut self) -> Option<(Ask, Vec<Call>)> {
        let open = |task: &Task| task.runs.iter().any(|run| !self.is_done(&run.token));
        let cluster = self.cluster.as_ref()?;
        let site = cluster.site.as_ref().map(|(_, site)| site.accounting);
        if site == Some(Accounting::Absent) {
            return None;
        }
        let (listed, _) = cluster.counted?;
        let wants = |submission: &&Submission| {
            let left = |task: &Task| matches!(task.seen, Seen::Missing { .. } | Seen::Gone(None));
            let mut tasks = submission.tasks.iter();
            let lacks = |task: &Task| {
                submission.lacks_its_code(task)
                    || cluster.names_cancellers() && task.lacks_its_canceller()
            };
            tasks.any(|task| (left(task) || lacks(task)) && task.asked < ACCOUNTED_MAX && open(task))
                // Once for each listing, since records come late.
                && submission.accounted.is_none_or(|at| at < listed)
        };
        let ids: Vec<SubmissionId> = cluster
            .submissions
            .values()
            .filter(wants)
            .take(100)
            .map(|submission| submission.id)
            .collect();
        let cluster = self.cluster.as_mut()?;
        let now_ms = nero_journal::Clocks::now().wall_ns / 1_000_000;
        let (mut names, mut oldest) = (Vec::new(), now_ms);
        for id in &ids {
            let submission = cluster.submissions.get_mut(id)?;
            submission.accounted = Some(Instant::now());
            let is_adopted = submission.hand.is_some();
            for task in &mut submission.tasks {
                let left = matches!(task.seen, Seen::Missing { .. } | Seen::Gone(None));
                task.asked += u8::from(left || is_adopted);
            }
            if let Some(one) = submission.adopted() {
                oldest = oldest.min(one.submitted_s.saturating_mul(1000));
            } else {
                names.push(submission.name.clone());
            }
            oldest = oldest.min(submission.made_ms);
        }
        if ids.is_empty() {
            return None;
        }
        // A day more, since clocks of hosts differ.
        let since_s = u64::try_from((now_ms - oldest) / 1000).unwrap_or(0) + 24 * 3600;
        let names: Vec<&JobName> = names.iter().collect();
        let mut calls = match names.is_empty() {
            true => Vec::new(),
            false => cluster.warden.ends_calls(&names, since_s),
        };
        let of = |id: &SubmissionId| cluster.submissions.get(id)?.adopted();
        let adopted: Vec<Adopted<'_>> = ids.iter().filter_map(of).collect();
        if !adopted.is_empty() {
            calls.extend(cluster.warden.adopted_ends_calls(&adopted, since_s));
        }
        Some((Ask::Ends(ids), calls))
    }

    pub(super) fn ends_answered(&mut self, ids: &[SubmissionId], said: &[Said]) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        let of = |id: &SubmissionId| cluster.submissions.get(id);
        let (by_hand, ours): (Vec<&Submission>, Vec<&Submission>) = ids
            .iter()
            .filter_map(of)
            .partition(|one| one.hand.is_some());
        let names: Vec<JobName> = ours.iter().map(|one| one.name.clone()).collect();
        let names: Vec<&JobName> = names.iter().collect();
        let answers = match names.is_empty() {
            true => 0,
            false => cluster.warden.ends_calls(&names, 0).len(),
        };
        let (said, more) = said.split_at(answers.min(said.len()));
        let by_hand: Vec<Adopted<'_>> = by_hand.iter().filter_map(|one| one.adopted()).collect();
        let told = match by_hand.is_empty() {
            true => Ok(Vec::new()),
            false => cluster.warden.read_adopted_ends(more, &by_hand),
        };
        match told {
            Ok(told) => self.adopted_ended(&told),
            Err(error) => tracing::info!(%error, "the accounting tells nothing of adopted jobs"),
        }
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        for id in ids {
            let submission = cluster.submissions.get_mut(id);
            let tasks = submission.into_iter().flat_map(|one| &mut one.tasks);
            for task in tasks {
                task.is_accounted |= matches!(task.seen, Seen::Gone(_));
            }
        }
        if names.is_empty() {
            self.look_at_what_is_gone();
            return;
        }
        let records = match cluster.warden.read_ends(said, &names) {
            Ok(records) => records,
            Err(error) => {
                // The queue decides without it, later.
                tracing::info!(%error, "the accounting does not answer");
                self.look_at_what_is_gone();
                return;
            }
        };
        for submission in cluster.submissions.values_mut() {
            let Some(job) = submission.job() else {
                continue;
            };
            for task in &mut submission.tasks {
                let mut of_it = records.iter().filter(|record| {
                    let tasks = record.task.as_ref();
                    record.name == submission.name
                        && record.job == job
                        && tasks.map_or(task.index == 0, |tasks| tasks.contains(task.index))
                });
                // Earlier starts come first.
                if let Some(record) = of_it.next_back() {
                    task.accounted(&record.state);
                }
            }
        }
        self.look_at_what_is_gone();
    }

    /// The accounting's word about adopted jobs.
    fn adopted_ended(&mut self, told: &[Sighting]) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        for submission in cluster.submissions.values_mut() {
            let mut of_it = told.iter().filter(|one| one.row.name == submission.name);
            // Earlier starts come first.
            if let Some(one) = of_it.next_back() {
                for task in &mut submission.tasks {
                    task.accounted(&one.row.state);
                }
            }
        }
        self.see_adopted(told);
    }

    /// What the scheduler calls gone is decided about by news that are read after its
    /// word: the names of its last start are there by then.
    fn look_at_what_is_gone(&mut self) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        let now = Instant::now();
        let mut is_new = false;
        for task in cluster
            .submissions
            .values_mut()
            .flat_map(|one| &mut one.tasks)
        {
            task.note_gone(now);
            is_new |= task.gone.is_some() && !task.over;
        }
        if is_new {
            cluster.look_at = Some(now);
        }
    }

    /// Finds tasks that are over by the scheduler's word, and of which no start is
    /// alive; then decides about their runs.
    pub(super) fn see_what_is_over(&mut self) {
        let is_accounted = self.may_be_accounted();
        let runs = self.cluster.iter().flat_map(|one| one.submissions.values());
        let runs = runs.flat_map(Submission::runs).map(|run| run.token);
        let done: HashSet<RunToken> = runs.filter(|token| self.is_done(token)).collect();
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        if cluster.is_looking {
            // Names that are being read count.
            return;
        }
        let began = cluster.look_began;
        let names_cancellers = cluster.names_cancellers();
        let mut over = Vec::new();
        let mut again = false;
        for submission in cluster.submissions.values_mut() {
            let mut tasks = std::mem::take(&mut submission.tasks);
            for task in &mut tasks {
                let is_read = task.gone.is_some_and(|gone| {
                    began.is_some_and(|at| at >= gone) && submission.is_copied_since(gone)
                });
                // The accounting is asked for runs that did not end yet.
                let is_open = task.runs.iter().any(|run| !done.contains(&run.token));
                let lacks = submission.lacks_its_code(task)
                    || names_cancellers && task.lacks_its_canceller();
                let waits = is_accounted && is_open && lacks;
                if task.over || !is_read || waits {
                    continue;
                }
                let starts = living(&submission.files, &submission.news, task.index);
                task.over = starts.is_empty();
                again |= !task.over;
                if task.over {
                    over.extend(task.runs.iter().map(|run| run.token));
                }
            }
            submission.tasks = tasks;
        }
        if again {
            // Their beats have to stand still first, or they leave.
            cluster.look_pause = LOOK_EVERY.0.max(cluster.look_pause);
        }
        over.extend(self.cancelled_and_over());
        for token in over {
            if self.is_done(&token) {
                continue;
            }
            let incarnation = self
                .entries
                .get(&token)
                .map_or(1, |entry| entry.incarnation);
            self.look_and_decide(token, incarnation.max(1));
        }
    }

    /// Records how the scheduler ended the task of a run, and that the run's records
    /// say no end.
    pub(in crate::agent) fn say_task_over(&mut self, token: RunToken, incarnation: u32) {
        if self.end_adopted(token) {
            return;
        }
        if !self.is_launched_by_its_task(&token, incarnation) {
            tracing::info!(%token, incarnation, "another submission's start has the run");
            return;
        }
        if self.goes_on_after_all(token, incarnation) || !self.is_last(token, incarnation) {
            return;
        }
        let record = Lost {
            reason: lost::Reason::TaskOver.into(),
            detail: String::new(),
        };
        self.ask_starts_to_leave(&token);
        self.note_how_it_ended(token, incarnation);
        self.say(token, incarnation, RecordKind::Lost, &record);
    }

    /// Asks the starts of a run's task to leave that did not. The host of one that was cut
    /// off may come back, and the experiment's next run may have begun elsewhere by then.
    fn ask_starts_to_leave(&self, token: &RunToken) {
        let task = self.cluster.as_ref().and_then(|one| one.task(token));
        let Some((submission, task)) = task else {
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
    fn is_launched_by_its_task(&self, token: &RunToken, incarnation: u32) -> bool {
        let task = self.cluster.as_ref().and_then(|one| one.task(token));
        let (Some((submission, task)), Some(entry)) = (task, self.entries.get(token)) else {
            return false;
        };
        launched_by(&submission.news, entry.id, incarnation).any(|by| by.task == task.index)
    }

    /// Records how the scheduler ended a task, before an end that it caused is told.
    pub(in crate::agent) fn note_how_it_ended(&mut self, token: RunToken, incarnation: u32) {
        let Some(cluster) = &self.cluster else { return };
        if cluster.is_adopted(&token) {
            // It stands beside its end.
            return;
        }
        let (Some((_, task)), Some(entry)) = (cluster.task(&token), self.entries.get(&token))
        else {
            return;
        };
        let how = match task.seen {
            Seen::Gone(how) => how,
            Seen::Listed(_) | Seen::Missing { .. } => None,
        };
        let record = TaskOver {
            how: how.map_or(task_over::How::Unspecified, of_ended).into(),
            scheduler: ended_at(&*cluster.warden, how),
            escalated: false,
        };
        let run_dir = self.run_dir(entry.id);
        let kind = RecordKind::TaskOver;
        if let Err(error) = own::write(&run_dir, token, incarnation, kind, &record) {
            // The end is told without it.
            tracing::error!(run = %entry.id, %error, "cannot record how a task ended");
        }
        self.look(token, incarnation);
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
        self.news.iter().find_map(|news| match news {
            News::Began(start) => job_of(&self.files, *start),
            News::Launches(..)
            | News::Leave(_)
            | News::Left(_)
            | News::Closed(_)
            | News::Ended(..)
            | News::Settled(..) => None,
        })
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

/// What a row of a listing says about a run; empty: nothing new.
#[derive(Clone, Debug)]
struct RowText {
    /// Of a run that did not begin.
    waiting: String,
    /// Of a run that began.
    begun: String,
    /// Whether the wait does not pass until a person acts.
    needs_person: bool,
}

impl RowText {
    fn waiting(text: String) -> Self {
        Self {
            waiting: text,
            begun: String::new(),
            needs_person: false,
        }
    }
}

/// Why the runs of a task do not go on, by its row in a listing.
fn shown(warden: &dyn Warden, task: &Task, row: &Listed) -> RowText {
    let name = warden.name();
    let job = match row.tasks {
        Some(_) => warden.task_name(row.job, task.index),
        None => row.job.to_string(),
    };
    let waiting = match &row.state {
        State::Waiting(reason) | State::Held(reason) => {
            let held = matches!(row.state, State::Held(_));
            let held = if held { ", held" } else { "" };
            let word = super::waiting::reason(reason);
            let start = super::waiting::expected_start(row.start_s);
            if reason.never_passes {
                let what = match held.is_empty() {
                    true => "this does not pass by waiting: change what the run asks for",
                    false => "it waits until a person releases it there",
                };
                // Without the task, so that the tasks of an array are told together.
                return RowText {
                    needs_person: true,
                    ..RowText::waiting(format!(
                        "in {name}'s queue as job {}{held}{word}{start}; {what}",
                        row.job
                    ))
                };
            }
            format!("in {name}'s queue as job {job}{held}{word}{start}")
        }
        State::Starting | State::Running => format!("{name} starts its job {job}"),
        State::Suspended => {
            let text = format!("{name} suspended its job {job}: it goes on when that is resumed");
            return RowText {
                waiting: text.clone(),
                begun: text,
                needs_person: false,
            };
        }
        State::Ending => format!("{name} cleans up after its job {job}"),
        State::Ended(_) => String::new(),
        State::Unknown(word) => format!("{name} calls its job {job} {word}"),
    };
    RowText::waiting(waiting)
}

/// The scheduler's name; of a task that was cancelled there with who did, as in
/// "SLURM by root".
pub(super) fn ended_at(warden: &dyn Warden, how: Option<Ended>) -> String {
    let name = warden.name();
    match how {
        Some(Ended::Cancelled { by: Some(uid) }) => format!("{name} by {}", user_name(uid)),
        _ => name.into_owned(),
    }
}

pub(super) fn of_ended(how: Ended) -> task_over::How {
    match how {
        Ended::Completed | Ended::Requeued => task_over::How::Unspecified,
        Ended::Failed => task_over::How::Failed,
        Ended::Cancelled { .. } => task_over::How::Cancelled,
        Ended::TimeLimit => task_over::How::TimeLimit,
        Ended::OutOfMemory => task_over::How::OutOfMemory,
        Ended::HostFailure => task_over::How::HostFailure,
        Ended::Preempted => task_over::How::Preempted,
    }
}

/// A pause that is up to two fifths longer, so that many neromums do not ask at once.
fn jittered(pause: std::time::Duration) -> std::time::Duration {
    let random = u32::from(nero_model::RunToken::random().as_bytes()[0]);
    pause * (512 + random * 204 / 255) / 512
}
