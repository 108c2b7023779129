//! Reports of a node about a run that it has, and the changes that follow here.
//! Records of its journal come separately and count more.

use super::late::{LateInput, StepResult};
use super::{deferred, recall};
use crate::facts::dispatch::{Dispatch, RecordsSent, Unreadable};
use crate::facts::reason::WaitReason;
use crate::facts::stage::{HandOverStage, Stage};
use crate::fold::change::{Change, dispatch_changed};
use crate::fold::run::Run;

/// The stage of a run on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportedStage {
    /// The run lies there and cannot be read now.
    Held,
    Waiting,
    Starting,
    Running,
    /// Every record except a watcher's was sent.
    Ended,
    /// Every record was sent.
    Settled,
    /// It was cancelled before it was started.
    TakenAway,
    /// The node accepted it, and can never start it.
    Refused,
    /// The node does not know the run.
    Unknown,
}

impl ReportedStage {
    /// Whether nothing more of a closed run comes, whose points were asked for again.
    fn has_sent_all(self) -> bool {
        match self {
            Self::Settled | Self::TakenAway | Self::Refused | Self::Unknown => true,
            Self::Held | Self::Waiting | Self::Starting | Self::Running | Self::Ended => false,
        }
    }
}

/// A node's report about one run; its texts are bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub standing: ReportedStage,
    /// The reason why it waits, was refused or given back, or the records of it
    /// that are gone.
    pub why: String,
    /// Whether that reason does not pass until a person acts.
    pub needs_person: bool,
    /// Whether it began, and its scheduler put its job back into the queue.
    pub waits_again: bool,
    /// Whether its job goes on without a parent of ours.
    pub unsupervised: bool,
    /// The host on which it goes on, if that is not its neromum's host.
    pub host: String,
    /// Whether its newest pause request asks for a pause.
    pub paused: bool,
    /// Whether its job made no file and changed none.
    pub made_nothing: bool,
    /// Whether its job left a new checkpoint; none: not told.
    pub made_checkpoint: Option<bool>,
    /// Whether the node has no usable spec of it.
    pub send_spec: bool,
    /// The files of the run that the node cannot use.
    pub unreadable: Vec<Unreadable>,
    /// Number of the hand-over that the report concerns. When the node does not know
    /// the run: number of the last hand-over that did not reach it. 0: the node is of
    /// an earlier build and tells no number.
    pub generation: u32,
}

impl Report {
    /// The report that the node does not know the run.
    pub(crate) fn unknown() -> Self {
        Self {
            standing: ReportedStage::Unknown,
            why: String::new(),
            needs_person: false,
            waits_again: false,
            unsupervised: false,
            host: String::new(),
            paused: false,
            made_nothing: false,
            made_checkpoint: None,
            send_spec: false,
            unreadable: Vec::new(),
            generation: 0,
        }
    }

    /// Whether the report concerns a hand-over before number `generation`. A report
    /// without a number counts as one about the newest hand-over.
    pub(crate) fn is_older_than(&self, generation: u32) -> bool {
        (1..generation).contains(&self.generation)
    }
}

/// A report that contradicts the known state of the run; it is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// The node does not know a run that it started.
    Forgotten,
    /// The node calls a run that was started never started.
    NeverStarted,
}

/// Records a node's report about a run.
fn heard(run: &Run, dispatch: &mut Dispatch, report: &Report, now_ms: i64) {
    if report.standing != ReportedStage::Unknown {
        dispatch.stage.know();
    }
    dispatch.send_spec = report.send_spec;
    dispatch.unreadable.clone_from(&report.unreadable);
    if report.standing == ReportedStage::Held {
        // A held run cannot be read now: the report has no other news.
        dispatch.why = report.why.clone().into();
        return;
    }
    let is_gone = matches!(
        report.standing,
        ReportedStage::TakenAway | ReportedStage::Refused
    );
    if is_gone && run.awaits_nodes() {
        // It may have gone to another node after the backup was made: that is no end. The node
        // tells it again over its next connection.
        dispatch.why = report.why.clone().into();
        return;
    }
    let newest = run.journal.newest().map_or(0, |(number, _)| number);
    dispatch.waits_again = if report.waits_again { newest } else { 0 };
    dispatch.unsupervised = report.unsupervised;
    dispatch.paused = report.paused;
    dispatch.far_host.clone_from(&report.host);
    dispatch.made_checkpoint = report.made_checkpoint.or(dispatch.made_checkpoint);
    match report.standing {
        ReportedStage::Waiting | ReportedStage::Starting => {
            dispatch.stage.advance(HandOverStage::Pending);
            dispatch.why = if report.needs_person {
                WaitReason::NeedsPerson(report.why.clone())
            } else {
                report.why.clone().into()
            };
            deferred::taken(dispatch, run.node_word());
        }
        ReportedStage::Running => {
            dispatch.stage.keep();
            dispatch.stage.advance(HandOverStage::Pending);
            // A scheduler may have suspended it.
            dispatch.why = report.why.clone().into();
        }
        ReportedStage::Ended => {
            dispatch.sent.ended(report.made_nothing);
            dispatch.stage.keep();
        }
        ReportedStage::Settled => {
            dispatch.stage.keep();
            dispatch.stage.advance(HandOverStage::Pending);
            dispatch.sent = RecordsSent::All {
                made_nothing: report.made_nothing,
                missing: report.why.clone(),
            };
        }
        // The node is asked for its promise, which is more precise.
        ReportedStage::Unknown | ReportedStage::TakenAway if dispatch.leaves() => {}
        ReportedStage::Unknown => forgotten(run, dispatch, report, now_ms),
        // The run's journal counts more than any report.
        ReportedStage::TakenAway | ReportedStage::Refused if run.journal.has_run() => {}
        ReportedStage::TakenAway => dispatch.taken_away(&report.why, now_ms),
        ReportedStage::Refused => recall::refused(run, dispatch, report.why.clone(), now_ms),
        ReportedStage::Held => {}
    }
}

