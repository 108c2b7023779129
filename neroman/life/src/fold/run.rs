//! One run: neroman's own decisions and records (`Dispatch`), the facts of its
//! journal (`Journal`), and the phase that follows from both.

use std::cmp::Reverse;
use std::sync::Arc;

use nero_model::paths::run::RULES_VERSION_MAX;
use nero_model::{EndReason, Phase, RunId};

use super::errors;
use super::outcome::{self, Outcome};
use crate::facts::actions::RuleFirings;
pub use crate::facts::dispatch::{Cancel, Dispatch, Unreadable};
use crate::facts::journal::{Exit, Journal};
use crate::facts::leaving::Deferral;
use crate::facts::now::{PresentTime, Tick};
pub use crate::facts::results::Results;
pub use crate::facts::run_record::{Line, RunDemands, RunRecord};
use crate::facts::stage::{Stage, Verdict};

/// A hand-over of a run: its node and its generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    pub node: String,
    pub generation: u32,
}

/// A place among runs that wait, smaller ones first: priority, time of the start, place in it.
pub type Turn = (Reverse<i32>, i64, u32, RunId);

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    pub made: Arc<RunRecord>,
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
        made: Arc<RunRecord>,
        mut dispatch: Dispatch,
        journal: Arc<Journal>,
        rules: Arc<[u64]>,
    ) -> Self {
        dispatch.follow_journal(&made, &journal);
        let outcome = outcome::judge(&dispatch, &journal);
        let outcome = errors::judged(&made, &dispatch, &journal, outcome);
        let outcome = outcome::held_back(&made, &dispatch, outcome);
        Self {
            made,
            dispatch,
            journal,
            rules,
            outcome,
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
        let outcome = errors::judged(&self.made, &self.dispatch, &self.journal, outcome);
        let outcome = outcome::held_back(&self.made, &self.dispatch, outcome);
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

    /// Rules that the daemon evaluates and that fired, by id.
    pub fn fired(&self) -> &std::collections::BTreeMap<u64, RuleFirings> {
        &self.dispatch.fired
    }

    /// The recipients whom its node told of its end.
    pub fn relayed(&self) -> &std::collections::BTreeSet<String> {
        self.dispatch.noticed.relayed()
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

    /// Its turn among the runs that wait on a node: the node orders them in the same way.
    pub fn turn(&self) -> Turn {
        let made = &self.made;
        (Reverse(made.priority), made.created_ms, made.rank, made.id)
    }

    /// Whether it waits for the placer, and is not held.
    pub fn unplaced(&self) -> bool {
        matches!(self.dispatch.stage, Stage::Unplaced)
            && self.hold_cause().is_none()
            && !self.awaits_nodes()
    }

    /// Whether it is live, may still get records, or a node is looked for.
    pub(crate) fn is_active(&self) -> bool {
        let is_to_place = self.unplaced() || self.deferred().is_some();
        is_to_place || self.phase().is_live() || self.open()
    }

    /// Whether it waits for a node without certain other runs.
    pub fn waits_apart(&self) -> bool {
        self.unplaced() && !self.made.precedence.place.apart_from.is_empty()
    }

    /// The node that was chosen for it.
    pub fn placed_on(&self) -> Option<&str> {
        match self.dispatch.stage {
            Stage::Behind { .. } | Stage::Unplaced => None,
            Stage::Chosen { .. }
            | Stage::Offered { .. }
            | Stage::Accepted { .. }
            | Stage::Recalled { .. }
            | Stage::Begun { .. }
            | Stage::Over { .. } => self.node(),
        }
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
        let stays = self.made.resume.is_some()
            || self.dispatch.cancel.is_some()
            || self.elsewhere().is_some();
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
    pub fn doubt_text(&self, now: &PresentTime) -> Option<String> {
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
        Some(if self.forgotten() {
            format!(
                "{node} does not know this run any more; its root may have been deleted, emptied, or is not mounted. \
                 The job may still run there{process}; put the root back and the run goes on here, or give it up: neroman abort {id}"
            )
        } else {
            format!(
                "the job may still run on {node}{process}: end it there; or start anew beside it: neroman restart {} --abandon",
                id.experiment
            )
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

    /// When its newest start began, on the wall clock; 0 before it was started.
    pub fn newest_started_ms(&self) -> i64 {
        let newest = self.journal.newest();
        newest.and_then(|(_, one)| one.started_ms).unwrap_or(0)
    }

    /// Seconds in `running`; `None` before it was started.
    pub fn runtime_s(&self, now: &PresentTime) -> Option<f64> {
        let newest = self.journal.newest()?.1;
        if let Some(exit) = &newest.exit {
            return Some(exit.run_ms as f64 / 1000.0);
        }
        let started_ms = newest.started_ms?;
        // Nothing of it runs while its job is in the queue again.
        let stands = self.outcome.ended_ms.or_else(|| {
            let is_waiting = self.phase() == Phase::Pending;
            is_waiting.then(|| self.journal.last_sign_ms(i64::MAX))
        });
        let ms = match stands {
            Some(ended_ms) => self
                .journal
                .surely_ran_ms()
                .unwrap_or_else(|| (ended_ms - started_ms).max(0)),
            None => {
                let passed_ms = self.ran_for_ms(newest.started.as_ref(), started_ms, now);
                (passed_ms - newest.paused_ms(now)).max(0)
            }
        };
        Some(ms as f64 / 1000.0)
    }

    /// Milliseconds since its start. Until its node's boot clock is known, only wall
    /// clocks tell, which a step makes wrong; but no run is older than its record here.
    pub(crate) fn ran_for_ms(
        &self,
        started: Option<&Tick>,
        started_ms: i64,
        now: &PresentTime,
    ) -> i64 {
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
    pub fn runtime_then_s(&self, then: &PresentTime, then_ms: i64) -> Option<f64> {
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
        let ms = (ms - newest.paused_ms(then)).max(0);
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
        let why = if self.dispatch.points_again || !self.dispatch.stage.is_closed() {
            format!("they are asked of {node} again")
        } else {
            format!("series.db is not the one they came into, and {node} has no more of them")
        };
        Some(format!(
            "{lacking} of its {told} points are missing here: {why}"
        ))
    }
}
