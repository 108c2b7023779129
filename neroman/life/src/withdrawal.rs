//! The withdrawal of a run from a node that has it, or may have it. It is recorded
//! before the node is asked, and over when the node has promised that it never
//! starts the run. If neroman or neromum dies in between, the node is asked again
//! and answers the same.

use serde::{Deserialize, Serialize};

use super::change::{Change, desk_changed};
use super::later;
use super::now::Moment;
use super::refusal::{self, Leaves, Refusal, become_so};
use super::run::{Desk, Run};
use super::stage::{Handing, Stage};

/// The reason of a withdrawal, and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withdrawal {
    pub refusal: Refusal,
    /// Whether it may come back if the node has nothing of it: the node could not
    /// take it for now.
    #[serde(default)]
    pub passes: bool,
    /// The node that has room for it; empty if its own node cannot have it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub to: String,
    /// Whether the node may have been asked: this is synced.
    #[serde(default)]
    pub asked: bool,
}

/// Why a run leaves its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The node cannot start it.
    CannotStart,
    /// The node cannot take it for now.
    NoRoomNow,
    /// Another node can start it now.
    RoomElsewhere,
}

impl Withdrawal {
    pub(crate) fn cause(&self) -> Cause {
        match (self.passes, self.to.is_empty()) {
            (_, false) => Cause::RoomElsewhere,
            (true, true) => Cause::NoRoomNow,
            (false, true) => Cause::CannotStart,
        }
    }
}

/// The node's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The node has nothing of the run, and will not get it.
    Nothing,
    /// The run lies there, was not started and never will be.
    Never,
    /// The run was started: it stays.
    Begun,
}

/// Records that a node which accepted a run refuses it: another node of its group
/// gets it, or it ends.
pub(crate) fn refused(run: &Run, desk: &mut Desk, why: String, at_ms: i64) {
    if !may_leave(run, desk) {
        desk.never_starts(why, at_ms);
        return;
    }
    let node = run.node_word().to_owned();
    desk.why = format!("refused by {node}: {why}; another node may get it");
    let asked = matches!(&desk.stage, Stage::Recalled { recall, .. } if recall.asked);
    desk.stage = Stage::Recalled {
        recall: Withdrawal {
            refusal: Refusal {
                node: node.clone(),
                why,
                hint: String::new(),
                at_ms,
            },
            passes: false,
            to: String::new(),
            asked,
        },
        node,
        from: Handing::Pending,
    };
}

/// Withdraws a run that its node cannot take for now.
pub(crate) fn put_off(run: &Run, now: &Moment) -> Vec<Change> {
    let Some(later) = run.put_off() else {
        return Vec::new();
    };
    let refusal = Refusal {
        node: later.node.clone(),
        why: later.why.clone(),
        hint: String::new(),
        at_ms: now.ms,
    };
    if run.movable() {
        return refusal::turn_back(run, refusal, &Leaves::ForNow(now));
    }
    let mut desk = run.desk.clone();
    desk.stage = Stage::Recalled {
        node: later.node.clone(),
        recall: Withdrawal {
            refusal,
            passes: true,
            to: String::new(),
            asked: false,
        },
        from: desk.stage.handing(),
    };
    vec![become_so(run, desk)]
}

/// Whether another node may have the run after its own gave its promise.
fn may_leave(run: &Run, desk: &Desk) -> bool {
    run.of_several() && desk.stage.is_before_start() && desk.wish.is_none()
}

/// Whether a run is to leave this node, which has not given its promise.
pub fn is_leaving(run: &Run, node: &str) -> bool {
    run.desk.leaves() && run.node() == Some(node)
}

/// Records that the node may have been asked for its promise.
pub(crate) fn asked(run: &Run) -> Option<Change> {
    desk_changed(run, |desk| {
        if let Stage::Recalled { recall, .. } = &mut desk.stage {
            recall.asked = true;
        }
    })
}

/// The changes from the node's answer; none if the run was handed to a node since.
pub(crate) fn answered(
    run: &Run,
    node: &str,
    generation: u32,
    said: Said,
    now: &Moment,
) -> Vec<Change> {
    if run.node() != Some(node) || run.desk.generation() != generation {
        return Vec::new();
    }
    let Stage::Recalled { recall, .. } = &run.desk.stage else {
        return Vec::new();
    };
    if said == Said::Begun {
        return stays(run, String::new());
    }
    let mut refusal = recall.refusal.clone();
    refusal.at_ms = now.ms;
    // If a folder of it lies there, with a cancel request, it never starts there
    // again.
    let comes_back = said == Said::Nothing;
    let how = match recall.cause() {
        Cause::NoRoomNow if comes_back => Leaves::ForNow(now),
        Cause::CannotStart | Cause::NoRoomNow => Leaves::Refused,
        Cause::RoomElsewhere if comes_back => Leaves::ForNow(now),
        Cause::RoomElsewhere => Leaves::ForGood(now),
    };
    refusal::turn_back(run, refusal, &how)
}

/// Keeps the run on a node that cannot give its promise; a run that it refused
/// ends.
pub(crate) fn cannot(run: &Run) -> Vec<Change> {
    let Stage::Recalled { recall, .. } = &run.desk.stage else {
        return Vec::new();
    };
    let why = recall.refusal.why.clone();
    match recall.cause() {
        Cause::NoRoomNow => return stays(run, why),
        Cause::RoomElsewhere => return stays(run, String::new()),
        Cause::CannotStart => {}
    }
    let mut desk = run.desk.clone();
    let at_ms = recall.refusal.at_ms;
    desk.never_starts(why, at_ms);
    vec![become_so(run, desk)]
}

/// Keeps the run on its node.
fn stays(run: &Run, why: String) -> Vec<Change> {
    let mut desk = run.desk.clone();
    desk.stage.keep();
    desk.why = why;
    later::taken(&mut desk, run.node_word());
    vec![become_so(run, desk)]
}
