//! Derives a run's phase and the reason of its end from its facts.

use nero_journal::v1::{StopCause, job_not_started, lost, task_over};
use nero_model::safe::quoted;
use nero_model::{EndReason, Phase, TaskEnd};

use crate::facts::dispatch::{Dispatch, RecordsSent};
use crate::facts::journal::{Exit, Incarnation, Journal, NotStarted, RuleFacts, Stop};
use crate::facts::run_record::RunRecord;
use crate::facts::stage::{Stage, TAKE_OVER, Verdict};

/// The judgement of a run's evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub phase: Phase,
    pub reason: Option<EndReason>,
    /// The time of the end, on the node's clock.
    pub ended_ms: Option<i64>,
}

impl Outcome {
    fn still(phase: Phase) -> Self {
        Self {
            phase,
            reason: None,
            ended_ms: None,
        }
    }
}

/// Free space below which a failing job is reported to have met a full disk.
const DISK_FULL_BYTES: u64 = 1024 * 1024;

/// Judges a run: by the journal's newest start, if there is one, else by
/// neroman's and neromum's own records.
pub(crate) fn judge(dispatch: &Dispatch, journal: &Journal) -> Outcome {
    let mut outcome = judged(dispatch, journal);
    let rule = dispatch.cancel.as_ref().and_then(|cancel| cancel.rule);
    let was_cancelled = matches!(
        outcome.reason,
        Some(EndReason::ByPerson { .. } | EndReason::TakenAway { .. })
    );
    if let Some(rule) = rule.filter(|_| was_cancelled) {
        let firing = dispatch.fired.get(&rule);
        outcome.reason = Some(EndReason::ByRule {
            rule,
            text: firing.map_or_else(|| format!("rule {rule}"), |firing| firing.text.clone()),
            values: firing.map_or_else(String::new, |firing| firing.values.clone()),
        });
    }
    outcome
}

fn judged(dispatch: &Dispatch, journal: &Journal) -> Outcome {
    if let Some((_, newest)) = journal.newest() {
        if let Some(end) = ended(dispatch, journal, newest) {
            return end;
        }
        if let Some(Verdict::NodeGone { who, at_ms }) = dispatch.stage.verdict() {
            return node_gone(who, *at_ms);
        }
        if dispatch.sent.is_all() {
            // Every record was sent and none of them is an end.
            return Outcome {
                phase: Phase::Lost,
                reason: Some(EndReason::Other {
                    text: "its records say no end".to_owned(),
                }),
                ended_ms: Some(journal.last_sign_ms(i64::MAX)),
            };
        }
    }
    // Its journal may be empty: it is folded anew after a mismatch.
    if let Stage::Begun {
        unknown_ms: Some(at_ms),
        ..
    } = dispatch.stage
    {
        let last_sign_ms = Some(journal.last_sign_ms(at_ms)).filter(|sign_ms| *sign_ms > 0);
        return Outcome {
            phase: Phase::Lost,
            reason: Some(EndReason::Other {
                text: "its node does not know it any more".to_owned(),
            }),
            ended_ms: last_sign_ms.or(Some(at_ms)),
        };
    }
    if let Some((number, newest)) = journal.newest() {
        let waits_again = number > 0 && dispatch.waits_again == number;
        if waits_again {
            return Outcome::still(Phase::Pending);
        }
        if newest.exit.is_some() || newest.gone.is_some() || newest.end_hold().is_some() {
            return Outcome::still(Phase::Ending);
        }
        let at_gate = newest.not_started.is_some();
        if newest.started_ms.is_some() && !at_gate {
            return Outcome::still(if newest.stop.is_some() {
                Phase::Ending
            } else {
                Phase::Running
            });
        }
        if dispatch.stage.verdict().is_none() {
            return Outcome::still(Phase::Pending);
        }
    }
    match dispatch.stage.verdict() {
        Some(Verdict::TakenAway { who, at_ms }) => Outcome {
            phase: Phase::Aborted,
            reason: Some(match dispatch.cancel {
                Some(_) => EndReason::TakenAway { who: who.clone() },
                // Nobody asked for it here.
                None => EndReason::ByScheduler {
                    scheduler: who.clone(),
                    how: TaskEnd::Cancelled,
                },
            }),
            ended_ms: Some(*at_ms),
        },
        Some(Verdict::Refused { why, at_ms }) => Outcome {
            phase: Phase::Crashed,
            reason: Some(EndReason::Other { text: why.clone() }),
            ended_ms: Some(*at_ms),
        },
        Some(Verdict::NodeGone { who, at_ms }) => node_gone(who, *at_ms),
        Some(Verdict::Reserved { at_ms }) => node_gone(TAKE_OVER, *at_ms),
        None => Outcome::still(dispatch.stage.waits_in()),
    }
}

