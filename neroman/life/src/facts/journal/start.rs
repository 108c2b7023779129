//! One start of a run: its claim, its job, its end, and what keeps that end.

use serde::{Deserialize, Serialize};

use super::super::now::{PresentTime, Tick};
use super::Key;

/// One start of the job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Incarnation {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed: Option<StartClaim>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<i64>,
    /// The same moment on its machine's boot clock; `None` for runs that an
    /// earlier build folded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Tick>,
    /// Its main process, by the number that its machine gave it; none of runs
    /// that an earlier build folded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_started: Option<Box<NotStarted>>,
    /// The first stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Box<Stop>>,
    /// The newest pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Box<StartPause>>,
    /// The newest end of a pause: its request, and the time of all pauses until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed: Option<(u32, u64)>,
    /// The newest remark on what keeps the end from being recorded: the main process is gone, and
    /// the runtime of its container does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_hold: Option<Box<EndHold>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gone: Option<TreeEnd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<Box<Lost>>,
    /// What its scheduler gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub granted: Option<Box<SchedulerGrant>>,
    /// How its scheduler ended its task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_over: Option<Box<TaskOver>>,
    /// How often a launcher took over.
    pub taken_over: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartClaim {
    pub at_ms: i64,
    pub time_limit_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotStarted {
    pub key: Key,
    /// `nero.journal.v1.JobNotStarted.Stage`, perhaps a value that this build
    /// does not know.
    pub stage: i32,
    pub errno: i32,
    /// The program that was to be executed; empty in records of earlier builds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub program: String,
    pub at_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    pub key: Key,
    /// `nero.journal.v1.StopCause`, perhaps a value that this build does not
    /// know.
    pub cause: i32,
    pub rule: u64,
    pub at_ms: i64,
}

/// A pause of a start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartPause {
    pub key: Key,
    /// `n` of `control/pause.<n>`.
    pub request: u32,
    pub at_ms: i64,
    /// The same moment on its machine's boot clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Tick>,
}

/// What keeps the end of a start from being recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndHold {
    pub key: Key,
    /// In words; also a remark.
    pub why: String,
}

impl Incarnation {
    /// Why its end is not recorded, although its main process is gone.
    pub fn end_hold(&self) -> Option<&EndHold> {
        self.end_hold.as_deref().filter(|_| self.exit.is_none())
    }

    /// The pause in force.
    pub fn pause(&self) -> Option<&StartPause> {
        let (ended, _) = self.resumed.unwrap_or_default();
        let is_over = self.exit.is_some() || self.gone.is_some();
        let present = self.paused.as_deref().filter(|_| !is_over);
        present.filter(|pause| pause.request > ended)
    }

    /// Milliseconds for which the job has been paused so far.
    pub fn paused_ms(&self, now: &PresentTime) -> i64 {
        let (_, before_ms) = self.resumed.unwrap_or_default();
        let present = self
            .pause()
            .map(|pause| now.since(pause.at.as_ref(), pause.at_ms));
        let before_ms = i64::try_from(before_ms).unwrap_or(i64::MAX);
        before_ms.saturating_add(present.unwrap_or(0))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    pub key: Key,
    pub code: i32,
    pub signal: i32,
    pub core_dumped: bool,
    pub code_unknown: bool,
    pub user_cpu_us: u64,
    pub system_cpu_us: u64,
    pub peak_rss_bytes: u64,
    pub disk_free_bytes: Option<u64>,
    /// See `nero.journal.v1.JobExited`; 0: none, or unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub oom_kills: u64,
    /// The last line of a failed job on standard error.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr_line: String,
    pub run_ms: u64,
    pub at_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
/// The end of a job's process tree: nothing of it is alive, or only what the run leaves.
pub struct TreeEnd {
    pub key: Key,
    pub strays_killed: u32,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    pub left_alive: u32,
    /// From the end of the main process to the last record.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub strays_ms: u64,
    /// How many go on because the run allows it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub strays_left: u64,
    /// The first processes of those that were ended, or that go on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strays: Vec<Stray>,
    pub at_ms: i64,
}

/// A process that outlived the main one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stray {
    pub pid: i32,
    pub name: String,
}

/// What a scheduler gave a start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SchedulerGrant {
    /// "SLURM".
    pub scheduler: String,
    /// Its number there, with the task of an array.
    pub job: String,
    pub host: String,
    /// Partition or queue; empty: not told.
    pub partition: String,
    /// CPUs; 0: not told.
    pub cpus: f64,
    /// Memory; 0: not told.
    pub memory_bytes: u64,
    /// GPUs of its host, as the scheduler numbers them.
    pub gpus: Vec<String>,
    /// All hosts, its own first; empty: not told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// When the scheduler ends the task; 0: not told.
    #[serde(default)]
    pub until_ms: i64,
}

/// How a scheduler ended the task of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskOver {
    pub key: Key,
    /// `nero.journal.v1.TaskOver.How`, perhaps a value that this build does not know.
    pub how: i32,
    /// "SLURM".
    pub scheduler: String,
    /// Whether neromum had its job cancelled, since an abort had not ended the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub escalated: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lost {
    pub key: Key,
    /// `nero.journal.v1.Lost.Reason`, perhaps a value that this build does not
    /// know.
    pub reason: i32,
    pub detail: String,
    pub at_ms: i64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}
