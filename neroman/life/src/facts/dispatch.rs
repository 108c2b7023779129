//! What neroman did about a run: stage, cancel request, deferrals, results.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::actions::{ActionEnd, ResponseEnd, RuleFirings, StepEnd};
use super::hold::{Hold, HoldCause};
use super::journal::Journal;
use super::leaving::{Deferral, Recall, Refusal};
use super::mail::notice::NoticeFacts;
use super::nodes::NodeLedger;
use super::peers::PeersNumber;
use super::processed::ProcessedOutputs;
use super::reason::WaitReason;
use super::results::Results;
use super::run_record::RunRecord;
use super::stage::{Stage, Verdict};

/// A cancel request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    pub asked_ms: i64,
    pub author: String,
    pub grace_ms: u32,
    pub signal: i32,
    /// Whether the node has it.
    #[serde(default)]
    pub delivered: bool,
    /// The rule that asks for it, if it is no person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<u64>,
}

/// A file of a run that its node cannot use, as the node reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreadable {
    pub path: String,
    /// The reason, as a continuation of the path.
    pub why: String,
    /// The step that a person can take.
    pub hint: String,
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}; {}", self.path, self.why, self.hint)
    }
}

/// How many of a run's records its node has sent, as the node reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum RecordsSent {
    /// More may come.
    #[default]
    Some,
    /// Every record except a watcher's. `made_nothing`: its job made no file and
    /// changed none.
    AllButWatchers { made_nothing: bool },
    /// Every record. `missing`: records that are gone, in neromum's words; empty for
    /// none.
    All { made_nothing: bool, missing: String },
}

impl RecordsSent {
    /// The node reported that it ended.
    pub fn ended(&mut self, nothing: bool) {
        match self {
            Self::Some | Self::AllButWatchers { .. } => {
                *self = Self::AllButWatchers {
                    made_nothing: nothing,
                };
            }
            Self::All { made_nothing, .. } => *made_nothing = nothing,
        }
    }

    /// Whether every record was sent.
    pub fn is_all(&self) -> bool {
        matches!(self, Self::All { .. })
    }

    /// Whether its job ended and made files.
    pub fn made_files(&self) -> bool {
        match self {
            Self::Some => false,
            Self::AllButWatchers { made_nothing } | Self::All { made_nothing, .. } => !made_nothing,
        }
    }

    /// The records that are gone; empty for none.
    pub fn missing(&self) -> &str {
        match self {
            Self::Some | Self::AllButWatchers { .. } => "",
            Self::All { missing, .. } => missing,
        }
    }
}