/// The end of a run on a lost node, which will never be known.
fn node_gone(who: &str, at_ms: i64) -> Outcome {
    Outcome {
        phase: Phase::Lost,
        reason: Some(EndReason::NodeGone {
            who: who.to_owned(),
        }),
        ended_ms: Some(at_ms),
    }
}

/// The end that the records of one start prove, if any.
fn ended(dispatch: &Dispatch, journal: &Journal, one: &Incarnation) -> Option<Outcome> {
    if let Some(not) = &one.not_started {
        return never_started(dispatch, journal, one, not);
    }
    let Some(exit) = &one.exit else {
        return lost_end(dispatch, journal, one);
    };
    let gone_ms = match (&one.gone, &one.lost) {
        (Some(gone), _) => gone.at_ms,
        // The records contain the end, and nothing is left of the run on a machine
        // that was restarted or in an allocation that is over.
        (None, Some(lost)) if !exit.code_unknown && leaves_no_process(lost.reason) => exit.at_ms,
        (None, _) => return lost_end(dispatch, journal, one),
    };
    let stop = one.stop.as_ref().filter(|stop| stop.key < exit.key);
    let (phase, reason) = match stop {
        Some(stop) => {
            let (phase, reason) = stopped(dispatch, journal, one, stop);
            (phase, Some(reason))
        }
        None => ended_by_itself(exit),
    };
    Some(Outcome {
        phase,
        reason,
        ended_ms: Some(exit.at_ms.max(gone_ms)),
    })
}

/// The end of a start whose job never ran.
fn never_started(
    dispatch: &Dispatch,
    journal: &Journal,
    one: &Incarnation,
    not: &NotStarted,
) -> Option<Outcome> {
    use job_not_started::Stage;
    let stage = Stage::try_from(not.stage).unwrap_or(Stage::Unspecified);
    let (phase, reason) = match stage {
        // The next start follows.
        Stage::Gate => return lost_end(dispatch, journal, one),
        Stage::Cancelled => (
            Phase::Aborted,
            EndReason::TakenAway {
                who: dispatch.who(),
            },
        ),
        Stage::Unspecified | Stage::Output | Stage::Folder | Stage::Exec | Stage::Fork => (
            Phase::Crashed,
            EndReason::NotStarted {
                stage: stage_words(stage, &not.program),
                errno: not.errno,
            },
        ),
    };
    Some(Outcome {
        phase,
        reason: Some(reason),
        ended_ms: Some(not.at_ms),
    })
}

