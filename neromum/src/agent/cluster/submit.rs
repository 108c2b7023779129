//! From the queue to the scheduler, in steps of which each can be the last: plan
//! and script, synced; the ledger's intent, synced; the call; its answer in the
//! ledger. A neromum that comes later goes on from the intent: without an answer
//! the submission is in doubt, and listings tell whether it was made.

use std::io;
use std::path::Path;

use nero_model::paths::NodePaths;
use nero_model::{DeploymentId, RunId, RunToken, SubmissionId};
use nero_warden::group::{Room, Waiting, group};
use nero_warden::standing::{Doubt, Standing};
use nero_warden::{Call, Order, Said, Submitted, Warden};
use tokio::time::Instant;

use super::{Agent, Ask, COUNT_FRESH, Cluster, Done, Submission, Task};
use crate::config;
use crate::core::Stage;
use crate::ledger::{Answer, Intent, LedgerState};
use crate::runs::spec;
use crate::submission::{self, Files, Plan, Planned};
use crate::warden::asked::Asked;

/// Submissions whose folders are made.
#[derive(Debug, Default)]
pub(in crate::agent) struct Made {
    groups: Vec<Group>,
    /// Runs that cannot be submitted, with the reason.
    refused: Vec<(RunToken, String)>,
    /// The disk's word when it refused.
    failed: Option<String>,
}

/// A submission in its folder.
#[derive(Debug)]
struct Group {
    plan: Plan,
    order: Order,
    script: String,
}

/// What makes submissions, off the reactor.
struct Maker {
    paths: NodePaths,
    deployment: DeploymentId,
    node: String,
    program: std::path::PathBuf,
    warden: std::sync::Arc<dyn Warden>,
    room: Room,
    at_once: Option<u32>,
}

impl Maker {
    fn make(&self, runs: &[(RunToken, RunId)]) -> Made {
        let mut made = Made::default();
        let mut waiting = Vec::new();
        for (token, id) in runs {
            let planned = Planned {
                token: *token,
                id: *id,
                closed: 0,
            };
            match spec::read(&self.paths, *id, *token) {
                Ok(spec) => match Asked::of(&spec, &*self.warden) {
                    Ok(asked) => waiting.push(Waiting {
                        run: planned,
                        resources: asked.resources,
                        fields: asked.fields,
                        setup: asked.setup,
                        pack: 1,
                        at_once: self.at_once,
                    }),
                    Err(why) => made.refused.push((*token, why.to_string())),
                },
                Err(error) if error.may_pass => {}
                Err(error) => made.refused.push((*token, error.file.to_string())),
            }
        }
        for group in group(waiting, self.room) {
            match self.make_one(&group.like, &group.tasks) {
                Ok(Ok(group)) => made.groups.push(group),
                Ok(Err(why)) => {
                    let runs = group.tasks.iter().flatten();
                    made.refused
                        .extend(runs.map(|run| (run.token, why.clone())));
                }
                Err(error) => {
                    made.failed = Some(format!("a submission cannot be written: {error}"));
                    break;
                }
            }
        }
        made
    }

    fn make_one(
        &self,
        like: &Waiting<Planned>,
        tasks: &[Vec<Planned>],
    ) -> io::Result<Result<Group, String>> {
        let id = SubmissionId::random();
        let asked = Asked {
            resources: like.resources.clone(),
            fields: like.fields.clone(),
            setup: like.setup.clone(),
        };
        let order = ordered(
            &asked,
            &id,
            tasks.len(),
            like.at_once,
            &self.paths,
            &self.program,
        );
        let order = order.ok_or_else(|| io::Error::other("its id is no name of a job"))?;
        let script = match self.warden.script(&order) {
            Ok(script) => script,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let first = match tasks.len() {
            1 => 0,
            _ => self.warden.first_index(),
        };
        let tasks = (first..).zip(tasks);
        let plan = Plan {
            submission: id,
            deployment: self.deployment,
            node: self.node.clone(),
            root: self.paths.root().to_path_buf(),
            beat: crate::lease::BEAT,
            tasks: tasks
                .map(|(index, runs)| submission::Task {
                    index,
                    runs: runs.clone(),
                })
                .collect(),
        };
        Files::at(&self.paths.submission(&id)).make(&plan, &script)?;
        Ok(Ok(Group {
            plan,
            order,
            script,
        }))
    }
}

impl Cluster {
    /// Whether the number of this user's jobs is known well enough to submit more.
    pub(super) fn is_counted(&self, now: Instant) -> bool {
        let counted = self.counted.map(|(at, _)| now.duration_since(at));
        counted.is_some_and(|age| age < COUNT_FRESH)
    }

