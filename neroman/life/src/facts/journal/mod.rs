//! The facts of a run from its journal alone. Folded by [`crate::fold::records`], judged
//! by [`crate::fold::outcome`]; stored as JSON with the run.
//!
//! Every field depends on which records were folded and never on the order in
//! which parts of different segments came: if one of several records counts, a
//! [`Key`] selects it.

mod measured;
mod rules;
mod segment;
mod start;

use std::collections::BTreeMap;

pub use measured::{Host, Metric, Progress, Sample};
pub use rules::{CommandEnd, RuleFacts, RuleOff};
pub use segment::{LogRead, LogsRead, Segment};
use serde::{Deserialize, Serialize};

pub use start::{
    EndHold, Exit, Incarnation, Lost, NotStarted, SchedulerGrant, StartClaim, StartPause, Stop,
    Stray, TaskOver, TreeEnd,
};

use super::now::Tick;
use super::sorted::SortedMap;

/// The place of a record within its incarnation: writers take over from each
/// other in the order of `rank`; segments of one writer are ordered by the
/// monotonic clock of one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Key {
    /// Shim 0, launcher 1, neromum 2, watcher 3.
    pub rank: u8,
    /// The time at which the segment was made, on the machine's monotonic
    /// clock.
    pub made_ns: u64,
    /// Offset in the segment.
    pub offset: u64,
}

/// Everything folded from the segments of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Journal {
    /// By number of the start.
    #[serde(skip_serializing_if = "SortedMap::is_empty")]
    pub incarnations: SortedMap<u32, Box<Incarnation>>,
    /// By random id in hexadecimal; emptied when the run is closed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub segments: BTreeMap<String, Segment>,
    /// By name.
    #[serde(skip_serializing_if = "SortedMap::is_empty")]
    pub metrics: SortedMap<String, Metric>,
    /// The newest measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<Box<Sample>>,
    /// The newest progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Box<Progress>>,
    /// By id of the rule.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: BTreeMap<u64, RuleFacts>,
    /// The newest step on neroman's machine that its job waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<AskedStep>,
    /// Highest version of the rules that a watcher took.
    pub rules_applied: u64,
    /// Rules of that version that cannot apply to this run, by id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rules_off: BTreeMap<u64, RuleOff>,
    /// The newest refusal, with the version refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules_refused: Option<(u64, String)>,
    /// The watchers' remarks, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Remark>,
    /// The host at the run's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// Points that were folded into buckets.
    pub folded_points: u64,
    /// Records of kinds that this build does not know.
    pub unknown_records: u64,
    /// Records with a payload that could not be decoded.
    pub damaged_records: u64,
    /// The last sign of each start on each boot clock, in milliseconds: for the
    /// boot on which it ran, and for those on which its output was read later.
    /// Empty for runs that an earlier build folded.
    #[serde(skip_serializing_if = "SortedMap::is_empty")]
    pub signs: SortedMap<u32, SortedMap<String, i64>>,
    /// Whether its node sends more segments, or names of series, than are kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub overflows: bool,
}

/// A step on neroman's machine that a job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedStep {
    /// The start whose job asked, and the number of the step.
    pub of: (u32, u32),
    pub at_ms: i64,
}

/// A remark of a watcher.
#[derive(Clone, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Remark {
    pub key: (u32, Key),
    pub at_ms: i64,
    pub text: String,
}

impl Journal {
    /// The start that counts: the highest known.
    pub fn newest(&self) -> Option<(u32, &Incarnation)> {
        let (number, incarnation) = self.incarnations.last_key_value()?;
        Some((*number, incarnation))
    }

    /// Whether the job was started, by the newest start.
    pub(crate) fn has_run(&self) -> bool {
        let newest = self.newest();
        newest.is_some_and(|(_, one)| one.started_ms.is_some() && one.not_started.is_none())
    }

    /// The time of the job's first start.
    pub fn started_ms(&self) -> Option<i64> {
        self.incarnations.values().find_map(|one| one.started_ms)
    }

    /// The last sign of the newest start by its records, not after `latest_ms`;
    /// 0 if there is none.
    pub fn last_sign_ms(&self, latest_ms: i64) -> i64 {
        let Some((number, newest)) = self.newest() else {
            return 0;
        };
        let of_newest = |key: &(u32, Key)| key.0 == number;
        let job = [
            newest.claimed.as_ref().map(|claimed| claimed.at_ms),
            newest.started_ms,
            newest.stop.as_ref().map(|stop| stop.at_ms),
            newest.exit.as_ref().map(|exit| exit.at_ms),
            newest.gone.as_ref().map(|gone| gone.at_ms),
        ];
        let sample = self.sample.iter().filter(|one| of_newest(&one.key));
        let metrics = self.metrics.values().filter(|one| of_newest(&one.key));
        let signs = job.into_iter().flatten().chain(sample.map(|one| one.at_ms));
        let signs = signs.chain(metrics.map(|one| one.at_ms));
        signs.max().unwrap_or(0).min(latest_ms)
    }

