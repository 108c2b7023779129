//! What one transaction writes, gathered.

use std::collections::{BTreeMap, BTreeSet};

use nero_model::{RequestId, RunId};
use nero_store::Request;

use crate::folding::RunFolded;
use nero_life::change::Change;

/// Everything that one transaction writes.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Whether the commit is reported to a person or node.
    pub durable: bool,
    pub(super) changes: Vec<Change>,
    pub(super) desks: BTreeSet<RunId>,
    pub(super) journals: BTreeSet<RunId>,
    pub(super) fresh: BTreeSet<RunId>,
    pub(super) requests: Vec<Request>,
    pub(super) folded: BTreeMap<RunId, Vec<RunFolded>>,
}

impl Batch {
    /// Adds a change. Of a run, only what it is at the end is written.
    pub(crate) fn push(&mut self, change: Change) {
        match change {
            Change::Desk { run, .. } => {
                self.desks.insert(run);
            }
            Change::Journal { run, .. } => {
                self.journals.insert(run);
            }
            Change::Run(new) => {
                self.fresh.insert(new.made.id);
                self.desks.insert(new.made.id);
                self.changes.push(Change::Run(new));
            }
            other @ (Change::Origin(_)
            | Change::Experiment(_)
            | Change::Rule(_)
            | Change::Event { .. }
            | Change::Adopted { .. }
            | Change::Last(_)) => self.changes.push(other),
        }
    }

    /// Adds an answer to be given again.
    pub(crate) fn answered(&mut self, id: RequestId, at_ms: i64, reply: Vec<u8>) {
        self.requests.push(Request { id, at_ms, reply });
    }

    /// Adds what was folded of a run.
    pub(crate) fn folded(&mut self, run: RunId, folded: RunFolded) {
        self.folded.entry(run).or_default().push(folded);
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
            && self.desks.is_empty()
            && self.journals.is_empty()
            && self.requests.is_empty()
            && self.folded.is_empty()
    }

    /// The runs that changed.
    pub(crate) fn touched(&self) -> BTreeSet<RunId> {
        &(&self.desks | &self.journals) | &self.fresh
    }
}
