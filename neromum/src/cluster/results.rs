//! What comes back from work beside the agent's task: folders that were made, news and logs that were
//! read, and answers of the scheduler.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use nero_cluster::submission::News;
use nero_model::SubmissionId;
use nero_warden::{CallOutput, Site};
use tokio::time::Instant;

use super::adopted::log::LogCopy;
use super::make::Folders;

/// What a command is asked for.
#[derive(Clone, Debug)]
pub enum Ask {
    /// The site.
    Site,
    /// To take a submission.
    Submit(SubmissionId),
    /// The queue, at this time.
    List(Instant),
    /// The number of jobs of all users, at this time.
    Count(Instant),
    /// The ends of these submissions.
    Ends(Vec<SubmissionId>),
    /// When the controller was started, since tasks of these vanished, asked at this time.
    Start(Vec<SubmissionId>, Instant),
    /// To cancel or to ring: the answer says nothing.
    Tell,
}

/// Answers to the commands of one question.
#[derive(Debug)]
pub struct CommandAnswers {
    pub(super) ask: Ask,
    pub(super) said: Vec<CallOutput>,
    pub(super) site: Option<Result<Arc<Site>, String>>,
    /// Names of users in the answers, of those that this host does not know.
    pub(super) users: HashMap<u32, String>,
}

/// The news of each submission.
pub type SubmissionNews = Vec<(SubmissionId, io::Result<Vec<News>>)>;

/// The logs of adopted jobs, after a look that began at this time.
pub type CopiedLogs = (Instant, Vec<(SubmissionId, LogCopy)>);

/// Results of work beside the agent's task.
#[derive(Debug)]
pub enum ClusterResult {
    /// Folders of submissions.
    Made(Box<Folders>),
    /// The news of submissions.
    News(SubmissionNews),
    /// Logs of adopted jobs.
    Copied(CopiedLogs),
    /// The scheduler's answers.
    Asked(Box<CommandAnswers>),
}
