//! What other crates may read of where a run stands. Its fields are written in this
//! crate alone.

use nero_model::{EndReason, Phase, StateWord};

use super::errors;
use super::outcome::judge;
use super::run::Run;
use crate::facts::dispatch::{Cancel, Unreadable};
use crate::facts::hold::{Hold, HoldCause};
use crate::facts::journal::{Incarnation, Journal, StartPause};
use crate::facts::leaving::Refusal;
use crate::facts::nodes::NodeLedger;
use crate::facts::now::PresentTime;
use crate::facts::peers::PeersNumber;
use crate::facts::reason::{NoNode, Obstacle, WaitReason};
use crate::facts::results::Results;
use crate::facts::stage::Stage;

impl Run {
    /// How far its results have come home.
    pub fn results(&self) -> &Results {
        &self.dispatch.results
    }

    /// What it waits for.
    pub fn why(&self) -> &WaitReason {
        &self.dispatch.why
    }

    /// What a person has to act on at its node, before it can go on.
    pub fn needs_person(&self) -> Option<&str> {
        match self.why() {
            WaitReason::NeedsPerson(why) if !self.is_paused() && self.phase().is_live() => {
                Some(why)
            }
            WaitReason::NeedsPerson(_)
            | WaitReason::Unknown
            | WaitReason::NoNode(_)
            | WaitReason::RefusedBy { .. }
            | WaitReason::GoesTo { .. }
            | WaitReason::Said(_) => None,
        }
    }

    /// The lost runs that hold its lock on each of its nodes: a person has to act on these.
    pub fn locked_by_lost(&self) -> Option<String> {
        let is_lost =
            |obstacle: &Obstacle| matches!(obstacle, Obstacle::Locked { is_lost: true, .. });
        match self.why() {
            WaitReason::NoNode(NoNode::Each(nodes)) if self.phase().is_live() => nodes
                .iter()
                .all(|(_, obstacle)| is_lost(obstacle))
                .then(|| self.why().to_string()),
            WaitReason::NoNode(_)
            | WaitReason::NeedsPerson(_)
            | WaitReason::Unknown
            | WaitReason::RefusedBy { .. }
            | WaitReason::GoesTo { .. }
            | WaitReason::Said(_) => None,
        }
    }

    /// Why it is held because of other runs, if it is.
    pub fn hold_cause(&self) -> Option<HoldCause> {
        let waits = self.dispatch.stage.is_before_start();
        match self.dispatch.hold {
            Some(Hold::On { cause, told }) => (told || waits).then_some(cause),
            Some(Hold::Lifted) | None => {
                let cause = if self.dispatch.waits_for_others {
                    Some(HoldCause::Others)
                } else {
                    self.dispatch.in_line.then_some(HoldCause::AtMost)
                };
                cause.filter(|_| waits)
            }
        }
    }

    /// Whether it waits for other experiments.
    pub fn waits_for_others(&self) -> bool {
        let waits = self.dispatch.stage.is_before_start() && self.phase().is_live();
        self.dispatch.waits_for_others && waits
    }

    /// The request that it ends.
    pub fn cancel(&self) -> Option<&Cancel> {
        self.dispatch.cancel.as_deref()
    }

    /// When its folder on the node was deleted.
    pub fn cleaned_ms(&self) -> Option<i64> {
        self.dispatch.cleaned_ms
    }

    /// Whether its node is asked for its points again.
    pub fn asks_for_points(&self) -> bool {
        self.dispatch.points_again
    }

    /// Whether the accepting answer of its node came.
    pub fn is_accepted(&self) -> bool {
        self.dispatch.stage.is_accepted()
    }

    /// Whether its node may have it.
    pub fn may_be_there(&self) -> bool {
        self.dispatch.stage.may_be_there()
    }

    /// Whether it needs nothing from its node any more.
    pub fn is_closed(&self) -> bool {
        self.dispatch.stage.is_closed()
    }

    /// Whether no record of it comes any more, as far as its node or a person said.
    pub fn is_told_whole(&self) -> bool {
        self.dispatch.sent.is_all() || self.dispatch.stage.verdict().is_some() || self.is_closed()
    }

