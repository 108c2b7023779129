//! What the configuration says about notices.

use std::sync::Arc;

use nero_config::{Config, NotifyEvent};
use nero_life::notices::{Notice, NoticeKind};
use nero_life::state::State;
use nero_model::Phase;

use crate::plan::{MailSettings, NoticeContext};

/// Whether anybody is told of anything.
pub fn is_notified(config: &Config) -> bool {
    let settings = settings(config);
    settings.has_mail || settings.has_webhook || settings.has_command
}

/// The settings of the plan.
pub fn settings(config: &Config) -> MailSettings {
    let notify = &config.notify;
    MailSettings {
        has_mail: config.mail.is_some() && !notify.to.is_empty(),
        has_webhook: notify.webhook.is_some(),
        has_command: notify.command.is_some(),
        quiet: notify
            .quiet
            .map(|hours| (hours.from_minute, hours.to_minute)),
        letters_per_hour: notify.limit_per_hour() as usize,
        digest_ms: notify.digest_ms.and_then(|ms| i64::try_from(ms).ok()),
    }
}

/// What state and configuration tell about a notice. `ahead_ms`: what the clock of its run's node
/// is ahead of ours. `is_heard`: whether that node has told what it told while neroman was away.
pub fn wanted(
    state: &State,
    config: &Config,
    notice: &Notice,
    ahead_ms: i64,
    is_heard: bool,
) -> NoticeContext {
    let run = notice.kind.run();
    let experiment = run.and_then(|run| state.experiment(run.experiment));
    NoticeContext {
        at_ms: notice.at_ms.saturating_sub(ahead_ms),
        is_wanted: is_wanted(config, &notice.kind),
        collection: experiment.map(|one| Arc::from(one.definition.collection())),
        is_ready: is_ready(state, notice) && is_heard,
        is_relayed: is_relayed(state, notice, &config.notify.to),
        is_end_of_start: matches!(
            notice.kind,
            NoticeKind::AllDone { batch } if state.batch(batch).runs > 1
        ),
    }
}

/// Whether the run's node has told all of these of its end.
pub(crate) fn is_relayed(state: &State, notice: &Notice, to: &[String]) -> bool {
    let NoticeKind::Ended { run, .. } = notice.kind else {
        return false;
    };
    let told = state.run(run).map(|run| run.relayed());
    !to.is_empty() && told.is_some_and(|told| to.iter().all(|to| told.contains(to)))
}

/// Whether people are told of such a thing: what a rule's `notify` asks for, and the events of the
/// configuration.
pub fn is_wanted(config: &Config, kind: &NoticeKind) -> bool {
    let is_asked = matches!(kind, NoticeKind::Fired { is_asked: true, .. });
    is_asked || event(kind).is_some_and(|event| config.notify.wants(event))
}

/// The word of the configuration for a notice.
fn event(kind: &NoticeKind) -> Option<NotifyEvent> {
    Some(match kind {
        NoticeKind::Started { .. } => NotifyEvent::Started,
        NoticeKind::Ended { phase, .. } => match phase {
            Phase::Finished => NotifyEvent::Finished,
            Phase::Crashed => NotifyEvent::Crashed,
            Phase::Aborted => NotifyEvent::Aborted,
            Phase::Timeout => NotifyEvent::Timeout,
            Phase::Lost => NotifyEvent::Lost,
            Phase::Queued
            | Phase::Staging
            | Phase::Submitted
            | Phase::Pending
            | Phase::Running
            | Phase::Ending => return None,
        },
        NoticeKind::Fired { .. } | NoticeKind::Remark { .. } => NotifyEvent::Warning,
        NoticeKind::Stalled { .. } => NotifyEvent::Stalled,
        NoticeKind::NodeAway { .. } | NoticeKind::NodeBack { .. } => NotifyEvent::Node,
        NoticeKind::AllDone { .. } => NotifyEvent::Done,
    })
}

/// Whether the last lines of a crashed job are here, if it printed any.
fn is_ready(state: &State, notice: &Notice) -> bool {
    let NoticeKind::Ended {
        run,
        phase: Phase::Crashed,
    } = notice.kind
    else {
        return true;
    };
    let Some(run) = state.run(run) else {
        return true;
    };
    let newest = run.journal.newest().and_then(|(_, one)| one.gone.as_ref());
    newest.is_none_or(|gone| gone.stderr_bytes == 0) || run.results().settled()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rule_asks_to_be_told_is_told_whatever_events_are_named() {
        let path = std::path::Path::new("/c/config.yaml");
        let text = "notify: {events: [crashed], command: [/bin/tell]}\n";
        let config = Config::parse(path, text).unwrap();
        let fired = |is_asked| NoticeKind::Fired {
            run: nero_model::RunId {
                experiment: nero_model::ExperimentId(1),
                number: 1,
            },
            rule: "loss > 5".to_owned(),
            values: "loss = 9".to_owned(),
            is_asked,
        };
        assert!(is_wanted(&config, &fired(true)));
        assert!(!is_wanted(&config, &fired(false)), "of `warn`");
    }
}