    /// The call of a submission whose intent is synced.
    pub(super) fn submit(&mut self, id: SubmissionId) -> Option<(Ask, Vec<Call>)> {
        let submission = self.submissions.get_mut(&id)?;
        let (order, script) = &**submission.order.as_ref()?;
        let call = self.warden.submit_call(order, script);
        submission.standing.sent();
        Some((Ask::Submit(id), vec![call]))
    }
}

impl Agent {
    /// Takes in the submissions of the ledger, before its runs.
    pub(in crate::agent) fn restore_submissions(&mut self, state: &LedgerState) {
        let folders = self.setup.paths.mum().join("submissions");
        if let Some(cluster) = &mut self.cluster {
            for intent in &state.submissions {
                cluster.restore(intent, &self.setup.paths);
            }
            if !cluster.submissions.is_empty() {
                cluster.hurry();
            }
        }
        if state.damaged.is_empty() {
            let known = state.submissions.iter();
            let known: Vec<String> = known.map(|one| one.submission.to_string()).collect();
            tokio::task::spawn_blocking(move || sweep(&folders, &known));
        }
    }

    /// Takes in a run that was submitted before the restart: its folder decides, then
    /// its task.
    pub(in crate::agent) fn restore_submitted(
        &mut self,
        token: RunToken,
        kept: &crate::ledger::Kept,
        needs: crate::core::capacity::Needs,
        newest: u32,
    ) {
        self.core
            .restore_submitted(token, kept.id, kept.order, needs);
        if kept.cancel > 0 {
            self.core.restore_cancelled(token);
        }
        let refused = self.cluster.as_ref().and_then(|cluster| {
            let (submission, _) = cluster.task(&token)?;
            match &submission.standing {
                Standing::Refused(why) => {
                    Some(format!("{} refused it: {why}", cluster.warden.name()))
                }
                Standing::Intended { .. } | Standing::InDoubt(_) | Standing::Accepted(_) => None,
            }
        });
        let has_no_order = self.cluster.as_ref().is_some_and(|cluster| {
            let task = cluster.task(&token);
            task.is_some_and(|(one, _)| one.job().is_none() && one.order.is_none())
        });
        if has_no_order && refused.is_none() {
            let why = "whether its scheduler has it is not known, and its script or spec cannot be read to ask again";
            self.core.waits_for(token, why);
        }
        self.restore_end(token, kept.exited.clone(), newest);
        if newest > 0 {
            self.look_and_decide(token, newest);
        } else if let Some(why) = refused {
            self.core.turn_down(token, &why);
        }
    }

    /// Makes submissions of what waits, as far as the scheduler takes more.
    pub(super) fn make_submissions(&mut self, now: Instant) {
        let can = |cluster: &Cluster| {
            cluster.site.is_some() && cluster.is_counted(now) && !cluster.is_making
        };
        let waits = self.core.waiting() > 0 && self.core.held().is_none();
        if !waits || !self.cluster.as_ref().is_some_and(can) {
            return;
        }
        if let Some((why, pause)) = self.must_wait() {
            self.core.hold(&why);
            self.timers.starts = Some(now + pause);
            return;
        }
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        let (Some((_, site)), Some((_, own))) = (&cluster.site, cluster.counted) else {
            return;
        };
        let settings = cluster.setup.front.settings();
        let room = Room::left(site, settings.max_queued, own, None);
        if room.tasks == 0 {
            let why = format!(
                "waits for room in {}'s queue: {own} jobs of yours are in it",
                cluster.warden.name()
            );
            cluster.list_soon(now + cluster.list_pause);
            let waiting: Vec<RunToken> = self.core.queue().collect();
            for token in waiting {
                self.core.waits_for(token, &why);
            }
            return;
        }
        let most = usize::try_from(room.tasks).unwrap_or(usize::MAX);
        let runs = self.core.queue().take(most.min(config::HAND_OVER_MAX));
        let runs: Vec<(RunToken, RunId)> = runs
            .filter_map(|token| Some((token, self.entries.get(&token)?.id)))
            .collect();
        let maker = Maker {
            paths: self.setup.paths.clone(),
            deployment: self.ledger.deployment(),
            node: cluster.setup.node.clone(),
            program: cluster.setup.program.clone(),
            warden: cluster.warden.clone(),
            room,
            at_once: settings.max_running,
        };
        cluster.is_making = true;
        let lost = Done::Made(Box::default());
        self.off_reactor(lost, move || Done::Made(Box::new(maker.make(&runs))));
    }

