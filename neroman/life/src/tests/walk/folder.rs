//! The folder of a run on a node, and what it tells.

use std::collections::{BTreeMap, BTreeSet};

use nero_model::RunToken;
use nero_node_core::facts::{Fact, Facts};
use nero_node_core::turn::Turn;

use super::wire::Record;
use crate::tests::reach::node::Rec;

/// The name of a run's spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpecName {
    Spec,
    Recalled,
}

/// The folder of a run.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    pub token: RunToken,
    pub spec: SpecName,
    pub generation: u32,
    /// The boot in which it was handed over.
    pub boot: u32,
    pub cpus: u32,
    /// Halves of a card.
    pub cards: u32,
    pub turn: Turn,
    pub cancels: u32,
    /// Number of pause requests: an odd one asks for a pause.
    pub pauses: u32,
    /// Whether a work folder was made.
    pub is_prepared: bool,
    /// Whether files that its first start needs are damaged.
    pub is_damaged: bool,
    /// The boot in which each start was claimed; `None`: it has a folder alone.
    pub claims: BTreeMap<u32, Option<u32>>,
    pub closed_gates: BTreeSet<u32>,
    pub passed_gates: BTreeSet<u32>,
    pub records: Vec<Record>,
}

/// See `neromum/node/src/agent/recover.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remains {
    NoCut,
    Nothing,
    Something,
}

impl Folder {
    pub fn newest(&self) -> u32 {
        self.claims.keys().next_back().copied().unwrap_or(0)
    }

    pub fn is_claimed(&self) -> bool {
        self.claims.values().any(Option::is_some)
    }

    pub fn record(&mut self, start: u32, what: Rec, code: Option<i32>) {
        self.records.push(Record { start, what, code });
    }

    /// Whether there is this record of a start.
    pub fn has(&self, start: u32, what: Rec) -> bool {
        let mut all = self.records.iter();
        all.any(|one| one.start == start && one.what == what)
    }

    /// What is left of a run that was handed over in an earlier boot and has no claim.
    pub fn left_by_a_cut(&self, boot: u32) -> Remains {
        let first = self.claims.get(&1).copied().flatten();
        match self.newest() {
            _ if self.spec != SpecName::Spec || self.boot == boot => Remains::NoCut,
            0 if !self.is_prepared => Remains::Nothing,
            0 | 1 if first.is_none() => Remains::Something,
            _ => Remains::NoCut,
        }
    }

    /// What its records and names tell of a start.
    pub fn facts(&self, start: u32) -> Facts {
        let mut facts = Facts {
            claimed: self.claims.get(&start).is_some_and(Option::is_some),
            ..Facts::default()
        };
        for record in self.records.iter().filter(|one| one.start == start) {
            let code_unknown = record.code.is_none();
            let fact = match record.what {
                Rec::Claimed => Fact::Claimed {
                    shim: None,
                    launcher: None,
                },
                Rec::Started => Fact::JobStarted {
                    job: None,
                    at_ms: 0,
                },
                Rec::StopAsked => Fact::StopAsked {
                    by_scheduler: false,
                },
                Rec::Exited => Fact::LeaderEnded { code_unknown },
                Rec::TreeGone => Fact::Gone { output_bytes: 1 },
                Rec::GateClosed => Fact::GateClosed,
                Rec::NotExecuted | Rec::NotStartedCancelled => Fact::NotStarted,
                Rec::Rebooted | Rec::FolderGone => Fact::Lost,
            };
            facts.fold(fact);
        }
        facts.gate_passed = self.passed_gates.contains(&start);
        facts
    }
}
