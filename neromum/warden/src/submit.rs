//! What came of a submission.

use crate::JobId;

/// What came of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubmissionResult {
    /// The scheduler printed this id. It may still forget it.
    Accepted(JobId),
    /// The scheduler refused; its words.
    Refused(String),
    /// It takes no more jobs of this user for now, and did not take these; its words. A
    /// request that is above a limit of one job may be told in the same words.
    Full(String),
    /// The command was not executed; nothing was sent.
    NotSent(String),
    /// Nothing is known: it may have been accepted. Listings decide, several of
    /// them, since the first one after a stall misses jobs. The scheduler's words.
    Ambiguous(String),
}
