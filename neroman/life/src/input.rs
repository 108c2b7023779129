//! Everything that can happen to one run.

use std::sync::Arc;

use super::now::Tick;
use super::place::Choice;
use super::report::Report;
use super::run::{Cancel, Results};
use super::{abort, hand_over, recall};

/// What happens to a run. A node's name says from where it comes: of a run that is
/// elsewhere meanwhile, nothing changes.
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
        sending: hand_over::Sending,
        tick: Tick,
    },
    /// It may reach its node from now on: synced before it is sent.
    Offer { node: String },
    /// Its node's answer to the hand-over.
    HandOver {
        node: String,
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
    /// A person, or a new run of its experiment, asks that it ends.
    Cancel(Cancel),
    /// Its node's answer to the cancel that was asked at `asked_ms`.
    CancelAnswered {
        answer: abort::Answer,
        asked_ms: Option<i64>,
    },
    /// Another node has room, and its own cannot take it for now.
    SendOn { tick: Tick },
    /// Another node can start it now, and its own cannot.
    Balance { to: String, tick: Tick },
    /// Its node may have been asked to give it back: synced.
    RecallAsked,
    /// Its node's answer to the recall of this generation.
    RecallAnswered {
        node: String,
        generation: u32,
        said: recall::Said,
        tick: Tick,
    },
    /// Its node cannot give runs back.
    RecallUnsupported,
    /// The ids of its rules from now on.
    Rules { ids: Arc<[u64]> },
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
}