/// The end of a job that was stopped before its exit.
fn stopped(
    dispatch: &Dispatch,
    journal: &Journal,
    one: &Incarnation,
    stop: &Stop,
) -> (Phase, EndReason) {
    let by_person = || EndReason::ByPerson {
        who: dispatch.who(),
    };
    match StopCause::try_from(stop.cause).unwrap_or(StopCause::Unspecified) {
        StopCause::TimeLimit => (
            Phase::Timeout,
            EndReason::TimeLimit {
                limit_ms: one.claimed.as_ref().map_or(0, |claim| claim.time_limit_ms),
            },
        ),
        StopCause::Rule => (Phase::Aborted, by_rule(journal, stop.rule)),
        // A full disk had no room for the author of the cancel request.
        StopCause::Unspecified => {
            let rule = aborted_by(journal).filter(|_| dispatch.cancel.is_none());
            let reason = rule.map_or_else(by_person, |rule| by_rule(journal, rule));
            (Phase::Aborted, reason)
        }
        StopCause::Person if is_escalated(one) => by_scheduler(one, Phase::Aborted),
        StopCause::Warden => asked_for_here(dispatch, stopped_by_scheduler(one)),
        StopCause::Person => (Phase::Aborted, by_person()),
    }
}

/// The end of a job that nobody stopped.
fn ended_by_itself(exit: &Exit) -> (Phase, Option<EndReason>) {
    let code = exit.code;
    let is_disk_full = exit
        .disk_free_bytes
        .is_some_and(|free| free < DISK_FULL_BYTES);
    let crash = if exit.code_unknown {
        return (Phase::Lost, Some(EndReason::CodeUnknown));
    } else if exit.oom_kills > 0 {
        EndReason::OutOfMemory { code }
    } else if exit.signal != 0 {
        EndReason::Signalled {
            signal: exit.signal,
            core_dumped: exit.core_dumped,
        }
    } else if code == 0 {
        return (Phase::Finished, None);
    } else if is_disk_full {
        EndReason::DiskFull { code }
    } else {
        EndReason::Exited { code }
    };
    (Phase::Crashed, Some(crash))
}

/// Whether a loss proves that no process of the run is left.
fn leaves_no_process(reason: i32) -> bool {
    matches!(
        lost::Reason::try_from(reason),
        Ok(lost::Reason::Rebooted | lost::Reason::TaskOver)
    )
}

/// The end of a run that its node calls lost. The node may have noticed it a
/// night later: the time of the end is the last sign of the run.
fn lost_end(dispatch: &Dispatch, journal: &Journal, one: &Incarnation) -> Option<Outcome> {
    let lost = one.lost.as_ref()?;
    if lost::Reason::try_from(lost.reason) == Ok(lost::Reason::TaskOver) {
        let (phase, reason) = asked_for_here(dispatch, by_scheduler(one, Phase::Lost));
        return Some(Outcome {
            phase,
            reason: Some(reason),
            ended_ms: Some(journal.last_sign_ms(lost.at_ms)),
        });
    }
    let reason = match lost::Reason::try_from(lost.reason) {
        Ok(lost::Reason::Rebooted) => EndReason::Rebooted,
        Ok(lost::Reason::CodeUnknown) => EndReason::CodeUnknown,
        Ok(lost::Reason::FolderGone) => EndReason::Other {
            text: "its folder on the node is gone".to_owned(),
        },
        Ok(lost::Reason::Unspecified | lost::Reason::TaskOver) | Err(_) => EndReason::Other {
            text: format!("lost: {}", lost.detail),
        },
    };
    Some(Outcome {
        phase: Phase::Lost,
        reason: Some(reason),
        ended_ms: Some(journal.last_sign_ms(lost.at_ms)),
    })
}

/// The end of a run that its scheduler stopped. That its job then failed is no news:
/// it exited with the run's code.
fn stopped_by_scheduler(one: &Incarnation) -> (Phase, EndReason) {
    match by_scheduler(one, Phase::Aborted) {
        (
            phase,
            EndReason::ByScheduler {
                scheduler,
                how: TaskEnd::Failed,
            },
        ) => {
            let how = TaskEnd::Untold;
            (phase, EndReason::ByScheduler { scheduler, how })
        }
        told => told,
    }
}

