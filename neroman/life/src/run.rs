//! One run: neroman's own decisions and records (`Dispatch`), the facts of its
//! journal (`Journal`), and the phase that follows from both.

use std::sync::Arc;

use nero_format::DataDef;
use nero_model::paths::run::RULES_VERSION_MAX;
use nero_model::{EndReason, Phase, RunId, RunToken};
use serde::{Deserialize, Serialize};

use super::change::Change;
use super::deferred::Deferral;
use super::input::Placement;
use super::journal::{Exit, Journal};
use super::now::{Now, Tick};
use super::outcome::{self, Outcome};
use super::reason::Why;
use super::recall::Recall;
use super::refusal::Refusal;
use super::stage::{Stage, Verdict};

/// The facts of a run that never change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Made {
    pub token: RunToken,
    pub id: RunId,
    /// The word that was asked for: a node, a group, `any`. For a run made before
    /// nodes were chosen, its node.
    pub node: String,
    /// Whether the placer chooses its node, or did so at the start.
    #[serde(default)]
    pub placing: bool,
    pub created_ms: i64,
    /// The same moment on the boot clock of this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Tick>,
    /// BLAKE3 of the frozen tree in hexadecimal; empty: no files.
    #[serde(default)]
    pub tree: String,
    /// Commit of the folder, when it is a checkout.
    #[serde(default)]
    pub git: String,
    /// Fingerprint of its definition; empty if it was taken over, and so unknown.
    #[serde(default)]
    pub fingerprint: String,
    /// Time limit, to compute the time left.
    #[serde(default)]
    pub time_ms: u64,
    /// Whether files are to come home.
    #[serde(default)]
    pub outputs: bool,
    /// Whether no outputs are named: then all files that its job makes come home.
    #[serde(default)]
    pub all_made: bool,
    /// The demands on its node.
    #[serde(default)]
    pub takes: Takes,
    /// The earlier run of the experiment whose checkpoints it begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<u32>,
}

/// The resources that a run takes of its node, and its requirements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Takes {
    /// Processors; 0 means 1.
    pub cpus: f64,
    /// Memory; 0 if not stated.
    pub memory_bytes: u64,
    /// Free space below the node's root; 0: not stated.
    pub disk_bytes: u64,
    /// The canonical expression of `requires`; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub requires: String,
    /// The node that is preferred if it fits; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prefer: String,
    /// The data on the nodes, with their paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<DataDef>,
}

impl Takes {
    /// Processors that it keeps busy.
    pub fn cores(&self) -> f64 {
        if self.cpus > 0.0 { self.cpus } else { 1.0 }
    }

    /// Whether it waits here until a node fits. Runs wait for processors and
    /// memory on the node itself, which refuses what it can never provide.
    pub fn asks(&self) -> bool {
        self.disk_bytes > 0 || !self.requires.is_empty()
    }
}

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
}

/// How far the results have come home.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Results {
    /// The run has not ended, or nothing was decided.
    #[default]
    Open,
    /// Being fetched into this folder; empty: it is not made yet.
    Fetching {
        folder: String,
        /// Why they wait on this machine; empty if they do not.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        why: String,
    },
    /// Complete in this folder; the notes list files that stayed on the node.
    Done {
        folder: String,
        notes: Vec<String>,
        /// Files that stayed there because they are too large.
        #[serde(default)]
        left: u64,
        /// Warnings for every view of the run: files that stayed there, and
        /// outputs that matched no file.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    },
    /// The run printed nothing and has no outputs.
    Nothing,
    /// Given up, with the reason.
    Failed { folder: String, why: String },
}

impl Results {
    /// Whether no further attempt will be made.
    pub fn settled(&self) -> bool {
        match self {
            Self::Open | Self::Fetching { .. } => false,
            Self::Done { .. } | Self::Nothing | Self::Failed { .. } => true,
        }
    }

