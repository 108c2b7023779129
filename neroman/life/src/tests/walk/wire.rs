//! What head and nodes say to each other, in the types of their decisions.

use nero_model::{RunId, RunToken};
use nero_node_core::turn::Turn;

use crate::facts::dispatch::Cancel;
use crate::source::abort;
use crate::step::hand_over;
use crate::step::input::Placement;
use crate::step::report::Report;
use crate::tests::reach::node::Rec;

/// A run as it is handed over.
#[derive(Clone, Debug)]
pub(super) struct SentRun {
    pub id: RunId,
    pub token: RunToken,
    pub generation: u32,
    pub cpus: u32,
    /// Halves of a card.
    pub cards: u32,
    pub turn: Turn,
    /// Only its spec is sent again.
    pub is_again: bool,
    /// Filled in by the node: what its folder was.
    pub folder: Option<FolderState>,
}

/// What lay on the node when a run came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FolderState {
    New,
    Old,
    Leftover,
    /// The node has nothing, and only the spec came.
    Unknown,
    Refused,
    /// There is no room.
    Full,
}

#[derive(Clone, Debug)]
pub(super) enum Request {
    HandOver(Vec<SentRun>),
    End(Vec<EndedRun>, Ending),
    /// `true`: they go on.
    Pause(Vec<(RunId, RunToken, Placement)>, bool),
    Describe,
    /// The positions in the records of the runs that the node may have.
    Follow(Vec<(RunId, RunToken, u32, usize)>),
    Closed(Vec<RunToken>),
}

/// Why a node is to end runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Cancel,
    /// They are only recalled, up to this generation.
    Recall(u32),
    /// They were left behind there.
    LeftBehind,
}

#[derive(Clone, Debug)]
pub(super) struct EndedRun {
    pub id: RunId,
    pub token: RunToken,
    pub at: Option<Placement>,
    pub cancel: Option<Cancel>,
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    HandOver(Vec<(RunId, u32, hand_over::Answer)>),
    End(Vec<(EndedRun, abort::Answer)>, Ending),
    /// Whether it holds each run, or lets it go on; `None`: it does not know the run.
    Pause(Vec<(RunId, Placement, Option<bool>)>, bool),
    Described {
        waiting: usize,
        is_held: bool,
    },
    /// The node tells its news from now on.
    Follows,
    /// The connection that asked is gone, and takes no answer.
    None,
}

/// A record of a start, with the exit code of its job; `None`: no process saw it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub start: u32,
    pub what: Rec,
    pub code: Option<i32>,
}

/// News of a node, in their order.
pub(super) type Items = Vec<Item>;

#[derive(Clone, Debug)]
pub(super) enum Item {
    /// Records from this one on.
    Part(RunId, usize, Vec<Record>),
    State(RunId, RunToken, Report),
}
