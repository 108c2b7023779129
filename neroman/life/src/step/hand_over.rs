//! The changes of a hand-over to a node: sending the files, the offer, and the
//! node's answer. A run that is elsewhere meanwhile, or that has ended, does not
//! change.

use super::late::{LateInput, StepResult};
use super::report::{self, Report};
use super::{deferred, needs, refusal};
use crate::facts::leaving::Refusal;
use crate::facts::now::Moment;
use crate::facts::reason::WaitReason;
use crate::facts::stage::{HandOverStage, Stage};
use crate::facts::text::bounded;
use crate::fold::change::dispatch_changed;
use crate::fold::run::Run;

/// Whether this node is to get a run that it has not accepted.
pub fn is_due(run: &Run, node: &str) -> bool {
    run.node() == Some(node) && needs::of(run).hand_over
}

/// Whether its node has the run and only lacks its spec. The hand-over tells the
/// node: if the node lost the run since, it must not take it as a new one.
pub fn is_sent_again(run: &Run) -> bool {
    run.dispatch.send_spec
}

/// Whether this node may have a run that is due there.
fn may_have(run: &Run, node: &str) -> bool {
    is_due(run, node) && !run.movable()
}

/// Whether the node is asked if it has a run that can never be sent.
pub fn is_asked_for(run: &Run, node: &str) -> bool {
    may_have(run, node) && !is_sent_again(run)
}

/// The result of sending a run's files, before its node is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendState {
    /// Its files are being sent.
    FilesGo,
    /// It is sent later, with the reason.
    Waits(String),
    /// It is sent later because the node cannot take it now, or it goes to another
    /// node.
    Deferred(String),
    /// It can never be sent, with the reason. That ends a run which its node surely
    /// does not have; for any other the node's answer decides.
    Never(String),
}

/// Records the result of sending a run.
pub(crate) fn sending(run: &Run, node: &str, sending: &SendState, now: &Moment) -> StepResult {
    if !is_due(run, node) {
        return Err(LateInput);
    }
    let change = dispatch_changed(run, |dispatch| match sending {
        SendState::FilesGo => {
            dispatch.stage.advance(HandOverStage::Staging);
            dispatch.why = WaitReason::Unknown;
        }
        SendState::Waits(why) => dispatch.why = bounded(why).into(),
        // Its node has the run, and reports itself what the run lacks there.
        SendState::Never(_) if dispatch.send_spec => dispatch.send_spec = false,
        SendState::Deferred(why) => {
            let why = bounded(why);
            deferred::said(dispatch, node, &why, now);
            dispatch.why = why.into();
        }
        SendState::Never(why) if run.movable() => dispatch.never_starts(bounded(why), now.ms),
        // Its node may have it and go on with it: the node is asked.
        SendState::Never(why) => {
            let why = format!("{why}; node {node} is asked whether it has the run");
            dispatch.why = bounded(&why).into();
        }
    });
    Ok(change.into_iter().collect())
}

/// Records that a run may reach this node from now on, where another node could get
/// it; synced before the run is sent. A run that was held while its files went stays.
pub(crate) fn offered(run: &Run, node: &str) -> StepResult {
    if !run.movable() || !is_due(run, node) {
        return Err(LateInput);
    }
    let change = dispatch_changed(run, |dispatch| {
        if let Stage::Chosen { node, sending } = &mut dispatch.stage {
            dispatch.stage = Stage::Offered {
                node: std::mem::take(node),
                sending: *sending,
            };
        }
    });
    Ok(change.into_iter().collect())
}

/// Whether a spec that was made for this generation may still be sent. The run may have
/// been ended, or placed elsewhere and back, while its files were sent.
pub fn may_send(run: &Run, node: &str, generation: u32) -> bool {
    may_have(run, node) && run.dispatch.generation() == generation
}

/// A node's answer about one run that was handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The node has the run, with rules of this version.
    Accepted { rules_version: u64 },
    /// The node cannot take the run for now.
    Later {
        why: String,
        /// `why` without the node's name, where it begins with that.
        lacks: Option<String>,
        hint: String,
    },
    /// The node cannot take the run. `only_here`: no job of it was started there,
    /// nor will be, and another node may take it.
    Refused {
        why: String,
        /// `why` without the node's name, where it begins with that.
        lacks: Option<String>,
        hint: String,
        only_here: bool,
    },
    /// The node does not know the run, and does not take it with this generation.
    Unknown,
    /// The same for a run that can never be sent, with the reason.
    NotThere { why: String },
    /// The node does not tell whether it has a run that can never be sent: it is asked
    /// again.
    CannotTell { why: String },
}

/// The changes from a node's answer.
pub(crate) fn answered(run: &Run, node: &str, answer: &Answer, now: &Moment) -> StepResult {
    let change = match answer {
        Answer::Accepted { rules_version } => dispatch_changed(run, |dispatch| {
            dispatch.stage.advance(HandOverStage::Submitted);
            dispatch.rules_delivered = dispatch.rules_delivered.max(*rules_version);
            dispatch.send_spec = false;
            deferred::taken(dispatch, node);
        }),
        // Its node has the run, and waits for the spec or did so.
        Answer::Later { .. } if run.dispatch.send_spec || !run.dispatch.stage.is_not_accepted() => {
            None
        }
        Answer::Later { why, lacks, hint } => dispatch_changed(run, |dispatch| {
            dispatch.stage.advance(HandOverStage::Staging);
            dispatch.why = bounded(&refusal::with_hint(why, hint)).into();
            deferred::said(dispatch, node, &bounded(lacks.as_ref().unwrap_or(why)), now);
        }),
        Answer::NotThere { why } if run.dispatch.stage.is_not_accepted() => {
            dispatch_changed(run, |dispatch| {
                dispatch.never_starts(bounded(why), now.ms);
            })
        }
        Answer::CannotTell { why } => dispatch_changed(run, |dispatch| {
            if dispatch.stage.is_not_accepted() {
                dispatch.why = bounded(why).into();
            }
        }),
        Answer::Unknown | Answer::NotThere { .. } => {
            return report::reported(run, node, &Report::unknown(), now.ms);
        }
        // Its node has the run, and reports itself what the run needs to go on.
        Answer::Refused { .. } if run.dispatch.send_spec => {
            dispatch_changed(run, |dispatch| dispatch.send_spec = false)
        }
        Answer::Refused {
            why,
            lacks,
            hint,
            only_here,
        } => {
            let refusal = Refusal {
                node: node.to_owned(),
                why: bounded(why),
                hint: bounded(hint),
                at_ms: now.ms,
            };
            return Ok(refusal::refused(run, refusal, lacks.as_deref(), *only_here));
        }
    };
    Ok(change.into_iter().collect())
}
