//! Has a node tell of ends while this machine is away (`mail.relay`).
//!
//! The node gets whom to tell, and of which runs, whenever that changes. It answers with the
//! letters that it sent; these are deliveries from then on, and their runs are told to nobody
//! once more. Until its first answer on a connection, ends there are not told.

use std::sync::Arc;
use std::time::Duration;

use nero_config::{Config, NotifyEvent};
use nero_life::change::Change;
use nero_life::notices::{self, Delivery, DeliveryState, DeliveryWay, PostChange};
use nero_life::run::Run;
use nero_life::state::State;
use nero_model::safe::Safe;
use nero_model::{RunToken, ids};
use nero_wire::v1::{Hello, RelayClaim, RelayClaims, RelayOrder};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::Status;
use tonic::transport::Channel;

use super::MailDesk;
use nero_home::failure::Failure;
use nero_link::connect::mum_client;
use nero_link::node::{NodeStates, open_runs};

/// The node sends letters without an outcome before it answers.
const ANSWER: Duration = Duration::from_secs(90);
/// Orders follow each other by so much.
const PAUSE: Duration = Duration::from_secs(1);
/// A node that refuses an order is asked again after this.
const REFUSED: Duration = Duration::from_secs(60);
const EVENTS: [NotifyEvent; 5] = [
    NotifyEvent::Finished,
    NotifyEvent::Crashed,
    NotifyEvent::Aborted,
    NotifyEvent::Timeout,
    NotifyEvent::Lost,
];

/// What a node was ordered on a connection.
#[derive(Clone, Debug)]
struct GivenOrder {
    /// Of the connection.
    hello: Arc<Hello>,
    order: RelayOrder,
}

impl GivenOrder {
    fn is_on(&self, hello: &Arc<Hello>) -> bool {
        Arc::ptr_eq(&self.hello, hello)
    }
}

/// What is between this machine and the node that tells for it.
#[derive(Debug, Default)]
pub(crate) struct RelayDesk {
    /// The connection to the relay; none: there is none.
    hello: Option<Arc<Hello>>,
    /// The relay of the configuration, or the one before, which has to be told so.
    node: String,
    /// What was answered, on the connection of that time.
    given: Option<GivenOrder>,
    /// What is being ordered.
    under_way: Option<GivenOrder>,
    calls: JoinSet<Result<RelayClaims, Status>>,
    answer: Option<Result<RelayClaims, Status>>,
    /// Claims that are recorded here, and still lie on the node.
    adopted: Vec<Vec<u8>>,
    not_before: Option<Instant>,
}

impl RelayDesk {
    /// Whether the run's node has told what it told while this machine was away.
    pub(super) fn has_told(&self, run: Option<&Run>) -> bool {
        let is_there = run.is_some_and(|run| run.node() == Some(&*self.node));
        let Some(hello) = self.hello.as_ref().filter(|_| is_there) else {
            return true;
        };
        self.given.as_ref().is_some_and(|given| given.is_on(hello))
    }

    /// Returns when an answer is there; never without a call.
    pub(super) async fn answered(&mut self) {
        match self.calls.join_next().await {
            Some(Ok(answer)) => self.answer = Some(answer),
            Some(Err(error)) => {
                tracing::error!(%error, "an order ended; please report this mistake of neroman");
                self.answer = Some(Err(Status::internal("the call ended")));
            }
            None => std::future::pending().await,
        }
    }

    /// Records what was answered, and orders what changed. Returns when to look again, if nothing
    /// happens before.
    pub(super) async fn advance(
        &mut self,
        desk: &MailDesk,
        config: &Config,
        known: &NodeStates,
    ) -> Result<Option<Duration>, Failure> {
        if let Some(Ok(claims)) = &self.answer {
            adopt(desk, &claims.claims).await?;
        }
        if let (Some(answer), Some(given)) = (self.answer.take(), self.under_way.take()) {
            self.take_answer(answer, given);
        }
        let relay = config.mail.as_ref().and_then(|mail| mail.relay.as_ref());
        if let Some(relay) = relay.filter(|relay| relay.node != self.node) {
            // The one before tells nothing more when it is greeted without an order.
            *self = Self {
                node: relay.node.clone(),
                ..Self::default()
            };
        }
        let now = known.of(&self.node);
        let link = now.and_then(|now| Some((now.hello.clone()?, now.channel.clone()?)));
        self.hello = link.as_ref().map(|(hello, _)| Arc::clone(hello));
        let Some((hello, channel)) = link.filter(|_| self.under_way.is_none()) else {
            return Ok(None);
        };
        // With what was just adopted.
        let order = self.order(config, &desk.ledger.state());
        let is_same = |given: &GivenOrder| given.is_on(&hello) && given.order == order;
        if self.given.as_ref().is_some_and(is_same) {
            return Ok(None);
        }
        if let Some(not_before) = self.not_before.filter(|at| *at > Instant::now()) {
            return Ok(Some(not_before - Instant::now()));
        }
        self.not_before = Some(Instant::now() + PAUSE);
        self.calls.spawn(call(channel, order.clone()));
        self.under_way = Some(GivenOrder { hello, order });
        Ok(None)
    }

