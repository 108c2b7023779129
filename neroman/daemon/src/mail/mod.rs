//! Tells people by mail, webhook and command what notices hold.
//!
//! [`run`] is the one task that sends. It plans and composes (`nero_notices`), has the ledger sync
//! the bytes, sends, and has the ledger record what came of it. A daemon that dies in between
//! sends the same bytes once more. docs/design/mail.md has the states.

mod curves;
mod output;
mod reach;
mod relay;
mod watching;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use nero_config::Config;
use nero_life::change::Change;
use nero_life::notices::{Delivery, DeliveryWay, PostChange, SendResult};
use nero_life::state::State;
use nero_model::{DeploymentId, Home};
use nero_notices::{
    ComposedDelivery, Envelope, LetterSources, MailPlan, PlanTime, is_notified, plan,
    retry_changes, settings,
};
use tokio::task::JoinSet;

use curves::DigestCurves;
use nero_home::clock::Clock;
use nero_home::failure::Failure;
use nero_home::ledger::{Audience, Ledger};
use nero_link::node::{NodeNow, NodeStates, Nodes};
use output::stderr_end;
pub(crate) use relay::RelayDesk;
pub(crate) use watching::watching;

/// A wall clock that was set, or a sleep of this machine, is noticed after this long.
const LOOK_AGAIN: Duration = Duration::from_secs(300);
/// The task looks at news later by this much for each notice that waits, as each look plans over
/// all of them.
const PAUSE_EACH: Duration = Duration::from_micros(250);
/// News waits at most so long.
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// The pause after the ledger refused a change.
const REFUSED: Duration = Duration::from_secs(10);

/// Everything that the task works with.
#[derive(Clone, Debug)]
pub(crate) struct MailDesk {
    pub home: Home,
    pub ledger: Ledger,
    pub nodes: Nodes,
    pub clock: Clock,
    pub deployment: DeploymentId,
}

/// Works until the daemon stops, which drops it.
pub(crate) async fn run(desk: MailDesk) {
    let mut notices = desk.ledger.watch(Audience::Notices);
    let mut runs = desk.ledger.watch(Audience::Runs);
    let mut nodes = desk.nodes.watch();
    let mut task = MailTask::new(desk);
    loop {
        // Whatever changes from here on is looked at in the next turn.
        notices.mark_unchanged();
        runs.mark_unchanged();
        nodes.mark_unchanged();
        let rest = match task.turn().await {
            Ok(rest) => rest,
            Err(failure) => {
                tracing::warn!(%failure, "notices wait");
                Some(REFUSED)
            }
        };
        let rest = async {
            match rest {
                Some(rest) => tokio::time::sleep(rest.min(LOOK_AGAIN)).await,
                None => std::future::pending().await,
            }
        };
        let waiting = task.desk.ledger.state().post.notices.len();
        // What runs do concerns digests and relays, too, but these have time.
        let calm = if waiting == 0 {
            PAUSE_MAX
        } else {
            Duration::ZERO
        };
        let news = async {
            tokio::time::sleep(pause(waiting)).await;
            let news_of_runs = async {
                tokio::time::sleep(calm).await;
                runs.changed().await
            };
            tokio::select! {
                changed = notices.changed() => changed,
                changed = nodes.changed() => changed,
                changed = news_of_runs => changed,
            }
        };
        tokio::select! {
            changed = news => if changed.is_err() {
                return;
            },
            Some(sent) = task.sending.join_next_with_id() => task.sent(sent),
            () = task.curves.drawn() => {}
            () = task.relay.answered() => {}
            () = rest => {}
        }
    }
}

/// How long news waits while so many notices wait. After an idle time none do.
fn pause(waiting: usize) -> Duration {
    let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
    PAUSE_EACH.saturating_mul(waiting).min(PAUSE_MAX)
}

/// What the plan for the present moment is.
pub(crate) fn planned(
    state: &State,
    config: &Config,
    nodes: &NodeStates,
    relay: &RelayDesk,
    clock: Clock,
    live_since_ms: Option<i64>,
    same_digest_ms: Option<i64>,
) -> MailPlan {
    let now_ms = clock.now_ms();
    let time = PlanTime {
        now_ms,
        minute: minute_of_day(now_ms),
        live_since_ms,
        same_digest_ms,
    };
    plan(&state.post, &settings(config), &time, |notice| {
        let run = notice.kind.run().and_then(|run| state.run(run));
        // Its node's clock showed the time.
        let node = run.and_then(|run| nodes.of(run.node()?));
        let ahead_ms = node.and_then(NodeNow::clock_offset_ms).unwrap_or(0);
        nero_notices::wanted(state, config, notice, ahead_ms, relay.has_told(run))
    })
}