    /// The progress of the newest start.
    pub fn progress(&self) -> Option<&Progress> {
        let (number, _) = self.newest()?;
        let known = self.progress.as_deref();
        known.filter(|progress| progress.key.0 == number)
    }

    /// Time from the begin of the newest start to its last metric, by the node's clock;
    /// `None`: it has reported none.
    pub(crate) fn reported_after_ms(&self) -> Option<u64> {
        let (number, newest) = self.newest()?;
        let of_newest = self.metrics.values().filter(|one| one.key.0 == number);
        let last_ms = of_newest.map(|one| one.at_ms).max()?;
        u64::try_from(last_ms - newest.started_ms?).ok()
    }

    /// Records a sign of one start.
    pub fn sign(&mut self, incarnation: u32, at: Tick) {
        let known = self.signs.get_or_default(incarnation);
        let last_ms = known.get_or_default(at.boot);
        *last_ms = at.ms.max(*last_ms);
    }

    /// For how long the newest start certainly ran, in milliseconds: up to its
    /// last sign.
    pub fn surely_ran_ms(&self) -> Option<i64> {
        let (number, newest) = self.newest()?;
        let started = newest.started.as_ref()?;
        let last_ms = self.signs.get(&number)?.get(&started.boot)?;
        Some(last_ms.saturating_sub(started.ms).max(0))
    }

    /// The time of the job's first start, on its machine's boot clock.
    pub fn started(&self) -> Option<&Tick> {
        let mut first = self.incarnations.values();
        let first = first.find(|one| one.started_ms.is_some());
        first?.started.as_ref()
    }

    /// Warnings for people: rules that warn, and remarks.
    pub fn warnings(&self) -> Vec<String> {
        let mut texts: Vec<String> = self
            .rules
            .values()
            .filter(|rule| rule.fired > 0 && rule.action == "warn")
            .map(|rule| match rule.last_values.as_str() {
                "" => format!("rule `{}`", rule.text),
                values => format!("rule `{}` ({values})", rule.text),
            })
            .collect();
        for (id, rule) in &self.rules {
            texts.extend(rule.doubts().map(|doubt| format!("rule {id}: {doubt}")));
        }
        let off = self.rules_off.values();
        texts.extend(off.map(|off| format!("rule `{}` is off: {}", off.text, off.why)));
        if let Some((version, why)) = &self.rules_refused
            && *version >= self.rules_applied
        {
            texts.push(format!("rules refused: {why}"));
        }
        let notices = self.notices.iter().filter(|one| !self.is_past(one));
        texts.extend(notices.map(|remark| remark.text.clone()));
        for incarnation in self.incarnations.values() {
            if let Some(gone) = incarnation.gone.as_ref().filter(|gone| gone.left_alive > 0) {
                texts.push(format!("{} processes could not be ended", gone.left_alive));
            }
        }
        if self.damaged_records > 0 {
            texts.push(format!(
                "{} records could not be read",
                self.damaged_records
            ));
        }
        if self.overflows {
            let more = "more segments or metric names than neroman keeps";
            texts.push(format!("this run has {more}: points may be missing"));
        }
        texts
    }

    /// Whether a remark told what kept an end from being recorded, which is recorded now.
    fn is_past(&self, remark: &Remark) -> bool {
        let (number, key) = remark.key;
        self.incarnations.get(&number).is_some_and(|one| {
            let hold = one.end_hold.as_ref();
            one.exit.is_some() && hold.is_some_and(|hold| hold.key == key)
        })
    }

    /// Forgets the state that only further folding needs.
    pub fn compact(&mut self) {
        self.segments.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(boot: &str, ms: i64) -> Tick {
        Tick {
            boot: boot.to_owned(),
            ms,
        }
    }

    #[test]
    fn the_sure_run_time_follows_the_boot_clock_of_its_start() {
        let mut journal = Journal::default();
        let started = Incarnation {
            started_ms: Some(1_000_000),
            started: Some(at("b", 2000)),
            ..Incarnation::default()
        };
        journal.incarnations.insert(2, started.into());
        assert_eq!(journal.surely_ran_ms(), None, "of an earlier build");
        for (incarnation, sign) in [
            (2, at("b", 7000)),
            (2, at("b", 2000)),
            (1, at("b", 90_000)),
            // Another boot has another clock.
            (2, at("c", 80_000)),
        ] {
            journal.sign(incarnation, sign);
        }
        assert_eq!(journal.surely_ran_ms(), Some(5000));
    }
}
