//! Makes the deliveries of a plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::tz::TimeZone;
use nero_config::{Config, Mail};
use nero_life::notices::{Delivery, DeliveryState, DeliveryWay, Notice};
use nero_life::now::PresentTime;
use nero_life::run::Run;
use nero_life::state::State;
use nero_model::DeploymentId;

use crate::account;
use crate::letter::{self, Account, LetterCurves, LetterEvent};
use crate::message::{Letter, MailThread};
use crate::plan::{MailPlan, PlannedLetter};
use crate::settings::is_relayed;

/// A letter shows the output of few runs.
const OUTPUTS_MAX: usize = 20;

/// A picture and the metrics in it; none: there is nothing to draw. The error is for people.
pub type DrawnCurves = Result<Option<(Arc<[u8]>, String)>, String>;

/// A delivery without a number, and its bytes.
#[derive(Clone, Debug)]
pub struct ComposedDelivery {
    pub delivery: Delivery,
    pub bytes: Arc<[u8]>,
}

/// What deliveries are composed of, besides the plan, the state and the configuration.
#[derive(Debug)]
pub struct LetterSources<'a> {
    pub deployment: DeploymentId,
    pub now: &'a PresentTime,
    pub zone: &'a TimeZone,
    /// The ends of standard error of the runs of [`with_output`], by notice.
    pub outputs: BTreeMap<u64, Vec<u8>>,
    pub curves: DrawnCurves,
}

/// Notices of crashes whose letters show the end of standard error: their numbers and runs.
pub fn with_output<'a>(state: &'a State, plan: &MailPlan) -> Vec<(u64, &'a Run)> {
    let notices = notices(state, plan).into_values();
    let crashes = notices.filter(|notice| account::is_crash(notice));
    let runs = crashes.filter_map(|notice| Some((notice.id, state.run(notice.kind.run()?)?)));
    runs.take(OUTPUTS_MAX).collect()
}

/// The notices that a plan tells, by number.
fn notices(state: &State, plan: &MailPlan) -> BTreeMap<u64, Arc<Notice>> {
    let in_letters = plan.letters.iter().flat_map(|letter| &letter.notices);
    let wanted = plan.calls.iter().chain(in_letters);
    wanted
        .filter_map(|id| Some((*id, Arc::clone(state.post.notices.get(id)?))))
        .collect()
}

/// The deliveries of a plan: for each call one of each way, for each letter one of each recipient.
pub fn compose(
    state: &State,
    config: &Config,
    plan: &MailPlan,
    sources: &LetterSources<'_>,
) -> Vec<ComposedDelivery> {
    let now = sources.now;
    let notices = notices(state, plan);
    let event = |(id, notice): (&u64, &Arc<Notice>)| {
        let stderr = sources.outputs.get(id).cloned().unwrap_or_default();
        (*id, account::event(state, notice, stderr, now))
    };
    let events: BTreeMap<u64, LetterEvent> = notices.iter().map(event).collect();
    let mut made = Vec::new();
    for id in &plan.calls {
        if let (Some(notice), Some(event)) = (notices.get(id), events.get(id)) {
            made.extend(calls(config, notice, event, now.ms));
        }
    }
    let Some(mail) = &config.mail else {
        return made;
    };
    let (picture, of_digest) = match sources.curves.clone() {
        Ok(None) => (None, LetterCurves::None),
        Ok(Some((picture, of))) => (Some(picture), LetterCurves::Drawn { of }),
        Err(why) => (None, LetterCurves::Failed { why }),
    };
    for planned in &plan.letters {
        let curves = if planned.is_digest {
            of_digest.clone()
        } else {
            LetterCurves::None
        };
        let of_letter = planned.notices.iter().filter_map(|id| events.get(id));
        let account = account::account(state, planned, of_letter.cloned().collect(), curves, now);
        let of_letter = planned.notices.iter();
        let notices = of_letter.filter_map(|id| notices.get(id)).collect();
        let picture = picture.as_deref().filter(|_| planned.is_digest);
        let told = LetterParts {
            account: &account,
            picture,
            notices,
        };
        made.extend(letters(sources, state, config, mail, planned, &told));
    }
    made
}

