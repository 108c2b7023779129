//! The next question for the scheduler, one at a time, and what its answer changes.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use nero_cluster::submission::Files;
use nero_model::SubmissionId;
use nero_node::agent::handle::WorkResult;
use nero_node::staging::environment::{local_user, user_in};
use nero_warden::{AdoptedJobState, Call, CallOutput, End, JobKey, JobName, Queue, Unreadable};
use tokio::time::Instant;

use super::results::{Ask, ClusterResult, CommandAnswers};
use super::watch::job_that_began;
use super::{Agent, Cluster, LIST_APART, PAUSES, SITE_FRESH, Submission};
use crate::warden::front::Front;

impl Cluster {
    /// The question for the queue.
    pub(super) fn list(&mut self, now: Instant) -> (Ask, Vec<Call>) {
        self.see_calls_left_behind();
        let names: Vec<&JobName> = self.submissions.values().map(|one| &one.name).collect();
        let mut calls = self.warden.queue_calls(&names);
        self.queue_answers = calls.len();
        let adopted = self.adopted();
        let has_asked_adopted = !adopted.is_empty();
        if has_asked_adopted {
            calls.extend(self.warden.adopted_calls(&adopted));
        }
        self.has_asked_adopted = has_asked_adopted;
        (Ask::List(now), calls)
    }

    /// Does what needs no command; returns the command that is due.
    pub(super) fn due_ask(agent: &mut Agent<Self>) -> Option<(Ask, Vec<Call>)> {
        let now = Instant::now();
        Self::take_in_adopted(agent);
        Self::look_at_news(agent, now);
        Self::give_up_unwanted(agent);
        Self::make_submissions(agent, now);
        Self::note_overdue(agent, now);
        let cluster = &agent.driver;
        if cluster.is_asking || cluster.is_paused(now) || agent.leaving.is_some() {
            return None;
        }
        Self::next_ask(agent, now)
    }

    /// Sets the time of the next turn for the scheduler.
    pub(super) fn time_cluster(agent: &mut Agent<Self>) {
        let now = Instant::now();
        let overdue = Self::next_overdue(agent, now);
        let is_open = Self::has_to_ask(agent);
        let cluster = &agent.driver;
        // A turn before that asks for nothing, and the next turn would follow at once.
        let may_list = cluster.counted.map_or(now, |(at, _)| at + LIST_APART);
        let list_at = cluster.list_at.map(|at| at.max(may_list));
        let mut due = [
            list_at.filter(|_| is_open && !cluster.is_asking),
            cluster
                .look_at
                .filter(|_| !cluster.submissions.is_empty() && !cluster.is_looking),
            overdue,
        ];
        if cluster.is_paused(now) {
            due[0] = cluster.paused;
        }
        agent.timers.driver = due.into_iter().flatten().min();
    }

    /// Whether the queue tells anything: runs wait, or may begin or end at the scheduler.
    fn has_to_ask(agent: &Agent<Self>) -> bool {
        let mut submissions = agent.driver.submissions.values();
        agent.core.waiting() > 0 || submissions.any(|one| one.is_awaited(&agent.core))
    }

    /// The next command, in the order in which things must not wait.
    pub(super) fn next_ask(agent: &mut Agent<Self>, now: Instant) -> Option<(Ask, Vec<Call>)> {
        let (waits, has_open) = (agent.core.waiting() > 0, Self::has_to_ask(agent));
        Self::drop_requests_of_ended_runs(agent);
        let cluster = &mut agent.driver;
        let twins = cluster.cancel_twins();
        if !twins.is_empty() {
            tracing::warn!(?twins, "the scheduler has submissions more than once");
            return Some((Ask::Tell, twins));
        }
        let listed = cluster.counted.map(|(at, _)| at);
        let may_list = listed.is_none_or(|at| now.duration_since(at) >= LIST_APART);
        if let Some(ask) = Self::end_tasks(agent, now) {
            return Some(ask);
        }
        let cluster = &mut agent.driver;
        // A submission whose start left a record has a job already: the next listing names it.
        let is_due = |one: &&Submission| one.is_due() && job_that_began(one).is_none();
        let due = cluster.submissions.values().find(is_due);
        if let Some(id) = due.map(|one| one.id) {
            return cluster.submit(id);
        }
        let is_old = |at: &Instant| now.duration_since(*at) >= SITE_FRESH;
        if waits && cluster.site.as_ref().is_none_or(|(at, _)| is_old(at)) {
            return Some((Ask::Site, Vec::new()));
        }
        if !cluster.rings.is_empty() {
            if let Some(calls) = cluster.ring(now) {
                if let Some(call) = calls {
                    return Some((Ask::Tell, vec![call]));
                }
            } else {
                cluster.list_soon(listed.map_or(now, |at| at + LIST_APART));
            }
        }
        if !cluster.holds.is_empty() {
            if let Some(calls) = Self::hold(agent, now) {
                return Some((Ask::Tell, calls));
            }
            Self::list_for_holds(agent, now);
        }
        let cluster = &mut agent.driver;
        let open = cluster.submissions.values();
        let vanished: Vec<SubmissionId> = open
            .filter(|one| one.has_vanished)
            .map(|one| one.id)
            .collect();
        if !vanished.is_empty() {
            return Some((Ask::Start(vanished, now), cluster.warden.uptime_calls()));
        }
        let is_due = cluster.list_at.is_some_and(|at| at <= now);
        let may_submit = waits && agent.core.held().is_none();
        if may_submit && cluster.wants_all(agent.core.waiting(), now) {
            return Some((Ask::Count(now), cluster.warden.count_calls()));
        }
        let is_counted = cluster.is_counted(now) || cluster.is_full;
        let count = waits && !is_counted && !cluster.is_making;
        if may_list && (count || is_due && has_open) {
            return Some(cluster.list(now));
        }
        Self::ends_to_ask(agent)
    }

