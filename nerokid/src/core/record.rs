//! The records of a watcher, before they are bytes.

use nero_journal::{Clocks, Segment, WriteError, v1};

/// A record of the watcher's segment.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// The segment's first.
    Started(v1::WatchStarted),
    /// Points, names, positions.
    Metrics(v1::Metrics),
    /// Resources that the job's tree uses.
    Sample(v1::Sample),
    /// A rule set is in force.
    RulesApplied(v1::RulesApplied),
    /// A rule set was refused.
    RulesRefused(v1::RulesRefused),
    /// A loosely written name was bound.
    RuleBound(v1::RuleBound),
    /// A rule holds.
    RuleFired(v1::RuleFired),
    /// Since when conditions of a rule hold.
    RuleHeld(v1::RuleHeld),
    /// The command of a firing ended.
    RuleRan(v1::RuleRan),
    /// The job waits for a step on neroman's machine.
    StepAsked(v1::StepAsked),
    /// A log was cut by its job.
    Truncated(v1::LogTruncated),
    /// Points were folded.
    Folded(v1::MetricsFolded),
    /// How far the job has come.
    Progress(v1::Progress),
    /// Something a person should read.
    Notice(v1::Notice),
    /// The segment's last.
    Ended(v1::WatchEnded),
}

impl Record {
    /// A notice.
    pub fn notice(text: impl Into<String>) -> Self {
        Self::Notice(v1::Notice::of(text))
    }

    /// Appends the record; returns the written bytes.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn append<'s>(
        &self,
        segment: &'s mut Segment,
        clocks: Clocks,
    ) -> Result<&'s [u8], WriteError> {
        match self {
            Self::Started(message) => segment.record(clocks, message),
            Self::Metrics(message) => segment.record(clocks, message),
            Self::Sample(message) => segment.record(clocks, message),
            Self::RulesApplied(message) => segment.record(clocks, message),
            Self::RulesRefused(message) => segment.record(clocks, message),
            Self::RuleBound(message) => segment.record(clocks, message),
            Self::RuleFired(message) => segment.record(clocks, message),
            Self::RuleHeld(message) => segment.record(clocks, message),
            Self::RuleRan(message) => segment.record(clocks, message),
            Self::StepAsked(message) => segment.record(clocks, message),
            Self::Truncated(message) => segment.record(clocks, message),
            Self::Folded(message) => segment.record(clocks, message),
            Self::Progress(message) => segment.record(clocks, message),
            Self::Notice(message) => segment.record(clocks, message),
            Self::Ended(message) => segment.record(clocks, message),
        }
    }
}

/// Names of the kinds of records with this payload that change `known` when `fold` takes them.
#[cfg(test)]
pub(crate) fn kinds_read<T: std::fmt::Debug>(
    payload: &[u8],
    known: impl Fn() -> T,
    fold: impl Fn(&mut T, &nero_journal::Record<'_>),
) -> Vec<&'static str> {
    let before = format!("{:?}", known());
    let kinds = (0..=100).filter(|kind| {
        let mut after = known();
        let record = nero_journal::Record {
            offset: 80,
            sequence: 0,
            kind: *kind,
            mono_ns: 9_000_000,
            wall_ns: 2_000_000,
            payload,
            chain: 0,
        };
        fold(&mut after, &record);
        format!("{after:?}") != before
    });
    let name = |kind| v1::RecordKind::try_from(kind).map_or("?", |kind| kind.as_str_name());
    let names = kinds.map(|kind| name(i32::from(kind)).trim_start_matches("RECORD_KIND_"));
    names.collect()
}