fn calls(
    config: &Config,
    notice: &Notice,
    event: &LetterEvent,
    now_ms: i64,
) -> Vec<ComposedDelivery> {
    let body = letter::event_json(event);
    let word = body["event"].as_str().unwrap_or_default();
    let subject = format!("{word} {}", event.run);
    let bytes: Arc<[u8]> = body.to_string().into_bytes().into();
    let ways = [
        (DeliveryWay::Webhook, config.notify.webhook.is_some()),
        (DeliveryWay::Command, config.notify.command.is_some()),
    ];
    let configured = ways.into_iter().filter(|(_, is_set)| *is_set);
    configured
        .map(|(way, _)| ComposedDelivery {
            delivery: Delivery {
                id: 0,
                key: notice.key.clone(),
                way,
                to: String::new(),
                from: String::new(),
                subject: subject.trim_end().to_owned(),
                message_id: String::new(),
                thread: None,
                is_digest: false,
                content: String::new(),
                made_ms: now_ms,
                tries: 0,
                state: waiting(now_ms),
            },
            bytes: Arc::clone(&bytes),
        })
        .collect()
}

fn waiting(now_ms: i64) -> DeliveryState {
    DeliveryState::Waiting {
        next_ms: now_ms,
        why: String::new(),
    }
}

/// What a letter tells.
struct LetterParts<'a> {
    account: &'a Account,
    picture: Option<&'a [u8]>,
    notices: Vec<&'a Arc<Notice>>,
}

fn letters(
    sources: &LetterSources<'_>,
    state: &State,
    config: &Config,
    mail: &Mail,
    planned: &PlannedLetter,
    told: &LetterParts<'_>,
) -> Vec<ComposedDelivery> {
    let (deployment, now_ms) = (sources.deployment, sources.now.ms);
    let newest = told.notices.last();
    let text = letter::letter(told.account, sources.zone);
    let content = if planned.is_digest {
        blake3::hash(text.text.as_bytes()).to_hex().to_string()
    } else {
        String::new()
    };
    let last = state.post.last_digest().filter(|_| planned.is_digest);
    if last.is_some_and(|last| last.content == content) {
        return Vec::new();
    }
    // Each notice is in one letter, so its evidence names the letter.
    let key = newest.map_or_else(|| format!("digest/{now_ms}"), |one| one.key.clone());
    let date_ms = newest.map_or(now_ms, |newest| newest.decided_ms);
    let collection = planned.collection.as_deref();
    let thread = match (collection, planned.is_digest) {
        (Some(name), _) => Some(MailThread {
            id: format!("{deployment}/{name}"),
            name: name.to_owned(),
        }),
        // No collection has an empty part in its name.
        (None, true) => Some(MailThread {
            id: format!("{deployment}//digests"),
            name: "digests".to_owned(),
        }),
        (None, false) => None,
    };
    let one = |to: &String| {
        let composed = Letter {
            key: format!("{deployment}/{key}"),
            from: mail.from.clone(),
            to: to.clone(),
            to_name: config.name_of(to).map(str::to_owned),
            subject: text.subject.clone(),
            date_ms,
            thread: thread.clone(),
            text: text.text.clone(),
            html: text.html.clone(),
            picture: told.picture.map(<[u8]>::to_vec),
        }
        .compose();
        let (message_id, bytes, state) = match composed {
            Ok(composed) => (composed.message_id, composed.bytes, waiting(now_ms)),
            Err(error) => {
                let why = error.to_string();
                let at_ms = now_ms;
                (
                    String::new(),
                    Vec::new(),
                    DeliveryState::Refused { at_ms, why },
                )
            }
        };
        ComposedDelivery {
            delivery: Delivery {
                id: 0,
                key: key.clone(),
                way: DeliveryWay::Mail,
                to: to.clone(),
                from: mail.from.clone(),
                subject: text.subject.clone(),
                message_id,
                thread: collection.map(str::to_owned),
                is_digest: planned.is_digest,
                content: content.clone(),
                made_ms: now_ms,
                tries: 0,
                state,
            },
            bytes: bytes.into(),
        }
    };
    // A node may have told one recipient and not another.
    let notices = told.notices.iter();
    let is_told = |to: &&String| {
        let mut notices = notices.clone();
        let to = std::slice::from_ref(*to);
        told.notices.is_empty() || !notices.all(|notice| is_relayed(state, notice, to))
    };
    let to = config.notify.to.iter().filter(is_told);
    to.map(one).collect()
}
