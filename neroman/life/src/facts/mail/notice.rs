//! Notices for people, and what a run remembers of those about it.

use std::collections::{BTreeMap, BTreeSet};

use nero_journal::SegmentId;
use nero_model::ids::hex;
use nero_model::{Phase, RunId, RunToken};
use serde::{Deserialize, Serialize};

/// Something that a person may be told of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// Counts up; not kept beyond the notice.
    #[serde(skip)]
    pub id: u64,
    /// The evidence as text: no two notices have the same.
    pub key: String,
    /// When it happened, by the clock of its machine.
    pub at_ms: i64,
    /// When it was decided, by ours.
    pub decided_ms: i64,
    pub kind: NoticeKind,
    /// Whether webhook and command have it; only mail waits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub called: bool,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    Started {
        run: RunId,
    },
    /// The run ended in this phase.
    Ended {
        run: RunId,
        phase: Phase,
    },
    /// A rule that does not end the run fired.
    Fired {
        run: RunId,
        rule: String,
        values: String,
        /// Its action is to tell people, so that no list of events leaves it out.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_asked: bool,
    },
    /// A watcher remarked something.
    Remark {
        run: RunId,
        text: String,
    },
    Stalled {
        run: RunId,
        silent_ms: u64,
    },
    NodeAway {
        node: String,
        since_ms: i64,
        why: String,
    },
    NodeBack {
        node: String,
        since_ms: i64,
    },
    /// Every run of the batch that begins with this run has ended.
    AllDone {
        batch: RunId,
    },
}

impl NoticeKind {
    /// The run that it is about, or the first one of its batch.
    pub fn run(&self) -> Option<RunId> {
        match self {
            Self::Started { run }
            | Self::Ended { run, .. }
            | Self::Fired { run, .. }
            | Self::Remark { run, .. }
            | Self::Stalled { run, .. }
            | Self::AllDone { batch: run } => Some(*run),
            Self::NodeAway { .. } | Self::NodeBack { .. } => None,
        }
    }
}

/// What was noticed of a run, by its evidence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NoticeFacts {
    /// The newest start.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) started: u32,
    /// The newest start with its end. A loss gives way to another end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<(u32, Phase)>,
    /// The newest start that stalled.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) stalled: u32,
    /// Of the first run of a batch: that all have ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) all_done: bool,
    /// The recipients whom its node told of the end while neroman was away.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) relayed: BTreeSet<String>,
    /// Segment → offset of the last record.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) records: BTreeMap<String, u64>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl NoticeFacts {
    /// Whether nothing was noticed.
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// The recipients whom its node told of the end.
    pub fn relayed(&self) -> &BTreeSet<String> {
        &self.relayed
    }

    /// Whether a record is news, which it is once.
    pub(crate) fn takes(&mut self, segment: SegmentId, offset: u64) -> bool {
        let last = self.records.get(&segment.to_string());
        let is_news = last.is_none_or(|last| *last < offset);
        if is_news {
            self.records.insert(segment.to_string(), offset);
        }
        is_news
    }
}

/// A notice before it has its number: key, time, kind.
pub type FoundNotice = (String, i64, NoticeKind);

/// The key of the notice that a rule of the daemon fired.
pub(crate) fn rule_key(run: &RunToken, rule: u64, times: u32) -> String {
    key(run, 0, &format!("rule {rule}/{times}"))
}

/// The key of a notice about a start of a run.
pub(crate) fn key(token: &RunToken, start: u32, word: &str) -> String {
    format!("{}/{start}/{word}", hex(token.as_bytes()))
}
