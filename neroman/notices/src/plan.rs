//! Turns notices, settings and time into letters: which notices go together, and when.
//!
//! A letter goes at once, and the next one of its thread waits the longer the more there were in
//! the last hour. So a thousand failures are one letter, or a few when they come over hours.

use std::collections::BTreeMap;
use std::sync::Arc;

use nero_life::notices::{Delivery, DeliveryState, DeliveryWay, Notice, Post};

#[cfg(test)]
mod tests;

/// A crash waits so long for the last lines of its job to come home.
const READY_WAIT_MS: i64 = 30_000;
const MINUTE_MS: i64 = 60_000;
/// Letters of the last hour count.
pub(crate) const HOUR_MS: i64 = 60 * MINUTE_MS;
/// What happened longer ago was held up, by a sleep or by quiet hours. It goes as one letter over
/// all collections.
const LATE_MS: i64 = 5 * MINUTE_MS;
/// Pauses between letters of one thread, by their number in the last hour. The end of a start
/// waits for the first of them alone.
const PACE_MS: [i64; 4] = [0, MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS];

/// How long notices are gathered: until none came for `quiet_ms`, at most `most_ms`.
struct GatherWindow {
    quiet_ms: i64,
    most_ms: i64,
}
const FRESH: GatherWindow = GatherWindow {
    quiet_ms: 100,
    most_ms: 700,
};
/// After a sleep, the nodes tell what they have one after the other.
const LATE: GatherWindow = GatherWindow {
    quiet_ms: 5_000,
    most_ms: 60_000,
};

/// What the configuration says about mail.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MailSettings {
    /// Recipients of mail; none: no mail.
    pub has_mail: bool,
    pub has_webhook: bool,
    pub has_command: bool,
    /// Begin and end of the hours without mail, in minutes of the local day.
    pub quiet: Option<(u16, u16)>,
    pub letters_per_hour: usize,
    pub digest_ms: Option<i64>,
}

/// What is known besides notices.
#[derive(Clone, Copy, Debug)]
pub struct PlanTime {
    pub now_ms: i64,
    /// Minutes of the local day.
    pub minute: u16,
    /// Since when experiments run without a pause; none: none runs.
    pub live_since_ms: Option<i64>,
    /// When the last digest was left out, as it would have told what the one before it told.
    pub same_digest_ms: Option<i64>,
}

/// What is to be done now, and when to look again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MailPlan {
    /// Notices that nobody wants.
    pub unwanted: Vec<u64>,
    /// Notices for webhook and command.
    pub calls: Vec<u64>,
    pub letters: Vec<PlannedLetter>,
    /// Deliveries to be tried.
    pub due: Vec<u64>,
    /// Deliveries that were not sent for days.
    pub expired: Vec<u64>,
    /// When to look again if nothing happens before; none: never.
    pub next_ms: Option<i64>,
    /// Why notices wait; empty: none does, or for moments only.
    pub waits: &'static str,
}

/// The notices of one letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedLetter {
    /// None: of several collections.
    pub collection: Option<Arc<str>>,
    pub notices: Vec<u64>,
    pub is_digest: bool,
}

/// A notice as the plan sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeContext {
    /// When it happened, by our clock.
    pub at_ms: i64,
    /// Whether the configuration wants such events.
    pub is_wanted: bool,
    /// The collection of its thread.
    pub collection: Option<Arc<str>>,
    /// Whether everything that it tells is here.
    pub is_ready: bool,
    /// Whether the run's node has told every recipient of mail.
    pub is_relayed: bool,
    /// Whether it is the end of a start of several runs, for which a person may be waiting.
    pub is_end_of_start: bool,
}

/// The notices of one collection that wait for a letter.
struct NoticeGroup {
    notices: Vec<u64>,
    /// Time of the first event.
    at_ms: i64,
    first_ms: i64,
    newest_ms: i64,
    /// When everything that they tell is here.
    ready_ms: i64,
    has_end_of_start: bool,
}

impl MailPlan {
    fn look_at(&mut self, at_ms: i64) {
        self.next_ms = Some(self.next_ms.map_or(at_ms, |sooner| sooner.min(at_ms)));
    }
}