fn minute_of_day(now_ms: i64) -> u16 {
    let at = Timestamp::from_millisecond(now_ms).unwrap_or_default();
    let local = at.to_zoned(TimeZone::system());
    let minute = i32::from(local.hour()) * 60 + i32::from(local.minute());
    u16::try_from(minute).unwrap_or(0)
}

/// The outcome of a task that sent something.
type SendTaskResult = Result<(tokio::task::Id, SendResult), tokio::task::JoinError>;

struct MailTask {
    desk: MailDesk,
    /// The configuration of the last turn.
    config: Option<Arc<Config>>,
    /// Since when runs live without a pause.
    live_since_ms: Option<i64>,
    /// When the last digest was left out, as it told nothing new.
    same_digest_ms: Option<i64>,
    sending: JoinSet<SendResult>,
    curves: DigestCurves,
    relay: RelayDesk,
    /// What came of sending, where the ledger could not take it yet.
    unrecorded: Vec<(DeliveryWay, u64, SendResult)>,
    /// What is being sent, or was and is not recorded: one delivery of each way at a time.
    under_way: BTreeMap<DeliveryWay, (tokio::task::Id, u64)>,
}

impl MailTask {
    fn new(desk: MailDesk) -> Self {
        Self {
            desk,
            config: None,
            live_since_ms: None,
            same_digest_ms: None,
            sending: JoinSet::new(),
            curves: DigestCurves::default(),
            relay: RelayDesk::default(),
            unrecorded: Vec::new(),
            under_way: BTreeMap::new(),
        }
    }

    /// Does what is to be done now. Returns how long nothing is, if nothing changes; none: for
    /// ever.
    async fn turn(&mut self) -> Result<Option<Duration>, Failure> {
        // What was sent is not sent again because its record failed.
        while let Some((way, id, result)) = self.unrecorded.last().cloned() {
            self.record(id, result).await?;
            self.under_way.remove(&way);
            self.unrecorded.pop();
        }
        let config = self.desk.nodes.usable_config();
        self.look_at_config(&config).await?;
        // Without a way nobody wants a notice, wherever its node is.
        let (known, away) = if is_notified(&config) {
            let known = self.desk.nodes.known();
            let away = self.look_at_nodes(&known).await?;
            (known, away)
        } else {
            (NodeStates::default(), None)
        };
        let ordering = self.relay.advance(&self.desk, &config, &known).await?;
        let state = self.desk.ledger.state();
        self.look_at_runs(&state, &config);
        let mut plan = planned(
            &state,
            &config,
            &known,
            &self.relay,
            self.desk.clock,
            self.live_since_ms,
            self.same_digest_ms,
        );
        self.curves.hold_back(&mut plan, &self.desk, &state);
        let is_news = !plan.letters.is_empty()
            || !plan.calls.is_empty()
            || !plan.unwanted.is_empty()
            || !plan.expired.is_empty();
        if is_news {
            self.make(&state, &config, &plan).await?;
            // The new state has what is due.
            return Ok(Some(Duration::ZERO));
        }
        for id in &plan.due {
            if let Some(delivery) = state.post.deliveries.get(id)
                && !self.under_way.contains_key(&delivery.way)
            {
                self.send(&config, Arc::clone(delivery)).await?;
            }
        }
        let now_ms = self.desk.clock.now_ms();
        let next = plan.next_ms.map(|at_ms| {
            Duration::from_millis(u64::try_from(at_ms.saturating_sub(now_ms)).unwrap_or(0))
        });
        Ok([next, away, ordering].into_iter().flatten().min())
    }

    /// Has what waited for a person tried again: the daemon is new, or ways are configured
    /// otherwise.
    async fn look_at_config(&mut self, config: &Arc<Config>) -> Result<(), Failure> {
        let is_same = self.config.as_ref().is_some_and(|before| {
            before.mail == config.mail
                && before.notify.webhook == config.notify.webhook
                && before.notify.command == config.notify.command
        });
        let is_first = self.config.replace(Arc::clone(config)).is_none();
        if is_same {
            return Ok(());
        }
        let again = move |state: &State, now_ms| retry_changes(state, now_ms, is_first);
        self.desk.ledger.note(false, again).await
    }

    /// Notices which nodes went out of reach or came back; returns when to look again.
    async fn look_at_nodes(&self, known: &NodeStates) -> Result<Option<Duration>, Failure> {
        let state = self.desk.ledger.state();
        let boot_ms = self.desk.clock.boot_ms();
        let news = reach::news(&state, known, boot_ms);
        if let Some(nodes_away) = news.nodes_away {
            let found = news.found;
            let note = move |state: &State, now_ms| {
                let notices = nero_life::notices::notices(state, found.clone(), now_ms);
                let away = Change::Post(Arc::new(PostChange {
                    nodes_away: Some(nodes_away.clone()),
                    ..PostChange::default()
                }));
                notices.into_iter().chain([away]).collect()
            };
            self.desk.ledger.note(false, note).await?;
        }
        Ok(news.again)
    }