    /// The folders are synced: notes the intents, whose runs must not be recalled
    /// from now on.
    pub(in crate::agent) fn made(&mut self, made: Made) {
        if let Some(cluster) = &mut self.cluster {
            cluster.is_making = false;
        }
        if made.failed.is_none() && made.groups.is_empty() && made.refused.is_empty() {
            self.hold_starts("the files of the runs that wait cannot be read now");
        }
        for (token, why) in &made.refused {
            self.core.turn_down(*token, why);
        }
        for group in made.groups {
            self.intend(group);
        }
        if let Some(why) = made.failed {
            self.hold_starts(&why);
        }
    }

    fn intend(&mut self, group: Group) {
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
            let run = self.core.run(token);
            run.is_some_and(|run| run.stage == Stage::Waiting && !run.cancelled)
        };
        let files = Files::at(&self.setup.paths.submission(&id));
        if !runs.iter().all(waits) {
            // One was recalled or cancelled meanwhile: the rest is submitted anew.
            remove(files.folder());
            return;
        }
        let intent = Intent {
            submission: id,
            tokens: runs.clone(),
            made_ms: nero_journal::Clocks::now().wall_ns / 1_000_000,
            answer: Answer::InDoubt,
        };
        if let Err(error) = self.ledger.submission(&intent) {
            tracing::error!(?error, "the ledger does not take a submission");
            remove(files.folder());
            self.hold_starts("the disk does not take a submission");
            return;
        }
        for token in &runs {
            self.core.submit(*token);
        }
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        if let Some((_, own)) = &mut cluster.counted {
            *own += plan.tasks.len() as u64;
        }
        let mut submission = Submission::of(&plan, files, order.name.clone());
        submission.made_ms = intent.made_ms;
        submission.order = Some(Box::new((order, script)));
        cluster.add(submission);
        self.sync_intent(id);
    }

    /// The intents are synced: from now on the scheduler may be called.
    pub(in crate::agent) fn intended(&mut self, ids: &[SubmissionId]) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        for id in ids {
            if let Some(submission) = cluster.submissions.get_mut(id) {
                submission.is_synced = true;
            }
        }
    }

    pub(super) fn submit_answered(&mut self, id: SubmissionId, said: Option<&Said>) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        let answer = match said {
            Some(said) => cluster.warden.read_submit(said),
            None => Submitted::Ambiguous("its task panicked".to_owned()),
        };
        tracing::info!(submission = %id, ?answer, "the scheduler answered");
        let not_sent = match &answer {
            Submitted::NotSent(why) => Some(why.clone()),
            Submitted::Accepted(_) | Submitted::Refused(_) | Submitted::Ambiguous(_) => None,
        };
        let Some(submission) = cluster.submissions.get_mut(&id) else {
            return;
        };
        submission.standing.answered(answer);
        cluster.hurry();
        self.note_standing(id);
        match not_sent {
            Some(why) => self.scheduler_fails(&why),
            None => self.scheduler_answers(),
        }
    }

    /// Records where a submission stands, and tells its runs.
    pub(super) fn note_standing(&mut self, id: SubmissionId) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        let name = cluster.warden.name();
        let Some(submission) = cluster.submissions.get_mut(&id) else {
            return;
        };
        let answer = submission.intent().answer;
        let runs: Vec<RunToken> = submission
            .tasks
            .iter()
            .flat_map(|task| &task.runs)
            .map(|run| run.token)
            .collect();
        let why = match &submission.standing {
            Standing::Intended { .. } => String::new(),
            Standing::InDoubt(doubt) => {
                let why = in_doubt(name, doubt);
                cluster.list_soon(Instant::now());
                why
            }
            Standing::Accepted(job) => {
                submission.order = None;
                format!("in {name}'s queue as job {job}")
            }
            Standing::Refused(why) => format!("{name} refused it: {why}"),
        };
        let refused = matches!(answer, Answer::Refused(_));
        if answer != Answer::InDoubt
            && let Err(error) = self.ledger.submitted(id, &answer)
        {
            // Without the record it is in doubt at the next start.
            tracing::warn!(?error, "the ledger does not take the scheduler's answer");
        }
        for token in runs {
            match refused {
                true => self.core.turn_down(token, &why),
                false => self.core.waits_for(token, &why),
            }
        }
    }
}

