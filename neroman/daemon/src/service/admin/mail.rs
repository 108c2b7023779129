//! `MailList`, `MailRetry`, and what `status` says about mail.

use nero_life::notices::{Delivery, DeliveryState, DeliveryWay, Post};
use nero_wire::v1;

use crate::failure::Failure;
use crate::ledger::Decision;
use crate::mail;
use crate::service::Man;
use crate::service::change::ChangeRequest as _;
use crate::service::views::view::Sight;

/// `status` tells of refused deliveries for so long.
const TELL_MS: i64 = 24 * 3600 * 1000;

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
            off: !mail::is_notified(&config),
        }
    }

    /// Has everything tried at once that could not be sent.
    pub(crate) async fn mail_retry(
        &self,
        request: v1::MailRetryRequest,
    ) -> Result<v1::MailRetryReply, Failure> {
        self.decided(&request.head(), |state, now_ms| {
            let changes = mail::again(state, now_ms, false);
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

fn word(way: DeliveryWay) -> &'static str {
    match way {
        DeliveryWay::Mail => "mail",
        DeliveryWay::Webhook => "webhook",
        DeliveryWay::Command => "command",
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
        way: word(one.way).to_owned(),
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

/// What a person should know of deliveries; nothing where all goes well.
pub(crate) fn notes(post: &Post, sight: &Sight<'_>, now_ms: i64) -> Vec<String> {
    let mut notes = Vec::new();
    for way in [
        DeliveryWay::Mail,
        DeliveryWay::Webhook,
        DeliveryWay::Command,
    ] {
        let of_way = || post.deliveries.values().filter(move |one| one.way == way);
        let waiting = of_way().filter(|one| !one.state.is_over());
        let (name, count) = (word(way), waiting.count());
        let wait = match count {
            1 => "waits",
            _ => "wait",
        };
        let failing = of_way().rev().find_map(|one| match &one.state {
            DeliveryState::Waiting { next_ms, why } if one.tries > 0 => Some((*next_ms, why)),
            _ => None,
        });
        if let Some(DeliveryState::Blocked { since_ms, why }) =
            post.blocked(way).map(|one| &one.state)
        {
            let since = sight.clock(*since_ms);
            notes.push(format!(
                "{name}: {count} {wait} since {since} for you: {why}; mend it, then `neroman mail retry`"
            ));
        } else if let Some((next_ms, why)) = failing {
            let next = sight.clock(next_ms);
            notes.push(format!("{name}: {count} {wait}, next try {next}: {why}"));
        }
        let since_ms = now_ms - TELL_MS;
        let refused = of_way().rev().find_map(|one| match &one.state {
            DeliveryState::Refused { at_ms, why } | DeliveryState::GivenUp { at_ms, why } => {
                (*at_ms > since_ms).then_some((one, why))
            }
            _ => None,
        });
        if let Some((one, why)) = refused {
            let to = match one.to.as_str() {
                "" => String::new(),
                to => format!(" to {to}"),
            };
            notes.push(format!(
                "{name}{to} was not taken: {why}; `neroman mail list` has all"
            ));
        }
    }
    notes
}