/// What is to be done now. `wanted` tells about a notice what the state and the configuration do.
pub fn plan(
    post: &Post,
    settings: &MailSettings,
    time: &PlanTime,
    wanted: impl Fn(&Notice) -> NoticeContext,
) -> MailPlan {
    let mut plan = MailPlan::default();
    let mut groups: BTreeMap<Option<Arc<str>>, NoticeGroup> = BTreeMap::new();
    for notice in post.notices.values() {
        let wanted = wanted(notice);
        let has_calls = settings.has_webhook || settings.has_command;
        let is_call = has_calls && !notice.called;
        let is_mail = settings.has_mail && !wanted.is_relayed;
        if !wanted.is_wanted || !(is_mail || is_call) {
            plan.unwanted.push(notice.id);
            continue;
        }
        let ready_ms = if wanted.is_ready {
            notice.decided_ms
        } else {
            notice.decided_ms.saturating_add(READY_WAIT_MS)
        };
        if is_call && ready_ms <= time.now_ms {
            plan.calls.push(notice.id);
        } else if is_call {
            plan.look_at(ready_ms);
        }
        if is_mail {
            gather(&mut groups, notice, ready_ms, wanted);
        }
    }
    letters(post, settings, time, groups, &mut plan);
    deliveries(post, settings, time, &mut plan);
    plan
}

fn gather(
    groups: &mut BTreeMap<Option<Arc<str>>, NoticeGroup>,
    notice: &Notice,
    ready_ms: i64,
    wanted: NoticeContext,
) {
    let group = groups
        .entry(wanted.collection)
        .or_insert_with(|| NoticeGroup {
            notices: Vec::new(),
            at_ms: wanted.at_ms,
            first_ms: notice.decided_ms,
            newest_ms: notice.decided_ms,
            ready_ms,
            has_end_of_start: false,
        });
    group.notices.push(notice.id);
    group.at_ms = group.at_ms.min(wanted.at_ms);
    group.first_ms = group.first_ms.min(notice.decided_ms);
    group.newest_ms = group.newest_ms.max(notice.decided_ms);
    group.ready_ms = group.ready_ms.max(ready_ms);
    group.has_end_of_start |= wanted.is_end_of_start;
}

fn letters(
    post: &Post,
    settings: &MailSettings,
    time: &PlanTime,
    groups: BTreeMap<Option<Arc<str>>, NoticeGroup>,
    plan: &mut MailPlan,
) {
    let now_ms = time.now_ms;
    let digest_ms = digest_ms(post, settings, time);
    let has_digest = digest_ms.is_some_and(|at_ms| at_ms <= now_ms);
    if let Some(at_ms) = digest_ms.filter(|_| !has_digest) {
        plan.look_at(at_ms);
    }
    let hour: BTreeMap<&str, &Delivery> = post
        .deliveries
        .values()
        .filter(|one| !one.is_digest && is_mail_since(one, now_ms.saturating_sub(HOUR_MS)))
        .map(|one| (one.key.as_str(), &**one))
        .collect();
    let gathered_ms = gathered_ms(groups.values().filter(|group| group.is_late(now_ms)), &LATE);
    let mut ready: Vec<(Option<Arc<str>>, NoticeGroup)> = Vec::new();
    for (collection, group) in groups {
        let gathered_ms = if group.is_late(now_ms) {
            gathered_ms
        } else {
            self::gathered_ms([&group], &FRESH)
        };
        let due_ms = gathered_ms.max(due_ms(&group, collection.as_deref(), &hour));
        if due_ms <= now_ms {
            ready.push((collection, group))
        } else {
            plan.look_at(due_ms)
        }
    }
    if ready.is_empty() && !has_digest {
        return;
    }
    if let Some(end_ms) = quiet_until_ms(settings, time) {
        plan.waits = "quiet hours";
        plan.look_at(end_ms);
        return;
    }
    // Digests have a pace of their own, so they take no event's place.
    if has_digest {
        plan.letters.push(PlannedLetter {
            collection: None,
            notices: Vec::new(),
            is_digest: true,
        });
    }
    if ready.is_empty() {
        return;
    }
    let rest = settings.letters_per_hour.saturating_sub(hour.len());
    if rest == 0 {
        let first_ms = hour.values().map(|one| one.made_ms).min();
        plan.waits = "the limit of mails per hour";
        plan.look_at(first_ms.unwrap_or(now_ms).saturating_add(HOUR_MS));
        return;
    }
    plan.letters.extend(of_ready(ready, rest, now_ms));
}

/// A letter for each collection; one over all of them where some were held up, or where so many
/// are not allowed.
fn of_ready(
    mut ready: Vec<(Option<Arc<str>>, NoticeGroup)>,
    rest: usize,
    now_ms: i64,
) -> Vec<PlannedLetter> {
    let mut letters = Vec::new();
    let is_late = |(_, group): &(_, NoticeGroup)| group.is_late(now_ms);
    if ready.len() > 1 && (ready.iter().any(is_late) || ready.len() > rest) {
        let notices = ready.drain(..).flat_map(|(_, group)| group.notices);
        let mut notices: Vec<u64> = notices.collect();
        notices.sort_unstable();
        letters.push(PlannedLetter {
            collection: None,
            notices,
            is_digest: false,
        });
    }
    letters.extend(ready.into_iter().map(|(collection, group)| PlannedLetter {
        collection,
        notices: group.notices,
        is_digest: false,
    }));
    letters
}

