//! The contents of one transaction.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use nero_journal::SegmentId;
use nero_model::{ExperimentId, RequestId, RunId};
use nero_store::Request;

use nero_life::change::{Change, ChangeKinds};
use nero_life::fold::{FoldOutput, Notable, Position};

/// What was folded of one run since the last commit.
#[derive(Debug, Default)]
pub(crate) struct RunFolded {
    pub taken: FoldOutput,
    /// Whether the facts changed.
    pub facts: bool,
    /// Segment → (incarnation, from, to), for the series. Facts contain their own
    /// positions.
    pub series: HashMap<SegmentId, (u32, Position, Position)>,
    /// Whether the run was emptied before this.
    pub anew: bool,
}

/// The contents of one transaction.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Whether a person or a node is told about the commit: it is then synced.
    pub durable: bool,
    pub(super) kinds: ChangeKinds,
    pub(super) changes: Vec<Change>,
    pub(super) dispatches: BTreeSet<RunId>,
    pub(super) journals: BTreeSet<RunId>,
    pub(super) fresh: BTreeSet<RunId>,
    pub(super) requests: Vec<Request>,
    pub(super) folded: BTreeMap<RunId, Vec<RunFolded>>,
}

impl Batch {
    /// How many changes it has.
    pub(crate) fn len(&self) -> usize {
        self.changes.len() + self.dispatches.len() + self.journals.len()
    }

    /// Adds a change. For a run, only its final state is written.
    pub(crate) fn push(&mut self, change: Change) {
        self.kinds.add(ChangeKinds::of(&[change.kind()]));
        match change {
            Change::Dispatch { run, .. } => {
                self.dispatches.insert(run);
            }
            Change::Journal { run, .. } => {
                self.journals.insert(run);
            }
            Change::Run(new) => {
                self.fresh.insert(new.made.id);
                self.dispatches.insert(new.made.id);
                self.changes.push(Change::Run(new));
            }
            other @ (Change::Origin(_)
            | Change::Experiment(_)
            | Change::Rule(_)
            | Change::Event { .. }
            | Change::Cells(_)
            | Change::Adopted { .. }
            | Change::Last(_)
            | Change::Post(_)
            | Change::Restored(_)
            | Change::Ledgers(_)) => self.changes.push(other),
        }
    }

    /// The experiments that were described anew.
    pub(crate) fn experiments(&self) -> Vec<ExperimentId> {
        let described = self.changes.iter().filter_map(|change| match change {
            Change::Experiment(described) => Some(described.id),
            _ => None,
        });
        described.collect()
    }

    /// The records folded since the last commit that may concern people.
    pub(crate) fn take_notables(&mut self) -> BTreeMap<RunId, Vec<Notable>> {
        let mut all: BTreeMap<RunId, Vec<Notable>> = BTreeMap::new();
        for (run, folded) in &mut self.folded {
            for one in folded.iter_mut() {
                let notables = std::mem::take(&mut one.taken.notables);
                if !notables.is_empty() {
                    all.entry(*run).or_default().extend(notables);
                }
            }
        }
        all
    }

    /// Adds a reply, for a repeat of its request.
    pub(crate) fn answered(&mut self, id: RequestId, at_ms: i64, reply: Vec<u8>) {
        self.requests.push(Request { id, at_ms, reply });
    }

    /// Adds the folds of a run.
    pub(crate) fn folded(&mut self, run: RunId, folded: RunFolded) {
        self.folded.entry(run).or_default().push(folded);
    }

    /// Whether the batch is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
            && self.dispatches.is_empty()
            && self.journals.is_empty()
            && self.requests.is_empty()
            && self.folded.is_empty()
    }

    /// The kinds of its changes.
    pub(crate) fn kinds(&self) -> ChangeKinds {
        self.kinds
    }

    /// The runs that changed.
    pub(crate) fn touched(&self) -> BTreeSet<RunId> {
        &(&self.dispatches | &self.journals) | &self.fresh
    }
}