    /// Sets another folder, if there is one.
    pub fn set_folder(&mut self, now: String) {
        match self {
            Self::Done { folder, .. }
            | Self::Fetching { folder, .. }
            | Self::Failed { folder, .. } => {
                *folder = now;
            }
            Self::Open | Self::Nothing => {}
        }
    }

    /// The folder, if there is one.
    pub fn folder(&self) -> &str {
        match self {
            Self::Done { folder, .. }
            | Self::Fetching { folder, .. }
            | Self::Failed { folder, .. } => folder,
            Self::Open | Self::Nothing => "",
        }
    }
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
pub(crate) enum Sent {
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

impl Sent {
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
    /// Where it stands; stored in the form of [`Kept`](crate::kept::Kept).
    #[serde(skip)]
    pub(crate) stage: Stage,
    /// Why it waits, in neromum's words or ours.
    #[serde(skip_serializing_if = "Why::is_unknown")]
    pub(crate) why: Why,
    #[serde(rename = "wish", skip_serializing_if = "Option::is_none")]
    pub(crate) cancel: Option<Cancel>,
    /// How many of its records its node has sent; stored as the stage is.
    #[serde(skip)]
    pub(crate) sent: Sent,
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
    /// The host on which it goes on, if that is not its neromum's host; it is
    /// then followed by disk.
    #[serde(default)]
    pub(crate) far_host: String,
    /// Version of the rules in force, 0: none.
    pub(crate) rules_version: u64,
    /// Version of the rules that the node has.
    pub(crate) rules_delivered: u64,
    pub(crate) results: Results,
    /// Possible causes of its end: files that the job missed and that do not
    /// travel.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) hints: Vec<String>,
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

