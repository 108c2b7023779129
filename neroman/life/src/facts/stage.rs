//! Where a run stands. The data of a stage lie in its variant.
//!
//! A run goes down this list. It goes back to [`Stage::Unplaced`] only from a node that
//! surely does not start it: by that node's own word, or because a person gave the node
//! up. `docs/design/placement.md` has the table of all steps.

use nero_model::Phase;
use serde::{Deserialize, Serialize};

use super::leaving::Recall;
use super::run_record::RunRecord;

/// Where a run stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It waits for the end of an earlier run of its experiment.
    Behind {
        run: u32,
        /// The node that was asked for by name, if one was.
        node: Option<String>,
    },
    /// It waits for the placer.
    #[default]
    Unplaced,
    /// The node was chosen and surely does not know it. Where another node may have
    /// it, it may be placed anew.
    Chosen { node: String, sending: bool },
    /// It may have reached the node, which has not answered. This is synced before
    /// the run is sent.
    Offered { node: String, sending: bool },
    /// The node has it. `queued`: the node reported that it waits or starts there.
    Accepted { node: String, queued: bool },
    /// The node is asked to promise that it never starts it.
    Recalled {
        node: String,
        recall: Recall,
        /// How far the hand-over had come.
        from: HandOverStage,
    },
    /// Its journal has a start.
    Begun {
        node: String,
        /// Since when the node does not know it any more.
        unknown_ms: Option<i64>,
        /// Whether it needs nothing more from the node.
        closed: bool,
    },
    /// Its node's or a person's verdict ended it; its journal proves no end.
    Over {
        /// The node that it had last, if it had one.
        node: Option<String>,
        verdict: Verdict,
        /// Whether the node had accepted it.
        accepted: bool,
        /// Whether the node may have it: a hand-over without an answer may arrive
        /// late.
        offered: bool,
        /// Whether it needs nothing more from the node.
        closed: bool,
    },
}

/// How far a hand-over has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HandOverStage {
    /// Durable in our database.
    #[default]
    Queued,
    /// Its files are being sent.
    Staging,
    /// neromum accepted it.
    Submitted,
    /// neromum reported that it waits or starts.
    Pending,
}

/// Why a run is over although its journal does not prove it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// The run was cancelled before it was started. `who` is the person who asked for
    /// that here, or, where nobody did, the scheduler at which its job was cancelled.
    TakenAway { who: String, at_ms: i64 },
    /// It can never start there.
    Refused { why: String, at_ms: i64 },
    /// A person decided that its node will never answer again.
    NodeGone { who: String, at_ms: i64 },
    /// It only reserves a number: a take-over saw higher numbers, and the node that
    /// has this run was not read yet. Stored as [`Verdict::NodeGone`], see `kept`.
    #[serde(skip)]
    Reserved { at_ms: i64 },
}

/// Author of the stored entry that the node of a reserved run is gone.
pub(crate) const TAKE_OVER: &str = "node take-over";