/// What neroman did about a run: its place, its cancel request, how far its results
/// came.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dispatch {
    /// Where it stands; stored in the form of [`DispatchRow`](crate::fold::row::DispatchRow).
    #[serde(skip)]
    pub(crate) stage: Stage,
    /// Why it waits, in neromum's words or ours.
    #[serde(skip_serializing_if = "WaitReason::is_unknown")]
    pub(crate) why: WaitReason,
    #[serde(rename = "wish", skip_serializing_if = "Option::is_none")]
    pub(crate) cancel: Option<Box<Cancel>>,
    /// How many of its records its node has sent; stored as the stage is.
    #[serde(skip)]
    pub(crate) sent: RecordsSent,
    /// The files of the run that its node cannot use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreadable: Vec<Unreadable>,
    /// Whether its node lacks a usable spec: it is sent again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) send_spec: bool,
    /// Whether the database of series lacks points of it, which its node is then
    /// asked for again. Computed at each start, and so never stored.
    #[serde(skip)]
    pub(crate) points_again: bool,
    /// Whether its job goes on without a parent of ours.
    pub(crate) unsupervised: bool,
    /// The start after which its scheduler put its job back into the queue; 0: it did not.
    #[serde(skip_serializing_if = "is_none")]
    pub(crate) waits_again: u32,
    /// Whether its node holds it because a person paused it; while its job runs, the
    /// journal counts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) paused: bool,
    /// Whether it is kept from starting because of other runs of its batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hold: Option<Hold>,
    /// Whether it waits, without a node, until fewer runs of its start go on at once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) in_line: bool,
    /// Whether it waits, without a node, for other experiments.
    #[serde(rename = "needs", skip_serializing_if = "std::ops::Not::not")]
    pub(crate) waits_for_others: bool,
    /// The host on which it goes on, if that is not its neromum's host; it is
    /// then followed by disk.
    #[serde(default)]
    pub(crate) far_host: String,
    /// Version of the rules in force, 0: none.
    pub(crate) rules_version: u64,
    /// Version of the rules that the node has.
    pub(crate) rules_delivered: u64,
    /// Aggregates over its peers, which go with its rules.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) peers: Vec<PeersNumber>,
    pub(crate) results: Results,
    /// What its experiment's processors made of its outputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) processed: Option<Box<ProcessedOutputs>>,
    /// Possible causes of its end: files that the job missed and that do not
    /// travel.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) hints: Vec<String>,
    /// Whether its job left a new checkpoint, as its node reported at its end; none:
    /// not reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) made_checkpoint: Option<bool>,
    /// Why no run follows it by itself although one could; empty: nothing to tell.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) no_retry: String,
    /// Whether it was live in the backup that this home was restored from, and its nodes
    /// have not told yet what they know of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) restored: bool,
    /// The ledger that may have it, while its node answers with another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) elsewhere: Option<Box<NodeLedger>>,
    /// Tree of the checkpoints that it begins with, in hexadecimal, if they come
    /// from here; empty if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) overlay: Option<String>,
    /// The time at which its folder on the node was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cleaned_ms: Option<i64>,
    /// Nodes that were given up and may still have it: a node that answers again
    /// is told to end it.
    #[serde(rename = "abandoned", skip_serializing_if = "Vec::is_empty")]
    pub(crate) left_behind: Vec<String>,
    /// Nodes that had it once and were given up, or refused it: it never goes
    /// there again.
    #[serde(rename = "avoid", skip_serializing_if = "Vec::is_empty")]
    pub(crate) excluded: Vec<String>,
    /// The refusals of nodes, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) refused: Vec<Refusal>,
    /// Nodes that could not take it for now.
    #[serde(rename = "later", skip_serializing_if = "Vec::is_empty")]
    pub(crate) deferred: Vec<Deferral>,
    /// How often it was handed to a node and came back.
    #[serde(rename = "turns")]
    pub(crate) came_back: u32,
    /// Rules that the daemon evaluates and that fired, by id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "by_id")]
    pub(crate) fired: BTreeMap<u64, RuleFirings>,
    /// The ends of commands that rules had this machine run, by id of the rule.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "by_id")]
    pub(crate) acted: BTreeMap<u64, ActionEnd>,
    /// The end of the newest step of its job that this machine executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stepped: Option<Box<StepEnd>>,
    /// The end of the command by which `on_error` answered its newest error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) responded: Option<Box<ResponseEnd>>,
    /// What people were to be told of it.
    #[serde(skip_serializing_if = "NoticeFacts::is_nothing")]
    pub(crate) noticed: NoticeFacts,
}

fn is_none(start: &u32) -> bool {
    *start == 0
}

/// Keys that are numbers. A dispatch is stored flattened, and serde hands the keys of such a
/// part over as texts.
fn by_id<'de, D, T>(from: D) -> Result<BTreeMap<u64, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let by_text = BTreeMap::<String, T>::deserialize(from)?;
    let mut by_id = BTreeMap::new();
    for (id, value) in by_text {
        by_id.insert(id.parse().map_err(D::Error::custom)?, value);
    }
    Ok(by_id)
}

impl Dispatch {
    /// A run that is to go to this node, or where the placer sends it, at once or
    /// after the end of an earlier run.
    pub fn planned(node: Option<String>, after: Option<u32>) -> Self {
        Self {
            stage: match (after, node) {
                (Some(run), node) => Stage::Behind { run, node },
                (None, None) => Stage::Unplaced,
                (None, Some(node)) => Stage::Chosen {
                    node,
                    sending: false,
                },
            },
            rules_version: 1,
            ..Self::default()
        }
    }

    /// The same for a run that is held until the pilot of its batch finishes. It has no
    /// node meanwhile.
    pub fn behind_pilot(after: Option<u32>) -> Self {
        let cause = HoldCause::Pilot;
        Self {
            hold: Some(Hold::On { cause, told: false }),
            ..Self::planned(None, after)
        }
    }

    /// The same run, which waits until fewer runs of its start go on. It has no node meanwhile.
    pub fn in_line(self) -> Self {
        Self {
            in_line: true,
            ..self.without_node()
        }
    }

    /// The same run, which waits for other experiments. It has no node meanwhile.
    pub fn behind_others(self) -> Self {
        Self {
            waits_for_others: true,
            ..self.without_node()
        }
    }

    /// The earlier run of the experiment whose end it waits for.
    pub fn after(&self) -> Option<u32> {
        match self.stage {
            Stage::Behind { run, .. } => Some(run),
            Stage::Unplaced
            | Stage::Chosen { .. }
            | Stage::Offered { .. }
            | Stage::Accepted { .. }
            | Stage::Recalled { .. }
            | Stage::Begun { .. }
            | Stage::Over { .. } => None,
        }
    }