    /// A run that lies on this node with rules of this version.
    pub fn taken_over(node: &str, rules_version: u64) -> Self {
        Self {
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
    fn follow_journal(&mut self, made: &Made, journal: &Journal) {
        let waited = self.stage.is_before_start();
        let begun = !journal.incarnations.is_empty();
        self.stage.follow_journal(made, begun);
        if waited && !self.stage.is_before_start() {
            self.why = Why::Unknown;
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
        self.begin_generation();
        self.why = Why::Unknown;
    }

    /// Its node has nothing of it: no hand-over until now counts there any more.
    pub(crate) fn begin_generation(&mut self) {
        self.came_back = self.came_back.saturating_add(1);
        self.rules_delivered = 0;
    }

    /// The person who cancelled it.
    pub(crate) fn who(&self) -> String {
        self.cancel
            .as_ref()
            .map(|cancel| cancel.author.clone())
            .unwrap_or_default()
    }
}

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    pub made: Arc<Made>,
    pub(crate) dispatch: Dispatch,
    pub journal: Arc<Journal>,
    /// Ids of the rules in force.
    pub rules: Arc<[u64]>,
    /// Follows from the three fields above; see [`Run::judged`].
    pub outcome: Outcome,
}

/// Placeholder node of a run that only reserves a number: a take-over saw higher
/// numbers, and the node that has this run was not read yet.
pub const UNREAD: &str = "unknown";
/// Author of the stored entry that such a run's node is gone.
pub(crate) const TAKE_OVER: &str = "node take-over";

impl Run {
    /// Whether the run only reserves a number: its node was not read when its
    /// experiment was taken over.
    pub fn is_unread(&self) -> bool {
        matches!(
            self.dispatch.stage.verdict(),
            Some(Verdict::Reserved { .. })
        )
    }

    /// Whether the run was taken over and its node has not reported it yet, so
    /// that its progress is unknown here.
    pub fn unheard(&self) -> bool {
        self.made.fingerprint.is_empty()
            && self.phase() == Phase::Submitted
            && self.journal.incarnations.is_empty()
    }

    /// Puts a run together.
    pub fn judged(
        made: Arc<Made>,
        mut dispatch: Dispatch,
        journal: Arc<Journal>,
        rules: Arc<[u64]>,
    ) -> Self {
        dispatch.follow_journal(&made, &journal);
        let outcome = outcome::judge(&dispatch, &journal);
        Self {
            made,
            dispatch,
            journal,
            rules,
            outcome,
        }
    }

    /// Applies a change of this run.
    pub(crate) fn take(&mut self, change: &Change) {
        match change {
            Change::Dispatch {
                dispatch, rules, ..
            } => {
                if let Some(rules) = rules {
                    self.rules = Arc::clone(rules);
                }
                self.update(Some((**dispatch).clone()), None);
            }
            Change::Journal { journal, .. } => self.update(None, Some(Arc::clone(journal))),
            Change::Origin(_)
            | Change::Experiment(_)
            | Change::Rule(_)
            | Change::Run(_)
            | Change::Event { .. }
            | Change::Adopted { .. }
            | Change::Last(_) => {}
        }
    }

    /// Replaces parts and judges anew; an end that was seen stays, except that
    /// `lost` gives way to evidence.
    pub(crate) fn update(&mut self, dispatch: Option<Dispatch>, journal: Option<Arc<Journal>>) {
        if let Some(dispatch) = dispatch {
            self.dispatch = dispatch;
        }
        if let Some(journal) = journal {
            self.journal = journal;
        }
        self.dispatch.follow_journal(&self.made, &self.journal);
        let outcome = outcome::judge(&self.dispatch, &self.journal);
        if !self.has_ended() || outcome.phase == self.outcome.phase {
            self.outcome = outcome;
        }
    }

    /// The version for its rules on its node: one above a version whose file a
    /// watcher could not read, so that they are sent again.
    pub fn rules_version(&self) -> u64 {
        let next = self.unread_rules().map_or(0, |version| version + 1);
        self.dispatch.rules_version.max(next)
    }

    /// Whether its rules are sent again because a watcher could not read them.
    pub fn resends_rules(&self) -> bool {
        let unread = self.unread_rules();
        unread.is_some_and(|version| version >= self.dispatch.rules_version)
    }

    /// The newest version that a watcher could not read. An older watcher takes any
    /// number in a name for a version.
    fn unread_rules(&self) -> Option<u64> {
        let refused = self.journal.rules_refused.as_ref();
        refused
            .map(|(version, _)| *version)
            .filter(|version| *version < RULES_VERSION_MAX)
    }

    /// The node of its placement; `None` while it waits for one.
    pub fn node(&self) -> Option<&str> {
        let asked = Some(self.made.node.as_str()).filter(|_| !self.made.placing);
        self.dispatch.stage.node().or(asked)
    }

    /// Whether an end was seen that stays.
    pub fn has_ended(&self) -> bool {
        self.phase().is_end() && self.phase() != Phase::Lost
    }

    /// Its present hand-over; `None` while it waits for a node.
    pub fn placement(&self) -> Option<Placement> {
        Some(Placement {
            node: self.node()?.to_owned(),
            generation: self.dispatch.generation(),
        })
    }

    /// Its node, or the word that was asked for while it has none.
    pub fn node_word(&self) -> &str {
        self.node().unwrap_or(&self.made.node)
    }

    /// Whether it waits for the placer.
    pub fn unplaced(&self) -> bool {
        matches!(self.dispatch.stage, Stage::Unplaced)
    }

    /// Whether it was placed, and the word that was asked for may stand for other
    /// nodes, too.
    pub fn of_several(&self) -> bool {
        let node = self.dispatch.stage.node();
        self.made.placing && node.is_some_and(|node| *node != self.made.node)
    }

    /// Whether another node may still get it, as far as known here.
    pub fn movable(&self) -> bool {
        matches!(self.dispatch.stage, Stage::Chosen { .. }) && self.of_several()
    }

    /// The deferral of its node, if another node may have it. A run that its node
    /// accepted stays there, and a run that goes on from checkpoints waits where
    /// they are.
    pub fn deferred(&self) -> Option<&Deferral> {
        let (Stage::Chosen { node, .. } | Stage::Offered { node, .. }) = &self.dispatch.stage
        else {
            return None;
        };
        let stays = self.made.resume.is_some() || self.dispatch.cancel.is_some();
        // Without a reason to wait, its files are being sent there.
        if stays || !self.of_several() || self.dispatch.why.is_unknown() {
            return None;
        }
        let mut said = self.dispatch.deferred.iter();
        said.find(|one| one.node == *node && one.left_ms.is_none())
    }

    /// Its phase.
    pub fn phase(&self) -> Phase {
        self.outcome.phase
    }

    /// Whether it is lost, and may still go on somewhere.
    pub fn in_doubt(&self) -> bool {
        let over = matches!(
            self.outcome.reason,
            Some(
                EndReason::CodeUnknown
                    | EndReason::Rebooted
                    | EndReason::NodeGone { .. }
                    | EndReason::ByScheduler { .. }
            )
        );
        self.outcome.phase == Phase::Lost && !over
    }

    /// Whether its node certainly got it: by its answer or, if that was lost, by
    /// records of its journal.
    pub fn reached_its_node(&self) -> bool {
        self.dispatch.stage.is_accepted()
    }

    /// Whether records of its journal are folded. An end by its node's report is
    /// judged from the journal at the next start, so no record may be added to
    /// it.
    pub fn takes_records(&self) -> bool {
        !self.dispatch.stage.is_closed() && self.dispatch.stage.verdict().is_none()
    }

    /// Whether its node does not know it any more, although it was started there,
    /// and no person gave it up.
    pub fn forgotten(&self) -> bool {
        self.unknown_there() && self.in_doubt()
    }

    fn unknown_there(&self) -> bool {
        matches!(
            self.dispatch.stage,
            Stage::Begun {
                unknown_ms: Some(_),
                closed: false,
                ..
            }
        )
    }

    /// The warning about a lost run whose job may still run, until a person gives the
    /// run or its node up. The job's process is named while the machine is known not to
    /// have been booted since.
    pub fn doubt_text(&self, now: &Now) -> Option<String> {
        let given_up = matches!(
            self.dispatch.stage.verdict(),
            Some(Verdict::NodeGone { .. } | Verdict::Reserved { .. })
        );
        if given_up || !self.in_doubt() {
            return None;
        }
        let (_, newest) = self.journal.newest()?;
        newest.started_ms?;
        let same_boot = newest.started.as_ref().is_some_and(|tick| now.knows(tick));
        let process = newest.pid.filter(|_| same_boot);
        let process = process.map(|pid| format!(" as process {pid}"));
        let process = process.unwrap_or_default();
        let (id, node) = (self.made.id, self.node_word());
        Some(match self.forgotten() {
            true => format!(
                "{node} does not know this run any more; its root may have been deleted, emptied, or is not mounted. \
                 The job may still run there{process}; put the root back and the run goes on here, or give it up: neroman abort {id}"
            ),
            false => format!(
                "the job may still run on {node}{process}: end it there; or start anew beside it: neroman restart {} --abandon",
                id.experiment
            ),
        })
    }

    /// The reason of its end.
    pub fn reason(&self) -> Option<&EndReason> {
        self.outcome.reason.as_ref()
    }

    /// The last line of its job on standard error, if it failed by itself.
    pub fn stderr_line(&self) -> &str {
        match (self.reason(), self.exit()) {
            (
                Some(
                    EndReason::Exited { .. }
                    | EndReason::Signalled { .. }
                    | EndReason::DiskFull { .. }
                    | EndReason::OutOfMemory { .. },
                ),
                Some(exit),
            ) => &exit.stderr_line,
            (Some(_) | None, _) => "",
        }
    }

    /// How its main process ended, if that was seen.
    pub fn exit(&self) -> Option<&Exit> {
        self.journal.newest()?.1.exit.as_ref()
    }

    /// Whether its job printed, or may have: the record of the tree's end
    /// contains the logs' lengths, and may be missing.
    pub fn printed(&self) -> bool {
        let ended = self.phase().is_end();
        self.journal
            .incarnations
            .values()
            .any(|one| match &one.gone {
                Some(gone) => gone.stdout_bytes > 0 || gone.stderr_bytes > 0,
                None => ended && one.started_ms.is_some(),
            })
    }

    /// Whether files of it are to come home: outputs, logs, or, if no outputs are
    /// named, files that its job made. Its node reports at its end whether there
    /// are any.
    pub fn has_results(&self) -> bool {
        let made = self.made.all_made && self.dispatch.sent.made_files();
        self.made.outputs || made || self.printed()
    }

    /// The time of its job's first start.
    pub fn started_ms(&self) -> Option<i64> {
        self.journal.started_ms()
    }

    /// Seconds in `running`; `None` before it was started.
    pub fn runtime_s(&self, now: &Now) -> Option<f64> {
        let newest = self.journal.newest()?.1;
        if let Some(exit) = &newest.exit {
            return Some(exit.run_ms as f64 / 1000.0);
        }
        let started_ms = newest.started_ms?;
        let ms = match self.outcome.ended_ms {
            Some(ended_ms) => self
                .journal
                .surely_ran_ms()
                .unwrap_or_else(|| (ended_ms - started_ms).max(0)),
            None => self.ran_for_ms(newest.started.as_ref(), started_ms, now),
        };
        Some(ms as f64 / 1000.0)
    }

    /// Milliseconds since its start. Until its node's boot clock is known, only wall
    /// clocks tell, which a step makes wrong; but no run is older than its record here.
    fn ran_for_ms(&self, started: Option<&Tick>, started_ms: i64, now: &Now) -> i64 {
        let ran_ms = now.since(started, started_ms);
        if started.is_some_and(|tick| now.knows(tick)) {
            return ran_ms;
        }
        let created = self.made.created.as_ref();
        match created.filter(|tick| now.knows(tick)) {
            Some(created) => ran_ms.min(now.since(Some(created), self.made.created_ms)),
            None => ran_ms,
        }
    }

    /// The same for a run whose node had its last contact at `then`, which our
    /// wall clock showed as `then_ms`.
    pub fn runtime_then_s(&self, then: &Now, then_ms: i64) -> Option<f64> {
        let newest = self.journal.newest()?.1;
        let started_ms = newest.started_ms?;
        if newest.exit.is_some() || self.outcome.ended_ms.is_some() {
            return self.runtime_s(then);
        }
        let surely_ms = self.journal.surely_ran_ms();
        let ms = match newest.started.as_ref().filter(|tick| then.knows(tick)) {
            Some(tick) => then
                .since(Some(tick), started_ms)
                .max(surely_ms.unwrap_or(0)),
            // For a boot clock that this daemon never saw, its own records
            // decide.
            None => surely_ms.unwrap_or_else(|| (then_ms - started_ms).max(0)),
        };
        Some(ms as f64 / 1000.0)
    }

    /// Whether its node may still have news of it, or work for it.
    pub fn open(&self) -> bool {
        match self.dispatch.stage {
            Stage::Behind { .. } => false,
            Stage::Begun { closed, .. } | Stage::Over { closed, .. } => {
                !closed || self.dispatch.points_again
            }
            Stage::Unplaced
            | Stage::Chosen { .. }
            | Stage::Offered { .. }
            | Stage::Accepted { .. }
            | Stage::Recalled { .. } => true,
        }
    }

    /// The number of points in its journal, whether or not the database of series
    /// has them.
    pub fn points_told(&self) -> u64 {
        let metrics = self.journal.metrics.values();
        metrics.fold(0, |sum, one| sum.saturating_add(one.count))
    }

    /// The note about its points if the database of series has only `held`.
    pub fn lacks_points(&self, held: u64) -> Option<String> {
        let told = self.points_told();
        let lacking = told.checked_sub(held).filter(|lacking| *lacking > 0)?;
        let node = self.node_word();
        let why = match self.dispatch.points_again || !self.dispatch.stage.is_closed() {
            true => format!("they are asked of {node} again"),
            false => {
                format!("series.db is not the one they came into, and {node} has no more of them")
            }
        };
        Some(format!(
            "{lacking} of its {told} points are missing here: {why}"
        ))
    }
}