impl Cluster {
    fn add(&mut self, submission: Submission) {
        for task in &submission.tasks {
            for run in &task.runs {
                self.of_run.insert(run.token, (submission.id, task.index));
            }
        }
        self.submissions.insert(submission.id, submission);
    }

    fn restore(&mut self, intent: &Intent, paths: &NodePaths) {
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
            Answer::InDoubt => Standing::recovered(),
            Answer::Job(job) => Standing::Accepted(nero_warden::JobId(*job)),
            Answer::Refused(why) => Standing::Refused(why.clone()),
        };
        if intent.answer == Answer::InDoubt {
            submission.order = self.order_again(&plan, &submission.files, paths);
        }
        self.add(submission);
    }

    /// The order of a submission in doubt, once more.
    fn order_again(
        &self,
        plan: &Plan,
        files: &Files,
        paths: &NodePaths,
    ) -> Option<Box<(Order, String)>> {
        let first = plan.tasks.first()?.runs.first()?;
        let spec = spec::read(paths, first.id, first.token).ok()?;
        let at_once = self.setup.front.settings().max_running;
        let asked = Asked::of(&spec, &*self.warden).ok()?;
        let count = plan.tasks.len();
        let program = &self.setup.program;
        let order = ordered(&asked, &plan.submission, count, at_once, paths, program)?;
        let script = std::fs::read_to_string(files.folder().join("script")).ok()?;
        Some(Box::new((order, script)))
    }
}

/// Why it is not known whether a submission was accepted, for people.
fn in_doubt(name: &str, doubt: &Doubt) -> String {
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
    format!("it is not known yet whether {name} took it{said}{calls}")
}

/// The order of a submission of `tasks` tasks that ask the same.
fn ordered(
    asked: &Asked,
    id: &SubmissionId,
    tasks: usize,
    at_once: Option<u32>,
    paths: &NodePaths,
    program: &Path,
) -> Option<Order> {
    let name = nero_warden::JobName::of(&id.to_string())?;
    let array = (tasks > 1).then(|| u32::try_from(tasks).unwrap_or(u32::MAX));
    let mut order = asked.order(name, array, program, &paths.submission(id));
    order.at_once = at_once.filter(|_| array.is_some());
    Some(order)
}

impl Submission {
    fn of(plan: &Plan, files: Files, name: nero_warden::JobName) -> Self {
        let tasks = plan.tasks.iter();
        Self {
            id: plan.submission,
            name,
            files,
            tasks: tasks
                .map(|task| Task::new(task.index, task.runs.clone()))
                .collect(),
            standing: Standing::NEW,
            is_synced: false,
            made_ms: 0,
            order: None,
            news: std::collections::HashSet::new(),
            twins: Vec::new(),
            has_vanished: false,
            accounted: None,
            rows: Vec::new(),
        }
    }
}

/// Removes folders of submissions that the ledger does not name: they were made and
/// not intended, or are closed.
fn sweep(folders: &Path, known: &[String]) {
    for entry in std::fs::read_dir(folders).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name
            .to_str()
            .is_some_and(|name| known.iter().all(|one| one != name))
        {
            remove(&entry.path());
        }
    }
}

fn remove(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder) {
        tracing::warn!(folder = %folder.display(), %error, "the folder of a submission stays");
    }
}