    /// What is gone of its records, in its node's words; empty: nothing.
    pub fn missing(&self) -> &str {
        self.dispatch.sent.missing()
    }

    /// Whether its newest start is in an allocation of a scheduler.
    pub fn is_in_allocation(&self) -> bool {
        let newest = self.journal.incarnations.values().next_back();
        newest.is_some_and(|one| one.granted.is_some())
    }

    /// The host on which it goes on, when that is not where its neromum is.
    pub fn far_host(&self) -> &str {
        &self.dispatch.far_host
    }

    /// Whether its job goes on without a parent of ours.
    pub fn is_unsupervised(&self) -> bool {
        self.dispatch.unsupervised
    }

    /// Whether it was handed to its node, which has not answered yet.
    pub fn is_on_its_way(&self) -> bool {
        self.dispatch.stage.may_be_there() && !self.is_accepted()
    }

    /// Whether it is paused: its processes are stopped, or its node does not start it.
    pub fn is_paused(&self) -> bool {
        match self.phase() {
            Phase::Running => self.pause().is_some(),
            Phase::Queued | Phase::Staging | Phase::Submitted | Phase::Pending => {
                self.dispatch.paused
            }
            Phase::Ending
            | Phase::Finished
            | Phase::Crashed
            | Phase::Aborted
            | Phase::Timeout
            | Phase::Lost => false,
        }
    }

    /// The pause of its processes.
    pub fn pause(&self) -> Option<&StartPause> {
        self.journal.newest()?.1.pause()
    }

    /// What its end waits for: the runtime of its container, which does not answer.
    pub fn end_hold(&self) -> Option<&str> {
        let hold = self.journal.newest()?.1.end_hold()?;
        Some(&hold.why)
    }

    /// The one word that is shown for it.
    pub fn state_word(&self) -> StateWord {
        if self.is_paused() {
            StateWord::Paused
        } else {
            StateWord::Phase(self.phase())
        }
    }

    /// Its files that its node cannot use.
    pub fn unreadable(&self) -> &[Unreadable] {
        &self.dispatch.unreadable
    }

    /// The first file that keeps its node from seeing how it ends.
    pub fn hides_its_end(&self) -> Option<&Unreadable> {
        self.dispatch.hides_its_end()
    }

    /// What may be behind its end.
    pub fn hints(&self) -> &[String] {
        &self.dispatch.hints
    }

    /// Seconds until our limit, or the scheduler's end of its task, ends a live run; `None`
    /// without either.
    pub fn timeleft_s(&self, now: &PresentTime) -> Option<f64> {
        if !self.phase().is_live() {
            return None;
        }
        let limit_s = Some(self.made.time_ms_on(self.node())).filter(|ms| *ms > 0);
        let spent_s = self.runtime_s(now).unwrap_or(0.0);
        let ours = limit_s.map(|ms| ms as f64 / 1000.0 - spent_s);
        let newest = self.journal.newest().map(|(_, one)| one);
        let theirs = newest.and_then(|one| self.granted_s(one, now));
        let least = ours.into_iter().chain(theirs).reduce(f64::min);
        least.map(|left| left.max(0.0))
    }

    /// Seconds until its job ends, by its progress, if it has run for `runtime_s`; `None`
    /// while it does not run, and when the expected time is over.
    pub fn eta_s(&self, runtime_s: Option<f64>) -> Option<f64> {
        let progress = self.journal.progress()?;
        if self.phase() != Phase::Running || self.is_paused() {
            return None;
        }
        let passed_s = runtime_s? - progress.ran_ms as f64 / 1000.0;
        let left_s = progress.left_ms? as f64 / 1000.0 - passed_s.max(0.0);
        if progress.done >= 1.0 {
            Some(0.0)
        } else {
            Some(left_s).filter(|left_s| *left_s > 0.0)
        }
    }

    /// Seconds until the scheduler ends the task of a start that began. It told a time of
    /// its host's wall clock, of which only the start's time is taken: clocks differ, and
    /// are set.
    fn granted_s(&self, one: &Incarnation, now: &PresentTime) -> Option<f64> {
        let until_ms = one.granted.as_ref()?.until_ms;
        let started_ms = one.started_ms.filter(|_| until_ms > 0)?;
        let passed_ms = self.ran_for_ms(one.started.as_ref(), started_ms, now);
        Some((until_ms.saturating_sub(started_ms) as f64 - passed_ms as f64) / 1000.0)
    }

