//! From the queue to the scheduler, in steps of which each can be the last: plan
//! and script, synced; the ledger's intent, synced; the call; its answer in the
//! ledger. A neromum that comes later goes on from the intent: without an answer
//! the submission is in doubt, and listings tell whether it was made.

use nero_cluster::lifecycle::{Doubt, SubmissionState};
use nero_cluster::request::TaskRequest;
use nero_cluster::submission::Files;
use nero_model::paths::NodePaths;
use nero_model::{RunId, RunToken, SubmissionId};
use nero_node::agent::recover::remove_submission;
use nero_node::config;
use nero_node::launch::orders::grace_ms;
use nero_node::ledger::{Answer, Intent};
use nero_node::runs::spec;
use nero_node_core::Stage;
use nero_warden::group::Room;
use nero_warden::{Call, CallOutput, Order, SubmissionResult, Warden};
use tokio::time::Instant;

use super::make::{Folders, Group, Maker, ordered, shape};
use super::waiting::RowText;
use super::{Agent, Ask, Cluster, ClusterResult, Driver, Submission};

impl Cluster {
    /// The call of a submission whose intent is synced.
    pub(super) fn submit(&mut self, id: SubmissionId) -> Option<(Ask, Vec<Call>)> {
        let submission = self.submissions.get_mut(&id)?;
        let (order, script) = &**submission.order.as_ref()?;
        let call = self.warden.submit_call(order, script);
        submission.standing.sent();
        Some((Ask::Submit(id), vec![call]))
    }

    /// Takes in a run that was submitted before the restart: its folder decides, then
    /// its task.
    pub(super) fn restore_submitted(
        agent: &mut Agent<Self>,
        token: RunToken,
        kept: &nero_node::ledger::LedgerRun,
        needs: nero_node_core::capacity::Needs,
        newest: u32,
    ) {
        agent
            .core
            .restore_submitted(token, kept.id, kept.order, needs);
        if kept.cancel > 0 {
            agent.core.restore_cancelled(token);
        }
        let name = agent.driver.warden.name();
        let of_submission = if let Some((submission, _)) = agent.driver.task(&token)
            && let SubmissionState::Refused(why) = &submission.standing
        {
            Some(format!("{name} refused it: {why}"))
        } else {
            None
        };
        agent.restore_end(token, kept.exited.clone(), newest);
        if let Some(why) = kept.refused.clone().or(of_submission) {
            // It gives way to a claim.
            agent.core.turn_down(token, &why);
        }
        if newest > 0 {
            agent.look_and_decide(token, newest);
        }
    }

    /// Gives up submissions that the scheduler does not have, and of which every run is
    /// to end.
    pub(super) fn give_up_unwanted(agent: &mut Agent<Self>) {
        let submissions = agent.driver.submissions.values_mut();
        let given_up = submissions.filter_map(|one| one.give_up(&agent.core).then_some(one.id));
        let given_up: Vec<SubmissionId> = given_up.collect();
        for id in given_up {
            Self::came_before_its_end(agent, id);
            Self::note_standing(agent, id);
        }
    }

    /// Makes submissions of what waits, as far as the scheduler takes more.
    pub(super) fn make_submissions(agent: &mut Agent<Self>, now: Instant) {
        let waiting = agent.core.waiting();
        let can = |cluster: &Cluster| {
            let is_known = |room: Room| room.tasks == 0 || !cluster.wants_all(waiting, now);
            let is_busy = cluster.is_making || cluster.is_full;
            !is_busy && cluster.room(now).is_some_and(|(room, _)| is_known(room))
        };
        let waits = waiting > 0 && agent.core.held().is_none();
        if !waits || !can(&agent.driver) {
            return;
        }
        if let Some((why, pause)) = agent.must_wait() {
            agent.core.hold(&why);
            agent.timers.starts = Some(now + pause);
            return;
        }
        let cluster = &mut agent.driver;
        let Some((room, why)) = cluster.room(now) else {
            return;
        };
        if room.tasks == 0 {
            cluster.is_full = true;
            cluster.list_soon(now + cluster.list_pause);
            let waiting: Vec<RunToken> = agent.core.queue().collect();
            for token in waiting {
                agent.core.waits_for(token, &why);
            }
            return;
        }
        let is_ours = |token: &RunToken| !agent.entries.get(token).is_some_and(|one| one.adopted);
        let runs = agent
            .core
            .queue()
            .filter(is_ours)
            .take(config::HAND_OVER_MAX);
        let runs: Vec<(RunToken, RunId)> = runs
            .filter_map(|token| Some((token, agent.entries.get(&token)?.id)))
            .collect();
        let maker = Maker {
            paths: agent.setup.paths.clone(),
            deployment: agent.ledger.deployment(),
            node: cluster.setup.node.clone(),
            program: cluster.setup.program.clone(),
            min_free: agent.setup.min_free,
            warden: cluster.warden.clone(),
            room,
            running_left: cluster.running_left(),
        };
        if runs.is_empty() {
            return;
        }
        cluster.is_making = true;
        let lost = ClusterResult::Made(Box::default());
        agent.off_reactor_for_driver(lost, move || {
            ClusterResult::Made(Box::new(maker.make(&runs)))
        });
    }

