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