/// Whether a delivery takes a thread's or an hour's share of mail.
fn is_mail_since(one: &Delivery, since_ms: i64) -> bool {
    one.way == DeliveryWay::Mail && one.made_ms > since_ms
}

impl NoticeGroup {
    fn is_late(&self, now_ms: i64) -> bool {
        now_ms.saturating_sub(self.at_ms) > LATE_MS
    }
}

/// When notices that are gathered together are complete.
fn gathered_ms<'a>(groups: impl IntoIterator<Item = &'a NoticeGroup>, how: &GatherWindow) -> i64 {
    let (mut first_ms, mut newest_ms) = (i64::MAX, 0);
    for group in groups {
        first_ms = first_ms.min(group.first_ms);
        newest_ms = newest_ms.max(group.newest_ms);
    }
    let quiet_ms = newest_ms.saturating_add(how.quiet_ms);
    quiet_ms.min(first_ms.saturating_add(how.most_ms))
}

/// When the notices of a group are all here, and its thread may have the next letter. `hour`: the
/// letters of the last hour.
fn due_ms(group: &NoticeGroup, collection: Option<&str>, hour: &BTreeMap<&str, &Delivery>) -> i64 {
    let latest_ms = group.first_ms.saturating_add(READY_WAIT_MS);
    let due_ms = group.ready_ms.min(latest_ms);
    let of_thread = |one: &&&Delivery| one.thread.as_deref() == collection;
    let before: Vec<i64> = hour
        .values()
        .filter(of_thread)
        .map(|one| one.made_ms)
        .collect();
    let paces = if group.has_end_of_start {
        &PACE_MS[..2]
    } else {
        &PACE_MS[..]
    };
    let pace_ms = paces[before.len().min(paces.len() - 1)];
    let last_ms = before.into_iter().max();
    last_ms.map_or(due_ms, |last_ms| {
        due_ms.max(last_ms.saturating_add(pace_ms))
    })
}

/// When the next digest is due, if one is.
fn digest_ms(post: &Post, settings: &MailSettings, time: &PlanTime) -> Option<i64> {
    let live_since_ms = time.live_since_ms.filter(|_| settings.has_mail)?;
    let last_ms = post.last_digest().map(|one| one.made_ms);
    let last_ms = last_ms.max(time.same_digest_ms);
    let from_ms = last_ms.map_or(live_since_ms, |last_ms| last_ms.max(live_since_ms));
    Some(from_ms.saturating_add(settings.digest_ms?))
}

/// The end of the quiet hours that hold now.
fn quiet_until_ms(settings: &MailSettings, time: &PlanTime) -> Option<i64> {
    const DAY: i64 = 24 * 60;
    let (from, to) = settings.quiet?;
    let [from, to, minute] = [from, to, time.minute].map(i64::from);
    let holds = if from <= to {
        (from..to).contains(&minute)
    } else {
        minute >= from || minute < to
    };
    // Within the minute it is looked at once more.
    let minutes = (to - minute).rem_euclid(DAY);
    holds.then(|| time.now_ms.saturating_add(minutes * MINUTE_MS))
}

fn deliveries(post: &Post, settings: &MailSettings, time: &PlanTime, plan: &mut MailPlan) {
    let ways = [
        DeliveryWay::Mail,
        DeliveryWay::Webhook,
        DeliveryWay::Command,
    ];
    let blocked = ways.map(|way| post.blocked(way).is_some());
    for delivery in post.deliveries.values() {
        let DeliveryState::Waiting { next_ms, .. } = delivery.state else {
            continue;
        };
        let is_configured = match delivery.way {
            DeliveryWay::Mail => settings.has_mail,
            DeliveryWay::Webhook => settings.has_webhook,
            DeliveryWay::Command => settings.has_command,
        };
        if !is_configured {
            if delivery.until_ms() <= time.now_ms {
                plan.expired.push(delivery.id)
            } else {
                plan.look_at(delivery.until_ms())
            }
        } else if !blocked[delivery.way as usize] {
            if next_ms <= time.now_ms {
                plan.due.push(delivery.id)
            } else {
                plan.look_at(next_ms)
            }
        }
    }
    // What happened goes before how things stand.
    plan.due
        .sort_by_key(|id| (post.deliveries[id].is_digest, *id));
}