    /// The command for tasks that are to end, or the listing that it needs before.
    fn end_tasks(agent: &mut Agent<Self>, now: Instant) -> Option<(Ask, Vec<Call>)> {
        let cluster = &mut agent.driver;
        let all = cluster.submissions.values();
        let mut to_end = all.map(|one| one.tasks_to_end(now.into_std(), &agent.core));
        if to_end.all(|tasks| tasks.is_empty()) {
            return None;
        }
        let may_list_at = cluster.counted.map_or(now, |(at, _)| at + LIST_APART);
        match cluster.cancel(&agent.core, now) {
            Some(calls) if !calls.is_empty() => {
                cluster.list_soon(now + LIST_APART);
                let escalated = std::mem::take(&mut cluster.escalated);
                Self::tell_escalated(agent, &escalated);
                return Some((Ask::Tell, calls));
            }
            None if may_list_at <= now => return Some(cluster.list(now)),
            Some(_) | None => cluster.list_soon(may_list_at),
        }
        None
    }

    pub(super) fn ask(agent: &mut Agent<Self>, ask: Ask, calls: Vec<Call>) {
        let cluster = &mut agent.driver;
        cluster.is_asking = true;
        let front = cluster.setup.front.clone();
        let of_call = if let Ask::Submit(id) = &ask {
            cluster.submissions.get(id).map(|one| one.files.clone())
        } else {
            None
        };
        let lost = WorkResult::Driver(ClusterResult::Asked(Box::new(CommandAnswers {
            ask: ask.clone(),
            said: Vec::new(),
            site: None,
            users: HashMap::new(),
        })));
        let report = agent.work_report(lost);
        #[expect(
            clippy::disallowed_methods,
            reason = "the drop of `report` tells the agent its end, whatever ended it"
        )]
        tokio::spawn(async move {
            let mut said = Vec::with_capacity(calls.len());
            let mut site = None;
            if matches!(ask, Ask::Site) {
                site = Some(front.site().await);
            }
            for call in &calls {
                let lock = of_call.as_ref().map(Files::lock_for_a_call).transpose();
                let lock = lock.map_err(|error| format!("its script: {error}"));
                said.push(match (front.runner().await, lock) {
                    (Ok(runner), Ok(Some(lock))) => runner.submit(call, lock).await,
                    (Ok(runner), Ok(None)) => runner.run(call).await,
                    (Err(why), _) | (_, Err(why)) => CallOutput {
                        end: End::NotExecuted(why),
                        out: Vec::new(),
                        err: Vec::new(),
                    },
                });
                if said.last().is_some_and(|last| last.end == End::TimedOut) {
                    // Each of the others would hold up everything for as long.
                    break;
                }
            }
            let users = if matches!(ask, Ask::Ends(_)) {
                named(&front, &said).await
            } else {
                HashMap::new()
            };
            report.end(WorkResult::Driver(ClusterResult::Asked(Box::new(
                CommandAnswers {
                    ask,
                    said,
                    site,
                    users,
                },
            ))));
        });
    }

    pub(super) fn answered(agent: &mut Agent<Self>, answered: CommandAnswers) {
        let cluster = &mut agent.driver;
        cluster.is_asking = false;
        let CommandAnswers {
            ask,
            said,
            site,
            users,
        } = answered;
        cluster.users.extend(users);
        let heard = match ask {
            Ask::Site => match site {
                Some(Ok(site)) => {
                    if let Some(warden) = cluster.warden.knowing(&site) {
                        cluster.warden = warden;
                    }
                    cluster.site = Some((Instant::now(), site));
                    Ok(())
                }
                Some(Err(why)) => Err(why),
                None => Err("its task panicked".to_owned()),
            },
            Ask::Submit(id) => {
                Self::submit_answered(agent, id, said.first());
                return;
            }
            Ask::List(at) => {
                let heard = cluster.read_queue(&said);
                let heard = heard.map(|(queue, seen)| Self::listed(agent, at, &queue, &seen));
                heard.map_err(|error| error.to_string())
            }
            Ask::Count(at) => {
                let count = cluster.warden.read_count(&said);
                let heard = count.map(|count| cluster.counted_all = Some((at, count)));
                heard.map_err(|error| error.to_string())
            }
            Ask::Ends(ids) => {
                Self::ends_answered(agent, &ids, &said);
                return;
            }
            Ask::Start(ids, at) => {
                let up_s = cluster.warden.read_uptime(&said);
                // Its two moments are whole seconds, and by now it has been up for longer.
                let more = ROUNDED + at.elapsed();
                let up_max = |up_s| Duration::from_secs(up_s).saturating_add(more);
                let up = up_s.map(|up_s| up_s.map(up_max));
                let heard = up.map(|up_max| Self::controller_is_up(agent, &ids, up_max));
                heard.map_err(|error| error.to_string())
            }
            Ask::Tell => return,
        };
        match heard {
            Ok(()) => Self::scheduler_answers(agent),
            Err(why) => Self::scheduler_fails(agent, &why),
        }
    }

    /// Reads the answers to the question for the queue.
    fn read_queue(
        &mut self,
        said: &[CallOutput],
    ) -> Result<(Queue, Vec<AdoptedJobState>), Unreadable> {
        let known = self.submissions.values().map(Submission::known);
        let known: Vec<JobKey<'_>> = known.collect();
        let (said, more) = said.split_at(self.queue_answers.min(said.len()));
        let queue = self.warden.read_queue(said, &known);
        let adopted = self.adopted();
        let sightings = if self.has_asked_adopted {
            self.warden.read_adopted(said, more, &adopted)
        } else {
            Ok(Vec::new())
        };
        if queue.is_err()
            && let Some(plain) = self.warden.without_json(said)
        {
            tracing::info!("the scheduler is built without JSON: asked for plain rows");
            self.warden = plain;
        }
        Ok((queue?, sightings?))
    }

    pub(super) fn scheduler_answers(agent: &mut Agent<Self>) {
        let cluster = &mut agent.driver;
        cluster.pause = PAUSES.0;
        if cluster.paused.take().is_some() {
            agent.core.release();
        }
    }

    /// Pauses the whole cluster: a scheduler that does not answer is no fault of
    /// any run.
    pub(super) fn scheduler_fails(agent: &mut Agent<Self>, why: &str) {
        let cluster = &mut agent.driver;
        tracing::warn!(why, "the scheduler does not answer");
        cluster.paused = Some(Instant::now() + cluster.pause);
        cluster.pause = (cluster.pause * 2).min(PAUSES.1);
        let why = format!("{} does not answer: {why}", cluster.warden.name());
        agent.core.hold(&why);
    }
}

/// Users whose names are asked for at once.
const USERS_MAX: usize = 50;

/// What the difference of two moments in whole seconds leaves out.
const ROUNDED: Duration = Duration::from_secs(1);

/// Names of users who cancelled jobs, of those that are not in this host's own list: a
/// directory of the site (LDAP) may have them.
async fn named(front: &Front, said: &[CallOutput]) -> HashMap<u32, String> {
    let by = front.warden().cancellers(said).into_iter();
    let unknown = by.filter(|uid| local_user(*uid).is_none());
    let unknown: BTreeSet<u32> = unknown.take(USERS_MAX).collect();
    let runner = if unknown.is_empty() {
        None
    } else {
        front.runner().await.ok()
    };
    let Some(runner) = runner else {
        return HashMap::new();
    };
    let mut call = Call::new("getent", ["passwd"]);
    call.words
        .extend(unknown.iter().map(|uid| uid.to_string().into()));
    let said = runner.run(&call).await;
    let name = |uid: u32| Some((uid, user_in(&said.out, uid)?));
    unknown.into_iter().filter_map(name).collect()
}