    /// The folders are synced: notes the intents, whose runs must not be recalled
    /// from now on.
    pub(super) fn made(agent: &mut Agent<Self>, made: Folders) {
        agent.driver.is_making = false;
        if made.failed.is_none() && made.groups.is_empty() && made.refused.is_empty() {
            agent.hold_starts("the files of the runs that wait cannot be read now");
        }
        for (token, why) in &made.refused {
            agent.core.turn_down(*token, why);
        }
        for group in made.groups {
            Self::intend(agent, group);
        }
        if let Some(why) = made.failed {
            agent.hold_starts(&why);
        }
    }

    fn intend(agent: &mut Agent<Self>, group: Group) {
        let Group {
            plan,
            order,
            script,
        } = group;
        let id = plan.submission;
        let runs: Vec<RunToken> = plan
            .tasks
            .iter()
            .flat_map(|task| &task.runs)
            .map(|run| run.token)
            .collect();
        let waits = |token: &RunToken| {
            let run = agent.core.run(token);
            run.is_some_and(|run| run.stage == Stage::Waiting && !run.cancelled && !run.paused)
        };
        let files = Files::at(&agent.setup.paths.submission(&id));
        if !runs.iter().all(waits) {
            // One was recalled, cancelled or paused meanwhile: the rest is submitted anew.
            remove_submission(files.folder());
            return;
        }
        let intent = Intent {
            submission: id,
            tokens: runs.clone(),
            made_ms: nero_journal::Clocks::now().wall_ns / 1_000_000,
            answer: Answer::InDoubt,
        };
        if let Err(error) = agent.ledger.submission(&intent) {
            tracing::error!(?error, "the ledger does not take a submission");
            remove_submission(files.folder());
            agent.hold_starts("the disk does not take a submission");
            return;
        }
        for token in &runs {
            agent.core.submit(*token);
        }
        let cluster = &mut agent.driver;
        let tasks = plan.tasks.len() as u64;
        let is_alone = cluster.counted.is_some_and(|(_, own)| own.queued == 0);
        if let Some((_, own)) = &mut cluster.counted {
            own.queued += tasks;
            own.kept += tasks;
        }
        if let Some((_, all)) = &mut cluster.counted_all {
            *all += tasks;
        }
        let mut submission = Submission::of(&plan, files, order.name.clone());
        submission.made_ms = intent.made_ms;
        submission.is_alone = is_alone;
        submission.order = Some(Box::new((order, script)));
        cluster.add(submission);
        agent.sync_intent(id);
    }

    pub(super) fn submit_answered(
        agent: &mut Agent<Self>,
        id: SubmissionId,
        said: Option<&CallOutput>,
    ) {
        let cluster = &mut agent.driver;
        let answer = match said {
            Some(said) => cluster.warden.read_submit(said),
            None => SubmissionResult::Ambiguous("its task panicked".to_owned()),
        };
        tracing::info!(submission = %id, ?answer, "the scheduler answered");
        let not_sent = if let SubmissionResult::NotSent(why) = &answer {
            Some(why.clone())
        } else {
            None
        };
        let is_full = matches!(answer, SubmissionResult::Full(_));
        if matches!(answer, SubmissionResult::Accepted(_)) {
            cluster.at_most = cluster.at_most.map(|tasks| tasks.saturating_mul(2));
        }
        let Some(submission) = cluster.submissions.get_mut(&id) else {
            return;
        };
        submission.standing.answered(answer);
        if !is_full {
            cluster.hurry();
        }
        Self::note_standing(agent, id);
        match not_sent {
            Some(why) => Self::scheduler_fails(agent, &why),
            None => Self::scheduler_answers(agent),
        }
    }