    fn take_answer(&mut self, answer: Result<RelayClaims, Status>, given: GivenOrder) {
        match answer {
            Ok(claims) => {
                self.adopted = claims.claims.into_iter().map(|claim| claim.id).collect();
                let adopted = Vec::new();
                let order = RelayOrder {
                    adopted,
                    ..given.order
                };
                self.given = Some(GivenOrder { order, ..given });
            }
            Err(status) => {
                let node = &self.node;
                tracing::warn!(node, why = status.message(), "the relay takes no order");
                // Nothing can be known of it: what ended there is told from here.
                self.given = Some(GivenOrder {
                    order: RelayOrder::default(),
                    ..given
                });
                self.not_before = Some(Instant::now() + REFUSED);
            }
        }
    }

    fn order(&self, config: &Config, state: &State) -> RelayOrder {
        let adopted = self.adopted.clone();
        let mail = config.mail.as_ref();
        let relay = mail.and_then(|mail| Some((mail, mail.relay.as_ref()?)));
        let Some((mail, relay)) = relay.filter(|(_, relay)| relay.node == self.node) else {
            return RelayOrder {
                adopted,
                ..RelayOrder::default()
            };
        };
        let wanted = EVENTS.iter().filter(|event| config.notify.wants(**event));
        let runs = open_runs(state, &relay.node).into_iter();
        let runs = runs.filter_map(|id| state.run(id));
        // The end of a run that the node told may come home later than its claim.
        let is_open = |run: &&Run| !run.has_ended() && run.relayed().is_empty();
        let live = runs.filter(|run| run.reached_its_node()).filter(is_open);
        RelayOrder {
            node: relay.node.clone(),
            after_ms: relay.after_ms,
            from: mail.from.clone(),
            to: config.notify.to.clone(),
            events: wanted.map(|event| event.as_str().to_owned()).collect(),
            tokens: live.map(|run| run.made.token.to_vec()).collect(),
            adopted,
            home: nero_model::holder::host(),
        }
    }
}

async fn call(channel: Channel, order: RelayOrder) -> Result<RelayClaims, Status> {
    let mut client = mum_client(channel);
    let answer = tokio::time::timeout(ANSWER, client.relay(order)).await;
    let answer = answer.map_err(|_| Status::deadline_exceeded("it says nothing"))?;
    Ok(answer?.into_inner())
}

/// Records letters of a node as sent. The same claims again change nothing.
async fn adopt(desk: &MailDesk, claims: &[RelayClaim]) -> Result<(), Failure> {
    if claims.is_empty() {
        return Ok(());
    }
    let claims = claims.to_vec();
    let note = move |state: &State, _| {
        let mut changes = Vec::new();
        let mut deliveries = Vec::new();
        for claim in &claims {
            let key = format!("relay/{}", ids::hex(&claim.id));
            let mut known = state.post.deliveries.values();
            if !known.any(|one| one.key == key) {
                let id = state.post.next_delivery() + deliveries.len() as u64;
                deliveries.push(Arc::new(delivery(id, key, claim)));
            }
        }
        let mut told: std::collections::BTreeMap<RunToken, Vec<&str>> = Default::default();
        for claim in &claims {
            let tokens = claim.tokens.iter();
            for token in tokens.filter_map(|token| RunToken::from_slice(token)) {
                told.entry(token).or_default().push(&claim.to);
            }
        }
        for (token, to) in told {
            let run = state.by_token(&token).and_then(|id| state.run(id));
            changes.extend(run.and_then(|run| notices::relayed(run, &to)));
        }
        if !deliveries.is_empty() {
            changes.push(Change::Post(Arc::new(PostChange {
                deliveries,
                ..PostChange::default()
            })));
        }
        changes
    };
    desk.ledger.note(true, note).await
}

fn delivery(id: u64, key: String, claim: &RelayClaim) -> Delivery {
    Delivery {
        id,
        key,
        way: DeliveryWay::Mail,
        to: claim.to.clone(),
        from: claim.from.clone(),
        subject: Safe::line(&claim.subject).to_string(),
        message_id: claim.message_id.clone(),
        thread: None,
        is_digest: false,
        content: String::new(),
        made_ms: claim.at_ms,
        tries: 1,
        state: DeliveryState::Sent {
            at_ms: claim.at_ms,
            words: Safe::line(&claim.words).to_string(),
        },
    }
}
