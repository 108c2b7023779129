//! What deliveries leave in the state: when they are made, tried and tried again.

use std::sync::Arc;

use nero_life::change::Change;
use nero_life::notices::{Delivery, DeliveryState, PostChange, SendResult};
use nero_life::state::State;

use crate::compose::ComposedDelivery;
use crate::plan::{HOUR_MS, MailPlan};

/// The changes that record what came of sending a delivery.
pub fn outcome_changes(state: &State, id: u64, result: &SendResult, now_ms: i64) -> Vec<Change> {
    let Some(delivery) = state.post.deliveries.get(&id) else {
        return Vec::new();
    };
    let mut changed = vec![delivery.after(result.clone(), now_ms)];
    if let SendResult::Accepted(_) = result {
        // What was made before and failed need not wait longer, as its way works again.
        let failed = state.post.deliveries.values().filter(|one| {
            one.way == delivery.way && one.id < id && one.tries > 0 && !one.state.is_over()
        });
        changed.extend(failed.filter_map(|one| one.again(now_ms)));
    }
    deliveries(changed)
}

/// The changes that have deliveries tried again which failed before: at a person's wish all, else
/// those that wait for a person.
pub fn retry_changes(state: &State, now_ms: i64, blocked_alone: bool) -> Vec<Change> {
    let waits = |one: &&Arc<Delivery>| match one.state {
        DeliveryState::Blocked { .. } => true,
        DeliveryState::Waiting { .. } => one.tries > 0 && !blocked_alone,
        DeliveryState::Sent { .. }
        | DeliveryState::Refused { .. }
        | DeliveryState::GivenUp { .. } => false,
    };
    let waiting = state.post.deliveries.values().filter(waits);
    deliveries(waiting.filter_map(|one| one.again(now_ms)).collect())
}

/// The change of these deliveries.
fn deliveries(changed: Vec<Delivery>) -> Vec<Change> {
    if changed.is_empty() {
        return Vec::new();
    }
    vec![Change::Post(Arc::new(PostChange {
        deliveries: changed.into_iter().map(Arc::new).collect(),
        ..PostChange::default()
    }))]
}

/// The changes that keep the deliveries of a plan, and drop notices that nothing will tell.
/// `has_mail`: whether notices that were called wait for a letter, too.
pub fn delivery_changes(
    state: &State,
    plan: &MailPlan,
    composed: &[ComposedDelivery],
    has_mail: bool,
    now_ms: i64,
) -> Vec<Change> {
    let mut settled = plan.unwanted.clone();
    settled.extend(plan.letters.iter().flat_map(|letter| &letter.notices));
    if !has_mail {
        settled.extend(&plan.calls);
    }
    let called = plan.calls.iter().filter(|id| !settled.contains(id));
    let called = called.filter_map(|id| state.post.notices.get(id));
    let notices = called.map(|notice| {
        let mut notice = (**notice).clone();
        notice.called = true;
        Arc::new(notice)
    });
    let mut change = PostChange {
        notices: notices.collect(),
        forgotten: state.post.to_forget(now_ms - HOUR_MS),
        settled,
        ..PostChange::default()
    };
    for (id, one) in (state.post.next_delivery()..).zip(composed) {
        if !one.delivery.state.is_over() {
            change.letters.push((id, Arc::clone(&one.bytes)));
        }
        change.deliveries.push(Arc::new(Delivery {
            id,
            ..one.delivery.clone()
        }));
    }
    let expired = plan.expired.iter();
    let expired = expired.filter_map(|id| state.post.deliveries.get(id));
    change.deliveries.extend(expired.map(|one| {
        let mut one = (**one).clone();
        let why = "config.yaml names no way for it any more".to_owned();
        one.state = DeliveryState::GivenUp { at_ms: now_ms, why };
        Arc::new(one)
    }));
    vec![Change::Post(Arc::new(change))]
}
