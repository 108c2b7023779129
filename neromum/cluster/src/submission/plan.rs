//! The plan of a submission, in types of our own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nero_journal::frame::FrameError;
use nero_journal::v1;
use nero_model::paths::NodePaths;
use nero_model::{DeploymentId, ExperimentId, RunId, RunToken, SubmissionId};
use nero_warden::{JobId, JobRef};
use nero_wire::v1 as wire;

/// The format of a plan that submits its tasks.
const SUBMITS: u32 = 1;
/// That of a plan with a job that a person submitted, and the highest that this build
/// reads: an older one would submit its run.
const ADOPTS: u32 = 2;
/// The interval of beats where a plan tells none.
const BEAT: Duration = Duration::from_secs(15);
/// Bounds for the interval of beats, in ms.
const BEAT_MS: std::ops::RangeInclusive<u32> = 50..=600_000;

/// What the tasks of a submission start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Names the submission at the scheduler, and its folder.
    pub submission: SubmissionId,
    /// Deployment of the runs.
    pub deployment: DeploymentId,
    /// Name of the node.
    pub node: String,
    /// The node's root, the same on all its hosts.
    pub root: PathBuf,
    /// Interval of beats.
    pub beat: Duration,
    /// In any order.
    pub tasks: Vec<Task>,
    /// Tasks that the scheduler lets run at once; `None`: all of them.
    pub at_once: Option<u32>,
    /// The job, if a person submitted it; then there is one task with one run.
    pub adopted: Option<AdoptedJob>,
}

/// A job that a person submitted. Ids are used again: the time of submission belongs to
/// its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdoptedJob {
    /// Its number.
    pub job: JobRef,
    /// When it was submitted, in seconds since 1970.
    pub submitted_s: i64,
    /// Its log; `None`: none is known.
    pub stdout: Option<PathBuf>,
    /// The log of its standard error, where that is another file.
    pub stderr: Option<PathBuf>,
}

impl AdoptedJob {
    /// Reads the job of a run's spec; `None`: it has no number.
    pub fn read(given: &wire::AdoptedJob) -> Option<Self> {
        Self::of(&v1::AdoptedJob {
            job: given.job,
            task: given.task,
            submitted_s: given.submitted_s,
            stdout: given.stdout.clone(),
            stderr: given.stderr.clone(),
        })
    }

    fn of(given: &v1::AdoptedJob) -> Option<Self> {
        let path = |text: &str| Some(PathBuf::from(text)).filter(|path| path.is_absolute());
        let job = JobRef {
            job: JobId(given.job),
            task: given.task,
        };
        (given.job > 0).then(|| Self {
            job,
            submitted_s: given.submitted_s,
            stdout: path(&given.stdout),
            stderr: path(&given.stderr),
        })
    }

    fn encoded(&self) -> v1::AdoptedJob {
        let text = |path: &Option<PathBuf>| {
            let path = path.as_ref().map(|path| path.display().to_string());
            path.unwrap_or_default()
        };
        v1::AdoptedJob {
            job: self.job.job.0,
            task: self.job.task,
            submitted_s: self.submitted_s,
            stdout: text(&self.stdout),
            stderr: text(&self.stderr),
        }
    }
}

/// One element of an array, or the only task of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The scheduler's index; 0 for a job without an array.
    pub index: u32,
    /// First come, first served.
    pub runs: Vec<TaskRun>,
}

/// A run of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRun {
    /// Token of the run.
    pub token: RunToken,
    /// As people write it.
    pub id: RunId,
}

/// Reason why a plan cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file cannot be read, or is damaged.
    #[error("cannot use the plan {path}; it is left untouched")]
    Read {
        /// The plan.
        path: PathBuf,
        /// Fault of the file.
        #[source]
        source: FrameError,
    },
    /// A later build wrote it.
    #[error(
        "the plan {path} has format {format}, this neromum reads formats up to {ADOPTS}: run the build that wrote it"
    )]
    TooNew {
        /// The plan.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
    /// A field makes no sense.
    #[error("the plan {path} cannot be used: {what}; it is left untouched")]
    Field {
        /// The plan.
        path: PathBuf,
        /// Fault of the field.
        what: &'static str,
    },
}

impl Plan {
    /// Folders of the node.
    pub fn paths(&self) -> NodePaths {
        NodePaths::new(&self.root, &self.deployment, &self.node)
    }

    pub(super) fn decoded(encoded: &v1::Plan, path: &Path) -> Result<Self, PlanError> {
        let path = path.to_path_buf();
        if encoded.format > ADOPTS {
            let format = encoded.format;
            return Err(PlanError::TooNew { path, format });
        }
        let wrong = |what| PlanError::Field {
            path: path.clone(),
            what,
        };
        let submission = SubmissionId::from_slice(&encoded.submission);
        let deployment = DeploymentId::from_slice(&encoded.deployment);
        let root = PathBuf::from(&encoded.root);
        if encoded.format == 0 || !root.is_absolute() || encoded.node.is_empty() {
            return Err(wrong("its format, root or node is missing"));
        }
        let beat = match encoded.beat_ms {
            0 => BEAT,
            given if BEAT_MS.contains(&given) => Duration::from_millis(given.into()),
            _ => return Err(wrong("its interval of beats is out of range")),
        };
        let tasks: Option<Vec<Task>> = encoded.tasks.iter().map(task).collect();
        Ok(Self {
            submission: submission.ok_or_else(|| wrong("its id has not 16 bytes"))?,
            deployment: deployment.ok_or_else(|| wrong("its deployment has not 16 bytes"))?,
            node: encoded.node.clone(),
            root,
            beat,
            tasks: tasks.ok_or_else(|| wrong("a run of it has no number or token"))?,
            at_once: Some(encoded.at_once).filter(|most| *most > 0),
            adopted: encoded.adopted.as_ref().and_then(AdoptedJob::of),
        })
    }

    pub(super) fn encoded(&self) -> v1::Plan {
        let run = |run: &TaskRun| v1::PlannedRun {
            token: run.token.to_vec(),
            experiment: run.id.experiment.0,
            number: run.id.number,
        };
        let task = |task: &Task| v1::PlannedTask {
            task: task.index,
            runs: task.runs.iter().map(run).collect(),
        };
        v1::Plan {
            format: match self.adopted {
                Some(_) => ADOPTS,
                None => SUBMITS,
            },
            submission: self.submission.to_vec(),
            deployment: self.deployment.to_vec(),
            node: self.node.clone(),
            root: self.root.display().to_string(),
            beat_ms: u32::try_from(self.beat.as_millis()).unwrap_or(u32::MAX),
            tasks: self.tasks.iter().map(task).collect(),
            at_once: self.at_once.unwrap_or(0),
            adopted: self.adopted.as_ref().map(AdoptedJob::encoded),
        }
    }
}

fn task(encoded: &v1::PlannedTask) -> Option<Task> {
    let run = |run: &v1::PlannedRun| {
        let id = RunId {
            experiment: ExperimentId(run.experiment),
            number: run.number,
        };
        Some(TaskRun {
            token: RunToken::from_slice(&run.token)?,
            id: Some(id).filter(|id| id.number > 0 && id.experiment.0 > 0)?,
        })
    };
    let runs: Option<Vec<TaskRun>> = encoded.runs.iter().map(run).collect();
    Some(Task {
        index: encoded.task,
        runs: runs?,
    })
}