/// The same end, where its job was cancelled at the scheduler since a person asked for that here:
/// a run that was requeued and waits has no process that an abort could end.
fn asked_for_here(dispatch: &Dispatch, end: (Phase, EndReason)) -> (Phase, EndReason) {
    let is_cancelled = matches!(
        &end.1,
        EndReason::ByScheduler {
            how: TaskEnd::Cancelled,
            ..
        }
    );
    match dispatch.cancel {
        Some(_) if is_cancelled => {
            let who = dispatch.who();
            (Phase::Aborted, EndReason::ByPerson { who })
        }
        Some(_) | None => end,
    }
}

/// Whether an abort ended the run only after its job was cancelled at its scheduler.
fn is_escalated(one: &Incarnation) -> bool {
    one.task_over.as_ref().is_some_and(|over| over.escalated)
}

/// The end that a scheduler wanted; `otherwise` when it does not say how.
fn by_scheduler(one: &Incarnation, otherwise: Phase) -> (Phase, EndReason) {
    use task_over::How;
    let told = one.task_over.as_ref();
    let how = told.and_then(|over| How::try_from(over.how).ok());
    let (phase, how) = match how.unwrap_or(How::Unspecified) {
        How::TimeLimit => (Phase::Timeout, TaskEnd::TimeLimit),
        How::OutOfMemory => (Phase::Crashed, TaskEnd::OutOfMemory),
        How::HostFailure => (Phase::Lost, TaskEnd::HostFailure),
        How::Preempted => (Phase::Aborted, TaskEnd::Preempted),
        How::Cancelled if is_escalated(one) => (Phase::Aborted, TaskEnd::Escalated),
        How::Cancelled => (Phase::Aborted, TaskEnd::Cancelled),
        How::Failed => (otherwise, TaskEnd::Failed),
        How::Unspecified => (otherwise, TaskEnd::Untold),
    };
    let scheduler = told.map_or_else(String::new, |over| over.scheduler.clone());
    (phase, EndReason::ByScheduler { scheduler, how })
}

/// The rule that stopped the run, by its watcher's record.
fn aborted_by(journal: &Journal) -> Option<u64> {
    let ends_it = |word: &str| matches!(word, "abort" | "restart" | "requeue");
    let fired = |facts: &RuleFacts| ends_it(&facts.action) && facts.fired > 0;
    let rules = journal.rules.iter();
    rules
        .filter(|(_, facts)| fired(facts))
        .min_by_key(|(_, facts)| facts.last_fired_ms)
        .map(|(rule, _)| *rule)
}

fn by_rule(journal: &Journal, rule: u64) -> EndReason {
    // A rule's text is known here only from the record of its firing.
    let facts = journal.rules.get(&rule).filter(|facts| facts.fired > 0);
    EndReason::ByRule {
        rule,
        text: facts.map_or_else(|| format!("rule {rule}"), |facts| facts.text.clone()),
        values: facts
            .map(|facts| facts.last_values.clone())
            .unwrap_or_default(),
    }
}

fn stage_words(stage: job_not_started::Stage, program: &str) -> String {
    use job_not_started::Stage;
    let words = match stage {
        Stage::Output => "its log files could not be made",
        Stage::Folder => "its folder could not be entered",
        Stage::Exec if !program.is_empty() => {
            return format!("its program {} could not be executed", quoted(program));
        }
        Stage::Exec => "its program could not be executed",
        Stage::Fork => "no process could be made",
        Stage::Gate => "its supervisor died",
        Stage::Cancelled => "cancelled",
        Stage::Unspecified => "for an unknown reason",
    };
    words.to_owned()
}

/// An end by the time limit, until its node reports whether a checkpoint was made: a run
/// may follow, so the run shown is still ending, and an abort still counts.
pub(crate) fn held_back(made: &RunRecord, dispatch: &Dispatch, outcome: Outcome) -> Outcome {
    let waits = made.again.requeues_timeout
        && outcome.phase == Phase::Timeout
        && dispatch.sent == RecordsSent::Some
        && dispatch.cancel.is_none()
        && dispatch.stage.verdict().is_none();
    if waits {
        Outcome {
            phase: Phase::Ending,
            reason: None,
            ended_ms: None,
        }
    } else {
        outcome
    }
}