impl Stage {
    /// The node of its placement; `None`: no node was chosen.
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::Unplaced => None,
            Self::Behind { node, .. } | Self::Over { node, .. } => node.as_deref(),
            Self::Chosen { node, .. }
            | Self::Offered { node, .. }
            | Self::Accepted { node, .. }
            | Self::Recalled { node, .. }
            | Self::Begun { node, .. } => Some(node),
        }
    }

    /// The stage, as a message names it.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Behind { .. } => "behind an earlier run",
            Self::Unplaced => "without a node",
            Self::Chosen { .. } => "placed",
            Self::Offered { .. } => "offered",
            Self::Accepted { .. } => "accepted",
            Self::Recalled { .. } => "recalled",
            Self::Begun { .. } => "begun",
            Self::Over { .. } => "over",
        }
    }

    /// How far the hand-over to its node has come.
    pub fn handing(&self) -> HandOverStage {
        match self {
            Self::Behind { .. } | Self::Unplaced => HandOverStage::Queued,
            Self::Chosen { sending, .. } | Self::Offered { sending, .. } => {
                if *sending {
                    HandOverStage::Staging
                } else {
                    HandOverStage::Queued
                }
            }
            Self::Accepted { queued: false, .. } => HandOverStage::Submitted,
            Self::Recalled { from, .. } => *from,
            Self::Accepted { queued: true, .. } | Self::Begun { .. } => HandOverStage::Pending,
            Self::Over { accepted, .. } => {
                if *accepted {
                    HandOverStage::Pending
                } else {
                    HandOverStage::Queued
                }
            }
        }
    }

    /// Whether its node certainly got it: by its answer or, if that was lost, by
    /// records of its journal.
    pub fn is_accepted(&self) -> bool {
        self.handing() >= HandOverStage::Submitted
    }

    /// Whether it has a node, which has not accepted it.
    pub fn is_not_accepted(&self) -> bool {
        match self {
            Self::Chosen { .. } | Self::Offered { .. } => true,
            Self::Behind { .. }
            | Self::Unplaced
            | Self::Accepted { .. }
            | Self::Recalled { .. }
            | Self::Begun { .. }
            | Self::Over { .. } => false,
        }
    }

    /// Whether its node may have it.
    pub fn may_be_there(&self) -> bool {
        match self {
            Self::Behind { .. } | Self::Unplaced | Self::Chosen { .. } => false,
            Self::Offered { .. }
            | Self::Accepted { .. }
            | Self::Recalled { .. }
            | Self::Begun { .. } => true,
            Self::Over {
                accepted, offered, ..
            } => *accepted || *offered,
        }
    }

    /// Whether its journal has no start, and it is not over.
    pub fn is_before_start(&self) -> bool {
        match self {
            Self::Begun { .. } | Self::Over { .. } => false,
            Self::Behind { .. }
            | Self::Unplaced
            | Self::Chosen { .. }
            | Self::Offered { .. }
            | Self::Accepted { .. }
            | Self::Recalled { .. } => true,
        }
    }

    /// Whether it needs nothing more from its node.
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Begun { closed, .. } | Self::Over { closed, .. } => *closed,
            Self::Behind { .. }
            | Self::Unplaced
            | Self::Chosen { .. }
            | Self::Offered { .. }
            | Self::Accepted { .. }
            | Self::Recalled { .. } => false,
        }
    }

    /// Marks it to need nothing more from its node.
    pub fn close(&mut self) {
        match self {
            Self::Begun { closed, .. } | Self::Over { closed, .. } => *closed = true,
            Self::Behind { .. }
            | Self::Unplaced
            | Self::Chosen { .. }
            | Self::Offered { .. }
            | Self::Accepted { .. }
            | Self::Recalled { .. } => {}
        }
    }

    /// The verdict that it is over.
    pub fn verdict(&self) -> Option<&Verdict> {
        match self {
            Self::Over { verdict, .. } => Some(verdict),
            Self::Behind { .. }
            | Self::Unplaced
            | Self::Chosen { .. }
            | Self::Offered { .. }
            | Self::Accepted { .. }
            | Self::Recalled { .. }
            | Self::Begun { .. } => None,
        }
    }

    /// The phase of a run whose journal proves nothing.
    pub fn waits_in(&self) -> Phase {
        match self.handing() {
            HandOverStage::Queued => Phase::Queued,
            HandOverStage::Staging => Phase::Staging,
            HandOverStage::Submitted => Phase::Submitted,
            HandOverStage::Pending => Phase::Pending,
        }
    }

    /// The hand-over has come so far, if it had not come farther.
    pub fn advance(&mut self, to: HandOverStage) {
        match self {
            Self::Chosen { sending, .. } | Self::Offered { sending, .. } => {
                *sending |= to == HandOverStage::Staging;
                if to >= HandOverStage::Submitted {
                    let node = self.name();
                    let queued = to == HandOverStage::Pending;
                    *self = Self::Accepted { node, queued };
                }
            }
            Self::Accepted { queued, .. } => *queued |= to == HandOverStage::Pending,
            Self::Recalled { from, .. } => *from = to.max(*from),
            // A late answer: what was sent lies there after all.
            Self::Over { accepted, .. } => *accepted |= to >= HandOverStage::Submitted,
            Self::Behind { .. } | Self::Unplaced | Self::Begun { .. } => {}
        }
    }

    /// Its node goes on with it, or knows no recall.
    pub fn keep(&mut self) {
        if let Self::Recalled { from, .. } = self {
            let (from, node) = (*from, self.name());
            let sending = false;
            *self = Self::Offered { node, sending };
            self.advance(from);
        }
    }

    /// Its node knows it.
    pub fn know(&mut self) {
        if let Self::Begun { unknown_ms, .. } = self {
            *unknown_ms = None;
        }
    }

    /// It is over. The first verdict stays: the end that follows from it was seen.
    pub fn end(&mut self, verdict: Verdict) {
        if let Self::Over { .. } = self {
            return;
        }
        *self = Self::Over {
            accepted: self.is_accepted(),
            offered: self.may_be_there(),
            closed: self.is_closed(),
            node: self.node().map(str::to_owned),
            verdict,
        };
    }

    /// What follows from the facts that never change, and from a start in its journal.
    pub fn follow_journal(&mut self, made: &RunRecord, begun: bool) {
        match self {
            Self::Unplaced if !made.placing => {
                *self = Self::Chosen {
                    node: made.node.clone(),
                    sending: false,
                };
            }
            Self::Chosen { .. }
            | Self::Offered { .. }
            | Self::Accepted { .. }
            | Self::Recalled { .. }
                if begun =>
            {
                *self = Self::Begun {
                    node: self.name(),
                    unknown_ms: None,
                    closed: false,
                };
            }
            Self::Behind { .. }
            | Self::Unplaced
            | Self::Chosen { .. }
            | Self::Offered { .. }
            | Self::Accepted { .. }
            | Self::Recalled { .. }
            | Self::Begun { .. }
            | Self::Over { .. } => {}
        }
    }

    fn name(&self) -> String {
        self.node().unwrap_or_default().to_owned()
    }
}
