//! Runs whose folders are made, as the agent takes them in.

use nero_model::{RunId, RunToken};
use nero_node_core::capacity::Needs;
use nero_node_core::cards::CardRequest;
use nero_node_core::turn::Turn;
use nero_wire::v1::hand_over_reply::Refusal;

/// Result of making the folders of one request's runs.
#[derive(Debug, Default)]
pub struct PlacementResult {
    pub(super) placed: Vec<PlacedRun>,
    pub(super) refused: Vec<Refusal>,
    /// Runs that are not here, and are not to come in up to and including this
    /// generation.
    pub(super) unknown: Vec<(RunToken, u32)>,
}

impl PlacementResult {
    pub(super) fn append(&mut self, other: Self) {
        self.placed.extend(other.placed);
        self.refused.extend(other.refused);
        self.unknown.extend(other.unknown);
    }
}

/// A run with folder and spec.
#[derive(Debug)]
pub struct PlacedRun {
    pub(super) token: RunToken,
    pub(super) id: RunId,
    pub(super) needs: Needs,
    /// What it asks of the node's own cards.
    pub(super) request: CardRequest,
    pub(super) turn: Turn,
    pub(super) rules: bool,
    pub(super) folder: Folder,
    /// The run whose checkpoints it begins with.
    pub(super) earlier: Option<RunToken>,
    /// The number of this hand-over among all of the run, to any node, from 1; 0: of a
    /// neroman that counts none.
    pub(super) generation: u32,
    /// Whether only its spec is sent again: the node had the run.
    pub(super) sent_again: bool,
    /// Whether its job is there already, and is to be adopted.
    pub(super) adopted: bool,
}

/// The folder of a placed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Folder {
    /// It was made now: nothing of the run can have been started.
    New,
    /// It was made before, by this hand-over or one that holds still.
    Old,
    /// A hand-over to this node left it that holds no more, and nothing was started
    /// from it.
    Leftover,
}

impl PlacedRun {
    /// A run whose folder was made before.
    pub(super) fn known(token: RunToken, id: RunId, generation: u32, folder: Folder) -> Self {
        Self {
            token,
            id,
            needs: Needs::default(),
            request: CardRequest::default(),
            turn: Turn::default(),
            rules: false,
            folder,
            earlier: None,
            generation,
            sent_again: false,
            adopted: false,
        }
    }
}
