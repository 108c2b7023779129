//! Everything that can happen to one run.

use std::sync::Arc;

use super::placement::Choice;
use super::report::Report;
use super::{cancel, hand_over, recall};
use crate::facts::dispatch::Cancel;
use crate::facts::hold::HoldCause;
use crate::facts::now::Tick;
use crate::facts::peers::PeersNumber;
use crate::facts::results::Results;
pub use crate::fold::run::Placement;
use crate::fold::run::Run;

/// What happens to a run. A node's name says from where it comes: of a run that is
/// elsewhere meanwhile, nothing changes. What belongs to one hand-over changes nothing
/// after the next one began, also on the same node.
#[derive(Clone, Debug)]
pub enum Input {
    /// The placer chose a node, found none now, or knows that none will do.
    Choice(Choice),
    /// Its node, which never got it, is out of reach, and why.
    NodeAway { node: String, why: String },
    /// What sending it comes to before its node is asked. `tick`: now, on the boot
    /// clock of this machine.
    Sending {
        node: String,
        sending: hand_over::SendState,
        tick: Tick,
    },
    /// It may reach its node from now on: synced before it is sent.
    Offer { node: String },
    /// Its node's answer to the hand-over.
    HandOver {
        at: Placement,
        answer: hand_over::Answer,
        tick: Tick,
    },
    /// A node's report about it.
    Reported { node: String, report: Report },
    /// A node has it that is not its own any more.
    Stray { node: String },
    /// A node that was told to end what it still had of it did so.
    EndedThere { node: String },
    /// A person decided that its node will never answer again. `others`: whether
    /// the word that was asked for has other nodes, too.
    NodeGone {
        node: String,
        who: String,
        others: bool,
    },
    /// The earlier run that it waits for is over.
    Released,
    /// It is not started for now, because of other runs of its batch.
    Hold(HoldCause),
    /// The pilot of its batch finished, or a person lets it go on.
    HoldLifted,
    /// It needs no other experiment any more.
    NeedsMet,
    /// Its node's answer to a hold or its end: whether the node holds it now.
    HoldAnswered { at: Placement, holds: bool },
    /// A person, or a new run of its experiment, asks that it ends.
    Cancel(Cancel),
    /// Its node's answer to the cancel that was asked at `asked_ms`.
    CancelAnswered {
        at: Placement,
        answer: cancel::Answer,
        asked_ms: Option<i64>,
    },
    /// Another node has room, and its own cannot take it for now.
    RecallDeferred { tick: Tick },
    /// Another node can start it now, and its own cannot.
    Balance {
        from: String,
        to: String,
        tick: Tick,
    },
    /// Its node may have been asked for the promise of its recall: synced.
    RecallAsked { at: Placement },
    /// Its node's answer to the recall.
    RecallAnswered {
        at: Placement,
        said: recall::RecallAnswer,
        tick: Tick,
    },
    /// Its node knows no recall.
    RecallUnsupported { at: Placement },
    /// The ids of its rules from now on.
    Rules { ids: Arc<[u64]> },
    /// The aggregates over its peers from now on, which its rules name.
    Peers { numbers: Arc<[PeersNumber]> },
    /// Its node has the rules that were sent as `version`, and keeps them as `kept`:
    /// the same, or a higher one when others lie there by that version.
    RulesDelivered { version: u64, kept: u64 },
    /// Its results are fetched into this folder.
    ResultsBegun { folder: String },
    /// What its results wait for on this machine; empty: nothing any more.
    ResultsWait { why: String },
    /// Its results are complete; `hints`: what may be behind its end.
    ResultsDone { done: Results, hints: Vec<String> },
    /// Its results are given up, and why.
    ResultsGivenUp { why: String },
    /// A person wants it cleaned before all of it was home.
    ResultsForgone,
    /// Its results lie in another folder now.
    ResultsMoved { folder: String },
    /// Its folder on its node was deleted.
    Cleaned,
    /// The tree of the checkpoints that it begins with, in hexadecimal.
    Checkpoints { overlay: String },
    /// Its node may forget it, if nothing more is needed.
    MayForget,
    /// The number of its points in the database of series, as the daemon starts.
    PointsHeld { held: u64 },
}