    /// Records where a submission stands, and tells its runs.
    pub(super) fn note_standing(agent: &mut Agent<Self>, id: SubmissionId) {
        let cluster = &mut agent.driver;
        let name = cluster.warden.name();
        let Some(submission) = cluster.submissions.get_mut(&id) else {
            return;
        };
        let answer = intent(submission).answer;
        let is_array = submission.tasks.len() > 1;
        let tasks = submission.tasks.iter();
        let runs: Vec<(RunToken, u32)> = tasks
            .flat_map(|task| task.runs.iter().map(|run| (run.token, task.index)))
            .collect();
        let why = match &submission.standing {
            SubmissionState::Intended { why, .. } if why.is_empty() => String::new(),
            SubmissionState::Intended { why, .. } => {
                format!("{name} cannot be asked to take it, which is tried again: {why}")
            }
            SubmissionState::InDoubt(doubt) => {
                let why = in_doubt(&*cluster.warden, doubt);
                cluster.list_soon(Instant::now());
                why
            }
            SubmissionState::Accepted(job) => {
                submission.order = None;
                format!("in {name}'s queue as job {job}")
            }
            SubmissionState::Refused(why) => format!("{name} refused it: {why}"),
            SubmissionState::NotNow(why) => {
                let why = why.clone();
                Self::takes_no_more(agent, id, &why);
                return;
            }
        };
        let refused = matches!(answer, Answer::Refused(_));
        if answer != Answer::InDoubt
            && let Err(error) = agent.ledger.submitted(id, &answer)
        {
            // Without the record it is in doubt at the next start.
            tracing::warn!(?error, "the ledger does not take the scheduler's answer");
        }
        let is_task = is_array && matches!(answer, Answer::Job(_));
        for (token, index) in runs {
            match (refused, is_task) {
                (true, _) => agent.core.turn_down(token, &why),
                (false, true) => agent.core.waits_for(token, &format!("{why}_{index}")),
                (false, false) => agent.core.waits_for(token, &why),
            }
        }
    }

    /// The scheduler takes no more jobs: the runs wait here for another submission, of
    /// half as many tasks. Where not even one is taken into a queue without jobs of ours, a
    /// person is told: it may ask for too much, or other users may use up a limit.
    fn takes_no_more(agent: &mut Agent<Self>, id: SubmissionId, why: &str) {
        let cluster = &mut agent.driver;
        let name = cluster.warden.name().into_owned();
        let Some(submission) = cluster.submissions.get_mut(&id) else {
            return;
        };
        let tasks = submission.tasks.len() as u64;
        let is_alone = tasks == 1 && submission.is_alone;
        let answer = intent(submission).answer;
        let runs: Vec<RunToken> = submission.runs().map(|run| run.token).collect();
        cluster.at_most = Some((tasks / 2).max(1));
        // It was counted as taken.
        cluster.counted = None;
        if tasks == 1 {
            cluster.is_full = true;
            cluster.list_soon(Instant::now() + cluster.list_pause);
        }
        for token in &runs {
            cluster.of_run.remove(token);
        }
        if let Err(error) = agent.ledger.submitted(id, &answer) {
            // Without the record it is in doubt at the next start, and listed nowhere.
            tracing::warn!(?error, "the ledger does not take the scheduler's answer");
        }
        for token in &runs {
            agent.core.submit_again(*token);
        }
        let waits = format!(
            "waits for room in {name}'s queue, which takes no more jobs of yours now: {why} \
             (`max_queued:` of the node keeps below such a limit)"
        );
        let waiting: Vec<RunToken> = agent.core.queue().collect();
        for token in waiting {
            agent.core.waits_for(token, &waits);
        }
        if is_alone {
            let why = format!(
                "{name} does not take it now: {why}; no job of yours was in its queue: it asks for \
                 more than one job may have, or other users use up a limit; tried again"
            );
            for token in &runs {
                agent.core.waits_for_a_person(*token, &why);
            }
        }
        Cluster::forgot(agent);
    }

    pub(super) fn add(&mut self, mut submission: Submission) {
        let numbers = self.submissions.values().map(|one| one.number);
        submission.number = numbers.max().map_or(0, |last| last + 1);
        for task in &submission.tasks {
            for run in &task.runs {
                self.of_run.insert(run.token, (submission.id, task.index));
            }
        }
        self.submissions.insert(submission.id, submission);
    }

    pub(super) fn restore_submission(&mut self, intent: &Intent, paths: &NodePaths) {
        let files = Files::at(&paths.submission(&intent.submission));
        let (Ok(plan), Some(name)) = (
            files
                .read_plan()
                .inspect_err(|error| tracing::error!(%error, "the plan of a submission")),
            nero_warden::JobName::of(&intent.submission.to_string()),
        ) else {
            return;
        };
        let mut submission = Submission::of(&plan, files, name);
        submission.made_ms = intent.made_ms;
        submission.is_synced = true;
        submission.standing = match &intent.answer {
            // No call is ever made for it.
            Answer::InDoubt if plan.adopted.is_some() => submission.standing,
            Answer::InDoubt => SubmissionState::recovered(),
            Answer::Job(job) => SubmissionState::Accepted(nero_warden::JobId(*job)),
            Answer::Refused(why) => SubmissionState::Refused(why.clone()),
            Answer::NotNow(why) => SubmissionState::NotNow(why.clone()),
        };
        self.add(submission);
    }