    /// Why no run follows it by itself although one could.
    pub fn why_not_again(&self) -> Option<&str> {
        Some(&*self.dispatch.no_retry).filter(|why| !why.is_empty())
    }

    /// The earlier run of the experiment whose end it waits for.
    pub fn after(&self) -> Option<u32> {
        self.dispatch.after()
    }

    /// Tree of the checkpoints that it begins with, in hexadecimal; empty: there
    /// are none; `None`: that is not known yet.
    pub fn overlay(&self) -> Option<&str> {
        self.dispatch.overlay.as_deref()
    }

    /// Whether a node that was given up may still have it.
    pub fn is_left_behind(&self) -> bool {
        !self.dispatch.left_behind.is_empty()
    }

    /// Whether a node is to be told to end what it still has of it. Its own node is
    /// not, as long as the run is live.
    pub fn is_left_on(&self, node: &str) -> bool {
        let its_own = self.node() == Some(node) && self.phase().is_live();
        !its_own && self.dispatch.left_behind.iter().any(|other| other == node)
    }

    /// Nodes that never get it again.
    pub fn excluded(&self) -> &[String] {
        &self.dispatch.excluded
    }

    /// What the nodes said that refused it, oldest first.
    pub fn refusals(&self) -> &[Refusal] {
        &self.dispatch.refused
    }

    /// How often it was given to a node, the one that it has or gets included: of a
    /// run that was recalled, what carries an earlier generation counts no more.
    pub fn generation(&self) -> u32 {
        self.dispatch.generation()
    }

    /// The node that it left last, where it did not start, and why.
    pub fn came_from(&self) -> Option<(&str, &str)> {
        let left = self.dispatch.deferred.iter();
        let mut left = left.filter(|one| one.left_ms.is_some());
        left.next_back().map(|one| (&*one.node, &*one.why))
    }

    /// Whether this journal proves the end that was told of the run.
    pub fn has_its_end_from(&self, journal: &Journal) -> bool {
        let outcome = judge(&self.dispatch, journal);
        let outcome = errors::judged(&self.made, &self.dispatch, journal, outcome);
        self.has_ended() && outcome.phase == self.phase()
    }

    /// The start whose error is to be answered on its node, and the command for that.
    pub fn awaited_response(&self) -> Option<(u32, String)> {
        if self.phase() != Phase::Ending || !self.made.again.responds() {
            return None;
        }
        let response = errors::awaited(&self.made, &self.dispatch, &self.journal)?;
        Some((self.journal.newest()?.0, response))
    }

    /// What `on_error` made of its end, where that is not what the exit code tells.
    pub fn error_verdict(&self) -> Option<String> {
        let code = self.exit()?.code;
        self.made.again.on_error.as_ref()?;
        match (self.phase(), self.reason()) {
            (Phase::Finished, None) if code != 0 => {
                Some(format!("exit code {code} counts as success (`on_error`)"))
            }
            (Phase::Crashed, Some(EndReason::Exited { code: 0 })) => {
                Some("it printed on standard error, an error by `on_error`".to_owned())
            }
            (_, _) => None,
        }
    }

    /// The aggregates over its peers that its rules have.
    pub fn peers(&self) -> &[PeersNumber] {
        &self.dispatch.peers
    }

    /// Whether its rules are evaluated, so that new numbers matter.
    pub fn takes_peers(&self) -> bool {
        let is_begun = matches!(self.dispatch.stage, Stage::Begun { closed: false, .. });
        is_begun && self.phase().is_live() && self.dispatch.cancel.is_none()
    }

    /// The ledger that may have it and start it, while its node answers with another one.
    pub fn elsewhere(&self) -> Option<&NodeLedger> {
        let elsewhere = self.dispatch.elsewhere.as_deref();
        elsewhere.filter(|_| self.dispatch.stage.is_before_start())
    }

    /// Whether it waits for what nodes know of it.
    pub fn awaits_nodes(&self) -> bool {
        self.dispatch.restored && self.dispatch.stage.is_before_start()
    }
}
