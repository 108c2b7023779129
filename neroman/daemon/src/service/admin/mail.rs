//! `MailList`, `MailRetry`, and what `status` says about mail.

use nero_life::notices::{Delivery, DeliveryState};
use nero_wire::v1;

use crate::mail;
use crate::service::Man;
use crate::service::change::ChangeRequest as _;
use crate::service::views::deliveries::delivery_way_name;
use nero_home::failure::Failure;
use nero_home::ledger::Decision;

impl Man {
    /// What waits, what was sent, and what was not.
    pub(crate) fn mail_list(&self) -> v1::MailListReply {
        let state = self.ledger.state();
        let config = self.nodes.usable_config();
        let (known, relay) = (self.nodes.known(), mail::RelayDesk::default());
        let plan = mail::planned(&state, &config, &known, &relay, self.clock, None, None);
        let deliveries = state.post.deliveries.values();
        v1::MailListReply {
            deliveries: deliveries.map(|one| delivery(one)).collect(),
            notices: state.post.notices.len() as u64,
            waits: plan.waits.to_owned(),
            off: !nero_notices::is_notified(&config),
        }
    }

    /// Has everything tried at once that could not be sent.
    pub(crate) async fn mail_retry(
        &self,
        request: v1::MailRetryRequest,
    ) -> Result<v1::MailRetryReply, Failure> {
        self.decided(&request.head(), |state, now_ms| {
            let changes = nero_notices::retry_changes(state, now_ms, false);
            let waiting = state.post.deliveries.values();
            let waiting = waiting.filter(|one| !one.state.is_over());
            Ok(Decision {
                answer: v1::MailRetryReply {
                    deliveries: waiting.count() as u64,
                },
                changes,
            })
        })
        .await
    }
}

fn delivery(one: &Delivery) -> v1::MailDelivery {
    let (state, words, at_ms) = match &one.state {
        DeliveryState::Waiting { next_ms, why } => ("waiting", why, *next_ms),
        DeliveryState::Blocked { why, .. } => ("blocked", why, 0),
        DeliveryState::Sent { at_ms, words } => ("sent", words, *at_ms),
        DeliveryState::Refused { at_ms, why } => ("refused", why, *at_ms),
        DeliveryState::GivenUp { at_ms, why } => ("given up", why, *at_ms),
    };
    v1::MailDelivery {
        way: delivery_way_name(one.way).to_owned(),
        to: one.to.clone(),
        subject: one.subject.clone(),
        made_ms: one.made_ms,
        state: state.to_owned(),
        words: words.clone(),
        at_ms,
        tries: one.tries,
        message_id: one.message_id.clone(),
    }
}
