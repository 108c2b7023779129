//! One run: what neroman decided and did (`Desk`), what its journal says
//! (`Journal`), and the phase that follows from both.

use std::sync::Arc;

use nero_model::{EndReason, Phase, RunId, RunToken};
use serde::{Deserialize, Serialize};

use super::journal::{Exit, Journal};
use super::outcome::{self, Outcome};

/// What never changes once a run is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Made {
    pub token: RunToken,
    pub id: RunId,
    pub node: String,
    pub created_ms: i64,
    /// BLAKE3 of the frozen tree in hexadecimal; empty: no files.
    #[serde(default)]
    pub tree: String,
    /// Commit of the folder, when it is a checkout.
    #[serde(default)]
    pub git: String,
    /// Fingerprint of the definition it was made from.
    #[serde(default)]
    pub fingerprint: String,
    /// Time limit, for what is left of it.
    #[serde(default)]
    pub time_ms: u64,
    /// Files are to come home.
    #[serde(default)]
    pub outputs: bool,
}

/// How far handing over has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Handing {
    /// Durable here.
    #[default]
    Queued,
    /// Its files are on their way.
    Staging,
    /// neromum accepted it.
    Submitted,
    /// neromum said that it waits or starts.
    Pending,
}

/// What neromum said of a run that never had a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Word {
    /// Cancelled before it was started.
    TakenAway { who: String, at_ms: i64 },
    /// It can never start there.
    Refused { why: String, at_ms: i64 },
}

/// A wish that the run ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wish {
    pub asked_ms: i64,
    pub author: String,
    pub grace_ms: u32,
    pub signal: i32,
    /// The node has it.
    #[serde(default)]
    pub delivered: bool,
}

/// How far the results have come home.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Results {
    /// The run has not ended, or nothing was decided.
    #[default]
    Open,
    /// Being fetched into this folder.
    Fetching { folder: String },
    /// Complete in this folder; notes say what stayed on the node.
    Done { folder: String, notes: Vec<String> },
    /// It printed nothing and has no outputs.
    Nothing,
    /// Given up, and why.
    Failed { folder: String, why: String },
}

impl Results {
    /// Whether nothing more will be done.
    pub(crate) fn settled(&self) -> bool {
        match self {
            Self::Open | Self::Fetching { .. } => false,
            Self::Done { .. } | Self::Nothing | Self::Failed { .. } => true,
        }
    }

    /// The folder, where there is one.
    pub(crate) fn folder(&self) -> &str {
        match self {
            Self::Done { folder, .. } | Self::Fetching { folder } | Self::Failed { folder, .. } => {
                folder
            }
            Self::Open | Self::Nothing => "",
        }
    }
}

/// What neroman itself keeps of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Desk {
    pub handing: Handing,
    /// What it waits for, in neromum's words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub word: Option<Word>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wish: Option<Wish>,
    /// neromum said that every record but a watcher's was sent.
    pub ended_told: bool,
    /// neromum said that every record was sent.
    pub settled: bool,
    /// The run needs nothing from its node any more.
    pub closed: bool,
    /// Its job goes on without a parent of ours.
    pub unsupervised: bool,
    /// It waits for the end of this earlier run of the experiment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u32>,
    /// Version of the rules in force, 0: none.
    pub rules_version: u64,
    /// Version of the rules that the node has.
    pub rules_delivered: u64,
    pub results: Results,
}

impl Desk {
    /// Who asked that it ends.
    pub(crate) fn who(&self) -> String {
        self.wish
            .as_ref()
            .map(|wish| wish.author.clone())
            .unwrap_or_default()
    }
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub made: Arc<Made>,
    pub desk: Desk,
    pub journal: Arc<Journal>,
    /// Ids of the rules in force.
    pub rules: Arc<[u64]>,
    /// Follows from the three above; see [`Run::judged`].
    pub outcome: Outcome,
}

impl Run {
    /// Puts a run together.
    pub(crate) fn judged(
        made: Arc<Made>,
        desk: Desk,
        journal: Arc<Journal>,
        rules: Arc<[u64]>,
    ) -> Self {
        let outcome = outcome::judge(&desk, &journal);
        Self {
            made,
            desk,
            journal,
            rules,
            outcome,
        }
    }

    /// The same with other contents; an end that was seen stays, but `lost`
    /// gives way to evidence.
    pub(crate) fn update(&mut self, desk: Option<Desk>, journal: Option<Arc<Journal>>) {
        if let Some(desk) = desk {
            self.desk = desk;
        }
        if let Some(journal) = journal {
            self.journal = journal;
        }
        let outcome = outcome::judge(&self.desk, &self.journal);
        let sealed = self.outcome.phase.is_end() && self.outcome.phase != Phase::Lost;
        if !sealed || outcome.phase == self.outcome.phase {
            self.outcome = outcome;
        }
    }

    /// How far it has come.
    pub(crate) fn phase(&self) -> Phase {
        self.outcome.phase
    }

    /// Whether it is lost, and may still go on somewhere.
    pub(crate) fn in_doubt(&self) -> bool {
        let over = matches!(
            self.outcome.reason,
            Some(EndReason::CodeUnknown | EndReason::Rebooted)
        );
        self.outcome.phase == Phase::Lost && !over
    }

    /// Why it ended as it did.
    pub(crate) fn reason(&self) -> Option<&EndReason> {
        self.outcome.reason.as_ref()
    }

    /// How its main process ended, if that was seen.
    pub(crate) fn exit(&self) -> Option<&Exit> {
        self.journal.newest()?.1.exit.as_ref()
    }

    /// Whether its job wrote anything to its logs.
    pub(crate) fn printed(&self) -> bool {
        self.journal.incarnations.values().any(|one| {
            one.gone
                .as_ref()
                .is_some_and(|gone| gone.stdout_bytes + gone.stderr_bytes > 0)
        })
    }

    /// When its job was started first.
    pub(crate) fn started_ms(&self) -> Option<i64> {
        self.journal.started_ms()
    }

    /// Seconds in `running`; `None` before it was started.
    pub(crate) fn runtime_s(&self, now_ms: i64) -> Option<f64> {
        let newest = self.journal.newest()?.1;
        if let Some(exit) = &newest.exit {
            return Some(exit.run_ms as f64 / 1000.0);
        }
        let started = newest.started_ms?;
        let until = self.outcome.ended_ms.unwrap_or(now_ms);
        Some((until - started).max(0) as f64 / 1000.0)
    }

    /// Whether its node may still have something to say or to do.
    pub(crate) fn open(&self) -> bool {
        !self.desk.closed && self.desk.after.is_none()
    }
}