/// Records that a node does not know a run: it goes there once more, unless it began.
fn forgotten(run: &Run, dispatch: &mut Dispatch, report: &Report, now_ms: i64) {
    // A node that lost the run lost the cancel with it.
    if let Some(cancel) = &mut dispatch.cancel {
        cancel.delivered = false;
    }
    match &mut dispatch.stage {
        Stage::Behind { .. } | Stage::Unplaced | Stage::Over { .. } => {}
        Stage::Begun { unknown_ms, .. } if run.phase().is_live() => {
            *unknown_ms = Some(now_ms);
        }
        Stage::Begun { .. } => {}
        Stage::Chosen { node, .. }
        | Stage::Offered { node, .. }
        | Stage::Accepted { node, .. }
        | Stage::Recalled { node, .. } => {
            if dispatch.cancel.is_some() {
                // It is being cancelled, and no node has it.
                dispatch.take_away(now_ms);
                return;
            }
            let node = std::mem::take(node);
            deferred::taken(dispatch, &node);
            let sending = false;
            dispatch.stage = Stage::Chosen { node, sending };
            // An earlier hand-over that is still on its way is refused there.
            dispatch.begin_generation();
            dispatch.why = report.why.clone().into();
        }
    }
}

/// What a node's report changes of a run that is on it still.
pub(crate) fn reported(run: &Run, node: &str, report: &Report, now_ms: i64) -> StepResult {
    if !run.open() || run.node() != Some(node) {
        return Err(LateInput);
    }
    let closed = run.is_closed();
    let mut goes_again = false;
    let change = dispatch_changed(run, |dispatch| {
        dispatch.points_again &= !report.standing.has_sent_all();
        if !closed {
            heard(run, dispatch, report, now_ms);
            goes_again = dispatch.stage.handing() == HandOverStage::Queued
                && dispatch.stage.is_before_start();
        }
    });
    let (id, why) = (run.made.id, &report.why);
    let given_back = report.standing == ReportedStage::Unknown && !why.is_empty();
    let event = (!closed && given_back).then(|| Change::Event {
        experiment: id.experiment,
        run: Some(id.number),
        at_ms: now_ms,
        text: if goes_again {
            format!("{id}: given back by {node}, and to be sent there again: {why}")
        } else {
            format!("{id}: given back by {node}: {why}")
        },
    });
    Ok(change.into_iter().chain(event).collect())
}

/// How a report contradicts what is known of an open run, if it does.
pub fn contradiction(run: &Run, standing: ReportedStage) -> Option<Contradiction> {
    match standing {
        ReportedStage::Unknown
            if run.phase().is_live() && !run.dispatch.stage.is_before_start() =>
        {
            Some(Contradiction::Forgotten)
        }
        ReportedStage::TakenAway | ReportedStage::Refused
            if run.journal.has_run() && !run.is_closed() =>
        {
            Some(Contradiction::NeverStarted)
        }
        ReportedStage::Held
        | ReportedStage::Waiting
        | ReportedStage::Starting
        | ReportedStage::Running
        | ReportedStage::Ended
        | ReportedStage::Settled
        | ReportedStage::TakenAway
        | ReportedStage::Refused
        | ReportedStage::Unknown => None,
    }
}

/// A run that a node reports although it is no longer the node's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stray {
    /// The run is over: the node missed that it may forget the run.
    Over,
    /// The node goes on with it: it got there after it was ended here, or was
    /// given up.
    Live,
}

/// The meaning of a report for a run that is ended or closed here, or elsewhere
/// now.
pub fn stray(run: &Run, node: &str, standing: ReportedStage) -> Option<Stray> {
    let elsewhere = run.node() != Some(node);
    if run.awaits_nodes() {
        // A restored home is told here what it does not know.
        return None;
    }
    match standing {
        ReportedStage::Settled | ReportedStage::TakenAway | ReportedStage::Refused
            if elsewhere || run.is_closed() =>
        {
            Some(Stray::Over)
        }
        // If only its records ended the run, the report may be older than they
        // are.
        ReportedStage::Waiting | ReportedStage::Starting | ReportedStage::Running
            if elsewhere || run.dispatch.stage.verdict().is_some() =>
        {
            Some(Stray::Live)
        }
        ReportedStage::Waiting
        | ReportedStage::Starting
        | ReportedStage::Running
        | ReportedStage::Ended
        | ReportedStage::Settled
        | ReportedStage::TakenAway
        | ReportedStage::Refused
        | ReportedStage::Unknown
        | ReportedStage::Held => None,
    }
}