    /// Follows since when runs live, as digests begin then.
    fn look_at_runs(&mut self, state: &State, config: &Config) {
        if state.live == 0 || config.notify.digest_ms.is_none() {
            self.live_since_ms = None;
        } else if self.live_since_ms.is_none() {
            let live = state.live_runs();
            self.live_since_ms = live.map(|run| run.made.created_ms).min();
        }
    }

    /// Makes the deliveries of a plan. They are synced before anything of them is sent.
    async fn make(
        &mut self,
        state: &Arc<State>,
        config: &Config,
        plan: &MailPlan,
    ) -> Result<(), Failure> {
        let mut outputs = BTreeMap::new();
        for (notice, run) in nero_notices::with_output(state, plan) {
            outputs.insert(notice, stderr_end(run).await);
        }
        let sources = LetterSources {
            deployment: self.desk.deployment,
            now: &self.desk.nodes.known().now(self.desk.clock),
            zone: &TimeZone::system(),
            outputs,
            curves: self.curves.of_digest(),
        };
        let made = nero_notices::compose(state, config, plan, &sources);
        let is_digest = |one: &ComposedDelivery| one.delivery.is_digest;
        if plan.letters.iter().any(|letter| letter.is_digest) && !made.iter().any(is_digest) {
            self.same_digest_ms = Some(self.desk.clock.now_ms());
            tracing::info!("a digest is left out: it would tell what the one before it told");
        }
        let (plan, has_mail) = (plan.clone(), settings(config).has_mail);
        let is_synced = !made.is_empty();
        let note = move |state: &State, now_ms| {
            nero_notices::delivery_changes(state, &plan, &made, has_mail, now_ms)
        };
        self.desk.ledger.note(is_synced, note).await
    }

    async fn send(&mut self, config: &Arc<Config>, delivery: Arc<Delivery>) -> Result<(), Failure> {
        let (id, way) = (delivery.id, delivery.way);
        let bytes = match self.desk.ledger.letter(id).await {
            Ok(bytes) => bytes,
            Err(failure) => {
                return self
                    .record(id, SendResult::Refused(failure.to_string()))
                    .await;
            }
        };
        tracing::debug!(delivery = id, key = delivery.key, "sending");
        let config = Arc::clone(config);
        let task = self.sending.spawn(async move {
            let unset = || SendResult::Later("config.yaml names no way for it any more".to_owned());
            match way {
                DeliveryWay::Mail => match &config.mail {
                    Some(mail) => {
                        let (from, to) = (delivery.from.clone(), delivery.to.clone());
                        nero_notices::send(mail, &Envelope { from, to }, &bytes).await
                    }
                    None => unset(),
                },
                DeliveryWay::Webhook => match &config.notify.webhook {
                    Some(webhook) => nero_notices::post(webhook, &delivery.key, &bytes).await,
                    None => unset(),
                },
                DeliveryWay::Command => match &config.notify.command {
                    Some(command) => nero_notices::hand_to(command, &bytes).await,
                    None => unset(),
                },
            }
        });
        self.under_way.insert(way, (task.id(), id));
        Ok(())
    }

    /// Keeps what came of sending, which the next turn records.
    fn sent(&mut self, sent: SendTaskResult) {
        let (task, result) = match sent {
            Ok(sent) => sent,
            Err(error) => {
                let words = "sending ended by a mistake of neroman's own".to_owned();
                tracing::error!(%error, "sending ended; please report this mistake of neroman");
                (error.id(), SendResult::Later(words))
            }
        };
        let of_task = |(_, (other, _)): &(&DeliveryWay, &(tokio::task::Id, u64))| *other == task;
        let Some((way, id)) = self
            .under_way
            .iter()
            .find(of_task)
            .map(|(way, (_, id))| (*way, *id))
        else {
            return;
        };
        match &result {
            SendResult::Accepted(_) => tracing::info!(delivery = id, "sent"),
            other => tracing::warn!(delivery = id, outcome = ?other, "not sent"),
        }
        self.unrecorded.push((way, id, result));
    }

    async fn record(&self, id: u64, result: SendResult) -> Result<(), Failure> {
        let note =
            move |state: &State, now_ms| nero_notices::outcome_changes(state, id, &result, now_ms);
        self.desk.ledger.note(false, note).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_waits_the_longer_the_more_notices_wait_and_not_at_all_without() {
        assert_eq!(pause(0), Duration::ZERO);
        assert_eq!(pause(1000), Duration::from_millis(250));
        assert_eq!(pause(usize::MAX), PAUSE_MAX);
    }
}