impl Input {
    /// Whether it belongs to the run's present hand-over, or to none.
    pub(crate) fn is_of(&self, run: &Run) -> bool {
        let at = match self {
            Self::HandOver { at, .. }
            | Self::CancelAnswered { at, .. }
            | Self::HoldAnswered { at, .. }
            | Self::RecallAsked { at }
            | Self::RecallAnswered { at, .. }
            | Self::RecallUnsupported { at } => at,
            Self::Reported { report, .. } => {
                return !report.is_older_than(run.generation()) && run.elsewhere().is_none();
            }
            Self::Choice(_)
            | Self::NodeAway { .. }
            | Self::Sending { .. }
            | Self::Offer { .. }
            | Self::Stray { .. }
            | Self::EndedThere { .. }
            | Self::NodeGone { .. }
            | Self::Released
            | Self::Hold(_)
            | Self::HoldLifted
            | Self::NeedsMet
            | Self::Cancel(_)
            | Self::RecallDeferred { .. }
            | Self::Balance { .. }
            | Self::Rules { .. }
            | Self::Peers { .. }
            | Self::RulesDelivered { .. }
            | Self::ResultsBegun { .. }
            | Self::ResultsWait { .. }
            | Self::ResultsDone { .. }
            | Self::ResultsGivenUp { .. }
            | Self::ResultsForgone
            | Self::ResultsMoved { .. }
            | Self::Cleaned
            | Self::Checkpoints { .. }
            | Self::MayForget
            | Self::PointsHeld { .. } => return true,
        };
        // The ledger that answers now tells nothing of a run that another one may have.
        run.node() == Some(at.node.as_str())
            && run.generation() == at.generation
            && run.elsewhere().is_none()
    }

    /// The input, as a message names it after "takes no".
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Choice(_) => "choice of a node",
            Self::NodeAway { .. } => "news that its node is away",
            Self::Sending { .. } => "news of its files",
            Self::Offer { .. } => "offer",
            Self::HandOver { .. } => "answer to its hand-over",
            Self::Reported { .. } => "report of this node",
            Self::Stray { .. } => "report of a stray",
            Self::EndedThere { .. } => "end on another node",
            Self::NodeGone { .. } => "decision that this node is gone",
            Self::Released => "release",
            Self::Hold(_) => "hold",
            Self::HoldLifted => "end of its hold",
            Self::NeedsMet => "end of its wait for others",
            Self::HoldAnswered { .. } => "answer to its hold",
            Self::Cancel(_) => "cancel request",
            Self::CancelAnswered { .. } => "answer to its cancel request",
            Self::RecallDeferred { .. } => "recall from a node without room",
            Self::Balance { .. } => "recall for a node with room",
            Self::RecallAsked { .. } => "question for its recall",
            Self::RecallAnswered { .. } => "answer to its recall",
            Self::RecallUnsupported { .. } => "failure of its recall",
            Self::Rules { .. } => "rules",
            Self::Peers { .. } => "numbers of its peers",
            Self::RulesDelivered { .. } => "delivery of rules",
            Self::ResultsBegun { .. } => "begin of its results",
            Self::ResultsWait { .. } => "wait of its results",
            Self::ResultsDone { .. } => "results",
            Self::ResultsGivenUp { .. } => "loss of its results",
            Self::ResultsForgone => "decision against its results",
            Self::ResultsMoved { .. } => "move of its results",
            Self::Cleaned => "cleaning",
            Self::Checkpoints { .. } => "checkpoints",
            Self::MayForget => "closing",
            Self::PointsHeld { .. } => "count of points",
        }
    }
}