    /// Makes the order of each submission anew that is to be submitted again; returns
    /// what the runs are told of which it cannot be made.
    pub(super) fn order_again(&mut self, paths: &NodePaths) -> Vec<(RunToken, RowText)> {
        let is_missing = |one: &Submission| one.order.is_none() && one.standing.is_intended();
        let missing = self.submissions.values().filter(|one| is_missing(one));
        let made: Vec<_> = missing
            .map(|one| (one.id, self.ordered_again(one, paths)))
            .collect();
        let name = self.warden.name();
        let mut failed = Vec::new();
        for (id, order) in made {
            let Some(submission) = self.submissions.get_mut(&id) else {
                continue;
            };
            match order {
                Ok(order) => submission.order = Some(Box::new(order)),
                Err(why) => {
                    let why =
                        format!("{name} does not have it, and it cannot be submitted again: {why}");
                    tracing::warn!(submission = %id, why, "stays here");
                    let why = RowText::waiting(why);
                    failed.extend(submission.runs().map(|run| (run.token, why.clone())));
                }
            }
        }
        failed
    }

    fn ordered_again(
        &self,
        submission: &Submission,
        paths: &NodePaths,
    ) -> Result<(Order, String), String> {
        let first = submission.runs().next().ok_or("it has no run")?;
        let spec = spec::read(paths, first.id, first.token);
        let spec = spec.map_err(|error| error.file.to_string())?;
        let asked = TaskRequest::of(&spec, grace_ms(&spec), &*self.warden)
            .map_err(|why| why.to_string())?;
        let runs = submission.tasks.iter().map(|task| task.runs.len());
        let limit = self.setup.front.settings().max_running;
        let shape = shape(runs, limit.map(|max| max.min(submission.at_once)));
        // The script is the one that was made.
        let job = (&*self.setup.program, 0);
        let order = ordered(&asked, &submission.id, shape, paths, job);
        let order = order.ok_or("its id is no name of a job")?;
        let script = submission.files.folder().join("script");
        let script = std::fs::read_to_string(&script)
            .map_err(|error| format!("{}: {error}", script.display()))?;
        Ok((order, script))
    }

    /// Sees which calls of an earlier neromum are over, before a listing is asked for.
    pub(super) fn see_calls_left_behind(&mut self) {
        for submission in self.submissions.values_mut() {
            if submission.standing.may_be_called() && submission.files.is_call_over() {
                submission.standing.call_is_over();
            }
        }
    }
}

/// The same where no listing can tell.
fn in_doubt_for_good(name: &str, doubt: &Doubt) -> String {
    let said = match &*doubt.why {
        "" => String::new(),
        why => format!(" ({why})"),
    };
    format!(
        "it is not known whether {name} took it{said}, and its list shows no names: it is not \
         submitted again; if it is not there, abort the run, then start it again"
    )
}

/// Calls without an answer that tells anything, after which a person is asked: minutes.
const CALLS_ALONE: u32 = 4;

/// Whether a person has to look why it is not known whether a submission was accepted.
pub(super) fn needs_person(warden: &dyn Warden, doubt: &Doubt) -> bool {
    !warden.shows_names() || doubt.calls >= CALLS_ALONE
}

/// Why it is not known whether a submission was accepted, for people.
pub(super) fn in_doubt(warden: &dyn Warden, doubt: &Doubt) -> String {
    let name = &*warden.name();
    if !warden.shows_names() {
        return in_doubt_for_good(name, doubt);
    }
    let said = match &*doubt.why {
        "" => String::new(),
        why => format!(": {why}"),
    };
    let calls = match doubt.calls {
        0 | 1 => String::new(),
        calls => format!(
            " (submitted {calls} times; tried again with longer and longer pauses; abort the run to \
             end that)"
        ),
    };
    let what = match doubt.missed_ms {
        Some(_) => format!(
            "its queue does not show it; submitted again when that stays so for {} s",
            doubt.apart_ms / 1000
        ),
        None => "its queue is asked".to_owned(),
    };
    format!("it is not known yet whether {name} took it{said}{calls}; {what}")
}

/// What the ledger has of a submission.
pub(super) fn intent(one: &Submission) -> Intent {
    Intent {
        submission: one.id,
        tokens: one.runs().map(|run| run.token).collect(),
        made_ms: one.made_ms,
        answer: match &one.standing {
            SubmissionState::Intended { .. } | SubmissionState::InDoubt(_) => Answer::InDoubt,
            SubmissionState::Accepted(job) => Answer::Job(job.0),
            SubmissionState::Refused(why) => Answer::Refused(why.clone()),
            SubmissionState::NotNow(why) => Answer::NotNow(why.clone()),
        },
    }
}