    fn without_node(self) -> Self {
        let after = self.after();
        Self {
            hold: self.hold,
            in_line: self.in_line,
            waits_for_others: self.waits_for_others,
            ..Self::planned(None, after)
        }
    }

    /// A run that this hand-over brought to the node, with rules of this version.
    pub fn taken_over(node: &str, generation: u32, rules_version: u64) -> Self {
        Self {
            came_back: generation.saturating_sub(1),
            stage: Stage::Accepted {
                node: node.to_owned(),
                queued: false,
            },
            rules_version: rules_version.max(1),
            rules_delivered: rules_version.max(1),
            ..Self::default()
        }
    }

    /// A number that is kept for a run which no node has shown yet.
    pub fn reserved(now_ms: i64) -> Self {
        Self {
            stage: Stage::Over {
                node: None,
                verdict: Verdict::Reserved { at_ms: now_ms },
                accepted: false,
                offered: false,
                closed: true,
            },
            ..Self::default()
        }
    }

    /// What follows from the run's journal. A start ends what the run waited for.
    pub(crate) fn follow_journal(&mut self, made: &RunRecord, journal: &Journal) {
        let waited = self.stage.is_before_start();
        let begun = !journal.incarnations.is_empty();
        self.stage.follow_journal(made, begun);
        if waited && !self.stage.is_before_start() {
            self.why = WaitReason::Unknown;
        }
    }

    /// Its recall, while its node has not answered.
    pub(crate) fn recall(&self) -> Option<&Recall> {
        match &self.stage {
            Stage::Recalled { recall, .. } => Some(recall),
            Stage::Behind { .. }
            | Stage::Unplaced
            | Stage::Chosen { .. }
            | Stage::Offered { .. }
            | Stage::Accepted { .. }
            | Stage::Begun { .. }
            | Stage::Over { .. } => None,
        }
    }

    /// Whether its node is asked to promise that it never starts the run.
    pub(crate) fn leaves(&self) -> bool {
        matches!(self.stage, Stage::Recalled { .. }) && self.cancel.is_none()
    }

    /// The first unusable file that hides its end. A watcher's segment does not.
    pub(crate) fn hides_its_end(&self) -> Option<&Unreadable> {
        let is_watchers = |file: &&Unreadable| file.path.contains("/watch-");
        let mut files = self.unreadable.iter();
        files.find(|file| !is_watchers(file))
    }

    /// The deferral by this node.
    pub(crate) fn deferred_by(&mut self, node: &str) -> Option<&mut Deferral> {
        let mut said = self.deferred.iter_mut();
        said.find(|one| one.node == node && one.left_ms.is_none())
    }

    /// The number of its hand-overs, the present one included.
    pub(crate) fn generation(&self) -> u32 {
        self.came_back.saturating_add(1)
    }

    /// It is over: it was being cancelled, and was never started.
    pub(crate) fn take_away(&mut self, at_ms: i64) {
        let who = self.who();
        self.stage.end(Verdict::TakenAway { who, at_ms });
    }

    /// It is over, as its node tells: it was being cancelled, or was cancelled at this
    /// scheduler.
    pub(crate) fn taken_away(&mut self, scheduler: &str, at_ms: i64) {
        let who = match self.cancel {
            Some(_) => self.who(),
            None => scheduler.to_owned(),
        };
        self.stage.end(Verdict::TakenAway { who, at_ms });
    }

    /// It is over: it will never start. A run that is being cancelled ends by the
    /// cancel, any other by the reason.
    pub(crate) fn never_starts(&mut self, why: String, at_ms: i64) {
        match self.cancel {
            Some(_) => self.take_away(at_ms),
            None => self.stage.end(Verdict::Refused { why, at_ms }),
        }
    }

    /// It waits for the placer again, with the next generation.
    pub(crate) fn leave_node(&mut self) {
        self.stage = Stage::Unplaced;
        self.elsewhere = None;
        self.begin_generation();
        self.why = WaitReason::Unknown;
    }

    /// Its node has nothing of it: no hand-over until now counts there any more.
    pub(crate) fn begin_generation(&mut self) {
        self.came_back = self.came_back.saturating_add(1);
        self.rules_delivered = 0;
        self.hold = match self.hold.take() {
            Some(Hold::On { cause, .. }) => Some(Hold::On { cause, told: false }),
            Some(Hold::Lifted) | None => None,
        };
    }

    /// The person who cancelled it.
    pub(crate) fn who(&self) -> String {
        self.cancel
            .as_ref()
            .map(|cancel| cancel.author.clone())
            .unwrap_or_default()
    }
}
